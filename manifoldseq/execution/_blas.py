"""How many threads the linear algebra library uses."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import TypeVar

from threadpoolctl import OpenBLASController, ThreadpoolController

from ._forks import ForkSafeLock

R = TypeVar("R")

_lock = ForkSafeLock()
_depth = 0
_of_thread = threading.local()  # its own part of the depth: a forked child has no other thread
_limiter = None


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


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit BLAS to one thread inside the block, in the whole process.

    Two BLAS threads on small matrices can be a hundred times slower than one. Nested and concurrent blocks are counted:
    the first sets the limit, the last to end restores it, so nesting costs next to nothing.
    """
    global _depth, _limiter
    with _lock:
        if _depth == 0 and _limiter is None:
            _limiter = _from_any_thread(lambda: _controller().limit(limits=1))
        _depth += 1
        _of_thread.depth = getattr(_of_thread, "depth", 0) + 1
    try:
        yield
    finally:
        with _lock:
            _depth -= 1
            _of_thread.depth -= 1
            if _depth == 0 and _limiter is not None:
                _from_any_thread(_limiter.restore_original_limits)
                _limiter = None


def _in_child() -> None:
    """Count the blocks of the thread that forked only; the limit that others left is lifted by the next block's end."""
    global _depth
    _depth = getattr(_of_thread, "depth", 0)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)


def _from_any_thread(change: Callable[[], R]) -> R:
    """Change limits whichever thread did so before: threadpoolctl lets one thread own OpenBLAS and ignores the others.

    Blocks of several threads overlap here, and the last to end need not be the first that began.
    """
    OpenBLASController.clear_controlling_thread(force=True)
    try:
        return change()
    finally:
        OpenBLASController.clear_controlling_thread(force=True)
