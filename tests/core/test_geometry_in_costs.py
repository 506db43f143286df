"""Exponential, logarithm and distance inside costs: gradients and Hessian products by differences; robust means."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import pytest

import manifoldseq as ms
from manifoldseq.linalg import flatten, tree_map
from manifoldseq.manifolds import (
    Euclidean,
    Hyperbolic,
    Oblique,
    Positive,
    Power,
    Product,
    Simplex,
    SpecialEuclidean,
    SpecialOrthogonal,
    Sphere,
    SymmetricPositiveDefinite,
)

anp: Any = import_module("autograd.numpy")
MANIFOLDS: list[Any] = [
    Euclidean(3), Sphere(4), SpecialOrthogonal(3), SymmetricPositiveDefinite(3), Hyperbolic(3), Positive(3), Simplex(4),
    Oblique(3, 2), SpecialEuclidean(2), Power(Sphere(3), 3), Product(Sphere(3), Positive(2)),
]  # fmt: skip


def points(M: Any) -> tuple[Any, Any, np.ndarray]:
    """Return two points at a moderate distance, and weights of the entries of a vector."""
    rng = np.random.default_rng(0)
    x = M.random_point(rng)
    y = M.exp(x, tree_map(lambda leaf: 0.3 * leaf, M.random_tangent(x, rng)))
    return x, y, rng.standard_normal(flatten(x).size)


def flat(M: Any, u: Any, np_: Any) -> Any:
    parts = [u[k] for k in range(len(M.shape))] if isinstance(M.shape[0], tuple) else [u]
    return np_.concatenate([np_.reshape(part, (-1,)) for part in parts])


def costs(M: Any, y: Any, W: np.ndarray, np_: Any) -> dict[str, Any]:
    return {
        "dist": lambda x: M.dist(x, y),
        "dist²": lambda x: M.dist(y, x) ** 2,
        "log": lambda x: np_.sum(W * flat(M, M.log(x, y), np_)),
        "log of": lambda x: np_.sum(W * flat(M, M.log(y, x), np_) ** 2),
        "exp": lambda x: np_.sum(np_.sin(W * flat(M, M.exp(y, M.log(y, x)), np_))),
    }


@pytest.mark.parametrize("M", MANIFOLDS, ids=str)
def test_gradients_are_those_of_differences(M: Any) -> None:
    x, y, W = points(M)
    for name, cost in costs(M, y, W, anp).items():
        report = ms.testing.check_gradient(ms.Problem(M, cost), x)
        assert report.ok, f"{name}: {report}"


@pytest.mark.parametrize(
    "M", [Sphere(4), SpecialOrthogonal(3), SymmetricPositiveDefinite(2), Power(Sphere(3), 2)], ids=str
)
def test_hessian_products_are_differences_of_gradients(M: Any) -> None:
    x, y, W = points(M)
    u = M.random_tangent(x, np.random.default_rng(1))
    for name, cost in list(costs(M, y, W, anp).items())[:3]:
        f, h = ms.Problem(M, cost).objective, 1e-4

        def gradient(t: float, f: Any = f) -> np.ndarray:
            z = M.retract(x, tree_map(lambda leaf: t * leaf, u))
            return flatten(M.transport(z, x, M.gradient(z, f.value_and_gradient(z)[1])))

        assert f.value_and_gradient is not None and f.hessian_product is not None
        bent = M.hessian(x, f.value_and_gradient(x)[1], f.hessian_product(x, u), u)
        if M.metric == "embedded":  # elsewhere the projection of a vector is no parallel transport
            np.testing.assert_allclose(flatten(bent), (gradient(h) - gradient(-h)) / (2 * h), atol=1e-5, err_msg=name)
        else:
            v = M.random_tangent(x, np.random.default_rng(2))
            other = M.hessian(x, f.value_and_gradient(x)[1], f.hessian_product(x, v), v)
            assert M.inner(x, bent, v) == pytest.approx(M.inner(x, other, u), abs=1e-5), "it is symmetric"


@pytest.mark.parametrize("M", MANIFOLDS, ids=str)
def test_the_gradient_at_coincident_points_is_finite(M: Any) -> None:
    _, y, _ = points(M)
    for cost in (lambda x: M.dist(x, y), lambda x: M.dist(x, y) ** 2):
        value, gradient = ms.Problem(M, cost).objective.value_and_gradient(y)  # type: ignore[misc]
        assert value == pytest.approx(0, abs=1e-7) and np.abs(flatten(gradient)).max() <= 1e-6


def test_a_cost_of_distances_is_minimized() -> None:
    M, rng = Sphere(3), np.random.default_rng(0)
    data = [M.random_point(rng) for _ in range(5)]
    data = [point * np.sign(point @ data[0]) for point in data]
    result = ms.minimize(ms.Problem(M, lambda x: sum(M.dist(x, point) ** 2 for point in data)), data[0])
    assert result.success
    np.testing.assert_allclose(result.x, ms.frechet_mean(M, np.stack(data)), atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("M", [Sphere(4), SymmetricPositiveDefinite(2), SpecialEuclidean(2)], ids=str)
def test_jax_has_the_derivatives_of_autograd(M: Any) -> None:
    jnp: Any = pytest.importorskip("jax.numpy")
    x, y, W = points(M)
    u = M.random_tangent(x, np.random.default_rng(1))
    ours = costs(M, y, W, anp)
    for name, cost in costs(M, y, W, jnp).items():
        a, b = ms.objective(cost, backend="jax"), ms.objective(ours[name])
        (va, ga), (vb, gb) = a.value_and_gradient(x), b.value_and_gradient(x)  # type: ignore[misc]
        assert va == pytest.approx(vb, rel=1e-10)
        np.testing.assert_allclose(flatten(ga), flatten(gb), atol=1e-9, err_msg=name)
        if name == "dist²":
            # forward and reverse differentiation agree in the tangent space only
            one, other = (flatten(M.hessian(x, ga, f.hessian_product(x, u), u)) for f in (a, b))  # type: ignore[misc]
            np.testing.assert_allclose(one, other, atol=1e-7)


@pytest.mark.parametrize("M", [Euclidean(2), Sphere(3), SpecialOrthogonal(3), SymmetricPositiveDefinite(2)], ids=str)
def test_robust_means_are_not_pulled_away(M: Any) -> None:
    rng = np.random.default_rng(0)
    centre = M.random_point(rng)
    near = [M.exp(centre, 0.05 * M.random_tangent(centre, rng)) for _ in range(20)]
    far = [M.exp(centre, tree_map(lambda leaf: leaf * 1.5 / np.linalg.norm(leaf), M.random_tangent(centre, rng)))] * 3
    data = np.stack([*near, *far])
    plain, robust = ms.frechet_mean(M, data), ms.frechet_mean(M, data, loss=ms.losses.Cauchy(0.1))
    clean = ms.frechet_mean(M, np.stack(near))
    assert M.dist(robust, clean) < 0.03 < M.dist(plain, clean)
    # stationary for the objective that the documentation states
    logs = M.log(np.broadcast_to(robust, data.shape), data)
    weights = ms.losses.Cauchy(0.1)(np.array([M.inner(robust, u, u) for u in logs]))[1]
    assert np.linalg.norm(np.tensordot(weights, logs, axes=1)) < 1e-7


def test_a_median_by_a_small_scale() -> None:
    rng = np.random.default_rng(0)
    data = rng.standard_normal((51, 2)) ** 3
    x = ms.frechet_mean(Euclidean(2), data, loss=ms.losses.Huber(1e-4))
    total = lambda z: np.linalg.norm(data - z, axis=1).sum()  # noqa: E731
    assert all(total(x) <= total(x + step) + 1e-4 for step in 0.05 * rng.standard_normal((100, 2)))
