"""The default solver: whose turn it is, and what that changes."""

from __future__ import annotations

import dataclasses
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.linalg
import scipy.optimize

import manifoldseq as ms
from manifoldseq.manifolds import BoundedDiagonal, Euclidean, Manifold, Product, Sphere, SymmetricPositiveDefinite

QUADRATIC = ms.GradientNorm(1e-6, relative=True) | ms.MaxIterations(1000)


def spectrum(condition: float, n: int = 200) -> ms.Problem:
    """A quadratic function with eigenvalues between 1 / condition and 1."""
    a = np.geomspace(1 / condition, 1.0, n)
    return ms.Problem(
        Euclidean(n), ms.objective(lambda x: 0.5 * float(a @ x**2), lambda x: a * x, hessian_product=lambda x, u: a * u)
    )


def lyapunov(condition: float) -> tuple[ms.Problem, np.ndarray]:
    """The equation AX + XA = Q as a minimization over positive definite matrices, and its solution by scipy."""
    rng, n = np.random.default_rng(0), 20
    B = np.linalg.qr(rng.standard_normal((n, n)))[0]
    A = (B * np.geomspace(1 / condition, 1.0, n)) @ B.T
    factor = rng.standard_normal((n, n)) / np.sqrt(n)
    X = factor @ factor.T + 0.1 * np.eye(n)
    Q = A @ X + X @ A
    f = ms.objective(
        lambda X: float(np.vdot(X, A @ X - Q)), lambda X: A @ X + X @ A - Q, hessian_product=lambda X, U: A @ U + U @ A
    )
    return ms.Problem(SymmetricPositiveDefinite(n), f), scipy.linalg.solve_continuous_lyapunov(A, Q)


def turns(problem: ms.Problem, x: Any, **options: Any) -> tuple[ms.Result, list[bool]]:
    """Return a result, and for each iterate whether trust regions make the next step."""
    regions: list[bool] = []
    result = ms.minimize(problem, x, callback=lambda event: regions.append(event.state["regions"]), **options)
    assert result.solver == "lbfgs-tr"
    return result, regions


def test_a_fast_run_is_one_of_lbfgs() -> None:
    problem, x = spectrum(3.0), np.ones(200)
    result, regions = turns(problem, x, stop=QUADRATIC)
    alone = ms.minimize(problem, x, solver="lbfgs", stop=QUADRATIC)
    assert result.success and not any(regions)
    np.testing.assert_array_equal(result.history["fun"], alone.history["fun"])
    np.testing.assert_array_equal(result.x, alone.x)


def test_trust_regions_take_over_where_lbfgs_is_slow() -> None:
    problem, x = spectrum(1e5), np.ones(200)
    result, regions = turns(problem, x, stop=QUADRATIC)
    first = regions.index(True)
    assert result.success and 15 <= first <= 75 and all(regions[first:])
    alone = ms.minimize(problem, x, solver="lbfgs", stop=QUADRATIC)
    assert result.nfev + result.nhev < alone.nfev
    # the iterate, the value and the history continue
    np.testing.assert_array_equal(result.history["fun"][: first + 1], alone.history["fun"][: first + 1])
    assert np.all(np.diff(result.history["fun"]) <= 0)


def test_without_cheap_products_lbfgs_has_more_patience() -> None:
    problem, x = spectrum(1e5), np.ones(200)
    dear = dataclasses.replace(problem, objective=dataclasses.replace(problem.objective, costly_hessian=True))
    none = dataclasses.replace(problem, objective=dataclasses.replace(problem.objective, hessian_product=None))
    for changed in (dear, none):
        assert not any(turns(changed, x, stop=ms.MaxIterations(299))[1])


@pytest.mark.parametrize("condition", [1e3, 1e5])
@pytest.mark.parametrize("products", [True, False])
def test_solves_what_only_trust_regions_solve(condition: float, products: bool) -> None:
    problem, solution = lyapunov(condition)
    if not products:
        problem = dataclasses.replace(problem, objective=dataclasses.replace(problem.objective, hessian_product=None))
    assert not ms.minimize(problem, np.eye(20), solver="lbfgs").success
    result, regions = turns(problem, np.eye(20))
    assert result.success and any(regions)
    assert result.fun == pytest.approx(problem.objective.value(solution), rel=1e-9)


def test_lbfgs_has_another_turn_where_products_do_not_pay(monkeypatch: pytest.MonkeyPatch) -> None:
    # with products that are wrong by a large multiple of the identity, trust regions crawl
    a = np.geomspace(1e-3, 1.0, 200)
    f = ms.objective(lambda x: 0.5 * float(a @ x**2), lambda x: a * x, hessian_product=lambda x, u: a * u + 1e3 * u)
    monkeypatch.setattr("manifoldseq.solvers._lbfgs_tr.BUDGET", 60)
    result, regions = turns(ms.Problem(Euclidean(200), f), np.ones(200), stop=QUADRATIC)
    changes = [k for k in range(1, len(regions)) if regions[k] != regions[k - 1]]
    assert len(changes) >= 2 and result.success


def test_a_solver_without_a_decrease_is_replaced_once() -> None:
    # the gradient has the wrong sign: neither finds a decrease
    f = ms.objective(lambda x: float(x @ x), lambda x: -2 * x)
    result, regions = turns(ms.Problem(Euclidean(3), f), np.ones(3))
    assert result.status is ms.Status.NO_DECREASE
    assert regions == [False, True, True]  # two steps: one of each, both from the start


def scales() -> tuple[ms.Problem, Any]:
    """A product whose factors have different units and an ill-conditioned quadratic part."""
    a = 1e4 * np.geomspace(1e-5, 1.0, 60)
    f = ms.objective(
        lambda x: 0.5 * float(a @ x[0] ** 2) + float(x[1] @ (np.arange(4.0) * x[1])),
        lambda x: (a * x[0], 2 * np.arange(4.0) * x[1]),
        hessian_product=lambda x, u: (a * u[0], 2 * np.arange(4.0) * u[1]),
    )
    return ms.Problem(Product(Euclidean(60), Sphere(4)), f), (np.ones(60), np.full(4, 0.5))


def bounded() -> tuple[ms.Problem, Any]:
    a = np.geomspace(1e-5, 1.0, 60)
    f = ms.objective(lambda x: 0.5 * float(a @ (x - 2) ** 2), lambda x: a * (x - 2), hessian_product=lambda x, u: a * u)
    return ms.Problem(BoundedDiagonal(60, 1.0), f), np.zeros(60)


@pytest.mark.parametrize(
    "made", [scales, bounded, lambda: (lyapunov(1e3)[0], np.eye(20)), lambda: (spectrum(1e5), np.ones(200))]
)
@pytest.mark.parametrize("ends", [7, 15, 20])
def test_a_resumed_run_is_the_same(made: Callable[[], tuple[ms.Problem, Any]], ends: int, tmp_path: Path) -> None:
    """Before, at and after the iteration in which trust regions take over."""
    problem, x = made()
    whole = ms.minimize(problem, x, stop=ms.MaxIterations(25))
    ms.minimize(problem, x, stop=ms.MaxIterations(ends), checkpoint=tmp_path, seed=0)
    rest = ms.minimize(problem, x, stop=ms.MaxIterations(25), checkpoint=tmp_path, resume=True, seed=0)
    for name in ("fun", "grad_norm", "nfev"):
        np.testing.assert_array_equal(rest.history[name], whole.history[name])
    assert (rest.nit, rest.nfev, rest.nhev) == (whole.nit, whole.nfev, whole.nhev)
    for a, b in zip(ms.linalg.leaves(rest.x), ms.linalg.leaves(whole.x), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("manifold", [Euclidean(50_000), Sphere(50_000)])
def test_at_most_fifty_vectors_are_kept(manifold: Manifold) -> None:
    n = 50_000
    a = np.geomspace(1e-3, 1.0, n)
    f = ms.objective(lambda x: 0.5 * float(x @ (a * x)), lambda x: a * x, hessian_product=lambda x, u: a * u)
    x = np.full(n, n**-0.5)
    tracemalloc.start()
    result, regions = turns(ms.Problem(manifold, f), x, stop=ms.MaxIterations(24))
    peak = tracemalloc.get_traced_memory()[1] / (8 * n)
    tracemalloc.stop()
    assert any(regions) and result.nhev > 60
    assert peak <= 50


def test_rosenbrock_in_many_dimensions_against_scipy() -> None:
    f = ms.objective(
        scipy.optimize.rosen,
        scipy.optimize.rosen_der,
        hessian_product=lambda x, u: scipy.optimize.rosen_hess_prod(x, u),
    )
    result = ms.minimize(ms.Problem(Euclidean(30), f), np.full(30, -1.2))
    theirs = scipy.optimize.minimize(scipy.optimize.rosen, np.full(30, -1.2), jac=scipy.optimize.rosen_der)
    assert result.success and result.fun <= theirs.fun + 1e-8


def test_passes_its_checker() -> None:
    report = ms.testing.check_solver("lbfgs-tr")
    assert report.ok, report


def test_wrong_options_raise_an_error() -> None:
    with pytest.raises(ValueError, match="memory"):
        ms.solvers.LBFGSTR(memory=0)


@pytest.mark.parametrize("n, pairs", [(9_999, 10), (10_000, 5)])
@pytest.mark.parametrize("solver", ["lbfgs", "lbfgs-tr"])
def test_large_points_have_fewer_pairs(n: int, pairs: int, solver: str) -> None:
    a = np.geomspace(1e-4, 1.0, n)
    problem = ms.Problem(Euclidean(n), ms.objective(lambda x: 0.5 * float(a @ x**2), lambda x: a * x))
    kept: list[int] = []
    observe: Callable[[Any], None] = lambda event: kept.append(len(event.state["pairs"]))  # noqa: E731
    ms.minimize(problem, np.ones(n), solver=solver, max_iter=14, callback=observe)
    assert max(kept) == pairs
