"""A cache of results that are derived from a point."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

Derived = TypeVar("Derived")
_LAST = 16


class Memory:
    """Values of the last few arrays, which are told apart by identity; each is kept until its array is deleted."""

    def __init__(self) -> None:
        self.kept: dict[int, tuple[Any, Any]] = {}

    def get(self, x: np.ndarray) -> Any:
        """Return the value of an array, None if it has none."""
        entry = self.kept.get(id(x))
        return entry[1] if entry is not None and entry[0]() is x else None

    def keep(self, x: np.ndarray, value: Any) -> None:
        """Keep the value of an array; it must not hold the array."""
        kept, key = self.kept, id(x)
        for oldest in list(kept)[: max(0, len(kept) - _LAST + 1)]:  # a list: other threads may add meanwhile
            kept.pop(oldest, None)
        kept[key] = weakref.ref(x, lambda _: kept.pop(key, None)), value


def remembered(derive: Callable[[np.ndarray], Derived]) -> Callable[[np.ndarray], Derived]:
    """Keep what a function derives from the last few read-only arrays, told apart by identity.

    For roots, eigenvalues and Gram matrices, which many operations at one point need. Only arrays that own their data
    and are not writeable are remembered, as the points of a run are, and each until it is deleted. The function depends
    on its array alone, so that a run is the same bit by bit with and without memory.

    Examples
    --------
    >>> import numpy as np
    >>> calls = []
    >>> @remembered
    ... def trace(x):
    ...     calls.append(len(x))
    ...     return float(np.trace(x))
    >>> x = np.eye(3)
    >>> x.flags.writeable = False
    >>> trace(x), trace(x), calls
    (3.0, 3.0, [3])
    """
    memory = Memory()

    def of(x: np.ndarray) -> Derived:
        flags = x.flags
        if flags.writeable or not flags.owndata:
            return derive(x)
        if (known := memory.get(x)) is not None:
            return known
        value = derive(x)
        memory.keep(x, value)
        return value

    return of
