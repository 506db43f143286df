"""Line searches: how far to go along a direction."""

from __future__ import annotations

import math

import numpy as np

from .._problem import Problem
from .._result import Point
from ..linalg._tree import flatten, tree_map
from ._base import Iterate, evaluate

SUFFICIENT = 1e-4


def armijo(
    problem: Problem,
    at: Iterate,
    direction: Point,
    slope: float,
    first: float,
    retraction: str | None,
    max_trials: int,
    expand: bool,
) -> tuple[Iterate, float] | None:
    """Return the first accepted iterate along a direction and its step, or None.

    Sufficient decrease is ``f ≤ f₀ + 1e-4·t·slope``; on a bounded manifold, along the projected arc, the predicted
    change is that of the clipped step. Rejected steps shrink by safeguarded quadratic interpolation, a non-finite value
    by ten. With `expand` an accepted first step is doubled while the slope there says that most of the decrease is
    still ahead.
    """
    manifold = problem.manifold
    t = first
    best: tuple[Iterate, float] | None = None
    start = flatten(at.x) if manifold.bounded else None
    egrad = flatten(at.egrad) if manifold.bounded else None
    for _ in range(max_trials):
        x = manifold.retract(at.x, _scaled(direction, t), retraction)
        new = evaluate(problem, x)
        if not (math.isfinite(new.fun) and math.isfinite(new.grad_norm)):
            if best is not None:
                return best
            t *= 0.1
            continue
        predicted = t * slope if start is None else min(0.0, float(np.dot(egrad, flatten(x) - start)))  # type: ignore[arg-type]
        if sufficient(at, new.fun, predicted, t / first):
            if best is not None and new.fun >= best[0].fun:
                return best
            if not expand or manifold.metric != "embedded" or np.dot(new.grad, flatten(direction)) > 0.5 * slope:
                return new, t
            best = new, t
            t *= 4.0
        elif best is not None:
            return best
        else:
            curvature = new.fun - at.fun - t * slope
            t = min(0.5 * t, max(0.1 * t, -0.5 * slope * t * t / curvature)) if curvature > 0 else 0.5 * t
    return best


def sufficient(at: Iterate, fun: float, predicted: float, shortening: float) -> bool:
    """Return whether `fun` decreases the objective enough for a step with this predicted change (Armijo).

    A rise at rounding level counts as none, else the last digits stall; but not for a step shortened a million times,
    which rounds to no step at all.
    """
    if shortening > 1e-6:
        return fun <= at.fun + SUFFICIENT * predicted + 50 * float(np.finfo(at.grad.dtype).eps) * abs(at.fun)
    return fun < at.fun and fun <= at.fun + SUFFICIENT * predicted


def _scaled(tree: Point, t: float) -> Point:
    return tree_map(lambda leaf: leaf.dtype.type(t) * leaf, tree)
