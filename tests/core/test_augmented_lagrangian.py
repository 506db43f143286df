"""Constraints: against scipy, brute force and closed forms, with the KKT conditions checked by finite differences."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.optimize
from core.cases import equal, leaves, tree_map
from helpers import parametrize

import manifoldseq as ms
from manifoldseq import Status
from manifoldseq.manifolds import BoundedDiagonal, Euclidean, Orthogonal, Product, Stiefel
from manifoldseq.solvers import LBFGS, PGD, AugmentedLagrangian

SOLVER = "augmented-lagrangian"
TIGHT = ms.GradientNorm(1e-8, relative=True, feasibility=1e-8) | ms.MaxIterations(2000)


def linear(a: Any, b: float) -> ms.Objective:
    """Return a·x − b."""
    a = np.asarray(a, float)
    return ms.objective(lambda x: float(np.sum(a * x)) - b, lambda x: a, hessian_product=lambda x, u: 0 * u)


def bounds(n: int, low: float, high: float) -> list[ms.Objective]:
    return [sign * linear(np.eye(n)[k], bound) for sign, bound in ((1, high), (-1, low)) for k in range(n)]


def hs71() -> tuple[ms.Problem, np.ndarray]:
    f = ms.objective(
        lambda x: x[0] * x[3] * (x[0] + x[1] + x[2]) + x[2],
        lambda x: np.array(
            [x[3] * (2 * x[0] + x[1] + x[2]), x[0] * x[3], x[0] * x[3] + 1, x[0] * (x[0] + x[1] + x[2])]
        ),
    )
    h = ms.objective(lambda x: float(x @ x) - 40, lambda x: 2 * x)
    g = ms.objective(lambda x: 25 - float(np.prod(x)), lambda x: -np.prod(x) / x)
    return ms.Problem(Euclidean(4), f, {}, (h,), (g, *bounds(4, 1, 5))), np.array([1.0, 5.0, 5.0, 1.0])


def disk() -> tuple[ms.Problem, np.ndarray]:
    """Rosenbrock's function in a disk that does not hold its minimum."""
    f = ms.objective(
        lambda x: (1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2,
        lambda x: np.array([-2 * (1 - x[0]) - 400 * x[0] * (x[1] - x[0] ** 2), 200 * (x[1] - x[0] ** 2)]),
    )
    g = ms.objective(lambda x: float(x @ x) - 1, lambda x: 2 * x)
    return ms.Problem(Euclidean(2), f, inequalities=(g,)), np.zeros(2)


def projection() -> tuple[ms.Problem, np.ndarray]:
    """The nearest point of a polytope, some of whose faces hold it."""
    rng = np.random.default_rng(3)
    A, b = rng.standard_normal((6, 5)), rng.standard_normal(6)
    c, e = 2 * rng.standard_normal(5), rng.standard_normal(5)
    f = ms.objective(lambda x: 0.5 * float((x - c) @ (x - c)), lambda x: x - c, hessian_product=lambda x, u: u)
    return ms.Problem(Euclidean(5), f, {}, (linear(e, 0.5),), tuple(map(linear, A, b + 2))), np.zeros(5)


def by_scipy(problem: ms.Problem, x0: np.ndarray, method: str) -> Any:
    def both(f: ms.Objective) -> dict[str, Callable[[np.ndarray], Any]]:
        return {"fun": f.value, "jac": lambda x: f.value_and_gradient(x)[1]}  # type: ignore[misc]

    if method == "SLSQP":
        constraints: Any = [
            *({"type": "eq", **both(h)} for h in problem.equalities),
            *({"type": "ineq", **both(-g)} for g in problem.inequalities),
        ]
    else:
        low = [0.0] * len(problem.equalities) + [-np.inf] * len(problem.inequalities)
        several = [*problem.equalities, *problem.inequalities]
        constraints = [
            scipy.optimize.NonlinearConstraint(f.value, a, 0.0, jac=both(f)["jac"], hess=scipy.optimize.BFGS())
            for f, a in zip(several, low, strict=True)
        ]
    found = scipy.optimize.minimize(
        **both(problem.objective), x0=x0, method=method, constraints=constraints, options={"maxiter": 2000}
    )
    assert found.success or method != "SLSQP", found
    return found


def differences(f: ms.Objective, x: np.ndarray) -> np.ndarray:
    h = 1e-6
    steps = h * np.eye(x.size).reshape(x.size, *x.shape)
    return np.array([(f.value(x + u) - f.value(x - u)) / (2 * h) for u in steps]).reshape(x.shape)


def assert_kkt(problem: ms.Problem, result: ms.Result, tangent: Callable[[Any], Any], tol: float = 1e-5) -> None:
    """The first-order conditions, with gradients by central differences and the tangent space given by hand."""
    x, mult = result.x, result.multipliers
    assert mult is not None and set(mult) == {"equalities", "inequalities"}
    assert np.all(mult["inequalities"] >= 0)
    for h in problem.equalities:
        assert abs(h.value(x)) <= 1e-6
    for mu, g in zip(mult["inequalities"], problem.inequalities, strict=True):
        assert g.value(x) <= 1e-6 and min(abs(g.value(x)), mu) <= 1e-6
    weighted = differences(problem.objective, x)
    for name, weights in mult.items():
        for w, c in zip(weights, getattr(problem, name), strict=True):
            weighted = weighted + w * differences(c, x)
    assert np.abs(tangent(weighted)).max() <= tol * max(1.0, np.abs(weighted).max())


@parametrize("method", ["SLSQP", "trust-constr"], fast=1)
@pytest.mark.parametrize("make", [hs71, disk, projection])
@pytest.mark.filterwarnings("ignore:delta_grad == 0.0:UserWarning")  # of trust-constr, on linear constraints
def test_agrees_with_scipy(make: Any, method: str) -> None:
    problem, x0 = make()
    result = ms.minimize(problem, x0, solver=SOLVER, stop=TIGHT)
    assert result.success and result.feasibility <= 1e-8, result
    reference = by_scipy(problem, x0, method)
    accuracy = 1e-6 if method == "SLSQP" else 1e-3
    assert result.fun == pytest.approx(reference.fun, abs=accuracy)
    np.testing.assert_allclose(result.x, reference.x, atol=10 * accuracy)
    assert result.fun == pytest.approx(problem.objective.value(result.x), abs=1e-12)
    assert_kkt(problem, result, lambda u: u)


def test_hs71_has_the_published_solution() -> None:
    problem, x0 = hs71()
    result = ms.minimize(problem, x0, solver=SOLVER, stop=TIGHT)
    assert result.fun == pytest.approx(17.0140173, abs=1e-6)
    np.testing.assert_allclose(result.x, [1.0, 4.7429994, 3.8211503, 1.3794082], atol=1e-5)


def nonnegative_pca(n: int = 10, seed: int = 1) -> tuple[ms.Problem, np.ndarray]:
    half = np.random.default_rng(seed).standard_normal((n, n))
    A = half @ half.T
    f = ms.objective(
        lambda x: -float((x.T @ A @ x)[0, 0]), lambda x: -2 * A @ x, hessian_product=lambda x, u: -2 * A @ u
    )
    return ms.Problem(Stiefel(n, 1), f, inequalities=tuple(linear(-np.eye(n)[:, [k]], 0) for k in range(n))), A


def test_nonnegative_pca_on_the_sphere() -> None:
    """A local minimum is a nonnegative leading eigenvector on its support: try every support."""
    problem, A = nonnegative_pca()
    minima = []
    for size in range(1, 11):
        for support in itertools.combinations(range(10), size):
            values, vectors = np.linalg.eigh(A[np.ix_(support, support)])
            if np.all(vectors[:, -1] * np.sign(vectors[0, -1]) >= 0):
                minima.append(-values[-1])
    result = ms.minimize(problem, solver=SOLVER, n_starts=6, seed=0, stop=TIGHT)
    assert result.success and result.fun == pytest.approx(min(minima), abs=1e-6)
    assert result.feasibility <= 1e-8 and result.x.min() >= -1e-8
    assert_kkt(problem, result, lambda u: u - result.x * np.sum(result.x * u))


@pytest.mark.parametrize("p", [1, 2])
def test_balanced_cut_of_a_path(p: int) -> None:
    """Orthonormal columns with sums of zero: the smallest eigenvalues of the Laplacian but the first."""
    n = 12
    L = np.diag([1.0, *[2.0] * (n - 2), 1.0]) - np.eye(n, k=1) - np.eye(n, k=-1)
    f = ms.objective(lambda X: float(np.sum(X * (L @ X))), lambda X: 2 * L @ X)
    sums = tuple(linear(np.ones((n, 1)) * np.eye(p)[k], 0) for k in range(p))
    problem = ms.Problem(Stiefel(n, p), f, equalities=sums)
    result = ms.minimize(problem, solver=SOLVER, seed=0, stop=TIGHT)
    assert result.success and result.fun == pytest.approx(np.linalg.eigvalsh(L)[1 : p + 1].sum(), abs=1e-9)
    assert np.abs(result.x.sum(axis=0)).max() <= 1e-8
    X = result.x
    assert_kkt(problem, result, lambda u: u - 0.5 * X @ (X.T @ u + u.T @ X))


@pytest.mark.parametrize(("n", "p"), [(5, 2), (8, 2), (8, 3), (20, 2)])
def test_minimizers_that_are_not_isolated(n: int, p: int) -> None:
    """X and X Q are minimizers with other multipliers, where the augmented Lagrangian has curvatures below zero.

    With the default rule and exact products, none of these runs ended before the limit of iterations.
    """
    A = np.diag(np.arange(1.0, n + 1))
    f = ms.objective(lambda X: -np.vdot(X, A @ X), lambda X: -2 * A @ X, hessian_product=lambda X, U: -2 * A @ U)
    columns = ms.constraint(
        lambda X: X.sum(axis=0),
        lambda X, w: np.tile(w, (n, 1)),
        jacobian_product=lambda X, U: U.sum(axis=0),
        hessian_product=lambda X, w, U: 0 * U,
    )
    flat = ms.Problem(Stiefel(n, p), f, equalities=columns)
    Z = np.linalg.svd(np.ones((1, n)))[2][1:]
    lowest = -np.linalg.eigvalsh(Z @ A @ Z.T)[-p:].sum()
    for seed in range(3):
        result = ms.minimize(flat, seed=seed, solver=SOLVER)
        assert result.success and result.feasibility < 1e-6, (seed, result.status)
        assert result.fun == pytest.approx(lowest, abs=1e-5)
    # the second eigenvectors are a saddle along the constraint
    start = np.ascontiguousarray((Z.T @ np.linalg.eigh(Z @ A @ Z.T)[1])[:, -p - 1 : -1])
    result = ms.minimize(flat, start, solver=SOLVER)
    assert not result.success or result.fun == pytest.approx(lowest, abs=1e-5)


def test_products_bounds_and_other_metrics_of_a_point() -> None:
    """A point is a tuple, one factor is bounded, a constraint couples the factors."""
    M = Product(BoundedDiagonal(2, 0.5), Orthogonal(2), names=("lam", "V"))

    def value(x: Any) -> float:
        return float(np.sum((x[0] - 1) ** 2) + np.sum((x[1] - np.eye(2)) ** 2))

    f = ms.objective(value, lambda x: (2 * (x[0] - 1), 2 * (x[1] - np.eye(2))))
    h = ms.objective(
        lambda x: float(x[0][0] - x[1][0, 0] + 0.5), lambda x: (np.array([1.0, 0.0]), np.diag([-1.0, 0.0]))
    )
    x0 = (np.zeros(2), np.array([[0.8, -0.6], [0.6, 0.8]]))
    result = ms.minimize(ms.Problem(M, f, equalities=(h,)), x0, solver=SOLVER, stop=TIGHT)
    assert result.success and result.x[0][0] == pytest.approx(0.5, abs=1e-6)
    np.testing.assert_allclose(result.x[1], np.eye(2), atol=1e-4)
    assert np.all(np.abs(result.x[0]) <= 0.5)


@pytest.mark.parametrize(
    "options", [{"inner_solver": "tr"}, {"inner_solver": PGD(), "inner_stop": ms.MaxIterations(40), "penalty": 1.0}]
)
def test_other_inner_solvers(options: dict[str, Any]) -> None:
    problem, x0 = projection()
    result = ms.minimize(problem, x0, solver=SOLVER, options=options, stop=TIGHT)
    reference = ms.minimize(problem, x0, solver=SOLVER, stop=TIGHT)
    assert result.success and reference.success
    np.testing.assert_allclose(result.x, reference.x, atol=1e-6)


def test_the_hessian_of_the_augmented_lagrangian() -> None:
    problem, _ = nonnegative_pca(5)
    bent = ms.objective(
        lambda x: float(np.sum(x**4)) - 0.4, lambda x: 4 * x**3, hessian_product=lambda x, u: 12 * x**2 * u
    )
    minimized: dict[bytes, ms.Problem] = {}

    class Listening(LBFGS):
        """Keeps the problems that it is given, one for every penalty and multipliers."""

        def init(self, problem: ms.Problem, point: Any) -> Any:
            x = np.full(point.shape, point.size**-0.5)
            minimized[np.float64(problem.objective.value(x)).tobytes()] = problem
            return super().init(problem, point)

    constrained = replace(problem, equalities=(bent,))
    ms.minimize(constrained, seed=0, solver=AugmentedLagrangian(Listening(), penalty=3.0), stop=ms.MaxIterations(300))
    assert len(minimized) >= 3  # multipliers of either sign and zero among them
    for penalized in minimized.values():
        ms.testing.check_gradient(penalized).raise_for_failure()
        ms.testing.check_hessian(penalized).raise_for_failure()


def test_without_constraints_it_is_the_inner_solver() -> None:
    problem, x0 = disk()
    free = replace(problem, inequalities=())
    ours, theirs = ms.minimize(free, x0, solver=SOLVER), ms.minimize(free, x0)
    equal(ours.x, theirs.x)
    assert (ours.fun, ours.nit, ours.nfev, ours.feasibility) == (theirs.fun, theirs.nit, theirs.nfev, 0.0)
    ms.testing.check_solver(SOLVER).raise_for_failure()


def test_a_warm_start_is_recognized_as_the_solution() -> None:
    problem, x0 = hs71()
    first = ms.minimize(problem, x0, solver=SOLVER)
    again = ms.minimize(problem, first, solver=SOLVER)
    assert again.success and again.nit <= 3
    assert first.multipliers is not None and again.multipliers is not None
    for name, values in first.multipliers.items():
        np.testing.assert_allclose(again.multipliers[name], values, atol=1e-3)


@pytest.mark.parametrize("stop", [ms.GradientNorm(1e-6, relative=True), ms.CostChange(1e-3), ms.GradientNorm(1e9)])
def test_success_means_feasible(stop: ms.StoppingRule) -> None:
    problem, x0 = hs71()
    result = ms.minimize(problem, x0, solver=SOLVER, stop=stop | ms.MaxIterations(1000))
    assert result.success and result.feasibility <= 1e-6
    assert max(abs(problem.equalities[0].value(result.x)), *(g.value(result.x) for g in problem.inequalities)) <= 1e-6


def test_constraints_that_cannot_be_met_are_no_success() -> None:
    f = ms.objective(lambda x: float(x @ x), lambda x: 2 * x)
    problem = ms.Problem(Euclidean(1), f, equalities=(f + ms.objective(lambda x: 1.0, lambda x: 0 * x),))
    result = ms.minimize(problem, np.ones(1), solver=SOLVER, stop=ms.GradientNorm(1e-6) | ms.MaxIterations(300))
    assert not result.success and result.feasibility == pytest.approx(1.0, abs=1e-3)
    assert np.isfinite(result.fun) and result.history["penalty"].max() <= 1e12


def test_ended_early_it_returns_the_best_feasible_point() -> None:
    problem, x0 = disk()  # the start is feasible, the first steps are not
    for nit in (1, 3, 8):
        result = ms.minimize(problem, x0, solver=SOLVER, stop=ms.MaxIterations(nit))
        assert result.status is Status.MAX_ITERATIONS and result.fun <= 1.0
        assert problem.inequalities[0].value(result.x) <= result.feasibility <= 1e-6
        assert result.history["fun"].min() <= result.fun


def test_ctrl_c_in_any_evaluation_and_resumed_bit_for_bit(tmp_path: Path) -> None:
    problem, x0 = projection()
    stop = ms.GradientNorm(1e-4, relative=True) | ms.MaxIterations(40)
    whole = ms.minimize(problem, x0, solver=SOLVER, stop=stop)
    calls, at = 0, 0

    def fused(x: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == at:
            raise KeyboardInterrupt
        return problem.objective.value_and_gradient(x)  # type: ignore[misc]

    watched = replace(problem, objective=replace(problem.objective, value_and_gradient=fused))
    ms.minimize(watched, x0, solver=SOLVER, stop=stop)
    assert calls == whole.nfev > 20
    for at in range(3, int(whole.nfev) + 1, 5):
        calls = 0
        store = ms.storage.Checkpoint(tmp_path / str(at))
        assert ms.minimize(watched, x0, solver=SOLVER, stop=stop, checkpoint=store).status is Status.INTERRUPTED
        resumed = ms.minimize(problem, x0, solver=SOLVER, stop=stop, checkpoint=store, resume=True)
        equal(resumed.x, whole.x)
        assert whole.multipliers is not None and resumed.multipliers is not None
        equal(tuple(resumed.multipliers.values()), tuple(whole.multipliers.values()))
        assert (resumed.fun, resumed.nit, resumed.grad_norm) == (whole.fun, whole.nit, whole.grad_norm)


def test_a_checkpoint_belongs_to_its_constraints(tmp_path: Path) -> None:
    problem, x0 = disk()
    given: dict[str, Any] = {"solver": SOLVER, "checkpoint": tmp_path, "stop": ms.MaxIterations(2)}
    ms.minimize(problem, x0, **given)
    (g,) = problem.inequalities
    others = [{"inequalities": (2 * g,)}, {"inequalities": (g, g)}, {"inequalities": (), "equalities": (g,)}]
    for other in others:
        with pytest.raises(ms.storage.CheckpointError, match="belongs to other data or settings"):
            ms.minimize(replace(problem, **other), x0, resume=True, **given)
    assert ms.minimize(problem, x0, resume=True, **given).nit == 2


def test_float32() -> None:
    problem, x0 = projection()
    stop = ms.GradientNorm(1e-3, relative=True, feasibility=1e-4) | ms.MaxIterations(1000)
    result = ms.minimize(problem, x0.astype(np.float32), solver=SOLVER, stop=stop)
    reference = ms.minimize(problem, x0, solver=SOLVER, stop=TIGHT)
    assert result.success and {leaf.dtype for leaf in leaves(result.x)} == {np.dtype(np.float32)}
    np.testing.assert_allclose(result.x, reference.x, atol=1e-2)


def test_other_solvers_reject_constraints_and_name_one_that_takes_them() -> None:
    problem, x0 = disk()
    for solver in ("lbfgs", "pgd", LBFGS(memory=3)):
        with pytest.raises(ValueError, match=r"does not support constraints: use .*'augmented-lagrangian'"):
            ms.minimize(problem, x0, solver=solver)
    with pytest.raises(ValueError, match=r"does not support constraints: use .*'augmented-lagrangian'"):
        ms.minimize_batch(problem, x0[None])


CONSTANT = ms.objective(lambda x: 1.0, lambda x: 0 * x)


@pytest.mark.parametrize(
    ("constraint", "error", "sentence"),
    [
        (ms.Objective(lambda x: float(x[0])), ValueError, "inequality 1 has no gradient: pass it to ms.objective"),
        (ms.objective(lambda x: float(x[0]), lambda x: np.ones(3)), ValueError, r"the gradient has shape \(3,\)"),
        (
            ms.objective(lambda x: x, lambda x: x),
            TypeError,
            "inequality 1 of the problem returned ndarray .* but an Objective must return one real number",
        ),
        (ms.objective(lambda x: None, lambda x: x), TypeError, "inequality 1 of the problem returned NoneType"),  # type: ignore[arg-type]
    ],
)
def test_constraints_are_checked_as_objectives_are(constraint: Any, error: Any, sentence: str) -> None:
    problem, x0 = disk()
    with pytest.raises(error, match=sentence):
        ms.minimize(replace(problem, inequalities=(CONSTANT, constraint)), x0, solver=SOLVER)


def test_a_constraint_that_is_not_finite() -> None:
    problem, x0 = disk()
    start = ms.minimize(
        replace(problem, inequalities=(ms.objective(lambda x: float("nan"), lambda x: x),)), x0, solver=SOLVER
    )
    assert start.status is Status.NON_FINITE and start.nit == 0
    far = ms.objective(
        lambda x: float(x @ x) - 1 if x @ x < 4 else float("nan"), lambda x: 2 * x if x @ x < 4 else np.nan * x
    )
    result = ms.minimize(replace(problem, inequalities=(far,)), x0, solver=SOLVER, stop=TIGHT)
    np.testing.assert_allclose(result.x, ms.minimize(problem, x0, solver=SOLVER, stop=TIGHT).x, atol=1e-6)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"inner_solver": "lbgfs"}, "did you mean 'lbfgs'"),
        ({"inner_solver": 3}, r"AugmentedLagrangian\(inner_solver=3\): use a solver"),
        ({"inner_solver": AugmentedLagrangian()}, "use a solver without constraints"),
        ({"inner_stop": 20}, r"inner_stop=20\): use a stopping rule"),
        ({"penalty": 0.0}, r"penalty=0\.0 is not valid: pass a finite number above 0, or None"),
        ({"growth": 1}, "growth=1 is not valid: pass a finite number above 1"),
        ({"growth": "fast"}, "growth='fast' is not valid: pass a finite number above 1"),
    ],
)
def test_options_are_checked(options: dict[str, Any], sentence: str) -> None:
    problem, x0 = disk()
    with pytest.raises(ValueError, match=sentence):
        ms.minimize(problem, x0, solver=SOLVER, options=options)


def test_an_inner_solver_that_lacks_something_raises_an_error() -> None:
    problem, x0 = disk()
    with pytest.raises(ValueError, match=r"the inner solver SGD needs terms.*choose another inner_solver"):
        ms.minimize(problem, x0, solver=SOLVER, options={"inner_solver": "sgd"})


def test_points_and_multipliers_belong_to_the_caller() -> None:
    problem, x0 = disk()
    before = tree_map(np.array, x0)
    result = ms.minimize(problem, x0, solver=SOLVER)
    equal(x0, before)
    assert result.multipliers is not None
    for array in (result.x, *result.multipliers.values()):
        array[...] = 0


@pytest.mark.parametrize("solver", ["sqp", "augmented-lagrangian"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_constraint_that_is_not_finite_is_named(solver: str, value: float) -> None:
    f = ms.objective(lambda x: float(x @ x), lambda x: 2 * x)
    g = ms.constraint(lambda x: value, vjp=lambda x, w: np.zeros(3))
    result = ms.minimize(ms.Problem(ms.manifolds.Euclidean(3), f, inequalities=g), np.ones(3), solver=solver)
    assert result.status is ms.Status.NON_FINITE and "a constraint" in result.message
