"""Sequential quadratic programming: published minima, scipy, brute force, and KKT conditions by differences."""

from __future__ import annotations

import importlib
import itertools
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.optimize
from helpers import parametrize
from scipy.spatial.transform import Rotation

import manifoldseq as ms
from manifoldseq import Status
from manifoldseq.linalg import flatten, quadratic_program, unflattener
from manifoldseq.manifolds import Box, Euclidean, Frozen, Grassmann, Product, Sphere, Stiefel
from manifoldseq.solvers import SQP

TIGHT = ms.GradientNorm(1e-8, relative=True, feasibility=1e-8) | ms.MaxIterations(500)
NUMBERS = range(14)


@pytest.fixture
def listed(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return the problems of the benchmark: eight of Hock and Schittkowski and six on manifolds."""
    monkeypatch.syspath_prepend(Path(__file__).parents[2])
    return importlib.import_module("benchmarks.engine._sqp_problems").listed()


def entries(constraints: Any, x: Any) -> np.ndarray:
    return np.concatenate([np.zeros(0), *[np.ravel(c.value(x)) for c in constraints]])


def slope(problem: ms.Problem, result: ms.Result) -> float:
    """Return the largest derivative of the Lagrangian along curves through the result, by central differences."""
    M, x, mult = problem.manifold, result.x, result.multipliers
    assert mult is not None

    def lagrangian(y: Any) -> float:
        h, g = entries(problem.equalities, y), entries(problem.inequalities, y)
        return problem.objective.value(y) + float(mult["equalities"] @ h + mult["inequalities"] @ g)

    tree, t = unflattener(x), 1e-5
    curves = [(M.retract(x, tree(t * b)), M.retract(x, tree(-t * b))) for b in M.basis(x).T]
    return max(abs(lagrangian(a) - lagrangian(b)) / (2 * t) for a, b in curves)


def assert_kkt(problem: ms.Problem, result: ms.Result, within: float = 1e-5) -> None:
    h, g = entries(problem.equalities, result.x), entries(problem.inequalities, result.x)
    mult = result.multipliers
    assert mult is not None and mult["equalities"].shape == h.shape and mult["inequalities"].shape == g.shape
    assert np.abs(h).max(initial=0.0) <= 1e-6 and g.max(initial=0.0) <= 1e-6
    assert np.all(mult["inequalities"] >= 0) and np.abs(mult["inequalities"] * g).max(initial=0.0) <= 1e-5
    size = max(1.0, float(np.linalg.norm(flatten(problem.objective.value_and_gradient(result.x)[1]))))  # type: ignore[misc]
    assert slope(problem, result) <= within * size


@parametrize("number", NUMBERS, fast=6)
def test_kkt_points_of_the_listed_problems(listed: list[Any], number: int) -> None:
    case, rng = listed[number], np.random.default_rng(5)
    for _ in range(3):
        result = ms.minimize(case.problem, case.start(rng), solver="sqp")
        assert result.success and result.solver == "sqp", result
        assert_kkt(case.problem, result, 1e-4)


@pytest.mark.parametrize("number", range(8))
def test_published_minima(listed: list[Any], number: int) -> None:
    case = listed[number]
    result = ms.minimize(case.problem, case.start(np.random.default_rng(1)), solver="sqp", stop=TIGHT)
    assert result.success and result.feasibility <= 1e-8
    assert result.fun == pytest.approx(case.published, abs=1e-6 * max(1.0, abs(case.published)))


def test_the_bounded_rotation_is_that_of_slsqp(listed: list[Any]) -> None:
    case = next(case for case in listed if "rotation" in case.name)
    f, g = case.problem.objective, case.problem.inequalities[0]

    def at(w: np.ndarray) -> np.ndarray:
        return Rotation.from_rotvec(w).as_matrix()

    found = [
        scipy.optimize.minimize(
            lambda w: f.value(at(w)),
            w0,
            method="SLSQP",
            constraints={"type": "ineq", "fun": lambda w: -np.ravel(g.value(at(w)))},
            options={"ftol": 1e-12},
        )
        for w0 in np.random.default_rng(0).uniform(-0.4, 0.4, (6, 3))
    ]
    best = min(one.fun for one in found if one.success)
    assert ms.minimize(case.problem, seed=0, solver="sqp").fun == pytest.approx(best, abs=1e-5)


def test_the_ellipsoid_is_that_of_multiplicative_updates(listed: list[Any]) -> None:
    """S⁻¹ = 3 Σ wₖ pₖpₖᵀ with the weights of D-optimal design (Titterington 1976)."""
    case = next(case for case in listed if "ellipsoid" in case.name)
    result = ms.minimize(case.problem, seed=0, solver="sqp", stop=TIGHT)
    pull = case.problem.inequalities[0].linearize(np.eye(3))[1]
    outer = np.array([pull(unit) for unit in np.eye(12)])  # the gradients pₖpₖᵀ of pₖᵀSpₖ
    w = np.full(12, 1 / 12)
    for _ in range(20_000):
        w = w * np.einsum("kij,ij->k", outer, np.linalg.inv(np.einsum("k,kij->ij", w, outer))) / 3
    S = np.linalg.inv(3 * np.einsum("k,kij->ij", w, outer))
    np.testing.assert_allclose(result.x, S, rtol=2e-3, atol=2e-3)
    assert result.fun == pytest.approx(-np.linalg.slogdet(S)[1], abs=1e-4)


def test_nonnegative_component_by_every_support() -> None:
    """A local minimum is a nonnegative leading eigenvector on its support."""
    half = np.random.default_rng(1).standard_normal((8, 8))
    A, values = half @ half.T, []
    for size in range(1, 9):
        for support in itertools.combinations(range(8), size):
            w, V = np.linalg.eigh(A[np.ix_(support, support)])
            if np.all(V[:, -1] * np.sign(V[0, -1]) >= 0):
                values.append(-w[-1])
    problem = ms.Problem(
        Sphere(8), lambda x: -x @ A @ x, gradient=lambda x: -2 * A @ x,
        inequalities=ms.constraint(lambda x: -x, vjp=lambda x, w: -w),
    )  # fmt: skip
    for seed in range(6):
        result = ms.minimize(problem, seed=seed, solver="sqp")
        assert result.success and np.abs(np.array(values) - result.fun).min() < 1e-6 * abs(result.fun)


# steps


def maratos(exact: bool) -> ms.Problem:
    """2(|x|² − 1) − x₁ on the circle: a full step raises the objective and the violation."""
    f = ms.objective(
        lambda x: 2 * (x @ x - 1) - x[0],
        lambda x: 4 * x - np.eye(2)[0],
        hessian_product=(lambda x, u: 4 * u) if exact else None,
    )
    h = ms.constraint(
        lambda x: x @ x - 1,
        vjp=lambda x, w: 2 * w * x,
        jacobian_product=lambda x, u: 2 * x @ u,
        hessian_product=lambda x, w, u: 2 * w * u,
    )
    return ms.Problem(Euclidean(2), f, equalities=h)


def test_a_second_order_correction_keeps_full_steps() -> None:
    """The example of Powell for the Maratos effect: with exact second derivatives it is solved in a few full steps."""
    start = np.array([np.cos(0.4), np.sin(0.4)])
    result = ms.minimize(maratos(True), start, solver="sqp")
    assert result.success and result.nit <= 6 and result.nfev <= 30
    np.testing.assert_allclose(result.x, [1.0, 0.0], atol=1e-6)
    assert result.multipliers is not None and result.multipliers["equalities"] == pytest.approx(-1.5, abs=1e-5)


def test_exact_second_derivatives_save_iterations() -> None:
    start = np.array([-0.3, 0.9])
    counts = [ms.minimize(maratos(True), start, solver=SQP(hessian=kind)).nit for kind in ("exact", "bfgs")]
    assert counts[0] < counts[1]
    with pytest.raises(ValueError, match=r"SQP\(hessian='exact'\) needs hessian_product of the objective"):
        ms.minimize(maratos(False), start, solver=SQP(hessian="exact"))
    with pytest.raises(ValueError, match=r"SQP: hessian='newton'"):
        SQP(hessian="newton")


@pytest.mark.parametrize("kind", ["exact", "bfgs"])
@pytest.mark.parametrize("M", [Stiefel(5, 2), Grassmann(5, 2), Product(Sphere(4), Stiefel(3, 3))], ids=str)
def test_both_models_find_kkt_points_on_manifolds(M: Any, kind: str) -> None:
    rng = np.random.default_rng(2)
    x0 = M.random_point(rng)
    tree, size = unflattener(x0), flatten(x0).size
    A, b = rng.standard_normal((size, size)), rng.standard_normal(size)
    A = A @ A.T / size

    def flat(point: Any) -> np.ndarray:
        return (point @ point.T)[:, :2].ravel() if M.quotient else flatten(point)

    if M.quotient:  # functions of the subspace X Xᵀ
        S = rng.standard_normal((5, 5))
        S, T = S + S.T, np.diag([1.0, 0, 0, 0, 0])
        f = ms.objective(lambda X: np.sum(X * (S @ X)), lambda X: 2 * S @ X, hessian_product=lambda X, U: 2 * S @ U)
        g = ms.objective(
            lambda X: 0.7 - np.sum(X * (T @ X)), lambda X: -2 * T @ X, hessian_product=lambda X, U: -2 * T @ U
        )
    else:
        f = ms.objective(
            lambda x: 0.5 * flat(x) @ A @ flat(x) + b @ flat(x),
            lambda x: tree(A @ flat(x) + b),
            hessian_product=lambda x, u: tree(A @ flat(u)),
        )
        g = ms.objective(
            lambda x: flat(x)[0] + flat(x)[1] ** 2 - 0.3,
            lambda x: tree(np.eye(size)[0] + 2 * flat(x)[1] * np.eye(size)[1]),
            hessian_product=lambda x, u: tree(2 * flat(u)[1] * np.eye(size)[1]),
        )
    problem = ms.Problem(M, f, inequalities=g)
    result = ms.minimize(problem, x0, solver=SQP(hessian=kind), stop=TIGHT)
    assert result.success, result
    assert_kkt(problem, result)


# degenerate problems


def quadratic(center: Any) -> ms.Objective:
    c = np.asarray(center, float)
    return ms.objective(lambda x: (x - c) @ (x - c), lambda x: 2 * (x - c))


def test_without_constraints_it_minimizes() -> None:
    result = ms.minimize(ms.Problem(Euclidean(3), quadratic([1, 2, 3])), np.zeros(3), solver="sqp")
    assert result.success and result.multipliers is not None
    np.testing.assert_allclose(result.x, [1, 2, 3], atol=1e-6)
    assert result.multipliers["equalities"].size == result.multipliers["inequalities"].size == 0


def test_inactive_constraints_have_no_multipliers() -> None:
    problem = ms.Problem(Euclidean(2), quadratic([0.5, 0.5]), inequalities=lambda x: x - 3.0)
    result = ms.minimize(problem, np.array([5.0, -4.0]), solver="sqp")
    assert result.success and result.multipliers is not None
    assert np.array_equal(result.multipliers["inequalities"], np.zeros(2))
    np.testing.assert_allclose(result.x, [0.5, 0.5], atol=1e-6)


@pytest.mark.parametrize("copies", [1, 2, 3])
def test_repeated_equalities(copies: int) -> None:
    problem = ms.Problem(Euclidean(2), quadratic([2.0, 0.0]), equalities=[lambda x: x @ x - 1.0] * copies)
    result = ms.minimize(problem, np.array([0.3, 0.8]), solver="sqp")
    assert result.success and result.multipliers is not None
    np.testing.assert_allclose(result.x, [1.0, 0.0], atol=1e-5)
    assert result.multipliers["equalities"].sum() == pytest.approx(1.0, abs=1e-4)


def test_active_gradients_that_depend_on_each_other() -> None:
    """Three lines through the solution in the plane; and a point where no multiplier exists (Kuhn and Tucker)."""
    rows = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    three = ms.Problem(Euclidean(2), quadratic([2.0, 2.0]), inequalities=lambda x: rows @ x)
    result = ms.minimize(three, np.array([-1.0, -2.0]), solver="sqp")
    assert result.success
    np.testing.assert_allclose(result.x, [0.0, 0.0], atol=1e-6)
    assert_kkt(three, result)
    cusp = ms.Problem(
        Euclidean(2),
        ms.objective(lambda x: -x[0], lambda x: np.array([-1.0, 0.0])),
        inequalities=[lambda x: x[1] - (1 - x[0]) ** 3, lambda x: -x[1]],
    )
    result = ms.minimize(cusp, np.array([0.2, 0.1]), solver="sqp", max_iter=300)
    assert result.status is not Status.INFEASIBLE
    assert not result.success or result.x[0] == pytest.approx(1.0, abs=0.02)


@pytest.mark.parametrize("start", [[0.0, 0.0], [2.0, 3.0], [-1.0, 0.5]])
def test_contradictions_are_infeasible(start: list[float]) -> None:
    f = quadratic([3.0, 3.0])
    for given in (
        {"inequalities": lambda x: x**2 + 1.0},
        {"equalities": [lambda x: x[0] - 1.0, lambda x: x[0] + 1.0]},
        {"inequalities": [lambda x: x[0] + x[1] + 1.0, lambda x: -x]},
    ):
        result = ms.minimize(ms.Problem(Euclidean(2), f, **given), np.array(start), solver="sqp")  # type: ignore[arg-type]
        assert result.status is Status.INFEASIBLE and result.feasibility > 0.1


def test_incompatible_linearizations_are_relaxed() -> None:
    """At the start 1 − x² ≤ 0 and x ≤ 3 have no common linearization: it asks for x ≥ 50."""
    problem = ms.Problem(
        Euclidean(1),
        ms.objective(lambda x: x[0] ** 2, lambda x: 2 * x),
        inequalities=[lambda x: 1.0 - x**2, lambda x: x - 3.0],
    )
    result = ms.minimize(problem, np.array([0.01]), solver="sqp")
    assert result.success and abs(result.x[0]) == pytest.approx(1.0, abs=1e-5)


def test_a_saddle_along_the_constraints_is_left() -> None:
    """(0, 1) is a KKT point of x₁x₂ … and the highest of the circle; the start is exactly there."""
    f = ms.objective(lambda x: x[1], lambda x: np.array([0.0, 1.0]))
    problem = ms.Problem(Euclidean(2), f, equalities=lambda x: x @ x - 1.0)
    result = ms.minimize(problem, np.array([0.0, 1.0]), solver="sqp")
    assert result.success
    np.testing.assert_allclose(result.x, [0.0, -1.0], atol=1e-5)


def test_constraints_that_are_not_finite() -> None:
    f = quadratic([0.0, 0.0])

    def root(x: np.ndarray) -> np.ndarray:
        with np.errstate(invalid="ignore"):
            return np.sqrt(x - 0.5) - 1.0

    def pull(x: np.ndarray, w: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            return 0.5 * w / np.sqrt(x - 0.5)

    g = ms.constraint(root, vjp=pull)
    lost = ms.minimize(ms.Problem(Euclidean(2), f, inequalities=g), np.zeros(2), solver="sqp")
    assert lost.status is Status.NON_FINITE and np.array_equal(lost.x, np.zeros(2))
    # from a point where they are, steps to points where they are not are made shorter
    kept = ms.minimize(ms.Problem(Euclidean(2), f, inequalities=g), np.ones(2), solver="sqp", max_iter=20)
    assert np.isfinite(kept.fun) and np.all(kept.x >= 0.5)


def test_single_precision() -> None:
    f = ms.objective(lambda x: float(-x @ np.array([1, -2, 1], x.dtype)), lambda x: np.array([-1, 2, -1], x.dtype))
    g = ms.constraint(lambda x: -x, vjp=lambda x, w: (-w).astype(x.dtype))
    result = ms.minimize(
        ms.Problem(Sphere(3), f, inequalities=g), np.full(3, 3**-0.5, np.float32), solver="sqp", max_iter=100
    )
    assert result.x.dtype == np.float32
    np.testing.assert_allclose(result.x, [0.5**0.5, 0, 0.5**0.5], atol=1e-3)


def test_a_manifold_without_dimensions() -> None:
    problem = ms.Problem(Frozen(Euclidean(2)), quadratic([1.0, 1.0]), inequalities=lambda x: x - 1.0)
    assert np.array_equal(ms.minimize(problem, np.zeros(2), solver="sqp").x, np.zeros(2))


# the interface


def test_bounds_of_a_manifold_are_not_taken() -> None:
    problem = ms.Problem(Box(-np.ones(2), np.ones(2)), quadratic([3.0, 0.0]), inequalities=lambda x: x - 0.5)
    with pytest.raises(ValueError, match="SQP does not support the bounds of Box"):
        ms.minimize(problem, np.zeros(2), solver="sqp")
    assert ms.solvers.choose_solver(problem) == "augmented-lagrangian"


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = ms.Problem(Euclidean(2), quadratic([3.0, 0.0]), inequalities=lambda x: x - 0.5)
    assert ms.solvers.choose_solver(problem) == "sqp"
    assert ms.solvers.choose_solver(ms.Problem(Euclidean(61), quadratic(np.ones(61)), equalities=lambda x: x[0])) == (
        "augmented-lagrangian"
    )
    monkeypatch.setitem(sys.modules, "clarabel", None)
    assert ms.minimize(problem, np.zeros(2)).solver == "augmented-lagrangian"
    with pytest.raises(ImportError, match=r"'sqp' needs clarabel, which is not .* `pip install 'manifoldseq\[constra"):
        ms.minimize(problem, np.zeros(2), solver="sqp")


def test_history_and_observers() -> None:
    problem = ms.Problem(Euclidean(2), quadratic([3.0, 0.0]), inequalities=lambda x: x @ x - 0.5)
    seen: list[float] = []
    result = ms.minimize(problem, np.ones(2), solver="sqp", callback=lambda event: seen.append(event.measures.fun))
    assert {"penalty", "complementarity", "feasibility"} <= set(result.history)
    np.testing.assert_array_equal(result.history["fun"], seen)


# quadratic programs


def by_all_active_sets(P: Any, q: Any, A: Any, b: Any, n_equal: int) -> np.ndarray | None:
    """Return the minimizer among the solutions for every set of active rows that meet all constraints."""
    n, best, found = len(q), np.inf, None
    for size in range(len(b) - n_equal + 1):
        for rows in itertools.combinations(range(n_equal, len(b)), size):
            W = [*range(n_equal), *rows]
            K = np.block([[P, A[W].T], [A[W], np.zeros((len(W), len(W)))]])
            d = np.linalg.lstsq(K, -np.concatenate([q, b[W]]), rcond=None)[0][:n]
            v = A @ d + b
            value = 0.5 * d @ P @ d + q @ d
            if np.abs(v[:n_equal]).max(initial=0) < 1e-8 and v[n_equal:].max(initial=0) < 1e-8 and value < best:
                best, found = value, d
    return found


@pytest.mark.parametrize("seed", range(20))
def test_quadratic_programs_against_all_active_sets(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, m, n_equal = 3, 6, seed % 3
    root = rng.standard_normal((n, n))
    P, q, A = root @ root.T + 0.1 * np.eye(n), rng.standard_normal(n), rng.standard_normal((m, n))
    b = rng.standard_normal(m) if seed % 4 == 0 else -A @ rng.standard_normal(n) - np.r_[[0] * n_equal, [0.3] * m][:m]
    if seed % 5 == 0:
        A[-1], b[-1] = A[-2], b[-2]
    expected = by_all_active_sets(P, q, A, b, n_equal)
    for guess in (np.zeros(m, bool), rng.random(m) < 0.5):
        solution = quadratic_program(P, q, A, b, n_equal, guess)
        assert (solution is None) is (expected is None)
        if solution is not None:
            d, multipliers, _ = solution
            np.testing.assert_allclose(d, expected, atol=1e-7)
            np.testing.assert_allclose(P @ d + q + A.T @ multipliers, 0, atol=1e-7)
            assert multipliers[n_equal:].min() >= 0


def test_a_decrease_without_bound_ends_at_the_largest_numbers() -> None:
    """The first step of the last line search leaves the range of numbers, which `math.ldexp` reports as an error."""
    f = ms.objective(lambda x: x[0], lambda x: np.array([1.0, 0.0]))
    problem = ms.Problem(Euclidean(2), f, inequalities=lambda x: x[1])
    with np.errstate(all="ignore"):
        result = ms.minimize(problem, np.array([1.0, 0.5]), solver="sqp")
    assert result.status is ms.Status.NO_DECREASE and "may decrease without bound" in result.message
