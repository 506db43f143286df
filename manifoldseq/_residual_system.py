"""Least-squares objectives on a manifold: which unknowns each residual depends on, values and normal equations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import splu

from ._result import Tree
from .execution import cached_property
from .linalg import dtype_of, freeze, leaves, tree_map, unflattener_of
from .losses import Graduated, Loss
from .manifolds import Euclidean, Frozen, Manifold, Power, Product, leaf_shapes
from .objectives import Objective, Residuals


def on_manifold(manifold: Manifold[Any], f: Objective) -> Objective:
    """Return a least-squares objective with its value and gradient on a manifold; others are returned unchanged."""
    given = f.residuals
    if given is None or (isinstance(given, System) and manifold in (given.manifold, given.manifold.frame)):
        return f
    system = System(manifold, given.blocks)
    return replace(f, value=system.value, value_and_gradient=system.value_and_gradient, residuals=system)


@dataclass(frozen=True)
class Family:
    """The points of a factor: the points of a power, or a single point."""

    name: str | None
    manifold: Manifold[Any]
    count: int
    single: bool
    free: np.ndarray

    @cached_property
    def ambient(self) -> int:
        return sum(int(np.prod(shape)) for shape in leaf_shapes(self.manifold.shape))

    def points(self, part: Tree) -> Tree:
        """Return the points with a leading axis."""
        return tree_map(lambda leaf: leaf[None], part) if self.single else part

    def basis(self, part: Tree) -> np.ndarray | None:
        """Return the bases (count, a, d) of the tangent spaces, or None for the identity."""
        return None if isinstance(self.manifold, Euclidean) else self.manifold.basis(self.points(part))


def _family(name: str | None, factor: Manifold[Any]) -> Family:
    inner = factor.manifold if isinstance(factor, Frozen) else factor
    single = not isinstance(inner, Power)
    count = 1 if single else inner.n
    free = np.full(count, not isinstance(factor, Frozen))
    if isinstance(inner, Power):
        free[list(inner.fixed)] = False
    return Family(name, inner if single else inner.manifold, count, single, free)


@dataclass(frozen=True, eq=False)
class System:
    """The residuals of an objective on a manifold.

    The unknowns are the coordinates of the tangent vectors of the points that are not fixed, ordered such that factors
    of the normal matrix stay sparse. The analysis is done once and shared by the copies of a system.
    """

    manifold: Manifold[Any]
    blocks: tuple[Residuals, ...]
    on_linearized: Callable[[], None] | None = None
    _shared: dict[str, Any] = field(default_factory=dict, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_shared": {}}

    @property
    def structure(self) -> Structure:
        if "structure" not in self._shared:
            self._shared["structure"] = Structure(self.manifold, self.blocks)
        return self._shared["structure"]

    def memo(self, key: str, make: Callable[[], Any]) -> Any:
        """Return the cached value of this structure for a key."""
        if key not in self._shared:
            self._shared[key] = make()
        return self._shared[key]

    def value(self, x: Tree, widened: float = 1.0) -> float:
        """Return ½ Σ ρ(‖rₖ‖²); the scales of graduated losses are multiplied by a factor."""
        total = 0.0
        for block, points, rows in zip(self.blocks, self.structure.gather(x), self.structure.rows, strict=True):
            r = block.value(points, rows)
            loss = _loss(block, widened)
            total += 0.5 * float(np.sum(loss(np.vecdot(r, r))[0]))
        return total

    def squares(self, x: Tree) -> list[np.ndarray]:
        """Return the squared norms of the weighted residuals, block by block."""
        gathered = zip(self.blocks, self.structure.gather(x), self.structure.rows, strict=True)
        return [np.vecdot(r := block.value(points, rows), r) for block, points, rows in gathered]

    def value_and_gradient(self, x: Tree) -> tuple[float, Tree]:
        """Return the value and a Euclidean gradient, the derivative by the entries of the points if it is known."""
        s, bases, total = self.structure, None, 0.0
        parts = [np.zeros((family.count, family.ambient)) for family in s.families]
        for block, slots, points, rows in zip(self.blocks, s.slots, s.gather(x), s.rows, strict=True):
            r, derivatives = block.linearize(points, rows)
            values, weight = block.loss(np.vecdot(r, r))
            total += 0.5 * float(np.sum(values))
            for (k, indices), J in zip(slots, derivatives, strict=True):
                family = s.families[k]
                g = (J.mT @ (weight[:, None] * r)[..., None])[..., 0]
                if g.shape[1] != family.ambient:
                    bases = s.bases(x) if bases is None else bases
                    B = bases[k]
                    assert B is not None
                    at = np.zeros(len(g), int) if indices is None else indices
                    tangent = (B[at] @ g[..., None])[..., 0]
                    g = _rows_of(family.manifold.euclidean_gradient(
                        tree_map(lambda leaf, at=at: leaf[at], family.points(s.parts(x)[k])), _trees(family, tangent)
                    ))  # fmt: skip
                if indices is None:
                    parts[k][0] += g.sum(axis=0)
                else:
                    np.add.at(parts[k], indices, g)
        return total, s.joined([_trees(f, part) for f, part in zip(s.families, parts, strict=True)], x)

    def linearize(self, x: Tree, widened: float = 1.0) -> Linearized:
        """Return value, gradient and the Gauss–Newton matrix with reweighted residuals at a point."""
        if self.on_linearized is not None:
            self.on_linearized()
        s, total, size = self.structure, 0.0, 0.0
        bases = s.bases(x)
        g, entries = np.zeros(s.columns + 1), []
        for block, slots, points, plan, rows in zip(self.blocks, s.slots, s.gather(x), s.plans, s.rows, strict=True):
            r, derivatives = block.linearize(points, rows)
            loss = _loss(block, widened)
            values, weight = loss(np.vecdot(r, r))
            total += 0.5 * float(np.sum(values))
            size += float(np.sum(weight * np.vecdot(r, r)))
            local = []
            for (k, indices), J in zip(slots, derivatives, strict=True):
                family, B = s.families[k], bases[k]
                if B is not None and J.shape[2] == family.ambient:
                    J = J @ (B if indices is None else B[indices])
                elif J.shape[2] != family.manifold.dim:
                    raise ValueError(
                        f"the jacobian of residuals has {J.shape[2]} columns for a point of {family.manifold!r}: "
                        f"return {family.ambient} columns (for the entries of the point) or {family.manifold.dim} "
                        "columns (for a basis of the tangent space)"
                    )
                local.append(J)
            weighted = [J * weight[:, None, None] for J in local]
            for (k, indices), J in zip(slots, weighted, strict=True):
                slope = (J.mT @ r[..., None])[..., 0]
                if indices is None:
                    slope = slope.sum(axis=0, keepdims=True)
                start = s.column[s.node(k, indices, len(slope))]
                at = np.where(start[:, None] >= 0, start[:, None] + np.arange(slope.shape[1]), s.columns)
                g += np.bincount(at.ravel(), slope.ravel(), s.columns + 1)
            for a, b, keep, lower in plan:
                if slots[a][1] is None and slots[b][1] is None:  # one point each: one product for all residuals
                    A, C = (J.reshape(-1, J.shape[2]) for J in (weighted[a], local[b]))
                    H = (A.T @ C)[None]
                else:
                    H = weighted[a].mT @ local[b]
                H = H if keep is None else H[keep]
                entries.append(H.ravel() if lower is None else H[lower])
        # the sum of nothing has whole numbers
        data = np.bincount(s.where, np.concatenate(entries), s.entries).astype(float, copy=False)
        # ‖J‖‖r‖ bounds the terms of the gradient, whose rounding errors are a share of it
        bound = float(np.sum(data[s.diagonal])) ** 0.5 * size**0.5
        return Linearized(total, g[:-1], data, bases, bound)

    def step(self, x: Tree, bases: list[np.ndarray | None], delta: np.ndarray) -> Tree:
        """Return the ambient tangent vector with these coordinates, in the dtype of the point."""
        s, parts = self.structure, []
        for k, (family, B) in enumerate(zip(s.families, bases, strict=True)):
            start = s.column[s.first[k] : s.first[k] + family.count]
            vectors = np.zeros((family.count, family.manifold.dim))
            moving = start >= 0
            vectors[moving] = delta[start[moving, None] + np.arange(family.manifold.dim)]
            parts.append(_trees(family, vectors if B is None else (B @ vectors[..., None])[..., 0]))
        return s.joined(parts, x)


@dataclass
class Linearized:
    """A least-squares objective at a point: its value, and its gradient and Gauss–Newton matrix in the unknowns."""

    fun: float
    gradient: np.ndarray
    data: np.ndarray
    bases: list[np.ndarray | None]
    bound: float


class Structure:
    """The unknowns of a system, the pattern of its normal matrix, and the positions of products of Jacobians.

    Attributes
    ----------
    columns : int
        The number of unknowns.
    column : ndarray
        The first unknown of each point, −1 for a fixed point.
    predicted_work : float
        Number of operations of a Cholesky factorization in this order, from the fill of the graph of the points.
    indices, indptr : ndarray
        The lower triangle of the normal matrix, by columns; the first entry of each is the diagonal.
    """

    def __init__(self, manifold: Manifold[Any], blocks: tuple[Residuals, ...]) -> None:
        self.manifold, self.whole = manifold, blocks[0].on is None
        self.product = isinstance(manifold, Product) and not self.whole
        named = zip(manifold.names or (), manifold.factors, strict=True) if self.product else [(None, manifold)]  # type: ignore[attr-defined]
        if self.whole:
            self.families = [Family(None, manifold, 1, True, np.ones(1, bool))]
        else:
            self.families = [_family(name, factor) for name, factor in named]
        self.first = np.cumsum([0, *[family.count for family in self.families[:-1]]])
        self.slots = [self._slots(block) for block in blocks]
        self.rows = [self._count(slots) for slots in self.slots]
        if not self.whole and not any(self.rows):
            raise ValueError(
                "there are no residuals: every on=… has an empty array of indices. Pass at least one index"
            )
        self._number()
        self._pattern()

    def _slots(self, block: Residuals) -> list[tuple[int, np.ndarray | None]]:
        if block.on is None:
            return [(0, None)]
        names, made = [family.name for family in self.families], []
        for name, indices in block.on:
            if name not in names:
                known = (
                    f"has the factors {', '.join(map(repr, names))}"
                    if self.product
                    else "is not a product: pass indices"
                )
                raise ValueError(f"residuals are on the factor {name!r}, but {self.manifold!r} {known}")
            k = names.index(name)
            family = self.families[k]
            if (indices is None) != family.single:
                raise ValueError(
                    f"on=… has indices, but there is a single point of {family.manifold!r}: pass on=… without indices"
                    if family.single
                    else f"on=… has no indices for the points of {family.manifold!r}: pass indices"
                )
            if indices is not None and len(indices) and not 0 <= indices.min() <= indices.max() < family.count:
                raise ValueError(
                    f"residuals have indices from {indices.min()} to {indices.max()}, but the points have indices from "
                    f"0 to {family.count - 1}"
                )
            made.append((k, indices))
        return made

    def _count(self, slots: list[tuple[int, np.ndarray | None]]) -> int | None:
        counts = {len(indices) for _, indices in slots if indices is not None}
        if len(counts) > 1:
            raise ValueError(
                f"the slots of residuals have different numbers of indices, {sorted(counts)}: pass arrays of "
                "equal length"
            )
        for k, (one, indices) in enumerate(slots):
            for other, others in slots[:k]:
                if one == other and (indices is None or np.any(indices == others)):
                    raise ValueError("a residual has the same point in two slots: pass the point in one slot only")
        return counts.pop() if counts else None if self.whole else 1

    def node(self, k: int, indices: np.ndarray | None, rows: int) -> np.ndarray:
        """Return the numbers of the points of a slot."""
        return self.first[k] + (np.zeros(rows, np.intp) if indices is None else indices)

    def nodes(self, slots: list[tuple[int, np.ndarray | None]], rows: int | None) -> list[np.ndarray]:
        return [self.node(k, indices, 1 if rows is None else rows) for k, indices in slots]

    def pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the pairs of different points that share a residual and are not fixed."""
        free = np.concatenate([family.free for family in self.families])
        left, right = [np.zeros(0, np.intp)], [np.zeros(0, np.intp)]
        for slots, rows in zip(self.slots, self.rows, strict=True):
            nodes = self.nodes(slots, rows)
            for a in range(len(nodes)):
                for b in range(a + 1, len(nodes)):
                    keep = free[nodes[a]] & free[nodes[b]] & (nodes[a] != nodes[b])
                    left.append(nodes[a][keep])
                    right.append(nodes[b][keep])
        return np.concatenate(left), np.concatenate(right)

    def _number(self) -> None:
        free = np.concatenate([family.free for family in self.families])
        self.dims = np.repeat([family.manifold.dim for family in self.families], [f.count for f in self.families])
        free &= self.dims > 0
        total, (a, b) = len(free), self.pairs()
        order = np.arange(total)
        if len(a):
            # minimum degree on the graph of the points, not of their coordinates: the permutation of a SuperLU of it
            graph = sp.csc_matrix((np.ones(2 * len(a)), (np.r_[a, b], np.r_[b, a])), (total, total))
            graph.data[:] = -1.0
            degree = -np.asarray(graph.sum(axis=1)).ravel()
            lu = splu(
                (graph + sp.diags_array(degree + 1.0)).tocsc(),
                permc_spec="MMD_AT_PLUS_A",
                diag_pivot_thresh=0.0,
                options={"SymmetricMode": True},
            )
            order = np.argsort(lu.perm_c)
            counts = np.diff(lu.L.indptr)
        else:
            counts = np.ones(total)
        largest = float(self.dims.max(initial=1))
        self.predicted_work = float(np.sum(np.square(counts, dtype=float))) * largest**3
        start = np.cumsum(np.r_[0, np.where(free, self.dims, 0)[order]])
        self.columns, self.order = int(start[-1]), order[free[order]]
        self.column = np.empty(total, np.intp)
        self.column[order] = start[:-1]
        self.column[~free] = -1

    def _pattern(self) -> None:
        N = self.columns
        self.plans: list[list[tuple[int, int, np.ndarray | None, np.ndarray | None]]] = []
        keys = []
        for slots, rows in zip(self.slots, self.rows, strict=True):
            nodes, plan = self.nodes(slots, rows), []
            for a in range(len(slots)):
                for b in range(a, len(slots)):
                    both = slots[a][1] is None and slots[b][1] is None
                    starts = [self.column[nodes[k][:1] if both else nodes[k]] for k in (a, b)]
                    da, db = (self.families[slots[k][0]].manifold.dim for k in (a, b))
                    keep = (starts[0] >= 0) & (starts[1] >= 0)
                    i = starts[0][keep, None, None] + np.arange(da)[:, None]
                    j = starts[1][keep, None, None] + np.arange(db)
                    i, j = np.broadcast_arrays(i, j)
                    key = np.minimum(i, j) * N + np.maximum(i, j)
                    # a product of two different slots at one point counts in both triangles, of which one is stored
                    lower = i >= j if a == b else None
                    keys.append(key.ravel() if lower is None else key[lower])
                    plan.append((a, b, None if keep.all() else keep, lower))
            self.plans.append(plan)
        keys.append(np.arange(N) * (N + 1))
        key, inverse = np.unique(np.concatenate(keys), return_inverse=True)
        self.entries = len(key)
        self.indices, self.indptr = key % max(N, 1), np.searchsorted(key // max(N, 1), np.arange(N + 1))
        self.diagonal = self.indptr[:-1]
        self.where = inverse[: len(inverse) - N]

    def parts(self, x: Tree) -> Tree:
        return x if self.product else (x,)

    def gather(self, x: Tree) -> list[list[Tree]]:
        """Return the points of the slots of every block with a leading axis, or the whole point without it."""
        if self.whole:
            return [[x]] * len(self.slots)
        made = []
        for slots, rows in zip(self.slots, self.rows, strict=True):
            points = []
            for k, indices in slots:
                part = self.parts(x)[k]
                if indices is None:
                    count = 1 if rows is None else rows
                    part = tree_map(lambda leaf, n=count: np.broadcast_to(leaf, (n, *leaf.shape)), part)
                else:
                    part = tree_map(lambda leaf, at=indices: leaf[at], part)
                points.append(freeze(part))
            made.append(points)
        return made

    def bases(self, x: Tree) -> list[np.ndarray | None]:
        return [family.basis(part) for family, part in zip(self.families, self.parts(x), strict=True)]

    def joined(self, parts: list[Tree], x: Tree) -> Tree:
        """Return a vector at `x` from the vectors of the families, in the dtype of `x`."""
        tree = tuple(parts) if self.product else parts[0]
        dtype = dtype_of(x)
        return tree_map(lambda leaf: leaf.astype(dtype, copy=False), tree)


def _loss(block: Residuals, widened: float) -> Loss:
    return block.loss.widened(widened) if isinstance(block.loss, Graduated) else block.loss


def _trees(family: Family, rows: np.ndarray) -> Tree:
    """Return rows (n, a) of entries as the arrays of n points, without the axis for a single point."""
    cuts, stop = [], 0
    for shape in leaf_shapes(family.manifold.shape):
        start, stop = stop, stop + int(np.prod(shape))
        cuts.append(rows[:, start:stop].reshape(len(rows), *shape))
    arrays = iter([cut[0] for cut in cuts] if family.single else cuts)
    return tree_map(lambda _: next(arrays), unflattener_of(family.manifold.shape)(np.zeros(family.ambient)))


def _rows_of(tree: Tree) -> np.ndarray:
    return np.concatenate([np.reshape(leaf, (len(leaf), -1)) for leaf in leaves(tree)], axis=1)
