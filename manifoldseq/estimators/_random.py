"""From scikit-learn's `random_state` to a numpy Generator."""

from numbers import Integral

import numpy as np


def random_generator(
    random_state: int | Integral | np.random.Generator | np.random.RandomState | None = None,
) -> np.random.Generator:
    """Return the numpy Generator that a `random_state` parameter stands for.

    The counterpart of `sklearn.utils.check_random_state` for the Generator interface; no global state is touched.

    Parameters
    ----------
    random_state : int, numpy.random.Generator, numpy.random.RandomState or None
        An int seeds a new generator; a Generator is returned as it is, so that draws advance it; a RandomState seeds
        a new generator from four of its draws; None draws fresh entropy from the operating system.

    Returns
    -------
    numpy.random.Generator

    Raises
    ------
    ValueError
        If `random_state` is anything else, or a negative int.

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
        f"random_state={random_state!r} is not a seed: "
        "pass a non-negative int, a numpy Generator or RandomState, or None"
    )
