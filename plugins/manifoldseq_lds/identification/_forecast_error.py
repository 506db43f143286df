"""Forecast errors of identified systems, compared with the last value and the mean as forecasts."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone

import manifoldseq as ms

from ._missing import interpolated

_CLEAR = 0.05
"""A baseline is reported as better if its R² is larger by more than this value."""
_SHARE = 5
_LEAST = 10


class Ends:
    """Sequences without their ends, and the ends for the comparison with forecasts.

    The last fifth of the shortest sequence, at most ten steps, is left out of each.

    Attributes
    ----------
    n_steps : int
    before : list of ndarray of shape (T_i - n_steps, d)
    truth : ndarray of shape (N, n_steps, d)
        The ends.
    """

    def __init__(self, X: Any) -> None:
        shortest = min(map(len, X))
        if shortest < _LEAST:
            raise ValueError(
                f"the shortest sequence has {shortest} time steps, but the comparison of forecasts needs at least "
                f"{_LEAST}: pass longer sequences"
            )
        self.n_steps = min(10, shortest // _SHARE)
        self.before, self.truth = self.split(X)
        mean = np.stack([x.mean(axis=0, keepdims=True) for x in self.before])
        self._total = float(np.nansum((self.truth - mean) ** 2))
        if not self._total > 0:
            raise ValueError(
                "the last steps are equal to the mean of the preceding steps: there is nothing to forecast"
            )

    def split(self, X: Any) -> tuple[list[Any], Any]:
        """Return sequences without their ends, and the ends."""
        arrays = [np.asarray(x, dtype=np.float64) for x in X]
        return [x[: -self.n_steps] for x in arrays], np.stack([x[-self.n_steps :] for x in arrays])

    def r2(self, forecast: Any) -> float:
        """Return 1 minus the total squared error divided by the squared error of the mean of the preceding steps."""
        return 1 - float(np.nansum((self.truth - forecast) ** 2)) / self._total


def forecast_error(model: Any, X: Any, y: object, seed: int) -> ms.evaluation.Evaluation:
    """Return R² of forecasts of the ends of sequences by systems identified from the preceding steps.

    R² is that of `LDSIdentifier.score`.

    Parameters
    ----------
    model : LDSIdentifier
    X : list of array-like of shape (T_i, d)
    y : object
        Ignored.
    seed : int
        Ignored.

    Returns
    -------
    Evaluation
        The controls are the last value, the last season, autoregressions with orders by AIC, and the mean of the
        preceding values, whose R² is zero.

    Raises
    ------
    ValueError
        If the shortest sequence has fewer than ten steps, or the held-out steps are constant.
    """
    ends = Ends(X)
    n_steps, before = ends.n_steps, ends.before
    made: Any = clone(model)
    said = made.fit(before).forecast(before, n_steps)
    baselines = ms.evaluation.baseline_forecasts([interpolated(x[None])[0] for x in before], n_steps)
    guesses = {"lds-identifier": said, **baselines}
    rows = [{"name": name, "r2": ends.r2(guess)} for name, guess in guesses.items()]
    own, best = rows[0]["r2"], max(rows[1:], key=lambda row: row["r2"])
    rows.append({"name": "mean", "r2": 0.0})
    explained = f"{own:.0%}" if own > -0.005 else "none"
    better = "is better, with" if best["r2"] > own + _CLEAR else "has"
    verdict = (
        f"forecasts of the last {n_steps} steps explain {explained} of the variance (R² = {own:.2f}); the baseline "
        f"{best['name']} {better} R² = {best['r2']:.2f}"
    )
    if max(own, best["r2"]) < 0:
        verdict += "; the mean is better than all of them"
    return ms.evaluation.Evaluation("forecasts", "r2", tuple(rows), verdict)
