"""Loading of one plugin in isolation, with its own pluggy manager."""

import contextlib
import difflib
import inspect
import re
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pluggy

from . import _hookspecs
from ._bundled import BUNDLED
from ._hookspecs import PROJECT
from ._records import KINDS, Record

_PREFIX = f"{PROJECT}_"
_SPECS = [name for name in vars(_hookspecs) if name.startswith(_PREFIX)]


class Origin(IntEnum):
    """The origin of the records of a plugin, in the order of precedence of names."""

    SESSION = 0
    """Records given to `manifoldseq.register`: they belong to the running process."""
    CORE = 1
    BUNDLED = 2
    """The plugins that are developed together with the core, see `_bundled`."""
    THIRD_PARTY = 3
    """Other entry points, and modules and objects given to `manifoldseq.register`."""


@dataclass(frozen=True)
class Fault:
    """A problem with a plugin: the message, the traceback if there was an exception, and the line of code."""

    message: str
    traceback: str = ""
    place: str = ""
    """``"FILE.py, line N"``, where it is known."""

    @classmethod
    def of(cls, what: str, error: BaseException, file: str = "") -> "Fault":
        message, place = f"{what}: {type(error).__name__}: {error}", place_of(error, file)
        return cls(message, "".join(traceback.format_exception(error)), place)

    def __str__(self) -> str:
        return f"{self.place}: {self.message}" if self.place else self.message


def place_of(error: BaseException, file: str) -> str:
    """Return the file and line of the last call before an exception, of those in the folder of a file; "" for none."""
    if not file:
        return ""
    folder = Path(file).resolve().parent
    if isinstance(error, SyntaxError) and error.filename and folder in Path(error.filename).resolve().parents:
        return f"{error.filename}, line {error.lineno}"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename).is_file()]
    inside = [frame for frame in frames if folder in Path(frame.filename).resolve().parents]
    return f"{inside[-1].filename}, line {inside[-1].lineno}" if inside else ""


def _line_of(function: Any) -> str:
    code = getattr(function, "__code__", None)
    return "" if code is None else f"{code.co_filename}, line {code.co_firstlineno}"


@dataclass
class Plugin:
    """A plugin with its records and its faults."""

    name: str
    module: str = ""
    distribution: str = ""
    version: str = ""
    records: tuple[Record, ...] = ()
    failure: Fault | None = None
    warnings: tuple[Fault, ...] = ()
    clashes: tuple[str, ...] = ()
    disabled: bool = False
    manager: pluggy.PluginManager | None = None
    origin: Origin = Origin.THIRD_PARTY
    file: str = ""
    """The path of a module that was given to `manifoldseq.register`."""

    @property
    def status(self) -> str:
        """The most severe of ``"ok"``, ``"failed"``, ``"warnings"``, ``"clashes"`` and ``"disabled"``."""
        if self.disabled:
            return "disabled"
        if self.failure:
            return "failed"
        return "warnings" if self.warnings else "clashes" if self.clashes else "ok"

    @property
    def package(self) -> str:
        """The import package that the plugin's module is in."""
        return self.module.partition(":")[0].partition(".")[0]

    def commands(self, group: Any) -> Fault | None:
        """Let the plugin add its commands to a click group, and return the problems."""
        if self.manager is None:
            return None
        with _guarded() as caught:
            self.manager.hook.manifoldseq_commands(cli=group)
        return Fault.of("manifoldseq_commands raised", caught[0]) if caught else None

    def as_dict(self) -> dict[str, Any]:
        """Return the output of ``manifoldseq list plugins --json`` as a dictionary."""
        registers: dict[str, list[str]] = {}
        for record in self.records:
            registers.setdefault(record.kind, []).append(record.name)
        return {
            "name": self.name,
            "distribution": self.distribution,
            "version": self.version,
            "module": self.module,
            "origin": self.origin.name.lower().replace("_", " "),
            "status": self.status,
            "cause": self.failure.message if self.failure else "",
            "traceback": self.failure.traceback if self.failure else "",
            "warnings": [{"message": fault.message, "traceback": fault.traceback} for fault in self.warnings],
            "clashes": list(self.clashes),
            "registers": registers,
        }


def load(entry_point: EntryPoint) -> Plugin:
    """Import the target of an entry point and collect its records; a broken plugin is returned with its failure."""
    plugin = Plugin(entry_point.name, entry_point.value, origin=origin_of(entry_point))
    with _guarded() as caught:
        if entry_point.dist:
            plugin.distribution, plugin.version = entry_point.dist.name, entry_point.dist.version
        collect(plugin, entry_point.load())
    if caught:
        plugin.failure = Fault.of(f"{entry_point.value!r} cannot be imported", caught[0])
    return plugin


def origin_of(entry_point: EntryPoint) -> Origin:
    """Return whether an entry point is one of a bundled plugin.

    Both the distribution of the entry point and the package must be ours, because anyone can choose the name of an
    entry point or of a package.
    """
    distribution = entry_point.dist.name if entry_point.dist else ""
    package = entry_point.value.partition(":")[0].partition(".")[0].strip()
    normalized = re.sub(r"[-_.]+", "-", distribution).lower()
    ours = normalized in BUNDLED and package == normalized.replace("-", "_")
    return Origin.BUNDLED if ours else Origin.THIRD_PARTY


def collect(plugin: Plugin, module: Any) -> None:
    """Register a module or object with its own manager, and store the valid records of its hooks."""
    manager = pluggy.PluginManager(PROJECT)
    manager.add_hookspecs(_hookspecs)
    try:
        manager.register(module, plugin.name)
    except pluggy.PluginValidationError as error:
        named = re.search(rf"\b{_PREFIX}\w+", str(error))
        place = _line_of(getattr(module, named[0], None)) if named else ""
        plugin.failure = Fault(" ".join(str(error).split()), place=place)
        return
    plugin.manager = manager
    faults = [*_misnamed(manager), *_unmarked(module)]
    records: dict[tuple[str, str], Record] = {}
    for kind, cls in KINDS.items():
        name = f"{_PREFIX}{kind}"
        place = _line_of(getattr(module, name, None))
        for found in _yielded(name, getattr(manager.hook, name), getattr(module, "__file__", "") or "", place):
            if isinstance(found, Fault):
                faults.append(found)
            elif not isinstance(found, cls):
                message = f"{name} yielded {found!r}: yield manifoldseq.hooks.{cls.__name__} records"
                faults.append(Fault(message, place=place))
            elif found.name.partition(":")[0] not in (found.name, plugin.name):
                faults.append(Fault(f"{name} yielded {found.name!r}: {reserved(found)}", place=place))
            elif (kind, found.name) in records:
                faults.append(Fault(f"{name} yielded {found.name!r} twice: the first record is used", place=place))
            else:
                records[kind, found.name] = found
    plugin.records, plugin.warnings = tuple(records.values()), tuple(faults)


def reserved(record: Record) -> str:
    """Return the error message about a name that begins with the name of another plugin and a colon."""
    owner = record.name.partition(":")[0]
    return f"names that begin with {owner + ':'!r} are reserved for the plugin {owner!r}: choose another name"


def _yielded(name: str, hook: Callable[[], list[Any]], file: str, place: str) -> list[Any]:
    found: list[Any] = []
    with _guarded() as caught:
        for result in hook():
            if isinstance(result, Iterable):
                for record in result:  # one by one: those before an exception are kept
                    found.append(record)
            else:
                found.append(
                    Fault(f"{name} returned {result!r}: write the hook as a generator of records", place=place)
                )
    return [*found, Fault.of(f"{name} raised", caught[0], file)] if caught else found


def _misnamed(manager: pluggy.PluginManager) -> Iterator[Fault]:
    for name, hook in vars(manager.hook).items():
        if isinstance(hook, pluggy.HookCaller) and not hook.has_spec():
            functions = [one.function for one in hook.get_hookimpls()]
            place = _line_of(functions[0]) if functions else ""
            yield Fault(f"{name} is not a hook of manifoldseq: {_suggestion(name)}", place=place)


def _unmarked(module: Any) -> Iterator[Fault]:
    owner = module.__name__ if inspect.ismodule(module) else type(module).__module__
    for name in dir(module):
        if not name.startswith(_PREFIX):
            continue
        value = inspect.getattr_static(module, name)
        if inspect.isfunction(value) and value.__module__ == owner and not hasattr(value, f"{PROJECT}_impl"):
            hint = "decorate it with @manifoldseq.hookimpl" if name in _SPECS else _suggestion(name)
            message = f"{name} is a function without @manifoldseq.hookimpl and is never called: {hint}"
            yield Fault(message, place=_line_of(value))


def _suggestion(name: str) -> str:
    close = difflib.get_close_matches(name, _SPECS, 1)
    return f"did you mean {close[0]}?" if close else f"the hooks are {', '.join(_SPECS)}"


@contextlib.contextmanager
def _guarded() -> Iterator[list[BaseException]]:
    """Catch exceptions of a plugin's code, including `SystemExit`, and redirect its output from standard output."""
    caught: list[BaseException] = []
    with contextlib.redirect_stdout(sys.stderr):
        try:
            yield caught
        except (Exception, SystemExit) as error:
            caught.append(error)
