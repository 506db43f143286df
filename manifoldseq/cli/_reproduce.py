"""``manifoldseq reproduce``: measures a table or figure of a paper and compares it with the printed numbers."""

from inspect import Parameter, signature
from pathlib import Path
from typing import Any

import click

from .. import hooks
from .._quoted import quoted
from ..estimators._object_parameters import defaults
from ..hooks._bundled import how_to_install, is_installed
from ._parameters import with_parameters
from ._plugin_files import asked_name, spelled
from ._run import command_line
from ._settings import parse_pairs, with_settings
from ._shared import BadInput, completed_by, echo_json, echo_table, json_option, set_option

_INSTALL = how_to_install("manifoldseq-papers")
_PAPERS = f"the tables and figures of the papers are in the distribution manifoldseq-papers: {_INSTALL}"
_FIGURES = (".png", ".svg", ".pdf")
_COLUMNS = ("model", "setting", "metric", "unit", "ours", "ours_se", "paper")


@click.command(cls=with_parameters("reproductions"))
@click.argument("name", required=False, shell_complete=completed_by("reproductions"))
@click.option("--data", type=click.Path(exists=True, file_okay=False, path_type=Path), help="Folder with the data.")
@set_option
@click.option("--quick", is_flag=True, help="Use settings that take one or two minutes. --set overrides them.")
@click.option("--resume", is_flag=True, help="Continue from the saved results.")
@json_option
def reproduce(
    name: str | None, data: Path | None, settings: tuple[str, ...], quick: bool, resume: bool, as_json: bool
) -> None:
    """Reproduce a table or figure of a paper.

    The measured numbers, the numbers of the paper, and the paths of figures and results are printed. `manifoldseq list
    reproductions` lists the names, and `manifoldseq reproduce NAME --help` also lists the parameters of NAME.

    \b
    Examples:
      manifoldseq reproduce hope-table1
      manifoldseq reproduce lds-fig1 --quick
      manifoldseq reproduce lds-table1 --data recordings --set n_seeds=10 --json
    """
    name, record = _found(name)
    chosen = _settings(record, name, data, settings, quick, resume)
    try:
        rows = [{key: row.get(key) for key in _COLUMNS} for row in record.run(**chosen)]
    except KeyboardInterrupt:
        if "resume" in signature(record.run).parameters:
            click.echo("To continue, run the same command with --resume.", err=True)
        raise
    except (ValueError, ImportError) as error:
        raise BadInput(f"{name}: {error}") from error
    except OSError as error:
        if error.filename is None or error.strerror is None:  # an error with a message of its own
            raise BadInput(f"{name}: {error}") from error
        place = f"{error.filename} cannot be read or written ({error.strerror})"
        raise BadInput(f"{name}: {place}: choose another path{_places(record)}") from error
    options = [f"--data={data}" if data else None, "--quick" if quick else None]
    options += [f"--set={setting}" for setting in settings]
    command = command_line(["reproduce", spelled("reproductions", name), *options])
    written = _written(record, chosen)
    if as_json:
        echo_json({"name": name, "rows": rows, "command": command, **written})
        return
    if record.paper:
        click.echo(record.paper)
    echo_table(
        ("model", "setting", "metric", "ours", "±", "paper"),
        [(*(str(row[key] or "") for key in ("model", "setting")), _metric(row),
          *(_number(row[key]) for key in ("ours", "ours_se", "paper"))) for row in rows],
        right=(3, 4, 5),
    )  # fmt: skip
    if written["figures"]:
        click.echo(f"Figure: {', '.join(written['figures'])}")
    if written["folder"]:
        click.echo(f"Results: {written['folder']}")


def _found(name: str | None) -> tuple[str, hooks.ReproductionSpec]:
    """Return the name and the record of a reproduction."""
    if name is None:
        there = is_installed("manifoldseq-papers")
        raise BadInput(f"pass NAME: {'`manifoldseq list reproductions` lists the names' if there else _PAPERS}")
    try:
        name = str(asked_name(name, "reproductions"))
        return name, hooks.get_reproduction(name)
    except ValueError as error:
        said = is_installed("manifoldseq-papers") or _INSTALL in str(error)
        raise BadInput(str(error) if said else f"{error}; {_PAPERS}") from error
    except ImportError as error:
        raise click.ClickException(str(error)) from error


def _settings(
    record: hooks.ReproductionSpec, name: str, data: Path | None, settings: tuple[str, ...], quick: bool, resume: bool
) -> dict[str, Any]:
    """Return the arguments of a reproduction, checked."""
    if quick and not record.quick:
        raise BadInput(f"reproduction {quoted(name)} has no quick settings: leave out --quick")
    chosen = (dict(record.quick) if quick else {}) | parse_pairs(settings)
    given = ({} if data is None else {"data": data}) | ({"resume": True} if resume else {})
    takes = signature(record.run).parameters
    if not any(parameter.kind is Parameter.VAR_KEYWORD for parameter in takes.values()):
        current = {key: value for key, value in defaults(record.run).items() if key not in ("data", "resume")}
        chosen = with_settings(f"reproduction {name!r}", record.run, current, chosen)
        for option in given:
            if option not in takes:
                raise BadInput(f"reproduction {quoted(name)} does not support --{option}: leave out --{option}")
    return chosen | given


def _places(record: hooks.ReproductionSpec) -> str:
    """Return the options that select where a reproduction reads and writes, for an error message."""
    takes = signature(record.run).parameters
    options = ["--data"] if "data" in takes else []
    options += [f"--set {place}=…" for place in ("folder", "figure") if place in takes]
    return f" with {' or '.join(options)}" if options else ""


def _written(record: hooks.ReproductionSpec, chosen: dict[str, Any]) -> dict[str, Any]:
    """Return the figures and the folder that a reproduction with these settings has written."""
    settings = defaults(record.run) | chosen
    places = {name: Path(settings[name]) for name in ("figure", "folder") if settings.get(name) is not None}
    figures = {path for path in [places.get("figure")] if path is not None and path.is_file()}
    folder = places.get("folder")
    if folder is None or not folder.is_dir():
        folder = None
    else:
        figures |= {path for path in folder.iterdir() if path.suffix in _FIGURES}
    return {"figures": sorted(map(str, figures)), "folder": None if folder is None else str(folder)}


def _metric(row: dict[str, Any]) -> str:
    return f"{row['metric'] or ''} ({row['unit']})" if row["unit"] else str(row["metric"] or "")


def _number(value: Any) -> str:
    return "–" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
