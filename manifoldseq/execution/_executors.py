"""Executors: ordered maps and sums over tasks, and over shards that stay in one process."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from contextvars import ContextVar, copy_context
from queue import Empty, SimpleQueue
from typing import Any, Generic, Protocol, TypeVar

from ._blas import one_blas_thread
from ._forks import ForkSafeLock

S = TypeVar("S")
T = TypeVar("T")
R = TypeVar("R")

# A signal that arrives just before a thread blocks does not wake it: Python would see Ctrl-C when the task ends.
_PATIENCE_SECONDS = 0.1


class Executor(Protocol):
    """An object that maps a function over tasks, with one BLAS thread per task, and returns the results in order."""

    @property
    def width(self) -> int:
        """The number of tasks that run at the same time."""
        ...

    def map(self, function: Callable[[T], R], tasks: Sequence[T], /) -> list[R]: ...

    def map_shards(
        self, shards: Shards[S], function: Callable[[S, T], R], tasks: Sequence[tuple[int, T]], /
    ) -> list[R]: ...


class _InProcess(ABC):
    """Shards are loaded into this process and used by reference."""

    @abstractmethod
    def map(self, function: Callable[[T], R], tasks: Sequence[T], /) -> list[R]: ...

    def map_shards(
        self, shards: Shards[S], function: Callable[[S, T], R], tasks: Sequence[tuple[int, T]], /
    ) -> list[R]:
        return self.map(lambda task: function(shards.here(task[0]), task[1]), tasks)


class _Serial(_InProcess):
    width = 1

    def map(self, function: Callable[[T], R], tasks: Sequence[T], /) -> list[R]:
        with one_blas_thread():
            return [function(task) for task in tasks]


class Threads(_InProcess):
    """Python threads with one BLAS thread each; a map inside a task is serial, so that no task waits for the pool."""

    def __init__(self, pool: ThreadPoolExecutor, width: int) -> None:
        self._pool, self.width = pool, width
        self._process = os.getpid()

    def map(self, function: Callable[[T], R], tasks: Sequence[T], /) -> list[R]:
        done: SimpleQueue[int] = SimpleQueue()

        def run(number: int, task: T) -> R:
            CURRENT.set(SERIAL)
            try:
                return function(task)
            finally:
                done.put(number)

        if os.getpid() != self._process:  # a forked child has none of the threads
            return SERIAL.map(function, tasks)
        futures: list[Future[R]] = []
        finished: set[int] = set()
        with one_blas_thread():
            try:
                for number, task in enumerate(tasks):
                    futures.append(self._pool.submit(copy_context().run, run, number, task))
                results = []
                for number, future in enumerate(futures):
                    while number not in finished:
                        with suppress(Empty):
                            finished.add(done.get(timeout=_PATIENCE_SECONDS))
                    results.append(future.result())
                return results
            except BaseException:
                for future in futures:
                    future.cancel()
                raise


SERIAL = _Serial()
CURRENT: ContextVar[Executor] = ContextVar("manifoldseq_executor", default=SERIAL)
CARRIED: list[Callable[[], Callable[[], AbstractContextManager[None]] | None]] = []
"""Functions that carry the context of this process to tasks in others: each returns a context factory or None.

Equal contexts must be the same object, so that they are pickled once.
"""


def current() -> Executor:
    """Return the executor of this context."""
    return CURRENT.get()


def width() -> int:
    """Return the number of tasks that the executor of this context runs at the same time.

    A loop that stores its results after every step computes this number of tasks in a step.

    Examples
    --------
    >>> import manifoldseq as ms
    >>> with ms.execution.using("threads", 2):
    ...     ms.execution.width()
    2
    """
    return current().width


class Shards(Generic[S]):
    """Objects loaded by recipes. The executor of the context loads each object once and keeps it.

    In this process (serial, threads) all objects are kept as long as this record exists. On a cluster each object stays
    on one worker until this record is deleted or the block ``using("dask", …)`` ends; only arguments and results are
    sent. If the worker dies, another worker runs the recipe again. Pickling stores only the recipes.

    Parameters
    ----------
    recipes : sequence of callables
        ``recipe() -> shard``, with a small pickle and the same return value at every call: ``functools.partial(np.load,
        path)``, not the data themselves.

    Examples
    --------
    >>> from functools import partial
    >>> import numpy as np, manifoldseq as ms
    >>> shards = ms.execution.Shards([partial(np.arange, 3), partial(np.arange, 4)])
    >>> shards.map(lambda shard, k: int(shard[k]), [(0, 1), (1, 3)])
    [1, 3]
    """

    def __init__(self, recipes: Iterable[Callable[[], S]]) -> None:
        self.recipes: tuple[Callable[[], S], ...] = tuple(recipes)
        if not self.recipes:
            raise ValueError("there are no recipes: pass one per shard, such as functools.partial(np.load, path)")
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

    def some(self, numbers: Collection[int]) -> Shards[S]:
        """Return shards with the recipes of these numbers only, for a process that loads no others."""
        return Shards(recipe if number in numbers else _absent for number, recipe in enumerate(self.recipes))

    def here(self, number: int) -> S:
        """Return a shard, which is loaded into this process on first use."""
        if number not in self._kept:
            with self._locks[number]:
                try:
                    if number not in self._kept:
                        self._kept[number] = self.recipes[number]()
                except Exception as error:
                    error.add_note(f"while loading shard {number}")
                    raise
        return self._kept[number]

    def map(self, function: Callable[[S, T], R], tasks: Iterable[tuple[int, T]]) -> list[R]:
        """Return ``[function(shard, argument)]`` for tasks ``(number of the shard, argument)``, in their order.

        Each call runs with one BLAS thread, on every executor.
        """
        return current().map_shards(self, function, list(tasks))


def _absent() -> Any:
    raise LookupError("this shard is loaded in another process")


def map_ordered(function: Callable[[T], R], tasks: Iterable[T]) -> list[R]:
    """Return ``[function(task) for task in tasks]``, computed by the executor of the context.

    Several tasks run with one BLAS thread each, on every executor. A single task runs in the calling thread, and the
    maps inside it are distributed instead.
    """
    listed = list(tasks)
    return [function(task) for task in listed] if len(listed) < 2 else current().map(function, listed)


def sum_ordered(function: Callable[[T], Any], tasks: Iterable[T]) -> Any:
    """Return the sum of ``function(task)``, added from left to right: bit-identical on every executor.

    The results add with ``+``; tuples add part by part.
    """
    results = map_ordered(function, tasks)
    if not results:
        raise ValueError("sum_ordered got no tasks: there is nothing to add")
    return added(results)


def added(results: Sequence[Any]) -> Any:
    """Return the sum of results from left to right, tuples part by part."""
    total = results[0]
    for result in results[1:]:
        total = _add(total, result)
    return total


def _add(a: Any, b: Any) -> Any:
    if isinstance(a, tuple):
        return tuple(_add(x, y) for x, y in zip(a, b, strict=True))
    return a + b
