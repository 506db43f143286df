"""Types of the data of estimators, one for each kind of input."""

from collections.abc import Sequence
from typing import Any, TypeAlias

from numpy.typing import ArrayLike, NDArray
from scipy.sparse import sparray, spmatrix

RowsLike: TypeAlias = ArrayLike | sparray | spmatrix
"""Rows of shape (N, D): an array, a data frame, nested lists, or a sparse matrix where an estimator accepts it."""

SequencesLike: TypeAlias = NDArray[Any] | Sequence[ArrayLike]
"""Sequences: a list of N arrays or data frames of shape (T_i, d), or one array of shape (N, T, d)."""

ViewsLike: TypeAlias = ArrayLike | Sequence[ArrayLike | None]
"""The first view, an array or a data frame of shape (N, d), or the list of all views with None for a missing view."""

BagsLike: TypeAlias = ArrayLike | Sequence[ArrayLike | Sequence[ArrayLike]]
"""Bags of one view, a list of N arrays (T_i, d) or an array (N, T, d) or (N, d), or the list of all views."""
