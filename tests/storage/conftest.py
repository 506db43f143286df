"""A machine with as much memory left as a test says."""

import builtins
import io
import resource
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest


@pytest.fixture
def leave_memory(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int], None]]:
    """Return a function after which the operating system says that this many bytes are left.

    What ``/proc/meminfo`` and ``/proc/self/cgroup`` hold and ``ulimit`` sets is replaced, so that
    `manifoldseq.storage.available_memory`, whose answer holds for a twentieth of a second, gives that number.
    """
    unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)

    def leave(size: int) -> None:
        said = {
            "/proc/meminfo": f"MemTotal: 1 kB\nMemAvailable: {size // 1024} kB\n".encode(),
            "/proc/self/cgroup": b"",
        }

        def read(file: Any, mode: str = "r", *options: Any, **more: Any) -> Any:
            if file not in said:
                return opened(file, mode, *options, **more)
            return io.BytesIO(said[file]) if "b" in mode else io.StringIO(said[file].decode())

        monkeypatch.setattr(builtins, "open", read)
        monkeypatch.setattr(resource, "getrlimit", lambda kind: unlimited)
        time.sleep(0.06)

    opened = builtins.open
    yield leave
    time.sleep(0.06)
