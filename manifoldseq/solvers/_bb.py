"""The Riemannian Barzilai–Borwein method."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from .._problem import Problem
from .._result import Measures, Point, Status
from ..linalg._tree import flatten, unflattener_of
from ._base import Solver, one_of, whole_numbers
from ._hessian import first_step
from ._iterates import Iterate, State, evaluate, inner_product, secant
from ._saddle import leave_saddle, stationary
from ._search import Line, armijo

_STEP_SIZES = ("adaptive", "alternating", "long", "short")
_SHORT = 0.15
"""Adaptive steps are short where the short size is below this share of the long one."""


@dataclass(frozen=True)
class BB(Solver):
    """Gradient steps of Barzilai–Borwein length: the cheapest iteration.

    The step size is the long ``⟨s, s⟩/⟨s, y⟩`` or the short ``⟨s, y⟩/⟨y, y⟩``, with ``s`` the last step and ``y`` the
    change of the gradient, both transported. Adaptive steps are short where the two differ much (Zhou, Gao, Dai); where
    the curvature is of many sizes that saves most of the iterations that taking them in turn can cost. The search is
    nonmonotone: a step must decrease a weighted mean of the values so far (Zhang and Hager), so that nearly every first
    trial is taken. The best point is returned.

    Parameters
    ----------
    step_size : {"adaptive", "alternating", "long", "short"}
    retraction : str, optional
        A kind that the manifold knows; its default otherwise.
    nonmonotone : float
        Weight of the past in the mean, from 0 (monotone) to below 1.
    max_trials : int
        Trial steps per line search.

    References
    ----------
    Iannazzo, Porcelli, "The Riemannian Barzilai–Borwein method with nonmonotone line search", 2018; Zhou, Gao, Dai,
    "Gradient methods with adaptive step-sizes", 2006; Zhang, Hager, "A nonmonotone line search technique", 2004; Dai,
    Fletcher, "Projected Barzilai–Borwein methods", 2005.

    Examples
    --------
    >>> import numpy as np, manifoldseq as ms
    >>> problem = ms.Problem(ms.manifolds.Euclidean(2), ms.objective(lambda x: ((x - 1) ** 2).sum()))
    >>> ms.minimize(problem, np.zeros(2), solver="bb").x.round(6).tolist()
    [1.0, 1.0]
    """

    step_size: str = "adaptive"
    retraction: str | None = None
    nonmonotone: float = 0.85
    max_trials: int = 30
    curvature: ClassVar[bool] = True
    frames: ClassVar[bool] = True  # type: ignore[misc]

    def __post_init__(self) -> None:
        whole_numbers("BB", max_trials=self.max_trials)
        one_of("BB", _STEP_SIZES, step_size=self.step_size)
        if not (isinstance(self.nonmonotone, int | float) and 0 <= self.nonmonotone < 1):
            raise ValueError(f"BB(nonmonotone={self.nonmonotone!r}): nonmonotone must be a number from 0 to below 1")

    @property
    def monotone(self) -> bool:
        return self.nonmonotone == 0

    @property
    def scale_free(self) -> bool:
        return True

    def init(self, problem: Problem[Point], point: Point) -> tuple[State, Measures]:
        """Return the first state."""
        at = evaluate(problem, point)
        return self._initial_state(at), at.measures(problem.manifold)

    def _initial_state(self, at: Iterate) -> State:
        return at.state(step=None, level=at.fun, weight=1.0, even=True)

    def step(self, problem: Problem, state: State) -> tuple[State, Measures]:
        """Step along the negative gradient."""
        at, known, level = Iterate.of(state), state["step"], state["level"]
        if stationary(at):
            return leave_saddle(problem, state, at, self.retraction, self._initial_state)
        square = at.grad_norm * at.grad_norm
        line = Line(problem, at, -at.grad, -square, self.retraction)
        first = first_step(problem, at, self.retraction) if known is None else known
        found = armijo(line, first, self.max_trials, known is None, level)
        if found is None:
            return state, at.measures(problem.manifold, status=Status.NO_DECREASE)
        new, t = found
        # the last gradient at the new point: ‖g‖², ⟨g, g⁺⟩ and ‖g⁺‖² are all that both step sizes need
        last = at.grad
        if problem.manifold.metric != "embedded":
            last = flatten(problem.manifold.transport(at.x, new.x, unflattener_of(problem.manifold.shape)(last)))
            square = inner_product(problem, new.x)(last, last)
        product = inner_product(problem, new.x)(last, new.grad)
        long, short = _step_sizes(t, square, product, new.grad_norm)
        if self.step_size == "adaptive":
            step = short if short < _SHORT * long else long
        else:
            step = long if self.step_size == "long" or (self.step_size != "short" and state["even"]) else short
        # the level is a weighted mean of all values so far (Zhang and Hager 2004)
        weight = self.nonmonotone * state["weight"] + 1.0
        return (
            new.state(
                step=step if 0 < step < math.inf else t,
                level=level + (new.fun - level) / weight,
                weight=weight,
                even=not state["even"],
            ),
            new.measures(problem.manifold, t * at.grad_norm, secant(square - product, t * square)),
        )


def _step_sizes(t: float, square: float, product: float, norm: float) -> tuple[float, float]:
    """Return the long and the short next step size from three inner products: with ``s = −t·g`` no other is needed.

    ``⟨s, s⟩ = t²⟨g, g⟩``, ``⟨s, y⟩ = t(⟨g, g⟩ − ⟨g, g⁺⟩)`` and ``⟨y, y⟩ = ⟨g, g⟩ − 2⟨g, g⁺⟩ + ⟨g⁺, g⁺⟩``.
    """
    # s = −t g, z = g⁺ − g: ⟨s, s⟩/|⟨s, z⟩| = t ‖g‖²/|‖g‖² − ⟨g, g⁺⟩|, and |⟨s, z⟩|/⟨z, z⟩
    curved = abs(square - product)
    bent = square - 2 * product + norm * norm
    return t * square / curved if curved > 0 else math.inf, t * curved / bent if bent > 0 else math.inf
