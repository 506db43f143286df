"""Known optima on every manifold, found by the solvers; and what an active bound costs, in iterations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import autograd.numpy as anp
import numpy as np
import pytest
import scipy.linalg
from core.cases import close
from core.pymanopt_cases import flat
from helpers import parametrize
from scipy.spatial.transform import Rotation

import manifoldseq as ms
from manifoldseq.manifolds import (
    BoundedDiagonal,
    CanonicalLDS,
    Euclidean,
    Frozen,
    GeneralizedStiefel,
    Grassmann,
    Hyperbolic,
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

Box = type[BoundedDiagonal] | type[OpenBox]
Solved = tuple[ms.Problem, Any, Callable[[Any], None]]
STOP = ms.GradientNorm(1e-8, relative=True) | ms.MaxIterations(3000)


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def spread(n: int, seed: int = 0) -> np.ndarray:
    """Return a symmetric matrix with eigenvalues from zero to two."""
    Q = np.linalg.qr(np.random.default_rng(seed).standard_normal((n, n)))[0]
    return Q @ np.diag(np.linspace(0, 2, n)) @ Q.T


def leading_eigenvector() -> Solved:
    S = spread(8)
    f = ms.objective(lambda x: -float(x @ S @ x), lambda x: -2 * S @ x)
    best = np.linalg.eigh(S)[1][:, -1]
    return ms.Problem(Sphere(8), f), np.eye(8)[0], lambda x: close(abs(x @ best), 1.0)


def eigenvectors_in_columns() -> Solved:
    S = np.stack([spread(5, seed) for seed in range(3)])
    f = ms.objective(lambda X: -float(np.einsum("ij,jik,kj", X, S, X)), lambda X: -2 * np.einsum("jik,kj->ij", S, X))
    best = np.stack([np.linalg.eigh(part)[1][:, -1] for part in S], axis=1)
    start = Oblique(5, 3).random_point(rng())
    return ms.Problem(Oblique(5, 3), f), start, lambda X: close(np.abs(np.sum(X * best, axis=0)), np.ones(3))


def leading_subspace() -> Solved:
    S = spread(9)
    f = ms.objective(lambda X: -float(np.sum(X * (S @ X))), lambda X: -2 * S @ X)
    best = np.linalg.eigh(S)[1][:, -2:]
    return (
        ms.Problem(Grassmann(9, 2), f),
        Grassmann(9, 2).random_point(rng()),
        lambda X: close(X @ X.T, best @ best.T, atol=1e-7),
    )


def wahba() -> Solved:
    """The rotation nearest to a matrix that is nearest to a reflection."""
    A = np.diag([3.0, 2.0, -1.0]) + 0.1 * rng().standard_normal((3, 3))
    f = ms.objective(lambda X: 0.5 * float(np.sum((X - A) ** 2)), lambda X: X - A)
    best = Rotation.align_vectors(A.T, np.eye(3))[0].as_matrix()
    start = SpecialOrthogonal(3).random_point(rng())
    return ms.Problem(SpecialOrthogonal(3), f), start, lambda X: close(X, best, atol=1e-6)


def nearest_distribution() -> Solved:
    p = np.array([0.1, 0.2, 0.3, 0.4])
    target = p + 0.7  # its projection onto the simplex is p
    f = ms.objective(lambda x: 0.5 * float(np.sum((x - target) ** 2)), lambda x: x - target)
    return ms.Problem(Simplex(4), f), np.full(4, 0.25), lambda x: close(x, p, atol=1e-7)


def multinomial() -> Solved:
    counts = np.array([[1.0, 2.0, 7.0], [5.0, 1.0, 4.0]])
    f = ms.objective(lambda x: -float(np.sum(counts * np.log(x))), lambda x: -counts / x)
    start = np.full((2, 3), 1 / 3)
    return ms.Problem(Simplex(2, 3), f), start, lambda x: close(x, counts / 10, atol=1e-7)


def geometric_mean() -> Solved:
    a = np.exp(2 * rng().standard_normal((6, 3)))
    f = ms.objective(lambda x: 0.5 * float(np.sum(np.log(x / a) ** 2)), lambda x: np.sum(np.log(x / a), axis=0) / x)
    best = np.exp(np.log(a).mean(axis=0))
    return ms.Problem(Positive(3), f), np.ones(3), lambda x: close(x, best, rtol=1e-7)


def mean_of_two_covariances() -> Solved:
    """The midpoint of the geodesic, P^½ (P^-½ Q P^-½)^½ P^½."""
    M = SymmetricPositiveDefinite(4)
    generator = rng()
    ends = [M.random_point(generator) for _ in range(2)]
    half = scipy.linalg.sqrtm(ends[0])
    inverse = np.linalg.inv(half)
    best = half @ scipy.linalg.sqrtm(inverse @ ends[1] @ inverse) @ half

    def fused(X: np.ndarray) -> tuple[float, np.ndarray]:
        L = np.linalg.inv(np.linalg.cholesky(X))
        value, gradient = 0.0, np.zeros_like(X)
        for end in ends:
            w, V = np.linalg.eigh(L @ end @ L.T)
            value += 0.5 * float(np.sum(np.log(w) ** 2))
            gradient -= L.T @ (V * np.log(w)) @ V.T @ L
        return value, gradient

    f = ms.objective(lambda X: fused(X)[0], value_and_gradient=fused)
    return ms.Problem(M, f), np.eye(4), lambda X: close(X, best, atol=1e-7)


def covariance_in_logarithms() -> Solved:
    """Maximum likelihood of a covariance, whatever the metric, is that of the data."""
    C = np.cov(rng().standard_normal((50, 3)).T, bias=True)

    def fused(X: np.ndarray) -> tuple[float, np.ndarray]:
        P = np.linalg.inv(X)
        return float(np.linalg.slogdet(X)[1] + np.sum(P * C)), P - P @ C @ P

    f = ms.objective(lambda X: fused(X)[0], value_and_gradient=fused)
    M = SymmetricPositiveDefinite(3, metric="log-euclidean")
    return ms.Problem(M, f), 3 * np.eye(3), lambda X: close(X, C, atol=1e-6)


def covariance_and_mean() -> Solved:
    """Maximum likelihood of a normal distribution, over a product."""
    data = rng().standard_normal((50, 2)) @ np.array([[1.0, 0.3], [0.0, 0.6]]) + 1.0

    def fused(point: Any) -> tuple[float, Any]:
        X, mean = point
        P, off = np.linalg.inv(X), data - mean
        C = off.T @ off / 50
        return float(np.linalg.slogdet(X)[1] + np.sum(P * C)), (P - P @ C @ P, -2 * P @ off.mean(axis=0))

    f = ms.objective(lambda x: fused(x)[0], value_and_gradient=fused)
    manifold = Product(SymmetricPositiveDefinite(2), Euclidean(2), names=("covariance", "mean"))
    best = (np.cov(data.T, bias=True), data.mean(axis=0))
    return ms.Problem(manifold, f), (np.eye(2), np.zeros(2)), lambda x: close(x, best, atol=1e-6)


def generalized_eigenvalues() -> Solved:
    """The least generalized eigenvalues of (A, B) and their eigenspace."""
    generator = rng()
    factor = generator.standard_normal((7, 10))
    A, B = spread(7), np.eye(7) + factor @ factor.T / 20
    f = ms.objective(lambda X: float(np.sum(X * (A @ X))), lambda X: 2 * A @ X)
    values, vectors = scipy.linalg.eigh(A, B)
    best = vectors[:, :2] @ vectors[:, :2].T

    def judge(X: np.ndarray) -> None:
        close(np.sum(X * (A @ X)), values[:2].sum(), atol=1e-10)
        close(X @ X.T, best, atol=1e-6)

    return ms.Problem(GeneralizedStiefel(B, 2), f), GeneralizedStiefel(B, 2).random_point(generator), judge


def lorentz_centre() -> Solved:
    """The point with the least sum of −<x, y_i> is the sum of the y_i, brought to the hyperboloid."""
    M = Hyperbolic(3)
    generator = rng()
    points = np.stack([M.random_point(generator) for _ in range(20)])
    mirrored = points * [1, -1, -1, -1]
    f = ms.objective(lambda x: float(np.sum(mirrored @ x)), lambda x: mirrored.sum(axis=0))
    total = points.sum(axis=0)
    best = total / np.sqrt(total[0] ** 2 - total[1:] @ total[1:])
    return ms.Problem(M, f), M.random_point(generator), lambda x: close(x, best, atol=1e-6)


def frames_in_the_canonical_metric() -> Solved:
    """Eigenvectors in their order: minus the sum of weighted Rayleigh quotients."""
    S, N = spread(7), np.array([3.0, 2.0, 1.0])
    f = ms.objective(lambda X: -0.5 * float(np.sum(X * (S @ X) * N)), lambda X: -(S @ X) * N)
    M = Stiefel(7, 3, metric="canonical")
    best = np.linalg.eigh(S)[1][:, :-4:-1]
    return ms.Problem(M, f), M.random_point(rng()), lambda X: close(np.abs(X.T @ best), np.eye(3), atol=1e-6)


def barycentre_of_transport() -> Solved:
    """The mean of commuting covariances in the Bures-Wasserstein metric: of their roots."""
    Q = np.linalg.qr(rng().standard_normal((3, 3)))[0]
    roots = rng().uniform(0.2, 3, (4, 3))
    ends = [(Q * r**2) @ Q.T for r in roots]

    def fused(X: np.ndarray) -> tuple[float, np.ndarray]:
        half = np.linalg.cholesky(X)
        value, gradient = 0.0, np.zeros_like(X)
        for end in ends:
            w, V = np.linalg.eigh(half.T @ end @ half)
            value += 0.5 * float(np.trace(X) + np.trace(end) - 2 * np.sqrt(w).sum())
            map_ = np.linalg.solve(half.T, (V * np.sqrt(w)) @ V.T @ np.linalg.inv(half))
            gradient += 0.5 * (np.eye(3) - map_)
        return value, gradient

    f = ms.objective(lambda X: fused(X)[0], value_and_gradient=fused)
    M = SymmetricPositiveDefinite(3, metric="bures-wasserstein")
    best = (Q * roots.mean(axis=0) ** 2) @ Q.T
    return ms.Problem(M, f), np.eye(3), lambda X: close(X, best, atol=1e-6)


def pose_of_points() -> Solved:
    """The rigid motion that takes points to their images (Kabsch), several at once as a power."""
    M, generator = SpecialEuclidean(3) ** 2, rng()
    z, noise = generator.standard_normal((2, 10, 3)), 0.1 * generator.standard_normal((2, 10, 3))
    R, t = M.random_point(generator)
    y = z @ R.mT + t[:, None] + noise

    def fused(pose: Any) -> tuple[float, Any]:
        off = z @ pose[0].mT + pose[1][:, None] - y
        return 0.5 * float(np.sum(off**2)), (off.mT @ z, off.sum(axis=1))

    centred = [a - a.mean(axis=1, keepdims=True) for a in (y, z)]
    best = np.stack([Rotation.align_vectors(a, b)[0].as_matrix() for a, b in zip(*centred, strict=True)])
    shift = y.mean(axis=1) - (best @ z.mean(axis=1)[..., None])[..., 0]
    start = M.retract((R, t), M.random_tangent((R, t), generator))
    f = ms.objective(lambda x: fused(x)[0], value_and_gradient=fused)
    return ms.Problem(M, f), start, lambda x: close(x, (best, shift), atol=1e-6)


def pose_with_a_known_rotation() -> Solved:
    """With the rotation frozen at its start the shift is the mean difference."""
    M = Product(Frozen(SpecialOrthogonal(3)), Euclidean(3))
    z, y = rng().standard_normal((2, 10, 3))
    start = M.random_point(rng())

    def fused(pose: Any) -> tuple[float, Any]:
        off = z @ pose[0].T + pose[1] - y
        return 0.5 * float(np.sum(off**2)), (off.T @ z, off.sum(axis=0))

    best = (y - z @ start[0].T).mean(axis=0)
    f = ms.objective(lambda x: fused(x)[0], value_and_gradient=fused)
    return ms.Problem(M, f), start, lambda x: close(x, (start[0], best), atol=1e-6)


SOLVED = [
    frames_in_the_canonical_metric,
    barycentre_of_transport,
    pose_of_points,
    pose_with_a_known_rotation,
    generalized_eigenvalues,
    lorentz_centre,
    covariance_in_logarithms,
    leading_eigenvector,
    eigenvectors_in_columns,
    leading_subspace,
    wahba,
    nearest_distribution,
    multinomial,
    geometric_mean,
    mean_of_two_covariances,
    covariance_and_mean,
]


@parametrize("solver", ["lbfgs", "pgd"], fast=1)
@pytest.mark.parametrize("made", SOLVED, ids=lambda made: made.__name__)
def test_known_optimum(made: Callable[[], Solved], solver: str) -> None:
    problem, start, judge = made()
    options = {"step_size": 0.05} if solver == "pgd" else {}
    result = ms.minimize(problem, start, solver=solver, options=options, stop=STOP)
    assert result.success, result
    judge(result.x)
    assert result.feasibility < 1e-13


@pytest.mark.parametrize("kind", ["qr", "cayley", "exp"])
def test_every_retraction_finds_the_subspace(kind: str) -> None:
    problem, start, judge = leading_subspace()
    result = ms.minimize(problem, start, options={"retraction": kind}, stop=STOP)
    assert result.success, result
    judge(result.x)


def test_single_precision_finds_the_covariance() -> None:
    problem, start, _ = mean_of_two_covariances()
    result = ms.minimize(problem, start.astype(np.float32), stop=ms.GradientNorm(1e-4, relative=True))
    exact = ms.minimize(problem, start, stop=STOP)
    assert result.success and result.x.dtype == np.float32
    close(result.x, exact.x, atol=1e-4)


def boxed(active: bool, box: Box, seed: int) -> tuple[ms.Problem, np.ndarray]:
    """Return a quadratic over a box, half of whose bounds are active at the optimum or none, and the optimum."""
    generator = np.random.default_rng(seed)
    n = 10
    Q = np.linalg.qr(generator.standard_normal((n, n)))[0]
    H = Q @ np.diag(np.linspace(1, 20, n)) @ Q.T
    best = generator.uniform(-0.5, 0.5, n)
    on = np.arange(n) < (n // 2 if active else 0)
    best = np.where(on, 0.8 * np.sign(best), best)
    push = np.where(on, -np.sign(best) * generator.uniform(1, 5, n), 0)  # the gradient at the optimum points outward
    f = ms.objective(
        lambda x: float((x - best) @ (0.5 * H @ (x - best) + push)),
        lambda x: H @ (x - best) + push,
        hessian_product=lambda x, u: H @ u,
    )
    return ms.Problem(box(n, 0.8), f), best


def iterations(active: bool, box: Box, solver: str, options: dict[str, Any]) -> list[int]:
    """Return the iterations to relative gradient norm 1e-8 of five problems; 1000 is the limit."""
    counts = []
    for seed in range(5):
        problem, best = boxed(active, box, seed)
        stop = ms.GradientNorm(1e-8, relative=True) | ms.MaxIterations(1000)
        result = ms.minimize(problem, np.zeros(10), solver=solver, options=options, stop=stop)
        if result.success:
            close(result.x, best, atol=1e-6)
        counts.append(result.nit)
    return counts


@pytest.mark.parametrize(("solver", "options"), [("lbfgs", {}), ("pgd", {"step_size": 1.0}), ("tr", {})])
def test_an_active_bound_converges_like_an_inactive_one(solver: str, options: Any) -> None:
    inside, on_bound = (iterations(active, BoundedDiagonal, solver, options) for active in (False, True))
    assert np.median(on_bound) <= 2 * np.median(inside)
    assert max(on_bound) < 150


def test_an_open_box_crawls_to_an_active_bound() -> None:
    inside, on_bound = (iterations(active, OpenBox, "pgd", {"step_size": 1.0}) for active in (False, True))
    assert max(inside) < 200 and min(on_bound) == 1000


def of_rows(x: Any) -> Any:
    """A smooth function of X that does not tell X from X Q."""
    P = anp.dot(x, x.T)
    return anp.sum(anp.sin(P)) + anp.sum(P[0] ** 3)


def of_entries(x: Any) -> Any:
    return anp.sum(anp.sin(3 * x)) + anp.sum(x) ** 3


def of_logarithms(x: Any) -> Any:
    """Has its minimum inside the positive numbers; that of `of_entries` is at zero, which is no point of them."""
    return of_entries(x) - anp.sum(anp.log(x))


def of_first_distance(x: Any) -> Any:
    """Grows in every direction of the hyperboloid."""
    return anp.sum(anp.cosh(x[1:] - 0.5)) + x[0] * anp.sin(x[1]) ** 2


def of_leaves(point: Any) -> Any:
    """Couples the arrays of a point, however nested."""
    parts = flat(point)
    return anp.sum(parts[0]) * anp.sum(anp.sin(parts[-1])) + sum(
        anp.sum(anp.sin(part + k) + part**4) for k, part in enumerate(parts)
    )


def of_factors(point: Any) -> Any:
    """Couples the factors, so that the Hessian has blocks off the diagonal."""
    R, X, w = point
    return anp.sum(anp.sin(anp.dot(R, anp.dot(X, X.T)))) + anp.sum(w) * anp.sum(R**3)


@parametrize(
    ("manifold", "cost"),
    [
        (Grassmann(5, 2), of_rows),
        (SpecialOrthogonal(3), of_entries),
        (Sphere(4), of_entries),
        (Oblique(3, 2), of_entries),
        (Simplex(2, 3), of_entries),
        (Positive(3), of_logarithms),
        (SymmetricPositiveDefinite(3, metric="log-euclidean"), of_entries),
        (Hyperbolic(3), of_first_distance),
        (GeneralizedStiefel(np.diag([1.0, 2.0, 4.0]) + 0.5, 2), of_entries),
        (SymmetricPositiveDefinite(3), of_entries),
        (SymmetricPositiveDefinite(3, metric="bures-wasserstein"), of_entries),
        (Stiefel(5, 2), of_entries),
        (Stiefel(5, 2, metric="canonical"), of_entries),
        (Orthogonal(3), of_entries),
        (SpecialOrthogonal(3) ** 2, of_entries),
        (SpecialEuclidean(2), of_leaves),
        (CanonicalLDS(4, 2), of_leaves),
        (Product(Frozen(Stiefel(5, 2)), Sphere(3)), of_leaves),
        (BoundedDiagonal(3), of_entries),
        (OpenBox(3), of_entries),
        (Product(SpecialOrthogonal(3), Grassmann(3, 2), Simplex(3)), of_factors),
    ],
    fast=4,
    ids=lambda one: getattr(one, "__name__", repr(one)),
)
def test_hessians_from_automatic_differentiation(manifold: Any, cost: Any) -> None:
    problem = ms.Problem(manifold, ms.objective(cost))
    ms.testing.check_gradient(problem).raise_for_failure()
    ms.testing.check_hessian(problem).raise_for_failure()
    result = ms.minimize(problem, seed=0, solver="tr")
    assert result.success, result
