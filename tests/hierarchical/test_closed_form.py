"""The closed form against loops, the full eigendecomposition and 50 digits; its rank, scale, and errata."""

import tracemalloc

import numpy as np
import pytest
from helpers import parametrize
from hierarchical.problems import completed, frames, means, origins, printed_F, rotation, scatters

from manifoldseq_hierarchical import SubspaceEncoder

ORIGINS = ("mean", "zero", "other")


def encoded(X, y, **params):
    return SubspaceEncoder(**params).fit(X, y)


def gains(model):
    """Return the directions of a fit, each as long as its singular value: B in -Sigma = B'B."""
    return model.singular_values_[: len(model.components_), None] * model.components_


@pytest.mark.parametrize("center", ORIGINS)
def test_objective_as_printed_and_rewritten(center):
    X, y = frames()
    mu_0, V, d = origins(X)[center], rotation(9), 9
    S_w, S_0 = scatters(X, y, mu_0)
    B = gains(encoded(X, y, center=mu_0))
    for m in range(d + 1):
        P = np.eye(d)[:, :m]
        rewritten = np.trace(P @ P.T @ V.T @ (S_w - S_0) @ V) + np.trace(V.T @ S_0 @ V)  # (6)
        short = np.trace(S_0) - np.sum((B @ V[:, :m]) ** 2)
        assert printed_F(V, m, means(X, y), mu_0, X, y) == pytest.approx(rewritten, rel=1e-12)
        assert short == pytest.approx(rewritten, rel=1e-12)


def test_trace_identity():
    d, A = 6, np.random.default_rng(0).standard_normal((6, 6))
    for m in range(d + 1):
        P, rest = np.eye(d)[:, :m], np.eye(d)[:, m:]
        assert np.trace(rest @ rest.T @ A) == pytest.approx(np.trace(A) - np.trace(P @ P.T @ A), abs=1e-14)


@pytest.mark.parametrize("center", ORIGINS)
def test_sigma_is_minus_the_gram_matrix_of_the_weighted_centroids(center):
    X, y = frames(N=300, d=12, h=6)
    mu_0 = origins(X)[center]
    S_w, S_0 = scatters(X, y, mu_0)
    B = gains(encoded(X, y, center=mu_0))
    np.testing.assert_allclose(S_w - S_0, -B.T @ B, rtol=0, atol=1e-13 * np.trace(S_0))


@pytest.mark.parametrize("center", ORIGINS)
@pytest.mark.parametrize(("N", "d", "h"), [(200, 30, 6), (200, 8, 6), (90, 5, 20)])
def test_equals_the_full_eigendecomposition(center, N, d, h):
    X, y = frames(N, d, h)
    model = encoded(X, y, center=origins(X)[center])
    S_w, S_0 = scatters(X, y, model.center_)
    eigenvalues, Q = np.linalg.eigh(S_w - S_0)
    V, m = model.components_.T, len(model.components_)
    assert m == min(h - (center == "mean"), d)
    assert model.energy_ == pytest.approx(np.trace(S_0) + eigenvalues[:m].sum(), rel=1e-12)
    found = -np.square(model.singular_values_[:m])
    np.testing.assert_allclose(found, eigenvalues[:m], rtol=0, atol=1e-12 * np.abs(eigenvalues).max())
    np.testing.assert_allclose(V @ V.T, Q[:, :m] @ Q[:, :m].T, rtol=0, atol=1e-12)
    np.testing.assert_allclose(V.T @ V, np.eye(m), rtol=0, atol=1e-13)
    np.testing.assert_allclose(model.cluster_centers_, means(X, y), rtol=0, atol=1e-13)


@pytest.mark.parametrize("center", ORIGINS)
def test_energy_is_the_printed_objective_for_any_number_of_coordinates(center):
    """(5), (6): all energy about mu_0 less what m coordinates gain is (1), summed frame by frame."""
    X, y = frames(N=80, d=7, h=4)
    mu_0 = origins(X)[center]
    curve = encoded(X, y, center=mu_0).gain_curve()
    for m in range(1, 8):
        model = encoded(X, y, center=mu_0, n_components=m)
        V = completed(model.components_.T)
        expected = printed_F(V, m, means(X, y), mu_0, X, y)
        assert model.energy_ == pytest.approx(expected, rel=1e-12)
        assert m >= len(curve) or curve[m] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("method", ["closed-form", "eigh"])
@pytest.mark.parametrize("center", ORIGINS)
def test_components_are_axes_in_the_eigenbasis_of_sigma(center, method):
    """(9)-(12): in coordinates z = Q' v the columns of V are the first unit vectors, with the eigenvalues as gains."""
    X, y = frames(N=150, d=10, h=4)
    model = encoded(X, y, center=origins(X)[center], method=method, n_components=3)
    S_w, S_0 = scatters(X, y, model.center_)
    eigenvalues, Q = np.linalg.eigh(S_w - S_0)
    np.testing.assert_allclose(np.abs(Q.T @ model.components_.T), np.eye(10, 3), rtol=0, atol=1e-11)
    np.testing.assert_allclose(model.singular_values_[:3], np.sqrt(-eigenvalues[:3]), rtol=1e-11)


def test_columns_are_nested_solutions():
    X, y = frames(d=20, h=7)
    whole = encoded(X, y)
    for m in range(1, 7):
        part = encoded(X, y, n_components=m)
        np.testing.assert_array_equal(part.components_, whole.components_[:m])
        assert part.energy_ == pytest.approx(whole.gain_curve()[m], rel=1e-13)


def test_no_random_rotation_is_better():
    X, y = frames(d=12, h=4)
    model = encoded(X, y)
    B = gains(model)
    random = np.linalg.qr(np.random.default_rng(0).standard_normal((1000, 12, 3)))[0]
    values = model.scatter_ - np.sum((B @ random) ** 2, axis=(1, 2))
    assert values.min() > model.energy_


@pytest.mark.parametrize("center", ORIGINS)
def test_optimum_is_the_within_class_scatter_whatever_the_origin(center):
    X, y = frames(d=15, h=6)
    model = encoded(X, y, center=origins(X)[center])
    assert model.energy_ == pytest.approx(np.trace(scatters(X, y, model.center_)[0]), rel=1e-12)
    curve, m = model.gain_curve(), len(model.components_)
    assert (np.diff(curve[: m + 1]) < 0).all()
    np.testing.assert_allclose(curve[m:], model.energy_, rtol=1e-12)
    rest = completed(model.components_.T)
    for k in range(m, 16):
        assert printed_F(rest, k, means(X, y), model.center_, X, y) == pytest.approx(model.energy_, rel=1e-12)


def test_value_is_the_same_for_rotations_within_the_two_parts():
    X, y = frames(d=10, h=4)
    model = encoded(X, y)
    V = model.rotation()
    turned = V @ np.block([[rotation(3), np.zeros((3, 7))], [np.zeros((7, 3)), rotation(7, 1)]])
    mu, mu_0 = model.cluster_centers_, model.center_
    assert printed_F(turned, 3, mu, mu_0, X, y) == pytest.approx(printed_F(V, 3, mu, mu_0, X, y), rel=1e-12)


def test_rotated_and_moved_frames():
    X, y = frames(d=10, h=4)
    R, away = rotation(10, 2), np.linspace(-5, 5, 10)
    one, other = encoded(X, y), encoded(X @ R.T + away, y)
    assert other.energy_ == pytest.approx(one.energy_, rel=1e-12)
    first, second = R @ one.components_.T, other.components_.T
    np.testing.assert_allclose(first @ first.T, second @ second.T, rtol=0, atol=1e-12)


CLASSES = {
    "general": (np.random.default_rng(1).standard_normal((6, 20)), 5, 6),
    "a plane, few features": (
        np.random.default_rng(2).standard_normal((6, 2)) @ np.random.default_rng(3).standard_normal((2, 8)) + 1,
        2,
        3,
    ),
    "few features": (np.random.default_rng(1).standard_normal((6, 3)), 3, 3),
    "collinear": (np.outer([1.0, 2.0, 4.0, -3.0], np.linspace(1, 2, 20)) + 1, 1, 2),
    "duplicates": (np.repeat(np.random.default_rng(1).standard_normal((3, 20)), 2, axis=0), 2, 3),
}


@parametrize("scale", [1e-3, 1.0, 1e3], fast=1)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("case", CLASSES)
def test_number_of_coordinates(case, dtype, scale):
    """The frames of each class are balanced about its centroid, so that class means are these to rounding."""
    centroids, of_mean, of_zero = CLASSES[case]
    h, d = centroids.shape
    noise = np.random.default_rng(0).standard_normal((h, 15, d))
    X = (centroids[:, None] + np.concatenate([noise, -noise], axis=1)).reshape(-1, d)
    y = np.repeat(np.arange(h), 30)
    for turn in (np.eye(d), rotation(d)):
        data = (scale * X @ turn).astype(dtype)
        assert len(encoded(data, y).components_) == of_mean
        assert len(encoded(data, y, center=False).components_) == of_zero


@parametrize("dtype", [np.float64, np.float32], fast=1)
@pytest.mark.parametrize("d", [64, 1024, 4096])
def test_number_of_coordinates_at_every_scale_and_offset(dtype, d):
    X, y = frames(1000, d, 10)
    for scale in (1e-3, 1.0, 1e3):
        assert len(encoded((scale * X).astype(dtype), y).components_) == 9
        assert len(encoded((scale * (X + 100)).astype(dtype), y).components_) == 9


def test_the_printed_count_of_negative_eigenvalues_counts_rounding():
    X, y = frames(2000, 64, 10)
    printed, ours = encoded(X, y, method="eigh"), encoded(X, y)
    assert len(ours.components_) == 9 < 15 < len(printed.components_)
    assert printed.energy_ == pytest.approx(ours.energy_, rel=1e-12)
    np.testing.assert_allclose(np.abs(printed.components_[:9] @ ours.components_.T).max(axis=1), 1, atol=1e-9)


def test_nearest_centroid_in_the_coordinates_is_the_nearest_one():
    X, y = frames(2000, 40, 12, spread=0.5)
    model = encoded(X, y)
    distances = np.square(X[:, None] - model.cluster_centers_).sum(axis=2)
    np.testing.assert_array_equal(model.predict(X), distances.argmin(axis=1))


def test_no_matrix_of_the_size_of_the_features_squared():
    d, h = 20_000, 50
    X, y = frames(200, d, h)
    tracemalloc.start()
    SubspaceEncoder().fit(X, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10 * h * d * 8
