"""Memory maps as the names of their files, so that tasks in other processes read the files themselves."""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np


def recipe_of(array: Any) -> Callable[[], np.ndarray] | None:
    """Return the function that maps the file of an array again, or None for an array that is not a view of a file.

    A map with changes that its file does not have (mode "c") and the map of a deleted file have no recipe.
    """
    if not isinstance(array, np.ndarray) or not array.size or array.dtype.hasobject:
        return None
    whole: Any = array
    while not (isinstance(whole, np.memmap) and isinstance(whole.base, mmap.mmap)):
        whole = getattr(whole, "base", None)
        if whole is None:
            return None
    steps, item = array.strides, array.dtype.itemsize
    name, mode = whole.filename, whole.mode
    if mode == "c" or name is None or not os.path.exists(name) or any(step < 0 or step % item for step in steps):
        return None
    offset = whole.offset + array.__array_interface__["data"][0] - whole.__array_interface__["data"][0]
    if array.flags.c_contiguous:
        return partial(np.memmap, str(name), array.dtype, "r", int(offset), array.shape)
    last = sum((size - 1) * step for size, step in zip(array.shape, steps, strict=True)) // item
    return partial(_strided, str(name), array.dtype, int(offset), last + 1, array.shape, steps)


def _strided(
    name: str, dtype: np.dtype[Any], offset: int, size: int, shape: tuple[int, ...], steps: tuple[int, ...]
) -> np.ndarray:
    """Return some columns of rows in a file, or an array whose first axis varies fastest."""
    flat = np.memmap(name, dtype, "r", offset, (size,))
    return np.lib.stride_tricks.as_strided(flat, shape, steps, subok=True, writeable=False)
