"""What identification errs in forecasts of short sequences, by a parametric bootstrap."""

import dataclasses
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..systems._prediction import embed, predicted, simulated
from ..systems._record import Systems
from ._estimation import Estimation

Array = NDArray[np.floating[Any]]

REPLICATES = 20
LONG = 500
"""From so many steps on, the noises of the steps to come are what matters."""


def inflation(
    estimation: Estimation,
    systems: Systems,
    Y: Array,
    inputs: Array | None,
    n_steps: int,
    count: int,
    rng: np.random.Generator,
) -> Array:
    """Return what variances of forecasts grow by when systems are identified, not known, (N, n_steps, d).

    From each system, `count` sequences with the steps, inputs and gaps of its own are simulated and identified. The
    mean squared error of the forecasts of these systems, made of the difference to the forecast of the true one and
    of the variance around that, is divided by the mean of the variance that they claim: it is larger by the error of
    the parameters, and because fitted noises are too small.

    Parameters
    ----------
    Y : ndarray of shape (N, T, d)
        In units of the scale; NaN where missing.
    inputs : ndarray of shape (N, T + n_steps, p) or None
        Not stacked.
    """
    N, T, d = Y.shape
    many = np.repeat(np.arange(N), count)
    delay, true = estimation.delay, systems[many]
    U = None if inputs is None else inputs[many]
    seen = None if U is None else U[:, :T]
    # outputs of `delay` stacked steps, of which the first is kept; inputs after the last are those of the last
    stacked = None if U is None else embed(np.pad(U, ((0, 0), (0, delay), (0, 0)), mode="edge"), delay)[:, :T]
    drawn = simulated(true, T, rng, stacked)[:, :, :d]
    drawn = np.where(np.isnan(Y)[many], np.nan, drawn)
    plain = dataclasses.replace(estimation, scale=np.ones(d))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        again = plain.identify(list(drawn), None if seen is None else list(seen))
    truth, around = predicted(true, drawn, U, delay, n_steps)
    mean, claimed = predicted(again, drawn, U, delay, n_steps)
    shape = (N, count, n_steps, d)
    error = ((mean - truth) ** 2 + around).reshape(shape).mean(axis=1)
    return error / np.maximum(claimed.reshape(shape).mean(axis=1), 1e-300)
