"""The penalty on correlated rows (15)-(18)."""

from typing import Any

import numpy as np

from ..families._family import Array


def correlations(U: Array) -> Array:
    """Return the absolute cosines of the angles between the rows, g_ij (17): (M, D) -> (M, M).

    Rows of zeros have no direction and raise `ValueError`.

    Examples
    --------
    >>> from manifoldseq_hope import correlations
    >>> correlations([[1.0, 0.0], [3.0, 4.0]]).round(3).tolist()
    [[1.0, 0.6], [0.6, 1.0]]
    """
    U = _directed(U)
    unit = U / np.linalg.norm(U, axis=1, keepdims=True)
    return np.abs(unit @ unit.T)


def penalty(U: Array) -> float:
    """Return D(U) (15): the sum of the absolute correlations of pairs of rows.

    Examples
    --------
    >>> import numpy as np
    >>> from manifoldseq_hope import penalty
    >>> penalty(np.eye(3)), round(penalty([[1.0, 0.0], [3.0, 4.0]]), 3)
    (0.0, 0.6)
    """
    g = correlations(U)
    return float(np.sum(np.triu(g, 1)))


def penalty_gradient(U: Array) -> Array:
    """Return the derivative (D - B) U (18) of the penalty, (M, D), with sign(0) = 0 for orthogonal rows.

    Examples
    --------
    >>> import numpy as np
    >>> from manifoldseq_hope import penalty_gradient
    >>> penalty_gradient([[1.0, 0.0], [3.0, 4.0]])[0].round(3).tolist()
    [0.0, 0.8]
    """
    U = _directed(U)
    # d_ij = sign(u_i' u_j) / (|u_i| |u_j|), b_ii = sum_j |u_i' u_j| / (|u_i|³ |u_j|) (17), (18), both (M, M)
    C = U @ U.T
    norm = np.sqrt(np.diagonal(C))
    D = np.sign(C) / np.outer(norm, norm)
    np.fill_diagonal(D, 0.0)  # the terms j = i of D and B cancel
    b = np.sum(D * C, axis=1) / norm**2
    return D @ U - b[:, None] * U


def _directed(U: Any) -> Array:
    """Return a matrix in double precision; raise ValueError for a row of zeros."""
    U = np.asarray(U, dtype=np.float64)
    if U.ndim != 2:
        raise ValueError(f"U has shape {U.shape}: pass an (M, D) array")
    zero = np.flatnonzero(~U.any(axis=1))
    if len(zero):
        raise ValueError(f"row {zero[0]} of U is all zeros: remove it, because it has no direction")
    return U
