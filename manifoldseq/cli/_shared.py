"""Code of several commands: errors of bad input, options, aligned tables, JSON, suggestions, completion."""

import difflib
import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import click


class BadInput(click.ClickException):
    """Bad input: an error message of one line, exit status 2."""

    exit_code = 2


json_option: Callable[..., Any] = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
set_option: Callable[..., Any] = click.option(
    "--set", "settings", multiple=True, metavar="NAME=VALUE", help="A parameter; may be repeated."
)
read_option: Callable[..., Any] = click.option(
    "--read",
    "reading",
    multiple=True,
    metavar="NAME=VALUE",
    help="An option of the reader, such as id=subject for .csv files (all options: manifoldseq fit --help); may be "
    "repeated.",
)
views_option: Callable[..., Any] = click.option(
    "--views",
    metavar="COLUMNS",
    help="Columns of each view of a file: the sizes of the views (76,216); or names, with wildcards * and ?, or "
    "numbers of columns, with a colon between views (a,b:c_*,-c_2 or 0-2:5,7). For several files, the columns of each.",
)
seed_option: Callable[..., Any] = click.option(
    "--seed", type=click.IntRange(0, 2**32 - 1), metavar="N", help="Seed of all random choices [0]."
)
output_option: Callable[..., Any] = click.option(
    "-o", "--output", type=click.Path(file_okay=False, path_type=Path), help="Run directory to write [runs/…]."
)
resume_option: Callable[..., Any] = click.option(
    "--resume", is_flag=True, help="Continue the run in RUN_DIR from its checkpoint, or start it."
)
every_option: Callable[..., Any] = click.option(
    "--checkpoint-every", "every", type=click.FloatRange(0), default=10.0, metavar="SECONDS",
    help="Time between checkpoints [10].",
)  # fmt: skip
config_option: Callable[..., Any] = click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Settings of another run, its run.toml; options of the command take precedence.",
)


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return ``"did you mean 'x'? "`` if a known name is similar, else an empty text.

    Settings of objects, ``object.x``, are compared by the part after the last dot, with those of the same object first.
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
    """Print rows in aligned columns, those numbered in `right` flush right.

    On a terminal the last column is folded at the width of the screen, below its own beginning.
    """
    widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]
    indent = sum(widths[:-1]) + 2 * (len(widths) - 1)
    width_left = _screen() - indent
    for row in [header, *rows] if any(header) else rows:
        cells = [
            cell.rjust(width) if i in right else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines = _folded(cells[-1].rstrip(), width_left) if width_left >= 20 else [cells[-1]]
        click.echo("  ".join([*cells[:-1], lines[0]]).rstrip())
        for line in lines[1:]:
            click.echo(" " * indent + line)


def _folded(text: str, width: int) -> list[str]:
    import textwrap

    return textwrap.wrap(text, width, break_on_hyphens=False) if len(text) > width else [text]


def _screen() -> int:
    import shutil
    import sys

    return shutil.get_terminal_size().columns if sys.stdout.isatty() else 1 << 30
