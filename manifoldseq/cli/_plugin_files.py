"""Plugins in single files: ``--plugin FILE.py``, and ``FILE.py:NAME`` in place of a name."""

import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from contextlib import redirect_stdout, suppress
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from importlib import import_module
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from inspect import isroutine
from pathlib import Path
from types import ModuleType
from typing import Any

import click

from .. import hooks
from ..hooks._lookup import asked_as, extend
from ..hooks._plugin import place_of
from ..hooks._records import KINDS
from ._shared import BadInput

_NAMED = re.compile(r"(?P<file>.+\.py):(?P<name>[^:/\\]+)\Z", re.DOTALL)
_KEY = "manifoldseq.plugin_files"


@dataclass
class PluginFile:
    """A file that was run as a plugin, by its absolute path, and the SHA-256 of its text.

    The plugin has the name of the module: the stem of the file, with its folder if another module has that name.
    """

    path: Path
    module: ModuleType
    digest: str

    @property
    def name(self) -> str:
        """The name of the module and of the plugin."""
        return self.module.__name__

    def records(self, kind: str) -> dict[str, hooks.Record]:
        """Return what the file registers."""
        plugins = [plugin for plugin in hooks.plugins() if plugin.name == self.name]
        return {one.name: one for plugin in plugins for one in plugin.records if one.kind == kind}


@dataclass
class _Given:
    """The plugin files of one command by path, and the objects of each file that represent records."""

    files: dict[Path, PluginFile] = field(default_factory=dict)
    by_option: list[Path] = field(default_factory=list)
    objects: defaultdict[Path, list[dict[str, str]]] = field(default_factory=lambda: defaultdict(list))
    spelled: dict[tuple[str, str], str] = field(default_factory=dict)  # FILE.py:NAME by kind and registered name


_loaded: dict[Path, PluginFile] = {}
"""The plugin files of this process, by path."""


def _given() -> _Given:
    context = click.get_current_context(silent=True)
    return _Given() if context is None else context.find_root().meta.setdefault(_KEY, _Given())


# The option.


def with_plugin_option(command: click.Command) -> click.Command:
    """Give a command the option ``--plugin FILE.py``, unless it has one of that name."""
    if all("--plugin" not in one.opts for one in command.params):
        command.params.append(
            click.Option(
                ["--plugin"], multiple=True, metavar="FILE.py", type=click.Path(), is_eager=True, expose_value=False,
                callback=_load_given,
                help="Run a Python file and load its records, as if the file were an installed plugin. This option "
                "can be repeated.",
            )
        )  # fmt: skip
    return command


def _load_given(context: click.Context, parameter: click.Parameter, paths: tuple[str, ...]) -> None:
    files = [load_file(path, by_option=True) for path in paths]
    if context.resilient_parsing:  # completion in a shell
        return
    clashes = {plugin.name: plugin.clashes for plugin in hooks.plugins()} if files else {}
    for path, file in zip(paths, files, strict=True):
        idle = (
            ()
            if _has_hooks(file.module)
            else (f"the file registers no records: pass the objects of the file as {path}:NAME",)
        )
        for said in (*idle, *clashes.get(file.name, ())):
            click.echo(f"Warning: {path}: {said}", err=True)


# Loading of a file.


def load_file(path: str | Path, *, by_option: bool = False) -> PluginFile:
    """Run a Python file, once, and register its hooks.

    Parameters
    ----------
    path : str or Path
    by_option : bool
        Whether the file was passed to register records, and not for one object in it.

    Raises
    ------
    BadInput
        If the file does not exist, cannot be run, or registers an invalid record; the message names the line.
    """
    from ..storage import ReadError, read_bytes

    given, file = _given(), Path(path).resolve()
    if by_option and file not in given.by_option:
        given.by_option.append(file)
    if file in given.files:
        return given.files[file]
    if not file.is_file():
        raise BadInput(f"the file {path} does not exist: pass a Python file")
    if file.suffix != ".py":
        raise BadInput(f"{path} is not a Python file: its name must end in .py")
    try:
        source = read_bytes(file)
    except (OSError, ReadError) as error:
        raise BadInput(f"{path} cannot be read: {error}") from error
    loaded, digest = _loaded.get(file), sha256(source).hexdigest()
    if loaded is None or loaded.digest != digest:
        name = _free_name(file) if loaded is None else loaded.name
        loaded = _loaded[file] = PluginFile(file, _run(file, source, name), digest)
    if _has_hooks(loaded.module):
        try:
            with redirect_stdout(sys.stderr):
                hooks.register(loaded.module)
        except ValueError as error:
            raise BadInput(str(error)) from error
    given.files[file] = loaded
    return loaded


def _run(file: Path, source: bytes, name: str) -> ModuleType:
    """Run the text of a file as a module. It can import modules of its folder, whose code is sent to workers."""
    spec, known = spec_from_file_location(name, file), set(sys.modules)
    assert spec is not None
    module = sys.modules[name] = module_from_spec(spec)  # dataclasses look their module up
    sys.path.insert(0, str(file.parent))
    try:
        with redirect_stdout(sys.stderr):
            exec(compile(source, str(file), "exec"), vars(module))
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        place, text = place_of(error, str(file)) or file, error.msg if isinstance(error, SyntaxError) else error
        raise BadInput(f"{place} cannot be run: {type(error).__name__}: {text}") from error
    finally:
        sys.path.remove(str(file.parent))
        sys.path.append(str(file.parent))
    with suppress(ImportError):  # where dask is installed
        by_value = import_module("cloudpickle").register_pickle_by_value
        for one in [module, *(sys.modules[other] for other in set(sys.modules) - known if "." not in other)]:
            if file.parent in Path(getattr(one, "__file__", None) or "/").resolve().parents[:2]:
                by_value(one)
    return module


def _free_name(file: Path) -> str:
    """Return a name for the module of a file that no plugin and no other module has."""
    plugins = {plugin.name for plugin in hooks.plugins()}
    folder, stem = (re.sub(r"\W", "_", name) for name in (file.parent.name, file.stem))
    for name in (stem, f"{folder}_{stem}"):
        if name not in plugins and name not in sys.modules:
            spec = find_spec(name)
            if spec is None or spec.origin == str(file):
                return name
    return f"{stem}_{sha256(str(file).encode()).hexdigest()[:8]}"


def _has_hooks(module: ModuleType) -> bool:
    return any(
        hasattr(value, "manifoldseq_impl") or (name.startswith("manifoldseq_") and isroutine(value))
        for name, value in vars(module).items()
    )


# FILE.py:NAME.


def parts_of(text: Any) -> tuple[str, str] | None:
    """Return file and name of ``FILE.py:NAME``, and None for other text."""
    match = _NAMED.match(text) if isinstance(text, str) else None
    return None if match is None else (match["file"], match["name"])


def absolute_name(text: str) -> str:
    """Return ``FILE.py:NAME`` or ``FILE.g2o`` with the absolute path; other text is returned unchanged."""
    parts = parts_of(text)
    if text.endswith(".g2o"):
        return str(Path(text).resolve())
    return text if parts is None else f"{Path(parts[0]).resolve()}:{parts[1]}"


def object_of(file: str, name: str, kind: str) -> Any:
    """Return the value of ``FILE.py:NAME``: a record of a kind that the file registers, or an object of the file.

    Raises
    ------
    BadInput
        If the file cannot be loaded, or contains neither.
    """
    loaded = load_file(file)
    abilities, _ = _OBJECTS.get(kind, ((), None))

    def fits(value: Any) -> bool:
        return isinstance(value, KINDS[kind]) or any(hasattr(value, ability) for ability in abilities)

    records = loaded.records(kind)
    asked = records.get(name, getattr(loaded.module, name, None))
    if fits(asked):
        return asked
    known = dict.fromkeys(records)
    for one, value in vars(loaded.module).items():
        if not fits(value) or hasattr(value, "manifoldseq_impl"):
            continue
        if not hasattr(value, "__name__") or value.__module__ == loaded.name:
            known[one] = None
    raise BadInput(f"{file} has no {kind.removesuffix('s')} {name!r}: it has {', '.join(known) or 'none'}")


def asked_name(text: Any, kind: str, **fields: Any) -> Any:
    """Return the registered name of ``FILE.py:NAME``; other text is returned unchanged.

    Parameters
    ----------
    text : str
    kind : str
        ``"models"``, ``"kernels"``, …
    **fields
        Fields of the record of an object, such as the `model` of an initializer.

    Raises
    ------
    BadInput
        As in `object_of`.
    """
    parts = parts_of(text)
    if parts is None:
        return text
    record, (file, name) = object_of(*parts, kind), parts
    loaded, given = load_file(file), _given()
    if record not in loaded.records(kind).values():
        try:
            record = record if isinstance(record, hooks.Record) else _OBJECTS[kind][1](name, record, **fields)
        except ValueError as error:
            raise BadInput(f"{text}: {error}") from error
        extend(loaded.name, str(loaded.path), record)
        given.objects[loaded.path].append({"kind": kind, "name": name, **fields})
    plugin = next(one for one in hooks.plugins() if one.name == loaded.name)
    asked = asked_as(plugin, record)
    given.spelled[kind, asked] = f"{loaded.path}:{name}"
    return asked


def spelled(kind: str, name: Any) -> Any:
    """Return ``FILE.py:NAME`` with the absolute path for a name that represents it in this command."""
    return _given().spelled.get((kind, name), name) if isinstance(name, str) else name


def _estimator(name: str, value: Any) -> hooks.Record:
    from ..models import RowMixture

    rows = isinstance(value, type) and issubclass(value, RowMixture)
    return hooks.EstimatorSpec(name, value, input=getattr(value, "input", "samples" if rows else "sequences"))


def _kernel(name: str, value: Any) -> hooks.Record:
    return hooks.KernelSpec(name, value if isinstance(value, type) else partial(_itself, value))


def _itself(value: Any) -> Any:
    return value


_OBJECTS: dict[str, tuple[tuple[str, ...], Callable[..., hooks.Record]]] = {
    "models": (("__call__", "manifold"), lambda name, value: hooks.ModelSpec(name, build=value)),
    "estimators": (("fit",), _estimator),
    "kernels": (("cross",), _kernel),
    "solvers": (("step",), lambda name, value: hooks.SolverSpec(name, value, needs=tuple(getattr(value, "needs", ())))),
    "initializers": (("__call__",), hooks.InitializerSpec),
    "readers": (("__call__",), lambda name, value: hooks.ReaderSpec(name, (), value)),
    "datasets": (("__call__",), hooks.DatasetSpec),
    "reproductions": (("__call__",), hooks.ReproductionSpec),
}
"""Attributes, one of which an object of a file needs to represent a record, and the function of the record."""


# In settings.

_SETTINGS = {
    "kernel": "kernels", "solver": "solvers", "model": "models", "init": "initializers",
    "mean": "rules", "method": "rules",
}  # fmt: skip
"""The kinds of the names in parameters."""


def kind_of_setting(path: str) -> str:
    """Return the kind of registered name in a parameter, or "".

    >>> kind_of_setting("identifier.inner_solver"), kind_of_setting("n_states")
    ('solvers', '')
    """
    return _SETTINGS.get(path.rpartition(".")[2].rpartition("_")[2], "")


def with_names(settings: Mapping[str, Any], current: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings (with dotted names) in which ``FILE.py:NAME`` is replaced by registered names.

    `current` contains the default parameters, which name the model of an initializer.
    """
    made = dict(settings)
    for path in sorted(made, key=lambda path: kind_of_setting(path) == "initializers"):  # after their models
        if kind := kind_of_setting(path):
            fields = {"model": made.get("model", current.get("model")) or ""} if kind == "initializers" else {}
            made[path] = asked_name(made[path], kind, **fields)
    return made


def with_files(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings with ``FILE.py:NAME`` in place of the names of `with_names`, for `run.toml`."""
    return {path: spelled(kind_of_setting(path), value) for path, value in settings.items()}


def with_reader(reading: Mapping[str, Any], named: Callable[[str, Any], Any] = spelled) -> dict[str, Any]:
    """Return options of ``--read`` with the reader's name replaced by `named`."""
    return {key: named("readers", value) if key == "reader" else value for key, value in reading.items()}


def reading_of(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options of ``--read`` with the registered name of a reader."""
    return with_reader(options, lambda kind, name: asked_name(name, kind))


# In run directories.


def files_of_command() -> list[dict[str, Any]]:
    """Return the plugin files of this command for `run.json`."""
    given = _given()
    return [
        {"file": str(path), "sha256": one.digest, "option": path in given.by_option, "objects": given.objects[path]}
        for path, one in given.files.items()
    ]


def paths_of_command() -> list[str]:
    """Return the files of ``--plugin`` for `run.toml`."""
    return [str(path) for path in _given().by_option]


def load_files_of(config: Path, paths: Iterable[str]) -> None:
    """Load the plugin files of a `run.toml`; raise BadInput unless this command has a file for each missing one."""
    names = {path.name for path in _given().files}
    for path in paths:
        if Path(path).is_file():
            load_file(path, by_option=True)
        elif Path(path).name not in names:
            raise BadInput(f"{config} names the plugin file {path}, which does not exist: pass it by --plugin FILE.py")


def use_files_of(directory: Path, run: Mapping[str, Any], *, resume: bool = False) -> None:
    """Raise BadInput unless this command was given the plugin files of a run, and register the objects in them.

    Files are identified by their names. A file that has changed gives a warning, or raises BadInput if the run is
    resumed. A resumed run has the files of single objects in the arguments of its command.
    """
    given = {path.name: file for path, file in _given().files.items()}
    for entry in run.get("plugins", ()):
        path, file = Path(entry["file"]), given.get(Path(entry["file"]).name)
        if file is None:
            if entry["option"] or (entry["objects"] and not resume):
                said = f"the run in {directory} was made with a plugin file that was not passed"
                raise BadInput(f"{said}: add --plugin {path}")
            continue
        if file.digest != entry["sha256"]:
            changed = f"the plugin file {file.path} has changed since the run in {directory} (its SHA-256 differs)"
            if resume:
                raise BadInput(f"{changed}: restore it, or start a new run with another -o")
            click.echo(f"Warning: {changed}", err=True)
        for one in entry["objects"]:
            asked_name(f"{file.path}:{one['name']}", **{key: value for key, value in one.items() if key != "name"})
