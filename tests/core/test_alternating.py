"""Alternating: block coordinate descent, expectation–maximization, inner solvers, order, errors."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import scipy.linalg
import scipy.optimize
from core.cases import close, equal, leaves, tree_map

import manifoldseq as ms
from manifoldseq import Status
from manifoldseq.manifolds import Euclidean, Product, Stiefel
from manifoldseq.objectives import BlockUpdate
from manifoldseq.solvers import SGD, TR, Alternating

A = np.random.default_rng(0).standard_normal((7, 5)) @ np.diag([4.0, 2.0, 1.0, 0.5, 0.2])
EXACT = float(np.sum(scipy.linalg.svdvals(A)[2:] ** 2))


def low_rank(*names: str, gradient: bool = True) -> tuple[ms.Problem, Any]:
    """The best matrix U diag(s) Vᵀ of rank two, with the closed-form updates that are named."""
    M = Product(Stiefel(7, 2), Euclidean(2), Stiefel(5, 2), names=("U", "s", "V"))

    def residual(x: Any) -> Any:
        return (x[0] * x[1]) @ x[2].T - A

    def slopes(x: Any) -> Any:
        R = 2 * residual(x)
        return R @ x[2] * x[1], np.sum(x[0] * (R @ x[2]), axis=0), R.T @ x[0] * x[1]

    updates = {
        "U": BlockUpdate("polar of U", ("U",), lambda x: (scipy.linalg.polar(A @ x[2] * x[1])[0], x[1], x[2])),
        "s": BlockUpdate("s", ("s",), lambda x: (x[0], np.sum(x[0] * (A @ x[2]), axis=0), x[2])),
        "V": BlockUpdate("polar of V", ("V",), lambda x: (x[0], x[1], scipy.linalg.polar(A.T @ x[0] * x[1])[0])),
    }
    f = ms.objective(lambda x: float(np.sum(residual(x) ** 2)), slopes)
    f = dataclasses.replace(f, updates=tuple(updates[name] for name in names))
    return ms.Problem(M, f if gradient else dataclasses.replace(f, value_and_gradient=None)), M.random_point(
        np.random.default_rng(1)
    )


@pytest.mark.parametrize("names", [("U", "s", "V"), ("U", "V"), ("s",), ("V",)], ids="-".join)
@pytest.mark.parametrize("inner", ["lbfgs", "pgd", TR()], ids=["lbfgs", "pgd", "tr"])
def test_low_rank_approximation_against_the_svd(names: tuple[str, ...], inner: Any) -> None:
    problem, x0 = low_rank(*names)
    solver = Alternating(inner_solver=inner)
    result = ms.minimize(problem, x0, solver=solver, stop=ms.GradientNorm(1e-6, relative=True) | ms.MaxIterations(4000))
    assert result.success and result.fun == pytest.approx(EXACT, abs=1e-9)
    assert result.feasibility < 1e-13
    assert np.all(np.diff(result.history["fun"]) <= 1e-12)


def test_a_step_of_updates_is_a_sweep_with_one_evaluation() -> None:
    problem, x0 = low_rank("U", "s", "V")
    result = ms.minimize(problem, x0, solver="alternating", stop=ms.MaxIterations(4))
    U, s, V = x0
    for _ in range(4):
        U = scipy.linalg.polar(A @ V * s)[0]
        s = np.sum(U * (A @ V), axis=0)
        V = scipy.linalg.polar(A.T @ U * s)[0]
    close(result.x, (U, s, V), atol=1e-10)
    assert (result.nit, result.nfev, result.njev) == (4, 5, 5)


def test_updates_need_no_gradient() -> None:
    problem, x0 = low_rank("U", "s", "V", gradient=False)
    result = ms.minimize(problem, x0, solver="alternating", stop=ms.CostChange(1e-14) | ms.MaxIterations(1000))
    assert result.status is Status.COST_CHANGE and result.fun == pytest.approx(EXACT, abs=1e-9)
    assert result.grad_norm is None and result.njev == 0
    settled = ms.minimize(problem, result, solver="alternating", stop=ms.MaxIterations(1000))
    assert settled.status in (Status.COST_CHANGE, Status.MAX_ITERATIONS) and settled.fun <= result.fun


def test_a_factor_without_update_takes_inner_steps_until_their_rule() -> None:
    """One step is one inner step; the inner run is kept in the state and the evaluation is shared."""
    problem, x0 = low_rank("s", "V")
    seen = ms.Recorder(lambda event: (event.state["stage"], event.state["inner"] is not None, event.x))
    solver = Alternating(inner_stop=ms.MaxIterations(3))
    result = ms.minimize(problem, x0, solver=solver, stop=ms.MaxIterations(8), observers=[seen])
    stages, running, points = zip(*seen.records, strict=True)
    assert stages == (0, 1, 1, 1, 0, 1, 1, 1, 0)  # updates of s and V together, then three steps of L-BFGS on U
    assert running == (False, False, True, True, False, False, True, True, False)
    for k in (1, 5):
        equal(points[k - 1][0], points[k][0])
    for k in (2, 3, 4, 6):
        equal(points[k - 1][1:], points[k][1:])
        assert np.any(points[k - 1][0] != points[k][0])
    alone = ms.Problem(
        Stiefel(7, 2),
        ms.objective(
            lambda U: problem.objective.value((U, *points[1][1:])),
            lambda U: problem.objective.value_and_gradient((U, *points[1][1:]))[1][0],  # type: ignore[misc]
        ),
    )
    inner = ms.minimize(alone, points[1][0], stop=ms.MaxIterations(3))
    close(inner.x, points[4][0], atol=1e-12)
    assert result.nfev <= 1 + 2 + 2 * (inner.nfev - 1) + 4


def mixture() -> tuple[ms.Problem, np.ndarray, Any]:
    """Two Gaussians of unit variance with unknown means and weight: one update replaces everything."""
    rng = np.random.default_rng(3)
    data = np.concatenate([rng.normal(-2, 1, 70), rng.normal(1.5, 1, 130)])
    M = Product(Euclidean(2), Euclidean(1), names=("means", "logit"))

    def joint(x: Any) -> Any:
        weight = np.array([-np.logaddexp(0, x[1][0]), -np.logaddexp(0, -x[1][0])])
        return weight - 0.5 * (data[:, None] - x[0]) ** 2

    def value(x: Any) -> float:
        return -float(np.sum(np.logaddexp(*joint(x).T)))

    def sweep(x: Any) -> Any:
        j = joint(x)
        r = np.exp(j - np.logaddexp(j[:, 0], j[:, 1])[:, None])
        share = r[:, 1].mean()
        return r.T @ data / r.sum(axis=0), np.array([np.log(share / (1 - share))])

    f = dataclasses.replace(ms.objective(value), value_and_gradient=None, hessian_product=None)
    f = dataclasses.replace(f, updates=(BlockUpdate("EM", ("means", "logit"), sweep),))
    return ms.Problem(M, f), data, (np.array([-0.5, 0.5]), np.zeros(1))


def test_one_update_of_everything_is_expectation_maximization() -> None:
    problem, _, x0 = mixture()
    result = ms.minimize(problem, x0, solver="alternating", stop=ms.CostChange(1e-14) | ms.MaxIterations(2000))
    peer = scipy.optimize.minimize(
        lambda v: problem.objective.value((v[:2], v[2:])), np.concatenate(x0), method="BFGS", options={"gtol": 1e-6}
    )
    assert result.success and result.fun == pytest.approx(peer.fun, abs=1e-6)
    close(np.concatenate(result.x), peer.x, atol=1e-3)
    assert np.all(np.diff(result.history["fun"]) <= 1e-12)


@pytest.mark.parametrize(
    ("order", "stages"), [(["s", "polar of V", "U"], [2, "U"]), (["U", "s", "U", "polar of V"], ["U", 1, "U", 1])]
)
def test_the_order_is_followed(order: list[str], stages: list[Any]) -> None:
    """A number: so many updates in one step; a name: the factor of the inner solver."""
    problem, x0 = low_rank("s", "V")
    seen = ms.Recorder()
    solver = Alternating(order=order, inner_stop=ms.MaxIterations(1))
    ms.minimize(problem, x0, solver=solver, stop=ms.MaxIterations(len(stages)), observers=[seen])
    for before, after, stage in zip(seen.records, seen.records[1:], stages, strict=False):
        moved = {name for name, a, b in zip("UsV", before, after, strict=True) if np.any(a != b)}
        assert moved == {stage} if stage == "U" else moved <= {"s", "V"} and len(moved) == stage


def test_float32_in_float32_out() -> None:
    problem, x0 = low_rank("U", "s")
    x0 = tree_map(lambda leaf: leaf.astype(np.float32), x0)
    result = ms.minimize(
        problem, x0, solver="alternating", stop=ms.GradientNorm(1e-3, relative=True) | ms.MaxIterations(500)
    )
    assert {leaf.dtype for leaf in leaves(result.x)} == {np.dtype(np.float32)}
    assert result.success and result.fun == pytest.approx(EXACT, abs=1e-3)


def test_a_manifold_of_one_factor() -> None:
    problem = ms.Problem(
        Stiefel(7, 5),
        dataclasses.replace(
            ms.objective(lambda X: float(np.sum((X - A) ** 2)), lambda X: 2 * (X - A)),
            updates=(BlockUpdate("polar", (), lambda X: scipy.linalg.polar(A)[0]),),
        ),
    )
    result = ms.minimize(problem, solver="alternating", seed=0)
    assert result.nit == 1 and result.status in (Status.CONVERGED, Status.ROUNDING_LEVEL)


@pytest.mark.parametrize("names", [("U", "s", "V"), ("s",)], ids="-".join)
def test_passes_its_checker(names: tuple[str, ...]) -> None:
    ms.testing.check_solver("alternating", [low_rank(*names)[0]]).raise_for_failure()


def test_an_update_that_climbs_is_found_out() -> None:
    problem, x0 = low_rank("U")
    wrong = BlockUpdate("wrong", ("s",), lambda x: (x[0], x[1] + 10, x[2]))
    problem = ms.Problem(problem.manifold, dataclasses.replace(problem.objective, updates=(wrong,)))
    with pytest.raises(ValueError, match="the update 'wrong' raised the objective from"):
        ms.minimize(problem, x0, solver="alternating")


def test_an_update_replaces_only_its_factors() -> None:
    problem, x0 = low_rank("U", "s", "V")
    first = problem.objective.updates[0]
    greedy = BlockUpdate("greedy", ("U",), lambda x: (first.apply(x)[0], 0 * x[1], -x[2]))
    problem = ms.Problem(problem.manifold, dataclasses.replace(problem.objective, updates=(greedy,)))
    seen = ms.Recorder()
    ms.minimize(problem, x0, solver="alternating", stop=ms.MaxIterations(1), observers=[seen])
    equal(seen.records[0][1:], seen.records[1][1:])


def test_a_frozen_factor_stays_and_the_others_are_solved_for() -> None:
    problem, x0 = low_rank("U", "s", "V")
    result = ms.minimize(
        problem.freeze("s"), x0, solver="alternating", stop=ms.GradientNorm(1e-7) | ms.MaxIterations(500)
    )
    equal(result.x[1], x0[1])
    whole = ms.minimize(problem.freeze("s"), result)
    assert result.success and result.fun == pytest.approx(whole.fun, abs=1e-9)


def errors() -> dict[str, tuple[Any, str]]:
    def run(solver: Any, names: tuple[str, ...] = ("U", "s"), **more: Any) -> Any:
        def go() -> None:
            problem, x0 = low_rank(*names, **more)
            ms.minimize(problem, x0, solver=solver)

        return go

    foreign = BlockUpdate("odd", ("W",), lambda x: x)
    problem, x0 = low_rank("U")
    odd = ms.Problem(problem.manifold, dataclasses.replace(problem.objective, updates=(foreign,)))
    return {
        "no updates": (
            run("alternating", ()),
            r"needs updates, which the objective does not have: .*solvers that work without it: .*lbfgs",
        ),
        "unknown name": (
            run(Alternating(order=["W"])),
            r"contains the unknown names \['W'\]: pass names of updates \(polar of U, s\) and of factors",
        ),
        "unmoved": (run(Alternating(order=["s", "V"])), r"does not update \['U'\]"),
        "no gradient": (run("alternating", gradient=False), r"factors \['V'\] have no update and the objective has no"),
        "foreign factor": (
            lambda: ms.minimize(odd, x0, solver="alternating"),
            r"'odd' replaces \['W'\], but the manifold has",
        ),
        "stochastic inside": (lambda: Alternating(inner_solver=SGD()), "use a solver that never raises the objective"),
        "no rule": (lambda: Alternating(inner_stop=5), "inner_stop=5"),  # type: ignore[arg-type]
    }


@pytest.mark.parametrize("case", errors())
def test_errors(case: str) -> None:
    go, message = errors()[case]
    with pytest.raises(ValueError, match=message):
        go()


def test_order_is_a_list_of_names() -> None:
    with pytest.raises(TypeError, match="pass a list of names"):
        Alternating(order="UV")
