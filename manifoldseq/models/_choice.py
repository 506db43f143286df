"""Choices among settings: figures of the compared settings, the rule of one standard error, tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = NDArray[np.floating[Any]]
Settings = dict[str, Any]
TITLE = "How the settings were chosen"
SHOWN = 12
"""Rows of a table that are printed; a chosen row is printed wherever it is."""


def as_good(values: Array, best: Array) -> bool:
    """Return whether figures (larger is better) are within one standard error of the best, by paired differences.

    Parameters
    ----------
    values, best : ndarray of shape (n,)
        Figures of two settings on the same n folds, halves or rows, n >= 2.

    Examples
    --------
    >>> as_good(np.array([1.1, 1.9, 2.9]), np.array([1.0, 2.0, 3.0]))
    True
    >>> as_good(np.array([0.8, 1.8, 2.8]), np.array([1.0, 2.0, 3.0]))
    False
    """
    behind = best - values
    return bool(behind.mean() <= behind.std(ddof=1) / np.sqrt(len(behind)))


def summary(values: Array) -> tuple[Array, Array]:
    """Return the means of figures along the last axis, and their standard errors.

    Examples
    --------
    >>> [float(x) for x in summary(np.array([1.0, 3.0]))]
    [2.0, 1.0]
    """
    return values.mean(axis=-1), values.std(axis=-1, ddof=1) / np.sqrt(values.shape[-1])


@dataclass(frozen=True, eq=False)
class Step:
    """One step of a choice: a figure of each compared setting, and the chosen settings.

    Attributes
    ----------
    heading, label : str
        The description of the figure, in a table and along an axis.
    params : list of dict
        The settings.
    figure : ndarray of shape (len(params),)
    chosen : list of int
        The chosen rows; several if settings are combined.
    error : ndarray of shape (len(params),), optional
        Standard errors.
    columns : dict of str to ndarray of shape (len(params),)
        Further figures of the table.

    Examples
    --------
    >>> print("\\n".join(Step("accuracy", "", [{"C": 1}, {"C": 10}], np.array([0.5, 0.75]), [1]).lines()))
      accuracy  settings
      0.5000    C=1
    > 0.7500    C=10
    """

    heading: str
    label: str
    params: list[Settings]
    figure: Array
    chosen: list[int]
    error: Array | None = None
    columns: dict[str, Array] = field(default_factory=dict)

    def lines(self) -> list[str]:
        """Return the lines of the table, with the chosen settings marked: the first twelve and the chosen ones."""
        if self.error is None:
            figures = [f"{figure:.4f}" for figure in self.figure]
        else:
            figures = [f"{figure:.3f} ± {error:.3f}" for figure, error in zip(self.figure, self.error, strict=True)]
        columns = {self.heading: figures}
        columns |= {name: [f"{value:.3f}" for value in values] for name, values in self.columns.items()}
        widths = {name: max(map(len, (name, *cells))) for name, cells in columns.items()}
        more = f" (the first {SHOWN} of {len(self.params)})" if len(self.params) > SHOWN else ""
        lines = ["  ".join([" ", *(f"{name:<{widths[name]}}" for name in columns), f"settings{more}"])[1:]]
        for i, one in enumerate(self.params):
            if i >= SHOWN and i not in self.chosen:
                continue
            cells = [f"{columns[name][i]:<{width}}" for name, width in widths.items()]
            lines.append("  ".join([">" if i in self.chosen else " ", *cells, text(one)]).replace("  ", " ", 1))
        return lines

    def plot(self, ax: Axes | None = None) -> Axes:
        """Plot the figures: the setting with the most values is the horizontal axis, and the others are lines."""
        from ..report import line_style, prepared_axes

        ax, params = prepared_axes(ax), self.params
        values = {name: sorted({one[name] for one in params}) for name in params[0]}
        along = max(values, key=lambda name: (len(values[name]), name == "n_clusters"))
        groups: dict[tuple[Any, ...], list[int]] = {}
        for i, one in enumerate(params):
            groups.setdefault(tuple((name, one[name]) for name in values if name != along), []).append(i)
        for series, (others, rows) in enumerate(groups.items()):
            rows = sorted(rows, key=lambda i: params[i][along])
            x = [params[i][along] for i in rows]
            legend = ", ".join(f"{name}={value}" for name, value in others) or None
            spread = None if self.error is None else self.error[rows]
            style = line_style(series, len(x))
            if any(isinstance(value, str) for value in x):  # there is nothing between two names
                style |= {"linestyle": "", "marker": "o"}
            ax.errorbar(x, self.figure[rows], spread, capsize=2, label=legend, **style)
        ring: dict[str, Any] = {"marker": "o", "markersize": 13, "fillstyle": "none", "linestyle": ""}
        x = [params[i][along] for i in self.chosen]
        ax.plot(x, self.figure[self.chosen], label="chosen", color=line_style(None)["color"], **ring)
        ax.set(xlabel=along, ylabel=self.label)
        ax.set_title(TITLE)
        if all(isinstance(value, int | np.integer) for value in values[along]):
            ax.set_xticks(values[along])
        ax.legend(frameon=False, fontsize="small")
        return ax


@dataclass(frozen=True, eq=False)
class Choice:
    """The choice of settings that were not given to an estimator; ``print`` shows the tables.

    Attributes
    ----------
    steps : list of Step
        The steps in order; `plot` shows the last step.
    best_params : dict
        The chosen settings, for ``estimator.set_params(**choice.best_params)``.
    notes : list of str
        Limitations of the choice because of the data.
    time : float
        Duration of the choice in seconds.

    Examples
    --------
    >>> step = Step("accuracy", "", [{"C": 1}, {"C": 10}], np.array([0.5, 0.75]), [1])
    >>> print(Choice([step], {"C": 10}))
      accuracy  settings
      0.5000    C=1
    > 0.7500    C=10
    chosen: C=10
    """

    steps: list[Step]
    best_params: Settings
    notes: list[str] = field(default_factory=list)
    time: float = 0.0

    def __str__(self) -> str:
        """Return the tables, the chosen settings, and the notes."""
        tables = [line for step in self.steps for line in step.lines()]
        return "\n".join([*tables, f"chosen: {text(self.best_params)}", *self.notes])

    def plot(self, ax: Axes | None = None) -> Axes:
        """Plot the figures by which the settings were chosen."""
        return self.steps[-1].plot(ax)


def text(settings: Mapping[str, Any]) -> str:
    """Return settings as text.

    Examples
    --------
    >>> text({"kernel": "shape", "C": 10.0})
    "kernel='shape', C=10.0"
    """
    return ", ".join(f"{name}={value!r}" for name, value in settings.items())
