"""``manifoldseq fit``: an estimator on data, into a run directory."""

import time
import traceback
from inspect import signature
from pathlib import Path
from typing import Any

import click
import numpy as np

from .. import hooks
from .._observers import Progress
from .._result import Status
from ..report import read_run, render_html
from ..storage import SequenceData
from ._data import load_data, load_labels
from ._measures import BASELINE, baseline_measures, clustering_measures
from ._run import RunDirectory, choose_directory, command_line
from ._settings import parse_settings
from ._shared import BadInput, echo_table


@click.command()
@click.argument("estimator")
@click.argument("data")
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="A parameter of the estimator.")
@click.option("--labels", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="One label per sequence.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Seed of all random choices.")
@click.option("-o", "--output", type=click.Path(file_okay=False, path_type=Path), help="Run directory to write.")
def fit(
    estimator: str, data: str, settings: tuple[str, ...], labels: Path | None, seed: int, output: Path | None
) -> None:
    """Fit ESTIMATOR to DATA and write a run directory.

    DATA is the name of a data set, or a file that a registered reader knows. The run directory holds the metrics, the
    history, the assignments and a report.
    """
    model, parameters = _configure(estimator, settings, seed)
    loaded = load_data(data)
    truth = loaded.labels if labels is None else load_labels(labels, len(loaded))
    directory = choose_directory(output, f"{estimator}-{data}".replace("/", "-").replace(":", "-"))
    options = [f"--set={setting}" for setting in settings] + ([f"--labels={labels}"] if labels else [])
    about = {
        "command": command_line(["fit", estimator, data, *options, f"--seed={seed}"]),
        "estimator": estimator,
        "data": data,
        "about": _about(loaded, truth),
        "seed": seed,
        "parameters": parameters,
    }
    repeat = {"estimator": estimator, "data": data, "labels": labels, "seed": seed, "set": parameters}
    run = RunDirectory(directory, about, repeat)
    run.create()
    seconds = _fit(run, model, loaded.sequences, truth)
    metrics = _write(run, model, loaded, truth, seed, seconds)
    click.echo(f"{data}: {about['about']}")
    _echo_metrics(estimator, metrics)
    click.echo(f"Report: {directory / 'report.html'}")


def _configure(name: str, settings: tuple[str, ...], seed: int) -> tuple[Any, dict[str, Any]]:
    try:
        record = hooks.get_record(hooks.Estimator, name)
    except ValueError as error:
        raise BadInput(str(error)) from error
    except ImportError as error:  # the plugin is broken, not the input
        raise click.ClickException(str(error)) from error
    if record.input != "sequences":
        raise BadInput(f"estimator {name!r} takes {record.input}: only those for sequences can be fitted from here")
    model = record.factory()
    known = model.get_params(deep=False)
    values = parse_settings(settings, known, f"estimator {name!r}")
    if "random_state" in known:
        values.setdefault("random_state", seed)
    return model.set_params(**values), {key: model.get_params(deep=False)[key] for key in known}


def _about(data: SequenceData, labels: np.ndarray | None) -> str:
    lengths = [len(sequence) for sequence in data.sequences]
    classes = "" if labels is None else f", {len(np.unique(labels))} classes"
    spread = f"{min(lengths)}" if min(lengths) == max(lengths) else f"{min(lengths)} to {max(lengths)}"
    return f"{len(lengths)} sequences of {spread} steps, {data.sequences[0].shape[1]} channels{classes}"


def _fit(run: RunDirectory, model: Any, sequences: list[np.ndarray], labels: np.ndarray | None) -> float:
    watchable = "observers" in signature(model.fit).parameters
    options = {"observers": [Progress(description=type(model).__name__)]} if watchable else {}
    start = time.perf_counter()
    try:
        model.fit(sequences, labels, **options)
        if getattr(model, "status_", None) is Status.INTERRUPTED:
            raise KeyboardInterrupt
    except KeyboardInterrupt:
        run.end("interrupted")
        raise
    except Exception as error:
        if isinstance(error, ValueError) and not isinstance(error, np.linalg.LinAlgError):
            run.remove()  # an estimator validates in fit: that is bad input, and leaves nothing behind
            raise BadInput(str(error)) from error
        run.end("failed", error=f"{type(error).__name__}: {error}", traceback=traceback.format_exc())
        raise click.ClickException(f"{type(error).__name__}: {error} (traceback in {run.path / 'run.json'})") from error
    return time.perf_counter() - start


def _write(
    run: RunDirectory, model: Any, data: SequenceData, truth: np.ndarray | None, seed: int, seconds: float
) -> dict[str, float]:
    history = getattr(model, "history_", None)
    if history is not None:
        run.write_columns("history.csv", history)
    metrics: dict[str, float] = {}
    clusters = getattr(model, "labels_", None)
    if clusters is not None:
        columns = {"label": truth} if truth is not None else {}
        run.write_columns("assignments.csv", {**columns, "cluster": clusters})
        if truth is not None:
            metrics |= clustering_measures(truth, clusters)
    metrics["seconds"] = seconds
    if clusters is not None and truth is not None:
        metrics |= baseline_measures(data.sequences, truth, len(np.unique(clusters)), seed)
    run.write_json("metrics.json", metrics)
    page = read_run(run.path)
    page.run.update(state="done", baseline=BASELINE)
    run.write("report.html", render_html([page]))
    run.end("done", baseline=BASELINE)
    return metrics


def _echo_metrics(estimator: str, metrics: dict[str, float]) -> None:
    names = [name for name in ("purity", "nmi", "ari", "seconds") if name in metrics]
    rows = [(estimator, *(f"{metrics[name]:.3f}" for name in names))]
    if f"baseline_{names[0]}" in metrics:
        rows.append((BASELINE, *(f"{metrics[f'baseline_{name}']:.3f}" for name in names)))
    header = [name.upper() if len(name) == 3 else name for name in names]
    echo_table(["", *header], rows, right=range(1, len(names) + 1))
