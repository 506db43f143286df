"""The dimension of a projection chosen by held-out `score`, on generated rows of any unit."""

import itertools

import numpy as np

from manifoldseq_hope import HOPE

from .._report import Report

D, K, N = 24, 6, 1500
CANDIDATES = (1, 2, 3, 4, 6, 7, 8, 9, 12, 18)


def run(report: Report) -> None:
    """Measure."""
    report.title(
        f"n_latent chosen of {CANDIDATES} by score on {N} held-out rows, {D} columns, {K} components, true M 3 or 8"
    )
    cells = list(itertools.product(("Gaussian", "directional"), (3, 8), (0.3, 0.7, 1.0)))
    for prepare, scales in ((None, (0.02, 1.0, 50.0)), ("unit", (1.0, 1.0, 1.0))):
        right = before = 0
        for (kind, M, noise), (number, scale) in itertools.product(cells, enumerate(scales)):
            X = scale * generated(kind, M, noise, np.random.default_rng(number))
            density, likelihood = [], []
            for n_latent in CANDIDATES:
                model = HOPE(K, n_latent=n_latent, prepare=prepare, random_state=0).fit(X[:N])
                density.append(model.score(X[N:]))
                likelihood.append(model.log_likelihood_)
            right += CANDIDATES[int(np.argmax(density))] == M
            before += CANDIDATES[int(np.argmax(likelihood))] == M
        where = "unit rows, three seeds" if prepare else "prepare=None, scales 0.02, 1 and 50"
        report.row(f"{where}: right of 36 by score", right, ".0f", least=33)
        report.row(f"{where}: right of 36 by log_likelihood_", before, ".0f")


def generated(kind: str, M: int, noise: float, rng: np.random.Generator) -> np.ndarray:
    """Return 2 N rows about K centres in M of D dimensions, with noise of this deviation in all of them."""
    U = np.linalg.qr(rng.standard_normal((D, M)))[0].T
    centres = rng.standard_normal((K, M))
    centres = (centres / np.linalg.norm(centres, axis=1, keepdims=True))[rng.integers(K, size=2 * N)]
    if kind == "Gaussian":
        z = 4 * centres + 0.7 * rng.standard_normal(centres.shape)
    else:  # directions about centres, lengths of a gamma law
        z = centres + 0.25 * rng.standard_normal(centres.shape)
        z *= rng.gamma(9, 0.5, size=(2 * N, 1)) / np.linalg.norm(z, axis=1, keepdims=True)
    return z @ U + noise * rng.standard_normal((2 * N, D))
