"""Rows in blocks: in memory, of memory maps or from recipes; sums over them, by any executor, in one order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from ._executors import Shards, added

BLOCK_BYTES = 1 << 26
"""Bytes of rows in a block. Smaller data are one block, which is computed in place. Sums depend on it by rounding."""


class RowBlocks:
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
    def of(cls, *arrays: Any) -> RowBlocks:
        """Return arrays with the same rows in blocks of about 64 MiB, cut by the widest array alone.

        Parameters
        ----------
        *arrays : ndarray, memory map, sparse matrix or None
            With the same number of rows. A memory map travels as its file and is opened where its block is computed on.
        """
        first, known = arrays[0], [array for array in arrays if array is not None]
        N, count = first.shape[0], 1
        if isinstance(first, np.ndarray):
            row = max(int(np.prod(array.shape[1:])) * array.dtype.itemsize for array in known)
            count = max(1, -(-N * row // BLOCK_BYTES))
        if count == 1:
            return cls([partial(tuple, arrays)], [N])
        edges = np.linspace(0, N, count + 1).astype(int)
        sources = [_source(array) for array in arrays]
        return cls([partial(_rows, _cut(sources, a, b)) for a, b in pairwise(edges.tolist())], np.diff(edges))

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


@dataclass(frozen=True)
class _Mapped:
    """Rows of a memory map, by their place in its file."""

    file: str
    dtype: str
    offset: int
    shape: tuple[int, ...]


def _source(array: Any) -> Any:
    """Return how an array is found again: the place of a memory map in its file, or the array itself."""
    if not (isinstance(array, np.memmap) and array.flags.c_contiguous and array.filename is not None):
        return array
    whole = array
    while isinstance(whole.base, np.memmap):
        whole = whole.base
    start = array.__array_interface__["data"][0] - whole.__array_interface__["data"][0]
    return _Mapped(str(array.filename), array.dtype.str, int(whole.offset + start), array.shape)


def _cut(sources: Sequence[Any], start: int, stop: int) -> list[Any]:
    """Return the sources of the rows from `start` to `stop`."""
    return [_cut_one(source, start, stop) for source in sources]


def _cut_one(source: Any, start: int, stop: int) -> Any:
    if not isinstance(source, _Mapped):
        return None if source is None else source[start:stop]
    row = int(np.prod(source.shape[1:])) * np.dtype(source.dtype).itemsize
    return replace(source, offset=source.offset + start * row, shape=(stop - start, *source.shape[1:]))


def _rows(sources: Sequence[Any]) -> tuple[Any, ...]:
    """Return the arrays of a block, memory maps opened."""
    return tuple(
        np.memmap(one.file, one.dtype, "r", one.offset, one.shape) if isinstance(one, _Mapped) else one
        for one in sources
    )
