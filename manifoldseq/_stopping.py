"""Stopping rules that compose, such as ``PredictedDecrease() | MaxIterations(100)``."""

from __future__ import annotations

import functools
import math
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any, NamedTuple, cast

import numpy as np

from ._quoted import quoted
from ._result import Evaluations, Measures, Status

WINDOW = 10
"""Number of iterations for the estimates of the curvature and of stagnation."""

ASSERTED = (Status.CONVERGED, Status.ROUNDING_LEVEL, Status.STALLED, Status.NO_DECREASE)
"""Statuses that make a statement about the point, which the curvature ahead may contradict."""

ROUNDING = 200
"""Changes of the value by this many units of rounding count as zero: line searches accept increases of 50."""


SHARE, LEAST_PRODUCTS, MOST_PRODUCTS = 1 / 3, 6, 100
"""Maximum number of Hessian products of a confirmation, relative to the evaluations so far, and its limits."""

LOOSE = 100
"""Ratio between the tolerances of a success at the level of rounding and those of convergence."""

SINGLE = 1e-5
"""The least tolerance in single precision. With four units of rounding 38 of 40 runs of Brockett's function on
St(20, 5), by L-BFGS and by Barzilai-Borwein steps, ended as STALLED, less than 1e-5 of the value above the minimum;
with this tolerance 15 do, and no success is further than 1e-5 away."""

LAST = WINDOW + 2
"""Number of measures for a rule: ten steps, and the two iterates that the first of these steps needs."""


@dataclass(slots=True, init=False)
class RunSoFar:
    """The argument of a stopping rule: measures of the last iterates and of the whole run.

    Parameters
    ----------
    recent : sequence of Measures
        The measures of the last iterates; the current iterate is the last.
    nit : int, optional
        The number of iterations; by default the number from the first of `recent` to the last.
    time : float
        Seconds since the start, including the time before a resume.
    evaluations : Evaluations, optional
        The evaluations of the whole run; by default the sum over `recent`.
    first : Measures, optional
        The measures of the start; by default the first of `recent`.
    reference : float, optional
        The gradient norm that relative tolerances refer to; by default the gradient norm of `first`.
    eps : float
        Machine epsilon of the point's dtype.

    Attributes
    ----------
    recent : tuple of Measures
        At most the last twelve.
    nit, time, evaluations, first, reference, eps
        As above.

    Examples
    --------
    A rule can be called directly as a function of the run:

    >>> import manifoldseq as ms
    >>> so_far = ms.RunSoFar([ms.Measures(fun, grad_norm=fun) for fun in (4.0, 2.0, 1.0)])
    >>> so_far.nit, so_far.current.fun, so_far.previous.fun
    (2, 1.0, 2.0)
    >>> print(ms.GradientNorm(0.5, relative=True).check(so_far), ms.MaxIterations(3).check(so_far))
    Status.CONVERGED None
    """

    recent: tuple[Measures, ...]
    nit: int
    time: float
    evaluations: Evaluations
    first: Measures
    reference: float
    eps: float

    def __init__(
        self,
        recent: Sequence[Measures],
        nit: int | None = None,
        time: float = 0.0,
        evaluations: Evaluations | None = None,
        first: Measures | None = None,
        reference: float | None = None,
        eps: float = 2.0**-52,
    ) -> None:
        self.recent = tuple(recent[-LAST:])
        self.nit = len(recent) - 1 if nit is None else nit
        self.time = time
        if evaluations is None:
            evaluations = Evaluations(*map(sum, zip(*(m.evaluations for m in recent), strict=True)))
        self.evaluations = evaluations
        self.first = recent[0] if first is None else first
        self.reference = (self.first.grad_norm or 0.0) if reference is None else reference
        self.eps = eps

    def after(self, measures: Measures, time: float) -> RunSoFar:
        """Return the run after one more iteration, with the measures of the new iterate."""
        evaluations = self.evaluations.plus(measures.evaluations)
        recent = (*self.recent[1 - LAST :], measures)
        return RunSoFar(recent, self.nit + 1, time, evaluations, self.first, self.reference, self.eps)

    def instead(self, measures: Measures) -> RunSoFar:
        """Return the run with other measures of the current iterate, and add their evaluations."""
        evaluations = self.evaluations.plus(measures.evaluations)
        return replace(self, evaluations=evaluations, recent=(*self.recent[:-1], measures))

    @property
    def current(self) -> Measures:
        """Measures of the current iterate."""
        return self.recent[-1]

    @property
    def previous(self) -> Measures | None:
        """Measures of the previous iterate, or None at the start."""
        return self.recent[-2] if len(self.recent) > 1 else None


class Look(NamedTuple):
    """Thresholds and limits of the confirmation before a success; arrays for many problems.

    Attributes
    ----------
    decrease, way : float
        The decrease and the distance to the minimizer up to which a problem counts as solved.
    products : int
        Maximum number of Hessian products for the estimate of the decrease ahead, in addition to the first two.
    """

    decrease: Any = 0.0
    way: Any = 0.0
    products: Any = 0


class StoppingRule(ABC):
    """A condition that ends a run; rules combine with ``|`` (any) and ``&`` (all in the same iteration).

    A function of a :class:`RunSoFar` that returns a Status, or None to continue, can be used as a rule.

    Examples
    --------
    A user-defined rule has no state, so that a resumed run stops where an uninterrupted run does:

    >>> import manifoldseq as ms
    >>> def doubled(so_far):
    ...     return ms.Status.MAX_EVALUATIONS if so_far.evaluations.nfev >= 2 * so_far.nit + 9 else None
    >>> class Target(ms.StoppingRule):
    ...     def check(self, so_far):
    ...         return ms.Status.CONVERGED if so_far.current.fun <= 1e-3 else None
    >>> problem = ms.Problem(ms.manifolds.Euclidean(1), lambda x: (x**2).sum())
    >>> ms.minimize(problem, [1.0], stop=Target() | ms.MaxIterations(50) | doubled).fun <= 1e-3
    True
    """

    @property
    def looks_ahead(self) -> bool:
        """Whether the rule needs ``Measures.curvature_ahead`` before it ends a run."""
        return False

    def solved_within(self, so_far: RunSoFar) -> tuple[float, float]:
        """Return the decrease and the distance that count as zero, if the rule needs the curvature ahead."""
        return 0.0, 0.0

    @abstractmethod
    def check(self, so_far: RunSoFar) -> Status | None:
        """Return the status with which the run ends, or None to continue."""

    def may_end(self, many: RunSoFar) -> Any:
        """Return the problems of a batch for which :meth:`check` may return a status: True (all), or a boolean array.

        The numbers of the last measures, the evaluations and the reference are arrays with one entry per problem.
        Unknown numbers are NaN. A rule without this method is evaluated for every problem.
        """
        return True

    def __or__(self, other: Stop) -> StoppingRule:
        return AnyOf((*_members(self, AnyOf), *_members(other, AnyOf)))

    def __and__(self, other: Stop) -> StoppingRule:
        return AllOf((*_members(self, AllOf), *_members(other, AllOf)))

    def __ror__(self, other: Stop) -> StoppingRule:
        return AnyOf((*_members(other, AnyOf), *_members(self, AnyOf)))

    def __rand__(self, other: Stop) -> StoppingRule:
        return AllOf((*_members(other, AllOf), *_members(self, AllOf)))


Stop = StoppingRule | Callable[[RunSoFar], Status | None]


@dataclass(frozen=True)
class _FromFunction(StoppingRule):
    """A rule from a function of the run so far."""

    function: Callable[[RunSoFar], Status | None]

    def check(self, so_far: RunSoFar) -> Status | None:
        status = self.function(so_far)
        if status is not None and not isinstance(status, Status):
            raise TypeError(
                f"the stopping rule {quoted(self.function)} returned {quoted(status)}: return an ms.Status to end the "
                "run, or None to continue"
            )
        return status


def stopping_rule(stop: Stop) -> StoppingRule:
    """Return a rule, or a rule from a function; raise an error for other values."""
    if isinstance(stop, StoppingRule):
        return stop
    if not callable(stop) or isinstance(stop, type):
        raise TypeError(f"stop={quoted(stop)} is not a stopping rule: use for example ms.MaxIterations(100)")
    return _FromFunction(stop)


@dataclass(frozen=True)
class AnyOf(StoppingRule):
    """End the run when one of the rules is met; a status that means success takes precedence over a limit.

    Examples
    --------
    >>> import manifoldseq as ms
    >>> (ms.GradientNorm(1e-6) | ms.MaxIterations(9)).rules
    (GradientNorm(tol=1e-06, relative=False, feasibility=1e-06), MaxIterations(n=9))
    """

    rules: tuple[StoppingRule, ...]

    @property
    def looks_ahead(self) -> bool:
        return any(rule.looks_ahead for rule in self.rules)

    def solved_within(self, so_far: RunSoFar) -> tuple[float, float]:
        return _largest(self.rules, so_far)

    def may_end(self, many: RunSoFar) -> Any:
        return functools.reduce(operator.or_, [rule.may_end(many) for rule in self.rules])

    def check(self, so_far: RunSoFar) -> Status | None:
        """Return the first status, with successes first."""
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
    """End the run when all rules are met in the same iteration, with success only if every rule means success.

    Examples
    --------
    >>> import manifoldseq as ms
    >>> isinstance(ms.GradientNorm(1e-6) & ms.CostChange(1e-9), ms.AllOf)
    True
    """

    rules: tuple[StoppingRule, ...]

    @property
    def looks_ahead(self) -> bool:
        return any(rule.looks_ahead for rule in self.rules)

    def solved_within(self, so_far: RunSoFar) -> tuple[float, float]:
        return _largest(self.rules, so_far)

    def may_end(self, many: RunSoFar) -> Any:
        return functools.reduce(operator.and_, [rule.may_end(many) for rule in self.rules])

    def check(self, so_far: RunSoFar) -> Status | None:
        """Return a status if every rule returns one, with limits first."""
        found = None
        for rule in self.rules:
            status = rule.check(so_far)
            if status is None:
                return None
            if found is None or not status.success:
                found = status
        return found


def _largest(rules: tuple[StoppingRule, ...], so_far: RunSoFar) -> tuple[float, float]:
    decreases, ways = zip(*(rule.solved_within(so_far) for rule in rules), strict=True)
    return max(decreases), max(ways)


def _members(rule: Stop, kind: type) -> tuple[StoppingRule, ...]:
    if not callable(rule) and not isinstance(rule, StoppingRule):
        raise TypeError(
            f"a stopping rule can be combined only with another rule, not with {quoted(rule)}: write "
            f"MaxIterations({quoted(rule)})"
        )
    rule = stopping_rule(rule)
    return rule.rules if isinstance(rule, kind) else (rule,)  # type: ignore[attr-defined]


def _not_negative(rule: object, name: str, value: float) -> None:
    if isinstance(value, bool) or not isinstance(value, Real) or not value >= 0:
        raise ValueError(f"{type(rule).__name__}({name}={quoted(value)}): {name} must be a number ≥ 0")


def _infeasible(current: Measures, tol: float, eps: float) -> bool:
    """Return whether constraints are violated, or inequalities and their multipliers are not complementary."""
    return max(current.feasibility or 0.0, current.complementarity or 0.0) > max(tol, 100 * eps)


@dataclass(frozen=True)
class PredictedDecrease(StoppingRule):
    """Stop when the predicted further decrease of the objective is negligible: the default rule.

    With the Riemannian gradient g and the smallest positive curvature κ of the last ten steps, ``‖g‖²/2κ`` predicts the
    further decrease and ``‖g‖/κ`` the distance to the minimizer. A run has converged when

        ``‖g‖²/2κ ≤ tol·|f|``  or  ``‖g‖/κ ≤ √tol/100·X``

    where X is the scale of the point: its norm, or 1 on manifolds that measure lengths in logarithms (for a product,
    the smallest value over its factors). ``lm`` computes both from its Gauss–Newton step. The rule does not depend on
    the start, and it does not change if the objective is multiplied by a number. The curvatures of the last two steps
    must be positive and agree within a factor of 100. The last step must be short (at most ``X/100``), or must change
    the value little (at most ``|f|/1000``). Near the boundary of an open manifold, the negative Euclidean gradient must
    not point inward. Before a run of ``minimize`` ends by this rule, seven products with the Hessian (or seven
    gradients, if there is no Hessian product) search for negative curvature in a random direction. They also measure
    the curvature ahead, ``‖g‖/‖H⁻¹g‖`` in the plane of g and Hg, which counts as a further κ and must be positive. In
    up to 100 dimensions, and in at most as many dimensions as there were evaluations so far, six products search for
    negative curvature. If the smallest curvature among them is below 2 % of the largest, the search covers the whole
    space. Conjugate gradients then continue until no unobserved curvature can hide a decrease (first any curvature
    above rounding errors, then any curvature 100,000 times smaller than the smallest observed one). They use at most a
    third of the evaluations so far, and at most 100 evaluations. The decrease that they find is included. If they reach
    these limits first, the run continues.

    Parameters
    ----------
    tol : float
        The tolerance of the decrease, relative to the objective. It is at least four units of rounding in double
        precision, and at least 1e-5 in single precision, where smaller differences of values are not significant.
    step : float, optional
        The tolerance of the distance to the minimizer, relative to the point. The default is a hundredth of √tol, 1e-7.
    feasibility : float
        For a problem with constraints, the tolerance of the violations, and of the complementarity of each inequality
        and its multiplier.

    Notes
    -----
    If the Riemannian gradient is at the rounding level of the Euclidean gradient, the problem counts as solved unless
    Lanczos steps find negative curvature. If the value has changed by no more than rounding in ten iterations, or if
    the line search finds no decrease, the run ends: with success (ROUNDING_LEVEL) if one of the two conditions holds
    with a hundred times the tolerance and the curvature ahead is positive, otherwise as STALLED or NO_DECREASE.
    ``‖g‖²/2κ`` is half the squared Newton decrement with the Hessian replaced by the smallest observed curvature. A
    minimum with f = 0 at x = 0 has no scale: use an absolute tolerance, ``GradientNorm(tol)``.

    Examples
    --------
    >>> import numpy as np, manifoldseq as ms
    >>> problem = ms.Problem(ms.manifolds.Positive(1), ms.objective(lambda x: 1e-9 * ((x - 3) ** 2).sum()))
    >>> ms.minimize(problem, [1e-3], stop=ms.PredictedDecrease(1e-12) | ms.MaxIterations(200)).x.round(6).tolist()
    [3.0]
    """

    tol: float = 1e-10
    step: float | None = None
    feasibility: float = 1e-6

    def __post_init__(self) -> None:
        _not_negative(self, "tol", self.tol)
        if self.step is not None:
            _not_negative(self, "step", self.step)
        _not_negative(self, "feasibility", self.feasibility)

    @property
    def looks_ahead(self) -> bool:
        return True

    def may_end(self, many: RunSoFar) -> Any:
        now, before, recent = cast(Any, many.current), cast(Any, many.previous), cast(Any, many.recent[-WINDOW:])
        with np.errstate(all="ignore"):
            rounding = now.grad_norm <= 100 * many.eps * now.egrad_norm
            if before is None:
                return rounding
            ahead = [m.curvature_ahead for m in recent if m.curvature_ahead is not None]
            seen = [m.curvature for m in recent if m.curvature is not None] + ahead
            flattest = functools.reduce(np.minimum, [np.where(c > 0, c, math.inf) for c in seen], math.inf)
            way, change = now.grad_norm / flattest, abs(now.fun - before.fun)
            level, most = self._within(now, many.eps, 1)
            small = (0.5 * now.grad_norm * way <= level) | (way <= most)
            a, b = before.curvature, now.curvature
            steady = (0 < a) & (a <= 100 * b) & (0 < b) & (b <= 100 * a)
            for c in ahead:
                steady = steady & ~(c < 0)
            settled = (now.step_size <= 0.01 * now.scale) | (change <= 1e-3 * abs(now.fun))
            return (small & steady & settled) | rounding | (change <= ROUNDING * many.eps * abs(now.fun))

    def check(self, so_far: RunSoFar) -> Status | None:
        """Return CONVERGED, ROUNDING_LEVEL or STALLED, or None while the objective can decrease."""
        current, eps = so_far.current, so_far.eps
        if current.grad_norm is None or _infeasible(current, self.feasibility, eps) or not inside(current):
            return None
        ahead = current.curvature_ahead
        if current.egrad_norm is not None and current.grad_norm <= 100 * eps * current.egrad_norm:
            return Status.ROUNDING_LEVEL if (ahead is None or ahead >= 0) and current.egrad_norm < math.inf else None
        if self._small(current, current.curvature or 0.0, eps, 1):  # spares a look back in most iterations
            recent = so_far.recent
            if _steady(recent) and _settled(recent) and self._small(current, _flattest(recent), eps, 1):
                return Status.CONVERGED
        stalled = _stalled(so_far)
        if stalled or current.status is Status.NO_DECREASE:
            made = so_far.recent[:-1] if current.status is Status.NO_DECREASE else so_far.recent
            if (
                ahead is not None
                and ahead > 0
                and _settled(made)
                and self._small(current, _flattest(so_far.recent), eps, LOOSE)
            ):
                return Status.ROUNDING_LEVEL
            return Status.STALLED if stalled else None
        return None

    def _small(self, now: Measures, curvature: float, eps: float, times: float) -> bool:
        """Return whether the predicted decrease or the distance to the minimizer is small."""
        if now.grad_norm is None or not curvature > 0:
            return False
        way = now.grad_norm / curvature
        level, most = self._within(now, eps, times)
        return 0.5 * now.grad_norm * way <= level or max(way, now.distance or 0.0) <= most < math.inf

    def _within(self, now: Measures, eps: float, times: float) -> tuple[float, float]:
        decrease, step = tolerances(self, eps, times)
        return decrease * abs(now.fun), step * (0.0 if now.scale is None else now.scale)

    def solved_within(self, so_far: RunSoFar) -> tuple[float, float]:
        return self._within(so_far.current, so_far.eps, 1)


def tolerances(rule: PredictedDecrease, eps: float, times: float) -> tuple[float, float]:
    """Return the relative decrease and the relative distance that count as zero; `times` is 1 or LOOSE."""
    least = SINGLE if eps > 1e-10 else 4 * eps
    step = 0.01 * max(rule.tol, least) ** 0.5 if rule.step is None else rule.step
    return max(times * rule.tol, least), times * step


def look_ahead(rule: StoppingRule, so_far: RunSoFar) -> Look:
    """Return the thresholds of a confirmation; its number of products is a fraction of the evaluations of the run.

    If the value no longer changes, the run ends in any case, and the confirmation may use the maximum number.
    """
    spent = so_far.evaluations.nfev + so_far.evaluations.nhev
    most = MOST_PRODUCTS if _stalled(so_far) else min(MOST_PRODUCTS, max(LEAST_PRODUCTS, int(SHARE * spent)))
    return Look(*rule.solved_within(so_far), products=most)


def _flattest(recent: tuple[Measures, ...]) -> float:
    """Return the smallest positive curvature of the last ten steps, 0 if there is none."""
    seen = [c for m in recent[-WINDOW:] for c in (m.curvature, m.curvature_ahead) if c is not None and c > 0]
    return min(seen, default=0.0)


def _stalled(so_far: RunSoFar) -> bool:
    """Return whether the value has changed only by rounding for ten iterations, for problems without constraints."""
    current, previous = so_far.current, so_far.previous
    none = ROUNDING * so_far.eps * abs(current.fun)
    if previous is None or abs(current.fun - previous.fun) > none or current.feasibility is not None:
        return False
    values = [m.fun for m in so_far.recent[-WINDOW - 1 :]]
    return len(values) > WINDOW and max(values) - min(values) <= none


def _settled(recent: tuple[Measures, ...]) -> bool:
    """Return whether the last step was short or changed the value little, unlike on an unbounded decrease."""
    if len(recent) < 2:
        return True
    now = recent[-1]
    short = now.step_size is not None and now.step_size <= 0.01 * (now.scale or 0.0)
    return short or abs(now.fun - recent[-2].fun) <= 1e-3 * abs(now.fun)


def _steady(recent: tuple[Measures, ...]) -> bool:
    """Return whether the last two curvatures agree within a factor of 100 and no curvature ahead was negative."""
    if len(recent) < 2 or any(m.curvature_ahead is not None and m.curvature_ahead < 0 for m in recent[-WINDOW:]):
        return False
    a, b = recent[-2].curvature, recent[-1].curvature
    undecided = recent[-1].curvature_ahead == 0
    return a is not None and b is not None and 0 < a <= 100 * b and b <= 100 * a and not undecided


def undecided_before(recent: tuple[Measures, ...]) -> bool:
    """Return whether a confirmation did not decide, and the gradient norm has not passed a lower power of two since.

    With this rule, instead of ten iterations without a confirmation, the default takes 1,488 instead of 2,850
    evaluations and products on Brockett's function on St(1000, 10), and 1,338 instead of 1,980 on a mean of 50 linear
    dynamical systems (``make bench-engine ARGS=honesty``). With powers of four, it takes fewer evaluations, but three
    fewer of 36 runs (L-BFGS, Barzilai-Borwein steps, conjugate gradients) end as solved.
    """
    now = recent[-1].grad_norm
    return now is not None and any(
        m.curvature_ahead == 0 and m.grad_norm is not None and math.frexp(m.grad_norm)[1] <= math.frexp(now)[1]
        for m in recent[-WINDOW:-1]
    )


def inside(measures: Measures) -> bool:
    """Return whether the Riemannian gradient is small for another reason than the boundary of an open manifold.

    Near the boundary the metric shortens every gradient. At a minimum over the closure of the manifold, a convex set,
    the negative Euclidean gradient points outward or is zero.
    """
    if measures.pushed_inward is None:
        return True
    size = 0.0 if measures.grad_norm is None else measures.grad_norm
    return (measures.pushed_inward <= 1e-6 * abs(measures.fun)) | (measures.pushed_inward <= 1e3 * size)


@dataclass(frozen=True)
class GradientNorm(StoppingRule):
    """Stop when the Riemannian gradient is small.

    Parameters
    ----------
    tol : float
    relative : bool
        Compare with ``tol`` times the first gradient norm. For a warm start, the gradient norm of the previous run is
        used if it is larger. If the start is far away, this norm says little about the accuracy of the result: see
        :class:`PredictedDecrease`.
    feasibility : float
        For a problem with constraints, the tolerance of the violations, and of the complementarity of each inequality
        and its multiplier.

    Notes
    -----
    The rule is also met at the level of rounding errors: ``100 * eps(dtype of the point) * norm of the Euclidean
    gradient``.
    """

    tol: float
    relative: bool = False
    feasibility: float = 1e-6

    def __post_init__(self) -> None:
        _not_negative(self, "tol", self.tol)
        _not_negative(self, "feasibility", self.feasibility)

    def may_end(self, many: RunSoFar) -> Any:
        now: Any = many.current
        tol = self.tol * many.reference if self.relative else self.tol
        return (now.grad_norm <= tol) | (now.grad_norm <= 100 * many.eps * now.egrad_norm)

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
        if isinstance(self.n, bool) or not (isinstance(self.n, Integral) or self.n == math.inf) or self.n < 0:
            raise ValueError(f"MaxIterations(n={quoted(self.n)}): n must be a whole number ≥ 0, or inf")

    def may_end(self, many: RunSoFar) -> Any:
        return many.nit >= self.n

    def check(self, so_far: RunSoFar) -> Status | None:
        """Return MAX_ITERATIONS at the limit."""
        return Status.MAX_ITERATIONS if so_far.nit >= self.n else None


@dataclass(frozen=True)
class MaxEvaluations(StoppingRule):
    """Stop after `n` evaluations of the objective (a fused call counts once), at the end of an iteration."""

    n: float

    def __post_init__(self) -> None:
        _not_negative(self, "n", self.n)

    def may_end(self, many: RunSoFar) -> Any:
        return many.evaluations.nfev >= self.n

    def check(self, so_far: RunSoFar) -> Status | None:
        """Return MAX_EVALUATIONS at the limit."""
        return Status.MAX_EVALUATIONS if so_far.evaluations.nfev >= self.n else None


@dataclass(frozen=True)
class MaxTime(StoppingRule):
    """Stop after `seconds`, at the end of an iteration."""

    seconds: float

    def __post_init__(self) -> None:
        _not_negative(self, "seconds", self.seconds)

    def may_end(self, many: RunSoFar) -> Any:
        return many.time >= self.seconds

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
        """Return COST_CHANGE when the change of the objective is small enough."""
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
