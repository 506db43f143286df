"""The base of kernels on systems: items as arrays, and their conversion to canonical points."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

import manifoldseq as ms
from manifoldseq.estimators import quoted

from ..systems._record import Systems, item_rows, real_array

Array = NDArray[Any]


def arrays(items: Any) -> tuple[Array, Array]:
    """Return A (N, n, n) and C (N, m, n) of a `Systems` record or a sequence of items."""
    if isinstance(items, Systems):
        if not len(items):
            raise ValueError("there are no systems: pass at least one")
        return items.A, items.C
    rows = [item[:2] for item in item_rows(items)]
    shapes = [(np.shape(A), np.shape(C)) for A, C in rows]
    n, m = (next(iter(shape), 0) for shape in shapes[0])
    for i, shape in enumerate(shapes):
        if shape != ((n, n), (m, n)):
            raise ValueError(
                f"system {i} has A of shape {shape[0]} and C of shape {shape[1]}, but system 0 has {n} states and "
                f"{m} outputs: all systems must have the same sizes"
            )
    return real_array("A", [A for A, _ in rows]), real_array("C", [C for _, C in rows])


def explanation(A: Array, C: Array) -> ValueError:
    """Return an error message with the system that cannot be packed and the reason."""
    finite = np.isfinite(A).all(axis=(1, 2)) & np.isfinite(C).all(axis=(1, 2))
    if not finite.all():
        return ValueError(
            f"system {int(np.argmin(finite))} contains a value that is not finite: remove or repair the system"
        )
    radius = np.abs(np.linalg.eigvals(A)).max(axis=-1)
    i = int(np.argmax(radius))
    if radius[i] >= 1 - 1e-15:
        return ValueError(
            f"system {i} is unstable: A has spectral radius {radius[i]:.6g}, which must be below 1; stabilize the "
            "system, for example with LDSIdentifier(stabilizer='SN')"
        )
    smallest = np.linalg.eigvalsh(ms.linalg.gramians(A, C)).min(axis=-1)
    return ValueError(f"system {int(np.argmin(smallest))} is not observable (singular Gramian): remove the system")


def check_dtype(dtype: object) -> None:
    """Raise an error unless packed output matrices can have this dtype."""
    if dtype not in ("float64", "float32"):
        raise ValueError(f"dtype={quoted(dtype)} is not known: choose 'float64' or 'float32'")


def check_packed(kind: type, P: Any, Q: Any) -> None:
    """Raise ValueError unless both are packed systems of one size; `kind` has the field Ct, (N, n, m)."""
    for one in (P, Q):
        if not isinstance(one, kind):
            raise ValueError(f"cross got {type(one).__name__}, not packed systems: call kernel.pack(systems) first")
    if P.Ct.shape[1:] != Q.Ct.shape[1:]:
        (n, m), (k, l) = P.Ct.shape[1:], Q.Ct.shape[1:]  # noqa: E741
        raise ValueError(
            f"the first systems have {n} states and {m} outputs, the second systems have {k} and {l}: "
            "pass systems of equal size"
        )


def weights_of(beta: ArrayLike, N: int, U: Array, outputs: tuple[int, int]) -> Array:
    """Validate one weight for each of N systems and the size of the point's U; return the weights as an array."""
    weights = real_array("beta", beta)
    if U.shape != outputs or weights.shape != (N,):
        raise ValueError(
            f"beta has shape {weights.shape} and U has shape {U.shape}: pass beta of shape {(N,)} and U of shape "
            f"{outputs}"
        )
    return weights


def canonical_gradient(point: Any, gA: Array, *rest: Array) -> tuple[Array, ...]:
    """Return the gradient in (lam, V, …) from the gradient in ``A = diag(lam) V`` and others, in the point's dtypes."""
    # A_ij = lam_i V_ij: d lam_i = sum_j dA_ij V_ij, dV = diag(lam) dA
    lam, V = point[:2]
    gradient = np.einsum("ij,ij->i", gA, V), lam[:, None] * gA, *rest
    dtypes = (np.result_type(x, np.float32) for x in point)
    return tuple(g.astype(dtype, copy=False) for g, dtype in zip(gradient, dtypes, strict=True))


def transition(point: Any) -> Array:
    """Return ``A = diag(lam) V`` in float64."""
    return (point[0][:, None] * point[1]).astype(float, copy=False)
