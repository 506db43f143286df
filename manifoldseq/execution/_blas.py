"""The number of threads of the linear algebra library."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import ContextDecorator
from functools import lru_cache
from typing import NamedTuple

from threadpoolctl import LibController, OpenBLASController, ThreadpoolController

from ._forks import ForkSafeLock


class _Pool(NamedTuple):
    """Access to the number of threads of one library."""

    read: Callable[[], int]
    write: Callable[[int], object]


_lock = ForkSafeLock()
_inside = 0  # threads that are inside a block
_of_thread = threading.local()  # how deep it is inside blocks
_limited: list[tuple[_Pool, int]] = []  # what the outermost block limited, and the numbers before


@lru_cache(maxsize=1)
def _controller() -> ThreadpoolController:
    import numpy.linalg  # noqa: F401  the libraries must be loaded before they can be found
    import scipy.linalg  # noqa: F401

    return ThreadpoolController().select(user_api="blas")


def blas_threads() -> int:
    """Return the largest number of threads that a loaded BLAS library uses now.

    Examples
    --------
    >>> import manifoldseq as ms
    >>> with ms.execution.one_blas_thread():
    ...     ms.execution.blas_threads()
    1
    """
    return max((library["num_threads"] for library in _controller().info()), default=1)


@lru_cache(maxsize=1)
def _pools() -> tuple[_Pool, ...]:
    return tuple(_pool(library) for library in _controller().lib_controllers)


def _pool(library: LibController) -> _Pool:
    """Return the access to the threads of a library; OpenBLAS is accessed by its own functions.

    threadpoolctl lets one thread own OpenBLAS and ignores what others set; here blocks of several threads overlap, and
    the last to end need not be the first that began. Its methods would also make a `minimize` of no iterations take
    1.1 times as long (`python -m benchmarks.engine threads`).
    """
    if isinstance(library, OpenBLASController) and library.threading_layer != "openmp":
        for symbol in library.check_symbols:
            if hasattr(library.dynlib, symbol):
                write = symbol.replace("get_num", "set_num")
                return _Pool(getattr(library.dynlib, symbol), getattr(library.dynlib, write))
    return _Pool(lambda: library.get_num_threads() or 1, library.set_num_threads)  # None: a library that does not tell


class _OneThread(ContextDecorator):
    """The block of :func:`one_blas_thread`, which can be entered repeatedly."""

    def __enter__(self) -> None:
        global _inside, _limited
        depth = getattr(_of_thread, "depth", 0)
        if depth == 0:
            with _lock:
                if _inside == 0 and not _limited:
                    _limited = [(pool, number) for pool in _pools() if (number := pool.read()) > 1]
                    for pool, _ in _limited:
                        pool.write(1)
                _inside += 1
        _of_thread.depth = depth + 1

    def __exit__(self, *exception: object) -> None:
        global _inside, _limited
        _of_thread.depth -= 1
        if _of_thread.depth == 0:
            with _lock:
                _inside -= 1
                if _inside == 0:
                    for pool, number in _limited:
                        if pool.read() == 1:
                            pool.write(number)
                    _limited = []


def one_blas_thread() -> _OneThread:
    """Limit BLAS to one thread inside the block, in the whole process.

    On small matrices, two BLAS threads can be a hundred times slower than one thread. Nested and concurrent blocks are
    counted: the first block sets the limit, and the block that ends last restores the previous number. A limit that
    ``threadpoolctl.threadpool_limits`` sets inside the block is respected, also in nested blocks. If it is still set at
    the end of the block, it is kept.

    Examples
    --------
    >>> import manifoldseq as ms
    >>> with ms.execution.one_blas_thread():
    ...     ms.execution.blas_threads()
    1
    """
    return _ONE


_ONE = _OneThread()


def _in_child() -> None:
    """Count only the thread that forked; the end of the next block removes the limit of the other threads."""
    global _inside
    _inside = int(getattr(_of_thread, "depth", 0) > 0)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
