"""The frame of solvers that consist of a descent (direction) and a search (step length)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import ClassVar

import numpy as np

from .._problem import Problem
from .._result import Measures, Point, Status
from ..linalg import ONE
from ._base import Solver, one_of, whole_numbers
from ._descents import Descent, Direction
from ._hessian import first_step
from ._iterates import Iterate, State, evaluate
from ._saddle import leave_saddle, stationary
from ._search import LINE_SEARCHES, Found, Line, Search, line_search


@dataclass(frozen=True)
class LineSearch(Solver):
    """A solver that is a descent and a search, for one problem (:func:`minimize`) or many (:func:`minimize_batch`).

    In every iteration the descent computes a direction, and the search computes a step along this direction. If the
    search finds no step, it is repeated along a simpler direction of the descent, as long as the descent has a simpler
    direction. The solver leaves stationary points that are not minima along directions of negative curvature. A
    subclass is a frozen dataclass with a `search`, and with a `descent` unless the subclass itself is a descent
    (:class:`LBFGS`).

    Parameters
    ----------
    retraction : str, optional
        The name of a retraction of the manifold; by default the manifold's default retraction.

    Attributes
    ----------
    descent : Descent
        The rule for the direction.
    search : Search
        The rule for the step size.

    Examples
    --------
    Conjugate directions with a search that :class:`CG` does not use:

    >>> import dataclasses, numpy as np, manifoldseq as ms
    >>> @dataclasses.dataclass(frozen=True)
    ... class Nonlinear(ms.solvers.LineSearch):
    ...     descent = ms.solvers.Conjugate(beta="hybrid")
    ...     search = ms.solvers.StrongWolfe(curvature=0.3)
    >>> problem = ms.Problem(ms.manifolds.Euclidean(2), ms.objective(lambda x: ((x - 1) ** 2).sum()))
    >>> ms.minimize(problem, np.zeros(2), solver=Nonlinear()).x.round(6).tolist()
    [1.0, 1.0]
    """

    retraction: str | None = None
    search: ClassVar[Search]
    curvature: ClassVar[bool] = True
    frames: ClassVar[bool] = True  # type: ignore[misc]
    trusted: ClassVar[bool] = True

    @property
    def descent(self) -> Descent:
        """The rule for the direction: the solver itself, if it is a descent."""
        assert isinstance(self, Descent), f"{type(self).__name__} needs a descent: give the class an attribute descent"
        return self

    @property
    def scale_free(self) -> bool:
        return True

    def inverse_hessian(self, problem: Problem, state: State) -> Callable[[np.ndarray], np.ndarray] | None:
        return self.descent.inverse(problem, Iterate.of(state), state)

    def init(self, problem: Problem[Point], point: Point) -> tuple[State, Measures]:
        """Return the state of a new start."""
        at = evaluate(problem, point)
        return self.start_at(problem, {}, at), at.measures(problem.manifold)

    def start_at(self, problem: Problem, state: State, at: Iterate) -> State:
        return at.state(**self.descent.begin(problem, at), **self.search.begin(problem, at))

    def step(self, problem: Problem, state: State) -> tuple[State, Measures]:
        """Compute the next iterate."""
        at, axis = Iterate.of(state), problem.axis
        if axis is ONE and stationary(at):  # rows that are stationary find nothing below
            return leave_saddle(problem, state, at, self.retraction, partial(self.start_at, problem, state))
        (new, t, low), went = self._searched(problem, at, state)
        if low is not True and not axis.any(low):
            return state, at.measures(problem.manifold, status=Status.NO_DECREASE)
        memory, curvature = self.descent.learn(problem, at, new, went, t, state)
        memory.update(self.search.learn(state, new))
        measures = new.measures(problem.manifold, t * went.size, curvature)
        if low is not True and not axis.all(low):
            measures.status = axis.no(low)  # type: ignore[assignment]  # of rows: which of them found no decrease
        return new.state(**memory), measures

    def _searched(self, problem: Problem, at: Iterate, kept: State) -> tuple[Found, Direction]:
        """Return the result of the search along the direction or a simpler direction, and this direction."""
        axis, went = problem.axis, self.descent.query(problem, at, kept)
        descends = (went.plain & (at.grad_norm > 0)) | (went.slope < -1e-10 * at.grad_norm * went.size)
        if descends is True or axis.all(descends):
            found = self._along(problem, at, went, kept)
            if found.low is True or axis.all(found.low):  # nearly always
                return found, went
        else:
            found = Found(at, went.first, descends ^ descends)
            if axis.any(descends):
                found = axis.put(found, descends, self._along(*axis.take(descends, problem, at, went, kept)))
        rejected = axis.no(found.low)
        simpler, changed = self.descent.simpler(*axis.take(rejected, problem, at, kept))
        if axis.any(changed):
            rows = axis.within(rejected, changed)
            now, along = self._searched(*axis.take(rows, problem, at), kept=axis.take(changed, simpler))
            found, went = axis.put(found, rows, now), axis.put(went, rows, along)
        return found, went

    def _along(self, problem: Problem, at: Iterate, went: Direction, kept: State) -> Found:
        """Return the result of the search; without a known step, the quadratic model gives the first step."""
        first, axis = went.first, problem.axis
        unknown = first != first
        if unknown is not False and axis.any(unknown):
            problems, iterates, along = axis.take(unknown, problem, at, went.vector)
            step = first_step(problems, iterates, self.retraction, along)
            first = axis.put(first, unknown, step)
        line = Line(problem, at, went.vector, went.slope, self.retraction)
        return self.search.find(line, first, unknown, kept)


@dataclass(frozen=True)
class Searching(LineSearch):
    """Mixin for a descent whose line search is chosen by name; the next base class is the descent."""

    line_search: str = "armijo"
    max_trials: int = 30
    slope_left: ClassVar[float] = 0.9

    def __post_init__(self) -> None:
        super().__post_init__()  # type: ignore[misc]  # of the descent
        name = type(self).__name__
        whole_numbers(name, max_trials=self.max_trials)
        one_of(name, LINE_SEARCHES, line_search=self.line_search)

    @cached_property
    def search(self) -> Search:  # type: ignore[override]
        return line_search(self.line_search, self.max_trials, self.slope_left)
