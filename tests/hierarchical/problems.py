"""Problems that the tests of this folder share, and F as the paper prints it, by loops."""

from __future__ import annotations

import numpy as np
from scipy.linalg import null_space


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


def completed(V: np.ndarray) -> np.ndarray:
    """Return an orthogonal matrix whose first columns are those of V."""
    return np.hstack([V, null_space(V.T)])


def long_path(n: int, d: int, *, seed: int = 0) -> np.ndarray:
    """Return a stationary random walk of unit variance, float32 (n, d), whose correlation is 1/e after 100 frames."""
    X = np.random.default_rng(seed).standard_normal((n, d), dtype=np.float32)
    decay = np.exp(-1 / 100)
    for t in range(1, n):
        X[t] = decay * X[t - 1] + np.sqrt(1 - decay**2) * X[t]
    return X


def dense_path(n: int, d: int, *, length: int, seed: int = 0) -> np.ndarray:
    """Return the same walk of `length` frames at n places, float32 (n, d)."""
    places = np.linspace(0, length - 1, n)
    coarse = long_path(length, d, seed=seed)
    return np.stack([np.interp(places, np.arange(length), column) for column in coarse.T], axis=1).astype(np.float32)


def queries(X: np.ndarray, n: int, *, noise: float = 0.5, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return numbers of frames, and those frames with noise."""
    rng = np.random.default_rng(seed + 1)
    t = rng.integers(0, len(X), n)
    return t, X[t] + np.float32(noise) * rng.standard_normal((n, X.shape[1]), dtype=np.float32)


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
