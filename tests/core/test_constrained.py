"""Constrained problems from many starts: what is called solved is a minimum, and what is called infeasible is."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from core.constrained_cases import (
    CASES,
    Case,
    by_slsqp,
    cost,
    euclidean,
    in_units,
    linear,
    quadratic,
    solves,
    squares,
    violation,
)
from helpers import parametrize

import manifoldseq as ms
from manifoldseq import Status

SOLVERS = ["sqp", "augmented-lagrangian"]
UNITS = [(1.0, 1.0), (1e-4, 1.0), (1e4, 1.0), (1.0, 1e-4), (1.0, 1e4)]


def assert_solved(case: Case, n_starts: int, solver: str, of_cost: float = 1.0, of_constraints: float = 1.0) -> None:
    rng, problem = np.random.default_rng(0), in_units(case.problem, of_cost, of_constraints)
    slow_units, unsolved = of_cost < 1 and n_starts > 4, 0
    for _ in range(n_starts):
        x0 = case.start(rng)
        result = ms.minimize(problem, x0, solver=solver)
        assert result.complementarity is not None or not problem.inequalities
        if not case.feasible:
            assert result.status is Status.INFEASIBLE and result.feasibility > 1e-6, (x0, result)
            assert f"Largest violation of the constraints: {result.feasibility:.3g}" in result.message
            continue
        if slow_units and result.status is Status.MAX_ITERATIONS:  # one run of HS71 with a cost of 1e-4 goes on
            unsolved += 1
            continue
        assert result.success, (x0, result)
        assert result.feasibility == pytest.approx(of_constraints * violation(case, result.x), abs=1e-10)
        # the tolerance of violations is absolute
        assert solves(case, result.x, 1.01e-6 / of_constraints), (x0, result, result.x)
    assert unsolved <= 1


@pytest.mark.parametrize("solver", SOLVERS)
@parametrize("name", list(CASES), fast=14)
def test_every_start_is_solved(name: str, solver: str) -> None:
    assert_solved(CASES[name], 4, solver)


@pytest.mark.slow
@pytest.mark.parametrize("units", UNITS, ids=str)
@pytest.mark.parametrize("name", list(CASES))
@pytest.mark.parametrize("solver", SOLVERS)
def test_every_start_is_solved_in_all_units(name: str, units: tuple[float, float], solver: str) -> None:
    assert_solved(CASES[name], 12, solver, *units)


@pytest.mark.parametrize("units", UNITS[1:], ids=str)
@parametrize("name", ["bilinear, squares", "concave, simplex", "two equalities, two inequalities"], fast=1)
@pytest.mark.parametrize("solver", SOLVERS)
def test_units_do_not_matter(name: str, units: tuple[float, float], solver: str) -> None:
    assert_solved(CASES[name], 4, solver, *units)


def test_the_judge_knows_a_saddle_from_a_minimum() -> None:
    case = CASES["bilinear, squares"]
    assert not solves(case, np.zeros(2), 1e-6) and not solves(case, np.array([2.0, -2.0]), 1e-6)
    assert solves(case, np.array([1.0, -1.0]), 1e-6) and by_slsqp(case, np.array([0.5, -0.2])).fun == pytest.approx(-1)


def hollow() -> ms.Objective:
    """Feasible in [−2.055, −1.755] only, with a minimum of 0.5 at 5, where the violation is stationary."""
    return cost(
        lambda x: 0.5 + 0.02 * (x[0] - 5) ** 2 - 1.5 * np.exp(-((x[0] + 2) ** 2)),
        lambda x: np.array([0.04 * (x[0] - 5) + 3 * (x[0] + 2) * np.exp(-((x[0] + 2) ** 2))]),
    )


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("slope", [1.0, 10.0, 100.0, 1000.0])
def test_a_start_that_meets_the_constraints_is_never_called_infeasible(slope: float, solver: str) -> None:
    """The objective pulls the iterates to a stationary point of the violation; the only minimum is at -1.755."""
    problem = ms.Problem(ms.manifolds.Euclidean(1), linear([-slope]), inequalities=(hollow(),))
    for x0 in (-2.0, -1.9, -1.8):
        result = ms.minimize(problem, np.array([x0]), solver=solver)
        assert result.success and result.x[0] == pytest.approx(-1.75497397, abs=1e-4)
    far = ms.minimize(problem, np.array([20.0]), solver=solver)
    assert far.status is Status.INFEASIBLE and far.feasibility == pytest.approx(0.5, abs=1e-4)


@pytest.mark.parametrize("start", [[0.0, 0.0], [3.0, 0.0], [-1.0, 0.0]])
@pytest.mark.parametrize("constraint", ["saddle", "maximum", "equality"])
@pytest.mark.parametrize("solver", SOLVERS)
def test_a_saddle_of_the_violation_is_left(constraint: str, start: list[float], solver: str) -> None:
    """By symmetry the gradients never leave the first axis, along which the saddle cannot be left."""
    f = quadratic([1.0, 2.0])
    g = quadratic([1.0, -1.0], b=-1.0) if constraint == "saddle" else quadratic([-1.0, -1.0], b=-1.0)
    problem = ms.Problem(ms.manifolds.Euclidean(2), f, inequalities=(g,))
    if constraint == "equality":
        problem = replace(problem, equalities=(g,), inequalities=())
    result = ms.minimize(problem, np.array(start), solver=solver)
    assert result.success and result.fun == pytest.approx(2.0 if constraint == "saddle" else 1.0, abs=1e-5)


def test_without_success_the_last_iterate_that_meets_the_constraints_is_returned() -> None:
    """Not the lowest one: the start is in a saddle of the objective, near the value of the minimum."""
    points: list[tuple[np.ndarray, float, float]] = []

    def listen(event: ms.Event) -> None:
        assert event.measures.feasibility is not None
        points.append((np.array(event.x), event.measures.fun, event.measures.feasibility))

    f = cost(lambda x: np.exp(-np.sum(x**2)) - x[0] - 0.5 * x[1], lambda x: -2 * x * np.exp(-np.sum(x**2)) - [1, 0.5])
    problem = ms.Problem(ms.manifolds.Euclidean(2), f, inequalities=tuple(squares(2)))
    seen_lower = False
    for start in np.random.default_rng(0).uniform(-3, 3, (6, 2)):
        for nit in (2, 5, 8, 11, 14, 17):
            points.clear()
            result = ms.minimize(problem, start, solver="augmented-lagrangian", max_iter=nit, callback=listen)
            if result.success:
                continue
            met = [k for k, (_, _, off) in enumerate(points) if off <= 1e-6]
            expected = met[-1] if met else min(range(len(points)), key=lambda k: (points[k][2], -k))
            np.testing.assert_array_equal(result.x, points[expected][0])
            seen_lower |= any(points[k][1] < points[expected][1] for k in met)
    assert seen_lower


@pytest.mark.parametrize("solver", SOLVERS)
def test_violation_and_complementarity_are_two_measures(solver: str) -> None:
    """Ended early: the disk is met and its multiplier is not zero, so that only complementarity is left."""
    disk: Any = euclidean(linear([1.0, 0.3]), lambda rng: np.zeros(2), g=[quadratic([1, 1], b=1.0)]).problem
    kinds = set()
    for nit in range(12):
        result = ms.minimize(disk, np.array([0.3, 0.1]), solver=solver, max_iter=nit)
        assert result.multipliers is not None and result.complementarity is not None
        value, mu = disk.inequalities[0].value(result.x), result.multipliers["inequalities"][0]
        assert result.feasibility == max(0.0, value)
        assert result.complementarity == pytest.approx(min(max(-value, 0.0), mu), abs=1e-12)
        assert ("violation" in result.message) == (result.feasibility > 1e-6)
        assert ("complementarity" in result.message) == (result.complementarity > 1e-6)
        assert f"complementarity={result.complementarity:.1e}" in repr(result)
        kinds |= {(result.feasibility > 1e-6, result.complementarity > 1e-6)}
        column = result.history["complementarity"]
        assert len(column) == result.nit + 1 and np.all((column == 0) | (result.history["feasibility"] == 0))
    assert (False, True) in kinds
    free = ms.minimize(replace(disk, objective=quadratic([1, 1], 1.0), inequalities=()), np.ones(2))
    assert free.complementarity is None and "complementarity" not in free.history


OWN: dict[str, tuple[Any, Any, Any, Any, Any, float]] = {
    "sphere": (
        ms.manifolds.Sphere(3),
        lambda x: x @ x - 1,
        lambda x, w: 2 * w * x,
        lambda x: float(x @ np.array([2.0, 1.0, -2.0])),
        lambda x: np.array([2.0, 1.0, -2.0]),
        -3.0,
    ),
    "Stiefel": (
        ms.manifolds.Stiefel(4, 2),
        lambda X: X.T @ X - np.eye(2),
        lambda X, W: X @ (W + W.T),
        lambda X: float(np.trace(X.T @ np.diag([1.0, 2.0, 3.0, 4.0]) @ X)),
        lambda X: 2 * np.diag([1.0, 2.0, 3.0, 4.0]) @ X,
        3.0,
    ),
    "rotations": (
        ms.manifolds.SpecialOrthogonal(3),
        lambda R: np.linalg.det(R) - 1,
        lambda R, w: w * np.linalg.det(R) * np.linalg.inv(R).T,
        lambda R: -float(np.trace(np.diag([1.0, 2.0, 3.0]) @ R)),
        lambda R: -np.diag([1.0, 2.0, 3.0]),
        -6.0,
    ),
}


@pytest.mark.parametrize("solver", ["sqp", "augmented-lagrangian"])
@pytest.mark.parametrize("kind", ["equalities", "inequalities"])
@pytest.mark.parametrize("unit", [1.0, 1e6])
@pytest.mark.parametrize("manifold", OWN)
def test_constraints_that_hold_on_the_whole_manifold_change_nothing(
    manifold: str, unit: float, kind: str, solver: str
) -> None:
    """Their derivatives along the manifold are rounding, and gave multipliers of 1e15."""
    M, h, vjp, cost, gradient, best = OWN[manifold]
    own: Any = {kind: ms.constraint(lambda x: unit * h(x), lambda x, w: unit * vjp(x, w))}
    for seed in range(3):
        result = ms.minimize(ms.Problem(M, ms.objective(cost, gradient), **own), solver=solver, seed=seed)
        assert result.success, result
        assert result.fun == pytest.approx(best, abs=1e-6)
        assert np.abs(result.multipliers[kind]).max() < 1.0
