"""The optimizers of pymanopt under ``minimize``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from core.cases import PROBLEMS, changed, procrustes, quadratic
from core.pymanopt_cases import OURS, problem_on
from helpers import parametrize

import manifoldseq as ms
from manifoldseq import Status, hooks
from manifoldseq.manifolds import Positive, Sphere
from manifoldseq.solvers import Pymanopt

DESCENT = ["pymanopt:steepest-descent", "pymanopt:conjugate-gradient", "pymanopt:trust-regions"]
SEARCH = ["pymanopt:particle-swarm", "pymanopt:nelder-mead"]
SLOW = ("nested", "pymanopt:nelder-mead")  # pymanopt's centroid asks for hundreds of thousands of distances


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("solver", DESCENT)
def test_they_solve_what_ours_solve(name: str, solver: str) -> None:
    problem, x0, best = PROBLEMS[name]()
    if solver == "pymanopt:trust-regions" and problem.objective.hessian_product is None:
        with pytest.raises(ValueError, match="needs hessian_product, which the objective does not have"):
            ms.minimize(problem, x0, solver=solver)
        return
    stop = ms.GradientNorm(1e-6, relative=True) | ms.MaxIterations(1000)
    result = ms.minimize(problem, x0, solver=solver, stop=stop)
    assert result.status is Status.CONVERGED and result.nit == len(result.history["fun"]) - 1
    assert result.grad_norm is not None and result.grad_norm <= 1e-6 * result.history["grad_norm"][0]
    assert result.fun == pytest.approx(best, abs=1e-8) and result.feasibility < 1e-12


@parametrize(
    ("name", "solver"),
    [(name, s) for name in ("sphere", "positive", "nested") for s in SEARCH if (name, s) != SLOW],
    fast=2,
)
def test_searches_need_no_gradient_and_draw_from_the_seed(name: str, solver: str) -> None:
    problem, x0 = problem_on(OURS[name], OURS[name])
    blind = changed(problem, value_and_gradient=None, hessian_product=None)
    before = np.random.get_state()[1].tolist()
    results = [ms.minimize(blind, x0, solver=solver, seed=s, stop=ms.MaxEvaluations(50)) for s in (1, 1, 2)]
    assert np.random.get_state()[1].tolist() == before
    assert results[0].status is Status.MAX_EVALUATIONS and results[0].grad_norm is None
    assert results[0].fun < problem.objective.value(x0)
    assert results[0].fun == results[1].fun != results[2].fun
    assert problem.objective.value(results[0].x) == pytest.approx(results[0].fun)


@pytest.mark.parametrize("component", [0, 1])
def test_a_swarm_stays_in_its_component(component: int) -> None:
    problem, x0 = problem_on(OURS["orthogonal"], OURS["orthogonal"])
    x0 = problem.manifold.to_component(x0, component)
    result = ms.minimize(problem, x0, solver="pymanopt:particle-swarm", seed=0, stop=ms.MaxIterations(10))
    assert np.linalg.det(result.x) == pytest.approx(1 - 2 * component)


@pytest.mark.parametrize("solver", [*DESCENT, *SEARCH])
@pytest.mark.parametrize(
    ("stop", "status"),
    [
        (ms.MaxIterations(3), Status.MAX_ITERATIONS),
        (ms.MaxEvaluations(9), Status.MAX_EVALUATIONS),
        (ms.MaxTime(0.0), Status.MAX_TIME),
        (ms.MaxIterations(0), Status.MAX_ITERATIONS),
    ],
    ids=str,
)
def test_limits_are_kept(solver: str, stop: ms.StoppingRule, status: Status) -> None:
    problem, x0, _ = procrustes()
    result = ms.minimize(problem, x0, solver=solver, stop=stop, seed=0)
    assert result.status is status and not result.success
    if isinstance(stop, ms.MaxEvaluations):
        assert 9 <= result.nfev <= 10  # swarm and simplex: the gradient of what they found
    if isinstance(stop, ms.MaxIterations) and solver in DESCENT and stop.n:
        assert result.nit == 3


@pytest.mark.parametrize("solver", DESCENT)
@pytest.mark.parametrize(
    "stop", [ms.GradientNorm(1e-3, relative=True), ms.GradientNorm(1e-2), ms.CostChange(1e-4)], ids=str
)
def test_rules_are_asked_at_every_iterate(solver: str, stop: ms.StoppingRule) -> None:
    problem, x0, best = procrustes()
    early = ms.minimize(problem, x0, solver=solver, stop=stop | ms.MaxIterations(500))
    late = ms.minimize(problem, x0, solver=solver)
    assert early.success and early.nfev <= late.nfev and late.fun <= early.fun < best + 1e-2
    assert early.fun > best or solver == "pymanopt:trust-regions"  # its last step is exact to rounding


def test_rules_of_the_users_are_asked_too() -> None:
    class Low(ms.StoppingRule):
        def check(self, so_far: Any) -> Status | None:
            return Status.CONVERGED if so_far.current.fun < 5 else None

    problem, x0, _ = quadratic()
    result = ms.minimize(problem, x0, solver="pymanopt:steepest-descent", stop=Low())
    assert result.success and 0.1 < result.fun < 5


def test_evaluations_are_those_that_happened() -> None:
    problem, x0, _ = procrustes()
    calls = {"value": 0, "both": 0}
    value, both = problem.objective.value, problem.objective.value_and_gradient

    def counted(x: Any) -> Any:
        calls["value"] += 1
        return value(x)

    def fused(x: Any) -> Any:
        calls["both"] += 1
        return both(x)  # type: ignore[misc]

    watched = changed(problem, value=counted, value_and_gradient=fused)
    result = ms.minimize(watched, x0, solver="pymanopt:conjugate-gradient")
    assert (result.nfev, result.njev) == (calls["value"] + calls["both"], calls["both"])
    # the loop asks for the start too, and compares the last gradient with the objective
    assert calls["both"] == result.nit + 3


def test_a_step_size_too_small_is_no_success() -> None:
    problem, x0, _ = procrustes()
    options = {"min_step_size": 0.5}
    result = ms.minimize(problem, x0, solver="pymanopt:conjugate-gradient", options=options)
    assert result.status is Status.SMALL_STEP and not result.success
    wrong = changed(problem, value_and_gradient=lambda X: (problem.objective.value(X), 1.0 * np.ones_like(X)))
    assert not ms.minimize(wrong, x0, solver="pymanopt:steepest-descent").success


def test_options_pass_through_and_unknown_ones_are_named() -> None:
    problem, x0, best = procrustes()
    options = {"kappa": 0.2, "maxinner": 3}
    result = ms.minimize(problem, x0, solver="pymanopt:trust-regions", options=options)
    assert result.fun == pytest.approx(best) and result.nhev <= 3 * result.nit + 3
    loose = ms.minimize(
        problem, x0, solver="pymanopt:conjugate-gradient", options={"min_gradient_norm": 1.0, "beta_rule": "LiuStorey"}
    )
    assert loose.status is Status.CONVERGED and loose.grad_norm is not None and 1e-3 < loose.grad_norm < 1
    with pytest.raises(ValueError, match="ConjugateGradient has no option 'betarule': did you mean 'beta_rule'"):
        ms.get_solver("pymanopt:conjugate-gradient", betarule="x")
    with pytest.raises(ValueError, match="choose one of SteepestDescent"):
        Pymanopt("Newton")


def test_values_that_are_not_finite_shorten_the_step() -> None:
    def value(x: np.ndarray) -> float:
        return float(np.log(x[0] - 1) + 4 / (x[0] - 1)) if x[0] > 1 else np.nan

    f = ms.objective(value, lambda x: 1 / (x - 1) - 4 / (x - 1) ** 2)
    result = ms.minimize(ms.Problem(Positive(1), f), np.array([1.05]), solver="pymanopt:steepest-descent")
    assert result.success and result.x[0] == pytest.approx(5.0, rel=1e-3)
    broken = ms.objective(lambda x: float(x @ x), lambda x: x * np.nan if x[0] < 2 else 2 * x)
    result = ms.minimize(ms.Problem(ms.manifolds.Euclidean(1), broken), [3.0], solver="pymanopt:steepest-descent")
    assert result.status is Status.NON_FINITE and np.isfinite(result.fun)


def test_an_interrupt_keeps_the_last_iterate() -> None:
    problem, x0, best = procrustes()
    fused, calls = problem.objective.value_and_gradient, []

    def stops(X: Any) -> Any:
        calls.append(X)
        if len(calls) == 8:
            raise KeyboardInterrupt
        return fused(X)  # type: ignore[misc]

    result = ms.minimize(changed(problem, value_and_gradient=stops), x0, solver="pymanopt:conjugate-gradient")
    assert result.status is Status.INTERRUPTED and best < result.fun < problem.objective.value(x0)


@pytest.mark.parametrize("solver", DESCENT)
def test_the_history_has_every_iterate(solver: str) -> None:
    problem, x0, _ = procrustes()
    theirs: list[tuple[float, float]] = []
    fused = problem.objective.value_and_gradient

    def watched(X: Any) -> Any:
        fun, egrad = fused(X)  # type: ignore[misc]
        theirs.append((fun, float(np.linalg.norm(problem.manifold.gradient(X, egrad)))))
        return fun, egrad

    result = ms.minimize(
        changed(problem, value_and_gradient=watched), x0, solver=solver, stop=ms.GradientNorm(1e-5) | ms.MaxTime(60)
    )
    history = result.history
    assert result.success and history["nit"].tolist() == list(range(result.nit + 1))
    # the loop and pymanopt evaluate the start
    np.testing.assert_allclose(np.column_stack([history["fun"], history["grad_norm"]]), theirs[1 : result.nit + 2])
    assert np.all(np.diff(history["nfev"]) > 0) and history["nfev"][-1] == result.nfev


@pytest.mark.parametrize("solver", DESCENT)
def test_a_resumed_run_begins_anew_at_the_stored_point(solver: str, tmp_path: Path) -> None:
    problem, x0, best = procrustes()
    rule = ms.GradientNorm(1e-6, relative=True)
    first = ms.minimize(problem, x0, solver=solver, stop=rule | ms.MaxIterations(4), checkpoint=tmp_path)
    assert first.nit == 4 and first.status is Status.MAX_ITERATIONS
    with pytest.warns(UserWarning, match="stores no state: the run restarts at the stored point"):
        second = ms.minimize(
            problem, x0, solver=solver, stop=rule | ms.MaxIterations(300), checkpoint=tmp_path, resume=True
        )
    assert second.success and second.fun == pytest.approx(best, abs=1e-8)
    np.testing.assert_array_equal(second.history["fun"][:5], first.history["fun"])
    assert second.nit == len(second.history["fun"]) - 1 > 4 and second.nfev > first.nfev
    assert second.grad_norm is not None and second.grad_norm <= 1e-6 * first.history["grad_norm"][0]


def test_single_precision_and_starts() -> None:
    f = ms.objective(lambda x: np.sum((x - 2) ** 2), lambda x: 2 * (x - 2))
    problem = ms.Problem(Sphere(4), f)
    x0 = Sphere(4).random_point(np.random.default_rng(0), np.float32)
    stop = ms.GradientNorm(1e-3, relative=True) | ms.MaxIterations(100)
    for solver in DESCENT[:2]:
        result = ms.minimize(problem, x0, solver=solver, stop=stop)
        assert result.success and result.x.dtype == np.float32
    several = ms.minimize(problem, solver=DESCENT[1], n_starts=3, seed=0)
    assert several.success and several.fun == pytest.approx(4 * (0.5 - 2) ** 2)


def test_a_name_may_begin_with_that_of_its_own_plugin_only() -> None:
    names = [record.name for _, record in hooks.records("solvers")]
    assert set(DESCENT + SEARCH) <= set(names)
    with pytest.raises(ValueError, match="name must start with a letter or digit"):
        hooks.SolverSpec("mine:", "math:hypot")
    with pytest.raises(ValueError, match="names that begin with 'pymanopt:' are reserved for the plugin 'pymanopt'"):
        ms.register(hooks.SolverSpec("pymanopt:newton", "math:hypot"))
    plugin = type("Plugin", (), {})()

    @ms.hookimpl
    def manifoldseq_solvers() -> Any:
        yield hooks.SolverSpec("pymanopt:newton", "math:hypot")
        yield hooks.SolverSpec("newton", "math:hypot")
        yield hooks.SolverSpec("mine:newton", "math:hypot")

    plugin.manifoldseq_solvers = manifoldseq_solvers
    collected = hooks._plugin.Plugin("mine")  # type: ignore[attr-defined]
    hooks._plugin.collect(collected, plugin)  # type: ignore[attr-defined]
    assert [record.name for record in collected.records] == ["newton", "mine:newton"]
    assert "names that begin with 'pymanopt:' are reserved" in collected.warnings[0].message
