"""Projected gradient descent: Algorithm 1 of the LDS paper."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from .._checks import check_switch
from .._problem import Problem
from .._result import Measures, Point, Status
from ..linalg import ONE, flatten
from ._base import Solver, whole_numbers
from ._hessian import first_step
from ._iterates import Iterate, State, evaluate, step_curvature, try_point
from ._saddle import leave_saddle, stationary
from ._search import sufficient


@dataclass(frozen=True)
class PGD(Solver):
    """Projected gradient descent with Cayley and bound-normalized updates.

    This is Algorithm 1 of "Efficient Optimization for Linear Dynamical Systems" (2017). All gradients are computed at
    one point, and then each factor moves along its ``descent_curve``: the Cayley curve (16), (17) for orthonormal
    columns, and the bound normalization (18) for bounds.

    Parameters
    ----------
    step_size : float or sequence of float, optional
        The rate τ: one number, or one per factor of a product, such as ``(0.1, 0.1, 1.0)`` for (λ, V, U). By default,
        the rate is the step to the minimizer of the quadratic model along the negative gradient at the start (see
        :func:`first_step`), which adapts to the scale of the objective.
    halve_every : int, optional
        Number of iterations after which the rate is halved; by default the rate is constant.
    backtracking : bool
        Halve the step of an iteration until the objective decreases sufficiently (Armijo along the projected arc), and
        double it again in later iterations. A given rate is the upper limit of the doubled rate; without a given rate
        there is no limit. Without backtracking the fixed rates may increase the objective, as in the paper. In this
        case ``minimize`` returns the point with the lowest value, and the message reports this. If every step increases
        the objective, this point is the start.
    max_trials : int
        The maximum number of halvings.

    Notes
    -----
    The rates refer to the scale of the gradient: equation (8) is −(2/N) Σ k, while the authors' toolbox steps along
    −(1/N) Σ k, so the rate 0.1 of the toolbox is 0.05 on the objective as printed (the model ``lds.mean``).

    Examples
    --------
    >>> import numpy as np, manifoldseq as ms
    >>> problem = ms.Problem(ms.manifolds.BoundedDiagonal(2, 0.5), ms.objective(lambda x: ((x - 1) ** 2).sum()))
    >>> ms.minimize(problem, np.zeros(2), solver="pgd", options={"step_size": 0.4}).x.tolist()
    [0.5, 0.5]
    """

    step_size: float | Sequence[float] | None = None
    halve_every: int | None = None
    backtracking: bool = True
    max_trials: int = 40
    curvature: ClassVar[bool] = True

    def __post_init__(self) -> None:
        rates = np.atleast_1d(1.0 if self.step_size is None else self.step_size)
        if rates.ndim != 1 or rates.dtype.kind not in "fiu" or not np.all(np.isfinite(rates) & (rates > 0)):
            raise ValueError(f"PGD(step_size={self.step_size!r}): pass a positive number, or one per factor")
        check_switch("PGD: backtracking", self.backtracking)
        whole_numbers(
            "PGD", max_trials=self.max_trials, **({} if self.halve_every is None else {"halve_every": self.halve_every})
        )

    @property
    def monotone(self) -> bool:
        return self.backtracking

    @property
    def scale_free(self) -> bool:
        return self.step_size is None

    def init(self, problem: Problem[Point], point: Point) -> tuple[State, Measures]:
        """Return the first state."""
        rates = np.atleast_1d(1.0 if self.step_size is None else self.step_size)
        factors = len(point) if isinstance(point, tuple) else 1
        if rates.size not in (1, factors):
            raise ValueError(
                f"PGD(step_size={self.step_size!r}) has {rates.size} rates, but the point has {factors} factor(s)"
            )
        at = evaluate(problem, point)
        return at.state(scale=1.0, count=0, rate=None), at.measures(problem.manifold)

    def start_at(self, problem: Problem, state: State, at: Iterate) -> State:
        return at.state(scale=1.0, count=state["count"] + 1, rate=None)

    def step(self, problem: Problem, state: State) -> tuple[State, Measures]:
        """Move every factor along its descent curve."""
        at = Iterate.of(state)
        curve = problem.manifold.descent_curve(at.x, at.egrad)
        if stationary(at):
            return leave_saddle(problem, state, at, None, partial(self.start_at, problem, state))
        start, egrad = flatten(at.x), flatten(at.egrad)
        halvings = 0 if self.halve_every is None else state["count"] // self.halve_every
        scale: float = state["scale"]
        rate = state["rate"]
        if rate is None:
            rate = first_step(problem, at) if self.step_size is None else self.step_size
        for trial in range(self.max_trials):
            new = try_point(problem, at, curve(_times(scale * 0.5**halvings, rate)))
            moved = flatten(new.x) - start
            finite = math.isfinite(new.fun) and math.isfinite(new.grad_norm)
            # curves of bounded factors are clipped: the change predicted is ⟨∇f, y − x⟩ along the way really gone
            predicted = min(0.0, float(np.dot(egrad, moved)))
            enough = finite and sufficient(ONE, at, new.fun, predicted, scale / state["scale"], at.fun)
            if enough or not self.backtracking:
                length = float(np.dot(moved, moved)) ** 0.5
                curvature = step_curvature(problem, at.x, at.grad, new) if finite else None
                grown = scale if trial else min(1.0, 2.0 * scale)
                if self.step_size is None and finite and not trial:
                    # of a quadratic with curvature L, a share of 1 − τL/2: the rate stays between 1/2L and 3/2L
                    share = (new.fun - at.fun) / predicted if predicted < 0 else 0.0
                    grown = scale * (2.0 if share > 0.5 else 0.5 if share < 0.25 else 1.0)
                state = new.state(scale=grown, count=state["count"] + 1, rate=rate)
                return state, new.measures(problem.manifold, length, curvature)
            scale *= 0.5
        return state, at.measures(problem.manifold, status=Status.NO_DECREASE)


def _times(scale: float, rate: Any) -> Any:
    """Return one rate, or a list of one per factor, multiplied by a number."""
    rates = scale * np.atleast_1d(rate)
    return float(rates[0]) if rates.size == 1 else rates.tolist()
