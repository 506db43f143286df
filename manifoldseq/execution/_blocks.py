"""Blocks of rows, in memory, of memory maps or from recipes, and their sums in a fixed order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from ._executors import Shards, added
from ._memory_maps import recipe_of

BLOCK_BYTES = 1 << 24
"""Bytes of rows in a block. Smaller data are one block, computed in place. The value affects sums by rounding.

The statistics of a mixture of 50 components take about 50 ms for a block. A cluster adds 10 ms for communication.
"""


class RowBlocks:
    """Arrays with the same rows, split into blocks. Sums over the blocks do not depend on the executor.

    Parameters
    ----------
    recipes : sequence of callables
        ``recipe() -> tuple of arrays`` with the same rows (or None), with a small pickle.
    sizes : sequence of int
        The number of rows of each recipe.
    """

    def __init__(self, recipes: Sequence[Callable[[], tuple[Any, ...]]], sizes: Sequence[int]) -> None:
        self.shards: Shards[tuple[Any, ...]] = Shards(recipes)
        self.ends = np.cumsum([0, *sizes])

    @classmethod
    def of(cls, *arrays: Any) -> RowBlocks:
        """Return arrays with the same rows in blocks of about 16 MiB of the widest array.

        Parameters
        ----------
        *arrays : ndarray, memory map, sparse matrix or None
            Arrays with the same number of rows. A memory map is sent as the name of its file and is opened in the
            process that computes its block.
        """
        first, known = arrays[0], [array for array in arrays if array is not None]
        N, count = first.shape[0], 1
        if isinstance(first, np.ndarray):
            row = max(int(np.prod(array.shape[1:])) * array.dtype.itemsize for array in known)
            count = max(1, -(-N * row // BLOCK_BYTES))
        if count == 1:
            return cls([partial(tuple, arrays)], [N])
        edges = np.linspace(0, N, count + 1).astype(int)
        pieces = [[_piece(array, a, b) for array in arrays] for a, b in pairwise(edges.tolist())]
        return cls([partial(_rows, of_block) for of_block in pieces], np.diff(edges))

    def __len__(self) -> int:
        return len(self.shards)

    @property
    def n(self) -> int:
        """The number of rows of all blocks."""
        return int(self.ends[-1])

    def sum(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Return the sum of ``function(*arguments, block)``, from the first block to the last."""
        if len(self) == 1:
            return function(*arguments, self.shards.here(0))
        return added(self.shards.map(_applied, [(k, (function, arguments)) for k in range(len(self))]))

    def take(self, rows: Any) -> tuple[Any, ...]:
        """Return some rows in the given order."""
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


def _piece(array: Any, start: int, stop: int) -> Any:
    """Return some rows of an array, or the function that opens the rows of a memory map again."""
    rows = None if array is None else array[start:stop]
    return recipe_of(rows) or rows if isinstance(rows, np.memmap) else rows


def _rows(pieces: Sequence[Any]) -> tuple[Any, ...]:
    """Return the arrays of a block, memory maps opened."""
    return tuple(piece() if isinstance(piece, partial) else piece for piece in pieces)
