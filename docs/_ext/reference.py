"""Pages made from the code before a build: command line, registered records, public names, picture of the layers."""

import importlib
import inspect
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import click
import layers

import manifoldseq as ms
from manifoldseq.cli._main import cli
from manifoldseq.hooks._records import KINDS

VALUES = {  # public names that are neither functions nor classes
    "AGREEMENT": "The axis label of steps of a choice by the agreement of random halves of the data.",
    "BagsLike": "Bags of one view, a list of N arrays (T_i, d) or an array (N, T, d) or (N, d), or a list of views.",
    "BUNDLED": "The distributions of the bundled plugins, installed or not: a tuple of names.",
    "COMPARED": 'The largest number of members whose halves are compared for ``n_clusters="auto"``: an integer.',
    "RowsLike": "Rows of shape (N, D): an array, a data frame, nested lists, or a sparse matrix where it is accepted.",
    "SequencesLike": "Sequences: a list of N arrays or data frames (T_i, d), or one array (N, T, d).",
    "SPLITS": 'The number of pairs of random halves for ``n_clusters="auto"``: an integer.',
    "hookimpl": "The decorator of hook functions: see :doc:`/develop/hooks`.",
    "Row": "A row of a table: a dict with what `row` gives.",
    "Rows": "A list of rows.",
    "ViewsLike": "The first view, an array or a data frame (N, d), or the list of all views.",
}


PACKAGES = [*layers.plugins(), "manifoldseq_papers"]


def pages() -> dict[str, str]:
    """Return the text of every generated page, by its path below docs/reference/."""
    packages = [value for name in ms.__all__ if isinstance(value := getattr(ms, name), ModuleType)]
    modules = [ms, *packages, *(importlib.import_module(name) for name in PACKAGES)]
    return {
        "layers.svg": layers.draw(),
        "command-line.rst": "\n".join(command_line()),
        "catalogue.rst": "\n".join(catalogue()),
        "api/index.rst": "\n".join(api_index(modules)),
        **{f"api/{module.__name__}.rst": "\n".join(api(module)) for module in modules},
    }


def command_line() -> Iterator[str]:
    """Yield the page of the command line."""
    context = click.Context(cli, info_name="manifoldseq")
    yield from _heading("Command line", "=")
    yield from _help(cli.help, cli.epilog)
    for name in cli.list_commands(context):
        command = cli.get_command(context, name)
        if command is not None and not command.hidden:
            yield from _command(command, click.Context(command, context, name))


def _command(command: click.Command, context: click.Context) -> Iterator[str]:
    yield from _heading(context.info_name or "", "-")
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    yield f".. program:: {context.command_path}\n\n.. code-block:: console\n\n    $ {usage}\n"
    yield from _help(command.help, command.epilog)
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if isinstance(parameter, click.Option) and record and "--help" not in parameter.opts:
            yield from _option(parameter, context, record[1])


def _option(option: click.Option, context: click.Context, says: str) -> Iterator[str]:
    value = "" if option.is_flag else f" {option.make_metavar(context).removesuffix(' RANGE')}"
    yield f".. option:: {', '.join(f'{name}{value}' for name in [*option.opts, *option.secondary_opts])}\n"
    yield f"    {_plain(' '.join(says.split()))}\n"


def _help(*texts: str | None) -> Iterator[str]:
    r"""Yield help and epilogue; a paragraph after ``\b`` keeps its lines, as in a terminal."""
    for paragraph in re.split(r"\n\s*\n", "\n\n".join(inspect.cleandoc(text or "") for text in texts)):
        kept = paragraph.lstrip().startswith("\b")
        lines = paragraph.replace("\b", "").strip("\n").splitlines()
        if kept and any("$ " in line or line.startswith("  ") for line in lines):
            if lines and not lines[0].startswith((" ", "$")):
                yield f"{_plain(lines.pop(0))}\n"
            yield ".. code-block:: sh\n"
            yield from (f"    {line}" for line in inspect.cleandoc("\n".join(lines)).splitlines())
            yield ""
        elif kept:
            yield from (f"| {_plain(line)}" for line in lines)
            yield ""
        else:
            yield f"{_plain(' '.join(paragraph.split()))}\n"


def catalogue() -> Iterator[str]:
    """Yield the page of what the core and the bundled plugins register."""
    yield from _heading("Built-in models, solvers and data sets", "=")
    yield "Every name on this page can be used in code and on the command line. Other plugins add names:"
    yield "``manifoldseq list`` lists all names of your installation.\n"
    bundled = {plugin.name for plugin in ms.hooks.plugins() if plugin.package in PACKAGES}
    for kind in KINDS:
        records = [(p.name, record) for p, record in ms.hooks.records(kind) if p.name in {"manifoldseq", *bundled}]
        if records:
            yield from _heading(kind.capitalize(), "-")
            yield ".. list-table::\n    :header-rows: 1\n    :widths: 25 15 60\n"
            for row in [("name", "from", "summary"), *_rows(records)]:
                yield f"    * - {row[0]}\n      - {row[1]}\n      - {row[2]}"
            yield ""


def _rows(records: list[tuple[str, Any]]) -> Iterator[tuple[str, str, str]]:
    for plugin, record in records:
        yield f"``{record.name}``", plugin, _plain(record.as_dict()["summary"])


def api_index(modules: list[ModuleType]) -> Iterator[str]:
    """Yield the list of the packages."""
    yield from _heading("Public names", "=")
    yield "A name on these pages stays what it is between versions, or the changelog says so. What is not here is"
    yield "private.\n"
    yield ".. toctree::\n    :hidden:\n"
    for module in modules:
        yield f"    {module.__name__.removeprefix('manifoldseq.')} <{module.__name__}>"
    yield "\n.. list-table::\n    :widths: 30 70\n"
    for module in modules:
        yield f"    * - :doc:`{module.__name__}`\n      - {_plain(_summary(module))}"
    yield ""


def api(module: ModuleType) -> Iterator[str]:
    """Yield the page of a package: its public names, but those that `manifoldseq` itself has."""
    names = [name for name in module.__all__ if not isinstance(getattr(module, name), ModuleType)]
    own = [name for name in names if not name.startswith("__") and (module is ms or not hasattr(ms, name))]
    names = own or names  # a package whose names `manifoldseq` has all
    yield from _heading(module.__name__, "=")
    yield f"{_plain(_summary(module))}\n\n.. currentmodule:: {module.__name__}\n"
    values = [name for name in names if not (inspect.isclass(v := getattr(module, name)) or inspect.isroutine(v))]
    yield ".. autosummary::\n    :toctree: names\n    :nosignatures:\n"
    yield from (f"    {name}" for name in sorted({*names} - {*values}, key=str.lower))
    yield ""
    yield from (f".. data:: {name}\n\n    {VALUES[name]}\n" for name in values)


def _summary(module: ModuleType) -> str:
    return " ".join((inspect.getdoc(module) or "").split("\n\n")[0].split())


def _heading(text: str, line: str) -> Iterator[str]:
    yield f"{text}\n{line * len(text)}\n"


def _plain(text: str) -> str:
    """Escape what reStructuredText would read as markup, except `literals`."""
    parts = re.split(r"`+([^`]+)`+", text)
    parts[::2] = [re.sub(r"([\\*`|_<>])", r"\\\1", part) for part in parts[::2]]
    parts[1::2] = [f"``{part}``" for part in parts[1::2]]
    return "".join(parts)


def write(app: Any, config: Any) -> None:
    """Write the pages that changed, and keep apart the pages of names that differ in case alone (``Objective``)."""
    lower = Counter(name.lower() for name in ms.__all__)
    twins = [name for name in ms.__all__ if lower[name.lower()] > 1 and not name.islower()]
    config.autosummary_filename_map = {f"manifoldseq.{name}": f"manifoldseq.{name}-class" for name in twins}
    folder = Path(app.confdir) / "reference"
    for name, text in pages().items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def setup(app: Any) -> dict[str, bool]:
    """Write before Sphinx looks for its sources."""
    app.connect("config-inited", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
