"""The update formulas of the LDS paper as printed, (12) and (16)–(18) with their theorems, against the engine."""

from __future__ import annotations

import helpers
import numpy as np
import pytest

import manifoldseq as ms


def printed_cayley(X: np.ndarray, gradient: np.ndarray, tau: float) -> np.ndarray:
    """(16), (17): X - tau L (I + tau/2 R'L)^-1 R'X with L = [gradient, X], R = [X, -gradient]."""
    L, R = np.hstack([gradient, X]), np.hstack([X, -gradient])
    return X - tau * L @ np.linalg.inv(np.eye(L.shape[1]) + tau / 2 * R.T @ L) @ R.T @ X


@pytest.mark.parametrize("manifold", [ms.manifolds.Orthogonal(4), ms.manifolds.Stiefel(11, 4)], ids=["16", "17"])
def test_cayley_update_is_the_printed_one_and_stays_on_the_manifold(manifold: ms.manifolds.Manifold) -> None:
    rng = helpers.rng(1)
    X = manifold.random_point(rng)
    gradient = rng.standard_normal(X.shape)
    for tau in (0.01, 0.1, 1.0):
        moved = manifold.descent_curve(X, gradient)(tau)
        np.testing.assert_allclose(moved, printed_cayley(X, gradient, tau), atol=1e-12)
        np.testing.assert_allclose(moved, ms.linalg.cayley(X, gradient, tau), atol=1e-14)
        assert manifold.feasibility(moved) < 1e-13


def test_slope_of_the_cayley_curve_is_minus_half_the_squared_generator() -> None:
    rng = helpers.rng(2)
    X = ms.manifolds.Stiefel(9, 3).random_point(rng)
    gradient = rng.standard_normal(X.shape)
    generator = gradient @ X.T - X @ gradient.T
    tau = 1e-5
    change = ms.linalg.cayley(X, gradient, tau) - ms.linalg.cayley(X, gradient, -tau)
    slope = np.vdot(gradient, change) / (2 * tau)
    assert slope == pytest.approx(-0.5 * np.linalg.norm(generator) ** 2, rel=1e-6)


@pytest.mark.parametrize("tau", [0.01, 0.3, 5.0])
def test_bound_normalization_is_the_printed_one(tau: float) -> None:
    rng, bound = helpers.rng(3), 0.99
    lam, gradient = rng.uniform(-bound, bound, 50), rng.standard_normal(50)
    moved = lam - tau * gradient
    # printed as eps / max(eps, |.|) * (.)
    printed = bound / np.maximum(bound, np.abs(moved)) * moved
    for manifold in (ms.manifolds.BoundedDiagonal(50, bound), ms.manifolds.BoundedDiagonal(50)):  # 0.99 unless given
        np.testing.assert_allclose(manifold.descent_curve(lam, gradient)(tau), printed, rtol=0, atol=1e-15)


@pytest.mark.parametrize("tau", [1e-3, 0.1, 10.0])
def test_bound_normalization_moves_along_a_descent_direction(tau: float) -> None:
    """Theorem 5: no entry moves against its own gradient, so the inner product with it is negative."""
    rng = helpers.rng(4)
    manifold = ms.manifolds.BoundedDiagonal(20)
    lam, gradient = manifold.random_point(rng), rng.standard_normal(20)
    lam[:3] = manifold.bound * -np.sign(gradient[:3])  # active bounds
    direction = manifold.descent_curve(lam, gradient)(tau) - lam
    assert np.all(direction * gradient <= 0)
    assert np.vdot(direction, gradient) < 0


@pytest.mark.parametrize(("m", "n"), [(7, 3), (4, 4), (30, 10)])
def test_canonical_space_has_dimension_mn(m: int, n: int) -> None:
    """Remark 2: m n, against m n + n (n - 1) / 2 of the tuples (A, C) with orthonormal C."""
    assert ms.manifolds.CanonicalLDS(m, n).dim == m * n


def test_bound_on_lambda_ensures_stability() -> None:
    """Remark 3: rho(diag(lam) V) <= max |lam| < 1."""
    manifold, rng = ms.manifolds.CanonicalLDS(6, 4, 0.99), helpers.rng(5)
    for _ in range(50):
        lam, V, U = manifold.random_point(rng)
        for x in (
            (lam, V, U),
            manifold.nearest((3 * lam, V, U)),
            manifold.descent_curve((lam, V, U), (5 * lam, V, U))(1),
        ):
            radius = np.abs(np.linalg.eigvals(np.diag(x[0]) @ x[1])).max()
            assert radius <= np.abs(x[0]).max() + 1e-12 < 1
    for bound in (1, 1.5, np.inf):  # diag(lam) V with V = I would not be stable
        with pytest.raises(ValueError, match="bound must be a positive number below 1"):
            ms.manifolds.CanonicalLDS(6, 4, bound)


def test_one_step_of_algorithm_1() -> None:
    """All gradients at one point, then V, U by Cayley and lam by bound normalization, each at its own rate."""
    rng, manifold = helpers.rng(6), ms.manifolds.CanonicalLDS(6, 3)
    target, start = manifold.random_point(rng), manifold.random_point(rng)

    def cost(x: tuple[np.ndarray, ...]) -> float:
        return sum(float(((a - b) ** 2).sum()) for a, b in zip(x, target, strict=True))

    def gradient(x: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
        return tuple(2 * (a - b) for a, b in zip(x, target, strict=True))

    problem = ms.Problem(manifold, ms.objective(cost, gradient))
    solver = ms.get_solver("pgd", step_size=(0.1, 0.2, 0.3), backtracking=False)
    result = ms.minimize(problem, start, solver=solver, stop=ms.MaxIterations(1))
    (lam, V, U), (glam, gV, gU) = start, gradient(start)
    expected = np.clip(lam - 0.1 * glam, -0.99, 0.99), printed_cayley(V, gV, 0.2), printed_cayley(U, gU, 0.3)
    for got, want in zip(result.x, expected, strict=True):
        np.testing.assert_allclose(got, want, atol=1e-12)
