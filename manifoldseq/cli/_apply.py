"""``manifoldseq apply``: apply a fitted model to new data."""

import io
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, cast

import click
import numpy as np

from .. import hooks
from .._quoted import quoted
from .._result import Result
from ..storage import load
from ..storage._files import write_durably
from ..storage._model import registered_name
from ._data import (
    Loaded,
    advice_on_missing,
    as_input,
    check_sparse,
    describe,
    load_data,
    member_ids,
    named_views,
    takes_missing,
)
from ._plugin_files import reading_of, use_files_of
from ._run import csv_text, run_of
from ._settings import parse_pairs
from ._shared import BadInput, completed_by, read_option, views_option

_METHODS = {
    "predict": "prediction",
    "predict_proba": "probability",
    "score_samples": "score",
    "transform": "transform",
}


@click.command()
@click.argument("run_dir", type=click.Path(path_type=Path))
@click.argument("data", nargs=-1, required=True, shell_complete=completed_by("datasets"))
@read_option
@views_option
@click.option(
    "-o",
    "--output",
    required=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="The .npz or .csv file to write.",
)
def apply(run_dir: Path, data: tuple[str, ...], reading: tuple[str, ...], views: str | None, output: Path) -> None:
    """Apply the fitted model in RUN_DIR to DATA.

    The results of predict, predict_proba, score_samples and transform are written. They have one row for each sequence
    or bag, or for each row of samples or views. A .npz file has the arrays `id` (the file, the sequence of a long
    table, or the row), `prediction`, `probability`, `score` and `transform` (or one array per part of a transform, such
    as `A` and `C`); a .csv file has them as columns. If a view has missing values that the model can fill in, `filled`
    has all columns with these values filled in, and `deviation` has the standard deviations of the filled values (zero
    for recorded values) if the model computes them.

    The columns of the fit are found by name, in any order, and other columns are ignored. The --read options of the fit
    are also used for DATA, if DATA has the file format of the fit. For a multi-view model, DATA is one file, or one
    file per view in the order of the fit. A view without a file is treated as missing.

    \b
    Examples:
      manifoldseq apply runs/bm basic-motions -o clusters.csv
      manifoldseq apply runs/bm new_recordings/ -o clusters.npz
      manifoldseq apply runs/views images2.csv sounds2.csv -o components.csv
    """
    if output.suffix not in (".npz", ".csv"):
        raise BadInput(f"{output} has the ending {quoted(output.suffix)}: write a .npz or a .csv file")
    if not os.access(output.parent, os.W_OK):  # said before anything is computed
        raise BadInput(
            f"{output} cannot be written: the folder {output.parent} does not exist or is not writable. Choose another "
            "file with -o"
        )
    use_files_of(run_dir, run_of(run_dir))
    try:
        model = load(run_dir)
    except ValueError as error:
        raise BadInput(str(error)) from error
    if isinstance(model, Result):
        raise BadInput(
            f"{run_dir} contains the solution of a problem, which cannot be applied to data: pass the run directory of "
            "a fit"
        )
    methods = {method: name for method, name in _METHODS.items() if callable(getattr(model, method, None))}
    if not methods:
        raise BadInput(
            f"{type(model).__name__} cannot be applied to data, because it has none of the methods "
            f"{', '.join(_METHODS)}: pass the run directory of another estimator"
        )
    loaded = _loaded(run_dir, model, data, reading_of(parse_pairs(reading, "--read")), views)
    check_sparse(registered_name(model), model, loaded)
    X, _ = as_input(loaded, None)
    try:
        arrays = {
            key: array for method, name in methods.items() for key, array in _arrays(name, getattr(model, method)(X))
        }
        filled = _filled(model, loaded, X)
        views_of = {"filled": filled, "deviation": None if filled is None else _deviations(model, X)}
        views_of = {name: parts for name, parts in views_of.items() if parts is not None}
    except ValueError as error:
        said, named = str(error), loaded.in_names(str(error))
        raise BadInput(f"{' + '.join(data)}: {said}" if named == said else named) from error
    ids = member_ids(loaded)
    if all(len(array) == len(ids) for array in arrays.values()):
        arrays = {"id": np.array(ids), **arrays}
    try:
        if output.suffix == ".npz":
            written = _npz({**arrays, **{name: np.concatenate(parts, axis=1) for name, parts in views_of.items()}})
        else:
            columns = [_of_columns(name, loaded, parts) for name, parts in views_of.items()]
            written = csv_text(_flat(arrays) | {name: one for part in columns for name, one in part.items()}).encode()
        write_durably(output, written)
    except OSError as error:
        raise BadInput(f"{output} cannot be written ({error.strerror}): choose another file with -o") from error
    click.echo(f"{' + '.join(data)}: {describe(loaded, None)}")
    for line in filter(None, [named_views(loaded), *loaded.remarks]):
        click.echo(line)
    click.echo(f"{output}: {', '.join([*arrays, *views_of])}")


def _loaded(run_dir: Path, model: Any, data: tuple[str, ...], given: dict[str, Any], views: str | None) -> Loaded:
    """Read data with the options and columns of the run, if the run stores them."""
    name = registered_name(model)
    record = hooks.get_record(hooks.EstimatorSpec, name)
    memory = _memory(run_dir)
    kinds = {Path(one).suffix.lower() for one in memory.get("files", ())}
    options = memory.get("read", {}) if kinds == {Path(one).suffix.lower() for one in data} else {}
    advice = (
        None
        if takes_missing(model, fitted=True)
        else lambda: f". {name} does not accept missing values: {advice_on_missing(name, record.input)}"
    )

    def loaded(options: dict[str, Any]) -> Loaded:
        run = (str(run_dir), memory) if "views" in memory else None
        return load_data(data, options, record.input, name=name, views=views, run=run, advice=advice)

    if "label" in options and "label" not in given:  # new data may have labels, or not
        with suppress(BadInput):
            return loaded({**options, **given})
        options = {option: value for option, value in options.items() if option != "label"}
    return loaded({**options, **given})


def _memory(run_dir: Path) -> dict[str, Any]:
    """Return the stored columns of a run; an empty dict for a model without a run."""
    found = run_of(run_dir).get("columns")
    return found if isinstance(found, dict) else {}


def _filled(model: Any, loaded: Loaded, X: Any) -> list[np.ndarray] | None:
    """Return the views with filled missing values; None if nothing is missing or the model cannot fill values."""
    if loaded.kind != "views" or not callable(getattr(model, "impute", None)):
        return None
    return model.impute(X) if any(np.isnan(view).any() for view in X) else None


def _deviations(model: Any, X: Any) -> list[np.ndarray] | None:
    """Return the standard deviations of filled values; None if the model does not provide them."""
    if not callable(getattr(model, "impute_variance", None)):
        return None
    return [np.sqrt(part) for part in model.impute_variance(X)]


def _of_columns(what: str, loaded: Loaded, views: list[np.ndarray]) -> dict[str, Any]:
    """Return the columns of views by name; names that occur in two views are prefixed by the view."""
    names = loaded.names or [list(map(str, range(view.shape[1]))) for view in views]
    every = [name for of_view in names for name in of_view]
    return {
        f"{what}_{name}" if every.count(name) == 1 else f"{what}_{v}_{name}": view[:, j].tolist()
        for v, (of_view, view) in enumerate(zip(names, views, strict=True))
        for j, name in enumerate(of_view)
    }


def _arrays(name: str, answer: Any) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the arrays of a result: the array itself, or the fields of a record of arrays."""
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


def _flat(arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    """Return the columns of arrays of any shape, with one row for each entry of the first axis."""
    columns: dict[str, Any] = {"row": range(len(next(iter(arrays.values()))))}
    for name, array in arrays.items():
        for index in np.ndindex(array.shape[1:]):
            columns["_".join([name, *map(str, index)])] = array[(slice(None), *index)].tolist()
    return columns
