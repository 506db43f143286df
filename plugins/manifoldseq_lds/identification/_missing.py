"""Missing values, imputed by expectation maximization and the Kalman smoother."""

import warnings
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manifoldseq.estimators import SequencesLike, check_sequences, warn_of_order

from ..systems._kalman import compress, kalman_filter, outputs_of, smooth
from ..systems._prediction import embed
from ..systems._record import Systems
from ._em import sweep

Array = NDArray[np.floating[Any]]

OR_NAN = "let LDSIdentifier(missing='smooth') fill it"
"""The remedy for NaN in error messages, in addition to removing or filling it."""
_SWEEPS = 100
_GAIN = 0.01
"""Sweeps end when the log-likelihood per recorded value rises by less than this."""


def unembed(Y: Array, delay: int) -> Array:
    """Return sequences (N, T, d) from outputs of stacked steps, as the average over the copies of each value."""
    N, steps, m = Y.shape
    total = np.zeros((N, steps + delay - 1, m // delay))
    count = np.zeros((steps + delay - 1, 1))
    for lag, part in enumerate(np.split(Y, delay, axis=2)):
        total[:, lag : lag + steps] += part
        count[lag : lag + steps] += 1
    return total / count


def latest(Y: Array, delay: int) -> Array:
    """Return sequences (N, T, d) from outputs of stacked steps: each value from the output that ends with it."""
    N, _, m = Y.shape
    return np.concatenate([Y[:, 0].reshape(N, delay, m // delay), Y[:, 1:, m - m // delay :]], axis=1)


def smoothed(systems: Systems, Y: Array, delay: int, inputs: Array | None = None) -> Array:
    """Return the expected sequences (N, T, d) under systems, given all recorded values of each sequence."""
    x = smooth(systems, kalman_filter(systems, compress(systems, embed(Y, delay), inputs)))[0]
    return unembed(outputs_of(systems, x, inputs), delay)


def fill(Y: Array, delay: int, identify: Callable[[Array], Systems], numbers: NDArray[np.intp]) -> Array:
    """Fill the missing values of sequences (N, T, d) of one length, each of which has missing values.

    The initial systems are identified from linearly interpolated sequences. Expectation maximization improves each
    system until a sweep raises the log-likelihood by less than 0.01 per recorded value, because convergence to the
    maximum would fit the noise. The values are the means of the Kalman smoother of the result. If the likelihood of a
    sequence becomes non-finite, the last finite system (or linear interpolation) is used, and a warning gives the
    number of the sequence.
    """
    outputs = embed(Y, delay)
    values = np.count_nonzero(~np.isnan(outputs), axis=(1, 2))
    systems = identify(interpolated(Y))
    last, made = np.full(len(Y), -np.inf), interpolated(Y)
    active, before, failed = np.arange(len(Y)), systems, np.zeros(len(Y), bool)
    for number in range(_SWEEPS + 1):
        better, filtered = sweep(systems, outputs[active])
        lost, stuck = ~np.isfinite(filtered.log_likelihood), ~finite_systems(better)
        done = (filtered.log_likelihood - last[active] < _GAIN * values[active]) | (number == _SWEEPS)
        failed[active[lost | (stuck & ~done)]] = True
        done = (done | stuck) & ~lost
        for rows, kept in ((done, systems), (lost & (number > 0), before)):
            if rows.any():
                made[active[rows]] = smoothed(kept[rows], Y[active[rows]], delay)
        on = ~(done | lost)
        last[active] = filtered.log_likelihood
        active, before, systems = active[on], systems[on], better[on]
        if not len(active):
            break
    if failed.any():
        warnings.warn(
            f"the likelihood of {np.count_nonzero(failed)} of {len(Y)} sequences (the first is sequence "
            f"{numbers[failed][0]}) is not finite while missing values are estimated. The values of the previous "
            "sweep are used: check the data for extreme values",
            stacklevel=2,
        )
    return np.where(np.isnan(Y), made, Y)


def finite_systems(systems: Systems) -> NDArray[np.bool_]:
    """Return a mask of systems with finite parameters."""
    parts = [part for one in fields(Systems) if (part := getattr(systems, one.name)) is not None]
    return np.all([np.isfinite(part).reshape(len(part), -1).all(axis=1) for part in parts], axis=0)


def interpolated(Y: Array) -> Array:
    """Return sequences (N, T, d) with linear interpolation in time of missing values."""
    missing = np.isnan(Y)
    made = Y.copy()
    t = np.arange(Y.shape[1])
    for i, c in np.argwhere(missing.any(axis=1)):
        hole = missing[i, :, c]
        made[i, hole, c] = np.interp(t[hole], t[~hole], Y[i, ~hole, c])
    return made


def check_holed(X: SequencesLike, min_length: int, needed_by: str, *, empty: bool = False) -> list[NDArray[np.float64]]:
    """Validate sequences like `check_sequences`, but allow NaN.

    Each channel must have a value in each sequence, unless `empty` is true.
    """
    if isinstance(X, np.ndarray) and X.ndim == 3:
        warn_of_order(X.shape, "X", "pass X.transpose(0, 2, 1), else list(X)", stacklevel=4)
    items = list(X) if isinstance(X, list | tuple) or (isinstance(X, np.ndarray) and X.ndim == 3) else X
    holes: dict[int, NDArray[np.bool_]] = {}
    if isinstance(items, list):
        for i, item in enumerate(items):
            hole = _nan(item)
            if hole is not None and hole.any():
                holes[i] = hole
                items[i] = np.where(hole, 0.0, np.asarray(item))
    sequences = check_sequences(items, min_length=min_length, needed_by=needed_by)
    for i, hole in holes.items():
        if hole.all(axis=0).any() and not empty:
            channel = int(np.flatnonzero(hole.all(axis=0))[0])
            raise ValueError(f"sequence {i} has no value in channel {channel}: remove the sequence or the channel")
        sequences[i] = np.where(hole, np.nan, sequences[i])
    return sequences


def _nan(item: Any) -> NDArray[np.bool_] | None:
    """Return the NaN mask of an array of floats; None for other objects, which other checks reject."""
    if isinstance(item, np.ma.MaskedArray):
        return None
    try:
        array = np.asarray(item)
    except ValueError:
        return None
    return np.isnan(array) if array.dtype.kind == "f" and array.ndim == 2 else None
