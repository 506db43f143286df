"""Runs in reports: the files of a run directory, or a fitted estimator or result in memory."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from .._result import Result, Run
from ..estimators._object_parameters import used_settings
from ..storage import read_bytes
from ..storage._files import write_durably
from ..storage.readers._text import text_columns
from ._clusters import clustering_measures
from ._drawing import Drawing, draw_plots, parsed
from ._quality import Evaluation
from ._sources import Fitted

_LISTED = 1000
"""Maximum number of members that a page lists by name."""
FIGURES = "figures"
"""The folder of a run directory with one SVG per plot of the estimator."""


@dataclass(frozen=True)
class RunFiles:
    """The content of a run directory.

    Parameters
    ----------
    name : str
        The name of the directory.
    run : dict
        ``run.json``: state, command, estimator, data, parameters, versions, ``made_by`` (the plugins of the model, the
        initializer, the updates and the solver), and the plugin files of the command.
    metrics : dict of str to float
        ``metrics.json``.
    history : dict of str to list of float
        The columns of ``history.csv``, empty if there is none.
    assignments : list of (str or None, str)
        Label and cluster of each sequence, empty if the estimator assigns none.
    evaluation : Evaluation or None
        ``evaluation.json``: rows of the estimator and its controls, the winner, and the verdict; None if the file does
        not exist.
    members : list of str
        Names of the members in the order of `assignments`, empty for none or for more than 1,000.
    drawings : list of Drawing
        The figures that were drawn when the estimator was fitted: ``figures/*.svg``, in the order of their names.
    """

    name: str
    run: dict[str, Any]
    metrics: dict[str, float] = field(default_factory=dict)
    history: dict[str, list[float]] = field(default_factory=dict)
    assignments: list[tuple[str | None, str]] = field(default_factory=list)
    drawings: list[Drawing] = field(default_factory=list)
    evaluation: Evaluation | None = None
    members: list[str] = field(default_factory=list)


def read_run(directory: str | Path) -> RunFiles:
    """Read a run directory.

    Parameters
    ----------
    directory : str or Path
        A directory that ``manifoldseq fit -o`` has written.

    Returns
    -------
    RunFiles

    Raises
    ------
    ValueError
        If it is not a run directory, or if it contains a figure that no report can have drawn.
    """
    path = Path(directory)
    try:
        run = json.loads(read_bytes(path / "run.json"))
        if not isinstance(run, dict):
            raise ValueError("it does not contain an object")
    except (OSError, ValueError) as error:
        why = (
            "there is no run.json in it"
            if isinstance(error, FileNotFoundError)
            else f"its run.json is damaged: {error}"
        )
        raise ValueError(f"{path} is not a run directory ({why}): pass a folder that fit or solve wrote") from error
    metrics = path / "metrics.json"
    try:
        assigned = text_columns(path / "assignments.csv", ("id", "label", "cluster"))
        return RunFiles(
            path.resolve().name,
            run,
            _numbers(json.loads(read_bytes(metrics))) if metrics.exists() else {},
            _history(text_columns(path / "history.csv")),
            _assignments(assigned),
            [parsed(file.stem, read_bytes(file).decode()) for file in sorted((path / FIGURES).glob("*.svg"))],
            _evaluation(path / "evaluation.json"),
            _few(assigned.get("id", [])),
        )
    except (OSError, ValueError, IndexError, RecursionError) as error:
        raise ValueError(f"the run in {path} cannot be shown: {error}") from error


def _evaluation(file: Path) -> Evaluation | None:
    if not file.exists():
        return None
    try:
        return Evaluation.from_dict(json.loads(read_bytes(file)))
    except ValueError as error:
        raise ValueError(f"its evaluation.json is not valid: {error}") from error


def _numbers(metrics: Any) -> dict[str, float]:
    if not isinstance(metrics, dict) or not all(isinstance(value, int | float) for value in metrics.values()):
        raise ValueError("its metrics.json is not a mapping of names to numbers")
    return metrics


def save_drawings(directory: str | Path, drawings: Iterable[Drawing]) -> None:
    """Write the figures of a run into its directory, replacing earlier figures.

    Parameters
    ----------
    directory : str or Path
    drawings : iterable of Drawing
        The drawings, which become ``figures/01-NAME.svg``, … and are written atomically. Without drawings, no folder is
        created.
    """
    folder = Path(directory) / FIGURES
    for old in folder.glob("*.svg"):
        old.unlink()
    for i, drawing in enumerate(drawings, start=1):
        folder.mkdir(parents=True, exist_ok=True)
        write_durably(folder / f"{i:02d}-{drawing.name}.svg", drawing.svg.encode())


def as_run(source: Any, name: str | None = None) -> RunFiles:
    """Return the content of a run for a page, with another name if one is given."""
    if isinstance(source, RunFiles):
        return source if name is None else replace(source, name=name)
    if isinstance(source, Fitted):
        return _of_fitted(source, name or source.name)
    if isinstance(source, Result | Run):
        return _of_result(source, name or "result")
    raise ValueError(f"{type(source).__name__} cannot be reported: pass read_run(directory), Fitted(…) or a result")


def _of_fitted(fitted: Fitted, name: str) -> RunFiles:
    estimator, labels, clusters = fitted.estimator, fitted.labels, fitted.clusters
    metrics, assignments = {}, []
    if clusters is not None:
        known = [None] * len(clusters) if labels is None else [str(label) for label in labels]
        assignments = list(zip(known, [str(cluster) for cluster in clusters], strict=True))
        if labels is not None:
            metrics = clustering_measures(labels, clusters)
    about = {"state": "done", "estimator": type(estimator).__name__, "parameters": estimator.get_params(deep=False)}
    about["used"] = used_settings(estimator)
    about["made_by"] = getattr(estimator, "provenance_", {})
    if data := getattr(fitted.data, "name", ""):
        about["data"] = data
    history = {column: np.asarray(values, dtype=float).tolist() for column, values in fitted.history.items()}
    ids = getattr(fitted.data, "ids", None)
    names = [str(i) for i in (range(len(assignments)) if ids is None else ids)] if assignments else []
    return RunFiles(name, about, metrics, history, assignments, draw_plots(fitted), members=_few(names))


def _of_result(result: Result | Run, name: str) -> RunFiles:
    last = result if isinstance(result, Result) else result.measures
    spent = last if isinstance(last, Result) else last.evaluations
    found = {
        "fun": last.fun,
        "grad_norm": last.grad_norm,
        "nit": result.nit,
        "nfev": spent.nfev,
        "seconds": result.time,
    }
    metrics = {metric: value for metric, value in found.items() if value is not None}
    history = {column: np.asarray(values, dtype=float).tolist() for column, values in result.history.items()}
    return RunFiles(name, {"state": "done", "status": result.status.value}, metrics, history)


def _few(names: list[str]) -> list[str]:
    """Return the names of members that a page lists, or none if there are many."""
    return names if len(names) <= _LISTED else []


def _history(table: dict[str, list[str]]) -> dict[str, list[float]]:
    return {name: [float(value) if value else float("nan") for value in column] for name, column in table.items()}


def _assignments(table: dict[str, list[str]]) -> list[tuple[str | None, str]]:
    clusters = table.get("cluster", [])
    once: dict[Any, Any] = {}  # of millions of rows, few pairs are different
    pairs = zip(table.get("label", [None] * len(clusters)), clusters, strict=True)
    return [once.setdefault(pair, pair) for pair in pairs]
