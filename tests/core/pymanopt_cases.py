"""Manifolds of both sides, and one least-squares problem for each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import autograd.numpy as anp
import numpy as np
import pymanopt
from core.cases import leaves, tree_map

import manifoldseq as ms
from manifoldseq.manifolds import (
    BoundedDiagonal,
    CanonicalLDS,
    Euclidean,
    Grassmann,
    Manifold,
    Oblique,
    Orthogonal,
    Positive,
    Product,
    Simplex,
    SpecialOrthogonal,
    Sphere,
    Stiefel,
    SymmetricPositiveDefinite,
)

OURS: dict[str, Manifold] = {
    "euclidean": Euclidean(3, 2),
    "stiefel": Stiefel(5, 2),
    "orthogonal": Orthogonal(3),
    "rotations": SpecialOrthogonal(3),
    "grassmann": Grassmann(5, 2),
    "sphere": Sphere(4),
    "oblique": Oblique(4, 2),
    "simplex": Simplex(4),
    "positive": Positive(3),
    "spd": SymmetricPositiveDefinite(3),
    "bounded": BoundedDiagonal(4),
    "lds": CanonicalLDS(4, 2),
    "nested": Product(Product(Stiefel(4, 2), Euclidean(2)), Positive(2)),
    "single": Product(Sphere(3)),
}
QUOTIENTS = (Grassmann, pymanopt.manifolds.Grassmann, pymanopt.manifolds.PSDFixedRank)


def theirs() -> dict[str, Any]:
    """Return manifolds of pymanopt."""
    m = pymanopt.manifolds
    return {
        "euclidean": m.Euclidean(3, 2),
        "symmetric": m.Symmetric(3),
        "skew": m.SkewSymmetric(3),
        "stiefel": m.Stiefel(5, 2),
        "several": m.Stiefel(4, 2, k=3),
        "rotations": m.SpecialOrthogonalGroup(4),
        "grassmann": m.Grassmann(5, 2),
        "sphere": m.Sphere(4),
        "oblique": m.Oblique(4, 2),
        "positive": m.Positive(3, 1),
        "spd": m.SymmetricPositiveDefinite(3),
        "psd": m.PSDFixedRank(5, 2),
        "ball": m.PoincareBall(3),
        "fixed-rank": m.FixedRankEmbedded(6, 5, 2),
        "product": m.Product([m.Stiefel(5, 2), m.SpecialOrthogonalGroup(3), m.Positive(2, 1)]),
    }


def cost_of(manifold: Any, target: Any) -> Callable[[Any], Any]:
    """Return the squared distance to a target, of projectors on a quotient and of matrices of fixed rank."""
    goals = leaves(target)

    def matrix(parts: list[Any]) -> list[Any]:
        if isinstance(manifold, pymanopt.manifolds.FixedRankEmbedded):
            return [anp.dot(parts[0] * parts[1], parts[2])]
        if isinstance(manifold, QUOTIENTS):
            return [anp.dot(parts[0], parts[0].T)]
        return parts

    def cost(x: Any) -> Any:
        parts = [x] if len(goals) == 1 and not isinstance(target, tuple) else flat(x)
        return sum(anp.sum((a - b) ** 2 + (a - b) ** 4) for a, b in zip(matrix(parts), matrix(goals), strict=True))

    return cost


def flat(x: Any) -> list[Any]:
    """Return the leaves of a tree that autograd may have boxed."""
    if isinstance(x, tuple | list) or type(x).__name__ == "SequenceBox":
        return [leaf for part in x for leaf in flat(part)]
    return [x]


def problem_on(manifold: Manifold, kind: Any, seed: int = 0) -> tuple[ms.Problem, Any]:
    """Return the problem of a manifold, whose minimum is zero, and a start at about distance one."""
    rng = np.random.default_rng(seed)
    target = manifold.random_point(rng)
    u = manifold.random_tangent(target, rng)
    length = manifold.inner(target, u, u) ** 0.5
    x0 = manifold.retract(target, tree_map(lambda leaf: leaf / length, u))  # within the target's component
    return ms.Problem(manifold, ms.objective(cost_of(kind, target))), x0
