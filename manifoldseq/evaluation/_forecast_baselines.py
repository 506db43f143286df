"""Baselines for forecasts of sequences: the last value, the last season, and autoregressions with orders by AIC."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_MOST_ORDER = 16
"""Maximum order of an autoregression, which is also limited to a fourth of the steps."""


def last_value(x: Array, n_steps: int) -> Array:
    """Return the last value of each channel, (n_steps, d).

    Examples
    --------
    >>> last_value(np.array([[1.0], [4.0]]), 2).ravel().tolist()
    [4.0, 4.0]
    """
    return np.repeat(x[-1:], n_steps, axis=0)


def seasonal_last_value(x: Array, n_steps: int) -> Array:
    """Return the repeated last season of each channel, (n_steps, d), or the last value without a season.

    The season is the lag of the largest local maximum of the autocorrelation above 0.3, at most half of the steps.

    Examples
    --------
    >>> seasonal_last_value(np.tile([[0.0], [1.0], [5.0]], (4, 1)), 4).ravel().tolist()
    [0.0, 1.0, 5.0, 0.0]
    """
    return np.stack([_repeated(channel, n_steps) for channel in x.T], axis=1)


def _repeated(channel: Array, n_steps: int) -> Array:
    z, T = channel - channel.mean(), len(channel)
    correlation = np.array([z[: T - lag] @ z[lag:] / (T - lag) for lag in range(T // 2 + 2) if lag < T])
    inside = np.arange(2, min(T // 2, len(correlation) - 2) + 1)
    peaks = inside[
        (correlation[inside] > correlation[inside - 1])
        & (correlation[inside] >= correlation[inside + 1])
        & (correlation[inside] > 0.3 * correlation[0])
    ]
    if len(peaks) == 0:
        return np.full(n_steps, channel[-1])
    season = int(peaks[correlation[peaks].argmax()])
    return channel[T - season + np.arange(n_steps) % season]


def autoregression(x: Array, n_steps: int) -> Array:
    """Return forecasts of an autoregression of each channel, (n_steps, d).

    The method is least squares with an intercept. The order, from 0 to 16, minimizes Akaike's criterion ``n log(RSS /
    n) + 2 (order + 1)`` on the same steps for all orders. Forecasts are limited to the range of the past values,
    extended by its width on both sides.

    Examples
    --------
    >>> x = 0.5 ** np.arange(12.0)[:, None]
    >>> bool(np.allclose(autoregression(x, 2).ravel(), 0.5 ** np.arange(12, 14)))
    True
    """
    return np.stack([_autoregressed(channel, n_steps) for channel in x.T], axis=1)


def _autoregressed(channel: Array, n_steps: int) -> Array:
    most = max(0, min(_MOST_ORDER, len(channel) // 4))
    target = channel[most:]
    best, chosen = np.inf, np.array([target.mean()])
    floor = 1e-12 * float(np.square(channel).sum()) + np.finfo(float).tiny  # of residuals that are rounding
    for order in range(most + 1):
        lags = [channel[most - lag : len(channel) - lag] for lag in range(1, order + 1)]
        A = np.stack([np.ones(len(target)), *lags], axis=1)
        weights = np.linalg.lstsq(A, target, rcond=None)[0]
        residual = float(np.square(target - A @ weights).sum())
        criterion = len(target) * np.log(max(residual, floor) / len(target)) + 2 * (order + 1)
        if criterion < best:
            best, chosen = criterion, weights
    low, high = channel.min(), channel.max()
    history = channel.tolist()
    for _ in range(n_steps):
        value = chosen[0] + sum(w * history[-lag] for lag, w in enumerate(chosen[1:], 1))
        history.append(float(np.clip(value, 2 * low - high, 2 * high - low)))
    return np.array(history[len(channel) :])


FORECASTS: dict[str, Callable[[Array, int], Array]] = {
    "last value": last_value,
    "last season": seasonal_last_value,
    "autoregression": autoregression,
}
"""The baselines by name."""


def baseline_forecasts(sequences: Sequence[Array], n_steps: int) -> dict[str, Array]:
    """Return the forecasts of each baseline, (N, n_steps, d), by its name.

    Parameters
    ----------
    sequences : sequence of ndarray of shape (T_i, d)
        Sequences without missing values.
    n_steps : int
    """
    return {name: np.stack([forecast(x, n_steps) for x in sequences]) for name, forecast in FORECASTS.items()}
