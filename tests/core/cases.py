"""The tables that the tests of the core share: manifolds, problems with known minima, tree helpers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.linalg

import manifoldseq as ms
from manifoldseq.manifolds import (
    BoundedDiagonal,
    Box,
    CanonicalLDS,
    Euclidean,
    GeneralizedStiefel,
    Grassmann,
    Hyperbolic,
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

MANIFOLDS: dict[str, Manifold] = {
    "vectors": Euclidean(4),
    "matrices": Euclidean(3, 2),
    "stiefel": Stiefel(7, 3),
    "tall": Stiefel(12, 2),
    "canonical": Stiefel(7, 3, metric="canonical"),
    "canonical rotations": Stiefel(3, 3, metric="canonical"),
    "sphere": Stiefel(5, 1),
    "square": Stiefel(3, 3),
    "orthogonal": Orthogonal(4),
    "signs": Orthogonal(1),
    "bounded": BoundedDiagonal(5, 0.7),
    "open-box": OpenBox(5, 0.7),
    "one column": Stiefel(1, 1),
    "rotations": SpecialOrthogonal(4),
    "turns": SpecialOrthogonal(2),
    "one": SpecialOrthogonal(1),
    "subspaces": Grassmann(7, 3),
    "lines": Grassmann(5, 1),
    "hyperplanes": Grassmann(4, 3),
    "everything": Grassmann(3, 3),
    "unit vectors": Sphere(5),
    "unit matrices": Sphere(3, 2),
    "two points": Sphere(1),
    "columns": Oblique(4, 3),
    "column signs": Oblique(1, 2),
    "distribution": Simplex(5),
    "rows": Simplex(3, 4),
    "certain": Simplex(1),
    "scales": Positive(4),
    "weights": Positive(2, 3),
    "covariance": SymmetricPositiveDefinite(4),
    "logarithms": SymmetricPositiveDefinite(3, metric="log-euclidean"),
    "transport": SymmetricPositiveDefinite(3, metric="bures-wasserstein"),
    "variance": SymmetricPositiveDefinite(1),
    "hyperbolic": Hyperbolic(3),
    "hyperbola": Hyperbolic(1),
    "generalized": GeneralizedStiefel(np.diag([1.0, 2.0, 4.0, 8.0]) + 0.5, 2),
    "one filter": GeneralizedStiefel(np.diag([1.0, 2.0, 4.0]) + 0.5, 1),
    "all filters": GeneralizedStiefel(np.diag([1.0, 2.0, 4.0]) + 0.5, 3),
    "box": Box([-np.inf, 0.0, -1.0, -np.inf], [np.inf, np.inf, 1.0, 2.0]),
    "boxes": Box(0.0, np.inf, 2, 3) ** 2,
    "partly fixed": Box([0.0, 1.0, -1.0], [2.0, 1.0, np.inf]),
    "product": Product(Stiefel(5, 2), Euclidean(3), names=("U", "b")),
    "nested": Product(Product(Stiefel(5, 2), BoundedDiagonal(2)), Orthogonal(3), names=("pair", "V")),
    "lds": CanonicalLDS(6, 3),
    "poses": SpecialEuclidean(3),
    "three rotations": SpecialOrthogonal(3) ** 3,
    "three reflections or turns": Orthogonal(2) ** 3,
    "two covariances": SymmetricPositiveDefinite(2) ** 2,
    "two poses": SpecialEuclidean(2) ** 2,
    "two mixtures": Product(Simplex(3), Positive(2), BoundedDiagonal(2)) ** 2,
    "mixture": Product(Simplex(3), Product(Grassmann(5, 2), SymmetricPositiveDefinite(2)), Sphere(3), Positive(2)),
}
EMBEDDED = [name for name, M in MANIFOLDS.items() if M.metric == "embedded"]
ORTHONORMAL = [name for name in EMBEDDED if isinstance(MANIFOLDS[name], Stiefel | Orthogonal)]


def two_points(M: Manifold, rng: np.random.Generator, dtype: Any = np.float64) -> tuple[Any, Any]:
    """Return random points of one component, the second at a distance of 1.2 where that of random ones is unknown."""
    x, y = (M.to_component(M.random_point(rng, dtype), 0) for _ in range(2))
    if M.dim > 0 and M.dist is not None and not np.isfinite(M.dist(x, y)):
        u = M.random_tangent(x, rng)
        length = M.inner(x, u, u) ** 0.5
        y = M.exp(x, tree_map(lambda leaf: leaf.dtype.type(1.2 / length) * leaf, u))
    return x, y


def tree_map(function: Callable[..., Any], *trees: Any) -> Any:
    """Apply a function to the leaves: a second, naive implementation."""
    if isinstance(trees[0], tuple):
        return tuple(tree_map(function, *parts) for parts in zip(*trees, strict=True))
    return function(*trees)


def leaves(tree: Any) -> list[np.ndarray]:
    return [leaf for part in tree for leaf in leaves(part)] if isinstance(tree, tuple) else [tree]


def random_like(x: Any, rng: np.random.Generator) -> Any:
    return tree_map(lambda leaf: rng.standard_normal(leaf.shape).astype(leaf.dtype), x)


def dot(a: Any, b: Any) -> float:
    return float(sum(np.sum(p * q) for p, q in zip(leaves(a), leaves(b), strict=True)))


def close(a: Any, b: Any, **tolerance: float) -> None:
    for p, q in zip(leaves(a), leaves(b), strict=True):
        np.testing.assert_allclose(p, q, **{"atol": 1e-12, "rtol": 1e-12, **tolerance})


def equal(a: Any, b: Any) -> None:
    for p, q in zip(leaves(a), leaves(b), strict=True):
        np.testing.assert_array_equal(p, q)
        assert p.dtype == q.dtype


def slope(error: Callable[[float], float], low: float = -4, high: float = -2) -> float:
    """Return the order of an error that is well above rounding between two steps."""
    return float(np.log10(error(10.0**high) / error(10.0**low)) / (high - low))


def quadratic(n: int = 4) -> tuple[ms.Problem, Any, float]:
    """An ill-scaled quadratic over vectors."""
    scales = np.linspace(1.0, 5.0, n)
    f = ms.objective(
        lambda x: 0.5 * float(scales @ (x * x)), lambda x: scales * x, hessian_product=lambda x, u: scales * u
    )
    return ms.Problem(Euclidean(n), f), np.arange(1.0, n + 1), 0.0


def procrustes(n: int = 8, p: int = 3, seed: int = 1) -> tuple[ms.Problem, Any, float]:
    """The nearest matrix with orthonormal columns."""
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((n, p))
    f = ms.objective(lambda X: float(np.sum((X - A) ** 2)), lambda X: 2 * (X - A), hessian_product=lambda X, U: 2 * U)
    minimum = float(np.sum((scipy.linalg.polar(A)[0] - A) ** 2))
    return ms.Problem(Stiefel(n, p), f), Stiefel(n, p).random_point(rng), minimum


def subspace(n: int = 9, p: int = 2) -> tuple[ms.Problem, Any, float]:
    """The leading eigenspace of a symmetric matrix with well separated eigenvalues."""
    rng = np.random.default_rng(2)
    Q = scipy.linalg.qr(rng.standard_normal((n, n)))[0]
    S = Q @ np.diag(np.linspace(0.0, 2.0, n)) @ Q.T
    f = ms.objective(
        lambda X: -float(np.sum(X * (S @ X))), lambda X: -2 * S @ X, hessian_product=lambda X, U: -2 * S @ U
    )
    return ms.Problem(Stiefel(n, p), f), Stiefel(n, p).random_point(rng), -float(np.linalg.eigvalsh(S)[-p:].sum())


def box(n: int = 5) -> tuple[ms.Problem, Any, float]:
    """The nearest point of a box, some of whose bounds are active there."""
    target = np.linspace(-1.5, 1.0, n)
    f = ms.objective(lambda x: float(np.sum((x - target) ** 2)), lambda x: 2 * (x - target))
    best = np.clip(target, -0.6, 0.6)
    return ms.Problem(BoundedDiagonal(n, 0.6), f), np.zeros(n), float(np.sum((best - target) ** 2))


def system() -> tuple[ms.Problem, Any, float]:
    """The nearest canonical system, each factor apart."""
    rng = np.random.default_rng(3)
    M = CanonicalLDS(6, 3, 0.9)
    target = (np.array([1.2, -0.3, 0.5]), 0.3 * rng.standard_normal((3, 3)) + np.eye(3), rng.standard_normal((6, 3)))
    best = (np.clip(target[0], -0.9, 0.9), *(scipy.linalg.polar(part)[0] for part in target[1:]))
    x0 = (np.zeros(3), scipy.linalg.expm(0.3 * (target[1] - target[1].T)) @ best[1], M.random_point(rng)[2])

    def value(x: Any) -> float:
        return sum(float(np.sum((a - b) ** 2)) for a, b in zip(x, target, strict=True))

    f = ms.objective(value, lambda x: tuple(2 * (a - b) for a, b in zip(x, target, strict=True)))
    return ms.Problem(M, f), x0, value(best)


PROBLEMS = {made.__name__: made for made in (quadratic, procrustes, subspace, box, system)}


def nearest_orthogonal(n: int, seed: int) -> tuple[ms.Problem, float]:
    """Return the problem of the orthogonal matrix nearest to a random one, and its minimum over both components."""
    A = np.random.default_rng(seed).standard_normal((n, n))
    f = ms.objective(lambda X: float(np.sum((X - A) ** 2)), lambda X: 2 * (X - A))
    return ms.Problem(Orthogonal(n), f), float(np.sum((scipy.linalg.polar(A)[0] - A) ** 2))


def failing(report: ms.testing.Report, *words: str) -> None:
    """Assert that a report fails, in exactly one law for each of the words; scikit-learn 1.6 runs some checks twice."""
    assert not report.ok, report
    failures = list({law.name: law for law in report.failures}.values())
    assert len(failures) == len(words), report
    for word, law in zip(words, failures, strict=True):
        assert word in str(law), report


def changed(problem: ms.Problem, **abilities: Any) -> ms.Problem:
    return replace(problem, objective=replace(problem.objective, **abilities))
