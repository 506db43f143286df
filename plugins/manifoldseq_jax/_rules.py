"""Stopping rules as functions of the last twelve iterates of a compiled loop."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import jax.numpy as jnp

import manifoldseq as ms
from manifoldseq.solvers import LAST, LOOSE, ROUNDING, WINDOW, tolerances

RUNNING = 0
STATUS = (
    None,
    ms.Status.CONVERGED,
    ms.Status.ROUNDING_LEVEL,
    ms.Status.COST_CHANGE,
    ms.Status.STALLED,
    ms.Status.NO_DECREASE,
    ms.Status.MAX_ITERATIONS,
    ms.Status.MAX_EVALUATIONS,
    ms.Status.SMALL_STEP,
    ms.Status.NON_FINITE,
)
"""The status of each number; successes first, then those that say something about the point, then limits."""
CONVERGED, ROUNDING_LEVEL, COST_CHANGE, STALLED, NO_DECREASE = range(1, 6)
MAX_ITERATIONS, MAX_EVALUATIONS, SMALL_STEP, NON_FINITE = range(6, len(STATUS))


class Window(NamedTuple):
    """Numbers of the last twelve iterates, the newest last; NaN before the start."""

    fun: Any
    curvature: Any
    ahead: Any


class Now(NamedTuple):
    """The argument of a compiled rule."""

    window: Window
    gn: Any
    en: Any
    length: Any
    """Of the last step; NaN at the start."""
    scale: Any
    nit: Any
    nfev: Any
    reference: Any
    failed: Any
    """Whether the search has found no decrease in this iteration."""
    inside: Any
    """Whether no boundary makes the gradient small."""


Traced = Callable[[Now], Any]


def begun(f: Any) -> Window:
    """Return the window of a start."""
    nothing = jnp.full(LAST, jnp.nan, f.dtype)
    return Window(nothing.at[-1].set(f), nothing, nothing)


def pushed(window: Window, f: Any, curvature: Any) -> Window:
    """Return the window after one more iteration."""

    def put(column: Any, value: Any) -> Any:
        return jnp.concatenate([column[1:], jnp.reshape(value, (1,)).astype(column.dtype)])

    return Window(put(window.fun, f), put(window.curvature, curvature), put(window.ahead, jnp.nan))


def alternatives(rule: ms.StoppingRule) -> tuple[ms.StoppingRule, ...]:
    """Return the alternatives of a rule, each of which may end a run."""
    return rule.rules if isinstance(rule, ms.AnyOf) else (rule,)


@lru_cache(maxsize=64)
def split(rule: ms.StoppingRule) -> tuple[tuple[ms.StoppingRule, ...], tuple[ms.StoppingRule, ...]]:
    """Return the alternatives of a rule that can be compiled, and the alternatives that Python must evaluate."""
    parts = alternatives(rule)
    able = tuple([part for part in parts if compiles(part)])
    return able, tuple([part for part in parts if not compiles(part)])


def compiles(rule: ms.StoppingRule) -> bool:
    """Return whether a rule can be compiled."""
    if isinstance(rule, ms.AnyOf | ms.AllOf):
        return all(map(compiles, rule.rules))
    return type(rule) in _BY_TYPE


def traced(rules: tuple[ms.StoppingRule, ...], eps: float) -> Traced:
    """Return the function of :class:`Now` that computes the status number of several rules (RUNNING to continue)."""
    return _any([_one(rule, eps) for rule in rules])


def _one(rule: ms.StoppingRule, eps: float) -> Traced:
    if isinstance(rule, ms.AnyOf):
        return _any([_one(part, eps) for part in rule.rules])
    if isinstance(rule, ms.AllOf):
        return _all([_one(part, eps) for part in rule.rules])
    check = _BY_TYPE[type(rule)]
    return lambda now: check(rule, now, eps)


def _any(parts: list[Traced]) -> Traced:
    def check(now: Now) -> Any:
        found = jnp.full((), RUNNING, jnp.int32)
        for part in parts:  # a success goes before a limit
            status = part(now)
            better = (found == RUNNING) | ((status != RUNNING) & (status <= COST_CHANGE) & (found > COST_CHANGE))
            found = jnp.where(better, status, found).astype(jnp.int32)
        return found

    return check


def _all(parts: list[Traced]) -> Traced:
    def check(now: Now) -> Any:
        each = jnp.stack([part(now) for part in parts])
        limits = each > COST_CHANGE
        found = jnp.where(jnp.any(limits), each[jnp.argmax(limits)], each[0])
        return jnp.where(jnp.all(each != RUNNING), found, RUNNING)

    return check


def _small(rule: ms.PredictedDecrease, now: Now, curvature: Any, eps: float, times: float) -> Any:
    way, (decrease, step) = now.gn / curvature, tolerances(rule, eps, times)
    level = decrease * jnp.abs(now.window.fun[-1])
    return (curvature > 0) & ((0.5 * now.gn * way <= level) | (way <= step * now.scale))


def _decrease(rule: ms.PredictedDecrease, now: Now, eps: float) -> Any:
    """Return what ``PredictedDecrease.check`` returns, where nothing is known to lie ahead the status it would have."""
    window = now.window
    fun, ahead = window.fun[-1], window.ahead[-1]
    a, b = window.curvature[-2], window.curvature[-1]
    start, fallen = jnp.isnan(window.fun[-2]), jnp.isnan(b) & now.failed
    seen = jnp.concatenate([window.curvature[-WINDOW:], window.ahead[-WINDOW:]])
    flattest = jnp.min(jnp.where(seen > 0, seen, jnp.inf))
    flattest = jnp.where(jnp.isfinite(flattest), flattest, 0)
    bent = jnp.any(window.ahead[-WINDOW:] <= 0)
    steady = ~start & ~bent & (a > 0) & (a <= 100 * b) & (b <= 100 * a)
    before = jnp.where(fallen, window.fun[-3], window.fun[-2])
    settled = start | (now.length <= 0.01 * now.scale) | (jnp.abs(fun - before) <= 1e-3 * jnp.abs(fun))
    last = window.fun[-WINDOW - 1 :]
    # compiled reductions of large arrays leave NaN out
    stalled = ~jnp.any(jnp.isnan(last)) & (jnp.max(last) - jnp.min(last) <= ROUNDING * eps * jnp.abs(fun))
    converged = steady & settled & _small(rule, now, flattest, eps, 1)
    rounding = (ahead > 0) & settled & _small(rule, now, flattest, eps, LOOSE)
    stuck = jnp.where(rounding, ROUNDING_LEVEL, jnp.where(stalled, STALLED, RUNNING))
    status = jnp.where(converged, CONVERGED, jnp.where(stalled | now.failed, stuck, RUNNING))
    stationary = now.gn <= 100 * eps * now.en
    status = jnp.where(stationary, jnp.where(ahead < 0, RUNNING, ROUNDING_LEVEL), status)
    return jnp.where(now.inside, status, RUNNING)


def _gradient(rule: ms.GradientNorm, now: Now, eps: float) -> Any:
    small = now.gn <= (rule.tol * now.reference if rule.relative else rule.tol)
    rounding = now.gn <= 100 * eps * now.en
    return jnp.where(small, CONVERGED, jnp.where(rounding, ROUNDING_LEVEL, RUNNING))


def _cost_change(rule: ms.CostChange, now: Now, eps: float) -> Any:
    fun, before = now.window.fun[-1], now.window.fun[-2]
    return jnp.where(jnp.abs(fun - before) <= rule.tol * jnp.maximum(1, jnp.abs(fun)), COST_CHANGE, RUNNING)


_BY_TYPE: dict[type, Callable[[Any, Now, float], Any]] = {
    ms.PredictedDecrease: _decrease,
    ms.GradientNorm: _gradient,
    ms.CostChange: _cost_change,
    ms.StepSize: lambda rule, now, eps: jnp.where(now.length <= rule.tol, SMALL_STEP, RUNNING),
    ms.MaxIterations: lambda rule, now, eps: jnp.where(now.nit >= rule.n, MAX_ITERATIONS, RUNNING),
    ms.MaxEvaluations: lambda rule, now, eps: jnp.where(now.nfev >= rule.n, MAX_EVALUATIONS, RUNNING),
}
