"""Code of several commands: errors of bad input, options, aligned tables, JSON, suggestions, completion."""

import difflib
import json
from collections.abc import Callable, Iterable, Sequence
from itertools import zip_longest
from shutil import get_terminal_size
from textwrap import wrap
from typing import Any

import click


class BadInput(click.ClickException):
    """Bad input: an error message of one line, exit status 2."""

    exit_code = 2


json_option: Callable[..., Any] = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
set_option: Callable[..., Any] = click.option(
    "--set", "settings", multiple=True, metavar="NAME=VALUE", help="Set a parameter. This option can be repeated."
)
read_option: Callable[..., Any] = click.option(
    "--read",
    "reading",
    multiple=True,
    metavar="NAME=VALUE",
    help="Set an option of the reader, such as id=subject for .csv files. `manifoldseq fit --help` lists all options. "
    "This option can be repeated.",
)
views_option: Callable[..., Any] = click.option(
    "--views",
    metavar="COLUMNS",
    help="Assign the columns of a file to views. Pass either the number of columns in each view (76,216), or a list of "
    "column names or column indices for each view, with a colon between views (a,b:c_*,-c_2 or 0-2:5,7). Names can "
    "contain the wildcards * and ?, and a minus sign excludes a column. For several files, pass one list "
    "per file, with a colon between the lists.",
)


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return ``"did you mean 'x'? "`` if a known name is similar, and otherwise an empty string.

    Settings of objects, ``object.x``, are compared by the part after the last dot; settings of the same object come
    first.
    """
    head, _, last = name.rpartition(".")
    ends = {one.rpartition(".")[2]: one for one in sorted(known, key=lambda one: "." not in one)}
    siblings = {end: one for end, one in ends.items() if one.rpartition(".")[0] == head}
    elsewhere = {} if head and siblings else ends
    same = [among[last] for among in (siblings, elsewhere) if last in among]
    close = [among[one] for among in (siblings, elsewhere) for one in difflib.get_close_matches(last, among, 1)]
    return f"did you mean {[*same, *close][0]!r}? " if same or close else ""


def completed_by(kind: str) -> Callable[[click.Context, click.Parameter, str], list[Any]]:
    """Return a function that completes the registered names of a kind in a shell; files are completed for data."""

    def complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[Any]:
        from click.shell_completion import CompletionItem

        from ..hooks._lookup import named

        names = sorted(name for name, _ in named(kind) if name.startswith(incomplete))
        files = [CompletionItem(incomplete, type="file")] if kind in ("datasets", "models") else []
        return [*map(CompletionItem, names), *files]

    return complete


def echo_json(value: Any) -> None:
    """Print JSON for another program."""
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


def echo_table(header: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> None:
    """Print rows in aligned columns that fit the screen; the columns in `right` are right-aligned.

    The widest columns are folded between words until the table fits.
    """
    table = [header, *rows] if any(header) else rows
    columns = [[row[i] for row in table] for i in range(len(header))]
    widths = [max(map(len, column), default=0) for column in columns]
    least = [max((len(word) for cell in column for word in cell.split()), default=0) for column in columns]
    while sum(widths) + 2 * (len(widths) - 1) > screen():
        wide = [i for i in range(len(widths)) if widths[i] > least[i]]
        if not wide:
            break
        widths[max(wide, key=lambda i: (i in right, widths[i]))] -= 1  # of numbers, only the heading is folded
    for row in table:
        cells = [_folded(cell.strip(), width) for cell, width in zip(row, widths, strict=True)]
        for parts in zip_longest(*cells, fillvalue=""):
            line = [
                part.rjust(width) if i in right else part.ljust(width)
                for i, (part, width) in enumerate(zip(parts, widths, strict=True))
            ]
            click.echo("  ".join(line).rstrip())


def say(*lines: str) -> None:
    """Print lines, wrapped at the width of the screen; a line with columns continues below its last column."""
    for line in lines:
        indent = " " * (line.rstrip().rfind("  ") + 2 if "  " in line.rstrip() else 0)
        click.echo("\n".join(_folded(line, screen(), indent)))


def _folded(text: str, width: int, indent: str = "") -> list[str]:
    wrapped = wrap(text, width, subsequent_indent=indent, break_on_hyphens=False, break_long_words=False)
    return wrapped if len(text) > width else [text]


def screen() -> int:
    """Return the width for wrapped output."""
    return get_terminal_size().columns  # COLUMNS, else those of a terminal, else 80
