"""Line searches, which compute the step length along a direction."""

from __future__ import annotations

import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from .._problem import Problem
from ..linalg import EPS, ONE, Decision, One, Rows, Scalar, freeze
from ._base import whole_numbers
from ._iterates import Iterate, Retraction, State, inner_product, retracted, try_point

SUFFICIENT = 1e-4
"""The share of the predicted decrease that a step must reach (c₁)."""

_ANY = math.inf
LINE_SEARCHES = ("armijo", "wolfe")


class Found(NamedTuple):
    """The return value of :meth:`Search.find`.

    Attributes
    ----------
    new : Iterate
        The new iterate, or the old iterate if no step is low enough.
    t : float
        Its step.
    low : bool
        Whether the value is low enough.

    Examples
    --------
    >>> import numpy as np, manifoldseq as ms
    >>> M = ms.manifolds.Product(ms.manifolds.Sphere(2), ms.manifolds.Euclidean(1))
    >>> problem = ms.Problem(M, lambda x: x[0][0] + (x[1] ** 2).sum())
    >>> at = ms.solvers.evaluate(problem, (np.array([0.0, 1.0]), np.array([3.0])))
    >>> ms.solvers.Armijo().find(ms.solvers.Line(problem, at, -at.grad), 0.5, False, {}).low
    True
    """

    new: Iterate
    t: Scalar
    low: Decision


class Line:
    """The curve ``t ↦ retract(x, t·direction)`` and the objective along it, for :func:`armijo` and :func:`wolfe`.

    Parameters
    ----------
    problem : Problem
    at : Iterate
        The start of the curve.
    direction : ndarray of shape (n,)
        Flat tangent vector.
    slope : float, optional
        Inner product of the gradient with the direction, negative for a descent direction; computed by default.
    retraction : str or callable, optional
        A retraction of the manifold (by default its default retraction), or a function ``(x, u) -> point`` of a point
        and a tangent vector.

    Attributes
    ----------
    longest : float
        The largest t that may be tried. It is finite only on manifolds that measure lengths in logarithms.

    Examples
    --------
    >>> import numpy as np, manifoldseq as ms
    >>> M = ms.manifolds.Product(ms.manifolds.Sphere(2), ms.manifolds.Euclidean(1))
    >>> problem = ms.Problem(M, lambda x: x[0][0] + (x[1] ** 2).sum())
    >>> at = ms.solvers.evaluate(problem, (np.array([0.0, 1.0]), np.array([3.0])))
    >>> line = ms.solvers.Line(problem, at, -at.grad)
    >>> line.slope, line.go(0.5).x[1].tolist()
    (-37.0, [0.0])
    """

    axis: One | Rows
    problem: Problem
    at: Iterate
    direction: np.ndarray
    retraction: Retraction
    slope: Scalar
    longest: Scalar
    __slots__ = ("_tree", "at", "axis", "direction", "longest", "problem", "retraction", "slope")

    def __init__(
        self,
        problem: Problem,
        at: Iterate,
        direction: np.ndarray,
        slope: float | None = None,
        retraction: Retraction = None,
    ) -> None:
        self.problem, self.at, self.direction, self.retraction = problem, at, direction, retraction
        self.slope = inner_product(problem, at.x)(at.grad, direction) if slope is None else slope
        self.axis = problem.axis
        self._tree = self.axis.tree(problem.manifold.shape)
        self.longest = _ANY
        # how far the retraction may go, on manifolds with an open boundary
        if problem.manifold.open:
            self.longest = self.axis.number(problem.manifold.longest(at.x, self._tree(direction)))

    def take(self, rows: Decision) -> Line:
        """Return the curves of some rows."""
        axis = self.axis
        return Line(*axis.take(rows, self.problem, self.at, self.direction, self.slope), retraction=self.retraction)

    def go(self, t: Scalar) -> Iterate:
        """Return the evaluation at `t`; a step that is too long has an infinite value and is not evaluated."""
        problem, at, axis = self.problem, self.at, self.axis
        if self.longest is not _ANY and not axis.all(t <= self.longest):
            short, refused = t <= self.longest, at._replace(fun=axis.filled(at.x, math.inf))
            if not axis.any(short):
                return refused
            return axis.put(refused, short, self.take(short).go(axis.take(short, t)))
        return try_point(
            problem, at, freeze(retracted(problem, at.x, self._tree(axis.times(t, self.direction)), self.retraction))
        )

    def slope_at(self, new: Iterate) -> Scalar:
        """Return the inner product of the gradient at `new` with the transported direction.

        This is the slope of the objective if the retraction moves the direction in the same way as the transport. This
        holds approximately for polar and exponential retractions, and for others only after short steps. On a bounded
        manifold, clipped coordinates are excluded.
        """
        manifold, direction = self.problem.manifold, self.direction
        if manifold.bounded:
            free = manifold.free(new.x, self._tree(-direction))
            if free is not None:
                direction = direction * self.axis.flatten(free)
        if manifold.metric == "embedded":  # the gradient is tangent, so the direction need not be projected
            return self.axis.dot_of(direction.dtype)(new.grad, direction)
        with np.errstate(all="ignore"):
            moved = manifold.transport(self.at.x, new.x, self._tree(direction))
        return inner_product(self.problem, new.x)(new.grad, self.axis.flatten(moved))

    def enough(self, new: Iterate, t: float, reference: float, shortening: float) -> bool:
        """Return whether the objective decreases enough from `reference` (Armijo).

        If the step was clipped at bounds, the predicted change of the clipped step is used.
        """
        enough = sufficient(self.axis, self.at, new.fun, t * self.slope, shortening, reference)
        if enough is True or not self.problem.manifold.bounded or self.axis.all(enough):
            return enough
        # clipping shortens the step: the change predicted is that along the way really gone (Bertsekas 1982)
        moved = -self.axis.flatten(self.problem.manifold.displacement(new.x, self.at.x))
        predicted = self.axis.least(0.0, inner_product(self.problem, self.at.x)(self.at.grad, moved))
        return enough | sufficient(self.axis, self.at, new.fun, predicted, shortening, reference)


@dataclass(frozen=True)
class Search(ABC):
    """The length of a solver's steps along the directions of its :class:`Descent`. A subclass is a frozen dataclass.

    The memory of a search is part of the state of the solver. The same code is used for one problem and for many, see
    :class:`Descent`.

    Parameters
    ----------
    max_trials : int
        Maximum number of evaluations of the objective per search.

    Examples
    --------
    A search for one problem that halves the step until the objective is lower:

    >>> import dataclasses, numpy as np, manifoldseq as ms
    >>> @dataclasses.dataclass(frozen=True)
    ... class Halving(ms.solvers.Search):
    ...     def find(self, line, first, expand, kept):
    ...         for k in range(self.max_trials):
    ...             new = line.go(first * 0.5**k)
    ...             if new.fun < line.at.fun:
    ...                 return ms.solvers.Found(new, first * 0.5**k, True)
    ...         return ms.solvers.Found(line.at, first, False)
    >>> @dataclasses.dataclass(frozen=True)
    ... class Simple(ms.solvers.LineSearch):
    ...     descent, search = ms.solvers.Steepest(), Halving()
    >>> problem = ms.Problem(ms.manifolds.Euclidean(2), ms.objective(lambda x: ((x - 1) ** 2).sum()))
    >>> ms.minimize(problem, np.zeros(2), solver=Simple()).x.round(6).tolist()
    [1.0, 1.0]
    """

    max_trials: int = 30

    def __post_init__(self) -> None:
        whole_numbers(type(self).__name__, max_trials=self.max_trials)

    def begin(self, problem: Problem, at: Iterate) -> State:
        """Return the memory at a new start."""
        return {}

    @abstractmethod
    def find(self, line: Line, first: Scalar, expand: Decision, kept: State) -> Found:
        """Return the result of the search along a line; `first` is the first trial step.

        `expand` marks first steps without prior information, so that longer steps may be better.
        """

    def learn(self, kept: State, new: Iterate) -> State:
        """Return the memory after a step to `new`."""
        return {}


@dataclass(frozen=True)
class Given(Search):
    """Take the step that the descent proposes, without a condition on the new value: for given step sizes."""

    def find(self, line: Line, first: Scalar, expand: Decision, kept: State) -> Found:
        return Found(line.go(first), first, line.axis.filled(line.at.x, True))


@dataclass(frozen=True)
class Armijo(Search):
    """Sufficient decrease by :func:`armijo`, which enlarges first steps without history."""

    def find(self, line: Line, first: Scalar, expand: Decision, kept: State) -> Found:
        return _armijo(line, first, self.max_trials, expand, line.at.fun)


@dataclass(frozen=True)
class Nonmonotone(Search):
    """Sufficient decrease from a weighted mean of all values so far (Zhang and Hager 2004).

    Parameters
    ----------
    max_trials : int
    weight : float
        Weight of earlier values in the mean, from 0 (monotone) to below 1.
    """

    weight: float = 0.85

    def begin(self, problem: Problem, at: Iterate) -> State:
        return {"level": at.fun, "weight": problem.axis.filled(at.x, 1.0)}

    def find(self, line: Line, first: Scalar, expand: Decision, kept: State) -> Found:
        return _armijo(line, first, self.max_trials, expand, kept["level"])

    def learn(self, kept: State, new: Iterate) -> State:
        weight = self.weight * kept["weight"] + 1.0
        return {"level": kept["level"] + (new.fun - kept["level"]) / weight, "weight": weight}


@dataclass(frozen=True)
class StrongWolfe(Search):
    """The strong Wolfe conditions: :func:`wolfe`.

    Parameters
    ----------
    max_trials : int
    curvature : float
        Share of the slope that may be left: 0.9 for quasi-Newton directions, 0.1 for conjugate gradients.
    """

    curvature: float = 0.9

    def find(self, line: Line, first: Scalar, expand: Decision, kept: State) -> Found:
        return _wolfe(line, first, self.max_trials, self.curvature)


@functools.lru_cache(maxsize=64)
def line_search(rule: str, max_trials: int, curvature: float) -> Search:
    """Return one of ``LINE_SEARCHES``, which follows the projected arc on bounded manifolds."""
    return StrongWolfe(max_trials, curvature) if rule == "wolfe" else Armijo(max_trials)


def armijo(
    line: Line, first: float = 1.0, max_trials: int = 30, expand: bool = False, reference: float | None = None
) -> tuple[Iterate, float] | None:
    """Search for a step that decreases the objective enough, by backtracking.

    The condition is ``f ≤ reference + 1e-4·t·slope``. Rejected steps are shortened by safeguarded quadratic
    interpolation. Steps with a value that is not finite, or where linear algebra fails, are divided by ten. On bounded
    manifolds the search follows the projected arc (Bertsekas 1982).

    Parameters
    ----------
    line : Line
        With a negative slope.
    first : float
        The step t that is tried first.
    max_trials : int
        The maximum number of evaluations of the objective.
    expand : bool
        Whether an accepted first step is enlarged as long as the slope at its end predicts that most of the decrease
        lies beyond it.
    reference : float, optional
        The value to compare with: the value at the start, unless a nonmonotone search passes a larger one.

    Returns
    -------
    (Iterate, float) or None
        The new iterate and its step, or None if no trial decreases the objective enough.

    Examples
    --------
    >>> import numpy as np, manifoldseq as ms
    >>> M = ms.manifolds.Product(ms.manifolds.Sphere(2), ms.manifolds.Euclidean(1))
    >>> problem = ms.Problem(M, lambda x: x[0][0] + (x[1] ** 2).sum())
    >>> at = ms.solvers.evaluate(problem, (np.array([0.0, 1.0]), np.array([3.0])))
    >>> new, step = ms.solvers.armijo(ms.solvers.Line(problem, at, -at.grad), first=4.0)
    >>> new.fun < at.fun, 0 < step < 4
    (True, True)
    """
    found = _armijo(line, first, max_trials, expand, line.at.fun if reference is None else reference)
    return (found.new, found.t) if found.low else None


def _armijo(line: Line, first: Scalar, max_trials: int, expand: Decision, level: Scalar) -> Found:
    axis, at, slope = line.axis, line.at, line.slope
    first = t = first if line.longest is _ANY else axis.least(first, line.longest)
    new = line.go(t)
    low = _finite(axis, new) & line.enough(new, t, level, t / first)
    if (low is True or axis.all(low)) and (expand is False or not axis.any(expand)):  # nearly always
        return Found(new, t, low)
    found = Found(at, t, axis.filled(at.x, False))
    rest, best = None, found  # the rows that still search, and the best that these have found
    for trial in range(max_trials):
        if trial:
            new = line.go(t)
            low = _finite(axis, new) & line.enough(new, t, level, t / first)
        if low is False and best.low is False:  # of one problem: shorten, and try again
            t = _shortened(axis, t, new.fun - at.fun, slope) if _finite(axis, new) else 0.1 * t
            continue
        better = low & (axis.no(best.low) | (new.fun < best.new.fun))
        rejected = axis.no(low | best.low)
        if axis.any(better):
            best = axis.where(better, Found(new, t, low), best)
        going = rejected
        if axis.any(expand & better):
            longer = expand & better & (line.slope_at(new) <= 0.5 * slope)
            going = rejected | longer
            t = axis.where(longer, 4.0 * t, t)
        if axis.any(rejected):
            shorter = axis.where(_finite(axis, new), _shortened(axis, t, new.fun - at.fun, slope), 0.1 * t)
            t = axis.where(rejected, shorter, t)
        if not axis.any(going):
            return best if rest is None else axis.put(found, rest, best)
        if not axis.all(going):  # those that have found one leave
            found = best if rest is None else axis.put(found, rest, best)
            rest = np.flatnonzero(going) if rest is None else rest[going]
            line, best, first, t, expand, level = axis.take(going, line, best, first, t, expand, level)
            at, slope = line.at, line.slope
    return best if rest is None else axis.put(found, rest, best)


def backtrack(
    value: Callable[[float], float], fun: float, slope: float = 0.0, first: float = 1.0, max_trials: int = 30
) -> float | None:
    """Search for a step that decreases a function along any curve enough, by backtracking.

    The search is the same as in :func:`armijo` on a :class:`Line`. Use this function if a closed form moves some
    factors together with others, so that no tangent vector describes the curve.

    Parameters
    ----------
    value : callable
        ``value(t) -> float`` along the curve; infinity or NaN if the step is too long.
    fun : float
        The value at the start.
    slope : float
        The derivative with respect to t at the start, a negative number. By default any decrease is accepted and
        steps are halved, as is suitable for the curves of majorization methods, whose long steps decrease as well.
    first : float
        The step that is tried first.
    max_trials : int
        The largest number of calls of `value`.

    Returns
    -------
    float or None
        The step of the last call of `value`, or None if no trial decreases the function enough.

    Examples
    --------
    This search follows a curve on a product whose second factor is minimized at every step:

    >>> import numpy as np, manifoldseq as ms
    >>> sphere = ms.manifolds.Sphere(3)
    >>> x, u = np.array([1.0, 0.0, 0.0]), np.array([0.0, 1.0, 0.0])
    >>> def value(t):
    ...     y = sphere.retract(x, t * u)
    ...     best = y[1] / 2                                                   # the second factor, in closed form
    ...     return float((best - y[1]) ** 2 + best**2 - y[1])
    >>> step = ms.solvers.backtrack(value, fun=0.0, slope=-1.0, first=8.0)
    >>> step <= 8.0 and value(step) < 0
    True
    """
    t = first
    for _ in range(max_trials):
        new = value(t)
        # a rise at rounding level is none, but for a step that is rounding itself
        rounding = 50 * float(np.finfo(float).eps) * abs(fun) if t > 1e-6 * first else 0.0
        if math.isfinite(new) and new <= fun + SUFFICIENT * t * slope + rounding:
            return t
        t = _shortened(ONE, t, new - fun, slope) if math.isfinite(new) else 0.1 * t
    return None


def _shortened(axis: One | Rows, t: Scalar, rise: Scalar, slope: Scalar) -> Scalar:
    """Return the minimizer of the parabola with this slope at zero and this rise at `t`, from 0.1 t to 0.5 t."""
    least = axis.ratio(-0.5 * slope * t * t, axis.where(slope < 0, rise - t * slope, 0.0), 0.5 * t)
    return axis.least(0.5 * t, axis.most(0.1 * t, least))


class _End(NamedTuple):
    """One end of an interval of steps."""

    t: Scalar
    fun: Scalar
    slope: Scalar
    iterate: Iterate


def wolfe(line: Line, first: float = 1.0, max_trials: int = 30, curvature: float = 0.9) -> tuple[Iterate, float] | None:
    """Search for a step that meets the strong Wolfe conditions.

    They are ``f ≤ f₀ + 1e-4·t·slope`` and ``|slope at t| ≤ curvature·|slope|``. The step grows until an interval
    contains such a step. Safeguarded cubic interpolation then shrinks the interval.

    Parameters
    ----------
    line : Line
        With a negative slope.
    first : float
        The step t that is tried first.
    max_trials : int
        The maximum number of evaluations of the objective.
    curvature : float
        Share of the slope that may be left: 0.9 for quasi-Newton directions, 0.1 for conjugate gradients.

    Returns
    -------
    (Iterate, float) or None
        The new iterate and its step. In two cases, it meets only the first condition and is the best such trial: if all
        `max_trials` are used, or if an interval as short as a hundredth of the step contains no step that meets both
        conditions. (The second case occurs if the transport does not match the retraction, so that slopes are not the
        slopes of the curve.) None if no trial decreases the objective enough.

    References
    ----------
    Nocedal, Wright, "Numerical Optimization", 2006, algorithm 3.5.

    Examples
    --------
    >>> import numpy as np, manifoldseq as ms
    >>> M = ms.manifolds.Product(ms.manifolds.Sphere(2), ms.manifolds.Euclidean(1))
    >>> problem = ms.Problem(M, lambda x: x[0][0] + (x[1] ** 2).sum())
    >>> at = ms.solvers.evaluate(problem, (np.array([0.0, 1.0]), np.array([3.0])))
    >>> line = ms.solvers.Line(problem, at, -at.grad)
    >>> new, step = ms.solvers.wolfe(line, curvature=0.1)
    >>> new.fun < at.fun, abs(line.slope_at(new)) <= 0.1 * abs(line.slope)
    (True, True)
    """
    found = _wolfe(line, first, max_trials, curvature)
    return (found.new, found.t) if found.low else None


def _wolfe(line: Line, first: Scalar, max_trials: int, curvature: float) -> Found:
    axis, at = line.axis, line.at
    first = t = first if line.longest is _ANY else axis.least(first, line.longest)
    found, rest = Found(at, t, axis.filled(at.x, False)), None  # of all rows; the rows that still search
    low = high = _End(axis.filled(at.x, 0.0), at.fun, line.slope, at)
    bracketed, flat = found.low, -curvature * line.slope  # whether there is a high end; the slope that may be left
    for _ in range(max_trials):
        new = line.go(t)
        finite = _finite(axis, new)
        end = _End(t, new.fun, line.slope_at(new), new) if axis.any(finite) else _End(t, new.fun, t, new)
        # bracketing and zoom in one loop: with a high end the interval contains a step that meets both conditions
        good = finite & line.enough(new, t, at.fun, t / first) & (end.fun <= low.fun + _rounding(at))
        met = good & (abs(end.slope) <= flat)
        if axis.all(met) and rest is None:
            return Found(new, t, met)
        turned = good & (end.slope * (axis.where(bracketed, high.t, t) - low.t) >= 0)
        end = end if axis.all(finite) else end._replace(fun=axis.where(finite, end.fun, math.inf))
        high = axis.where(good, axis.where(turned, low, high), end)
        low = axis.where(good, end, low)
        bracketed = bracketed | turned | axis.no(good)
        ended = met | (bracketed & (low.t > 0) & (abs(high.t - low.t) < 0.01 * low.t))
        if axis.all(ended):
            break
        t = axis.where(bracketed, _between(axis, low, high), 4.0 * t) if axis.any(bracketed) else 4.0 * t
        if axis.any(ended):  # those that have found one leave
            found, going = _lowest(axis, found, rest, low), axis.no(ended)
            rest = np.flatnonzero(going) if rest is None else rest[going]
            line, low, high, first, t, bracketed, flat = axis.take(going, line, low, high, first, t, bracketed, flat)
            at = line.at
    return _lowest(axis, found, rest, low)


def _lowest(axis: One | Rows, found: Found, rest: Any, low: _End) -> Found:
    now = Found(low.iterate, low.t, low.t > 0)
    return now if rest is None else axis.put(found, rest, now)


def _between(axis: One | Rows, low: _End, high: _End) -> Scalar:
    """Return the minimizer of the cubic through both ends, kept away from them."""
    width, finite = high.t - low.t, axis.finite(high.fun)
    share = axis.where(finite, 0.5, 0.1)
    if axis.any(finite):
        # Nocedal and Wright (3.59): the minimizer of the cubic with these two values and slopes
        theta = axis.quotient(3 * (low.fun - high.fun), width) + low.slope + high.slope
        radicand = theta * theta - low.slope * high.slope
        root = axis.sign(width) * axis.most(radicand, 0.0) ** 0.5
        divisor = high.slope - low.slope + 2 * root
        cubic = 1 - axis.quotient(high.slope + root - theta, divisor)
        share = axis.where(finite & (radicand >= 0) & (divisor != 0), cubic, share)
    return low.t + axis.least(0.9, axis.most(0.1, share)) * width


def sufficient(
    axis: One | Rows, at: Iterate, fun: Scalar, predicted: Scalar, shortening: Scalar, reference: Scalar
) -> Decision:
    """Return whether `fun` decreases the objective enough for a step with this predicted change (Armijo).

    An increase at the rounding level counts as zero, so that the last digits do not stall, except for a step that was
    shortened a million times and is itself at the rounding level.
    """
    short = shortening <= 1e-6
    if short is not False and axis.any(short):
        return (fun <= reference + SUFFICIENT * predicted + axis.where(short, 0.0, _rounding(at))) & (
            axis.no(short) | (fun < at.fun)
        )
    return fun <= reference + SUFFICIENT * predicted + _rounding(at)


def _rounding(at: Iterate) -> Scalar:
    return 50 * EPS[at.grad.dtype] * abs(at.fun)


def _finite(axis: One | Rows, new: Iterate) -> Decision:
    return axis.finite(new.fun) & axis.finite(new.grad_norm)
