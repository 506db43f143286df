"""The laws that pymanopt tests its manifolds for, on every manifold of ours in its place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymanopt
import pytest
from core.cases import MANIFOLDS, close, leaves, slope, tree_map, two_points
from helpers import parametrize

import manifoldseq as ms
from manifoldseq.manifolds import (
    Euclidean,
    Grassmann,
    Positive,
    Product,
    SpecialOrthogonal,
    Sphere,
    Stiefel,
    SymmetricPositiveDefinite,
)

OURS = [name for name, M in MANIFOLDS.items() if M.dim > 0]
KNOWN = [name for name in OURS if MANIFOLDS[name].log is not None]


def drawn(name: str) -> tuple[Any, Any, Any, Any]:
    """Return a manifold in pymanopt, two points of one component and a tangent vector of length at most one half."""
    M = ms.to_pymanopt(MANIFOLDS[name], seed=3)
    x, y = map(M.to_theirs, two_points(MANIFOLDS[name], M.rng))
    # short enough not to leave an open set
    return M, x, y, M.random_tangent_vector(x) * (0.01 if MANIFOLDS[name].open or MANIFOLDS[name].bounded else 0.5)


def listed(tree: Any) -> list[np.ndarray]:
    return tree if isinstance(tree, list) else [tree]


def same_vector(M: Any, x: Any, u: Any, v: Any, atol: float = 1e-9) -> None:
    assert M.norm(x, u - v) < atol


@parametrize("name", KNOWN, fast=8)
def test_exp_and_log_are_inverse(name: str) -> None:
    M, x, y, u = drawn(name)
    assert M.dist(M.exp(x, M.log(x, y)), y) < 1e-7
    same_vector(M, x, M.log(x, M.exp(x, u)), u, 1e-8)


@parametrize("name", KNOWN, fast=8)
def test_distances(name: str) -> None:
    M, x, y, u = drawn(name)
    assert M.dist(x, y) == pytest.approx(M.norm(x, M.log(x, y)), abs=1e-9) == pytest.approx(M.dist(y, x), abs=1e-9)
    assert M.dist(x, x) < 1e-7
    assert M.dist(x, M.exp(x, u)) == pytest.approx(M.norm(x, u), abs=1e-8)
    z = M.exp(x, u)
    assert M.dist(x, y) <= M.dist(x, z) + M.dist(z, y) + 1e-9


@parametrize("name", KNOWN, fast=8)
def test_the_mean_of_a_pair_is_half_way(name: str) -> None:
    M, x, y, _ = drawn(name)
    z = M.pair_mean(x, y)
    assert M.dist(x, z) == pytest.approx(M.dist(y, z), abs=1e-8) == pytest.approx(M.dist(x, y) / 2, abs=1e-8)


@parametrize("name", OURS, fast=8)
def test_retraction_and_exponential_map_agree_with_the_tangent_vector(name: str) -> None:
    M, x, _, u = drawn(name)

    def error(move: Any, t: float) -> float:
        moved = zip(listed(move(x, u * t)), listed(x), listed(u), strict=True)
        return float(np.sqrt(sum(np.sum((a - b - t * c) ** 2) for a, b, c in moved)))

    for move in (M.retraction, M.exp):
        exact = error(move, 1e-2) < 1e-14  # on flat sets
        assert exact or slope(lambda t, move=move: error(move, t), -3.5, -2) > 1.9
        assert MANIFOLDS[name].feasibility(M.to_ours(move(x, u))) < 1e-10


@parametrize("name", OURS, fast=8)
def test_transport_is_tangent_linear_and_the_identity_at_the_point(name: str) -> None:
    M, x, y, u = drawn(name)
    v = M.transport(x, y, u)
    same_vector(M, y, M.projection(y, v), v)
    same_vector(M, x, M.transport(x, x, u), u)
    same_vector(M, y, M.transport(x, y, u * 2.0), v * 2.0)


@parametrize("name", OURS, fast=8)
def test_vectors_norms_and_typical_distances(name: str) -> None:
    M, x, _, u = drawn(name)
    assert M.norm(x, M.zero_vector(x)) == 0
    assert M.norm(x, u) ** 2 == pytest.approx(M.inner_product(x, u, u))
    assert np.isfinite(M.typical_dist) and M.typical_dist > 0
    assert M.norm(x, M.random_tangent_vector(x)) == pytest.approx(1)
    assert any(
        np.abs(a - b).max() > 1e-6 for a, b in zip(listed(M.random_point()), listed(M.random_point()), strict=True)
    )


THEIRS = pymanopt.manifolds
SEVERAL = {
    "stiefel": (Stiefel(5, 2), THEIRS.Stiefel(5, 2, k=3)),
    "grassmann": (Grassmann(5, 2), THEIRS.Grassmann(5, 2, k=3)),
    "rotations": (SpecialOrthogonal(3), THEIRS.SpecialOrthogonalGroup(3, k=3)),
    "spd": (SymmetricPositiveDefinite(3), THEIRS.SymmetricPositiveDefinite(3, k=3)),
    "positive": (Positive(3, 1), THEIRS.Positive(3, 1, k=3)),
}


@pytest.mark.parametrize("name", SEVERAL)
def test_powers_are_their_several_points(name: str) -> None:
    one, theirs = SEVERAL[name]
    M = ms.to_pymanopt(one**3, seed=0)
    assert (M.dim, M.typical_dist) == (theirs.dim, pytest.approx(theirs.typical_dist))
    x, y = M.random_point(), M.random_point()
    assert x.shape == theirs.random_point().shape
    u = M.random_tangent_vector(x)
    if name == "rotations":  # their tangent vectors are skew-symmetric, ours XΩ
        assert M.inner_product(x, u, u) == pytest.approx(theirs.inner_product(x, x.mT @ u, x.mT @ u))
        close(M.log(x, y), x @ theirs.log(x, y), atol=1e-9)
        return
    assert M.inner_product(x, u, u) == pytest.approx(theirs.inner_product(x, u, u))
    close(M.projection(x, x), theirs.projection(x, x), atol=1e-12)
    if name != "stiefel":
        assert M.dist(x, y) == pytest.approx(theirs.dist(x, y))
        close(M.log(x, y), theirs.log(x, y), atol=1e-9)


def test_typical_distance_of_a_product_is_that_of_pymanopt() -> None:
    theirs = THEIRS.Product([THEIRS.Euclidean(4, 3), THEIRS.Sphere(5)])
    assert ms.to_pymanopt(Product(Euclidean(4, 3), Sphere(5))).typical_dist == pytest.approx(theirs.typical_dist)


# a random start is not to be in another component: of systems one factor has two
@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in KNOWN if MANIFOLDS[name].components == 1 and name != "lds"])
def test_nelder_meads_centroid_is_the_mean(name: str) -> None:
    """pymanopt's own centroid, which uses nothing but log, dist and exp, is our mean."""
    from pymanopt.optimizers.nelder_mead import compute_centroid

    M, x, _, _ = drawn(name)
    size = 0.05 if MANIFOLDS[name].open else 0.3
    points = [M.exp(x, M.random_tangent_vector(x) * size) for _ in range(4)]
    mean = ms.frechet_mean(MANIFOLDS[name], [M.to_ours(point) for point in points])
    assert {leaf.dtype for leaf in leaves(tree_map(np.asarray, mean))} == {np.dtype(np.float64)}
    centroid = compute_centroid(M, points)  # stops after 15 steps
    assert M.dist(M.to_theirs(mean), centroid) < 0.2 * size
    spread = [sum(M.dist(x, point) ** 2 for point in points) for x in (M.to_theirs(mean), centroid)]
    assert spread[0] <= spread[1] + 1e-12
