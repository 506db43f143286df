"""Figures of an evaluation: an estimator beside its controls, who was taken for whom, features in two dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from ._clusters import plot_confusion
from ._drawing import SQUARE, Drawing, drawn
from ._sources import Fitted
from ._style import LIGHT, evenly, gridded, marker_style, natural, plain, prepared_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_POINTS = 1000
_KINDS = 10
"""More labels than this are not told apart by marks."""
_WORDS = {
    "accuracy": "accuracy on what was left out",
    "ari": "agreement with the labels (ARI)",
    "agreement_of_seeds": "agreement between seeds (ARI)",
    "r2": "share of the variance of held-out rows (R²)",
    "recall": "frames that were not stored and are found",
    "halves_found": "second halves that find their first",
}


def plot_controls(rows: Sequence[dict[str, Any]], measure: str, ax: Axes | None = None) -> Axes:
    """Plot one figure of an estimator and of its controls as bars.

    Parameters
    ----------
    rows : sequence of dict
        ``name`` and figures, the estimator first, as in `evaluation.Evaluation.rows`.
    measure : str
        The key that is drawn.
    ax : matplotlib.axes.Axes, optional
        By default those of a new pyplot figure.

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
    having = [row for row in rows if measure in row]
    ax = prepared_axes(ax)
    colours = [LIGHT[0], *[LIGHT[1]] * len(having)][: len(having)]
    bars = ax.barh(range(len(having)), [row[measure] for row in having], color=colours, height=0.6)
    ax.bar_label(bars, fmt="%.3f", padding=3)
    ax.set_yticks(range(len(having)), [plain(row["name"]) for row in having])
    ax.invert_yaxis()
    ax.margins(x=0.18)
    gridded(ax, "x")
    ax.set(title="Beside simple controls", xlabel=_WORDS.get(measure, measure.replace("_", " ")))
    return ax


def plot_features(features: ArrayLike, labels: ArrayLike | None = None, ax: Axes | None = None) -> Axes:
    """Plot the two principal components of features, a point for each member.

    Parameters
    ----------
    features : array-like of shape (N, m)
        Of more than 1,000 members, 1,000 are drawn, evenly spaced.
    labels : array-like of shape (N,), optional
        Up to ten labels have marks of their own.
    ax : matplotlib.axes.Axes, optional
        By default those of a new pyplot figure.

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


def draw_evaluation(fitted: Fitted, evaluation: Any) -> list[Drawing]:
    """Draw what an evaluation shows.

    Parameters
    ----------
    fitted : Fitted
    evaluation : evaluation.Evaluation

    Returns
    -------
    list of Drawing
        Bars beside the controls, the confusion of members that were left out, and features in two dimensions, as far
        as there are any.
    """
    rows, measure = evaluation.rows, evaluation.measure
    drawings = []
    if sum(measure in row for row in rows) > 1:
        caption = "The same data and splits for all; more is better."
        drawings.append(drawn("beside-controls", caption, lambda ax: plot_controls(rows, measure, ax)))
    if evaluation.confusion is not None:
        truth, said = evaluation.confusion

        def paint(ax: Any) -> None:
            plot_confusion((truth, said), ax, share="share of what was taken for it")
            ax.set(title="Members that were left out", ylabel="taken for", xlabel="label")

        drawings.append(drawn("left-out-confusion", "The shade is the share of what was taken for a class.", paint))
    if evaluation.task == "features" and (values := _numbers_of(fitted)) is not None:
        labels = fitted.labels if fitted.labels is not None and len(fitted.labels) == len(values) else None
        caption = "What the estimator makes of each member."
        drawings.append(drawn("features", caption, lambda ax: plot_features(values, labels, ax), SQUARE))
    return drawings


def _numbers_of(fitted: Fitted) -> Any:
    try:
        values = np.asarray(fitted.estimator.transform(fitted.X), dtype=np.float64)
    except (TypeError, ValueError, AttributeError):
        return None
    return values.reshape(len(values), -1) if len(values) > 2 and np.isfinite(values).all() else None
