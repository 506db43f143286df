"""Solver × problem, starts, errors and the message of a Result."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.optimize
from core.cases import (
    PROBLEMS,
    box,
    close,
    dot,
    equal,
    leaves,
    nearest_orthogonal,
    procrustes,
    quadratic,
    system,
    tree_map,
)
from helpers import parametrize

import manifoldseq as ms
from manifoldseq import Measures, Status
from manifoldseq.manifolds import BoundedDiagonal, Euclidean, Orthogonal, Product, SpecialOrthogonal, Sphere, Stiefel
from manifoldseq.solvers import BB, CG, GD, LBFGS, PGD, InverseTime

SOLVERS = {
    "lbfgs": LBFGS(),
    "lbfgs-memory-1": LBFGS(memory=1),
    "lbfgs-qr": LBFGS(retraction="qr"),
    "lbfgs-wolfe": LBFGS(line_search="wolfe"),
    "bb": BB(),
    "bb-long": BB(step_size="long"),
    "bb-short": BB(step_size="short"),
    "bb-monotone": BB(nonmonotone=0),
    "cg": CG(),
    "cg-pr": CG(beta="polak-ribiere"),
    "cg-fr": CG(beta="fletcher-reeves"),
    "cg-dy": CG(beta="dai-yuan"),
    "cg-hybrid": CG(beta="hybrid"),
    "cg-armijo": CG(line_search="armijo"),
    "gd": GD(),
    "gd-wolfe": GD(line_search="wolfe"),
    "gd-fixed": GD(step_size=0.15),
    "gd-schedule": GD(step_size=InverseTime(0.2, delay=2000)),
    "pgd": PGD(step_size=0.2),
    "pgd-halving": PGD(step_size=0.2, halve_every=500),
    "pgd-fixed": PGD(step_size=0.05, backtracking=False),
}
TIGHT = ms.GradientNorm(1e-7, relative=True) | ms.MaxIterations(3000)


def euclidean(cost: Any, gradient: Any = None, n: int = 2, **initializers: Any) -> ms.Problem:
    return ms.Problem(Euclidean(n), ms.objective(cost, gradient), initializers)


@parametrize("problem", PROBLEMS, fast=3)
@pytest.mark.parametrize("solver", SOLVERS)
def test_every_solver_solves_every_problem(solver: str, problem: str) -> None:
    made, x0, minimum = PROBLEMS[problem]()
    if solver == "lbfgs-qr" and problem in ("quadratic", "box"):
        with pytest.raises(ValueError, match="has no retraction 'qr'"):
            ms.minimize(made, x0, solver=SOLVERS[solver], stop=TIGHT)
        return
    result = ms.minimize(made, x0, solver=SOLVERS[solver], stop=TIGHT)
    assert result.success, result
    assert result.fun == pytest.approx(minimum, abs=1e-7)
    assert result.feasibility < 1e-12
    fun, egrad = made.objective.value_and_gradient(result.x)  # type: ignore[misc]
    gradient = made.manifold.gradient(result.x, egrad)
    assert result.fun == pytest.approx(fun, abs=1e-12)
    assert result.grad_norm == pytest.approx(dot(gradient, gradient) ** 0.5, abs=1e-9)
    assert result.nfev >= result.nit + 1 and result.history["fun"][-1] >= result.fun
    if SOLVERS[solver].monotone:
        assert np.all(np.diff(result.history["fun"]) <= 1e-12)


@parametrize("solver", ["lbfgs", "bb", "cg", "gd", "pgd"], fast=2)
def test_solvers_pass_their_checker(solver: str) -> None:
    ms.testing.check_solver(solver).raise_for_failure()


def test_active_bounds_are_met_and_their_gradients_do_not_count() -> None:
    problem, x0, _ = box()
    result = ms.minimize(problem, x0)
    close(result.x, [-0.6, -0.6, -0.25, 0.375, 0.6], atol=1e-6)
    assert result.success and result.grad_norm is not None and result.grad_norm < 1e-5


@pytest.mark.parametrize("solver", ["lbfgs", "bb", "cg", "gd", "pgd"])
@pytest.mark.parametrize("problem", PROBLEMS)
def test_float32_in_float32_out(solver: str, problem: str) -> None:
    made, x0, minimum = PROBLEMS[problem]()
    x0 = tree_map(lambda leaf: leaf.astype(np.float32), x0)
    result = ms.minimize(made, x0, solver=solver, stop=ms.GradientNorm(1e-3, relative=True) | ms.MaxIterations(3000))
    assert {leaf.dtype for leaf in leaves(result.x)} == {np.dtype(np.float32)}
    assert result.success and type(result.fun) is float
    assert result.fun == pytest.approx(minimum, abs=1e-2)


def test_rounding_level_ends_a_run_that_asks_for_too_much() -> None:
    problem, x0, _ = procrustes()
    for dtype in (np.float32, np.float64):
        result = ms.minimize(problem, x0.astype(dtype), stop=ms.GradientNorm(0.0) | ms.MaxIterations(500))
        assert result.success and result.nit < 500


@parametrize("n", [3, 4, 5, 6], fast=2)
def test_all_components_find_the_nearest_orthogonal_matrix(n: int) -> None:
    stuck = 0
    for seed in range(20):
        problem, minimum = nearest_orthogonal(n, seed)
        result = ms.minimize(problem, components="all", seed=np.random.default_rng(seed + 100))
        assert result.success and result.fun == pytest.approx(minimum, abs=1e-8), seed
        assert result.component == (0 if np.linalg.det(result.x) > 0 else 1)
        alone = ms.minimize(problem, problem.manifold.random_point(np.random.default_rng(seed + 100)))
        assert alone.component is None
        stuck += alone.fun > minimum + 1e-3
        assert result.nfev > alone.nfev
    assert stuck > 3  # one start stays in its component


def cosine_to(target: Any) -> ms.Objective:
    return ms.objective(lambda Q: -float(np.vdot(target, Q)), lambda Q: -target)


@pytest.mark.parametrize("manifold", [Orthogonal(4), Stiefel(4, 4), Stiefel(4, 4, metric="canonical")], ids=repr)
def test_without_a_start_both_determinants_are_searched(manifold: Any) -> None:
    """The maximum of ⟨A, Q⟩ over O(n) is the sum of the singular values of A."""
    for seed in range(10):
        A = np.random.default_rng(seed).standard_normal((4, 4))
        best, sign = np.linalg.svd(A)[1].sum(), np.sign(np.linalg.det(A))
        problem = ms.Problem(manifold, cosine_to(A))
        result = ms.minimize(problem, seed=seed)
        assert result.success and result.fun == pytest.approx(-best, rel=1e-8)
        better, other = (0, 1) if sign > 0 else (1, 0)
        assert result.component == better
        assert "Both connected components" in result.message and f"(determinant {sign:+.0f})" in result.message
        worse = manifold.to_component(result.x, other)
        given = ms.minimize(problem, worse)
        assert given.component is None and given.fun > -best + 1e-6
        assert f"searches component {better} (determinant {sign:+.0f})" in given.message
        assert ms.minimize(problem, worse, components="all").fun == pytest.approx(-best, rel=1e-8)


@pytest.mark.parametrize(
    ("manifold", "words"),
    [
        (Stiefel(4, 3), ""),
        (SpecialOrthogonal(3), ""),
        (Sphere(1), "connected component"),
        (Orthogonal(2) ** 2, "Only the component of the start was searched, although the manifold has 4 connected"),
        (Orthogonal(1) ** 4, "Only the component of the start was searched, although the manifold has 16 connected"),
    ],
    ids=repr,
)
def test_other_manifolds_are_searched_from_one_start(manifold: Any, words: str) -> None:
    A = np.random.default_rng(0).standard_normal(manifold.shape)
    counts = []
    f = ms.objective(lambda Q: counts.append(1) or -float(np.vdot(A, Q)), lambda Q: -A)
    result = ms.minimize(ms.Problem(manifold, f), seed=0, stop=ms.MaxIterations(0))
    assert result.component is None and len(counts) == result.nfev == 1
    assert words in result.message and bool(result.note) == bool(words)


def test_the_start_of_an_initializer_is_a_start() -> None:
    f = cosine_to(np.diag([1.0, 2.0, -3.0]))
    result = ms.minimize(ms.Problem(Orthogonal(3), f, initializers={"one": lambda problem, rng: np.eye(3)}))
    assert result.component is None and "component 1 (determinant -1)" in result.message


def test_components_of_a_product_and_their_limit() -> None:
    A = np.diag([1.0, -2.0])

    def value(x: Any) -> float:
        return float(np.sum((x[0] - A) ** 2) + np.sum((x[1] + A) ** 2))

    f = ms.objective(value, lambda x: (2 * (x[0] - A), 2 * (x[1] + A)))
    result = ms.minimize(ms.Problem(Product(Orthogonal(2), Orthogonal(2)), f), components="all", seed=0)
    close(result.x, (np.diag([1.0, -1.0]), np.diag([-1.0, 1.0])), atol=1e-5)
    assert result.component == 3
    many = ms.Problem(
        Product(*[Orthogonal(1)] * 4), ms.objective(lambda x: 0.0, lambda x: tuple(0 * part for part in x))
    )
    with pytest.raises(ValueError, match=r"at most 8 components, but .* has 16: run"):
        ms.minimize(many, components="all")
    with pytest.raises(ValueError, match="components='both': use 'all'"):
        ms.minimize(many, components="both")


def test_a_list_of_starts_beats_one_and_sums_the_evaluations() -> None:
    """A cosine with a slope: the deeper minima are far away."""
    problem = euclidean(lambda x: float(np.sum(np.cos(3 * x) + 0.1 * x**2)), lambda x: -3 * np.sin(3 * x) + 0.2 * x)
    one = ms.minimize(problem, np.array([5.0, 5.0]), seed=0)
    many = ms.minimize(problem, np.array([5.0, 5.0]), n_starts=12, seed=0)
    assert many.fun < one.fun - 0.5 and many.nfev > one.nfev + 11
    again = ms.minimize(problem, np.array([5.0, 5.0]), n_starts=12, seed=0)
    equal(many.x, again.x)
    with ms.execution.using("threads", 2):
        threaded = ms.minimize(problem, np.array([5.0, 5.0]), n_starts=12, seed=0)
    equal(many.x, threaded.x)
    assert (many.nfev, many.njev, many.nit) == (threaded.nfev, threaded.njev, threaded.nit)
    with pytest.raises(ValueError, match="n_starts=0"):
        ms.minimize(problem, n_starts=0)


def test_seeds_are_reproducible_and_leave_global_state_alone() -> None:
    problem, _, _ = procrustes()
    before = np.random.get_state()[1].copy()  # type: ignore[index]
    one, other, third = (ms.minimize(problem, seed=seed, stop=ms.MaxIterations(3)) for seed in (5, 5, 6))
    equal(one.x, other.x)
    assert np.any(one.x != third.x)
    np.testing.assert_array_equal(before, np.random.get_state()[1])  # type: ignore[index]


def test_best_point_of_a_solver_that_may_climb() -> None:
    problem = euclidean(lambda x: 0.5 * float(x @ x), lambda x: x)
    run = ms.minimize(
        problem, np.array([1.0, 0.0]), solver=PGD(step_size=2.5, backtracking=False), stop=ms.MaxIterations(5)
    )
    assert run.history["fun"][-1] > run.history["fun"][0]
    assert run.fun == run.history["fun"].min() and run.x.tolist() == [1.0, 0.0]
    assert run.grad_norm == 1.0


def test_warm_start_keeps_the_reference_of_relative_tolerances() -> None:
    problem, x0, _ = procrustes()
    stop = ms.GradientNorm(1e-6, relative=True) | ms.MaxIterations(1000)
    first = ms.minimize(problem, x0, stop=stop)
    again = ms.minimize(problem, first, stop=stop)
    assert again.nit == 0 and again.status is Status.CONVERGED and again.reference == first.reference
    close(again.x, first.x)
    cold = ms.minimize(problem, first.x, stop=stop)
    assert cold.nit > 0  # relative to its own first gradient it is not converged


def test_initializers_by_name_default_and_order() -> None:
    problem = euclidean(
        lambda x: float(x @ x),
        lambda x: 2 * x,
        ones=lambda problem, rng: np.ones(2),
        random=lambda problem, rng: problem.manifold.random_point(rng),
    )
    stop = ms.MaxIterations(0)
    assert ms.minimize(problem, stop=stop).x.tolist() == [1, 1]
    assert ms.minimize(problem, "ones", stop=stop).x.tolist() == [1, 1]
    given = np.random.default_rng(3)  # a generator is used as it is
    equal(ms.minimize(problem, "random", stop=stop, seed=given).x, np.random.default_rng(3).standard_normal(2))
    with pytest.raises(ValueError, match="unknown initializer 'zeros': this problem has 'ones', 'random'"):
        ms.minimize(problem, "zeros")


def test_a_closed_form_start_is_converged_without_iterations() -> None:
    problem, _, minimum = quadratic()
    solved = ms.Problem(problem.manifold, problem.objective, {"exact": lambda problem, rng: np.zeros(4)})
    result = ms.minimize(solved)
    assert (result.status, result.nit, result.fun) == (Status.ROUNDING_LEVEL, 0, minimum)


def test_the_start_is_not_touched() -> None:
    problem, x0, _ = system()
    before = tree_map(np.array, x0)
    result = ms.minimize(problem, x0, stop=ms.MaxIterations(3))
    equal(x0, before)
    for leaf in (*leaves(x0), *leaves(result.x)):
        leaf[...] = 0  # both belong to the caller


@pytest.mark.parametrize(("at", "error"), [(8, KeyboardInterrupt), (8, ZeroDivisionError)])
def test_interrupts_and_exceptions_in_the_objective(at: int, error: type[BaseException], tmp_path: Path) -> None:
    problem, x0, _ = system()
    calls = 0

    def fused(x: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == at:
            raise error("in the objective")
        return problem.objective.value_and_gradient(x)  # type: ignore[misc]

    broken = ms.Problem(problem.manifold, ms.objective(value_and_gradient=fused))
    if error is KeyboardInterrupt:
        result = ms.minimize(broken, x0, checkpoint=tmp_path)
        assert result.status is Status.INTERRUPTED and result.nit >= 1 and not result.success
    else:
        with pytest.raises(error, match="in the objective"):
            ms.minimize(broken, x0, checkpoint=tmp_path)
    resumed, whole = ms.minimize(problem, x0, checkpoint=tmp_path, resume=True), ms.minimize(problem, x0)
    equal(resumed.x, whole.x)
    assert (resumed.fun, resumed.nit, resumed.nfev) == (whole.fun, whole.nit, whole.nfev)


@pytest.mark.parametrize("options", [{"n_starts": 3}, {"components": "all"}, {"solver": PGD(backtracking=False)}])
def test_resumed_starts_are_bit_identical(options: dict[str, Any], tmp_path: Path) -> None:
    problem, _ = nearest_orthogonal(4, 0)
    ms.minimize(problem, seed=1, stop=ms.MaxIterations(4), checkpoint=tmp_path, **options)
    stop = ms.MaxIterations(9)
    resumed = ms.minimize(problem, seed=1, stop=stop, checkpoint=tmp_path, resume=True, **options)
    whole = ms.minimize(problem, seed=1, stop=stop, **options)
    equal(resumed.x, whole.x)
    assert (resumed.fun, resumed.nfev, resumed.component) == (whole.fun, whole.nfev, whole.component)


def test_counting_and_the_limit_of_evaluations() -> None:
    problem, x0, _ = system()
    calls: list[int] = []

    def fused(x: Any) -> Any:
        calls.append(1)
        return problem.objective.value_and_gradient(x)  # type: ignore[misc]

    watched = ms.Problem(problem.manifold, ms.objective(value_and_gradient=fused))
    result = ms.minimize(watched, x0)
    assert result.nfev == result.njev + 2 == len(calls) and result.nhev == 0  # two values before the success
    limited = ms.minimize(watched, x0, stop=ms.MaxEvaluations(5))
    assert limited.status is Status.MAX_EVALUATIONS and 5 <= limited.nfev < 12
    assert limited.history["nfev"][-1] == limited.nfev


def test_raise_on_failure() -> None:
    problem, x0, _ = procrustes()
    assert ms.minimize(problem, x0, raise_on_failure=True).success
    with pytest.raises(ms.NotConverged, match="MAX_ITERATIONS: The maximum number of iterations") as caught:
        ms.minimize(problem, x0, stop=ms.MaxIterations(1), raise_on_failure=True)
    assert caught.value.result.nit == 1


def test_result_is_frozen_readable_and_pickled() -> None:
    problem, x0, _ = system()
    result = ms.minimize(problem, x0)
    again = pickle.loads(pickle.dumps(result))
    equal(again.x, result.x)
    assert repr(again) == repr(result) and again.status is result.status
    assert "CONVERGED" in repr(result) and "nit=" in repr(result)
    with pytest.raises(AttributeError):
        result.fun = 0.0  # type: ignore[misc]


def test_fixed_rates_are_algorithm_1() -> None:
    """One step per factor, all gradients at the old point, halved every two iterations."""
    problem, x0, _ = system()
    rates = (0.05, 0.02, 0.1)
    solver = PGD(step_size=rates, halve_every=2, backtracking=False)
    seen = ms.Recorder()
    ms.minimize(problem, x0, solver=solver, stop=ms.MaxIterations(3), observers=[seen])
    x = x0
    for nit in range(3):
        g = problem.objective.value_and_gradient(x)[1]  # type: ignore[misc]
        t = [rate * 0.5 ** (nit // 2) for rate in rates]
        lam = np.clip(x[0] - t[0] * g[0], -0.9, 0.9)
        V, U = (_cayley(x[k], g[k], t[k]) for k in (1, 2))
        x = (lam, V, U)
        close(seen.records[nit + 1], x, atol=1e-12)


def _cayley(X: np.ndarray, G: np.ndarray, tau: float) -> np.ndarray:
    W, eye = G @ X.T - X @ G.T, np.eye(len(X))
    return np.linalg.solve(eye + tau / 2 * W, (eye - tau / 2 * W) @ X)


def test_observers_and_recorder() -> None:
    problem, x0, _ = procrustes()
    values = ms.Recorder(lambda event: event.measures.fun)
    result = ms.minimize(problem, x0, observers=[values])
    np.testing.assert_array_equal(values.records, result.history["fun"])


def test_progress_shows_a_bar(capsys: pytest.CaptureFixture[str]) -> None:
    problem, x0, _ = procrustes()
    ms.minimize(problem, x0, observers=[ms.Progress(disable=False, description="fit")])
    shown = capsys.readouterr().err
    assert "fit" in shown and "fun=" in shown and "nfev=" in shown


def test_measures_default_to_nothing_known() -> None:
    assert Measures(1.0).extra == {} and Measures(1.0).grad_norm is None


def ellipsoid(bound: float, n: int = 40) -> ms.Problem:
    """The minimum of an ill-conditioned quadratic in a box; its free minimum has entries of about one."""
    rng = np.random.default_rng(4)
    Q = np.linalg.qr(rng.standard_normal((n, n)))[0]
    H, c = (Q * np.logspace(0, 2, n)) @ Q.T, rng.standard_normal(n)
    f = ms.objective(lambda x: 0.5 * float((x - c) @ H @ (x - c)), lambda x: H @ (x - c))
    return ms.Problem(BoundedDiagonal(n, bound), f)


@pytest.mark.parametrize("solver", ["lbfgs", "lbfgs-wolfe", "bb", "cg", "cg-hybrid", "gd"])
def test_active_bounds_cost_no_more_iterations(solver: str) -> None:
    stop = ms.GradientNorm(1e-8, relative=True) | ms.MaxIterations(4000)
    inside, at_bounds = (
        ms.minimize(ellipsoid(bound), np.zeros(40), solver=SOLVERS[solver], stop=stop) for bound in (50.0, 0.5)
    )
    assert inside.success and at_bounds.success
    assert np.sum(np.abs(at_bounds.x) == 0.5) > 10 and np.all(np.abs(inside.x) < 50)
    assert at_bounds.nit <= 2 * inside.nit
    f = ellipsoid(0.5).objective
    oracle = scipy.optimize.minimize(
        f.value, np.zeros(40), jac=lambda x: f.value_and_gradient(x)[1], bounds=[(-0.5, 0.5)] * 40, tol=1e-14
    )
    assert at_bounds.fun == pytest.approx(oracle.fun, rel=1e-8)


@pytest.mark.parametrize("solver", ["bb", "cg", "gd", "lbfgs-wolfe"])
def test_a_run_in_two_parts_is_the_run_in_one(solver: str, tmp_path: Path) -> None:
    """With the best point of a nonmonotone run in the checkpoint too."""
    problem, x0, _ = system()
    whole = ms.minimize(problem, x0, solver=SOLVERS[solver], stop=ms.MaxIterations(12))
    ms.minimize(problem, x0, solver=SOLVERS[solver], stop=ms.MaxIterations(5), checkpoint=tmp_path)
    again = ms.minimize(
        problem, x0, solver=SOLVERS[solver], stop=ms.MaxIterations(12), checkpoint=tmp_path, resume=True
    )
    equal(again.x, whole.x)
    assert (again.fun, again.grad_norm, again.nfev) == (whole.fun, whole.grad_norm, whole.nfev)
    np.testing.assert_array_equal(again.history["fun"], whole.history["fun"])


def test_the_best_point_of_a_nonmonotone_run_is_returned() -> None:
    """The values of Barzilai–Borwein steps rise now and then; wherever the run ends, the best one counts."""
    problem = ms.Problem(Euclidean(40), ellipsoid(1.0).objective)
    rises = 0
    for n in range(1, 40):
        result = ms.minimize(problem, np.zeros(40), solver="bb", stop=ms.MaxIterations(n))
        rises += result.history["fun"][-1] > result.fun
        assert result.fun == result.history["fun"].min() == problem.objective.value(result.x)
        assert result.grad_norm in result.history["grad_norm"]
    assert rises > 3


def test_a_point_that_drifted_is_projected_at_the_end() -> None:
    problem, x0, _ = procrustes()

    class Drifts(LBFGS):
        def step(self, problem: ms.Problem, state: Any) -> Any:
            state, measures = super().step(problem, state)
            return {**state, "x": state["x"] * (1 + 1e-12)}, measures

    drifted = ms.minimize(problem, x0, solver=Drifts(), stop=ms.MaxIterations(4))
    assert drifted.feasibility < 1e-14
    assert drifted.feasibility == np.abs(drifted.x.T @ drifted.x - np.eye(3)).max()
