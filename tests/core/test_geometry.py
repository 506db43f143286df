"""Geodesics, logarithms, distances, parallel transports against scipy, mpmath, pymanopt, differential equations."""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import pymanopt
import pytest
import scipy.integrate
import scipy.linalg
from core.cases import MANIFOLDS, close, leaves, tree_map, two_points
from helpers import parametrize

import manifoldseq as ms
from manifoldseq.manifolds import (
    BoundedDiagonal,
    Euclidean,
    Frozen,
    Grassmann,
    Manifold,
    Oblique,
    OpenBox,
    Orthogonal,
    Positive,
    Product,
    Simplex,
    SpecialEuclidean,
    SpecialOrthogonal,
    Sphere,
    Stiefel,
    SymmetricPositiveDefinite,
)

OPERATIONS = ("exp", "log", "dist", "geodesic", "parallel_transport", "inverse_retraction")
KNOWN = {name: M for name, M in MANIFOLDS.items() if M.log is not None}


def pair(M: Manifold, seed: int = 0) -> tuple[Any, Any, Any, np.random.Generator]:
    """Return two points of one component and a tangent vector at the first."""
    rng = np.random.default_rng(seed)
    x, y = two_points(M, rng)
    return x, y, M.random_tangent(x, rng), rng


def spans(M: Manifold, x: Any) -> Any:
    if isinstance(M, Product):
        return tuple(spans(f, a) for f, a in zip(M.factors, x, strict=True))
    return x @ x.mT if M.quotient else x


@parametrize("name", KNOWN, fast=16)
def test_geodesics_lead_from_any_point_to_any_other(name: str) -> None:
    M = KNOWN[name]
    x, y, u, _ = pair(M)
    close(spans(M, M.exp(x, M.log(x, y))), spans(M, y), atol=1e-12)
    length = M.dist(x, y)
    assert length == pytest.approx(M.inner(x, M.log(x, y), M.log(x, y)) ** 0.5, abs=1e-12)
    assert M.dist(y, x) == pytest.approx(length, abs=1e-12) and M.dist(x, x) < 1e-7
    points = M.geodesic(x, y, np.array([0.0, 0.3, 1.0]))
    apart = [M.dist(x, tree_map(lambda leaf, k=k: leaf[k], points)) for k in range(3)]
    close(apart, [0, 0.3 * length, length], atol=2e-7)
    if M.parallel_transport is not None:
        carried = M.parallel_transport(x, y, u)
        assert M.inner(y, carried, carried) == pytest.approx(M.inner(x, u, u), rel=1e-11)


def test_what_is_unknown_is_none() -> None:
    theirs = ms.from_pymanopt(THEIRS.Elliptope(4, 2))
    for M in (theirs, Product(theirs, Euclidean(2)), theirs**3):
        assert M.exp is M.log is M.dist is M.geodesic is M.parallel_transport is None
    for M in (Stiefel(5, 2), Product(Stiefel(5, 2), Euclidean(2)), SymmetricPositiveDefinite(2, "bures-wasserstein")):
        assert M.parallel_transport is None and M.log is not None and M.typical_distance > 0
    for name in OPERATIONS:
        assert getattr(Product(Sphere(3), Euclidean(2)), name) is not None


THEIRS = pymanopt.manifolds
PEERS: dict[str, tuple[Manifold, Any]] = {
    "sphere": (Sphere(5), THEIRS.Sphere(5)),
    "oblique": (Oblique(4, 3), THEIRS.Oblique(4, 3)),
    "grassmann": (Grassmann(7, 3), THEIRS.Grassmann(7, 3)),
    "spd": (SymmetricPositiveDefinite(4), THEIRS.SymmetricPositiveDefinite(4)),
    "positive": (Positive(3, 1), THEIRS.Positive(3, 1)),
    "euclidean": (Euclidean(3, 2), THEIRS.Euclidean(3, 2)),
    "two subspaces": (Grassmann(5, 2) ** 2, THEIRS.Grassmann(5, 2, k=2)),
}


@pytest.mark.parametrize("name", PEERS)
def test_logarithms_and_distances_are_those_of_pymanopt(name: str) -> None:
    M, peer = PEERS[name]
    x, y, _, _ = pair(M)
    assert M.dist(x, y) == pytest.approx(peer.dist(x, y), rel=1e-9)
    close(M.log(x, y), peer.log(x, y), atol=1e-9)
    expected = peer.typical_dist
    assert M.typical_distance == pytest.approx(expected)


@pytest.mark.parametrize("n", [2, 3, 5])
def test_logarithms_of_rotations_are_those_of_scipy(n: int) -> None:
    M = SpecialOrthogonal(n)
    x, y, _, _ = pair(M)
    turn = scipy.linalg.logm(x.T @ y)
    close(M.log(x, y), x @ turn, atol=1e-12)
    assert M.dist(x, y) == pytest.approx(np.linalg.norm(turn))


def test_logarithms_of_positive_definite_matrices_are_those_of_scipy() -> None:
    M = SymmetricPositiveDefinite(4)
    x, y, u, _ = pair(M)
    close(M.log(x, y), x @ scipy.linalg.logm(np.linalg.solve(x, y)), atol=1e-12)
    close(M.exp(x, u), x @ scipy.linalg.expm(np.linalg.solve(x, u)), atol=1e-11)
    values = scipy.linalg.eigh(y, x, eigvals_only=True)
    assert M.dist(x, y) == pytest.approx(np.linalg.norm(np.log(values)))


def exact(value: Any) -> mpmath.matrix:
    return mpmath.matrix(value.tolist())


def root(gram: mpmath.matrix) -> mpmath.matrix:
    w, Q = mpmath.eigsy(gram)
    return Q * mpmath.diag([mpmath.sqrt(a) for a in w]) * Q.T


def true_distance(M: Manifold, x: np.ndarray, y: np.ndarray) -> float:
    """Return the distance of two arrays of floats in 50 digits, those off the manifold by rounding put on it."""
    with mpmath.workdps(50):
        a, b = exact(x.reshape(len(x), -1)), exact(y.reshape(len(y), -1))
        if isinstance(M, Positive):
            return float(mpmath.sqrt(sum(mpmath.log(b[i] / a[i]) ** 2 for i in range(len(a)))))
        if isinstance(M, OpenBox):
            z = [2 * mpmath.atanh(v / mpmath.mpf(M.bound)) for v in [*a, *b]]
            n = len(x)
            return float(mpmath.sqrt(sum((z[i] - z[n + i]) ** 2 for i in range(n))))
        if isinstance(M, Simplex):
            p, q = [v / sum(a) for v in a], [v / sum(b) for v in b]
            return float(2 * mpmath.acos(sum(mpmath.sqrt(v * w) for v, w in zip(p, q, strict=True))))
        if isinstance(M, Sphere):
            return float(mpmath.acos((a.T * b)[0] / mpmath.sqrt((a.T * a)[0] * (b.T * b)[0])))
        if M == SymmetricPositiveDefinite(3, "bures-wasserstein"):
            half = root(a)
            fidelity = sum(mpmath.sqrt(w) for w in mpmath.eigsy(half * b * half, eigvals_only=True))
            return float(mpmath.sqrt(sum(a[i, i] + b[i, i] for i in range(len(x))) - 2 * fidelity))
        if isinstance(M, SymmetricPositiveDefinite):
            half = root(a) ** -1
            return float(mpmath.sqrt(sum(mpmath.log(w) ** 2 for w in mpmath.eigsy(half * b * half, eigvals_only=True))))
        a, b = a * root(a.T * a) ** -1, b * root(b.T * b) ** -1
        if isinstance(M, Grassmann):
            normal = b - a * (a.T * b)
            sines = mpmath.eigsy(normal.T * normal, eigvals_only=True)
            return float(mpmath.sqrt(sum(mpmath.asin(mpmath.sqrt(abs(s))) ** 2 for s in sines)))
        turn = a.T * b  # its symmetric part has the cosines, each twice
        cosines = mpmath.eigsy((turn + turn.T) / 2, eigvals_only=True)
        return float(mpmath.sqrt(sum(mpmath.acos(min(c, mpmath.mpf(1))) ** 2 for c in cosines)))


@pytest.mark.parametrize("gap", [1e-4, 1e-8, 1e-12])
@pytest.mark.parametrize(
    "M",
    [
        Positive(3),
        OpenBox(3),
        Simplex(4),
        Sphere(4),
        SymmetricPositiveDefinite(3),
        SymmetricPositiveDefinite(3, metric="bures-wasserstein"),
        Grassmann(5, 2),
        SpecialOrthogonal(3),
    ],
    ids=repr,
)
def test_small_distances_are_accurate(M: Manifold, gap: float) -> None:
    x, _, u, _ = pair(M, 3)
    y = M.retract(x, gap * u)
    wanted = true_distance(M, x, y)
    rounding = 4e-16 / gap  # of points whose norms, sums, columns are off by an ulp, at right angles to the distance
    assert M.dist(x, y) == pytest.approx(wanted, rel=max(1e-11, min(rounding**2, 1e-6)))
    assert M.inner(x, M.log(x, y), M.log(x, y)) ** 0.5 == pytest.approx(wanted, rel=max(1e-11, rounding**2))


@pytest.mark.parametrize("gap", [0.0, 1e-15, 1e-12, 1e-8, 1e-4, 0.1])
def test_logarithms_near_half_a_turn(gap: float) -> None:
    rng = np.random.default_rng(0)
    for n in (2, 3, 4, 5):
        Q = SpecialOrthogonal(n).random_point(rng)
        S = np.zeros((n, n))
        for k in range(0, n - 1, 2):  # every plane turns by π or almost
            S[k + 1, k], S[k, k + 1] = np.pi - gap, gap - np.pi
        x = SpecialOrthogonal(n).random_point(rng)
        y = x @ Q @ scipy.linalg.expm(S) @ Q.T
        M = SpecialOrthogonal(n)
        close(M.exp(x, M.log(x, y)), y, atol=1e-13 + min(gap, 1e-12))  # an angle that close to π may count as π
        assert M.dist(x, y) == pytest.approx(np.linalg.norm(S), rel=1e-7)
        stacked = M.log(np.stack([x, x]), np.stack([y, M.retract(x, 0.1 * M.project(x, y))]))
        close(stacked[0], M.log(x, y), atol=1e-12)


@pytest.mark.parametrize("gap", [0.0, 1e-15, 1e-12, 1e-8, 1e-4])
def test_logarithms_near_the_antipode(gap: float) -> None:
    for M in (Sphere(4), Sphere(2, 2), Oblique(4, 3), Stiefel(4, 1)):
        x, _, u, _ = pair(M)
        axes = (-2,) if isinstance(M, Oblique | Stiefel) else tuple(range(-len(M.shape), 0))
        u = u / np.sqrt(np.sum(u * u, axis=axes, keepdims=True))
        y = -np.cos(gap) * x + np.sin(gap) * u
        close(M.exp(x, M.log(x, y)), y, atol=1e-15 + 1e-15)
        circles = x.shape[-1] if isinstance(M, Oblique) else 1
        assert M.dist(x, y) == pytest.approx((np.pi - gap) * circles**0.5, abs=1e-15 * 8)


@pytest.mark.parametrize("angles", [(np.pi / 2, np.pi / 2), (np.pi / 2, 0.0), (1e-9, np.pi / 2 - 1e-9), (1e-3, 1e-3)])
def test_logarithms_of_subspaces_at_right_angles(angles: tuple[float, float]) -> None:
    M = Grassmann(6, 2)
    frame = np.linalg.qr(np.random.default_rng(0).standard_normal((6, 6)))[0]
    x = frame[:, :2]
    turn = np.array([[0.6, -0.8], [0.8, 0.6]])
    y = (x * np.cos(angles) + frame[:, 2:4] * np.sin(angles)) @ turn
    close(spans(M, M.exp(x, M.log(x, y))), spans(M, y), atol=1e-14)
    assert M.dist(x, y) == pytest.approx(np.linalg.norm(angles), rel=1e-9)
    assert np.linalg.norm(M.log(x, y)) == pytest.approx(np.linalg.norm(angles), rel=1e-9)


def test_far_points_of_open_sets() -> None:
    """The retraction stops where one step would multiply by more than 1/√eps; the exponential map does not."""
    x, y = np.array([1e-30, 1.0, 1e30]), np.array([1e30, 1e-200, 1e-30])
    close(Positive(3).exp(x, Positive(3).log(x, y)), y, rtol=1e-12, atol=0)
    M = SymmetricPositiveDefinite(3)
    X, Y = np.diag([1e-20, 1.0, 1.0]), np.diag([1e20, 1.0, 1e-20])
    close(np.diag(M.exp(X, M.log(X, Y))), np.diag(Y), rtol=1e-12, atol=0)
    assert M.dist(X, Y) == pytest.approx(np.hypot(40, 20) * np.log(10))
    box = OpenBox(2, 1.0)
    z = np.array([1 - 1e-15, -1 + 1e-15])
    close(box.exp(-z, box.log(-z, z)), z, atol=1e-15)


def test_points_of_other_components_are_out_of_reach() -> None:
    for M in (Orthogonal(3), Stiefel(3, 3), Orthogonal(1), Sphere(1), Oblique(1, 2)):
        x, _, _, _ = pair(M)
        y = M.to_component(x, 1)
        assert np.isinf(M.dist(x, y)) and np.isnan(M.log(x, y)).any()
        assert M.dist(x, x) == 0 and not np.isnan(M.log(x, x)).any()
    both = Product(Orthogonal(2), Euclidean(2))
    x, y, _, _ = pair(both)
    assert np.isinf(both.dist(x, both.to_component(y, 1)))
    frozen = Frozen(Sphere(3))
    x, y, _, _ = pair(frozen)
    assert frozen.dist(x, x) == 0 and np.isinf(frozen.dist(x, y)) and np.isnan(frozen.log(x, y)).all()


def carried_by_steps(M: Manifold, x: Any, y: Any, u: Any, steps: int) -> Any:
    """Return a vector projected from point to point of the geodesic."""
    for t in np.linspace(0, 1, steps + 1)[1:]:
        u = M.project(M.geodesic(x, y, t), u)
    return u


@parametrize(
    "M", [Sphere(4), Oblique(3, 2), SpecialOrthogonal(3), SpecialEuclidean(2), Stiefel(4, 1)], fast=2, ids=repr
)
def test_parallel_transport_is_the_limit_of_projections(M: Manifold) -> None:
    x, y, u, _ = pair(M)
    one, two, four = (carried_by_steps(M, x, y, u, n) for n in (100, 200, 400))
    limit = tree_map(lambda a, b, c: (a - 6 * b + 8 * c) / 3, one, two, four)  # errors of first and second order gone
    close(M.parallel_transport(x, y, u), limit, atol=1e-5)


def test_parallel_transport_of_subspaces_is_the_limit_of_projections() -> None:
    M = Grassmann(5, 2)
    x, y, u, _ = pair(M)
    v = M.log(x, y)
    end = M.exp(x, v)
    steps = []
    for n in (100, 200, 400):
        w = u
        for t in np.linspace(0, 1, n + 1)[1:]:
            w = M.project(M.exp(x, t * v), w)
        steps.append(w)
    limit = (steps[0] - 6 * steps[1] + 8 * steps[2]) / 3
    close(M.parallel_transport(x, y, u) @ y.T, limit @ end.T, atol=1e-5)


def test_parallel_transport_of_positive_definite_matrices_solves_its_equation() -> None:
    M = SymmetricPositiveDefinite(3)
    x, y, u, _ = pair(M)

    def rate(t: float, flat: np.ndarray) -> np.ndarray:
        at, U = M.geodesic(x, y, t), flat.reshape(3, 3)
        velocity = (M.geodesic(x, y, t + 1e-6) - M.geodesic(x, y, t - 1e-6)) / 2e-6
        half = velocity @ np.linalg.solve(at, U)
        return (0.5 * (half + half.T)).ravel()

    end = scipy.integrate.solve_ivp(rate, (0, 1), u.ravel(), rtol=1e-10, atol=1e-12).y[:, -1]
    close(M.parallel_transport(x, y, u), end.reshape(3, 3), atol=1e-8)


@parametrize("name", MANIFOLDS, fast=3)
def test_inverse_retractions_reach_a_point_or_say_that_no_vector_does(name: str) -> None:
    M = MANIFOLDS[name]
    for seed in range(5):
        x, y, u, _ = pair(M, seed)
        near = M.retract(x, tree_map(lambda leaf: 0.1 * leaf, u))
        close(M.retract(x, M.inverse_retraction(x, near)), near, atol=1e-12)
        v = M.inverse_retraction(x, y)
        if all(np.isfinite(leaf).all() for leaf in leaves(v)):
            close(spans(M, M.retract(x, v)), spans(M, y), atol=1e-9)
        else:  # beyond a quarter of a great circle
            assert not M.dist(x, y) <= np.pi / 2


def test_inverse_of_the_polar_retraction_exists_where_it_should() -> None:
    """X + U = Y S with S positive definite: where the symmetric part of XᵀY S is the identity, and nowhere else."""
    M = Stiefel(6, 2)
    found = [bool(np.isfinite(M.inverse_retraction(*pair(M, seed)[:2])).all()) for seed in range(40)]
    for seed in range(40):
        x, y, _, _ = pair(M, seed)
        S = scipy.linalg.solve_sylvester(x.T @ y, y.T @ x, 2 * np.eye(2))
        assert found[seed] == bool(np.linalg.eigvalsh(S)[0] > 0)
    assert 0 < sum(found) < 40


@parametrize("name", KNOWN, fast=10)
def test_single_precision(name: str) -> None:
    M = KNOWN[name]
    rng = np.random.default_rng(1)
    x, y = two_points(M, rng, np.float32)
    there = M.exp(x, M.log(x, y))
    close(spans(M, there), spans(M, y), atol=2e-5, rtol=2e-5)
    wide = [tree_map(lambda leaf: leaf.astype(np.float64), p) for p in (x, y)]
    assert M.dist(x, y) == pytest.approx(M.dist(*wide), rel=1e-5, abs=1e-6)
    assert {leaf.dtype for leaf in leaves(there)} == {np.dtype(np.float32)}


def test_times_and_points_broadcast() -> None:
    M = Sphere(3)
    x, y = (np.stack([pair(M, seed)[k] for seed in range(4)]) for k in (0, 1))
    t = np.linspace(0, 1, 5)
    points = M.geodesic(x, y, t[:, None])
    assert points.shape == (5, 4, 3)
    close(points[2, 1], M.geodesic(x[1], y[1], 0.5))
    close(M.dist(x[0], y), [M.dist(x[0], one) for one in y])
    pose = SpecialEuclidean(2)
    a, b, _, _ = pair(pose)
    assert [leaf.shape for leaf in pose.geodesic(a, b, t)] == [(5, 2, 2), (5, 2)]


def test_geometry_in_a_frame_is_that_of_the_manifold() -> None:
    for M in (Positive(3), OpenBox(3), Simplex(4), SymmetricPositiveDefinite(3)):
        x, y, u, _ = pair(M)
        F: Any = M.frame
        c = F.to_frame(x, u)
        close(F.log(x, y), F.to_frame(x, M.log(x, y)))
        close(F.exp(x, c), M.exp(x, u))
        close(F.from_frame(y, F.parallel_transport(x, y, c)), M.parallel_transport(x, y, u))
        close(F.inverse_retraction(x, y), F.to_frame(x, M.inverse_retraction(x, y)))
        assert F.dist(x, y) == M.dist(x, y)


def test_box_is_a_part_of_flat_space() -> None:
    M = BoundedDiagonal(2, 1.0)
    x, y = np.array([0.5, -1.0]), np.array([-0.25, 1.0])
    close(M.log(x, y), y - x)
    assert M.dist(x, y) == pytest.approx(np.hypot(0.75, 2))
    close(M.geodesic(x, y, 0.5), (x + y) / 2)
