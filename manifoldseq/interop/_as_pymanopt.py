"""The subclass of pymanopt's Manifold behind which one of ours works; importing this imports pymanopt."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .._result import Point
from ..linalg._polar import polar, symmetric
from ..linalg._tree import leaves, norm, tree_map
from ..manifolds._base import Manifold
from ..manifolds._positive import Positive
from ..manifolds._product import _Factored
from ..manifolds._simplex import Simplex
from ..manifolds._spd import SymmetricPositiveDefinite, _spectral
from ._pymanopt import pymanopt

pymanopt()
from pymanopt.manifolds.manifold import Manifold as TheirManifold  # noqa: E402


class TangentVector(list[np.ndarray]):
    """A tangent vector of a product as pymanopt's optimizers use it: a list with arithmetic that keeps dtypes."""

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

    Numbers are numpy's, as its own are: its optimizers divide by them where they are zero.
    """

    def __init__(self, manifold: Manifold, rng: np.random.Generator) -> None:
        self.tree = Tree(manifold.shape)
        # a number, not a tuple: of a tuple NelderMead's gradient comes back as a list without arithmetic
        super().__init__(repr(manifold), int(manifold.dim), len(list(leaves(self.tree.skeleton))))
        self.manifold = manifold
        self.rng = rng
        self._typical = _typical_distance(manifold)

    @property
    def typical_dist(self) -> float:
        return self._typical

    def to_theirs(self, x: Point) -> Any:
        """Return a point as pymanopt has it: the array, or the list of the arrays of all factors."""
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
        trees = self._ours(point, euclidean_gradient, euclidean_hessian, tangent_vector)
        return self._vector(self.manifold.hessian(*trees))

    def retraction(self, point: Any, tangent_vector: Any) -> Any:
        return self.to_theirs(self.manifold.retract(*self._ours(point, tangent_vector)))

    def exp(self, point: Any, tangent_vector: Any) -> Any:
        if not _has_exp(self.manifold):
            raise NotImplementedError(f"{self.manifold!r} has no exponential map: use retraction")
        return self.to_theirs(self.manifold.retract(*self._ours(point, tangent_vector), kind="exp"))

    def transport(self, point_a: Any, point_b: Any, tangent_vector_a: Any) -> Any:
        x, u = self._ours(point_a, tangent_vector_a)
        return self._vector(self.manifold.transport(x, self.to_ours(point_b), u))

    def log(self, point_a: Any, point_b: Any) -> Any:
        return self._vector(inverse_retraction(self.manifold, self.to_ours(point_a), self.to_ours(point_b)))

    def dist(self, point_a: Any, point_b: Any) -> np.float64:  # type: ignore[override]
        return np.float64(distance(self.manifold, self.to_ours(point_a), self.to_ours(point_b)))

    def pair_mean(self, point_a: Any, point_b: Any) -> Any:
        half = self.log(point_a, point_b) / 2
        return self.retraction(point_a, half)


class Tree:
    """Puts a sequence of arrays into the nested tuples of a shape."""

    def __init__(self, shape: Any) -> None:
        self.skeleton = _skeleton(shape)

    def __call__(self, parts: Sequence[np.ndarray]) -> Point:
        rest = iter(parts)
        return tree_map(lambda _: np.asarray(next(rest)), self.skeleton)


def _skeleton(shape: Any) -> Any:
    return tuple(_skeleton(part) for part in shape) if shape and isinstance(shape[0], tuple) else None


def _has_exp(manifold: Manifold) -> bool:
    factors = manifold.factors if isinstance(manifold, _Factored) else (manifold,)
    return all(_has_exp(f) if isinstance(f, _Factored) else "exp" in f.retractions for f in factors)


def _typical_distance(manifold: Manifold) -> float:
    """Return the size of a random point of embedded factors, the root of the dimension of the others."""
    if isinstance(manifold, _Factored):
        return sum(_typical_distance(factor) ** 2 for factor in manifold.factors) ** 0.5
    if manifold.metric == "embedded":
        return norm(manifold.random_point(np.random.default_rng(0)))
    return manifold.dim**0.5


def inverse_retraction(manifold: Manifold, x: Point, y: Point) -> Point:
    """Return a tangent vector at `x` that leads to `y`.

    On Positive, Simplex and SymmetricPositiveDefinite the logarithm. Elsewhere the projection of y − x, on embedded
    metrics the negative gradient of half the squared :func:`distance`; on a quotient y is turned to the representative
    nearest to x.
    """
    if isinstance(manifold, _Factored):
        return tuple(inverse_retraction(f, a, b) for f, a, b in zip(manifold.factors, x, y, strict=True))
    exact = _LOGARITHMS.get(type(manifold))
    if exact is not None:
        return exact(x, y).astype(x.dtype, copy=False)
    return manifold.project(x, _difference(manifold, x, y))


def distance(manifold: Manifold, x: Point, y: Point) -> float:
    """Return the geodesic distance where the logarithm is exact, elsewhere the Euclidean norm of y − x."""
    if isinstance(manifold, _Factored):
        squares = [distance(f, a, b) ** 2 for f, a, b in zip(manifold.factors, x, y, strict=True)]
        return sum(squares) ** 0.5
    if type(manifold) in _LOGARITHMS:
        u = inverse_retraction(manifold, x, y)
        return max(float(manifold.inner(x, u, u)), 0.0) ** 0.5
    return norm(_difference(manifold, x, y))


def _difference(manifold: Manifold, x: Point, y: Point) -> Point:
    return tree_map(np.subtract, y @ polar(y.T @ x) if manifold.quotient else y, x)


def _positive(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return x * np.log(y / x)


def _simplex(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Follow the great circle of √x, on the sphere of radius two in every row."""
    a, b = np.sqrt(x), np.sqrt(y)
    cosine = np.clip(np.sum(a * b, axis=-1, keepdims=True), -1, 1)
    return 2 * a * (b - cosine * a) / np.sinc(np.arccos(cosine) / np.pi)


def _positive_definite(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    root, inverse, _ = _spectral(x)
    w, V = np.linalg.eigh(symmetric(inverse @ y @ inverse))
    half = root @ V
    return symmetric((half * np.log(np.maximum(w, np.finfo(float).tiny))) @ half.T)


_LOGARITHMS = {Positive: _positive, Simplex: _simplex, SymmetricPositiveDefinite: _positive_definite}
