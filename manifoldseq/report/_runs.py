"""The files of a run directory, read back for a report."""

import csv
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class RunFiles:
    """What a run directory holds.

    Parameters
    ----------
    name : str
        The name of the directory.
    run : dict
        ``run.json``: state, command, estimator, data, parameters, versions.
    metrics : dict of str to float
        ``metrics.json``; entries that start with ``baseline_`` are the baseline's.
    history : dict of str to list of float
        The columns of ``history.csv``, empty if there is none.
    assignments : list of (str or None, str)
        Label and cluster of each sequence, empty if the estimator assigns none.
    """

    name: str
    run: dict[str, Any]
    metrics: dict[str, float] = field(default_factory=dict)
    history: dict[str, list[float]] = field(default_factory=dict)
    assignments: list[tuple[str | None, str]] = field(default_factory=list)


def read_run(directory: str | Path) -> RunFiles:
    """Read a run directory.

    Parameters
    ----------
    directory : str or Path
        As ``manifoldseq fit -o`` wrote it.

    Returns
    -------
    RunFiles

    Raises
    ------
    ValueError
        If it is no run directory.
    """
    path = Path(directory)
    try:
        run = json.loads((path / "run.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} is no run directory: its run.json cannot be read ({error})") from error
    metrics_file = path / "metrics.json"
    metrics = json.loads(metrics_file.read_text(encoding="utf-8")) if metrics_file.exists() else {}
    history = {name: [float(value) if value else float("nan") for value in column]
               for name, column in _columns(path / "history.csv").items()}  # fmt: skip
    table = _columns(path / "assignments.csv")
    clusters = table.get("cluster", [])
    labels = table.get("label", [None] * len(clusters))
    return RunFiles(path.resolve().name, run, metrics, history, list(zip(labels, clusters, strict=True)))


def _columns(path: Path) -> dict[str, list[str]]:
    if not path.exists():
        return {}
    with path.open(newline="", encoding="utf-8") as file:
        header, *rows = list(csv.reader(file)) or [[]]
    return {name: [row[i] for row in rows] for i, name in enumerate(header)}
