"""Problems that the tests of this folder share, and F as the paper prints it, by loops."""

from __future__ import annotations

import numpy as np


def frames(
    N: int = 120, d: int = 9, h: int = 5, *, seed: int = 0, spread: float = 2.0
) -> tuple[np.ndarray, np.ndarray]:
    """Return frames around h centroids in general position, and their classes, each with a frame."""
    rng = np.random.default_rng(seed)
    codes = np.concatenate([np.arange(h), rng.integers(h, size=N - h)])
    return spread * rng.standard_normal((h, d))[codes] + rng.standard_normal((N, d)), codes


def rotation(d: int, seed: int = 0) -> np.ndarray:
    """Return a random orthogonal matrix."""
    return np.linalg.qr(np.random.default_rng(seed).standard_normal((d, d)))[0]


def means(X: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Return the class means, one after the other."""
    return np.array([X[codes == k].mean(axis=0) for k in range(codes.max() + 1)])


def printed_F(V: np.ndarray, m: int, mu: np.ndarray, mu_0: np.ndarray, X: np.ndarray, codes: np.ndarray) -> float:
    """Return (1), frame by frame, for V in O(d) and centroids mu."""
    total = 0.0
    for x, k in zip(X, codes, strict=True):
        total += float(np.sum((V[:, :m].T @ x - V[:, :m].T @ mu[k]) ** 2))
        total += float(np.sum((V[:, m:].T @ x - V[:, m:].T @ mu_0) ** 2))
    return total


def scatters(X: np.ndarray, codes: np.ndarray, mu_0: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return S_w and S_0 (7), as sums of outer products."""
    mu = means(X, codes)
    within = sum(np.outer(x - mu[k], x - mu[k]) for x, k in zip(X, codes, strict=True))
    return within, sum(np.outer(x - mu_0, x - mu_0) for x in X)


def origins(X: np.ndarray) -> dict[str, np.ndarray]:
    """Return points mu_0: the mean, the origin, and another one."""
    return {"mean": X.mean(axis=0), "zero": np.zeros(X.shape[1]), "other": np.linspace(-2, 3, X.shape[1])}
