"""What identification errs in forecasts of short sequences, by a parametric bootstrap."""

import dataclasses
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from ..systems._prediction import embed, expected, observed, predicted, simulated_states, variances
from ..systems._record import Systems, replaced
from ._estimation import Estimation

Array = NDArray[np.floating[Any]]

REPLICATES = 20
SHARE = 0.9
"""The share that standard deviations are made for: intervals of 1.645 of them."""
_MOST, _HALVINGS = 10.0, 30
"""Bounds of the logarithm of the factor, and bisections of it."""
LONG = 500
"""From so many steps on, the noises of the steps to come are what matters."""


def inflation(
    estimation: Estimation,
    systems: Systems,
    Y: Array,
    inputs: Array | None,
    n_steps: int,
    count: int,
    share: float,
    rng: np.random.Generator,
) -> Array:
    """Return what variances of forecasts grow by when systems are identified, not known, (N, n_steps, d).

    From each system, `count` sequences with the steps, inputs and gaps of its own are simulated and identified. What
    came after is normal around what follows from the simulated state at the end: the factor is that with which `share`
    of it lies in the intervals that the identified systems claim (Beran 1987, prepivoting). They are too narrow by the
    error of their parameters, because fitted noises are too small, and with a delay because the filter takes the noise
    of stacked outputs for independent, though they share all but one step: it is surer of the state than it may be.

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
    stacked = (
        None if U is None else embed(np.pad(U, ((0, 0), (0, delay), (0, 0)), mode="edge"), delay)[:, : T + n_steps]
    )
    first = _first_step(true, d)
    states = simulated_states(first, T, rng, stacked)
    drawn = observed(first, states, rng, None if stacked is None else stacked[:, :T])
    drawn = np.where(np.isnan(Y)[many], np.nan, drawn)
    plain = dataclasses.replace(estimation, scale=np.ones(d))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        again = plain.identify(list(drawn), None if seen is None else list(seen))
    truth = expected(first, states[:, -1], n_steps, None if stacked is None else stacked[:, T - 1 :])
    around = variances(first, np.zeros((len(many), true.n_states, true.n_states)), n_steps)
    mean, claimed = predicted(again, drawn, U, delay, n_steps)
    shape = (N, count, n_steps, d)
    error, spread, half = (
        a.reshape(shape) for a in (mean - truth, np.sqrt(around), ndtri(0.5 + 0.5 * share) * np.sqrt(claimed))
    )
    spread = np.maximum(spread, 1e-150)
    low, high = np.full((2, N, n_steps, d), [[[[-_MOST]]], [[[_MOST]]]])  # of the logarithm of the factor
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        edge = half * np.exp(0.5 * middle)[:, None]
        inside = (ndtr((edge - error) / spread) - ndtr((-edge - error) / spread)).mean(axis=1)
        low, high = np.where(inside < share, middle, low), np.where(inside < share, high, middle)
    return np.exp(high)


def _first_step(systems: Systems, d: int) -> Systems:
    """Return systems of stacked outputs with the first of the stacked steps alone, d outputs."""
    Omega = systems.Omega
    if Omega is not None:
        Omega = Omega[:, :d] if Omega.ndim == 2 else Omega[:, :d, :d]
    parts = {name: getattr(systems, name) for name in ("mean", "D")}
    cut = {name: None if part is None else part[:, :d] for name, part in parts.items()}
    return replaced(systems, C=systems.C[:, :d], Omega=Omega, **cut)
