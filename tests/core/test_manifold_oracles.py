"""The newer manifolds against pymanopt, scipy, autograd and closed forms: nothing here shares code with them."""

from __future__ import annotations

from typing import Any

import autograd
import autograd.numpy as anp
import numpy as np
import pytest
import scipy.linalg
from core.cases import close, equal
from scipy.spatial.transform import Rotation

import manifoldseq as ms
from manifoldseq.manifolds import (
    GeneralizedStiefel,
    Grassmann,
    Hyperbolic,
    Manifold,
    Oblique,
    OpenBox,
    Positive,
    Product,
    Simplex,
    SpecialOrthogonal,
    Sphere,
    Stiefel,
    SymmetricPositiveDefinite,
)


def drawn(M: Manifold, seed: int = 0) -> tuple[Any, Any, Any, np.random.Generator]:
    rng = np.random.default_rng(seed)
    x = M.random_point(rng)
    return x, M.random_tangent(x, rng), M.random_tangent(x, rng), rng


PEERS = {
    "Sphere": (Sphere(5), lambda m: m.Sphere(5)),
    "Sphere of matrices": (Sphere(3, 2), lambda m: m.Sphere(3, 2)),
    "Oblique": (Oblique(4, 3), lambda m: m.Oblique(4, 3)),
    "Grassmann": (Grassmann(7, 3), lambda m: m.Grassmann(7, 3)),
    "Positive": (Positive(2, 3), lambda m: m.Positive(2, 3)),
    "SymmetricPositiveDefinite": (SymmetricPositiveDefinite(4), lambda m: m.SymmetricPositiveDefinite(4)),
}


@pytest.mark.parametrize("name", PEERS)
def test_agrees_with_pymanopt(name: str) -> None:
    manifolds = pytest.importorskip("pymanopt.manifolds")
    M, peer = PEERS[name][0], PEERS[name][1](manifolds)
    x, u, v, rng = drawn(M)
    a, h = rng.standard_normal(x.shape), rng.standard_normal(x.shape)
    if M.quotient:  # of a function that does not tell X from X Q, such as <X, SX>/2
        S = rng.standard_normal((len(x), len(x)))
        a, h = (S + S.T) @ x, (S + S.T) @ u
    close(M.project(x, a), peer.projection(x, a))
    close(M.inner(x, u, v), peer.inner_product(x, u, v))
    close(M.gradient(x, a), peer.euclidean_to_riemannian_gradient(x, a))
    close(M.hessian(x, a, h, u), peer.euclidean_to_riemannian_hessian(x, a, h, u))
    ours, theirs = M.retract(x, u, "exp"), peer.exp(x, u)
    close(*((y @ y.T for y in (ours, theirs)) if M.quotient else (ours, theirs)), atol=1e-11, rtol=1e-11)
    if "quadratic" in M.retractions:
        close(M.retract(x, u, "quadratic"), peer.retraction(x, u), atol=1e-11)
    assert M.dim == peer.dim


@pytest.mark.parametrize("n", [2, 3, 5])
def test_rotations_against_scipy(n: int) -> None:
    M = SpecialOrthogonal(n)
    X, U, _, rng = drawn(M)
    close(M.retract(X, 2 * U, "exp"), X @ scipy.linalg.expm(2 * X.T @ U))
    A = rng.standard_normal((20, n, n))
    R = M.nearest(A)
    close(np.linalg.det(R), np.ones(20))
    if n == 3:
        close(R, np.stack([Rotation.align_vectors(B.T, np.eye(3))[0].as_matrix() for B in A]), atol=1e-7)
    right = np.linalg.det(A) > 0
    close(R[right], np.stack([scipy.linalg.polar(B)[0] for B in A[right]]))
    assert M.feasibility(np.diag([-1.0] + [1.0] * (n - 1))) == pytest.approx(2)


def test_simplex_is_a_part_of_the_sphere_of_radius_two() -> None:
    M = Simplex(5)
    x, u, v, _ = drawn(M)
    root = np.sqrt(x)
    close(M.inner(x, u, v), 4 * np.dot(u / (2 * root), v / (2 * root)))
    small = 0.1 * u / M.inner(x, u, u) ** 0.5
    y = M.retract(x, small)
    assert 2 * np.arccos(np.sqrt(x * y).sum()) == pytest.approx(0.1, rel=1e-9)  # the length of the geodesic
    close(M.retract(x, u, "softmax"), scipy.special.softmax(np.log(x) + u / x))


@pytest.mark.parametrize("spread", [0.1, 1.0, 30.0])
def test_nearest_distribution_satisfies_the_conditions_of_a_projection(spread: float) -> None:
    v = spread * np.random.default_rng(0).standard_normal((50, 6))
    x = Simplex(6).nearest(v)
    close(x.sum(axis=1), np.ones(50))
    for row, point in zip(v, x, strict=True):
        positive = point > 1e-12
        shift = (row - point)[positive]
        assert np.ptp(shift) < 1e-12 and np.all(row[~positive] <= shift.max() + 1e-12)


LINES = {  # manifold, x(z)
    "positive": (Positive(4), lambda z: anp.exp(z), np.log),
    "open-box": (OpenBox(4, 0.7), lambda z: 0.7 * anp.tanh(z / 2), lambda x: 2 * np.arctanh(x / 0.7)),
}


@pytest.mark.parametrize("name", LINES)
def test_entrywise_metrics_are_those_of_a_free_coordinate(name: str) -> None:
    M, entry, free = LINES[name]
    x, u, v, rng = drawn(M)
    z, H = free(x), rng.standard_normal((4, 4))
    H = H + H.T

    def f(x: Any) -> Any:
        return anp.sum(anp.sin(x)) + 0.5 * anp.dot(x, anp.dot(H, x))

    rate = autograd.elementwise_grad(entry)(z)
    close(M.inner(x, u, v), np.dot(u / rate, v / rate))
    pulled = autograd.hessian(lambda z: f(entry(z)))(z) @ (u / rate)
    egrad, ehess = autograd.grad(f)(x), autograd.hessian(f)(x) @ u
    close(M.hessian(x, egrad, ehess, u) / rate, pulled, atol=1e-11)
    close(M.gradient(x, egrad) / rate, autograd.grad(lambda z: f(entry(z)))(z))
    close(M.retract(x, u), entry(z + u / rate))


def test_simplex_hessian_is_the_second_derivative_along_great_circles() -> None:
    M = Simplex(5)
    x, u, _, rng = drawn(M)
    a = rng.standard_normal(5)

    def f(x: Any) -> Any:
        return anp.sum(a * x**3) + anp.prod(x)

    def along(t: float) -> Any:
        y, w = np.sqrt(x), u / (2 * np.sqrt(x))
        speed = np.linalg.norm(w)
        return f((anp.cos(t * speed) * y + anp.sin(t * speed) * w / speed) ** 2)

    H = M.hessian(x, autograd.grad(f)(x), autograd.hessian(f)(x) @ u, u)
    assert M.inner(x, H, u) == pytest.approx(autograd.grad(autograd.grad(along))(0.0), rel=1e-9)


@pytest.mark.parametrize("M", [Positive(3), SymmetricPositiveDefinite(4), OpenBox(3)], ids=repr)
def test_transports_keep_inner_products(M: Manifold) -> None:
    x, u, v, rng = drawn(M)
    y = M.random_point(rng)
    close(M.inner(y, M.transport(x, y, u), M.transport(x, y, v)), M.inner(x, u, v), rtol=1e-11)


def test_positive_definite_geometry_is_the_same_in_any_basis() -> None:
    M = SymmetricPositiveDefinite(4)
    X, U, V, rng = drawn(M)
    B = rng.standard_normal((4, 4))

    def moved(T: np.ndarray) -> np.ndarray:
        return B @ T @ B.T

    close(M.inner(moved(X), moved(U), moved(V)), M.inner(X, U, V), rtol=1e-7)
    for kind in M.retractions:
        close(M.retract(moved(X), moved(U), kind), moved(M.retract(X, U, kind)), rtol=1e-8, atol=1e-9)
    half = scipy.linalg.sqrtm(X)
    inverse = np.linalg.inv(half)
    close(M.retract(X, U), half @ scipy.linalg.expm(inverse @ U @ inverse) @ half, atol=1e-11)


@pytest.mark.parametrize("scale", [0.0, 1e-200, 1.0, 1e200])
@pytest.mark.parametrize("M", [Sphere(4), Oblique(4, 2)], ids=repr)
def test_any_array_has_a_nearest_one_of_unit_norm(M: Manifold, scale: float) -> None:
    x = scale * np.random.default_rng(0).standard_normal(M.shape)
    y = M.nearest(x)
    assert M.feasibility(y) < 1e-15
    if scale:
        close(y, M.nearest(x / scale), atol=1e-15)
    assert np.isnan(M.nearest(np.full(M.shape, np.nan))).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("M", "off"),
    [
        (Positive(3), [1.0, 0.0, 2.0]),
        (Simplex(3), [0.5, 0.5, 0.0]),
        (SymmetricPositiveDefinite(2), [[1.0, 1.0], [1.0, 1.0]]),
        (OpenBox(2, 0.5), [0.5, 0.0]),
    ],
    ids=repr,
)
def test_the_boundary_of_an_open_set_is_off_it_and_has_a_neighbour_inside(M: Any, off: Any, dtype: Any) -> None:
    x = np.array(off, dtype)
    assert M.feasibility(x) > 0.9
    y = M.nearest(x)
    assert M.feasibility(y) < 1e-6 and y.dtype == dtype and np.abs(y - x).max() < 1e-5
    f = ms.objective(lambda x: float(np.sum(x)), lambda x: np.ones_like(x))
    with pytest.raises(ValueError, match="nearest"):
        ms.minimize(ms.Problem(M, f), x)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "M",
    [
        Positive(3),
        Simplex(3),
        SymmetricPositiveDefinite(3),
        SymmetricPositiveDefinite(3, "bures-wasserstein"),
        OpenBox(3, 0.5),
        Sphere(3),
    ],
    ids=repr,
)
def test_no_step_is_too_long(M: Manifold, dtype: Any) -> None:
    rng = np.random.default_rng(0)
    x = M.random_point(rng, dtype)
    u = M.random_tangent(x, rng)
    for kind in M.retractions:
        for t in (1e2, 1e4, -1e4):
            y = M.retract(x, dtype(t) * u, kind)
            scale = max(1.0, float(np.abs(y).max()))
            assert M.feasibility(y) <= 1e-5 * scale if dtype == np.float32 else M.feasibility(y) < 1e-12 * scale, (
                kind,
                t,
            )


@pytest.mark.parametrize("M", [SymmetricPositiveDefinite(3), Stiefel(5, 2), Grassmann(5, 2)], ids=repr)
def test_one_step_that_is_not_finite_leaves_the_others_of_a_batch(M: Manifold) -> None:
    rng = np.random.default_rng(0)
    x = np.stack([M.random_point(rng) for _ in range(3)])
    u = M.random_tangent(x, rng)
    broken = u.copy()
    broken[1] = np.nan
    y = M.retract(x, broken, "exp")
    assert np.isnan(y[1]).all()
    close(y[[0, 2]], M.retract(x, u, "exp")[[0, 2]])


def test_components_of_points_and_signs() -> None:
    M = Oblique(1, 3)
    x = np.ones((2, 1, 3))
    signs = {tuple(M.to_component(x, i)[1, 0]) for i in range(M.components)}
    assert len(signs) == 8 and {abs(s) for row in signs for s in row} == {1.0}
    assert [float(Sphere(1).to_component(np.ones(1), i)[0]) for i in (0, 1)] == [1.0, -1.0]
    assert Sphere(2).components == Oblique(2, 3).components == Grassmann(3, 3).components == 1
    y = Sphere(2).random_point(np.random.default_rng(0))
    equal(Sphere(2).to_component(y, 0), y)


def test_order_of_a_product_is_that_of_its_factors() -> None:
    M = Product(Stiefel(4, 2), Grassmann(4, 2), SpecialOrthogonal(3))
    assert M.retractions == ("polar", "qr", "cayley", "exp") and M.second_order == ("polar", "exp")
    assert Product(SpecialOrthogonal(3), Positive(2)).second_order == ("polar", "cayley", "exp")
    assert Product(Stiefel(4, 2), Simplex(3)).second_order == ("polar", "exp")


def ball(x: np.ndarray) -> np.ndarray:
    """Return the point of the Poincaré ball."""
    return x[1:] / (1 + x[0])


def test_hyperbolic_space_is_the_poincare_ball_of_pymanopt() -> None:
    theirs = pytest.importorskip("pymanopt.manifolds").PoincareBall(3)
    M = Hyperbolic(3)
    x, u, v, rng = drawn(M)
    y = M.random_point(rng)
    differential = np.array(autograd.jacobian(lambda x: x[1:] / (1 + x[0]))(x))
    a, b, du, dv = ball(x), ball(y), differential @ u, differential @ v
    assert M.dist(x, y) == pytest.approx(theirs.dist(a, b))
    assert M.inner(x, u, v) == pytest.approx(theirs.inner_product(a, du, dv))
    close(ball(M.retract(x, u)), theirs.exp(a, du), atol=1e-12)
    close(differential @ M.log(x, y), theirs.log(a, b), atol=1e-12)


@pytest.mark.parametrize("gap", [1e-12, 1e-8, 1.0, 10.0])
def test_hyperbolic_distances(gap: float) -> None:
    M = Hyperbolic(2)
    for t in (0.0, 1.0, 3.0):
        x, y = (np.array([np.cosh(s), np.sinh(s), 0.0]) for s in (t, t + gap))
        # the coordinates are known to an ulp
        assert M.dist(x, y) == pytest.approx(gap, rel=1e-9, abs=1e-15 * np.cosh(t) ** 2)
        close(M.exp(x, M.log(x, y)), y, rtol=1e-9)


def test_generalized_stiefel_is_stiefel_in_other_coordinates() -> None:
    B = np.diag([1.0, 2.0, 4.0, 8.0]) + 0.5
    M, flat = GeneralizedStiefel(B, 2), Stiefel(4, 2)
    x, u, v, _ = drawn(M)
    root = scipy.linalg.sqrtm(B)  # another root than the Cholesky factor: the geometry is the same
    close(x.T @ B @ x, np.eye(2))
    close(M.inner(x, u, v), np.trace(u.T @ B @ v))
    for kind in ("polar", "cayley", "exp"):
        close(root @ M.retract(x, u, kind), flat.retract(root @ x, root @ u, kind), atol=1e-12)
    assert M == GeneralizedStiefel(B.copy(), 2) != GeneralizedStiefel(B + np.eye(4), 2)
    assert hash(M) == hash(GeneralizedStiefel(B.copy(), 2))


@pytest.mark.parametrize(
    ("B", "p", "words"),
    [
        (np.ones((2, 3)), 1, "square matrix"),
        ([[1.0, np.nan], [np.nan, 1.0]], 1, "finite"),
        ([[1.0, 0.5], [0.4, 1.0]], 1, "not symmetric"),
        (np.diag([1.0, -1.0]), 1, "not positive definite \\(its smallest eigenvalue is -1"),
        (np.eye(2), 3, "3 columns need at least 3 rows"),
        (np.eye(2), 0, "p must be an integer"),
    ],
)
def test_generalized_stiefel_names_what_is_wrong_with_its_matrix(B: Any, p: int, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        GeneralizedStiefel(B, p)


def test_log_euclidean_metric_is_that_of_matrix_logarithms() -> None:
    M = SymmetricPositiveDefinite(4, metric="log-euclidean")
    x, u, v, rng = drawn(M)
    y = M.random_point(rng)
    L = scipy.linalg.logm(x)
    assert M.dist(x, y) == pytest.approx(np.linalg.norm(scipy.linalg.logm(y) - L))
    half = (scipy.linalg.logm(x + 1e-6 * u) - scipy.linalg.logm(x - 1e-6 * u)) / 2e-6
    other = (scipy.linalg.logm(x + 1e-6 * v) - scipy.linalg.logm(x - 1e-6 * v)) / 2e-6
    assert M.inner(x, u, v) == pytest.approx(np.sum(half * other), rel=1e-7)
    close(M.exp(x, u), scipy.linalg.expm(L + half), rtol=1e-7, atol=1e-8)
    close(M.geodesic(x, y, 0.3), scipy.linalg.expm(0.7 * L + 0.3 * scipy.linalg.logm(y)), atol=1e-11)
    points = np.stack([M.random_point(rng) for _ in range(5)])
    mean = scipy.linalg.expm(np.mean([scipy.linalg.logm(p) for p in points], axis=0))
    close(ms.frechet_mean(M, points), mean, atol=1e-10)
    # equal and almost equal eigenvalues
    near = np.diag([1.0, 1.0, 1.0 + 1e-9, 2.0])
    close(M.exp(near, M.log(near, y)), y, atol=1e-11)
    assert M != SymmetricPositiveDefinite(4) and M == SymmetricPositiveDefinite(4, "log-euclidean")
    assert repr(M) == "SymmetricPositiveDefinite(n=4, metric='log-euclidean')"
    with pytest.raises(ValueError, match="choose 'affine-invariant', 'bures-wasserstein' or 'log-euclidean'"):
        SymmetricPositiveDefinite(4, metric="euclidean")


def symmetric_root(x: np.ndarray) -> np.ndarray:
    return np.real(scipy.linalg.sqrtm(x))


def test_bures_wasserstein_metric_is_that_of_optimal_transport() -> None:
    M = SymmetricPositiveDefinite(4, metric="bures-wasserstein")
    x, u, v, rng = drawn(M)
    y = M.random_point(rng)
    L, K = (scipy.linalg.solve_continuous_lyapunov(x, w) for w in (u, v))
    close(M.inner(x, u, v), 0.5 * np.trace(L @ v))
    close(M.inner(x, u, v), np.trace(L @ x @ K))
    half = symmetric_root(x)
    square = np.trace(x) + np.trace(y) - 2 * np.trace(symmetric_root(half @ y @ half))
    assert M.dist(x, y) ** 2 == pytest.approx(square, rel=1e-11)
    close(M.log(x, y), symmetric_root(x @ y) + symmetric_root(y @ x) - 2 * x, atol=1e-11)
    small = 0.5 * u / np.linalg.norm(L, 2)
    step = np.eye(4) + scipy.linalg.solve_continuous_lyapunov(x, small)
    close(M.exp(x, small), step @ x @ step, atol=1e-12)
    close(M.retract(x, small), M.exp(x, small), atol=1e-12)
    # the interpolation of McCann: of maps, not of matrices
    inverse = np.linalg.inv(half)
    T = inverse @ symmetric_root(half @ y @ half) @ inverse
    part = 0.7 * np.eye(4) + 0.3 * T
    close(M.geodesic(x, y, 0.3), part @ x @ part, atol=1e-11)
    # the barycentre is the fixed point of Agueh and Carlier, with weights
    points, w = np.stack([M.random_point(rng) for _ in range(5)]), rng.random(5)
    mean = ms.frechet_mean(M, points, w)
    r = symmetric_root(mean)
    close(np.average([symmetric_root(r @ p @ r) for p in points], axis=0, weights=w), mean, atol=1e-9)
    assert SymmetricPositiveDefinite(1, "bures-wasserstein").dist(np.array([[4.0]]), np.array([[9.0]])) == 1
    assert repr(M) == "SymmetricPositiveDefinite(n=4, metric='bures-wasserstein')"


def test_geodesics_of_optimal_transport_end_at_the_boundary_and_steps_do_not() -> None:
    M = SymmetricPositiveDefinite(3, metric="bures-wasserstein")
    x, u, _, _ = drawn(M)
    w = scipy.linalg.eigvalsh(scipy.linalg.solve_continuous_lyapunov(x, u))
    end = M.longest(x, u)
    assert end == pytest.approx(-1 / w[0])
    last = M.exp(x, 0.999 * end * u)
    assert M.feasibility(last) < 1e-12 and np.linalg.eigvalsh(last)[0] < 1e-5
    assert np.isnan(M.exp(x, 1.001 * end * u)).all()
    steps = np.array([-1e6, -10, 0.999, 1.001, 10.0, 1e6])[:, None, None]
    reached = M.retract(np.broadcast_to(x, (6, 3, 3)), steps * end * u)
    assert (np.linalg.eigvalsh(reached)[:, 0] > 0).all() and np.isfinite(reached).all()
    assert np.isnan(M.exp(np.stack([x, x]), np.stack([0.5 * end * u, 2 * end * u]))).all(axis=(1, 2)).tolist() == [0, 1]
    # from both ends of an almost singular matrix
    y = np.diag([1.0, 1.0, 1e-15])
    close(M.exp(x, M.log(x, y)), y, atol=1e-13)
    assert M.dist(y, x) == pytest.approx(M.dist(x, y), rel=1e-12)
