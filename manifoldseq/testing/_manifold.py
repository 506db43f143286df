"""Checks of manifolds."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .._result import Point
from .._start import compare_shapes
from ..linalg import flatten, leaves, norm, shapes, tree_map, unflattener
from ..manifolds import Manifold
from ._manifold_case import (
    MANY,
    TOLERANCE,
    Case,
    broadcasts,
    has_quotient,
    keeps_dtype,
    on_quotients,
    one_base,
    same_at_equivalents,
)
from ._points import distance, magnitude, reaches, same, scaled, stays_inside
from ._report import Examination, Report, Verdict, unless, within
from ._slope import slope_law

_LARGEST_RANK = 400


def check_manifold(manifold: Manifold, *, seed: int = 0) -> Report:
    """Check a manifold against the laws that solvers rely on.

    Points are feasible and keep their dtype; ``project`` is a projection of rank ``dim`` (orthogonal where the metric
    is the embedded one); ``gradient`` represents the differential; the curves of retractions start at the point with
    the velocity of the tangent vector, and the curves of ``second_order`` retractions start without acceleration;
    transported vectors are tangent and ``nearest`` returns feasible points; ``hessian`` is symmetric and consistent
    with the metric; ``descent_curve`` descends; components differ; on a quotient, results do not depend on the
    representative; and every operation broadcasts over leading axes. ``exp``, ``log``, ``dist``, ``geodesic``,
    ``parallel_transport`` and ``inverse_retraction`` are checked if the manifold has them.

    Parameters
    ----------
    manifold : Manifold
        A small manifold, because the check forms matrices whose size is the number of its entries.
    seed : int

    Returns
    -------
    Report

    Raises
    ------
    TypeError
        If it is not a manifold.

    Examples
    --------
    >>> import manifoldseq as ms
    >>> print(ms.testing.check_manifold(ms.manifolds.Orthogonal(3)).ok)
    True
    """
    if not isinstance(manifold, Manifold):
        raise TypeError(f"check_manifold needs a manifold such as ms.manifolds.Stiefel(5, 2), got {manifold!r}")
    exam = Examination(f"{manifold!r}")
    if not exam.law("random points are feasible, of the right shape, reproducible", lambda: _random(manifold, seed)):
        return exam.report()
    case = Case.random(manifold, np.random.default_rng(seed))
    _tangent_laws(exam, case)
    _motion_laws(exam, case)
    _derivative_laws(exam, case)
    if manifold.frame is not None:
        _frame_laws(exam, case, manifold.frame)
    _geometry_laws(exam, case)
    if has_quotient(manifold):
        exam.law("X and X Q are the same point", lambda: same_at_equivalents(case))
    exam.law("points of another dtype keep it", lambda: keeps_dtype(manifold, seed))
    exam.law("every operation broadcasts over leading axes", lambda: broadcasts(manifold, seed))
    if manifold.one_base:
        exam.law("inner, project and transport take one point and many vectors", lambda: one_base(manifold, seed))
    exam.law("components are distinguished", lambda: _components(manifold, case.x))
    return exam.report()


def _random(manifold: Manifold, seed: int) -> Verdict:
    x, y = (manifold.random_point(np.random.default_rng(seed)) for _ in range(2))
    compare_shapes(shapes(x), manifold.shape, manifold.names, "random_point(rng)")
    if not same(x, y):
        return False, "the same generator gave different points: draw from rng only"
    return within(manifold.feasibility(x), TOLERANCE)


def _tangent_laws(exam: Examination, case: Case) -> None:
    M, x, a, b, u, v = case.manifold, case.x, case.a, case.b, case.u, case.v
    Pa = M.project(x, a)
    total = tree_map(lambda p, q: p + 2 * q, a, b)
    exam.law("project is idempotent", lambda: within(distance(M.project(x, Pa), Pa), TOLERANCE))
    exam.law(
        "project is linear",
        lambda: within(distance(M.project(x, total), tree_map(lambda p, q: p + 2 * q, Pa, M.project(x, b))), TOLERANCE),
    )
    exam.law("random tangent vectors are tangent", lambda: within(distance(M.project(x, u), u), TOLERANCE))
    exam.law("inner is symmetric and positive", lambda: _inner(case))
    gradient = M.gradient(x, a)
    exam.law("gradient is tangent", lambda: within(distance(M.project(x, gradient), gradient), TOLERANCE))
    exam.law(
        "gradient represents the differential",
        lambda: within(abs(M.inner(x, gradient, u) - np.dot(flatten(a), flatten(u))), TOLERANCE),
    )
    if M.metric == "embedded":
        exam.law(
            "embedded metric: inner is the dot product",
            lambda: within(abs(M.inner(x, u, v) - np.dot(flatten(u), flatten(v))), TOLERANCE),
        )
        exam.law(
            "project is orthogonal",
            lambda: within(abs(M.inner(x, tree_map(np.subtract, a, Pa), u)), TOLERANCE),
        )
    if flatten(x).size <= _LARGEST_RANK:
        exam.law("dim is the dimension of the tangent space", lambda: _rank(M, x))
        exam.law("basis is orthonormal and tangent", lambda: _basis(M, x))


def _inner(case: Case) -> Verdict:
    M, x, u, v = case.manifold, case.x, case.u, case.v
    forth, back, square = M.inner(x, u, v), M.inner(x, v, u), M.inner(x, u, u)
    if not isinstance(forth, float):
        return False, f"inner returned {type(forth).__name__}, not a float"
    if not (square > 0 or magnitude(u) == 0):
        return False, f"<u, u> = {square}"
    return within(abs(forth - back), TOLERANCE)


def _rank(manifold: Manifold[Point], x: Point) -> Verdict:
    size, tree = flatten(x).size, unflattener(x)
    projector = np.array([flatten(manifold.project(x, tree(row))) for row in np.eye(size)])
    rank = int(np.linalg.matrix_rank(projector, tol=1e-8))
    return rank == manifold.dim, f"dim {manifold.dim}" if rank == manifold.dim else f"dim {manifold.dim}, rank {rank}"


def _basis(manifold: Manifold[Point], x: Point) -> Verdict:
    B, tree = manifold.basis(x), unflattener(x)
    if np.shape(B) != (flatten(x).size, manifold.dim):
        return False, f"basis has shape {np.shape(B)}, not {(flatten(x).size, manifold.dim)}"
    columns = [tree(np.ascontiguousarray(column)) for column in B.T]
    off = [distance(manifold.project(x, u), u) for u in columns]
    gram = [[manifold.inner(x, u, v) for u in columns] for v in columns]
    return within(max([*off, float(np.max(np.abs(np.array(gram) - np.eye(manifold.dim)), initial=0.0))]), TOLERANCE)


def _motion_laws(exam: Examination, case: Case) -> None:
    M, x, u, v = case.manifold, case.x, case.u, case.v
    for kind in M.retractions or (None,):
        name = f"retraction {kind!r}" if kind else "retraction"
        exam.law(
            f"{name} starts at the point", lambda k=kind: within(distance(M.retract(x, scaled(0, u), k), x), 1e-12)
        )
        exam.law(f"{name} is feasible", lambda k=kind: within(M.feasibility(M.retract(x, u, k)), TOLERANCE))
        exam.law(f"{name} has the velocity of its tangent vector", lambda k=kind: _first_order(case, k))
    y = M.retract(x, scaled(0.1, v))
    exam.law(
        "transport to the same point is the identity", lambda: within(distance(M.transport(x, x, u), u), TOLERANCE)
    )
    Tu, total = M.transport(x, y, u), tree_map(lambda p, q: p + 2 * q, u, v)
    exam.law("transported vectors are tangent", lambda: within(distance(M.project(y, Tu), Tu), TOLERANCE))
    exam.law(
        "transport is linear",
        lambda: within(
            distance(M.transport(x, y, total), tree_map(lambda p, q: p + 2 * q, Tu, M.transport(x, y, v))), TOLERANCE
        ),
    )
    exam.law("nearest is feasible and does not change points", lambda: _nearest(case))
    exam.law("feasibility detects a point off the manifold", lambda: _feasibility(case))
    exam.law("free is None or a tree of booleans", lambda: _free(case))
    exam.law("descent_curve starts at the point, is feasible and descends", lambda: _descends(case))


def _first_order(case: Case, kind: str | None) -> Verdict:
    def error(t: float) -> tuple[float, float]:
        if not reaches(case.manifold, case.x, case.u, t):
            return np.nan, np.nan
        step = scaled(t, case.u)
        y = case.manifold.retract(case.x, step, kind)
        off = norm(tree_map(lambda p, q, r: p - q - r, y, case.x, step))
        return off, 1e-16 * max(1.0, norm(case.x))

    return slope_law(error, 1.9)


def _nearest(case: Case) -> Verdict:
    M, x = case.manifold, case.x
    y = M.nearest(tree_map(np.add, x, scaled(0.1, case.a)))
    return within(max(distance(M.nearest(x), x), distance(M.nearest(y), y), M.feasibility(y)), TOLERANCE)


def _feasibility(case: Case) -> Verdict:
    M = case.manifold
    off = tree_map(lambda p, q: p + 3 * q, case.x, case.a)
    moved = distance(M.nearest(off), off)
    seen = M.feasibility(off)
    ok = isinstance(seen, float) and (seen > 1e-6 or moved < 1e-6)
    return ok, "" if ok else f"feasibility {seen!r} at a point that nearest moves by {moved:.2g}"


def _free(case: Case) -> Verdict:
    mask = case.manifold.free(case.x, case.a)
    if mask is None:
        return not case.manifold.bounded, "None" if not case.manifold.bounded else "None on a bounded manifold"
    good = shapes(mask) == shapes(case.x) and all(leaf.dtype == bool for leaf in leaves(mask))
    return good, "" if good else f"got a tree of shapes {shapes(mask)}"


def _descends(case: Case) -> Verdict:
    M, x, a = case.manifold, case.x, case.a
    curve = M.descent_curve(x, a)
    y = curve(1e-4)
    change = float(np.dot(flatten(a), flatten(y) - flatten(x)))
    failure = None
    if distance(curve(0.0), x) > 1e-12:
        failure = f"curve(0) is {distance(curve(0.0), x):.2g} away from the point"
    elif M.feasibility(y) > TOLERANCE:
        failure = f"feasibility {M.feasibility(y):.2g}"
    elif M.dim > 0 and not change < 0:
        failure = f"a linear function changed by {change:.2g} along it"
    return unless(failure)


def _derivative_laws(exam: Examination, case: Case) -> None:
    M, x, u, v = case.manifold, case.x, case.u, case.v
    gradient = M.gradient(x, case.egrad(x))
    if M.hessian is None:
        for kind in M.second_order:
            exam.law(f"retraction {kind!r} is of second order", lambda: (True, "not checked without hessian"))
        return
    Hu, Hv = case.hessian(u), case.hessian(v)
    half = 0.5 * M.inner(x, gradient, gradient)
    scale = norm(gradient) + norm(case.p) + norm(case.q)

    def along(error: Callable[[float, Point], float], level: float, kind: str | None, minimum: float) -> Verdict:
        def at(t: float) -> tuple[float, float]:
            if not reaches(M, x, u, t):
                return np.nan, np.nan
            return abs(error(t, M.retract(x, scaled(t, u), kind))), level

        return slope_law(at, minimum)

    def change_of_gradient(t: float, y: Point) -> float:
        change = tree_map(np.subtract, M.gradient(y, case.egrad(y)), gradient)
        return norm(tree_map(lambda p, q: p - t * q, M.project(x, change), Hu))

    def change_of_length(t: float, y: Point) -> float:
        there = M.gradient(y, case.egrad(y))
        return 0.5 * M.inner(y, there, there) - half - t * M.inner(x, Hu, gradient)

    def change_of_value(t: float, y: Point) -> float:
        predicted = t * M.inner(x, gradient, u) + 0.5 * t**2 * M.inner(x, Hu, u)
        return case.value(y) - case.value(x) - predicted

    exam.law("hessian is tangent", lambda: within(distance(M.project(x, Hu), Hu), TOLERANCE))
    exam.law("hessian is symmetric", lambda: within(abs(M.inner(x, Hu, v) - M.inner(x, u, Hv)), TOLERANCE))
    exam.law(
        "hessian belongs to the metric: <hessian u, gradient> is the derivative of ½|gradient|²",
        lambda: along(change_of_length, 1e-16 * max(half, scale), None, 1.9),
    )
    if M.metric == "embedded":
        exam.law(
            "hessian is the derivative of the gradient", lambda: along(change_of_gradient, 1e-16 * scale, None, 1.9)
        )
    for kind in M.second_order:
        level = 1e-16 * (abs(case.value(x)) + scale)
        exam.law(f"retraction {kind!r} is of second order", lambda k=kind, e=level: along(change_of_value, e, k, 2.9))


def _frame_laws(exam: Examination, case: Case, frame: Manifold) -> None:
    M, x, a, u, v = case.manifold, case.x, case.a, case.u, case.v
    y = M.retract(x, scaled(0.1, v))
    c, d = frame.to_frame(x, u), frame.to_frame(x, v)
    # of a product some factors may have a frame, others a metric of their own
    flat = frame.metric == "embedded"
    dot = np.dot(flatten(c), flatten(d)) if flat else frame.inner(x, c, d)

    def agrees(ambient: Callable[[], Point], coordinates: Callable[[], Point], at: Point = x) -> Callable[[], Verdict]:
        return lambda: within(distance(frame.from_frame(at, coordinates()), ambient()), TOLERANCE)

    exam.law("frame: from_frame inverts to_frame", agrees(lambda: u, lambda: c))
    exam.law(
        "frame: the dot product of coordinates is inner",
        lambda: within(
            max(abs(dot - M.inner(x, u, v)), abs(frame.inner(x, c, d) - M.inner(x, u, v))),
            TOLERANCE,
        ),
    )
    exam.law("frame: gradient", agrees(lambda: M.gradient(x, a), lambda: frame.gradient(x, a)))
    if M.hessian is not None and (curved := frame.hessian) is not None:
        bent = (case.egrad(x), tree_map(np.multiply, case.q, u), c)
        exam.law("frame: hessian", agrees(lambda: case.hessian(u), lambda: curved(x, *bent)))
    exam.law(
        "frame: project at another point equals transport",
        agrees(lambda: M.transport(x, y, u), lambda: frame.project(y, c) if flat else frame.transport(x, y, c), y),
    )
    if (log := M.log) is not None and (coordinates := frame.log) is not None:
        exam.law("frame: log", agrees(lambda: log(x, y), lambda: coordinates(x, y)))
    for kind in M.retractions or (None,):
        exam.law(
            f"frame: retraction {kind or ''}".rstrip(),
            lambda k=kind: within(distance(frame.retract(x, c, k), M.retract(x, u, k)), TOLERANCE),
        )


def _geometry_laws(exam: Examination, case: Case) -> None:
    M, x = case.manifold, case.x
    exp, log, dist, inverse, typical = M.exp, M.log, M.dist, M.inverse_retraction, M.typical_distance
    length = next((t for t in (0.3, 0.1, 0.03) if reaches(M, x, case.u, t) and stays_inside(M, x, case.u, t)), 1e-3)
    u = scaled(length, case.u)
    length = M.inner(x, u, u) ** 0.5
    if typical is not None:
        exam.law("typical_distance is a number", lambda: (bool(np.isfinite(typical)), f"{typical}"))
    if inverse is not None:
        reached = M.retract(x, u)
        exam.law("inverse_retraction inverts retract", lambda: within(distance(inverse(x, reached), u), 1e-8))
    if exp is None:
        return
    y = exp(x, u)
    exam.law("exp is feasible", lambda: within(M.feasibility(y), TOLERANCE))
    if M.hessian is not None:
        exam.law("exp follows the geodesic", lambda: _without_acceleration(case, exp))
    if log is None or dist is None:
        return
    exam.law("log inverts exp", lambda: within(distance(log(x, y), u), 1e-8))
    exam.law("exp inverts log", lambda: within(_apart(case, exp(x, log(x, y)), y), 1e-8))
    exam.law("dist is the length of log", lambda: within(abs(dist(x, y) - length), 1e-8))
    exam.law("dist is symmetric, and zero at a point", lambda: _symmetric(case, dist, y))
    exam.law("−log is the gradient of half the squared dist", lambda: _gradient_of_distance(case, dist, log(x, y), y))
    exam.law("the geodesic moves with constant speed", lambda: _constant_speed(case, dist, y))
    if M.parallel_transport is not None:
        exam.law(
            "parallel transport is tangent and preserves inner products and the geodesic",
            lambda: _carried(case, log, y),
        )


def _apart(case: Case, a: Point, b: Point) -> float:
    """Return the largest difference of entries, on quotients of the projectors."""

    def span(tree: Point) -> Point:
        return on_quotients(case.manifold, lambda leaf: leaf @ leaf.swapaxes(-1, -2), tree)

    return distance(span(a), span(b))


def _without_acceleration(case: Case, exp: Callable[..., Point]) -> Verdict:
    M, x, u = case.manifold, case.x, case.u
    gradient, Hu = M.gradient(x, case.egrad(x)), case.hessian(u)
    level = 1e-16 * (abs(case.value(x)) + norm(gradient) + norm(case.p) + norm(case.q))

    def error(t: float) -> tuple[float, float]:
        if not reaches(M, x, u, t):
            return np.nan, np.nan
        predicted = t * M.inner(x, gradient, u) + 0.5 * t**2 * M.inner(x, Hu, u)
        return abs(case.value(exp(x, scaled(t, u))) - case.value(x) - predicted), level

    return slope_law(error, 2.9)


def _symmetric(case: Case, dist: Callable[..., float], y: Point) -> Verdict:
    there, back, none = dist(case.x, y), dist(y, case.x), dist(case.x, case.x)
    if not isinstance(there, float):
        return False, f"dist returned {type(there).__name__}, not a float"
    return within(max(abs(there - back), none), 1e-7)


def _gradient_of_distance(case: Case, dist: Callable[..., float], log: Point, y: Point) -> Verdict:
    M, x, v = case.manifold, case.x, case.v
    slope, half = M.inner(x, log, v), 0.5 * dist(x, y) ** 2

    def error(t: float) -> tuple[float, float]:
        if not reaches(M, x, v, t):
            return np.nan, np.nan
        return abs(0.5 * dist(M.retract(x, scaled(t, v)), y) ** 2 - half + t * slope), 1e-16

    return slope_law(error, 1.9)


def _constant_speed(case: Case, dist: Callable[..., float], y: Point) -> Verdict:
    times = np.array([0.0, 0.25, 1.0])
    points = case.manifold.geodesic(case.x, y, times)  # type: ignore[misc]  # there are exp and log
    whole = dist(case.x, y)
    off = [abs(dist(case.x, tree_map(lambda leaf, k=k: leaf[k], points)) - t * whole) for k, t in enumerate(times)]
    return within(max(off), 1e-7)


def _carried(case: Case, log: Callable[..., Point], y: Point) -> Verdict:
    M, x, u, v = case.manifold, case.x, case.u, case.v
    a, b, along = (M.parallel_transport(x, y, w) for w in (u, v, log(x, y)))  # type: ignore[misc]
    off = max(distance(M.project(y, a), a), distance(along, scaled(-1, log(y, x))))
    return within(max(off, abs(M.inner(y, a, b) - M.inner(x, u, v))), 1e-8)


def _components(manifold: Manifold[Point], x: Point) -> Verdict:
    if manifold.components > MANY:
        return True, f"{manifold.components} components are too many to check"
    points = [manifold.to_component(x, i) for i in range(manifold.components)]
    for i, y in enumerate(points):
        if manifold.feasibility(y) > TOLERANCE:
            return False, f"the point moved to component {i} is infeasible"
        if not same(manifold.to_component(y, i), y):
            return False, f"to_component(., {i}) moves a point that is there already"
        if any(same(y, other) for other in points[:i]):
            return False, f"component {i} is the same as an earlier one"
    try:
        manifold.to_component(x, manifold.components)
    except ValueError:
        return True, f"{manifold.components}"
    return False, f"component {manifold.components} does not exist but was given"
