"""``manifoldseq apply``: what a fitted model says about other data."""

import io
import os
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, cast

import click
import numpy as np

from .. import hooks
from .._result import Result
from ..storage import load
from ..storage._files import write_durably
from ..storage._model import registered_name
from ._data import as_input, describe, load_data, member_ids, remarks, view_sizes
from ._run import csv_text
from ._settings import parse_pairs
from ._shared import BadInput, completed_by, read_option, views_option

_METHODS = {"predict": "prediction", "predict_proba": "probability", "transform": "transform"}


@click.command()
@click.argument("run_dir", type=click.Path(path_type=Path))
@click.argument("data", shell_complete=completed_by("datasets"))
@read_option
@views_option
@click.option(
    "-o",
    "--output",
    required=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="The .npz or .csv to write.",
)
def apply(run_dir: Path, data: str, reading: tuple[str, ...], views: str | None, output: Path) -> None:
    """Apply the fitted model in RUN_DIR to DATA.

    Writes what predict, predict_proba and transform of the model give, one row per sequence or bag (per row, for a
    model of samples or views): to .npz as the arrays `id` (the file, or the sequence of a long table), `prediction`,
    `probability` and `transform` (or one array per part of a transform, such as `A` and `C`), to .csv as columns.

    \b
    Examples:
      manifoldseq apply runs/bm basic-motions -o clusters.csv
      manifoldseq apply runs/bm new_recordings/ -o clusters.npz
    """
    if output.suffix not in (".npz", ".csv"):
        raise BadInput(f"{output} has the ending {output.suffix!r}: write a .npz or a .csv file")
    if not os.access(output.parent, os.W_OK):  # said before anything is computed
        raise BadInput(f"{output} cannot be written: there is no folder {output.parent} that can be written to")
    try:
        model = load(run_dir)
    except ValueError as error:
        raise BadInput(str(error)) from error
    if isinstance(model, Result):
        raise BadInput(f"{run_dir} holds the solution of a problem, not an estimator: there is nothing to apply")
    loaded = load_data(data, parse_pairs(reading, "--read"))
    record = hooks.get_record(hooks.EstimatorSpec, registered_name(model))
    X, _ = as_input(record.input, loaded, None, view_sizes(record.input, views, loaded))
    methods = {method: name for method, name in _METHODS.items() if callable(getattr(model, method, None))}
    if not methods:
        raise BadInput(f"{type(model).__name__} has none of {', '.join(_METHODS)}: there is nothing to apply")
    try:
        arrays = {
            key: array for method, name in methods.items() for key, array in _arrays(name, getattr(model, method)(X))
        }
    except ValueError as error:
        raise BadInput(f"{data}: {error}") from error
    ids = member_ids(record.input, loaded)
    if all(len(array) == len(ids) for array in arrays.values()):
        arrays = {"id": np.array(ids), **arrays}
    try:
        write_durably(output, _npz(arrays) if output.suffix == ".npz" else _csv(arrays).encode())
    except OSError as error:
        raise BadInput(f"{output} cannot be written: {error.strerror}") from error
    click.echo(f"{data}: {describe(loaded, None, record.input)}")
    for line in remarks(data, loaded):
        click.echo(line)
    click.echo(f"{output}: {', '.join(arrays)}")


def _arrays(name: str, answer: Any) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the arrays of an answer: itself, or the fields of a record of arrays."""
    if is_dataclass(answer) and not isinstance(answer, type):
        for one in fields(answer):
            value = getattr(answer, one.name)
            if value is not None:
                yield one.name, np.asarray(value)
    else:
        yield name, np.asarray(answer)


def _npz(arrays: dict[str, np.ndarray]) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **cast(Any, arrays))
    return buffer.getvalue()


def _csv(arrays: dict[str, np.ndarray]) -> str:
    columns: dict[str, Any] = {"row": range(len(next(iter(arrays.values()))))}
    for name, array in arrays.items():
        for index in np.ndindex(array.shape[1:]):
            columns["_".join([name, *map(str, index)])] = array[(slice(None), *index)].tolist()
    return csv_text(columns)
