"""A test before a success is reported: comparison of the objective with its gradient along a tangent vector."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .._problem import Problem
from ..linalg import Decision, Scalar, freeze
from ._iterates import Iterate, inner_product, random_direction, retracted

NOISE = 200
"""Differences of values up to this many units of rounding count as zero."""

SOLVED = 10
"""Decreases and steps up to this multiple of the tolerances of the default rule count as zero."""


def probing() -> np.random.Generator:
    """Return the generator of test directions; its stream differs from the stream of points from the same seed."""
    return np.random.default_rng(np.random.SeedSequence(0, spawn_key=(0x6D73, 1)))


def unclaimed_slope(problem: Problem, at: Iterate, level: Scalar) -> Scalar:
    """Return the slope along a random tangent vector of length one minus the slope from the gradient.

    The result is zero unless the objective contradicts the gradient; without a contradiction the test needs two values.
    Decreases are compared with the size `level` of the objective, not with the size of an augmented Lagrangian.
    """
    manifold, axis, dot = problem.manifold, problem.axis, inner_product(problem, at.x)
    if not manifold.dim:
        return axis.filled(at.x, 0.0)
    tree = axis.tree(manifold.shape)
    v = random_direction(problem, at, probing())
    square = dot(v, v)
    valid = (square > 0) & (square < math.inf) & axis.finite(at.fun)
    if not axis.any(valid):
        return axis.filled(at.x, 0.0)
    v = axis.over(v, axis.where(valid, square, 1.0) ** 0.5)
    longest = axis.number(manifold.longest(at.x, tree(v))) if manifold.open else math.inf

    def along(t: Scalar, asked: Decision) -> Scalar:
        asked, values = asked & (abs(t) <= longest), axis.filled(at.x, math.inf)
        if not axis.any(asked):
            return values
        some, x, u = axis.take(asked, problem, at.x, axis.times(t, v))
        try:
            return axis.put(values, asked, some.objective.value(freeze(retracted(some, x, tree(u), None))))
        except (np.linalg.LinAlgError, FloatingPointError):
            return values

    with np.errstate(all="ignore"):
        scale, eps = axis.number(manifold.scale(at.x)), float(np.finfo(v.dtype).eps)
        return slope_beyond(axis, along, valid, at.fun, dot(at.grad, v), at.grad_norm, scale, level, eps)


def first_reach(scale: Any, eps: float) -> Any:
    """Return the first distance for the comparison of a function with its slope (truncation and rounding balance)."""
    return eps**0.3 * np.where(scale > 0, scale, 1.0)


def compared(up: Any, down: Any, fun: Any, claimed: Any, eps: float) -> tuple[Any, Any]:
    """Return whether two values contradict the claimed change, and whether they differ from the middle value.

    The arguments are numbers or arrays; differences count beyond rounding.
    """
    rounding = NOISE * eps * np.maximum(np.abs(fun), np.maximum(np.abs(up), np.abs(down)))
    moved = np.maximum(np.abs(up - fun), np.abs(down - fun))
    return np.abs(up - down - claimed) > rounding, moved > 5 * rounding


def slope_beyond(
    axis: Any,
    along: Callable[[Scalar, Decision], Scalar],
    asked: Decision,
    fun: Scalar,
    slope: Scalar,
    grad_norm: Scalar,
    scale: Scalar,
    level: Scalar,
    eps: float,
) -> Scalar:
    """Return the slope of a function at zero minus the claimed slope, or zero if they do not contradict each other.

    Parameters
    ----------
    axis : arithmetic
        The arithmetic for one function of one number, or for many functions.
    along : callable
        The function; its value is infinite or NaN outside its domain.
    asked : bool
        Mask of the functions whose slope is needed.
    fun, slope : float
        The value at zero, and the slope at zero according to the gradient.
    grad_norm, scale, level : float
        Length of the whole gradient, and the references for steps and decreases.
    eps : float
        Relative rounding error of values.

    Notes
    -----
    The odd part of the function does not depend on its curvature. If it differs from the claim by more than rounding,
    three reasons other than a wrong gradient are excluded: third derivatives, kinks and noise, for which the difference
    quotients of three steps disagree; errors that are small compared with the gradient; and irrelevant errors, along
    which the function decreases by no more, or within a shorter step, than the tolerances of a success.
    """
    no, finite, where, none = axis.no, axis.finite, axis.where, asked & axis.no(asked)
    h, differing = axis.number(first_reach(scale, eps)), none
    for _ in range(6):
        up, down = along(h, asked), along(-h, asked)
        known = asked & finite(up) & finite(down)
        differs, seen = compared(up, down, fun, 2 * h * slope, eps)
        differing, asked = differing | (known & differs), known & no(differs | seen)
        if not axis.any(asked):
            break
        h = where(asked, 1e4 * h, h)  # the values do not tell these points apart
    t, last, agree = 4 * h, math.nan * fun, 0 * fun
    bend, agreed, going = 0 * fun, none, differing
    for _ in range(12):
        if not axis.any(going):
            break
        up, down = along(t, going), along(-t, going)
        rest = up - down - 2 * t * slope
        known, beyond = going & finite(rest), rest / (2 * t)
        noise = NOISE * eps * axis.most(abs(fun), axis.most(abs(up), abs(down)))
        going = going & no(known & (abs(rest) <= noise))
        known, ratio = known & going, axis.quotient(beyond, last)
        agree = where(known, where((ratio >= 0.75) & (ratio <= 4 / 3), agree + 1, 0 * fun), agree)
        last, done = where(known, beyond, last), known & (agree == 2)
        bend = where(done, axis.quotient(up + down - 2 * fun, t * t), bend)
        agreed, going = agreed | done, going & no(done)
        t = where(going, 0.25 * t, t)
    # a step whose square is below the number range tells nothing
    going, wrong = agreed & (abs(last) > 0.1 * grad_norm) & (t * t != 0), none
    step = axis.least(axis.ratio(abs(last), bend, math.inf), axis.most(scale, 1e3 * t))
    for _ in range(4):
        going = going & (step > SOLVED * 1e-7 * scale)
        if not axis.any(going):
            break
        signed = -axis.sign(last) * step
        fall = fun - along(signed, going) + signed * slope
        lower = going & (fall >= 0.25 * abs(last) * step) & (fall > SOLVED * max(1e-10, 4 * eps) * level)
        wrong, going, step = wrong | lower, going & no(lower), 0.1 * step
    return where(wrong, last, 0 * fun)
