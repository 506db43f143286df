"""Logarithms on the Stiefel manifold, in the canonical and in the embedded metric."""

from __future__ import annotations

import math

import numpy as np

from ..linalg import eigh, polar
from ._geodesics import rotation_logarithm, skew_exponential, stiefel_generator

RADIUS = {"embedded": math.pi, "canonical": math.sqrt(0.8) * math.pi}
"""Lengths below which a geodesic is the unique shortest geodesic.

The injectivity radius of the embedded metric is π (Zimmermann and Stoye, "The injectivity radius of the compact Stiefel
manifold under the Euclidean metric", 2024), that of the canonical metric at least √(4/5) π (Rentmeesters, "Algorithms
for data fitting on some common homogeneous spaces", 2013).
"""

_ALGEBRAIC = 100
"""Maximum number of iterations in the canonical metric; at 0.99 of the radius at most 86 were needed."""
_SHOTS = 300
"""Maximum number of iterations in the embedded metric; at 0.99 of the radius 40 to 100 were needed."""
_MEMORY = 20
_LONGEST = 0.2


def stiefel_logarithm(X: np.ndarray, Y: np.ndarray, metric: str) -> np.ndarray:
    """Return the velocity at X of the shortest geodesic to Y, or NaN if it is longer than ``RADIUS[metric]``.

    The result is also NaN if the iteration does not converge. Longer geodesics are not searched, because they may not
    be the shortest.

    Parameters
    ----------
    X, Y : ndarray, shape (..., n, p)
        Matrices with 1 ≤ p < n; leading axes broadcast. Computations use float64.
    metric : {"embedded", "canonical"}

    Returns
    -------
    ndarray, shape (..., n, p)
        The velocity, in the dtype of X.

    Notes
    -----
    A geodesic stays in the span of [X, Q], where Q is an orthonormal basis of the part of Y orthogonal to X, so that
    all matrices have size 2p. The canonical metric uses the matrix-algebraic method of Zimmermann and Hüper ("Computing
    the Riemannian logarithm on the Stiefel manifold: metrics, methods, and performance", 2022, algorithm 4, with the
    Procrustes start and the Sylvester equation). The embedded metric continues from this result by shooting with
    Anderson's acceleration.
    """
    x, y = np.broadcast_arrays(X.astype(np.float64, copy=False), Y.astype(np.float64, copy=False))
    n, p = x.shape[-2:]
    shape, r = x.shape[:-2], min(p, n - p)
    x, y = x.reshape(-1, n, p), y.reshape(-1, n, p)
    known = np.isfinite(x).all(axis=(-2, -1)) & np.isfinite(y).all(axis=(-2, -1))
    logs = np.full(x.shape, np.nan)
    x, y = x[known], y[known]
    # Y = X M + Q N. The first p columns of the factor of [X, Y − X M] span X, the next r are Q, orthogonal to X even
    # where Y − X M has lost rank
    chord = y - x
    C = x.mT @ chord
    Q = np.linalg.qr(np.concatenate([x, chord - x @ C], axis=-1))[0][..., p : p + r]
    target = polar(np.concatenate([C + np.eye(p), Q.mT @ chord], axis=-2))
    A, B, found = _algebraic(target)
    if metric == "embedded":
        A, B, found = _shooting(target, A, B)
    square = np.sum(A * A, axis=(-2, -1)) * (1 if metric == "embedded" else 0.5) + np.sum(B * B, axis=(-2, -1))
    found &= np.sqrt(square) < RADIUS[metric]
    logs[known] = np.where(found[:, None, None], x @ A + Q @ B, np.nan)
    return logs.reshape(*shape, n, p).astype(X.dtype, copy=False)


def _algebraic(target: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return A and B of the canonical metric, and a mask of convergence; `target` has shape (N, p + r, p)."""
    p, r = target.shape[-1], target.shape[-2] - target.shape[-1]
    # completed to rotations V, of all rotations those whose last r×r block is symmetric, and positive where it can be:
    # then exp of log V = [[A, −Bᵀ], [B, C]] leads to the target, and V is turned until C = 0
    rest = np.linalg.qr(target, mode="complete")[0][..., p:]
    D, _, Rt = np.linalg.svd(rest[..., p:, :])
    reflected = np.linalg.det(np.concatenate([target, rest @ (Rt.mT @ D.mT)], axis=-1)) < 0
    D[..., -1] *= np.where(reflected, -1, 1)[:, None]
    rest = rest @ (Rt.mT @ D.mT)
    found = np.zeros(len(target), bool)
    logs = np.zeros((len(target), p + r, p + r))
    active = np.arange(len(target))
    for _ in range(_ALGEBRAIC):
        V = np.concatenate([target[active], rest[active]], axis=-1)
        logs[active] = L = rotation_logarithm(np.broadcast_to(np.eye(p + r), V.shape), V)
        B, C = L[..., p:, :p], L[..., p:, p:]
        size = np.sqrt(np.sum(C * C, axis=(-2, -1)))
        found[active] = size <= _rounding(p + r)
        going = np.isfinite(size) & ~found[active]
        active, B, C = active[going], B[going], C[going]
        if len(active) == 0:
            break
        # C = S Γ + Γ S with S = BBᵀ/12 − I/2: by the first terms of the series for log, turning by exp(Γ) takes C away
        w, E = eigh(B @ B.mT / 12)
        turn = E @ ((E.mT @ C @ E) / (w[..., :, None] + w[..., None, :] - 1)) @ E.mT
        rest[active] = rest[active] @ skew_exponential(_skew(turn))
    return _skew(logs[..., :p, :p]), logs[..., p:, :p], found


def _shooting(target: np.ndarray, A: np.ndarray, B: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return A and B of the embedded metric from those of the canonical metric, and a mask of convergence.

    Each shot adds the residual at its end, transported back by the rotation to the end. Anderson's acceleration uses
    the combination of the last shots with the smallest residual. Steps are at most 0.2 long, so that the iteration
    stays near its initial geodesic.
    """
    p, r = target.shape[-1], target.shape[-2] - target.shape[-1]
    below = np.tril_indices(p, -1)

    def flat(A: np.ndarray, B: np.ndarray) -> np.ndarray:
        return np.concatenate([math.sqrt(2) * A[:, *below], B.reshape(len(B), r * p)], axis=-1)

    def blocks(z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        A = np.zeros((len(z), p, p))
        A[:, *below] = z[:, : len(below[0])] / math.sqrt(2)
        return A - A.mT, z[:, len(below[0]) :].reshape(len(z), r, p)

    z = flat(np.nan_to_num(A), np.nan_to_num(B))
    memory = min(_MEMORY, z.shape[1])
    ends, found, active = z.copy(), np.zeros(len(z), bool), np.arange(len(z))
    steps: list[np.ndarray] = []  # differences of the last iterates, and of what was missing at their ends
    changes: list[np.ndarray] = []
    last: tuple[np.ndarray, np.ndarray] | None = None
    for _ in range(_SHOTS):
        A, B = blocks(z)
        turn = skew_exponential(stiefel_generator(2 * A, B))
        turn[..., :p] = turn[..., :p] @ skew_exponential(-A)
        missing = turn.mT @ (target[active] - turn[..., :p])
        off = np.sqrt(np.sum(missing * missing, axis=(-2, -1)))
        ends[active] = z
        found[active] = off <= _rounding(p + r)
        going = np.isfinite(off) & ~found[active]
        active = active[going]
        if len(active) == 0:
            break
        miss = flat(_skew(missing[:, :p]), missing[:, p:])
        if last is not None:
            steps.append(z - last[0])
            changes.append(miss - last[1])
        z, miss = z[going], miss[going]
        steps, changes = ([a[going] for a in many[-memory:]] for many in (steps, changes))
        last, step = (z, miss), miss
        if steps:
            dZ, dF = np.stack(steps, axis=-1), np.stack(changes, axis=-1)
            step = miss - ((dZ + dF) @ (np.linalg.pinv(dF, rcond=1e-10) @ miss[..., None]))[..., 0]
        length = np.sqrt(np.sum(step * step, axis=-1, keepdims=True))
        z = z + step * np.minimum(1, _LONGEST / np.maximum(length, 1e-300))
    return *blocks(ends), found


def _skew(M: np.ndarray) -> np.ndarray:
    return 0.5 * (M - M.mT)


def _rounding(size: int) -> float:
    """Return the size of a residual of matrices of this size that is due to rounding."""
    return 2e-14 * math.sqrt(size)
