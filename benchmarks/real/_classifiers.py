"""Accuracy of classifiers on held-out sequences: two stratified halves, each once for training, of two splits."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np
from sklearn.model_selection import StratifiedKFold

import manifoldseq as ms
from manifoldseq import evaluation

from .._report import Report
from ._sets import Set
from ._table import Table, line, loaded, summary, title

SPLITS = 2
BASELINES: dict[str, Callable[[], Any]] = {
    "warping 1-NN": evaluation.WarpingClassifier,
    "convolutions": lambda: evaluation.ConvolutionsClassifier(random_state=0),
    "spectrum SVM": evaluation.SpectrumClassifier,
}


def methods() -> dict[str, Callable[[], Any]]:
    """Return the baselines and, where they are installed, the estimators that are compared with them."""
    found = {"LDSClassifier": ms.get_estimator("lds-classifier")}
    if find_spec("manifoldseq_sequences"):
        found["SequenceClassifier"] = ms.get_estimator("sequence-classifier")
    return BASELINES | found


def run(report: Report, sets: Sequence[Set]) -> None:
    """Measure."""
    makers = methods()
    title(report, f"accuracy on held-out sequences, {2 * SPLITS} halves for training", list(makers))
    table: Table = {}
    seconds: dict[str, float] = dict.fromkeys(makers, 0.0)
    for one, sequences, labels in loaded(report, sets):
        table[one.name] = {}
        for name, make in makers.items():
            shares = []
            began = time.process_time()
            for seed in range(SPLITS):
                for train, test in StratifiedKFold(2, shuffle=True, random_state=seed).split(labels, labels):
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        model = make().fit([sequences[i] for i in train], labels[train])
                        said = model.predict([sequences[i] for i in test])
                    shares.append(float(np.mean(said == labels[test])))
            seconds[name] += time.process_time() - began
            table[one.name][name] = float(np.mean(shares))
        line(report, one.name, table[one.name])
    if table:
        summary(report, table, list(BASELINES), what="accuracy")
        line(report, "CPU seconds", seconds, ".1f")
