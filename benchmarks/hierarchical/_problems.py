"""Frames around random centroids, and Sigma as the paper prints it."""

import numpy as np

Array = np.ndarray


def frames(N: int, d: int, h: int, *, seed: int = 0, spread: float = 1.0) -> tuple[Array, Array]:
    """Return standard normal frames around h normal centroids of standard deviation `spread`, and their classes."""
    rng = np.random.default_rng(seed)
    codes = np.concatenate([np.arange(h), rng.integers(h, size=N - h)])
    return rng.standard_normal((N, d)) + spread * rng.standard_normal((h, d))[codes], codes


def printed_sigma(X: Array, codes: Array, h: int) -> tuple[Array, Array]:
    """Return Sigma (8) and S_0 (7), d×d, with mu_0 the mean."""
    indicator = (codes == np.arange(h)[:, None]).astype(X.dtype)
    centroids = indicator @ X / indicator.sum(axis=1, keepdims=True)
    within, about = X - centroids[codes], X - X.mean(axis=0)
    S_0 = about.T @ about
    return within.T @ within - S_0, S_0
