"""Plugins in one file: ``--plugin FILE.py``, and ``FILE.py:NAME`` wherever a name is asked for."""

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
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
    """A file that was run as a plugin.

    Parameters
    ----------
    path : Path
        Absolute.
    name : str
        Of its module, and of the plugin: the stem of the file, or more of the path where another module has that name.
    module : module
    digest : str
        SHA-256 of its text.
    """

    path: Path
    name: str
    module: ModuleType
    digest: str


@dataclass
class _Given:
    """What one command was given: files by path, and of each the objects that stand for records."""

    files: dict[Path, PluginFile] = field(default_factory=dict)
    by_option: list[Path] = field(default_factory=list)
    objects: dict[Path, list[dict[str, str]]] = field(default_factory=dict)
    spelled: dict[tuple[str, str], str] = field(default_factory=dict)  # FILE.py:NAME by kind and registered name


_loaded: dict[Path, PluginFile] = {}
"""Of this process, by path."""


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
                help="Use what a Python file registers, as if it were an installed plugin; may be repeated.",
            )
        )  # fmt: skip
    return command


def _load_given(context: click.Context, parameter: click.Parameter, paths: tuple[str, ...]) -> None:
    files = [load_file(path, by_option=True) for path in paths]
    if context.resilient_parsing:  # completion in a shell
        return
    if context.parent is not None:
        check_hooks(context.info_name)
    clashes = {plugin.name: plugin.clashes for plugin in hooks.plugins()} if files else {}
    for path, file in zip(paths, files, strict=True):
        for clash in clashes.get(file.name, ()):
            click.echo(f"Warning: {path}: {clash}", err=True)


def check_hooks(command: str | None = None) -> None:
    """Raise BadInput for a file of ``--plugin`` without hooks; ``apply`` may be given one for the objects in it."""
    for path in _given().by_option:
        if command != "apply" and not _has_hooks(_given().files[path].module):
            raise BadInput(
                f"{path.name} registers nothing: decorate a function such as manifoldseq_models with "
                f"@manifoldseq.hookimpl, or name an object of the file where a name is asked for, {path.name}:NAME"
            )


# Loading of a file.


def load_file(path: str | Path, *, by_option: bool = False) -> PluginFile:
    """Run a Python file, once, and register its hooks.

    Parameters
    ----------
    path : str or Path
    by_option : bool
        Whether the file was given to register something, and not for one object in it.

    Raises
    ------
    BadInput
        If there is no such file, it cannot be run, or it registers something wrong; the message names the line.
    """
    from ..storage import ReadError, read_bytes

    given, file, shown = _given(), Path(path).resolve(), _shown(path)
    if by_option and file not in given.by_option:
        given.by_option.append(file)
    if file in given.files:
        return given.files[file]
    if not file.is_file():
        raise BadInput(f"{shown} is a folder: give a Python file" if file.is_dir() else f"there is no file {shown}")
    try:
        source = read_bytes(file)
    except (OSError, ReadError) as error:
        raise BadInput(f"{shown} cannot be read: {error}") from error
    found, digest = _loaded.get(file), sha256(source).hexdigest()
    if found is None or found.digest != digest:
        found = _loaded[file] = _run(file, shown, source, digest, found and found.name)
    if _has_hooks(found.module):
        try:
            with redirect_stdout(sys.stderr):
                hooks.register(found.module)
        except ValueError as error:
            raise BadInput(_relative(str(error), file, shown)) from error
    given.files[file] = found
    return found


def _run(file: Path, shown: str, source: bytes, digest: str, name: str | None) -> PluginFile:
    """Run the text of a file as a module; one that is imported already is taken as it is."""
    if name is None:
        for module in list(sys.modules.values()):
            if getattr(module, "__file__", None) == str(file) and module.__name__ != "__main__":
                return PluginFile(file, module.__name__, module, digest)
    name = name or _free_name(file)
    spec = spec_from_file_location(name, file)
    assert spec is not None
    module = module_from_spec(spec)
    before = sys.modules.get(name)
    sys.modules[name] = module  # dataclasses look their module up
    try:
        with redirect_stdout(sys.stderr), _folder_importable(file, shown):
            exec(compile(source, str(file), "exec"), vars(module))
    except BaseException as error:
        sys.modules.pop(name)
        if before is not None:
            sys.modules[name] = before
        if not isinstance(error, (Exception, SystemExit)) or isinstance(error, BadInput):
            raise
        place, text = place_of(error, str(file)), error.msg if isinstance(error, SyntaxError) else error
        where = f"{place} cannot be run" if place.startswith(str(file)) else f"{file} cannot be run: {place}"
        raise BadInput(_relative(f"{where}: {type(error).__name__}: {text}", file, shown)) from error
    return PluginFile(file, name, module, digest)


@contextmanager
def _folder_importable(file: Path, shown: str) -> Iterator[None]:
    """Let a file import the modules of its folder: before all others while it runs, as Python does, later after them.

    Modules of one name in the folders of two files cannot both be imported: that raises BadInput.
    """
    folder = file.parent
    others = {one.path.parent for one in _loaded.values()} - {folder}
    hidden = {
        name: module
        for name, module in list(sys.modules.items())
        if _folder_of(module) in others and ((folder / f"{name}.py").is_file() or (folder / name).is_dir())
    }
    for name in hidden:
        del sys.modules[name]
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        if str(folder) not in sys.path:
            sys.path.append(str(folder))
        clashes = [name for name in hidden if name in sys.modules]
        sys.modules.update(hidden)
    for name in clashes:
        raise BadInput(
            f"{shown} imports the module {name!r} of its folder, and {getattr(hidden[name], '__file__', '')} has the "
            "same name and is imported already: rename one of the two"
        )


def _folder_of(module: ModuleType) -> Path | None:
    """Return the folder from which a module is imported by its name; None for a module inside a package."""
    file = getattr(module, "__file__", None)
    if not file or "." in getattr(module, "__name__", "."):
        return None
    path = Path(file)
    return path.parent.parent if path.stem == "__init__" else path.parent


def _free_name(file: Path) -> str:
    """Return a name for the module of a file: its stem, or with folders before it, that nothing else has."""
    plugins = {plugin.name for plugin in hooks.plugins()}
    parts = [re.sub(r"\W", "_", part) for part in file.with_suffix("").parts]
    names = ["_".join(parts[-n:]) for n in range(1, len(parts) + 1)]
    for name in (name if not name[0].isdigit() else f"file_{name}" for name in names):
        if name not in plugins and name not in sys.modules and _is_free(name, file):
            return name
    return f"{parts[-1]}_{sha256(str(file).encode()).hexdigest()[:8]}"


def _is_free(name: str, file: Path) -> bool:
    try:
        spec = find_spec(name)
    except (ImportError, ValueError):
        return False
    return spec is None or spec.origin is None or Path(spec.origin).resolve() == file


def _has_hooks(module: ModuleType) -> bool:
    return any(name.startswith("manifoldseq_") or hasattr(value, "manifoldseq_impl") for name, value in _own(module))


def _own(module: ModuleType) -> list[tuple[str, Any]]:
    """Return the objects of a module, and the functions and classes that it defines itself."""

    def is_own(value: Any) -> bool:
        defined = isinstance(value, type) or isroutine(value)
        return not isinstance(value, ModuleType) and (not defined or value.__module__ == module.__name__)

    return [(name, value) for name, value in vars(module).items() if not name.startswith("__") and is_own(value)]


def _shown(path: str | Path) -> str:
    return os.fspath(path)


def _relative(message: str, file: Path, shown: str) -> str:
    """Return a message with the path as it was given, and the files of its folder likewise."""
    folder = str(Path(shown).parent)
    prefix = "" if folder == "." else f"{folder}{os.sep}"
    return message.replace(str(file), shown).replace(f"{file.parent}{os.sep}", prefix)


# FILE.py:NAME.


def parts_of(text: str) -> tuple[str, str] | None:
    """Return file and name of ``FILE.py:NAME``; None of any other text."""
    found = _NAMED.match(text)
    return None if found is None else (found["file"], found["name"])


def is_in_file(text: str) -> bool:
    """Return whether a text is ``FILE.py:NAME`` of a file that is there."""
    parts = parts_of(text)
    return parts is not None and Path(parts[0]).is_file()


def absolute_name(text: str) -> str:
    """Return ``FILE.py:NAME`` with the absolute path; any other text as it is."""
    parts = parts_of(text)
    return text if parts is None else f"{Path(parts[0]).resolve()}:{parts[1]}"


def object_of(text: str, kind: str) -> Any:
    """Return what ``FILE.py:NAME`` stands for: a record of a kind that the file registers, or an object of the file.

    Raises
    ------
    BadInput
        If the file cannot be loaded, or has neither.
    """
    file, name = _split(text)
    loaded = load_file(file)
    for plugin in hooks.plugins():
        if plugin.name == loaded.name:
            for record in plugin.records:
                if (record.kind, record.name) == (kind, name):
                    return record
    found = getattr(loaded.module, name, None)
    what, fits, _ = _OBJECTS.get(kind, ("", lambda value: False, None))
    if isinstance(found, KINDS[kind]) or (found is not None and fits(found)):
        return found
    singular = kind.removesuffix("s")
    known = [record.name for plugin in hooks.plugins() if plugin.name == loaded.name for record in plugin.records
             if record.kind == kind]  # fmt: skip
    known += [one for one, value in _own(loaded.module) if isinstance(value, KINDS[kind]) or fits(value)]
    nouns = what or f"registered {singular}"
    raise BadInput(f"{file} has no {nouns} {name!r}: it has {', '.join(dict.fromkeys(known)) or 'none'}")


def asked_name(text: str, kind: str, **fields: str) -> str:
    """Return the registered name that a text stands for: of ``FILE.py:NAME`` that in the file, else the text itself.

    Parameters
    ----------
    text : str
    kind : str
        ``"models"``, ``"kernels"``, …
    **fields
        Of the record that is made of an object, such as the `model` of an initializer.

    Raises
    ------
    BadInput
        As in `object_of`.
    """
    if not isinstance(text, str) or parts_of(text) is None:
        return text
    file, name = _split(text)
    found = object_of(text, kind)
    loaded, given = load_file(file), _given()
    plugin = next((one for one in hooks.plugins() if one.name == loaded.name), None)
    if plugin is not None and any(record is found for record in plugin.records):
        asked = asked_as(plugin, found)
    else:
        try:
            record = found if isinstance(found, hooks.Record) else _OBJECTS[kind][2](name, found, **fields)
        except ValueError as error:
            raise BadInput(f"{text}: {error}") from error
        asked = asked_as(extend(loaded.name, str(loaded.path), record), record)
        given.objects.setdefault(loaded.path, []).append({"kind": kind, "name": name, **fields})
    given.spelled[kind, asked] = f"{loaded.path}:{name}"
    return asked


def spelled(kind: str, name: Any) -> Any:
    """Return ``FILE.py:NAME``, with the absolute path, for a name that stands for it in this command."""
    return _given().spelled.get((kind, name), name) if isinstance(name, str) else name


def _split(text: str) -> tuple[str, str]:
    parts = parts_of(text)
    assert parts is not None
    return parts


def _record_of_estimator(name: str, value: Any) -> hooks.Record:
    from ..models import RowMixture

    rows = isinstance(value, type) and issubclass(value, RowMixture)
    return hooks.EstimatorSpec(name, value, input=getattr(value, "input", "samples" if rows else "sequences"))


def _record_of_kernel(name: str, value: Any) -> hooks.Record:
    return hooks.KernelSpec(name, value if isinstance(value, type) else partial(_itself, value))


def _itself(value: Any) -> Any:
    return value


def _is_problem_or_function(value: Any) -> bool:
    from .._problem import Problem

    return isinstance(value, Problem) or callable(value)


_OBJECTS: dict[str, tuple[str, Callable[[Any], bool], Callable[..., hooks.Record]]] = {
    "models": (
        "problem or function",
        _is_problem_or_function,
        lambda name, value: hooks.ModelSpec(name, build=value),
    ),
    "estimators": (
        "registered estimator or class with fit",
        lambda value: isinstance(value, type) and callable(getattr(value, "fit", None)),
        _record_of_estimator,
    ),
    "kernels": (
        "registered kernel or object of @manifoldseq.kernel",
        lambda value: hasattr(value, "cross") and hasattr(value, "pack"),
        _record_of_kernel,
    ),
    "solvers": (
        "registered solver or class of one",
        lambda value: isinstance(value, type) and hasattr(value, "step"),
        lambda name, value: hooks.SolverSpec(name, value, needs=tuple(getattr(value, "needs", ()))),
    ),
    "initializers": (
        "registered initializer or function",
        callable,
        lambda name, value, model: hooks.InitializerSpec(name, value, model=model),
    ),
    "readers": (
        "registered reader or function",
        callable,
        lambda name, value: hooks.ReaderSpec(name, (), value),
    ),
    "datasets": (
        "registered data set or function",
        callable,
        lambda name, value: hooks.DatasetSpec(name, value),
    ),
    "reproductions": (
        "registered reproduction or function",
        callable,
        lambda name, value: hooks.ReproductionSpec(name, value),
    ),
}
"""What an object may be in place of a record: how messages call it, which are taken, and the record of one."""


# In settings.

_SETTINGS = {
    "kernel": "kernels", "solver": "solvers", "model": "models", "init": "initializers",
    "mean": "rules", "method": "rules",
}  # fmt: skip
"""The kinds of the names in parameters; of `inner_solver` too."""


def kind_of_setting(path: str) -> str:
    """Return the kind of name that a parameter holds, "" for none.

    >>> kind_of_setting("identifier.inner_solver"), kind_of_setting("n_states")
    ('solvers', '')
    """
    return _SETTINGS.get(path.rpartition(".")[2].rpartition("_")[2], "")


def with_names(settings: Mapping[str, Any], current: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings with registered names in place of ``FILE.py:NAME``.

    Parameters
    ----------
    settings : mapping of str to object
        What is set, by names with dots.
    current : mapping of str to object
        The parameters as they are by default: the model of an initializer.
    """
    made = dict(settings)
    for path in sorted(made, key=lambda path: kind_of_setting(path) == "initializers"):  # after their models
        kind, value = kind_of_setting(path), made[path]
        if not kind or not isinstance(value, str) or parts_of(value) is None:
            continue
        fields = {}
        if kind == "initializers":
            model = made.get("model", current.get("model"))
            if not isinstance(model, str):
                raise BadInput(f"{path}={value} is an initializer of a model, but there is no parameter 'model'")
            fields = {"model": model}
        made[path] = asked_name(value, kind, **fields)
    return made


def with_files(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings with ``FILE.py:NAME`` in place of the names that `with_names` gave: for `run.toml`."""
    return {path: spelled(kind_of_setting(path), value) for path, value in settings.items()}


def with_reader(reading: Mapping[str, Any], named: Callable[[str, Any], Any] | None = None) -> dict[str, Any]:
    """Return options of ``--read`` with the registered name of a reader, or what `named` gives for it."""
    if not isinstance(reading.get("reader"), str):
        return dict(reading)
    name = reading["reader"]
    return {**reading, "reader": asked_name(name, "readers") if named is None else named("readers", name)}


# In run directories.


def files_of_command() -> list[dict[str, Any]]:
    """Return the plugin files of this command, as `run.json` keeps them."""
    given = _given()
    return [
        {"file": str(path), "sha256": one.digest, "plugin": one.name, "objects": given.objects.get(path, [])}
        for path, one in given.files.items()
    ]


def paths_of_command() -> list[str]:
    """Return the files that were given by ``--plugin``, as `run.toml` repeats them."""
    return [str(path) for path in _given().by_option]


def load_files_of(config: Path, paths: Iterable[str]) -> None:
    """Load the plugin files that a `run.toml` names, but for those of which one of that name is given.

    Raises
    ------
    BadInput
        If one is neither there nor given.
    """
    names = {path.name for path in _given().files}
    for path in paths:
        if Path(path).is_file():
            load_file(path, by_option=True)
        elif Path(path).name not in names:
            raise BadInput(f"{config} names the plugin file {path}, which is not there: give it by --plugin FILE.py")


def lacking(run: Mapping[str, Any]) -> list[str]:
    """Return the plugin files of a run that this command was not given, and register the objects in the others.

    Parameters
    ----------
    run : mapping
        ``run.json``.
    """
    missing = []
    for entry in _entries(run):
        file = _file_of(entry)
        if file is None:
            missing.append(str(entry["file"]))
            continue
        for one in entry.get("objects", ()):
            fields = {name: value for name, value in one.items() if name not in ("kind", "name")}
            if one not in _given().objects.get(file.path, ()):
                asked_name(f"{file.path}:{one['name']}", one["kind"], **fields)
    return missing


def check_same_files(directory: Path, run: Mapping[str, Any]) -> None:
    """Raise BadInput unless this command was given the plugin files of a run, as they were then."""
    if missing := lacking(run):
        raise BadInput(said_missing(directory, missing))
    for said in changed(directory, run):
        raise BadInput(f"{said}: put it back as it was, or start a new run with another -o")


def changed(directory: Path, run: Mapping[str, Any]) -> list[str]:
    """Return which of the plugin files of a run are others now, each as a sentence."""
    files = [(entry, _file_of(entry)) for entry in _entries(run)]
    return [
        f"the plugin file {file.path} has changed since the run in {directory} (its SHA-256 is another one)"
        for entry, file in files
        if file is not None and file.digest != entry.get("sha256")
    ]


def said_missing(directory: Path, missing: Iterable[str]) -> str:
    """Return the message about plugin files that a run was made with and that are not given."""
    options = " ".join(f"--plugin {path}" for path in missing)
    return f"the run in {directory} was made with a plugin file that is not given: add {options}"


@contextmanager
def naming_missing(directory: Path | None, run: Mapping[str, Any]) -> Iterator[None]:
    """Add to an error inside the block which plugin files of a run are not given."""
    missing = [] if directory is None else lacking(run)
    try:
        yield
    except BadInput as error:
        if missing and directory is not None and missing[0] not in error.message:
            raise BadInput(f"{error.message}; {said_missing(directory, missing)}") from error
        raise


def _entries(run: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    found = run.get("plugins", ())
    return [one for one in found if isinstance(one, Mapping) and "file" in one] if isinstance(found, list) else []


def _file_of(entry: Mapping[str, Any]) -> PluginFile | None:
    """Return the file of this command that an entry of `run.json` means: by its path, its text, or its name."""
    files = _given().files
    path = Path(str(entry["file"]))
    same = [one for one in files.values() if one.digest == entry.get("sha256")]
    named = [one for one in files.values() if one.path.name == path.name]
    return files.get(path) or next(iter([*same, *named]), None)
