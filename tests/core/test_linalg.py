"""Polar factors and Cayley curves against scipy and dense formulas."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.linalg
from core.cases import slope
from helpers import parametrize
from hypothesis import given
from hypothesis import strategies as st

import manifoldseq as ms
from manifoldseq.linalg import cayley, flatten, polar, unflattener
from manifoldseq.objectives import Counter


def with_condition(n: int, p: int, condition: float, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    U = scipy.linalg.qr(rng.standard_normal((n, p)), mode="economic")[0]
    V = scipy.linalg.qr(rng.standard_normal((p, p)))[0]
    return U * np.geomspace(1.0, 1.0 / condition, p) @ V.T


@parametrize("condition", [1.0, 1.9, 10.0, 1e3, 1e4, 1e6, 1e10], fast=3)
@pytest.mark.parametrize("shape", [(3, 3), (8, 3), (60, 5)])
@parametrize("scale", [1e-120, 1.0, 1e120], fast=1)
def test_polar_of_ill_conditioned_matrices(shape: tuple[int, int], condition: float, scale: float) -> None:
    M = scale * with_condition(*shape, condition)
    P = polar(M)
    assert np.abs(P.T @ P - np.eye(shape[1])).max() < 1e-13
    assert np.abs(P - scipy.linalg.polar(M)[0]).max() < 1e-14 * condition + 1e-13
    np.testing.assert_array_equal(P, polar(M.copy()))


@given(st.integers(1, 6), st.integers(0, 4), st.integers(0, 2**32 - 1))
def test_polar_against_scipy(p: int, more: int, seed: int) -> None:
    M = np.random.default_rng(seed).standard_normal((p + more, p))
    condition = np.linalg.cond(M)
    np.testing.assert_allclose(polar(M), scipy.linalg.polar(M)[0], atol=1e-14 * condition + 1e-13)


def test_polar_broadcasts_and_keeps_dtype() -> None:
    M = np.random.default_rng(0).standard_normal((2, 3, 5, 2))
    M[1, 2] = with_condition(5, 2, 1e9)  # one ill-conditioned matrix changes the others by rounding only
    for index in np.ndindex(2, 3):
        np.testing.assert_allclose(
            polar(M)[index], scipy.linalg.polar(M[index])[0], atol=1e-6 if index == (1, 2) else 1e-13
        )
    single = polar(M.astype(np.float32))
    assert single.dtype == np.float32
    assert np.abs(single.swapaxes(-1, -2) @ single - np.eye(2)).max() < 1e-6


@pytest.mark.parametrize("length", [0.1, 0.6, 1.5, 6.0])
@pytest.mark.parametrize("shape", [(40, 20), (16, 16), (8, 6, 3), (8, 3, 3)])
def test_polar_after_steps_of_any_length(shape: tuple[int, ...], length: float) -> None:
    rng = np.random.default_rng(0)
    X = np.linalg.qr(rng.standard_normal(shape))[0]
    U = rng.standard_normal(shape)
    U -= X @ (X.mT @ U + U.mT @ X) / 2
    lengths = length * np.linspace(0.01, 1, 8)[:, None, None] if len(shape) > 2 else length
    M = X + lengths * U / np.linalg.norm(U, axis=(-2, -1), keepdims=True)
    for scaled in (M, 1e3 * M, 1e-3 * M):
        P = polar(scaled)
        expected = [scipy.linalg.polar(one)[0] for one in scaled.reshape(-1, *shape[-2:])]
        np.testing.assert_allclose(P.reshape(-1, *shape[-2:]), expected, atol=2e-14)
        assert np.abs(P.mT @ P - np.eye(shape[-1])).max() < 5e-15


@pytest.mark.parametrize("M", [np.zeros((4, 2)), np.ones((4, 2)), np.diag([1.0, 0.0])])
def test_polar_of_a_rank_deficient_matrix_is_orthonormal(M: np.ndarray) -> None:
    P = polar(M)
    np.testing.assert_allclose(P.T @ P, np.eye(2), atol=1e-12)


def test_polar_rejects_a_wide_matrix() -> None:
    with pytest.raises(ValueError, match=r"shape \(2, 3\) of dtype"):
        polar(np.ones((2, 3)))


def dense(X: np.ndarray, G: np.ndarray, tau: float) -> np.ndarray:
    W = G @ X.T - X @ G.T
    return scipy.linalg.solve(np.eye(len(X)) + tau / 2 * W, (np.eye(len(X)) - tau / 2 * W) @ X)


@pytest.mark.parametrize("shape", [(1, 1), (4, 4), (5, 3), (6, 3), (7, 3), (40, 3), (100, 1)])
@pytest.mark.parametrize("tau", [-0.7, 0.0, 1e-3, 0.5])
def test_cayley_against_the_dense_formula(shape: tuple[int, int], tau: float) -> None:
    rng = np.random.default_rng(0)
    X = scipy.linalg.qr(rng.standard_normal(shape), mode="economic")[0]
    G = rng.standard_normal(shape)
    assert np.abs(cayley(X, G, tau) - dense(X, G, tau)).max() <= 1e-13


def test_cayley_broadcasts() -> None:
    rng = np.random.default_rng(0)
    X = np.stack([scipy.linalg.qr(rng.standard_normal((9, 2)), mode="economic")[0] for _ in range(3)])
    G = rng.standard_normal(X.shape)
    expected = np.stack([dense(x, g, 0.2) for x, g in zip(X, G, strict=True)])
    np.testing.assert_allclose(cayley(X, G, 0.2), expected, atol=1e-13)


@pytest.mark.parametrize("shape", [(5, 4), (30, 3)])
def test_cayley_descends_with_the_slope_of_its_generator(shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(0)
    X = scipy.linalg.qr(rng.standard_normal(shape), mode="economic")[0]
    G = rng.standard_normal(shape)
    W = G @ X.T - X @ G.T
    promised = -0.5 * np.sum(W * W)
    assert slope(lambda t: abs(np.sum(G * (cayley(X, G, t) - X)) - t * promised)) > 1.9


@parametrize(
    ("shape", "dtype", "limit"), [((3, 3), float, 1e-12), ((12, 3), float, 1e-12), ((12, 3), np.float32, 3e-6)], fast=1
)
def test_cayley_stays_orthonormal_over_20000_steps(shape: tuple[int, int], dtype: Any, limit: float) -> None:
    rng = np.random.default_rng(0)
    X = scipy.linalg.qr(rng.standard_normal(shape), mode="economic")[0].astype(dtype)
    gradients = rng.standard_normal((50, *shape)).astype(dtype)
    worst = 0.0
    for k in range(20_000):
        X = cayley(X, gradients[k % 50], 0.1)
        if k % 500 == 499:
            worst = max(worst, float(np.abs(X.T.astype(float) @ X - np.eye(shape[1])).max()))
    assert X.dtype == dtype and worst <= limit


trees = st.recursive(
    st.tuples(st.integers(1, 3), st.integers(1, 3)).map(lambda shape: np.arange(float(np.prod(shape))).reshape(shape)),
    lambda parts: st.lists(parts, min_size=1, max_size=3).map(tuple),
    max_leaves=5,
)


@given(trees)
def test_flat_vectors_and_trees(tree: Any) -> None:
    flat = flatten(tree)
    again = unflattener(tree)(flat)
    assert flat.ndim == 1
    assert repr(again) == repr(tree)
    seen: list[Any] = []
    objective = Counter().wrap(ms.objective(lambda x: float(bool(seen.append(x))), lambda x: x))
    for _ in range(2):
        objective.value(tree)
    assert all(frozen is tree for frozen in seen) and len(seen) == 2
    with pytest.raises(ValueError, match="read-only"):
        flatten(_first(tree))[0] = 1.0


def _first(tree: Any) -> Any:
    return _first(tree[0]) if isinstance(tree, tuple) else tree


def test_public_names() -> None:
    assert {"polar", "cayley", "stein", "stein_adjoint", "gramians"} <= set(ms.linalg.__all__)


def by_qr(M: np.ndarray) -> np.ndarray:
    """Return the retraction by QR that leads from the zero matrix to M."""
    return ms.manifolds.Stiefel(*M.shape[-2:]).retract(np.zeros_like(M), M, "qr")


@pytest.mark.parametrize("shape", [(40, 6), (12, 12), (5, 1)])
@parametrize("step", [0.0, *(10.0**k for k in range(-9, 1))], fast=3)
def test_factors_of_a_point_after_a_step(shape: tuple[int, int], step: float) -> None:
    """Every length of the series, and what comes after it; QR with one and two passes."""
    rng = np.random.default_rng(7)
    X = scipy.linalg.qr(rng.standard_normal(shape), mode="economic")[0]
    U = rng.standard_normal(shape)
    M = X + step * (U - X @ (X.T @ U + U.T @ X) / 2)
    P, Q = polar(M), by_qr(M)
    for factor in (P, Q):
        assert np.abs(factor.T @ factor - np.eye(shape[1])).max() < 4e-15
    np.testing.assert_allclose(P, scipy.linalg.polar(M)[0], atol=4e-15)
    dense, R = scipy.linalg.qr(M, mode="economic")
    np.testing.assert_allclose(Q, dense * np.sign(np.diag(R)), atol=1e-14)
    batch = np.stack([M, X])
    np.testing.assert_allclose(polar(batch)[0], P, atol=4e-15)
    np.testing.assert_allclose(by_qr(batch)[0], Q, atol=1e-14)


@pytest.mark.parametrize("condition", [1e3, 1e6, 1e9])
def test_qr_of_ill_conditioned_matrices(condition: float) -> None:
    M = with_condition(20, 4, condition)
    Q = by_qr(M)
    assert np.abs(Q.T @ Q - np.eye(4)).max() < 1e-14
    R = Q.T @ M
    assert np.abs(np.tril(R, -1)).max() < 1e-14 and np.diag(R).min() > 0
    single = by_qr(M.astype(np.float32))
    assert single.dtype == np.float32 and np.abs(single.T @ single - np.eye(4)).max() < 1e-6


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_projection_is_that_of_the_formula(dtype: type) -> None:
    rng = np.random.default_rng(8)
    M = ms.manifolds.Stiefel(9, 3)
    x, u = M.random_point(rng, dtype), rng.standard_normal((9, 3)).astype(dtype)
    for order in ("C", "F"):
        kept = np.array(u, order=order)
        got = M.project(x, kept)
        assert got.dtype == dtype and np.array_equal(kept, u)
        tolerance = 10 * np.finfo(dtype).eps
        np.testing.assert_allclose(got, u - x @ (x.T @ u + u.T @ x) / 2, atol=tolerance)
