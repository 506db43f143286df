"""A manifold with one point: a factor that is not optimized."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from .._result import Point
from ..linalg import dtype_of, leaves, tree_map
from ._base import Manifold, leaf_shapes
from ._euclidean import Euclidean
from ._power import ON
from ._product import Product
from ._stiefel import Stiefel


@dataclass(frozen=True)
class Frozen(Manifold[Point]):
    """The points of a manifold with the tangent spaces {0}, so that every solver stays at its start.

    As a factor of a product, it keeps the array of its factor unchanged. :meth:`manifoldseq.Problem.freeze` creates
    such factors.

    Parameters
    ----------
    manifold : Manifold
        The manifold of the points, which defines ``nearest``, ``feasibility`` and ``random_point``. ``nearest`` returns
        a point unchanged if it is off the manifold by at most 1e-6.

    Examples
    --------
    >>> import numpy as np, manifoldseq as ms
    >>> M = ms.manifolds.Frozen(ms.manifolds.Stiefel(3, 2))
    >>> X = np.eye(3, 2)
    >>> M.dim, M.retract(X, M.project(X, np.ones((3, 2)))) is X
    (0, True)
    """

    manifold: Manifold[Point]
    retractions: ClassVar[tuple[str, ...]] = ("stay",)
    second_order: ClassVar[tuple[str, ...]] = ("stay",)
    one_base: ClassVar[bool] = True  # type: ignore[misc]

    @classmethod
    def example(cls, rng: np.random.Generator) -> Manifold[Any]:
        """Return a product with a frozen factor, because a frozen manifold alone has no tangent vectors."""
        return Product(Frozen(Stiefel(5, 2)), Euclidean(3))

    def __post_init__(self) -> None:
        if not isinstance(self.manifold, Manifold):
            raise TypeError(f"Frozen({self.manifold!r}) needs a manifold such as ms.manifolds.Stiefel(5, 2)")

    @property
    def dim(self) -> int:
        return 0

    @property
    def shape(self) -> tuple[Any, ...]:
        return self.manifold.shape

    @property
    def names(self) -> tuple[str, ...] | None:  # type: ignore[override]
        return self.manifold.names

    def project(self, x: Point, u: Point) -> Point:
        return tree_map(np.zeros_like, u)

    def hessian(self, x: Point, egrad: Point, ehess: Point, u: Point) -> Point:
        return tree_map(np.zeros_like, u)

    def basis(self, x: Point) -> np.ndarray:
        sizes = leaf_shapes(self.shape)
        lead = leaves(x)[0].shape[: leaves(x)[0].ndim - len(sizes[0])]
        return np.zeros((*lead, sum(map(math.prod, sizes)), 0))

    def retract(self, x: Point, u: Point, kind: str | None = None) -> Point:
        self._kind(kind)
        return x

    # no geodesic leads away from a point

    @property
    def typical_distance(self) -> float:  # type: ignore[override]
        return 0.0

    def exp(self, x: Point, u: Point) -> Point:
        return x

    def log(self, x: Point, y: Point) -> Point:
        same = np.asarray(self.dist(x, y) == 0)
        sizes = iter(leaf_shapes(self.shape))
        stay = tree_map(lambda a: np.where(same.reshape(*same.shape, *[1] * len(next(sizes))), 0, np.nan), x)
        return tree_map(lambda a, b: b.astype(a.dtype) * np.ones_like(a), x, stay)

    inverse_retraction = log

    def dist(self, x: Point, y: Point) -> Any:
        chord = tree_map(np.subtract, y, x)
        square = self.inner(x, chord, chord)
        return np.where(square == 0, 0.0, np.where(np.isnan(square), np.nan, np.inf))[()]

    def parallel_transport(self, x: Point, y: Point, u: Point) -> Point:
        return u

    def nearest(self, x: Point) -> Point:
        on = np.asarray(self.manifold.feasibility(x)) <= max(ON, 100 * float(np.finfo(dtype_of(x)).eps))
        if on.all():
            return x
        return tree_map(
            lambda a, b: np.where(on.reshape(*on.shape, *[1] * (a.ndim - on.ndim)), a, b), x, self.manifold.nearest(x)
        )

    def feasibility(self, x: Point) -> Any:
        return self.manifold.feasibility(x)

    def random_point(self, rng: np.random.Generator, dtype: Any = np.float64) -> Point:
        return self.manifold.random_point(rng, dtype)

    def descent_curve(self, x: Point, egrad: Point) -> Callable[[Any], Point]:
        return lambda step: x
