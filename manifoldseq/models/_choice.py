"""Choices among settings: figures of the compared settings, the rule of one standard error, tables, the plot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = NDArray[np.floating[Any]]
Settings = dict[str, Any]
TITLE = "How the settings were chosen"
AGREEMENT = "agreement of random halves (adjusted Rand index)"
"""The axis label of steps by stability: clusters of one random half of the data, carried to the other, against its own.
"""
SHOWN = 12
"""Rows of a table that are printed; a chosen row is printed wherever it is."""
LINES = 8
"""Lines of a plot, at most: with more combinations of settings, the horizontal axis is the row of the table."""
_LONGEST = 24
"""Letters of a name along an axis."""


def as_good(values: Array, best: Array) -> bool:
    """Return whether figures (larger is better) are within one standard error of the best, by paired differences.

    Parameters
    ----------
    values, best : ndarray of shape (n,)
        Figures of two settings on the same n folds, halves or rows, n >= 2. A setting with a figure that is not finite
        is never as good. A setting that differs from the best in one lower figure is not as good either, because the
        mean difference then equals one standard error.

    Examples
    --------
    >>> as_good(np.array([1.1, 1.9, 2.9]), np.array([1.0, 2.0, 3.0]))
    True
    >>> as_good(np.array([0.8, 1.8, 2.8]), np.array([1.0, 2.0, 3.0]))
    False
    >>> as_good(np.array([1.0, 2.0, 2.9]), np.array([1.0, 2.0, 3.0]))
    False
    """
    if not np.isfinite(values).all():
        return False
    mean, error = summary(best - values)
    return bool(mean <= 0 or mean < (1 - 1e-9) * error)


def preferred(values: Sequence[Array], preference: Sequence[Any]) -> int:
    """Return the row of the most preferred setting among the settings that are `as_good` as the best.

    Among settings with the same preference, the setting with the largest mean figure is chosen.

    Parameters
    ----------
    values : sequence of ndarray of shape (n,)
        Figures (larger is better) of each setting on the same n folds, halves or rows.
    preference : sequence
        A sort key of each setting; the largest is preferred.

    Examples
    --------
    >>> values = [np.array([0.9, 1.0, 1.0]), np.array([1.0, 0.9, 0.9]), np.array([0.3, 0.4, 0.3])]
    >>> preferred(values, [2, 3, 4])
    1
    """
    means = [float(one.mean()) for one in values]
    best = means.index(max(means))
    good = [i for i, one in enumerate(values) if as_good(one, values[best])]
    return max(good or [best], key=lambda i: (preference[i], means[i]))


def summary(values: Array) -> tuple[Array, Array]:
    """Return the means of figures along the last axis, and their standard errors.

    Examples
    --------
    >>> [float(x) for x in summary(np.array([1.0, 3.0]))]
    [2.0, 1.0]
    """
    with np.errstate(invalid="ignore"):  # figures that are not finite
        return values.mean(axis=-1), values.std(axis=-1, ddof=1) / np.sqrt(values.shape[-1])


@dataclass(frozen=True, eq=False)
class Step:
    """One step of a choice: the figures of the compared settings, and the chosen settings.

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
        """Return the lines of the table: the first twelve settings and the chosen settings, which are marked."""
        figures = [f"{figure:.4f}" for figure in self.figure]
        if self.error is not None:
            figures = [f"{figure} ± {error:.4f}" for figure, error in zip(figures, self.error, strict=True)]
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

    def _levels(self) -> dict[str, int]:
        """Return the number of values of each setting."""
        return {name: len({repr(one[name]) for one in self.params}) for name in self.params[0]}

    def _axis(self) -> tuple[str, list[Any], list[str]]:
        """Return the label of the horizontal axis, the place of each row on it, and the settings of the lines."""
        params, levels = self.params, self._levels()
        along = max(levels, key=lambda name: (levels[name], name == "n_clusters"))
        others, places = [name for name in levels if name != along], [one[along] for one in params]
        if len({text({name: one[name] for name in others}) for one in params}) > LINES:
            few = [name for name in levels if 1 < levels[name] <= LINES]
            return "row of the table", list(range(1, len(params) + 1)), few[-1:]
        if any(isinstance(place, bool) or not isinstance(place, float | int | np.number) for place in places):
            places = [place if len(place) <= _LONGEST else f"{place[: _LONGEST - 1]}…" for place in map(str, places)]
        return along, places, others

    def plot(self, ax: Axes | None = None) -> Axes:
        """Plot the figures over the setting with the most values, with one line for each combination of the others.

        With more than eight lines, the horizontal axis is the row of the table, and the last setting that varies gives
        the colours.
        """
        from ..report import line_style, prepared_axes

        ax, params, (along, places, others) = prepared_axes(ax), self.params, self._axis()
        levels = self._levels()
        groups: dict[str, list[int]] = {}
        for i, one in enumerate(params):
            groups.setdefault(text({name: one[name] for name in others if levels[name] > 1}), []).append(i)
        for series, (legend, rows) in enumerate(groups.items()):
            rows = sorted(rows, key=places.__getitem__)
            style = line_style(series, len(rows))
            if isinstance(places[0], str) or along not in levels:  # there is nothing between two names or rows
                style |= {"linestyle": "", "marker": style["marker"] or "."}
            spread = None if self.error is None else self.error[rows]
            x = [places[i] for i in rows]
            ax.errorbar(x, self.figure[rows], spread, capsize=2, label=legend or None, **style)
        ring: dict[str, Any] = {"marker": "o", "markersize": 13, "fillstyle": "none", "linestyle": ""}
        x = [places[i] for i in self.chosen]
        ax.plot(x, self.figure[self.chosen], label="chosen", color=line_style(None)["color"], **ring)
        ax.set(xlabel=along, ylabel=self.label)
        ax.set_title(TITLE)
        if all(isinstance(place, int | np.integer) for place in places) and along in levels:
            ax.set_xticks(sorted(set(places)))
        if isinstance(places[0], str):
            ax.tick_params("x", rotation=30)
        ax.legend(frameon=False, fontsize="small")
        return ax


@dataclass(frozen=True, eq=False)
class Choice:
    """The choice of settings that were not given to an estimator; ``print`` shows the tables.

    Attributes
    ----------
    steps : list of Step
        The steps in order; `plot` shows the last step that compares several settings.
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
        several = [step for step in self.steps if len(step.params) > 1]
        return (several or self.steps)[-1].plot(ax)


def accepts(result: Any) -> bool:
    """Return whether a result is a fitted estimator that has compared settings."""
    return bool(getattr(getattr(getattr(result, "estimator", None), "choice_", None), "steps", None))


def draw(ax: Axes, result: Any) -> None:
    """Draw the figures by which the settings of a fitted estimator were chosen."""
    result.estimator.choice_.plot(ax)


def text(settings: Mapping[str, Any]) -> str:
    """Return settings as text.

    Examples
    --------
    >>> text({"kernel": "shape", "C": 10.0})
    "kernel='shape', C=10.0"
    """
    return ", ".join(f"{name}={value!r}" for name, value in settings.items())
