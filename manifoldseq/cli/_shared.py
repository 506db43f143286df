"""What several commands use: the error of bad input, aligned tables, JSON."""

import json
from collections.abc import Callable, Sequence
from typing import Any

import click


class BadInput(click.ClickException):
    """Bad input: one sentence, exit status 2."""

    exit_code = 2


json_option: Callable[..., Any] = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")


def echo_json(value: Any) -> None:
    """Print JSON for another program."""
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


def echo_table(header: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> None:
    """Print rows in aligned columns, those numbered in `right` flush right."""
    widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]
    for row in [header, *rows]:
        cells = [
            cell.rjust(width) if i in right else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        click.echo("  ".join(cells).rstrip())
