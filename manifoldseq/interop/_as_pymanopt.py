"""The subclass of pymanopt's Manifold that wraps a manifold; importing this module imports pymanopt."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .._result import Point
from ..linalg import leaves, norm, tree_map
from ..manifolds import Factored, Manifold, Power, Stiefel
from ._pymanopt import pymanopt

pymanopt()
from pymanopt.manifolds.manifold import Manifold as TheirManifold  # noqa: E402


class TangentVector(list[np.ndarray]):
    """A tangent vector of a product for pymanopt's optimizers: a list with arithmetic that keeps dtypes."""

    __array_ufunc__ = None  # a numpy scalar on the left leaves the product to us

    def __add__(self, other: Sequence[np.ndarray]) -> TangentVector:  # type: ignore[override]
        return TangentVector(a + b for a, b in zip(self, other, strict=True))

    def __sub__(self, other: Sequence[np.ndarray]) -> TangentVector:
        return TangentVector(a - b for a, b in zip(self, other, strict=True))

    def __mul__(self, factor: Any) -> TangentVector:  # type: ignore[override]
        return TangentVector(float(factor) * a for a in self)

    __rmul__ = __mul__

    def __truediv__(self, factor: Any) -> TangentVector:
        return TangentVector(a / float(factor) for a in self)

    def __neg__(self) -> TangentVector:
        return TangentVector(-a for a in self)


class OurManifold(TheirManifold):
    """A manifold of ours with the methods that pymanopt calls; made by ``ms.to_pymanopt``.

    Numbers are numpy scalars as in pymanopt, whose optimizers may divide by zero.
    """

    def __init__(self, manifold: Manifold, rng: np.random.Generator) -> None:
        self.tree = Tree(manifold.shape)
        # a number, not a tuple: of a tuple NelderMead's gradient comes back as a list without arithmetic
        super().__init__(repr(manifold), int(manifold.dim), len(list(leaves(self.tree.skeleton))))
        self.manifold = manifold
        self.rng = rng
        self.chords = False  # in place of logarithms that are iterations, for searches that take thousands
        self._typical = _typical_distance(manifold)

    @property
    def typical_dist(self) -> float:
        return self._typical

    def to_theirs(self, x: Point) -> Any:
        """Return a point in the form of pymanopt: an array, or the list of the arrays of all factors."""
        parts = list(leaves(x))
        return parts if len(parts) > 1 else parts[0]

    def to_ours(self, point: Any) -> Point:
        """Return the tree of a point of pymanopt."""
        return self.tree(point if isinstance(point, list | tuple) else (point,))

    def _vector(self, u: Point) -> Any:
        parts = TangentVector(leaves(u))
        return parts if len(parts) > 1 else parts[0]

    def _ours(self, point: Any, *vectors: Any) -> tuple[Point, ...]:
        """Return the trees of a point and of vectors at it, in its dtype."""
        x = self.to_ours(point)
        at = (tree_map(lambda leaf, v: np.asarray(v, dtype=leaf.dtype), x, self.to_ours(u)) for u in vectors)
        return x, *at

    def inner_product(self, point: Any, tangent_vector_a: Any, tangent_vector_b: Any) -> np.float64:
        return np.float64(self.manifold.inner(*self._ours(point, tangent_vector_a, tangent_vector_b)))

    def norm(self, point: Any, tangent_vector: Any) -> np.float64:  # type: ignore[override]  # theirs is inferred as None
        x, u = self._ours(point, tangent_vector)
        return np.sqrt(np.float64(max(self.manifold.inner(x, u, u), 0.0)))

    def projection(self, point: Any, vector: Any) -> Any:
        return self._vector(self.manifold.project(*self._ours(point, vector)))

    to_tangent_space = projection

    def random_point(self) -> Any:
        return self.to_theirs(self.manifold.random_point(self.rng))

    def random_tangent_vector(self, point: Any) -> Any:
        u = self._vector(self.manifold.random_tangent(self.to_ours(point), self.rng))
        length = self.norm(point, u)
        return u / length if length > 0 else u

    def zero_vector(self, point: Any) -> Any:
        return self._vector(tree_map(np.zeros_like, self.to_ours(point)))

    def euclidean_to_riemannian_gradient(self, point: Any, euclidean_gradient: Any) -> Any:
        return self._vector(self.manifold.gradient(*self._ours(point, euclidean_gradient)))

    def euclidean_to_riemannian_hessian(
        self, point: Any, euclidean_gradient: Any, euclidean_hessian: Any, tangent_vector: Any
    ) -> Any:
        if self.manifold.hessian is None:
            raise NotImplementedError(f"{self.manifold!r} has no Hessian: use an optimizer without one")
        trees = self._ours(point, euclidean_gradient, euclidean_hessian, tangent_vector)
        return self._vector(self.manifold.hessian(*trees))

    def retraction(self, point: Any, tangent_vector: Any) -> Any:
        return self.to_theirs(self.manifold.retract(*self._ours(point, tangent_vector)))

    def exp(self, point: Any, tangent_vector: Any) -> Any:
        if self.manifold.exp is None:
            raise NotImplementedError(f"{self.manifold!r} has no exponential map: use retraction")
        return self.to_theirs(self.manifold.exp(*self._ours(point, tangent_vector)))

    def transport(self, point_a: Any, point_b: Any, tangent_vector_a: Any) -> Any:
        x, u = self._ours(point_a, tangent_vector_a)
        return self._vector(self.manifold.transport(x, self.to_ours(point_b), u))

    def log(self, point_a: Any, point_b: Any) -> Any:
        return self._vector(_to_first_order(self.manifold, self.to_ours(point_a), self.to_ours(point_b), self.chords))

    def dist(self, point_a: Any, point_b: Any) -> np.float64:  # type: ignore[override]
        return np.float64(_distance(self.manifold, self.to_ours(point_a), self.to_ours(point_b), self.chords))

    def pair_mean(self, point_a: Any, point_b: Any) -> Any:
        half = self.log(point_a, point_b) / 2
        return self.retraction(point_a, half) if self.manifold.exp is None else self.exp(point_a, half)


class Tree:
    """Converts a sequence of arrays to the nested tuples of a shape."""

    def __init__(self, shape: Any) -> None:
        self.skeleton = _skeleton(shape)

    def __call__(self, parts: Sequence[np.ndarray]) -> Point:
        rest = iter(parts)
        return tree_map(lambda _: np.asarray(next(rest)), self.skeleton)


def _skeleton(shape: Any) -> Any:
    return tuple(_skeleton(part) for part in shape) if shape and isinstance(shape[0], tuple) else None


def _to_first_order(manifold: Manifold, x: Any, y: Any, chords: bool) -> Any:
    """Return the logarithm of `y` or, if it is unknown, ``y − x`` as a tangent vector at `x`."""
    if isinstance(manifold, Factored):
        return tuple(_to_first_order(f, a, b, chords) for f, a, b in zip(manifold.factors, x, y, strict=True))
    chord = manifold.project(x, tree_map(np.subtract, y, x))
    if manifold.log is None or (chords and _iterates(manifold)):
        return chord
    return tree_map(lambda u, v: np.where(np.isnan(u), v, u), manifold.log(x, y), chord)


def _iterates(manifold: Manifold) -> bool:
    """Return whether the logarithm is an iteration, NaN beyond a radius."""
    manifold = manifold.manifold if isinstance(manifold, Power) else manifold
    return isinstance(manifold, Stiefel) and manifold.n > manifold.p > 1


def _distance(manifold: Manifold, x: Any, y: Any, chords: bool) -> float:
    """Return the distance or, if it is unknown, the Euclidean distance, whose half square has the gradient −log."""
    if isinstance(manifold, Factored):
        return math.hypot(*(_distance(f, a, b, chords) for f, a, b in zip(manifold.factors, x, y, strict=True)))
    dist = None if chords and _iterates(manifold) else manifold.dist
    length = np.nan if dist is None else float(dist(x, y))
    if np.isnan(length) and isinstance(manifold, Power):
        rows = ([tree_map(lambda leaf, k=k: leaf[k], tree) for tree in (x, y)] for k in range(manifold.n))
        return math.hypot(*(_distance(manifold.manifold, a, b, chords) for a, b in rows))
    return norm(tree_map(np.subtract, y, x)) if np.isnan(length) else length


def _typical_distance(manifold: Manifold) -> float:
    """Return the typical distance or, if it is unknown, the size of a random point or the root of the dimension."""
    if manifold.typical_distance is not None:
        return manifold.typical_distance
    if isinstance(manifold, Factored):
        return math.hypot(*map(_typical_distance, manifold.factors))
    if manifold.metric == "embedded":
        return norm(manifold.random_point(np.random.default_rng(0)))
    return manifold.dim**0.5
