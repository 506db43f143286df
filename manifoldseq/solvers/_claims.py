"""A test before a success: does the objective change along a tangent vector as its gradient claims?"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .._problem import Problem
from ..linalg._tree import flatten, freeze, unflattener
from ._iterates import Iterate, inner_product, retracted

NOISE = 200
"""Differences of values by so many units of rounding are none."""

SOLVED = 10
"""Decreases and steps of so many times the tolerances of the default rule are none."""


def probing() -> np.random.Generator:
    """Return the generator of directions that are tested: its stream is not that of points drawn from a seed."""
    return np.random.default_rng(np.random.SeedSequence(0, spawn_key=(0x6D73, 1)))


def unclaimed_slope(problem: Problem, at: Iterate, level: float) -> float:
    """Return the slope along a random tangent vector of length one beyond what the gradient claims.

    It is zero unless the objective contradicts the gradient; that takes two values where it does not. Decreases are
    compared with the size `level` of the objective, which is not that of an augmented Lagrangian.
    """
    manifold, tree, dot = problem.manifold, unflattener(at.x), inner_product(problem, at.x)
    if not manifold.dim or not math.isfinite(at.fun):
        return 0.0
    v = flatten(manifold.random_tangent(at.x, probing()))
    free = manifold.free(at.x, at.egrad) if manifold.bounded else None
    if free is not None:
        v = np.where(flatten(free), v, v.dtype.type(0))
    square = dot(v, v)
    if not 0 < square < math.inf:
        return 0.0
    length = square**0.5
    v = v / v.dtype.type(length)
    longest = float(manifold.longest(at.x, tree(v))) if manifold.open else math.inf

    def along(t: float) -> float:
        if abs(t) > longest:
            return math.inf
        try:
            return problem.objective.value(freeze(retracted(problem, at.x, tree(v.dtype.type(t) * v), None)))
        except (np.linalg.LinAlgError, FloatingPointError):
            return math.inf

    with np.errstate(all="ignore"):
        scale, eps = float(manifold.scale(at.x)), float(np.finfo(v.dtype).eps)
        return slope_beyond(along, at.fun, dot(at.grad, v), at.grad_norm, scale, level, eps)


def first_reach(scale: Any, eps: float) -> Any:
    """Return how far away a function is compared with its slope first: truncation and rounding are of one size."""
    return eps**0.3 * np.where(scale > 0, scale, 1.0)


def compared(up: Any, down: Any, fun: Any, claimed: Any, eps: float) -> tuple[Any, Any]:
    """Return whether two values differ by other than the claimed change, and whether they differ from the middle one.

    Of numbers, or arrays of them, beyond rounding.
    """
    rounding = NOISE * eps * np.maximum(np.abs(fun), np.maximum(np.abs(up), np.abs(down)))
    moved = np.maximum(np.abs(up - fun), np.abs(down - fun))
    return np.abs(up - down - claimed) > rounding, moved > 5 * rounding


def slope_beyond(
    along: Callable[[float], float], fun: float, slope: float, grad_norm: float, scale: float, level: float, eps: float
) -> float:
    """Return the slope of a function at zero less the claimed one; zero where the two do not contradict each other.

    Parameters
    ----------
    along : callable
        The function of one number; infinite or NaN where it has no value.
    fun, slope : float
        Its value at zero, and its slope there as the gradient claims it.
    grad_norm, scale, level : float
        Length of the whole gradient, and what steps and decreases are compared with.
    eps : float
        Relative rounding error of values.

    Notes
    -----
    The odd part of the function does not depend on its curvature. Where it differs from the claim by more than
    rounding, three reasons other than a wrong gradient are excluded: third derivatives, kinks and noise, for which the
    difference quotients of three steps disagree; errors that are small compared with the gradient; and errors that do
    not matter, because along them the function falls by no more, or within a shorter step, than a success leaves.
    """
    h = float(first_reach(scale, eps))
    for _ in range(6):
        up, down = along(h), along(-h)
        if not (math.isfinite(up) and math.isfinite(down)):
            return 0.0
        differs, seen = compared(up, down, fun, 2 * h * slope, eps)
        if differs:
            break
        if seen:
            return 0.0
        h *= 1e4  # the values do not tell these points apart
    else:
        return 0.0
    t, last, agree = 4 * h, math.nan, 0
    for _ in range(12):
        up, down = along(t), along(-t)
        rest = up - down - 2 * t * slope
        if math.isfinite(rest):
            if abs(rest) <= NOISE * eps * max(abs(fun), abs(up), abs(down)):
                return 0.0
            beyond = rest / (2 * t)
            agree = agree + 1 if 0.75 <= beyond / last <= 4 / 3 else 0
            last = beyond
            if agree == 2:
                break
        t *= 0.25
    else:
        return 0.0
    if abs(last) <= 0.1 * grad_norm or t * t == 0:  # a step whose square is below the number range tells nothing
        return 0.0
    bend = (up + down - 2 * fun) / (t * t)
    step = min(abs(last) / bend if bend > 0 else math.inf, max(scale, 1e3 * t))
    for _ in range(4):
        if step <= SOLVED * 1e-7 * scale:
            break
        signed = -math.copysign(step, last)
        fall = fun - along(signed) + signed * slope
        if fall >= 0.25 * abs(last) * step and fall > SOLVED * max(1e-10, 4 * eps) * level:
            return last
        step *= 0.1
    return 0.0
