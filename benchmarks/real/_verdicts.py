"""Which controls a verdict names, with labels and without, where a control is better and where none is.

A control is better if its adjusted Rand index is larger by 0.05. A verdict with labels names a control that "is
better", one without labels a control that has other clusters: "compare both".
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any

import manifoldseq as ms

from .._report import Report
from ._sets import Set
from ._table import loaded

BETTER = 0.05


def run(report: Report, sets: Sequence[Set]) -> None:
    """Measure."""
    makers: dict[str, Callable[..., Any]] = {"LDSKMeans": ms.get_estimator("lds-kmeans")}
    if find_spec("manifoldseq_sequences"):
        makers["SequenceKMeans"] = ms.get_estimator("sequence-kmeans")
    for name, make in makers.items():
        report.title(f"verdicts about {name}: its adjusted Rand index, that of the best control, what is named")
        named: dict[bool, list[tuple[bool, bool]]] = {True: [], False: []}
        for one, sequences, labels in loaded(report, sets):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model = make(one.classes, random_state=0).fit(sequences)
                known, unknown = (ms.evaluation.evaluate(model, sequences, y) for y in (labels, None))
            own = known.rows[0]["ari"]
            best = max(known.rows[1:], key=lambda row: row.get("ari", -1.0))
            with_labels, without = "is better" in known.verdict, "compare both" in unknown.verdict
            named[best["ari"] >= own + BETTER].append((with_labels, without))
            said = f"{'named' if with_labels else '-':>8}{'named' if without else '-':>8}"
            report.note(f"{one.name:<24}{own:>6.2f}  {best['name']:<24}{best['ari']:>6.2f}{said}")
        for place, what, least in ((0, "with labels", 0.85), (1, "without labels", 0.6)):
            for better, verb in ((True, "named where a control is better"), (False, "false alarms")):
                if found := [pair[place] for pair in named[better]]:
                    limit = {"least": least} if better else {"most": 0.1}
                    report.row(f"{name}, {what}: {verb}, of {len(found)}", sum(found) / len(found), ".2f", **limit)
