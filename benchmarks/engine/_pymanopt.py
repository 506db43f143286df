"""pymanopt in the race: as its documentation shows it, and as an expert writes it by hand."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Protocol

import numpy as np
import pymanopt
from numpy.typing import NDArray
from pymanopt.manifolds import (
    Euclidean,
    Grassmann,
    Oblique,
    Positive,
    SpecialOrthogonalGroup,
    Sphere,
    Stiefel,
    SymmetricPositiveDefinite,
)
from pymanopt.manifolds import Product as TheirProduct
from pymanopt.optimizers import ConjugateGradient, TrustRegions

from manifoldseq import manifolds as ours

from ._measure import Ended, Oracle, Outcome, factors, like, parts
from ._problems import Case, Point

Array = NDArray[Any]


class Box(Euclidean):
    """A box by clipping: what an expert writes, since pymanopt has none."""

    def __init__(self, n: int, bound: float) -> None:
        super().__init__(n)
        self.bound = bound

    def retraction(self, point: Array, tangent_vector: Array) -> Array:
        """Step and clip."""
        return np.clip(point + tangent_vector, -self.bound, self.bound)

    def euclidean_to_riemannian_gradient(self, point: Array, euclidean_gradient: Array) -> Array:
        """Drop what pushes outward at a bound."""
        outward = (np.abs(point) >= self.bound) & (point * euclidean_gradient < 0)
        return np.where(outward, 0.0, euclidean_gradient)


def theirs(manifold: ours.Manifold, retraction: str = "qr", box: bool = False) -> Any:
    """Return pymanopt's manifold; a bounded factor is the expert's box, or a Euclidean space behind tanh.

    Its rotations serve for both components of the orthogonal group: none of their formulas asks for the determinant,
    and they are faster than its square Stiefel manifold.
    """

    def one(factor: ours.Manifold) -> Any:
        match factor:
            case ours.Stiefel():
                return Stiefel(factor.n, factor.p, retraction=retraction)
            case ours.Orthogonal():
                return SpecialOrthogonalGroup(factor.n, retraction=retraction)
            case ours.Grassmann():
                return Grassmann(factor.n, factor.p)
            case ours.Power(manifold=ours.SpecialOrthogonal() as base):
                return SpecialOrthogonalGroup(base.n, k=factor.n, retraction=retraction)
            case ours.Power(manifold=ours.SymmetricPositiveDefinite() as base):
                return SymmetricPositiveDefinite(base.n, k=factor.n)
            case ours.SymmetricPositiveDefinite():
                return SymmetricPositiveDefinite(factor.n)
            case ours.Oblique():
                return Oblique(factor.n, factor.m)
            case ours.Sphere():
                return Sphere(*factor.shape)
            case ours.Euclidean():
                return Euclidean(*factor.shape)
            case ours.Positive():
                return Positive(*factor.shape, 1)
            case ours.BoundedDiagonal():
                return Box(factor.n, factor.bound) if box else Euclidean(factor.n)
        raise TypeError(f"pymanopt has no {factor!r}")

    converted = [one(factor) for factor in factors(manifold)]
    return converted[0] if len(converted) == 1 else TheirProduct(converted)


class Squashed:
    """Coordinates of all reals for the bounded factors, ``x = bound·tanh(z/2)``; the others stay."""

    def __init__(self, manifold: ours.Manifold) -> None:
        self.bounds = [getattr(f, "bound", None) for f in factors(manifold)]

    def out(self, x: Point) -> list[Array]:
        """Return the coordinates of a point."""
        return [a if b is None else 2 * np.arctanh(a / b) for a, b in zip(parts(x), self.bounds, strict=True)]

    def back(self, z: Any) -> tuple[Array, ...]:
        """Return the point of coordinates."""
        return tuple(a if b is None else b * np.tanh(a / 2) for a, b in zip(z, self.bounds, strict=True))

    def gradient(self, x: tuple[Array, ...], egrad: Point) -> list[Array]:
        """Return the gradient in the coordinates."""
        return [
            g if b is None else g * (b * b - a * a) / (2 * b)
            for a, g, b in zip(x, parts(egrad), self.bounds, strict=True)
        ]


class Evaluated(Protocol):
    """What evaluates a problem: a case itself, or the oracle that watches it."""

    def cost(self, x: Point, /) -> float: ...
    def gradient(self, x: Point, /) -> Point: ...
    def fused(self, x: Point, /) -> tuple[float, Point]: ...
    def hessian(self, x: Point, u: Point, /) -> Point: ...


def stock_problem(case: Case, oracle: Evaluated) -> tuple[pymanopt.Problem, Any]:
    """Return the problem with cost and gradient given apart and tanh for bounds, and its start."""
    manifold, chart = theirs(case.manifold), Squashed(case.manifold)
    wrap = pymanopt.function.numpy(manifold)

    @wrap
    def cost(*z: Array) -> float:
        return oracle.cost(like(case.start, chart.back(z)))

    @wrap
    def gradient(*z: Array) -> Any:
        x = chart.back(z)
        return unwrapped(chart.gradient(x, oracle.gradient(like(case.start, x))))

    return pymanopt.Problem(manifold, cost, euclidean_gradient=gradient), unwrapped(chart.out(case.start))


def memoized_problem(case: Case, oracle: Evaluated, retraction: str = "qr") -> tuple[pymanopt.Problem, Any]:
    """Return an expert's problem, where cost and gradient share the last evaluation and bounds are clipped."""
    manifold = theirs(case.manifold, retraction, box=True)
    wrap = pymanopt.function.numpy(manifold)
    last: list[Any] = [None, None]

    def both(x: tuple[Array, ...]) -> tuple[float, Point]:
        if last[0] is None or any(a is not b for a, b in zip(last[0], x, strict=True)):
            last[:] = x, oracle.fused(like(case.start, x))
        return last[1]

    @wrap
    def cost(*x: Array) -> float:
        return both(x)[0]

    @wrap
    def gradient(*x: Array) -> Any:
        return unwrapped(parts(both(x)[1]))

    def product(*both: Array) -> Any:
        x, u = (like(case.start, part) for part in (both[: len(both) // 2], both[len(both) // 2 :]))
        return unwrapped(parts(oracle.hessian(x, u)))

    hessian = None if case.hessian is None else wrap(product)
    problem = pymanopt.Problem(manifold, cost, euclidean_gradient=gradient, euclidean_hessian=hessian)
    return problem, unwrapped(parts(case.start))


def unwrapped(arrays: Sequence[Array]) -> Any:
    """Return a list as pymanopt wants it on a product, and a single array elsewhere."""
    return list(arrays) if len(arrays) > 1 else arrays[0]


def stock(case: Case, limit: float) -> Outcome:
    """Conjugate gradients as pymanopt's documentation shows them."""
    oracle = Oracle(case, limit)
    return _run(ConjugateGradient, *stock_problem(case, oracle), oracle)


def memoized(case: Case, limit: float, retraction: str = "qr") -> Outcome:
    """Conjugate gradients as an expert writes them."""
    oracle = Oracle(case, limit)
    return _run(ConjugateGradient, *memoized_problem(case, oracle, retraction), oracle)


def trust_regions(case: Case, limit: float) -> Outcome:
    """Trust regions with the Hessian product written by hand, and the memo."""
    oracle = Oracle(case, limit)
    return _run(TrustRegions, *memoized_problem(case, oracle, "polar"), oracle)


def _run(optimizer: Any, problem: pymanopt.Problem, start: Any, oracle: Oracle) -> Outcome:
    # the oracle ends the run: no tolerance of the optimizer may end it before
    solver = optimizer(
        verbosity=0, max_iterations=10**9, max_time=1e6, min_gradient_norm=0, min_step_size=0, max_cost_evaluations=1e9
    )
    with np.errstate(all="ignore"), suppress(Ended):
        solver.run(problem, initial_point=start)
    return oracle.outcome()
