"""Missing values, imputed by expectation maximization and the Kalman smoother."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manifoldseq.estimators import check_sequences, warn_of_order

from ..systems._kalman import Filtered, compress, kalman_filter, outputs_of, smooth
from ..systems._record import Systems

Array = NDArray[np.floating[Any]]

# Expectation maximization of model (1), for sequences of one length with missing values (Shumway and Stoffer 1982).


_RIDGE = 1e-8
"""Added to normal equations, in units of their mean diagonal: an output may be seen too seldom for its unknowns."""


def sweep(systems: Systems, Y: Array, *, per_output: bool = False, held: bool = False) -> tuple[Systems, Filtered]:
    """Return systems that no sequence finds less likely, and the filter under those given.

    Parameters
    ----------
    systems : Systems
        Any C, with a mean or without.
    Y : ndarray of shape (N, T, m)
        NaN marks what is missing.
    per_output : bool
        Learn a variance of the noise for each output, instead of one per system.
    held : bool
        Keep A, C and the mean, and learn the noises and the first states.

    Returns
    -------
    systems : Systems
        All of A, B, C, x1, mean and Omega updated, unless held; C need not be orthonormal.
    filtered : Filtered
        Its log-likelihood is that of the systems given.
    """
    filtered = kalman_filter(systems, compress(systems, Y))
    x, P, lagged = smooth(systems, filtered)
    second = P + x[:, :, :, None] * x[:, :, None]  # E[x x']
    across = (lagged + x[:, 1:, :, None] * x[:, :-1, None]).sum(axis=1)
    before, after = second[:, :-1].sum(axis=1), second[:, 1:].sum(axis=1)
    # A = (sum E[x(t+1) x(t)']) (sum E[x(t) x(t)'])^-1, (N, n, n); BB' is what it leaves, and the uncertain first state
    A = systems.A if held else _solved(before, across.swapaxes(1, 2)).swapaxes(1, 2)
    noise = P[:, 0] + after - A @ across.swapaxes(1, 2) - across @ A.swapaxes(1, 2) + A @ before @ A.swapaxes(1, 2)
    w, W = np.linalg.eigh(noise / Y.shape[1])
    B = (W * np.sqrt(np.maximum(w, 0))[:, None]) @ W.swapaxes(1, 2)
    C, mean, Omega = _outputs(x, second, Y, systems, per_output, held)
    return Systems.trusted({"A": A, "C": C, "x1": x[:, 0].copy(), "B": B, "mean": mean, "Omega": Omega}), filtered


def _outputs(
    x: Array, second: Array, Y: Array, systems: Systems, per_output: bool, held: bool
) -> tuple[Array, Array | None, Array]:
    """Regress each output on the states of the steps in which it is seen; return C, the mean and the variances left."""
    N, T, n = x.shape
    center = systems.mean is not None
    if center:  # the mean is the coefficient of a state that is always one
        grown = np.ones((N, T, n + 1, n + 1))
        grown[:, :, :n, :n], grown[:, :, :n, n], grown[:, :, n, :n] = second, x, x
        x, second = np.concatenate([x, np.ones((N, T, 1))], axis=2), grown
    k = x.shape[2]
    seen = (~np.isnan(Y)).astype(float)
    Y = np.where(seen > 0, Y, 0.0)
    # of each output its own normal equations, summed over the steps in which it is seen, (N, m, k, k) and (N, m, k)
    gram = (seen.swapaxes(1, 2) @ second.reshape(N, T, k * k)).reshape(N, -1, k, k)
    right = Y.swapaxes(1, 2) @ x
    if held:
        C = systems.C if systems.mean is None else np.concatenate([systems.C, systems.mean[:, :, None]], axis=2)
    else:
        C = _solved(gram, right[..., None])[..., 0]
    squares = (Y * Y).sum(axis=1) - 2 * (C * right).sum(axis=2) + np.einsum("imk,imkl,iml->im", C, gram, C)
    count = seen.sum(axis=(1, 2))
    variance = squares / seen.sum(axis=1) if per_output else (squares.sum(axis=1) / count)[:, None]
    least = 1e-10 * (Y * Y).sum(axis=(1, 2)) / count + 1e-100
    variance = np.maximum(variance, least[:, None]) * np.ones((1, Y.shape[2]))
    if not center:
        return C, None, variance
    return np.ascontiguousarray(C[:, :, :n]), np.ascontiguousarray(C[:, :, n]), variance


def _solved(gram: Array, right: Array) -> Array:
    ridge = _RIDGE * np.trace(gram, axis1=-2, axis2=-1)[..., None, None] / gram.shape[-1] + 1e-300
    return np.linalg.solve(gram + ridge * np.eye(gram.shape[-1]), right)


_SWEEPS = 100
_GAIN = 0.01
"""Sweeps end when one raises the log-likelihood by less, per recorded value."""


def embed(Y: Array, delay: int) -> Array:
    """Stack `delay` consecutive steps of sequences (N, T, d) into outputs (N, T - delay + 1, d * delay)."""
    if delay == 1:
        return Y
    steps = Y.shape[1] - delay + 1
    return np.concatenate([Y[:, lag : lag + steps] for lag in range(delay)], axis=2)


def unembed(Y: Array, delay: int) -> Array:
    """Return sequences (N, T, d) from outputs of stacked steps, as the average over the copies of each value."""
    N, steps, m = Y.shape
    total = np.zeros((N, steps + delay - 1, m // delay))
    count = np.zeros((steps + delay - 1, 1))
    for lag, part in enumerate(np.split(Y, delay, axis=2)):
        total[:, lag : lag + steps] += part
        count[lag : lag + steps] += 1
    return total / count


def smoothed(systems: Systems, Y: Array, delay: int) -> Array:
    """Return what systems expect of sequences (N, T, d), given all values of each that are not NaN."""
    outputs = embed(Y, delay)
    x = smooth(systems, kalman_filter(systems, compress(systems, outputs)))[0]
    return unembed(outputs_of(systems, x), delay)


def fill(Y: Array, delay: int, identify: Callable[[Array], Systems], numbers: NDArray[np.intp]) -> Array:
    """Return sequences (N, T, d) of one length, in all of which something is missing, with values in place of NaN.

    The start are the systems of sequences interpolated on straight lines. Expectation maximization improves each until
    a sweep raises the log-likelihood by less than 0.01 per recorded value: going on to the maximum fits the noise. The
    values are the means of the Kalman smoother under the result. A sequence whose likelihood does not stay finite keeps
    its last systems with a finite one, or the straight lines, and is warned about by its number.
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
            f"the likelihood of sequence {numbers[failed][0]} is not finite while its missing values are estimated "
            f"({np.count_nonzero(failed)} of {len(Y)} sequences): they are from the sweep before it, look for extreme "
            "values",
            stacklevel=2,
        )
    return np.where(np.isnan(Y), made, Y)


def finite_systems(systems: Systems) -> NDArray[np.bool_]:
    """Return which systems have finite parameters."""
    parts = [systems.A, systems.B, systems.C, systems.x1, systems.Omega]
    return np.all([np.isfinite(part).reshape(len(part), -1).all(axis=1) for part in parts if part is not None], axis=0)


def interpolated(Y: Array) -> Array:
    """Return sequences (N, T, d) with values on straight lines in time in place of NaN."""
    missing = np.isnan(Y)
    made = Y.copy()
    t = np.arange(Y.shape[1])
    for i, c in np.argwhere(missing.any(axis=1)):
        hole = missing[i, :, c]
        made[i, hole, c] = np.interp(t[hole], t[~hole], Y[i, ~hole, c])
    return made


def check_holed(X: Any, min_length: int, needed_by: str) -> list[NDArray[np.float64]]:
    """Check sequences in which NaN is allowed, as `check_sequences` does, and that each channel has a value in each."""
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
        if hole.all(axis=0).any():
            channel = int(np.flatnonzero(hole.all(axis=0))[0])
            raise ValueError(f"sequence {i} has no value in channel {channel}: remove the sequence or the channel")
        sequences[i] = np.where(hole, np.nan, sequences[i])
    return sequences


def _nan(item: Any) -> NDArray[np.bool_] | None:
    """Return where an array of floats is NaN; None for what is none, which other checks refuse."""
    if isinstance(item, np.ma.MaskedArray):
        return None
    try:
        array = np.asarray(item)
    except ValueError:
        return None
    return np.isnan(array) if array.dtype.kind == "f" and array.ndim == 2 else None
