"""Projected gradient descent: Algorithm 1 of the LDS paper."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from .._problem import Problem
from .._result import Measures, Point, Status
from ..linalg._tree import flatten
from ._base import Solver, whole_numbers
from ._iterates import Iterate, State, evaluate, step_curvature, try_point
from ._saddle import leave_saddle, stationary
from ._search import sufficient


@dataclass(frozen=True)
class PGD(Solver):
    """Projected gradient descent with Cayley and bound-normalized updates.

    Algorithm 1 of "Efficient Optimization for Linear Dynamical Systems" (2017): all gradients are taken at one point,
    then each factor moves along its ``descent_curve``: the Cayley curve (16), (17) where columns are orthonormal, the
    bound normalization (18) on bounds.

    Parameters
    ----------
    step_size : float or sequence of float
        The rate τ; one number, or one per factor of a product, such as ``(0.1, 0.1, 1.0)`` for (λ, V, U).
    halve_every : int, optional
        Halve the rate every so many iterations; constant otherwise.
    backtracking : bool
        Halve the step of an iteration until the objective decreases sufficiently (Armijo along the projected arc), and
        let it recover by doubling. Off, the fixed rates may raise the objective, as the paper's do.
    max_trials : int
        Halvings before the search gives up.

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

    step_size: float | Sequence[float] = 0.1
    halve_every: int | None = None
    backtracking: bool = True
    max_trials: int = 40
    curvature: ClassVar[bool] = True

    def __post_init__(self) -> None:
        rates = np.atleast_1d(self.step_size)
        if rates.ndim != 1 or rates.dtype.kind not in "fiu" or not np.all(np.isfinite(rates) & (rates > 0)):
            raise ValueError(f"PGD(step_size={self.step_size!r}): give a positive number, or one per factor")
        if not isinstance(self.backtracking, bool):
            raise ValueError(f"PGD(backtracking={self.backtracking!r}): give True or False")
        whole_numbers(
            "PGD", max_trials=self.max_trials, **({} if self.halve_every is None else {"halve_every": self.halve_every})
        )

    @property
    def monotone(self) -> bool:
        return self.backtracking

    def init(self, problem: Problem[Point], point: Point) -> tuple[State, Measures]:
        """Return the first state."""
        rates = np.atleast_1d(self.step_size)
        factors = len(point) if isinstance(point, tuple) else 1
        if rates.size not in (1, factors):
            raise ValueError(
                f"PGD(step_size={self.step_size!r}) has {rates.size} rates, the point has {factors} factor(s)"
            )
        at = evaluate(problem, point)
        return at.state(scale=1.0, count=0), at.measures(problem.manifold)

    def step(self, problem: Problem, state: State) -> tuple[State, Measures]:
        """Move every factor along its descent curve."""
        at = Iterate.of(state)
        curve = problem.manifold.descent_curve(at.x, at.egrad)
        if stationary(at):
            return leave_saddle(problem, state, at, None, lambda new: new.state(scale=1.0, count=state["count"] + 1))
        start, egrad = flatten(at.x), flatten(at.egrad)
        halvings = 0 if self.halve_every is None else state["count"] // self.halve_every
        scale: float = state["scale"]
        for trial in range(self.max_trials):
            new = try_point(problem, at, curve(self._rates(scale * 0.5**halvings)))
            moved = flatten(new.x) - start
            finite = math.isfinite(new.fun) and math.isfinite(new.grad_norm)
            # curves of bounded factors are clipped: the change predicted is ⟨∇f, y − x⟩ along the way really gone
            predicted = min(0.0, float(np.dot(egrad, moved)))
            enough = finite and sufficient(at, new.fun, predicted, scale / state["scale"])
            if enough or not self.backtracking:
                length = float(np.dot(moved, moved)) ** 0.5
                curvature = step_curvature(problem, at.x, at.grad, new) if finite else None
                grown = min(1.0, 2.0 * scale) if trial == 0 else scale
                state = new.state(scale=grown, count=state["count"] + 1)
                return state, new.measures(problem.manifold, length, curvature)
            scale *= 0.5
        return state, at.measures(problem.manifold, status=Status.NO_DECREASE)

    def _rates(self, scale: float) -> Any:
        rates = scale * np.atleast_1d(self.step_size)
        return float(rates[0]) if rates.size == 1 else rates.tolist()
