"""Reports, and the checkers of gradients and Hessians: right ones pass, wrong ones fail and are located."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import numpy as np
import pytest
from core.cases import PROBLEMS, changed, failing, procrustes, system, tree_map
from matplotlib.figure import Figure

import manifoldseq as ms
from manifoldseq import Objective, testing
from manifoldseq.manifolds import (
    BoundedDiagonal,
    Euclidean,
    Grassmann,
    Orthogonal,
    Positive,
    Product,
    Simplex,
    SpecialOrthogonal,
    Stiefel,
    SymmetricPositiveDefinite,
)
from manifoldseq.testing import Report


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
        (lambda t: 1e-13 * (1.5 + np.sin(1e9 * t)) + t**2, 2.0),  # rounding above its estimate
        (lambda t: 3e-12 + 0 * t + t**2, 2.0),
        (lambda t: np.where(t > 1e-2, np.nan, t**2), 2.0),  # leaves the domain
        (lambda t: np.abs(t**2 - 50 * t**3), 2.0),  # changes sign on the way
    ],
)
def test_slopes_of_known_errors(error: Any, slope: float) -> None:
    """The gradient is said to be zero, so that the error is the objective itself."""
    f = ms.objective(lambda x: float(error(abs(x[0]))) if x[0] else 0.0, np.zeros_like)
    (law,) = [law for law in testing.check_gradient((Euclidean(1), f), np.zeros(1)).laws if law.name == "gradient"]
    assert law.ok is (slope > 1.9) and law.curve is not None
    np.testing.assert_allclose(law.curve.errors, error(law.curve.steps), rtol=1e-6, atol=1e-18)
    (found,) = re.findall(r"slope (\d+\.\d+)", law.detail)
    assert float(found) == pytest.approx(slope, abs=0.07)


def test_errors_at_rounding_level_have_no_slope() -> None:
    f = ms.objective(lambda x: 5.0 + 1e-15 * float(np.any(x)), np.zeros_like)
    (law,) = [law for law in testing.check_gradient((Euclidean(1), f), np.zeros(1)).laws if law.name == "gradient"]
    assert law.ok and law.detail == "exact (the error is at rounding level)"


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("seed", range(3))
def test_right_gradients_pass_from_points_of_every_kind(problem: str, seed: int) -> None:
    made, x0, _ = PROBLEMS[problem]()
    testing.check_gradient(made, seed=seed).raise_for_failure()
    testing.check_gradient((made.manifold, made.objective), x0).raise_for_failure()
    single = tree_map(lambda leaf: leaf.astype(np.float32), x0)
    testing.check_gradient(made, single, seed=seed).raise_for_failure()


@pytest.mark.parametrize("share", [1e-2, 1e-3, 1e-4])
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
    assert "value equals the value of value_and_gradient" in str(
        testing.check_gradient((Euclidean(3), shifted)).failures[0]
    )


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


@pytest.mark.parametrize("seed", range(3))
def test_hessians_in_single_precision(seed: int) -> None:
    problem, x0, _ = procrustes()
    x = problem.manifold.random_point(np.random.default_rng(seed), np.float32)
    testing.check_hessian(problem, x, seed=seed).raise_for_failure()
    failing(
        testing.check_hessian(changed(problem, hessian_product=lambda X, U: 2.2 * U), x, seed=seed), "must exceed 2.9"
    )
    assert x0.dtype == np.float64


@pytest.mark.parametrize("manifold", [Positive(3), Simplex(4), SymmetricPositiveDefinite(3)], ids=str)
@pytest.mark.parametrize("seed", range(2))
def test_metrics_that_are_not_embedded(manifold: Any, seed: int) -> None:
    a = np.random.default_rng(9).standard_normal(manifold.shape)
    f = ms.objective(
        lambda x: float(np.sum(np.sin(x * a))),
        lambda x: a * np.cos(a * x),
        hessian_product=lambda x, u: -a * a * np.sin(a * x) * u,
    )
    testing.check_gradient((manifold, f), seed=seed).raise_for_failure()
    testing.check_hessian((manifold, f), seed=seed).raise_for_failure()
    wrong = ms.objective(lambda x: float(np.sum(np.sin(x * a))), lambda x: 1.01 * a * np.cos(a * x))
    failing(testing.check_gradient((manifold, wrong), seed=seed), "must exceed 1.9")


@pytest.mark.parametrize("square", [SpecialOrthogonal(4), Orthogonal(4)], ids=str)
def test_hessian_on_products_with_orthogonal_groups(square: Any) -> None:
    M = Product(Stiefel(5, 2), square, BoundedDiagonal(3), names=("U", "Q", "lam"))
    f = ms.objective(
        lambda x: sum(float(np.sum(np.sin(2 * part))) for part in x),
        lambda x: tuple(2 * np.cos(2 * part) for part in x),
        hessian_product=lambda x, u: tuple(-4 * np.sin(2 * a) * b for a, b in zip(x, u, strict=True)),
    )
    testing.check_hessian((M, f)).raise_for_failure()

    def wrong(x: Any, u: Any) -> Any:
        good = f.hessian_product(x, u)  # type: ignore[misc]
        return good[0], 1.01 * good[1], good[2]

    report = testing.check_hessian((M, dataclasses.replace(f, hessian_product=wrong)))
    failing(report, "Hessian: slope", "Hessian, factor 'Q': slope")


def test_errors_are_drawn_with_the_slope_that_they_must_reach() -> None:
    problem, x0, _ = system()
    report = testing.check_gradient(problem, x0)
    curves = {law.name: law.curve for law in report.laws if law.curve is not None}
    assert list(curves) == ["gradient", "gradient, factor 'lam'", "gradient, factor 'V'", "gradient, factor 'U'"]
    ax = report.plot(Figure().subplots())
    labels = [line.get_label() for line in ax.get_lines()]
    assert len(labels) == 5 and labels[-1] == "slope 2" and labels[0].startswith("gradient: slope ")
    steps, errors = ax.get_lines()[2].get_data()
    np.testing.assert_array_equal(steps, curves["gradient, factor 'V'"].steps)  # type: ignore[union-attr]
    np.testing.assert_array_equal(errors[errors > 0], errors[~np.isnan(errors)])
    reference = np.log(ax.get_lines()[-1].get_data())
    assert np.diff(reference[1]) / np.diff(reference[0]) == pytest.approx(2)
    with pytest.raises(ValueError, match="has no errors of derivatives to plot"):
        Report("thing", ()).plot()


def test_what_cannot_be_checked_raises_an_error() -> None:
    plain = Objective(lambda x: 0.0)
    with pytest.raises(ValueError, match="has no value_and_gradient"):
        testing.check_gradient((Euclidean(2), plain))
    with pytest.raises(ValueError, match="has no hessian_product"):
        testing.check_hessian((Euclidean(2), ms.objective(lambda x: 0.0, lambda x: x)))
    with pytest.raises(TypeError, match="needs a Problem or a pair"):
        testing.check_gradient(plain)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"x0 has shape \(3,\)"):
        testing.check_gradient((Euclidean(2), ms.objective(lambda x: 0.0, lambda x: x)), np.ones(3))


@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_cost_that_tells_equivalent_points_apart_fails(p: int, dtype: Any) -> None:
    A = np.random.default_rng(0).standard_normal((5, p))
    M = Product(Grassmann(5, p), Euclidean(2))
    x = M.random_point(np.random.default_rng(1), dtype)
    told = ms.objective(lambda x: float(np.sum(A * x[0]) + x[1] @ x[1]), lambda x: (A.astype(x[0].dtype), 2 * x[1]))
    for check in (testing.check_gradient, testing.check_objective):
        failed = check((M, told), x).failures
        assert any("its values at X and X Q differ by" in str(law) and "or use Stiefel" in str(law) for law in failed)
    S = A @ A.T
    invariant = ms.objective(
        lambda x: float(np.sum(x[0] * (S @ x[0])) + x[1] @ x[1]),
        lambda x: ((2 * S @ x[0]).astype(x[0].dtype), 2 * x[1]),
    )
    report = testing.check_gradient((M, invariant), x)
    report.raise_for_failure()
    assert "value is equal at all representatives" in str(report)
