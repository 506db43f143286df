"""One compiled loop for all methods: its start, some of its iterations, and a whole run with its stopping rule."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import manifoldseq as ms
from manifoldseq.linalg import leaves
from manifoldseq.solvers import LEAST_PRODUCTS, MOST_PRODUCTS, SHARE, tolerances

from ._ahead import Look, leave_saddle, look_ahead, stationary
from ._geometry import Geometry
from ._hessian import At, evaluate, first_step, where
from ._methods import Carry, Cost, Method, kept
from ._rules import (
    CONVERGED,
    NO_DECREASE,
    NON_FINITE,
    ROUNDING_LEVEL,
    RUNNING,
    STALLED,
    STATUS,
    Now,
    Traced,
    Window,
    begun,
    pushed,
    traced,
)

PAUSED = len(STATUS)
"""The number of an end without a status: the point is stationary, and the loop can go nowhere from it."""

BLOCK = 16
"""Rows of the history in the inner loop. XLA compiles a loop that carries less than a kilobyte as one function, which
takes half of the time per iteration on St(5,2)."""

Rules = tuple[ms.StoppingRule, ...]


def begin(cost: Cost, geo: Geometry, method: Method, x: Any, args: Any, reference: Any = 0.0) -> Carry:
    """Return the carry of a start, with two evaluations, the second for the first step."""
    at = evaluate(cost, geo, geo.lift(x), args)
    return started(geo, method, at, first_step(cost, geo, at, args), reference, 2)


def started(geo: Geometry, method: Method, at: At, t: Any, reference: Any, evaluations: int) -> Carry:
    """Return the carry of a start from its evaluation and the first step."""
    count = jnp.zeros((), jnp.int32)
    carry = kept(at) | {"length": jnp.full_like(at.f, jnp.nan), "scale": geo.scale(at.P).astype(at.f.dtype)}
    carry |= {"nit": count, "nfev": count + evaluations, "nhev": count, "trial": count, "status": count}
    carry |= {"reference": jnp.maximum(at.gn, reference).astype(at.f.dtype), "window": begun(at.f)}
    return carry | method.begin(geo, at, t)


def alike(new: Any, old: Any) -> Any:
    """Return a carry in the dtypes of another carry."""
    return jax.tree.map(lambda a, b: jnp.asarray(a, b.dtype), new, old)


def template(geo: Geometry, method: Method, x: Any) -> Any:
    """Return the shapes and dtypes of a carry."""

    def make(x: Any) -> Carry:
        P, f = geo.lift(x), jnp.zeros((), leaves(x)[0].dtype)
        return started(geo, method, At(P, f, x, geo.flat(geo.gradient(P, x)), f, f), f, 0.0, 0)

    return jax.eval_shape(make, x)


def recorded(
    cost: Cost, geo: Geometry, method: Method, rule: Traced, c: Carry, args: Any, every: Any, rows: int
) -> tuple[Carry, Any]:
    """Return the result of :func:`advance` with more rows than its loop should carry; `rows` is a multiple of BLOCK."""
    first = c["nit"]

    def body(carry: Any) -> Any:
        c, history = carry
        begun = c["nit"] - first
        c, block = advance(cost, geo, method, rule, c, args, jnp.minimum(BLOCK, every - begun), BLOCK)
        return c, jax.lax.dynamic_update_slice(history, block, (begun, jnp.zeros_like(begun)))

    def going(carry: Any) -> Any:
        return (carry[0]["status"] == RUNNING) & (carry[0]["nit"] < first + every)

    return jax.lax.while_loop(going, body, (c, jnp.full((rows, 3), jnp.nan, c["f"].dtype)))


def asked(rule: Traced, c: Carry, failed: Any = False, inside: Any = True) -> Any:
    """Return the status number of a rule."""
    numbers = {name: c[name] for name in ("window", "gn", "en", "length", "scale", "nit", "nfev", "reference")}
    return rule(Now(**numbers, failed=jnp.asarray(failed), inside=jnp.asarray(inside))).astype(jnp.int32)


def advance(
    cost: Cost, geo: Geometry, method: Method, rule: Traced, c: Carry, args: Any, every: Any, rows: int
) -> tuple[Carry, Any]:
    """Return the carry after at most `every` iterations, and the rows (fun, grad_norm, nfev) of these iterations.

    Every iteration evaluates the rule. A carry with another status than RUNNING makes no iteration. Without rows,
    nothing is stored, because in a batch every pass copies the whole carry.
    """
    first = c["nit"]
    history = jnp.full((rows, 3), jnp.nan, c["f"].dtype)

    def body(carry: Any) -> Any:
        c, history = carry
        trial = c["trial"] + 1
        done = method.advance(cost, geo, c, args, trial >= method.trials)
        moved = done.ok | done.stuck
        n = {**c, **done.carry, "nfev": c["nfev"] + 1, "nhev": c["nhev"] + done.products}
        n["trial"] = jnp.where(moved | (trial >= method.trials), 0, trial)
        n["nit"] = c["nit"] + moved
        n["window"] = where(
            moved, pushed(c["window"], n["f"], jnp.where(done.ok, done.curvature, jnp.nan)), c["window"]
        )
        n["length"] = jnp.where(done.ok, done.length, c["length"])
        n["scale"] = geo.scale(n["P"]).astype(c["f"].dtype)
        status = asked(rule, n, done.stuck)
        status = jnp.where((status == RUNNING) & done.stuck, NO_DECREASE, status)
        status = jnp.where((status == RUNNING) & stationary(n["gn"], n["en"]), PAUSED, status)
        n["status"] = jnp.where(moved, status, RUNNING).astype(jnp.int32)
        n = alike(n, c)
        if rows:
            row = jnp.stack([n["f"], n["gn"], n["nfev"].astype(c["f"].dtype)])
            place = jnp.maximum(n["nit"] - first - 1, 0)
            history = jax.lax.dynamic_update_slice(history, row[None], (place, jnp.zeros_like(place)))
        return n, history

    def going(carry: Any) -> Any:
        c = carry[0]
        go = c["status"] == RUNNING
        return go if every is None else go & (c["nit"] < first + every)

    return jax.lax.while_loop(going, body, (c, history))


def whole(cost: Cost, geo: Geometry, method: Method, rules: Rules, x: Any, args: Any) -> Carry:
    """Return the carry at the end of a run, with its status; the rules use the curvature ahead."""
    eps = float(np.finfo(leaves(x)[0].dtype).eps)
    rule = traced(rules, eps)
    looks = any(part.looks_ahead for part in rules)
    c = begin(cost, geo, method, x, args)
    finite = jnp.isfinite(c["f"]) & jnp.isfinite(c["gn"])
    status = jnp.where(finite, asked(rule, c), NON_FINITE)
    c["status"] = jnp.where((status == RUNNING) & stationary(c["gn"], c["en"]), PAUSED, status).astype(jnp.int32)

    def run(c: Carry) -> Carry:
        return advance(cost, geo, method, rule, c, args, None, 0)[0]

    if not looks:
        c = run(c)
        return {**c, "status": jnp.where(c["status"] == PAUSED, NO_DECREASE, c["status"])}

    def judge(c: Carry) -> Carry:
        """Return the carry with its status given the curvature ahead, RUNNING to continue."""
        before, given = c, c["status"]
        failed = given == NO_DECREASE
        spent = SHARE * (c["nfev"] + c["nhev"])
        seen = jnp.abs(c["window"].curvature)
        look = Look(
            *_within(rules, c["f"], c["scale"], eps),
            products=jnp.where(
                given == STALLED, MOST_PRODUCTS, jnp.clip(spent.astype(jnp.int32), LEAST_PRODUCTS, MOST_PRODUCTS)
            ),
            seen=jnp.max(jnp.where(jnp.isnan(seen), 0, seen)),
        )
        # only a boundary, or bounds, need the Euclidean gradient again
        at = At(c["P"], c["f"], geo.tree(c["g"]), c["g"], c["gn"], c["en"])
        at = evaluate(cost, geo, c["P"], args) if geo.open or geo.bounded else at
        found = look_ahead(cost, geo, at, look, method.inverse(c), args)
        pushed_in = found.pushed_inward
        inside = (pushed_in <= 1e-6 * jnp.abs(c["f"])) | (pushed_in <= 1e3 * c["gn"])
        window = c["window"]
        window = Window(window.fun, window.curvature, window.ahead.at[-1].set(found.curvature.astype(c["f"].dtype)))
        c = {**c, "window": window, "nhev": c["nhev"] + found.products, "nfev": c["nfev"] + (geo.open or geo.bounded)}
        status = asked(rule, c, failed, inside)
        status = jnp.where((status == RUNNING) & failed, NO_DECREASE, status)
        still = stationary(c["gn"], c["en"])
        # a path of special symmetry decreases no further at a saddle, without meeting a stationary point
        saddle = inside & found.negative & ((still & (status == RUNNING)) | (status == STALLED))
        status = jnp.where(
            (status == RUNNING) & still & ~saddle, jnp.where(inside, ROUNDING_LEVEL, NO_DECREASE), status
        )
        c["status"] = status.astype(jnp.int32)
        c = alike(c, before)
        return jax.lax.cond(saddle, lambda: _left(c, found), lambda: c)

    def _left(c: Carry, found: Any) -> Carry:
        """Return the carry of a new start below a saddle, or the status of a point that no step leaves."""
        P, t = leave_saddle(cost, geo, c["P"], c["f"], found.direction, found.curvature, args)
        at = evaluate(cost, geo, P, args)
        new = started(geo, method, at, t / jnp.where(at.gn > 0, at.gn, 1), c["reference"], 0)
        new["window"] = pushed(c["window"], at.f, found.curvature)
        new |= {"nit": c["nit"] + 1, "nfev": c["nfev"] + 2, "nhev": c["nhev"], "length": t.astype(at.f.dtype)}
        status = jnp.where(c["status"] == RUNNING, NO_DECREASE, c["status"])
        stuck = {**c, "status": status}
        return where(t > 0, alike(new, stuck), stuck)

    def asserted(c: Carry) -> Any:
        status = c["status"]
        claims = (status == CONVERGED) | (status == ROUNDING_LEVEL) | (status == STALLED)
        return claims | (status == NO_DECREASE) | (status == PAUSED)

    def outer(carry: Any) -> Any:
        c, _ = carry
        c = run(c)
        c = jax.lax.cond(asserted(c), judge, lambda c: c, c)
        return c, c["status"] == RUNNING

    return jax.lax.while_loop(lambda carry: carry[1], outer, (c, jnp.array(True)))[0]


def _within(rules: Rules, f: Any, scale: Any, eps: float) -> tuple[Any, Any]:
    """Return the decrease and the way that count as none, as ``StoppingRule.solved_within`` says of numbers."""
    levels: list[Any] = [0.0]
    ways: list[Any] = [0.0]
    for rule in rules:
        if isinstance(rule, ms.AnyOf | ms.AllOf):
            level, way = _within(rule.rules, f, scale, eps)
        elif isinstance(rule, ms.PredictedDecrease):
            decrease, step = tolerances(rule, eps, 1)
            level, way = decrease * jnp.abs(f), step * scale
        else:
            continue
        levels.append(level)
        ways.append(way)
    return jnp.max(jnp.stack(jnp.broadcast_arrays(*levels))), jnp.max(jnp.stack(jnp.broadcast_arrays(*ways)))


def found(geo: Geometry, c: Carry) -> tuple[Any, Any, Any]:
    """Return the resulting point of a run (the best point, if it is stored), its value and its gradient norm."""
    if "best" not in c:
        return geo.lower(c["P"]), c["f"], c["gn"]
    last, best = (c["P"], c["f"], c["gn"]), (c["best"], c["best_f"], c["best_gn"])
    P, f, gn = where(c["f"] <= c["best_f"], last, best)
    return geo.lower(P), f, gn
