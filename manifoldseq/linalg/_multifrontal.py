"""A multifrontal Cholesky factorization in numpy and LAPACK: dense fronts over groups of points, analysed once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import get_blas_funcs, get_lapack_funcs

_dsyrk, _dtrsm, _dtrsv = get_blas_funcs(("syrk", "trsm", "trsv"), dtype=np.float64)
(_dpotrf,) = get_lapack_funcs(("potrf",), dtype=np.float64)

RELAX, SMALL, WIDEST = 0.25, 12, 64
"""A child joins its parent if at most this share of the front are zeros (three times it in fronts of few points), and
if the front has at most so many points unless no zero is added (sphere of 2,500 poses: 220 fronts)."""


@dataclass(frozen=True)
class _Front:
    """One dense front: `pivots` columns from `start`, then the rows `below`; `entries` go to `places` in it."""

    start: int
    pivots: int
    size: int
    below: np.ndarray
    entries: slice
    places: np.ndarray
    children: tuple[tuple[int, np.ndarray], ...]


class Multifrontal:
    """The analysis of a symmetric matrix of blocks, one block row per point, numbered in the order of elimination.

    Parameters
    ----------
    dims : ndarray of shape (N,)
        The number of unknowns of each point.
    low, high : ndarray
        The pairs of points, ``low < high``, whose block is not zero.
    indices, indptr : ndarray
        The lower triangle of the matrix by columns, in the order of the points.

    Attributes
    ----------
    flops : float
        Number of operations of one factorization.
    fronts : list
    fill : float
        Number of entries of the factor.
    """

    def __init__(
        self, dims: np.ndarray, low: np.ndarray, high: np.ndarray, indices: np.ndarray, indptr: np.ndarray
    ) -> None:
        self.n = len(indptr) - 1
        structure, children = _structure(len(dims), low, high)
        members, kept, order = _groups(structure, children)
        # scalar unknowns, renumbered so that those of a group are contiguous
        sequence = np.concatenate([members[j] for j in order]) if order else np.zeros(0, np.intp)
        position = np.empty(len(dims), np.intp)
        position[sequence] = np.arange(len(dims))
        offset, given = np.cumsum(np.r_[0, dims[sequence]]), np.cumsum(np.r_[0, dims])
        self.permutation = np.empty(self.n, np.intp)
        for d in np.unique(dims):
            k = np.flatnonzero(dims == d)
            self.permutation[given[k][:, None] + np.arange(d)] = offset[position[k]][:, None] + np.arange(d)
        a, b = self.permutation[indices], self.permutation[np.repeat(np.arange(self.n), np.diff(indptr))]
        column, row = np.minimum(a, b), np.maximum(a, b)
        self.take = np.lexsort((row, column))
        column, row = column[self.take], row[self.take]
        bounds = np.searchsorted(column, np.arange(self.n + 1))
        where = {j: g for g, j in enumerate(order)}
        self.fronts: list[_Front] = []
        self.flops = self.fill = 0.0
        for j in order:
            points, rest = position[members[j]], np.sort(position[structure[j]])
            start, stop = int(offset[points[0]]), int(offset[points[-1] + 1])
            below = np.concatenate([np.arange(int(offset[q]), int(offset[q + 1])) for q in rest]) if len(rest) else rest
            p, q = stop - start, len(below)

            def local(rows: np.ndarray, start: int = start, stop: int = stop, below: np.ndarray = below) -> np.ndarray:
                return np.where(rows < stop, rows - start, stop - start + np.searchsorted(below, rows))

            entries = slice(int(bounds[start]), int(bounds[stop]))
            places = local(row[entries]) + (column[entries] - start) * (p + q)  # column-major
            inner = tuple([(where[k], local(self.fronts[where[k]].below)) for k in kept[j]])
            self.fronts.append(_Front(start, p, p + q, below, entries, places, inner))
            self.flops += p**3 / 3 + p * p * q + p * q * q
            self.fill += p * (p + 1) / 2 + p * q

    def factor(self, data: np.ndarray) -> Factor | None:
        """Return the factor of the matrix with these entries of the lower triangle; None if it is not positive."""
        entries, updates, blocks = data[self.take], [], []
        for front in self.fronts:
            p, n = front.pivots, front.size
            F = np.zeros((n, n), order="F")
            F.ravel(order="K")[front.places] = entries[front.entries]
            for k, rows in front.children:
                F[rows[:, None], rows] += updates[k]
                updates[k] = None
            L, info = _dpotrf(F[:p, :p], lower=1, clean=0)
            if info:
                return None
            if n == p:
                blocks.append((L, None))
                updates.append(None)
                continue
            below = _dtrsm(1.0, L, F[p:, :p], side=1, lower=1, trans_a=1)
            blocks.append((L, below))
            updates.append(_dsyrk(-1.0, below, beta=1.0, c=F[p:, p:], lower=1))
        return Factor(self, blocks)


@dataclass(frozen=True, eq=False)
class Factor:
    """A Cholesky factor, by the fronts of its analysis."""

    analysis: Multifrontal
    blocks: list[tuple[np.ndarray, np.ndarray | None]]

    def solve(self, rhs: np.ndarray) -> np.ndarray:
        """Return the solution for one right-hand side."""
        x = np.empty(len(rhs))
        x[self.analysis.permutation] = rhs
        pairs = list(zip(self.analysis.fronts, self.blocks, strict=True))
        for front, (L, below) in pairs:
            own = slice(front.start, front.start + front.pivots)
            x[own] = y = _dtrsv(L, x[own], lower=1)
            if below is not None:
                x[front.below] -= below @ y
        for front, (L, below) in reversed(pairs):
            own = slice(front.start, front.start + front.pivots)
            y = x[own] if below is None else x[own] - below.T @ x[front.below]
            x[own] = _dtrsv(L, y, lower=1, trans=1)
        return x[self.analysis.permutation]


def _structure(n: int, low: np.ndarray, high: np.ndarray) -> tuple[list[np.ndarray], list[list[int]]]:
    """Return the rows below the diagonal of each column of the factor, and the children in the elimination tree."""
    key = np.unique(low * n + high)
    column, row = key // max(n, 1), key % max(n, 1)
    start = np.searchsorted(column, np.arange(n + 1))
    structure: list[np.ndarray] = []
    children: list[list[int]] = [[] for _ in range(n)]
    for j in range(n):  # a column has its own rows, and those of its children without their first
        parts = [row[start[j] : start[j + 1]], *[structure[k][1:] for k in children[j]]]
        rows = parts[0] if len(parts) == 1 else np.unique(np.concatenate(parts))
        structure.append(rows)
        if len(rows):
            children[rows[0]].append(j)
    return structure, children


def _groups(structure: list[np.ndarray], children: list[list[int]]) -> tuple[dict[int, np.ndarray], Any, list[int]]:
    """Return the points of each front, the fronts below it and a postorder; a front has the name of its last point."""
    n = len(structure)
    sizes = [len(rows) for rows in structure]
    members: list[list[int] | None] = [[j] for j in range(n)]
    kept, zeros = [list(below) for below in children], [0.0] * n
    for j in range(n):
        own: list[int] = members[j] or []
        left = []
        for k in sorted(kept[j], key=lambda k: -sizes[k]):
            child: list[int] = members[k] or []
            total = len(child) + len(own)
            extra = len(child) * (len(own) + sizes[j] - sizes[k]) + zeros[k]
            area = total * (total + 1) / 2 + total * sizes[j]
            share = RELAX if total > SMALL else 3 * RELAX
            if extra + zeros[j] <= share * area and (extra == 0 or total <= WIDEST):
                own = child + own
                zeros[j] += extra
                left += kept[k]
                members[k] = None
            else:
                left.append(k)
        members[j], kept[j] = own, left
    inner = {k for below in (kept[j] for j in range(n) if members[j] is not None) for k in below}
    order, stack = [], [(j, False) for j in reversed(range(n)) if members[j] is not None and j not in inner]
    while stack:
        j, done = stack.pop()
        if done:
            order.append(j)
            continue
        stack.append((j, True))
        stack += [(k, False) for k in kept[j]]
    return {j: np.sort(points) for j, points in enumerate(members) if points is not None}, kept, order
