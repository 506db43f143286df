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
"""The coverage for which standard deviations are calibrated: intervals of ±1.645 standard deviations."""
_MOST, _HALVINGS = 10.0, 30
"""Bounds of the logarithm of the factor, and number of bisections."""
_INSIDE, _SHORTER = 0.995, 30
"""Maximum spectral radius of plausible systems, unless the estimate has a larger one; number of steps back to it."""
_SWEEPS = 30
"""Sweeps of expectation maximization for the noises of single steps."""
LONG = 500
"""Number of steps from which the noises of future steps dominate the error."""


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

    From each system, `count` sequences with the steps, inputs and gaps of the original sequence are simulated and
    identified. The continuation of a simulated sequence is normally distributed around the prediction from its true
    final state. The factor is chosen such that the intervals of the identified systems contain the fraction `share` of
    the continuations (Beran 1987, prepivoting). Without the factor, intervals are too narrow for three reasons: they
    ignore the errors of the parameters, fitted noises are too small, and with a delay the filter treats the noise of
    stacked outputs as independent although they share all steps except one.

    The estimated poles may be too small, so that simulations from the estimate would vary too little. Each sequence is
    therefore simulated from a plausible true system, see `_plausible`; with a delay, its noises are estimated from
    single steps instead of stacked steps.

    Parameters
    ----------
    Y : ndarray of shape (N, T, d)
        Sequences in units of the scale; NaN marks missing values.
    inputs : ndarray of shape (N, T + n_steps, p) or None
        Inputs, which are not stacked.
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
    """Return systems of stacked outputs restricted to the first of the stacked steps, with d outputs."""
    Omega = systems.Omega
    if Omega is not None:
        Omega = Omega[:, :d] if Omega.ndim == 2 else Omega[:, :d, :d]
    parts = {name: getattr(systems, name) for name in ("mean", "D")}
    cut = {name: None if part is None else part[:, :d] for name, part in parts.items()}
    return replaced(systems, C=systems.C[:, :d], Omega=Omega, **cut)


def _plausible(systems: Systems, x: Array, count: int, center: bool, rng: np.random.Generator) -> Array:
    """Return plausible true transition matrices (N * count, n, n), given the least-squares estimates of systems.

    For states x (N, T, n), they are the estimate minus its bias ``-Q (1 / (1 - A') + A' / (1 - A'^2) + sum of p / (1 -
    p A') over poles p) S^-1 / T`` (Nicholls and Pope 1988; the first term applies if a mean is estimated), minus a
    random error with the Kronecker covariance of Q and ``S^-1 / T``, where Q is the covariance of the state noise and S
    the second moment of the states. The change is reduced until the result is stable.
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
    """Return systems of the first of the stacked steps with maximum-likelihood noises of single steps Y (N, T, d).

    Stacked outputs share their noise, so that their estimated output noise is too large and the state noise too small.
    """
    d = Y.shape[2]
    steps = Y.shape[1] - systems.n_outputs // d + 1
    start = shaped(_first_step(systems, d), covariance_type)
    better = improved(start, Y[:, :steps], inputs, _SWEEPS, covariance_type, held=True)
    return replaced(first, noise_factor=better.noise_factor, Omega=better.Omega)
