"""Every deterministic solver of the catalogue on every manifold of it, against SciPy's BFGS in a chart."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pymanopt
import pytest
import scipy.optimize
from core.cases import MANIFOLDS, leaves, tree_map
from helpers import parametrize

import manifoldseq as ms
from manifoldseq import hooks
from manifoldseq.linalg import flatten, unflattener
from manifoldseq.manifolds import CanonicalLDS, Frozen, Grassmann, Manifold, Positive, Product, Simplex, Stiefel

LIMITS = {"lbfgs": 40, "lbfgs-tr": 40, "bb": 60, "cg": 50, "gd": 150, "pgd": 400, "tr": 10}
OPTIONS: dict[str, dict[str, Any]] = {"pgd": {"step_size": 0.5}}
GRID: dict[str, Manifold] = {
    **{record.name: record.resolved().example(np.random.default_rng(0)) for _, record in hooks.records("manifolds")},
    "open-box": MANIFOLDS["open-box"],
    "one distribution": MANIFOLDS["distribution"],
    "nested": Product(Product(Frozen(Stiefel(4, 2)), Positive(2)), Product(Grassmann(5, 2), Simplex(3))),
    "nested, embedded": MANIFOLDS["nested"],
    "pymanopt's definite": ms.from_pymanopt(pymanopt.manifolds.SymmetricPositiveDefinite(3)),
    "pymanopt's positive": ms.from_pymanopt(pymanopt.manifolds.Positive(3, 1)),
}


def test_no_solver_of_the_catalogue_is_left_out() -> None:
    """Those of pymanopt have tests of their own; the others need terms, updates or constraints."""
    found = set()
    for _, record in hooks.records("solvers"):
        plain = set(record.needs) == {"value_and_gradient"} and not record.constraints
        if plain and ":" not in record.name and ms.get_solver(record.name).deterministic:
            found.add(record.name)
    assert found == set(LIMITS)


def smooth(manifold: Manifold, goal: Any, rng: np.random.Generator) -> ms.Objective:
    """Return Σ w (φ − φ(goal))² / 2 + √w sin(φ) / 10 + 1, with φ the point, or X Xᵀ where X and X Q are one point.

    The weights suit the metric: they are of the size of the inverse squares of tangent vectors of unit length.
    """

    def part(M: Manifold, g: np.ndarray) -> Callable[[np.ndarray], tuple[float, np.ndarray]]:
        quotient = M.quotient
        aim = g @ g.T if quotient else g
        w = rng.uniform(1, 3, aim.shape)
        if quotient:
            w = w + w.T
        elif M.metric != "embedded":
            w /= np.mean(np.square([M.random_tangent(g, rng) for _ in range(50)]), axis=0)

        def fused(x: np.ndarray) -> tuple[float, np.ndarray]:
            phi = x @ x.T if quotient else x
            off = phi - aim
            slope = (w * off + 0.1 * np.sqrt(w) * np.cos(phi)).astype(x.dtype)
            egrad = (slope + slope.T) @ x if quotient else slope
            return float(np.sum(0.5 * w * off**2 + 0.1 * np.sqrt(w) * np.sin(phi))), egrad

        return fused

    def parts(M: Any, g: Any) -> Any:
        inside = M.manifold if isinstance(M, Frozen) else M
        return tuple(map(parts, inside.factors, g)) if isinstance(g, tuple) else part(inside, g)

    functions = parts(manifold, goal)

    def value_and_gradient(x: Any) -> tuple[float, Any]:
        answers = [f(leaf) for f, leaf in zip(leaves(functions), leaves(x), strict=True)]
        slopes = iter(slope for _, slope in answers)
        return 1.0 + sum(value for value, _ in answers), tree_map(lambda _: next(slopes), x)

    return ms.objective(value_and_gradient=value_and_gradient)


def inside(manifold: Any, rng: np.random.Generator) -> Any:
    """Return a random point, away from bounds: in bounded factors the mean of four."""
    if isinstance(manifold, Product | CanonicalLDS):
        return tuple(inside(factor, rng) for factor in manifold.factors)
    points = [manifold.random_point(rng) for _ in range(4 if manifold.bounded else 1)]
    return tree_map(lambda *leaves: sum(leaves) / len(points), *points)


@cache
def solved(name: str) -> tuple[ms.Problem, Any, float]:
    """Return a problem, a start and the minimum that SciPy finds over coordinates of a tangent space."""
    manifold, rng = GRID[name], np.random.default_rng(1)
    goal = inside(manifold, rng)
    problem = ms.Problem(manifold, smooth(manifold, goal, rng))
    tangents = np.stack([flatten(manifold.random_tangent(goal, rng)) for _ in range(3 * manifold.dim)])
    _, lengths, axes = np.linalg.svd(tangents, full_matrices=False)
    basis = (lengths[:, None] * axes)[: manifold.dim] / len(tangents) ** 0.5

    def chart(z: np.ndarray) -> Any:
        return manifold.retract(goal, unflattener(goal)(z @ basis))

    chosen = scipy.optimize.minimize(
        lambda z: problem.objective.value(chart(z)), np.zeros(manifold.dim), method="BFGS", options={"gtol": 1e-6}
    )
    start = manifold.retract(goal, tree_map(lambda leaf: 0.3 * leaf, manifold.random_tangent(goal, rng)))
    return problem, start, float(chosen.fun)


@parametrize("name", GRID, fast=9)
@pytest.mark.parametrize("solver", LIMITS)
def test_every_solver_on_every_manifold(solver: str, name: str) -> None:
    problem, start, minimum = solved(name)
    stop = ms.GradientNorm(1e-6, relative=True) | ms.MaxIterations(LIMITS[solver])
    result = ms.minimize(problem, start, solver=solver, options=OPTIONS.get(solver), stop=stop)
    assert result.success, result
    assert result.fun == pytest.approx(minimum, rel=1e-6)
    assert result.feasibility < 1e-12


@parametrize("name", GRID, fast=4)
@pytest.mark.parametrize("solver", LIMITS)
def test_every_solver_in_single_precision(solver: str, name: str) -> None:
    problem, start, minimum = solved(name)
    stop = ms.GradientNorm(1e-2, relative=True) | ms.MaxIterations(LIMITS[solver])
    single = tree_map(lambda leaf: leaf.astype(np.float32), start)
    result = ms.minimize(problem, single, solver=solver, options=OPTIONS.get(solver), stop=stop)
    assert result.success, result
    assert {leaf.dtype for leaf in leaves(result.x)} == {np.dtype(np.float32)}
    assert result.fun == pytest.approx(minimum, rel=1e-3)
