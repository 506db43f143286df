"""The solvers of ``ms.minimize`` and ``ms.minimize_batch``: a step is a compiled loop of many iterations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import manifoldseq as ms
from manifoldseq.linalg import EPS, dtype_of, leaves
from manifoldseq.solvers import LAST, Look, Solver, leave_saddle

from . import _ahead
from ._geometry import geometry
from ._hessian import dot, evaluate, norm
from ._methods import BB, LBFGS, Method
from ._rules import NO_DECREASE, STATUS, compiles, split, traced
from ._run import Rules, begin, found, recorded, template, whole
from ._trust_region import TR

MOST = 256
"""Most iterations of one call of the loop, which is the number of rows of its history."""

UNTRACED = 50
"""Iterations between two questions to a rule that looks at the clock only."""

BLOCK, ENTRIES = 50, 800
"""Most problems of a batch that one loop serves, and about how many entries their points have together: no problem
waits for those of other blocks, and a block fits the cache. Procrustes on St(20,5): 0.7 of the time of blocks of 50."""

State = dict[str, Any]


class Static(NamedTuple):
    """The static arguments of compiled functions. Equal arguments of equal shapes share compiled code."""

    cost: Any
    manifold: Any
    method: Method


class Report(NamedTuple):
    """The numbers of a carry that Python reads."""

    fun: float
    grad_norm: float
    egrad_norm: float
    length: float
    scale: float
    best_fun: float
    best_grad_norm: float


# A carry has twenty arrays: passing each costs more than the loop of a small problem. So it travels as two vectors.


def _packed(c: Any) -> tuple[Any, Any]:
    flat = jax.tree.leaves(c)
    floats = [leaf.reshape(-1) for leaf in flat if jnp.issubdtype(leaf.dtype, jnp.floating)]
    whole_numbers = [
        leaf.reshape(-1).astype(jnp.int32) for leaf in flat if not jnp.issubdtype(leaf.dtype, jnp.floating)
    ]
    return jnp.concatenate(floats), jnp.concatenate(whole_numbers)


def _unpacked(shapes: Any, floats: Any, whole_numbers: Any) -> Any:
    flat, tree = jax.tree.flatten(shapes)
    parts, at = [], {True: 0, False: 0}
    for leaf in flat:
        kind = bool(jnp.issubdtype(leaf.dtype, jnp.floating))
        source, size = floats if kind else whole_numbers, math.prod(leaf.shape)
        parts.append(source[at[kind] : at[kind] + size].reshape(leaf.shape).astype(leaf.dtype))
        at[kind] += size
    return jax.tree.unflatten(tree, parts)


def _answer(geo: Any, c: Any) -> tuple[Any, ...]:
    x, f, gn = found(geo, c)
    report = jnp.stack([c[name] for name in ("f", "gn", "en", "length", "scale")] + [f, gn])
    counts = jnp.stack([c[name] for name in ("status", "nit", "nfev", "nhev")])
    return geo.lower(c["P"]), x, *_packed(c), report, counts


@partial(jax.jit, static_argnums=0)
def _begin(static: Static, x: Any, args: Any, reference: Any) -> Any:
    geo = geometry(static.manifold)
    return _answer(geo, begin(static.cost, geo, static.method, x, args, reference))


@partial(jax.jit, static_argnums=(0, 1))
def _advance(
    static: Static, rules: Rules, x: Any, floats: Any, whole_numbers: Any, ahead: Any, args: Any, n: Any
) -> Any:
    geo = geometry(static.manifold)
    c = _unpacked(template(geo, static.method, x), floats, whole_numbers)
    c["status"] = jnp.zeros((), jnp.int32)
    window = c["window"]
    c["window"] = window._replace(ahead=window.ahead.at[-1].set(ahead.astype(window.ahead.dtype)))
    rule = traced(rules, float(EPS[np.dtype(c["f"].dtype)]))
    c, history = recorded(static.cost, geo, static.method, rule, c, args, n, MOST)
    return *_answer(geo, c), history, c["window"].curvature


@partial(jax.jit, static_argnums=(0, 1))
def _look(static: Static, still: bool, x: Any, carry: Any, look: Any, args: Any) -> Any:
    """Return what lies ahead; only methods that precondition are given the carry, so that others share this."""
    geo, memory = geometry(static.manifold), None
    if carry is not None:
        memory = static.method.inverse(_unpacked(template(geo, static.method, x), *carry))
    at = evaluate(static.cost, geo, geo.lift(x), args)
    ahead = _ahead.look_ahead(static.cost, geo, at, _ahead.Look(*look), memory, args, still)
    numbers = (ahead.curvature, ahead.pushed_inward, ahead.products, _agreement(static.cost, geo, at, args))
    return jnp.stack([number.astype(at.f.dtype) for number in numbers])


@partial(jax.jit, static_argnums=0)
def _agrees(static: Static, x: Any, args: Any) -> Any:
    geo = geometry(static.manifold)
    return _agreement(static.cost, geo, evaluate(static.cost, geo, geo.lift(x), args), args)


def _agreement(cost: Any, geo: Any, at: Any, args: Any) -> Any:
    """Return whether two values show the slope along a random tangent vector that the gradient claims."""
    P, f, eps = at.P, at.f, float(EPS[np.dtype(at.f.dtype)])
    v = geo.flat(geo.project(P, jax.tree.map(jnp.asarray, _ahead.normals(geo.shape, str(f.dtype)))))
    if geo.bounded:
        v = jnp.where(geo.flat(geo.free(P, at.e)), v, 0)
    v = v / norm(v)
    scale = geo.scale(P)
    h = eps**0.3 * jnp.where(scale > 0, scale, 1).astype(f.dtype)
    values = jax.lax.map(lambda t: cost(geo.model(P, geo.tree(t * v)), *args), jnp.stack([h, -h]))
    rounding = 200 * eps * jnp.maximum(jnp.abs(f), jnp.max(jnp.abs(values)))
    differs = jnp.abs(values[0] - values[1] - 2 * h * dot(at.g, v)) > rounding
    return ~differs & (jnp.max(jnp.abs(values - f)) > 5 * rounding)


@partial(jax.jit, static_argnums=(0, 1, 3))
def _all(static: Static, rules: Rules, x: Any, shared: tuple[bool, ...], args: Any) -> Any:
    """Return the answers of many problems, in blocks; `shared` says which arguments all problems have in common."""
    geo = geometry(static.manifold)

    def one(given: Any) -> Any:
        x, own = given
        rest = iter(own)
        mine = tuple([arg if common else next(rest) for arg, common in zip(args, shared, strict=True)])
        c = whole(static.cost, geo, static.method, rules, x, mine)
        point, f, gn = found(geo, c)
        numbers = jnp.stack([c[name] for name in ("status", "nit", "nfev")])
        return point, f, gn, c["reference"], numbers

    own = tuple([arg for arg, common in zip(args, shared, strict=True) if not common])
    entries = sum(math.prod(leaf.shape[1:]) for leaf in leaves(x))
    block = max(1, min(BLOCK, ENTRIES // max(1, entries), leaves(x)[0].shape[0]))
    return jax.lax.map(one, (x, own), batch_size=block)


@lru_cache(maxsize=256)
def _cast(dtype: np.dtype) -> Any:
    def cast(leaf: Any) -> Any:
        array = np.asarray(leaf)
        return array.astype(dtype, copy=False) if array.dtype.kind == "f" else array

    return cast


def _data(args: Any, dtype: np.dtype) -> Any:
    """Return the data of a cost in the dtype of the point: the loop carries one dtype."""
    return jax.tree.map(_cast(dtype), args)


@dataclass(frozen=True)
class Compiled(Solver):
    """A solver whose iterations are one compiled loop, for objectives of ``ms.objective(…, backend="jax")``.

    Between two calls of the loop, Python evaluates rules that are not compiled, calls observers and writes checkpoints.
    Stopping rules of manifoldseq are compiled, except :class:`MaxTime`, which is evaluated every 50 iterations. A
    function, or your own rule, is evaluated after every iteration. As with every other solver, the curvature ahead is
    measured before a run reports success, and the run leaves saddles.

    Parameters
    ----------
    method : Method
        The method, which defines one pass of the loop.
    every : int, optional
        The maximum number of iterations per call, and therefore between calls of observers, the callback and
        checkpoints. By default a call ends when the run may end, and after 256 iterations.
    stop, reference
        The stopping rule of the run and the reference of its gradient norm. ``minimize`` sets them.

    Examples
    --------
    >>> import jax.numpy as jnp, numpy as np, manifoldseq as ms
    >>> def cost(X, A):
    ...     return jnp.sum((X - A) ** 2)
    >>> A = np.arange(6.0).reshape(3, 2) + np.eye(3, 2)
    >>> problem = ms.Problem(ms.manifolds.Stiefel(3, 2), ms.objective(cost, args=(A,), backend="jax"))
    >>> result = ms.minimize(problem, solver="jax:lbfgs", seed=0)
    >>> bool(np.allclose(result.x, ms.linalg.polar(A), atol=1e-5)), len(result.history["fun"]) == result.nit + 1
    (True, True)
    """

    method: Method
    every: int | None = None
    stop: ms.StoppingRule = ms.PredictedDecrease() | ms.MaxIterations(1000)
    reference: float = 0.0
    needs: ClassVar[tuple[str, ...]] = ("traced",)
    curvature: ClassVar[bool] = True
    counts: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.every is not None and (type(self.every) is not int or self.every < 1):
            raise ValueError(f"every={self.every!r} is not valid: pass a whole number of at least 1, or None")

    @property
    def monotone(self) -> bool:
        return self.method.monotone

    def until(self, stop: ms.StoppingRule, reference: float) -> Compiled:
        """Return the solver with the stopping rule `stop`."""
        return replace(self, stop=stop, reference=reference)

    def init(self, problem: ms.Problem, point: Any) -> tuple[State, ms.Measures]:
        """Return the state of a new start."""
        static, args = self._given(problem, point)
        geometry(problem.manifold)  # raises where there is none
        with jax.enable_x64(True):
            answer = _begin(static, point, args, self.reference)
        state, measures, _ = self._read(answer, 0)
        return state, replace(measures, evaluations=ms.Evaluations(2, 2, 0))

    def step(self, problem: ms.Problem, state: State) -> tuple[State, ms.Measures | ms.Steps]:
        """Continue until the rule may end the run, or for `every` iterations."""
        static, args = self._given(problem, state["x"])
        if _is_still(state):
            return self._leave(problem, state)
        rules, asked = split(self.stop)
        n = MOST if self.every is None else min(self.every, MOST)
        for rule in rules:  # the limit of iterations is data, so that another one compiles nothing
            if isinstance(rule, ms.MaxIterations):
                n = max(1, min(n, rule.n - state["earlier"] - int(state["numbers"][1])))
        rules = tuple([rule for rule in rules if not isinstance(rule, ms.MaxIterations)])
        if asked:
            n = min(n, UNTRACED if all(type(rule) is ms.MaxTime for rule in asked) else 1)
        with jax.enable_x64(True):
            carry = state["floats"], state["counts"], np.float64(state["ahead"])
            answer = _advance(static, rules, state["x"], *carry, args, np.int32(n))
            *answer, history, curvature = answer
            rows_, curvatures = np.asarray(history), np.asarray(curvature)
        new, last, counts = self._read(tuple(answer), state["earlier"])
        before = state["numbers"].tolist()
        made, spent, products = (int(a - b) for a, b in zip(counts[1:], before[1:], strict=True))
        rows_ = rows_[:made].astype(float)
        last.status = {NO_DECREASE: ms.Status.NO_DECREASE}.get(counts[0])
        recent = []
        for k in range(min(made, LAST), 0, -1):
            bend = float(curvatures[-k])
            one = ms.Measures(float(rows_[-k, 0]), float(rows_[-k, 1]), step_size=last.step_size, scale=last.scale)
            one.curvature = None if math.isnan(bend) else bend
            recent.append(one)
        last.curvature = recent[-1].curvature
        columns = {"fun": rows_[:, 0], "grad_norm": rows_[:, 1], "nfev": rows_[:, 2] - before[2]}
        return new, ms.Steps((*recent[:-1], last), columns, ms.Evaluations(spent, spent, products))

    def confirm(self, problem: ms.Problem, state: State, recent: tuple[ms.Measures, ...], look: Look) -> ms.Measures:
        """Return the measures of the point with the curvature ahead, from one compiled call."""
        static, args = self._given(problem, state["x"])
        seen = max((abs(m.curvature) for m in recent if m.curvature is not None), default=0.0)
        dtype = dtype_of(state["x"])
        asked = np.array([float(look.decrease), float(look.way), seen], dtype)
        carry = (state["floats"], state["counts"]) if self.method.preconditions else None
        shared = static if self.method.preconditions else static._replace(method=BB())
        asked = (asked[0], asked[1], np.int32(look.products), asked[2])
        with jax.enable_x64(True):
            answer = _look(shared, _is_still(state), state["x"], carry, asked, args)
            ahead, pushed, products, agrees = np.asarray(answer).tolist()
        return replace(
            recent[-1],
            curvature_ahead=ahead,
            pushed_inward=pushed if problem.manifold.open else None,
            unclaimed_slope=0.0 if agrees else None,
            evaluations=ms.Evaluations(3, 1, products),
        )

    def informed(self, state: State, measures: ms.Measures) -> State:
        """Return the state with the curvature ahead, so that the compiled rule does not end each iteration."""
        ahead = measures.curvature_ahead
        return state if ahead is None else {**state, "ahead": ahead}

    def unclaimed_slope(self, problem: ms.Problem, state: State, now: ms.Measures) -> float:
        """Return zero if two values agree with the gradient, otherwise the result of the core."""
        static, args = self._given(problem, state["x"])
        with jax.enable_x64(True):
            if bool(_agrees(static._replace(method=BB()), state["x"], args)):
                return 0.0
        at = ms.solvers.evaluate(problem, state["x"])
        return super().unclaimed_slope(problem, at.state(), now)

    def minimize_rows(self, problems: Sequence[ms.Problem], points: Any, stop: ms.StoppingRule) -> ms.BatchResult:
        """Return whole runs of many problems with one cost, in blocks of one compiled call."""
        rules = stop.rules if isinstance(stop, ms.AnyOf) else (stop,)
        for rule in rules:
            if not compiles(rule):
                raise ValueError(
                    f"the stopping rule {rule!r} cannot be compiled: a compiled batch supports only the stopping rules "
                    "of manifoldseq"
                )
        traces = [problem.objective.traced for problem in problems]
        dtype, costs = dtype_of(points), {trace.cost for trace in traces if trace is not None}
        if len(costs) > 1:
            raise ValueError(
                "the problems of a compiled batch must have the same cost function, with different data: pass the data "
                "as args of "
                "ms.objective(cost, args=…)"
            )
        given = [trace.args for trace in traces if trace is not None]
        shared = tuple([all(one is parts[0] for one in parts) for parts in zip(*given, strict=True)])
        args = tuple(
            [
                parts[0] if common else jax.tree.map(lambda *rows: np.stack(rows), *parts)
                for parts, common in zip(zip(*given, strict=True), shared, strict=True)
            ]
        )
        manifold = problems[0].manifold
        static = Static(costs.pop(), manifold, self.method)
        with jax.enable_x64(True):
            answer = _all(static, rules, points, shared, _data(args, dtype))
            x, f, gn, reference, numbers = jax.tree.map(np.array, answer)
        f, gn, reference = (column.astype(float) for column in (f, gn, reference))
        status = tuple([STATUS[k] or ms.Status.FAILED for k in numbers[:, 0].tolist()])
        off = np.asarray(manifold.feasibility(x))
        return ms.BatchResult(x, f, gn, status, numbers[:, 1], numbers[:, 2], 0.0, off, {}, reference)

    def _given(self, problem: ms.Problem, x: Any) -> tuple[Static, Any]:
        cost, args = problem.objective.traced  # type: ignore[misc]
        return Static(cost, problem.manifold, self.method), _data(args, dtype_of(x))

    def _read(self, answer: tuple[Any, ...], earlier: int) -> tuple[State, ms.Measures, list[int]]:
        """Return the state of a carry, its measures, and its counts."""
        x, best, floats, whole_numbers, report, counts = jax.tree.map(np.asarray, answer)
        r, numbers = Report(*report.tolist()), counts.tolist()
        state = {"x": x, "floats": floats, "counts": whole_numbers, "report": report, "numbers": counts}
        state["earlier"] = earlier  # iterations before the last saddle
        state["ahead"] = math.nan
        if not self.monotone:
            lower = r.best_fun < r.fun
            names = ("feasibility", "complementarity", "multipliers")
            kept = {"x": best, "fun": r.best_fun, "grad_norm": r.best_grad_norm, **dict.fromkeys(names)}
            state |= {"best": kept if lower else None, "seen": ms.Measures(r.fun, r.grad_norm).kept()}
        length = None if math.isnan(r.length) else r.length
        measures = ms.Measures(r.fun, r.grad_norm, step_size=length, egrad_norm=r.egrad_norm, scale=r.scale)
        return state, measures, numbers

    def _leave(self, problem: ms.Problem, state: State) -> tuple[State, ms.Measures]:
        """Leave a saddle as the other solvers do."""

        at = ms.solvers.evaluate(problem, state["x"])
        return leave_saddle(problem, state, at, None, partial(self.start_at, problem, state))

    def leave(self, problem: ms.Problem, state: State, negative: bool) -> tuple[State, ms.Measures] | None:
        if not negative:
            return None
        new, measures = self._leave(problem, state)
        return None if new is state else (new, measures)

    def start_at(self, problem: ms.Problem, state: State, at: Any) -> State:
        earlier = state["earlier"] + int(state["numbers"][1]) + 1
        return {**self.init(problem, at.x)[0], "earlier": earlier}


def _is_still(state: State) -> bool:
    """Return whether the point of a state is stationary to rounding."""
    now = Report(*state["report"].tolist())
    return now.grad_norm <= 100 * float(EPS[dtype_of(state["x"])]) * now.egrad_norm < math.inf


def lbfgs(memory: int = 10, every: int | None = None) -> Compiled:
    """Return limited-memory BFGS, compiled; see :class:`Compiled`.

    Parameters
    ----------
    memory : int
        Number of stored pairs.
    every : int, optional
        The maximum number of iterations between two returns to Python, see :class:`Compiled`.
    """
    if type(memory) is not int or memory < 1:
        raise ValueError(f"jax:lbfgs: memory={memory!r} is not valid: pass a whole number of at least 1")
    return Compiled(LBFGS(memory), every)


def bb(nonmonotone: float = 0.85, every: int | None = None) -> Compiled:
    """Return Barzilai-Borwein steps, compiled; see :class:`Compiled`.

    Parameters
    ----------
    nonmonotone : float
        Weight of earlier values in the reference value of the line search, from 0 to below 1.
    every : int, optional
        The maximum number of iterations between two returns to Python, see :class:`Compiled`.
    """
    if not 0 <= nonmonotone < 1:
        raise ValueError(f"jax:bb: nonmonotone={nonmonotone!r} is not valid: pass a number of at least 0 and below 1")
    return Compiled(BB(float(nonmonotone)), every)


def tr(
    radius: float | None = None,
    max_radius: float = math.inf,
    max_inner: int | None = None,
    kappa: float = 0.1,
    theta: float = 0.5,
    every: int | None = None,
) -> Compiled:
    """Return trust regions, compiled; see :class:`Compiled`.

    Parameters
    ----------
    radius : float, optional
        First radius, as in ``ms.solvers.TR``.
    max_radius : float
        The maximum radius.
    max_inner : int, optional
        The maximum number of Hessian products per step.
    kappa, theta : float
        The tolerance of the conjugate gradients of a step, as in ``ms.solvers.TR``.
    every : int, optional
        The maximum number of iterations between two returns to Python, see :class:`Compiled`.
    """
    options = ms.solvers.TR(radius=radius, max_radius=max_radius, max_inner=max_inner, kappa=kappa, theta=theta)
    return Compiled(TR(options.radius, options.max_radius, options.max_inner, options.kappa, options.theta), every)
