"""Identification under output noise: subspaces of past and future (N4SID), and expectation maximization, in batches."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..systems._kalman import compress, kalman_filter, smooth
from ..systems._record import Systems
from ._missing import finite_systems, sweep
from ._subspace_method import noise_factor, subspace

Array = NDArray[Any]

_BLOCK_ROWS = 5
_COVARIANCE_SWEEPS = 10
_EM_SWEEPS = 30
_RANK = 1e-8
"""States below this share of the strongest are not there: the sequence spans fewer than n dimensions."""


def block_rows(T: int, m: int, n: int, delay: int) -> tuple[int, int] | None:
    """Return the block rows i and the directions k of the outputs for T steps; None if T is too short.

    At best i = 5 and k = m, with at least twice as many columns as rows in the past; shorter sequences have fewer
    directions, then fewer block rows, then columns enough to determine the past.
    """
    for enough in (2, 1):
        for i in range(_BLOCK_ROWS, 1, -1):
            k = min(m, T, (T - 2 * i - delay + 2) // (enough * i))
            if k >= n:
                return i, k
    return None


def n4sid(Y: Array, n: int, center: bool, delay: int) -> tuple[Systems, Array]:
    """Identify from what the past says of the future, in which noise of the outputs does not take part.

    Van Overschee and De Moor (1994); A by shift invariance of the observability matrix (Verhaegen 1994), covariances
    of the noises by ten sweeps of expectation maximization in which A and C are held.

    Parameters
    ----------
    Y : ndarray of shape (N, m, T)
        Outputs of `delay` stacked steps; long enough for `block_rows`.
    n : int
    center : bool
    delay : int
        Past and future lie this far apart, so that no noise is in both.

    Returns
    -------
    systems : Systems
        C orthonormal; A as estimated, stable or not.
    found : ndarray of bool of shape (N,)
        False for a sequence that spans fewer than n dimensions; its system means nothing.
    """
    sizes = block_rows(Y.shape[2], Y.shape[1], n, delay)
    assert sizes is not None
    i, k = sizes
    parts = subspace(Y, center, k)
    Z = parts.s[:, :k, None] * parts.Vt[:, :k]
    # Hankel matrices of past and future, (N, k i, columns)
    columns = Z.shape[2] - 2 * i - delay + 2
    past = np.concatenate([Z[:, :, j : j + columns] for j in range(i)], axis=1)
    first = i + delay - 1
    future = np.concatenate([Z[:, :, first + j : first + j + columns] for j in range(i)], axis=1)
    # the future projected on the rows of the past: F V V' = G X, with observability G of i block rows
    _, s, Vt = np.linalg.svd(past, full_matrices=False)
    Vt = Vt * (s > 1e-10 * s[:, :1])[:, :, None]
    U, s, Wt = np.linalg.svd(future @ Vt.swapaxes(1, 2), full_matrices=False)
    found = s[:, n - 1] > _RANK * s[:, 0]
    G, X = U[:, :, :n], (s[:, :n, None] * Wt[:, :n]) @ Vt
    A = np.linalg.pinv(G[:, :-k], rtol=1e-12) @ G[:, k:]
    # in the basis in which C is orthonormal: G's first block is Q R, so C = U Q and the states are R X
    Q, R = np.linalg.qr(G[:, :k])
    diagonal = np.abs(np.diagonal(R, axis1=1, axis2=2))
    found &= diagonal.min(axis=1) > _RANK * np.maximum(diagonal.max(axis=1), 1e-300)
    R = np.where(found[:, None, None], R, np.eye(n))
    A, X, C = _changed(A, R), R @ X, parts.U[:, :, :k] @ Q
    signs = _signs(C)
    A, X, C = signs.swapaxes(1, 2) * A * signs, signs.swapaxes(1, 2) * X, C * signs
    seen = Y if parts.mean is None else Y - parts.mean[:, :, None]
    variance = np.mean((seen[:, :, first : first + columns] - C @ X) ** 2, axis=2)
    least = np.maximum(1e-10 * np.mean(seen**2, axis=(1, 2)), (np.finfo(float).eps * parts.peak) ** 2)
    Omega = np.maximum(variance, np.maximum(least, 1e-100)[:, None])
    x1 = (C.swapaxes(1, 2) @ seen[:, :, :1])[:, :, 0]
    systems = Systems.trusted({"A": A, "C": C, "x1": x1, "B": noise_factor(A, X), "mean": parts.mean, "Omega": Omega})
    return _improved(systems, Y.swapaxes(1, 2), _COVARIANCE_SWEEPS, held=True), found


def maximized(systems: Systems, Y: Array) -> Systems:
    """Return systems after 30 sweeps of expectation maximization on outputs Y (N, T, m), NaN where missing.

    All of A, B, C, x1, the mean and one variance of each output are learned; C is orthonormal again at the end.
    """
    systems = _improved(systems, Y, _EM_SWEEPS, held=False)
    Q, R = np.linalg.qr(systems.C)
    diagonal = np.abs(np.diagonal(R, axis1=1, axis2=2))
    # an output matrix that lost its rank has no such basis: the caller keeps the start
    lost = ~(diagonal.min(axis=1) > _RANK * diagonal.max(axis=1))
    R = np.where(lost[:, None, None], np.nan, R)
    signs = _signs(Q)
    R, C = signs.swapaxes(1, 2) * R, Q * signs
    assert systems.B is not None and systems.x1 is not None
    w, W = np.linalg.eigh(np.nan_to_num(R @ systems.B @ systems.B.swapaxes(1, 2) @ R.swapaxes(1, 2)))
    B = (W * np.sqrt(np.maximum(w, 0))[:, None]) @ W.swapaxes(1, 2)
    x1 = (R @ systems.x1[:, :, None])[:, :, 0]
    return Systems.trusted(
        {"A": _changed(systems.A, R), "C": C, "x1": x1, "B": B, "mean": systems.mean, "Omega": systems.Omega}
    )


def smoothed_states(systems: Systems, Y: Array) -> Array:
    """Return the means (N, n, T) of the states given all outputs Y (N, T, m)."""
    return smooth(systems, kalman_filter(systems, compress(systems, Y)))[0].swapaxes(1, 2)


def _improved(systems: Systems, Y: Array, sweeps: int, *, held: bool) -> Systems:
    """Sweep; a system whose next parameters or likelihood are not finite stays as it was."""
    for _ in range(sweeps):
        better, filtered = sweep(systems, Y, per_output=True, held=held)
        systems = chosen(finite_systems(better) & np.isfinite(filtered.log_likelihood), better, systems)
    return systems


def _changed(A: Array, R: Array) -> Array:
    """Return R A R^-1."""
    return np.linalg.solve(R.swapaxes(1, 2), (R @ A).swapaxes(1, 2)).swapaxes(1, 2)


def _signs(C: Array) -> Array:
    """Return the signs (N, 1, n) that make the largest entry of each column of C positive."""
    largest = np.take_along_axis(C, np.abs(C).argmax(axis=1, keepdims=True), axis=1)
    return np.where(largest < 0, -1.0, 1.0)


def chosen(first: NDArray[np.bool_], one: Systems, other: Systems) -> Systems:
    """Return the systems of `one` where `first`, else those of `other`."""
    made: dict[str, Any] = {}
    for name in ("A", "C", "x1", "B", "mean", "Omega"):
        a, b = getattr(one, name), getattr(other, name)
        made[name] = None if a is None else np.where(first.reshape(-1, *(1,) * (a.ndim - 1)), a, b)
    return Systems.trusted(made)
