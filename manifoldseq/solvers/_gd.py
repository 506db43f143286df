"""Riemannian gradient descent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from .._problem import Problem
from .._result import Measures, Point, Status
from ..linalg._tree import flatten, unflattener
from ._base import Solver, one_of, positive_numbers, whole_numbers
from ._hessian import first_step
from ._iterates import Iterate, State, evaluate, inner_product, secant
from ._precondition import Precondition, check_precondition, steepest
from ._saddle import leave_saddle, stationary
from ._schedules import Schedule, rate_at
from ._search import LINE_SEARCHES, Line, search


@dataclass(frozen=True)
class GD(Solver):
    """Steepest descent with a line search or given step sizes.

    Slow where the problem is ill-conditioned: for comparison, for teaching, and where a certain decrease per iteration
    counts. ``"bb"`` takes the same directions in far fewer iterations.

    Parameters
    ----------
    step_size : float or Schedule, optional
        The factor of the negative gradient in every iteration. Without one a line search chooses it, starting from
        twice the last.
    retraction : str, optional
        A kind that the manifold knows; its default otherwise.
    line_search : {"armijo", "wolfe"}
        Sufficient decrease alone, or the strong Wolfe conditions with curvature constant 0.9. Both follow the
        projected arc where the manifold is bounded.
    max_trials : int
        Trial steps per line search.
    precondition : callable, optional
        See :class:`LBFGS`; `step_size` is then a factor of the preconditioned gradient.

    References
    ----------
    Absil, Mahony, Sepulchre, "Optimization Algorithms on Matrix Manifolds", 2008, algorithm 1.

    Examples
    --------
    >>> import numpy as np, manifoldseq as ms
    >>> problem = ms.Problem(ms.manifolds.Euclidean(2), ms.objective(lambda x: ((x - 1) ** 2).sum()))
    >>> ms.minimize(problem, np.zeros(2), solver="gd", options={"step_size": 0.25}).x.round(5).tolist()
    [1.0, 1.0]
    """

    step_size: float | Schedule | None = None
    retraction: str | None = None
    line_search: str = "armijo"
    max_trials: int = 30
    precondition: Precondition | None = None
    curvature: ClassVar[bool] = True
    frames: ClassVar[bool] = True  # type: ignore[misc]

    def __post_init__(self) -> None:
        if self.step_size is not None and not isinstance(self.step_size, Schedule):
            positive_numbers("GD", step_size=self.step_size)
        whole_numbers("GD", max_trials=self.max_trials)
        one_of("GD", LINE_SEARCHES, line_search=self.line_search)
        check_precondition("GD", self.precondition)

    @property
    def monotone(self) -> bool:
        return self.step_size is None

    @property
    def scale_free(self) -> bool:
        return self.step_size is None

    def init(self, problem: Problem[Point], point: Point) -> tuple[State, Measures]:
        """Return the first state."""
        at = evaluate(problem, point)
        return at.state(step=None, count=0), at.measures(problem.manifold)

    def step(self, problem: Problem, state: State) -> tuple[State, Measures]:
        """Step along the negative gradient, preconditioned if asked for."""
        at, last, k = Iterate.of(state), state["step"], state["count"]
        if stationary(at):
            return leave_saddle(problem, state, at, self.retraction, lambda new: new.state(step=None, count=k + 1))
        direction, slope = steepest(self.precondition, problem, at)
        line = Line(problem, at, direction, slope, self.retraction)
        if self.step_size is not None:
            t = rate_at(self.step_size, k)
            new = line.go(t)
        else:
            known = None if self.precondition is None else direction
            first = first_step(problem, at, self.retraction, known) if last is None else 2.0 * last
            found = search(self.line_search, line, first, self.max_trials, 0.9, expand=last is None)
            if found is None:
                return state, at.measures(problem.manifold, status=Status.NO_DECREASE)
            new, t = found
        plain, dot = self.precondition is None, inner_product(problem, new.x)
        length = t * (at.grad_norm if plain else inner_product(problem, at.x)(direction, direction) ** 0.5)
        # both vectors at the new point: the last direction, and the last gradient
        moved, old = direction, at.grad
        if problem.manifold.metric != "embedded":
            tree, transport = unflattener(at.x), problem.manifold.transport
            moved = flatten(transport(at.x, new.x, tree(direction)))
            old = old if plain else flatten(transport(at.x, new.x, tree(old)))
        square = dot(moved, moved)
        rise = dot(moved, new.grad) - (-square if plain else dot(moved, old))
        curvature = secant(rise, t * square)
        return new.state(step=t, count=k + 1), new.measures(problem.manifold, length, curvature)
