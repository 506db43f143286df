"""Errors of forecasts of short sequences due to the parameters, by a parametric bootstrap."""

import dataclasses
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from ..systems._kalman import compress, kalman_filter, noise_covariance
from ..systems._prediction import (
    embed,
    expected,
    observed,
    predicted,
    simulated_states,
    symmetric_root,
    variances,
)
from ..systems._record import Systems, replaced
from ._estimation import Estimation
from ._output_noise import improved, shaped
from ._stabilizers import spectral_radius

Array = NDArray[np.floating[Any]]

REPLICATES = 20
SHARE = 0.9
"""The share that standard deviations are made for: intervals of 1.645 of them."""
_MOST, _HALVINGS = 10.0, 30
"""Bounds of the logarithm of the factor, and bisections of it."""
_INSIDE, _SHORTER = 0.995, 30
"""Spectral radius of plausible systems, unless the estimate is farther out; steps back to it."""
_SWEEPS = 30
"""Of expectation maximization for the noises of single steps."""
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
    """Return the factors by which the identification of systems increases the variances of forecasts, (N, n_steps, d).

    From each system, `count` sequences with the steps, inputs and gaps of its own are simulated and identified. What
    came after is normal around what follows from the simulated state at the end: the factor is that with which `share`
    of it lies in the intervals that the identified systems claim (Beran 1987, prepivoting). They are too narrow by the
    error of their parameters, because fitted noises are too small, and with a delay because the filter takes the noise
    of stacked outputs for independent, though they share all but one step: it is surer of the state than it may be.

    An estimate is not the truth: where poles are estimated too small, what is simulated from it is too tame. So each
    sequence is simulated from a system that the estimate may come from, see `_plausible`, and with a delay its noises
    are those that single steps, not stacked ones, make likeliest.

    Parameters
    ----------
    Y : ndarray of shape (N, T, d)
        In units of the scale; NaN where missing.
    inputs : ndarray of shape (N, T + n_steps, p) or None
        Not stacked.
    """
    N, T, d = Y.shape
    many = np.repeat(np.arange(N), count)
    delay = estimation.delay
    U = None if inputs is None else inputs[many]
    seen = None if U is None else U[:, :T]
    # outputs of `delay` stacked steps, of which the first is kept; inputs after the last are those of the last
    stacked = (
        None if U is None else embed(np.pad(U, ((0, 0), (0, delay), (0, 0)), mode="edge"), delay)[:, : T + n_steps]
    )
    known = None if inputs is None else embed(inputs[:, :T], delay)
    x = kalman_filter(systems, compress(systems, embed(Y, delay), known)).x
    first = _first_step(systems, d)
    if delay > 1:
        first = _with_noises_of_steps(systems, first, Y, known, estimation.covariance_type)
    first = replaced(first[many], A=_plausible(first, x, count, estimation.center, rng))
    states = simulated_states(first, T, rng, stacked)
    drawn = observed(first, states, rng, None if stacked is None else stacked[:, :T])
    drawn = np.where(np.isnan(Y)[many], np.nan, drawn)
    plain = dataclasses.replace(estimation, scale=np.ones(d))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        again = plain.identify(list(drawn), None if seen is None else list(seen))
    truth = expected(first, states[:, -1], n_steps, None if stacked is None else stacked[:, T - 1 :])
    around = variances(first, np.zeros((len(many), first.n_states, first.n_states)), n_steps)
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


def _plausible(systems: Systems, x: Array, count: int, center: bool, rng: np.random.Generator) -> Array:
    """Return transition matrices (N * count, n, n) of which those of systems may be least-squares estimates.

    From states x (N, T, n): the estimate less its bias ``-Q (1 / (1 - A') + A' / (1 - A'^2) + sum of p / (1 - p A')
    over poles p) S^-1 / T`` (Nicholls and Pope 1988; the first term where a mean is learned), and less an error of
    covariance Q by ``S^-1 / T``, with Q the covariance of the state noise and S the second moment of the states. A
    change is shortened until the result is stable.
    """
    N, T, n = x.shape
    one, A, Q = np.eye(n), systems.A, noise_covariance(systems)
    inverse = np.linalg.pinv(x.swapaxes(1, 2) @ x / T, rcond=1e-10, hermitian=True)
    # poles at the unit circle have no such bias: they are taken from inside
    radius = spectral_radius(A)
    At = (A * np.minimum(1, (1 - 2 / T) / np.maximum(radius, 1e-300))[:, None, None]).swapaxes(1, 2)
    terms = At @ np.linalg.inv(one - At @ At)
    if center:
        terms = terms + np.linalg.inv(one - At)
    for pole in np.linalg.eigvals(At).T[:, :, None, None]:
        terms = terms + (pole * np.linalg.inv(one - pole * At)).real
    noise = symmetric_root(Q)[:, None] @ rng.standard_normal((N, count, n, n)) @ symmetric_root(inverse)[:, None]
    change = (Q @ terms @ inverse / T)[:, None] + noise / np.sqrt(T)
    limit = np.maximum(_INSIDE, radius)[:, None]
    for _ in range(_SHORTER):
        outside = ~(spectral_radius(A[:, None] + change) < limit)
        if not outside.any():
            break
        change = np.where(outside[:, :, None, None], 0.8 * change, change)
    change = np.where((spectral_radius(A[:, None] + change) < limit)[:, :, None, None], change, 0)
    return (A[:, None] + change).reshape(N * count, n, n)


def _with_noises_of_steps(
    systems: Systems, first: Systems, Y: Array, inputs: Array | None, covariance_type: str
) -> Systems:
    """Return systems of the first of stacked steps with the noises that make single steps Y (N, T, d) likeliest.

    Stacked outputs share their noise, and what is taken for independent noise is too large, that of states too small.
    """
    d = Y.shape[2]
    steps = Y.shape[1] - systems.n_outputs // d + 1
    start = shaped(_first_step(systems, d), covariance_type)
    better = improved(start, Y[:, :steps], inputs, _SWEEPS, covariance_type, held=True)
    return replaced(first, noise_factor=better.noise_factor, Omega=better.Omega)
