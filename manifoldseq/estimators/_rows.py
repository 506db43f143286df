"""Rows: one policy for arrays of shape (N, D), and blocks of consecutive rows."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse

from .._extras import needing
from ..storage._real import check_real


def validate_rows(
    estimator: Any, X: Any, *, reset: bool, finite: bool = True, least: int = 1, sparse: bool = False
) -> Any:
    """Validate rows on behalf of an estimator; the counterpart of `validate_sequences`.

    scikit-learn's `validate_data` behind `check_real`: masked arrays, dates, text and objects are errors.

    Parameters
    ----------
    estimator : estimator
        Gets `n_features_in_`, and `feature_names_in_` of a data frame, when `reset`; otherwise X is compared with them.
    X : array-like of shape (N, D)
    reset : bool
        True in `fit`, False in `predict` and `transform`.
    finite : bool
        Raise ValueError for NaN and infinity, and convert what is neither float64 nor float32 to float64. False leaves
        the dtype, and does not read the data, which may be a `numpy.memmap`.
    least : int
        The least number of rows.
    sparse : bool
        Take sparse matrices too, and return them as rows in compressed form, their indices in order and none twice.

    Returns
    -------
    ndarray of shape (N, D), or `scipy.sparse.csr_array`

    Raises
    ------
    ValueError
        One sentence that says what is wrong.

    Examples
    --------
    >>> from sklearn.base import BaseEstimator
    >>> validate_rows(BaseEstimator(), [[1, 2]], reset=True).dtype
    dtype('float64')
    """
    with needing("estimators need", "cli"):
        from sklearn.utils.validation import validate_data

    kind: dict[str, Any] = {"dtype": [np.float64, np.float32]} if finite else {"ensure_all_finite": False}
    if sparse:
        kind["accept_sparse"] = "csr"
    rows: Any = validate_data(estimator, check_real(X), reset=reset, ensure_min_samples=least, **kind)
    if issparse(rows):
        rows = csr_array(rows, copy=not rows.has_canonical_format)
        rows.sum_duplicates()
    return rows


def row_blocks(n_rows: int, size: int = 8192) -> Iterator[slice]:
    """Yield slices of `size` consecutive rows, the last of which may be shorter.

    Sums over the same blocks in the same order are bit-identical, whoever computes the blocks.

    Examples
    --------
    >>> list(row_blocks(5, 2))
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    return (slice(start, min(start + size, n_rows)) for start in range(0, n_rows, size))
