"""Rows of the tables that reproductions return."""

from collections.abc import Sequence
from typing import Any

import numpy as np

Row = dict[str, Any]
"""Rows with ``model, setting, metric, unit, ours, ours_se, paper``, which ``manifoldseq reproduce`` prints."""
Rows = list[Row]


def row(model: str, setting: str, metric: str, unit: str, values: Sequence[float], paper: float | None = None) -> Row:
    """Return a row: the mean of the values and its standard error, with the paper's figure.

    Parameters
    ----------
    model, setting, metric, unit : str
        The description of the measurement; the unit may be empty.
    values : sequence of float
        One value per seed or split. If it is empty, ``ours`` is None: the row of the paper was not measured.
    paper : float, optional
        The figure in the paper.

    Returns
    -------
    dict

    Examples
    --------
    >>> row("HOPE", "K=1000", "test error", "%", [1.0, 2.0], 1.18)["ours_se"]
    0.5
    """
    error = float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else None
    ours = float(np.mean(values)) if len(values) else None
    return dict(model=model, setting=setting, metric=metric, unit=unit, ours=ours, ours_se=error, paper=paper)
