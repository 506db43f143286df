"""Derivatives of a solution without jax: against closed forms and against solutions for other parameters."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import manifoldseq as ms

M = ms.manifolds


def test_the_eigenvector_of_a_matrix() -> None:
    """dv = (λ − A)⁺ dA v for the eigenvector v of the least eigenvalue λ."""
    rng = np.random.default_rng(0)
    A = rng.standard_normal((4, 4))
    A = A + A.T

    def problem(A: Any) -> ms.Problem:
        S = (A + A.T) / 2
        f = ms.objective(lambda x: x @ S @ x, lambda x: 2 * S @ x, hessian_product=lambda x, u: 2 * S @ u)
        return ms.Problem(M.Sphere(4), f)

    result, c = ms.minimize(problem(A), seed=0), rng.standard_normal(4)
    w, V = np.linalg.eigh(A)
    v = V[:, 0] * np.sign(V[:, 0] @ result.x)
    back = np.linalg.pinv(w[0] * np.eye(4) - A, rcond=1e-9) @ c
    expected = (np.outer(back, v) + np.outer(v, back)) / 2
    found = ms.implicit_gradient(result, A, problem=problem, cotangent=c)
    np.testing.assert_allclose(found, expected, atol=1e-6 * np.abs(expected).max())


@pytest.mark.parametrize("hessian", [True, False])
def test_a_product_with_spd_and_bounds_against_other_solutions(hessian: bool) -> None:
    rng = np.random.default_rng(1)
    manifold = M.Product(M.SymmetricPositiveDefinite(2), M.BoundedDiagonal(3, bound=0.9))
    S, cX, cd = np.array([[2.0, 0.3], [0.3, 1.0]]), rng.standard_normal((2, 2)), rng.standard_normal(3)

    def problem(theta: Any) -> ms.Problem:
        a, t = theta

        def fused(x: Any) -> Any:
            X, d = x
            inverse, off = np.linalg.inv(X), d - t
            value = np.linalg.slogdet(X)[1] + a * np.trace(inverse @ S) + (off**2).sum() + 0.1 * d.sum() * X[0, 0]
            gX = inverse - a * inverse @ S @ inverse + 0.1 * d.sum() * np.diag([1.0, 0.0])
            return float(value), (gX, 2 * off + 0.1 * X[0, 0])

        def product(x: Any, u: Any) -> Any:
            (_X, _d), (U, e), P = x, u, np.linalg.inv(x[0])
            bent = -P @ U @ P + a * (P @ U @ P @ S @ P + P @ S @ P @ U @ P) + 0.1 * e.sum() * np.diag([1.0, 0.0])
            return bent, 2 * e + 0.1 * U[0, 0]

        return ms.Problem(
            manifold, ms.objective(value_and_gradient=fused, hessian_product=product if hessian else None)
        )

    theta = (np.array(1.5), np.array([0.2, -0.1, 3.0]))
    start = (np.eye(2), np.zeros(3))

    def solved(theta: Any) -> ms.Result:
        return ms.minimize(problem(theta), start, solver="lbfgs", stop=ms.GradientNorm(1e-10) | ms.MaxIterations(500))

    def loss(theta: Any) -> float:
        X, d = solved(theta).x
        return float((cX * X).sum() + (cd * d).sum())

    da, dt = ms.implicit_gradient(solved(theta), theta, problem=problem, cotangent=(cX, cd))
    h = 1e-5
    assert da == pytest.approx((loss((theta[0] + h, theta[1])) - loss((theta[0] - h, theta[1]))) / (2 * h), rel=1e-5)
    for k in range(3):
        e = np.eye(3)[k] * h
        expected = (loss((theta[0], theta[1] + e)) - loss((theta[0], theta[1] - e))) / (2 * h)
        assert dt[k] == pytest.approx(expected, rel=1e-5, abs=1e-7)
    assert dt[2] == pytest.approx(0.0, abs=1e-12)  # that entry is held at its bound


def test_what_has_no_derivative_raises() -> None:
    def problem(a: Any) -> ms.Problem:  # the second coordinate is free: nothing decides it
        return ms.Problem(M.Euclidean(2), ms.objective(lambda x: (x[0] - a) ** 2 + 1))

    limited = ms.minimize(problem(1.0), np.zeros(2), max_iter=0)
    with pytest.raises(ValueError, match="needs the Result of a run that has converged"):
        ms.implicit_gradient(limited, np.array(1.0), problem=problem, cotangent=np.ones(2))
    solved = ms.minimize(problem(1.0), np.zeros(2), stop=ms.GradientNorm(1e-8) | ms.MaxIterations(50))
    with pytest.raises(ValueError, match="Hessian at the solution is singular"):
        ms.implicit_gradient(solved, np.array(1.0), problem=problem, cotangent=np.ones(2))


def distance_to(function: Any) -> Any:
    """Return the problem of the point nearest to a function of a number, shifted so that no value is zero."""

    def problem(theta: Any) -> ms.Problem:
        at = function(theta[0])
        return ms.Problem(
            M.Euclidean(1), ms.objective(lambda x: float(((x - at) ** 2).sum()) + 1, lambda x: 2 * (x - at))
        )

    return problem


@pytest.mark.parametrize("theta", [1.0, 0.3, 1e-4, 1e-8, 1e-12])
@pytest.mark.parametrize(
    ("function", "derivative"), [(np.log, lambda t: 1 / t), (np.sqrt, lambda t: 0.5 * t**-0.5), (np.sin, np.cos)]
)
def test_the_size_of_a_parameter_does_not_matter(function: Any, derivative: Any, theta: float) -> None:
    problem, params = distance_to(function), np.array([theta])
    with np.errstate(all="ignore"):  # the first difference leaves the domain
        result = ms.minimize(problem(params), np.ones(1))
        found = ms.implicit_gradient(result, params, problem=problem, cotangent=np.ones(1))
    np.testing.assert_allclose(found, derivative(params), rtol=1e-5)


def test_a_parameter_whose_derivative_is_rounding_keeps_it() -> None:
    problem, params = distance_to(lambda t: 1 + t * t), np.array([1e-6])
    result = ms.minimize(problem(params), np.ones(1))
    found = ms.implicit_gradient(result, params, problem=problem, cotangent=np.ones(1))
    np.testing.assert_allclose(found, 2e-6, rtol=1e-3)


def test_the_result_must_be_that_of_the_parameters() -> None:
    problem = distance_to(np.log)
    result = ms.minimize(problem(np.array([2.0])), np.ones(1))
    with pytest.raises(ValueError, match="pass the parameters of the run"):
        ms.implicit_gradient(result, np.array([3.0]), problem=problem, cotangent=np.ones(1))
    for cotangent in (np.ones(2), np.array([np.nan])):
        with pytest.raises(ValueError, match="pass finite numbers in the structure of the point"):
            ms.implicit_gradient(result, np.array([2.0]), problem=problem, cotangent=cotangent)


@pytest.mark.parametrize("kind", ["equalities", "inequalities"])
def test_constraints_raise_an_error(kind: str) -> None:
    """The solution (0, 1) moves along the constraint, which the Hessian of the objective does not know."""
    on_line: Any = {kind: ms.constraint(lambda x: 1 - x.sum(), vjp=lambda x, w: -w * np.ones(2))}

    def problem(theta: Any) -> ms.Problem:
        f = ms.objective(lambda x: float(((x - theta) ** 2).sum()), lambda x: 2 * (x - theta))
        return ms.Problem(M.Euclidean(2), f, **on_line)

    theta = np.array([-1.0, 0.0])
    result = ms.minimize(problem(theta), np.zeros(2))
    assert result.success
    with pytest.raises(ValueError, match="does not support equalities and inequalities"):
        ms.implicit_gradient(result, theta, problem=problem, cotangent=np.array([1.0, 0.0]))
