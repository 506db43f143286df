"""Products of manifolds, and the canonical tuples of linear dynamical systems."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._result import Point
from ..execution import cached_property
from ..linalg._tree import freeze, tree_map
from ._base import Manifold, bound_of, known_component, size
from ._bounded import BoundedDiagonal
from ._euclidean import Euclidean
from ._special_orthogonal import SpecialOrthogonal
from ._stiefel import Orthogonal, Stiefel


class _Factored(Manifold):
    """A product: every operation maps over the factors. Subclasses set ``factors`` and ``names``."""

    factors: tuple[Manifold, ...]

    @cached_property
    def shape(self) -> tuple[Any, ...]:  # type: ignore[override]
        return tuple(factor.shape for factor in self.factors)

    @cached_property
    def dim(self) -> int:  # type: ignore[override]
        return sum(factor.dim for factor in self.factors)

    @cached_property
    def bounded(self) -> bool:  # type: ignore[override]
        return any(factor.bounded for factor in self.factors)

    @cached_property
    def metric(self) -> str:  # type: ignore[override]
        return "embedded" if all(factor.metric == "embedded" for factor in self.factors) else "product"

    @cached_property
    def open(self) -> bool:  # type: ignore[override]
        return any(factor.open for factor in self.factors)

    @cached_property
    def frame(self) -> Manifold | None:  # type: ignore[override]
        """The product of the frames of the factors, and of those factors that have none."""
        frames = [factor.frame for factor in self.factors]
        if not any(frame is not None for frame in frames):
            return None
        return Product(*[f if g is None else g for f, g in zip(self.factors, frames, strict=True)], names=self.names)

    def to_frame(self, x: Point, u: Point) -> Point:
        return tuple([f.to_frame(a, b) for f, a, b in zip(self.factors, x, u, strict=True)])

    def from_frame(self, x: Point, c: Point) -> Point:
        return tuple([f.from_frame(a, b) for f, a, b in zip(self.factors, x, c, strict=True)])

    def displacement(self, x: Point, y: Point) -> Point:
        return tuple([f.displacement(a, b) for f, a, b in zip(self.factors, x, y, strict=True)])

    def project(self, x: Point, u: Point) -> Point:
        return tuple([f.project(a, b) for f, a, b in zip(self.factors, x, u, strict=True)])

    def inner(self, x: Point, u: Point, v: Point) -> Any:
        return sum(f.inner(a, b, c) for f, a, b, c in zip(self.factors, x, u, v, strict=True))

    def gradient(self, x: Point, egrad: Point) -> Point:
        return tuple([f.gradient(a, b) for f, a, b in zip(self.factors, x, egrad, strict=True)])

    def hessian(self, x: Point, egrad: Point, ehess: Point, u: Point) -> Point:
        return tuple([f.hessian(*args) for f, *args in zip(self.factors, x, egrad, ehess, u, strict=True)])

    @cached_property
    def retractions(self) -> tuple[str, ...]:  # type: ignore[override]
        """The kinds that some factor knows; a factor that lacks one uses its default."""
        return tuple(dict.fromkeys(kind for factor in self.factors for kind in factor.retractions))

    @property
    def second_order(self) -> tuple[str, ...]:  # type: ignore[override]
        """The kinds that are of second order on every factor."""
        return tuple(k for k in self.retractions if all(_second_order(factor, k) for factor in self.factors))

    def retract(self, x: Point, u: Point, kind: str | None = None) -> Point:
        steps = zip(self.factors, x, u, strict=True)
        if kind is None:
            return tuple([f.retract(a, b) for f, a, b in steps])
        self._kind(kind)
        return tuple([f.retract(a, b, kind if kind in f.retractions else None) for f, a, b in steps])

    def transport(self, x: Point, y: Point, u: Point) -> Point:
        return tuple([f.transport(a, b, c) for f, a, b, c in zip(self.factors, x, y, u, strict=True)])

    def nearest(self, x: Point) -> Point:
        return tuple([f.nearest(a) for f, a in zip(self.factors, x, strict=True)])

    def feasibility(self, x: Point) -> Any:
        violation = np.maximum.reduce([np.asarray(f.feasibility(a)) for f, a in zip(self.factors, x, strict=True)])
        return float(violation) if violation.ndim == 0 else violation

    def free(self, x: Point, egrad: Point) -> Any:
        masks = [f.free(a, b) for f, a, b in zip(self.factors, x, egrad, strict=True)]
        if all([mask is None for mask in masks]):
            return None
        return tuple(
            [
                tree_map(lambda leaf: _all_free(leaf.shape), a) if mask is None else mask
                for a, mask in zip(x, masks, strict=True)
            ]
        )

    def scale(self, x: Point) -> Any:
        """Return the smallest scale among the factors that can move."""
        parts = [self.factors[k].scale(x[k]) for k in self._moving]
        if not parts:
            return 0.0
        return min(parts) if isinstance(parts[0], float) else functools.reduce(np.minimum, parts)

    @cached_property
    def _moving(self) -> tuple[int, ...]:
        return tuple(k for k, factor in enumerate(self.factors) if factor.dim > 0)

    def pushed_inward(self, x: Point, egrad: Point) -> Any:
        parts = [f.pushed_inward(a, b) for f, a, b in zip(self.factors, x, egrad, strict=True)]
        return functools.reduce(np.maximum, parts)

    def longest(self, x: Point, u: Point) -> Any:
        return functools.reduce(np.minimum, [f.longest(a, b) for f, a, b in zip(self.factors, x, u, strict=True)])

    def random_point(self, rng: np.random.Generator, dtype: Any = np.float64) -> Point:
        return tuple([f.random_point(rng, dtype) for f in self.factors])

    def random_tangent(self, x: Point, rng: np.random.Generator) -> Point:
        return tuple([f.random_tangent(a, rng) for f, a in zip(self.factors, x, strict=True)])

    def to_component(self, x: Point, i: int) -> Point:
        known_component(self, i)
        if self.components == 1:
            return x
        parts = []
        for factor, part in zip(self.factors, x, strict=True):
            i, k = divmod(i, factor.components)
            parts.append(factor.to_component(part, k))
        return tuple(parts)

    def descent_curve(self, x: Point, egrad: Point) -> Callable[[Any], Point]:
        curves = [f.descent_curve(a, b) for f, a, b in zip(self.factors, x, egrad, strict=True)]

        def point(step: Any) -> Point:
            steps = step if isinstance(step, Sequence | np.ndarray) else (step,) * len(curves)
            return tuple([curve(s) for curve, s in zip(curves, steps, strict=True)])

        return point


def _second_order(factor: Manifold, kind: str) -> bool:
    return (kind if kind in factor.retractions else next(iter(factor.retractions), None)) in factor.second_order


@functools.lru_cache(maxsize=256)
def _all_free(shape: tuple[int, ...]) -> np.ndarray:
    return freeze(np.ones(shape, bool))


@dataclass(frozen=True, init=False, repr=False)
class Product(_Factored):
    """Tuples of points of several manifolds.

    Parameters
    ----------
    *factors : Manifold
        Products may be nested; a point is a tuple in the same order.
    names : sequence of str, optional
        Names of the factors, for messages and block updates; by default their positions.

    Raises
    ------
    TypeError
        If a factor is not a manifold.
    ValueError
        If the names do not match the factors.

    Examples
    --------
    >>> import manifoldseq as ms
    >>> M = ms.manifolds.Product(ms.manifolds.Stiefel(5, 2), ms.manifolds.Euclidean(3), names=("U", "b"))
    >>> M.dim, M.shape
    (10, ((5, 2), (3,)))
    """

    factors: tuple[Manifold, ...]
    names: tuple[str, ...] | None

    def __init__(self, *factors: Manifold, names: Sequence[str] | None = None) -> None:
        if not factors:
            raise ValueError("Product() needs at least one manifold")
        for k, factor in enumerate(factors):
            if not isinstance(factor, Manifold):
                raise TypeError(
                    f"factor {k} of Product is {factor!r}, not a manifold; pass Product(A, B), not Product([A, B])"
                )
        labels = tuple(str(k) for k in range(len(factors))) if names is None else tuple(names)
        if len(labels) != len(factors) or len(set(labels)) != len(labels):
            raise ValueError(f"Product(names={labels}): give one different name to each of the {len(factors)} factors")
        object.__setattr__(self, "factors", factors)
        object.__setattr__(self, "names", labels)

    def __repr__(self) -> str:
        return f"Product({', '.join(map(repr, self.factors))}, names={self.names})"

    @cached_property
    def components(self) -> int:  # type: ignore[override]
        return math.prod(factor.components for factor in self.factors)


@dataclass(frozen=True)
class CanonicalLDS(_Factored):
    """Canonical tuples (λ, V, U) of linear dynamical systems: A = diag(λ) V, C = U.

    The product BoundedDiagonal(n) × Orthogonal(n) × Stiefel(m, n): Theorem 1 and Remark 3 of "Efficient Optimization
    for Linear Dynamical Systems" (2017). Every point is a stable system with orthonormal C.

    Parameters
    ----------
    m : int
        Output dimension.
    n : int
        State dimension, n ≤ m.
    bound : float
        Bound on ``|λ|``, below one; the paper's ε.

    Notes
    -----
    One component: the sign of a λ carries the determinant of V. ``|λ| < 1`` implies stability but is not implied by it,
    so this restricts the stable systems.

    Examples
    --------
    >>> import manifoldseq as ms
    >>> M = ms.manifolds.CanonicalLDS(12, 3)
    >>> M.names, M.shape
    (('lam', 'V', 'U'), ((3,), (3, 3), (12, 3)))
    """

    m: int
    n: int
    bound: float = 0.99

    def __post_init__(self) -> None:
        size("CanonicalLDS", m=self.m, n=self.n)
        if self.n > self.m:
            raise ValueError(
                f"CanonicalLDS(m={self.m}, n={self.n}): the state dimension n cannot exceed the output dimension m"
            )
        object.__setattr__(self, "bound", bound_of("CanonicalLDS", self.bound, 1))
        factors = (BoundedDiagonal(self.n, self.bound), Orthogonal(self.n), Stiefel(self.m, self.n))
        object.__setattr__(self, "factors", factors)
        object.__setattr__(self, "names", ("lam", "V", "U"))


@dataclass(frozen=True)
class SpecialEuclidean(_Factored):
    """Rigid motions ``y = R z + t`` of R^n: poses of cameras and robots.

    The product SpecialOrthogonal(n) × Euclidean(n) with its metric; points are tuples (R, t). ``SpecialEuclidean(3) **
    k`` are k poses, as arrays (k, 3, 3) and (k, 3).

    Parameters
    ----------
    n : int

    Examples
    --------
    >>> import manifoldseq as ms
    >>> M = ms.manifolds.SpecialEuclidean(3)
    >>> M.names, M.shape, M.dim
    (('R', 't'), ((3, 3), (3,)), 6)
    """

    n: int

    def __post_init__(self) -> None:
        size("SpecialEuclidean", n=self.n)
        object.__setattr__(self, "factors", (SpecialOrthogonal(self.n), Euclidean(self.n)))
        object.__setattr__(self, "names", ("R", "t"))
