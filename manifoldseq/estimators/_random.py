"""Conversion of scikit-learn's `random_state` to a NumPy Generator."""

from hashlib import sha256
from numbers import Integral
from typing import Any

import numpy as np

from .._quoted import quoted


def random_generator(
    random_state: int | Integral | np.random.Generator | np.random.RandomState | None = None,
) -> np.random.Generator:
    """Return the numpy Generator of a `random_state` parameter.

    The function corresponds to `sklearn.utils.check_random_state` for the Generator interface and uses no global state.

    Parameters
    ----------
    random_state : int, numpy.random.Generator, numpy.random.RandomState or None
        An int seeds a new generator. A Generator is returned unchanged, so that draws advance it. A RandomState seeds a
        new generator from four of its draws. None uses entropy of the operating system.

    Returns
    -------
    numpy.random.Generator

    Raises
    ------
    ValueError
        If `random_state` has another type, or is a negative int.

    Examples
    --------
    >>> int(random_generator(0).integers(100)) == int(random_generator(0).integers(100))
    True
    """
    if isinstance(random_state, np.random.Generator):
        return random_state
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(0, 2**32, size=4, dtype=np.uint32))
    if random_state is None:
        return np.random.default_rng()
    if isinstance(random_state, Integral) and not isinstance(random_state, bool) and int(random_state) >= 0:
        return np.random.default_rng(int(random_state))
    raise ValueError(
        f"random_state={quoted(random_state)} is not a seed: "
        "pass a non-negative int, a numpy Generator or RandomState, or None"
    )


def seed_fingerprint(seed: Any) -> str:
    """Return a value that identifies a seed in fingerprints of checkpoints: equal only if the same numbers are drawn.

    Compute the value before anything is drawn. For a Generator, it covers the state of its bit generator and its seed
    sequence with the number of spawned children.

    Parameters
    ----------
    seed : int, numpy.random.Generator, BitGenerator, SeedSequence, RandomState or None
        The seed. All None are equal, because their draws cannot be distinguished.

    Returns
    -------
    str

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> seed_fingerprint(rng) == seed_fingerprint(np.random.default_rng(0))
    True
    >>> seed_fingerprint(rng) == seed_fingerprint(np.random.default_rng(1))
    False
    """
    if seed is None or isinstance(seed, Integral):
        return repr(None if seed is None else int(seed))
    return sha256(repr(_plain(seed)).encode()).hexdigest()


def _plain(part: Any) -> Any:
    """Return a value whose repr is the same in every process and is never abbreviated."""
    if isinstance(part, np.random.Generator):
        return "Generator", _plain(part.bit_generator)
    if isinstance(part, np.random.BitGenerator):
        return _plain(part.state), _plain(part.seed_seq)
    if isinstance(part, np.random.SeedSequence):
        return _plain(part.state), part.n_children_spawned
    if isinstance(part, np.random.RandomState):
        return "RandomState", _plain(part.get_state(legacy=False))
    if isinstance(part, dict):
        return [(key, _plain(value)) for key, value in sorted(part.items())]
    if isinstance(part, np.ndarray | np.generic):
        return part.tolist()
    if isinstance(part, list | tuple):
        return [_plain(one) for one in part]
    return part if isinstance(part, str | int | float | None) else type(part).__name__
