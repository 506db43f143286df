"""First-order solvers with their defaults: objectives of any scale, and runs that end above their start say so."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from helpers import parametrize

import manifoldseq as ms
from manifoldseq import Status
from manifoldseq.manifolds import BoundedDiagonal, Euclidean, Manifold, Positive, Sphere, Stiefel
from manifoldseq.solvers import PGD, SGD, Adam, StochasticPGD

C = np.array([[1.0, 0.2], [0.1, 2.0], [-0.5, 0.3], [0.4, -0.2]])
U, S, V = np.linalg.svd(C, full_matrices=False)
D = np.array([1.0, 2.0, 3.0])
TARGET = np.array([1.0, 0.2, -3.0])

# name: manifold, value and gradient, the minimum in closed form
PROBLEMS: dict[str, tuple[Manifold, Any, Any, float]] = {
    "Procrustes": (
        Stiefel(4, 2),
        lambda X: np.sum((X - C) ** 2),
        lambda X: 2 * (X - C),
        float(np.sum(C**2) + 2 - 2 * S.sum()),
    ),
    "eigenvector": (Sphere(3), lambda x: np.sum(D * x * x), lambda x: 2 * D * x, 1.0),
    "quadratic": (Euclidean(3), lambda x: 1 + np.sum(D * (x - TARGET) ** 2), lambda x: 2 * D * (x - TARGET), 1.0),
    "bounds": (
        BoundedDiagonal(3, 0.5),
        lambda x: np.sum(D * (x - TARGET) ** 2),
        lambda x: 2 * D * (x - TARGET),
        float(np.sum(D * (np.clip(TARGET, -0.5, 0.5) - TARGET) ** 2)),
    ),
    "positive": (Positive(3), lambda x: np.sum(x - np.log(x)), lambda x: 1 - 1 / x, 3.0),
}
DETERMINISTIC = ("gd", "bb", "cg", "lbfgs", "pgd", "pymanopt:steepest-descent", "pymanopt:conjugate-gradient")
SCALES = (1e-300, 1e-200, 1e-150, 1e-20, 1.0, 1e20, 1e150)


def problem_of(name: str, scale: float = 1.0) -> ms.Problem:
    manifold, value, gradient, _ = PROBLEMS[name]
    f = ms.objective(lambda x: scale * float(value(x)), lambda x: scale * gradient(x))
    return ms.Problem(manifold, replace(f, terms=ms.objectives.FiniteTerms(4, lambda i: f)))


@parametrize("scale", SCALES, fast=3)
@parametrize("name", list(PROBLEMS), fast=2)
@pytest.mark.parametrize("solver", DETERMINISTIC)
def test_the_scale_of_the_objective_does_not_matter(solver: str, name: str, scale: float) -> None:
    result = ms.minimize(problem_of(name, scale), solver=solver, seed=1, max_iter=400)
    slow = name == "positive" and solver in ("pgd", "pymanopt:steepest-descent")
    assert result.success or slow, result
    assert result.fun / scale == pytest.approx(PROBLEMS[name][3], abs=1e-3 if slow else 1e-6)


@parametrize("scale", SCALES[:-1], fast=2)
@parametrize("name", list(PROBLEMS), fast=2)
@pytest.mark.parametrize("solver", ["sgd", "adam", "stochastic-pgd"])
def test_stochastic_solvers_of_any_scale(solver: str, name: str, scale: float) -> None:
    """Adam's epsilon has the unit of the gradient: there no success is claimed, and no descent is asked for."""
    problem = problem_of(name, scale)
    start = ms.minimize(problem, solver=solver, seed=1, max_iter=0).fun
    result = ms.minimize(problem, solver=solver, seed=1, max_iter=150)
    minimum = PROBLEMS[name][3]
    if result.success or solver != "adam":
        assert result.fun / scale <= minimum + 0.05 * (start / scale - minimum)


@pytest.mark.parametrize("solver", [PGD(step_size=0.1), "adam", SGD(step_size=0.01), StochasticPGD(rates=0.01)])
def test_steps_of_a_given_size_are_not_called_solved_where_they_are_nothing(solver: Any) -> None:
    result = ms.minimize(problem_of("quadratic", 1e-300), np.zeros(3), solver=solver, max_iter=30)
    assert not result.success and result.grad_norm == pytest.approx(1e-300 * np.linalg.norm(2 * D * TARGET))


def steep(n: int = 48, curvature: float = 1000.0) -> tuple[ms.Problem, np.ndarray]:
    """Return a sum over noisy data whose curvature is far above 1 / 0.01, and its minimizer."""
    rng = np.random.default_rng(0)
    data, weights = rng.standard_normal((n, 3)), curvature / n * np.array([1.0, 0.3, 0.1])

    f = ms.finite_sum(lambda x, i: 0.5 * (weights * (x - data[i]) ** 2).sum(), n=n)
    return ms.Problem(Euclidean(3), f), data.mean(axis=0)


@pytest.mark.parametrize("solver", ["sgd", "stochastic-pgd"])
@parametrize("curvature", [1e-3, 1.0, 1e3, 1e6], fast=2)
def test_default_rates_come_from_the_curvature(solver: str, curvature: float) -> None:
    problem, best = steep(curvature=curvature)
    low, start = problem.objective.value(best), np.array([3.0, -2.0, 1.0])
    result = ms.minimize(problem, start, solver=solver, options={"batch_size": 16}, max_iter=300, seed=0)
    assert result.fun - low <= 0.02 * (problem.objective.value(start) - low)
    resting = ms.minimize(problem, best, solver=solver, options={"batch_size": 16}, stop=ms.MaxIterations(300), seed=0)
    assert resting.fun <= 1.2 * low
    assert ("higher than at the start" in resting.message) == (resting.fun > low * (1 + 1e-9))


def test_a_chosen_rate_is_half_the_inverse_curvature() -> None:
    """Steps of plain gradient descent on all data: the first shrinks the steepest coordinate by one half."""
    problem, best = steep()
    solver = StochasticPGD(batch_size=48)
    x = ms.minimize(problem, best + np.array([1e-3, 0.0, 0.0]), solver=solver, stop=ms.MaxIterations(1), seed=0).x
    np.testing.assert_allclose(x - best, [5e-4, 0, 0], atol=1e-5)
    momentum = SGD(batch_size=48, momentum=0.9)
    x = ms.minimize(problem, best + np.array([1e-3, 0.0, 0.0]), solver=momentum, stop=ms.MaxIterations(1), seed=0).x
    np.testing.assert_allclose(x - best, [9.5e-4, 0, 0], atol=1e-6)


@pytest.mark.parametrize("solver", [SGD(step_size=0.0015, batch_size=16), Adam(step_size=0.5, batch_size=16)])
def test_a_run_that_ends_above_its_start_says_so(solver: Any) -> None:
    problem, best = steep()
    result = ms.minimize(problem, best, solver=solver, stop=ms.MaxIterations(50), seed=0)
    low = problem.objective.value(best)
    assert result.fun > low and result.status is Status.MAX_ITERATIONS
    assert f"higher than at the start ({result.fun:.6g} > {low:.6g}): use a smaller step size" in result.message
    below = ms.minimize(problem, best + 3, solver=solver, stop=ms.MaxIterations(50), seed=0)
    assert below.fun < problem.objective.value(best + 3) and not below.note


def test_without_backtracking_the_start_is_returned_where_steps_raise_the_objective() -> None:
    problem = problem_of("quadratic")
    start = TARGET + 1
    result = ms.minimize(problem, start, solver=PGD(step_size=0.8, backtracking=False), max_iter=5)
    np.testing.assert_array_equal(result.x, start)
    assert result.nit == 5 and not result.success
    assert "The start is returned because the steps raised the objective to" in result.message
    fine = ms.minimize(problem, start, solver=PGD(step_size=0.1, backtracking=False), max_iter=5)
    assert not fine.note and fine.fun < result.fun


@pytest.mark.parametrize("name", list(PROBLEMS))
@pytest.mark.parametrize("solver", ["pymanopt:steepest-descent", "pymanopt:conjugate-gradient", "cg", "lbfgs"])
def test_a_minimum_is_recognized_by_every_solver(solver: str, name: str) -> None:
    """From a minimum to rounding, and from the point that a default run found; also with the minimum 0 elsewhere."""
    problem, minimum = problem_of(name), PROBLEMS[name][3]
    found = ms.minimize(problem, seed=0, tol=1e-15).x
    for x in (found, ms.minimize(problem, seed=2).x):
        result = ms.minimize(problem, x, solver=solver)
        assert result.success and result.fun == pytest.approx(minimum, abs=1e-8), result
    manifold, _, gradient, _ = PROBLEMS["quadratic"]
    zero = ms.Problem(manifold, ms.objective(lambda x: float(np.sum(D * (x - TARGET) ** 2)), gradient))
    for seed in range(4):
        result = ms.minimize(zero, solver=solver, seed=seed)
        assert result.success and result.fun < 1e-8, result


@pytest.mark.parametrize("solver", ["pymanopt:steepest-descent", "pymanopt:conjugate-gradient"])
def test_a_small_step_far_from_a_minimum_is_no_success(solver: str) -> None:
    """The gradient has the wrong sign, so that no step decreases the objective."""
    manifold, value, gradient, _ = PROBLEMS["quadratic"]
    problem = ms.Problem(manifold, ms.objective(lambda x: float(value(x)), lambda x: -gradient(x)))
    result = ms.minimize(problem, TARGET + 1, solver=solver)
    assert not result.success and result.fun > 2
