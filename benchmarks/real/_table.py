"""Tables of figures, one row per set and one column per method."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from .._report import Report
from ._sets import Set

NEAR = 0.05
"""A figure that is less than the best by no more than this is near the best."""

Table = dict[str, dict[str, float]]
"""Figures by set and method."""


def loaded(report: Report, sets: Sequence[Set]) -> Iterator[tuple[Set, Any, Any]]:
    """Yield each set with its sequences and labels; a set whose file is missing is skipped, and the report says so."""
    for one in sets:
        try:
            sequences, labels = one.load()
        except FileNotFoundError as error:
            report.note(f"skipped {one.name}: {error}")
            report.skipped.append(one.name)
            continue
        yield one, sequences, labels


def title(report: Report, what: str, names: Sequence[str]) -> None:
    """Print what is measured, and the names of the columns."""
    report.title(what)
    report.note(f"{'':<24}" + "".join(f"{name[:19]:>20}" for name in names))


def line(report: Report, name: str, figures: Mapping[str, float], form: str = ".2f") -> None:
    """Print one row."""
    report.note(f"{name:<24}" + "".join(f"{value:>20{form}}" for value in figures.values()))


def summary(report: Report, table: Table, baselines: Sequence[str], *, what: str) -> None:
    """Print means, and compare the methods that are no baselines with the best of the baselines."""
    columns = list(next(iter(table.values())))
    means = {name: float(np.mean([row[name] for row in table.values()])) for name in columns}
    line(report, "mean", means)
    best = max(baselines, key=means.__getitem__)
    for name in columns:
        if name in baselines:
            continue
        report.row(
            f"{what} of {name}, mean; the best baseline by mean is {best}", means[name], ".3f", least=means[best]
        )
        near = [row[name] >= max(row[one] for one in baselines) - NEAR for row in table.values()]
        share = float(np.mean(near))
        report.row(f"{name}: share of sets within {NEAR} of the best baseline of the set", share, ".2f", least=0.6)
