"""Riemannian nonlinear conjugate gradients."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, NamedTuple

import numpy as np

from .._problem import Problem
from .._result import Measures, Point, Status
from ..linalg._tree import flatten, unflattener
from ._base import Solver, one_of, whole_numbers
from ._hessian import first_step
from ._iterates import Iterate, State, evaluate, inner_product, secant
from ._precondition import Precondition, check_precondition, steepest
from ._saddle import leave_saddle, stationary
from ._search import LINE_SEARCHES, Line, search


class _Products(NamedTuple):
    """Inner products of gradients, preconditioned ones and directions; what is old is transported to the new point."""

    new: float
    """Of the new gradient and the preconditioned new gradient."""
    old: float
    """The same of the last point, there."""
    new_old: float
    """Of the preconditioned new gradient and the old gradient."""
    slope: float
    """Of the new gradient and the old direction."""
    old_slope: float
    """Of the old gradient and the old direction."""


def _hestenes_stiefel(p: _Products) -> float:
    return max(0.0, _ratio(p.new - p.new_old, p.slope - p.old_slope))


def _polak_ribiere(p: _Products) -> float:
    return max(0.0, _ratio(p.new - p.new_old, p.old))


def _fletcher_reeves(p: _Products) -> float:
    return _ratio(p.new, p.old)


def _dai_yuan(p: _Products) -> float:
    return _ratio(p.new, p.slope - p.old_slope)


def _hybrid(p: _Products) -> float:
    return max(0.0, min(_hestenes_stiefel(p), _dai_yuan(p)))


def _ratio(a: float, b: float) -> float:
    return a / b if b != 0 else 0.0


_BETAS: dict[str, Callable[[_Products], float]] = {
    "hestenes-stiefel": _hestenes_stiefel,
    "polak-ribiere": _polak_ribiere,
    "fletcher-reeves": _fletcher_reeves,
    "dai-yuan": _dai_yuan,
    "hybrid": _hybrid,
}


@dataclass(frozen=True)
class CG(Solver):
    """Nonlinear conjugate gradients on a manifold.

    The next direction is ``−P g⁺ + β d``, with the last gradient and direction transported to the new point and P the
    identity without a preconditioner. It starts anew along ``−P g⁺`` where the direction does not descend, where
    successive gradients are far from orthogonal (Powell), and where the set of active bounds changes.

    Parameters
    ----------
    beta : {"hestenes-stiefel", "polak-ribiere", "fletcher-reeves", "dai-yuan", "hybrid"}
        The first two are cut off at zero; the hybrid is that of Hestenes–Stiefel between zero and Dai–Yuan.
    restart : float
        Powell's: start anew where ``|⟨P g⁺, g⟩| ≥ restart·⟨P g⁺, g⁺⟩``; infinity never does.
    retraction : str, optional
        A kind that the manifold knows; its default otherwise.
    line_search : {"wolfe", "armijo"}
        The strong Wolfe conditions with curvature constant 0.1, or sufficient decrease alone. Both follow the
        projected arc where the manifold is bounded.
    max_trials : int
        Trial steps per line search.
    precondition : callable, optional
        See :class:`LBFGS`.

    References
    ----------
    Sato, "Riemannian conjugate gradient methods: general framework and specific algorithms", 2022; Nocedal and Wright,
    "Numerical Optimization", chapter 5.

    Examples
    --------
    >>> import numpy as np, manifoldseq as ms
    >>> problem = ms.Problem(ms.manifolds.Euclidean(2), ms.objective(lambda x: ((x - 1) ** 2).sum()))
    >>> ms.minimize(problem, np.zeros(2), solver="cg", options={"beta": "hybrid"}).x.round(6).tolist()
    [1.0, 1.0]
    """

    beta: str = "hestenes-stiefel"
    restart: float = 0.5
    retraction: str | None = None
    line_search: str = "wolfe"
    max_trials: int = 30
    precondition: Precondition | None = None
    curvature: ClassVar[bool] = True
    frames: ClassVar[bool] = True  # type: ignore[misc]

    def __post_init__(self) -> None:
        whole_numbers("CG", max_trials=self.max_trials)
        one_of("CG", _BETAS, beta=self.beta)
        one_of("CG", LINE_SEARCHES, line_search=self.line_search)
        check_precondition("CG", self.precondition)
        if not (isinstance(self.restart, int | float) and self.restart > 0):
            raise ValueError(f"CG(restart={self.restart!r}): restart must be a number above zero")

    @property
    def scale_free(self) -> bool:
        return True

    def init(self, problem: Problem[Point], point: Point) -> tuple[State, Measures]:
        """Return the state whose direction is the negative gradient, preconditioned if asked for."""
        at = evaluate(problem, point)
        return self._initial_state(problem, at), at.measures(problem.manifold)

    def _initial_state(self, problem: Problem, at: Iterate) -> State:
        direction, slope = steepest(self.precondition, problem, at)
        return at.state(direction=direction, square=-slope, fresh=True, change=None)

    def step(self, problem: Problem, state: State) -> tuple[State, Measures]:
        """Search along the conjugate direction, and along the negative gradient if that fails."""
        manifold = problem.manifold
        at, direction, fresh, change = Iterate.of(state), state["direction"], state["fresh"], state["change"]
        if stationary(at):
            return leave_saddle(problem, state, at, self.retraction, partial(self._initial_state, problem))
        dot = inner_product(problem, at.x)
        while True:
            slope = dot(at.grad, direction)
            found = None
            if fresh or slope < -1e-10 * at.grad_norm * dot(direction, direction) ** 0.5:
                first = change / slope if change and slope else self._first(problem, at, direction)
                line = Line(problem, at, direction, slope, self.retraction)
                found = search(self.line_search, line, first, self.max_trials, 0.1, expand=not change)
            if found is not None:
                break
            if fresh and not change:
                return state, at.measures(manifold, status=Status.NO_DECREASE)
            # a large last decrease may have predicted far too much
            direction, fresh, change = steepest(self.precondition, problem, at)[0], True, None
        new, t = found
        length = t * dot(direction, direction) ** 0.5
        # −P g⁺ and ⟨−P g⁺, g⁺⟩, then d⁺ = −P g⁺ + β d with d transported to the new point
        descent, slope_of_descent = steepest(self.precondition, problem, new)
        turned, rise = self._turn(problem, at, new, direction, descent, -slope_of_descent, state["square"])
        if turned is not None and manifold.bounded and _changed(problem, at, new):
            turned = None
        measures = new.measures(manifold, length, secant(t * rise, length * length))
        more = {"square": -slope_of_descent, "fresh": turned is None, "change": t * slope}
        return new.state(direction=descent if turned is None else turned, **more), measures

    def _first(self, problem: Problem, at: Iterate, direction: np.ndarray) -> float:
        return first_step(problem, at, self.retraction, None if self.precondition is None else direction)

    def _turn(
        self,
        problem: Problem,
        at: Iterate,
        new: Iterate,
        direction: np.ndarray,
        descent: np.ndarray,
        square: float,
        old_square: float,
    ) -> tuple[np.ndarray | None, float]:
        """Return the conjugate direction, None to start anew along `descent`, and the rise of the slope along the last.

        `square` is minus the slope of `descent`, `old_square` the same of the last point.
        """
        manifold, tree, dot = problem.manifold, unflattener(at.x), inner_product(problem, new.x)
        moved = flatten(manifold.transport(at.x, new.x, tree(direction)))
        # With the embedded metric a product with a tangent vector needs no projection of the other.
        embedded = manifold.metric == "embedded"
        old = at.grad if embedded else flatten(manifold.transport(at.x, new.x, tree(at.grad)))
        products = _Products(square, old_square, -dot(descent, old), dot(new.grad, moved), dot(old, moved))
        rise = products.slope - products.old_slope
        # Powell's restart: of a quadratic function successive gradients are orthogonal
        if abs(products.new_old) >= self.restart * square:
            return None, rise
        beta = _BETAS[self.beta](products)
        return (descent + beta * moved if beta != 0 else None), rise


def _changed(problem: Problem, at: Iterate, new: Iterate) -> bool:
    """Return whether the coordinates that active bounds hold have changed."""
    before, after = (problem.manifold.free(i.x, i.egrad) for i in (at, new))
    if before is None or after is None:
        return before is not after
    return bool(np.any(flatten(before) != flatten(after)))
