"""``manifoldseq report``: the HTML page of one run, or a comparison of several runs."""

from pathlib import Path

import click

from ..report import read_run, render_html
from ..storage._files import write_durably
from ._shared import BadInput


@click.command()
@click.argument("run_dirs", metavar="RUN_DIR...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File to write [report.html in RUN_DIR; for several runs, report.html in the current folder].",
)
def report(run_dirs: tuple[Path, ...], output: Path | None) -> None:
    """Write one HTML page about one or more runs.

    The page is self-contained and can be read offline. Several runs are compared in one table.

    \b
    Examples:
      manifoldseq report runs/bm
      manifoldseq report runs/bm runs/demo -o both.html
    """
    try:
        page = render_html([read_run(directory) for directory in run_dirs])
    except ValueError as error:
        raise BadInput(str(error)) from error
    if output is None:
        output = run_dirs[0] / "report.html" if len(run_dirs) == 1 else Path("report.html")
    try:
        write_durably(output, page.encode())
    except OSError as error:
        raise BadInput(f"{output} cannot be written ({error.strerror}): choose another file with -o") from error
    click.echo(f"Report: {output}")
