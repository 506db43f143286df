"""What a run hands back: the status, the measures of one iterate, the run and the result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple

import numpy as np

Point = Any
"""A point or tangent vector: an array, or a (nested) tuple of arrays in the factor order of the manifold."""


class Status(Enum):
    """Why a run ended; the value is the sentence that a user reads."""

    CONVERGED = "The gradient norm is below the tolerance."
    ROUNDING_LEVEL = "The gradient norm is at the rounding level of the point's dtype; it cannot be reduced further."
    COST_CHANGE = "The relative change of the objective is below the tolerance."
    MAX_ITERATIONS = "The maximum number of iterations was reached."
    MAX_EVALUATIONS = "The maximum number of evaluations was reached."
    MAX_TIME = "The maximum time was reached."
    SMALL_STEP = "The step size fell below the tolerance."
    NO_DECREASE = "The line search found no decrease; check the gradient with manifoldseq.testing.check_gradient."
    NON_FINITE = "The objective or its gradient is NaN or infinite; the last finite point, if any, is returned."
    INTERRUPTED = "The run was interrupted; the last complete iterate is returned."

    @property
    def success(self) -> bool:
        """Whether this status is a solution rather than a limit or a failure."""
        return self in (Status.CONVERGED, Status.ROUNDING_LEVEL, Status.COST_CHANGE)


class Evaluations(NamedTuple):
    """Numbers of evaluations of the value, the gradient and the Hessian product.

    A fused value-and-gradient call counts one of each; a mini-batch counts its share of the terms.
    """

    nfev: float = 0
    njev: float = 0
    nhev: float = 0

    def plus(self, other: Evaluations) -> Evaluations:
        """Return the componentwise sum."""
        return Evaluations(self.nfev + other.nfev, self.njev + other.njev, self.nhev + other.nhev)


@dataclass(frozen=True, slots=True)
class Measures:
    """What is known about one iterate.

    Parameters
    ----------
    fun : float
        Objective value.
    grad_norm : float, optional
        Norm of the Riemannian gradient (projected at active bounds).
    feasibility : float, optional
        Largest violation of the constraints of the manifold.
    step_size : float, optional
        Length of the step that led here.
    egrad_norm : float, optional
        Norm of the Euclidean gradient: the scale of the rounding error in ``grad_norm``.
    evaluations : Evaluations
        Evaluations spent on this iterate alone.
    status : Status, optional
        A reason to end the run, asked after the stopping rule.
    extra : mapping of str to float
        Further columns of the history.
    """

    fun: float
    grad_norm: float | None = None
    feasibility: float | None = None
    step_size: float | None = None
    egrad_norm: float | None = None
    evaluations: Evaluations = Evaluations()
    status: Status | None = None
    extra: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Run:
    """The outcome of :func:`manifoldseq.iterate`.

    Attributes
    ----------
    state : dict or tuple
        The last complete state.
    status : Status
    measures : Measures
        Of the last state, with the evaluations of the whole run.
    nit : int
        Iterations.
    time : float
        Seconds, those before a resume included.
    history : dict of str to ndarray
        Equally long columns ``nit, time, fun, grad_norm, feasibility, nfev`` and numeric extras; the first record is
        the start, the last the last iterate.
    """

    state: Any
    status: Status
    measures: Measures
    nit: int
    time: float
    history: dict[str, np.ndarray]


@dataclass(frozen=True)
class Result:
    """The outcome of :func:`manifoldseq.minimize`.

    Attributes
    ----------
    x : Point
        The solution: an array or a tuple of arrays in factor order.
    fun, grad_norm, feasibility : float
        Objective, norm of the Riemannian gradient, and largest constraint violation at `x`.
    success : bool
        Whether a stopping rule that means "solved" was met.
    status : Status
    message : str
        The status as a sentence.
    nit, nfev, njev, nhev : int or float
        Iterations and evaluations.
    time : float
        Seconds.
    multipliers : tuple, optional
        Of the constraints of the problem, if the solver has them.
    history : dict of str to ndarray
        See :class:`Run`.
    component : int, optional
        The connected component that `x` was searched in, when components were asked for.
    reference : float, optional
        The gradient norm that relative tolerances refer to; a warm start keeps it.
    """

    x: Point
    fun: float
    grad_norm: float | None
    status: Status
    nit: int
    nfev: float
    njev: float
    nhev: float
    time: float
    feasibility: float
    history: dict[str, np.ndarray]
    multipliers: tuple[float, ...] | None = None
    component: int | None = None
    reference: float | None = None

    @property
    def success(self) -> bool:
        """Whether the problem is solved to the tolerance."""
        return self.status.success

    @property
    def message(self) -> str:
        """The status as a full sentence."""
        return self.status.value

    def __repr__(self) -> str:
        grad = "unknown" if self.grad_norm is None else f"{self.grad_norm:.3g}"
        return (
            f"Result({self.status.name}: {self.message} fun={self.fun:.10g}, grad_norm={grad}, nit={self.nit}, "
            f"nfev={self.nfev:g}, feasibility={self.feasibility:.1e}, time={self.time:.3g} s)"
        )


class NotConverged(RuntimeError):
    """Raised by ``minimize(…, raise_on_failure=True)``.

    Attributes
    ----------
    result : Result
        What was reached.
    """

    def __init__(self, result: Result) -> None:
        super().__init__(repr(result))
        self.result = result
