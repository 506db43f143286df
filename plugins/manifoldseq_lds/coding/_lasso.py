"""Sparse codes of many data over one dictionary: the kernel Lasso of (9), by batched cyclic coordinate descent."""

import warnings
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manifoldseq.estimators import quoted
from manifoldseq.execution import map_ordered

Array = NDArray[np.floating[Any]]

_POLISH_EVERY = 2
"""Number of sweeps between two moves towards the codes that are optimal for the current signs."""
_CHUNK_BYTES = 2**25
"""Maximum memory of the linear systems of one chunk of data."""
_RIDGE = 1e-13
"""Relative diagonal shift of a linear system, for duplicate atoms in one support."""


def zero_codes(alpha: float, cross: Array) -> ValueError:
    """Return the error message for codes that are all zero, given the kernel of atoms and data."""
    largest = 2 * float(np.abs(cross).max())
    if largest == 0:
        return ValueError("the kernel is 0 between all atoms and data: use another kernel or other sequences")
    return ValueError(f"every code is zero for alpha={alpha:g}: choose alpha well below {largest:.4g}")


def sparse_codes(
    gram: Array, cross: Array, alpha: float, *, start: Array | None = None, tol: float = 1e-10, max_sweeps: int = 1000
) -> Array:
    """Return the codes Z that minimize ``z' K z - 2 z' k + alpha |z|_1`` for every datum.

    The method is cyclic coordinate descent over the atoms, for all data at once. After a few sweeps the codes of a
    datum are computed exactly on their support. Codes that satisfy the optimality conditions are final, and later
    sweeps skip these data.

    Parameters
    ----------
    gram : array of shape (J, J)
        Kernel matrix K of the atoms, positive semidefinite; duplicate atoms are allowed.
    cross : array of shape (J, N)
        Kernel values k of atoms and data, one column per datum.
    alpha : float
        The factor lambda of problem (9), with kernel values as they are.
    start : array of shape (J, N), optional
        Initial codes; zeros by default.
    tol : float
        The tolerated violation of the optimality conditions, relative to the largest entry of K.
    max_sweeps : int

    Returns
    -------
    ndarray of shape (J, N)

    Raises
    ------
    ValueError
        If shapes do not fit, if values are not finite, or if alpha is negative.

    Examples
    --------
    >>> sparse_codes(np.eye(2), np.array([[1.0], [0.05]]), 0.2)
    array([[0.9],
           [0. ]])
    """
    gram, cross = np.asarray(gram, dtype=np.float64), np.asarray(cross, dtype=np.float64)
    if cross.ndim != 2 or gram.shape != (len(cross), len(cross)):
        raise ValueError(f"gram and cross have shapes {gram.shape} and {cross.shape}: pass (J, J) and (J, N)")
    if not (np.isfinite(gram).all() and np.isfinite(cross).all()):
        raise ValueError("gram or cross has a value that is not finite: repair the kernel or the data")
    if not 0 <= alpha < np.inf:
        raise ValueError(f"alpha={quoted(alpha)} is not valid: pass a number of at least 0")
    J, N = cross.shape
    Z = np.zeros((J, N)) if start is None else np.array(start)
    chunk = max(1, _CHUNK_BYTES // (8 * J * J)) if J else 1
    parts = [slice(i, i + chunk) for i in range(0, N if J else 0, chunk)]
    descend = partial(_descend, gram, alpha, tol, max_sweeps)
    for part, found in zip(parts, map_ordered(descend, [(cross[:, part], Z[:, part]) for part in parts]), strict=True):
        Z[:, part] = found
    return Z


def _descend(gram: Array, alpha: float, tol: float, max_sweeps: int, part: tuple[Array, Array]) -> Array:
    """Return the codes of some data, from their kernel values with the atoms and their initial codes."""
    cross, Z = part
    diagonal = gram.diagonal().copy()
    limit = tol * max(float(diagonal.max()), np.finfo(float).tiny)
    left = np.arange(Z.shape[1])
    k, z, Z = np.ascontiguousarray(cross), np.array(Z, order="C"), np.array(Z)
    for sweep in range(max_sweeps):
        _sweep(gram, diagonal, k, alpha, z)
        if sweep % _POLISH_EVERY:
            continue
        moving = np.arange(len(left))
        for _ in range(1 + sweep):  # each move drops a code or is the last; early supports are too large to be walked
            z[:, moving], crossed = _towards_support_optimum(gram, k[:, moving], alpha, z[:, moving])
            moving = moving[crossed]
            if not len(moving):
                break
        done = violation(gram, k, alpha, z) <= limit
        if done.any():
            Z[:, left[done]] = z[:, done]
            left, k, z = left[~done], np.ascontiguousarray(k[:, ~done]), np.ascontiguousarray(z[:, ~done])
            if not len(left):
                return Z
    Z[:, left] = z
    return Z


def violation(gram: Array, cross: Array, alpha: float, Z: Array) -> Array:
    """Return the violation of the optimality conditions of the Lasso by the codes of each datum, of shape (N,)."""
    return np.abs(subgradient(gram, cross, alpha, Z)).max(axis=0)


def subgradient(gram: Array, cross: Array, alpha: float, Z: Array) -> Array:
    """Return the subgradient of least norm of the Lasso by the codes, (J, N).

    With ``g = 2 (K z - k)``: ``g_j + alpha sign(z_j)`` where z_j is not zero, the excess of ``|g_j|`` over alpha
    elsewhere.
    """
    g = 2 * (gram @ Z - cross)
    return g + np.where(Z != 0, alpha * np.sign(Z), -np.clip(g, -alpha, alpha))


def objective(gram: Array, cross: Array, self_values: Array, alpha: float, Z: Array) -> tuple[Array, Array]:
    """Return each datum's squared distance ``|phi(x) - sum_j z_j phi(D_j)|^2`` and its penalty, both of shape (N,)."""
    squared = self_values + np.einsum("jn,jn->n", Z, gram @ Z - 2 * cross)
    return squared, alpha * np.abs(Z).sum(axis=0)


def positive_semidefinite(gram: Array) -> Array:
    """Return the kernel matrix with negative eigenvalues set to zero; warn if they exceed rounding errors."""
    w, W = np.linalg.eigh(gram)
    if w[0] >= -1e-8 * max(float(w[-1]), np.finfo(float).tiny):
        return gram
    warnings.warn(
        f"the kernel matrix of the atoms is indefinite, with the eigenvalue {w[0]:.3g}: negative eigenvalues are set "
        "to zero for the sparse codes",
        UserWarning,
        stacklevel=2,
    )
    return (W * np.maximum(w, 0.0)) @ W.T


def _sweep(gram: Array, diagonal: Array, cross: Array, alpha: float, Z: Array) -> None:
    """Minimize over one atom's codes after the other, in place."""
    half = alpha / 2
    for j, own in enumerate(diagonal.tolist()):
        if own <= 0:
            continue
        # z_j = sign(g) max(|g| - alpha/2, 0) / K_jj with g = k_j - sum_(i != j) K_ji z_i, for all data at once, (N,)
        g = cross[j] - gram[j] @ Z + own * Z[j]
        magnitude = np.abs(g)
        magnitude -= half
        np.maximum(magnitude, 0.0, out=magnitude)
        magnitude /= own
        np.copysign(magnitude, g, out=Z[j])
        Z[j] += 0.0  # no negative zeros


def _towards_support_optimum(gram: Array, cross: Array, alpha: float, Z: Array) -> tuple[Array, NDArray[np.bool_]]:
    """Move each datum's nonzero codes to their optimum for the current signs, at most until one of them is zero.

    Return the codes, and a mask of data with a code that became zero.
    """
    on = (Z != 0).T
    sizes = on.sum(axis=1)
    width = int(sizes.max())
    support = np.argsort(~on, axis=1, kind="stable")[:, :width]  # of each datum, filled up with other atoms
    filled = np.arange(width) < sizes[:, None]
    # K_SS z_S = k_S - alpha/2 sign(z_S) on the support S of each datum: one stack of systems, (N, width, width), filled
    # up with rows of the identity
    signs = np.take_along_axis(np.sign(Z).T, support, axis=1)
    matrices = np.where(filled[:, :, None] & filled[:, None, :], gram[support[:, :, None], support[:, None, :]], 0.0)
    each = np.arange(width)
    matrices[:, each, each] = np.where(filled, gram.diagonal()[support] * (1 + _RIDGE), 1.0)
    right = np.where(filled, np.take_along_axis(cross.T, support, axis=1) - 0.5 * alpha * signs, 0.0)
    try:
        found = np.linalg.solve(matrices, right[:, :, None])[:, :, 0]
    except np.linalg.LinAlgError:
        return Z, np.zeros(len(sizes), dtype=bool)
    solved = np.zeros(Z.shape)
    np.put_along_axis(solved.T, support, np.where(filled, found, 0.0), axis=1)
    # up to the first sign change: beyond it the linear system is another one
    crossing = np.sign(solved) * np.sign(Z) < 0
    share = np.divide(Z, Z - solved, out=np.ones_like(Z), where=crossing)
    first = share.min(axis=0)
    moved = np.where(crossing & (share <= first), 0.0, Z + first * (solved - Z))
    crossed: NDArray[np.bool_] = np.any(crossing, axis=0)
    return np.where(crossed, moved, solved), crossed
