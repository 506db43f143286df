"""``manifoldseq fit``: an estimator on data, into a run directory."""

import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from inspect import signature
from pathlib import Path
from typing import Any, cast

import click
import numpy as np

from .. import execution, hooks
from .._result import Status
from ..estimators import fingerprint
from ..evaluation import Evaluation, evaluate
from ..report import Fitted, draw_evaluation, draw_plots, read_run, render_html, save_drawings
from ..storage import CheckpointError, load
from ._data import (
    Loaded,
    absolute,
    advice_on_missing,
    as_input,
    describe,
    listed,
    load_data,
    load_labels,
    member_ids,
    named_views,
    takes_missing,
)
from ._progress import Watch
from ._run import RunDirectory, already_done, choose_directory, command_line, default_name, model_kept
from ._settings import check_names, parse_pairs, read_config
from ._shared import (
    BadInput,
    completed_by,
    config_option,
    echo_json,
    echo_table,
    every_option,
    json_option,
    output_option,
    read_option,
    resume_option,
    seed_option,
    set_option,
    views_option,
)
from ._signals import interruptible

_MAY_CHANGE = ("max_iter", "tol", "n_jobs", "verbose")  # a resumed run may end later, or earlier, than first asked for
_CONFIG = {"estimator": str, "data": (str, list), "labels": str, "views": str}


@click.command()
@click.argument("estimator", required=False, shell_complete=completed_by("estimators"))
@click.argument("data", nargs=-1, shell_complete=completed_by("datasets"))
@set_option
@config_option
@read_option
@click.option(
    "--labels",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="One label per sequence, or per row for an estimator of samples.",
)
@views_option
@seed_option
@output_option
@resume_option
@every_option
@click.option("--jobs", type=click.IntRange(1), metavar="N", help="Threads [1].")
@click.option("--dask", metavar="ADDRESS", help="The scheduler of a cluster, such as tcp://127.0.0.1:8786.")
@click.option(
    "--choose", is_flag=True, help="Choose settings that are left open, without labels, by the estimator's rule."
)
@click.option("--quality/--no-quality", default=True, help="A quality figure, and simple controls beside it [yes].")
@json_option
def fit(
    estimator: str | None,
    data: tuple[str, ...],
    settings: tuple[str, ...],
    config: Path | None,
    reading: tuple[str, ...],
    labels: Path | None,
    views: str | None,
    seed: int | None,
    output: Path | None,
    resume: bool,
    every: float,
    jobs: int | None,
    dask: str | None,
    choose: bool,
    quality: bool,
    as_json: bool,
) -> int:
    """Fit ESTIMATOR to DATA and write a run directory.

    DATA is a file or folder that a registered reader knows (see `manifoldseq readers`), or the name of a data set. An
    estimator of views takes a file for each view, whose members are paired by ids (the column `id` of a table, the
    names of files) or else in their order; or one file whose columns --views shares out.

    The run directory holds run.json and run.toml from the start; model.npz and model.json follow once the fit is done,
    then history.csv, assignments.csv, metrics.json, evaluation.json and report.html. If one of these fails, the model
    stays, the exit status is 1, and --resume writes them.

    A fit is judged beside simple controls: agreement with labels and between seeds for clusterings, accuracy on what
    was left out for classifiers and features. The best one is marked by an asterisk.

    \b
    Options of readers, --read NAME=VALUE:
      .csv          id time channels label delimiter ordered missing
      .parquet      id time channels label ordered missing
      folders       time missing
      .mat          variable labels orientation missing
      all others    missing

    \b
    Examples:
      manifoldseq fit lds-kmeans basic-motions --set n_clusters=4 -o runs/bm
      manifoldseq fit lds-kmeans walks.csv --read id=subject --labels kinds.txt
      manifoldseq fit lds-kmeans recordings/ --choose --read missing=linear
      manifoldseq fit mixture-pcca images.csv sounds.csv --set missing=em
      manifoldseq fit mixture-pcca table.npy --views 76,216 --set n_components=8
      manifoldseq fit mixture-pcca table.csv --views "red,blue:wave_*"
      manifoldseq fit --config runs/bm/run.toml -o runs/again
      manifoldseq fit --config runs/bm/run.toml -o runs/bm --resume
    """
    if jobs is not None and dask is not None:
        raise BadInput("--jobs and --dask say where to compute, here or on a cluster: give one of them")
    given = read_config(config, _CONFIG)
    estimator, data = estimator or given.get("estimator"), data or listed(given.get("data"))
    if estimator is None or not data:
        raise BadInput("give ESTIMATOR and DATA, or --config run.toml: see `manifoldseq fit --help`")
    labels = labels or (Path(given["labels"]) if "labels" in given else None)
    views = views or given.get("views")
    chosen = {**given["set"], **parse_pairs(settings)}
    if seed is not None:
        if any(setting.startswith("random_state=") for setting in settings):
            raise BadInput("--seed and --set random_state=… say the same: give one of them")
        chosen.pop("random_state", None)
    used_seed: int = given.get("seed", 0) if seed is None else seed
    record, model = _configure(estimator, chosen, used_seed)
    read_options = {**given["read"], **parse_pairs(reading, "--read")}
    directory = choose_directory(output, default_name(estimator, data), resume)
    refuse = _refusal(estimator, record, model)
    loaded = load_data(data, read_options, record.input, name=estimator, views=views, refuse=refuse)
    truth = loaded.data.labels if labels is None else load_labels(labels, loaded)
    table = ""
    if choose:
        with _executor(jobs, dask):
            best, table = _choose(estimator, record, model, loaded, frozenset(chosen) - {"random_state"}, used_seed)
        chosen |= best
    parameters = model.get_params(deep=False)
    settled = {name: value for name, value in parameters.items() if name not in _MAY_CHANGE}
    mark = fingerprint(estimator, settled, [part.sequences for part in loaded.parts], truth)
    if resume and already_done(directory, mark):
        click.echo(f"The run in {directory} is finished: nothing to resume.")
        return 0
    columns = named_views(loaded)
    about = {
        "command": command_line(["fit", *_arguments(estimator, data, chosen, read_options, labels, views, used_seed)]),
        "estimator": estimator,
        "data": " + ".join(data),
        "about": describe(loaded, truth),
        **({"views": columns} if columns else {}),
        "seed": used_seed,
        "parameters": parameters,
        "fingerprint": mark,
        "columns": loaded.memory | {"read": read_options, "files": list(data)},
        **({"choice": table} if table else {}),
    }
    repeat = {
        "estimator": estimator,
        "data": absolute(data),
        "labels": labels and str(labels.resolve()),
        "views": views,
        "seed": used_seed,
        "read": read_options,
        "set": parameters,
    }
    kept = resume and model_kept(directory, mark)
    run = RunDirectory(directory, about, repeat, kept=kept)
    with _executor(jobs, dask), run.writing():
        X, y = as_input(loaded, truth)
        if kept:
            model = load(directory)
        else:
            resumed = resume and run.has_checkpoint()
            options = _fit_options(estimator, model, run, every, mark, resume, loaded)
            with interruptible():
                given = y if record.input in ("sequences", "samples") else None
                seconds = _fit(run, model, X, given, options, resumed)
            run.keep(model, {"seconds_since_resume" if resumed else "seconds": seconds})
        with interruptible():
            fitted = Fitted(model, loaded.data if record.input == "sequences" else X, y, directory.name)
            kept_times = run.kept_metrics()
            took = kept_times.get("seconds", kept_times.get("seconds_since_resume", 0.0))
            ids = member_ids(loaded)
            evaluation = _evaluated(estimator, record, model, X, y, used_seed, took, ids) if quality else None
            metrics, warned = _write(run, fitted, ids, evaluation)
    for warning in warned:
        click.echo(f"Warning: {warning}", err=True)
    said = [f"{about['data']}: {about['about']}", *filter(None, [columns]), *loaded.remarks, *table.splitlines()]
    if as_json:
        judged = None if evaluation is None else evaluation.as_dict()
        echo_json({"about": said, "metrics": metrics, "evaluation": judged, "directory": str(directory)})
        return 0
    for line in said:
        click.echo(line)
    _echo_metrics(estimator, metrics, evaluation)
    if quality:
        click.echo(_sentence(evaluation))
    click.echo(f"Report: {directory / 'report.html'}")
    return 0


def _refusal(name: str, record: hooks.EstimatorSpec, model: Any) -> Callable[[], str] | None:
    """Return what ends the sentence about a missing value, None for an estimator that takes it."""
    if takes_missing(model):
        return None
    return lambda: f", which {name} does not take so: {advice_on_missing(name, record.input)}"


def _evaluated(
    name: str, record: hooks.EstimatorSpec, model: Any, X: Any, y: Any, seed: int, seconds: float, groups: list[str]
) -> Evaluation | None:
    """Judge a fit; a failure says why and costs nothing but the figure."""
    try:
        if record.quality is not None:
            return cast(Any, record.quality)(model, X, y, seed)
        options: dict[str, Any] = {"name": name, "input": record.input, "controls": record.controls or None}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return evaluate(model, X, y, **options, random_state=seed, took=seconds, groups=groups)
    except Exception as error:
        click.echo(f"Warning: no quality figure ({type(error).__name__}: {error})", err=True)
        return None


def _choose(
    name: str, record: hooks.EstimatorSpec, model: Any, data: Loaded, fixed: frozenset[str], seed: int
) -> tuple[dict[str, Any], str]:
    """Set what the estimator's rule chooses; return it, and the table of what was tried."""
    if record.choose is None:
        able = [one.name for _, one in hooks.records("estimators") if getattr(one, "choose", None) is not None]
        raise BadInput(f"{name} has no rule by which settings are chosen: --choose goes with {', '.join(able)}")
    X, _ = as_input(data, None)
    try:
        choice = cast(Any, record.choose)(model, X, seed, fixed)
    except ValueError as error:
        raise BadInput(str(error)) from error
    best = dict(choice.best_params)
    model.set_params(**best)
    return best, str(choice)


@contextmanager
def _executor(jobs: int | None, dask: str | None) -> Iterator[None]:
    """Compute with threads or on a cluster inside the block; refuse a cluster that cannot be reached."""
    with ExitStack() as stack:
        try:
            if dask is not None:
                stack.enter_context(execution.using("dask", dask))
            elif jobs is not None and jobs > 1:
                stack.enter_context(execution.using("threads", jobs))
        except (ConnectionError, ImportError, ValueError) as error:
            raise BadInput(str(error)) from error
        yield


def _configure(name: str, chosen: dict[str, Any], seed: int) -> tuple[hooks.EstimatorSpec, Any]:
    try:
        record = hooks.get_record(hooks.EstimatorSpec, name)
    except ValueError as error:
        raise BadInput(str(error)) from error
    except ImportError as error:  # the plugin is broken, not the input
        raise click.ClickException(str(error)) from error
    model = record.factory()
    known = model.get_params(deep=False)
    check_names(chosen, known, f"estimator {name!r}")
    if "random_state" in known and chosen.get("random_state") is None:  # None would not be repeatable
        chosen["random_state"] = seed
    try:
        return record, model.set_params(**chosen)
    except ValueError as error:
        raise BadInput(str(error)) from error


def _arguments(
    estimator: str,
    data: tuple[str, ...],
    chosen: dict[str, Any],
    reading: dict[str, Any],
    labels: Path | None,
    views: str | None,
    seed: int,
) -> list[Any]:
    pairs = [f"--set={name}={value}" for name, value in chosen.items()]
    pairs += [f"--read={name}={value}" for name, value in reading.items()]
    flags = [f"--labels={labels}" if labels else None, f"--views={views}" if views else None, f"--seed={seed}"]
    return [estimator, *data, *pairs, *flags]


def _fit_options(
    name: str, model: Any, run: RunDirectory, every: float, mark: str, resume: bool, loaded: Loaded
) -> dict[str, Any]:
    """Return what `fit` of this estimator takes of observers, checkpoint, resume and feature_names."""
    takes = signature(model.fit).parameters
    options: dict[str, Any] = {}
    if "observers" in takes:
        options["observers"] = [Watch(name, getattr(model, "max_iter", None))]
    if "checkpoint" in takes:
        options["checkpoint"] = run.checkpoint(every, mark)
    if "feature_names" in takes and loaded.names is not None:
        options["feature_names"] = loaded.names
    if resume and "resume" in takes:
        options["resume"] = True
    elif resume:
        click.echo(f"{name} keeps no checkpoints: starting at the beginning.", err=True)
    return options


def _fit(run: RunDirectory, model: Any, X: Any, y: Any, options: dict[str, Any], resumed: bool) -> float:
    start = time.perf_counter()
    try:
        model.fit(X, y, **options)
    except CheckpointError as error:
        raise BadInput(str(error)) from error
    except np.linalg.LinAlgError:  # a ValueError, but not one of the input
        raise
    except ValueError as error:
        if resumed or run.has_checkpoint():
            raise
        raise BadInput(str(error)) from error  # an estimator validates in fit: that leaves nothing behind
    if getattr(model, "status_", None) is Status.INTERRUPTED:
        raise KeyboardInterrupt
    return time.perf_counter() - start


def _write(
    run: RunDirectory, fitted: Fitted, ids: list[str], evaluation: Evaluation | None
) -> tuple[dict[str, float], list[str]]:
    """Write what is reported about a model that is saved, each file as a whole; return metrics and warnings."""
    labels, clusters = fitted.labels, fitted.clusters
    if fitted.history:
        run.write_columns("history.csv", fitted.history)
    if clusters is not None:
        known = {"id": ids} if len(ids) == len(clusters) else {}
        known |= {} if labels is None else {"label": labels}
        run.write_columns("assignments.csv", {**known, "cluster": clusters})
    metrics = run.kept_metrics()
    if evaluation is not None:
        metrics = {
            name: value for name, value in evaluation.rows[0].items() if name not in ("name", "seconds")
        } | metrics
        run.write_json("evaluation.json", evaluation.as_dict())
    run.write_json("metrics.json", metrics)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        save_drawings(
            run.path, [*draw_plots(fitted), *(() if evaluation is None else draw_evaluation(fitted, evaluation))]
        )
    page = read_run(run.path)
    page.run.update(state="done")
    run.write("report.html", render_html([page]))
    run.done()
    return metrics, [str(warning.message) for warning in caught]


_SHOWN = {
    "accuracy": "accuracy",
    "recall": "recall",
    "r2": "R²",
    "halves_found": "halves found",
    "purity": "purity",
    "nmi": "NMI",
    "ari": "ARI",
    "agreement_of_seeds": "agreement of seeds",
    "silhouette": "silhouette",
    "seconds": "seconds",
}


def _echo_metrics(estimator: str, metrics: dict[str, float], evaluation: Evaluation | None) -> None:
    rows = [{"name": estimator, **metrics}]
    rows += [] if evaluation is None else [dict(row) for row in evaluation.rows[1:]]
    names = [name for name in _SHOWN if any(name in row for row in rows)]
    names += sorted({name for row in rows for name in row} - {*_SHOWN, "name", "accuracy_se", "seconds_since_resume"})
    winner = None if evaluation is None or len(rows) == 1 else evaluation.winner
    best = [i for i, row in enumerate([] if evaluation is None else evaluation.rows) if row["name"] == winner]
    table = [
        (f"{row['name']}{' *' if i in best else ''}", *(f"{row[name]:.3f}" if name in row else "–" for name in names))
        for i, row in enumerate(rows)
    ]
    echo_table(["", *(_SHOWN.get(name, name) for name in names)], table, right=range(1, len(names) + 1))


def _sentence(evaluation: Evaluation | None) -> str:
    if evaluation is None:
        return "No quality figure: too few members, one class, or nothing to compare."
    mark = f" (*: best {_SHOWN.get(evaluation.measure, evaluation.measure)})" if len(evaluation.rows) > 1 else ""
    return f"{evaluation.verdict[:1].upper()}{evaluation.verdict[1:]}.{mark}"
