"""Locks that are released in forked child processes."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from types import TracebackType
from weakref import WeakSet

_locks: WeakSet[ForkSafeLock] = WeakSet()
_waited = threading.local()


class ForkSafeLock:
    """A reentrant lock that no thread of the parent holds in a forked child.

    A fork copies a held lock, but not the thread that would release it, so that the child would wait forever. With this
    class the child begins with a free lock, unless the thread that forked holds the lock, because this thread continues
    in the child.

    Parameters
    ----------
    repair : callable, optional
        Called in a child if another thread of the parent was inside the lock, because the guarded data may be partly
        changed.
    wait : float
        Seconds for which a fork waits until the other thread has released the lock. This is needed if that thread
        imports modules, because Python itself would wait for it in the child.
    """

    def __init__(self, repair: Callable[[], object] | None = None, wait: float = 0.0) -> None:
        self.wait = wait
        self._lock = threading.RLock()
        self._holder: int | None = None
        self._depth = 0
        self._repair = repair
        _locks.add(self)

    def __enter__(self) -> None:
        self._lock.acquire()
        self._holder = threading.get_ident()
        self._depth += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._depth -= 1
        if self._depth == 0:
            self._holder = None
        self._lock.release()

    def _in_child(self) -> None:
        if self._holder == threading.get_ident():
            return
        held, self._holder, self._depth = self._holder, None, 0
        self._lock = threading.RLock()  # also where a thread was between taking it and saying so
        if held is not None and self._repair is not None:
            self._repair()


def _before() -> None:
    _waited.locks = []
    for lock in list(_locks):
        inner = lock._lock
        if lock.wait and inner.acquire(timeout=lock.wait):
            _waited.locks.append(inner)


def _in_parent() -> None:
    for inner in _waited.locks:
        inner.release()


def _in_child() -> None:
    _in_parent()
    for lock in list(_locks):
        lock._in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
