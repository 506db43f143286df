"""Groups of rows with the same observed values."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manifoldseq.estimators import row_blocks

from ._views import View

Mask = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Selected:
    """Selected rows and columns of a view, which are copied only when a slice is read."""

    view: View
    rows: NDArray[np.intp]
    columns: NDArray[np.intp] | None

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, part: slice) -> View:
        rows = self.rows[part]
        return self.view[rows] if self.columns is None else self.view[rows[:, None], self.columns]


def patterns(views: list[View]) -> list[tuple[Mask, NDArray[np.intp] | None]]:
    """Return pairs of observed columns (D,) and rows; the rows are None if no value is missing."""
    D, found = sum(view.shape[1] for view in views), kinds(views)
    return [(np.ones(D, bool), None)] if found is None else list(by_kind(*found, D))


def kinds(views: list[View]) -> tuple[NDArray[np.uint8], NDArray[Any]] | None:
    """Return the patterns of missing values as bits (P, ceil(D / 8)), and the number of the pattern of each row (N,).

    The result is None if nothing is missing. The views are read in blocks of rows.
    """
    N, D = len(views[0]), sum(view.shape[1] for view in views)
    if not any(np.isnan(view[rows]).any() for view in views for rows in row_blocks(N)):
        return None
    bits = np.empty((N, -(-D // 8)), np.uint8)
    for rows in row_blocks(N):
        bits[rows] = np.packbits(np.hstack([np.isnan(view[rows]) for view in views]), axis=1)
    table, kind = np.unique(bits, axis=0, return_inverse=True)
    kind = kind.ravel().astype(np.min_scalar_type(len(table)))  # of 16 bits at most, numbers are sorted in one pass
    empty = np.flatnonzero(np.unpackbits(table, axis=1, count=D).all(axis=1))
    if len(empty):
        raise ValueError(f"row {np.flatnonzero(kind == empty[0])[0]} has no value in any view: remove it")
    return table, kind


def by_kind(table: NDArray[np.uint8], kind: NDArray[Any], D: int) -> Iterator[tuple[Mask, NDArray[np.intp]]]:
    """Yield the patterns of some rows: observed columns (D,), and rows."""
    order, counts = np.argsort(kind, kind="stable"), np.bincount(kind)
    present = np.flatnonzero(counts)
    for i, rows in zip(present, np.split(order, np.cumsum(counts[present])[:-1]), strict=True):
        yield np.unpackbits(table[i], count=D) == 0, rows


def observed_views(views: list[View], columns: Mask, rows: NDArray[np.intp]) -> list[Any]:
    """Return these rows and columns; views without any of the columns are left out."""
    parts, start = [], 0
    for view in views:
        kept = columns[start : start + view.shape[1]]
        start += view.shape[1]
        if kept.any():
            parts.append(Selected(view, rows, None if kept.all() else np.flatnonzero(kept)))
    return parts
