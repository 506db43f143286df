"""Number of states and delay: defaults, fractions of the energy, held-out one-step errors, canonical correlations."""

from collections.abc import Sequence
from functools import partial
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manifoldseq.estimators import quoted
from manifoldseq.models import Stages, Step, summary

from ..systems._prediction import embed, squared_errors
from ._output_noise import block_rows, row_space
from ._subspace_method import subspace

Array = NDArray[np.floating[Any]]

_HELD_OUT = 0.2
_MOST = 50
"""The largest number of states that is tried on held-out steps."""
_MOST_UNDER_NOISE = 8, 16
"""The largest number for ``method="n4sid"`` and ``"em"``. If the first is chosen, the second is tried."""
_RANK = 1e-8
"""Directions below this fraction of the largest are rounding errors."""
_DEFAULT = 5
"""Default number of states, if channels and lengths allow it."""
_TOGETHER = 64
"""Number of sequences whose canonical correlations are one task."""
_LEAST = 2
"""Minimum number of states for oscillations: the default delay is raised until two states are possible."""


def check_order(n_states: Any) -> int | float | str | None:
    """Validate `n_states`; return a number, a fraction of the energy (float), "auto", or None for the default."""
    ask = "pass a whole number of at least 1, 'auto', 'energy:0.95' (any share below 1), or None"
    if n_states is None:
        return None
    if isinstance(n_states, str):
        if n_states == "auto":
            return n_states
        kind, _, share = n_states.partition(":")
        try:
            value = float(share)
        except ValueError:
            value = 0.0
        if kind == "energy" and 0 < value < 1:
            return value
    elif isinstance(n_states, Integral) and not isinstance(n_states, bool) and int(n_states) >= 1:
        return int(n_states)
    raise ValueError(f"n_states={quoted(n_states)} is not valid: {ask}")


def check_delay(name: str, delay: Any) -> None:
    """Raise ValueError unless a delay is a whole number of at least 1, or "auto"."""
    whole = isinstance(delay, Integral) and not isinstance(delay, bool) and int(delay) >= 1
    if not whole and not (isinstance(delay, str) and delay == "auto"):
        raise ValueError(f"{name}={quoted(delay)} is not valid: pass a whole number of at least 1, or 'auto'")


def default_sizes(n_states: Any, delay: Any, channels: int, shortest: int, method: str = "pca") -> tuple[Any, int]:
    """Return `n_states`, None replaced by its default, and `delay` as a number, given the minimum number of steps.

    n states need ``n + delay`` steps and, by ``method="pca"``, ``channels * delay >= n``. The other methods need no
    delay.
    """
    if delay == "auto" and method != "pca":
        delay = 1
    if delay == "auto":
        least = -(-_LEAST // channels)
        delay = least if not isinstance(n_states, Integral) and shortest >= _LEAST + least else 1
    if n_states is None:
        most = channels * delay if method == "pca" else shortest
        n_states = max(1, min(_DEFAULT, most, shortest - delay))
    return n_states, int(delay)


def order_under_noise(sequences: Sequence[Array], inputs: Sequence[Array] | None, delay: int, stages: Stages) -> Step:
    """Choose the number of states of sequences with output noise, by canonical correlations of past and future.

    The number minimizes the singular value criterion of Bauer (2001), "Order estimation for subspace methods", averaged
    over sequences: ``-log(1 - s(n+1)^2) + 2 n m log(T) / T``, with s the canonical correlations between i steps and the
    next i and m the number of outputs. The logarithm in place of ``s(n+1)^2``, which is equal for small s, does not
    saturate.

    Parameters
    ----------
    sequences : list of ndarray of shape (T_i, d)
        Sequences without missing values.
    inputs : list of ndarray of shape (T_i, p), optional
        Inputs, whose steps in a window are projected out of past and future.
    delay : int
        The delay; N4SID needs more steps with a delay, and the shortest sequence limits the number of states.
    stages : Stages
        A task computes the correlations of 64 sequences.
    """
    parts = [subspace(x.T[None], True, min(x.shape[1], _MOST_UNDER_NOISE[0])) for x in sequences]
    reduced = [part.U[0].T @ (x - x.mean(axis=0)).T for part, x in zip(parts, sequences, strict=True)]
    shortest, m = min(map(len, sequences)), len(reduced[0])
    p = 0 if inputs is None else inputs[0].shape[1]
    pairs = list(zip(reduced, inputs or [None] * len(reduced), strict=True))
    n, criteria = 1, np.zeros(1)
    for most in _MOST_UNDER_NOISE:
        # at least twice as many columns as rows in the past, with inputs of the whole window taken out
        rows = min(1 - (-most // m), (shortest + 1) // (2 + 2 * m + 4 * p))
        tried = min(most, rows * m - 1)
        if tried < n:
            break
        blocks = [pairs[start : start + _TOGETHER] for start in range(0, len(pairs), _TOGETHER)]
        found = np.concatenate(list(stages.map(partial(_correlations, rows=rows, n=tried), blocks)))
        criteria = np.zeros(tried)
        for (x, _), correlations in zip(pairs, found, strict=True):
            penalty = 2 * m * np.log(x.shape[1]) / x.shape[1]
            criteria += penalty * np.arange(1, tried + 1) - np.log1p(-np.minimum(correlations[1:] ** 2, 1 - 1e-12))
        n = int(np.argmin(criteria)) + 1
        if n < tried:
            break
    channels = sequences[0].shape[1]
    while n > 1 and block_rows(shortest - delay + 1, channels * delay, n, delay, p) is None:
        n -= 1
    return _step("criterion", "singular value criterion", criteria / len(reduced), n)


def _correlations(pairs: Sequence[tuple[Array, Array | None]], rows: int, n: int) -> Array:
    """Return the canonical correlations of sequences with their inputs, (N, n + 1)."""
    return np.stack([_canonical_correlations(x, u, rows, n) for x, u in pairs])


def _canonical_correlations(x: Array, u: Array | None, rows: int, n: int) -> Array:
    """Return the n + 1 largest correlations between `rows` steps of x (m, T) and the next, given inputs u (T, p)."""
    past, future = np.split(embed(x.T[None], 2 * rows)[0].T, 2)
    known = np.ones((1, past.shape[1]))
    if u is not None:
        known = np.concatenate([known, embed(u[None], 2 * rows)[0].T])
    base = row_space(known, _RANK)
    past, future = (row_space(M - M @ base.T @ base, _RANK) for M in (past, future))
    s = np.linalg.svd(future @ past.T, compute_uv=False)
    return np.concatenate([s, np.zeros(n + 1)])[: n + 1]


def choose_order(rule: float | str, batches: Sequence[Array], center: bool, stages: Stages) -> Step:
    """Choose the number of states for sequences, in batches (N, m, T) of one length.

    A fraction selects the fewest directions that contain this fraction of the sum of squares of all sequences. "auto"
    selects the number with the smallest squared one-step error, ``y(t+1) = mean + C A C' (y(t) - mean)``, summed over
    the last fifth of each sequence, with systems (without stabilizer) from the first four fifths. A batch is a task of
    the stages.
    """
    shortest, m = min(Y.shape[2] for Y in batches), batches[0].shape[1]
    if isinstance(rule, str):
        most = max(1, min(m, _train(shortest) - 1, _MOST))

        def errors_of(Y: Array) -> tuple[Array, ...]:
            return tuple(held_out_errors(Y, _train(Y.shape[2]), m, range(most + 1), center))

        # (most, N), relative to those of the mean, the forecast without states
        mean, *values = map(np.concatenate, zip(*stages.map(errors_of, batches), strict=True))
        values = np.stack(values) / (mean.mean() or 1.0)
        figure, error = summary(values) if values.shape[1] > 1 else (values[:, 0], None)
        return _step("forecast error", "forecast error, relative", figure, int(np.argmin(figure)) + 1, error)
    energies = np.zeros(m)
    for found in stages.map(partial(_energies, center=center), batches):
        energies[: len(found)] += found
    shares = np.cumsum(energies) / energies.sum() if energies.any() else np.ones(m)
    n = min(int(np.searchsorted(shares, rule)) + 1, shortest - 1)
    return _step("energy", "share of the sum of squares", shares, n)


def _step(heading: str, label: str, figure: Array, n: int, error: Array | None = None) -> Step:
    """Return the step of a choice of n states by a figure of 1, 2, … states."""
    return Step(heading, label, [{"n_states": k} for k in range(1, len(figure) + 1)], figure, [n - 1], error)


def _energies(Y: Array, center: bool) -> Array:
    return subspace(Y, center).energies().sum(axis=0)


def _train(steps: int) -> int:
    return steps - max(1, round(_HELD_OUT * steps))


def held_out_errors(Y: Array, seen: int, channels: int, states: Sequence[int], center: bool) -> list[Array]:
    """Fit systems to the first `seen` steps of outputs Y (N, m, T), and return the `squared_errors` on the other steps.

    The result has an array (N,) for each number of states n. One decomposition of the training part serves all n (the
    leading n directions), and so does one decomposition X0' = Q R of the states X0: with their successors X1, the
    least-squares solution A for n states is X1 Q R^-T, computed from the leading n × n blocks of X1 Q and of R.
    """
    found = subspace(Y[:, :, :seen], center, max(states))
    C, X = found.states(max(states))
    Q, R = np.linalg.qr(X[:, :, :-1].swapaxes(1, 2))
    onto = X[:, :, 1:] @ Q
    matrices = [onto[:, :n, :n] @ np.linalg.pinv(R[:, :n, :n], rtol=1e-12).swapaxes(1, 2) for n in states]
    return squared_errors(Y, seen, channels, found.mean, C, matrices)
