"""Detection of a delay that is too short for the frequencies of modes, by comparison with longer delays."""

import dataclasses
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..systems._modes import frequency_text, modes_of
from ..systems._prediction import embed, squared_errors
from ..systems._record import Systems
from ._estimation import Estimation
from ._output_noise import block_rows
from ._stored_sequences import is_large

Array = NDArray[np.floating[Any]]

_LONGER = (4, 16)
"""Factors of the longer delays that are compared, as long as the sequence has four times as many steps."""
_NUMBERS = 2**22
"""Maximum number of values of a sequence of stacked steps that is identified for the comparison."""
_SHARE = 0.05
"""A mode counts if it has this fraction of the squared outputs and at least two periods are recorded."""
_EQUAL = 0.05
"""Relative tolerance for equal frequencies."""


def warn_of_short_delay(estimation: Estimation, sequences: Sequence[Any], systems: Systems, rate: float | None) -> None:
    """Warn about sequences whose modes have other frequencies with a longer delay, if that delay forecasts better.

    Noise hides a direction of the states that hardly changes the outputs within a window of `delay` steps, such as the
    difference of two slow tones. A longer window shows it. The delay is too short under two conditions: a relevant mode
    of the longer delay has no counterpart within 5 % of its frequency, and the squared error of forecasts over a
    quarter of the period of the slowest of these modes is at most half as large and at most half of the variance.
    """
    short: dict[int, Estimation] = {}
    for i, x in enumerate(sequences):
        tried = [] if is_large(x) else _longer(estimation, len(x))
        better = next((one for one in tried if _differs(estimation, one, x, systems[i : i + 1])), None)
        if better is not None:
            short[i] = better
    if not short:
        return
    i, cure = next(iter(short.items()))
    x, found = sequences[i], cure.estimated([sequences[i]])
    while (longer := _longer(cure, len(x))) and _differs(cure, longer[0], x, found):  # until the frequencies stay
        cure, found = longer[0], longer[0].estimated([x])
    before, after = (
        frequency_text(modes_of(one.A, one.C, rate).frequencies[0], rate) for one in (systems[i : i + 1], found)
    )
    warnings.warn(
        f"delay={estimation.delay} is too short for the modes of {len(short)} of {len(sequences)} sequences. The "
        f"frequencies of sequence {i} are {before}, but they are {after} with delay={cure.delay}, which forecasts "
        f"better: set delay={cure.delay}",
        stacklevel=3,
    )


def _longer(estimation: Estimation, steps: int) -> list[Estimation]:
    """Return estimations with longer delays and without stabilizer, as far as the number of steps allows."""
    channels, made = len(estimation.scale), []
    for delay in (factor * estimation.delay for factor in _LONGER):
        if steps >= 4 * delay and channels * delay * steps <= _NUMBERS:
            rows = block_rows(steps - delay + 1, channels * delay, estimation.n, delay)
            method = "pca" if estimation.method == "pca" or rows is None else "n4sid"
            made.append(dataclasses.replace(estimation, delay=delay, stabilizer="NONE", method=method))
    return made


def _differs(estimation: Estimation, longer: Estimation, x: Any, systems: Systems) -> bool:
    """Return whether a longer delay forecasts a sequence better and yields other modes."""
    ((_, Y),) = longer.batches([x])
    Y = longer.filled(Y, np.zeros(1, np.intp))
    other = longer.estimated([Y[0] * longer.scale])
    found = modes_of(other.A, other.C, None)
    mean = 0.0 if other.mean is None else other.mean[0]
    states = (embed(Y, longer.delay)[0] - mean) @ other.C[0]
    amplitudes = states @ np.linalg.pinv(np.linalg.lstsq(other.C[0], found.shapes[0], rcond=None)[0]).T
    energy = (np.abs(amplitudes) ** 2).mean(axis=0)
    own = found.frequencies[0]
    counts = own[(energy >= _SHARE * energy.sum()) & (own * len(x) >= 2)]
    here = modes_of(systems.A, systems.C, None).frequencies[0]
    if not any(np.abs(here - one).min() > _EQUAL * one for one in counts):
        return False
    ahead = int(np.clip(round(0.25 / counts.min()), 1, len(x) // 2))
    before, after = (
        _forecast_error(one, Y[:, longer.delay - delay :], delay, ahead)
        for one, delay in ((systems, estimation.delay), (other, longer.delay))
    )
    return after <= 0.5 * min(before, float(np.var(Y, axis=1).sum()))


def _forecast_error(systems: Systems, Y: Array, delay: int, ahead: int) -> float:
    """Return the mean squared error of forecasts of one sequence (1, T, d) by a number of steps ahead."""
    stacked = embed(Y, delay).swapaxes(1, 2)
    with np.errstate(over="ignore", invalid="ignore"):
        (error,) = squared_errors(stacked, ahead, Y.shape[2], systems.mean, systems.C, [systems.A], ahead)
    return float(error[0]) / (stacked.shape[2] - ahead) if np.isfinite(error[0]) else np.inf
