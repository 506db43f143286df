"""The method of Levenberg and Marquardt for least squares on manifolds."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np

from .._problem import Problem
from .._residual_system import Linearized, System
from .._result import Measures, Point, Status
from .._stopping import LOOSE, Look
from ..linalg import LINEAR, dtype_of, flatten, freeze, method_for, norm
from ..losses import GRADUATION, Graduated
from ._base import Solver, one_of, positive_numbers
from ._iterates import Iterate, State, retracted
from ._saddle import PROBES, PRODUCTS, curvature_ahead, leave_saddle, lowest_curvature, stationary

ACCEPT, TRIALS, LEAST, TINY = 1e-4, 40, 1e-12, 1e-12
"""The share of the predicted decrease that a step keeps, the most dampings tried, the least damping, and the least
entry of the diagonal that it multiplies, relative to the largest."""
SLIGHT = 1e-9
"""Before a success, a step with a larger damping is replaced by one with the least damping."""


@dataclass(frozen=True)
class LM(Solver):
    """Levenberg and Marquardt's method: damped Gauss–Newton steps for ``ms.least_squares`` on any manifold.

    A step solves ``(JᵀWJ + λ diag(JᵀWJ)) δ = −JᵀWr`` in coordinates of the tangent spaces, with the weights W =
    ρ'(‖r‖²) of robust losses at the current point, and retracts. λ is adapted to the ratio of the actual and the
    predicted decrease (Nielsen's rule). The matrix is sparse if every residual depends on few points. Its pattern, an
    order of the points with little fill-in, and the fronts of its factorization are computed once.

    Parameters
    ----------
    damping : float
        The initial damping λ.
    linear : {"auto", "multifrontal", "superlu", "cg"}
        The method for the linear equations of a step: multifrontal sparse Cholesky factorization, SuperLU, or conjugate
        gradients with a block-Jacobi preconditioner (one block per point). "auto" chooses the method with the smallest
        predicted time: SuperLU if the fronts are many and tiny, conjugate gradients if the factor would be nearly
        dense, as on random graphs.
    retraction : str, optional
        The name of a retraction of the manifold; by default the default retraction of the manifold.

    Notes
    -----
    Gauss–Newton steps converge linearly if the residuals at the minimum are large: ``"lbfgs"`` may be faster on such
    small dense problems. Before the solver reports success, a step without damping must predict no decrease, and
    products with the Hessian search for negative curvature in random directions. With ``loss="gnc"``, the first
    iterations minimize losses with larger scales, see :class:`manifoldseq.losses.Graduated`. The history contains the
    objective with the final loss.

    References
    ----------
    Madsen, Nielsen, Tingleff, "Methods for non-linear least squares problems", 2004; Triggs et al., "Bundle
    adjustment – a modern synthesis", 2000.

    Examples
    --------
    >>> import numpy as np, manifoldseq as ms
    >>> f = ms.least_squares(ms.residuals(
    ...     lambda x: np.array([10 * (x[1] - x[0] ** 2), 1 - x[0]]),
    ...     jacobian=lambda x: np.array([[-20 * x[0], 10.0], [-1.0, 0.0]]),
    ... ))
    >>> ms.minimize(ms.Problem(ms.manifolds.Euclidean(2), f), np.array([-1.2, 1.0]), solver="lm").x.round(6).tolist()
    [1.0, 1.0]
    """

    damping: float = 1e-5
    linear: str = "auto"
    retraction: str | None = None
    needs: ClassVar[tuple[str, ...]] = ("residuals",)
    curvature: ClassVar[bool] = True
    trusted: ClassVar[bool] = True

    def __post_init__(self) -> None:
        positive_numbers("LM", damping=self.damping)
        one_of("LM", LINEAR, linear=self.linear)

    def init(self, problem: Problem[Point], point: Point) -> tuple[State, Measures]:
        """Return the state at the start, with the first step."""
        if problem.manifold.bounded:
            raise ValueError(f"LM does not support the bounds of {problem.manifold!r}: use solver='lbfgs'")
        system = _system(problem)
        graduated = [block.loss for block in system.blocks if isinstance(block.loss, Graduated)]
        widened = 1.0
        if graduated:
            largest = [
                s.max(initial=0.0)
                for s, b in zip(system.squares(point), system.blocks, strict=True)
                if b.loss in graduated
            ]
            widened = graduated[0].first(max(largest)) if np.isfinite(largest).all() else 1.0
        return self._at(problem, point, self.damping, widened, None)

    def start_at(self, problem: Problem, state: State, at: Iterate) -> State:
        return self._at(problem, at.x, self.damping, 1.0, None)[0]

    def step(self, problem: Problem, state: State) -> tuple[State, Measures]:
        """Take the step of the state, with larger damping until the objective decreases, and linearize again."""
        system, at = _system(problem), Iterate.of(state)
        widened: float = state["widened"]
        if widened == 1.0 and stationary(at):
            return leave_saddle(problem, state, at, self.retraction, partial(self.start_at, problem, state))
        bases = system.structure.bases(at.x)
        fun, g, data, delta = state["surrogate"], state["g"], state["data"], state["delta"]
        lam, growth = state["lam"], 2.0
        slack = 50 * float(np.finfo(dtype_of(at.x)).eps) * abs(fun)
        for trial in range(TRIALS):
            if trial:
                delta = self._solution(system, g, data, lam)
            if delta is not None:
                damped = lam * _diagonal(system, data) * delta
                predicted = 0.5 * float(delta @ (damped - g))
                with np.errstate(all="ignore"):
                    x = freeze(retracted(problem, at.x, system.step(at.x, bases, delta), self.retraction))
                    value = self._value(problem, system, x, widened)
                # near the end a rise at rounding level counts as none
                kept = (fun - value + slack) / (predicted + slack) if math.isfinite(value) and predicted > 0 else -1.0
                if kept > ACCEPT:
                    lam = max(lam * max(0.1, 1 - (2 * kept - 1) ** 3), LEAST)
                    narrower = max(1.0, widened / GRADUATION) if widened > 1.0 else 1.0
                    return self._at(problem, x, lam, narrower, float(np.linalg.norm(delta)))
            lam, growth = lam * growth, 2 * growth
        if widened > 1.0:
            return self._at(problem, at.x, self.damping, max(1.0, widened / GRADUATION), 0.0)
        return state, at.measures(problem.manifold, status=Status.NO_DECREASE)

    def confirm(self, problem: Problem, state: State, recent: tuple[Measures, ...], look: Look) -> Measures:
        at, now = Iterate.of(state), recent[-1]
        if state["widened"] > 1.0:
            return now
        now = at.at_boundary(problem.manifold, now)
        if at.fun == 0:  # no loss is negative
            return dataclasses.replace(now, curvature_ahead=0.0)
        still = stationary(at)
        steps = PRODUCTS if still else PROBES
        lowest, _, negative = lowest_curvature(problem, at, None, steps, decrease=look.decrease)
        if negative or still:
            return dataclasses.replace(now, curvature_ahead=lowest)
        # a damped step may be short where the minimizer is far
        slight, g = state["lam"] <= SLIGHT, state["g"]
        delta = state["delta"] if slight else self._solution(_system(problem), g, state["data"], LEAST)
        least = 50 * float(np.finfo(dtype_of(at.x)).eps) * abs(now.fun)
        ended = len(recent) > 1 and abs(now.fun - recent[-2].fun) <= least
        curvature, distance = _ahead(at, g, delta, now.step_size, ended)
        times = LOOSE if ended else 1
        decrease = 0.5 * at.grad_norm * (at.grad_norm / curvature) if curvature else math.inf
        if slight or decrease <= times * look.decrease or distance <= times * look.way:
            return dataclasses.replace(now, curvature=curvature, distance=distance, curvature_ahead=curvature)
        # where the Gauss–Newton matrix is nearly singular, the Hessian says more
        return dataclasses.replace(now, curvature_ahead=curvature_ahead(problem, at, now.curvature or 0.0, look, None))

    def _at(
        self, problem: Problem[Point], x: Point, lam: float, widened: float, length: float | None
    ) -> tuple[State, Measures]:
        """Return the state at a point, with the Gauss–Newton system there and its solution."""
        system = _system(problem)
        made = system.linearize(x, widened)
        fun = made.fun if widened == 1.0 else system.value(x)
        delta = self._solution(system, made.gradient, made.data, lam) if math.isfinite(made.fun) else None
        at = _iterate(problem, x, fun, made, norm(made.gradient))
        state = at.state(
            lam=lam, widened=widened, surrogate=made.fun, g=made.gradient, data=made.data, delta=delta,
        )  # fmt: skip
        if widened > 1.0:
            return state, at.measures(problem.manifold, length)
        curvature, distance = _ahead(at, made.gradient, delta, length)
        return state, dataclasses.replace(at.measures(problem.manifold, length, curvature), distance=distance)

    def _solution(self, system: System, g: np.ndarray, data: np.ndarray, lam: float) -> np.ndarray | None:
        damped = data.copy()
        damped[system.structure.diagonal] += lam * _diagonal(system, data)
        solve = system.memo(self.linear, lambda: method_for(system.structure, self.linear)).factor(damped)
        delta = None if solve is None else solve(-g)
        return delta if delta is not None and np.isfinite(delta).all() else None

    def _value(self, problem: Problem, system: System, x: Point, widened: float) -> float:
        try:
            value = problem.objective.value(x)  # counted, also where the wider loss is what decides
            return value if widened == 1.0 else system.value(x, widened)
        except (np.linalg.LinAlgError, FloatingPointError):
            return math.inf


def _system(problem: Problem) -> System:
    return problem.objective.residuals


def _diagonal(system: System, data: np.ndarray) -> np.ndarray:
    diagonal = data[system.structure.diagonal]
    return np.maximum(diagonal, TINY * diagonal.max(initial=0.0) or 1.0)


def _ahead(
    at: Iterate, g: np.ndarray, delta: np.ndarray | None, length: float | None, ended: bool = False
) -> tuple[float | None, float]:
    """Return κ such that ‖g‖²/2κ is the decrease that the Gauss–Newton model predicts, and the distance it predicts.

    A short step is no proof of a solution, because a small change of a parameter with a large unit can change the
    residuals much. The distance is therefore the length of the longer one of this step and the last step. It is
    infinite unless the model predicts residuals of zero, or `ended` says that the value no longer changes.
    """
    twice = 0.0 if delta is None else -float(g @ delta)
    if delta is None or not twice > 0:
        return None, math.inf
    counts = ended or twice >= at.fun
    distance = max(float(np.linalg.norm(delta)), math.inf if length is None else length) if counts else math.inf
    return at.grad_norm * (at.grad_norm / twice), distance


def _iterate(problem: Problem, x: Point, fun: float, made: Linearized, grad_norm: float) -> Iterate:
    gradient = _system(problem).step(x, made.bases, made.gradient)
    egrad = problem.manifold.euclidean_gradient(x, gradient)
    return Iterate(x, fun, egrad, flatten(gradient), grad_norm, made.bound)
