"""The laws that every manifold obeys."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._minimize import _compare_shapes
from .._result import Point
from ..linalg._tree import dtype_of, flatten, freeze, leaves, norm, shapes, tree_map, unflattener
from ..manifolds import Manifold
from ._points import direction, distance, interior_point, magnitude, reaches, same, scaled
from ._report import Examination, Report, Verdict, unless, within
from ._slope import slope_law

TOLERANCE = 1e-10
_LARGEST_RANK = 400


def check_manifold(manifold: Manifold, *, seed: int = 0) -> Report:
    """Check a manifold against the laws that solvers rely on.

    Points are feasible and keep their dtype; ``project`` is a projection (orthogonal, of rank ``dim``, where the metric
    is the embedded one); ``gradient`` represents the differential; retractions start at the point with the velocity of
    the tangent vector; transport and ``nearest`` lead where they should; ``hessian`` is the derivative of ``gradient``;
    ``descent_curve`` descends; components differ; and every operation broadcasts over leading axes.

    Parameters
    ----------
    manifold : Manifold
        A small one: matrices of its size are formed.
    seed : int

    Returns
    -------
    Report

    Raises
    ------
    TypeError
        If it is no manifold.

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
    case = _Case.random(manifold, np.random.default_rng(seed))
    _tangent_laws(exam, case)
    _motion_laws(exam, case)
    _derivative_laws(exam, case)
    exam.law("points of another dtype keep it", lambda: _dtypes(manifold, seed))
    exam.law("every operation broadcasts over leading axes", lambda: _broadcasting(manifold, seed))
    exam.law("components are told apart", lambda: _components(manifold, case.x))
    return exam.report()


@dataclass(frozen=True)
class _Case:
    """A point, ambient vectors a, b, tangent vectors u, v, and a test function ½<x, h*x> + <a, x>; all read-only."""

    manifold: Manifold
    x: Point
    a: Point
    b: Point
    u: Point
    v: Point

    @classmethod
    def random(cls, manifold: Manifold, rng: np.random.Generator, dtype: Any = np.float64) -> _Case:
        x = freeze(interior_point(manifold, rng, dtype))

        def ambient() -> Point:
            return freeze(tree_map(lambda leaf: rng.standard_normal(leaf.shape).astype(dtype), x))

        def tangent() -> Point:
            u = direction(manifold, x, rng)
            return freeze(tree_map(np.zeros_like, x) if u is None else u)

        return cls(manifold, x, ambient(), ambient(), tangent(), tangent())

    def egrad(self, y: Point) -> Point:
        """Euclidean gradient of the test function, whose Hessian is multiplication by b."""
        return tree_map(lambda a, b, leaf: a + b * leaf, self.a, self.b, y)

    def ehess(self, u: Point) -> Point:
        return tree_map(np.multiply, self.b, u)

    def operations(self) -> dict[str, Callable[[], Any]]:
        """Every operation that broadcasts."""
        M, x, a, b, u, v = self.manifold, self.x, self.a, self.b, self.u, self.v
        small = scaled(0.1, u)
        near = M.retract(x, small)
        kinds = M.retractions or (None,)
        return {
            "inner": lambda: M.inner(x, u, v),
            "project": lambda: M.project(x, a),
            "gradient": lambda: M.gradient(x, a),
            "hessian": lambda: M.hessian(x, a, b, u),
            **{f"retract {kind or ''}".strip(): lambda kind=kind: M.retract(x, small, kind) for kind in kinds},
            "transport": lambda: M.transport(x, near, u),
            "nearest": lambda: M.nearest(tree_map(np.add, x, scaled(0.1, a))),
            "feasibility": lambda: M.feasibility(tree_map(np.add, x, scaled(0.1, a))),
            "descent_curve": lambda: M.descent_curve(x, a)(0.1),
        }


def _random(manifold: Manifold, seed: int) -> Verdict:
    x, y = (manifold.random_point(np.random.default_rng(seed)) for _ in range(2))
    _compare_shapes(shapes(x), manifold.shape, manifold.names, "random_point(rng)")
    if not same(x, y):
        return False, "the same generator gave different points: draw from rng only"
    return within(manifold.feasibility(x), TOLERANCE)


def _tangent_laws(exam: Examination, case: _Case) -> None:
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
    exam.law(
        "gradient represents the differential",
        lambda: within(abs(M.inner(x, M.gradient(x, a), u) - np.dot(flatten(a), flatten(u))), TOLERANCE),
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


def _inner(case: _Case) -> Verdict:
    M, x, u, v = case.manifold, case.x, case.u, case.v
    forth, back, square = M.inner(x, u, v), M.inner(x, v, u), M.inner(x, u, u)
    if not isinstance(forth, float):
        return False, f"inner returned {type(forth).__name__}, not a float"
    if not (square > 0 or magnitude(u) == 0):
        return False, f"<u, u> = {square}"
    return within(abs(forth - back), TOLERANCE)


def _rank(manifold: Manifold, x: Point) -> Verdict:
    size, tree = flatten(x).size, unflattener(x)
    projector = np.array([flatten(manifold.project(x, tree(row))) for row in np.eye(size)])
    rank = int(np.linalg.matrix_rank(projector, tol=1e-8))
    return rank == manifold.dim, f"dim {manifold.dim}" if rank == manifold.dim else f"dim {manifold.dim}, rank {rank}"


def _motion_laws(exam: Examination, case: _Case) -> None:
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
    exam.law(
        "transported vectors are tangent",
        lambda: within(distance(M.project(y, M.transport(x, y, u)), M.transport(x, y, u)), TOLERANCE),
    )
    exam.law("nearest is feasible and leaves points alone", lambda: _nearest(case))
    exam.law("feasibility sees a point that is off", lambda: _feasibility(case))
    exam.law("free is None or a tree of booleans", lambda: _free(case))
    exam.law("descent_curve starts at the point, is feasible and descends", lambda: _descends(case))


def _first_order(case: _Case, kind: str | None) -> Verdict:
    def error(t: float) -> tuple[float, float]:
        if not reaches(case.manifold, case.x, case.u, t):
            return np.nan, np.nan
        step = scaled(t, case.u)
        y = case.manifold.retract(case.x, step, kind)
        off = norm(tree_map(lambda p, q, r: p - q - r, y, case.x, step))
        return off, 1e-16 * max(1.0, norm(case.x))

    return slope_law(error, 1.9)


def _nearest(case: _Case) -> Verdict:
    M, x = case.manifold, case.x
    y = M.nearest(tree_map(np.add, x, scaled(0.1, case.a)))
    return within(max(distance(M.nearest(x), x), distance(M.nearest(y), y), M.feasibility(y)), TOLERANCE)


def _feasibility(case: _Case) -> Verdict:
    M = case.manifold
    off = tree_map(lambda p, q: p + 3 * q, case.x, case.a)
    moved = distance(M.nearest(off), off)
    seen = M.feasibility(off)
    ok = isinstance(seen, float) and (seen > 1e-6 or moved < 1e-6)
    return ok, "" if ok else f"feasibility {seen!r} at a point that nearest moves by {moved:.2g}"


def _free(case: _Case) -> Verdict:
    mask = case.manifold.free(case.x, case.a)
    if mask is None:
        return not case.manifold.bounded, "None" if not case.manifold.bounded else "None on a bounded manifold"
    good = shapes(mask) == shapes(case.x) and all(leaf.dtype == bool for leaf in leaves(mask))
    return good, "" if good else f"got a tree of shapes {shapes(mask)}"


def _descends(case: _Case) -> Verdict:
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


def _derivative_laws(exam: Examination, case: _Case) -> None:
    M, x, u = case.manifold, case.x, case.u
    if M.metric != "embedded":
        return
    gradient = M.gradient(x, case.egrad(x))
    hessian = M.hessian(x, case.egrad(x), case.ehess(u), u)
    scale = norm(gradient) + norm(case.a) + norm(case.b)

    def error(t: float) -> tuple[float, float]:
        if not reaches(M, x, u, t):
            return np.nan, np.nan
        y = M.retract(x, scaled(t, u))
        change = tree_map(np.subtract, M.gradient(y, case.egrad(y)), gradient)
        return norm(tree_map(lambda p, q: p - t * q, M.project(x, change), hessian)), 1e-16 * scale

    exam.law("hessian is tangent", lambda: within(distance(M.project(x, hessian), hessian), TOLERANCE))
    exam.law("hessian is the derivative of the gradient", lambda: slope_law(error, 1.9))


def _dtypes(manifold: Manifold, seed: int) -> Verdict:
    case = _Case.random(manifold, np.random.default_rng(seed), np.float32)
    if dtype_of(manifold.random_point(np.random.default_rng(seed), np.float32)) != np.float32:
        return False, "random_point(rng, float32) is not float32"
    wrong = [
        f"{name} gives {dtype_of(value)}"
        for name, operation in case.operations().items()
        if name not in ("inner", "feasibility") and dtype_of(value := operation()) != np.float32
    ]
    return unless(", ".join(wrong))


def _broadcasting(manifold: Manifold, seed: int) -> Verdict:
    rng = np.random.default_rng(seed)
    cases = [_Case.random(manifold, rng) for _ in range(3)]
    names = ("x", "a", "b", "u", "v")
    stacked = _Case(
        manifold, *(tree_map(lambda *parts: np.stack(parts), *(getattr(c, n) for c in cases)) for n in names)
    )
    each = [case.operations() for case in cases]
    wrong = []
    for name, operation in stacked.operations().items():
        try:
            off = distance(operation(), tree_map(lambda *parts: np.stack(parts), *(one[name]() for one in each)))
            if not off <= TOLERANCE:
                wrong.append(f"{name} differs by {off:.2g} from a loop")
        except Exception as error:
            wrong.append(f"{name} raised {type(error).__name__}: {error}")
    return unless(", ".join(wrong))


def _components(manifold: Manifold, x: Point) -> Verdict:
    if manifold.components > 8:
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
