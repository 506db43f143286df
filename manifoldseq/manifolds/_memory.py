"""A cache of results that are derived from a point."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

Derived = TypeVar("Derived")
_LAST = 16


class Memory:
    """Cached values of the last few arrays by identity; a value is kept until its array is deleted."""

    def __init__(self) -> None:
        self.kept: dict[int, tuple[Any, Any]] = {}

    def get(self, x: np.ndarray) -> Any:
        """Return the value of an array, or None."""
        entry = self.kept.get(id(x))
        return entry[1] if entry is not None and entry[0]() is x else None

    def keep(self, x: np.ndarray, value: Any) -> None:
        """Store the value of an array; the value must not refer to the array."""
        kept, key = self.kept, id(x)
        for oldest in list(kept)[: max(0, len(kept) - _LAST + 1)]:  # a list: other threads may add meanwhile
            kept.pop(oldest, None)
        kept[key] = weakref.ref(x, lambda _: kept.pop(key, None)), value


def remembered(derive: Callable[[np.ndarray], Derived]) -> Callable[[np.ndarray], Derived]:
    """Cache the results of a function for the last few read-only arrays, by identity.

    The cache is for roots, eigenvalues and Gram matrices, which many operations at one point need. Only arrays that own
    their data and are not writeable are cached, such as the points of a run, until they are deleted. The function must
    depend on its array only, so that runs with and without the cache are bit-identical.

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
