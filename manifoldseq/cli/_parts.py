"""The parts of models: the file, line and plugin that define each part, initializer and update."""

import inspect
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any

import click

from .. import hooks
from ._shared import echo_table

_NO_PART = ("name", "api", "base", "input", "solver", "exact", "summary", "reference")


@dataclass(frozen=True)
class Part:
    """A part of a model.

    Parameters
    ----------
    kind, name : str
        The field of the record, and the name in it where it is a mapping.
    target : str
        ``"module:qualname"``.
    file : str
        Absolute; "" where it is not known.
    line : int
    given_by : str
        ``"plugin:name version"`` of the record that has it.
    exact : bool
        Of an initializer: it is the minimum of the cost.
    default : bool
        Of an initializer: it is used where none is named.
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
        """File and line, the file from its package on, and what is special about the part."""
        module = self.target.partition(":")[0]
        file = Path(*Path(self.file).parts[-module.count(".") - 1 :])
        return f"{file.as_posix()}:{self.line}" + ", default" * self.default + ", exact" * self.exact


def parts(spec: hooks.ModelSpec) -> Iterator[Part]:
    """Go through the parts of a model with all of its parts, in the order of the fields of the record."""
    for one in fields(spec):
        value = getattr(spec, one.name)
        if one.name not in _NO_PART and value:
            for name, target in value.items() if isinstance(value, Mapping) else [("", value)]:
                function, giver = _defined(target), hooks.sources(spec)[f"{one.name} {name}".strip()]
                first = one.name == "initializers" and name == next(iter(value))
                exact = one.name == "initializers" and name in spec.exact
                known = (f"{function.__module__}:{function.__qualname__}", *_place(function), str(giver), exact, first)
                yield Part(one.name, name, *known)


def _place(value: Any) -> tuple[str, int]:
    """Return the file and the line where a function or class is defined; ("", 0) if that is not known."""
    with suppress(TypeError, OSError):
        return str(Path(inspect.getfile(value)).resolve()), max(inspect.getsourcelines(value)[1], 1)
    return "", 0


def _defined(value: Any) -> Any:
    """Return the function or class behind what is called."""
    while isinstance(value, partial):
        value = value.func
    value = inspect.unwrap(value)
    value = getattr(value, "__func__", value)
    return value if inspect.isroutine(value) or inspect.isclass(value) else type(value)


def echo_parts(spec: hooks.ModelSpec) -> None:
    """Print who gives a model, its kind of data, its default solver, and its parts."""
    giver = str(hooks.sources(spec)[""])
    about = {"given by": giver, "base": spec.base, "input": spec.input, "solver": spec.solver or "that of minimize"}
    echo_table(("model", spec.name), [(key, value) for key, value in about.items() if value])
    click.echo()
    rows = [
        (f"{one.kind.removesuffix('s')} {one.name}" if one.name else one.kind, one.target.partition(":")[2], one.place,
         one.given_by if one.given_by != giver else "")
        for one in parts(spec)
    ]  # fmt: skip
    echo_table(("part", "function", "defined in", "given by another"), rows)


def parts_as_json(spec: hooks.ModelSpec) -> list[dict[str, Any]]:
    """Return what ``--json`` prints about the parts."""
    return [asdict(one) for one in parts(spec)]
