"""The orthonormal polar factor and other retractions onto orthonormal columns."""

from __future__ import annotations

import math
from bisect import bisect
from functools import lru_cache

import numpy as np

from ._blas import GEMM, POTRF, TRSM


def symmetric(M: np.ndarray) -> np.ndarray:
    """Return the symmetric part over the last two axes."""
    return 0.5 * (M + M.mT)


def polar(M: np.ndarray) -> np.ndarray:
    """Return the nearest matrix with orthonormal columns: the orthonormal polar factor.

    The result is ``M (MᵀM)^(-1/2)``. It is computed by a series in the p×p Gram matrix if this matrix is close to a
    multiple of I, as after a step of length below about one, and otherwise by the singular value decomposition.
    Equivalent to ``scipy.linalg.polar(M)[0]``.

    Parameters
    ----------
    M : ndarray, shape (..., n, p)
        With n ≥ p and full column rank.

    Returns
    -------
    ndarray, shape (..., n, p)
        Of the same dtype; the Gram matrix is formed in float64.

    Raises
    ------
    ValueError
        If there are more columns than rows, or the entries are not real.

    Notes
    -----
    NaN or infinite entries give NaN.

    Examples
    --------
    >>> import numpy as np, manifoldseq as ms
    >>> ms.linalg.polar(np.array([[2.0, 0.0], [0.0, -3.0]]))
    array([[ 1.,  0.],
           [ 0., -1.]])
    """
    M = np.asarray(M)
    if M.ndim < 2 or M.shape[-2] < M.shape[-1] or M.dtype.kind not in "fiu":
        raise ValueError(f"polar needs a tall or square real matrix, got shape {M.shape} of dtype {M.dtype}")
    if M.dtype != np.float64:
        return polar(M.astype(np.float64)).astype(np.float32 if M.dtype == np.float32 else np.float64)
    return _polar(M)


def _polar(M: np.ndarray) -> np.ndarray:
    p = M.shape[-1]
    E = M.mT @ M - _eye(p)
    far = math.sqrt(np.vdot(E, E))  # over a whole batch
    if far < _FAR:
        return _accumulate(M, _inverse_root(E, far))
    known_finite = far < math.inf
    if M.ndim == 2 and p < _WIDE:
        return _polar_by_svd(M, known_finite)
    nearer, near = _nearer(M, E)
    if near.all():
        return _polar(nearer)
    if M.ndim == 2:
        return _polar_by_svd(M, known_finite)
    U = np.empty_like(M)
    U[~near] = _polar_by_svd(M[~near], known_finite)
    if near.any():
        U[near] = _polar(nearer[near])
    return U


_eye = lru_cache(maxsize=64)(np.eye)


def _polar_by_svd(M: np.ndarray, known_finite: bool) -> np.ndarray:
    """Return ``W Vᵀ`` of ``M = W S Vᵀ``, or NaN if M is not finite, because NumPy raises for the whole batch."""
    if known_finite:
        W, _, Vt = np.linalg.svd(M, full_matrices=False)
        return W @ Vt
    finite = np.isfinite(M).all(axis=(-2, -1), keepdims=True)
    W, _, Vt = np.linalg.svd(np.where(finite, M, 0), full_matrices=False)
    return np.where(finite, W @ Vt, np.nan)


# A trick of speed: with `_polar_by_svd` alone `minimize` takes 1.24 times as long on a product of three small factors,
# 1.62 times on rotations in 50 dimensions, 1.35 times on a power of 150 rotations
# (`python -m benchmarks.tricks polar`).


def _nearer(M: np.ndarray, E: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return matrices with the same polar factors and Gram matrices closer to I, and a mask of close enough matrices.

    With MᵀM = m (I + F), m the mean eigenvalue, that is M (I + F)^(-1/2) / √m with the first terms of the series. The
    others would take more steps.
    """
    p = M.shape[-1]
    with np.errstate(all="ignore"):
        m = 1 + np.trace(E, axis1=-2, axis2=-1)[..., None, None] / p
        F = (E + (1 - m) * _eye(p)) / m
        near = np.linalg.norm(F, axis=(-2, -1)) < 0.6
        return _accumulate(M, _series(F, 5)) / np.sqrt(m), near


def _inverse_root(E: np.ndarray, far: float) -> np.ndarray:
    """Return ``(I + E)^(-1/2) − I`` of symmetric E, of norms of at most `far`, by its power series."""
    # ended where the rest is below rounding
    return _series(E, bisect(_REACH, far) + 2)


def _series(E: np.ndarray, degree: int) -> np.ndarray:
    """Return Σ c_k E^k, k = 1 to degree ≥ 2, by Horner's rule: one p×p product per term."""
    R = _accumulate(E, E, _SERIES[degree - 1], _SERIES[degree])
    for c in _SERIES[degree - 2 : 0 : -1]:
        R = _accumulate(E, R, c)
    return R


def _accumulate(A: np.ndarray, B: np.ndarray, c: float = 1.0, d: float = 1.0) -> np.ndarray:
    """Return ``c·A + d·A B`` for symmetric B (that commutes with A, if A is square), in one call of BLAS."""
    # A trick of speed: with the sum of numpy `minimize` on a product of three small factors takes 1.04 times as long
    # (`python -m benchmarks.tricks gemm`); less than a trick must gain, but no other one line gains more there.
    if A.ndim > 2:
        return c * A + d * (A @ B)
    return GEMM(d, B, A.T, beta=c, c=A.T).T


_SERIES = [math.prod(-0.5 - j for j in range(k)) / math.factorial(k) for k in range(14)]
"""The coefficients of ``(1 + e)^(-1/2)``."""

_REACH = [(2.0**-54 / abs(_SERIES[k])) ** (1 / k) for k in range(3, 13)]
"""Norms up to which terms of degree k and above are below rounding, so that the series can end before them."""

_FAR = _REACH[-1]
"""Norm up to which one series is enough."""

_WIDE = 16
"""Number of columns from which two series are faster than a singular value decomposition; always for a batch."""


def qr_retraction(M: np.ndarray) -> np.ndarray:
    """Return the Q of the QR decomposition whose R has a positive diagonal, shape (..., n, p).

    The result is ``M R⁻¹`` with the Cholesky factor of the Gram matrix if this is accurate, and otherwise computed by
    Householder reflections.
    """
    if M.ndim == 2:
        near = _cholesky_qr(M.astype(np.float64, copy=False))
        if near is not None:
            return near.astype(M.dtype, copy=False)
    Q, R = np.linalg.qr(M)
    signs = np.where(np.diagonal(R, axis1=-2, axis2=-1) < 0, -1, 1).astype(Q.dtype)
    return Q * signs[..., None, :]


# A trick of speed: with `numpy.linalg.qr` alone `minimize(…, options={"retraction": "qr"})` takes 1.24 times as
# long on 30×3 columns (`python -m benchmarks.tricks qr`).


def _cholesky_qr(M: np.ndarray) -> np.ndarray | None:
    """Return the same Q, or None if the Gram matrix is far from I even after a first pass."""
    for _ in range(2):
        gram = M.T @ M
        near = np.linalg.norm(gram - np.eye(gram.shape[0])) < 0.5  # then its condition number is below 3
        L, failed = POTRF(gram, lower=1)  # gram = L Lᵀ, so that R = Lᵀ and Q = M L⁻ᵀ: a solve with L from the left
        if failed:
            return None
        M = TRSM(1.0, L, M.T, lower=1).T
        if near:
            return M
    return None


def orthonormality(X: np.ndarray) -> np.ndarray:
    """Return ``max |XᵀX − I|`` over the last two axes, computed in float64."""
    X = X.astype(np.float64, copy=False)
    return np.abs(X.mT @ X - _eye(X.shape[-1])).max(axis=(-2, -1))
