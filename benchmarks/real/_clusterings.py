"""Adjusted Rand index of clusterings, the mean of five seeds, with the true number of clusters."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np
from sklearn.metrics import adjusted_rand_score

import manifoldseq as ms
from manifoldseq import evaluation

from .._report import Report
from ._sets import Set
from ._table import Table, line, loaded, summary, title

SEEDS = 5
BASELINES: dict[str, Callable[..., Any]] = {
    "spectrum": evaluation.SpectrumKMeans,
    "statistics": evaluation.StatisticsKMeans,
    "curves": evaluation.CurvesKMeans,
    "convolutions": evaluation.ConvolutionsKMeans,
    "warping": evaluation.WarpingKMedoids,
}


def methods() -> dict[str, Callable[..., Any]]:
    """Return the baselines and, where they are installed, the estimators that are compared with them."""
    found = {"LDSKMeans": ms.get_estimator("lds-kmeans")}
    if find_spec("manifoldseq_sequences"):
        found["SequenceKMeans"] = ms.get_estimator("sequence-kmeans")
    return BASELINES | found


def run(report: Report, sets: Sequence[Set]) -> None:
    """Measure."""
    makers = methods()
    title(report, f"adjusted Rand index, mean of {SEEDS} seeds", list(makers))
    table: Table = {}
    seconds: dict[str, list[float]] = {name: [] for name in makers}
    for one, sequences, labels in loaded(report, sets):
        table[one.name] = {}
        for name, make in makers.items():
            scores = []
            began = time.process_time()
            for seed in range(SEEDS):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    found = make(one.classes, random_state=seed).fit(sequences).labels_
                scores.append(float(adjusted_rand_score(labels, found)))
            seconds[name].append((time.process_time() - began) / SEEDS)
            table[one.name][name] = float(np.mean(scores))
        line(report, one.name, table[one.name])
    if not table:
        return
    summary(report, table, list(BASELINES), what="adjusted Rand index")
    line(report, "CPU seconds, all sets", {name: sum(times) for name, times in seconds.items()}, ".1f")
    if "SequenceKMeans" in makers:
        ratio = sum(seconds["SequenceKMeans"]) / sum(seconds["LDSKMeans"])
        report.row("CPU of SequenceKMeans, compared with LDSKMeans", ratio, ".2f", most=4)
