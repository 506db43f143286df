"""Riemannian gradient descent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from .._problem import Problem
from .._result import Measures, Point, Status
from ..linalg._tree import flatten, unflattener
from ._base import Iterate, Solver, State, evaluate, inner, one_of, positive_numbers, secant, whole_numbers
from ._hessian import first_step
from ._saddle import confirm, settled, stationary
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
    curvature: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.step_size is not None and not isinstance(self.step_size, Schedule):
            positive_numbers("GD", step_size=self.step_size)
        whole_numbers("GD", max_trials=self.max_trials)
        one_of("GD", LINE_SEARCHES, line_search=self.line_search)

    @property
    def monotone(self) -> bool:
        return self.step_size is None

    @property
    def scale_free(self) -> bool:
        return self.step_size is None

    def init(self, problem: Problem, point: Point) -> tuple[State, Measures]:
        """Return the first state."""
        at = evaluate(problem, point)
        return at.state(step=None, count=0), at.measures(problem.manifold)

    def confirm(self, problem: Problem, state: State, recent: tuple[Measures, ...]) -> Measures:
        return confirm(problem, Iterate.of(state), recent)

    def step(self, problem: Problem, state: State) -> tuple[State, Measures]:
        """Step along the negative gradient."""
        at, last, k = Iterate.of(state), state["step"], state["count"]
        if stationary(at):
            return settled(problem, state, at, self.retraction, lambda new: new.state(step=None, count=k + 1))
        line = Line(problem, at, -at.grad, -at.grad_norm * at.grad_norm, self.retraction)
        if self.step_size is not None:
            t = rate_at(self.step_size, k)
            new = line.go(t)
        else:
            first = first_step(problem, at, self.retraction) if last is None else 2.0 * last
            found = search(self.line_search, line, first, self.max_trials, 0.9, expand=last is None)
            if found is None:
                return state, at.measures(problem.manifold, status=Status.NO_DECREASE)
            new, t = found
        old = at.grad
        if problem.manifold.metric != "embedded":
            old = flatten(problem.manifold.transport(at.x, new.x, unflattener(at.x)(old)))
        dot = inner(problem, new.x)
        square = dot(old, old)
        curvature = secant(square - dot(old, new.grad), t * square)
        return new.state(step=t, count=k + 1), new.measures(problem.manifold, t * at.grad_norm, curvature)
