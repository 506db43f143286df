"""One process at a time in a run directory: a lock of the operating system, which ends with its process."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ._shared import BadInput

LOCK = ".lock"


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Hold the lock of a directory inside the block; a directory that another process holds is refused."""
    with (directory / LOCK).open("a+b") as file:
        try:
            _lock(file.fileno())
        except OSError as error:
            raise BadInput(
                f"another process is writing the run in {directory}: wait for it, or choose another with -o"
            ) from error
        yield


if sys.platform == "win32":
    import msvcrt

    def _lock(descriptor: int) -> None:
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
else:
    import fcntl

    def _lock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
