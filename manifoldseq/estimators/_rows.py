"""Checks of arrays of shape (N, D), and blocks of consecutive rows."""

from collections.abc import Iterator
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array, issparse

from .._extras import needing
from ..storage._real import check_real
from ._data_types import RowsLike


@overload
def validate_rows(
    estimator: Any, X: RowsLike, *, reset: bool, finite: bool = True, least: int = 1, sparse: Literal[False] = False
) -> NDArray[Any]: ...


@overload
def validate_rows(
    estimator: Any, X: RowsLike, *, reset: bool, finite: bool = True, least: int = 1, sparse: bool
) -> Any: ...


def validate_rows(
    estimator: Any, X: RowsLike, *, reset: bool, finite: bool = True, least: int = 1, sparse: bool = False
) -> Any:
    """Validate rows for an estimator; `validate_sequences` is the same for sequences.

    The function calls `check_real`, which raises an error for masked arrays, dates, text and objects, and then
    scikit-learn's `validate_data`.

    Parameters
    ----------
    estimator : estimator
        The estimator, whose `n_features_in_` and `feature_names_in_` (for data frames) are set if `reset`; otherwise X
        is compared with them.
    X : array-like of shape (N, D)
    reset : bool
        True in `fit`, False in `predict` and `transform`.
    finite : bool
        Raise ValueError for NaN and infinity, and convert other dtypes than float64 and float32 to float64. False keeps
        the dtype and does not read the data, which may be a `numpy.memmap`.
    least : int
        The minimum number of rows.
    sparse : bool
        Accept sparse matrices too, and return them in compressed row format with sorted, unique indices.

    Returns
    -------
    ndarray of shape (N, D), or `scipy.sparse.csr_array`

    Raises
    ------
    ValueError
        If X is invalid. The message describes the problem.

    Examples
    --------
    >>> from sklearn.base import BaseEstimator
    >>> validate_rows(BaseEstimator(), [[1, 2]], reset=True).dtype
    dtype('float64')
    >>> validate_rows(BaseEstimator(), [[1.0, 2.0], [3.0, float("nan")]], reset=True)
    Traceback (most recent call last):
    ...
    ValueError: X has NaN in row 1, column 1: remove or fill it
    """
    with needing("estimators need", "cli"):
        from sklearn.utils.validation import validate_data

    kind: dict[str, Any] = {"dtype": [np.float64, np.float32]} if finite else {}
    if sparse:
        kind["accept_sparse"] = "csr"
    # scikit-learn's message about NaN is a page about other estimators
    kind["ensure_all_finite"] = False
    try:
        rows: Any = validate_data(estimator, check_real(X), reset=reset, ensure_min_samples=least, **kind)
    except ValueError as error:
        if "inhomogeneous" not in str(error):
            raise
        raise ValueError("the rows of X have different lengths: pass one array of shape (N, d)") from error
    if finite:
        _check_finite(rows)
    if issparse(rows):
        rows = csr_array(rows, copy=not rows.has_canonical_format)
        rows.sum_duplicates()
    return rows


def _check_finite(rows: Any) -> None:
    """Raise ValueError if a row of an array or sparse matrix has NaN or infinity; the message names the place."""
    values = rows.data if issparse(rows) else rows
    with np.errstate(all="ignore"):
        if np.isfinite(np.sum(values)):  # no copy; a sum that overflows is looked at closely
            return
    for part in row_blocks(len(values)):
        bad = np.argwhere(~np.isfinite(values[part]))
        if not len(bad):
            continue
        first = part.start + int(bad[0, 0])
        if issparse(rows):
            row, column = int(np.searchsorted(rows.indptr, first, side="right")) - 1, int(rows.indices[first])
        else:
            row, column = first, int(bad[0, 1])
        what, remedy = ("NaN", "fill") if np.isnan(values[part][tuple(bad[0])]) else ("infinity", "clip")
        raise ValueError(f"X has {what} in row {row}, column {column}: remove or {remedy} it")


def row_blocks(n_rows: int, size: int = 8192) -> Iterator[slice]:
    """Yield slices of `size` consecutive rows, the last of which may be shorter.

    Sums over the same blocks in the same order are bit-identical, regardless of the process that computes a block.

    Examples
    --------
    >>> list(row_blocks(5, 2))
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    return (slice(start, min(start + size, n_rows)) for start in range(0, n_rows, size))


def check_sample_weight(sample_weight: ArrayLike | None, N: int, *, least: int = 1) -> NDArray[np.float64] | None:
    """Return the weights of N rows in float64 (None if `sample_weight` is None), or raise ValueError.

    Weights must be finite and not negative, and `least` of them must be positive.

    Examples
    --------
    >>> check_sample_weight([1, 0, 2], 3)
    array([1., 0., 2.])
    """
    if sample_weight is None:
        return None
    weights = np.asarray(check_real(sample_weight, "sample_weight"), np.float64)
    if weights.shape != (N,):
        raise ValueError(f"sample_weight has shape {weights.shape} for {N} rows: pass one number for each row")
    if not (np.isfinite(weights).all() and (weights >= 0).all()):
        raise ValueError("sample_weight has a negative value, NaN or infinity: pass finite numbers of at least 0")
    if (positive := np.count_nonzero(weights)) < least:
        few = f"has {positive} positive weights" if positive else "is zero for every row"
        raise ValueError(f"sample_weight {few}: pass at least {least} above 0")
    return weights
