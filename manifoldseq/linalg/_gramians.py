"""Observability Gramians of stable linear systems."""

from __future__ import annotations

from typing import Any

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
        Output matrices. None stands for orthonormal columns, ``C.T @ C = I``.

    Returns
    -------
    array (..., n, n)
        Symmetric positive semidefinite, of the inputs' dtype (summed in float64); differentiable with autograd.

    Raises
    ------
    ValueError
        If a spectral radius is 1 or more (the sentence names it and its place in the batch).

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
    if _boxed(A, C):
        from autograd import numpy as np
    else:
        import numpy as np

        A = np.asarray(A)  # one array, so that stein sees A1 is A2 and shares its powers

    if C is None:
        Q = np.eye(np.shape(A)[-1], dtype=np.result_type(getattr(A, "dtype", float), np.float32))
    else:
        Q = np.matmul(np.swapaxes(C, -1, -2), C)
    G = stein(A, A, Q)
    return (G + np.swapaxes(G, -1, -2)) / 2
