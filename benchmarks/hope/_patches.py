"""movMF-HOPE compared with PCA-movMF on patches of MNIST: held-out likelihood with the same budget of sweeps."""

import time

import numpy as np
from scipy.special import logsumexp

from manifoldseq_hope import HOPE, PCAMovMF

from .._report import Report
from ._data import mnist_images, patches

N, HELD, K, M, PASSES = 400_000, 100_000, 400, 20, 20


def run(report: Report) -> None:
    """Measure."""
    report.title(f"{N} patches of MNIST, K={K}, M={M}, sigma^2 = 0.1, {PASSES} passes; {HELD} others held out")
    if mnist_images() is None:
        report.note("skipped: MNIST is not there; set MANIFOLDSEQ_MNIST to the folder of its files")
        report.skipped.append("patches")
        return
    X, held = patches(N)[0], patches(HELD, seed=1)[0]
    settings = {"solver": "online-em", "max_iter": PASSES, "tol": 0.0, "noise_variance": 0.1, "random_state": 0}
    models = {
        "PCA-movMF": PCAMovMF(K, n_latent=M, **settings),
        "HOPE, PCA start": HOPE(K, n_latent=M, **settings),
        "HOPE, random start": HOPE(K, n_latent=M, init="random", **settings),
    }
    found = {}
    for name, model in models.items():
        start = time.process_time()
        model.fit(X)
        seconds = time.process_time() - start
        U = model.components_
        found[name] = _likelihood(model, held)
        report.row(f"{name}: held-out likelihood (11), all constants", found[name], ".2f")
        report.row(f"{name}: held-out score, a density on the sphere of 36 columns", model.score(held), ".2f")
        report.note(
            f"{seconds:.0f} CPU seconds, residual energy {model.residual_share_:.3f}, {model.n_capped_} capped, "
            f"{model.n_empty_} empty, max |U U' - I| {np.abs(U @ U.T - np.eye(M)).max():.1e}"
        )
    best = max(value for name, value in found.items() if name != "PCA-movMF")
    report.row("HOPE less PCA-movMF, in nats", best - found["PCA-movMF"], ".2f", least=1)


def _likelihood(model: HOPE | PCAMovMF, X: np.ndarray) -> float:
    """Return the mean of (11), which fits maximize: of the direction of z, and of the residual with sigma^2 = 0.1."""
    parts = np.array_split(X, 20)
    directions = sum(float(logsumexp(model.log_contributions(part), axis=1).sum()) for part in parts) / len(X)
    return directions - 0.5 * ((36 - M) * np.log(0.2 * np.pi) + float(model.residual_energy(X).mean()) / 0.1)
