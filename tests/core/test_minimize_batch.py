"""Many problems at once: each as alone, with its own steps and stop, and the guarantees of the loop."""

from __future__ import annotations

import pickle
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.linalg
from core.cases import close, equal, leaves, tree_map
from helpers import parametrize

import manifoldseq as ms
from manifoldseq import Status
from manifoldseq.manifolds import (
    BoundedDiagonal,
    CanonicalLDS,
    Euclidean,
    Frozen,
    Hyperbolic,
    Manifold,
    Oblique,
    Orthogonal,
    Positive,
    Product,
    Stiefel,
    SymmetricPositiveDefinite,
)

TIGHT = ms.GradientNorm(1e-8, relative=True) | ms.MaxIterations(500)
MANIFOLDS: dict[str, Manifold] = {
    "vectors": Euclidean(3),
    "stiefel": Stiefel(7, 3),
    "orthogonal": Orthogonal(3),
    "bounded": BoundedDiagonal(4, 0.6),
    "oblique": Oblique(4, 3),
    "lds": CanonicalLDS(6, 2, 0.9),
    "nested": Product(Product(Stiefel(5, 2), BoundedDiagonal(2)), Euclidean(3), names=("pair", "b")),
    "frozen": Product(Frozen(Stiefel(5, 2)), Euclidean(3), names=("U", "b")),
}


def near(manifold: Manifold, n: int = 9, seed: int = 0) -> tuple[Any, Any]:
    """Return ambient targets of very different scales, and starts."""
    rng = np.random.default_rng(seed)
    starts = [manifold.random_point(rng) for _ in range(n)]
    targets = [
        tree_map(lambda leaf, k=k: 1.5 * leaf + 3.0**-k * rng.standard_normal(leaf.shape), x)
        for k, x in enumerate(starts)
    ]
    return tree_map(lambda *rows: np.stack(rows), *targets), tree_map(lambda *rows: np.stack(rows), *starts)


def nearest_points(targets: Any) -> ms.Objective:
    """Return the sums of weighted squares of what separates each point from its target."""
    weights = tree_map(lambda leaf: np.linspace(1, 3, leaf[0].size).reshape(leaf.shape[1:]), targets)

    def batched(x: Any, which: np.ndarray) -> Any:
        assert not any(leaf.flags.writeable for leaf in leaves(x))
        parts = tree_map(lambda leaf, target, w: (leaf - target[which], w), x, targets, weights)
        pairs = _pairs(parts)
        values = sum(0.5 * np.sum(w * d * d, axis=tuple(range(1, d.ndim))) for d, w in pairs)
        return values, tree_map(
            lambda leaf, target, w: (w * (leaf - target[which])).astype(leaf.dtype), x, targets, weights
        )

    return ms.objective(batched=batched)


def _pairs(parts: Any) -> list[Any]:
    if isinstance(parts[0], np.ndarray):
        return [parts]
    return [pair for part in parts for pair in _pairs(part)]


def single(objective: ms.Objective, k: int) -> ms.Objective:
    """Return the objective of row `k` alone."""

    def fused(x: Any) -> Any:
        values, gradients = objective.batched(_frozen(tree_map(lambda leaf: leaf[None], x)), np.array([k]))  # type: ignore[misc]
        return float(values[0]), tree_map(lambda leaf: leaf[0], gradients)

    return ms.objective(value_and_gradient=fused)


def _frozen(tree: Any) -> Any:
    for leaf in leaves(tree):
        leaf.flags.writeable = False
    return tree


@pytest.mark.parametrize("name", MANIFOLDS)
def test_every_problem_as_by_itself(name: str) -> None:
    manifold = MANIFOLDS[name]
    targets, x0 = near(manifold)
    problem = ms.Problem(manifold, nearest_points(targets))
    result = ms.minimize_batch(problem, x0, stop=TIGHT)
    assert result.success.all(), result
    assert result.feasibility.shape == result.fun.shape == (9,) and result.feasibility.max() < 1e-12
    for k in range(len(result)):
        alone = ms.minimize(
            ms.Problem(manifold, single(problem.objective, k)), tree_map(lambda leaf, k=k: leaf[k], x0), stop=TIGHT
        )
        assert alone.success and result[k].fun == pytest.approx(alone.fun, abs=1e-8), k
        close(result[k].x, alone.x, atol=1e-5)
        value, gradient = single(problem.objective, k).value_and_gradient(result[k].x)  # type: ignore[misc]
        assert result.fun[k] == pytest.approx(value, abs=1e-12)
        riemannian = manifold.gradient(result[k].x, gradient)
        norm = manifold.inner(result[k].x, riemannian, riemannian) ** 0.5
        assert result.grad_norm[k] == pytest.approx(norm, abs=1e-9)


SETTINGS: list[tuple[str, dict[str, Any]]] = [
    *((solver, {"line_search": search}) for solver in ("gd", "cg", "lbfgs") for search in ("armijo", "wolfe")),
    *(("bb", {"step_size": step}) for step in ("adaptive", "alternating")),
    ("lbfgs", {"precondition": lambda problem, x, g: tree_map(lambda leaf: 0.5 * leaf, g)}),
    ("gd", {"step_size": ms.solvers.InverseTime(0.1)}),
]
GEOMETRIES: dict[str, Manifold] = {
    **MANIFOLDS,
    "spd": SymmetricPositiveDefinite(3),
    "positive": Product(Positive(3), Stiefel(4, 2)),
    "canonical": Stiefel(5, 2, metric="canonical"),
    "hyperbolic": Hyperbolic(3),
}


def far(manifold: Manifold, n: int) -> tuple[ms.Problem, Any]:
    """Return the problems of the nearest points to random ones, and starts."""
    rng = np.random.default_rng(0)
    points = [[manifold.random_point(rng) for _ in range(n)] for _ in range(2)]
    targets, x0 = (tree_map(lambda *rows: np.stack(rows), *some) for some in points)
    return ms.Problem(manifold, nearest_points(targets)), x0


@pytest.mark.parametrize(("solver", "options"), SETTINGS, ids=lambda value: str(value)[:30])
@pytest.mark.parametrize("name", ["nested", "stiefel", "positive", "spd", "hyperbolic"])
def test_a_row_goes_the_way_of_its_problem(name: str, solver: str, options: dict[str, Any]) -> None:
    """More rows than go on one by one; each takes as many iterations as `minimize` does, up to the last digits."""
    manifold = GEOMETRIES[name]
    problem, x0 = far(manifold, 12)
    result = ms.minimize_batch(problem, x0, solver=solver, options=options, max_iter=60)
    assert len(set(result.nit)) > 1 or "step_size" in options
    same = 0
    for k in range(12):
        one = ms.Problem(manifold, single(problem.objective, k))
        alone = ms.minimize(one, tree_map(lambda leaf, k=k: leaf[k], x0), solver=solver, options=options, max_iter=60)
        assert result.status[k] == alone.status
        near = result.fun[k] == pytest.approx(alone.fun, rel=1e-5, abs=2e-7)
        assert near or not alone.success  # on the way, digits that differ grow
        same += near and result.nit[k] == alone.nit
    assert same >= 10


@pytest.mark.parametrize(("solver", "options"), SETTINGS, ids=lambda value: str(value)[:30])
@pytest.mark.parametrize("name", ["bounded", "positive", "spd", "hyperbolic"])
def test_a_row_costs_the_evaluations_of_its_problem(name: str, solver: str, options: dict[str, Any]) -> None:
    """Also where some rows try steps that are too long for the manifold, which cost none."""
    manifold = GEOMETRIES[name]
    problem, x0 = far(manifold, 12)
    stop = ms.MaxIterations(12)
    result = ms.minimize_batch(problem, x0, solver=solver, options=options, stop=stop)
    same = 0
    for k in range(12):
        one = ms.Problem(manifold, single(problem.objective, k))
        alone = ms.minimize(one, tree_map(lambda leaf, k=k: leaf[k], x0), solver=solver, options=options, stop=stop)
        same += result.nfev[k] == alone.nfev
    assert same >= 10


@pytest.mark.parametrize("name", ["spd", "hyperbolic"])
def test_problems_that_go_on_alone_remember_what_a_confirmation_has_measured(name: str) -> None:
    """So that a success that is taken back is not claimed, and measured, again in every iteration."""
    manifold, solver, options = GEOMETRIES[name], "gd", {"line_search": "wolfe"}
    targets, x0 = far(manifold, 12)
    for k in range(12):
        one = ms.Problem(manifold, single(targets.objective, k))
        start = tree_map(lambda leaf, k=k: leaf[k], x0)
        alone = ms.minimize(one, start, solver=solver, options=options)
        result = ms.minimize_batch([one], tree_map(lambda leaf: leaf[None], start), solver=solver, options=options)
        assert (result.nit[0], result.nfev[0], result.status[0]) == (alone.nit, alone.nfev, alone.status), k


@pytest.mark.parametrize("copies", [1, 3])  # one by one, and as rows
@pytest.mark.parametrize("unit", [1e-200, 1e-100, 1.0, 1e100, 1e200])
def test_every_row_has_a_unit_of_its_own(copies: int, unit: float) -> None:
    """Squares of gradients leave the range of numbers in rows 0 and 1, the last row is of ordinary size."""
    units = np.tile([unit, 1 / unit, 1.0], copies)
    targets = np.random.default_rng(0).standard_normal((units.size, 5, 2))

    def batched(X: np.ndarray, which: np.ndarray) -> Any:
        D, u = X - targets[which], units[which, None, None]
        return (u * D * D).sum(axis=(1, 2)), 2 * u * D

    problem = ms.Problem(Stiefel(5, 2), ms.objective(batched=batched))
    result = ms.minimize_batch(problem, n_problems=units.size, seed=0)
    assert result.success.all(), result
    np.testing.assert_allclose(result.x, ms.linalg.polar(targets), atol=1e-4)
    assert np.all(np.isfinite(result.grad_norm)) and np.all(result.grad_norm <= 1e-3 * units)


def test_one_row_where_linear_algebra_fails_harms_no_other() -> None:
    """The objective raises for the whole batch where one point is not positive definite."""

    def batched(X: np.ndarray, which: np.ndarray) -> Any:
        S = np.eye(2) + X[:, :, None] * X[:, None, :] * np.where(which == 3, -1.0, 1.0)[:, None, None]
        np.linalg.cholesky(S)
        return np.sum((X - 0.5) ** 2, axis=1), 2 * (X - 0.5)

    starts = np.zeros((9, 2))
    starts[4:] = 0.3
    result = ms.minimize_batch(ms.Problem(Euclidean(2), ms.objective(batched=batched)), starts, solver="gd")
    assert result.success.all()
    np.testing.assert_allclose(result.x, 0.5, atol=1e-5)


@pytest.mark.parametrize("solver", ["bb", "lbfgs", "cg"])
def test_float32_rows(solver: str) -> None:
    problem, A = procrustes()
    x0 = np.stack([np.eye(8, 3, dtype=np.float32)] * 30)
    result = ms.minimize_batch(problem, x0, solver=solver)
    assert result.x.dtype == np.float32 and result.success.all(), result
    np.testing.assert_allclose(result.x, ms.linalg.polar(A), atol=2e-2)


class Compiled(np.ndarray):
    """An array of a library that compiles for each shape."""

    __module__ = "jaxlib"


def test_compiled_objectives_are_called_with_few_sizes() -> None:
    A, sizes = np.random.default_rng(0).standard_normal((100, 6, 2)), set()

    def batched(X: np.ndarray, which: np.ndarray) -> Any:
        sizes.add(len(which))
        D = np.asarray(X) - A[which]
        return np.sum(D * D, axis=(1, 2)).view(Compiled), (2 * D).view(Compiled)

    problem = ms.Problem(Stiefel(6, 2), ms.objective(batched=batched))
    result = ms.minimize_batch(problem, n_problems=100, seed=0)
    assert result.success.all() and sizes <= {1, 4, 16, 64, 100}
    plain = ms.objective(batched=lambda X, which: tuple(map(np.asarray, batched(X, which))))
    expected = ms.minimize_batch(replace(problem, objective=plain), n_problems=100, seed=0)
    np.testing.assert_array_equal(result.nit, expected.nit)
    np.testing.assert_array_equal(result.x, expected.x)
    assert len(sizes) > 8  # without the padding


def test_a_solver_that_cannot_solve_batches_is_an_error() -> None:
    problem, _ = procrustes()
    with pytest.raises(
        ValueError, match=r"solver='lm' cannot solve batches.* one problem over Power\(M, n\) whose residuals"
    ):
        ms.minimize_batch(problem, n_problems=2, solver="lm")
    with pytest.raises(ValueError, match="solver='tr' cannot solve batches: choose 'bb', 'cg', 'gd', 'lbfgs'"):
        ms.minimize_batch(problem, n_problems=3, solver="tr")
    with pytest.raises(
        ValueError, match=r"can be used only with the name of a solver: pass the options to LBFGS\(…\) instead"
    ):
        ms.minimize_batch(problem, n_problems=3, solver=ms.solvers.LBFGS(), options={"memory": 3})
    assert ms.minimize_batch(problem, n_problems=3, solver=ms.solvers.LBFGS(memory=3), seed=0).success.all()


def test_the_metric_of_the_manifold_is_used() -> None:
    """The mean of two matrices in the affine-invariant metric would not be found with flat dot products."""
    manifold = SymmetricPositiveDefinite(3)
    rng = np.random.default_rng(0)
    A = np.stack([scipy.linalg.expm(0.5 * (S + S.T)) for S in rng.standard_normal((5, 3, 3))])

    def batched(X: np.ndarray, which: np.ndarray) -> Any:
        B = A[which]
        values = np.trace(np.linalg.solve(B, X), axis1=1, axis2=2) - np.linalg.slogdet(X)[1]
        return values, np.linalg.inv(B) - np.linalg.inv(X)

    result = ms.minimize_batch(ms.Problem(manifold, ms.objective(batched=batched)), n_problems=5, seed=0, stop=TIGHT)
    assert result.success.all()
    np.testing.assert_allclose(result.x, A, rtol=1e-6, atol=1e-8)


def procrustes(n: int = 30, seed: int = 0) -> tuple[ms.Problem, np.ndarray]:
    A = np.random.default_rng(seed).standard_normal((n, 8, 3)) * np.logspace(0, 1, n)[:, None, None]

    def batched(X: np.ndarray, which: np.ndarray) -> Any:
        D = X - A[which]
        return np.sum(D * D, axis=(1, 2)), 2 * D

    return ms.Problem(Stiefel(8, 3), ms.objective(batched=batched)), A


def test_closed_form_seeds_and_what_a_result_holds() -> None:
    problem, A = procrustes()
    result = ms.minimize_batch(problem, n_problems=30, seed=3, stop=TIGHT)
    best = np.stack([scipy.linalg.polar(a)[0] for a in A])
    np.testing.assert_allclose(result.x, best, atol=1e-6)
    np.testing.assert_allclose(result.fun, np.sum((best - A) ** 2, axis=(1, 2)), rtol=1e-10)
    again = ms.minimize_batch(problem, n_problems=30, seed=np.random.default_rng(3), stop=TIGHT)
    close(again.x, result.x, atol=1e-7)
    fewer = ms.minimize_batch(problem, n_problems=12, seed=3, stop=TIGHT)
    close(fewer.x, result.x[:12], atol=1e-7)
    assert len(list(result)) == len(result) == 30
    assert result[-1].fun == result.fun[29] and result[-1].nfev == result.nfev[29]
    with pytest.raises(IndexError):
        result[30]
    assert "30 of 30: The point is stationary" in result.message and repr(result).startswith("BatchResult(30 of 30")
    copy = pickle.loads(pickle.dumps(result))
    equal(copy.x, result.x)
    assert copy.status == result.status and repr(copy) == repr(result)


def test_every_problem_has_its_own_end_and_leaves() -> None:
    problem, _ = procrustes()
    seen: list[list[int]] = []

    def batched(X: np.ndarray, which: np.ndarray) -> Any:
        assert len(X) == len(which)
        seen.append(which.tolist())
        return problem.objective.batched(X, which)  # type: ignore[misc]

    result = ms.minimize_batch(ms.Problem(problem.manifold, ms.objective(batched=batched)), n_problems=30, seed=0)
    assert result.success.all() and len(set(result.nit.tolist())) > 4
    counts = np.bincount(np.concatenate(seen), minlength=30)
    np.testing.assert_array_equal(counts, result.nfev)
    assert result.history["nfev"][-1] == counts.sum() and result.history["active"][-1] == 0
    assert np.all(np.diff(result.history["active"]) <= 0) and result.history["nit"][-1] == result.nit.max()
    assert set(seen[-1]) < set(seen[0])


@pytest.mark.parametrize("executor", ["serial", "threads"])
def test_a_sequence_of_problems(executor: str) -> None:
    problem, A = procrustes(6)
    several = [
        ms.Problem(
            problem.manifold, ms.objective(lambda X, a=a: float(np.sum((X - a) ** 2)), lambda X, a=a: 2 * (X - a))
        )
        for a in A
    ]
    with ms.execution.using(executor):
        result = ms.minimize_batch(several, seed=1)
    together = ms.minimize_batch(problem, n_problems=6, seed=1)
    close(result.x, together.x, atol=1e-12)
    np.testing.assert_array_equal(result.nit, together.nit)


def test_one_problem_from_many_starts_and_its_initializers() -> None:
    f = ms.objective(lambda x: float(np.sum(np.cos(3 * x) + 0.1 * x**2)), lambda x: -3 * np.sin(3 * x) + 0.2 * x)
    start = {"far": lambda problem, rng: rng.uniform(-6, 6, 2)}
    problem = ms.Problem(Euclidean(2), f, start)
    result = ms.minimize_batch(problem, "far", n_problems=20, seed=0)
    assert result.success.all() and result.fun.min() < result.fun.max() - 0.5
    equal(result.x, ms.minimize_batch(problem, n_problems=20, seed=0).x)
    alone = [ms.minimize(problem, x).fun for x in result.x]
    np.testing.assert_allclose(result.fun, alone, atol=1e-8)


def test_float32_in_float32_out() -> None:
    problem, A = procrustes()
    x0 = np.stack([np.eye(8, 3, dtype=np.float32)] * 30)
    result = ms.minimize_batch(problem, x0, stop=ms.GradientNorm(1e-3, relative=True) | ms.MaxIterations(300))
    assert result.x.dtype == np.float32 and result.fun.dtype == np.float64
    assert result.success.all() and result.feasibility.max() < 1e-6
    np.testing.assert_allclose(result.x, ms.linalg.polar(A), atol=1e-2)
    tight = ms.minimize_batch(problem, x0, stop=ms.GradientNorm(0.0) | ms.MaxIterations(300))
    assert {Status.ROUNDING_LEVEL} == set(tight.status)


class Target(ms.StoppingRule):
    """Ends a problem by its value, first value and step."""

    def check(self, so_far: Any) -> Status | None:
        assert so_far.previous is None or so_far.previous.fun is not None
        assert so_far.evaluations.nfev >= so_far.nit and so_far.time >= 0.0
        return Status.CONVERGED if so_far.current.fun <= 0.5 * so_far.first.fun else None


@pytest.mark.parametrize(
    ("rule", "status"),
    [
        (ms.MaxIterations(4), Status.MAX_ITERATIONS),
        (ms.MaxEvaluations(5), Status.MAX_EVALUATIONS),
        (ms.MaxTime(0.0), Status.MAX_TIME),
        (ms.StepSize(1e9), Status.SMALL_STEP),
        (ms.CostChange(1e-2), Status.COST_CHANGE),
    ],
)
def test_rules_are_asked_for_every_problem(rule: ms.StoppingRule, status: Status) -> None:
    problem, _ = procrustes()
    result = ms.minimize_batch(problem, n_problems=30, seed=0, stop=rule)
    assert set(result.status) == {status}
    if status is Status.MAX_ITERATIONS:
        assert set(result.nit.tolist()) == {4}
    if status is Status.MAX_EVALUATIONS:
        assert result.nfev.min() >= 5 and result.nfev.max() < 12
    if status is Status.MAX_TIME:
        assert result.nit.max() == 0


def test_a_rule_of_your_own_and_raise_on_failure() -> None:
    f = ms.objective(batched=lambda X, which: (np.sum(X * X, axis=1) + which, 2 * X))
    problem, x0 = ms.Problem(Euclidean(2), f), np.full((4, 2), 2.0)
    result = ms.minimize_batch(problem, x0, stop=Target() | ms.MaxIterations(30))
    assert result.success.all() and np.all(result.fun <= 0.5 * (8 + np.arange(4)))
    with pytest.raises(ms.NotConverged, match="4 of 4: The maximum number of iterations") as caught:
        ms.minimize_batch(problem, x0, stop=ms.MaxIterations(0), raise_on_failure=True)
    assert caught.value.result.nit.tolist() == [0] * 4


def test_a_bad_problem_harms_no_other() -> None:
    """Row 1 starts with NaN, row 2 has a wrong gradient, row 3 is NaN far from its start."""

    def batched(X: np.ndarray, which: np.ndarray) -> Any:
        values, gradients = np.sum((X - 1) ** 2, axis=1), 2 * (X - 1)
        values[which == 1] = np.nan
        gradients[which == 2] *= -1
        values[(which == 3) & (X[:, 0] < -0.3)] = np.nan
        return values, gradients

    x0 = np.zeros((5, 2))
    x0[3] = -0.2
    result = ms.minimize_batch(ms.Problem(Euclidean(2), ms.objective(batched=batched)), x0)
    solved, lost, stuck, *others = result.status
    assert solved.success and all(status.success for status in others)
    assert (lost, stuck) == (Status.NON_FINITE, Status.NO_DECREASE)
    np.testing.assert_allclose(result.x[[0, 3, 4]], 1.0, atol=1e-5)
    assert result.nit[1:3].tolist() == [0, 1] and result.x[1:3].tolist() == [[0, 0], [0, 0]]
    assert np.isfinite(result.history["fun"]).all() and "1 of 5: No step decreased" in result.message


def test_the_best_point_so_far_is_returned() -> None:
    scales = np.logspace(0, 3, 6)
    f = ms.objective(batched=lambda X, which: (0.5 * np.sum(scales * X * X, axis=1), scales * X))
    problem, x0 = ms.Problem(Euclidean(6), f), np.random.default_rng(0).standard_normal((8, 6))
    values: list[np.ndarray] = []

    def watched(X: np.ndarray, which: np.ndarray) -> Any:
        out = f.batched(X, which)  # type: ignore[misc]
        values.append(out[0])
        return out

    for nit in range(1, 30, 4):
        values.clear()
        given = ms.Problem(problem.manifold, ms.objective(batched=watched))
        result = ms.minimize_batch(given, x0, stop=ms.MaxIterations(nit))
        assert np.all(result.fun <= 0.5 * np.sum(scales * x0 * x0, axis=1))
        np.testing.assert_allclose(result.fun, 0.5 * np.sum(scales * result.x**2, axis=1), rtol=1e-12)
        assert np.all(np.diff(result.history["fun"]) <= 0)
    pairs = [(a, b) for a, b in pairwise(values) if len(a) == len(b)]
    assert any(np.any(after > before) for before, after in pairs)  # it does climb at times


@parametrize("error", [KeyboardInterrupt, ZeroDivisionError], fast=1)
def test_interrupted_anywhere_and_resumed_bit_for_bit(error: type[BaseException], tmp_path: Path) -> None:
    problem, _ = procrustes(8)
    whole = ms.minimize_batch(problem, n_problems=8, seed=0)
    calls, at = 0, 10**9

    def batched(X: np.ndarray, which: np.ndarray) -> Any:
        nonlocal calls
        calls += 1
        if calls == at:
            raise error("in the objective")
        return problem.objective.batched(X, which)  # type: ignore[misc]

    watched = ms.Problem(problem.manifold, ms.objective(batched=batched))
    ms.minimize_batch(watched, n_problems=8, seed=0)
    total = calls
    assert total > 10
    for at in range(4, total + 1):  # before: the fingerprint, the start and the curvature there
        calls = 0
        given: dict[str, Any] = {"n_problems": 8, "seed": 0, "checkpoint": tmp_path / str(at)}
        if error is KeyboardInterrupt:
            part = ms.minimize_batch(watched, **given)
            assert Status.INTERRUPTED in part.status and part.fun.sum() >= whole.fun.sum() - 1e-9
        else:
            with pytest.raises(error, match="in the objective"):
                ms.minimize_batch(watched, **given)
        resumed = ms.minimize_batch(problem, resume=True, **given)
        equal(resumed.x, whole.x)
        assert resumed.status == whole.status
        for name in ("fun", "grad_norm", "nit", "nfev"):
            np.testing.assert_array_equal(getattr(resumed, name), getattr(whole, name))


def test_resume_rejects_other_problems(tmp_path: Path) -> None:
    problem, _ = procrustes(8)
    ms.minimize_batch(problem, n_problems=8, seed=0, stop=ms.MaxIterations(2), checkpoint=tmp_path)
    others: list[dict[str, Any]] = [
        {"problem": procrustes(8, seed=5)[0], "n_problems": 8},
        {"problem": problem, "n_problems": 7},
        {"problem": problem, "n_problems": 8, "options": {"nonmonotone": 0.5}},
    ]
    for other in others:
        with pytest.raises(ms.storage.CheckpointError, match="belongs to other data or settings"):
            ms.minimize_batch(**other, seed=0, checkpoint=tmp_path, resume=True)


def test_an_observer_changes_nothing_where_problems_wait_for_others() -> None:
    """Ten problems are solved at once, and wait while the others move; all of these then reach the limit."""
    slow = np.arange(40)[:, None] >= 10
    curvatures = np.where(slow, np.logspace(0, 5, 4), 1.0)

    def batched(x: Any, which: np.ndarray) -> Any:
        gradients = curvatures[which] * x
        return 1.0 + 0.5 * (gradients * x).sum(axis=1), gradients

    problem = ms.Problem(Euclidean(4), ms.objective(batched=batched))
    x0 = np.random.default_rng(0).standard_normal((40, 4))
    seen = ms.Recorder(lambda event: event.nit)
    plain = ms.minimize_batch(problem, x0, solver="gd", max_iter=12)
    watched = ms.minimize_batch(problem, x0, solver="gd", max_iter=12, observers=[seen])
    assert seen.records[-1] == 12 and plain.success.sum() == 10 and not plain.success[10:].any()
    assert plain.status == watched.status and plain.nfev.tolist() == watched.nfev.tolist()
    equal(plain.x, watched.x)


def test_warm_start_and_observers() -> None:
    problem, _ = procrustes()
    first = ms.minimize_batch(problem, n_problems=30, seed=0)
    again = ms.minimize_batch(problem, first)
    assert again.nit.max() <= 3 and again.success.all()
    np.testing.assert_array_equal(again.reference, first.reference)
    seen = ms.Recorder(lambda event: (event.x.shape, event.measures.extra["active"]))
    ms.minimize_batch(problem, n_problems=30, seed=0, observers=[seen])
    assert seen.records[0] == ((30, 8, 3), 30) and seen.records[-1][1] == 0


def test_sums_and_multiples_keep_the_batch() -> None:
    problem, A = procrustes()
    f = 0.5 * problem.objective + 0.25 * problem.objective
    both = ms.minimize_batch(replace(problem, objective=f), n_problems=30, seed=0, stop=TIGHT)
    np.testing.assert_allclose(both.x, ms.linalg.polar(A), atol=1e-6)
    one = problem.objective.value_and_gradient(A[0])  # type: ignore[misc]
    assert problem.objective.value(A[0]) == one[0] == 0.0 and one[1].shape == (8, 3)  # of problem 0


def test_starts_off_the_manifold_are_projected_if_asked() -> None:
    problem, A = procrustes(5)
    x0 = np.stack([np.eye(8, 3)] * 5)
    x0[3] *= 1.25
    with pytest.raises(ValueError, match=r"x0\[3\] is not on Stiefel\(n=8, p=3\) \(distance 0.56.*project=True"):
        ms.minimize_batch(problem, x0)
    assert ms.minimize_batch(problem, x0, project=True).success.all()
    assert ms.minimize_batch(problem, A, project=True, stop=TIGHT).nit.max() <= 1  # the projection is the solution


@pytest.mark.parametrize(
    ("given", "error", "sentence"),
    [
        ({}, ValueError, "n_problems=None: pass the number of problems, or one start per problem"),
        ({"n_problems": 0}, ValueError, "n_problems=0"),
        ({"n_problems": 2.5}, ValueError, "n_problems=2.5: use a whole number"),
        ({"x0": np.eye(8, 3)}, ValueError, r"a row of x0 has shape \(3,\), but the manifold needs \(8, 3\)"),
        ({"x0": np.zeros((0, 8, 3))}, ValueError, "one leading axis of the same length"),
        ({"x0": np.ones((2, 8, 3)) * np.nan}, ValueError, "NaN or infinite"),
        ({"x0": np.zeros((2, 3, 8))}, ValueError, r"has shape \(3, 8\), but the manifold needs \(8, 3\)"),
        ({"x0": np.stack([np.eye(8, 3)] * 2), "n_problems": 3}, ValueError, "x0 has 2 starts for 3 problems"),
        ({"x0": "svd", "n_problems": 2}, ValueError, "unknown initializer 'svd': this problem has none"),
        ({"n_problems": 2, "stop": 100}, TypeError, "stop=100 is not a stopping rule"),
        ({"n_problems": 2, "options": 3}, TypeError, "options=3: pass a dict of options"),
        ({"n_problems": 2, "options": {"nonmonotone": 1.0}}, ValueError, r"BB\(nonmonotone=1.0\)"),
        ({"n_problems": 2, "options": {"max_trials": 0}}, ValueError, r"BB: max_trials=0 is not valid"),
        ({"n_problems": 2, "seed": "abc"}, ValueError, "seed='abc'"),
        ({"n_problems": 2, "resume": True}, ValueError, "needs a checkpoint"),
    ],
)
def test_unusable_arguments(given: dict[str, Any], error: Any, sentence: str) -> None:
    problem, _ = procrustes()
    with pytest.raises(error, match=sentence):
        ms.minimize_batch(problem, **given)


def test_unusable_problems() -> None:
    f = ms.objective(lambda x: 0.0, lambda x: 0 * x)
    mixed = [ms.Problem(Euclidean(2), f), ms.Problem(Euclidean(3), f)]
    with pytest.raises(ValueError, match=r"problem 1 is over Euclidean\(3\), but problem 0 is over Euclidean\(2\)"):
        ms.minimize_batch(mixed)
    with pytest.raises(ValueError, match="empty sequence"):
        ms.minimize_batch([])
    with pytest.raises(TypeError, match="got function as problem 0"):
        ms.minimize_batch([lambda x: 0.0])  # type: ignore[list-item]
    with pytest.raises(TypeError, match="got int"):
        ms.minimize_batch(3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="problem 0 has no gradient: pass value_and_gradient"):
        ms.minimize_batch(ms.Problem(Euclidean(2), ms.Objective(lambda x: 0.0)), n_problems=2)
    with pytest.raises(ValueError, match=r"problem 0 has no gradient.*for a single problem"):
        ms.minimize_batch([ms.Problem(Euclidean(2), ms.Objective(lambda x: 0.0, batched=lambda x, k: (k, x)))] * 2)
    pair = ms.Problem(Product(Euclidean(2), Euclidean(1), names=("a", "b")), f)
    with pytest.raises(ValueError, match="one leading axis of the same length"):
        ms.minimize_batch(pair, (np.zeros((3, 2)), np.zeros((2, 1))))
    with pytest.raises(ValueError, match=r"a row of x0 must be a tuple of 2 arrays \(a, b\)"):
        ms.minimize_batch(pair, np.zeros((3, 2)))


@pytest.mark.parametrize(
    ("batched", "error", "sentence"),
    [
        (lambda X, which: None, TypeError, r"batched returned NoneType: it must return \(values, gradients\)"),
        (lambda X, which: (1.0, X), TypeError, r"values of shape \(\) .*3 real numbers for 3 points"),
        (lambda X, which: (np.ones(2), X), TypeError, r"values of shape \(2,\)"),
        (lambda X, which: (1j * np.ones(3), X), TypeError, "dtype complex128"),
        (lambda X, which: ([None] * 3, X), TypeError, "dtype object"),
        (lambda X, which: (np.ones(3), X[0]), ValueError, r"the gradient of batched has shape \(2,\)"),
        (lambda X, which: (np.ones(3), (X, X)), ValueError, "the gradient of batched has shape"),
        (lambda X, which: (np.ones(3), 1j * X), TypeError, "it must be a real array"),
        (lambda X, which: X.__iadd__(1), ValueError, "read-only"),
    ],
)
def test_what_batched_may_return(batched: Any, error: Any, sentence: str) -> None:
    problem = ms.Problem(Euclidean(2), ms.objective(batched=batched))
    with pytest.raises(error, match=sentence):
        ms.minimize_batch(problem, np.zeros((3, 2)))


@pytest.mark.parametrize("far", [1e6, 1e7, 1e8])
def test_starts_where_lorentz_products_are_rounding(far: float) -> None:
    """Far out in hyperbolic space ⟨v, v⟩ is a small difference of large numbers; the sum of points gives the centre."""
    H, rng = ms.manifolds.Hyperbolic(4), np.random.default_rng(2)
    total = sum(H.nearest(rng.standard_normal(5)) for _ in range(20))
    weights = total * np.array([1.0, -1, -1, -1, -1])
    cost = ms.objective(value_and_gradient=lambda x: (float(weights @ x), weights))
    centre = total / np.sqrt(total[0] ** 2 - total[1:] @ total[1:])
    starts = np.stack([H.nearest(far * rng.standard_normal(5)) for _ in range(12)])
    for solver in ("cg", "bb", "gd", "lbfgs"):
        found = ms.minimize_batch(ms.Problem(H, cost), starts, solver=solver)
        assert found.success.all() or solver == "lbfgs", solver
        np.testing.assert_allclose(found.x[found.success] - centre, 0, atol=1e-4)


@pytest.mark.parametrize("form", [list, tuple])
def test_a_sequence_of_points_of_a_product_is_an_error_that_tells_how_to_stack_them(form: Any) -> None:
    f = ms.objective(lambda x: x[0] @ x[0] + x[1] @ x[1], lambda x: (2 * x[0], 2 * x[1]))
    problem = ms.Problem(ms.manifolds.Product(ms.manifolds.Euclidean(3), ms.manifolds.Sphere(2)), f)
    points = form([(np.ones(3), np.eye(2)[0])] * 3)
    with pytest.raises(ValueError, match="stack a list of points as"):
        ms.minimize_batch([problem] * 3, points)
    stacked = tuple(np.stack(parts) for parts in zip(*points, strict=True))
    assert ms.minimize_batch([problem] * 3, stacked).success.all()


def test_a_curved_valley_far_from_its_minimum_is_no_success() -> None:
    """The error of products hides the curvature along the valley, which is far below what the error allows."""

    def rosenbrock(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        a, b = 1 - x[:, 0], x[:, 1] - x[:, 0] ** 2
        return a**2 + 100 * b**2, np.stack([-2 * a - 400 * x[:, 0] * b, 200 * b], axis=1)

    def single(x: np.ndarray) -> tuple[float, np.ndarray]:
        fun, grad = rosenbrock(x[None])
        return float(fun[0]), grad[0]

    R2, rng = ms.manifolds.Euclidean(2), np.random.default_rng(0)
    starts = rng.standard_normal((60, 2)) * 1e6
    for solver in ("lbfgs", "bb"):
        found = ms.minimize_batch(
            ms.Problem(R2, ms.objective(batched=lambda x, which: rosenbrock(x))), starts, solver=solver
        )
        assert found.fun[found.success].max(initial=0) < 1e-6, solver
    for x in starts[:20]:
        result = ms.minimize(ms.Problem(R2, ms.objective(value_and_gradient=single)), x, solver="lbfgs")
        assert result.fun < 1e-6 or not result.success
