"""Public names that live in another room now; each resolves for one release, with a warning."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any
from warnings import warn


def moved(room: str, homes: dict[str, Iterable[str]]) -> Callable[[str], Any]:
    """Return ``__getattr__`` of a room, given the names that have left it by the room where they are now.

    The rooms are named and not imported: some are above the one that is left.
    """

    def __getattr__(name: str) -> Any:
        for home, names in homes.items():
            if name in names:
                warn(f"{room}.{name} is {home}.{name} now", DeprecationWarning, stacklevel=2)
                return getattr(import_module(home), name)
        raise AttributeError(f"module {room!r} has no attribute {name!r}")

    return __getattr__
