"""Figures of an evaluation: comparison with controls, confusions, features in two dimensions, neighbours."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from ._clusters import plot_confusion
from ._drawing import SQUARE, Drawing, drawn
from ._quality import CHANCE, MEASURES, Evaluation, cell, words_for
from ._sources import Fitted
from ._style import LIGHT, evenly, gridded, line_style, marker_style, natural, plain, prepared_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_POINTS = 1000
_KINDS = 10
"""Maximum number of labels with different marks."""


def plot_controls(
    rows: Sequence[Mapping[str, Any]], measure: str, ax: Axes | None = None, *, n_estimators: int = 1
) -> Axes:
    """Plot one figure of estimators and of their controls as bars, in the order of the rows from the top.

    Parameters
    ----------
    rows : sequence of dict
        ``name`` and figures, with the estimators first, as in `evaluation.Evaluation.rows`. A row without the figure
        shows the words "no figure" instead of a bar.
    measure : str
        The key of the figure that is drawn.
    ax : matplotlib.axes.Axes, optional
        By default, the axes of a new pyplot figure are used.
    n_estimators : int
        The number of rows that are not controls, which have another colour.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> import manifoldseq as ms
    >>> import matplotlib.pyplot as plt
    >>> figure, ax = plt.subplots()
    >>> rows = [{"name": "lds-kmeans", "ari": 0.8}, {"name": "statistics-kmeans", "ari": 0.6}]
    >>> [float(bar.get_width()) for bar in ms.report.plot_controls(rows, "ari", ax=ax).patches]
    [0.8, 0.6]
    >>> plt.close(figure)
    """
    ax = prepared_axes(ax)
    ink = line_style(None)["color"]
    figures = [row[measure] for row in rows if measure in row]
    low, high = min(0.0, *figures), max(0.0, *figures)
    margin = 0.2 * (high - low or 1.0)
    low = low - 1.5 * margin if low < -0.1 * margin else 0.0  # a little below zero is zero
    for place, row in enumerate(rows):
        if measure not in row:
            ax.text(0, place, " no value", va="center", style="italic")
            continue
        chance = row["name"] == CHANCE
        colour = LIGHT[0] if place < n_estimators else ink if chance else LIGHT[1]
        ax.barh(place, row[measure], height=0.6, color=colour, alpha=0.5 if chance else 1.0)
        end = row[measure] if row[measure] > low else 0.0
        side = -1 if end < 0 else 1
        ax.annotate(
            cell({measure: row[measure]}, measure),
            (end, place),
            (3 * side, 0),
            textcoords="offset points",
            ha="left" if side > 0 else "right",
            va="center",
        )
    ax.set_yticks(range(len(rows)), [plain(row["name"]) for row in rows])
    ax.set(xlim=(low, high + margin), ylim=(len(rows) - 0.5, -0.5))
    if measure in MEASURES and low == 0:  # all of them are at most 1
        ax.set(xlim=(0, 1.2), xticks=(0, 0.25, 0.5, 0.75, 1))
    gridded(ax, "x")
    ax.set(title="Comparison with simple controls", xlabel=words_for(measure))
    return ax


def plot_features(features: ArrayLike, labels: ArrayLike | None = None, ax: Axes | None = None) -> Axes:
    """Plot the first two principal components of features, with one point for each member.

    Parameters
    ----------
    features : array-like of shape (N, m)
        The features. If there are more than 1,000 members, 1,000 evenly spaced members are drawn.
    labels : array-like of shape (N,), optional
        The labels; up to ten labels have different marks.
    ax : matplotlib.axes.Axes, optional
        By default, the axes of a new pyplot figure are used.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> import numpy as np
    >>> import manifoldseq as ms
    >>> import matplotlib.pyplot as plt
    >>> figure, ax = plt.subplots()
    >>> len(ms.report.plot_features(np.eye(4), ["a", "a", "b", "b"], ax=ax).lines)
    2
    >>> plt.close(figure)
    """
    Z = np.asarray(features, dtype=np.float64)
    Z = Z - Z.mean(axis=0)
    rows = evenly(len(Z), _POINTS)
    axes = np.linalg.svd(Z[rows], full_matrices=False)[2][:2]
    points = Z[rows] @ axes.T
    points = np.pad(points, ((0, 0), (0, 2 - points.shape[1])))
    ax = prepared_axes(ax)
    kinds = None if labels is None else np.asarray(labels)[rows]
    names = [] if kinds is None else sorted(np.unique(kinds).tolist(), key=lambda name: natural(str(name)))
    if kinds is None or len(names) > _KINDS:
        ax.plot(points[:, 0], points[:, 1], "o", markersize=4, color=LIGHT[0], alpha=0.7)
    else:
        for i, name in enumerate(names):
            members = kinds == name
            style = marker_style(i) | {"linestyle": "none", "markersize": 5, "alpha": 0.8}
            ax.plot(points[members, 0], points[members, 1], label=plain(str(name)), **style)
        ax.legend(fontsize="small", ncols=2 if len(names) > 5 else 1)
    gridded(ax)
    ax.set(title="Features in two dimensions", xlabel="first principal component", ylabel="second")
    return ax


def plot_nearest(distances: ArrayLike, ax: Axes | None = None) -> Axes:
    """Plot the distance of each member to its nearest neighbour, in ascending order; a steep end shows outliers.

    Parameters
    ----------
    distances : array-like of shape (N,)
    ax : matplotlib.axes.Axes, optional
        By default, the axes of a new pyplot figure are used.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> import manifoldseq as ms
    >>> import matplotlib.pyplot as plt
    >>> figure, ax = plt.subplots()
    >>> ms.report.plot_nearest([0.3, 0.1, 0.9], ax=ax).lines[0].get_ydata().tolist()
    [0.1, 0.3, 0.9]
    >>> plt.close(figure)
    """
    found = np.sort(np.asarray(distances, dtype=np.float64))
    rows = evenly(len(found), _POINTS)
    ax = prepared_axes(ax)
    ax.plot(rows + 1, found[rows], **line_style(0, len(rows)))
    gridded(ax)
    ax.set(title="Nearest neighbours", xlabel="members, in increasing order", ylabel="distance to nearest neighbour")
    return ax


def draw_evaluation(fitted: Fitted, evaluation: Evaluation) -> list[Drawing]:
    """Draw the figures of an evaluation, except the comparison of the rows, which a page draws itself.

    Parameters
    ----------
    fitted : Fitted
    evaluation : evaluation.Evaluation

    Returns
    -------
    list of Drawing
        The confusion matrix of held-out members, the features in two dimensions, and the distances to nearest
        neighbours, if the evaluation has them.

    Warns
    -----
    RuntimeWarning
        If a drawing fails; the others are drawn.
    """
    drawings = []
    for name, draw in (("left-out-confusion", _confusion), ("features", _features), ("nearest", _nearest)):
        try:
            drawings += draw(name, fitted, evaluation)
        except Exception as error:
            warnings.warn(f"figure {name!r} failed ({type(error).__name__}: {error})", RuntimeWarning, stacklevel=2)
    return drawings


def _confusion(name: str, fitted: Fitted, evaluation: Evaluation) -> list[Drawing]:
    if evaluation.confusion is None:
        return []
    truth, said = evaluation.confusion

    def paint(ax: Axes) -> None:
        plot_confusion((truth, said), ax, share="share of the predicted class", in_order=True)
        ax.set(title="Held-out members", ylabel="predicted class", xlabel="label")

    return [drawn(name, "The shade is the share of the members of a predicted class that have the label.", paint)]


def _features(name: str, fitted: Fitted, evaluation: Evaluation) -> list[Drawing]:
    if evaluation.task != "features" or (values := _numbers_of(fitted)) is None:
        return []
    labels = fitted.labels if fitted.labels is not None and len(fitted.labels) == len(values) else None
    caption = "The features of each member, along the two directions of largest variance."
    return [drawn(name, caption, lambda ax: plot_features(values, labels, ax), SQUARE)]


def _nearest(name: str, fitted: Fitted, evaluation: Evaluation) -> list[Drawing]:
    if evaluation.task != "neighbours":
        return []
    distances = np.asarray(fitted.estimator.kneighbors(n_neighbors=1)[0], dtype=np.float64)[:, 0]
    caption = "The distance of each member to its nearest neighbour, sorted; a steep end shows outliers."
    return [drawn(name, caption, lambda ax: plot_nearest(distances, ax))]


def _numbers_of(fitted: Fitted) -> Any:
    try:
        values = np.asarray(fitted.estimator.transform(fitted.X), dtype=np.float64)
    except (TypeError, ValueError, AttributeError):
        return None
    return values.reshape(len(values), -1) if len(values) > 2 and np.isfinite(values).all() else None
