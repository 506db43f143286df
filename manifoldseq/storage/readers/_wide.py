"""Tables with one series per row, such as the tables of the UCR archive."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._data import SequenceData
from .._limits import ReadError, record
from .._padding import without_padding
from ._columns import Columns
from ._table import Table
from ._text import TextTable

_LEAST = 3
"""Minimum number of values of a series, such that it differs from a row of names."""


def holds_series(first: Sequence[str], file: TextTable) -> bool:
    """Return whether a first line is a text, the label, before the numbers of a series."""
    return len(first) > _LEAST and bool(first[0]) and file.all_numbers(first[1:]) and not file.all_numbers(first[:1])


def of_series(table: Table, named: bool, label: str | None, said: list[str]) -> SequenceData:
    """Return one sequence of one channel for each row; a description of the interpretation is appended to `said`."""
    header = table.header
    ids = "id" if named and "id" in header else None
    of_label = label if label in header else None
    if label not in (None, "label", of_label):
        raise ReadError(f"{table.where} has no column {label!r}: name the column of the labels with label=…")
    if of_label is None and label is not None and not named and _is_label(table):
        of_label = header[0]
    steps = tuple(name for name in header if name not in (ids, of_label))
    if not steps:
        raise ReadError(f"{table.where} has no column of values: write a series of numbers in each row")
    rows = table.rows(Columns(ids, None, of_label, steps, True, False, named=named))
    labels = None if rows.labels is None else _texts(rows.label_names)[rows.labels]
    names = None if rows.ids is None else [str(rows.id_names[i]) for i in rows.ids.tolist()]
    if not named:
        first = "" if of_label is None else f" with the label in column {of_label}"
        said.append(
            f"has no column names: each row is read as a series of {len(steps)} steps{first} (pass wide=False if each "
            "row is a time step, label=0 if column 0 is the label, and label=None if there is no label)"
        )
    data = record(table.where, list(rows.values[:, :, None]), labels, name=Path(table.where).stem, ids=names)
    data, message = without_padding(data)
    said += filter(None, [message])
    return data


def _is_label(table: Table) -> bool:
    """Return whether the first column is the label: text, or a few whole numbers above which others are not whole."""
    column: Any = table.frame.iloc[:, 0]
    if column.dtype.kind not in "iuf":
        return True
    values = column.to_numpy(float)
    if len(values) != len(table.frame) or not _whole(values) or table.frame.shape[1] <= _LEAST:
        return False
    if table.where.lower().endswith(".tsv"):  # the UCR archive
        return True
    others = table.frame.iloc[:, 1:].select_dtypes("number").to_numpy(float)
    return len(np.unique(values)) <= max(2, len(values) // 2) and not _whole(others[np.isfinite(others)])


def _whole(values: NDArray[np.float64]) -> bool:
    return bool((np.isfinite(values) & (values == np.round(values))).all())


def _texts(names: Sequence[Any]) -> NDArray[np.str_]:
    """Return labels as texts, whole numbers without decimals."""
    return np.array([f"{name:g}" if isinstance(name, float) else str(name) for name in names])
