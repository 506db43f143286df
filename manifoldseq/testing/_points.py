"""Points and directions of checks, and comparison of bits."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from .._problem import Problem
from .._result import Point
from .._start import start_point
from ..linalg import freeze, leaves, tree_map
from ..manifolds import Factored, Manifold, Power
from ..objectives import Objective
from ..objectives._counted import Counter

_NEAR = 1e-3


def as_problem(problem: Any) -> Problem:
    """Return a Problem from one, or from a pair (manifold, objective)."""
    if isinstance(problem, tuple) and len(problem) == 2:
        return Problem(*problem)
    if not isinstance(problem, Problem):
        raise TypeError(f"the check needs a Problem or a pair (manifold, objective), got {type(problem).__name__}")
    return problem


def at_boundary(objective: Objective) -> Objective:
    """Return the objective as solvers get it: read-only points, and results of validated structure and dtype."""
    return Counter().wrap(objective)


def start(problem: Problem[Point], x: Any, rng: np.random.Generator) -> Point:
    """Return the given point (read-only), or a random point away from active bounds."""
    return freeze(interior_point(problem.manifold, rng) if x is None else start_point(problem, x, rng))


def interior_point(manifold: Manifold, rng: np.random.Generator, dtype: Any = np.float64) -> Any:
    """Return a random point; on bounded factors the mean of several, which keeps away from the bounds."""
    if isinstance(manifold, Factored):
        return tuple(interior_point(factor, rng, dtype) for factor in manifold.factors)
    if not manifold.bounded:
        return manifold.random_point(rng, dtype)
    points = [manifold.random_point(rng, np.float64) for _ in range(4)]
    mean = tree_map(lambda *parts: np.mean(parts, axis=0).astype(dtype), *points)
    return manifold.nearest(mean)


def direction(manifold: Manifold[Point], x: Point, rng: np.random.Generator, only: int | None = None) -> Point | None:
    """Return a random unit tangent vector, zero where a bound is active and in all leaves but number `only`.

    None if there is no such vector, as on a factor of dimension zero.
    """
    u = _within_bounds(manifold, x, manifold.random_tangent(x, rng))
    if only is not None:
        count = itertools.count()
        u = tree_map(lambda leaf: leaf if next(count) == only else np.zeros_like(leaf), u)
    length = float(manifold.inner(x, u, u)) ** 0.5
    return tree_map(lambda leaf: leaf / leaf.dtype.type(length), u) if length > 1e-12 else None


def _within_bounds(manifold: Manifold, x: Any, u: Any) -> Any:
    if isinstance(manifold, Factored):
        return tuple(_within_bounds(f, a, b) for f, a, b in zip(manifold.factors, x, u, strict=True))
    if not manifold.bounded:
        return u
    forth, back = _kept(manifold, x, u, _NEAR), _kept(manifold, x, scaled(-1, u), _NEAR)
    return tree_map(lambda v, a, b: np.where(a & b, v, v.dtype.type(0)), u, forth, back)


def reaches(manifold: Manifold[Point], x: Point, u: Point, t: float) -> bool:
    """Return whether the retraction along t·u does not reach a bound."""
    if isinstance(manifold, Factored):
        return all(reaches(f, a, b, t) for f, a, b in zip(manifold.factors, x, u, strict=True))
    if not manifold.bounded or t <= _NEAR:
        return True
    return all(np.all(kept) for kept in leaves(_kept(manifold, x, u, t)))


def stays_inside(manifold: Manifold, x: Any, u: Any, t: float) -> bool:
    """Return whether x + t·u is inside an open set, because geodesics may be reflected at its boundary."""
    if isinstance(manifold, Power):
        return stays_inside(manifold.manifold, x, u, t)
    if isinstance(manifold, Factored):
        return all(stays_inside(f, a, b, t) for f, a, b in zip(manifold.factors, x, u, strict=True))
    if not manifold.open:
        return True
    return bool(np.all(np.asarray(manifold.feasibility(tree_map(np.add, x, scaled(t, u)))) < _NEAR))


def _kept(manifold: Manifold[Point], x: Point, u: Point, t: float) -> Point:
    """Return a mask of the coordinates that the retraction moves with the velocity u."""

    def kept(a: np.ndarray, b: np.ndarray, v: np.ndarray) -> np.ndarray:
        return np.abs(b - a) >= 0.99 * t * np.abs(v)

    return tree_map(kept, x, manifold.retract(x, scaled(t, u)), u)


def scaled(t: float, u: Point) -> Point:
    """Return t·u in the dtype of u."""
    return tree_map(lambda leaf: leaf.dtype.type(t) * leaf, u)


def leaf_names(manifold: Manifold[Point], x: Point, prefix: str = "") -> Iterator[str]:
    """Yield the names of the leaves of a point; the names of nested products are joined by dots."""
    if not isinstance(x, tuple):
        yield prefix
        return
    names = manifold.names or tuple(str(k) for k in range(len(x)))
    factors = manifold.factors if isinstance(manifold, Factored) else (manifold,) * len(x)
    for name, factor, part in zip(names, factors, x, strict=True):
        yield from leaf_names(factor, part, f"{prefix}.{name}" if prefix else name)


def copied(tree: Point) -> Point:
    """Return writable copies of the leaves."""
    return tree_map(np.array, tree)


def distance(a: Point, b: Point) -> float:
    """Return the largest absolute difference of two trees; infinite if their structures or shapes differ."""
    first, second = list(leaves(a)), list(leaves(b))
    if [np.shape(leaf) for leaf in first] != [np.shape(leaf) for leaf in second]:
        return np.inf
    return max(float(np.max(np.abs(np.subtract(p, q)), initial=0.0)) for p, q in zip(first, second, strict=True))


def magnitude(a: Point) -> float:
    """Return the largest absolute entry of a tree."""
    return max(float(np.max(np.abs(leaf), initial=0.0)) for leaf in leaves(a))


def same(a: Any, b: Any) -> bool:
    """Return whether two nested values agree bit by bit: arrays, numbers, containers and dataclasses of them."""
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        if not (isinstance(a, np.ndarray) and isinstance(b, np.ndarray) and (a.dtype, a.shape) == (b.dtype, b.shape)):
            return False
        return np.array_equal(a, b, equal_nan=a.dtype.kind in "fc")
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(same(p, q) for p, q in zip(a, b, strict=True))
    if dataclasses.is_dataclass(a):
        return all(same(getattr(a, f.name), getattr(b, f.name)) for f in dataclasses.fields(a))
    return bool(a == b or (a != a and b != b))
