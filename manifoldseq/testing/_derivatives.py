"""Checks of gradients and Hessian products by the order of the Taylor error along retractions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .._problem import Problem
from .._result import Point
from ..linalg import dtype_of, freeze, norm, tree_map
from ..manifolds import Manifold
from ..objectives import Objective
from ._manifold_case import has_quotient, turned
from ._points import as_problem, at_boundary, direction, distance, leaf_names, magnitude, reaches, scaled, start
from ._report import Examination, Measured, Report, Verdict, within
from ._slope import measured_slope

GRADIENT_SLOPE = 1.9
HESSIAN_SLOPE = 2.9


def check_gradient(problem: Problem | tuple[Manifold, Objective], x: Any = None, *, seed: int = 0) -> Report:
    """Compare a gradient with values of the objective.

    Along random curves ``R(x, t u)`` the error ``|f(R(x, t u)) − f(x) − t <grad f(x), u>|`` must vanish like t²: its
    slope on logarithmic axes exceeds 1.9. A gradient that is wrong by one per cent has a slope of about 1.0. An error
    at rounding level at all t, as for a linear function, counts as exact. On a product every factor is also checked
    separately. On a quotient manifold the values at X Q and X must be equal.

    Parameters
    ----------
    problem : Problem or (Manifold, Objective)
    x : point or str, optional
        The point of the check, or the name of an initializer; by default a random point away from bounds. Coordinates
        at an active bound are excluded.
    seed : int

    Returns
    -------
    Report

    Raises
    ------
    TypeError, ValueError
        If the objective has no gradient, or `x` is not a point of the manifold.

    Examples
    --------
    >>> import numpy as np, manifoldseq as ms
    >>> S = np.diag([3.0, 2.0, 1.0])
    >>> manifold = ms.manifolds.Stiefel(3, 1)
    >>> right = ms.objective(lambda X: (X * (S @ X)).sum(), lambda X: 2 * S @ X)
    >>> print(ms.testing.check_gradient((manifold, right)))  # doctest: +ELLIPSIS
    gradient on Stiefel(n=3, p=1): every law holds
      ok      gradient is finite, in the structure of the point
      ok      value equals the value of value_and_gradient: 0.0e+00
      ok      gradient: slope ...
    >>> wrong = ms.objective(lambda X: (X * (S @ X)).sum(), lambda X: 2.02 * S @ X)
    >>> ms.testing.check_gradient((manifold, wrong)).ok
    False
    """
    problem = as_problem(problem)
    rng = np.random.default_rng(seed)
    if problem.objective.value_and_gradient is None:
        raise ValueError("check_gradient: the objective has no value_and_gradient: pass it to ms.objective(…)")
    exam = Examination(f"gradient on {problem.manifold!r}")
    gradient_laws(exam, problem, start(problem, x, rng), rng)
    return exam.report()


def check_hessian(problem: Problem | tuple[Manifold, Objective], x: Any = None, *, seed: int = 0) -> Report:
    """Compare a Hessian product with gradients and values of the objective.

    The check is the same as :func:`check_gradient`, with the second-order term: the slope must exceed 2.9. If the
    manifold has a retraction of second order, the check uses it. The Riemannian Hessian must be tangent, linear and
    symmetric.

    Parameters
    ----------
    problem : Problem or (Manifold, Objective)
    x : point or str, optional
        As in :func:`check_gradient`.
    seed : int

    Returns
    -------
    Report

    Raises
    ------
    TypeError, ValueError
        If the objective has no Hessian product or no gradient, or `x` is not a point of the manifold.

    Examples
    --------
    >>> import autograd.numpy as np, manifoldseq as ms
    >>> f = ms.objective(lambda x: np.sum(np.cos(x)))
    >>> ms.testing.check_hessian((ms.manifolds.Euclidean(3), f)).ok
    True
    """
    problem = as_problem(problem)
    rng = np.random.default_rng(seed)
    for ability in ("value_and_gradient", "hessian_product"):
        if getattr(problem.objective, ability) is None:
            raise ValueError(f"check_hessian: the objective has no {ability}: pass it to ms.objective(…)")
    if problem.manifold.hessian is None:
        raise ValueError(
            f"check_hessian: {problem.manifold!r} has no hessian: check the objective on a manifold that has one"
        )
    exam = Examination(f"Hessian on {problem.manifold!r}")
    hessian_laws(exam, problem, start(problem, x, rng), rng)
    return exam.report()


def gradient_laws(exam: Examination, problem: Problem[Point], x: Point, rng: np.random.Generator) -> None:
    """Check value and gradient at `x`."""
    manifold, f = problem.manifold, at_boundary(problem.objective)

    def well_formed() -> Verdict:
        fun, egrad = f.value_and_gradient(x)  # type: ignore[misc]
        finite = np.isfinite(fun) and np.isfinite(norm(egrad))
        return finite, "" if finite else f"value {fun}, gradient norm {norm(egrad)}"

    if not exam.law("gradient is finite, in the structure of the point", well_formed):
        return
    fun, egrad = f.value_and_gradient(x)  # type: ignore[misc]
    eps = float(np.finfo(dtype_of(x)).eps)
    scale = abs(fun) + norm(egrad) * norm(x)
    exam.law(
        "value equals the value of value_and_gradient",
        lambda: within(abs(f.value(x) - fun), 1e4 * eps * max(scale, 1e-300)),
    )
    if has_quotient(manifold):
        # at a minimum of value zero, turning the point by rounding still costs the square of it
        away = manifold.retract(x, manifold.random_tangent(x, np.random.default_rng(0)))
        level = 1e4 * eps * (scale + eps * abs(f.value(away) - fun))
        exam.law("value is equal at all representatives", lambda: _same_at_equivalent(manifold, f, x, level))
    gradient = manifold.gradient(x, egrad)

    def first_order(u: Point) -> Measured:
        return _taylor_law(manifold, f, x, u, float(manifold.inner(x, gradient, u)), None, scale)

    _along_curves(exam, "gradient", manifold, x, rng, first_order)


def _same_at_equivalent(manifold: Manifold[Point], f: Objective, x: Point, limit: float) -> Verdict:
    off = abs(f.value(freeze(turned(manifold, x))) - f.value(x))
    if off <= max(limit, 1e-300):
        return True, f"{off:.1e}"
    return False, (
        f"its values at X and X Q differ by {off:.2g}, but both are the same point of {manifold!r}: write a function "
        "of X Xᵀ, or use Stiefel"
    )


def hessian_laws(exam: Examination, problem: Problem[Point], x: Point, rng: np.random.Generator) -> None:
    """Check the Hessian product at `x`."""
    manifold, f = problem.manifold, at_boundary(problem.objective)
    curved = manifold.hessian
    if curved is None:
        exam.law("Hessian", lambda: (True, "not checked: the manifold has none"))
        return

    def riemannian(u: Point) -> Point:
        return curved(x, egrad, f.hessian_product(x, u), u)  # type: ignore[misc]

    fun, egrad = f.value_and_gradient(x)  # type: ignore[misc]
    u, v = direction(manifold, x, rng), direction(manifold, x, rng)
    if u is None or v is None:
        exam.law("Hessian", lambda: (True, "there is no tangent vector"))
        return
    if not exam.law(
        "Hessian is finite, in the structure of the point", lambda: (bool(np.isfinite(norm(riemannian(u)))), "")
    ):
        return
    Hu, Hv = riemannian(u), riemannian(v)
    limit = 1e5 * float(np.finfo(dtype_of(x)).eps) * max(norm(Hu), norm(Hv), norm(egrad), 1e-300)
    both = tree_map(lambda a, b: a + a.dtype.type(2) * b, u, v)
    exam.law("Hessian is tangent", lambda: within(distance(manifold.project(x, Hu), Hu), limit))
    exam.law(
        "Hessian is linear",
        lambda: within(distance(riemannian(both), tree_map(lambda a, b: a + 2 * b, Hu, Hv)), limit),
    )
    exam.law(
        "Hessian is symmetric",
        lambda: within(abs(float(manifold.inner(x, Hu, v)) - float(manifold.inner(x, u, Hv))), limit),
    )
    gradient = manifold.gradient(x, egrad)
    scale = abs(fun) + norm(egrad) * max(norm(x), magnitude(u))

    def second_order(w: Point) -> Measured:
        curvature = float(manifold.inner(x, riemannian(w), w))
        return _taylor_law(manifold, f, x, w, float(manifold.inner(x, gradient, w)), curvature, scale)

    _along_curves(exam, "Hessian", manifold, x, rng, second_order)


def _along_curves(
    exam: Examination,
    what: str,
    manifold: Manifold,
    x: Point,
    rng: np.random.Generator,
    law: Callable[[Point], Measured],
) -> None:
    """Check a law along a random direction, and along one direction in each factor of a product.

    The law fails if it fails along three such directions: a short plot in single precision can mislead once, whereas a
    wrong derivative is wrong along almost all directions.
    """

    def judged(only: int | None) -> Measured:
        verdict = Measured(True, "there is no tangent vector")
        for _ in range(3):
            u = direction(manifold, x, rng, only)
            if u is None or (verdict := law(u)).ok:
                break
        return verdict

    exam.law(what, lambda: judged(None))
    if isinstance(x, tuple):
        for k, name in enumerate(leaf_names(manifold, x)):
            exam.law(f"{what}, factor {name!r}", lambda k=k: judged(k))


def _taylor_law(
    manifold: Manifold[Point], f: Objective, x: Point, u: Point, slope: float, curvature: float | None, scale: float
) -> Measured:
    eps = float(np.finfo(dtype_of(x)).eps)
    fun = f.value(x)
    kind = None if curvature is None else next(iter(manifold.second_order), None)

    def error(t: float) -> tuple[float, float]:
        if not reaches(manifold, x, u, t):
            return np.nan, np.nan
        value = f.value(manifold.retract(x, scaled(t, u), kind))
        predicted = fun + t * slope + 0.5 * t * t * (curvature or 0.0)
        return abs(value - predicted), eps * (scale + abs(value))

    with np.errstate(all="ignore"):
        return measured_slope(error, GRADIENT_SLOPE if curvature is None else HESSIAN_SLOPE)
