"""Models part by part: where each part, initializer and update is defined, and who gives it."""

import inspect
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any

import click

from .. import hooks

_NO_PART = ("name", "api", "base", "input", "solver", "exact", "summary", "reference")
_WIDTH = 80
_LABEL = 30
"""The most columns that a label takes before its text."""


@dataclass(frozen=True)
class Part:
    """A part of a model.

    Parameters
    ----------
    label : str
        ``"value"``, ``"initializer seeds"``, …
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
    factors : tuple of str or None
        Of an update: the names of the factors that it replaces, () for all; None where that cannot be said.
    also : str
        Another name of the same one.
    """

    label: str
    kind: str
    name: str
    target: str
    file: str
    line: int
    given_by: str
    exact: bool = False
    default: bool = False
    factors: tuple[str, ...] | None = None
    also: str = ""

    @property
    def place(self) -> str:
        """File and line, the file from its package on."""
        return f"{_short(self.file, self.target)}:{self.line}" if self.file else self.target

    def as_dict(self) -> dict[str, Any]:
        """Return what ``--json`` prints."""
        found = {one.name: getattr(self, one.name) for one in fields(self) if one.name not in ("label", "also")}
        if self.kind != "initializers":
            del found["exact"], found["default"]
        if self.kind != "updates":
            del found["factors"]
        return found

    def said(self, giver: str) -> str:
        """Return the text after the label, with the plugin that gives it where that is another one."""
        function = self.target.partition(":")[2]
        same = function.rpartition(".")[2] in (self.kind, self.name, self.name.replace("-", "_"))
        said = [f"{self.place} ({function})" if self.file and not same else self.place]
        said += ["default"] * self.default + ["exact: the minimum itself"] * self.exact
        if self.factors is not None:
            said.append(f"replaces {', '.join(self.factors) or 'all factors'}")
        said += [f"from {self.given_by}"] * (self.given_by != giver) + [f"also called {self.also}"] * bool(self.also)
        return "; ".join(said)


def place_of_definition(value: Any) -> tuple[str, int]:
    """Return the file and the line where a function, class or callable object is defined; ("", 0) if it is not known.

    >>> Path(place_of_definition(partial(place_of_definition, 1))[0]).name
    '_parts.py'
    """
    value = _defined(value)
    with suppress(TypeError, OSError):
        file = inspect.getsourcefile(value)
        code = getattr(value, "__code__", None)
        if file:
            return str(Path(file).resolve()), code.co_firstlineno if code else max(inspect.getsourcelines(value)[1], 1)
    return "", 0


def _defined(value: Any) -> Any:
    """Return the function or class behind what is called."""
    while isinstance(value, partial):
        value = value.func
    value = inspect.unwrap(value)
    value = getattr(value, "__func__", value)
    return value if inspect.isroutine(value) or inspect.isclass(value) else type(value)


def _target(value: Any) -> str:
    value = _defined(value)
    return f"{value.__module__}:{value.__qualname__}"


def _short(file: str, target: str) -> str:
    """Return the path of a module from its package on, or that of a file from this folder on."""
    module = sys.modules.get(target.partition(":")[0])
    name = getattr(module, "__name__", "")
    if "." in name:
        depth = name.count(".") + (Path(file).stem == "__init__")
        return Path(*Path(file).parts[-depth - 1 :]).as_posix()
    path = Path(file)
    return path.relative_to(Path.cwd()).as_posix() if path.is_relative_to(Path.cwd()) else file


def parts(spec: hooks.ModelSpec) -> list[Part]:
    """Return the parts of a model with all of its parts, in the order of the fields of the record."""
    given_by = {key: str(source) for key, source in hooks.sources(spec).items()}
    registered = _registered(given_by[""])
    base = str(hooks.sources(hooks.get_model(spec.base))[""]) if spec.base else given_by[""]
    factors, found = _factors(spec), list[Part]()
    for one in fields(spec):
        value = getattr(spec, one.name)
        if one.name in _NO_PART or not value:
            continue
        own = registered is None or getattr(registered, one.name)
        giver = given_by[""] if own else base
        for name, target in value.items() if isinstance(value, Mapping) else [("", value)]:
            if isinstance(value, Mapping) and registered is not None:
                giver = given_by[""] if name in getattr(registered, one.name) else base
            singular = one.name.removesuffix("s") if name else one.name
            known: dict[str, Any] = {"given_by": given_by.get(f"{one.name} {name}", giver)}
            if one.name == "initializers":
                known |= {"exact": name in spec.exact, "default": name == next(iter(value))}
            if one.name == "updates" and factors is not None:
                known |= {"factors": factors.get(name)}
            label = f"{singular} {name}".strip()
            file, line = place_of_definition(target)
            found.append(Part(label, one.name, name, _target(target), file, line, **known))
    return found


def _registered(source: str) -> hooks.ModelSpec | None:
    """Return the record of a model as it was registered."""
    for plugin, record in hooks.records("models"):
        if isinstance(record, hooks.ModelSpec) and source.split(" ")[0] == f"{plugin.name}:{record.name}":
            return record
    return None


def _factors(spec: hooks.ModelSpec) -> dict[str, tuple[str, ...]] | None:
    """Return the factors that the updates of a model replace; None where that takes data that are not there."""
    if not spec.updates:
        return {}
    if spec.update_factors is None:
        return dict.fromkeys(spec.updates, ())
    known = dict[str, tuple[str, ...]]()
    for _, record in hooks.records("updates"):
        if isinstance(record, hooks.UpdateSpec) and record.name in spec.updates and record.model == spec.name:
            known[record.name] = record.factors
    if spec.example is None:
        return known or None
    import numpy as np

    with suppress(Exception):  # an example of somebody else's
        model = spec.problem(spec.example(np.random.default_rng(0))).data.model
        return {name: tuple(given) for name, given in spec.update_factors(model).items()}
    return known or None


def once(found: Sequence[Part]) -> list[Part]:
    """Return parts without the second name of an initializer, ``plugin:name``, which the first one mentions."""
    made = list[Part]()
    for part in found:
        if ":" in part.name:
            short = part.name.partition(":")[2]
            same = [i for i, one in enumerate(made) if (one.kind, one.name, one.line) == (part.kind, short, part.line)]
            if same and made[same[0]].file == part.file:
                first = made[same[0]]
                made[same[0]] = Part(**{**vars(first), "also": part.name})
                continue
        made.append(part)
    return made


def echo_parts(spec: hooks.ModelSpec) -> None:
    """Print who gives a model, its kind of data, its default solver, and its parts."""
    giver = str(hooks.sources(spec)[""])
    rows = [("given by", giver), *([("base", spec.base)] if spec.base else [])]
    rows += [("input", spec.input), ("solver", spec.solver or "that of minimize")]
    echo_fields(("model", spec.name), rows)
    click.echo()
    echo_fields(("part", "defined in"), [(part.label, part.said(giver)) for part in once(parts(spec))])


def every(kind: str) -> Iterator[tuple[hooks.ModelSpec, Part]]:
    """Go through the initializers or updates of all models, also those that other records add."""
    from ..hooks._lookup import named

    for name, _ in named("models"):
        try:
            spec = hooks.get_model(name)
            found = [part for part in parts(spec) if part.kind == kind]
        except (ImportError, ValueError) as error:
            click.echo(f"Warning: {error}", err=True)
            continue
        for part in once(found):
            yield spec, part


def echo_fields(header: tuple[str, str], rows: Sequence[tuple[str, str]]) -> None:
    """Print labels and their texts, folded to the width of the terminal, or to 80 columns where there is none.

    A label that is too long for its column has its text on the next line.
    """
    width = shutil.get_terminal_size((_WIDTH, 24)).columns if sys.stdout.isatty() else _WIDTH
    width = max(width, 2 * _LABEL)
    indent = 2 + max((len(label) for label, _ in [header, *rows] if len(label) <= _LABEL), default=0)
    for label, text in [header, *rows]:
        lines = list(_folded(text, width - indent)) or [""]
        if len(label) > indent - 2:
            for line in _folded(label, width):
                click.echo(line)
            label = ""
        for line in lines:
            click.echo(f"{label:{indent}}{line}".rstrip())
            label = ""


def _folded(text: str, width: int) -> Iterator[str]:
    """Yield the lines of a text; a path that is too long for one is cut after a slash."""
    line = ""
    for word in text.split():
        if line and len(line) + 1 + len(word) > width:
            yield line
            line = ""
        line = f"{line} {word}".lstrip()
        while len(line) > width:
            cut = line.rfind("/", 1, width) + 1 or width
            yield line[:cut]
            line = line[cut:]
    if line:
        yield line
