"""Forecast errors of identified systems beside those of the last value and the mean."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone

import manifoldseq as ms

_SHARE = 5
_LEAST = 10


def forecast_error(model: Any, X: Any, y: object, seed: int) -> ms.evaluation.Evaluation:
    """Return how much of the end of sequences is told by systems of what comes before: R² of forecasts.

    The last fifth of the shortest sequence, at most ten steps, is left out of each; R² is one less the squared error
    over that of the mean of what comes before, summed over sequences, steps and channels.

    Parameters
    ----------
    model : LDSIdentifier
    X : list of array-like of shape (T_i, d)
    y : object
        Without effect.
    seed : int
        Without effect.

    Returns
    -------
    Evaluation
        Beside it the last value, and the mean of what comes before, whose share is zero.

    Raises
    ------
    ValueError
        If the shortest sequence has fewer than ten steps, or the steps that are left out do not vary.
    """
    shortest = min(map(len, X))
    if shortest < _LEAST:
        raise ValueError(
            f"the shortest sequence has {shortest} time steps, and forecasts are compared from {_LEAST} on"
        )
    n_steps = min(10, shortest // _SHARE)
    before = [np.asarray(x, dtype=np.float64)[:-n_steps] for x in X]
    truth = np.stack([np.asarray(x, dtype=np.float64)[-n_steps:] for x in X])
    made: Any = clone(model)
    said = made.fit(before).forecast(before, n_steps)
    last = np.stack([x[-1:] for x in before])
    mean = np.stack([x.mean(axis=0, keepdims=True) for x in before])
    total = float(np.nansum((truth - mean) ** 2))
    if not total > 0:
        raise ValueError("the last steps do not vary about the mean of those before: there is nothing to forecast")
    rows = [
        {"name": name, "r2": 1 - float(np.nansum((truth - guess) ** 2)) / total}
        for name, guess in (("lds-identifier", said), ("last value", last))
    ]
    own, other = rows[0]["r2"], rows[1]["r2"]
    rows.append({"name": "mean", "r2": 0.0})
    shares = [f"{share:.0%}" if share > -0.005 else "less than nothing" for share in (own, other)]
    verdict = (
        f"forecasts of the last {n_steps} steps tell {shares[0]} of their variance about the mean of what comes before,"
        f" the last value {shares[1]}"
    )
    if max(own, other) < 0:
        verdict += "; the mean is better than both"
    return ms.evaluation.Evaluation("forecasts", "r2", tuple(rows), verdict)
