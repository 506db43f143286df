"""Eigenvalues of symmetric matrices whose entries may overflow."""

from __future__ import annotations

import numpy as np


def eigh(M: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return ``numpy.linalg.eigh(M)``; NaN for a matrix that is not finite, where NumPy raises for the whole batch."""
    if np.isfinite(M).all():
        return np.linalg.eigh(M)
    finite = np.all(np.isfinite(M), axis=(-2, -1), keepdims=True)
    w, V = np.linalg.eigh(np.where(finite, M, 0))
    return np.where(finite[..., 0], w, np.nan), np.where(finite, V, np.nan)


def smallest_eigenvalue(M: np.ndarray) -> np.ndarray:
    """Return the smallest eigenvalue of each symmetric matrix; NaN for a matrix that is not finite."""
    if np.isfinite(M).all():
        return np.linalg.eigvalsh(M)[..., 0]
    finite = np.all(np.isfinite(M), axis=(-2, -1))
    return np.where(finite, np.linalg.eigvalsh(np.where(finite[..., None, None], M, 0))[..., 0], np.nan)
