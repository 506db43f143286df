"""Figures of subspaces: the gain of each coordinate, and the frames in the two best ones."""

from typing import TYPE_CHECKING, Any

import numpy as np

from manifoldseq.report import Fitted, line_style, marker_style, prepared_axes

from ._closed_form import encode
from ._coordinates import SubspaceCodes
from ._kmeans import SubspaceKMeans
from ._subspace import SubspaceEncoder

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_FRAMES = 2000
"""Maximum number of frames in a figure; frames are evenly spaced."""
_NAMED = 12
"""Maximum number of classes that have different colours and markers."""


def plot_gain(result: Any, ax: "Axes | None" = None) -> "Axes":
    """Plot F(m), the residual energy of the best m coordinates, as a fraction of the trace of S_0.

    Parameters
    ----------
    result : SubspaceEncoder, SubspaceKMeans, or manifoldseq.report.Fitted of such an estimator
    ax : matplotlib.axes.Axes, optional
        By default, the axes of a new pyplot figure are used.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    ValueError
        If `result` has another type.

    Examples
    --------
    >>> import matplotlib.pyplot as plt, numpy as np
    >>> X = np.random.default_rng(0).standard_normal((40, 6)) + np.repeat(4 * np.eye(6)[:4], 10, axis=0)
    >>> figure, ax = plt.subplots()
    >>> plot_gain(SubspaceEncoder(n_segments=4).fit(X), ax).get_xlabel()
    'coordinates m'
    >>> plt.close(figure)
    """
    model = _model(result)
    share, m = model.gain_curve() / model.scatter_, len(model.components_)
    ax = prepared_axes(ax)
    ax.plot(np.arange(len(share)), share, label="best m coordinates", **line_style(0, len(share)))
    used: dict[str, Any] = {"label": f"used: m = {m}", "markersize": 9}
    ax.plot([m], share[m : m + 1], **marker_style(1) | used)
    ax.set(xlabel="coordinates m", ylabel="residual energy, share of tr S₀", ylim=(0, 1.02))
    ax.set_title("Residual energy of the best coordinates")
    ax.legend(frameon=False)
    return ax


def plot_coordinates(result: Fitted, ax: "Axes | None" = None) -> "Axes":
    """Plot frames and class centroids in the two coordinates that separate the classes best.

    Parameters
    ----------
    result : manifoldseq.report.Fitted
        A fitted `SubspaceEncoder` or `SubspaceKMeans` with its frames; at most 2000 evenly spaced frames are shown. The
        class of a frame is the result of `predict`.
    ax : matplotlib.axes.Axes, optional
        By default, the axes of a new pyplot figure are used.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    ValueError
        If `result` has another type.
    """
    if not accepts(result):
        raise ValueError(f"{type(result).__name__} has no frames: pass Fitted(estimator, frames)")
    model = result.estimator
    X = np.asarray(result.X)
    X = X[np.unique(np.linspace(0, len(X) - 1, min(_FRAMES, len(X))).round().astype(int))]
    Z, classes = _two(np.asarray(model.transform(X))), model.predict(X)
    centres = _two(encode(model.cluster_centers_, model.components_.T, model.center_))
    names = getattr(model, "classes_", np.arange(len(centres)))
    ax = prepared_axes(ax)
    for k, name in enumerate(names):
        own = Z[classes == name]
        style = marker_style(k if len(names) <= _NAMED else None)
        ax.plot(*own.T, **style | {"markersize": 3, "alpha": 0.5}, label=str(name).replace("$", r"\$"))
    ax.plot(
        *centres.T,
        **marker_style(None) | {"marker": "+", "markersize": 12, "markeredgewidth": 2, "alpha": 1.0},
        label="centroids",
    )
    if len(names) <= _NAMED:
        ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, markerscale=2)
    ax.set(xlabel="first coordinate", ylabel="second coordinate")
    ax.set_title("Frames in the subspace of the class means")
    return ax


def accepts(result: Any) -> bool:
    """Return whether a result is a fitted `SubspaceEncoder` or `SubspaceKMeans` with its frames."""
    return isinstance(result, Fitted) and isinstance(result.estimator, SubspaceEncoder | SubspaceKMeans)


def draw_gain(ax: "Axes", result: Fitted) -> None:
    """Draw `plot_gain`, as its record requires."""
    plot_gain(result, ax)


def draw_coordinates(ax: "Axes", result: Fitted) -> None:
    """Draw `plot_coordinates`, as its record requires."""
    plot_coordinates(result, ax)


def _model(result: Any) -> SubspaceCodes:
    model = result.estimator if isinstance(result, Fitted) else result
    if not isinstance(model, SubspaceEncoder | SubspaceKMeans) or not hasattr(model, "components_"):
        raise ValueError(
            f"{type(model).__name__} is not a fitted SubspaceEncoder or SubspaceKMeans: pass one of these fitted "
            "estimators"
        )
    return model


def _two(Z: np.ndarray) -> np.ndarray:
    """Return the first two coordinates; a missing one is zero."""
    return np.pad(Z[:, :2], ((0, 0), (0, max(0, 2 - Z.shape[1]))))
