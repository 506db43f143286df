"""Ctrl-C, and the signal by which a scheduler ends a job, turned into KeyboardInterrupt during a run."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def interruptible() -> Iterator[None]:
    """Raise KeyboardInterrupt for SIGINT and SIGTERM inside the block, and at its end if the block swallowed it.

    An estimator ends at an interrupt with the best that it has; for a run that is not the end.
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
