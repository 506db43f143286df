"""Line searches: how far to go along a direction."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from .._problem import Problem
from ..linalg._tree import EPS, dot, flatten, freeze, unflattener_of
from ._iterates import Iterate, Retraction, inner_product, retracted, try_point

SUFFICIENT = 1e-4
"""The share of the predicted decrease that a step must reach (c₁)."""

LINE_SEARCHES = ("armijo", "wolfe")

Found = tuple[Iterate, float]


class Line:
    """The curve ``t ↦ retract(x, t·direction)`` and the objective along it, for :func:`armijo` and :func:`wolfe`.

    Parameters
    ----------
    problem : Problem
    at : Iterate
        Where the curve starts.
    direction : ndarray of shape (n,)
        Flat tangent vector.
    slope : float, optional
        Inner product of the gradient with the direction, negative where it descends; computed if it is not given.
    retraction : str or callable, optional
        A kind that the manifold knows (its default otherwise), or a function ``(x, u) -> point`` of a point and a
        tangent vector.

    Attributes
    ----------
    longest : float
        The largest t that may be tried; infinity but on manifolds that measure lengths in logarithms.

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

    problem: Problem
    at: Iterate
    direction: np.ndarray
    retraction: Retraction
    slope: float
    longest: float
    __slots__ = ("_tree", "at", "direction", "longest", "problem", "retraction", "slope")

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
        self._tree = unflattener_of(problem.manifold.shape)
        self.longest = math.inf
        # how far the retraction may go, on manifolds with an open boundary
        if problem.manifold.open:
            self.longest = float(problem.manifold.longest(at.x, self._tree(direction)))

    def go(self, t: float) -> Iterate:
        """Return the evaluation at `t`; of a step that is too long for the manifold, infinity, without one."""
        if t > self.longest:
            return self.at._replace(fun=math.inf)
        x = freeze(retracted(self.problem, self.at.x, self._tree(t * self.direction), self.retraction))
        return try_point(self.problem, self.at, x)

    def slope_at(self, new: Iterate) -> float:
        """Return the inner product of the gradient at `new` with the transported direction.

        That is the slope of the objective along retractions that turn the direction as the transport does: nearly so
        for polar and exponential ones, for others after short steps only. Where the manifold is bounded, the
        coordinates that the step has clipped do not count.
        """
        manifold, direction = self.problem.manifold, self.direction
        if manifold.bounded:
            free = manifold.free(new.x, self._tree(-direction))
            if free is not None:
                direction = direction * flatten(free)
        if manifold.metric == "embedded":  # the gradient is tangent, so the direction need not be projected
            return dot(new.grad, direction)
        with np.errstate(all="ignore"):
            moved = manifold.transport(self.at.x, new.x, self._tree(direction))
        return inner_product(self.problem, new.x)(new.grad, flatten(moved))

    def enough(self, new: Iterate, t: float, reference: float, shortening: float) -> bool:
        """Return whether the objective decreases enough from `reference` (Armijo).

        Where the manifold is bounded and the step was clipped, the predicted change is that of the clipped step.
        """
        if sufficient(self.at, new.fun, t * self.slope, shortening, reference):
            return True
        if not self.problem.manifold.bounded:
            return False
        # clipping shortens the step: the change predicted is that along the way really gone (Bertsekas 1982)
        moved = -flatten(self.problem.manifold.displacement(new.x, self.at.x))
        predicted = inner_product(self.problem, self.at.x)(self.at.grad, moved)
        return sufficient(self.at, new.fun, min(0.0, predicted), shortening, reference)


def search(
    rule: str, line: Line, first: float, max_trials: int, curvature: float, expand: bool = False
) -> Found | None:
    """Search by one of ``LINE_SEARCHES``; on bounded manifolds along the projected arc."""
    if rule == "wolfe":
        return wolfe(line, first, max_trials, curvature)
    return armijo(line, first, max_trials, expand)


def armijo(
    line: Line, first: float = 1.0, max_trials: int = 30, expand: bool = False, reference: float | None = None
) -> Found | None:
    """Search for a step that decreases the objective enough, by backtracking.

    The condition is ``f ≤ reference + 1e-4·t·slope``. Rejected steps shrink by safeguarded quadratic interpolation; one
    with a value that is not finite, or where linear algebra fails, by ten. On bounded manifolds the search follows the
    projected arc (Bertsekas 1982).

    Parameters
    ----------
    line : Line
        With a negative slope.
    first : float
        The step t that is tried first.
    max_trials : int
        Evaluations of the objective at most.
    expand : bool
        Whether an accepted first step is enlarged while the slope there says that most of the decrease is still ahead.
    reference : float, optional
        The value to compare with: that at the start, unless a nonmonotone search gives a larger one.

    Returns
    -------
    (Iterate, float) or None
        The new iterate and its step, or None where no trial is low enough.

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
    first = min(first, line.longest)
    at, slope, t = line.at, line.slope, first
    level = at.fun if reference is None else reference
    best: Found | None = None
    for _ in range(max_trials):
        new = line.go(t)
        if not _finite(new):
            if best is not None:
                return best
            t *= 0.1
        elif line.enough(new, t, level, t / first):
            if best is not None and new.fun >= best[0].fun:
                return best
            if not expand or line.slope_at(new) > 0.5 * slope:
                return new, t
            best = new, t
            t *= 4.0
        elif best is not None:
            return best
        else:
            t = _shortened(t, new.fun - at.fun, slope)
    return best


def backtrack(
    value: Callable[[float], float], fun: float, slope: float = 0.0, first: float = 1.0, max_trials: int = 30
) -> float | None:
    """Search for a step that decreases a function along any curve enough, by backtracking.

    As :func:`armijo` does on a :class:`Line`, where a closed form moves some factors along with others, so that no
    tangent vector describes the curve.

    Parameters
    ----------
    value : callable
        ``value(t) -> float`` along the curve; infinity or NaN where the step is too long.
    fun : float
        The value at the start.
    slope : float
        Its derivative by t there, negative; by default any decrease is enough, and steps are halved: for curves on
        which long steps are as good as short ones, those of majorization.
    first : float
        The step that is tried first.
    max_trials : int
        Calls of `value` at most.

    Returns
    -------
    float or None
        The step of the last call of `value`, or None where no trial is low enough.

    Examples
    --------
    On a product, along the curve that minimizes over the second factor:

    >>> import numpy as np, manifoldseq as ms
    >>> sphere = ms.manifolds.Sphere(3)
    >>> x, u = np.array([1.0, 0.0, 0.0]), np.array([0.0, 1.0, 0.0])
    >>> def value(t):
    ...     y = sphere.retract(x, t * u)
    ...     best = y[1] / 2                                                   # of the second factor, in closed form
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
        t = _shortened(t, new - fun, slope) if math.isfinite(new) else 0.1 * t
    return None


def _shortened(t: float, rise: float, slope: float) -> float:
    """Return the minimizer of the parabola with this slope at zero and this rise at `t`, from 0.1 t to 0.5 t."""
    curvature = rise - t * slope if slope < 0 else 0.0
    return min(0.5 * t, max(0.1 * t, -0.5 * slope * t * t / curvature)) if curvature > 0 else 0.5 * t


class _End(NamedTuple):
    """One end of an interval of steps."""

    t: float
    fun: float
    slope: float
    iterate: Iterate | None


def wolfe(line: Line, first: float = 1.0, max_trials: int = 30, curvature: float = 0.9) -> Found | None:
    """Search for a step that meets the strong Wolfe conditions.

    They are ``f ≤ f₀ + 1e-4·t·slope`` and ``|slope at t| ≤ curvature·|slope|``. The step grows until an interval
    contains such a step, which safeguarded cubic interpolation then shrinks.

    Parameters
    ----------
    line : Line
        With a negative slope.
    first : float
        The step t that is tried first.
    max_trials : int
        Evaluations of the objective at most.
    curvature : float
        Share of the slope that may be left: 0.9 for quasi-Newton directions, 0.1 for conjugate gradients.

    Returns
    -------
    (Iterate, float) or None
        The new iterate and its step: the best one that decreases the objective enough if `max_trials` are used up, or
        if an interval of a hundredth of the step contains none that meets both conditions (there the transport is not
        that of the retraction, and its slopes are not those of the curve). None where no trial is low enough.

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
    first = min(first, line.longest)
    at, t = line.at, first
    low, high = _End(0.0, at.fun, line.slope, None), None
    rounding = _rounding(at)
    for _ in range(max_trials):
        new = line.go(t)
        if not _finite(new):
            high = _End(t, math.inf, math.nan, None)
        else:
            end = _End(t, new.fun, line.slope_at(new), new)
            # bracketing and zoom in one loop: with a high end the interval contains a step that meets both conditions
            if not line.enough(new, t, at.fun, t / first) or end.fun > low.fun + rounding:
                high = end
            elif abs(end.slope) <= -curvature * line.slope:
                return new, t
            else:
                if end.slope * ((t if high is None else high.t) - low.t) >= 0:
                    high = low
                low = end
        if high is not None and low.t > 0 and abs(high.t - low.t) < 0.01 * low.t:
            break
        t = 4.0 * t if high is None else _between(low, high)
    return None if low.iterate is None else (low.iterate, low.t)


def _between(low: _End, high: _End) -> float:
    """Return the minimizer of the cubic through both ends, kept away from them."""
    width = high.t - low.t
    share = 0.1
    if math.isfinite(high.fun):
        # Nocedal and Wright (3.59): the minimizer of the cubic with these two values and slopes
        theta = 3 * (low.fun - high.fun) / width + low.slope + high.slope
        radicand = theta * theta - low.slope * high.slope
        share = 0.5
        if radicand >= 0:
            root = math.copysign(radicand**0.5, width)
            divisor = high.slope - low.slope + 2 * root
            if divisor != 0:
                share = 1 - (high.slope + root - theta) / divisor
    return low.t + min(0.9, max(0.1, share)) * width


def sufficient(at: Iterate, fun: float, predicted: float, shortening: float, reference: float | None = None) -> bool:
    """Return whether `fun` decreases the objective enough for a step with this predicted change (Armijo).

    A rise at rounding level counts as none, else the last digits stall; but not for a step shortened a million times,
    which rounds to no step at all.
    """
    level = at.fun if reference is None else reference
    if shortening > 1e-6:
        return fun <= level + SUFFICIENT * predicted + _rounding(at)
    return fun < at.fun and fun <= level + SUFFICIENT * predicted


def _rounding(at: Iterate) -> float:
    return 50 * EPS[at.grad.dtype] * abs(at.fun)


def _finite(new: Iterate) -> bool:
    return math.isfinite(new.fun) and math.isfinite(new.grad_norm)
