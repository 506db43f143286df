"""GMM-HOPE as a density: held-out ln p(x) of digits, compared with PPCA, factor analysis and mixtures of PPCA."""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import logsumexp
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA, FactorAnalysis

from manifoldseq_hope import HOPE

from .._report import Report

SEEDS = 5
BUDGET = 6000
"""Parameters that a model may have; what it does with them is chosen on validation rows."""

Score = Callable[[np.ndarray], np.ndarray]


def run(report: Report) -> None:
    """Measure."""
    images = load_digits().data
    N, D = images.shape
    report.title(f"held-out ln p(x) of dequantized digits ({N} x {D}), at most {BUDGET} parameters, {SEEDS} seeds")
    report.note(
        "of each kind the sizes and variance floors with the best likelihood of validation rows (1000 / 397 / 400 rows)"
    )
    scores: dict[str, list[float]] = {}
    for seed in range(SEEDS):
        rng = np.random.default_rng(seed)
        X = ((images + rng.random(images.shape)) / 17)[rng.permutation(N)]
        train, valid, test = X[:1000], X[1000:1397], X[1397:]
        for name, candidates in _kinds(D, seed).items():
            fitted = [(float(score(valid).mean()), label, score) for label, score in candidates(train)]
            _, label, score = max(fitted, key=lambda entry: entry[0])
            scores.setdefault(name, []).append(float(score(test).mean()))
            report.note(f"seed {seed}: {name}, {label}: {scores[name][-1]:.2f}")
    for name, values in scores.items():
        error = np.std(values, ddof=1) / np.sqrt(SEEDS)
        report.row(f"{name}: mean held-out ln p(x), standard error {error:.2f}", float(np.mean(values)), ".2f")
    ours = np.array(scores["GMM-HOPE"])
    for name, values in scores.items():
        if name != "GMM-HOPE":
            report.row(f"GMM-HOPE less {name}, worst seed", float(np.min(ours - values)), ".2f", least=0)


def _kinds(D: int, seed: int) -> dict[str, Callable[[np.ndarray], Any]]:
    return {
        "GMM-HOPE": lambda X: _hope(X, D, seed),
        "PPCA": lambda X: _ppca(X, D),
        "factor analysis": lambda X: _factors(X, D),
        "mixture of PPCA": lambda X: _mixture(X, D, seed),
    }


def _hope(X: np.ndarray, D: int, seed: int) -> Any:
    for M in (32, 48, 56):  # below D: a projection
        frame = D + M * D - M * (M + 1) // 2 + 1
        kinds = {"gmm": 2 * M, "gmm-full": M + M * (M + 1) // 2}
        for family, each in kinds.items():
            largest = (BUDGET - frame + 1) // (each + 1)
            for K in sorted({k for k in (5, 10, 20, 40) if k <= largest}):
                for floor in (2e-3, 1e-2):
                    settings = {"family": family, "variance_floor": floor, "solver": "em", "max_iter": 60, "tol": 1e-4}
                    model = HOPE(K, n_latent=M, random_state=seed, **settings).fit(X)
                    yield f"{family}, M={M}, K={K}, floor {floor:g}", model.score_samples


def _ppca(X: np.ndarray, D: int) -> Any:
    for q in range(4, D, 4):
        if D * q - q * (q - 1) // 2 + 1 + D <= BUDGET:
            yield f"q={q}", PCA(q).fit(X).score_samples


def _factors(X: np.ndarray, D: int) -> Any:
    for q in range(16, D, 9):
        if D * q - q * (q - 1) // 2 + 2 * D <= BUDGET:
            yield f"q={q}", FactorAnalysis(q, max_iter=300, random_state=0).fit(X).score_samples


def _mixture(X: np.ndarray, D: int, seed: int) -> Any:
    for K in (1, 2, 3, 5):
        for q in (8, 16, 24, 32, 40, 48, 56):
            if K * (D * q - q * (q - 1) // 2 + 1 + D + 1) - 1 <= BUDGET:
                for floor in (2e-3, 1e-2):
                    yield f"K={K}, q={q}, floor {floor:g}", mixture_of_ppca(X, K, q, floor, seed)


def mixture_of_ppca(X: np.ndarray, K: int, q: int, floor: float, seed: int, iterations: int = 60) -> Score:
    """Return the log-density of a mixture of PPCA by the EM of Tipping and Bishop (1999), started at k-means.

    Its M-step is the closed form by eigenvectors of the weighted covariances; the variance floor is a share of the
    mean variance of a column.
    """
    N, D = X.shape
    least = floor * X.var(axis=0).mean()
    gamma = np.eye(K)[KMeans(K, n_init=3, random_state=seed).fit(X).labels_]
    for _ in range(iterations):
        counts = gamma.sum(axis=0) + 1e-9
        weights, parts = counts / N, []
        for k in range(K):
            mean = gamma[:, k] @ X / counts[k]
            rows = (X - mean) * np.sqrt(gamma[:, k] / counts[k])[:, None]
            values, vectors = np.linalg.eigh(rows.T @ rows)
            noise = max(float(values[:-q].mean()), least)
            parts.append((mean, vectors[:, -q:], np.maximum(values[-q:], noise), noise))

        def joint(Y: np.ndarray, weights=weights, parts=parts) -> np.ndarray:
            found = np.empty((len(Y), K))
            for k, (mean, W, values, noise) in enumerate(parts):
                apart = Y - mean
                z = apart @ W
                square = (np.sum(apart**2, axis=1) - np.sum(z**2, axis=1)) / noise + np.sum(z**2 / values, axis=1)
                log_det = np.log(values).sum() + (D - q) * np.log(noise) + D * np.log(2 * np.pi)
                found[:, k] = np.log(weights[k]) - 0.5 * (square + log_det)
            return found

        phi = joint(X)
        gamma = np.exp(phi - logsumexp(phi, axis=1, keepdims=True))
    return lambda Y: logsumexp(joint(Y), axis=1)
