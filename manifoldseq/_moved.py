"""Deprecated public names: moved, renamed or private now; each resolves for one release, with a warning."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any
from warnings import warn


def moved(room: str, homes: Mapping[str, Iterable[str] | Mapping[str, str]]) -> Callable[[str], Any]:
    """Return ``__getattr__`` of a room whose old names resolve with a DeprecationWarning.

    Parameters
    ----------
    room : str
        The module that is left, by its full name.
    homes : mapping
        From the module where names are now to the names, or to a mapping from old names to new ones. Modules are named
        and not imported: some are above the one that is left. A private module says that the name is no longer public.

    Returns
    -------
    callable
    """
    old = {
        name: (home, name if not isinstance(names, Mapping) else names[name])
        for home, names in homes.items()
        for name in names
    }

    def __getattr__(name: str) -> Any:
        if name not in old:
            raise AttributeError(f"module {room!r} has no attribute {name!r}")
        home, new = old[name]
        private = any(part.startswith("_") for part in home.split("."))
        now = "is not public any more and leaves in the next release" if private else f"is {home}.{new} now"
        warn(f"{room}.{name} {now}", DeprecationWarning, stacklevel=2)
        return getattr(import_module(home), new)

    return __getattr__
