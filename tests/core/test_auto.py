"""The solver that `minimize` chooses, and objectives with Riemannian derivatives."""

from __future__ import annotations

import dataclasses
from functools import partial

import numpy as np
import pytest
from core.cases import MANIFOLDS, close, leaves
from helpers import parametrize

import manifoldseq as ms
from manifoldseq.manifolds import (
    Euclidean,
    Grassmann,
    OpenBox,
    Orthogonal,
    Positive,
    Product,
    Simplex,
    Sphere,
    Stiefel,
    SymmetricPositiveDefinite,
)
from manifoldseq.testing import check_gradient, check_hessian

A = np.diag([5.0, 4.0, 2.0, 1.0])
GIVEN = ms.objective(lambda x: x @ A @ x, lambda x: 2 * A @ x, hessian_product=lambda x, u: 2 * A @ u)
DERIVED = ms.objective(lambda x: x @ A @ x)


@pytest.mark.parametrize(
    "objective, manifold",
    [
        (GIVEN, Sphere(4)),
        (2 * GIVEN + GIVEN, Sphere(4)),
        (GIVEN + DERIVED, Sphere(4)),
        (DERIVED, Sphere(4)),
        (dataclasses.replace(GIVEN, hessian_product=None), Sphere(4)),
        (ms.objective(lambda x: x @ A @ x, hessian_product=GIVEN.hessian_product), Sphere(4)),
        (ms.finite_sum(lambda x, i: (x[i] ** 2).sum(), 4), Sphere(4)),
        (ms.sharded(lambda data: GIVEN, [partial(int, 0)]), Sphere(4)),
    ],
)
def test_a_problem_with_a_gradient_gets_the_default(objective: ms.Objective, manifold: ms.manifolds.Manifold) -> None:
    result = ms.minimize(ms.Problem(manifold, objective), seed=0)
    assert result.solver == "lbfgs-tr" and result.success
    assert result.fun == pytest.approx(objective.value(np.eye(4)[3]), abs=1e-7)


def test_constraints_updates_and_size_choose_too() -> None:
    held = ms.Problem(Sphere(4), GIVEN, equalities=(ms.objective(lambda x: x[3]),))
    assert ms.minimize(held, seed=0).solver == "sqp"
    assert ms.minimize(held, seed=0).fun == pytest.approx(2, abs=1e-6)
    one_step = ms.objectives.BlockUpdate("x", (), lambda x: np.zeros(2))
    closed = ms.Objective(lambda x: float(x @ x), updates=(one_step,))
    assert ms.minimize(ms.Problem(Euclidean(2), closed), np.ones(2)).solver == "alternating"
    large = ms.objective(lambda x: float(x @ x), lambda x: 2 * x)
    bent = dataclasses.replace(large, hessian_product=lambda x, u: 2 * u)
    assert [ms.solvers.choose_solver(ms.Problem(Euclidean(n), bent)) for n in (499_999, 500_000)] == [
        *("lbfgs-tr", "bb")
    ]
    assert ms.minimize(ms.Problem(Euclidean(500_000), large), np.ones(500_000)).solver == "bb"
    assert ms.minimize(ms.Problem(Euclidean(499_999), large), np.ones(499_999)).solver == "lbfgs-tr"


def test_result_names_the_solver() -> None:
    problem = ms.Problem(Sphere(4), GIVEN)
    assert "solver='lbfgs-tr'" in repr(ms.minimize(problem, seed=0))
    assert ms.minimize(problem, seed=0, solver="bb").solver == "bb"
    assert ms.minimize(problem, seed=0, solver=ms.solvers.CG()).solver == "CG"


def test_options_of_another_solver_say_who_took_them() -> None:
    problem = ms.Problem(Sphere(4), GIVEN)
    assert ms.minimize(problem, seed=0, options={"memory": 3}).solver == "lbfgs-tr"
    with pytest.raises(ValueError, match=r"'lbfgs-tr' has no option 'kappa'.*name the solver that has these options"):
        ms.minimize(problem, seed=0, options={"kappa": 0.2})


def test_repr_of_a_problem_says_what_it_has() -> None:
    problem = ms.Problem(Sphere(4), GIVEN, {"first": lambda p, rng: np.eye(4)[0]}, inequalities=(DERIVED,))
    told = "Problem(Sphere(4); Objective(value, gradient, Hessian products); 1 inequality; starts first)"
    assert repr(problem) == told


def cubic(x: ms.Point) -> float:
    return sum(float(((a - 0.3) ** 2).sum() + 0.2 * (a**3).sum()) for a in leaves(x))


CUBIC = ms.objective(
    cubic,
    lambda x: ms.solvers.tree_map(lambda a: 2 * (a - 0.3) + 0.6 * a**2, x),
    hessian_product=lambda x, u: ms.solvers.tree_map(lambda a, b: 2 * b + 1.2 * a * b, x, u),
)


@pytest.mark.parametrize(
    "manifold",
    [
        *(Stiefel(4, 2), Sphere(4), Orthogonal(3), SymmetricPositiveDefinite(3), Positive(4), OpenBox(4), Simplex(4)),
        *(Product(Positive(3), Stiefel(4, 2)), SymmetricPositiveDefinite(3) ** 2),
    ],
    ids=repr,
)
def test_riemannian_derivatives_stand_for_euclidean_ones(manifold: ms.manifolds.Manifold) -> None:
    M, euclidean = manifold, CUBIC.value_and_gradient
    f = ms.objective(
        cubic,
        riemannian_gradient=lambda x: M.gradient(x, euclidean(x)[1]),
        riemannian_hessian=lambda x, u: M.hessian(x, euclidean(x)[1], CUBIC.hessian_product(x, u), u),
    )
    problem = ms.Problem(M, f)
    assert f.riemannian and not problem.objective.riemannian
    # finite differences of the cost along curves know nothing of how the derivatives were given
    assert check_gradient(problem, seed=1).ok and check_hessian(problem, seed=1).ok
    x = M.random_point(np.random.default_rng(2))
    for solver in ("lbfgs", "tr"):
        ours, theirs = (ms.minimize(p, x, solver=solver) for p in (problem, ms.Problem(M, CUBIC)))
        assert ours.fun == pytest.approx(theirs.fun, rel=1e-8)


@parametrize("name", MANIFOLDS, fast=8)
def test_every_manifold_takes_riemannian_derivatives(name: str) -> None:
    M, fused = MANIFOLDS[name], CUBIC.value_and_gradient
    rng = np.random.default_rng(3)
    x = M.random_point(rng)
    u, egrad = M.random_tangent(x, rng), fused(x)[1]
    gradient, curved = M.gradient(x, egrad), M.hessian(x, egrad, CUBIC.hessian_product(x, u), u)
    f = ms.objective(cubic, riemannian_gradient=lambda x: gradient, riemannian_hessian=lambda x, u: curved)
    made = ms.Problem(M, f).objective
    slope = made.value_and_gradient(x)[1]
    close(M.gradient(x, slope), gradient, rtol=1e-9, atol=1e-9)
    close(M.hessian(x, slope, made.hessian_product(x, u), u), curved, rtol=1e-9, atol=1e-9)


def test_a_textbook_gradient_on_positive_definite_matrices() -> None:
    S = np.diag([1.0, 2.0, 3.0])
    # log det X + tr X⁻¹S in the affine-invariant metric: the gradient is X − S, the minimum S
    f = ms.objective(
        lambda X: np.linalg.slogdet(X)[1] + np.trace(np.linalg.solve(X, S)), riemannian_gradient=lambda X: X - S
    )
    result = ms.minimize(ms.Problem(SymmetricPositiveDefinite(3), f), 9 * np.eye(3))
    assert result.success
    np.testing.assert_allclose(result.x, S, atol=1e-4)


def test_riemannian_constraints_and_pymanopt() -> None:
    import pymanopt

    linear = ms.objective(lambda x: x[0], riemannian_gradient=lambda x: np.eye(4)[0] - x[0] * x)
    held = ms.Problem(Sphere(4), -1 * GIVEN, equalities=(linear,))
    assert ms.minimize(held, seed=0).fun == pytest.approx(-4, abs=1e-6)
    spd = pymanopt.manifolds.SymmetricPositiveDefinite(2)
    cost = pymanopt.function.numpy(spd)(lambda X: np.linalg.slogdet(X)[1] + np.trace(np.linalg.inv(X)))
    gradient = pymanopt.function.numpy(spd)(lambda X: X - np.eye(2))
    theirs = pymanopt.Problem(spd, cost, riemannian_gradient=gradient)
    with pytest.raises(ValueError, match="pass the Euclidean gradient"):  # their manifold tells no frame
        ms.Problem.from_pymanopt(theirs)


def test_riemannian_derivatives_raise_an_error_where_they_mean_nothing() -> None:
    with pytest.raises(TypeError, match="cannot combine Riemannian and Euclidean derivatives"):
        ms.objective(cubic, lambda x: x, riemannian_gradient=lambda x: x)
    with pytest.raises(TypeError, match="cannot combine Riemannian and Euclidean derivatives"):
        ms.objective(cubic, riemannian_hessian=lambda x, u: u)
    riemannian = ms.objective(cubic, riemannian_gradient=lambda x: x)
    with pytest.raises(ValueError, match="derivatives of the same kind"):
        riemannian + CUBIC
    assert (3 * riemannian).riemannian
    with pytest.raises(ValueError, match="return Euclidean derivatives, which sums over shards need"):
        ms.sharded(lambda data: riemannian, [partial(int, 0)])

    class Stretched(Euclidean):
        """Lengths are ten times as long: a metric that is neither embedded nor in a frame."""

        @property
        def metric(self) -> str:
            return "stretched"

        def inner(self, x: ms.Point, u: ms.Point, v: ms.Point) -> float:
            return 100 * float(np.vdot(u, v))

        def gradient(self, x: ms.Point, egrad: ms.Point) -> ms.Point:
            return egrad / 100

    with pytest.raises(ValueError, match="pass the Euclidean gradient"):
        ms.Problem(Stretched(4), riemannian)


def test_grassmann_takes_the_horizontal_gradient() -> None:
    B = np.diag([1.0, 2.0, 3.0, 4.0])
    f = ms.objective(
        lambda X: float(np.trace(X.T @ B @ X)),
        riemannian_gradient=lambda X: 2 * (B @ X - X @ (X.T @ B @ X)),
        riemannian_hessian=lambda X, U: 2 * (lambda H: H - X @ (X.T @ H))(B @ U - U @ (X.T @ B @ X)),
    )
    problem = ms.Problem(Grassmann(4, 2), f)
    assert check_hessian(problem).ok
    assert ms.minimize(problem, seed=0).fun == pytest.approx(3, abs=1e-8)
