"""Settings from the command line, ``--set name=value``, and from a file, ``--config run.toml``."""

import ast
import tomllib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from .._quoted import quoted
from ..estimators._object_parameters import all_settings, plain_settings, with_objects
from ..storage import ReadError, read_bytes
from ._plugin_files import load_files_of, with_names
from ._shared import BadInput, suggestion

_READ = "read."
_KINDS = ("kernel", "solver")
"""Parameters whose string values are registered names; in a table of a file, ``name``."""


def parse_pairs(pairs: Iterable[str], option: str = "--set") -> dict[str, Any]:
    """Parse ``name=value`` pairs; a value is a Python literal, or else a string."""
    values: dict[str, Any] = {}
    for pair in pairs:
        name, separator, text = pair.partition("=")
        if not separator:
            raise BadInput(f"{option} {quoted(pair)} has no '=': write {option} name=value")
        values[name.strip()] = _literal(text)
    return values


def merged(config: Mapping[str, Any], pairs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a file, overridden by the shell.

    If the shell sets an object, the settings of this object in the file are dropped.
    """
    kept = {name: value for name, value in config.items() if name.partition(".")[0] not in pairs}
    return {**kept, **pairs}


def spread(chosen: Mapping[str, Any], owner: Callable[..., Any], current: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings with ``name.setting`` in place of the tables of a file.

    For example, the table ``[set.kernel]`` with ``name = "grassmann"`` and ``n_steps = 2`` becomes
    ``{"kernel": "grassmann", "kernel.n_steps": 2}``.
    """
    known, made = known_settings(owner, current), dict[str, Any]()

    def put(path: str, value: Any) -> None:
        is_object = path.rpartition(".")[2] in _KINDS or any(one.startswith(f"{path}.") for one in known)
        if not (isinstance(value, Mapping) and is_object):
            made[path] = value
            return
        inside = dict(value)
        if "name" in inside and f"{path}.name" not in known:
            made[path] = inside.pop("name")
        for setting, one in inside.items():
            put(f"{path}.{setting}", one)

    for name, value in chosen.items():
        put(name, value)
    return made


def known_settings(owner: Callable[..., Any], current: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters and, as ``name.setting``, the settings of the objects among them."""
    return {_dotted(path): value for path, value in all_settings(owner, current).items()}


def with_settings(
    what: str, owner: Callable[..., Any], current: Mapping[str, Any], chosen: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the parameters of a function or estimator, with settings ``name.setting`` applied to the objects.

    Parameters
    ----------
    what : str
        Its name in messages, such as ``"estimator 'lds-kmeans'"``.
    owner : callable
        The function or class.
    current : mapping of str to object
        Its default parameters.
    chosen : mapping of str to object

    Raises
    ------
    BadInput
        If a name is unknown.
    """
    chosen, made = with_names(chosen, current), dict[str, Any]()
    for depth in sorted({name.count(".") for name in chosen}):  # an object first, then what it has
        some = {name: value for name, value in chosen.items() if name.count(".") == depth}
        now = {**current, **made}
        check_names(some, known_settings(owner, now), what)
        try:
            made |= with_objects(owner, now, {name.replace(".", "__"): value for name, value in some.items()})
        except (ValueError, TypeError) as error:
            raise BadInput(str(error)) from error
    return made


def written(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters as settings, the inverse of `with_settings`."""
    return {_dotted(path): value for path, value in plain_settings(params).items()}


def _dotted(path: str) -> str:
    return path.replace("__", ".")


def check_names(values: Iterable[str], known: Iterable[str], what: str) -> None:
    """Raise an error for an unknown name.

    Raises
    ------
    BadInput
        If a name is unknown. The message suggests the nearest name and lists all names.
    """
    names = sorted(known)
    for name in values:
        if name not in names:
            have = f"It has {', '.join(names)}" if names else "It has no parameters"
            raise BadInput(f"{what} has no parameter {quoted(name)}: {suggestion(name, names)}{have}")


def read_config(path: Path | None, known: Mapping[str, type | tuple[type, ...]]) -> dict[str, Any]:
    """Read a ``run.toml``.

    Parameters
    ----------
    path : Path or None
        The file; None gives empty settings.
    known : mapping of str to type
        The keys that the command accepts, with the types of their values. Lists contain strings.

    Returns
    -------
    dict
        The settings; ``"set"`` and ``"read"`` always exist. Names in the list ``none`` are None in ``"set"`` or, with
        the prefix ``read.``, in ``"read"``. The named plugin files are loaded.
    """
    if path is None:
        return {"set": {}, "read": {}}
    try:
        config = tomllib.loads(read_bytes(path).decode())
    except ReadError as error:
        raise BadInput(str(error)) from error
    except (OSError, ValueError) as error:
        raise BadInput(f"{path} is not a TOML file: {error}") from error
    types: dict[str, Any] = {**known, "seed": int, "set": dict, "read": dict, "none": list, "plugins": list}
    for name, value in config.items():
        if name not in types:
            raise BadInput(
                f"{path} has the key {quoted(name)}: {suggestion(name, types)}The keys are {', '.join(types)}"
            )
        wanted = types[name] if isinstance(types[name], tuple) else (types[name],)
        texts = not isinstance(value, list) or all(isinstance(item, str) for item in value)
        if not texts or (type(value) not in wanted and not (float in wanted and type(value) is int)):
            raise BadInput(f"{path} has {name} = {quoted(value)}: write a value of type {_types(wanted)}")
    if not 0 <= config.get("seed", 0) < 2**32:
        raise BadInput(f"{path} has seed = {config['seed']}: write a number of at least 0, below 2**32")
    load_files_of(path, config.pop("plugins", ()))
    none = config.pop("none", ())
    chosen = dict.fromkeys(name for name in none if not name.startswith(_READ))
    reading = dict.fromkeys(name.removeprefix(_READ) for name in none if name.startswith(_READ))
    return {**config, "set": {**config.get("set", {}), **chosen}, "read": {**config.get("read", {}), **reading}}


def _types(wanted: tuple[type, ...]) -> str:
    return " or ".join("list of str" if one is list else one.__name__ for one in wanted)


def to_config(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings in the form of `read_config`, with a list of the names of settings that are None."""
    values = settings["set"]
    none = [name for name, value in values.items() if value is None]
    none += [_READ + name for name, value in settings.get("read", {}).items() if value is None]
    given = {name: value for name, value in values.items() if value is not None}
    return {**settings, **({"none": none} if none else {}), "set": given}


def _literal(text: str) -> Any:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text
