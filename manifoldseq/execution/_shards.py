"""Shards: what recipes load, kept where it is computed on."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

from ._executors import current
from ._forks import ForkSafeLock

S = TypeVar("S")
T = TypeVar("T")
R = TypeVar("R")


class Shards(Generic[S]):
    """Objects that recipes load, each loaded once by the executor of the context and kept there.

    In this process (serial, threads) all of them are kept as long as this record is. On a cluster each stays on one
    worker until this record is dropped or the block ``using("dask", …)`` ends; only arguments and results travel.
    Should the worker die, another one follows the recipe again. Pickled, this record is its recipes.

    Parameters
    ----------
    recipes : sequence of callables
        ``recipe() -> shard``, small to pickle and the same at every call: ``functools.partial(np.load, path)``, not the
        data themselves.

    Examples
    --------
    >>> from functools import partial
    >>> import numpy as np, manifoldseq as ms
    >>> shards = ms.execution.Shards([partial(np.arange, 3), partial(np.arange, 4)])
    >>> shards.map(lambda shard, k: int(shard[k]), [(0, 1), (1, 3)])
    [1, 3]
    """

    def __init__(self, recipes: Iterable[Callable[[], S]]) -> None:
        self.recipes = tuple(recipes)
        if not self.recipes:
            raise ValueError("there are no recipes: give one per shard, such as functools.partial(np.load, path)")
        for number, recipe in enumerate(self.recipes):
            if not callable(recipe):
                raise TypeError(
                    f"recipe {number} is {type(recipe).__name__} {recipe!r}, not a function without arguments: "
                    "write functools.partial(load, …)"
                )
        self._kept: dict[int, S] = {}
        self._locks = [ForkSafeLock() for _ in self.recipes]

    def __len__(self) -> int:
        return len(self.recipes)

    def __reduce__(self) -> tuple[Any, ...]:
        return Shards, (self.recipes,)

    def here(self, number: int) -> S:
        """Return a shard, loaded into this process if it is not there yet."""
        with self._locks[number]:
            if number not in self._kept:
                try:
                    self._kept[number] = self.recipes[number]()
                except Exception as error:
                    error.add_note(f"while loading shard {number}")
                    raise
            return self._kept[number]

    def map(self, function: Callable[[S, T], R], tasks: Iterable[tuple[int, T]]) -> list[R]:
        """Return ``[function(shard, argument)]`` for tasks ``(number of the shard, argument)``, in their order.

        Each runs with one BLAS thread, on every executor.
        """
        return current().map_shards(self, function, list(tasks))
