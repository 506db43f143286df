"""The registry of records, and the order of precedence if several plugins register a name."""

import difflib
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import replace
from functools import partial
from importlib.metadata import EntryPoint, entry_points, version
from typing import Any, TypeVar
from uuid import uuid4

from .._quoted import quoted
from ..execution._forks import ForkSafeLock
from ._bundled import how_to_install, missing_of_name
from ._hookspecs import PROJECT
from ._plugin import Fault, Origin, Plugin, collect, load, origin_of, reserved
from ._records import Record

CORE, SESSION = PROJECT, "session"
LOG = logging.getLogger(PROJECT)

R = TypeVar("R", bound=Record)


class UnknownName(ValueError):
    """Error for a name that is not registered."""


class AmbiguousName(ValueError):
    """Error for a name that several third-party plugins register, but not the session or a bundled plugin."""


_SENT: ContextVar[tuple[str, Mapping[str | None, Plugin]]] = ContextVar("manifoldseq_sent", default=("", {}))


@contextmanager
def _with_records(key: str, plugins: Mapping[str | None, Plugin]) -> Iterator[None]:
    """Use the records of another process inside the block, in this thread only."""
    token = _SENT.set((key, plugins))
    try:
        yield
    finally:
        _SENT.reset(token)


class Registry:
    """All records by name; entry points are loaded if a name does not belong to the core."""

    def __init__(self, discover: Any = lambda: entry_points(group=PROJECT)) -> None:
        self._discover = discover
        self._core: dict[tuple[str, str], Record] = {}
        self._core_plugin = Plugin(CORE, CORE, CORE, origin=Origin.CORE)
        self._registered: dict[str | None, Plugin] = {}  # by name; the records of the session have the key None
        self._loaded: list[Plugin] | None = None
        self.version = 0
        """A counter of registrations."""
        self._carried: tuple[Any, Callable[[], AbstractContextManager[None]] | None] | None = None
        self._said: dict[tuple[str, str], Record] = {}  # records of the session whose use has been logged
        self._lock = ForkSafeLock(self._load_again, wait=5.0)

    def add_core(self, records: Iterable[Record]) -> None:
        """Add the records of the core."""
        self._core.update({(record.kind, record.name): record for record in records})
        self._core_plugin = replace(self._core_plugin, version=version(CORE), records=tuple(self._core.values()))

    def register(self, item: Any) -> None:
        """Register a record, or a module or object with hook implementations (see `manifoldseq.register`)."""
        with self._lock:
            if isinstance(item, Record):
                self._register_record(item)
            else:
                name = getattr(item, "__name__", type(item).__name__)
                plugin = Plugin(name, name, file=getattr(item, "__file__", None) or "")
                collect(plugin, item)
                faults = [str(plugin.failure)] if plugin.failure else [str(fault) for fault in plugin.warnings]
                if faults or not (plugin.records or _implements(plugin)):
                    raise ValueError(
                        "; ".join(faults)
                        or f"{item!r} registers nothing: pass a record of manifoldseq.hooks, or a module "
                        "with functions decorated with @manifoldseq.hookimpl"
                    )
                self._registered[name] = plugin
            self.version += 1
            self._note_clashes()

    def extend(self, name: str, file: str, record: Record) -> Plugin:
        """Add a record to the records of a module, also of a module without hooks; return its plugin."""
        with self._lock:
            plugin = self._registered.get(name) or Plugin(name, name, file=file)
            kept = [one for one in plugin.records if (one.kind, one.name) != (record.kind, record.name)]
            self._registered[name] = plugin = replace(plugin, records=(*kept, record))
            self.version += 1
            self._note_clashes()
        return plugin

    @property
    def state(self) -> tuple[int, str]:
        """The state of the registry: objects that were derived from records in another state may be outdated."""
        return self.version, _SENT.get()[0]

    def carried(self) -> Callable[[], AbstractContextManager[None]] | None:
        """Return a factory of a context with the records of this process; None if nothing was registered."""
        registered = list(self._registered.items())
        if self._carried is None or self._carried[0] != registered:
            plain = {name: replace(plugin, manager=None) for name, plugin in registered}
            self._carried = registered, partial(_with_records, uuid4().hex, plain) if plain else None
        return self._carried[1]

    def _here(self) -> Mapping[str | None, Plugin]:
        """Return the records of this process, and of the process that sent the current task."""
        sent = _SENT.get()[1]
        return {**self._registered, **sent} if sent else self._registered

    def _register_record(self, record: Record) -> None:
        if ":" in record.name:
            raise ValueError(f"{record.kind} {record.name!r}: {reserved(record)}")
        session = self._registered.get(None, Plugin(SESSION, origin=Origin.SESSION))
        kept = [old for old in session.records if (old.kind, old.name) != (record.kind, record.name)]
        if len(kept) < len(session.records):
            LOG.info("%s %r: the record registered last replaces the earlier one", _singular(record.kind), record.name)
        self._registered[None] = replace(session, records=(*kept, record))

    def core(self) -> Plugin:
        """Return the core's own records in the form of a plugin."""
        return self._core_plugin

    def plugins(self) -> list[Plugin]:
        """Return all plugins, including broken and disabled plugins, with bundled plugins first and clashes noted."""
        with self._lock:
            if self._loaded is None:
                self._loaded = []  # a plugin that asks for a name while it is imported finds what is loaded so far
                for entry_point in sorted(self._discover(), key=lambda one: (origin_of(one), one.name, one.value)):
                    self._loaded.append(_load_unless_disabled(entry_point))
                self._loaded.extend(_not_installed({plugin.name for plugin in self._loaded}))
                self._note_clashes()
            return [*self._loaded, *self._here().values()]

    def _load_again(self) -> None:
        """Discard in a forked child the plugins that another thread of the parent had partly loaded."""
        self._loaded = None

    def _note_clashes(self) -> None:
        """Note the names of third parties that are found only with the name of the plugin."""
        plugins = [self._core_plugin, *(self._loaded or ()), *self._registered.values()]
        givers = [
            (record.kind, record.name, plugin)
            for plugin in plugins
            for record in plugin.records
            if plugin.origin is not Origin.SESSION
        ]
        for plugin in plugins:
            if plugin.origin is Origin.THIRD_PARTY:
                plugin.clashes = tuple(
                    f"{kind} {name!r} is also registered by {_giver(other)}: write '{plugin.name}:{name}'"
                    for kind, name, other in givers
                    if other is not plugin and any((kind, name) == (one.kind, one.name) for one in plugin.records)
                )

    def entries(self, kind: str) -> list[tuple[Plugin, Record]]:
        """Return all records of a kind with their plugins: records of the core first, then by plugin."""
        return [
            (plugin, record)
            for plugin in (self._core_plugin, *self.plugins())
            for record in plugin.records
            if record.kind == kind
        ]

    def find(self, kind: str, name: str) -> Record:
        """Return the record with a name, or with ``plugin:name``; raise as `owner` does."""
        return self.owner(kind, name)[1]

    def owner(self, kind: str, name: str) -> tuple[Plugin, Record]:
        """Return the record with a name, or with ``plugin:name``, and its plugin.

        Of several records with one name, the one that comes first in `Origin` is returned.

        Raises
        ------
        UnknownName
            If no record has this name; the error message lists the existing names.
        AmbiguousName
            If two third parties register the name and no record takes precedence; the error message names both.
        """
        found = self._with_name(kind, name)
        chosen = found if len(found) == 1 else first_origin(found)
        if len(chosen) == 1:
            if chosen[0][0].origin is Origin.SESSION and len(found) > 1:
                self._say(chosen[0][1], [plugin for plugin, _ in found if plugin is not chosen[0][0]])
            return chosen[0]
        if chosen:
            raise AmbiguousName(_ambiguous(kind, name, chosen))
        if bundled := missing_of_name(kind, name):
            raise UnknownName(
                f"unknown {_singular(kind)} {quoted(name)}: it is in {bundled}, which is not installed: "
                f"{how_to_install(bundled)}"
            )
        raise UnknownName(self._unknown(_singular(kind), name, sorted({one.name for _, one in self.entries(kind)})))

    def asked_as(self, plugin: Plugin, record: Record) -> str:
        """Return the name that finds a record of `entries`: its name, or ``plugin:name`` if the name is taken."""
        chosen = first_origin(self._with_name(record.kind, record.name))
        unique = len(chosen) == 1 and chosen[0][0] is plugin
        return record.name if unique else f"{plugin.name}:{record.name}"

    def _with_name(self, kind: str, name: str) -> list[tuple[Plugin, Record]]:
        """Return the records with a name; no entry point is loaded for a name of the core."""
        if (kind, name) in self._core:
            session = self._here().get(None)
            if session is None or all((record.kind, record.name) != (kind, name) for record in session.records):
                return [(self._core_plugin, self._core[kind, name])]
        return [
            (plugin, record)
            for plugin, record in self.entries(kind)
            if name in (record.name, f"{plugin.name}:{record.name}")
        ]

    def _say(self, record: Record, others: list[Plugin]) -> None:
        """Log once that a record of the session replaces another record of the same name."""
        key = record.kind, record.name
        if self._said.get(key) is not record:
            self._said[key] = record
            LOG.warning(
                "%s %r: the record given to manifoldseq.register is used, not the record of %s",
                _singular(record.kind),
                record.name,
                " or ".join(map(_giver, others)),
            )

    def _unknown(self, what: str, name: str, known: list[str]) -> str:
        close = difflib.get_close_matches(str(name), known, 1)
        hint = f"did you mean {close[0]!r}? " if close else ""
        exist = f"Registered: {', '.join(known)}" if known else f"No {what} is registered"
        broken = [plugin.name for plugin in self.plugins() if plugin.failure]
        failed = f"; plugin {', '.join(broken)} failed to load: see `manifoldseq list plugins`" if broken else ""
        return f"unknown {what} {quoted(name)}: {hint}{exist}{failed}"


def _implements(plugin: Plugin) -> bool:
    return plugin.manager is not None and bool(plugin.manager.hook.manifoldseq_commands.get_hookimpls())


def first_origin(entries: Sequence[tuple[Plugin, R]]) -> list[tuple[Plugin, R]]:
    """Return the entries with the first origin in the order of precedence."""
    first = min((plugin.origin for plugin, _ in entries), default=None)
    return [(plugin, record) for plugin, record in entries if plugin.origin is first]


def _ambiguous(kind: str, name: str, found: Sequence[tuple[Plugin, Record]]) -> str:
    names = [f"{plugin.name}:{record.name}" for plugin, record in found]
    what = f"{_singular(kind)} {name!r} is registered by {' and '.join(_giver(plugin) for plugin, _ in found)}"
    if len(set(names)) == len(names):
        return f"{what}: use {' or '.join(map(repr, names))}"
    modules = " and ".join(repr(plugin.module) for plugin, _ in found)
    return f"{what} (modules {modules}), which have the same name: rename or uninstall one of them"


def _giver(plugin: Plugin) -> str:
    if plugin.origin is Origin.CORE:
        return "the core"
    return f"plugin {plugin.name!r}" + (f" ({plugin.file})" if plugin.file else "")


def _singular(kind: str) -> str:
    return kind.removesuffix("s")


def _names(variable: str) -> set[str] | None:
    value = os.environ.get(variable)
    return None if value is None else {name.strip() for name in value.split(",") if name.strip()}


def _load_unless_disabled(entry_point: EntryPoint) -> Plugin:
    only = _names("MANIFOLDSEQ_PLUGINS")
    if (only is not None and entry_point.name not in only) or entry_point.name in (
        _names("MANIFOLDSEQ_DISABLE_PLUGINS") or ()
    ):
        return Plugin(entry_point.name, entry_point.value, disabled=True, origin=origin_of(entry_point))
    return load(entry_point)


def _not_installed(found: set[str]) -> list[Plugin]:
    return [
        Plugin(name, failure=Fault(f"MANIFOLDSEQ_PLUGINS names {name!r}, which is not installed"))
        for name in sorted((_names("MANIFOLDSEQ_PLUGINS") or set()) - found)
    ]
