"""Parameters of records, with types, defaults and one line each, and the help that ends with them."""

import inspect
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from inspect import Parameter, cleandoc, formatannotation, signature
from pathlib import Path
from typing import Any, NamedTuple

import click

from .. import hooks
from ..estimators._object_parameters import settings_of
from ..hooks._lookup import named
from ..hooks._records import KINDS
from ._plugin_files import asked_name, parts_of
from ._shared import BadInput

_CALLED = {
    "domains": "to_item",
    "initializers": "target",
    "updates": "target",
    "models": "entry",
    "reproductions": "run",
    "datasets": "loader",
    "plots": "draw",
}
"""The field of a record whose parameters are listed, if it is not the factory."""
_PLAIN = (str, int, float, list, tuple, type(None))


class Described(NamedTuple):
    """A parameter, or a setting ``parameter.setting`` of an object that is the default of a parameter.

    The type and the summary are ``""`` if the parameter is not documented. The default is a JSON value, or the `repr`
    of other objects.
    """

    name: str
    type: str
    default: Any
    summary: str


def record_named(kind: str, name: str) -> hooks.Record:
    """Return the resolved record of a kind and a name, which may be ``FILE.py:NAME``.

    Raises
    ------
    BadInput
        If no record has this name.
    click.ClickException
        If the record cannot be imported.
    """
    try:
        name = asked_name(name, kind)
        return hooks.get_model(name) if kind == "models" else hooks.get_record(KINDS[kind], name)
    except ValueError as error:
        raise BadInput(str(error)) from error
    except ImportError as error:
        raise click.ClickException(str(error)) from error


def parameters(record: hooks.Record) -> Iterator[Described]:
    """Yield the parameters of a resolved record that have a default, and the settings of objects in them.

    `--set` accepts the names of these parameters and settings.
    """
    called = getattr(record, _CALLED.get(record.kind, "factory"))
    if record.kind == "estimators":
        settings = called().get_params(deep=False)
    else:
        given = signature(called).parameters.values()
        options = ("data", "resume") if record.kind == "reproductions" else ()  # of the command line
        settings = {one.name: one.default for one in given if one.default is not Parameter.empty}
        settings = {name: value for name, value in settings.items() if name not in options}
    for path, owner, value in settings_of(called, settings):
        kind, summary = _documented(owner, path.rpartition("__")[2])
        default = value if isinstance(value, _PLAIN) else repr(value)
        yield Described(path.replace("__", "."), kind, default, summary)


def write_parameters(formatter: click.HelpFormatter, record: hooks.Record) -> None:
    """Write the parameters of a resolved record in two columns."""
    rows = []
    for one in parameters(record):
        default = f"[{one.default}]" if one.default != "" else "['']"
        rows.append((one.name, ". ".join(filter(None, [f"{one.type} {default}".strip(), one.summary]))))
    formatter.write_dl(rows or [("none", "")])


# Docstrings in the format of numpydoc.


def _documented(owner: Callable[..., Any], name: str, seen: tuple[Any, ...] = ()) -> tuple[str, str]:
    """Return type and first sentence of a parameter, if necessary from a class or function named in the docstring."""
    texts = [cleandoc(one.__doc__ or "") for one in getattr(owner, "__mro__", (owner,)) if one is not object]
    kind, text = next((_entries(one)[name] for one in texts if name in _entries(one)), ("", ""))
    if not kind and (not text or re.match(r"(As|See)\b", text)):
        for word in re.findall(r"`~?([\w.]+)`", text or texts[0]):
            other = _named_in(owner.__module__, word)
            if other not in (None, owner, *seen) and any(found := _documented(other, name, (owner, *seen))):
                return found
    if not kind:
        known = signature(owner).parameters.get(name)
        annotation = Parameter.empty if known is None else known.annotation
        empty = annotation in (Parameter.empty, Any, "Any")
        kind = "" if empty else annotation if isinstance(annotation, str) else formatannotation(annotation)
    return plain(kind), plain(re.split(r"(?<=[.!?])\s+(?=[^a-z])", text)[0])


def _named_in(module: str, name: str) -> Any:
    """Return the class or function with a name in a module or its packages, or that of a registered model."""
    parts, (prefix, _, last) = module.split("."), name.rpartition(".")
    for place in (*(".".join(parts[:i]) for i in range(len(parts), 0, -1)), prefix):
        found = getattr(sys.modules.get(place), last, None)
        if inspect.isroutine(found) or inspect.isclass(found):
            return found
    with suppress(ValueError, ImportError):
        return hooks.get_model(name).entry
    return None


def _entries(docstring: str) -> dict[str, tuple[str, str]]:
    """Return type and text of each parameter that a docstring has in its section on parameters."""
    section = re.search(r"^Parameters\n-+\n(.*?)(?=\n\n\S[^\n]*\n--+\n|\Z)", docstring, re.DOTALL | re.MULTILINE)
    lines = re.sub(r",\n(?=\S)", ", ", section[1] if section else "").splitlines()
    found, names = dict[str, tuple[str, str]](), list[str]()
    for line in lines:
        if line and not line[0].isspace():
            heading, _, kind = line.partition(" : ")
            names = [name.strip(" *") for name in heading.split(",")]
            found |= dict.fromkeys(names, (kind.strip(), ""))
        else:
            found |= {name: (found[name][0], f"{found[name][1]} {line.strip()}".strip()) for name in names}
    return found


def plain(text: str) -> str:
    """Return text without the marks of reStructuredText."""
    return re.sub(r"(?::\w+:)?(`+)~?([^`]+)\1", r"\2", text)


# Help that ends with the parameters of the record that the arguments name.


class _WithParameters(click.Command):
    kind: str

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Keep the arguments, which are not parsed if help is requested."""
        ctx.meta["manifoldseq.arguments"] = list(args)
        return super().parse_args(ctx, args)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the parameters."""
        super().format_epilog(ctx, formatter)
        names = {asked for name, record in named(self.kind) for asked in (name, record.name)}
        words = ctx.meta.get("manifoldseq.arguments", ())
        for name in [word for word in words if word in names or Path((parts_of(word) or ("",))[0]).is_file()][:1]:
            record = record_named(self.kind, name)
            with formatter.section(f"Parameters of {asked_name(name, self.kind)}, --set NAME=VALUE"):
                write_parameters(formatter, record)


def with_parameters(kind: str) -> type[click.Command]:
    """Return a class of commands whose help ends with the parameters of the record in the arguments."""
    return type(f"CommandOn{kind.title()}", (_WithParameters,), {"kind": kind})
