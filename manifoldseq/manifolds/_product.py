"""Products of manifolds, and the canonical tuples of linear dynamical systems."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, overload

import numpy as np

from .._result import Point, Tree
from ..execution import cached_property
from ..linalg import freeze, tree_map
from ._base import Manifold, bound_of, known_component, leaf_shapes, size
from ._bounded import BoundedDiagonal
from ._euclidean import Euclidean
from ._memory import Memory
from ._power import Power, number
from ._special_orthogonal import SpecialOrthogonal
from ._stiefel import Orthogonal, Stiefel

A = TypeVar("A", bound=Tree)
B = TypeVar("B", bound=Tree)
C = TypeVar("C", bound=Tree)
F = TypeVar("F", bound=Callable[..., Any])

# a point of a product from those of its factors: Python's types cannot say which tuple a list becomes
joined: Callable[[list[Any]], Any] = tuple


def _in_groups(operation: F) -> F:
    """Run an operation on a product whose equal factors are powers, where the product has such groups."""

    @functools.wraps(operation)
    def run(product: Factored, *arguments: Any) -> Any:
        groups = product._groups
        if groups is None:
            return operation(product, *arguments)
        stacked = [groups.stacked(tree) if isinstance(tree, tuple) else tree for tree in arguments]
        answer = operation(groups.product, *stacked)
        return groups.apart(answer) if isinstance(answer, tuple) else answer

    same: Any = run  # of the type of the operation
    return same


class Factored(Manifold[Point]):
    """A product: every operation maps over the factors. Subclasses set ``factors`` and ``names``.

    Four or more equal factors of at most 1000 entries each are computed with as one power, which needs no loop over
    them; points stay tuples with one part per factor.
    """

    factors: tuple[Manifold, ...]

    @cached_property
    def _groups(self) -> Groups | None:
        return Groups.of(self.factors)

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
    def one_base(self) -> bool:  # type: ignore[override]
        return all(factor.one_base for factor in self.factors)

    @cached_property
    def frame(self) -> Manifold[Any] | None:  # type: ignore[override]
        """The product of the frames of the factors, and of those factors that have none."""
        frames = [factor.frame for factor in self.factors]
        if not any(frame is not None for frame in frames):
            return None
        return Product(*[f if g is None else g for f, g in zip(self.factors, frames, strict=True)], names=self.names)

    @_in_groups
    def to_frame(self, x: Point, u: Point) -> Point:
        return joined([f.to_frame(a, b) for f, a, b in zip(self.factors, x, u, strict=True)])

    @_in_groups
    def from_frame(self, x: Point, c: Point) -> Point:
        return joined([f.from_frame(a, b) for f, a, b in zip(self.factors, x, c, strict=True)])

    @_in_groups
    def euclidean_gradient(self, x: Point, u: Point) -> Point:
        return joined([f.euclidean_gradient(a, b) for f, a, b in zip(self.factors, x, u, strict=True)])

    @_in_groups
    def displacement(self, x: Point, y: Point) -> Point:
        return joined([f.displacement(a, b) for f, a, b in zip(self.factors, x, y, strict=True)])

    @_in_groups
    def project(self, x: Point, u: Point) -> Point:
        return joined([f.project(a, b) for f, a, b in zip(self.factors, x, u, strict=True)])

    @_in_groups
    def inner(self, x: Point, u: Point, v: Point) -> Any:
        return sum(f.inner(a, b, c) for f, a, b, c in zip(self.factors, x, u, v, strict=True))

    @_in_groups
    def gradient(self, x: Point, egrad: Point) -> Point:
        return joined([f.gradient(a, b) for f, a, b in zip(self.factors, x, egrad, strict=True)])

    @cached_property
    def _has_hessian(self) -> bool:
        return all(factor.hessian is not None for factor in self.factors)

    @property
    def hessian(self) -> Callable[..., Any] | None:  # type: ignore[override]
        return self._hessian if self._has_hessian else None

    @_in_groups
    def _hessian(self, x: Point, egrad: Point, ehess: Point, u: Point) -> Point:
        return joined(
            [
                f.hessian(*args)  # type: ignore[misc]
                for f, *args in zip(self.factors, x, egrad, ehess, u, strict=True)
            ]
        )

    @cached_property
    def retractions(self) -> tuple[str, ...]:  # type: ignore[override]
        """The kinds that some factor knows; a factor that lacks one uses its default."""
        return tuple(dict.fromkeys(kind for factor in self.factors for kind in factor.retractions))

    @property
    def second_order(self) -> tuple[str, ...]:  # type: ignore[override]
        """The kinds that are of second order on every factor."""
        return tuple(k for k in self.retractions if all(_second_order(factor, k) for factor in self.factors))

    def retract(self, x: Point, u: Point, kind: str | None = None) -> Point:
        return self._retract(x, u, None if kind is None else self._kind(kind))

    @_in_groups
    def _retract(self, x: Point, u: Point, kind: str | None) -> Point:
        steps = zip(self.factors, x, u, strict=True)
        if kind is None:
            return joined([f.retract(a, b) for f, a, b in steps])
        return joined([f.retract(a, b, kind if kind in f.retractions else None) for f, a, b in steps])

    @_in_groups
    def transport(self, x: Point, y: Point, u: Point) -> Point:
        return joined([f.transport(a, b, c) for f, a, b, c in zip(self.factors, x, y, u, strict=True)])

    # the geometry, None if one factor does not know its own

    @cached_property
    def typical_distance(self) -> float | None:  # type: ignore[override]
        parts = [factor.typical_distance for factor in self.factors]
        return None if None in parts else math.hypot(*parts)  # type: ignore[arg-type]

    @property
    def exp(self) -> Callable[..., Any] | None:  # type: ignore[override]
        return _of_factors([factor.exp for factor in self.factors])

    @property
    def log(self) -> Callable[..., Any] | None:  # type: ignore[override]
        return _of_factors([factor.log for factor in self.factors])

    @property
    def parallel_transport(self) -> Callable[..., Any] | None:  # type: ignore[override]
        return _of_factors([factor.parallel_transport for factor in self.factors])

    @property
    def inverse_retraction(self) -> Callable[..., Any] | None:  # type: ignore[override]
        return _of_factors([factor.inverse_retraction for factor in self.factors])

    @property
    def dist(self) -> Callable[..., Any] | None:  # type: ignore[override]
        parts = _of_factors([factor.dist for factor in self.factors])
        return None if parts is None else lambda x, y: functools.reduce(_hypot, parts(x, y))

    @_in_groups
    def nearest(self, x: Point) -> Point:
        return joined([f.nearest(a) for f, a in zip(self.factors, x, strict=True)])

    @_in_groups
    def feasibility(self, x: Point) -> Any:
        violation = np.maximum.reduce([np.asarray(f.feasibility(a)) for f, a in zip(self.factors, x, strict=True)])
        return float(violation) if violation.ndim == 0 else violation

    @_in_groups
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

    @_in_groups
    def scale(self, x: Point) -> Any:
        """Return the smallest scale among the factors that can move."""
        parts = [self.factors[k].scale(x[k]) for k in self._moving]
        if not parts:
            return 0.0
        return min(parts) if isinstance(parts[0], float) else functools.reduce(np.minimum, parts)

    @cached_property
    def _moving(self) -> tuple[int, ...]:
        return tuple(k for k, factor in enumerate(self.factors) if factor.dim > 0)

    @_in_groups
    def pushed_inward(self, x: Point, egrad: Point) -> Any:
        parts = [f.pushed_inward(a, b) for f, a, b in zip(self.factors, x, egrad, strict=True)]
        return functools.reduce(np.maximum, parts)

    @_in_groups
    def longest(self, x: Point, u: Point) -> Any:
        parts = [f.longest(a, b) for f, a, b in zip(self.factors, x, u, strict=True)]
        return min(parts) if isinstance(parts[0], float) else functools.reduce(np.minimum, parts)

    def random_point(self, rng: np.random.Generator, dtype: Any = np.float64) -> Point:
        return joined([f.random_point(rng, dtype) for f in self.factors])

    def random_tangent(self, x: Point, rng: np.random.Generator) -> Point:
        return joined([f.random_tangent(a, rng) for f, a in zip(self.factors, x, strict=True)])

    def to_component(self, x: Point, i: int) -> Point:
        known_component(self, i)
        if self.components == 1:
            return x
        parts = []
        for factor, part in zip(self.factors, x, strict=True):
            i, k = divmod(i, factor.components)
            parts.append(factor.to_component(part, k))
        return joined(parts)

    def descent_curve(self, x: Point, egrad: Point) -> Callable[[Any], Point]:
        # curve by curve, since every factor may go a step of its own
        curves = [f.descent_curve(a, b) for f, a, b in zip(self.factors, x, egrad, strict=True)]

        def point(step: Any) -> Point:
            steps = step if isinstance(step, Sequence | np.ndarray) else (step,) * len(curves)
            return joined([curve(s) for curve, s in zip(curves, steps, strict=True)])

        return point


_MANY, _SMALL = 4, 1000
"""As many factors of at most so many entries are faster as a power, stacking included."""

_STACKS = Memory()


class Groups:
    """Factors with the equal ones taken together as powers: their product, and the way there and back.

    Parameters
    ----------
    groups : sequence of (Manifold, tuple of int)
        A factor and its places; with one place the factor itself, with several a power.
    """

    def __init__(self, groups: list[tuple[Manifold, tuple[int, ...]]]) -> None:
        self.groups = groups
        self.product = Product(*[_Alike(f, len(where)) if len(where) > 1 else f for f, where in groups])
        self.count = sum(len(where) for _, where in groups)

    @classmethod
    def of(cls, factors: tuple[Manifold, ...]) -> Groups | None:
        """Return the groups, None where no small factor is repeated often enough."""
        if len(factors) < _MANY:
            return None
        places: dict[Any, list[int]] = {}
        for k, factor in enumerate(factors):
            places.setdefault(_key(factor), []).append(k)
        groups: list[tuple[Manifold, tuple[int, ...]]] = []
        for where in places.values():
            factor = factors[where[0]]
            together = len(where) >= _MANY and sum(map(math.prod, leaf_shapes(factor.shape))) <= _SMALL
            groups += [(factor, tuple(where))] if together else [(factor, (k,)) for k in where]
        return cls(groups) if len(groups) < len(factors) else None

    def stacked(self, parts: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return a point or vector of the product as one of the product of the groups."""
        return tuple(
            [
                parts[where[0]] if len(where) == 1 else _stacked(operator.itemgetter(*where)(parts), factor.shape)
                for factor, where in self.groups
            ]
        )

    def apart(self, stacks: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the point or vector that was stacked: its parts are views."""
        parts: list[Any] = [None] * self.count
        for (factor, where), stack in zip(self.groups, stacks, strict=True):
            rows = (stack,) if len(where) == 1 else _apart(stack, factor.shape)
            for k, row in zip(where, rows, strict=True):
                parts[k] = row
        return tuple(parts)


class _Alike(Power[Point]):
    """Equal factors of a product, whose scale is the smallest among them."""

    def scale(self, x: Point) -> Any:
        return number(np.min(self.manifold.scale(x), axis=-1))


def _key(factor: Manifold) -> Any:
    """Return what equal factors have in common; where a class has no hash, only one object is equal to itself."""
    try:
        hash(factor)
        return factor
    except TypeError:
        return id(factor)


def _stacked(parts: tuple[Any, ...], shape: Any) -> Any:
    """Return arrays of a shape, with leading axes or not, along one more axis before those of the shape."""
    if isinstance(parts[0], tuple):
        return tuple([_stacked(column, s) for column, s in zip(zip(*parts, strict=True), shape, strict=True)])
    rest, stack = _STACKS.get(parts[0]) or ((), None)
    if stack is not None and len(rest) + 1 == len(parts) and all(map(operator.is_, rest, parts[1:])):
        # what is remembered of a point is remembered of its stack, if no part can change
        if stack.flags.writeable and not any([part.flags.writeable for part in parts]):
            stack.flags.writeable = False
        return stack
    leading = parts[0].shape[: parts[0].ndim - len(shape)]
    if not shape:
        return np.stack(parts, axis=-1)
    return np.concatenate(parts, axis=-len(shape)).reshape(*leading, len(parts), *shape)


def _apart(stack: Any, shape: Any) -> tuple[Any, ...]:
    """Return the parts that were stacked, as views."""
    if isinstance(stack, tuple):
        return tuple(zip(*[_apart(leaf, s) for leaf, s in zip(stack, shape, strict=True)], strict=True))
    axis = stack.ndim - len(shape) - 1
    parts = tuple(np.moveaxis(stack, axis, 0) if axis else stack)
    _STACKS.keep(parts[0], (parts[1:], stack))
    return parts


def _of_factors(parts: Sequence[Callable[..., Any] | None]) -> Callable[..., Any] | None:
    """Return an operation of a product from those of its factors, None without one of them."""
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    return lambda *trees: tuple([part(*args) for part, *args in zip(known, *trees, strict=True)])


def _hypot(a: Any, b: Any) -> Any:
    length = np.hypot(a, b)
    return float(length) if length.ndim == 0 else length


def _second_order(factor: Manifold, kind: str) -> bool:
    return (kind if kind in factor.retractions else next(iter(factor.retractions), None)) in factor.second_order


@functools.lru_cache(maxsize=256)
def _all_free(shape: tuple[int, ...]) -> np.ndarray:
    return freeze(np.ones(shape, bool))


@dataclass(frozen=True, init=False, repr=False)
class Product(Factored[Point]):
    """Tuples of points of several manifolds.

    Parameters
    ----------
    *factors : Manifold
        Products may be nested; a point is a tuple in the same order.
    names : sequence of str, optional
        Names of the factors, for messages and block updates; by default their positions.

    Notes
    -----
    Four or more equal factors, of at most 1000 entries each, are computed with as a power, without a loop over them.
    A :class:`Power` itself also spares taking its points apart.

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

    if TYPE_CHECKING:  # the points of up to three factors are known one by one

        @overload
        def __init__(
            self: Product[tuple[A, B]], a: Manifold[A], b: Manifold[B], /, *, names: Sequence[str] | None = ...
        ) -> None: ...
        @overload
        def __init__(
            self: Product[tuple[A, B, C]],
            a: Manifold[A],
            b: Manifold[B],
            c: Manifold[C],
            /,
            *,
            names: Sequence[str] | None = ...,
        ) -> None: ...
        @overload
        def __init__(self: Product[tuple[Any, ...]], *factors: Manifold, names: Sequence[str] | None = ...) -> None: ...

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
class CanonicalLDS(Factored[tuple[np.ndarray, np.ndarray, np.ndarray]]):
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
class SpecialEuclidean(Factored[tuple[np.ndarray, np.ndarray]]):
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
