"""Riemannian centres of mass against closed forms, naive loops of scipy, pymanopt and other points."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pymanopt
import pytest
import scipy.linalg
from core.cases import MANIFOLDS, close, leaves, tree_map
from scipy.spatial.transform import Rotation

import manifoldseq as ms
from manifoldseq.manifolds import (
    BoundedDiagonal,
    Euclidean,
    Grassmann,
    Manifold,
    Orthogonal,
    Positive,
    Product,
    Simplex,
    SpecialEuclidean,
    SpecialOrthogonal,
    Sphere,
    SymmetricPositiveDefinite,
)

KNOWN = {name: M for name, M in MANIFOLDS.items() if M.log is not None}


def cloud(M: Any, n: int, spread: float, seed: int = 0, dtype: Any = np.float64) -> list[Any]:
    """Return points within a distance of a centre."""
    rng = np.random.default_rng(seed)
    centre = M.to_component(M.random_point(rng, dtype), 0)
    points = []
    for _ in range(n):
        u = M.random_tangent(centre, rng)
        length = np.sqrt(M.inner(centre, u, u)) or 1.0
        t = spread * rng.random() / length
        points.append(M.exp(centre, tree_map(lambda leaf, t=t: leaf.dtype.type(t) * leaf, u)))
    return points


def cost(M: Any, x: Any, points: list[Any], w: Any = None) -> float:
    squares = np.array([M.dist(x, point) ** 2 for point in points])
    return float(np.average(squares, weights=w))


@pytest.mark.slow
@pytest.mark.parametrize("name", KNOWN)
def test_no_point_nearby_is_better(name: str) -> None:
    M = KNOWN[name]
    points = cloud(M, 12, 0.8)
    w = np.random.default_rng(1).random(12)
    mean = ms.frechet_mean(M, points, w)
    assert M.feasibility(mean) < 1e-12
    rng = np.random.default_rng(2)
    least = cost(M, mean, points, w)
    for _ in range(10 if M.dim else 0):
        u = M.random_tangent(mean, rng)
        for t in (1e-2, 1e-4):
            other = M.retract(mean, tree_map(lambda leaf, t=t: t * leaf, u))
            # f grows by t²|u|²/2 times a curvature near one
            gain = cost(M, other, points, w) - least
            assert gain > 0.2 * t**2 * M.inner(mean, u, u) - 1e-13


def test_closed_forms() -> None:
    rng = np.random.default_rng(0)
    w = rng.random(9)
    w = w / w.sum()
    flat = rng.standard_normal((9, 3))
    close(ms.frechet_mean(Euclidean(3), flat, w), w @ flat)
    box = rng.uniform(-0.9, 0.9, (9, 3))
    close(ms.frechet_mean(BoundedDiagonal(3), box, w), w @ box)
    positive = np.exp(3 * flat)
    close(ms.frechet_mean(Positive(3), positive, w), np.exp(w @ np.log(positive)), rtol=1e-10)
    angles = rng.uniform(-1, 1, 9)
    turns = np.stack([[[np.cos(a), -np.sin(a)], [np.sin(a), np.cos(a)]] for a in angles])
    a = w @ angles
    close(
        ms.frechet_mean(SpecialOrthogonal(2), turns, w), [[np.cos(a), -np.sin(a)], [np.sin(a), np.cos(a)]], atol=1e-11
    )
    ends = [SymmetricPositiveDefinite(4).random_point(rng) for _ in range(2)]
    half = scipy.linalg.sqrtm(ends[0])
    inverse = np.linalg.inv(half)
    inner = scipy.linalg.fractional_matrix_power(inverse @ ends[1] @ inverse, 0.3)
    close(ms.frechet_mean(SymmetricPositiveDefinite(4), ends, [0.7, 0.3]), half @ inner @ half, atol=1e-10)


def test_rotations_against_a_naive_loop() -> None:
    M = SpecialOrthogonal(3)
    points = cloud(M, 15, 1.2)
    x = points[0]
    for _ in range(300):
        x = (
            x
            @ Rotation.from_rotvec(Rotation.from_matrix([x.T @ p for p in points]).as_rotvec().mean(axis=0)).as_matrix()
        )
    close(ms.frechet_mean(M, np.stack(points)), x, atol=1e-10)


@pytest.mark.parametrize("name", ["sphere", "grassmann", "spd"])
def test_agrees_with_centroids_of_pymanopt(name: str) -> None:
    from pymanopt.optimizers.nelder_mead import compute_centroid

    M, peer = {
        "sphere": (Sphere(4), pymanopt.manifolds.Sphere(4)),
        "grassmann": (Grassmann(5, 2), pymanopt.manifolds.Grassmann(5, 2)),
        "spd": (SymmetricPositiveDefinite(3), pymanopt.manifolds.SymmetricPositiveDefinite(3)),
    }[name]
    points = cloud(M, 6, 0.5)
    mean = ms.frechet_mean(M, points)
    np.random.seed(0)  # its start is drawn from the state of numpy
    theirs = compute_centroid(peer, points)
    assert M.dist(mean, theirs) < 1e-3  # theirs stops after 15 steps
    assert cost(M, mean, points) <= cost(M, theirs, points) + 1e-12


def test_covariances_far_apart() -> None:
    """Where steps along the mean logarithm diverge: eigenvalues over twelve orders of magnitude."""
    rng = np.random.default_rng(3)
    M = SymmetricPositiveDefinite(5)
    points = []
    for _ in range(12):
        Q = np.linalg.qr(rng.standard_normal((5, 5)))[0]
        points.append((Q * np.exp(rng.uniform(-7, 7, 5))) @ Q.T)
    mean = ms.frechet_mean(M, points)
    left = sum(scipy.linalg.logm(np.linalg.solve(mean, p)) for p in points)
    assert np.abs(left).max() < 1e-5 * sum(np.abs(scipy.linalg.logm(np.linalg.solve(mean, p))).max() for p in points)


def test_mean_of_a_power_is_that_of_its_points_and_of_a_product_that_of_its_factors() -> None:
    M = SpecialOrthogonal(3) ** 4
    points = np.stack(cloud(M, 8, 0.7))
    close(
        ms.frechet_mean(M, points),
        np.stack([ms.frechet_mean(SpecialOrthogonal(3), points[:, k]) for k in range(4)]),
        atol=1e-9,
    )
    both = Product(Sphere(3), Positive(2))
    pairs = cloud(both, 8, 0.7)
    mean = ms.frechet_mean(both, pairs)
    stacked = tree_map(lambda *parts: np.stack(parts), *pairs)
    close(mean[0], ms.frechet_mean(Sphere(3), stacked[0]), atol=1e-9)
    close(mean[1], ms.frechet_mean(Positive(2), stacked[1]), atol=1e-9)
    close(mean, ms.frechet_mean(both, stacked), atol=0)


@pytest.mark.parametrize("M", [Sphere(3), SymmetricPositiveDefinite(3), SpecialEuclidean(2), Simplex(4)], ids=repr)
def test_single_precision(M: Manifold) -> None:
    points = cloud(M, 10, 0.6, dtype=np.float32)
    mean = ms.frechet_mean(M, points)
    assert {leaf.dtype for leaf in leaves(mean)} == {np.dtype(np.float32)}
    wide = [tree_map(lambda leaf: leaf.astype(np.float64), p) for p in points]
    close(mean, ms.frechet_mean(M, wide), atol=3e-5)


def test_one_point_and_weights_of_zero() -> None:
    M = Sphere(3)
    points = np.stack(cloud(M, 3, 0.5))
    close(ms.frechet_mean(M, points[:1]), points[0], atol=1e-15)
    close(ms.frechet_mean(M, points, [0, 2, 0]), points[1], atol=1e-12)
    close(ms.frechet_mean(M, points, [1, 2, 3]), ms.frechet_mean(M, points, [0.5, 1, 1.5]), atol=1e-12)
    close(ms.frechet_mean(Grassmann(3, 3), [np.eye(3), -np.eye(3)]) ** 2, np.eye(3), atol=1e-12)


def test_says_that_a_mean_is_not_unique() -> None:
    poles = np.array([[0.0, 0, 1], [0, 0, -1]])
    with pytest.warns(UserWarning, match="not unique"):
        mean = ms.frechet_mean(Sphere(3), poles)
    assert abs(mean[2]) < 1e-6  # somewhere on the equator
    lines = np.stack([np.eye(2)[:, :1], np.eye(2)[:, 1:]])
    with pytest.warns(UserWarning, match="not unique"):
        ms.frechet_mean(Grassmann(2, 1), lines)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ms.frechet_mean(Sphere(3), np.eye(3))


@pytest.mark.parametrize(
    ("M", "points", "weights", "words"),
    [
        (Sphere(3), np.ones((2, 4)), None, r"\(N, 3\); got \(2, 4\)"),
        (Sphere(3), np.ones(3), None, "along a leading axis"),
        (Sphere(3), [], None, "at least one point"),
        (Sphere(3), np.empty((0, 3)), None, "at least one"),
        (Sphere(3), np.ones((2, 3)), None, r"points\[0\] is not on"),
        (Positive(2), [[1.0, 2.0], [1.0, -2.0]], None, r"points\[1\] is not on"),
        (Euclidean(2), [[1.0, 2.0], [np.nan, 2.0]], None, r"points\[1\] has entries"),
        (Euclidean(2), [[1.0, 2.0], [1.0]], None, "different shapes"),
        (Euclidean(2), np.ones((2, 2), complex), None, "real numbers"),
        (Euclidean(2), np.ones((2, 2)), [1.0], r"weights must have shape \(2,\)"),
        (Euclidean(2), np.ones((2, 2)), [1.0, -1.0], "not negative"),
        (Euclidean(2), np.ones((2, 2)), [0.0, 0.0], "not negative"),
        (Orthogonal(2), np.stack([np.eye(2), np.diag([1.0, -1.0])]), None, "pass points of one connected component"),
        (Product(Sphere(2), Euclidean(1)), (np.eye(2), np.ones((3, 1))), None, "the same number of points in each"),
    ],
)  # fmt: skip
def test_bad_input_is_named(M: Manifold, points: Any, weights: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        ms.frechet_mean(M, points, weights)


def test_a_manifold_without_logarithm_raises_an_error() -> None:
    with pytest.raises(TypeError, match="needs a logarithm"):
        ms.frechet_mean(ms.from_pymanopt(pymanopt.manifolds.Elliptope(4, 2)), np.full((1, 4, 2), 0.5**0.5))
