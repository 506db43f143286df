"""The slope of an error over steps, from the straight part of its logarithmic plot."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ._report import Curve, Measured, Verdict

STEPS = np.logspace(-9.5, 0, 58)
_WINDOW = 8
_STRAIGHT = 0.015
_FLAT = 0.5


def slope_law(error: Callable[[float], tuple[float, float]], minimum: float) -> Verdict:
    """Return whether an error vanishes with at least a given order in the step.

    Parameters
    ----------
    error : callable
        ``error(step) -> (error, rounding error to expect)``; an error that is not finite is out of reach.
    minimum : float
        The value that the slope must exceed. An error that is at rounding level at all steps counts as exact.
    """
    return measured_slope(error, minimum)[:2]


def measured_slope(error: Callable[[float], tuple[float, float]], minimum: float) -> Measured:
    """Return the result of :func:`slope_law`, with the errors."""
    errors, levels = np.array([error(float(step)) for step in STEPS]).T
    if not np.any(np.isfinite(errors[:_WINDOW])):
        return Measured(False, "the values near the point are not finite")
    slope = fitted_slope(STEPS, errors, levels)
    curve = Curve(STEPS, errors, round(minimum))
    if slope is None:
        return Measured(True, "exact (the error is at rounding level)", curve)
    text = f"slope {slope:.2f}"
    return Measured(slope > minimum, text if slope > minimum else f"{text}, must exceed {minimum}", curve)


def fitted_slope(steps: np.ndarray, errors: np.ndarray, levels: np.ndarray) -> float | None:
    """Return the slope of log error over log step, or None where the error is at rounding level.

    The slope is measured on a run of eight neighbouring steps whose errors exceed the rounding errors at the smallest
    steps: the straight run with the smallest steps, where the lowest order dominates. A wrong derivative appears at
    small steps, and curvature of the plot at large steps. Flat runs are due to rounding and are used only if there is
    no other run.
    """
    finite = np.isfinite(errors)
    noise = np.max(errors[:_WINDOW], where=finite[:_WINDOW], initial=0)
    above = finite & (errors > np.maximum(0.1 * levels, 10 * noise))
    runs = []
    for k in range(len(steps) - _WINDOW + 1):
        part = slice(k, k + _WINDOW)
        if np.all(above[part]):
            x, y = np.log10(steps[part]), np.log10(errors[part])
            slope, offset = np.polyfit(x, y, 1)
            runs.append((float(slope), float(np.sqrt(np.mean((y - slope * x - offset) ** 2)))))
    if np.all(errors[finite] <= (100 if runs else 1e6) * levels[finite]):
        return None
    for slope, bend in runs:
        if bend < _STRAIGHT and slope > _FLAT:
            return slope
    return min(runs, key=lambda run: run[1])[0] if runs else 0.0
