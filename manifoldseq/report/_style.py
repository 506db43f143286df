"""The style of figures and pages: colours, markers, dashes, axes."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from .._extras import needing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import XAxis, YAxis

LIGHT = ("#0b62b0", "#d0580b", "#009959", "#7f1954", "#4c3400", "#7326d6")
"""Blue, orange, green, plum, brown, violet: distinct for all common types of colour blindness, contrast 3:1."""
DARK = ("#5aaef0", "#f08a3c", "#b0f5d2", "#b8708f", "#f7ea5a", "#8f60ff")
"""The same six on a dark page."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
DASHES: tuple[Any, ...] = ("-", (0, (5, 1.6)), (0, (1.5, 1.2)), (0, (6, 1.5, 1.5, 1.5)))
SEQUENTIAL = "cividis"
"""The colour map of matrices, from dark to light, which is suitable for colour-blind readers."""
IMAGE_SIDE = 256
"""Maximum number of rows of a drawn matrix."""


def prepared_axes(ax: "Axes | None" = None) -> "Axes":
    """Return the given axes, or axes of a new pyplot figure, in the style of reports.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> figure, ax = plt.subplots()
    >>> prepared_axes(ax) is ax
    True
    >>> plt.close(figure)
    """
    if ax is None:
        with needing("figures need", "cli"):
            import matplotlib.pyplot as plt

        ax = plt.subplots(layout="constrained")[1]
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def line_style(series: int | None, n_points: int = 1000) -> dict[str, Any]:
    """Return the line style of a series, as options of ``ax.plot``.

    Parameters
    ----------
    series : int or None
        The number of the colour, dash and marker in the palette, which repeats; None for a plain line in the colour of
        the text.
    n_points : int
        The number of points; up to 40 points are marked.

    Examples
    --------
    >>> line_style(0)["color"]
    '#0b62b0'
    """
    if series is None:
        return {"color": _ink(), "linewidth": 1.2}
    return {
        "color": LIGHT[series % len(LIGHT)],
        "linestyle": DASHES[series % len(DASHES)],
        "linewidth": 1.8,
        "marker": MARKERS[series % len(MARKERS)] if n_points <= 40 else "",
        "markersize": 3.5,
    }


def marker_style(series: int | None) -> dict[str, Any]:
    """Return the marker style of a series, as options of ``ax.plot``; None for faint dots in the colour of text.

    Examples
    --------
    >>> marker_style(1)["marker"]
    's'
    """
    if series is None:
        return {"linestyle": "", "color": _ink(), "marker": ".", "markersize": 3, "alpha": 0.25}
    colour, marker = LIGHT[series % len(LIGHT)], MARKERS[series % len(MARKERS)]
    return {"linestyle": "", "color": colour, "marker": marker, "markersize": 6, "markeredgewidth": 0}


def gridded(ax: "Axes", axis: Any = "both") -> None:
    """Draw faint lines behind the data."""
    ax.grid(True, axis=axis, color=_ink(), alpha=0.12, linewidth=0.8)
    ax.set_axisbelow(True)


def few_ticks(axis: Any, *, whole: bool = False) -> None:
    """Put at most six ticks on an axis, so that their numbers do not overlap; optionally only on whole numbers."""
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator(integer=whole, nbins=6, min_n_ticks=1 if whole else 2))


def log_scale(axis: "XAxis | YAxis") -> None:
    """Make an axis logarithmic, with labels at two ticks or more in every range.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> ax = prepared_axes(Figure().subplots())
    >>> line = ax.plot([0, 1], [0.002, 0.02])
    >>> log_scale(ax.yaxis)
    >>> [ax.yaxis.get_major_formatter()(tick) for tick in ax.get_yticks()]
    ['0.003', '0.01']
    """
    from matplotlib.ticker import NullFormatter

    from ._log_ticks import LogLabels, LogTicks

    axis.axes.set(**{f"{axis.axis_name}scale": "log"})
    axis.set_major_locator(LogTicks())
    axis.set_major_formatter(LogLabels())
    axis.set_minor_formatter(NullFormatter())


def colourbar(image: Any, ax: "Axes", label: str) -> None:
    """Draw the colour scale next to a matrix."""
    from matplotlib.figure import Figure

    figure = ax.get_figure(root=True)
    assert isinstance(figure, Figure)
    bar = figure.colorbar(image, ax=ax, label=label, fraction=0.05, pad=0.03)
    bar.outline.set_visible(False)  # pyright: ignore[reportCallIssue]
    if bar.solids is not None:
        bar.solids.set_rasterized(True)


def plain(text: Any) -> str:
    """Return a text that matplotlib does not read as mathematics."""
    return str(text).replace("$", r"\$")


def _ink() -> Any:
    with needing("figures need", "cli"):
        from matplotlib import rcParams

    return rcParams["text.color"]


def natural(names: Iterable[Any], key: Callable[[Any], Any] = lambda name: name) -> list[Any]:
    """Sort names, with numbers in the order of their values: 2 before 10."""

    def value(name: Any) -> tuple[int, float, str]:
        try:
            return (0, float(key(name)), "")
        except (TypeError, ValueError):
            return (1, 0.0, str(key(name)))

    return sorted(names, key=value)


def evenly(n: int, most: int) -> np.ndarray:
    """Return at most `most` evenly spaced rows from 0 to n - 1, including the first and the last."""
    return np.arange(n) if n <= most else np.unique(np.linspace(0, n - 1, most).round().astype(int))
