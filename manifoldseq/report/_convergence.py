"""Objective, gradient norm and evaluations, against iterations or time."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ._sources import history_of
from ._style import few_ticks, gridded, line_style, log_scale, plain, prepared_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_AXES = {"nit": ("iteration", "iteration"), "time": ("time (s)", "time"), "nfev": ("evaluations", "evaluations")}
_COUNTS = {"nfev": "objective", "njev": "gradient", "nhev": "Hessian products"}
_NAMES = {
    "fun": "objective",
    "gap": "objective minus its lowest value",
    "grad_norm": "gradient norm",
    "feasibility": "violation of the constraints",
    "complementarity": "complementarity of the inequalities",
}
_LOGARITHMIC = ("gap", "grad_norm", "feasibility", "complementarity")


def plot_convergence(
    result: Any,
    ax: "Axes | None" = None,
    *,
    x: str = "nit",
    y: str = "fun",
    label: str | None = None,
    series: int = 0,
) -> "Axes":
    """Plot the objective, or another column, of one or several runs against iterations, seconds or evaluations.

    Parameters
    ----------
    result : Result, Run, fitted estimator, Fitted, RunFiles, mapping of str to sequence of float, or mapping of names
    to these
        An object with a history, or the history itself: columns of equal length with ``"fun"`` and optionally
        ``"nit"``, ``"time"`` and ``"nfev"``. Several runs by name give one line each and a legend.
    ax : matplotlib.axes.Axes, optional
        By default, the axes of a new pyplot figure are used.
    x : {"nit", "time", "nfev"}
        The column of the horizontal axis.
    y : str
        ``"fun"``, ``"grad_norm"``, ``"feasibility"`` or any other column; ``"gap"`` is the objective above the lowest
        value of all runs shown. Gap, gradient norm, violation and complementarity are drawn on a logarithmic axis;
        values that are not positive are left out.
    label : str, optional
        Name of the line in a legend, if there is one run.
    series : int
        The number of the colour, dash and marker in the palette for the first run; further runs use the next numbers.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    ValueError
        If there is no history, or it has no column ``"fun"``, `x` or `y`.

    Examples
    --------
    >>> import manifoldseq as ms
    >>> import matplotlib.pyplot as plt
    >>> figure, ax = plt.subplots()
    >>> runs = {"steady": {"fun": [3.0, 2.0, 1.0]}, "fast": {"fun": [3.0, 1.0, 0.5]}}
    >>> ms.report.plot_convergence(runs, ax=ax, y="gap").get_yscale()
    'log'
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['steady', 'fast']
    >>> plt.close(figure)
    """
    several = _several(result)
    histories = [history_of(each) for each in (result.values() if several else [result])]
    labels = [plain(name) for name in result] if several else [label]
    if y == "gap":
        lowest = min(float(np.nanmin(history["fun"])) for history in histories)
        histories = [history | {"gap": history["fun"] - lowest} for history in histories]
    title = ""
    for i, (history, name) in enumerate(zip(histories, labels, strict=True)):
        ax, title = _line(history, ax, y, x, name, series + i)
    assert ax is not None
    if several:
        ax.legend(frameon=False)
    named = _NAMES.get(y, y)
    ax.set(title=f"{named[:1].upper()}{named[1:]} against {title}", ylabel=named)
    if y in _LOGARITHMIC:
        log_scale(ax.yaxis)
    return ax


def plot_gradient_norm(
    result: Any, ax: "Axes | None" = None, *, x: str = "nit", label: str | None = None, series: int = 0
) -> "Axes":
    """Plot the norm of the Riemannian gradient, on a logarithmic axis.

    The parameters are the same as for `plot_convergence`; the history needs a column ``"grad_norm"``. Values that are
    not positive are left out.

    Examples
    --------
    >>> import manifoldseq as ms
    >>> import matplotlib.pyplot as plt
    >>> figure, ax = plt.subplots()
    >>> ms.report.plot_gradient_norm({"fun": [3.0, 1.0], "grad_norm": [1.0, 1e-8]}, ax=ax).get_yscale()
    'log'
    >>> plt.close(figure)
    """
    return plot_convergence(result, ax, x=x, y="grad_norm", label=label, series=series)


def plot_evaluations(
    result: Any, ax: "Axes | None" = None, *, x: str = "nit", label: str | None = None, series: int = 0
) -> "Axes":
    """Plot the number of evaluations until each iteration.

    The parameters are the same as for `plot_convergence`. Columns ``"njev"`` (gradients) and ``"nhev"`` (Hessian
    products) get separate lines if they differ from ``"nfev"`` and no `label` is given.

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
        ax, title = _line(history, ax, name, x, named, series + i)
    assert ax is not None
    if len(shown) > 1:
        ax.legend(frameon=False)
    ax.set(title=f"Evaluations against {title}", ylabel="evaluations so far")
    ax.set_ylim(bottom=0, auto=None)  # further lines may still widen it
    return ax


def has_columns(result: Any, *names: str) -> bool:
    """Return whether a result has a history of at least two records with a finite value in each column."""
    try:
        history = history_of(result)
    except ValueError:
        return False
    return len(history["fun"]) > 1 and all(np.isfinite(history.get(name, np.nan)).any() for name in names)


def _several(result: Any) -> bool:
    """Return whether these are runs by name rather than the columns of one run."""
    return (
        isinstance(result, Mapping)
        and bool(result)
        and all(
            isinstance(each, Mapping) or hasattr(each, "history") or hasattr(each, "history_")
            for each in result.values()
        )
    )


def _line(
    result: Any, ax: "Axes | None", column: str, against: str, label: str | None, series: int
) -> tuple["Axes", str]:
    history = history_of(result)
    for name in (against, column):
        if name not in history:
            raise ValueError(f"the history has no column {name!r}: it has {', '.join(history)}")
    x, y = history[against], history[column]
    ax = prepared_axes(ax)
    y = np.where(y > 0, y, np.nan) if column in _LOGARITHMIC else y
    ax.plot(x, y, label=label, **line_style(series, len(y)))
    axis_label, title = _AXES.get(against, (against, against))
    ax.set_xlabel(axis_label)
    few_ticks(ax.xaxis, whole=against == "nit")
    gridded(ax)
    return ax, title


def _differs(a: np.ndarray, b: np.ndarray) -> bool:
    return bool(np.isfinite(a).any()) and not np.array_equal(a, b) and bool(np.nanmax(a) > 0)
