"""Constraints whose value is an array, compared with one constraint for each entry and with scipy's SLSQP."""

from __future__ import annotations

import pickle
import warnings
from importlib import import_module
from typing import Any

import numpy as np
import pytest
import scipy.optimize
import scipy.sparse as sp
from scipy.optimize import NonlinearConstraint, minimize

import manifoldseq as ms
from manifoldseq.manifolds import Euclidean, Product, Sphere, Stiefel

anp: Any = import_module("autograd.numpy")
Bounds: Any = scipy.optimize.Bounds  # its annotations know numbers only
LinearConstraint: Any = scipy.optimize.LinearConstraint


def factorization(n: int, r: int, inequalities: Any) -> tuple[ms.Problem, np.ndarray]:
    """Return nonnegative factorization by orthonormal columns, and a start."""
    rng = np.random.default_rng(n)
    A, M = rng.random((n, 6)), Stiefel(n, r)
    f = ms.objective(lambda X: -float(np.sum((X.T @ A) ** 2)), lambda X: -2 * A @ (A.T @ X))
    return ms.Problem(M, f, inequalities=inequalities), M.random_point(rng)


def entries(n: int, r: int) -> list[ms.Objective]:
    units = np.eye(n * r).reshape(n * r, n, r)
    return [ms.objective(lambda X, E=E: -float(np.sum(E * X)), lambda X, E=E: -E) for E in units]


@pytest.mark.parametrize(
    "given",
    [
        lambda X: -X,
        ms.constraint(lambda X: -X, vjp=lambda X, w: -w),
        [lambda X: -X[:5], lambda X: -X[5:]],
        Bounds(0, np.inf),
        LinearConstraint(sp.eye_array(30), 0, np.inf),
    ],
    ids=["function", "vjp", "list", "Bounds", "LinearConstraint"],
)
def test_an_array_is_one_constraint_for_each_entry(given: Any) -> None:
    problem, x0 = factorization(10, 3, given)
    scalar, _ = factorization(10, 3, entries(10, 3))
    one, many = (ms.minimize(p, x0, solver="augmented-lagrangian") for p in (problem, scalar))
    assert one.success and many.success and one.multipliers and many.multipliers and one.x.min() >= -1e-6
    # the same sums in another order: the same iterations as long as rounding does not decide
    np.testing.assert_allclose(one.history["fun"][:20], many.history["fun"][:20], rtol=1e-9)
    np.testing.assert_allclose(one.fun, many.fun, rtol=1e-7)
    np.testing.assert_allclose(one.multipliers["inequalities"], many.multipliers["inequalities"], atol=1e-4)


def test_products_of_both_derivatives_are_those_of_differences() -> None:
    def function(point: Any) -> Any:
        X, y = point
        return anp.sin(X) * y[0] + anp.sum(y**3)

    made: Any = ms.constraint(function)
    rng = np.random.default_rng(0)
    x, u = (tuple([rng.standard_normal((3, 2)), rng.standard_normal(2)]) for _ in range(2))
    w, h = rng.standard_normal((3, 2)), 1e-6
    there, back = (tuple([a + s * h * b for a, b in zip(x, u, strict=True)]) for s in (1, -1))
    value, pull = made.linearize(x)
    along = (function(there) - function(back)) / (2 * h)
    np.testing.assert_allclose(value, function(x))
    np.testing.assert_allclose(made.jacobian_product(x, u), along, atol=1e-8)
    assert sum(np.sum(a * b) for a, b in zip(pull(w), u, strict=True)) == pytest.approx(np.sum(w * along), abs=1e-7)
    bent = made.hessian_product(x, w, u)
    for got, a, b in zip(bent, made.linearize(there)[1](w), made.linearize(back)[1](w), strict=True):
        np.testing.assert_allclose(got, (a - b) / (2 * h), atol=1e-7)


@pytest.mark.parametrize("inner", ["lbfgs", "tr"])
def test_mixed_constraints_have_the_minimum_of_slsqp(inner: str) -> None:
    rng = np.random.default_rng(3)
    Q, c, A = rng.standard_normal((5, 5)), rng.standard_normal(5), rng.standard_normal((4, 5))
    Q = Q @ Q.T
    equal = LinearConstraint(A, [-np.inf, -1.0, 0.2, -0.3], [0.5, 1.0, 0.2, np.inf])
    box = Bounds([-1, -1, -np.inf, 0.1, -2], [1, np.inf, 1, 0.1, 2])

    def round_(x: Any) -> Any:
        return anp.array([anp.sum(x**2) - 4.0, x[0] * x[1] - 0.5])

    problem = ms.Problem(Euclidean(5), lambda x: 0.5 * x @ Q @ x + c @ x, inequalities=[equal, box, round_])
    assert len(problem.equalities) == 2 and len(problem.inequalities) == 3
    exact = ms.GradientNorm(1e-8, feasibility=1e-8) | ms.MaxIterations(2000)
    options = {"inner_solver": inner}
    result = ms.minimize(problem, np.zeros(5), solver="augmented-lagrangian", options=options, stop=exact)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scipy prefers separate elements for equalities
        judge = minimize(
            lambda x: 0.5 * x @ Q @ x + c @ x,
            np.zeros(5),
            method="SLSQP",
            bounds=box,
            constraints=[equal, NonlinearConstraint(round_, -np.inf, 0)],
            options={"ftol": 1e-14, "maxiter": 500},
        )
    assert result.success and judge.success and result.multipliers is not None
    np.testing.assert_allclose(result.fun, judge.fun, rtol=1e-6)
    np.testing.assert_allclose(result.x, judge.x, atol=1e-4)
    assert result.multipliers["equalities"].shape == (2,) and result.multipliers["inequalities"].shape == (4 + 6 + 2,)


def test_the_flat_point_of_a_product_is_in_the_order_of_the_factors() -> None:
    M = Product(Euclidean(2), Euclidean(1))
    f = ms.objective(
        lambda x: float(np.sum((x[0] - 3) ** 2) + np.sum((x[1] - 3) ** 2)), lambda x: (2 * (x[0] - 3), 2 * (x[1] - 3))
    )
    result = ms.minimize(
        ms.Problem(M, f, inequalities=Bounds([-1, -1, 0], [1.0, 9.0, 2.0])), (np.zeros(2), np.zeros(1))
    )
    np.testing.assert_allclose(np.concatenate(result.x), [1.0, 3.0, 2.0], atol=1e-5)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (LinearConstraint(np.ones((1, 4)), 0, 1), "LinearConstraint has 4 columns, but the flat point has 3 entries"),
        (Bounds(1, 0), "Bounds has a bound that is NaN, or a lower bound above the upper bound"),
        (Bounds([0, 0], [1, 1]), r"Bounds has 3 entries, but its bounds have shapes \(2,\) and \(2,\)"),
    ],
)
def test_constraints_of_scipy_that_do_not_fit(given: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        ms.Problem(Sphere(3), lambda x: x[0], inequalities=given)


def test_single_precision_points_have_gradients_in_single_precision() -> None:
    f = ms.objective(lambda x: -float(x @ np.array([1, -2, 1], np.float32)), lambda x: np.array([-1, 2, -1], x.dtype))
    x0 = np.full(3, 1 / np.sqrt(3), np.float32)
    result = ms.minimize(ms.Problem(Sphere(3), f, inequalities=lambda x: -x), x0)
    assert result.x.dtype == np.float32
    np.testing.assert_allclose(result.x, [0.5**0.5, 0, 0.5**0.5], atol=1e-3)


@pytest.mark.parametrize(
    "given",
    [
        {"equalities": lambda x: x[1:3] - 2.0},
        {"inequalities": [lambda x: -x, lambda x: anp.sum(x) + 0.1]},
        {"inequalities": lambda x: x**2 + 1.0},
    ],
)
def test_impossible_arrays_are_infeasible(given: Any) -> None:
    result = ms.minimize(ms.Problem(Sphere(5), lambda x: x[0], **given), seed=0)
    assert result.status is ms.Status.INFEASIBLE and result.feasibility > 1e-2


@pytest.mark.parametrize("seed", range(10))
def test_possible_arrays_are_never_infeasible(seed: int) -> None:
    rng = np.random.default_rng(seed)
    A, inside = rng.standard_normal((8, 6)), rng.standard_normal(6)
    b = A @ inside + 0.1 * rng.random(8)

    def cost(x: Any) -> Any:
        return anp.sum(anp.cos(x)) + 0.1 * anp.sum(x**2)

    def near(x: Any) -> Any:
        return anp.sum((x - inside) ** 2) - 4.0

    problem = ms.Problem(Euclidean(6), cost, inequalities=[LinearConstraint(A, -np.inf, b), near])
    result = ms.minimize(problem, 5 * rng.standard_normal(6))
    assert result.success and np.max(A @ result.x - b) <= 1e-6 and near(result.x) <= 1e-6


def test_many_active_entries_are_caught_by_random_signs() -> None:
    """Beyond the number of entries whose gradients are computed one by one."""
    problem = ms.Problem(Euclidean(300), lambda x: anp.sum(x), inequalities=lambda x: x**2 + 1.0)
    assert ms.minimize(problem, np.full(300, 0.3)).status is ms.Status.INFEASIBLE


def test_the_number_of_entries_must_not_change() -> None:
    problem = ms.Problem(Euclidean(2), lambda x: anp.sum(x), inequalities=lambda x: -x if x[0] > 0.5 else -x[:1])
    with pytest.raises(ValueError, match="returned 1 entries, but 2 at the start"):
        ms.minimize(problem, np.ones(2))


def test_a_wrong_vjp_is_named() -> None:
    wrong = ms.constraint(lambda x: -x, vjp=lambda x, w: w[:2])
    with pytest.raises(ValueError, match=r"the gradient of inequality 0 has shape \(2,\), but the point has \(3,\)"):
        ms.minimize(ms.Problem(Sphere(3), lambda x: x[0], inequalities=wrong), seed=0)


@pytest.mark.parametrize("name", ["vjp", "jacobian_product", "hessian_product"])
def test_derivatives_of_a_constraint_are_functions(name: str) -> None:
    with pytest.raises(TypeError, match=rf"ms.constraint\({name}=…\) must be a function, got 3"):
        ms.constraint(below, **{name: 3})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("product", "error", "words"),
    [
        (lambda x, u: u[:2], ValueError, r"a jacobian_product has shape \(2,\), but its constraint has shape \(3,\)"),
        (lambda x, u: "a", TypeError, "a jacobian_product of the problem returned str 'a': return a real number"),
    ],
)
@pytest.mark.parametrize(
    "solver", [ms.solvers.SQP(), ms.solvers.AugmentedLagrangian(inner_solver="tr")], ids=["sqp", "augmented-lagrangian"]
)
def test_a_wrong_jacobian_product_is_told(
    solver: ms.solvers.Solver, product: Any, error: type[Exception], words: str
) -> None:
    f = ms.objective(
        lambda x: x[0] * x[1], lambda x: np.array([x[1], x[0], 0]), hessian_product=lambda x, u: u[[1, 0, 2]]
    )
    wrong = ms.constraint(
        lambda x: x - 0.5, lambda x, w: w, jacobian_product=product, hessian_product=lambda x, w, u: 0 * u
    )
    with pytest.raises(error, match=words):
        ms.minimize(ms.Problem(Sphere(3), f, inequalities=wrong), np.array([0.6, 0.8, 0.0]), solver=solver)


@pytest.mark.parametrize(
    ("wrong", "error", "words"),
    [
        (LinearConstraint(np.full((1, 3), np.nan), 0, 1), ValueError, "the matrix of LinearConstraint has NaN"),
        (Bounds("a", "b"), TypeError, "Bounds has bounds that are not numbers"),
    ],
)
def test_constraints_of_scipy_without_numbers(wrong: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        ms.minimize(ms.Problem(Sphere(3), lambda x: x[0], inequalities=wrong), seed=0)


def test_a_run_resumes_bit_by_bit(tmp_path: Any) -> None:
    problem, x0 = factorization(8, 2, lambda X: -X)
    whole = ms.minimize(problem, x0)
    ms.minimize(problem, x0, checkpoint=tmp_path / "run", max_iter=9)
    resumed = ms.minimize(problem, x0, checkpoint=tmp_path / "run", resume=True)
    assert np.array_equal(resumed.x, whole.x) and resumed.nit == whole.nit


def below(x: Any) -> Any:
    return -x


def test_constraints_are_pickled_by_name() -> None:
    for made in (
        ms.constraint(below),
        ms.Problem(Sphere(3), lambda x: x[0], inequalities=Bounds(0, 1)).inequalities[0],
    ):
        again = pickle.loads(pickle.dumps(made))
        x = np.array([0.6, 0.8, 0.0])
        np.testing.assert_array_equal(again.value(x), made.value(x))


def test_a_whole_jacobian_stands_for_vector_products() -> None:
    """Values, gradients and products are those of the same function with `vjp`; scipy's matrices are taken too."""
    rng = np.random.default_rng(4)
    A, M = rng.standard_normal((3, 6)), Stiefel(3, 2)
    x, u = M.random_point(rng), rng.standard_normal((3, 2))

    def value(X: np.ndarray) -> np.ndarray:
        return A @ X.ravel() ** 2

    for matrix in (lambda X: 2 * A * X.ravel(), lambda X: sp.csr_array(2 * A * X.ravel())):
        whole = ms.constraint(value, jacobian=matrix)
        products = ms.constraint(value, vjp=lambda X, w: 2 * (w @ A).reshape(3, 2) * X)
        w = rng.standard_normal(3)
        np.testing.assert_allclose(whole.linearize(x)[1](w), products.linearize(x)[1](w), rtol=1e-12)
        assert whole.jacobian_product is not None
        t = 1e-6
        np.testing.assert_allclose(
            whole.jacobian_product(x, u), (value(x + t * u) - value(x - t * u)) / (2 * t), rtol=1e-6
        )
        f = ms.objective(lambda X: float(np.sum(X)), np.ones_like)
        results = [
            ms.minimize(ms.Problem(M, f, inequalities=[each]), x, solver=solver)
            for each in (whole, products)
            for solver in ("sqp", "augmented-lagrangian")
        ]
        for result in results:
            assert result.fun == pytest.approx(results[0].fun, abs=1e-6)
    wrong = ms.constraint(value, jacobian=lambda X: np.ones((2, 6)))
    with pytest.raises(ValueError, match=r"jacobian of a constraint has shape \(2, 6\): return \(3, 6\)"):
        ms.minimize(ms.Problem(M, f, inequalities=wrong), x, solver="sqp")
