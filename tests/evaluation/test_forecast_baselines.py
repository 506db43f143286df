"""Baselines of forecasts: known seasons, and autoregressions that are known or found by a loop."""

import numpy as np
import pytest

from manifoldseq.evaluation import baseline_forecasts
from manifoldseq.evaluation._forecast_baselines import autoregression, seasonal_last_value


@pytest.mark.parametrize("season", [3, 7, 20])
def test_the_last_season_is_repeated(season: int) -> None:
    rng = np.random.default_rng(season)
    x = np.tile(rng.standard_normal((season, 2)), (6, 1))
    np.testing.assert_allclose(seasonal_last_value(x, season + 2), np.tile(x[:season], (2, 1))[: season + 2])


def test_noise_has_no_season() -> None:
    x = np.random.default_rng(1).standard_normal((400, 1))
    assert (seasonal_last_value(x, 5) == x[-1]).all()


def test_an_autoregression_continues_a_known_one() -> None:
    t = np.arange(60.0)
    x = np.stack([np.cos(0.3 * t), 2.0 + 0.9**t], axis=1)
    later = np.arange(60.0, 70.0)
    expected = np.stack([np.cos(0.3 * later), 2.0 + 0.9**later], axis=1)
    np.testing.assert_allclose(autoregression(x, 10), expected, atol=1e-5)


def test_the_order_has_the_least_criterion() -> None:
    rng = np.random.default_rng(2)
    x = rng.standard_normal(64)
    for t in range(2, 64):
        x[t] += 1.2 * x[t - 1] - 0.8 * x[t - 2]
    found = {}
    for order in range(17):
        A = np.array([[1.0, *(x[t - lag] for lag in range(1, order + 1))] for t in range(16, 64)])
        weights = np.linalg.solve(A.T @ A, A.T @ x[16:])
        found[order] = (48 * np.log(np.sum((x[16:] - A @ weights) ** 2) / 48) + 2 * (order + 1), weights)
    order = min(found, key=lambda one: found[one][0])
    weights = found[order][1]
    expected = weights[0] + sum(w * x[-lag] for lag, w in enumerate(weights[1:], 1))
    assert order >= 2 and autoregression(x[:, None], 1)[0, 0] == pytest.approx(expected)


def test_forecasts_do_not_explode() -> None:
    x = 1.5 ** np.arange(20.0)[:, None]
    found = baseline_forecasts([x, x[::-1]], 50)
    assert set(found) == {"last value", "last season", "autoregression"}
    assert all(one.shape == (2, 50, 1) and np.abs(one).max() <= 2 * x.max() for one in found.values())
    assert (baseline_forecasts([np.ones((8, 1))], 3)["autoregression"] == 1).all()
