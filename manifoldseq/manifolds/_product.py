"""Products of manifolds, and the canonical tuples of linear dynamical systems."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, overload

import numpy as np

from .._result import Point, Tree
from ..execution import cached_property
from ..linalg import freeze, tree_map
from ._base import Manifold, bound_of, known_component, leaf_shapes, size
from ._bounded import BoundedDiagonal
from ._euclidean import Euclidean
from ._special_orthogonal import SpecialOrthogonal
from ._stiefel import Orthogonal, Stiefel


def block_diagonal(blocks: Sequence[np.ndarray]) -> np.ndarray:
    """Return matrices (…, a, d) as the diagonal blocks of larger ones."""
    lead = blocks[0].shape[:-2]
    whole = np.zeros((*lead, sum(b.shape[-2] for b in blocks), sum(b.shape[-1] for b in blocks)))
    r = c = 0
    for b in blocks:
        whole[..., r : r + b.shape[-2], c : c + b.shape[-1]] = b
        r, c = r + b.shape[-2], c + b.shape[-1]
    return whole


A = TypeVar("A", bound=Tree)
B = TypeVar("B", bound=Tree)
C = TypeVar("C", bound=Tree)

# a point of a product from those of its factors: Python's types cannot say which tuple a list becomes
joined: Callable[[list[Any]], Any] = tuple


class Factored(Manifold[Point]):
    """A product: every operation maps over the factors. Subclasses set ``factors`` and ``names``."""

    factors: tuple[Manifold, ...]

    @cached_property
    def shape(self) -> tuple[Any, ...]:  # type: ignore[override]
        return tuple(factor.shape for factor in self.factors)

    @cached_property
    def dim(self) -> int:  # type: ignore[override]
        return sum(factor.dim for factor in self.factors)

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """The numbers of entries of the factors; factors of nested products are listed individually."""
        parts = [
            f.sizes if isinstance(f, Factored) else (sum(map(math.prod, leaf_shapes(f.shape))),) for f in self.factors
        ]
        return tuple([size for part in parts for size in part])

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
        """The product of the frames of the factors, with the factors themselves if they have no frame."""
        frames = [factor.frame for factor in self.factors]
        if not any(frame is not None for frame in frames):
            return None
        return Product(*[f if g is None else g for f, g in zip(self.factors, frames, strict=True)], names=self.names)

    def to_frame(self, x: Point, u: Point) -> Point:
        return joined([f.to_frame(a, b) for f, a, b in zip(self.factors, x, u, strict=True)])

    def from_frame(self, x: Point, c: Point) -> Point:
        return joined([f.from_frame(a, b) for f, a, b in zip(self.factors, x, c, strict=True)])

    def euclidean_gradient(self, x: Point, u: Point) -> Point:
        return joined([f.euclidean_gradient(a, b) for f, a, b in zip(self.factors, x, u, strict=True)])

    def displacement(self, x: Point, y: Point) -> Point:
        return joined([f.displacement(a, b) for f, a, b in zip(self.factors, x, y, strict=True)])

    def project(self, x: Point, u: Point) -> Point:
        return joined([f.project(a, b) for f, a, b in zip(self.factors, x, u, strict=True)])

    def inner(self, x: Point, u: Point, v: Point) -> Any:
        return sum(f.inner(a, b, c) for f, a, b, c in zip(self.factors, x, u, v, strict=True))

    def gradient(self, x: Point, egrad: Point) -> Point:
        return joined([f.gradient(a, b) for f, a, b in zip(self.factors, x, egrad, strict=True)])

    @cached_property
    def _has_hessian(self) -> bool:
        return all(factor.hessian is not None for factor in self.factors)

    @property
    def hessian(self) -> Callable[..., Any] | None:  # type: ignore[override]
        return self._hessian if self._has_hessian else None

    def _hessian(self, x: Point, egrad: Point, ehess: Point, u: Point) -> Point:
        return joined(
            [
                f.hessian(*args)  # type: ignore[misc]
                for f, *args in zip(self.factors, x, egrad, ehess, u, strict=True)
            ]
        )

    @cached_property
    def retractions(self) -> tuple[str, ...]:  # type: ignore[override]
        """The retractions of all factors together. A factor without a retraction of that name uses its default."""
        return tuple(dict.fromkeys(kind for factor in self.factors for kind in factor.retractions))

    @property
    def second_order(self) -> tuple[str, ...]:  # type: ignore[override]
        """The retractions that are of second order on every factor."""
        return tuple(k for k in self.retractions if all(_second_order(factor, k) for factor in self.factors))

    def retract(self, x: Point, u: Point, kind: str | None = None) -> Point:
        steps = zip(self.factors, x, u, strict=True)
        if kind is None:
            return joined([f.retract(a, b) for f, a, b in steps])
        self._kind(kind)
        return joined([f.retract(a, b, kind if kind in f.retractions else None) for f, a, b in steps])

    def basis(self, x: Point) -> np.ndarray:
        bases = [factor.basis(part) for factor, part in zip(self.factors, x, strict=True)]
        return block_diagonal(bases)

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

    def nearest(self, x: Point) -> Point:
        return joined([f.nearest(a) for f, a in zip(self.factors, x, strict=True)])

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
        """Return the smallest scale among the factors that are not frozen."""
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


def _of_factors(parts: Sequence[Callable[..., Any] | None]) -> Callable[..., Any] | None:
    """Return an operation of a product from those of its factors, or None if a factor lacks the operation."""
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


_MANY = 4
"""Number of equal consecutive factors from which the representation shows one factor and suggests a power."""


def _numbers(factors: Sequence[Manifold]) -> tuple[str, ...]:
    """Return the default names of factors: their positions."""
    return tuple(str(k) for k in range(len(factors)))


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
    Every operation is a loop over the factors. For n equal factors use ``manifold ** n``, a :class:`Power`: its points
    are arrays of shape (n, …), and its operations have no loop. For 150 rotations, an evaluation in a run of L-BFGS
    takes 13 times as long on the product as on the power.

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
    _example: ClassVar[tuple[Any, ...]] = (Stiefel(5, 2), Euclidean(3))

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
                    f"factor {k} of Product is {factor!r}, not a manifold: pass Product(A, B), not Product([A, B])"
                )
        labels = _numbers(factors) if names is None else tuple(names)
        if len(labels) != len(factors) or len(set(labels)) != len(labels):
            raise ValueError(f"Product(names={labels}): pass {len(factors)} different names, one for each factor")
        object.__setattr__(self, "factors", factors)
        object.__setattr__(self, "names", labels)

    def __repr__(self) -> str:
        runs = [(repr(factor).partition("  # faster")[0], len(list(equal))) for factor, equal in groupby(self.factors)]
        parts = [f"*[{one}] * {n}" if n >= _MANY else ", ".join([one] * n) for one, n in runs]
        faster = ", ".join(f"{one} ** {n}" for one, n in runs if n >= _MANY)
        named = "" if self.names == _numbers(self.factors) else f", names={self.names}"
        return f"Product({', '.join(parts)}{named})" + (f"  # faster: {faster}" if faster else "")

    @cached_property
    def components(self) -> int:  # type: ignore[override]
        return math.prod(factor.components for factor in self.factors)


@dataclass(frozen=True)
class CanonicalLDS(Factored[tuple[np.ndarray, np.ndarray, np.ndarray]]):
    """Canonical tuples (λ, V, U) of linear dynamical systems: A = diag(λ) V, C = U.

    The set is the product BoundedDiagonal(n) × Orthogonal(n) × Stiefel(m, n), see Theorem 1 and Remark 3 of "Efficient
    Optimization for Linear Dynamical Systems" (2017). Every point is a stable system with orthonormal C.

    Parameters
    ----------
    m : int
        Output dimension.
    n : int
        State dimension, n ≤ m.
    bound : float
        Bound on ``|λ|``, below one (ε in the paper).

    Notes
    -----
    One connected component suffices, because the sign of a λ can replace the determinant of V. ``|λ| < 1`` implies
    stability, but the converse does not hold: some stable systems are not points of this manifold.

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
    _example: ClassVar[tuple[Any, ...]] = (8, 3)

    def __post_init__(self) -> None:
        size("CanonicalLDS", m=self.m, n=self.n)
        if self.n > self.m:
            raise ValueError(
                f"CanonicalLDS(m={self.m}, n={self.n}): the state dimension n cannot exceed the output dimension m: "
                "lower n"
            )
        object.__setattr__(self, "bound", bound_of("CanonicalLDS", self.bound, 1))
        factors = (BoundedDiagonal(self.n, self.bound), Orthogonal(self.n), Stiefel(self.m, self.n))
        object.__setattr__(self, "factors", factors)
        object.__setattr__(self, "names", ("lam", "V", "U"))


@dataclass(frozen=True)
class SpecialEuclidean(Factored[tuple[np.ndarray, np.ndarray]]):
    """Rigid motions ``y = R z + t`` of R^n: poses of cameras and robots.

    The set is the product SpecialOrthogonal(n) × Euclidean(n) with its metric, and points are tuples (R, t).
    ``SpecialEuclidean(3) ** k`` is the manifold of k poses, as arrays (k, 3, 3) and (k, 3).

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
    _example: ClassVar[tuple[Any, ...]] = (3,)

    def __post_init__(self) -> None:
        size("SpecialEuclidean", n=self.n)
        object.__setattr__(self, "factors", (SpecialOrthogonal(self.n), Euclidean(self.n)))
        object.__setattr__(self, "names", ("R", "t"))
