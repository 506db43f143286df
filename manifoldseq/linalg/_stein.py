"""Batched Stein (discrete Sylvester) equations by doubling, their adjoint, and their autograd primitive."""

from __future__ import annotations

import sys
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.floating]

_TOLERANCE = 1e-15  # bound on the relative error that is left when doubling stops
_MAX_STEPS = 60  # 2**60 terms: enough for every spectral radius that float64 can tell from 1


def stein(A1: Any, A2: Any, Q: Any) -> Any:
    r"""Solve the Stein equation ``A1.T @ X @ A2 - X + Q = 0``.

    The solution is :math:`X = \sum_t (A_1^T)^t Q A_2^t`, summed by doubling: step k adds ``(A1.T)**(2**k) @ X @
    A2**(2**k)``. The sum ends when the norms of these powers bound the remaining terms by 1e-15 of X. No matrix is
    diagonalized, so defective matrices are supported.

    Parameters
    ----------
    A1 : array (..., n1, n1)
    A2 : array (..., n2, n2)
    Q : array (..., n1, n2)
        Leading axes broadcast.

    Returns
    -------
    array (..., n1, n2)
        Of the inputs' common dtype; float32 input is summed in float64. Inside a function that autograd differentiates
        the result can be differentiated any number of times.

    Raises
    ------
    ValueError
        If shapes do not fit, a number is not real or not finite, or the spectral radii have a product of 1 or more.

    Notes
    -----
    Equation (6) of "Efficient Clustering and Sparse Coding of Linear Dynamical Systems" has
    ``Q = C1.T @ C2``. For ``A1 = A2 = A`` equivalent to ``scipy.linalg.solve_discrete_lyapunov(A.T, Q)``.

    Examples
    --------
    >>> import numpy as np
    >>> from manifoldseq.linalg import stein
    >>> stein(np.array([[0.5]]), np.array([[0.5]]), np.array([[3.0]]))
    array([[4.]])
    """
    if _boxed(A1, A2, Q):
        return _primitive()(A1, A2, Q)
    return _stein(A1, A2, Q)


def stein_adjoint(A1: ArrayLike, A2: ArrayLike, X: ArrayLike, H: ArrayLike) -> tuple[Array, Array, Array]:
    """Propagate a gradient through :func:`stein` (Theorem 4, equations (14) and (15)).

    With ``X = stein(A1, A2, Q)`` and ``H`` the gradient of a scalar with respect to X, solve
    ``A1 @ R @ A2.T - R + H = 0`` and return the gradients with respect to A1, A2 and Q. If ``Q = C1.T @ C2``, the
    gradients with respect to C1 and C2 are ``C2 @ R.T`` and ``C1 @ R``.

    Parameters
    ----------
    A1 : array (..., n1, n1)
    A2 : array (..., n2, n2)
    X, H : array (..., n1, n2)

    Returns
    -------
    dA1 : array, the shape of A1
        ``X @ A2 @ R.T``, summed over the axes along which A1 was broadcast.
    dA2 : array, the shape of A2
        ``X.T @ A1 @ R``, summed likewise.
    dQ : array (..., n1, n2)
        ``R``.

    Raises
    ------
    ValueError
        For the reasons of :func:`stein`.

    Examples
    --------
    >>> import numpy as np
    >>> from manifoldseq.linalg import stein, stein_adjoint
    >>> a, q = np.array([[0.5]]), np.array([[3.0]])
    >>> x = stein(a, a, q)                              # q / (1 - a1 a2)
    >>> [float(g[0, 0].round(6)) for g in stein_adjoint(a, a, x, np.eye(1))]
    [2.666667, 2.666667, 1.333333]
    """
    A1, A2, X, H = (np.asarray(a) for a in (A1, A2, X, H))
    # dX = A1' dX A2 + dA1' X A2 + A1' X dA2 + dQ; pairing with H moves the sum onto R = Σ A1^t H (A2')^t
    R = _stein(_t(A1), _t(A2), H)
    return _sum_to(X @ A2 @ _t(R), A1.shape), _sum_to(_t(X) @ A1 @ R, A2.shape), R


def _boxed(*arrays: Any) -> bool:
    """Return whether autograd is loaded and traces one of the arrays."""
    tracer = sys.modules.get("autograd.tracer")
    return tracer is not None and any(tracer.isbox(a) for a in arrays)


@cache
def _primitive() -> Any:
    """Register the solver with autograd; the adjoint uses autograd's operations, so it can be differentiated again."""
    from autograd.extend import defvjp_argnums, primitive

    anp: Any = import_module("autograd.numpy")
    solver = primitive(_stein)

    def vjp_maker(argnums: tuple[int, ...], X: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        A1, A2, _ = args

        def vjp(H: Any) -> tuple[Any, ...]:
            R = stein(anp.swapaxes(A1, -1, -2), anp.swapaxes(A2, -1, -2), H)
            gradients = (
                lambda: anp.matmul(X, anp.matmul(A2, anp.swapaxes(R, -1, -2))),
                lambda: anp.matmul(anp.swapaxes(X, -1, -2), anp.matmul(A1, R)),
                lambda: R,
            )
            return tuple(_sum_to(gradients[i](), anp.shape(args[i])) for i in argnums)

        return vjp

    defvjp_argnums(solver, vjp_maker)
    return solver


def _stein(A1: ArrayLike, A2: ArrayLike, Q: ArrayLike) -> Array:
    """Validate, solve in float64 and return the common dtype."""
    A1, A2, Q = np.asarray(A1), np.asarray(A2), np.asarray(Q)
    if min(A1.ndim, A2.ndim, Q.ndim) < 2 or A1.shape[-2:] + A2.shape[-2:] != Q.shape[-2:-1] * 2 + Q.shape[-1:] * 2:
        raise ValueError(
            f"stein needs A1 (..., n1, n1), A2 (..., n2, n2) and Q (..., n1, n2), "
            f"but the shapes are {A1.shape}, {A2.shape} and {Q.shape}"
        )
    for name, array in (("A1", A1), ("A2", A2), ("Q", Q)):
        if array.dtype.kind not in "biuf":
            raise ValueError(f"{name} of the Stein equation has dtype {array.dtype}: pass real numbers")
    dtype = np.result_type(A1, A2, Q, np.float32)
    return _doubling(A1.astype(float), A2.astype(float), Q.astype(float)).astype(dtype, copy=False)


def _doubling(A1: Array, A2: Array, Q: Array) -> Array:
    shape = np.broadcast_shapes(A1.shape[:-2], A2.shape[:-2], Q.shape[:-2]) + Q.shape[-2:]
    X, L, R = np.broadcast_to(Q, shape), A1, A2
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        for _ in range(_MAX_STEPS):
            # X is the sum over t < 2^k, L = A1^(2^k) and R = A2^(2^k): what is left of it is of the size of ‖L‖ ‖R‖ ‖X‖
            if np.all(_square_norm(L) * _square_norm(R) <= _TOLERANCE**2):
                break
            X = X + _t(L) @ X @ R
            L, R = L @ L, R @ R
        else:
            raise _divergence(A1, A2, Q)
    if not np.isfinite(X).all():
        raise _divergence(A1, A2, Q)
    return X if X.flags.writeable else X.copy()


def _divergence(A1: Array, A2: Array, Q: Array) -> ValueError:
    """Return the error message for a sum that does not converge, with the spectral radii."""
    for name, array in (("A1", A1), ("A2", A2), ("Q", Q)):
        bad = np.argwhere(~np.isfinite(array))
        if len(bad):
            return ValueError(f"{name} has a value that is not finite at index {tuple(bad[0].tolist())}")
    # the product of the two spectral radii decides, per pair of the batch
    r1, r2 = np.broadcast_arrays(*(np.abs(np.linalg.eigvals(A)).max(-1) for A in (A1, A2)))
    place = np.unravel_index(np.argmax(r1 * r2), r1.shape)
    where = f" at batch index {tuple(int(i) for i in place)}" if place else ""
    radii = f"A has spectral radius {r1[place]:.6g}, which must be below 1"
    if not np.array_equal(A1, A2):
        radii = f"A1 and A2 have spectral radii {r1[place]:.6g} and {r2[place]:.6g}, whose product must be below 1"
    return ValueError(f"the sum that solves the Stein equation diverges{where}: {radii}")


def _square_norm(A: Array) -> Array:
    return np.einsum("...ij,...ij->...", A, A)


def _t(A: Array) -> Array:
    return np.swapaxes(A, -1, -2)


def _sum_to(gradient: Any, shape: tuple[int, ...]) -> Any:
    """Sum a gradient over the leading axes along which its argument was broadcast (arrays and autograd boxes alike)."""
    extra = gradient.ndim - len(shape)
    axes = (*range(extra), *(extra + i for i, size in enumerate(shape[:-2]) if size == 1 != gradient.shape[extra + i]))
    return gradient.sum(axis=axes).reshape(shape) if axes else gradient
