"""Frozen factors: no solver changes a bit of them, and the others are minimized over as if alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from core.cases import close, equal, system, tree_map
from helpers import parametrize

import manifoldseq as ms
from manifoldseq.manifolds import BoundedDiagonal, CanonicalLDS, Euclidean, Frozen, Orthogonal, Product, Stiefel
from manifoldseq.objectives import BlockUpdate, FiniteTerms

SOLVERS = [record.name for plugin, record in ms.hooks.records("solvers") if plugin.name == "manifoldseq"]
SOLVERS = [name for name in SOLVERS if name not in ("em", "online-em", "lm")]
# EM belongs to models (`PCAMovMF` freezes a factor), "lm" to residuals (tests/core/test_least_squares.py)


def coupled() -> tuple[ms.Problem, Any]:
    """Return min |X diag(d) − A|² + |d − 1|² with every ability an objective may have, and a start."""
    rng = np.random.default_rng(0)
    A = rng.standard_normal((6, 2))
    M = Product(Stiefel(6, 2), Euclidean(2), Orthogonal(3), names=("X", "d", "Q"))

    def residual(x: Any) -> Any:
        return x[0] * x[1] - A, x[1] - 1.0, x[2] - np.eye(3)

    def value(x: Any) -> float:
        return 0.5 * sum(float(np.sum(part * part)) for part in residual(x))

    def gradient(x: Any) -> Any:
        R, r, S = residual(x)
        return R * x[1], np.sum(R * x[0], axis=0) + r, S

    def product(x: Any, u: Any) -> Any:
        R = residual(x)[0]
        U = u[0] * x[1] + x[0] * u[1]
        return U * x[1] + R * u[1], np.sum(U * x[0] + R * u[0], axis=0) + u[1], u[2]

    def update(x: Any) -> Any:
        return x[0], (np.sum(x[0] * A, axis=0) + 1) / 2, x[2]

    plain = ms.objective(value, gradient, hessian_product=product)
    f = replace(plain, terms=FiniteTerms(4, lambda indices: plain), updates=(BlockUpdate("d", ("d",), update),))
    return ms.Problem(M, f), M.random_point(rng)


@pytest.mark.parametrize("solver", SOLVERS)
@parametrize("name", ["X", "Q"], fast=1)
def test_every_solver_keeps_every_bit_of_a_frozen_factor(solver: str, name: str) -> None:
    problem, x0 = coupled()
    k = problem.manifold.names.index(name)  # type: ignore[union-attr]
    result = ms.minimize(problem.freeze(name), x0, solver=solver, seed=0, stop=ms.MaxIterations(12))
    equal(result.x[k], x0[k])
    assert result.nit > 0 and result.fun < problem.objective.value(x0)
    assert np.any(result.x[1] != x0[1])


@pytest.mark.parametrize("frozen", ["lam", "V", "U"])
def test_the_other_factors_of_a_system_are_solved(frozen: str) -> None:
    problem, x0, _ = system()
    whole = ms.minimize(problem, x0)
    result = ms.minimize(problem.freeze(frozen), x0)
    assert result.success
    for name, a, b, start in zip(("lam", "V", "U"), result.x, whole.x, x0, strict=True):
        if name == frozen:
            equal(a, start)
        else:
            close(a, b, atol=1e-4)
    two = problem.freeze("lam").freeze("U")
    assert repr(two.manifold) == repr(problem.freeze("lam", "U").manifold) and two.manifold.dim == 3
    assert problem.freeze() is problem
    nothing = ms.minimize(problem.freeze("lam", "V", "U"), x0)
    assert nothing.success and nothing.nit == 0 and nothing.grad_norm == 0.0
    equal(nothing.x, x0)


def test_a_start_that_is_cleaned_keeps_its_frozen_factor() -> None:
    problem, x0 = coupled()
    rough = (x0[0] * (1 + 1e-8), x0[1], x0[2] * (1 + 1e-8))
    result = ms.minimize(problem.freeze("X"), rough)
    equal(result.x[0], rough[0])
    assert problem.manifold.factors[2].feasibility(result.x[2]) < 1e-14  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match="x0 is not on"):
        ms.minimize(problem.freeze("X"), (1.1 * x0[0], x0[1], x0[2]))


def test_what_cannot_be_frozen_is_said() -> None:
    problem, _ = coupled()
    with pytest.raises(ValueError, match="has no factor 'Y' to freeze: its factors are 'X', 'd', 'Q'"):
        problem.freeze("d", "Y")
    with pytest.raises(ValueError, match=r"Stiefel\(n=3, p=2\) has no factor 'X' to freeze: it is not a product"):
        ms.Problem(Stiefel(3, 2), ms.objective(lambda x: 0.0)).freeze("X")
    with pytest.raises(TypeError, match="needs a manifold such as"):
        Frozen("stiefel")  # type: ignore[arg-type]


def test_updates_of_a_frozen_factor_are_dropped() -> None:
    problem, x0 = coupled()
    assert [u.name for u in problem.freeze("X").objective.updates] == ["d"]
    assert problem.freeze("d").objective.updates == ()
    everything = BlockUpdate("em", (), lambda x: x0)
    em = replace(problem, objective=replace(problem.objective, updates=(everything,)))
    assert em.freeze("Q").objective.updates == ()


def test_initializers_are_those_of_the_whole_problem() -> None:
    problem, x0 = coupled()
    seen = []

    def start(given: ms.Problem, rng: np.random.Generator) -> Any:
        seen.append(given)
        return x0

    frozen = replace(problem, initializers={"start": start}).freeze("X")
    result = ms.minimize(frozen, "start", stop=ms.MaxIterations(2))
    equal(result.x[0], x0[0])
    assert isinstance(seen[0].manifold.factors[0], Stiefel)  # type: ignore[attr-defined]
    model = ms.get_model("lds.mean")
    lds = model.problem(model.example(np.random.default_rng(0)))
    assert isinstance(lds.manifold, CanonicalLDS)
    first = ms.minimize(lds, seed=0, stop=ms.MaxIterations(0))
    result = ms.minimize(lds.freeze("U"), seed=0)
    equal(result.x[2], first.x[2])
    assert result.success and result.fun <= first.fun


@parametrize("inner", [Stiefel(5, 2), BoundedDiagonal(3), CanonicalLDS(5, 2), Orthogonal(3)], fast=1)
def test_the_laws_of_manifolds_hold(inner: Any) -> None:
    for manifold in (Frozen(inner), Product(Frozen(inner), Stiefel(4, 2))):
        ms.testing.check_manifold(manifold).raise_for_failure()
    M, rng = Frozen(inner), np.random.default_rng(0)
    assert (M.dim, M.shape, M.names, M.components) == (0, inner.shape, inner.names, 1)
    x = M.random_point(rng)
    u = tree_map(np.ones_like, x)
    assert M.nearest(x) is x and M.retract(x, u) is x and M.transport(x, x, u) is not u
    assert M.inner(x, M.project(x, u), u) == 0.0
    off = tree_map(lambda leaf: 3 * leaf, x)
    close(M.nearest(off), inner.nearest(off))
    rows = tree_map(lambda a, b: np.stack([a, b]), x, off)
    close(M.nearest(rows), tree_map(lambda a, b: np.stack([a, b]), x, inner.nearest(off)))
    equal(tree_map(lambda leaf: leaf[0], M.nearest(rows)), x)
