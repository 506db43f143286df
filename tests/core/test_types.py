"""Types of points: `make test` runs pyright on this file, which checks every `assert_type`.

A manifold says of which type its points are; problems, results and the functions of a point follow from it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, assert_type

import numpy as np
import pytest

import manifoldseq as ms

S = np.diag([3.0, 2.0, 1.0])


def test_a_problem_over_arrays_has_array_points():
    problem = ms.Problem(ms.manifolds.Sphere(3), lambda x: -x @ S @ x, gradient=lambda x: -2 * S @ x)
    assert_type(problem, ms.Problem[np.ndarray])
    result = ms.minimize(problem, seed=0)
    assert_type(result.x, np.ndarray)
    assert type(result.x) is np.ndarray and np.allclose(abs(result.x), [1, 0, 0], atol=1e-5)


def test_a_product_knows_the_types_of_its_factors():
    M = ms.manifolds.Product(ms.manifolds.Sphere(3), ms.manifolds.Euclidean(2), names=("u", "b"))
    problem = ms.Problem(
        M,
        lambda point: -point[0] @ S @ point[0] + np.sum((point[1] - 1) ** 2),
        gradient=lambda point: (-2 * S @ point[0], 2 * (point[1] - 1)),
    )
    u, b = ms.minimize(problem, seed=0).x
    assert_type(u, np.ndarray)
    assert np.allclose(abs(u), [1, 0, 0], atol=1e-5) and np.allclose(b, 1)
    nested = ms.manifolds.Product(M, ms.manifolds.Positive(1), ms.manifolds.SpecialEuclidean(3))
    (first, _), scale, (R, t) = nested.random_point(np.random.default_rng(0))
    assert_type((first, scale, R, t), tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray])
    assert (first.shape, scale.shape, R.shape, t.shape) == ((3,), (1,), (3, 3), (3,))


def test_powers_frozen_factors_and_canonical_tuples_keep_the_type():
    rng = np.random.default_rng(0)
    rotations = ms.manifolds.SpecialOrthogonal(3) ** 5
    assert_type(rotations.random_point(rng), np.ndarray)
    assert rotations.random_point(rng).shape == (5, 3, 3)
    assert_type(ms.manifolds.Frozen(rotations).random_point(rng), np.ndarray)
    lam, _, U = ms.manifolds.CanonicalLDS(4, 2).random_point(rng)
    assert_type(lam, np.ndarray)
    assert U.T @ U == pytest.approx(np.eye(2))


@dataclass(frozen=True)
class Unannotated(ms.manifolds.Manifold):
    """A stranger's manifold, of which nothing is said: its points may be anything."""

    n: int

    @property
    def dim(self):
        return self.n

    @property
    def shape(self):
        return (self.n,)

    def project(self, x, u):
        return u

    def hessian(self, x, egrad, ehess, u):
        return ehess

    def retract(self, x, u, kind=None):
        return x + u

    def nearest(self, x):
        return x

    def feasibility(self, x):
        return 0.0 if x.ndim == 1 else np.zeros(x.shape[:-1])

    def random_point(self, rng, dtype=np.float64):
        return rng.standard_normal(self.n).astype(dtype)


def test_a_manifold_without_annotations_takes_any_point():
    problem = ms.Problem(Unannotated(2), ms.objective(lambda x: (x**2).sum(), lambda x: 2 * x))
    assert_type(problem, ms.Problem[Any])
    result = ms.minimize(problem, x0=[1.0, 2.0])
    assert np.allclose(result.x, 0, atol=1e-5)
    factor, _ = ms.manifolds.Product(Unannotated(2), ms.manifolds.Sphere(3)).random_point(np.random.default_rng(0))
    assert_type(factor, Any)
    assert factor.shape == (2,)


def norm_of(x: np.ndarray) -> float:
    return (x**2).sum()


def test_a_cost_of_arrays_on_tuples_is_a_type_error():
    pair = ms.manifolds.SpecialEuclidean(2)
    problem = ms.Problem(pair, norm_of)  # pyright: ignore[reportArgumentType]
    assert problem.manifold is pair
    assert_type(ms.solvers.evaluate(ms.Problem(ms.manifolds.Sphere(3), norm_of), np.eye(3)[0]).x, np.ndarray)
