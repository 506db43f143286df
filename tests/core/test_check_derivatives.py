"""Reports, and the checkers of gradients and Hessians: right ones pass, wrong ones fail and are located."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from core.cases import PROBLEMS, changed, failing, procrustes, system, tree_map

import manifoldseq as ms
from manifoldseq import Objective, testing
from manifoldseq.manifolds import BoundedDiagonal, Euclidean, Product, Stiefel
from manifoldseq.testing import Report
from manifoldseq.testing._slope import STEPS, fitted_slope


def test_reports_are_read_line_by_line() -> None:
    right, wrong = testing.Law("first", True, "1.0e-16"), testing.Law("second", False, "error 2, must be at most 1")
    good, bad = Report("thing", (right,)), Report("thing", (right, wrong))
    assert str(good) == "thing: every law holds\n  ok      first: 1.0e-16"
    assert str(bad).splitlines()[0] == "thing: 1 of 2 laws FAILED"
    assert str(bad).splitlines()[2] == "  FAILED  second: error 2, must be at most 1"
    assert good.ok and not bad.ok and bad.failures == (wrong,)
    good.raise_for_failure()
    with pytest.raises(testing.CheckFailed, match="1 of 2 laws FAILED") as caught:
        bad.raise_for_failure()
    assert isinstance(caught.value, AssertionError)
    with pytest.raises(dataclasses.FrozenInstanceError):
        good.subject = "other"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("error", "slope"),
    [
        (lambda t: t**2, 2.0),
        (lambda t: 3 * t**3 + t**5, 3.0),
        (lambda t: 0.01 * t + t**2, 1.0),
        (lambda t: 1e-5 * t + t**2, 1.0),
        (lambda t: 1e-13 * (1.5 + np.sin(1e9 * t)) + t**2, 2.0),  # rounding above the estimated floor
        (lambda t: 3e-12 + 0 * t + t**2, 2.0),
        (lambda t: np.where(t > 1e-2, np.nan, t**2), 2.0),  # leaves the domain
        (lambda t: np.abs(t**2 - 50 * t**3), 2.0),  # changes sign on the way
    ],
)
def test_slopes_of_known_errors(error: Any, slope: float) -> None:
    found = fitted_slope(STEPS, np.asarray(error(STEPS), float), np.full(len(STEPS), 1e-16))
    assert found == pytest.approx(slope, abs=0.07)


def test_errors_at_rounding_level_have_no_slope() -> None:
    assert fitted_slope(STEPS, np.full(len(STEPS), 1e-15), np.full(len(STEPS), 1e-16)) is None


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("seed", range(3))
def test_right_gradients_pass_from_points_of_every_kind(problem: str, seed: int) -> None:
    made, x0, _ = PROBLEMS[problem]()
    testing.check_gradient(made, seed=seed).raise_for_failure()
    testing.check_gradient((made.manifold, made.objective), x0).raise_for_failure()
    single = tree_map(lambda leaf: leaf.astype(np.float32), x0)
    testing.check_gradient(made, single, seed=seed).raise_for_failure()


@pytest.mark.parametrize("share", [1e-2, 1e-4, 1e-6])
def test_a_gradient_wrong_by_one_per_cent_or_less_fails(share: float) -> None:
    problem, _, _ = procrustes()
    fused = problem.objective.value_and_gradient
    assert fused is not None
    wrong = changed(problem, value_and_gradient=lambda X: (fused(X)[0], (1 + share) * fused(X)[1]))
    report = testing.check_gradient(wrong)
    failing(report, "must exceed 1.9")
    if share == 1e-2:
        assert "slope 1.0" in str(report)


def test_the_wrong_factor_is_named() -> None:
    problem, x0, _ = system()
    fused = problem.objective.value_and_gradient
    assert fused is not None

    def wrong(x: Any) -> Any:
        fun, (lam, V, U) = fused(x)
        return fun, (lam, 1.01 * V, U)

    report = testing.check_gradient(changed(problem, value_and_gradient=wrong), x0)
    failing(report, "gradient: slope 1.0", "factor 'V': slope 1.0")
    assert "ok      gradient, factor 'U': slope" in str(report)


def test_nested_factors_are_named() -> None:
    M = Product(Product(Stiefel(4, 2), Euclidean(3), names=("U", "b")), BoundedDiagonal(2), names=("pair", "lam"))
    f = ms.objective(
        lambda x: float(np.sum(x[0][0] ** 3) + np.sum(x[0][1] ** 2) + np.sum(np.exp(x[1]))),
        lambda x: ((3 * x[0][0] ** 2, 2.02 * x[0][1]), np.exp(x[1])),
    )
    failing(testing.check_gradient((M, f)), "gradient: slope", "factor 'pair.b': slope 1.0")


@pytest.mark.parametrize(
    ("cost", "gradient"),
    [(lambda x: float(np.sum(x)), lambda x: np.ones_like(x)), (lambda x: 4.0, lambda x: np.zeros_like(x))],
)
def test_linear_and_constant_objectives_are_exact(cost: Any, gradient: Any) -> None:
    report = testing.check_gradient((Euclidean(3), ms.objective(cost, gradient)))
    assert report.ok and "exact" in str(report)


@pytest.mark.parametrize("scale", [1e-150, 1e-8, 1e8, 1e150])
def test_scales_of_the_objective_do_not_matter(scale: float) -> None:
    problem, _, _ = procrustes()
    testing.check_gradient((problem.manifold, scale * problem.objective)).raise_for_failure()
    testing.check_hessian((problem.manifold, scale * problem.objective)).raise_for_failure()


def test_active_bounds_are_left_out() -> None:
    f = ms.objective(lambda x: float(np.sum(np.exp(x))), np.exp)
    report = testing.check_gradient((BoundedDiagonal(3, 0.5), f), np.array([0.5, -0.5, 0.1]))
    report.raise_for_failure()
    everywhere = testing.check_gradient((BoundedDiagonal(2, 0.5), f), np.array([0.5, -0.5]))
    assert everywhere.ok


def test_gradients_of_the_wrong_shape_or_kind_are_reported() -> None:
    failing(testing.check_gradient((Euclidean(3), ms.objective(lambda x: 0.0, lambda x: x[:2]))), "has shape (2,)")
    failing(testing.check_gradient((Euclidean(3), ms.objective(lambda x: 0.0, lambda x: x * np.nan))), "nan")
    shifted = Objective(lambda x: float(x @ x) + 1, lambda x: (float(x @ x), 2 * x))
    assert "value is that of the fused" in str(testing.check_gradient((Euclidean(3), shifted)).failures[0])


@pytest.mark.parametrize("problem", ["quadratic", "procrustes", "subspace"])
@pytest.mark.parametrize("seed", range(3))
def test_right_hessians_pass(problem: str, seed: int) -> None:
    testing.check_hessian(PROBLEMS[problem]()[0], seed=seed).raise_for_failure()


def test_a_hessian_wrong_by_one_per_cent_fails() -> None:
    problem, _, _ = procrustes()
    failing(testing.check_hessian(changed(problem, hessian_product=lambda X, U: 2.02 * U)), "must exceed 2.9")


def test_a_hessian_that_is_not_symmetric_or_linear_fails() -> None:
    N = np.triu(np.ones((4, 4)))
    f = ms.objective(lambda x: float(x @ N @ x), lambda x: (N + N.T) @ x, hessian_product=lambda x, u: 2 * N @ u)
    failing(testing.check_hessian((Euclidean(4), f)), "symmetric")
    f = ms.objective(lambda x: float(x @ x), lambda x: 2 * x, hessian_product=lambda x, u: 2 * np.abs(u))
    assert any("linear" in str(law) for law in testing.check_hessian((Euclidean(4), f)).failures)


def test_what_cannot_be_checked_is_refused_in_a_sentence() -> None:
    plain = Objective(lambda x: 0.0)
    with pytest.raises(ValueError, match="has no value_and_gradient"):
        testing.check_gradient((Euclidean(2), plain))
    with pytest.raises(ValueError, match="has no hessian_product"):
        testing.check_hessian((Euclidean(2), ms.objective(lambda x: 0.0, lambda x: x)))
    with pytest.raises(TypeError, match="needs a Problem or a pair"):
        testing.check_gradient(plain)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"x0 has shape \(3,\)"):
        testing.check_gradient((Euclidean(2), ms.objective(lambda x: 0.0, lambda x: x)), np.ones(3))
