"""Imputation as the quality of `MixturePCCA`: figures by a loop, and baselines that are better are named."""

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression

import manifoldseq as ms
from manifoldseq_mpcca import MixturePCCA


def linear(n: int = 400) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    z = rng.standard_normal((n, 2))
    X = z @ rng.standard_normal((2, 4)) + 0.1 * rng.standard_normal((n, 4))
    Y = z @ rng.standard_normal((2, 3)) + 0.3 * rng.standard_normal((n, 3))
    return [X, 5 + 10 * Y]


def test_a_gaussian_view_is_imputed_as_by_least_squares() -> None:
    views = linear()
    model = MixturePCCA(1, 2, target=1, random_state=0).fit(views)
    found = ms.evaluation.evaluate(model, views, np.arange(400) % 2)
    assert found.task == "imputation" and found.measure == "r2"
    assert [row["name"] for row in found.rows] == [
        "mixture-pcca",
        "ridge",
        "kernel ridge",
        "nearest neighbours",
        "mean",
    ]
    order = np.random.default_rng(0).permutation(400)
    held, kept = order[:100], order[100:]
    said = LinearRegression().fit(views[0][kept], views[1][kept]).predict(views[0][held])
    scale = views[1][kept].std(axis=0)
    truth = views[1][held] / scale
    expected = 1 - np.sum((truth - said / scale) ** 2) / np.sum((truth - truth.mean(axis=0)) ** 2)
    assert found.rows[0]["r2"] == pytest.approx(expected, abs=0.01) == found.rows[1]["r2"]
    assert found.rows[0]["coverage"] == pytest.approx(0.9, abs=0.06)
    assert "prediction intervals of nominally 90 % contain" in found.verdict and "is better" not in found.verdict


def test_a_better_baseline_is_named() -> None:
    rng = np.random.default_rng(1)
    x = rng.uniform(-3, 3, (400, 1))
    views = [np.hstack([x, rng.standard_normal((400, 1))]), np.hstack([np.cos(2 * x), rng.standard_normal((400, 1))])]
    model = MixturePCCA(1, 1, target=1, random_state=0).fit(views)
    found = ms.evaluation.evaluate(model, views)
    assert (
        found.winner in ("kernel ridge", "nearest neighbours") and f"baseline {found.winner} is better" in found.verdict
    )
    assert "view 1, 1 to" in found.verdict or "view 1, 0 to" in found.verdict


def test_both_views_count_without_a_target_and_missing_values_do_not() -> None:
    views = linear()
    views[0][::7] = np.nan
    model = MixturePCCA(1, 2, missing="em", random_state=0).fit(views)
    found = ms.evaluation.evaluate(model, views)
    assert 0.5 < found.rows[0]["r2"] < 1 and all(np.isfinite(row["r2"]) for row in found.rows)
    few = ms.evaluation.evaluate(model, [view[:12] for view in views])
    assert "12 rows are too few: at least 16 are needed" in few.verdict
