"""Bessel functions against mpmath, gradients against differences off the manifold, full-batch EM over twenty seeds."""

import numpy as np

from manifoldseq_hope import HOPE, bessel_ratio, gaussian, log_bessel, von_mises_fisher
from manifoldseq_hope.mixtures._expectation import Expectation
from manifoldseq_hope.mixtures._parameters import Model

from .._report import Report


def run(report: Report) -> None:
    """Measure."""
    _bessel(report)
    _gradients(report)
    _monotone(report)


def _bessel(report: Report) -> None:
    report.title("ln I_(M/2-1) and A_M against mpmath, 40 digits; M from 2 to 802, kappa from 1e-3 to 1e4")
    import mpmath

    worst = {"ln I": 0.0, "A": 0.0}
    with mpmath.workdps(40):
        for M in (2, 3, 4, 9, 20, 36, 64, 100, 200, 400, 802):
            for kappa in np.geomspace(1e-3, 1e4, 29):
                below = mpmath.besseli(mpmath.mpf(M) / 2 - 1, mpmath.mpf(float(kappa)))
                above, value = mpmath.besseli(mpmath.mpf(M) / 2, mpmath.mpf(float(kappa))), mpmath.log(below)
                error = abs(float(log_bessel(M / 2 - 1, kappa) - value)) / max(1.0, abs(float(value)))
                worst["ln I"] = max(worst["ln I"], error)
                worst["A"] = max(worst["A"], abs(float(bessel_ratio(M, kappa) / (above / below) - 1)))
    for name, error in worst.items():
        report.row(f"{name}: largest error, relative (ln I below 1: absolute)", error, ".1e", most=1e-13)


def _gradients(report: Report) -> None:
    report.title("derivatives of L1 by U, M=20, D=36, K=50, 2000 rows, U off the manifold: differences, h = 1e-6")
    rng = np.random.default_rng(0)
    X, U = rng.standard_normal((2000, 36)), 0.3 * rng.standard_normal((20, 36))
    weights, mu = rng.dirichlet(np.ones(50)), 5 * rng.standard_normal((50, 20))
    spread = rng.uniform(0.5, 2, (50, 20))
    cases = {
        "movMF": ((mu,), von_mises_fisher(), True),
        "movMF, z not normalized": ((mu,), von_mises_fisher(), False),
        "Gaussian, diagonal": ((mu / 5, spread), gaussian(), False),
    }
    for name, (parameters, family, normalize) in cases.items():

        def value(U: np.ndarray, parameters=parameters, family=family, normalize=normalize) -> tuple[float, np.ndarray]:
            found = Expectation(Model(U, weights, parameters, family, normalize), X.dtype).statistics(X)
            assert found.slope is not None
            return found.log_likelihood, found.slope

        slope, worst = value(U)[1], 0.0
        for _ in range(10):
            move = rng.standard_normal(U.shape)
            along = (value(U + 1e-6 * move)[0] - value(U - 1e-6 * move)[0]) / 2e-6
            worst = max(worst, abs(along - float(np.sum(slope * move))) / float(np.linalg.norm(slope)))
        report.row(f"{name}: largest relative error of 10 directions", worst, ".1e", most=1e-6)


def _monotone(report: Report) -> None:
    report.title("full-batch EM with a backtracked polar step, 20 seeds x 40 iterations, 600 rows, D=10, M=4, K=6")
    for family in ("movmf", "gmm", "gmm-full"):
        worst = -np.inf
        for seed in range(20):
            rng = np.random.default_rng(seed)
            X = np.repeat(rng.standard_normal((6, 10)), 100, axis=0) + 0.5 * rng.standard_normal((600, 10))
            init = ("pca", "random")[seed % 2]
            model = HOPE(
                6, n_latent=4, family=family, init=init, solver="em", max_iter=40, tol=0.0, random_state=seed
            ).fit(X)
            worst = max(worst, float(np.diff(model.history_["fun"]).max()))
        report.row(f"{family}: largest rise of minus the likelihood", max(worst, 0.0), ".1e", most=1e-12)
