"""Validation of views: arrays of shape (N, d_v) with the same rows, of any real dtype."""

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import get_lapack_funcs, solve_triangular

from manifoldseq.estimators import ViewsLike, check_real, column_names, quoted, row_blocks

View = NDArray[Any]

LARGEST = 1e150
"""Upper bound of values, so that squares and their sums do not overflow."""
SMALLEST = 1e-100
"""Lower bound of the variation of a column, so that variances and the floor of the noise do not underflow."""


Names = list[NDArray[Any]]
"""The names of the columns of each view, as arrays of strings."""


def check_views(X: ViewsLike, *more: ArrayLike | None, missing: bool = False, names: Names | None = None) -> list[View]:
    """Validate views and return them as arrays in their floating-point dtype, without unnecessary copies.

    Parameters
    ----------
    X : array-like of shape (N, d_x), or a list of views if no other argument is given
    *more : array-like of shape (N, d_v) or None
    missing : bool
        Accept NaN.
    names : list of ndarray of str of shape (d_v,), optional
        The names of the columns in messages.

    Returns
    -------
    list of ndarray of shape (N, d_v)

    Raises
    ------
    ValueError
        If a view is invalid. The message names the view and the position, and says what to do.

    Examples
    --------
    >>> [view.shape for view in check_views([[1.0], [2.0]], [[3.0, 4.0], [5.0, 6.0]])]
    [(2, 1), (2, 2)]
    >>> check_views([[1.0]], [[1.0], [2.0]])
    Traceback (most recent call last):
    ...
    ValueError: view 1 has 2 rows but view 0 has 1: pass the same samples in every view
    """
    views = [as_view(item, v) for v, item in enumerate(as_list(X, *more))]
    for v, view in enumerate(views):
        if len(view) != len(views[0]):
            raise ValueError(
                f"view {v} has {len(view)} rows but view 0 has {len(views[0])}: pass the same samples in every view"
            )
        of_view = None if names is None else names[v]
        remedy = "remove or fill it, or fit with missing='em'"
        check_values(view, f"view {v}", remedy, missing=missing, names=of_view)
    return views


def given_names(items: list[Any], names: Any = None) -> Names | None:
    """Return the given column names of views, or the names of data frames, or None if a view has no names.

    Raises
    ------
    ValueError
        If the number of names differs from the number of columns.
    """
    if names is None:
        found = [column_names(item) for item in items]
        return None if any(one is None for one in found) else [np.array(one, dtype=object) for one in found]
    if len(names) != len(items):
        raise ValueError(f"feature_names has {len(names)} lists for {len(items)} views: pass one list for each view")
    for v, (one, item) in enumerate(zip(names, items, strict=True)):
        if isinstance(one, str) or not all(isinstance(name, str) for name in one):
            raise ValueError(f"feature_names[{v}] is {quoted(one)}: pass a list of strings")
        if len(one) != (width := as_view(item, v).shape[1]):
            raise ValueError(
                f"feature_names[{v}] has {len(one)} names for {width} columns: pass one name for each column"
            )
    return [np.array(list(one), dtype=object) for one in names]


def check_names(items: list[Any], names: Names | None, name: str) -> None:
    """Raise ValueError for data frames with other columns than in fit."""
    for v, (item, known) in enumerate(zip(items, names or (), strict=False)):
        found = column_names(item)
        if found is not None and found != list(known):
            wrong = next((one for one in found if one not in set(known)), None)
            what = f"has the column {wrong!r}, which is missing in" if wrong is not None else "lacks columns of"
            if wrong is None and len(found) == len(known):
                what = "has its columns in another order than"
            raise ValueError(
                f"view {v} {what} the data to which this {name} was fitted: "
                f"pass {', '.join(known[:6])}{' and so on' if len(known) > 6 else ''}"
            )


def column(j: int, names: NDArray[Any] | None) -> str:
    """Return the description of a column in messages."""
    return f"column {j}" if names is None else f"column {str(names[j])!r}"


def check_values(
    rows: View,
    where: str,
    remedy: str = "remove or fill it",
    missing: bool = False,
    names: NDArray[Any] | None = None,
) -> None:
    """Raise ValueError for infinity, for values whose squares overflow and, unless values may be missing, for NaN."""
    for part in row_blocks(len(rows)):
        block = rows[part]
        if float(block.min()) >= -LARGEST and float(block.max()) <= LARGEST:  # neither if there is NaN
            continue
        wrong = np.abs(block) > np.float64(LARGEST)
        if not missing:
            wrong |= np.isnan(block)
        if wrong.any():
            i, j = np.argwhere(wrong)[0]
            value, place = block[i, j], f"at row {part.start + i}, {column(int(j), names)}"
            if np.isnan(value):
                raise ValueError(f"{where} has NaN {place}: {remedy}")
            if np.isinf(value):
                raise ValueError(f"{where} has infinity {place}: remove or clip it")
            raise ValueError(f"{where} has {value:.3g} {place}, which is too large to be squared: rescale the column")


def as_list(X: ViewsLike, *more: ArrayLike | None) -> list[Any]:
    """Return the views of ``(X, Y)`` or ``([X, Y])`` as a list, which may contain None."""
    given = [item for item in more if item is not None]
    if not more or (not given and isinstance(X, (list, tuple)) and _is_list_of_views(X)):
        if not isinstance(X, (list, tuple)):
            raise ValueError(f"one {type(X).__name__} was passed: pass the views as (X, Y) or as a list [X, Y]")
        if not X:
            raise ValueError("no view was passed: pass the views as (X, Y) or as a list [X, Y]")
        return list(X)
    return [X, *more]


def split(tables: Any, sizes: Any) -> list[View]:
    """Split the columns of concatenated tables into views.

    Examples
    --------
    >>> [view.tolist() for view in split([[[1.0, 2.0, 3.0]], [[4.0, 5.0, 6.0]]], [1, 2])]
    [[[1.0], [4.0]], [[2.0, 3.0], [5.0, 6.0]]]
    """
    parts = [as_view(table, i) for i, table in enumerate(tables)]
    widths = sorted({part.shape[1] for part in parts})
    if len(widths) != 1:
        raise ValueError(
            f"the tables have {widths} columns: pass at least one table, and the same number of columns in every table"
        )
    whole = isinstance(sizes, (list, tuple)) and all(isinstance(size, Integral) and int(size) > 0 for size in sizes)
    if not whole or sum(sizes) != widths[0]:
        raise ValueError(f"views={quoted(sizes)} is not valid: pass whole numbers of columns with the sum {widths[0]}")
    return np.split(np.concatenate(parts), np.cumsum(sizes)[:-1], axis=1)


def check_sizes(views: list[View], sizes: tuple[int, ...], name: str) -> None:
    """Raise ValueError for views with other columns than in fit."""
    found = tuple(view.shape[1] for view in views)
    if found != sizes:
        raise ValueError(f"the views have {found} columns but this {name} was fitted on {sizes}: pass the same columns")


@dataclass(frozen=True)
class Moments:
    """Means and variances of all columns, with the validations that use them.

    Attributes
    ----------
    mean, variance : ndarray of shape (D,)
    constant : ndarray of bool of shape (D,)
    """

    mean: NDArray[np.float64]
    variance: NDArray[np.float64]
    constant: NDArray[np.bool_]

    @classmethod
    def of(
        cls,
        views: list[View],
        names: Names | None = None,
        weights: NDArray[Any] | None = None,
        constant: str = "error",
    ) -> "Moments":
        """Return the moments of views; NaN marks missing values, and rows may have weights.

        Messages use the column names `names`. With ``constant="warn"``, a constant column gets a variance of the size
        of its value, and a warning.

        Raises
        ------
        ValueError
            If there is only one row, or a column is constant up to rounding, or never observed.
        """
        if len(views[0]) == 1:
            raise ValueError("the views have 1 sample, whose columns do not vary: pass at least two rows")
        means, variances, constants = [], [], []
        for v, view in enumerate(views):
            of_view = None if names is None else names[v]
            shift = np.nan_to_num(np.asarray(view[0], np.float64))
            count, first, second, widest = np.zeros((4, view.shape[1]))
            for rows in row_blocks(len(view)):
                block = view[rows] - shift
                w = np.ones(len(block)) if weights is None else weights[rows]
                count += w @ ~np.isnan(block)
                block = np.nan_to_num(block)
                first += w @ block
                second += w @ block**2
                widest = np.maximum(widest, np.abs(block).max(axis=0))
            if not count.all():
                where = column(int(count.argmin()), of_view)
                raise ValueError(f"{where} of view {v} is missing in every row: remove it")
            tiny = np.flatnonzero((widest < SMALLEST) & (widest > 16 * np.finfo(_eps_dtype(view)).eps * np.abs(shift)))
            if len(tiny):
                raise ValueError(
                    f"{column(int(tiny[0]), of_view)} of view {v} varies by {widest[tiny[0]]:.3g}, which is too "
                    "little to be squared: rescale the column"
                )
            # about the first row, so that squares do not cancel; a column is constant if rounding explains its variance
            offset = first / count
            variance = second / count - offset**2
            scale = np.abs(shift + offset) + np.sqrt(second / count)
            still = np.flatnonzero(variance <= (16 * np.finfo(_eps_dtype(view)).eps * scale) ** 2)
            which = ", ".join(column(int(j), of_view) for j in still[:3]) + (" and more" if len(still) > 3 else "")
            if len(still) == view.shape[1] or (len(still) and constant == "error"):
                what = "is constant: remove it" if len(still) == 1 else "are constant: remove them"
                raise ValueError(f"{which} of view {v} {what}, because constant columns have no density")
            if len(still):
                what = "is constant: it contains" if len(still) == 1 else "are constant: they contain"
                warnings.warn(f"{which} of view {v} {what} no information on the other columns", stacklevel=5)
                variance[still] = np.maximum(scale[still], 1.0) ** 2
            means.append(shift + offset)
            variances.append(variance)
            constants.append(np.isin(np.arange(len(variance)), still))
        return cls(np.concatenate(means), np.concatenate(variances), np.concatenate(constants))


@dataclass(frozen=True, eq=False)
class CheckedViews:
    """Validated views with their moments, which the model ``mpcca`` accepts without further checks.

    Attributes
    ----------
    views : list of ndarray of shape (N, d_v)
    moments : Moments, optional
        Starts need them.
    weights : ndarray of shape (N,), optional
        Positive.
    origin : ndarray of shape (D,), optional
        The origin of the sums; by default the mean.
    floor : ndarray of shape (D,), optional
        Lower bound of the noise variances; by default a fraction of the variances of the columns.
    holes : (ndarray of shape (P, ceil(D / 8)), ndarray of shape (N,)), optional
        The patterns of missing values from `kinds`; None if no value is missing.
    begun : (Mixture, ndarray of shape (D, D) or None; float), optional
        For a batch after the first: what the covariances of the components are shrunk to (computed from the first
        batch), and the number of rows of all batches.
    """

    views: list[View]
    moments: Moments | None = None
    weights: NDArray[Any] | None = None
    origin: NDArray[Any] | None = None
    floor: NDArray[Any] | None = None
    holes: tuple[NDArray[np.uint8], NDArray[Any]] | None = None
    begun: tuple[Any, float] | None = None

    @property
    def n(self) -> float:
        """The number of rows, or the sum of their weights."""
        return len(self.views[0]) if self.weights is None else float(self.weights.sum())

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of columns of each view."""
        return tuple(view.shape[1] for view in self.views)

    def of_rows(self, rows: NDArray[np.intp]) -> "CheckedViews":
        """Return some of the rows, with the moments of all rows."""
        weights = None if self.weights is None else self.weights[rows]
        holes = None if self.holes is None else (self.holes[0], self.holes[1][rows])
        return replace(self, views=[view[rows] for view in self.views], weights=weights, holes=holes)


_EXACT = 1e-12
"""Fraction of the variance of a column below which the residual of other columns is rounding."""


def check_bounded(views: list[View], moments: Moments, n_latent: int, full: bool) -> None:
    """Raise ValueError if columns are so collinear that a noise without a floor makes the likelihood infinite.

    Full noise is singular along any linear relation. Diagonal noise vanishes for columns that `n_latent` latent
    dimensions reproduce, that is, for a column and at most `n_latent` others that determine it.

    Examples
    --------
    >>> x = np.array([[0.0, 1.0], [1.0, 0.0], [3.0, 2.0], [5.0, 9.0]])
    >>> check_bounded([x, 2 * x[:, :1]], Moments.of([x, 2 * x[:, :1]]), n_latent=1, full=False)
    Traceback (most recent call last):
    ...
    ValueError: column 0 of view 1 is a linear function of column 0 of view 0, and the likelihood of collinear \
columns has no maximum: remove one of these columns, or fit the estimator mixture-pcca (MixturePCCA), whose noise has \
a lower bound
    """
    sizes = [view.shape[1] for view in views]
    D, n = sum(sizes), len(views[0])
    remedy = "fit the estimator mixture-pcca (MixturePCCA), whose noise has a lower bound"
    if full and n <= D:
        raise ValueError(
            f"with {n} rows and {D} columns, the likelihood of a model with full noise covariance has no maximum: pass "
            f'more rows, covariance_type="diag", or {remedy}'
        )
    # C = sum z z' / n of the standardized rows z, (D, D)
    scale, C = np.sqrt(moments.variance), np.zeros((D, D))
    for rows in row_blocks(n):
        block = np.concatenate([view[rows] for view in views], axis=1, dtype=np.float64)
        block = (block - moments.mean) / scale
        C += block.T @ block / n
    names = [f"column {j} of view {v}" for v, size in enumerate(sizes) for j in range(size)]
    most = D if full else n_latent
    for j, others in _relations(C):
        if len(others) <= most:
            of = ", ".join(names[i] for i in others)
            raise ValueError(
                f"{names[j]} is a linear function of {of}, and the likelihood of collinear columns has no "
                f"maximum: remove one of these columns, or {remedy}"
            )


def _relations(C: NDArray[np.float64]) -> Iterator[tuple[int, list[int]]]:
    """Yield columns that other columns determine, with these others, from correlations: pairs first, then a basis."""
    first, second = np.nonzero(np.triu(1 - C**2 <= _EXACT, 1))
    for i, j in zip(first.tolist(), second.tolist(), strict=True):
        yield j, [i]
    (pivoted_cholesky,) = get_lapack_funcs(("pstrf",), (C,))
    root, pivots, rank, _ = pivoted_cholesky(C, tol=_EXACT)
    order = (pivots - 1).tolist()
    R = np.triu(root)
    for k in range(rank, len(C)):
        weights = solve_triangular(R[:rank, :rank], R[:rank, k])
        yield order[k], sorted(order[i] for i in np.flatnonzero(np.abs(weights) > 1e-6))


def _eps_dtype(view: View) -> Any:
    return view.dtype if view.dtype.kind == "f" else np.float64


def _is_list_of_views(X: Sequence[Any]) -> bool:
    """Return whether a list contains views rather than rows of numbers."""
    return any(item is None or np.ndim(item) >= 2 for item in X)


def as_view(item: Any, v: int) -> View:
    """Validate view v and return it as an array of numbers (N, d)."""
    if item is None:
        raise ValueError(f"view {v} is None: pass all views")
    if hasattr(item, "toarray"):
        raise ValueError(f"view {v} is a sparse matrix: convert it with .toarray()")
    item = check_real(item, f"view {v}")
    try:
        view = item if isinstance(item, np.memmap) else np.asarray(item)  # a map travels as its file
    except ValueError:
        raise ValueError(f"view {v} has rows of different lengths: pass an (N, d) array of numbers") from None
    if view.dtype == object:  # a frame of numbers
        view = view.astype(np.float64)
    if view.ndim != 2 or 0 in view.shape:
        raise ValueError(f"view {v} has shape {view.shape}: pass an (N, d) array with at least one row and column")
    return view
