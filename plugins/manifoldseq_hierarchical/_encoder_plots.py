"""Figures of encoded sequences: distances between segments, and bytes by part."""

from typing import TYPE_CHECKING, Any

import numpy as np

from manifoldseq.report import Fitted, line_style, prepared_axes

from ._encoder import HierarchicalSequenceEncoder

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SHOWN = 400
"""Maximum number of frames and of points in a figure; they are evenly spaced."""


def plot_distances(result: Fitted, ax: "Axes | None" = None) -> "Axes":
    """Plot the squared distances from frames to the points of an encoded sequence, and the places of the frames.

    Parameters
    ----------
    result : manifoldseq.report.Fitted
        A fitted `HierarchicalSequenceEncoder` with frames: the frames of the fit, or the frames of another run. At most
        400 evenly spaced frames are shown.
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
        raise ValueError(f"{type(result).__name__} has no frames: pass Fitted(encoder, frames)")
    encoder, X = result.estimator, np.asarray(result.X)
    frames = _evenly(len(X))
    squared = encoder.index_.distances(np.asarray(encoder.transform(X[frames]), np.float32))
    squared = squared[:, _evenly(squared.shape[1])]
    ax = prepared_axes(ax)
    corners = (0, encoder.n_frames_ - 1, 0, len(X) - 1)
    image = ax.imshow(np.sqrt(squared), aspect="auto", origin="lower", extent=corners, cmap="cividis")
    found = encoder.predict(X[frames])
    ax.plot(found, frames, linestyle="", marker=".", markersize=3, color="white", label="placed here")
    ax.figure.colorbar(image, ax=ax, label="distance")
    ax.set(xlabel="frame of the encoded sequence", ylabel="query frame", title="Distances to the encoded sequence")
    ax.legend(loc="upper left", framealpha=0.6, facecolor="black", labelcolor="white", markerscale=3)
    return ax


def plot_storage(result: Any, ax: "Axes | None" = None) -> "Axes":
    """Plot the bytes per frame of an encoded sequence, by part.

    Parameters
    ----------
    result : HierarchicalSequenceEncoder, or manifoldseq.report.Fitted of such an encoder
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
    >>> X = np.cumsum(np.random.default_rng(0).standard_normal((100, 4)), axis=0)
    >>> figure, ax = plt.subplots()
    >>> plot_storage(HierarchicalSequenceEncoder(5).fit(X), ax).get_xlabel()
    'bytes per frame'
    >>> plt.close(figure)
    """
    encoder = result.estimator if isinstance(result, Fitted) else result
    if not isinstance(encoder, HierarchicalSequenceEncoder) or not hasattr(encoder, "index_"):
        raise ValueError(f"{type(encoder).__name__} is not a fitted HierarchicalSequenceEncoder: pass a fitted encoder")
    report = encoder.storage_report()
    sizes = np.array(list(report.parts.values())) / report.n_frames
    ax = prepared_axes(ax)
    bars = ax.barh(list(report.parts), sizes, color=line_style(0)["color"])
    ax.bar_label(bars, [f"{size:.3g}" for size in sizes], padding=3)
    ax.invert_yaxis()
    ax.margins(x=0.15)
    ax.set(xlabel="bytes per frame", title=f"{report.per_frame:.3g} bytes per frame, {report.n_frames} frames")
    return ax


def accepts(result: Any) -> bool:
    """Return whether a result is a fitted `HierarchicalSequenceEncoder` with frames."""
    return isinstance(result, Fitted) and isinstance(result.estimator, HierarchicalSequenceEncoder)


def draw_distances(ax: "Axes", result: Fitted) -> None:
    """Draw `plot_distances`, as its record requires."""
    plot_distances(result, ax)


def draw_storage(ax: "Axes", result: Fitted) -> None:
    """Draw `plot_storage`, as its record requires."""
    plot_storage(result, ax)


def _evenly(n: int) -> np.ndarray:
    return np.unique(np.linspace(0, n - 1, min(n, _SHOWN)).round().astype(int))
