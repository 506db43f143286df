"""Stopping rules that compose, such as ``GradientNorm(1e-6) | MaxIterations(100)``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from numbers import Real

from ._result import Evaluations, Measures, Status


@dataclass(slots=True)
class RunSoFar:
    """What a stopping rule may look at.

    Attributes
    ----------
    nit : int
    time : float
        Seconds since the start, those before a resume included.
    evaluations : Evaluations
        Of the whole run.
    first, previous, current : Measures
        `previous` is None at the start.
    reference : float
        Gradient norm that relative tolerances refer to.
    eps : float
        Machine epsilon of the point's dtype.
    """

    nit: int
    time: float
    evaluations: Evaluations
    first: Measures
    previous: Measures | None
    current: Measures
    reference: float
    eps: float


class StoppingRule(ABC):
    """A condition on a run so far; rules combine with ``|`` (any) and ``&`` (all at the same iteration).

    Examples
    --------
    A rule of your own; it keeps no state, so that a resumed run stops where an uninterrupted one does:

    >>> import manifoldseq as ms
    >>> class Target(ms.StoppingRule):
    ...     def check(self, so_far):
    ...         return ms.Status.CONVERGED if so_far.current.fun <= 1e-3 else None
    >>> problem = ms.Problem(ms.manifolds.Euclidean(1), ms.objective(lambda x: (x**2).sum()))
    >>> ms.minimize(problem, [1.0], stop=Target() | ms.MaxIterations(50)).fun <= 1e-3
    True
    """

    @abstractmethod
    def check(self, so_far: RunSoFar) -> Status | None:
        """Return the status to end with, or None to go on."""

    def __or__(self, other: StoppingRule) -> StoppingRule:
        return AnyOf((*_members(self, AnyOf), *_members(other, AnyOf)))

    def __and__(self, other: StoppingRule) -> StoppingRule:
        return AllOf((*_members(self, AllOf), *_members(other, AllOf)))


@dataclass(frozen=True)
class AnyOf(StoppingRule):
    """Ends when one of its rules does; a status that means success goes before a limit."""

    rules: tuple[StoppingRule, ...]

    def check(self, so_far: RunSoFar) -> Status | None:
        """Return the first status given, successes first."""
        found = None
        for rule in self.rules:
            status = rule.check(so_far)
            if status is not None:
                if status.success:
                    return status
                found = found or status
        return found


@dataclass(frozen=True)
class AllOf(StoppingRule):
    """Ends when all of its rules do at the same iteration; a success only if all are."""

    rules: tuple[StoppingRule, ...]

    def check(self, so_far: RunSoFar) -> Status | None:
        """Return a status when every rule gives one, limits first."""
        found = None
        for rule in self.rules:
            status = rule.check(so_far)
            if status is None:
                return None
            if found is None or not status.success:
                found = status
        return found


def _members(rule: StoppingRule, kind: type) -> tuple[StoppingRule, ...]:
    if not isinstance(rule, StoppingRule):
        raise TypeError(f"a stopping rule combines with another rule, not with {rule!r}: write MaxIterations({rule!r})")
    return rule.rules if isinstance(rule, kind) else (rule,)  # type: ignore[attr-defined]


def _not_negative(rule: object, name: str, value: float) -> None:
    if isinstance(value, bool) or not isinstance(value, Real) or not value >= 0:
        raise ValueError(f"{type(rule).__name__}({name}={value!r}): {name} must be a number ≥ 0")


def _infeasible(current: Measures, tol: float, eps: float) -> bool:
    return current.feasibility is not None and current.feasibility > max(tol, 100 * eps)


@dataclass(frozen=True)
class GradientNorm(StoppingRule):
    """Stop when the Riemannian gradient is small.

    Parameters
    ----------
    tol : float
    relative : bool
        Compare with ``tol`` times the first gradient norm (or, for a warm start, that of the run it continues, if
        larger).
    feasibility : float
        Of a problem with constraints, the largest violation that still counts as solved.

    Notes
    -----
    Also met at rounding level: ``100 * eps(dtype of the point) * norm of the Euclidean gradient``.
    """

    tol: float
    relative: bool = False
    feasibility: float = 1e-6

    def __post_init__(self) -> None:
        _not_negative(self, "tol", self.tol)
        _not_negative(self, "feasibility", self.feasibility)

    def check(self, so_far: RunSoFar) -> Status | None:
        """Return CONVERGED or ROUNDING_LEVEL when the gradient norm is small enough."""
        current = so_far.current
        if current.grad_norm is None or _infeasible(current, self.feasibility, so_far.eps):
            return None
        if current.grad_norm <= (self.tol * so_far.reference if self.relative else self.tol):
            return Status.CONVERGED
        if current.egrad_norm is not None and current.grad_norm <= 100 * so_far.eps * current.egrad_norm:
            return Status.ROUNDING_LEVEL
        return None


@dataclass(frozen=True)
class MaxIterations(StoppingRule):
    """Stop after `n` iterations."""

    n: int

    def __post_init__(self) -> None:
        _not_negative(self, "n", self.n)

    def check(self, so_far: RunSoFar) -> Status | None:
        """Return MAX_ITERATIONS at the limit."""
        return Status.MAX_ITERATIONS if so_far.nit >= self.n else None


@dataclass(frozen=True)
class MaxEvaluations(StoppingRule):
    """Stop after `n` evaluations of the objective (a fused call is one); an iteration once begun is completed."""

    n: float

    def __post_init__(self) -> None:
        _not_negative(self, "n", self.n)

    def check(self, so_far: RunSoFar) -> Status | None:
        """Return MAX_EVALUATIONS at the limit."""
        return Status.MAX_EVALUATIONS if so_far.evaluations.nfev >= self.n else None


@dataclass(frozen=True)
class MaxTime(StoppingRule):
    """Stop after `seconds`; an iteration once begun is completed."""

    seconds: float

    def __post_init__(self) -> None:
        _not_negative(self, "seconds", self.seconds)

    def check(self, so_far: RunSoFar) -> Status | None:
        """Return MAX_TIME at the limit."""
        return Status.MAX_TIME if so_far.time >= self.seconds else None


@dataclass(frozen=True)
class CostChange(StoppingRule):
    """Stop when the objective changes by at most ``tol * max(1, |f|)`` in one iteration, on feasible points."""

    tol: float
    feasibility: float = 1e-6

    def __post_init__(self) -> None:
        _not_negative(self, "tol", self.tol)
        _not_negative(self, "feasibility", self.feasibility)

    def check(self, so_far: RunSoFar) -> Status | None:
        """Return COST_CHANGE when the objective has settled."""
        current, previous = so_far.current, so_far.previous
        if previous is None or _infeasible(current, self.feasibility, so_far.eps):
            return None
        change = abs(current.fun - previous.fun)
        return Status.COST_CHANGE if change <= self.tol * max(1.0, abs(current.fun)) else None


@dataclass(frozen=True)
class StepSize(StoppingRule):
    """Stop when the length of a step is at most `tol`. This is a limit, not a success."""

    tol: float

    def __post_init__(self) -> None:
        _not_negative(self, "tol", self.tol)

    def check(self, so_far: RunSoFar) -> Status | None:
        """Return SMALL_STEP at the limit."""
        step = so_far.current.step_size
        return Status.SMALL_STEP if step is not None and step <= self.tol else None
