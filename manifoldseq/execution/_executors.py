"""Executors are a context: ``with manifoldseq.execution.using("threads", 2): ...``."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from ._blas import one_blas_thread

if TYPE_CHECKING:
    from ._shards import Shards

S = TypeVar("S")
T = TypeVar("T")
R = TypeVar("R")


class Executor(Protocol):
    """Anything that maps a function over tasks, one BLAS thread each, and returns the results in their order."""

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
    def map(self, function: Callable[[T], R], tasks: Sequence[T], /) -> list[R]:
        with one_blas_thread():
            return [function(task) for task in tasks]


class _Threads(_InProcess):
    """Python threads outside, one BLAS thread inside; a map inside a task is serial, so no task waits on the pool."""

    def __init__(self, pool: ThreadPoolExecutor) -> None:
        self._pool = pool
        self._process = os.getpid()

    def map(self, function: Callable[[T], R], tasks: Sequence[T], /) -> list[R]:
        def run(task: T) -> R:
            _current.set(SERIAL)
            return function(task)

        if os.getpid() != self._process:  # a forked child has none of the threads
            return SERIAL.map(function, tasks)
        with one_blas_thread():
            futures = [self._pool.submit(copy_context().run, run, task) for task in tasks]
            try:
                return [future.result() for future in futures]
            except BaseException:
                for future in futures:
                    future.cancel()
                raise


SERIAL = _Serial()
_current: ContextVar[Executor] = ContextVar("manifoldseq_executor", default=SERIAL)


def current() -> Executor:
    """Return the executor of this context."""
    return _current.get()


@contextmanager
def using(kind: str = "serial", workers: Any = None, *, security: Any = None) -> Iterator[None]:
    """Run the maps and sums inside the block on an executor.

    Results do not depend on the executor or on the number of its workers: what a task is, and the order in which
    results are added, is settled before. Inside a task, maps are serial.

    Parameters
    ----------
    kind : {"serial", "threads", "dask"}
        Threads help where a task spends its time in BLAS or LAPACK. Dask shares tasks out among processes, here or on
        other machines; functions, tasks and results are pickled on the way (with cloudpickle, so lambdas will do), and
        the tasks of a worker that dies are computed again by another.
    workers : int, str, cluster or client, optional
        For threads their number, that of the cores by default; for dask the address of a scheduler such as
        ``"tcp://127.0.0.1:8786"``, a cluster such as ``distributed.LocalCluster``, or a ``distributed.Client``.
    security : distributed.Security, optional
        Certificates of a scheduler behind TLS.

    Raises
    ------
    ValueError
        For an unknown kind, a number of workers below one, or an address that is none.
    ConnectionError
        If no scheduler answers at the address, or it has no workers.
    ImportError
        If dask is asked for and not installed.

    Examples
    --------
    >>> import manifoldseq as ms
    >>> with ms.execution.using("threads", 2):
    ...     ms.execution.map_ordered(abs, [-1, 2, -3])
    [1, 2, 3]
    """
    if kind != "dask" and security is not None:
        raise ValueError(f"security= goes with 'dask': the executor {kind!r} stays in this process")
    if kind == "serial":
        executor = _serial(workers)
    elif kind == "threads":
        executor = _threads(workers)
    elif kind == "dask":
        from ._dask import connected

        executor = connected(workers, security)
    else:
        raise ValueError(f"unknown executor {kind!r}: choose 'serial', 'threads' or 'dask'")
    with executor as chosen:
        token = _current.set(chosen)
        try:
            yield
        finally:
            _current.reset(token)


@contextmanager
def _serial(workers: Any) -> Iterator[Executor]:
    _check(workers)
    yield SERIAL


@contextmanager
def _threads(workers: Any) -> Iterator[Executor]:
    _check(workers)
    with ThreadPoolExecutor(workers or os.cpu_count() or 1) as pool:
        yield _Threads(pool)


def _check(workers: Any) -> None:
    if workers is not None and (isinstance(workers, bool) or not isinstance(workers, int) or workers < 1):
        raise ValueError(f"workers={workers!r}: use a whole number, at least one worker")


def map_ordered(function: Callable[[T], R], tasks: Iterable[T]) -> list[R]:
    """Return ``[function(task) for task in tasks]``, computed by the executor of the context.

    Several tasks run with one BLAS thread each, on every executor. A single task is no map: it runs here and now, and
    the maps inside it are shared out instead.
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
    """Return the sum of results from left to right, tuples part by part: the one order in which anything is added."""
    total = results[0]
    for result in results[1:]:
        total = _add(total, result)
    return total


def _add(a: Any, b: Any) -> Any:
    if isinstance(a, tuple):
        return tuple(_add(x, y) for x, y in zip(a, b, strict=True))
    return a + b
