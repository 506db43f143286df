"""The pure function: its derivatives against differences and closed forms, inside of jit, vmap and lax.map."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from helpers import needs, parametrize

import manifoldseq as ms

pytestmark = needs("jax")

jax = pytest.importorskip("jax", reason="manifoldseq-jax is not installed")
jnp = jax.numpy

from jax_costs import brockett, mixed, procrustes  # noqa: E402

import manifoldseq_jax as mj  # noqa: E402

M = ms.manifolds
TIGHT = ms.GradientNorm(1e-11) | ms.MaxIterations(3000)
RNG = np.random.default_rng(0)
STARTS = {
    "stiefel": M.Stiefel(5, 2).random_point(np.random.default_rng(1)),
    "product": M.Product(M.Orthogonal(3), M.Positive(2), M.Sphere(2)).random_point(np.random.default_rng(3)),
}


@pytest.fixture(autouse=True)
def double_precision() -> Any:
    with jax.enable_x64(True):
        yield


def symmetric(A: np.ndarray) -> np.ndarray:
    return A + A.T


def eigenvalue(x: Any, A: Any) -> Any:
    return x @ A @ x


def spread(X: Any, w: Any, S: Any) -> Any:
    """The weighted sum of squared affine-invariant distances, whose minimum is the weighted mean."""
    L = jnp.linalg.cholesky(X)

    def distance(C: Any) -> Any:
        half = jax.scipy.linalg.solve_triangular(L, C, lower=True)
        return jnp.sum(jnp.log(jnp.linalg.eigvalsh(jax.scipy.linalg.solve_triangular(L, half.T, lower=True))) ** 2)

    return jnp.sum(w * jax.vmap(distance)(S))


def ridge(x: Any, a: Any) -> Any:
    return jnp.sum(jnp.arange(1.0, 5.0) * (x - a) ** 2) + 0.1 * jnp.sum(x) ** 2


POINTS = np.stack([a @ a.T + np.eye(3) for a in RNG.standard_normal((4, 3, 3))])
WEIGHTS = RNG.standard_normal((5, 2))
SIX: dict[str, tuple[Any, Any, Any, Any, tuple[Any, ...]]] = {
    "rayleigh": (eigenvalue, M.Sphere(4), np.full(4, 0.5), symmetric(RNG.standard_normal((4, 4))), ()),
    "brockett": (
        brockett,
        M.Stiefel(5, 2),
        STARTS["stiefel"],
        symmetric(RNG.standard_normal((5, 5))),
        (np.array([1.0, 2.0]),),
    ),
    "procrustes": (
        procrustes,
        M.Stiefel(5, 2),
        STARTS["stiefel"],
        RNG.standard_normal((8, 5)),
        (WEIGHTS.repeat(2, 0)[:8],),
    ),
    "spd": (spread, M.SymmetricPositiveDefinite(3), np.eye(3), np.array([0.1, 0.2, 0.3, 0.4]), (POINTS,)),
    "product": (
        mixed,
        M.Product(M.Orthogonal(3), M.Positive(2), M.Sphere(2)),
        STARTS["product"],
        RNG.standard_normal((3, 3)),
        (),
    ),
    "box": (ridge, M.BoundedDiagonal(4, bound=0.9), np.zeros(4), np.array([0.3, 2.0, -0.2, -3.0]), ()),
}


def loss_of(name: str, stop: Any) -> Callable[[Any], Any]:
    cost, manifold, start, _, rest = SIX[name]

    def loss(theta: Any) -> Any:
        found = mj.minimize(cost, manifold, start, theta, *rest, stop=stop)
        leaves = jax.tree.leaves(found.x)
        return sum(jnp.sum(jnp.sin(3 * leaf + k)) for k, leaf in enumerate(leaves)) + found.fun

    return loss


def differences(f: Callable[[Any], Any], theta: np.ndarray, h: float = 1e-4) -> np.ndarray:
    """Differences of fourth order."""
    out = np.zeros_like(theta)
    for i in np.ndindex(*theta.shape):
        e = np.zeros_like(theta)
        e[i] = h
        out[i] = (8 * (f(theta + e) - f(theta - e)) - (f(theta + 2 * e) - f(theta - 2 * e))) / (12 * h)
    return out


@parametrize("name", SIX, fast=1)
def test_implicit_gradients_are_those_of_differences(name: str) -> None:
    theta = SIX[name][3]
    gradient = np.asarray(jax.jit(jax.grad(loss_of(name, None)))(theta))  # of the default rule
    expected = differences(jax.jit(loss_of(name, TIGHT)), theta)
    assert np.abs(gradient - expected).max() <= 1e-6 * np.abs(expected).max()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["rayleigh", "spd", "product"])
def test_forward_mode_and_vmap_agree_with_reverse_mode(name: str) -> None:
    theta = SIX[name][3]
    loss = loss_of(name, None)
    gradient = jax.jit(jax.grad(loss))(theta)
    way = np.random.default_rng(1).standard_normal(theta.shape)
    _, slope = jax.jit(lambda t, w: jax.jvp(loss, (t,), (w,)))(theta, way)
    assert float(slope) == pytest.approx(float((gradient * way).sum()), rel=1e-8)
    several = jax.jit(jax.vmap(jax.grad(loss)))(np.stack([theta, theta + 0.01]))
    np.testing.assert_allclose(several[0], gradient, rtol=1e-7, atol=1e-9)


def test_eigenvector_of_a_matrix() -> None:
    """dλ/dA = v vᵀ; dv = (λ − A)⁺ dA v."""
    A = symmetric(np.random.default_rng(2).standard_normal((4, 4)))
    w, V = np.linalg.eigh(A)
    dA = symmetric(np.random.default_rng(3).standard_normal((4, 4)))

    def run(A: Any) -> Any:
        return mj.minimize(eigenvalue, M.Sphere(4), np.full(4, 0.5), A)

    found, change = jax.jit(lambda A, dA: jax.jvp(run, (A,), (dA,)))(A, dA)
    v = V[:, 0] * np.sign(V[:, 0] @ np.asarray(found.x))
    assert mj.status(found.status) is ms.Status.CONVERGED and bool(found.success)
    assert float(found.fun) == pytest.approx(w[0], rel=1e-9)
    assert float(change.fun) == pytest.approx(v @ dA @ v, rel=1e-8)
    expected = np.linalg.pinv(w[0] * np.eye(4) - A, rcond=1e-9) @ dA @ v
    np.testing.assert_allclose(change.x, expected, rtol=1e-6, atol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["lbfgs", "bb", "tr"])
def test_batches_and_limits_and_saddles(method: str) -> None:
    A = np.stack([symmetric(a) for a in np.random.default_rng(4).standard_normal((6, 4, 4))])

    def run(A: Any, **more: Any) -> Any:
        return mj.minimize(eigenvalue, M.Sphere(4), np.full(4, 0.5), A, method=method, **more)

    mapped, rows = jax.lax.map(run, A), jax.vmap(run)(A)
    for found in (mapped, rows):
        assert bool(jnp.all(found.success))
        np.testing.assert_allclose(found.fun, np.linalg.eigvalsh(A)[:, 0], rtol=1e-9)
    limited = run(A[0], stop=ms.MaxIterations(2))
    assert mj.status(limited.status) is ms.Status.MAX_ITERATIONS and int(limited.nit) == 2 and not limited.success
    diagonal = np.diag([1.0, 2.0, 3.0, 4.0])
    left = mj.minimize(eigenvalue, M.Sphere(4), np.eye(4)[3], diagonal, method=method)
    assert bool(left.success) and float(left.fun) == pytest.approx(1.0, abs=1e-9)
    wild = mj.minimize(lambda x: jnp.log(x[0] - 2), M.Sphere(4), np.eye(4)[3], method=method)
    assert mj.status(wild.status) is ms.Status.NON_FINITE


def test_many_problems_at_once_are_solved() -> None:
    """Reductions of large arrays leave NaN out on the CPU: the window of the last values, which begins with NaN."""
    A = np.stack([symmetric(a) for a in np.random.default_rng(5).standard_normal((600, 4, 4))])
    starts = np.random.default_rng(6).standard_normal((600, 4))
    starts /= np.linalg.norm(starts, axis=1, keepdims=True)
    found = jax.jit(jax.vmap(lambda x, A: mj.minimize(eigenvalue, M.Sphere(4), x, A)))(starts, A)
    assert bool(jnp.all(found.success))
    np.testing.assert_allclose(found.fun, np.linalg.eigvalsh(A)[:, 0], rtol=1e-8)


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(ValueError, match="method='newton' is not known: choose 'lbfgs', 'bb', 'tr'"):
        mj.minimize(eigenvalue, M.Sphere(2), np.eye(2)[0], np.eye(2), method="newton")
    with pytest.raises(ValueError, match="cannot be compiled"):
        mj.minimize(eigenvalue, M.Sphere(2), np.eye(2)[0], np.eye(2), stop=ms.MaxTime(1.0))
