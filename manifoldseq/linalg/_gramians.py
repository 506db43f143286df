"""Observability Gramians of stable linear systems."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from ._stein import _boxed, stein


def gramians(A: Any, C: Any = None) -> Any:
    r"""Return the observability Gramians :math:`G = \sum_t (A^T)^t C^T C A^t`.

    This is the Gram matrix of the columns of the extended observability matrix ``[C; CA; CA^2; ...]``
    (equations (4) and (6)): the solution of ``A.T @ G @ A - G + C.T @ C = 0``.

    Parameters
    ----------
    A : array (..., n, n)
        Transition matrices with spectral radius below 1.
    C : array (..., m, n), optional
        Output matrices. None means orthonormal columns, ``C.T @ C = I``.

    Returns
    -------
    array (..., n, n)
        Symmetric positive semidefinite, of the inputs' dtype (summed in float64); differentiable with autograd.

    Raises
    ------
    ValueError
        If a spectral radius is 1 or more (the message contains the radius and the index in the batch).

    See Also
    --------
    stein : the general equation. For one system equivalent to ``scipy.linalg.solve_discrete_lyapunov(A.T, C.T @ C)``.

    Examples
    --------
    >>> import numpy as np
    >>> from manifoldseq.linalg import gramians
    >>> gramians(np.diag([0.5, 0.0])).round(6)
    array([[1.333333, 0.      ],
           [0.      , 1.      ]])
    """
    xp: Any = import_module("autograd.numpy") if _boxed(A, C) else np
    if xp is np:
        A = np.asarray(A)
    Q = np.eye(A.shape[-1], dtype=np.float32) if C is None else xp.matmul(xp.swapaxes(C, -1, -2), C)
    G = stein(A, A, Q)
    # the sum is symmetric but for rounding
    return (G + xp.swapaxes(G, -1, -2)) / 2
