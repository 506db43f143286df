"""Result types: `Status`, `Measures`, `Run`, `Result`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from importlib import import_module
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeAlias

import numpy as np

Tree: TypeAlias = np.ndarray | tuple[Any, ...]
"""A point or tangent vector of any manifold: an array, or a (nested) tuple of arrays in the order of the factors."""

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    Point = TypeVar("Point", bound=Tree, default=Any)
else:
    from typing import TypeVar

    # the type of the points of one manifold: `Manifold[np.ndarray]`, or `Manifold` where any will do
    Point = TypeVar("Point", bound=Tree)


FEASIBLE = 1e-6
"""Violations of constraints and complementarities up to this value count as zero."""


class Status(Enum):
    """The reason why a run ended; the value is the message of the result."""

    CONVERGED = "The point is stationary to the tolerance of the stopping rule."
    ROUNDING_LEVEL = "The point is stationary to the rounding level of its dtype; it cannot be improved further."
    COST_CHANGE = "The relative change of the objective is below the tolerance."
    MAX_ITERATIONS = "The maximum number of iterations was reached."
    MAX_EVALUATIONS = "The maximum number of evaluations was reached."
    MAX_TIME = "The maximum time was reached."
    SMALL_STEP = "The step size fell below the tolerance."
    STALLED = "The objective no longer decreases, but the point is not stationary to the tolerance."
    NO_DECREASE = (
        "No step decreased the objective, or the objective decreases where its gradient vanishes: the objective is "
        "ill-conditioned here, or a derivative is wrong. Check the derivatives with manifoldseq.testing.check_gradient "
        "and check_hessian."
    )
    INFEASIBLE = (
        "The constraints could not be satisfied from this start: check that a feasible point exists, or try another "
        "start."
    )
    NON_FINITE = (
        "The objective, a constraint or a derivative is NaN or infinite; the last finite point, if any, is returned."
    )
    ESTIMATE_ONLY = (
        "A mini-batch met the stopping rule, but the whole data set does not: use larger batches or more steps."
    )
    INTERRUPTED = "The run was interrupted; the last complete iterate is returned."
    FAILED = "The objective raised an exception; the last complete iterate is kept."

    @property
    def success(self) -> bool:
        """Whether the run ended with a solution, not at a limit and not with a failure."""
        return self in (Status.CONVERGED, Status.ROUNDING_LEVEL, Status.COST_CHANGE)


class Evaluations(NamedTuple):
    """Numbers of evaluations of the value, the gradient and the Hessian product.

    A call that computes value and gradient together counts as one value and one gradient. A mini-batch counts as its
    share of the terms.
    """

    nfev: float = 0
    njev: float = 0
    nhev: float = 0

    def plus(self, other: Evaluations) -> Evaluations:
        """Return the componentwise sum."""
        return Evaluations(self.nfev + other.nfev, self.njev + other.njev, self.nhev + other.nhev)


@dataclass(slots=True)
class Measures:
    """Values measured at one iterate.

    Parameters
    ----------
    fun : float
        Objective value.
    grad_norm : float, optional
        Norm of the Riemannian gradient (projected at active bounds).
    feasibility : float, optional
        Largest violation of the constraints of the problem, ``|h|`` and ``max(0, g)``, if it has any.
    step_size : float, optional
        Length of the last step.
    egrad_norm : float, optional
        Norm of the Euclidean gradient: the scale of the rounding error in ``grad_norm``.
    evaluations : Evaluations
        The evaluations for this iterate alone.
    status : Status, optional
        A reason to end the run. The stopping rule takes precedence.
    extra : mapping of str to float
        Further columns of the history.
    curvature : float, optional
        The curvature of the objective along the last step: ``⟨s, y⟩/⟨s, s⟩`` with the step s and the change y of the
        Riemannian gradient, in the metric at the new point.
    curvature_ahead : float, optional
        ``‖g‖/‖H⁻¹g‖`` for the Riemannian gradient g and the Hessian H, in the plane of g and Hg. It is measured before
        a run ends as solved. It is not positive if the Hessian is not positive in this plane, or if the value cannot be
        distinguished from rounding errors.
    scale : float, optional
        The length with which steps are compared, see :meth:`manifoldseq.manifolds.Manifold.scale`.
    pushed_inward : float, optional
        How much the objective would decrease if a point near the boundary moved inward, see
        :meth:`manifoldseq.manifolds.Manifold.pushed_inward`.
    complementarity : float, optional
        Largest ``min(−g, μ)`` of the satisfied inequalities, with their multipliers μ ≥ 0. It is zero if every
        inequality is active or has the multiplier zero. It does not measure a violation of the constraints.
    unclaimed_slope : float, optional
        Slope of the objective along a random tangent vector of length one, minus the slope from the gradient. It is
        measured before a run ends with success. It is zero unless the objective contradicts the gradient.
    distance : float, optional
        Distance to the minimizer according to the solver's model, that is, the length of its step without damping. It
        may exceed ``‖g‖/κ`` by the condition number. It is infinite if a short distance must not end the run.
    """

    fun: float
    grad_norm: float | None = None
    feasibility: float | None = None
    step_size: float | None = None
    egrad_norm: float | None = None
    evaluations: Evaluations = Evaluations()
    status: Status | None = None
    extra: Mapping[str, float] = field(default_factory=dict)
    curvature: float | None = None
    curvature_ahead: float | None = None
    scale: float | None = None
    pushed_inward: float | None = None
    complementarity: float | None = None
    unclaimed_slope: float | None = None
    distance: float | None = None

    def kept(self) -> tuple[float | None, ...]:
        """Return the numbers that a stopping rule can use, for the state of a solver with an inner solver."""
        return (
            *(self.fun, self.grad_norm, self.feasibility, self.step_size, self.egrad_norm),
            *(self.curvature, self.curvature_ahead, self.scale, self.pushed_inward, self.complementarity),
            self.distance,
        )

    @classmethod
    def of(cls, kept: tuple[Any, ...]) -> Measures:
        """Return the measures from the numbers of :meth:`kept`."""
        measures = cls(*kept[:5])
        measures.curvature, measures.curvature_ahead, measures.scale, measures.pushed_inward = kept[5:9]
        measures.complementarity, measures.distance = kept[9:11]
        return measures

    def with_evaluations(self, evaluations: Evaluations) -> Measures:
        """Return these measures with other evaluations, without the slow `dataclasses.replace`."""
        return Measures(
            self.fun,
            self.grad_norm,
            self.feasibility,
            self.step_size,
            self.egrad_norm,
            evaluations,
            self.status,
            self.extra,
            self.curvature,
            self.curvature_ahead,
            self.scale,
            self.pushed_inward,
            self.complementarity,
            self.unclaimed_slope,
            self.distance,
        )


@dataclass(frozen=True)
class Steps:
    """The return value of a step that makes many iterations in an inner loop, in place of :class:`Measures`.

    Parameters
    ----------
    recent : tuple of Measures
        The measures of the last iterates of these iterations, at most twelve, the current iterate last. They contain no
        evaluations. If the step made no iteration, the tuple contains only the current iterate, whose status gives the
        reason.
    history : mapping of str to ndarray
        The columns ``fun``, ``grad_norm`` and ``nfev`` (evaluations since the step began), one row per iteration;
        other columns are optional.
    evaluations : Evaluations
        The evaluations of all iterations.

    Examples
    --------
    Newton's method for the square root of 2, three iterations per step:

    >>> import numpy as np, manifoldseq as ms
    >>> def step(state):
    ...     x, values = state["x"], []
    ...     for _ in range(3):
    ...         x = 0.5 * (x + 2 / x)
    ...         values.append(float(abs(x * x - 2)[0]))
    ...     history = {"fun": np.array(values), "grad_norm": np.full(3, np.nan), "nfev": np.arange(1, 4)}
    ...     return {"x": x}, ms.Steps(tuple(map(ms.Measures, values)), history, ms.Evaluations(3))
    >>> run = ms.iterate(step, {"x": np.array([1.0])}, stop=ms.MaxIterations(6))
    >>> run.nit, run.state["x"].round(6).tolist(), run.history["nfev"].tolist()
    (6, [1.414214], [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    """

    recent: tuple[Measures, ...]
    history: Mapping[str, np.ndarray]
    evaluations: Evaluations

    @property
    def last(self) -> Measures:
        """The measures of the last iterate, with the evaluations of all iterations."""
        return self.recent[-1].with_evaluations(self.evaluations)


@dataclass(frozen=True)
class Run:
    """The outcome of :func:`manifoldseq.iterate`.

    Attributes
    ----------
    state : dict or tuple
        The last complete state.
    status : Status
    measures : Measures
        The measures of the last state, with the evaluations of the whole run.
    nit : int
        Iterations.
    time : float
        Seconds, including the time before a resume.
    history : dict of str to ndarray
        Columns of equal length: ``nit, time, fun, grad_norm, feasibility, nfev``, ``complementarity`` (with
        inequalities) and numeric extras. The first record is the start, and the last record is the last iterate.
    """

    state: Any
    status: Status
    measures: Measures
    nit: int
    time: float
    history: dict[str, np.ndarray]

    @property
    def fun(self) -> float:
        """Objective of the last state."""
        return self.measures.fun

    def to_frame(self) -> Any:
        """Return the history as a pandas data frame, one row per iterate; raise ImportError without pandas."""
        return frame(self.history)


@dataclass(frozen=True)
class Result(Generic[Point]):
    """The outcome of :func:`manifoldseq.minimize`.

    Attributes
    ----------
    x : Point
        The solution: an array or a tuple of arrays in factor order.
    fun, grad_norm, feasibility : float
        Objective, norm of the Riemannian gradient (with constraints: of the Lagrangian), and largest violation of the
        manifold or the constraints at `x`: ``|h|`` of equalities, ``max(0, g)`` of inequalities.
    success : bool
        Whether a stopping rule that means "solved" was met.
    status : Status
    message : str
        The status in words.
    nit, nfev, njev, nhev : int or float
        Iterations and evaluations.
    time : float
        Seconds.
    multipliers : dict of str to ndarray, optional
        The multipliers of the constraints, if the solver computes them: ``"equalities"`` and ``"inequalities"``.
    history : dict of str to ndarray
        See :class:`Run`.
    component : int, optional
        The connected component of `x`, if all components were searched.
    reference : float, optional
        The gradient norm that relative tolerances refer to; a warm start keeps it.
    solver : str, optional
        The name of the solver, or its class if it was given as an object.
    complementarity : float, optional
        With constraints, the largest ``min(−g, μ)`` of the satisfied inequalities, see :class:`Measures`. A success
        requires that `feasibility` and `complementarity` are small.
    note : str
        Further sentences of `message`, about the returned point and about other connected components.
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
    multipliers: dict[str, np.ndarray] | None = None
    component: int | None = None
    reference: float | None = None
    solver: str | None = None
    complementarity: float | None = None
    note: str = ""

    @property
    def success(self) -> bool:
        """Whether the problem is solved to the tolerance."""
        return self.status.success

    @property
    def message(self) -> str:
        """The status as a full sentence, with violation and complementarity if they are positive, and the note."""
        text = self.status.value
        if self.multipliers is not None and self.feasibility > FEASIBLE:
            text += f" Largest violation of the constraints: {self.feasibility:.3g}."
        if self.complementarity is not None and self.complementarity > FEASIBLE:
            text += f" Largest complementarity min(−g, μ) of the inequalities: {self.complementarity:.3g}."
        return f"{text} {self.note}" if self.note else text

    def to_frame(self) -> Any:
        """Return the history as a pandas data frame, one row per iterate; raise ImportError without pandas."""
        return frame(self.history)

    def __repr__(self) -> str:
        grad = "unknown" if self.grad_norm is None else f"{self.grad_norm:.3g}"
        by = "" if self.solver is None else f", solver={self.solver!r}"
        complementarity = "" if self.complementarity is None else f"complementarity={self.complementarity:.1e}, "
        return (
            f"Result({self.status.name}: {self.message} fun={self.fun:.10g}, grad_norm={grad}, nit={self.nit}, "
            f"nfev={self.nfev:g}, feasibility={self.feasibility:.1e}, {complementarity}time={self.time:.3g} s{by})"
        )


@dataclass(frozen=True)
class BatchResult(Generic[Point]):
    """The outcome of :func:`manifoldseq.minimize_batch`; ``result[i]`` is the :class:`Result` of problem `i`.

    Attributes
    ----------
    x : Point
        The points, with a leading axis of length B on every array.
    fun, grad_norm, feasibility, reference : ndarray, shape (B,)
    success : ndarray of bool, shape (B,)
    status : tuple of Status
        Of length B.
    nit, nfev : ndarray, shape (B,)
        Iterations and fused evaluations of every problem.
    time : float
        Seconds, for all problems together.
    history : dict of str to ndarray
        The history of the whole run: ``fun`` is the sum over the problems, ``grad_norm`` the maximum, ``nfev`` the sum
        and ``active`` the number of problems that are not yet solved.
    """

    x: Point
    fun: np.ndarray
    grad_norm: np.ndarray
    status: tuple[Status, ...]
    nit: np.ndarray
    nfev: np.ndarray
    time: float
    feasibility: np.ndarray
    history: dict[str, np.ndarray]
    reference: np.ndarray

    @property
    def success(self) -> np.ndarray:
        """Mask of the problems that are solved to the tolerance."""
        return np.array([status.success for status in self.status])

    @property
    def message(self) -> str:
        """The number of problems for each status."""
        counts = {status: self.status.count(status) for status in Status}
        return "; ".join(f"{n} of {len(self)}: {status.value}" for status, n in counts.items() if n)

    def to_frame(self) -> Any:
        """Return the history as a pandas data frame, one row per iteration; raise ImportError without pandas."""
        return frame(self.history)

    def __len__(self) -> int:
        return len(self.status)

    def __getitem__(self, i: int) -> Result[Point]:
        i = range(len(self))[i]
        n = int(self.nfev[i])
        return Result(
            x=_row(self.x, i),
            fun=float(self.fun[i]),
            grad_norm=float(self.grad_norm[i]),
            status=self.status[i],
            nit=int(self.nit[i]),
            nfev=n,
            njev=n,
            nhev=0,
            time=self.time,
            feasibility=float(self.feasibility[i]),
            history=self.history,
            reference=float(self.reference[i]),
        )

    def __repr__(self) -> str:
        return (
            f"BatchResult({self.message} fun={self.fun.sum():.10g} in all, grad_norm≤{self.grad_norm.max():.3g}, "
            f"nit≤{self.nit.max()}, nfev={self.nfev.sum():g} in all, time={self.time:.3g} s)"
        )


def _row(point: Any, i: int) -> Any:
    return tuple(_row(part, i) for part in point) if isinstance(point, tuple) else np.array(point[i])


def frame(history: Mapping[str, np.ndarray]) -> Any:
    """Return the columns of a history as a pandas data frame."""
    try:
        pandas = import_module("pandas")
    except ImportError as error:
        raise ImportError("a data frame needs pandas: pip install pandas; .history has the same columns") from error
    return pandas.DataFrame(dict(history))


class NotConverged(RuntimeError):
    """Raised by ``minimize(…, raise_on_failure=True)`` and ``minimize_batch``.

    Attributes
    ----------
    result : Result or BatchResult
        The result of the run.
    """

    def __init__(self, result: Any) -> None:
        super().__init__(repr(result))
        self.result = result
