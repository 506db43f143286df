"""The orthonormal polar factor and other retractions onto orthonormal columns."""

from __future__ import annotations

import numpy as np


def symmetric(M: np.ndarray) -> np.ndarray:
    """Return the symmetric part over the last two axes."""
    return 0.5 * (M + M.swapaxes(-1, -2))


def polar(M: np.ndarray) -> np.ndarray:
    """Return the nearest matrix with orthonormal columns: the orthonormal polar factor.

    Computed as ``M (MᵀM)^(-1/2)`` through ``eigh`` of the p×p Gram matrix (2 to 4 times cheaper than an SVD), with a
    Newton–Schulz polish where the Gram matrix is not close to a multiple of I; ill-conditioned matrices take the SVD.
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
    if M.dtype.kind not in "fiu" or M.ndim < 2 or M.shape[-2] < M.shape[-1]:
        raise ValueError(f"polar needs a tall or square real matrix, got shape {M.shape} of dtype {M.dtype}")
    dtype = np.float32 if M.dtype == np.float32 else np.float64
    X = M.astype(np.float64, copy=False)
    Xt = X.swapaxes(-1, -2)
    gram = Xt @ X
    if not np.isfinite(gram.sum()):
        return np.full(M.shape, np.nan, dtype)
    w, Q = np.linalg.eigh(gram)
    if not np.all(w[..., :1] > 1e-8 * w[..., -1:]):
        return _polar_svd(X).astype(dtype, copy=False)
    U = X @ ((Q / np.sqrt(w)[..., None, :]) @ Q.swapaxes(-1, -2))
    if not np.all(w[..., -1] < 4 * w[..., 0]):
        U = U @ (1.5 * np.eye(w.shape[-1]) - 0.5 * (U.swapaxes(-1, -2) @ U))
    return U.astype(dtype, copy=False)


def _polar_svd(X: np.ndarray) -> np.ndarray:
    W, _, Vt = np.linalg.svd(X, full_matrices=False)
    return W @ Vt


def qr_retraction(M: np.ndarray) -> np.ndarray:
    """Return the Q of the QR decomposition whose R has a positive diagonal, shape (..., n, p)."""
    Q, R = np.linalg.qr(M)
    signs = np.where(np.diagonal(R, axis1=-2, axis2=-1) < 0, -1, 1).astype(Q.dtype)
    return Q * signs[..., None, :]


def orthonormality(X: np.ndarray) -> np.ndarray:
    """Return ``max |XᵀX − I|`` over the last two axes, computed in float64."""
    X = X.astype(np.float64, copy=False)
    return np.abs(X.swapaxes(-1, -2) @ X - np.eye(X.shape[-1])).max(axis=(-2, -1))
