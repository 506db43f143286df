"""A problem from functions, and what `minimize` takes: tolerance, iterations, a callback, a function as a rule."""

from __future__ import annotations

import dataclasses
import pickle
import warnings
from typing import Any

import numpy as np
import pytest
import scipy.linalg

import manifoldseq as ms
from manifoldseq import Status
from manifoldseq.manifolds import Euclidean, Product, Sphere, Stiefel

A = np.diag([5.0, 4.0, 3.0, 2.0, 1.0]) + 0.1
TOP = -float(np.linalg.eigvalsh(A)[-2:].sum())


def cost(X: np.ndarray) -> Any:
    return -(X * (A @ X)).sum()


def gradient(X: np.ndarray) -> np.ndarray:
    return -2 * A @ X


def on_product(x: Any) -> Any:
    return cost(x[0]) + ((x[1] - 2.0) ** 2).sum()


def by_product(x: Any) -> tuple[np.ndarray, np.ndarray]:
    return gradient(x[0]), 2 * (x[1] - 2.0)


def outside_of_the_half_circle(x: np.ndarray) -> Any:
    return 0.6 - x[0]


@pytest.mark.parametrize("given", [{}, {"gradient": gradient}])
def test_functions_make_a_problem(given: Any) -> None:
    problem = ms.Problem(Stiefel(5, 2), cost, **given)
    assert isinstance(problem.objective, ms.Objective)
    result = ms.minimize(problem, seed=0)
    assert result.success and result.fun == pytest.approx(TOP, abs=1e-8)
    if given:  # the function itself, not autodiff
        x = result.x
        assert np.array_equal(problem.objective.value_and_gradient(x)[1], gradient(x))  # type: ignore[misc]


@pytest.mark.parametrize("given", [{}, {"gradient": by_product}])
def test_functions_of_a_tuple(given: Any) -> None:
    manifold = Product(Stiefel(5, 2), Euclidean(3))
    result = ms.minimize(ms.Problem(manifold, on_product, **given), seed=0)
    assert result.success and result.fun == pytest.approx(TOP, abs=1e-8)
    np.testing.assert_allclose(result.x[1], 2.0, atol=1e-4)


def test_an_objective_is_taken_as_it_is() -> None:
    objective = ms.objective(cost, gradient)
    assert ms.Problem(Stiefel(5, 2), objective).objective is objective
    with pytest.raises(TypeError, match="is for a cost, but the objective is an Objective"):
        ms.Problem(Stiefel(5, 2), objective, gradient=gradient)
    with pytest.raises(TypeError, match=r"gradient=…\) must be a function"):
        ms.Problem(Stiefel(5, 2), cost, gradient=np.ones(3))  # type: ignore[arg-type]


def test_a_problem_of_functions_is_replaced_frozen_and_pickled() -> None:
    problem = ms.Problem(Product(Stiefel(5, 2), Euclidean(3), names=("X", "y")), on_product, gradient=by_product)
    again = pickle.loads(pickle.dumps(dataclasses.replace(problem, initializers={})))
    x = problem.manifold.random_point(np.random.default_rng(0))
    assert again.objective.value(x) == problem.objective.value(x)
    held = ms.minimize(problem.freeze("X"), x)
    assert np.array_equal(held.x[0], x[0])


def test_constraints_are_functions_too() -> None:
    problem = ms.Problem(Sphere(2), lambda x: x.sum(), inequalities=(outside_of_the_half_circle,))
    result = ms.minimize(problem, np.array([1.0, 0.0]), solver="augmented-lagrangian")
    np.testing.assert_allclose(result.x, [0.6, -0.8], atol=1e-6)


def test_the_tolerance_is_that_of_the_default_rule() -> None:
    problem = ms.Problem(Stiefel(5, 2), cost, gradient=gradient)
    coarse, named, fine = (
        ms.minimize(problem, seed=0, **given)
        for given in ({"tol": 1e-3}, {"stop": ms.PredictedDecrease(1e-3) | ms.MaxIterations(1000)}, {"tol": 1e-13})
    )
    assert coarse.success and fine.success and np.array_equal(coarse.x, named.x)
    assert coarse.nit < fine.nit and abs(fine.fun - TOP) < abs(coarse.fun - TOP) < 1e-2


@pytest.mark.parametrize("stop", [None, ms.GradientNorm(1e-12)])
def test_the_limit_holds_with_any_rule(stop: Any) -> None:
    problem = ms.Problem(Stiefel(5, 2), cost, gradient=gradient)
    result = ms.minimize(problem, stop=stop, max_iter=3, seed=0)
    assert result.nit == 3 and result.status is Status.MAX_ITERATIONS


def test_no_two_tolerances() -> None:
    problem = ms.Problem(Stiefel(5, 2), cost, gradient=gradient)
    for call in (ms.minimize, ms.minimize_batch):
        with pytest.raises(
            ValueError, match=r"tol=1e-08 sets the default stopping rule and cannot be combined with stop=…: write"
        ):
            call(problem, tol=1e-8, stop=ms.MaxIterations(3))  # type: ignore[operator]
    for given in ({"tol": -1.0}, {"tol": "small"}, {"max_iter": -1}, {"max_iter": "many"}):
        with pytest.raises(ValueError, match=r"must be a (whole )?number ≥ 0"):
            ms.minimize(problem, **given)  # type: ignore[arg-type]


def test_a_batch_takes_the_same() -> None:
    rng = np.random.default_rng(0)
    data = rng.standard_normal((6, 4, 2))

    def batched(X: Any, which: Any) -> tuple[Any, Any]:
        D = X - data[which]
        return (D * D).sum(axis=(1, 2)), 2 * D

    problem, seen = ms.Problem(Stiefel(4, 2), ms.objective(batched=batched)), []
    short = ms.minimize_batch(problem, n_problems=6, max_iter=2, callback=lambda e: seen.append(e.nit), seed=0)
    assert short.nit.max() == 2 and seen == [0, 1, 2]
    fine = ms.minimize_batch(problem, n_problems=6, tol=1e-14, seed=0)
    polar = np.stack([scipy.linalg.polar(one)[0] for one in data])
    np.testing.assert_allclose(fine.x, polar, atol=1e-6)


@pytest.mark.parametrize("returns", [True, False, Status.CONVERGED])
def test_what_a_callback_returns_ends_nothing(returns: Any) -> None:
    problem, seen = ms.Problem(Stiefel(5, 2), cost, gradient=gradient), []
    silent = ms.minimize(problem, seed=0)
    result = ms.minimize(problem, callback=lambda event: (seen.append(event), returns)[1], seed=0)
    assert np.array_equal(result.x, silent.x) and [event.nit for event in seen] == list(range(silent.nit + 1))
    assert seen[-1].status is result.status and all(event.status is None for event in seen[:-1])


@pytest.mark.parametrize("error", [StopIteration, ZeroDivisionError, np.linalg.LinAlgError])
def test_a_callback_that_raises_is_a_warning(error: type[Exception]) -> None:
    problem, calls = ms.Problem(Stiefel(5, 2), cost, gradient=gradient), []

    def callback(event: ms.Event) -> None:
        calls.append(event.nit)
        raise error("no")

    with pytest.warns(UserWarning, match="failed and is not called again"):
        result = ms.minimize(problem, callback=callback, seed=0)
    assert result.success and calls == [0]


def test_a_callback_cannot_reach_into_the_run() -> None:
    problem, silent = (ms.Problem(Stiefel(5, 2), cost, gradient=gradient),) * 2
    silent = ms.minimize(problem, seed=0)

    def callback(event: ms.Event) -> None:
        event.x[:] = 0.0

    with pytest.warns(UserWarning, match="read-only"):
        result = ms.minimize(problem, callback=callback, seed=0)
    assert np.array_equal(result.x, silent.x)


def test_a_callback_is_combined_with_observers() -> None:
    problem, order = ms.Problem(Stiefel(5, 2), cost, gradient=gradient), []
    observers = [lambda event: order.append("observer")]
    ms.minimize(problem, callback=lambda event: order.append("callback"), observers=observers, max_iter=1, seed=0)
    assert order == ["observer", "callback"] * 2
    with pytest.raises(TypeError, match="callback=3: pass a function"):
        ms.minimize(problem, callback=3)  # type: ignore[arg-type]


def low_enough(so_far: ms.RunSoFar) -> Status | None:
    return Status.CONVERGED if so_far.current.fun <= 0.9 * TOP else None


def test_a_function_is_a_rule() -> None:
    problem = ms.Problem(Stiefel(5, 2), cost, gradient=gradient)
    alone = ms.minimize(problem, stop=low_enough, seed=0)
    assert alone.status is Status.CONVERGED and alone.history["fun"][-2] > 0.9 * TOP >= alone.fun
    for rule in (low_enough | ms.MaxIterations(1), ms.MaxIterations(1) | low_enough):
        assert ms.minimize(problem, stop=rule, seed=0).nit == 1
    run = ms.iterate(lambda s: ({"n": s["n"] + 1}, ms.Measures(-s["n"])), {"n": 0.0}, ms.Measures(0.0), stop=low_enough)
    assert run.state["n"] - 1 >= -0.9 * TOP > run.state["n"] - 2
    batch = ms.minimize_batch(problem, n_problems=3, stop=low_enough, seed=0)
    assert (batch.fun <= 0.9 * TOP).all() and all(status is Status.CONVERGED for status in batch.status)


def test_a_rule_says_a_status_or_nothing() -> None:
    problem = ms.Problem(Stiefel(5, 2), cost, gradient=gradient)
    with pytest.raises(TypeError, match=r"returned True: return an ms.Status to end the run, or None to continue"):
        ms.minimize(problem, stop=lambda so_far: so_far.nit >= 0, seed=0)  # type: ignore[arg-type,return-value]
    for wrong in (3, "1e-6", ms.MaxIterations):
        with pytest.raises(TypeError, match="is not a stopping rule"):
            ms.minimize(problem, stop=wrong, seed=0)  # type: ignore[arg-type]


def test_a_run_so_far_is_made_of_measures() -> None:
    records = [ms.Measures(float(k), float(k), evaluations=ms.Evaluations(2, 1)) for k in range(20, 0, -1)]
    so_far = ms.RunSoFar(records)
    assert (so_far.nit, so_far.time, so_far.evaluations) == (19, 0.0, ms.Evaluations(40, 20, 0))
    assert so_far.recent == tuple(records[-12:]) and so_far.first is records[0] and so_far.reference == 20.0
    assert so_far.current is records[-1] and so_far.previous is records[-2]
    later = so_far.after(ms.Measures(0.5, evaluations=ms.Evaluations(3)), time=2.0)
    assert (later.nit, later.time, later.evaluations.nfev, len(later.recent)) == (20, 2.0, 43, 12)
    assert ms.RunSoFar(records[:1]).previous is None
    given = ms.RunSoFar(records, nit=5, reference=7.0, eps=1e-7)
    assert (given.nit, given.reference, given.eps) == (5, 7.0, 1e-7)


def test_rules_see_the_same_run_that_the_history_tells() -> None:
    seen: list[ms.RunSoFar] = []
    problem = ms.Problem(Stiefel(5, 2), cost, gradient=gradient)
    result = ms.minimize(problem, stop=lambda so_far: seen.append(so_far), max_iter=15, seed=0)  # type: ignore[arg-type,func-returns-value]
    assert [s.nit for s in seen] == list(range(result.nit + 1))
    funs = result.history["fun"]
    assert all([m.fun for m in s.recent] == funs[max(0, s.nit - 11) : s.nit + 1].tolist() for s in seen)


def test_no_warning_comes_from_functions() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ms.minimize(ms.Problem(Sphere(3), lambda x: x[0]), callback=lambda event: None, tol=1e-8, max_iter=50, seed=0)
