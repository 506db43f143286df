"""Manifold × law, with oracles that share no code with the manifolds."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
import scipy.linalg
from core.cases import MANIFOLDS, ORTHONORMAL, close, equal, leaves, random_like, slope
from helpers import parametrize
from hypothesis import given
from hypothesis import strategies as st

import manifoldseq as ms
from manifoldseq.manifolds import (
    BoundedDiagonal,
    CanonicalLDS,
    Euclidean,
    Grassmann,
    Manifold,
    Oblique,
    OpenBox,
    Orthogonal,
    Positive,
    Product,
    Simplex,
    SpecialOrthogonal,
    Sphere,
    Stiefel,
    SymmetricPositiveDefinite,
)

table = pytest.mark.parametrize("name", MANIFOLDS)
orthonormal = pytest.mark.parametrize("name", ORTHONORMAL)


def drawn(name: str, seed: int = 0) -> tuple[Any, Any, np.random.Generator]:
    M, rng = MANIFOLDS[name], np.random.default_rng(seed)
    return M, M.random_point(rng), rng


def tangent_basis(X: np.ndarray) -> np.ndarray:
    """Columns span the U with X'U + U'X = 0: the null space of that linear map, by scipy."""
    n, p = X.shape
    units = np.eye(n * p).reshape(-1, n, p)
    return scipy.linalg.null_space(np.array([(X.T @ E + E.T @ X).ravel() for E in units]).T)


def geodesic(X: np.ndarray, U: np.ndarray) -> np.ndarray:
    """The geodesic of the embedded metric at time one (Edelman, Arias, Smith 1998, section 2.2.2)."""
    p = X.shape[1]
    A, S = X.T @ U, U.T @ U
    block = scipy.linalg.expm(np.block([[A, -S], [np.eye(p), A]]))
    return np.hstack([X, U]) @ block[:, :p] @ scipy.linalg.expm(-A)


@table
@parametrize("seed", range(2), fast=1)
def test_every_law_of_the_checker(name: str, seed: int) -> None:
    ms.testing.check_manifold(MANIFOLDS[name], seed=seed).raise_for_failure()


@orthonormal
def test_projection_against_a_null_space(name: str) -> None:
    M, X, rng = drawn(name)
    basis = tangent_basis(X)
    Z = rng.standard_normal(X.shape)
    close(M.project(X, Z).ravel(), basis @ (basis.T @ Z.ravel()), atol=1e-12)
    assert M.dim == basis.shape[1]


@orthonormal
def test_retractions_against_scipy(name: str) -> None:
    M, X, rng = drawn(name)
    U = M.random_tangent(X, rng)
    close(M.retract(X, U), scipy.linalg.polar(X + U)[0], atol=1e-12)
    close(M.retract(X, U, "polar"), M.retract(X, U))
    Q, R = scipy.linalg.qr(X + U, mode="economic")
    close(M.retract(X, U, "qr"), Q * np.sign(np.diag(R)), atol=1e-12)
    close(M.retract(X, 3 * U, "exp"), geodesic(X, 3 * U), atol=1e-10)


@pytest.mark.parametrize("name", [name for name in ORTHONORMAL if MANIFOLDS[name].dim])
@pytest.mark.parametrize(("kind", "order"), [("polar", 2.9), ("cayley", 1.9), ("qr", 1.9)])
def test_order_of_retractions_against_geodesics(name: str, kind: str, order: float) -> None:
    M, X, rng = drawn(name)
    U = M.random_tangent(X, rng)
    assert slope(lambda t: np.linalg.norm(M.retract(X, t * U, kind) - geodesic(X, t * U)), -3, -1.5) > order


@table
def test_pickled_manifolds_are_equal(name: str) -> None:
    M = MANIFOLDS[name]
    again = pickle.loads(pickle.dumps(M))
    assert again == M and repr(again) == repr(M)
    equal(again.random_point(np.random.default_rng(1)), M.random_point(np.random.default_rng(1)))


@pytest.mark.parametrize("n", [1, 2, 3, 6])
@pytest.mark.parametrize("make", [Orthogonal, lambda n: Stiefel(n, n)])
def test_components_of_orthogonal_matrices_are_the_determinants(make: Any, n: int) -> None:
    M = make(n)
    X = np.stack([M.random_point(np.random.default_rng(seed)) for seed in range(6)])
    for i, sign in enumerate((1.0, -1.0)):
        Y = M.to_component(X, i)
        close(np.linalg.det(Y), np.full(6, sign))
        right = np.linalg.det(X) * sign > 0
        equal(Y[right], X[right])
    assert M.components == 2
    with pytest.raises(ValueError, match="component 2 does not exist"):
        M.to_component(X[0], 2)


def test_components_of_products_multiply() -> None:
    M = Product(Orthogonal(2), Euclidean(2), Orthogonal(3))
    x = M.random_point(np.random.default_rng(0))
    found = {tuple(np.sign(np.linalg.det(part)) for part in M.to_component(x, i)[::2]) for i in range(M.components)}
    assert M.components == 4 and found == {(1, 1), (1, -1), (-1, 1), (-1, -1)}
    assert CanonicalLDS(4, 2).components == 1
    with pytest.raises(ValueError, match="component 1 does not exist"):
        CanonicalLDS(4, 2).to_component(CanonicalLDS(4, 2).random_point(np.random.default_rng(0)), 1)


@given(
    st.lists(st.floats(-3, 3, allow_subnormal=False), min_size=1, max_size=6),
    st.lists(st.floats(-3, 3, allow_subnormal=False), min_size=6, max_size=6),
    st.floats(0.1, 2),
)
def test_bounds_clip_and_free_coordinates(start: list[float], gradient: list[float], bound: float) -> None:
    M = BoundedDiagonal(len(start), bound)
    x, g = np.clip(start, -bound, bound), np.array(gradient[: len(start)])
    equal(M.retract(x, g), np.clip(x + g, -bound, bound))
    free = [not (a >= bound and -s > 0) and not (a <= -bound and -s < 0) for a, s in zip(x, g, strict=True)]
    assert M.free(x, g).tolist() == free
    equal(M.gradient(x, g), np.where(free, g, 0.0))
    assert np.all(np.abs(M.descent_curve(x, g)(0.3)) <= bound)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_clipped_coordinate_counts_as_active_in_its_dtype(dtype: Any) -> None:
    M = BoundedDiagonal(2, 0.99)
    x = M.nearest(np.array([5.0, -5.0], dtype))
    assert M.feasibility(x) == 0
    assert M.free(x, np.array([-1.0, 1.0], dtype)).tolist() == [False, False]
    assert M.gradient(x, np.array([-1.0, 1.0], dtype)).tolist() == [0, 0]


def test_nested_product_is_its_factors() -> None:
    inner, M = MANIFOLDS["product"], Product(MANIFOLDS["product"], BoundedDiagonal(3), names=("pair", "lam"))
    assert isinstance(inner, Product)
    rng = np.random.default_rng(0)
    x = M.random_point(rng)
    u = M.random_tangent(x, rng)
    (U, b), lam = x
    (dU, db), dlam = u
    expected = ((inner.factors[0].retract(U, dU), b + db), np.clip(lam + dlam, -0.99, 0.99))
    equal(M.retract(x, u), expected)
    equal(M.retract(x, u, "qr")[0][0], inner.factors[0].retract(U, dU, "qr"))
    assert M.bounded and not inner.bounded
    mask = M.free(x, u)
    assert mask is not None and [leaf.shape for leaf in leaves(mask)] == [leaf.shape for leaf in leaves(x)]
    assert inner.free(x[0], u[0]) is None
    steps = M.descent_curve(x, u)
    equal(steps([0.1, 0.2])[1], np.clip(lam - 0.2 * dlam, -0.99, 0.99))


def test_canonical_systems_are_the_product_and_stable() -> None:
    M = CanonicalLDS(7, 3, 0.8)
    same = Product(BoundedDiagonal(3, 0.8), Orthogonal(3), Stiefel(7, 3))
    rng = np.random.default_rng(0)
    x = M.random_point(rng)
    u = random_like(x, rng)
    assert (M.dim, M.shape, M.names) == (same.dim, same.shape, ("lam", "V", "U"))
    equal(M.project(x, u), same.project(x, u))
    equal(M.retract(x, u), same.retract(x, u))
    lam, V, _ = M.retract(x, u)
    assert np.abs(np.linalg.eigvals(lam[:, None] * V)).max() <= 0.8 + 1e-12


@pytest.mark.parametrize("name", ["stiefel", "tall", "square", "lds"])
def test_descent_curve_is_the_cayley_curve(name: str) -> None:
    M, x, rng = drawn(name)
    g = random_like(x, rng)
    X, G = (x[2], g[2]) if name == "lds" else (x, g)
    W = G @ X.T - X @ G.T
    dense = np.linalg.solve(np.eye(len(X)) + 0.05 * W, X - 0.05 * W @ X)
    y = M.descent_curve(x, g)(0.1)
    close(y[2] if name == "lds" else y, dense, atol=1e-13)


@parametrize(
    ("make", "sentence"),
    [
        (lambda: Stiefel(2, 3), "swap n and p"),
        (lambda: Stiefel(0, 0), "n must be an integer ≥ 1"),
        (lambda: Orthogonal(2.5), "n must be an integer ≥ 1"),  # type: ignore[arg-type]
        (lambda: Euclidean(), "at least one size"),
        (lambda: Euclidean(3, -1), r"shape\[1\] must be an integer ≥ 1"),
        (lambda: BoundedDiagonal(3, 0.0), "bound must be a positive number"),
        (lambda: BoundedDiagonal(3, np.nan), "bound must be a positive number"),
        (lambda: CanonicalLDS(2, 3), "cannot exceed the output dimension"),
        (lambda: CanonicalLDS(3, 2, 1.0), "positive number below 1"),
        (lambda: Product(), "at least one manifold"),
        (lambda: Product(Euclidean(2), Euclidean(2), names=("a", "a")), "pass 2 different names"),
        (lambda: Stiefel(4, 2).retract(np.eye(4, 2), np.zeros((4, 2)), "clip"), "has no retraction 'clip'"),
        (lambda: Grassmann(4, 2).retract(np.eye(4, 2), np.zeros((4, 2)), "clip"), "has no retraction 'clip'"),
        (lambda: Grassmann(2, 3), "no subspace of dimension 3"),
        (lambda: SpecialOrthogonal(0), "n must be an integer ≥ 1"),
        (lambda: Sphere(), r"at least one size, such as Sphere\(3\)"),
        (lambda: Sphere(0), r"shape\[0\] must be an integer ≥ 1"),
        (lambda: Oblique(3, True), "m must be an integer ≥ 1"),
        (lambda: Simplex(), r"at least one size, such as Simplex\(3\)"),
        (lambda: Simplex(2.0), r"shape\[0\] must be an integer ≥ 1"),  # type: ignore[arg-type]
        (lambda: Positive(), r"at least one size, such as Positive\(3\)"),
        (lambda: Positive(3, -1), r"shape\[1\] must be an integer ≥ 1"),
        (lambda: SymmetricPositiveDefinite(1.5), "n must be an integer ≥ 1"),  # type: ignore[arg-type]
        (lambda: OpenBox(3, -1.0), "bound must be a positive number"),
        (lambda: Sphere(3).to_component(np.eye(3)[0], 1), "component 1 does not exist"),
    ],
    fast=6,
)
def test_sentences(make: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        make()


def test_product_of_a_list_is_explained() -> None:
    with pytest.raises(TypeError, match=r"pass Product\(A, B\), not Product\(\[A, B\]\)"):
        Product([Euclidean(2), Euclidean(3)])  # type: ignore[arg-type]


def test_manifold_cannot_be_made_half() -> None:
    with pytest.raises(TypeError, match="abstract"):
        Manifold()  # type: ignore[abstract]


@pytest.mark.slow
def test_every_manifold_is_in_the_catalogue_with_an_example_that_is_right() -> None:
    records = [record for plugin, record in ms.hooks.records("manifolds") if plugin.name == "manifoldseq"]
    for record in records:
        ms.testing.check_manifold(record.resolved().example(np.random.default_rng(0))).raise_for_failure()
    public = [getattr(ms.manifolds, name) for name in ms.manifolds.__all__]
    classes = {one.__name__ for one in public if isinstance(one, type) and issubclass(one, Manifold)}
    assert {record.factory.split(":")[1] for record in records} == classes - {"InFrame", "Manifold"}
