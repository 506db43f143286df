"""Objective, gradient norm and evaluations, against iterations or time."""

from typing import TYPE_CHECKING, Any

import numpy as np

from ._sources import history_of
from ._style import few_ticks, gridded, line_style, prepared_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_AGAINST = {"nit": ("iteration", "iteration"), "time": ("time (s)", "time"), "nfev": ("evaluations", "evaluations")}
_COUNTS = {"nfev": "objective", "njev": "gradient", "nhev": "Hessian products"}


def plot_convergence(
    result: Any, ax: "Axes | None" = None, *, against: str = "nit", label: str | None = None, series: int = 0
) -> "Axes":
    """Plot the objective against iterations, seconds or evaluations.

    Several runs are compared by several calls on the same axes.

    Parameters
    ----------
    result : Result, Run, fitted estimator, Fitted, RunFiles, or mapping of str to sequence of float
        Something with a history, or a history itself: equally long columns with ``"fun"`` and, if there are,
        ``"nit"``, ``"time"`` and ``"nfev"``.
    ax : matplotlib.axes.Axes, optional
        By default those of a new pyplot figure.
    against : {"nit", "time", "nfev"}
        The column of the horizontal axis.
    label : str, optional
        Name of the line in a legend.
    series : int
        Which colour, dash and marker of the palette.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    ValueError
        If there is no history, or it has no column ``"fun"`` or `against`.

    Examples
    --------
    >>> import manifoldseq as ms
    >>> import matplotlib.pyplot as plt
    >>> figure, ax = plt.subplots()
    >>> ms.report.plot_convergence({"fun": [3.0, 1.0, 0.5]}, ax=ax).get_ylabel()
    'objective'
    >>> plt.close(figure)
    """
    ax, title = _line(result, ax, "fun", against, label, series)
    ax.set(title=f"Objective against {title}", ylabel="objective")
    return ax


def plot_gradient_norm(
    result: Any, ax: "Axes | None" = None, *, against: str = "nit", label: str | None = None, series: int = 0
) -> "Axes":
    """Plot the norm of the Riemannian gradient, on a logarithmic axis.

    Parameters are those of `plot_convergence`; the history needs a column ``"grad_norm"``. Values that are not
    positive are left out.

    Examples
    --------
    >>> import manifoldseq as ms
    >>> import matplotlib.pyplot as plt
    >>> figure, ax = plt.subplots()
    >>> ms.report.plot_gradient_norm({"fun": [3.0, 1.0], "grad_norm": [1.0, 1e-8]}, ax=ax).get_yscale()
    'log'
    >>> plt.close(figure)
    """
    ax, title = _line(result, ax, "grad_norm", against, label, series)
    ax.set(title=f"Gradient norm against {title}", ylabel="gradient norm", yscale="log")
    return ax


def plot_evaluations(
    result: Any, ax: "Axes | None" = None, *, against: str = "nit", label: str | None = None, series: int = 0
) -> "Axes":
    """Plot how many evaluations were spent so far.

    Parameters are those of `plot_convergence`. Columns ``"njev"`` (gradients) and ``"nhev"`` (Hessian products) get
    lines of their own where they differ from ``"nfev"`` and no `label` is given.

    Examples
    --------
    >>> import manifoldseq as ms
    >>> import matplotlib.pyplot as plt
    >>> figure, ax = plt.subplots()
    >>> ms.report.plot_evaluations({"fun": [3.0, 1.0], "nfev": [1, 4]}, ax=ax).get_ylabel()
    'evaluations so far'
    >>> plt.close(figure)
    """
    history = history_of(result)
    shown = ["nfev"]
    if label is None:
        shown += [name for name in ("njev", "nhev") if name in history and _differs(history[name], history["nfev"])]
    title = ""
    for i, name in enumerate(shown):
        named = label if label is not None or len(shown) == 1 else _COUNTS[name]
        ax, title = _line(history, ax, name, against, named, series + i)
    assert ax is not None
    if len(shown) > 1:
        ax.legend(frameon=False)
    ax.set(title=f"Evaluations against {title}", ylabel="evaluations so far")
    ax.set_ylim(bottom=0, auto=None)  # further lines may still widen it
    return ax


def has_columns(result: Any, *names: str) -> bool:
    """Return whether a result has a history of at least two records with something finite in each column."""
    try:
        history = history_of(result)
    except ValueError:
        return False
    return len(history["fun"]) > 1 and all(np.isfinite(history.get(name, np.nan)).any() for name in names)


def _line(
    result: Any, ax: "Axes | None", column: str, against: str, label: str | None, series: int
) -> tuple["Axes", str]:
    history = history_of(result)
    for name in (against, column):
        if name not in history:
            raise ValueError(f"the history has no column {name!r}: it has {', '.join(history)}")
    x, y = history[against], history[column]
    ax = prepared_axes(ax)
    y = np.where(y > 0, y, np.nan) if column == "grad_norm" else y
    ax.plot(x, y, label=label, **line_style(series, len(y)))
    axis_label, title = _AGAINST.get(against, (against, against))
    ax.set_xlabel(axis_label)
    few_ticks(ax.xaxis, whole=against == "nit")
    gridded(ax)
    return ax, title


def _differs(a: np.ndarray, b: np.ndarray) -> bool:
    return bool(np.isfinite(a).any()) and not np.array_equal(a, b) and bool(np.nanmax(a) > 0)
