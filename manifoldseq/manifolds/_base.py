"""The base class of manifolds."""

from __future__ import annotations

import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from numbers import Real
from types import FunctionType
from typing import TYPE_CHECKING, Any, ClassVar, Generic

import numpy as np

from .._result import Point, Tree
from ..linalg import leaves, norm, tree_map
from ._differentiable import differentiable, differentiable_method, differentiable_property


class Manifold(ABC, Generic[Point]):
    """A set of points with tangent spaces, an inner product and retractions.

    Points are arrays, or tuples of arrays in factor order; tangent vectors have the same structure, in ambient
    coordinates. Every operation broadcasts over leading axes. The methods with a body are correct for a manifold with
    the metric of the surrounding space (``metric = "embedded"``). The other methods are abstract.

    Attributes
    ----------
    dim : int
        Dimension.
    shape : tuple
        Shape of a point, or a tuple of the shapes of its factors.
    names : tuple of str or None
        Names of the factors of a product.
    metric : str
        ``"embedded"`` means that ``inner`` is the dot product of flat vectors.
    bounded : bool
        Whether some coordinates have bounds that can be active.
    components : int
        Number of connected components.
    retractions : tuple of str
        The kinds of ``retract``, the default first.
    second_order : tuple of str
        The retractions that agree with the geodesic to second order: the acceleration of their curves at the start is
        zero in this metric.
    quotient : bool
        Whether X and X Q are the same point for every orthogonal Q. Objectives must have the same value at both.
    one_base : bool
        Whether ``inner``, ``project`` and ``transport`` also accept one point and many vectors: the leading axes of
        points broadcast with the leading axes of vectors, as in numpy. Otherwise, callers repeat the point.
    hessian : callable or None
        ``(x, egrad, ehess, u) -> vector``, the Riemannian Hessian along `u` from the Euclidean gradient and Hessian
        product. If it is None, solvers use differences of gradients.
    log : callable or None
        ``(x, y) -> u``, the tangent vector at `x` of the shortest geodesic to `y`, ``exp(x, u) = y``. If there are
        several shortest geodesics, the tangent vector of one of them is returned. The result is NaN if there is no
        geodesic, for example if `y` is in another component, or if the computation finds none.
    parallel_transport : callable or None
        ``(x, y, u) -> v``, the parallel transport of a tangent vector along that geodesic to `y`, which preserves inner
        products.
    typical_distance : float or None
        The order of magnitude of distances between points. The trust regions of pymanopt compute their radius from it.
    """

    names: tuple[str, ...] | None = None
    metric: str = "embedded"
    bounded: bool = False
    components: int = 1
    retractions: ClassVar[tuple[str, ...]] = ()
    second_order: ClassVar[tuple[str, ...]] = ()
    quotient: ClassVar[bool] = False
    one_base: bool = False
    hessian: Callable[..., Any] | None = None
    log: Callable[..., Any] | None = None
    parallel_transport: Callable[..., Any] | None = None
    typical_distance: float | None = None
    _example: ClassVar[tuple[Any, ...]] = ()
    """The arguments of `example`."""

    def __init_subclass__(cls, **options: Any) -> None:
        """Extend ``exp``, ``log`` and ``dist`` of the class to arrays of autograd and jax."""
        super().__init_subclass__(**options)
        for name in ("exp", "log", "dist"):
            own = cls.__dict__.get(name)
            if isinstance(own, property) and own.fget is not None:
                setattr(cls, name, property(differentiable_property(name, own.fget), doc=own.__doc__))
            elif isinstance(own, FunctionType):
                setattr(cls, name, differentiable_method(name, own))

    @classmethod
    def example(cls, rng: np.random.Generator) -> Manifold[Any]:
        """Return a small manifold of the class, for ``manifoldseq check``.

        Parameters
        ----------
        rng : numpy.random.Generator

        Returns
        -------
        Manifold

        Examples
        --------
        >>> import numpy as np, manifoldseq as ms
        >>> ms.manifolds.Stiefel.example(np.random.default_rng(0))
        Stiefel(n=7, p=3)
        """
        return cls(*cls._example)

    if TYPE_CHECKING:  # a subclass defines these as methods
        exp: Callable[..., Any] | None
        dist: Callable[..., Any] | None
        inverse_retraction: Callable[..., Any] | None
    else:

        @property
        def exp(self) -> Callable[..., Any] | None:
            """``(x, u) -> y``, the end of the geodesic from `x` with velocity `u`: the retraction ``"exp"``, if any."""
            if "exp" not in self.retractions:
                return None
            return differentiable(self, "exp", functools.partial(self.retract, kind="exp"))

        @property
        def dist(self) -> Callable[..., Any] | None:
            """``(x, y) -> distance`` along the shortest geodesic, a float or an array over the leading axes.

            The distance is the length of the result of ``log``; the attribute is None without ``log``.
            """
            return None if self.log is None else differentiable(self, "dist", self._length_of_log)

        @property
        def inverse_retraction(self) -> Callable[..., Any] | None:
            """``(x, y) -> u``, the tangent vector along which the default retraction leads from `x` to `y`.

            The result is NaN if no such vector exists. The default is ``log`` if the default retraction is ``"exp"``,
            and otherwise None.
            """
            return self.log if self.retractions[:1] == ("exp",) else None

    @property
    def geodesic(self) -> Callable[..., Any] | None:
        """``(x, y, t) -> point`` on the shortest geodesic, `x` at t = 0 and `y` at t = 1; None without exp and log.

        `t` is a number or an array that broadcasts with the leading axes: times of shape (k,) give k points.
        """
        return None if self.exp is None or self.log is None else self._point_of_geodesic

    @property
    def open(self) -> bool:
        """Whether the set is open, with a boundary that no finite step reaches; by default, True unless embedded."""
        return self.metric != "embedded"

    @property
    def frame(self) -> Manifold[Point] | None:
        """The same manifold with tangent vectors in coordinates whose dot product is the inner product, or None.

        Solvers run in these coordinates and transport vectors by projection. Functions of users receive and return
        ambient vectors.
        """
        return None

    @property
    @abstractmethod
    def dim(self) -> int:
        """Dimension of the manifold."""

    @property
    @abstractmethod
    def shape(self) -> tuple[Any, ...]:
        """Shape of a point, or the tuple of the shapes of its factors."""

    @abstractmethod
    def project(self, x: Point, u: Point) -> Point:
        """Return the tangent vector at `x` nearest to the ambient vector `u`."""

    @abstractmethod
    def retract(self, x: Point, u: Point, kind: str | None = None) -> Point:
        """Return the point reached from `x` along the tangent vector `u`; `kind` is one of ``retractions``."""

    @abstractmethod
    def nearest(self, x: Point) -> Point:
        """Return the point of the manifold nearest to the ambient point `x`."""

    @abstractmethod
    def feasibility(self, x: Point) -> Any:
        """Return the largest violation of the constraints: a float, or an array over the leading axes."""

    @abstractmethod
    def random_point(self, rng: np.random.Generator, dtype: Any = np.float64) -> Point:
        """Return a random point."""

    def inner(self, x: Point, u: Point, v: Point) -> Any:
        """Return the inner product of two tangent vectors at `x`: a float, or an array over the leading axes."""
        # over the axes of a point, leaf by leaf, in float64; what is left are the leading axes
        total: Any = 0.0
        for a, b, shape in zip(leaves(u), leaves(v), leaf_shapes(self.shape), strict=True):
            total = total + _dot(a, b, len(shape))
        return float(total) if np.ndim(total) == 0 else total

    def gradient(self, x: Point, egrad: Point) -> Point:
        """Return the Riemannian gradient from the Euclidean gradient."""
        return self.project(x, egrad)

    def transport(self, x: Point, y: Point, u: Point) -> Point:
        """Return the tangent vector at `y` that corresponds to `u` at `x`: here its projection."""
        return self.project(y, u)

    def to_frame(self, x: Point, u: Point) -> Point:
        """Return the coordinates of an ambient vector, if tangent vectors are coordinates: see ``frame``."""
        return u

    def from_frame(self, x: Point, c: Point) -> Point:
        """Return the ambient vector of a tangent vector; on the ``frame`` of a manifold the two differ."""
        return c

    def euclidean_gradient(self, x: Point, u: Point) -> Point:
        """Return a Euclidean gradient whose Riemannian gradient is the tangent vector `u`, for symmetric frames.

        In the embedded metric the result is `u` itself. If tangent vectors have coordinates in a symmetric frame, ``u =
        F c``, the result is ``F⁻¹ F⁻¹ u``.
        """
        frame = self.frame
        return u if frame is None else frame.to_frame(x, frame.to_frame(x, u))

    def displacement(self, x: Point, y: Point) -> Point:
        """Return the difference ``y − x`` of points as a tangent vector at `y`."""
        return self.project(y, tree_map(np.subtract, y, x))

    def free(self, x: Point, egrad: Point) -> Any:
        """Return None, or a tree of booleans that are False where a bound is active and the gradient pushes outward."""
        return None

    def scale(self, x: Point) -> Any:
        """Return the reference length at `x`: the norm of `x` in the embedded metric, and 1 in all other metrics.

        The result is a float, or an array over the leading axes.
        """
        if self.metric != "embedded":
            return filled(x, self.shape, 1.0)
        single = type(x) is np.ndarray and x.ndim == len(self.shape)
        return norm(x) if single else np.sqrt(Manifold.inner(self, x, x, x))

    def pushed_inward(self, x: Point, egrad: Point) -> Any:
        """Return how much the objective would decrease, to first order, if a point near the boundary moved inward.

        On an open manifold such as the positive numbers, the metric makes every Riemannian gradient small near the
        boundary. This value distinguishes a minimum at the boundary from a point where a solver stalls. It is never
        negative. It is a float, or an array over the leading axes. The default is zero, for manifolds without a
        boundary.
        """
        return filled(x, self.shape, 0.0)

    def longest(self, x: Point, u: Point) -> Any:
        """Return the largest multiple of `u` that a solver may try as a step; a float, or an array over leading axes.

        The multiple is infinite, unless the manifold measures lengths in logarithms, where longer steps overflow.
        """
        return filled(x, self.shape, np.inf)

    def basis(self, x: Point) -> np.ndarray:
        """Return bases of the tangent spaces that are orthonormal in the metric, shape (…, entries of a point, dim).

        Column k is the k-th tangent vector, with its entries in the order of :func:`manifoldseq.linalg.flatten`. The
        default computes them from the singular vectors of the projection.

        Examples
        --------
        >>> import numpy as np, manifoldseq as ms
        >>> M, X = ms.manifolds.Stiefel(4, 2), np.eye(4, 2)
        >>> B = M.basis(X)
        >>> B.shape, bool(np.allclose(B.T @ B, np.eye(5)))
        ((8, 5), True)
        """
        shapes = leaf_shapes(self.shape)
        lead = leaves(x)[0].shape[: leaves(x)[0].ndim - len(shapes[0])]
        a = sum(math.prod(shape) for shape in shapes)

        def at(vectors: np.ndarray) -> tuple[Point, Point]:
            """Return the point repeated for vectors (…, k, a), and the vectors as trees."""
            stops, parts = np.cumsum([math.prod(shape) for shape in shapes])[:-1], leaves(x)
            pairs = zip(np.split(vectors, stops, axis=-1), shapes, strict=True)
            cut = iter([part.reshape(*part.shape[:-1], *shape) for part, shape in pairs])
            u = tree_map(lambda _: next(cut), x)
            own = iter([part.reshape(*lead, 1, *shape) for part, shape in zip(parts, shapes, strict=True)])
            return tree_map(lambda v: np.broadcast_to(next(own), v.shape), u), u

        def rows(tree: Point) -> np.ndarray:
            pairs = zip(leaves(tree), shapes, strict=True)
            return np.concatenate([b.reshape(*b.shape[: b.ndim - len(s)], -1) for b, s in pairs], axis=-1)

        images = rows(self.project(*at(np.broadcast_to(np.eye(a), (*lead, a, a)))))  # row k: that of unit vector k
        basis = np.linalg.svd(images.mT.astype(float, copy=False))[0][..., : self.dim]
        if self.metric == "embedded":
            return basis
        if not self.dim:
            return basis
        # the Gram matrix L Lᵀ of these columns in the metric makes them orthonormal: B L⁻ᵀ
        d = self.dim
        left, right = np.repeat(basis.mT, d, axis=-2), np.concatenate([basis.mT] * d, axis=-2)
        base, u = at(left)
        gram = np.reshape(self.inner(base, u, at(right)[1]), (*lead, d, d))
        return np.linalg.solve(np.linalg.cholesky(gram), basis.mT).mT

    def random_tangent(self, x: Point, rng: np.random.Generator) -> Point:
        """Return a random tangent vector at `x` whose entries have a size of about 1."""
        return self.project(x, tree_map(lambda leaf: rng.standard_normal(leaf.shape).astype(leaf.dtype), x))

    def to_component(self, x: Point, i: int) -> Point:
        """Return a point near `x` in the connected component number `i`."""
        known_component(self, i)
        return x

    def descent_curve(self, x: Point, egrad: Point) -> Callable[[Any], Point]:
        """Return ``step -> point``, a curve from `x` along which a function with this gradient decreases at first.

        For orthonormal columns it is the Cayley curve (16), (17) of the LDS paper, for bounds the clipped line (18),
        and for other manifolds the retraction of the negative gradient. On a product, `step` may be a sequence with one
        step per factor.
        """
        gradient = self.gradient(x, egrad)
        return lambda step: self.retract(x, tree_map(lambda leaf: -leaf.dtype.type(step) * leaf, gradient))

    def _length_of_log(self, x: Point, y: Point) -> Any:
        u = self.log(x, y)  # type: ignore[misc]
        return _root(self.inner(x, u, u))

    def _point_of_geodesic(self, x: Point, y: Point, t: Any) -> Point:
        def moved(leaf: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
            times = np.asarray(t, leaf.dtype)
            return times.reshape(*times.shape, *[1] * len(shape)) * leaf

        sizes = iter(leaf_shapes(self.shape))
        u = tree_map(lambda leaf: moved(leaf, next(sizes)), self.log(x, y))  # type: ignore[misc]
        return self.exp(tree_map(lambda a, b: np.broadcast_to(a, b.shape), x, u), u)  # type: ignore[misc]

    if TYPE_CHECKING:  # defined in `_power`, which is built on this file

        def __pow__(self, n: int) -> Manifold[Point]: ...

    def _kind(self, kind: str | None) -> str | None:
        """Return the retraction to use: `kind`, or the default."""
        if kind is None:
            return self.retractions[0] if self.retractions else None
        if kind not in self.retractions:
            raise ValueError(f"{self!r} has no retraction {kind!r}: it has {', '.join(self.retractions) or 'none'}")
        return kind


class InFrame(Manifold[Point]):
    """Mixin for manifolds whose tangent vectors have an orthonormal frame: inherit it first.

    A subclass of this class and of the manifold converts ambient vectors to coordinates by `to_frame` and back by
    `from_frame`, and implements `project`, `gradient`, `hessian` and `retract` in coordinates.
    """

    metric = "embedded"

    @property
    def open(self) -> bool:
        return True

    @property
    def frame(self) -> Manifold[Point] | None:
        return None

    def inner(self, x: Point, u: Point, v: Point) -> Any:
        return Manifold.inner(self, x, u, v)

    def transport(self, x: Point, y: Point, u: Point) -> Point:
        return self.project(y, u)

    def scale(self, x: Point) -> Any:
        return filled(x, self.shape, 1.0)

    def displacement(self, x: Point, y: Point) -> Point:
        return self.to_frame(y, tree_map(np.subtract, y, x))

    # the geometry of the manifold, which comes next in the order of classes; only vectors are coordinates
    if not TYPE_CHECKING:  # methods there

        @property
        def exp(self) -> Callable[..., Any] | None:
            exp = super().exp
            return None if exp is None else lambda x, c: exp(x, self.from_frame(x, c))

        @property
        def log(self) -> Callable[..., Any] | None:
            log = super().log
            return None if log is None else lambda x, y: self.to_frame(x, log(x, y))

        @property
        def inverse_retraction(self) -> Callable[..., Any] | None:
            return self.log if self.retractions[:1] == ("exp",) else None

        @property
        def parallel_transport(self) -> Callable[..., Any] | None:
            carry = super().parallel_transport
            return None if carry is None else lambda x, y, c: self.to_frame(y, carry(x, y, self.from_frame(x, c)))


def _dot(a: np.ndarray, b: np.ndarray, k: int) -> Any:
    """Return the sums of products over the last k axes, in float64."""
    if k != 1:
        a, b = (leaf.reshape(*leaf.shape[: leaf.ndim - k], -1) for leaf in (a, b))
    return np.vecdot(a, b, dtype=np.float64)


def _root(square: Any) -> Any:
    """Return the square root of numbers; negative numbers, which can result from rounding, count as zero."""
    length = np.sqrt(np.maximum(square, 0))
    return float(length) if np.ndim(length) == 0 else length


def filled(x: Tree, shape: Any, value: float) -> Any:
    """Return a number: a float, or an array over the leading axes of `x`."""
    return alike(leaves(x)[0], len(leaf_shapes(shape)[0]), value)


def alike(leaf: np.ndarray, k: int, value: float) -> Any:
    """Return a number: a float, or an array over all axes of an array except the last `k`."""
    return value if leaf.ndim == k else np.full(leaf.shape[: leaf.ndim - k], value)


def logarithmic_longest(manifold: Manifold[Point], x: Point, u: Point) -> Any:
    """Return the largest multiple of `u` whose length is at most √dim, where lengths are logarithms."""
    with np.errstate(all="ignore"):
        square = manifold.inner(x, u, u)
        if isinstance(square, float):
            return math.sqrt(manifold.dim / square) if square > 0 else np.inf
        return np.where(square > 0, np.sqrt(manifold.dim / square), np.inf)


def base_of(manifold: Manifold, x: Point, k: int) -> Point:
    """Return the point for k vectors at `x`, repeated if the manifold needs one point for every vector."""
    return x if manifold.one_base else tree_map(lambda leaf: np.broadcast_to(leaf, (k, *leaf.shape)), x)


def leaf_shapes(shape: Any) -> list[tuple[int, ...]]:
    """Return the shapes of the leaves of a tree of shapes, in order."""
    if shape and isinstance(shape[0], tuple):
        return [leaf for part in shape for leaf in leaf_shapes(part)]
    return [shape]


def bound_of(name: str, bound: Any, below: float) -> float:
    """Return a bound as a float; raise an error unless it lies between 0 and `below`."""
    if isinstance(bound, bool) or not isinstance(bound, Real) or not 0 < float(bound) < below:
        wanted = f"number below {below}" if below < np.inf else "number"
        raise ValueError(f"{name}(bound={bound!r}): bound must be a positive {wanted}")
    return float(bound)


def size(name: str, **sizes: int) -> None:
    """Raise an error unless every size is an integer of at least one."""
    for key, value in sizes.items():
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
            raise ValueError(f"{name}({key}={value!r}): {key} must be an integer ≥ 1")


def known_component(manifold: Manifold, i: int) -> None:
    """Raise an error unless the manifold has a component number `i`."""
    if not 0 <= i < manifold.components:
        raise ValueError(f"{manifold!r} has {manifold.components} connected component(s): component {i} does not exist")
