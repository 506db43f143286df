"""A run on a terminal: progress bars, one per thread; Ctrl-C and the signal of a scheduler as KeyboardInterrupt."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, ClassVar

from .._observers import Event, Progress


class Watch:
    """An observer that shows nothing unless standard error is a terminal."""

    needs_state: ClassVar[bool] = False

    def __init__(self, description: str, total: Any) -> None:
        self._description = description
        self._total = total if isinstance(total, int) and total > 0 else None
        self._local = threading.local()

    def __call__(self, event: Event) -> None:
        if not hasattr(self._local, "bar"):
            known = event.measures.extra.get("of")  # a run that knows its number of steps says it
            total = self._total if known is None else int(known)
            self._local.bar = Progress(total, self._description, leave=False, dynamic_ncols=True)
        self._local.bar(event)
        if event.status is not None:
            del self._local.bar

    def __reduce__(self) -> tuple[Any, ...]:
        return Watch, (self._description, self._total)  # a bar belongs to its terminal


@contextmanager
def interruptible() -> Iterator[None]:
    """Raise KeyboardInterrupt for SIGINT and SIGTERM inside the block, and at its end if the block handled it.

    An estimator handles an interrupt and returns its best result so far, but the run must still end.
    """
    seen = False

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal seen
        seen = True
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():  # where Python takes no signals
        yield
        return
    before = {number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if seen:
        raise KeyboardInterrupt
