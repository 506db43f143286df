"""K = 1: evaluations of the EM map until the closed form, and until factor analysis, from random starts."""

from typing import Any

import numpy as np

import manifoldseq as ms
from manifoldseq_mpcca import Mixture

from .._report import Report

N, SIZES, D_LATENT, STARTS = 1000, (10, 8), 3, 20


def run(report: Report) -> None:
    """Measure."""
    rng = np.random.default_rng(0)
    z = rng.standard_normal((N, D_LATENT))
    views = [z @ rng.standard_normal((D_LATENT, n)) + rng.standard_normal((N, n)) for n in SIZES]
    whole = np.hstack(views)
    report.title(f"K = 1, full noise, from {STARTS} random starts: N={N}, views of {SIZES}, d={D_LATENT}")
    best = _closed_form(views)
    spent = {}
    for name, update, accelerated in (("EM as printed", "conditional", False), ("EM, L-BFGS", "expanded", True)):
        problem, stop = _problem(views, "full", update), _Reached(1e-8 - best) | ms.MaxEvaluations(1000)
        runs = [_run(problem, _start(problem, seed), accelerated, stop) for seed in range(STARTS)]
        spent[name] = [run.nfev for run in runs]
    report.row(
        "EM-map evaluations until 1e-8 per row below the closed form, printed EM, median",
        float(np.median(spent["EM as printed"])),
        ".0f",
    )
    report.row("the same, accelerated, median", float(np.median(spent["EM, L-BFGS"])), ".0f")
    report.row("the same, accelerated, largest", float(np.max(spent["EM, L-BFGS"])), ".0f", most=75)

    report.title(f"K = 1, diagonal noise, from {STARTS} random starts, against scikit-learn's FactorAnalysis")
    from sklearn.decomposition import FactorAnalysis

    peer = FactorAnalysis(D_LATENT, tol=1e-12, max_iter=20_000).fit(whole).score(whole)
    problem = _problem(views, "diag", "expanded")
    for noise in ("half the variances", "uniform(0.02, 1.5)"):
        short = []
        for seed in range(STARTS):
            first = _start(problem, seed)
            if noise.startswith("uniform"):
                rng = np.random.default_rng(seed)
                parts = [rng.uniform(0.02, 1.5, part.shape) for part in first.noise]
                first = Mixture(first.weights, first.means, first.loadings, parts)
            short.append(peer + _run(problem, first, True, ms.MaxIterations(100)).fun)
        report.row(
            f"noise from {noise}: nats per row short after 100 iterations, largest", max(short), ".1e", most=1e-6
        )


def _problem(views: list, covariance_type: str, update: str) -> ms.Problem:
    sizes = {"n_components": 1, "n_latent": D_LATENT, "covariance_type": covariance_type}
    return ms.get_model("mpcca").problem(views, **sizes, noise_floor=1e-6, update=update)


def _start(problem: ms.Problem, seed: int) -> Mixture:
    return problem.data.model.mixture(problem.initializers["random"](problem, np.random.default_rng(seed)))


def _run(problem: ms.Problem, first: Mixture, accelerated: bool, stop: ms.StoppingRule) -> ms.Result:
    point = first.point
    return ms.minimize(problem, point, solver="em", options={"accelerated": accelerated}, stop=stop)


class _Reached(ms.StoppingRule):
    def __init__(self, target: float) -> None:
        self.target = target

    def check(self, so_far: Any) -> ms.Status | None:
        """Return CONVERGED at the target."""
        return ms.Status.CONVERGED if so_far.current.fun <= self.target else None


def _closed_form(views: list) -> float:
    """Return the likelihood per row of Bach and Jordan's maximum."""
    Q = [np.linalg.qr(view - view.mean(axis=0))[0] for view in views]
    p = np.linalg.svd(Q[0].T @ Q[1])[1][:D_LATENT]
    determinants = sum(np.linalg.slogdet(np.cov(view.T, bias=True))[1] for view in views)
    return -0.5 * (sum(SIZES) * (np.log(2 * np.pi) + 1) + determinants + np.log1p(-(p**2)).sum())
