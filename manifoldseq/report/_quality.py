"""The record of an evaluation: validated rows of an estimator and of its controls."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

MEASURES: Mapping[str, tuple[str, str]] = {
    "accuracy": ("accuracy", "accuracy on held-out members"),
    "recall": ("recall", "recall of frames that are not stored"),
    "r2": ("R²", "explained share of the held-out variance (R²)"),
    "halves_found": ("halves found", "share of second halves nearest to their own first half"),
    "purity": ("purity", "share of members with the majority label of their cluster"),
    "nmi": ("NMI", "normalized mutual information with the labels"),
    "ari": ("ARI", "agreement with the labels (adjusted Rand index)"),
    "agreement_of_parts": ("agreement of parts", "agreement between fits to parts of the data (adjusted Rand index)"),
    "explained": ("explained", "share of the variance of descriptions that clusters explain, chance subtracted"),
    "silhouette": ("silhouette", "silhouette in the estimator's own distances"),
}
"""Figures in the order of a table: their names in the table, and their descriptions."""
CHANCE = "chance"
"""The name of the row with the level of chance."""


@dataclass(frozen=True)
class Evaluation:
    """A quality figure of an estimator and of its controls.

    Parameters
    ----------
    task : str
        The task: ``"classes"``, ``"clusters"``, ``"neighbours"``, ``"features"``, or a task of a plugin.
    measure : str
        The key of the compared figure in the rows.
    rows : sequence of dict
        ``name`` and figures, which are finite numbers; the estimator is first, followed by its controls. A row without
        the measure has ``why``, a text with the reason.
    verdict : str
        The conclusion, in a sentence.
    confusion : tuple of (ndarray, ndarray), optional
        The classes of held-out members, and their predicted classes.
    greater_is_better : bool
        Whether larger values of the measure are better, as in `sklearn.metrics.make_scorer`; False for an error.

    Raises
    ------
    ValueError
        If a part is missing or has another type; the message names the part.

    Examples
    --------
    >>> rows = [{"name": "mine", "r2": 0.5}, {"name": "mean", "r2": 0.0}, {"name": "pca", "why": "X has one column"}]
    >>> Evaluation("forecasts", "r2", rows, "half of the variance is told").winner
    'mine'
    """

    task: str
    measure: str
    rows: Sequence[Mapping[str, Any]]
    verdict: str
    confusion: tuple[NDArray[Any], NDArray[Any]] | None = None
    greater_is_better: bool = True

    def __post_init__(self) -> None:
        for name in ("task", "measure", "verdict"):
            if not isinstance(value := getattr(self, name), str) or not value.strip():
                raise ValueError(f"an evaluation has {name}={value!r}: pass a string")
        if not isinstance(self.greater_is_better, bool | np.bool_):
            raise ValueError(f"an evaluation has greater_is_better={self.greater_is_better!r}: pass True or False")
        if isinstance(self.rows, str | Mapping) or not isinstance(self.rows, Sequence) or not self.rows:
            raise ValueError("an evaluation has no rows: pass a list of dicts that begins with the estimator's row")
        object.__setattr__(self, "rows", tuple(_checked(row, self.measure) for row in self.rows))

    @property
    def best(self) -> tuple[int, ...]:
        """The numbers of the rows with the best displayed figure; empty for a single figure."""
        figures = {i: row[self.measure] for i, row in enumerate(self.rows) if self.measure in row}
        if len(figures) < 2:
            return ()
        best = shown(max(figures.values()) if self.greater_is_better else min(figures.values()), self.measure)
        return tuple(i for i, figure in figures.items() if shown(figure, self.measure) == best)

    @property
    def winner(self) -> str | None:
        """The name of the first row with the best figure, or None if there is nothing to compare."""
        return self.rows[self.best[0]]["name"] if self.best else None

    def as_dict(self) -> dict[str, Any]:
        """Return the evaluation for JSON, without the confusion."""
        return {
            "task": self.task,
            "measure": self.measure,
            "greater_is_better": bool(self.greater_is_better),
            "rows": [dict(row) for row in self.rows],
            "winner": self.winner,
            "verdict": self.verdict,
        }

    @classmethod
    def from_dict(cls, document: Any) -> Self:
        """Return the evaluation from the result of `as_dict`; raise ValueError for an invalid mapping."""
        if not isinstance(document, Mapping):
            raise ValueError("an evaluation must be a mapping with task, measure, rows, winner and verdict")
        missing = [name for name in ("task", "measure", "rows", "winner", "verdict") if name not in document]
        if missing:
            raise ValueError(f"an evaluation has no {missing[0]}: it has {', '.join(map(str, document)) or 'nothing'}")
        parts = {name: document[name] for name in ("task", "measure", "rows", "verdict")}
        found = cls(**parts, greater_is_better=document.get("greater_is_better", True))
        if document["winner"] not in ([found.rows[i]["name"] for i in found.best] or [None]):
            raise ValueError(
                f"an evaluation has winner={document['winner']!r}, but its rows give winner={found.winner!r}"
            )
        return found


def _checked(row: Any, measure: str) -> dict[str, Any]:
    """Return a row with its figures as floats."""
    name = row.get("name") if isinstance(row, Mapping) else None
    if not isinstance(name, str) or not name.strip():
        raise ValueError(f"an evaluation has the row {row!r}: pass a dict with a name and values")
    found: dict[str, Any] = {"name": name}
    for key, value in row.items():
        if key == "why" and isinstance(value, str) and value.strip():
            found["why"] = value
        elif key == "why":
            raise ValueError(f"row {name!r} of an evaluation has why={value!r}: pass a string")
        elif key != "name":
            if not isinstance(value, Real) or isinstance(value, bool) or not math.isfinite(value):
                raise ValueError(
                    f"row {name!r} of an evaluation has {key}={value!r}, which is not a finite number: pass why='…' "
                    "with the reason instead"
                )
            found[str(key)] = float(value)
    if measure not in found and "why" not in found:
        raise ValueError(f"row {name!r} of an evaluation has neither {measure!r} nor why='…' with the reason")
    return found


def name_of(figure: str) -> str:
    """Return the name of a figure in a table."""
    return MEASURES[figure][0] if figure in MEASURES else figure.replace("_", " ")


def words_for(figure: str) -> str:
    """Return the description of a figure, for the axis of a picture."""
    return MEASURES[figure][1] if figure in MEASURES else figure.replace("_", " ")


def columns_of(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the figures of rows in the order of a table; standard errors are shown in the cells of their figures."""
    others = dict.fromkeys(key for row in rows for key in row)
    kept = [key for key in others if key not in MEASURES and key not in ("name", "why", "seconds")]
    return [
        *(key for key in MEASURES if key in others),
        *(key for key in kept if not (key.endswith("_se") and key.removesuffix("_se") in others)),
    ]


def cell(row: Mapping[str, Any], figure: str) -> str:
    """Return a figure as text, with its standard error if there is one."""
    error = row.get(f"{figure}_se")
    return shown(row.get(figure), figure) + ("" if error is None else f" ± {error:.3f}")


def shown(value: Any, figure: str) -> str:
    """Return a figure as text: known figures with three decimals, numbers of clusters without decimals."""
    if figure in MEASURES and value is not None:
        value = round(value, 3) + 0.0  # no -0.000
    return number(int(value) if figure == "clusters" and value is not None else value)


def number(value: Any) -> str:
    """Return a number with three decimals, or with three digits if it is very small or large; a dash for None."""
    if value is None or value != value:
        return "–"
    if isinstance(value, int):
        return str(value)
    return f"{value:.3f}" if value == 0 or 1e-3 <= abs(value) < 1e4 else f"{value:.3g}"
