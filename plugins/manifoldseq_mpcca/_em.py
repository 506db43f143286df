"""Expectation maximization as one pure step: accelerated by L-BFGS in the units of EM, and safeguarded."""

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

import manifoldseq as ms
from manifoldseq.estimators import row_blocks

from ._expectation import Expectation
from ._likelihood_gradient import Units
from ._maximization import maximize
from ._parameters import Array, Mixture
from ._statistics import Prior, Statistics
from ._views import Moments, View

State = dict[str, Any]
"""``x``: `Mixture.point`; ``statistics`` at it; ``pairs`` of L-BFGS; ``wait``, iterations of EM before
L-BFGS is tried, and ``patience``, those after its next failure; ``tried``: which components were re-seeded, and
``repairs``, how many of them stayed; ``start``, a number."""

_MEMORY = 10
_PLAIN = 3
"""Iterations of EM before L-BFGS takes over."""
_PATIENCE = 32
"""Most iterations of EM after a failure of L-BFGS; they double from one with every failure."""
_TRIALS = 2
"""Points that a line search looks at before it leaves the step to EM."""
_COLLAPSED = 2.0
"""A component with fewer rows than this describes no variance: it has collapsed."""


@dataclass(frozen=True)
class EM:
    """The data of one problem and how it is iterated; `step` never lowers the likelihood.

    Attributes
    ----------
    groups : tuple of (columns, views, weights)
        Rows that have the same columns, a mask (D,), with those of their views that they have, and their weights or
        None; columns that miss in a row are summed over the posterior.
    n : float
        Sum of the weights of rows.
    origin : ndarray of shape (D,)
    floor : ndarray of shape (D,)
        Least variance of the noise.
    update : str
        See `maximize`.
    accelerated : bool
    private : tuple of int
        Private latent dimensions of each view, see `Mixture`.
    prior : Prior, optional
    """

    groups: tuple[tuple[NDArray[np.bool_], list[View], Array | None], ...]
    n: float
    origin: Array
    floor: Array
    update: str
    accelerated: bool
    private: tuple[int, ...] = ()
    prior: Prior | None = None

    @classmethod
    def of(
        cls,
        views: list[View],
        moments: Moments,
        floor: float,
        update: str,
        accelerated: bool,
        weights: Array | None = None,
    ) -> Self:
        """Return the problem of views with these moments, the floor being relative to the variances."""
        return cls.of_parts(views, moments.mean, floor * moments.variance, update, accelerated, weights)

    @classmethod
    def of_parts(
        cls,
        views: list[View],
        origin: Array,
        floor: Array,
        update: str,
        accelerated: bool = False,
        weights: Array | None = None,
        private: tuple[int, ...] = (),
        prior: Prior | None = None,
    ) -> Self:
        """Return the problem of views about an origin, with an absolute floor."""
        n = len(views[0]) if weights is None else float(weights.sum())
        return cls(tuple(grouped(views, weights)), n, origin, floor, update, accelerated, private, prior)

    def of_rows(self, rows: NDArray[np.intp]) -> Self:
        """Return the problem of some rows of complete views without weights."""
        ((columns, views, _),) = self.groups
        return replace(self, groups=((columns, [view[rows] for view in views], None),), n=len(rows))

    def evaluate(self, mixture: Mixture) -> Statistics:
        """Return the statistics of all rows."""
        whole = None
        for columns, views, weights in self.groups:
            if columns.all():
                part = Expectation(mixture, self.origin).statistics(views, weights)
            else:
                part = Expectation(mixture.observed(columns), self.origin[columns]).statistics(views, weights)
                part = part.completed(mixture, columns, self.origin)
            whole = part if whole is None else whole.joined(part)
        assert whole is not None
        return whole if self.prior is None else self.prior.added(whole, mixture)

    def start(self, mixture: Mixture, number: int = 0) -> tuple[State, ms.Measures]:
        """Return the state that EM begins with, and its measures."""
        statistics = self.evaluate(mixture)
        state = {"pairs": (), "tried": np.zeros(mixture.n_components, bool)}
        state |= {"start": number, "wait": _PLAIN, "patience": 1, "repairs": 0}
        return self._at(mixture, statistics, state), self._measures(statistics, 1, 0)

    def step(self, state: State) -> tuple[State, ms.Measures]:
        """Return the state of a likelier mixture."""
        old, before = Mixture.from_point(state["x"], self.private), statistics_from(state["statistics"])
        state = dict(state)
        found, calls = self._repaired(old, before, state)
        if found is None and self.accelerated and not state["wait"] and before.counts.min() >= 1:
            found, calls = self._searched(old, before, state, calls)
            if found is None:
                state |= {"wait": state["patience"], "patience": min(2 * state["patience"], _PATIENCE)}
        if found is not None:
            return found
        state["wait"] = max(state["wait"] - 1, 0)
        mixture = maximize(before, old, self.floor, self.update)
        statistics = self.evaluate(mixture)
        if -np.inf < statistics.value < before.value:  # rounding: EM has nothing left to gain
            return state, self._measures(before, calls + 1, state["repairs"], ms.Status.ROUNDING_LEVEL)
        state |= {"pairs": ()}
        return self._at(mixture, statistics, state), self._measures(statistics, calls + 1, state["repairs"])

    def _searched(
        self, old: Mixture, before: Statistics, state: State, calls: int
    ) -> tuple[tuple[State, ms.Measures] | None, int]:
        """Return the outcome of a step of L-BFGS in the natural units, if any, and the evaluations until then."""
        units = Units.of(before, old, self.floor)
        slope = units.gradient(before)
        direction = ms.solvers.two_loop(slope, state["pairs"], np.dot)
        found: list[tuple[Mixture, Statistics]] = []

        def value(t: float) -> float:
            """Minus the log-likelihood after a step; infinity where a component has lost all rows."""
            mixture = units.moved(t * direction)
            with np.errstate(over="ignore", invalid="ignore"):  # the search shortens a step too far
                found.append((mixture, self.evaluate(mixture)))
            statistics = found[-1][1]
            return -statistics.value if statistics.counts.min() > 0 else np.inf

        t = ms.solvers.backtrack(value, -before.value, -float(slope @ direction), max_trials=_TRIALS)
        calls += len(found)
        mixture, statistics = found[-1]
        if t is None or statistics.value < before.value:
            return None, calls
        change = slope - Units.of(statistics, mixture, self.floor).gradient(statistics)
        pair = ms.solvers.secant_pair(t * direction, change, np.dot)
        state |= {"patience": 1, "pairs": (*state["pairs"], *([] if pair is None else [pair]))[-_MEMORY:]}
        return (self._at(mixture, statistics, state), self._measures(statistics, calls, state["repairs"])), calls

    def _repaired(self, old: Mixture, before: Statistics, state: State) -> tuple[tuple[State, ms.Measures] | None, int]:
        """Return the outcome of putting a collapsed component where the density is least, if likelier; evaluations."""
        collapsed = np.flatnonzero((before.counts < _COLLAPSED) & ~state["tried"])
        if old.n_components == 1 or not len(collapsed):
            return None, 0
        # it moves to the row with the least density, with the loadings and the noise of the heaviest component
        k = int(collapsed[before.counts[collapsed].argmin()])
        state["tried"] = state["tried"] | (np.arange(old.n_components) == k)
        heaviest = int(before.counts.argmax())
        weights, means, loadings = old.weights.copy(), old.means.copy(), old.loadings.copy()
        weights[k] = max(weights[k], 1 / self.n)
        means[k], loadings[k] = before.worst + self.origin, loadings[heaviest]
        noise = [part.copy() for part in old.noise]
        for part in noise:
            part[k] = part[heaviest]
        mixture = Mixture.trusted(weights / weights.sum(), means, loadings, noise, old.private)
        statistics = self.evaluate(mixture)
        if not before.value <= statistics.value < np.inf:
            return None, 1
        state |= {"repairs": state["repairs"] + 1, "pairs": ()}
        return (self._at(mixture, statistics, state), self._measures(statistics, 1, state["repairs"])), 1

    def _at(self, mixture: Mixture, statistics: Statistics, state: State) -> State:
        return {**state, "x": mixture.point, "statistics": statistics_to(statistics)}

    def _measures(
        self, statistics: Statistics, calls: int, repairs: int, status: ms.Status | None = None
    ) -> ms.Measures:
        return ms.Measures(
            fun=-statistics.value / self.n,
            evaluations=ms.Evaluations(calls, calls),
            status=status,
            extra={"repairs": float(repairs)},
        )


def grouped(
    views: list[View], weights: Array | None = None
) -> Iterator[tuple[NDArray[np.bool_], list[View], Array | None]]:
    """Return the rows that have the same columns: masks, views, weights; without NaN all in one."""
    for columns, rows in patterns(views):
        if rows is None:
            yield columns, views, weights
        else:
            yield columns, observed_views(views, columns, rows), None if weights is None else weights[rows]


def patterns(views: list[View]) -> list[tuple[NDArray[np.bool_], NDArray[np.intp] | None]]:
    """Return which columns are there (D,) in which rows; the rows are None if all have all of them."""
    D = sum(view.shape[1] for view in views)
    if not any(np.isnan(view[rows]).any() for view in views for rows in row_blocks(len(view))):
        return [(np.ones(D, bool), None)]
    holes = np.hstack([np.isnan(view) for view in views])
    for i in np.flatnonzero(holes.all(axis=1)):
        raise ValueError(f"row {i} has no value in any view: remove it")
    kinds, kind = np.unique(np.packbits(holes, axis=1), axis=0, return_inverse=True)
    kind = kind.ravel()
    return [(np.unpackbits(row, count=D) == 0, np.flatnonzero(kind == i)) for i, row in enumerate(kinds)]


def observed_views(views: list[View], columns: NDArray[np.bool_], rows: NDArray[np.intp]) -> list[View]:
    """Return these rows and columns; views without any of the columns are left out."""
    parts, start = [], 0
    for view in views:
        kept = columns[start : start + view.shape[1]]
        start += view.shape[1]
        if kept.any():
            parts.append(view[np.ix_(rows, kept)])
    return parts


def statistics_to(statistics: Statistics) -> dict[str, Any]:
    """Return statistics in the grammar of states."""
    return {one.name: getattr(statistics, one.name) for one in fields(statistics)}


def statistics_from(state: dict[str, Any]) -> Statistics:
    """Return the statistics of a state."""
    return Statistics(**state)
