"""Rows by what is observed of them."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from manifoldseq.estimators import row_blocks

from ._parameters import Array
from ._views import View


def grouped(
    views: list[View], weights: Array | None = None
) -> Iterator[tuple[NDArray[np.bool_], list[View], Array | None]]:
    """Return the rows that have the same columns: masks, views, weights; without NaN all in one."""
    for columns, rows in patterns(views):
        if rows is None:
            yield columns, views, weights
        else:
            yield columns, observed_views(views, columns, rows), None if weights is None else weights[rows]


def patterns(views: list[View]) -> list[tuple[NDArray[np.bool_], NDArray[np.intp] | None]]:
    """Return which columns are there (D,) in which rows; the rows are None if all have all of them."""
    D = sum(view.shape[1] for view in views)
    if not any(np.isnan(view[rows]).any() for view in views for rows in row_blocks(len(view))):
        return [(np.ones(D, bool), None)]
    holes = np.hstack([np.isnan(view) for view in views])
    for i in np.flatnonzero(holes.all(axis=1)):
        raise ValueError(f"row {i} has no value in any view: remove it")
    kinds, kind = np.unique(np.packbits(holes, axis=1), axis=0, return_inverse=True)
    kind = kind.ravel()
    return [(np.unpackbits(row, count=D) == 0, np.flatnonzero(kind == i)) for i, row in enumerate(kinds)]


def observed_views(views: list[View], columns: NDArray[np.bool_], rows: NDArray[np.intp]) -> list[View]:
    """Return these rows and columns; views without any of the columns are left out."""
    parts, start = [], 0
    for view in views:
        kept = columns[start : start + view.shape[1]]
        start += view.shape[1]
        if kept.any():
            parts.append(view[np.ix_(rows, kept)])
    return parts
