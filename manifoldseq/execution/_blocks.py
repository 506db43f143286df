"""Rows in blocks: in memory, of memory maps or from recipes; sums over them, by any executor, in one order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from ._executors import Shards, added

SHARD = 1 << 26
"""Bytes of rows in a block: smaller data are one block, and computed here."""


class Blocks:
    """Arrays with the same rows, cut into blocks; what is added over them does not depend on the executor.

    Parameters
    ----------
    recipes : sequence of callables
        ``recipe() -> tuple of arrays`` with the same rows (or None), small to pickle.
    sizes : sequence of int
        Rows of each.
    """

    def __init__(self, recipes: Sequence[Callable[[], tuple[Any, ...]]], sizes: Sequence[int]) -> None:
        self.shards: Shards[tuple[Any, ...]] = Shards(recipes)
        self.ends = np.cumsum([0, *sizes])

    @classmethod
    def of(cls, *arrays: Any, size: int = SHARD) -> Blocks:
        """Return arrays in blocks of about `size` bytes; memory maps are opened where a block is computed on."""
        first = arrays[0]
        N = first.shape[0]
        width = int(np.prod(first.shape[1:])) * first.dtype.itemsize
        count = max(1, -(-N * width // size)) if type(first) is not None and isinstance(first, np.ndarray) else 1
        edges = np.linspace(0, N, count + 1).astype(int)
        if count == 1:
            return cls([partial(tuple, arrays)], [N])
        recipes = [partial(_rows, [_source(a) for a in arrays], int(a), int(b)) for a, b in zip(edges, edges[1:])]
        if not any(isinstance(a, np.memmap) for a in arrays):
            recipes = [partial(tuple, [None if x is None else x[a:b] for x in arrays]) for a, b in zip(edges, edges[1:])]
        return cls(recipes, np.diff(edges))

    def __len__(self) -> int:
        return len(self.shards)

    @property
    def n(self) -> int:
        """Rows of all blocks."""
        return int(self.ends[-1])

    def sum(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Return the sum of ``function(*arguments, block)``, from the first block to the last."""
        if len(self) == 1:
            return function(*arguments, self.shards.here(0))
        return added(self.shards.map(_applied, [(k, (function, arguments)) for k in range(len(self))]))

    def take(self, rows: Any) -> tuple[Any, ...]:
        """Return some rows, in their order."""
        if len(self) == 1:
            return tuple(None if a is None else a[rows] for a in self.shards.here(0))
        rows = np.asarray(rows)
        owner = np.searchsorted(self.ends, rows, side="right") - 1
        blocks = np.unique(owner)
        found = self.shards.map(_taken, [(int(k), rows[owner == k] - self.ends[k]) for k in blocks])
        order = np.concatenate([np.flatnonzero(owner == k) for k in blocks])
        back = np.argsort(order, kind="stable")
        return tuple(None if parts[0] is None else np.concatenate(parts)[back] for parts in zip(*found, strict=True))


def _applied(block: tuple[Any, ...], task: tuple[Callable[..., Any], tuple[Any, ...]]) -> Any:
    return task[0](*task[1], block)


def _taken(block: tuple[Any, ...], rows: Any) -> tuple[Any, ...]:
    return tuple(None if a is None else np.array(a[rows]) for a in block)


def _source(array: Any) -> Any:
    """Return how an array is found again: where a memory map lies in its file, or the array itself."""
    if isinstance(array, np.memmap) and array.flags.c_contiguous and array.filename is not None:
        return str(array.filename), array.dtype.str, int(_offset(array)), array.shape
    return array


def _offset(array: np.memmap) -> int:
    base = array
    while isinstance(base.base, np.memmap):
        base = base.base
    start = array.__array_interface__["data"][0] - base.__array_interface__["data"][0]
    return int(base.offset + start)


def _rows(sources: list[Any], start: int, stop: int) -> tuple[Any, ...]:
    return tuple(_opened(source, start, stop) for source in sources)


def _opened(source: Any, start: int, stop: int) -> Any:
    if not isinstance(source, tuple):
        return None if source is None else source[start:stop]
    name, dtype, offset, shape = source
    row = int(np.prod(shape[1:])) * np.dtype(dtype).itemsize
    return np.memmap(name, dtype, "r", offset + start * row, (stop - start, *shape[1:]))
