"""Powers: several points of one manifold in one array."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from .._result import Point
from ..linalg import leaves, tree_map
from ._base import Manifold, known_component, leaf_shapes, size
from ._special_orthogonal import SpecialOrthogonal


@dataclass(frozen=True)
class Power(Manifold[Point]):
    """n points of one manifold, along a leading axis of its arrays; ``M ** n`` is ``Power(M, n)``.

    The same set as the product of n equal factors, in arrays instead of tuples, without a loop over the factors.

    Parameters
    ----------
    manifold : Manifold
        Of points of shape (…); those of the power have shape (n, …), or are tuples of such arrays.
    n : int

    Notes
    -----
    Metric, retractions and transport are those of each point. ``feasibility`` is the largest violation. Of the
    ``components**n`` components number i has the digits of i, the first point the lowest.

    Examples
    --------
    >>> import numpy as np, manifoldseq as ms
    >>> M = ms.manifolds.SpecialOrthogonal(3) ** 150
    >>> M, M.shape, M.dim
    (Power(SpecialOrthogonal(n=3), 150), (150, 3, 3), 450)
    """

    manifold: Manifold[Point]
    n: int
    _example: ClassVar[tuple[Any, ...]] = (SpecialOrthogonal(3), 4)

    def __post_init__(self) -> None:
        if not isinstance(self.manifold, Manifold):
            raise TypeError(f"Power({self.manifold!r}, …) needs a manifold such as ms.manifolds.Sphere(3)")
        size("Power", n=self.n)

    def __repr__(self) -> str:
        return f"Power({self.manifold!r}, {self.n})"

    @property
    def dim(self) -> int:
        return self.n * self.manifold.dim

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
        return None if frame is None else Power(frame, self.n)

    def to_frame(self, x: Point, u: Point) -> Point:
        return self.manifold.to_frame(x, u)

    def from_frame(self, x: Point, c: Point) -> Point:
        return self.manifold.from_frame(x, c)

    def euclidean_gradient(self, x: Point, u: Point) -> Point:
        return self.manifold.euclidean_gradient(x, u)

    def displacement(self, x: Point, y: Point) -> Point:
        return self.manifold.displacement(x, y)

    def project(self, x: Point, u: Point) -> Point:
        return self.manifold.project(x, u)

    def inner(self, x: Point, u: Point, v: Point) -> Any:
        return number(np.sum(self.manifold.inner(x, u, v), axis=-1))

    def gradient(self, x: Point, egrad: Point) -> Point:
        return self.manifold.gradient(x, egrad)

    @property
    def hessian(self) -> Callable[..., Any] | None:  # type: ignore[override]
        return self.manifold.hessian

    def retract(self, x: Point, u: Point, kind: str | None = None) -> Point:
        return self.manifold.retract(x, u, kind)

    def transport(self, x: Point, y: Point, u: Point) -> Point:
        return self.manifold.transport(x, y, u)

    @property
    def typical_distance(self) -> float | None:  # type: ignore[override]
        each = self.manifold.typical_distance
        return None if each is None else math.sqrt(self.n * each**2)

    @property
    def exp(self) -> Callable[..., Any] | None:  # type: ignore[override]
        return self.manifold.exp

    @property
    def log(self) -> Callable[..., Any] | None:  # type: ignore[override]
        return self.manifold.log

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
        return self.manifold.nearest(x)

    def feasibility(self, x: Point) -> Any:
        return number(np.max(self.manifold.feasibility(x), axis=-1))

    def free(self, x: Point, egrad: Point) -> Any:
        return self.manifold.free(x, egrad)

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
        return self.manifold.random_tangent(x, rng)

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
        return self.manifold.descent_curve(x, egrad)


def number(values: Any) -> Any:
    return float(values) if np.ndim(values) == 0 else values


def _with_axis(shape: Any, n: int) -> Any:
    if shape and isinstance(shape[0], tuple):
        return tuple(_with_axis(part, n) for part in shape)
    return (n, *shape)


Manifold.__pow__ = lambda self, n: Power(self, n)  # type: ignore[method-assign]
