"""What an objective returns."""

from __future__ import annotations

from typing import Any

import numpy as np


def number(value: Any) -> float:
    """Return a value as a Python float, or raise a sentence if it is not one real number."""
    if isinstance(value, float):  # a scalar of numpy's float64 too
        return float(value)
    array = np.asarray(value)
    if array.dtype.kind not in "fiu" or array.size != 1:
        shape = f" of shape {array.shape}" if array.size != 1 else ""
        got = f"{type(value).__name__} {value!r}{shape}"
        raise TypeError(f"the objective returned {got}: it must return one real number")
    return float(array.reshape(()))
