"""Equal rows: merging them with their weights, counting the different ones, and a warning if there are too few."""

import warnings
from collections.abc import Callable, Iterable, Iterator
from functools import reduce
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from ._rows import row_blocks

_ROWS = 512
_SAME = 1e-14
"""Squared distance, relative to the largest square, below which members are equal up to rounding in float64."""


def distinct_rows(rows: Any, weight: Any) -> tuple[Any, Any, Any]:
    """Merge equal rows and add their weights; the merged rows do not depend on the order of the rows.

    Random draws from the result do not depend on the order of the rows, and a row of weight two is equivalent to two
    rows.

    Parameters
    ----------
    rows : ndarray of shape (n, d), or `scipy.sparse.csr_array`
    weight : ndarray of shape (n,)

    Returns
    -------
    ndarray or csr_array of shape (m, d), ndarray of shape (m,), ndarray of int of shape (n,)
        The different rows, their weights, and the place of each of the n rows among them.

    Examples
    --------
    >>> rows, weight, place = distinct_rows(np.array([[1.0], [0.0], [1.0]]), np.array([1.0, 2.0, 3.0]))
    >>> rows.ravel().tolist(), weight.tolist(), place.tolist()
    ([0.0, 1.0], [2.0, 4.0], [1, 0, 1])
    """
    if not issparse(rows):
        found, place = np.unique(rows, axis=0, return_inverse=True)
        return found, np.bincount(place.ravel(), weights=weight), place.ravel()
    # of rows without negative entries the order is that of the dense rows
    known: dict[tuple[float, ...], list[int]] = {}
    for i, (a, b) in enumerate(pairwise(rows.indptr)):
        entries = np.column_stack([-rows.indices[a:b], rows.data[a:b]])
        known.setdefault(tuple(entries.ravel().tolist()), []).append(i)
    groups = [known[key] for key in sorted(known)]
    place = np.empty(rows.shape[0], np.intp)
    for i, group in enumerate(groups):
        place[group] = i
    return rows[[group[0] for group in groups]], np.array([weight[group].sum() for group in groups]), place


def differing(away: Callable[[int], NDArray[Any]], apart: NDArray[Any], same: float, most: int) -> list[int]:
    """Return the numbers of members that differ from each other and from known members, the farthest first.

    Parameters
    ----------
    away : callable
        ``away(i) -> ndarray of shape (n,)``: the squared distances of the n members from member i.
    apart : ndarray of shape (n,)
        The squared distance of each member from the nearest known member; infinity if there is none.
    same : float
        Members with at most this squared distance are equal.
    most : int
        The largest number of members to return.

    Examples
    --------
    >>> x = np.array([0.0, 3.0, 3.0, 1.0])
    >>> differing(lambda i: (x - x[i]) ** 2, np.full(4, np.inf), 1e-9, 4)
    [0, 1, 3]
    """
    found: list[int] = []
    while len(found) < most:
        farthest = int(np.argmax(apart))
        if not apart[farthest] > same:
            break
        found.append(farthest)
        apart = np.minimum(apart, away(farthest))
        apart[farthest] = 0
    return found


def count_distinct(blocks: Iterable[Any], most: int) -> int:
    """Return the number of different rows, up to rounding, or `most` if there are as many or more.

    Parameters
    ----------
    blocks : iterable of array-like or sparse matrix of shape (b, d)
        Blocks of rows. Blocks after the last row that is needed are not read.
    most : int

    Examples
    --------
    >>> count_distinct([[[1.0, 0.0], [1.0, 0.0]], [[0.0, 1.0]]], 5)
    2
    """
    known: list[Any] = []
    for block in _parts(blocks):
        rows: Any = block.astype(np.float64)
        squares = np.asarray(rows.multiply(rows).sum(axis=1)).ravel() if issparse(rows) else np.sum(rows**2, axis=1)
        eps = np.finfo(block.dtype).eps if getattr(block, "dtype", None) == np.float32 else np.finfo(float).eps
        same = max(_SAME, (4 * eps) ** 2) * max(squares.max(), *(float(k @ k) for k in known), np.finfo(float).tiny)
        apart = reduce(np.minimum, (_away(one, rows, squares) for one in known), np.full(len(squares), np.inf))
        new = differing(
            lambda i, rows=rows, squares=squares: _away(_row(rows, i), rows, squares), apart, same, most - len(known)
        )
        known += [_row(rows, i) for i in new]
        if len(known) >= most:
            break
    return len(known)


def _row(rows: Any, i: int) -> Any:
    return rows[[i]].toarray()[0] if issparse(rows) else rows[i]


def _away(one: Any, rows: Any, squares: Any) -> Any:
    """Return the squared distances of rows, whose squares are known, from one row."""
    return squares - 2 * (rows @ one) + one @ one


def _parts(blocks: Iterable[Any]) -> Iterator[Any]:
    """Yield small blocks of rows, so that little memory is copied."""
    for block in blocks:
        rows = block if issparse(block) else np.asarray(block)
        yield from (rows[part] for part in row_blocks(rows.shape[0], _ROWS))


def warn_of_few_distinct(found: int, asked: int, name: str, what: str, *, stacklevel: int = 2) -> None:
    """Warn (scikit-learn's ConvergenceWarning) if there are fewer different members than clusters.

    Parameters
    ----------
    found, asked : int
        The number of different members, and the number of clusters.
    name : str
        The name of the parameter with the number of clusters, such as ``"n_clusters"``.
    what : str
        The plural noun for the members, such as ``"directions"``.
    stacklevel : int
        The `stacklevel` of `warnings.warn`, counted from the caller.

    Examples
    --------
    >>> import warnings
    >>> with warnings.catch_warnings(record=True, action="always") as caught:
    ...     warn_of_few_distinct(2, 3, "n_clusters", "rows")
    >>> print(caught[0].message)
    X has 2 different rows for n_clusters=3: the choice among equal clusters is arbitrary; lower n_clusters
    """
    from sklearn.exceptions import ConvergenceWarning

    if found < asked:
        one = what[:-1] if found == 1 else what
        warnings.warn(
            f"X has {found} different {one} for {name}={asked}: the choice among equal clusters is arbitrary; "
            f"lower {name}",
            ConvergenceWarning,
            stacklevel=stacklevel + 1,
        )
