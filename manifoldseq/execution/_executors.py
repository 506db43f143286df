"""Executors are a context: ``with manifoldseq.execution.using("threads", 2): ...``."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from typing import Any, Protocol, TypeVar

from ._blas import one_blas_thread

T = TypeVar("T")
R = TypeVar("R")


class Executor(Protocol):
    """Anything that maps a function over tasks and returns the results in the order of the tasks."""

    def map(self, function: Callable[[T], R], tasks: Iterable[T], /) -> list[R]: ...


class _Serial:
    def map(self, function: Callable[[T], R], tasks: Iterable[T], /) -> list[R]:
        return [function(task) for task in tasks]


class _Threads:
    """Python threads outside, one BLAS thread inside; a map inside a task is serial, so no task waits on the pool."""

    def __init__(self, pool: ThreadPoolExecutor) -> None:
        self._pool = pool

    def map(self, function: Callable[[T], R], tasks: Iterable[T], /) -> list[R]:
        def run(task: T) -> R:
            _current.set(_SERIAL)
            return function(task)

        with one_blas_thread():
            futures = [self._pool.submit(copy_context().run, run, task) for task in tasks]
            try:
                return [future.result() for future in futures]
            except BaseException:
                for future in futures:
                    future.cancel()
                raise


_SERIAL = _Serial()
_current: ContextVar[Executor] = ContextVar("manifoldseq_executor", default=_SERIAL)


def current() -> Executor:
    """Return the executor of this context."""
    return _current.get()


@contextmanager
def using(kind: str = "serial", workers: int | None = None) -> Iterator[None]:
    """Run the maps and sums inside the block on an executor.

    Parameters
    ----------
    kind : {"serial", "threads"}
        Threads help where a task spends its time in BLAS or LAPACK.
    workers : int, optional
        Number of threads; the number of cores by default.

    Raises
    ------
    ValueError
        For an unknown kind or a number of workers below one.

    Examples
    --------
    >>> import manifoldseq as ms
    >>> with ms.execution.using("threads", 2):
    ...     ms.execution.map_ordered(abs, [-1, 2, -3])
    [1, 2, 3]
    """
    if workers is not None and workers < 1:
        raise ValueError(f"workers={workers}: use at least one worker")
    if kind == "serial":
        token = _current.set(_SERIAL)
        try:
            yield
        finally:
            _current.reset(token)
    elif kind == "threads":
        with ThreadPoolExecutor(workers or os.cpu_count() or 1) as pool:
            token = _current.set(_Threads(pool))
            try:
                yield
            finally:
                _current.reset(token)
    else:
        raise ValueError(f"unknown executor {kind!r}: choose 'serial' or 'threads'")


def map_ordered(function: Callable[[T], R], tasks: Iterable[T]) -> list[R]:
    """Return ``[function(task) for task in tasks]``, computed by the executor of the context."""
    return current().map(function, tasks)


def sum_ordered(function: Callable[[T], Any], tasks: Iterable[T]) -> Any:
    """Return the sum of ``function(task)``, added from left to right: bit-identical on every executor.

    The results add with ``+``; tuples add part by part.
    """
    results = map_ordered(function, tasks)
    if not results:
        raise ValueError("sum_ordered got no tasks: there is nothing to add")
    total = results[0]
    for result in results[1:]:
        total = _add(total, result)
    return total


def _add(a: Any, b: Any) -> Any:
    if isinstance(a, tuple):
        return tuple(_add(x, y) for x, y in zip(a, b, strict=True))
    return a + b
