"""Boxes against scipy: nonnegative least squares, L-BFGS-B, active bounds in products, fixed entries, wrong bounds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.optimize

import manifoldseq as ms
from manifoldseq.manifolds import BoundedDiagonal, Box, Product, Stiefel

SOLVERS = ["lbfgs-tr", "lbfgs", "bb", "cg", "tr"]


@pytest.mark.parametrize("solver", SOLVERS)
def test_nonnegative_least_squares(solver: str) -> None:
    rng = np.random.default_rng(0)
    A, b = rng.standard_normal((60, 30)), rng.standard_normal(60)
    expected, residual = scipy.optimize.nnls(A, b)
    f = ms.objective(lambda x: 0.5 * ((A @ x - b) ** 2).sum(), lambda x: A.T @ (A @ x - b))
    result = ms.minimize(ms.Problem(Box(0, np.inf, 30), f), np.ones(30), solver=solver)
    assert result.success and result.fun == pytest.approx(0.5 * residual**2, rel=1e-9)
    np.testing.assert_allclose(result.x, expected, atol=1e-5)
    assert (result.x >= 0).all() and ((result.x == 0) == (expected == 0)).mean() > 0.9


@pytest.mark.parametrize("solver", SOLVERS)
def test_agrees_with_lbfgsb(solver: str) -> None:
    """Rosenbrock's function of ten variables, with finite, infinite and missing bounds, given as scipy's Bounds."""
    lower, upper = np.full(10, -np.inf), np.full(10, np.inf)
    lower[1], upper[2], lower[3], upper[3] = 1.2, 0.5, -0.3, 0.3
    bounds = scipy.optimize.Bounds(lower, upper)
    peer = scipy.optimize.minimize(
        scipy.optimize.rosen, np.full(10, 0.1), jac=scipy.optimize.rosen_der, bounds=bounds, method="L-BFGS-B",
        options={"ftol": 1e-15, "gtol": 1e-10},
    )  # fmt: skip
    box = Box(bounds)
    f = ms.objective(scipy.optimize.rosen, scipy.optimize.rosen_der)
    result = ms.minimize(ms.Problem(box, f), box.nearest(np.full(10, 0.1)), solver=solver, max_iter=3000)
    assert result.success and result.fun == pytest.approx(peer.fun, rel=1e-7)
    np.testing.assert_allclose(result.x, peer.x, atol=1e-4)


def test_a_box_and_a_stiefel_manifold() -> None:
    """Columns with nonnegative weights: the KKT conditions in place of a peer."""
    rng = np.random.default_rng(1)
    Y = rng.standard_normal((20, 12))
    manifold = Product(Stiefel(20, 3), Box(0.0, [[2.0], [np.inf], [np.inf]], 3, 12))

    def f(x: Any) -> Any:
        E = x[0] @ x[1] - Y
        return 0.5 * float((E * E).sum()), (E @ x[1].T, x[0].T @ E)

    result = ms.minimize(ms.Problem(manifold, ms.objective(value_and_gradient=f)), seed=0)
    assert result.success
    W, (G, g) = result.x[1], f(result.x)[1]
    assert (W >= 0).all() and (W[0] <= 2).all() and (W == 0).any()
    inside = (W > 0) & (W < np.array([[2.0], [np.inf], [np.inf]]))
    assert abs(g[inside]).max() < 1e-3 and g[W == 0].min() > -1e-3
    tangent = G - result.x[0] @ (result.x[0].T @ G + G.T @ result.x[0]) / 2
    assert abs(tangent).max() < 1e-3


def test_a_bounded_diagonal_is_a_box() -> None:
    rng = np.random.default_rng(2)
    M, box = BoundedDiagonal(5, 0.5), Box(-0.5, 0.5, 5)
    for x in (M.random_point(rng), M.nearest(rng.standard_normal(5)), rng.standard_normal((3, 5))):
        g = rng.standard_normal(x.shape)
        for name, arguments in (("gradient", (x, g)), ("free", (x, g)), ("retract", (x, g)), ("nearest", (x,))):
            np.testing.assert_array_equal(getattr(M, name)(*arguments), getattr(box, name)(*arguments))
        np.testing.assert_array_equal(M.feasibility(x), box.feasibility(x))
    assert M.dim == box.dim and M.typical_distance == pytest.approx(box.typical_distance)


def test_fixed_entries_keep_their_bits() -> None:
    box = Box([0.1, -np.inf], [0.1, np.inf])
    result = ms.minimize(ms.Problem(box, lambda x: ((x - 3.0) ** 2).sum() + 1.0), np.array([0.1, 0.0]))
    assert result.success and result.x[0] == 0.1 and result.x[1] == pytest.approx(3.0, abs=1e-5)
    assert box.dim == 1 and box.project(np.zeros(2), np.ones(2)).tolist() == [0.0, 1.0]


def test_equality_shape_and_repr() -> None:
    assert Box(0, 1, 3) == Box(np.zeros(3), np.ones(3)) != Box(0, 2, 3)
    assert hash(Box(0, 1, 3)) == hash(Box(np.zeros(3), 1))
    assert repr(Box(0, np.inf, 2, 3)) == "Box(0, inf, 2, 3)" and repr(Box([0, 1], 2)) == "Box(…, 2, 2)"
    x = Box([-np.inf, 0.0, -1.0, -np.inf], [np.inf, np.inf, 1.0, 2.0]).random_point(
        np.random.default_rng(0), np.float32
    )
    assert x.dtype == np.float32 and x[1] >= 0 and abs(x[2]) <= 1 and x[3] <= 2


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (([0.0, 2.0], [1.0, 1.0]), r"entry 1 has the bounds 2 and 1: pass numbers with lower <= upper"),
        ((np.zeros((2, 2)), [[1, 1], [1, -1]]), r"entry \(1, 1\) has the bounds 0 and -1"),
        ((np.nan, 1.0, 3), r"entry 0 has the bounds nan and 1"),
        ((np.inf, np.inf, 3), r"entry 0 has the bounds inf and inf"),
        ((0.0, 1.0), r"bounds of shape \(\) do not fit: pass the shape of a point after the bounds"),
        (([], []), r"bounds of shape \(0,\) do not fit"),
        (([0.0, 1.0, 2.0], 3.0, 2), r"pass numbers of shapes that match"),
        (("low", 3.0, 2), r"pass numbers of shapes that match"),
        ((0.0, 1.0, 0), r"shape\[0\]"),
    ],
)
def test_wrong_bounds(arguments: tuple[Any, ...], error: str) -> None:
    with pytest.raises(ValueError, match=error):
        Box(*arguments)


def test_nearest_point_of_every_dtype() -> None:
    for dtype in (int, np.float16, np.float32, float):
        x = np.array([3, 0, -3]).astype(dtype)
        assert Box(-0.5, 0.5, 3).nearest(x).tolist() == [0.5, 0.0, -0.5]
        assert ms.manifolds.BoundedDiagonal(3, 0.5).nearest(x).tolist() == [0.5, 0.0, -0.5]


def test_bounds_beyond_the_range_of_float32() -> None:
    x = np.array([3e38, -1.0], np.float32)
    assert np.array_equal(Box(-1e300, 1e300, 2).nearest(x), x)


def test_one_argument_is_scipys() -> None:
    with pytest.raises(TypeError, match=r"needs two bounds, or one scipy.optimize.Bounds"):
        Box(3.0)
