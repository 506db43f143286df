"""Costs of jax on every manifold, with the same ones in numpy: value and gradient written by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import manifoldseq as ms

M = ms.manifolds


class Case(NamedTuple):
    """A problem of jax, the same in numpy, and a start."""

    compiled: ms.Problem
    by_hand: ms.Problem
    start: Any


def brockett(X: Any, A: Any, N: Any) -> Any:
    return ((A @ X) * X * N).sum()


def procrustes(X: Any, A: Any, B: Any) -> Any:
    return ((A @ X - B) ** 2).sum()


def trace(X: Any, A: Any) -> Any:
    return -(X * (A @ X)).sum()


def weighted(X: Any, B: Any, w: Any) -> Any:
    return (w * (X - B) ** 2).sum()


def quartic(X: Any, D: Any) -> Any:
    return ((X - D) ** 4).sum()


def likelihood(X: Any, S: Any) -> Any:
    import jax.numpy as jnp

    return jnp.sum(jnp.linalg.slogdet(X)[1] + jnp.trace(jnp.linalg.solve(X, S), axis1=-2, axis2=-1))


def mixed(x: Any, C: Any) -> Any:
    R, p, s = x
    return ((R * p[0] - C) ** 2).sum() + (p[1] * s[0] - 2) ** 2 + ((p - 1) ** 2).sum()


def _likelihood_by_hand(X: np.ndarray, S: np.ndarray) -> tuple[float, np.ndarray]:
    inverse = np.linalg.inv(X)
    value = np.linalg.slogdet(X)[1].sum() + np.trace(inverse @ S, axis1=-2, axis2=-1).sum()
    return float(value), inverse - inverse @ S @ inverse


def _mixed_by_hand(x: Any, C: np.ndarray) -> Any:
    R, p, s = x
    D, e = R * p[0] - C, p[1] * s[0] - 2
    slope = np.array([2 * (D * R).sum(), 2 * e * s[0]]) + 2 * (p - 1)
    return mixed(x, C), (2 * p[0] * D, slope, np.array([2 * e * p[1], 0.0]))


def cases(seed: int = 0) -> dict[str, Callable[[], Case]]:
    """Return the cases by name; each is made when it is asked for."""
    rng = np.random.default_rng(seed)

    def case(manifold: Any, cost: Any, gradient: Any, *args: np.ndarray, pair: Any = None) -> Case:
        def fused(x: Any) -> Any:
            return pair(x, *args) if pair else (float(cost(x, *args)), gradient(x, *args))

        compiled = ms.Problem(manifold, ms.objective(cost, args=args, backend="jax"))
        by_hand = ms.Problem(manifold, ms.objective(value_and_gradient=fused))
        return Case(compiled, by_hand, manifold.random_point(np.random.default_rng(seed + 3)))

    def symmetric(n: int) -> np.ndarray:
        A = rng.standard_normal((n, n))
        return A + A.T

    A, N, G = symmetric(5), np.array([1.0, 2.0]), rng.standard_normal((8, 5))
    B, C, D = rng.standard_normal((4, 6)), rng.standard_normal((3, 3)), rng.standard_normal((7, 5))
    positive = np.stack([a @ a.T + np.eye(2) for a in rng.standard_normal((4, 2, 2))])
    P = symmetric(8)
    h, target, w = rng.standard_normal((8, 2)), rng.standard_normal(6), np.arange(1.0, 7.0)

    def by(cost: Any, gradient: Any, manifold: Any, *args: np.ndarray) -> Callable[[], Case]:
        return lambda: case(manifold, cost, gradient, *args)

    def of_brockett(X: Any, A: Any, N: Any) -> Any:
        return 2 * (A @ X) * N

    def of_procrustes(X: Any, A: Any, B: Any) -> Any:
        return 2 * A.T @ (A @ X - B)

    def of_weighted(X: Any, B: Any, w: Any) -> Any:
        return 2 * w * (X - B)

    def of_quartic(X: Any, D: Any) -> Any:
        return 4 * (X - D) ** 3

    return {
        "euclidean": by(weighted, of_weighted, M.Euclidean(6), target, w),
        "sphere": by(quartic, of_quartic, M.Sphere(5), D[0]),
        "oblique": by(weighted, of_weighted, M.Oblique(4, 6), B, np.arange(1.0, 5.0)[:, None]),
        "stiefel": by(brockett, of_brockett, M.Stiefel(5, 2), A, N),
        "canonical": by(procrustes, of_procrustes, M.Stiefel(5, 2, metric="canonical"), G, h),
        "orthogonal": by(quartic, of_quartic, M.Orthogonal(3), C),
        "rotations": by(quartic, of_quartic, M.SpecialOrthogonal(3), C),
        "grassmann": by(trace, lambda X, A: -2 * (A @ X), M.Grassmann(8, 3), P),
        "spd": lambda: case(M.SymmetricPositiveDefinite(2), likelihood, None, positive[0], pair=_likelihood_by_hand),
        "positive": by(weighted, of_weighted, M.Positive(6), np.abs(target) + 0.1, w),
        "box": by(weighted, of_weighted, M.BoundedDiagonal(6, bound=0.9), target, w),
        "open-box": by(weighted, of_weighted, M.OpenBox(6, bound=4.0), target, w),
        "spheres": by(quartic, of_quartic, M.Power(M.Sphere(5), 7), D),
        "spds": lambda: case(
            M.Power(M.SymmetricPositiveDefinite(2), 4), likelihood, None, positive, pair=_likelihood_by_hand
        ),
        "product": lambda: case(
            M.Product(M.Orthogonal(3), M.Positive(2), M.Sphere(2)), mixed, None, C, pair=_mixed_by_hand
        ),
    }
