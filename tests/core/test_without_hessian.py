"""Manifolds that leave `hessian` out: by themselves, in products and powers, with every solver, to pymanopt."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymanopt
import pytest

import manifoldseq as ms
from manifoldseq.manifolds import Manifold, Positive, Product, Sphere

A = np.diag([4.0, 3.0, 1.0])


class BareSphere(Sphere):
    """The sphere of those who never worked out a Hessian."""

    hessian = None


class BarePositive(Positive):
    """Positive numbers, whose metric is not embedded, without frame and Hessian."""

    hessian = None
    frame = None  # type: ignore[assignment]


def quadratic(x: np.ndarray) -> float:
    """Return −xᵀ A x of every row, summed."""
    return -float(np.sum(x @ A * x))


MANIFOLDS: dict[str, tuple[Manifold, ms.Objective, float]] = {
    "alone": (
        BareSphere(3),
        ms.objective(quadratic, lambda x: -2 * x @ A, hessian_product=lambda x, u: -2 * u @ A),
        -4.0,
    ),
    "power": (
        BareSphere(3) ** 4,
        ms.objective(quadratic, lambda x: -2 * x @ A, hessian_product=lambda x, u: -2 * u @ A),
        -16.0,
    ),
    "product": (
        Product(BareSphere(3), Positive(2), BarePositive(1)),
        ms.objective(
            lambda x: quadratic(x[0]) + float(np.sum(x[1] - np.log(x[1])) + np.sum(x[2] - np.log(x[2]))),
            lambda x: (-2 * x[0] @ A, 1 - 1 / x[1], 1 - 1 / x[2]),
            hessian_product=lambda x, u: (-2 * u[0] @ A, u[1] / x[1] ** 2, u[2] / x[2] ** 2),
        ),
        -1.0,
    ),
}


@pytest.mark.parametrize("name", MANIFOLDS)
def test_check_manifold_passes_without_one(name: str) -> None:
    manifold, _, _ = MANIFOLDS[name]
    assert manifold.hessian is None
    report = ms.testing.check_manifold(manifold)
    report.raise_for_failure()
    assert "hessian is symmetric" not in str(report)


@pytest.mark.parametrize("solver", ["lbfgs", "bb", "cg", "gd", "pgd", "tr"])
@pytest.mark.parametrize("name", MANIFOLDS)
def test_every_solver_does_without_one(solver: str, name: str) -> None:
    manifold, objective, best = MANIFOLDS[name]
    options: dict[str, Any] = {"step_size": 0.1} if solver == "pgd" else {}
    result = ms.minimize(ms.Problem(manifold, objective), solver=solver, options=options, seed=0)
    assert result.success and result.fun == pytest.approx(best, abs=1e-7)


def test_what_needs_one_says_so_with_one_message() -> None:
    manifold, objective, _ = MANIFOLDS["product"]
    problem = ms.Problem(manifold, objective)
    with pytest.raises(
        ValueError, match=r"TR\(hessian='exact'\) needs hessian, which Product.* does not have: use hessian='auto'"
    ):
        ms.minimize(problem, solver="tr", options={"hessian": "exact"}, seed=0)
    with pytest.raises(ValueError, match=r"check_hessian: Product.* has no hessian"):
        ms.testing.check_hessian(problem)
    assert "not checked: the manifold has none" in str(ms.testing.check_objective(problem))
    assert ms.solvers.choose_solver(problem) == "lbfgs-tr"


def test_a_product_of_manifolds_that_have_one_has_one() -> None:
    assert Product(Sphere(3), Positive(2)).hessian is not None
    assert (Sphere(3) ** 2).hessian is not None


def test_pymanopt_minimizes_without_one() -> None:
    manifold, objective, best = MANIFOLDS["alone"]
    problem = ms.Problem(manifold, objective).to_pymanopt()
    found = pymanopt.optimizers.ConjugateGradient(verbosity=0).run(problem, initial_point=np.array([0.6, 0.0, 0.8]))
    assert found.cost == pytest.approx(best)
    with pytest.raises(NotImplementedError, match=r"Sphere.* has no Hessian: use an optimizer without one"):
        pymanopt.optimizers.TrustRegions(verbosity=0).run(problem)
