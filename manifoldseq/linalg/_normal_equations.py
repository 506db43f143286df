"""Solutions of damped normal equations: multifrontal Cholesky, SuperLU, or conjugate gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import splu

from ._multifrontal import Multifrontal

LINEAR = ("auto", "multifrontal", "superlu", "cg")

WORK = 1e4
"""Operations of a factorization for each entry of the matrix from which conjugate gradients are used. Pose graphs
cost up to 4e3, a random graph of 1,000 rotations 2.5e4 (`python -m benchmarks.engine least_squares`)."""

FRONT, RATE, SLOW = 40e-6, 4e9, 1e9
"""Seconds of Python per dense front, and operations per second in fronts and in SuperLU."""

Solve = Callable[[np.ndarray], np.ndarray]


class Method(Protocol):
    """Solves systems with one pattern."""

    def factor(self, data: np.ndarray) -> Solve | None:
        """Return the solution of the system with these entries of the lower triangle; None if it is not positive."""


class Pattern(Protocol):
    """The pattern of a normal matrix: unknowns of points, in an order of elimination with little fill."""

    columns: int
    entries: int
    column: np.ndarray
    order: np.ndarray
    dims: np.ndarray
    indices: np.ndarray
    indptr: np.ndarray
    predicted_work: float

    def pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the pairs of points that share a residual."""
        ...


def method_for(s: Pattern, linear: str) -> Method:
    """Return the method with a name; "auto" is the method with the smallest predicted time."""
    if linear == "auto" and s.predicted_work > WORK * s.entries:
        linear = "cg"
    if linear == "cg":
        return BlockCG(s)
    if linear == "superlu":
        return SuperLU(s)
    direct = Cholesky(s)
    fronts, flops = len(direct.analysis.fronts), direct.analysis.flops
    if linear == "auto" and FRONT * fronts + flops / RATE > flops / SLOW + 1e-7 * direct.analysis.fill:
        return SuperLU(s)
    return direct


class Cholesky:
    """The multifrontal factorization of :class:`manifoldseq.linalg.Multifrontal`."""

    def __init__(self, s: Pattern) -> None:
        rank = np.full(len(s.column), -1)
        rank[s.order] = np.arange(len(s.order))
        a, b = (rank[nodes] for nodes in s.pairs())
        self.analysis = Multifrontal(s.dims[s.order], np.minimum(a, b), np.maximum(a, b), s.indices, s.indptr)

    def factor(self, data: np.ndarray) -> Solve | None:
        factor = self.analysis.factor(data)
        return None if factor is None else factor.solve


class _Full:
    """The whole symmetric matrix from its lower triangle."""

    def __init__(self, s: Pattern) -> None:
        shape = (s.columns, s.columns)
        numbered = sp.csc_array((np.arange(1.0, s.entries + 1), s.indices, s.indptr), shape)
        whole = (numbered + sp.tril(numbered, -1).T).tocsc()
        whole.sort_indices()
        self.source, self.indices, self.indptr, self.shape = (
            whole.data.astype(np.intp) - 1,
            whole.indices,
            whole.indptr,
            shape,
        )

    def matrix(self, data: np.ndarray, kind: Any) -> Any:
        return kind((data[self.source], self.indices, self.indptr), self.shape)


class SuperLU:
    """scipy's SuperLU in the order of the points, which is faster for many tiny fronts."""

    def __init__(self, s: Pattern) -> None:
        self.full = _Full(s)

    def factor(self, data: np.ndarray) -> Solve | None:
        options = {"SymmetricMode": True}
        try:
            lu = splu(
                self.full.matrix(data, sp.csc_matrix), permc_spec="NATURAL", diag_pivot_thresh=0.0, relax=16,
                panel_size=8, options=options,
            )  # fmt: skip
        except RuntimeError:  # exactly singular
            return None
        return lu.solve


class BlockCG:
    """Conjugate gradients, preconditioned by the inverse blocks of single points."""

    def __init__(self, s: Pattern, rtol: float = 1e-3, most: int = 500) -> None:
        self.full, self.rtol, self.most = _Full(s), rtol, most
        key = np.repeat(np.arange(s.columns), np.diff(s.indptr)) * s.columns + s.indices
        self.groups = []
        for d in np.unique(s.dims[s.order]):
            start = s.column[s.order[s.dims[s.order] == d]]
            own = start[:, None] + np.arange(d)
            low, high = np.minimum(own[:, :, None], own[:, None]), np.maximum(own[:, :, None], own[:, None])
            wanted = low * s.columns + high
            places = np.minimum(np.searchsorted(key, wanted), len(key) - 1)
            self.groups.append(
                (own, places, key[places] == wanted)
            )  # the block of a point without residuals is diagonal

    def factor(self, data: np.ndarray) -> Solve | None:
        A = self.full.matrix(data, sp.csr_array)
        try:
            inverses = [(own, np.linalg.inv(np.where(there, data[places], 0.0))) for own, places, there in self.groups]
        except np.linalg.LinAlgError:
            return None

        def precondition(r: np.ndarray) -> np.ndarray:
            z = np.empty_like(r)
            for own, inverse in inverses:
                z[own] = (inverse @ r[own][..., None])[..., 0]
            return z

        def solve(rhs: np.ndarray) -> np.ndarray:
            x, r = np.zeros_like(rhs), rhs.copy()
            z = precondition(r)
            p, rz, end = z, float(r @ z), self.rtol * float(np.linalg.norm(rhs))
            for _ in range(self.most):
                if rz <= 0 or np.linalg.norm(r) <= end:
                    break
                Ap = A @ p
                alpha = rz / float(p @ Ap)
                x += alpha * p
                r -= alpha * Ap
                z = precondition(r)
                new = float(r @ z)
                p, rz = z + (new / rz) * p, new
            return x

        return solve
