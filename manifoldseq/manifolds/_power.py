"""Powers: several points of one manifold in one array."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from .._result import Point
from ..linalg import dtype_of, leaves, tree_map
from ._base import Manifold, known_component, leaf_shapes, size
from ._special_orthogonal import SpecialOrthogonal

ON = 1e-6
"""Distance from the manifold up to which a fixed point is not changed."""


@dataclass(frozen=True)
class Power(Manifold[Point]):
    """n points of one manifold, along a leading axis of its arrays; ``M ** n`` is ``Power(M, n)``.

    The set is the same as the product of n equal factors, with arrays instead of tuples and without a loop over the
    factors.

    Parameters
    ----------
    manifold : Manifold
        The manifold of one point, of shape (…). Points of the power have shape (n, …), or are tuples of such arrays.
    n : int
    fixed : sequence of int
        Indices of points that no solver changes, such as anchors of a pose graph or known points.

    Notes
    -----
    Metric, retractions and transport are applied to each point. ``feasibility`` is the largest violation. There are
    ``components**n`` components. The digits of the number of a component in base ``components`` are the components of
    the points; the first point has the lowest digit.

    Examples
    --------
    >>> import numpy as np, manifoldseq as ms
    >>> M = ms.manifolds.SpecialOrthogonal(3) ** 150
    >>> M, M.shape, M.dim
    (Power(SpecialOrthogonal(n=3), 150), (150, 3, 3), 450)
    >>> ms.manifolds.Power(ms.manifolds.SpecialOrthogonal(3), 150, fixed=[0]).dim
    447
    """

    manifold: Manifold[Point]
    n: int
    fixed: Sequence[int] = ()
    _example: ClassVar[tuple[Any, ...]] = (SpecialOrthogonal(3), 4)

    def __post_init__(self) -> None:
        if not isinstance(self.manifold, Manifold):
            raise TypeError(f"Power({self.manifold!r}, …) needs a manifold such as ms.manifolds.Sphere(3)")
        size("Power", n=self.n)
        try:
            numbers = np.unique(np.asarray(self.fixed, dtype=np.intp)).tolist() if len(self.fixed) else []
        except (TypeError, ValueError, OverflowError):
            numbers = [-1]
        if numbers and not 0 <= numbers[0] <= numbers[-1] < self.n:
            raise ValueError(f"Power(fixed={self.fixed!r}): pass indices of the {self.n} points, from 0")
        object.__setattr__(self, "fixed", tuple(numbers))

    def __repr__(self) -> str:
        fixed = f", fixed={list(self.fixed)}" if self.fixed else ""
        return f"Power({self.manifold!r}, {self.n}{fixed})"

    def _still(self, u: Point) -> Point:
        """Return a vector that is zero at the fixed points."""
        return self._set(u, tree_map(np.zeros_like, u)) if self.fixed else u

    def _kept(self, x: Point, y: Point) -> Point:
        """Return the points `y` with the fixed points replaced by those of `x`."""
        return self._set(y, x) if self.fixed else y

    def _set(self, y: Point, x: Point) -> Point:
        sizes, numbers = iter(leaf_shapes(self.shape)), list(self.fixed)

        def at(a: np.ndarray, b: np.ndarray) -> np.ndarray:
            k = len(next(sizes))
            a = a.copy()
            a[(..., numbers, *[slice(None)] * (k - 1))] = b[(..., numbers, *[slice(None)] * (k - 1))]
            return a

        return tree_map(at, y, x)

    @property
    def dim(self) -> int:
        return (self.n - len(self.fixed)) * self.manifold.dim

    @property
    def shape(self) -> tuple[Any, ...]:
        return _with_axis(self.manifold.shape, self.n)

    @property
    def names(self) -> tuple[str, ...] | None:  # type: ignore[override]
        return self.manifold.names

    @property
    def metric(self) -> str:  # type: ignore[override]
        return self.manifold.metric

    @property
    def open(self) -> bool:
        return self.manifold.open

    @property
    def bounded(self) -> bool:  # type: ignore[override]
        return self.manifold.bounded

    @property
    def components(self) -> int:  # type: ignore[override]
        return self.manifold.components**self.n

    @property
    def retractions(self) -> tuple[str, ...]:  # type: ignore[override]
        return self.manifold.retractions

    @property
    def second_order(self) -> tuple[str, ...]:  # type: ignore[override]
        return self.manifold.second_order

    @property
    def quotient(self) -> bool:  # type: ignore[override]
        return self.manifold.quotient

    @property
    def one_base(self) -> bool:  # type: ignore[override]
        return self.manifold.one_base

    @property
    def frame(self) -> Manifold[Point] | None:
        frame = self.manifold.frame
        return None if frame is None else Power(frame, self.n, self.fixed)

    def to_frame(self, x: Point, u: Point) -> Point:
        return self.manifold.to_frame(x, u)

    def from_frame(self, x: Point, c: Point) -> Point:
        return self.manifold.from_frame(x, c)

    def euclidean_gradient(self, x: Point, u: Point) -> Point:
        return self._still(self.manifold.euclidean_gradient(x, u))

    def displacement(self, x: Point, y: Point) -> Point:
        return self._still(self.manifold.displacement(x, y))

    def project(self, x: Point, u: Point) -> Point:
        return self._still(self.manifold.project(x, u))

    def inner(self, x: Point, u: Point, v: Point) -> Any:
        return number(np.sum(self.manifold.inner(x, u, v), axis=-1))

    def gradient(self, x: Point, egrad: Point) -> Point:
        return self._still(self.manifold.gradient(x, egrad))

    @property
    def hessian(self) -> Callable[..., Any] | None:  # type: ignore[override]
        product = self.manifold.hessian
        if product is None or not self.fixed:
            return product
        return lambda x, egrad, ehess, u: self._still(product(x, egrad, ehess, u))

    def retract(self, x: Point, u: Point, kind: str | None = None) -> Point:
        return self._kept(x, self.manifold.retract(x, u, kind))

    def transport(self, x: Point, y: Point, u: Point) -> Point:
        return self._still(self.manifold.transport(x, y, u))

    @property
    def typical_distance(self) -> float | None:  # type: ignore[override]
        each = self.manifold.typical_distance
        return None if each is None else math.sqrt(self.n * each**2)

    @property
    def exp(self) -> Callable[..., Any] | None:  # type: ignore[override]
        exp = self.manifold.exp
        return exp if exp is None or not self.fixed else lambda x, u: self._kept(x, exp(x, u))

    @property
    def log(self) -> Callable[..., Any] | None:  # type: ignore[override]
        log = self.manifold.log
        return log if log is None or not self.fixed else lambda x, y: self._still(log(x, y))

    @property
    def parallel_transport(self) -> Callable[..., Any] | None:  # type: ignore[override]
        return self.manifold.parallel_transport

    @property
    def inverse_retraction(self) -> Callable[..., Any] | None:  # type: ignore[override]
        return self.manifold.inverse_retraction

    @property
    def dist(self) -> Callable[..., Any] | None:  # type: ignore[override]
        dist = self.manifold.dist
        return None if dist is None else lambda x, y: number(np.linalg.norm(dist(x, y), axis=-1))

    def nearest(self, x: Point) -> Point:
        nearest = self.manifold.nearest(x)
        if not self.fixed:
            return nearest
        # as a frozen factor: a fixed point keeps its bits unless it is off the manifold
        on = np.asarray(self.manifold.feasibility(x)) <= max(ON, 100 * float(np.finfo(dtype_of(x)).eps))
        on &= np.isin(np.arange(self.n), self.fixed)
        return tree_map(lambda a, b: np.where(on.reshape(*on.shape, *[1] * (a.ndim - on.ndim)), a, b), x, nearest)

    def feasibility(self, x: Point) -> Any:
        return number(np.max(self.manifold.feasibility(x), axis=-1))

    def free(self, x: Point, egrad: Point) -> Any:
        return self.manifold.free(x, egrad)

    def basis(self, x: Point) -> np.ndarray:
        each = self.manifold.basis(x)
        moving = [k for k in range(self.n) if k not in self.fixed]
        d, sizes = self.manifold.dim, [math.prod(shape) for shape in leaf_shapes(self.manifold.shape)]
        whole = np.zeros((*each.shape[:-3], self.n * sum(sizes), len(moving) * d))
        first = own = 0
        for a in sizes:  # the arrays of a tuple follow each other, each with all points
            for c, k in enumerate(moving):
                rows = slice(first + k * a, first + (k + 1) * a)
                whole[..., rows, c * d : (c + 1) * d] = each[..., k, own : own + a, :]
            first, own = first + self.n * a, own + a
        return whole

    def scale(self, x: Point) -> Any:
        scales = self.manifold.scale(x)
        return number(np.min(scales, axis=-1) if self.open else np.sqrt(np.sum(np.square(scales), axis=-1)))

    def pushed_inward(self, x: Point, egrad: Point) -> Any:
        return number(np.max(self.manifold.pushed_inward(x, egrad), axis=-1))

    def longest(self, x: Point, u: Point) -> Any:
        return number(np.min(self.manifold.longest(x, u), axis=-1))

    def random_point(self, rng: np.random.Generator, dtype: Any = np.float64) -> Point:
        points = [self.manifold.random_point(rng, dtype) for _ in range(self.n)]
        return tree_map(lambda *parts: np.stack(parts), *points)

    def random_tangent(self, x: Point, rng: np.random.Generator) -> Point:
        return self._still(self.manifold.random_tangent(x, rng))

    def to_component(self, x: Point, i: int) -> Point:
        known_component(self, i)
        if self.components == 1:
            return x
        base = self.manifold.components
        digits = np.array([i // base**k % base for k in range(self.n)])
        parts = [leaves(self.manifold.to_component(x, digit)) for digit in range(base)]
        chosen = iter(
            [
                np.choose(digits.reshape(-1, *[1] * len(shape)), moved).astype(moved[0].dtype)
                for shape, *moved in zip(leaf_shapes(self.manifold.shape), *parts, strict=True)
            ]
        )
        return tree_map(lambda _: next(chosen), x)

    def descent_curve(self, x: Point, egrad: Point) -> Callable[[Any], Point]:
        curve = self.manifold.descent_curve(x, egrad)
        return (lambda step: self._kept(x, curve(step))) if self.fixed else curve


def number(values: Any) -> Any:
    return float(values) if np.ndim(values) == 0 else values


def _with_axis(shape: Any, n: int) -> Any:
    if shape and isinstance(shape[0], tuple):
        return tuple(_with_axis(part, n) for part in shape)
    return (n, *shape)


Manifold.__pow__ = lambda self, n: Power(self, n)  # type: ignore[method-assign]
