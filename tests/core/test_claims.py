"""A gradient that is zero where the objective is not ends without success; a right one costs two evaluations."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from helpers import parametrize

import manifoldseq as ms
from manifoldseq import Status
from manifoldseq.manifolds import BoundedDiagonal, Euclidean, Positive, Product, Sphere, Stiefel

Function = Callable[[Any], Any]
TARGET = np.random.default_rng(100).standard_normal((6, 4))
SOLVERS = ("lbfgs-tr", "lbfgs", "bb", "cg", "gd", "tr", "pgd")


def square(scale: float = 1.0, times: float = 1.0, weights: Any = 1.0) -> tuple[Function, Function]:
    """Return the weighted squared distance to the target times a scale, and its gradient."""
    return (
        lambda X: times * float(np.sum(weights * (X - scale * TARGET) ** 2)),
        lambda X: 2 * times * weights * (X - scale * TARGET),
    )


def without_column(gradient: Function) -> Function:
    def forgetful(X: Any) -> Any:
        G = np.array(gradient(X))
        G[:, 1] = 0
        return G

    return forgetful


def zero(gradient: Function) -> Function:
    return lambda X: 0 * X


def start(manifold: Any, seed: int, scale: float = 1.0) -> Any:
    return scale * manifold.random_point(np.random.default_rng(seed))


@pytest.mark.parametrize("wrong", [zero, without_column])
@parametrize("solver", SOLVERS, fast=2)
def test_a_gradient_that_is_zero_where_the_cost_is_not(solver: str, wrong: Any) -> None:
    f, g = square()
    for manifold in (Euclidean(6, 4), Stiefel(6, 4)):
        for seed in range(6):
            result = ms.minimize(ms.Problem(manifold, f, gradient=wrong(g)), start(manifold, seed), solver=solver)
            assert not result.success
            if wrong is zero or manifold == Euclidean(6, 4):  # a field without potential may end in other ways
                assert result.status is Status.NO_DECREASE and "check_gradient" in result.message


@pytest.mark.parametrize("times", [1e-12, 1.0, 1e12])
@pytest.mark.parametrize("scale", [1e-12, 1e-5, 1.0, 1e12])
@parametrize("wrong", [zero, without_column], fast=2)
def test_in_every_unit_of_the_cost_and_of_the_point(wrong: Any, scale: float, times: float) -> None:
    f, g = square(scale, times)
    problem = ms.Problem(Euclidean(6, 4), f, gradient=wrong(g))
    right = ms.Problem(Euclidean(6, 4), f, gradient=g)
    for x0 in (np.zeros((6, 4)), start(Euclidean(6, 4), 1, scale), start(Euclidean(6, 4), 1)):
        assert ms.minimize(problem, x0).status is Status.NO_DECREASE
        if x0.any():
            assert ms.minimize(right, x0).success


@parametrize("condition", [1e2, 1e4], fast=1)
def test_where_columns_have_other_units(condition: float) -> None:
    f, g = square(weights=np.geomspace(1, condition, 24).reshape(6, 4))
    for seed in range(12):
        x0 = start(Euclidean(6, 4), seed)
        assert not ms.minimize(ms.Problem(Euclidean(6, 4), f, gradient=without_column(g)), x0).success
        assert ms.minimize(ms.Problem(Euclidean(6, 4), f, gradient=g), x0).success


@pytest.mark.parametrize("frozen", [0, 1])
def test_a_factor_of_a_product_without_gradient(frozen: int) -> None:
    M, S = Product(Stiefel(6, 2), Positive(3), names=("U", "s")), np.diag(np.arange(1.0, 7.0))

    def f(x: Any) -> float:
        return float(np.trace(x[0].T @ S @ x[0]) + np.sum((x[1] - 2) ** 2))

    def g(x: Any) -> Any:
        return 2 * S @ x[0], 2 * (x[1] - 2)

    def wrong(x: Any) -> Any:
        return tuple(0 * part if k == frozen else part for k, part in enumerate(g(x)))

    for seed in range(12):
        x0 = M.random_point(np.random.default_rng(seed))
        assert ms.minimize(ms.Problem(M, f, gradient=wrong), x0).status is Status.NO_DECREASE
        assert ms.minimize(ms.Problem(M, f, gradient=g), x0).success
        # a factor that is frozen on purpose has no tangent vectors
        assert ms.minimize(ms.Problem(M, f, gradient=g).freeze("Us"[frozen]), x0).success


def test_one_coordinate_of_many() -> None:
    b = np.random.default_rng(0).standard_normal(5000)
    f, moves = (lambda x: float(np.sum((x - b) ** 2))), np.arange(5000) != 7
    for seed in range(12):
        x0 = start(Euclidean(5000), seed + 1, 3.0)
        assert not ms.minimize(ms.Problem(Euclidean(5000), f, gradient=lambda x: 2 * moves * (x - b)), x0).success


def test_single_precision_and_bounds() -> None:
    f, g = square()
    x0 = start(Euclidean(6, 4), 3).astype(np.float32)
    assert ms.minimize(ms.Problem(Euclidean(6, 4), f, gradient=g), x0).success
    for wrong in (zero, without_column):
        assert not ms.minimize(ms.Problem(Euclidean(6, 4), f, gradient=wrong(g)), x0).success
    b, B = np.array([0.3, 2.0, -2.0, 0.5, 0.0]), BoundedDiagonal(5, 1.0)
    for seed in range(12):
        x0 = start(B, seed)
        square_to_b = lambda x: float(np.sum((x - b) ** 2))  # noqa: E731
        assert ms.minimize(ms.Problem(B, square_to_b, gradient=lambda x: 2 * (x - b)), x0).success
        wrong_one = lambda x: 2 * (x - b) * np.array([0, 1, 1, 1, 1])  # noqa: E731
        assert not ms.minimize(ms.Problem(B, square_to_b, gradient=wrong_one), x0).success


RULES = [ms.GradientNorm(1e-8), ms.CostChange(1e-12)]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: type(rule).__name__)
def test_every_rule_that_means_success(rule: Any) -> None:
    f, g = square()
    stop, x0 = rule | ms.MaxIterations(500), start(Euclidean(6, 4), 0)
    assert ms.minimize(ms.Problem(Euclidean(6, 4), f, gradient=g), x0, stop=stop).success
    wrong = ms.Problem(Euclidean(6, 4), f, gradient=without_column(g))
    events: list[ms.Event] = []
    result = ms.minimize(wrong, x0, stop=stop, callback=events.append)
    assert result.status is Status.NO_DECREASE is events[-1].status
    assert result.history["nfev"][-1] == result.nfev


@pytest.mark.parametrize("solver", ["pymanopt:conjugate-gradient", "augmented-lagrangian", "sqp", "adam"])
@pytest.mark.parametrize("wrong", [zero, without_column])
def test_solvers_of_other_kinds(solver: str, wrong: Any) -> None:
    f, g = square()
    objective = ms.objective(f, wrong(g))
    if solver == "adam":
        batch = ms.objective(f, wrong(g))
        objective = dataclasses.replace(objective, terms=ms.objectives.FiniteTerms(4, lambda i: batch))
    ball = ms.objective(lambda X: float(np.sum(X**2)) - 1e3, lambda X: 2 * X)
    inside = (ball,) if solver in ("augmented-lagrangian", "sqp") else ()
    problem = ms.Problem(Euclidean(6, 4), objective, inequalities=inside)
    stop = ms.GradientNorm(1e-6) | ms.MaxIterations(20000) if solver == "adam" else None
    result = ms.minimize(problem, start(Euclidean(6, 4), 0), solver=solver, stop=stop, seed=0)
    assert not result.success and result.status is Status.NO_DECREASE


def test_a_batch_says_which_problems() -> None:
    targets = np.random.default_rng(5).standard_normal((8, 6, 4))

    def batched(X: Any, which: np.ndarray) -> Any:
        D = X - targets[which]
        G = 2 * D
        G[which % 2 == 1, :, 1] = 0
        return (D * D).sum(axis=(1, 2)), G

    for manifold in (Euclidean(6, 4), Stiefel(6, 4)):
        for solver in ("bb", "lbfgs"):
            problem = ms.Problem(manifold, ms.objective(batched=batched))
            result = ms.minimize_batch(problem, n_problems=8, seed=0, solver=solver)
            assert result.success.tolist() == [True, False] * 4
            assert result.nfev.sum() == result.history["nfev"][-1]


def counted(manifold: Any, f: Function, g: Function, x0: Any, **options: Any) -> int:
    """Return how many values a success took that had no gradient."""
    result = ms.minimize(ms.Problem(manifold, f, gradient=g), x0, **options)
    assert result.success, result
    return int(result.nfev - result.njev)


def noise(x: np.ndarray) -> float:
    """Return numbers between −1 and 1 that look random, the same for the same point."""
    return float(np.sin(1e9 * np.sum(np.sin(1e6 * x))))


def test_a_right_gradient_costs_two_values() -> None:
    """Exact minima, flat valleys, offsets, bad conditions, kinks, errors of gradients: no success is lost."""
    rng = np.random.default_rng(7)
    E, b, x0 = Euclidean(8), rng.standard_normal(8), rng.standard_normal(8)
    H = np.geomspace(1, 1e10, 8)
    f, g = square()
    assert counted(Euclidean(6, 4), f, g, start(Euclidean(6, 4), 0)) == 2
    assert counted(Euclidean(6, 4), f, g, TARGET) <= 12  # f = 0: what rounding leaves is all that there is
    flat = lambda x: float(np.sum((x[:4] - b[:4]) ** 2)) + 1  # noqa: E731
    assert counted(E, flat, lambda x: 2 * (x - b) * (np.arange(8) < 4), x0) == 2
    assert counted(Sphere(8), lambda x: float(x @ (H * x)), lambda x: 2 * H * x, np.eye(8)[0]) == 2
    bad = lambda x: float(np.sum(H * (x - b) ** 2)) + 3  # noqa: E731
    assert counted(E, bad, lambda x: 2 * H * (x - b), b) == 2
    huge = lambda x: float(np.sum((x - b) ** 2)) + 1e9  # noqa: E731
    assert counted(E, huge, lambda x: 2 * (x - b), b + 1e-9) <= 4
    hinge = lambda x: float(np.sum(np.maximum(x, 0))) + 1.0  # noqa: E731
    assert counted(E, hinge, lambda x: 1.0 * (x > 0), np.zeros(8)) <= 16
    noisy = lambda x: float(np.sum((x - b) ** 2)) + 1 + 1e-9 * noise(x)  # noqa: E731
    for seed in range(20):
        assert counted(E, noisy, lambda x: 2 * (x - b), b + 1e-9 * start(E, seed), stop=ms.GradientNorm(1e-6)) <= 30
    error = 1e-8 * rng.standard_normal(8)
    assert counted(E, bad, lambda x: 2 * H * (x - b + error), b - error) <= 30  # as differences of values have
    constant = lambda x: 5.0  # noqa: E731
    assert counted(E, constant, lambda x: 0 * x, x0) <= 12
