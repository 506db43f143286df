"""Our manifolds in the optimizers of pymanopt."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pymanopt
import pytest
from core.cases import close, leaves, slope
from core.pymanopt_cases import OURS, problem_on
from helpers import parametrize

import manifoldseq as ms
from manifoldseq.manifolds import Euclidean, Positive, Product, Simplex, Stiefel, SymmetricPositiveDefinite

OPTIMIZERS = {"SteepestDescent": 2000, "ConjugateGradient": 500, "TrustRegions": 100}


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@parametrize("name", OURS, fast=5)
def test_descent_solves_on_every_manifold(name: str, optimizer: str) -> None:
    problem, x0 = problem_on(OURS[name], OURS[name])
    theirs = problem.to_pymanopt()
    run = getattr(pymanopt.optimizers, optimizer)(verbosity=0, max_iterations=OPTIMIZERS[optimizer])
    with np.errstate(all="ignore"):  # pymanopt divides by gradients that are zero
        result = run.run(theirs, initial_point=theirs.manifold.to_theirs(x0))
    assert result.cost < 1e-7
    x = theirs.manifold.to_ours(result.point)
    assert OURS[name].feasibility(x) < 1e-12
    assert [leaf.shape for leaf in leaves(x)] == [leaf.shape for leaf in leaves(x0)]


@parametrize("name", OURS, fast=2)
def test_swarm_finds_better_points(name: str) -> None:
    problem, _ = problem_on(OURS[name], OURS[name])
    theirs = problem.to_pymanopt()
    theirs.manifold.rng = np.random.default_rng(7)
    np.random.seed(7)  # the swarm draws from NumPy's global generator
    start = [theirs.manifold.random_point() for _ in range(10)]
    best = min(theirs.cost(point) for point in start)
    result = pymanopt.optimizers.ParticleSwarm(max_iterations=8, verbosity=0).run(theirs, initial_point=start)
    assert result.cost < best and OURS[name].feasibility(theirs.manifold.to_ours(result.point)) < 1e-12


@parametrize(
    "name",
    ["rotations", "sphere", "simplex", "positive", "bounded", "single", pytest.param("nested", marks=pytest.mark.slow)],
    fast=2,
)
def test_simplex_search_finds_better_points(name: str) -> None:
    problem, _ = problem_on(OURS[name], OURS[name])
    theirs = problem.to_pymanopt()
    theirs.manifold.rng = np.random.default_rng(7)
    best = min(theirs.cost(theirs.manifold.random_point()) for _ in range(theirs.manifold.dim + 1))
    theirs.manifold.rng = np.random.default_rng(7)
    result = pymanopt.optimizers.NelderMead(max_iterations=15, verbosity=0).run(theirs)
    assert result.cost < best and OURS[name].feasibility(theirs.manifold.to_ours(result.point)) < 1e-12


@pytest.mark.parametrize("name", OURS)
def test_log_is_the_negative_gradient_of_half_the_squared_distance(name: str) -> None:
    M = ms.to_pymanopt(OURS[name], seed=1)
    x = M.random_point()
    u = M.random_tangent_vector(x)
    y = M.retraction(x, 0.2 * M.random_tangent_vector(x))
    inner = M.inner_product(x, M.log(x, y), u)

    def error(t: float) -> float:
        moved = M.dist(M.retraction(x, t * u), y) ** 2 / 2
        return abs(moved - M.dist(x, y) ** 2 / 2 + t * inner)

    assert slope(error, -3, -1.5) > 1.9
    assert M.norm(x, M.log(x, x)) < 1e-7 and M.dist(x, x) < 1e-7


@pytest.mark.parametrize("manifold", [Euclidean(3), Positive(3), Simplex(4), SymmetricPositiveDefinite(3)], ids=str)
def test_exact_logarithms_are_inverse_to_exp(manifold: Any) -> None:
    M = ms.to_pymanopt(manifold, seed=2)
    x, y = M.random_point(), M.random_point()
    close(M.exp(x, M.log(x, y)), y, atol=1e-10)
    assert M.dist(x, y) == pytest.approx(M.norm(x, M.log(x, y))) == pytest.approx(M.dist(y, x))
    half = M.pair_mean(x, y)
    assert M.dist(x, half) == pytest.approx(M.dist(half, y))


def test_distance_of_definite_matrices_is_that_of_pymanopt() -> None:
    M, other = ms.to_pymanopt(SymmetricPositiveDefinite(3), seed=0), pymanopt.manifolds.SymmetricPositiveDefinite(3)
    x, y = M.random_point(), M.random_point()
    assert M.dist(x, y) == pytest.approx(other.dist(x, y))
    close(M.log(x, y), other.log(x, y), atol=1e-12)


def test_single_precision_stays_single() -> None:
    M = ms.to_pymanopt(OURS["nested"], seed=0)
    x = [part.astype(np.float32) for part in M.random_point()]
    u = np.float64(2) * M.random_tangent_vector(x) - M.zero_vector(x) / np.float64(3)
    for tree in (u, -u, M.projection(x, u), M.retraction(x, u), M.transport(x, x, u), M.log(x, x)):
        assert {part.dtype for part in tree} == {np.dtype(np.float32)}
    single = ms.to_pymanopt(Stiefel(4, 2), seed=0)
    X = single.random_point().astype(np.float32)
    assert single.retraction(X, np.float64(0.1) * single.random_tangent_vector(X)).dtype == np.float32
    assert single.zero_vector(X).dtype == np.float32


def test_random_numbers_are_its_own() -> None:
    before = np.random.get_state()[1].tolist()
    points = [ms.to_pymanopt(Stiefel(4, 2), seed=3).random_point() for _ in range(2)]
    assert np.random.get_state()[1].tolist() == before
    np.testing.assert_array_equal(*points)


def test_what_it_is_and_what_it_lacks() -> None:
    M = ms.to_pymanopt(OURS["nested"])
    assert isinstance(M, pymanopt.manifolds.manifold.Manifold)
    assert (M.dim, M.num_values, str(M)) == (9, 3, repr(OURS["nested"]))
    x = ms.to_pymanopt(ms.from_pymanopt(pymanopt.manifolds.Elliptope(4, 2)), seed=0)
    with pytest.raises(NotImplementedError, match="no exponential map: use retraction"):
        x.exp(x.random_point(), x.random_point())
    with pytest.raises(TypeError, match="needs a manifold such as"):
        ms.to_pymanopt("stiefel")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="does not support constraints"):
        f = ms.objective(lambda x: 0.0, lambda x: x)
        ms.Problem(Euclidean(2), f, equalities=(f,)).to_pymanopt()
    assert ms.from_pymanopt(M) is OURS["nested"]


def test_costs_take_the_arrays_of_all_factors() -> None:
    M = ms.to_pymanopt(Product(Product(Stiefel(4, 2), Euclidean(2)), Positive(2)), seed=0)

    @pymanopt.function.autograd(M)
    def cost(U: Any, b: Any, s: Any) -> Any:
        return (U**2 * s).sum() + (b - 1) @ (b - 1) + (1 / s).sum() + s.sum()

    result = pymanopt.optimizers.ConjugateGradient(verbosity=0).run(pymanopt.Problem(M, cost))
    assert result.cost == pytest.approx(2 * 2 * 2**0.5, abs=1e-8)  # s + s + 1/s in both entries
    close(result.point[1], np.ones(2), atol=1e-5)


SCRIPT = """
import sys
if {jax}: import jax
import manifoldseq as ms
assert "pymanopt" not in sys.modules
ms.to_pymanopt(ms.manifolds.Sphere(3))
import jax
assert "pymanopt" in sys.modules and jax.config.jax_enable_x64 is {expected}
"""


@pytest.mark.slow
@pytest.mark.parametrize(("jax", "variable", "expected"), [(1, "0", False), (0, "0", False), (0, "1", True)])
def test_flag_of_jax_is_put_back(jax: int, variable: str, expected: bool) -> None:
    if importlib.util.find_spec("jax") is None:
        pytest.skip("jax is not installed")
    script = SCRIPT.format(jax=jax, expected=expected)
    environment = {**os.environ, "JAX_ENABLE_X64": variable}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
