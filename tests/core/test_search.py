"""Line searches, checked against exact derivatives and plain formulas."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from core.cases import box, procrustes
from helpers import parametrize

import manifoldseq as ms
from manifoldseq.manifolds import Euclidean
from manifoldseq.solvers import Line, armijo, evaluate, wolfe

ALONG: dict[str, tuple[Callable[[float], float], Callable[[float], float]]] = {
    "parabola": (lambda t: (t - 2.0) ** 2, lambda t: 2 * (t - 2.0)),
    "quartic": (lambda t: (t - 1.0) ** 4 - t, lambda t: 4 * (t - 1.0) ** 3 - 1),
    "steep": (lambda t: np.exp(30 * t) - 60 * t, lambda t: 30 * np.exp(30 * t) - 60),
    "wavy": (lambda t: np.cos(5 * t) - t + 0.1 * t**2, lambda t: -5 * np.sin(5 * t) - 1 + 0.2 * t),
    "wall": (lambda t: np.inf if t >= 3 else -t - np.log(3 - t), lambda t: -1 + 1 / (3 - t)),
}


def along(name: str) -> Line:
    """Return a line over the real numbers on which f(t) is the named function."""
    f, slope = ALONG[name]

    def both(x: Any) -> tuple[float, Any]:
        with np.errstate(over="ignore", divide="ignore"):
            return float(f(x[0])), np.array([slope(x[0])])

    problem = ms.Problem(Euclidean(1), ms.objective(value_and_gradient=both))
    return Line(problem, evaluate(problem, np.zeros(1)), np.ones(1), float(slope(0.0)), None)


@pytest.mark.parametrize("curvature", [0.9, 0.1])
@parametrize("first", [1e-4, 0.1, 1.0, 50.0], fast=2)
@pytest.mark.parametrize("name", ALONG)
def test_strong_wolfe_conditions_hold(name: str, first: float, curvature: float) -> None:
    f, slope = ALONG[name]
    found = wolfe(along(name), first, 40, curvature)
    assert found is not None
    new, t = found
    assert new.x[0] == t and new.fun == f(t)
    assert f(t) <= f(0.0) + 1e-4 * t * slope(0.0)
    assert abs(slope(t)) <= curvature * abs(slope(0.0))


@pytest.mark.parametrize("retraction", ["polar", "qr", "cayley"])
@pytest.mark.parametrize("first", [1e-3, 1e-2, 10.0])
def test_wolfe_on_a_manifold_uses_the_projected_direction(first: float, retraction: str) -> None:
    problem, x0, _ = procrustes()
    at = evaluate(problem, x0)
    stretched = at.grad.reshape(x0.shape) * np.linspace(0.5, 2.0, x0.shape[0])[:, None]
    direction = -stretched + x0 @ (x0.T @ stretched + stretched.T @ x0) / 2
    before = problem.objective.value(x0)
    slope = float(np.sum(at.grad.reshape(x0.shape) * direction))
    found = wolfe(Line(problem, at, direction.ravel(), slope, retraction), first, 40, 0.1)
    assert found is not None
    y, t = found[0].x, found[1]
    np.testing.assert_array_equal(y, problem.manifold.retract(x0, t * direction, retraction))
    value, egrad = problem.objective.value_and_gradient(y)  # type: ignore[misc]
    assert value <= before + 1e-4 * t * slope
    if retraction == "polar":  # the others turn the direction: its projection is not the derivative of a long step
        moved = direction - y @ (y.T @ direction + direction.T @ y) / 2
        assert abs(float(np.sum(egrad * moved))) <= 0.1 * abs(slope)


@pytest.mark.parametrize("expand", [False, True])
@parametrize("first", [1e-4, 1.0, 50.0], fast=2)
@pytest.mark.parametrize("name", ALONG)
def test_armijo_decreases_enough(name: str, first: float, expand: bool) -> None:
    f, slope = ALONG[name]
    found = armijo(along(name), first, 40, expand)
    assert found is not None
    new, t = found
    assert new.fun == f(t) <= f(0.0) + 1e-4 * t * slope(0.0)
    assert expand or t <= first
    if expand and first == 1e-4:
        assert t > 0.01


def test_a_reference_allows_a_rise() -> None:
    f, slope = ALONG["parabola"]
    found = armijo(along("parabola"), 5.0, 30)
    assert found is not None and found[0].fun < f(0.0) and found[1] < 5.0
    nonmonotone = armijo(along("parabola"), 5.0, 30, reference=9.5)
    assert nonmonotone is not None and nonmonotone[1] == 5.0
    assert f(0.0) < nonmonotone[0].fun <= 9.5 + 1e-4 * 5.0 * slope(0.0)


@pytest.mark.parametrize("rule", ["armijo", "wolfe"])
def test_searches_give_up_along_a_direction_that_does_not_descend(rule: str) -> None:
    problem, x0, _ = procrustes()
    at = evaluate(problem, x0)
    uphill = Line(problem, at, at.grad, -float(at.grad @ at.grad), None)
    assert getattr(ms.solvers, rule)(uphill, 1.0, 12) is None


@pytest.mark.parametrize("rule", ["armijo", "wolfe"])
def test_a_clipped_step_is_judged_by_the_change_that_it_can_make(rule: str) -> None:
    """From next to a bound along an outward gradient, t·slope predicts a thousand times too much."""
    problem, _, _ = box()
    x = np.array([-0.6 + 1e-9, -0.6, -0.25, 0.375, 0.6])
    at = evaluate(problem, x)
    line = Line(problem, at, -at.grad, -float(at.grad @ at.grad), None)
    found = getattr(ms.solvers, rule)(line, 0.4, 5)
    assert found is not None and found[1] == 0.4
    np.testing.assert_array_equal(found[0].x[:2], [-0.6, -0.6])
    assert line.slope_at(found[0]) == 0.0
