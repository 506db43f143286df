"""Imputation of a missing view of held-out rows, compared with ridge, kernel ridge and nearest-neighbour regression."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import RidgeCV
from sklearn.neighbors import KNeighborsRegressor

from .. import hooks
from ..estimators import uninterrupted
from ..report._quality import Evaluation

Array = NDArray[np.float64]
Predict = Callable[[Array], Array]

_LEAST = 16
_ROWS = 20_000
"""Maximum number of rows; if there are more, rows are drawn."""
_KERNEL_ROWS = 2000
"""Maximum number of rows for kernel ridge regression, whose time is cubic in this number."""
_WIDTH = 1.645
"""Number of standard deviations on each side that contain 90 % of the values of a normal distribution."""
_MOVES = 1e-3
"""Minimum variance of a standardized column of held-out rows for an R² of the column."""
_CLEAR = 0.05
"""A baseline is reported as better if its R² is larger by more than this value."""


def imputation_error(model: Any, X: Any, y: object, seed: int) -> Evaluation:
    """Return R² and coverage of each view of held-out rows, imputed from the other views.

    A quarter of the rows is held out, and the model is fitted to the other rows. Columns are standardized by the
    training rows. R² refers to all columns of a view and is averaged over views (if the model has a ``target``, only
    this view is used).

    Parameters
    ----------
    model : estimator of views
        An estimator with ``impute`` and ``impute_variance``, such as `MixturePCCA`.
    X : list of array-like of shape (N, d_v)
    y : object
        Ignored.
    seed : int
        The seed of the choice of held-out rows.

    Returns
    -------
    Evaluation
        The controls are ridge, kernel ridge and k-nearest-neighbour regression, which choose their settings on a
        quarter of the training rows. ``coverage`` is the fraction of values within 1.645 standard deviations of
        `impute_variance`, which is 90 % if the variances are correct.

    Raises
    ------
    ValueError
        If there are fewer than 16 rows, or one view.
    """
    views = [np.asarray(view, dtype=np.float64) for view in X]
    names = [list(map(str, getattr(view, "columns", range(view.shape[1])))) for view in X]
    if len(views) < 2:
        raise ValueError("a view is imputed from other views, but there is only one view: pass two or more views")
    if len(views[0]) < _LEAST:
        raise ValueError(f"{len(views[0])} rows are too few: at least {_LEAST} are needed")
    order = np.random.default_rng(seed).permutation(len(views[0]))[:_ROWS]
    held, kept = (np.sort(part) for part in np.split(order, [len(order) // 4]))
    made: Any = clone(model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made.fit([view[kept] for view in views])
    uninterrupted(made)
    target = getattr(model, "target", None)
    asked = range(len(views)) if target is None else [target]
    known_as = hooks.record_of(model)
    own_name = known_as[1].name if known_as else type(model).__name__
    figures: dict[str, list[float]] = {}
    per_column: list[tuple[float, str]] = []
    inside: list[Array] = []
    everything = held
    for v in asked:
        others = np.concatenate([view[everything] for i, view in enumerate(views) if i != v], axis=1)
        held = everything[~np.isnan(others).all(axis=1)]  # rows of which something is known
        truth, known = views[v][held], [None if i == v else view[held] for i, view in enumerate(views)]
        location, scale = np.nanmean(views[v][kept], axis=0), np.nanstd(views[v][kept], axis=0)
        varies = scale > 1e-12 * np.maximum(np.abs(location), 1e-300)
        scale = np.where(varies, scale, 1.0)
        Z = ((truth - location) / scale)[:, varies]
        filled, variance = made.impute(known)[v], made.impute_variance(known)[v]
        guesses = {own_name: (filled - location) / scale}
        guesses |= _baselines(views, v, kept, held, location, scale, seed)
        for name, guess in guesses.items():
            figures.setdefault(name, []).append(_r2(Z, guess[:, varies]))
        error = np.abs(truth - filled) <= _WIDTH * np.sqrt(variance)
        inside.append(np.where(np.isnan(truth), np.nan, error)[:, varies])
        columns = [f"view {v}, {name}" for name, counts in zip(names[v], varies, strict=True) if counts]
        own = guesses[own_name][:, varies]
        moves = np.nanvar(Z, axis=0) > _MOVES
        per_column += [(_r2(Z[:, [j]], own[:, [j]]), column) for j, column in enumerate(columns) if moves[j]]
    if not per_column:
        raise ValueError("no column varies: there is nothing to impute")
    coverages = np.concatenate([np.nanmean(one, axis=0) for one in inside])
    rows: list[dict[str, Any]] = [{"name": name, "r2": float(np.mean(of))} for name, of in figures.items()]
    rows[0]["coverage"] = float(np.mean(coverages))
    rows.append({"name": "mean", "r2": 0.0})
    return Evaluation("imputation", "r2", rows, _verdict(rows, per_column, coverages))


def _verdict(rows: list[dict[str, Any]], per_column: list[tuple[float, str]], coverages: Array) -> str:
    own, best = rows[0]["r2"], max(rows[1:], key=lambda row: row["r2"])
    better = "is better, with" if best["r2"] > own + _CLEAR else "has"
    (least, worst), (most, top) = min(per_column), max(per_column)
    return (
        f"an imputed view explains {max(own, 0):.0%} of the variance of held-out rows "
        f"(R² = {own:.2f}; single columns: from {least:.2f} in {worst} to {most:.2f} in {top}); "
        f"the baseline {best['name']} {better} R² = {best['r2']:.2f}; "
        f"prediction intervals of nominally 90 % contain {coverages.mean():.0%} of the values "
        f"(single columns: {coverages.min():.0%} to {coverages.max():.0%})"
    )


def _baselines(
    views: list[Array], v: int, kept: NDArray[np.intp], held: NDArray[np.intp], location: Array, scale: Array, seed: int
) -> dict[str, Array]:
    """Return the standardized view of the held-out rows by each baseline."""
    others = np.concatenate([view for i, view in enumerate(views) if i != v], axis=1)
    centre = np.nanmean(others[kept], axis=0)
    spread = np.nanstd(others[kept], axis=0)
    A = np.nan_to_num((others - centre) / np.where(spread > 0, spread, 1.0))  # missing values are the mean
    whole = kept[~np.isnan(views[v][kept]).any(axis=1)]
    Z = (views[v] - location) / scale
    if len(whole) < _LEAST:
        return {}
    some = np.random.default_rng(seed + 1).permutation(whole)[:_KERNEL_ROWS]
    widths = [factor / A.shape[1] for factor in (0.1, 0.3, 1.0)]
    ridges = [(alpha, width) for alpha in (0.01, 0.1, 1.0) for width in widths]

    def kernel(X: Array, Y: Array, setting: Any) -> Predict:
        return KernelRidge(kernel="rbf").set_params(alpha=setting[0], gamma=setting[1]).fit(X, Y).predict

    def nearest(X: Array, Y: Array, k: Any) -> Predict:
        return KNeighborsRegressor(min(k, len(X))).fit(X, Y).predict

    linear = RidgeCV(np.logspace(-2, 4, 13)).fit(A[whole], Z[whole]).predict
    return {
        "ridge": _rows(linear(A[held])),
        "kernel ridge": _rows(_chosen(kernel, A[some], Z[some], ridges)(A[held])),
        "nearest neighbours": _rows(_chosen(nearest, A[whole], Z[whole], (1, 3, 5, 10, 20, 50))(A[held])),
    }


def _rows(found: Any) -> Array:
    return np.asarray(found).reshape(len(found), -1)


def _chosen(fit: Callable[[Array, Array, Any], Predict], X: Array, Y: Array, settings: Sequence[Any]) -> Predict:
    """Return the predictions of a fit to all rows with the setting that is best on a quarter of the rows."""
    cut = 3 * len(X) // 4
    best = max(settings, key=lambda one: _r2(Y[cut:], _rows(fit(X[:cut], Y[:cut], one)(X[cut:]))))
    return fit(X, Y, best)


def _r2(truth: Array, guess: Array) -> float:
    """Return 1 minus the squared error divided by the variance of standardized columns, without missing values."""
    total = float(np.nansum((truth - np.nanmean(truth, axis=0)) ** 2))
    return 1 - float(np.nansum((truth - guess) ** 2)) / total if total > 0 else 0.0
