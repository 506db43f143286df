"""The orthonormal polar factor and other retractions onto orthonormal columns."""

from __future__ import annotations

import math
from bisect import bisect
from functools import lru_cache

import numpy as np

from ._blas import GEMM, NRM2, POTRF, TRSM


def symmetric(M: np.ndarray) -> np.ndarray:
    """Return the symmetric part over the last two axes."""
    return 0.5 * (M + M.swapaxes(-1, -2))


def polar(M: np.ndarray) -> np.ndarray:
    """Return the nearest matrix with orthonormal columns: the orthonormal polar factor.

    Computed as ``M (MᵀM)^(-1/2)`` through the p×p Gram matrix (2 to 5 times cheaper than an SVD): by a series where it
    is close to I, as after a short step, else by ``eigh``, with a Newton–Schulz polish where it is not close to a
    multiple of I; ill-conditioned matrices take the SVD.
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
    gram = np.dot(M.T, M) if M.ndim == 2 else M.swapaxes(-1, -2) @ M
    correction = _inverse_root(gram)
    if correction is not None:
        return _accumulate(M, correction)
    if not np.isfinite(gram.sum()):
        finite = np.isfinite(gram).all(axis=(-2, -1), keepdims=True)
        if not finite.all():
            rest = polar(np.where(finite, M, np.eye(*M.shape[-2:])))
            return np.where(finite, rest, np.nan)
    w, Q = np.linalg.eigh(gram)
    if not np.all(w[..., :1] > 1e-8 * w[..., -1:]):
        return _polar_svd(M)
    U = M @ ((Q / np.sqrt(w)[..., None, :]) @ Q.swapaxes(-1, -2))
    if not np.all(w[..., -1] < 4 * w[..., 0]):
        U = U @ (1.5 * np.eye(w.shape[-1]) - 0.5 * (U.swapaxes(-1, -2) @ U))
    return U


def _inverse_root(gram: np.ndarray) -> np.ndarray | None:
    """Return ``gram^(-1/2) − I`` by its power series at I, or None if `gram` is too far from I for that to pay."""
    E = gram - _eye(gram.shape[-1])
    far = NRM2(E.ravel())  # over a whole batch
    if not far < _FAR:
        return None
    degree = bisect(_REACH, far)
    R = _accumulate(E, E, _SERIES[degree + 1], _SERIES[degree + 2])
    for c in _SERIES[degree:0:-1]:
        R = _accumulate(E, R, c)
    return R


_GEMM = GEMM[np.dtype(np.float64)]


def _accumulate(A: np.ndarray, B: np.ndarray, c: float = 1.0, d: float = 1.0) -> np.ndarray:
    """Return ``c·A + d·A B`` for symmetric B (that commutes with A, if A is square), in one call of BLAS."""
    if A.ndim > 2:
        return c * A + d * (A @ B)
    return _GEMM(d, B, A.T, beta=c, c=A.T).T


_SERIES = [math.prod(-0.5 - j for j in range(k)) / math.factorial(k) for k in range(14)]
"""The coefficients of ``(1 + e)^(-1/2)``."""

_REACH = [(2.0**-54 / abs(_SERIES[k])) ** (1 / k) for k in range(3, 13)]
"""Up to here the terms of degree k and above are below rounding: the series may end before them."""

_FAR = _REACH[-1]
"""Up to here the series takes less time than `eigh`."""


@lru_cache(maxsize=64)
def _eye(p: int) -> np.ndarray:
    eye = np.eye(p)
    eye.flags.writeable = False
    return eye


def _polar_svd(X: np.ndarray) -> np.ndarray:
    W, _, Vt = np.linalg.svd(X, full_matrices=False)
    return W @ Vt


def qr_retraction(M: np.ndarray) -> np.ndarray:
    """Return the Q of the QR decomposition whose R has a positive diagonal, shape (..., n, p).

    Computed as ``M R⁻¹`` from the Cholesky factor of the Gram matrix where that is accurate (3 times cheaper), else by
    Householder reflections.
    """
    if M.ndim == 2:
        near = _cholesky_qr(M.astype(np.float64, copy=False))
        if near is not None:
            return near.astype(M.dtype, copy=False)
    Q, R = np.linalg.qr(M)
    signs = np.where(np.diagonal(R, axis1=-2, axis2=-1) < 0, -1, 1).astype(Q.dtype)
    return Q * signs[..., None, :]


def _cholesky_qr(M: np.ndarray) -> np.ndarray | None:
    """Return the same Q, or None where the Gram matrix is far from I even after a first pass."""
    for _ in range(2):
        gram = np.dot(M.T, M)
        near = NRM2((gram - _eye(gram.shape[0])).ravel()) < 0.5  # then its condition number is below 3
        L, failed = POTRF(gram.T, lower=1, clean=0, overwrite_a=1)
        if failed:
            return None
        M = TRSM(1.0, L, M.T, lower=1).T
        if near:
            return M
    return None


def orthonormality(X: np.ndarray) -> np.ndarray:
    """Return ``max |XᵀX − I|`` over the last two axes, computed in float64."""
    X = X.astype(np.float64, copy=False)
    return np.abs(X.swapaxes(-1, -2) @ X - np.eye(X.shape[-1])).max(axis=(-2, -1))
