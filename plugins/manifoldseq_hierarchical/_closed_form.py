"""The optimal subspace of class means without a d×d matrix, and codes in it.

If classes partition the frames, Sigma (8) is ``-B' B`` with the weighted centroids B, h×d, whose rows are
``sqrt(n_k) (mu_k - mu_0)``: the optimal V (9)-(12) are right singular vectors of B, the optimal m (13) is its rank.
"""

from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr
from scipy.linalg.lapack import get_lapack_funcs

from manifoldseq.estimators import quoted

from ._moments import Array, centred, frame_blocks, not_finite

_WELL = 1e-3
"""The Gram matrix, which squares singular values, is not used for values below this fraction of the largest."""


_FARTHEST = 1e100
"""Upper bound of coordinates: the squares of many larger coordinates may overflow."""


def check_components(n_components: Any, d: int) -> int | None:
    """Validate a number of directions from 1 to d, or None for the optimal number."""
    if n_components is None:
        return None
    if not isinstance(n_components, Integral) or isinstance(n_components, bool) or not 1 <= int(n_components) <= d:
        raise ValueError(
            f"n_components={quoted(n_components)} is not valid: pass None or a whole number from 1 to {d}, the number "
            "of features"
        )
    return int(n_components)


def resolved_origin(center: Any, mean: Array) -> Array:
    """Return the point mu_0 of a setting `center`: True for the mean, False for 0, or d numbers."""
    if isinstance(center, bool | np.bool_):
        return mean if center else np.zeros_like(mean)
    try:
        point = np.asarray(center, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"center={quoted(center)} is not known: choose True, False or {len(mean)} numbers") from None
    if point.shape not in ((), mean.shape) or not (np.abs(point) < _FARTHEST).all():
        raise ValueError(
            f"center must be True, False or {len(mean)} finite numbers below {_FARTHEST:.0e}, one per feature of X"
        )
    return np.broadcast_to(point, mean.shape).copy()


def weighted_centroids(centroids: Array, counts: NDArray[np.int64], origin: Array) -> Array:
    """Return ``B``, shape (h, d), with rows ``sqrt(n_k) (mu_k - mu_0)``."""
    return np.sqrt(counts)[:, None] * (centroids - origin)


def leading_directions(B: Array, tolerance: float, n_components: int | None = None) -> tuple[Array, Array]:
    """Return right singular vectors of `B` and its singular values.

    Parameters
    ----------
    B : ndarray of shape (h, d)
    tolerance : float
        Singular values up to this value are treated as rounding errors.
    n_components : int, optional
        The number of directions, at most d; by default the rank. Directions beyond the rank are arbitrary.

    Returns
    -------
    V : ndarray of shape (d, m)
        Orthonormal, in descending order of the singular values; the largest entry of each column is positive.
    s : ndarray of shape (min(h, d),)

    Notes
    -----
    The h×h Gram matrix is used if 2h ≤ d and B is well conditioned on its range, and otherwise the thin singular value
    decomposition.
    """
    h, d = B.shape
    # A trick of speed: by the singular value decomposition alone `HierarchicalSequenceEncoder.fit` takes 1.24 times as
    # long (`python -m benchmarks.tricks gram`).
    found = _by_gram(B, tolerance) if 2 * h <= d else None
    if found is None:
        _, s, Vt = np.linalg.svd(B, full_matrices=False)
        found = Vt.T, s
    V, s = found
    rank = min(int((s > tolerance).sum()), V.shape[1])
    m = rank if n_components is None else n_components
    V = V[:, :m] if m <= V.shape[1] else completed(V, m)
    return signed(V), s


def _by_gram(B: Array, tolerance: float) -> tuple[Array, Array] | None:
    """Return the directions from the Gram matrix, or None if directions that it does not resolve exceed rounding."""
    # B B' = W diag(s²) W', (h, h): V = B' W / s, for singular values that squaring has not lost
    values, W = np.linalg.eigh(B @ B.T)
    values, W = values[::-1], W[:, ::-1]
    r = int((values > _WELL**2 * values[0]).sum())
    if np.linalg.norm(W[:, r:].T @ B) > tolerance:
        return None
    V = orthonormalized(B.T @ (W[:, :r] / np.sqrt(values[:r])))
    s = np.zeros(len(B))
    s[:r] = np.linalg.norm(B @ V, axis=0)
    return V, s


def orthonormalized(V: Array) -> Array:
    """Return the polar factor of nearly orthonormal columns by one Newton step (error quadratic in the defect)."""
    return V @ (1.5 * np.eye(V.shape[1]) - 0.5 * (V.T @ V))


def signed(V: Array) -> Array:
    """Return `V` with the largest entry of each column positive, C-contiguous."""
    if not V.size:
        return np.ascontiguousarray(V)
    largest = V[np.abs(V).argmax(axis=0), np.arange(V.shape[1])]
    return np.ascontiguousarray(V * np.where(largest < 0, -1.0, 1.0))


def completed(V: Array, n: int) -> Array:
    """Return orthonormal columns `V`, shape (d, m), with more appended, `n` in all, by Householder reflections."""
    d, m = V.shape
    if n <= m:
        return V[:, :n]
    if m == 0:
        return np.eye(d, n)
    # V = Q [R; 0] by m reflections: columns m … n - 1 of Q are orthonormal to it, made without the d×d matrix Q
    raw: Any = qr(V, mode="raw")
    reflectors, tau = raw[0]
    (ormqr,) = get_lapack_funcs(("ormqr",), dtype=np.float64)
    extra = np.zeros((d, n - m), order="F")
    extra[np.arange(m, n), np.arange(n - m)] = 1.0
    extra, _, _ = ormqr("L", "N", reflectors, tau, extra, lwork=64 * (n - m))
    return np.concatenate([V, extra], axis=1)


def encode(X: NDArray, V: Array, origin: Array) -> NDArray:
    """Return the codes ``V' (x - mu_0)`` of frames, shape (N, m), in the float dtype of `X`."""
    dtype = X.dtype if X.dtype in (np.float32, np.float64) else np.dtype(np.float64)
    Z, V = np.empty((len(X), V.shape[1]), dtype), V.astype(dtype)
    for rows in frame_blocks(X):
        np.matmul(centred(X[rows], origin).astype(dtype, copy=False), V, out=Z[rows])
        if not np.isfinite(Z[rows]).all():
            raise ValueError(not_finite(X[rows], rows.start))
    return Z


def decode(Z: NDArray, V: Array, origin: Array) -> NDArray:
    """Return the frames ``mu_0 + V z`` of codes, shape (N, d), in the dtype of `Z`."""
    return (Z @ V.T.astype(Z.dtype)) + origin.astype(Z.dtype)


def nearest(Z: NDArray, centroids: NDArray) -> tuple[NDArray[np.intp], NDArray]:
    """Return the row of the nearest centroid of each row of `Z`, and the squared distance; ties go to the first.

    The function computes one matrix product per block; no array of shape (N, h, m) or (N, h) is allocated.
    """
    # |z - c|² = |z|² - 2 z'c + |c|², of which |z|² does not choose
    offsets, twice = np.square(centroids).sum(axis=1), -2 * centroids.T
    labels, squared = np.empty(len(Z), np.intp), np.empty(len(Z), Z.dtype)
    for rows in frame_blocks(Z):
        scores = Z[rows] @ twice
        scores += offsets
        labels[rows] = scores.argmin(axis=1)
        least = np.take_along_axis(scores, labels[rows, None], axis=1)[:, 0]
        squared[rows] = np.maximum(least + np.square(Z[rows]).sum(axis=1), 0)
    return labels, squared


def energy(X: NDArray, V: Array, origin: Array, codes: Array) -> float:
    """Return F (1) of frames: squared distances to the nearest code along V, and to mu_0 otherwise."""
    total = 0.0
    for rows in frame_blocks(X):
        block = centred(X[rows], origin)
        Z = block @ V
        # |x - mu_0|² - |V'(x - mu_0)|² is the part orthogonal to the subspace, the second term of (1)
        total += float((np.vecdot(block, block) - np.vecdot(Z, Z) + nearest(Z, codes)[1]).sum())
    return total
