"""Compiled solvers against the numpy engine, closed forms and the contract of the one loop."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import needs, parametrize

import manifoldseq as ms

pytestmark = needs("jax")

from jax_costs import brockett, cases, procrustes, quartic  # noqa: E402

M = ms.manifolds
Status = ms.Status
SOLVERS = ("lbfgs", "bb", "tr")
RULE = ms.GradientNorm(1e-6) | ms.MaxIterations(1000)
"""A rule without the curvature ahead, which takes most of the time to compile: fast tests share what is compiled."""


def compiled(cost: Any, manifold: Any, *args: Any) -> ms.Problem:
    return ms.Problem(manifold, ms.objective(cost, args=args, backend="jax"))


def symmetric(seed: int, n: int) -> np.ndarray:
    A = np.random.default_rng(seed).standard_normal((n, n))
    return A + A.T


def compilations() -> Any:
    """Return a list to which jax adds the name of every compilation from now on."""
    from jax import monitoring

    names: list[str] = []

    def listen(event: str, duration: float, **more: Any) -> None:
        if event.endswith("backend_compile_duration"):
            names.append(str(more.get("fun_name", event)))

    monitoring.register_event_duration_secs_listener(listen)
    return names


GRID = [(name, SOLVERS[(k + j) % 3]) for k, name in enumerate(cases()) for j in range(2)]
"""Each manifold with two of the solvers: a compilation takes seconds."""


@parametrize(("name", "solver"), GRID, fast=1)
def test_solves_what_the_numpy_engine_solves(name: str, solver: str) -> None:
    case = cases()[name]()
    ours = ms.minimize(case.compiled, case.start, solver=f"jax:{solver}")
    theirs = ms.minimize(case.by_hand, case.start, solver=solver)
    assert ours.success and theirs.success
    assert ours.fun == pytest.approx(theirs.fun, rel=1e-9, abs=1e-9)
    assert ours.feasibility <= 1e-10
    assert len(ours.history["fun"]) == ours.nit + 1
    assert ours.history["fun"][-1] == pytest.approx(ours.fun)
    value, _ = case.by_hand.objective.value_and_gradient(ours.x)  # type: ignore[misc]
    assert ours.fun == pytest.approx(value, rel=1e-12, abs=1e-12)
    # the same steps but where a search meets a boundary
    assert abs(ours.nit - theirs.nit) <= (1.2 * theirs.nit if name == "open-box" else max(6, 0.2 * theirs.nit))


def test_a_second_data_set_compiles_nothing() -> None:
    manifold = M.Stiefel(4, 2)
    first = compiled(brockett, manifold, symmetric(0, 4), np.array([1.0, 2.0]))
    ms.minimize(first, solver="jax:bb", seed=0, stop=RULE)
    names = compilations()
    for seed in range(1, 4):
        other = compiled(brockett, M.Stiefel(4, 2), symmetric(seed, 4), np.array([1.0, 3.0]))
        assert ms.minimize(other, solver="jax:bb", seed=seed, stop=RULE | ms.MaxIterations(500 + seed)).success
    assert names == []
    # of another shape it does, so that the count counts
    ms.minimize(compiled(brockett, M.Stiefel(3, 1), symmetric(0, 3), np.ones(1)), solver="jax:bb", seed=0, stop=RULE)
    assert names


def test_bursts_and_resumed_runs_are_bit_equal(tmp_path: Path) -> None:
    problem = compiled(brockett, M.Stiefel(4, 2), symmetric(5, 4), np.array([1.0, 2.0]))
    start = problem.manifold.random_point(np.random.default_rng(0))
    whole = ms.minimize(problem, start, solver="jax:bb", stop=RULE)
    assert whole.success and whole.nit > 14
    seen: list[int] = []
    bursts = ms.minimize(
        problem, start, solver="jax:bb", stop=RULE, options={"every": 7}, callback=lambda event: seen.append(event.nit)
    )
    assert seen[:3] == [0, 7, 14]
    first = ms.minimize(problem, start, solver="jax:bb", stop=RULE, max_iter=9, checkpoint=tmp_path)
    assert first.status is Status.MAX_ITERATIONS and first.nit == 9
    resumed = ms.minimize(problem, start, solver="jax:bb", stop=RULE, checkpoint=tmp_path, resume=True)
    for other in (bursts, resumed):
        assert np.array_equal(whole.x, other.x) and whole.status is other.status and whole.nit == other.nit
        for name in ("fun", "grad_norm", "nfev", "nit"):
            assert np.array_equal(whole.history[name], other.history[name])


@pytest.mark.slow
def test_every_end_has_its_status() -> None:
    problem = compiled(brockett, M.Stiefel(4, 2), symmetric(5, 4), np.array([1.0, 2.0]))
    start = problem.manifold.random_point(np.random.default_rng(0))

    def run(stop: Any, **more: Any) -> ms.Result:
        return ms.minimize(problem, start, solver="jax:bb", stop=stop, **more)

    limited = run(ms.MaxIterations(5))
    assert limited.status is Status.MAX_ITERATIONS and limited.nit == 5
    assert run(ms.MaxIterations(0)).nit == 0
    assert run(ms.MaxEvaluations(9) | ms.MaxIterations(100)).nfev == 9
    assert run(ms.MaxTime(0.0) | ms.MaxIterations(100)).status is Status.MAX_TIME
    reached = run(lambda so_far: Status.CONVERGED if so_far.nit == 3 else None)
    assert reached.status is Status.CONVERGED and reached.nit == 3
    gradient = run(ms.GradientNorm(1e-3) | ms.MaxIterations(500))
    assert gradient.status is Status.CONVERGED and gradient.grad_norm is not None and gradient.grad_norm <= 1e-3
    assert gradient.history["grad_norm"][-2] > 1e-3

    def interrupt(event: ms.Event) -> None:
        if event.nit == 4 and event.status is None:
            raise KeyboardInterrupt

    stopped = run(ms.MaxIterations(100), options={"every": 2}, callback=interrupt)
    assert stopped.status is Status.INTERRUPTED and stopped.nit == 4


def test_a_saddle_is_left() -> None:
    """The start is a maximum on the sphere, where the gradient is zero."""
    problem = compiled(brockett, M.Stiefel(4, 1), np.diag([1.0, 2.0, 3.0, 4.0]), np.ones(1))
    for start, nothing in ((np.eye(4)[:, 3:], False), (np.eye(4)[:, :1], True)):
        result = ms.minimize(problem, start, solver="jax:bb")
        assert result.success and result.fun == pytest.approx(1.0, abs=1e-9) and (result.nit == 0) is nothing
        assert len(result.history["fun"]) == result.nit + 1


def test_a_saddle_with_a_relatively_small_negative_curvature_is_left() -> None:
    d, small = np.linspace(1.0, 2.0, 9), 1e-6
    problem = compiled(lambda x: d @ x[1:] ** 2 - small * (x[0] ** 2 - x[0] ** 4), M.Euclidean(10))
    result = ms.minimize(problem, np.zeros(10), solver="jax:lbfgs")
    assert result.success and result.fun == pytest.approx(-small / 4, rel=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("solver", SOLVERS)
def test_saddles_of_the_core_are_left(solver: str) -> None:
    """Those of tests/core/test_solved.py and test_tr.py."""
    S = np.diag([5.0, 4.0, 3.0, 2.0, 1.0])
    problem = compiled(lambda X, S: -(X * (S @ X)).sum(), M.Stiefel(5, 2), S)
    for columns in ([4, 3], [0, 4], [1, 2]):
        result = ms.minimize(problem, np.eye(5)[:, columns], solver=f"jax:{solver}")
        assert result.success and result.fun == pytest.approx(-9.0, abs=1e-6)
    well = compiled(lambda x: x[0] ** 2 - x[1] ** 2 + x[1] ** 4, M.Euclidean(2))
    result = ms.minimize(well, np.array([1.0, 1e-4]), solver=f"jax:{solver}")
    np.testing.assert_allclose(result.x, [0.0, 0.5**0.5], atol=1e-5)
    symmetry = compiled(lambda x: x[0] ** 2 + 10 * x[1] ** 2 - x[2] ** 2 + x[2] ** 4 / 4 + 5, M.Euclidean(3))
    result = ms.minimize(symmetry, np.array([3.0, 2.0, 0.0]), solver=f"jax:{solver}")
    assert result.success and result.fun == pytest.approx(4.0, abs=1e-6)
    starts = np.array([[3.0, 2.0, 0.0], [3.0, 2.0, 0.5]])
    many = ms.minimize_batch(symmetry, starts, solver=f"jax:{solver}")
    assert many.success.all()
    np.testing.assert_allclose(many.fun, 4.0, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("solver", SOLVERS)
def test_statuses_of_random_problems_are_those_of_the_numpy_engine(solver: str) -> None:
    agree = solved = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        A, B, S, N = rng.standard_normal((8, 6)), rng.standard_normal((8, 2)), symmetric(seed, 6), np.array([1.0, 2.0])
        start = M.Stiefel(6, 2).random_point(rng)
        for cost, args, gradient in (
            (procrustes, (A, B), lambda X, A=A, B=B: 2 * A.T @ (A @ X - B)),
            (brockett, (S, N), lambda X, S=S, N=N: 2 * (S @ X) * N),
        ):
            ours = ms.minimize(compiled(cost, M.Stiefel(6, 2), *args), start, solver=f"jax:{solver}")
            by_hand = ms.objective(lambda X, cost=cost, args=args: float(cost(X, *args)), gradient)
            theirs = ms.minimize(ms.Problem(M.Stiefel(6, 2), by_hand), start, solver=solver)
            solved += ours.success
            agree += ours.status is theirs.status
    assert solved == 40 and agree >= 39


@pytest.mark.slow
@pytest.mark.parametrize("cost", ["linear", "exponential", "wrong", "value"])
def test_no_wrong_claims(cost: str) -> None:
    """Costs without a minimum, a derivative that is wrong, and a value that does not move."""
    import jax
    import jax.numpy as jnp

    @jax.custom_jvp
    def deceiving(x: Any) -> Any:
        return jnp.sum((x - 1) ** 2)

    deceiving.defjvp(lambda p, t: (deceiving(*p), jnp.sum(2 * p[0] * t[0])))  # that of a minimum elsewhere
    costs = {
        "linear": lambda x: jnp.sum(x),
        "exponential": lambda x: jnp.sum(jnp.exp(x)),
        "wrong": deceiving,
        "value": lambda x: 1.0 + 1e-17 * jnp.sum(x),
    }
    for solver in SOLVERS:
        result = ms.minimize(
            compiled(costs[cost], M.Euclidean(2)), np.full(2, 0.3), solver=f"jax:{solver}", max_iter=60
        )
        assert not result.success, (solver, result)


@pytest.mark.slow
@pytest.mark.parametrize("solver", ["lbfgs", "bb"])
def test_many_problems_are_those_one_by_one(solver: str) -> None:
    rng = np.random.default_rng(0)
    A, B = rng.standard_normal((60, 8, 5)), rng.standard_normal((60, 8, 2))
    problems = [compiled(procrustes, M.Stiefel(5, 2), a, b) for a, b in zip(A, B, strict=True)]
    starts = np.stack([M.Stiefel(5, 2).random_point(rng) for _ in problems])
    events: list[ms.Event] = []
    many = ms.minimize_batch(problems, starts, solver=f"jax:{solver}", callback=events.append)
    assert many.success.all() and len(events) == 2
    for k in (0, 31, 59):
        alone = ms.minimize(problems[k], starts[k], solver=f"jax:{solver}")
        assert many.fun[k] == pytest.approx(alone.fun, rel=1e-9) and many.status[k] is alone.status
        assert abs(many.nit[k] - alone.nit) <= 3
    shared = ms.minimize_batch(problems[0], starts[:7], solver=f"jax:{solver}")
    assert shared.success.all() and len(shared) == 7


def test_batches_ask_for_one_cost_and_for_rules_that_compile() -> None:
    problems = [compiled(quartic, M.Sphere(3), np.ones(3)), compiled(procrustes, M.Sphere(3), np.eye(3), np.ones(3))]
    with pytest.raises(ValueError, match="must have the same cost function"):
        ms.minimize_batch(problems, solver="jax:bb", seed=0)
    with pytest.raises(ValueError, match=r"MaxTime.* cannot be compiled"):
        ms.minimize_batch(problems[:1], n_problems=2, solver="jax:bb", seed=0, stop=ms.MaxTime(1.0))
    plain = ms.Problem(M.Sphere(3), ms.objective(lambda x: (x**3).sum()))
    with pytest.raises(ValueError, match="needs traced"):
        ms.minimize(plain, solver="jax:bb", seed=0)
    with pytest.raises(ValueError, match="needs traced"):
        ms.minimize_batch(plain, n_problems=2, solver="jax:bb", seed=0)
    with pytest.raises(TypeError, match="has no geometry in jax"):
        ms.minimize(compiled(quartic, M.Simplex(3), np.ones(3)), solver="jax:bb", seed=0)


def test_sums_and_multiples_of_costs_are_costs_of_jax() -> None:
    f = ms.objective(quartic, args=(np.ones(3),), backend="jax")
    g = 2.0 * f + ms.objective(lambda x: x[0], backend="jax") - f
    x = np.array([0.2, 0.5, -1.0])
    assert g.traced is not None
    assert float(g.traced.cost(x, *g.traced.args)) == pytest.approx(((x - 1) ** 4).sum() + 0.2)
    assert (2 * f).traced.cost == (3 * f).traced.cost  # type: ignore[union-attr]
    data = np.arange(12.0).reshape(4, 3)
    import jax.numpy as jnp

    total = ms.finite_sum(lambda x, i: jnp.sum((x - jnp.asarray(data)[i]) ** 2), 4, backend="jax")
    assert total.traced is not None
    assert float(total.traced.cost(x, *total.traced.args)) == pytest.approx(((x - data) ** 2).sum())
    assert (f + ms.objective(lambda x: x[0])).traced is None


@pytest.mark.slow
@pytest.mark.parametrize("solver", SOLVERS)
def test_single_precision(solver: str) -> None:
    """Data in double precision do not change the dtype of the point."""
    for seed in range(3):
        problem = compiled(brockett, M.Stiefel(5, 2), symmetric(seed, 5), np.array([1.0, 2.0]))
        start = problem.manifold.random_point(np.random.default_rng(seed), np.float32)
        result = ms.minimize(problem, start, solver=f"jax:{solver}")
        w = np.linalg.eigvalsh(symmetric(seed, 5))
        assert result.x.dtype == np.float32 and result.success, result
        assert result.fun == pytest.approx(2 * w[0] + w[1], rel=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("solver", SOLVERS)
def test_conformance(solver: str) -> None:
    case = cases()["product"]()
    report = ms.testing.check_solver(f"jax:{solver}", [case.compiled])
    assert report.ok, str(report)
