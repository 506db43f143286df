"""Names to records: the core's own first, then what plugins and the session registered."""

import difflib
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from ..execution._forks import ForkSafeLock
from ._bundled import how_to_install, missing_of_name
from ._hookspecs import PROJECT
from ._plugin import Fault, Plugin, collect, load, reserved
from ._records import Record

CORE, SESSION = PROJECT, "session"


class UnknownName(ValueError):
    """A name that nothing registers."""


class AmbiguousName(ValueError):
    """A name that more than one plugin registers."""


class Registry:
    """All records that can be asked for by name; entry points are loaded when a name is not the core's own."""

    def __init__(self, discover: Any = lambda: entry_points(group=PROJECT)) -> None:
        self._discover = discover
        self._core: dict[tuple[str, str], Record] = {}
        self._registered: dict[str, Plugin] = {}
        self._loaded: list[Plugin] | None = None
        self._lock = ForkSafeLock(self._load_again, wait=5.0)

    def add_core(self, records: Iterable[Record]) -> None:
        """Take the records of what the core itself offers; its names win over every plugin's."""
        self._core.update({(record.kind, record.name): record for record in records})

    def register(self, item: Any) -> None:
        """Register a record, or a module or object with hook implementations (see `manifoldseq.register`)."""
        with self._lock:
            if isinstance(item, Record):
                old = self._registered.get(SESSION, Plugin(SESSION)).records
                kept = [record for record in old if (record.kind, record.name) != (item.kind, item.name)]
                plugin = Plugin(SESSION, records=(*kept, item))
            else:
                name = getattr(item, "__name__", type(item).__name__)
                plugin = Plugin(name, name)
                collect(plugin, item)
            faults = [plugin.failure.message] if plugin.failure else [fault.message for fault in plugin.warnings]
            for record in plugin.records:
                if (record.kind, record.name) in self._core:
                    faults.append(_taken(record))
                elif ":" in record.name:
                    faults.append(f"{record.kind} {record.name!r}: {reserved(record)}")
            if faults or not (plugin.records or _implements(plugin)):
                raise ValueError(
                    "; ".join(faults)
                    or f"{item!r} registers nothing: give a record of manifoldseq.hooks, or a module "
                    "with functions decorated with @manifoldseq.hookimpl"
                )
            self._registered[plugin.name] = plugin
            self._note_clashes()

    def core(self) -> Plugin:
        """Return the core's own records in the form of a plugin."""
        return Plugin(CORE, CORE, CORE, records=tuple(self._core.values()))

    def plugins(self) -> list[Plugin]:
        """Return every plugin, broken and disabled ones too, with the clashes between them."""
        with self._lock:
            if self._loaded is None:
                self._loaded = []  # a plugin that asks for a name while it is imported finds what is loaded so far
                for entry_point in sorted(self._discover(), key=lambda one: (one.name, one.value)):
                    self._loaded.append(_load_unless_disabled(entry_point))
                self._loaded.extend(_not_installed({plugin.name for plugin in self._loaded}))
                self._note_clashes()
            return [*self._loaded, *self._registered.values()]

    def _load_again(self) -> None:
        """Forget in a forked child what another thread of the parent had half loaded."""
        self._loaded = None

    def _note_clashes(self) -> None:
        plugins = [*(self._loaded or ()), *self._registered.values()]
        givers = Counter((record.kind, record.name) for plugin in plugins for record in plugin.records)
        for plugin in plugins:
            plugin.clashes = tuple(self._clashes(plugin, givers))

    def _clashes(self, plugin: Plugin, givers: Counter[tuple[str, str]]) -> Iterator[str]:
        for record in plugin.records:
            if (record.kind, record.name) in self._core:
                yield _taken(record)
            elif givers[record.kind, record.name] > 1:
                what = f"{record.kind} {record.name!r}"
                yield f"another plugin gives {what} too: ask for '{plugin.name}:{record.name}'"

    def entries(self, kind: str) -> list[tuple[Plugin, Record]]:
        """Return all records of a kind, each with who gives it: the core's first, then by plugin."""
        return [
            (plugin, record)
            for plugin in (self.core(), *self.plugins())
            for record in plugin.records
            if record.kind == kind
        ]

    def find(self, kind: str, name: str) -> Record:
        """Return the record with a name, or with ``plugin:name``.

        Raises
        ------
        UnknownName
            If nothing has that name; the sentence says what exists.
        AmbiguousName
            If two plugins give it; the sentence names both.
        """
        if (kind, name) in self._core:
            return self._core[kind, name]
        entries = self.entries(kind)
        found = [
            (plugin, record) for plugin, record in entries if name in (record.name, f"{plugin.name}:{record.name}")
        ]
        if len(found) == 1:
            return found[0][1]
        what = kind.removesuffix("s")
        if found:
            raise AmbiguousName(
                f"{what} {name!r} is given by {' and '.join(f'plugin {plugin.name!r}' for plugin, _ in found)}: "
                f"ask for {' or '.join(repr(f'{plugin.name}:{record.name}') for plugin, record in found)}"
            )
        if bundled := missing_of_name(kind, name):
            raise UnknownName(
                f"unknown {what} {name!r}: it is in {bundled}, which is not installed: {how_to_install(bundled)}"
            )
        raise UnknownName(self._unknown(what, name, sorted({record.name for _, record in entries})))

    def _unknown(self, what: str, name: str, known: list[str]) -> str:
        close = difflib.get_close_matches(str(name), known, 1)
        hint = f"did you mean {close[0]!r}? " if close else ""
        exist = f"There are {', '.join(known)}" if known else f"There is no {what} at all"
        broken = [plugin.name for plugin in self.plugins() if plugin.failure]
        failed = f"; plugin {', '.join(broken)} failed to load: see `manifoldseq plugins`" if broken else ""
        return f"unknown {what} {name!r}: {hint}{exist}{failed}"


def _implements(plugin: Plugin) -> bool:
    return plugin.manager is not None and bool(plugin.manager.hook.manifoldseq_commands.get_hookimpls())


def _taken(record: Record) -> str:
    return f"{record.kind} {record.name!r} is a name of the core, which keeps it: choose another name"


def _names(variable: str) -> set[str] | None:
    value = os.environ.get(variable)
    return None if value is None else {name.strip() for name in value.split(",") if name.strip()}


def _load_unless_disabled(entry_point: EntryPoint) -> Plugin:
    only = _names("MANIFOLDSEQ_PLUGINS")
    if (only is not None and entry_point.name not in only) or entry_point.name in (
        _names("MANIFOLDSEQ_DISABLE_PLUGINS") or ()
    ):
        return Plugin(entry_point.name, entry_point.value, disabled=True)
    return load(entry_point)


def _not_installed(found: set[str]) -> list[Plugin]:
    return [
        Plugin(name, failure=Fault(f"MANIFOLDSEQ_PLUGINS names {name!r}, which is not installed"))
        for name in sorted((_names("MANIFOLDSEQ_PLUGINS") or set()) - found)
    ]
