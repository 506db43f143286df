"""Number of states and delay: defaults, a share of the energy, or the least held-out one-step error."""

from collections.abc import Sequence
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manifoldseq.estimators import quoted

from ._subspace_method import least_squares, subspace

Array = NDArray[np.floating[Any]]

_HELD_OUT = 0.2
_MOST = 50
"""The largest number of states that is tried on held-out steps."""
_DEFAULT = 5
"""The number of states where channels and lengths allow it."""
_LEAST = 2
"""With one state nothing oscillates: the default delay is raised until there can be two."""


def check_order(n_states: Any) -> int | float | str | None:
    """Return a number of states, a share of the energy (a float), "auto" or None for the held-out rule; or raise."""
    ask = "pass a whole number of at least 1, 'auto', 'energy:0.95' (any share below 1) or 'held-out'"
    if isinstance(n_states, str):
        if n_states == "auto":
            return n_states
        if n_states == "held-out":
            return None
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
    """Raise unless a delay is a whole number of at least 1, or "auto"."""
    whole = isinstance(delay, Integral) and not isinstance(delay, bool) and int(delay) >= 1
    if not whole and not (isinstance(delay, str) and delay == "auto"):
        raise ValueError(f"{name}={quoted(delay)} is not valid: pass a whole number of at least 1, or 'auto'")


def default_sizes(n_states: Any, delay: Any, channels: int, shortest: int) -> tuple[Any, int]:
    """Return `n_states` and `delay` with numbers in the place of "auto", for sequences of at least so many steps.

    n states need ``n + delay`` steps and ``channels * delay >= n``.
    """
    if delay == "auto":
        least = -(-_LEAST // channels)
        delay = least if isinstance(n_states, str) and shortest >= _LEAST + least else 1
    if isinstance(n_states, str) and n_states == "auto":
        n_states = max(1, min(_DEFAULT, channels * delay, shortest - delay))
    return n_states, int(delay)


def choose_order(rule: float | None, batches: Sequence[Array], center: bool) -> int:
    """Return the number of states for sequences, in batches (N, m, T) of one length.

    A share asks for the fewest directions that together hold it of the squares of all sequences. None asks for the
    number with the least squared error one step ahead, ``y(t+1) = mean + C A C' (y(t) - mean)``, summed over the last
    fifth of each sequence, with systems (without stabilizer) from the first four fifths.
    """
    shortest, m = min(Y.shape[2] for Y in batches), batches[0].shape[1]
    if rule is None:
        most = min(m, _train(shortest) - 1, _MOST)
        errors = sum(_held_out_errors(Y, most, center) for Y in batches)
        return int(np.argmin(errors)) + 1
    energies = np.zeros(m)
    for Y in batches:
        found = subspace(Y, center).energies().sum(axis=0)
        energies[: len(found)] += found
    if not energies.any():
        return 1
    shares = np.cumsum(energies) / energies.sum()
    return min(int(np.searchsorted(shares, rule)) + 1, shortest - 1)


def _train(steps: int) -> int:
    return steps - max(1, round(_HELD_OUT * steps))


def _held_out_errors(Y: Array, most: int, center: bool) -> Array:
    """Return the summed squared errors with 1, 2, …, `most` states."""
    cut = _train(Y.shape[2])
    found = subspace(Y[:, :, :cut], center)
    Y = Y if found.mean is None else Y - found.mean[:, :, None]
    before, after = Y[:, :, cut - 1 : -1], Y[:, :, cut:]
    errors = []
    for n in range(1, most + 1):
        C, X = found.states(n)
        errors.append(((after - C @ (least_squares(X) @ (C.swapaxes(1, 2) @ before))) ** 2).sum())
    return np.array(errors)
