"""Rows of the tables that reproductions return."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ._settings import check_whole

Row = dict[str, Any]
Rows = list[Row]


def row(model: str, setting: str, metric: str, unit: str, values: Sequence[float], paper: float | None) -> Row:
    """Return a row: the mean of the values and its standard error, beside the paper's figure."""
    error = float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else None
    ours = float(np.mean(values)) if len(values) else None
    return dict(model=model, setting=setting, metric=metric, unit=unit, ours=ours, ours_se=error, paper=paper)


def several(name: str, value: Any) -> tuple[int, ...]:
    """Return the values of a parameter that is one whole number or some."""
    values = tuple(value) if isinstance(value, list | tuple) else (value,)
    for one in values:
        check_whole(name, one)
    return values
