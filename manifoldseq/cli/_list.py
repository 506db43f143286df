"""``manifoldseq list``: the kinds of records, the records of a kind, and one record with its parameters."""

import inspect
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any

import click

from .. import hooks
from .._quoted import quoted
from ..hooks import _hookspecs
from ..hooks._bundled import how_to_install, missing_of_kind
from ..hooks._lookup import asked_as, named
from ..hooks._records import KINDS
from ._parameters import parameters, plain, record_named, write_parameters
from ._shared import BadInput, echo_json, echo_table, json_option, say, screen, suggestion

_PLUGINS = "plugins"


def _complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete a kind, or the name of a record of the given kind."""
    if parameter.name == "kind":
        known = [_PLUGINS, *KINDS]
    elif (kind := context.params.get("kind")) == _PLUGINS:
        known = [plugin.name for plugin in hooks.plugins()]
    else:
        known = [name for name, _ in named(kind)] if kind in KINDS else []
    return sorted(name for name in known if name.startswith(incomplete))


@click.command("list")
@click.argument("kind", required=False, shell_complete=_complete)
@click.argument("name", required=False, shell_complete=_complete)
@json_option
def list_(kind: str | None, name: str | None, as_json: bool) -> None:
    """List registered records, or the parameters of NAME.

    Without arguments, the kinds of records are listed. KIND is one of these kinds (for example, models) or the word
    plugins. With KIND, every name of this kind is listed with the plugin that registers it and a summary. With NAME,
    the parameters are printed with their types, defaults and descriptions. For a model, the file and line of every part
    are also printed. For a plugin, its records and errors are printed.

    \b
    Examples:
      manifoldseq list
      manifoldseq list estimators
      manifoldseq list estimators lds-kmeans
      manifoldseq list models hope.vmf --json
    """
    if kind is not None and kind not in (known := (_PLUGINS, *KINDS)):
        raise BadInput(f"unknown kind {quoted(kind)}: {suggestion(kind, known)}The kinds are {', '.join(known)}")
    if kind is None:
        _kinds(as_json)
    elif kind == _PLUGINS:
        _plugins(name, as_json)
    elif name is None:
        _records(kind, as_json)
    else:
        _record(kind, name, as_json)


def _kinds(as_json: bool) -> None:
    rows = [(_PLUGINS, len(hooks.plugins()), "Distributions and files that register records.")]
    for kind in KINDS:
        says = inspect.getdoc(getattr(_hookspecs, f"manifoldseq_{kind}")) or ""
        line = plain(says.partition("\n")[0]).removeprefix("Register ").removeprefix(f"{kind}: ")
        rows.append((kind, len(hooks.records(kind)), line[:1].upper() + line[1:]))
    if as_json:
        echo_json([{"name": kind, "records": count, "summary": line} for kind, count, line in rows])
    else:
        echo_table(("kind", "records", "summary"), [(kind, str(n), line) for kind, n, line in rows], right=(1,))


def _records(kind: str, as_json: bool) -> None:
    entries = hooks.records(kind)
    if as_json:
        echo_json([{"plugin": plugin.name, **record.as_dict()} for plugin, record in entries])
    elif not entries:
        say(f"No {kind} are registered.")
    else:
        rows = [(asked_as(*one), one[0].name, one[1].as_dict()["summary"]) for one in entries]
        echo_table(("name", "from", "summary"), rows)
    if not as_json:
        for bundled, names in missing_of_kind(kind).items():
            say("", f"{bundled} is not installed. It has {', '.join(names.split())}: {how_to_install(bundled)}.")


def _record(kind: str, name: str, as_json: bool) -> None:
    record = record_named(kind, name)
    about = record.as_dict()
    if as_json:
        described = {one.name: dict(zip(one._fields[1:], one[1:], strict=True)) for one in parameters(record)}
        parts = (
            {"parts_defined": [asdict(one) for one in _parts(record)]} if isinstance(record, hooks.ModelSpec) else {}
        )
        echo_json({**about, "parameters": described, **parts})
        return
    say(*filter(None, (about["summary"], about.get("paper"))))
    if isinstance(record, hooks.ModelSpec):
        _echo_parts(record)
    say("")
    formatter = click.HelpFormatter(width=screen())
    with formatter.section("Parameters"):
        write_parameters(formatter, record)
    click.echo(formatter.getvalue(), nl=False)


def _plugins(name: str | None, as_json: bool) -> None:
    found = hooks.plugins()
    if name is not None:
        found = [plugin for plugin in found if plugin.name == name]
        if not found:
            known = [plugin.name for plugin in hooks.plugins()]
            there = ", ".join(known) or "none"
            raise BadInput(f"unknown plugin {quoted(name)}: {suggestion(name, known)}The plugins are: {there}")
    if as_json:
        echo_json(found[0].as_dict() if name is not None else [plugin.as_dict() for plugin in found])
        return
    if not found:
        say("No plugins are installed.")
        return
    rows = [
        (plugin.name, plugin.distribution, plugin.version, plugin.status, str(len(plugin.records))) for plugin in found
    ]
    echo_table(("plugin", "distribution", "version", "status", "records"), rows, right=(4,))
    if name is not None and (registers := _registers(found[0])):
        say("")
        echo_table(("kind", "names"), registers)
    for plugin in found:
        causes = [plugin.failure.message] if plugin.failure else []
        say(*(f"{plugin.name}: {message}" for message in [*causes, *_warnings(plugin)]))


def _registers(plugin: hooks.Plugin) -> list[tuple[str, str]]:
    registers: dict[str, Any] = plugin.as_dict()["registers"]
    return [(kind, ", ".join(names)) for kind, names in registers.items()]


def _warnings(plugin: hooks.Plugin) -> list[str]:
    return [*(fault.message for fault in plugin.warnings), *plugin.clashes]


# Models part by part: where each part, initializer and update is defined, and who gives it.

_NO_PART = ("name", "api", "base", "input", "solver", "exact", "summary", "reference")


@dataclass(frozen=True)
class _Part:
    """A part of a model.

    Parameters
    ----------
    kind, name : str
        The field of the record, and the name in it if the field is a mapping.
    target : str
        ``"module:qualname"``.
    file : str
        Absolute path, or "" if it is not known.
    line : int
    given_by : str
        ``"plugin:name version"`` of the record that contains the part.
    exact : bool
        Whether an initializer is the minimum of the cost.
    default : bool
        Whether an initializer is used if none is named.
    """

    kind: str
    name: str
    target: str
    file: str
    line: int
    given_by: str
    exact: bool = False
    default: bool = False

    @property
    def place(self) -> str:
        """File, relative to the folder of its package, line, and whether the part is a default or exact."""
        module = self.target.partition(":")[0]
        file = Path(*Path(self.file).parts[-module.count(".") - 1 :])
        return f"{file.as_posix()}:{self.line}" + ", default" * self.default + ", exact" * self.exact


def _parts(spec: hooks.ModelSpec) -> Iterator[_Part]:
    """Yield all parts of a model, in the order of the fields of the record."""
    for one in fields(spec):
        value = getattr(spec, one.name)
        if one.name not in _NO_PART and value:
            for name, target in value.items() if isinstance(value, Mapping) else [("", value)]:
                function, giver = _defined(target), hooks.sources(spec)[f"{one.name} {name}".strip()]
                first = one.name == "initializers" and name == next(iter(value))
                exact = one.name == "initializers" and name in spec.exact
                known = (f"{function.__module__}:{function.__qualname__}", *_place(function), str(giver), exact, first)
                yield _Part(one.name, name, *known)


def _place(value: Any) -> tuple[str, int]:
    """Return the file and the line where a function or class is defined; ("", 0) if that is not known."""
    with suppress(TypeError, OSError):
        return str(Path(inspect.getfile(value)).resolve()), max(inspect.getsourcelines(value)[1], 1)
    return "", 0


def _defined(value: Any) -> Any:
    """Return the function or class behind a callable."""
    while isinstance(value, partial):
        value = value.func
    value = inspect.unwrap(value)
    value = getattr(value, "__func__", value)
    return value if inspect.isroutine(value) or inspect.isclass(value) else type(value)


def _echo_parts(spec: hooks.ModelSpec) -> None:
    """Print the plugin of a model, its kind of data, its default solver, and its parts."""
    giver = str(hooks.sources(spec)[""])
    about = {"given by": giver, "base": spec.base, "input": spec.input, "solver": spec.solver or "default of minimize"}
    echo_table(("model", spec.name), [(key, value) for key, value in about.items() if value])
    click.echo()
    rows = [
        (f"{one.kind.removesuffix('s')} {one.name}".strip() if one.name else one.kind,
         f"{one.target.partition(':')[2]} {one.place}" + (f", given by {one.given_by}" * (one.given_by != giver)))
        for one in _parts(spec)
    ]  # fmt: skip
    echo_table(("part", "function and place"), rows)
