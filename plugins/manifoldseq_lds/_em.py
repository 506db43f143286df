"""Expectation maximization of model (1), for sequences of one length with missing values (Shumway and Stoffer 1982)."""

import numpy as np
from numpy.typing import NDArray

from ._kalman import Filtered, compress, kalman_filter, smooth
from ._systems import Systems

Array = NDArray[np.float64]

_RIDGE = 1e-8
"""Added to normal equations, in units of their mean diagonal: an output may be seen too seldom for its unknowns."""


def sweep(systems: Systems, Y: Array) -> tuple[Systems, Filtered]:
    """Return systems that no sequence finds less likely, and the filter under those given.

    Parameters
    ----------
    systems : Systems
        Any C, with a mean or without; one variance of the output noise per system.
    Y : ndarray of shape (N, T, m)
        NaN marks what is missing.

    Returns
    -------
    systems : Systems
        All of A, B, C, x1, mean and Omega updated; C need not be orthonormal.
    filtered : Filtered
        Its log-likelihood is that of the systems given.
    """
    filtered = kalman_filter(systems, compress(systems, Y))
    x, P, lagged = smooth(systems, filtered)
    second = P + x[:, :, :, None] * x[:, :, None]  # E[x x']
    across = (lagged + x[:, 1:, :, None] * x[:, :-1, None]).sum(axis=1)
    before, after = second[:, :-1].sum(axis=1), second[:, 1:].sum(axis=1)
    A = _solved(before, across.swapaxes(1, 2)).swapaxes(1, 2)
    noise = P[:, 0] + after - A @ across.swapaxes(1, 2) - across @ A.swapaxes(1, 2) + A @ before @ A.swapaxes(1, 2)
    w, W = np.linalg.eigh(noise / Y.shape[1])
    B = (W * np.sqrt(np.maximum(w, 0))[:, None]) @ W.swapaxes(1, 2)
    C, mean, variance = _outputs(x, second, Y, systems.mean is not None)
    Omega = np.repeat(variance[:, None], Y.shape[2], axis=1)
    return Systems.trusted({"A": A, "C": C, "x1": x[:, 0].copy(), "B": B, "mean": mean, "Omega": Omega}), filtered


def _outputs(x: Array, second: Array, Y: Array, center: bool) -> tuple[Array, Array | None, Array]:
    """Regress each output on the states of the steps in which it is seen; return C, the mean and the variance left."""
    N, T, n = x.shape
    if center:  # the mean is the coefficient of a state that is always one
        grown = np.ones((N, T, n + 1, n + 1))
        grown[:, :, :n, :n], grown[:, :, :n, n], grown[:, :, n, :n] = second, x, x
        x, second = np.concatenate([x, np.ones((N, T, 1))], axis=2), grown
    k = x.shape[2]
    seen = (~np.isnan(Y)).astype(float)
    Y = np.where(seen > 0, Y, 0.0)
    gram = (seen.swapaxes(1, 2) @ second.reshape(N, T, k * k)).reshape(N, -1, k, k)
    right = Y.swapaxes(1, 2) @ x
    C = _solved(gram, right[..., None])[..., 0]
    squares = (Y * Y).sum(axis=1) - 2 * (C * right).sum(axis=2) + np.einsum("imk,imkl,iml->im", C, gram, C)
    variance = squares.sum(axis=1) / seen.sum(axis=(1, 2))
    variance = np.maximum(variance, 1e-10 * (Y * Y).sum(axis=(1, 2)) / seen.sum(axis=(1, 2)) + 1e-100)
    if not center:
        return C, None, variance
    return np.ascontiguousarray(C[:, :, :n]), np.ascontiguousarray(C[:, :, n]), variance


def _solved(gram: Array, right: Array) -> Array:
    ridge = _RIDGE * np.trace(gram, axis1=-2, axis2=-1)[..., None, None] / gram.shape[-1] + 1e-300
    return np.linalg.solve(gram + ridge * np.eye(gram.shape[-1]), right)
