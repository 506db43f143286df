"""Initial points: given, named or random, validated and projected onto the manifold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from ._problem import Problem
from ._quoted import quoted
from ._result import Point, Result
from .linalg import EPS, dtype_of, leaves, shapes, tree_map
from .manifolds import Manifold, Orthogonal, Stiefel
from .storage._real import check_unmasked

OFF_MANIFOLD = 1e-6

MOST_COMPONENTS = 8
"""Maximum number of connected components of a manifold that a run searches."""


SALT = 0x6D73
"""Key of the random stream of starts, which differs from ``default_rng(seed)`` because data may be drawn from it."""


def generator(seed: int | np.random.Generator | None) -> np.random.Generator:
    """Return the given generator, or a generator of a separate stream for starts, which is independent of data."""
    if isinstance(seed, np.random.Generator):
        return seed
    try:
        return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(SALT,)))
    except (TypeError, ValueError) as error:
        raise ValueError(f"seed={quoted(seed)}: use a whole number ≥ 0, a numpy.random.Generator or None") from error


def drawn_from(seed: int | np.random.Generator | None) -> Callable[[], np.random.Generator]:
    """Return a function that returns the generator of a seed, which is created on first use."""
    one = [] if seed is None or (type(seed) is int and seed >= 0) else [generator(seed)]

    def rng() -> np.random.Generator:
        if not one:
            one.append(generator(seed))
        return one[0]

    return rng


def start_points(
    problem: Problem[Point],
    x0: Any,
    n_starts: int,
    components: str | None,
    rng: Callable[[], np.random.Generator],
    project: bool,
) -> list[tuple[Point, int | None]]:
    manifold = problem.manifold
    children = rng().spawn(n_starts - 1) if n_starts > 1 else []
    first = start_point(problem, x0, rng() if x0 is None or isinstance(x0, str) else None, project)
    points = [first, *(manifold.random_point(child) for child in children)]
    dtype = dtype_of(points[0])
    if components is None and x0 is None and not problem.initializers and _two_determinants(manifold):
        components = "all"  # a random determinant is no answer
    points = [points[0], *(tree_map(lambda leaf: leaf.astype(dtype), point) for point in points[1:])]
    if components is None:
        return [(point, None) for point in points]
    if components != "all":
        raise ValueError(f"components={quoted(components)}: use 'all', or None for the component of the start")
    if manifold.components > MOST_COMPONENTS:
        raise ValueError(
            f"components='all' searches at most {MOST_COMPONENTS} components, but {manifold!r} has "
            f"{manifold.components}: run the solver from one start in each component of interest"
        )
    return [(manifold.to_component(point, i), i) for point in points for i in range(manifold.components)]


def _two_determinants(manifold: Manifold) -> bool:
    """Return whether a manifold is O(n), whose two components are the determinants +1 and −1."""
    return isinstance(manifold, Stiefel | Orthogonal) and manifold.components == 2


def searched(manifold: Manifold[Point], x: Point, component: int | None) -> str:
    """Return a sentence about the searched components, or an empty string if the manifold has only one.

    `component` is the number of the component of `x` if all components were searched, and otherwise None.
    """
    n = manifold.components
    if n == 1:
        return ""
    named = (
        (" (determinant +1)", " (determinant -1)") if _two_determinants(manifold) else ("",) * min(n, MOST_COMPONENTS)
    )
    if component is not None:
        every = "Both" if n == 2 else f"All {n}"
        return f"{every} connected components were searched; the result is in component {component}{named[component]}."
    if n > MOST_COMPONENTS:
        return (
            f"Only the component of the start was searched, although the manifold has {n} connected components: "
            "compare the results from starts in other components."
        )
    here = next((i for i in range(n) if all(map(_same, leaves(manifold.to_component(x, i)), leaves(x)))), None)
    if here is None or n > 2:
        return (
            f"Only the component of the start was searched, although the manifold has {n} connected components: "
            "components='all' searches all of them."
        )
    there = 1 - here
    return (
        f"Only the connected component {here}{named[here]} of the start was searched: components='all' searches "
        f"component {there}{named[there]} too."
    )


def _same(a: np.ndarray, b: np.ndarray) -> bool:
    return a is b or np.array_equal(a, b)


def start_point(problem: Problem[Point], x0: Any, rng: np.random.Generator | None, project: bool = False) -> Point:
    """Return the first point of a run; `rng` is None if a point is given."""
    return on_manifold(problem.manifold, *begun(problem, x0, rng), project=project)


def begun(problem: Problem[Point], x0: Any, rng: np.random.Generator | None, *, copy: bool = True) -> tuple[Point, str]:
    """Return the given start, or the start of an initializer, with finite arrays, and its name for error messages.

    `x0` is a point, a result, the name of an initializer, or None for the first initializer; with `rng` also a
    function.
    """
    manifold, what, make = problem.manifold, "x0", None
    if isinstance(x0, Result):
        x0 = x0.x
    if x0 is None and not problem.initializers:
        return manifold.random_point(cast("np.random.Generator", rng)), what
    if x0 is None or isinstance(x0, str):
        name = next(iter(problem.initializers)) if x0 is None else x0
        if name not in problem.initializers:
            known = ", ".join(map(repr, problem.initializers)) or "none"
            raise ValueError(f"unknown initializer {quoted(name)}: this problem has {known}")
        make, what = problem.initializers[name], f"the point of the initializer {name!r}"
    elif rng is not None and callable(x0):
        make, what = x0, f"the point of the initializer {getattr(x0, '__name__', type(x0).__name__)}"
    point = as_point(x0 if make is None else make(problem, cast("np.random.Generator", rng)), what, copy)
    compare_shapes(shapes(point), manifold.shape, manifold.names, what)
    check_finite(point, what)
    return point, what


def check_finite(point: Any, what: str) -> None:
    """Raise an error if a start has NaN or infinite entries."""
    for leaf in leaves(point):
        if not np.isfinite(leaf).all():
            raise ValueError(f"{what} has NaN or infinite entries: start from a finite point")


def on_manifold(manifold: Manifold[Point], point: Point, what: str = "x0", *, project: bool) -> Point:
    """Return a start, or a batch of starts, on the manifold, or raise an error with the distance."""
    worst = violation(manifold, point)
    if not project and worst > OFF_MANIFOLD and worst > 100 * EPS[dtype_of(point)]:
        off = np.asarray(manifold.feasibility(point))
        row = f"[{int(off.argmax())}]" if off.ndim else ""
        raise ValueError(
            f"{what}{row} is not on {manifold!r} (distance {worst:.2g}): start from manifold.nearest(x0), or "
            "set project=True"
        )
    return manifold.nearest(point) if worst > 1e-14 else point


def violation(manifold: Manifold, point: Point) -> float:
    """Return the distance of a point, or of the worst point of a batch, from the manifold."""
    off = manifold.feasibility(point)
    return off if type(off) is float else float(np.max(off))


def as_point(x0: Any, what: str = "x0", copy: bool = True) -> Any:
    check_unmasked(x0, what)
    if isinstance(x0, tuple | list) and (isinstance(x0, tuple) or (any(map(_has_axes, x0)) and not _is_numeric(x0))):
        return tuple(as_point(part, what, copy) for part in x0)
    if x0 is None:
        raise TypeError(f"{what} is None: return an array, or a tuple of arrays")
    array = np.array(x0) if copy else np.asarray(x0)
    if array.dtype.kind not in "fiub":
        raise TypeError(f"{what} has dtype {array.dtype}: pass real numbers")
    return array if array.dtype in (np.float32, np.float64) else array.astype(np.float64)


def _has_axes(part: Any) -> bool:
    try:
        return np.ndim(part) > 0
    except ValueError:  # arrays of different shapes
        return True


def _is_numeric(x0: Any) -> bool:
    try:
        return np.asarray(x0).dtype.kind in "fiub"
    except ValueError:
        return False


def compare_shapes(got: Any, wanted: Any, names: Sequence[str] | None, where: str) -> None:
    nested = bool(wanted) and isinstance(wanted[0], tuple)
    if nested:
        if not (isinstance(got, tuple) and len(got) == len(wanted) and all(isinstance(part, tuple) for part in got)):
            labels = ", ".join(names or ())
            raise ValueError(f"{where} must be a tuple of {len(wanted)} arrays ({labels}), got shape {got}")
        for k, (part, shape) in enumerate(zip(got, wanted, strict=True)):
            label = names[k] if names and len(names) == len(wanted) else str(k)
            compare_shapes(part, shape, None, f"{where}, factor {label!r}")
    elif got != wanted:
        raise ValueError(f"{where} has shape {got}, but the manifold needs {wanted}")
