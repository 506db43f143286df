"""``manifoldseq fit``: an estimator on data, into a run directory."""

import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from inspect import signature
from pathlib import Path
from typing import Any, cast

import click
import numpy as np

from .. import execution, hooks
from .._result import Status
from ..estimators import channel_statistics
from ..report import Fitted, clustering_measures, draw_plots, read_run, render_html, save_drawings
from ..storage import CheckpointError, SequenceData, load
from ._data import (
    absolute,
    as_input,
    describe,
    fingerprint,
    load_data,
    load_labels,
    member_ids,
    remarks,
    view_sizes,
)
from ._progress import Watch
from ._run import RunDirectory, already_done, choose_directory, command_line, default_name, model_kept
from ._settings import check_names, parse_pairs, read_config
from ._shared import (
    BadInput,
    completed_by,
    config_option,
    echo_table,
    every_option,
    output_option,
    read_option,
    resume_option,
    seed_option,
    set_option,
    views_option,
)
from ._signals import interruptible

_STOPPING = ("max_iter", "tol")  # a resumed run may end later, or earlier, than was first asked for
_CONFIG = {"estimator": str, "data": str, "labels": str, "views": str}


@click.command()
@click.argument("estimator", required=False, shell_complete=completed_by("estimators"))
@click.argument("data", required=False, shell_complete=completed_by("datasets"))
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
def fit(
    estimator: str | None,
    data: str | None,
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
) -> int:
    """Fit ESTIMATOR to DATA and write a run directory.

    DATA is a file or folder that a registered reader knows (see `manifoldseq readers`), or the name of a data set. The
    run directory holds run.json and run.toml from the start; model.npz and model.json follow once the fit is done, then
    history.csv, assignments.csv, metrics.json and report.html. If one of these fails, the model stays, the exit
    status is 1, and --resume writes them.

    \b
    Examples:
      manifoldseq fit lds-kmeans basic-motions --set n_clusters=4 -o runs/bm
      manifoldseq fit lds-kmeans walks.csv --read id=subject --labels kinds.txt
      manifoldseq fit mixture-pcca table.npy --views 76,216 --set n_components=8
      manifoldseq fit --config runs/bm/run.toml -o runs/again
      manifoldseq fit --config runs/bm/run.toml -o runs/bm --resume
    """
    if jobs is not None and dask is not None:
        raise BadInput("--jobs and --dask say where to compute, here or on a cluster: give one of them")
    given = read_config(config, _CONFIG)
    estimator, data = estimator or given.get("estimator"), data or given.get("data")
    if estimator is None or data is None:
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
    loaded = load_data(data, read_options)
    truth = loaded.labels if labels is None else load_labels(labels, loaded, record.input)
    sizes = view_sizes(record.input, views, loaded)
    parameters = model.get_params(deep=False)
    settled = {name: value for name, value in parameters.items() if name not in _STOPPING}
    mark = fingerprint(loaded, truth, [estimator, settled, *([sizes] if sizes else [])])
    if resume and already_done(directory, mark):
        click.echo(f"The run in {directory} is finished: nothing to resume.")
        return 0
    about = {
        "command": command_line(["fit", *_arguments(estimator, data, chosen, read_options, labels, views, used_seed)]),
        "estimator": estimator,
        "data": data,
        "about": describe(loaded, truth, record.input),
        "seed": used_seed,
        "parameters": parameters,
        "fingerprint": mark,
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
        X, y = as_input(record.input, loaded, truth, sizes)
        if kept:
            model = load(directory)
        else:
            resumed = resume and run.has_checkpoint()
            options = _fit_options(estimator, model, run, every, mark, resume)
            with interruptible():
                seconds = _fit(run, model, X, y, options, resumed)
            run.keep(model, {"seconds_since_resume" if resumed else "seconds": seconds})
        with interruptible():
            fitted = Fitted(model, loaded if record.input == "sequences" else X, y, directory.name)
            metrics = _write(run, fitted, member_ids(record.input, loaded), used_seed)
    click.echo(f"{data}: {about['about']}")
    for line in remarks(data, loaded):
        click.echo(line)
    _echo_metrics(estimator, metrics)
    click.echo(f"Report: {directory / 'report.html'}")
    return 0


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


def _configure(name: str, chosen: dict[str, Any], seed: int) -> tuple[hooks.Estimator, Any]:
    try:
        record = hooks.get_record(hooks.Estimator, name)
    except ValueError as error:
        raise BadInput(str(error)) from error
    except ImportError as error:  # the plugin is broken, not the input
        raise click.ClickException(str(error)) from error
    model = record.factory()
    known = model.get_params(deep=False)
    check_names(chosen, known, f"estimator {name!r}")
    if "random_state" in known and chosen.get("random_state") is None:  # None would not be repeatable
        chosen["random_state"] = seed
    return record, model.set_params(**chosen)


def _arguments(
    estimator: str,
    data: str,
    chosen: dict[str, Any],
    reading: dict[str, Any],
    labels: Path | None,
    views: str | None,
    seed: int,
) -> list[Any]:
    pairs = [f"--set={name}={value}" for name, value in chosen.items()]
    pairs += [f"--read={name}={value}" for name, value in reading.items()]
    flags = [f"--labels={labels}" if labels else None, f"--views={views}" if views else None, f"--seed={seed}"]
    return [estimator, data, *pairs, *flags]


def _fit_options(name: str, model: Any, run: RunDirectory, every: float, mark: str, resume: bool) -> dict[str, Any]:
    """Return what `fit` of this estimator takes of observers, checkpoint and resume."""
    takes = signature(model.fit).parameters
    options: dict[str, Any] = {}
    if "observers" in takes:
        options["observers"] = [Watch(name, getattr(model, "max_iter", None))]
    if "checkpoint" in takes:
        options["checkpoint"] = run.checkpoint(every, mark)
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


def _write(run: RunDirectory, fitted: Fitted, ids: list[str], seed: int) -> dict[str, float]:
    """Write what is reported about a model that is saved; each file appears as a whole."""
    labels, clusters = fitted.labels, fitted.clusters
    if fitted.history:
        run.write_columns("history.csv", fitted.history)
    if clusters is not None:
        known = {"id": ids} if len(ids) == len(clusters) else {}
        known |= {} if labels is None else {"label": labels}
        run.write_columns("assignments.csv", {**known, "cluster": clusters})
    metrics = run.kept_metrics()
    if clusters is not None and labels is not None:
        metrics = {**clustering_measures(labels, clusters), **metrics}
        if isinstance(fitted.data, SequenceData):
            metrics |= baseline_measures(fitted.X, labels, len(np.unique(clusters)), seed)
    run.write_json("metrics.json", metrics)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        save_drawings(run.path, draw_plots(fitted))
    for warning in caught:
        click.echo(f"Warning: {warning.message}", err=True)
    page = read_run(run.path)
    page.run.update(state="done", baseline=BASELINE)
    run.write("report.html", render_html([page]))
    run.done(baseline=BASELINE)
    return metrics


def _echo_metrics(estimator: str, metrics: dict[str, float]) -> None:
    shown = {"purity": "purity", "nmi": "NMI", "ari": "ARI", "seconds": "seconds"}
    names = [name for name in shown if name in metrics]
    rows = [(estimator, *(f"{metrics[name]:.3f}" for name in names))]
    if all(f"baseline_{name}" in metrics for name in names):
        rows.append((BASELINE, *(f"{metrics[f'baseline_{name}']:.3f}" for name in names)))
    echo_table(["", *(shown[name] for name in names)], rows, right=range(1, len(names) + 1))


BASELINE = "k-means on channel means and deviations"


def baseline_measures(sequences: Sequence[np.ndarray], labels: Any, n_clusters: int, seed: int) -> dict[str, float]:
    """Return the measures, with prefix ``baseline_``, of k-means on the means and deviations of the channels."""
    from sklearn.cluster import KMeans

    start = time.perf_counter()
    kmeans = KMeans(n_clusters, n_init=cast(Any, 10), random_state=seed)
    clusters = kmeans.fit_predict(channel_statistics(sequences))
    seconds = time.perf_counter() - start
    measures = clustering_measures(labels, clusters) | {"seconds": seconds}
    return {f"baseline_{name}": value for name, value in measures.items()}
