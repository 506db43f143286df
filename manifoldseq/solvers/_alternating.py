"""Block coordinate descent: closed-form updates, and an inner solver for the other factors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, ClassVar

import numpy as np

from .._problem import Problem
from .._result import Evaluations, Measures, Point, Status, Tree
from .._stopping import LAST, GradientNorm, MaxIterations, RunSoFar, StoppingRule
from ..hooks import get_solver
from ..linalg import dtype_of, flatten, freeze, tree_map
from ..manifolds import Factored
from ..objectives import BlockUpdate, Objective
from ._base import Solver
from ._iterates import Iterate, State, evaluate, step_curvature

Stage = tuple[BlockUpdate, ...] | int
"""Consecutive closed-form updates, or the number of a factor without an update."""


@dataclass(frozen=True)
class Alternating(Solver):
    """Closed-form updates of some factors in turn, and an inner solver on each of the other factors.

    The objective never increases. If the ``updates`` of the objective cover all factors, this is block coordinate
    descent. It is expectation–maximization for a model with a single update that replaces all factors. An inner solver
    minimizes over each factor without an update, with the other factors fixed. One step applies consecutive updates, or
    takes one step of the inner solver.

    Parameters
    ----------
    order : sequence of str, optional
        Names of updates, or of factors for the inner solver; names may be repeated. By default, the updates in their
        order are followed by the factors that no update replaces.
    inner_solver : str or Solver
        The solver for factors without an update; it must never increase the objective.
    inner_stop : StoppingRule
        The rule that ends an inner run; rules on gradient norm, cost, step size and iterations are supported.

    Raises
    ------
    ValueError
        If a name is unknown, if a factor is never updated, if a factor has neither an update nor a gradient, or if an
        update increases the objective.

    Notes
    -----
    The updates need no gradient. Without a gradient, use the stopping rule ``CostChange``. If all blocks have updates
    and none of them decreases the objective further, the run ends with COST_CHANGE.

    Examples
    --------
    The best rank-one matrix, factor by factor:

    >>> import dataclasses, numpy as np, manifoldseq as ms
    >>> A = np.array([[3.0, 1.0], [1.0, 2.0]])
    >>> E = ms.manifolds.Euclidean(2)
    >>> f = ms.objective(lambda x: float(((A - np.outer(*x)) ** 2).sum()))
    >>> updates = (
    ...     ms.objectives.BlockUpdate("u", ("u",), lambda x: (A @ x[1] / (x[1] @ x[1]), x[1])),
    ...     ms.objectives.BlockUpdate("v", ("v",), lambda x: (x[0], A.T @ x[0] / (x[0] @ x[0]))),
    ... )
    >>> f = dataclasses.replace(f, value_and_gradient=None, updates=updates)
    >>> problem = ms.Problem(ms.manifolds.Product(E, E, names=("u", "v")), f)
    >>> result = ms.minimize(problem, (np.ones(2), np.ones(2)), solver="alternating", stop=ms.CostChange(1e-12))
    >>> bool(np.isclose(result.fun, np.linalg.svd(A)[1][1] ** 2))
    True
    """

    order: Sequence[str] | None = None
    inner_solver: str | Solver = "lbfgs"
    inner_stop: StoppingRule = GradientNorm(0.1, relative=True) | MaxIterations(10)
    needs: ClassVar[tuple[str, ...]] = ("updates",)
    curvature: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if isinstance(self.order, str):
            raise TypeError(f"Alternating(order={self.order!r}): pass a list of names")
        inner = get_solver(self.inner_solver) if isinstance(self.inner_solver, str) else self.inner_solver
        if not (isinstance(inner, Solver) and inner.deterministic and inner.monotone):
            raise ValueError(
                f"Alternating(inner_solver={self.inner_solver!r}): use a solver that never raises the objective, "
                "such as 'lbfgs'"
            )
        object.__setattr__(self, "inner_solver", inner)
        if not isinstance(self.inner_stop, StoppingRule):
            raise ValueError(f"Alternating(inner_stop={self.inner_stop!r}): use a rule such as ms.MaxIterations(10)")

    def init(self, problem: Problem[Point], point: Point) -> tuple[State, Measures]:
        """Return the state before the first block."""
        stages = self._stages(problem)
        if problem.objective.value_and_gradient is None and any(isinstance(stage, int) for stage in stages):
            missing = [problem.manifold.names[k] for k in stages if isinstance(k, int)]  # type: ignore[index]
            raise ValueError(
                f"Alternating: the factors {missing} have no update and the objective has no gradient: pass "
                "value_and_gradient, or a BlockUpdate for each of them"
            )
        at = _look(problem, point)
        return {**at._asdict(), "stage": 0, "inner": None}, _measures(problem, at)

    def step(self, problem: Problem, state: State) -> tuple[State, Measures]:
        """Apply the next updates, or take one inner step; skip blocks that do not decrease the objective."""
        at = Iterate(*(state[name] for name in Iterate._fields))
        stages = self._stages(problem)
        number: int = state["stage"]
        run = state["inner"]
        for _ in range(len(stages) + 1):
            stage = stages[number]
            if isinstance(stage, int):
                new, run = self._inner_step(problem, at, stage, run)
            else:
                new, run = _updated(problem, at, stage), None
            number = number if run is not None else (number + 1) % len(stages)
            if new is not at:
                change = flatten(new.x) - flatten(at.x)
                state = {**new._asdict(), "stage": number, "inner": run}
                curved = None if new.egrad is None else step_curvature(problem, at.x, at.grad, new)
                length = float(np.dot(change, change)) ** 0.5
                return state, _measures(problem, new, step_size=length, curvature=curved)
        closed = not any(isinstance(stage, int) for stage in stages)
        return state, _measures(problem, at, status=Status.COST_CHANGE if closed else Status.NO_DECREASE)

    def _stages(self, problem: Problem) -> list[Stage]:
        updates = {update.name: update for update in problem.objective.updates}
        names = _factor_names(problem)
        for update in updates.values():
            unknown = [name for name in update.factors if names and name not in names]
            if unknown:
                raise ValueError(
                    f"the update {update.name!r} replaces {unknown}, but the manifold has the factors {names}"
                )
        covered = {name for update in updates.values() for name in update.factors or names}
        order = [*updates, *(n for n in names if n not in covered)] if self.order is None else list(self.order)
        unknown = [name for name in order if name not in updates and name not in names]
        if unknown:
            raise ValueError(
                f"Alternating(order={order}) contains the unknown names {unknown}: pass names of updates "
                f"({', '.join(updates) or 'none'}) and of factors ({', '.join(names) or 'none'})"
            )
        moved = {f for name in order for f in ((updates[name].factors or names) if name in updates else (name,))}
        still = [name for name in names if name not in moved]
        if still:
            raise ValueError(
                f"Alternating(order={order}) does not update {still}: add these factors, or an update of these factors"
            )
        stages: list[Stage] = []
        # neighbouring closed-form updates form one stage, evaluated once; each factor without one is a stage
        for closed, group in groupby(order, key=lambda name: name in updates):
            block = list(group)
            stages += [tuple(updates[name] for name in block)] if closed else [names.index(name) for name in block]
        return stages

    def _inner_step(self, problem: Problem, at: Iterate, k: int, run: State | None) -> tuple[Iterate, State | None]:
        """Return the iterate after one inner step on factor `k`, and the inner run unless it ended."""
        solver = self.inner_solver
        assert isinstance(solver, Solver)
        start = at.x[k] if run is None else run["state"]["x"]
        seen = [(start, at.fun, at.egrad)]
        part = _on_factor(problem, at.x, k, seen)
        if run is None:
            inner, measures = solver.init(part, start)
            run = {"state": inner, "nit": 0, "first": measures.grad_norm, "recent": (measures.kept(),)}
            if self._ended(run, measures):
                return at, None
        inner, measures = solver.step(part, run["state"])
        run = {**run, "state": inner, "nit": run["nit"] + 1, "recent": (*run["recent"][1 - LAST :], measures.kept())}
        # a step that rises, or does not move, ends the inner run; the block has nothing to give
        xk = inner["x"]
        if measures.fun > at.fun + _rounding(at) or np.array_equal(flatten(xk), flatten(start)):
            return at, None
        x = (*at.x[:k], xk, *at.x[k + 1 :])
        known = next((pair for y, *pair in seen if y is xk), None)
        new = evaluate(problem if known is None else _answering(problem, known), x)
        return new, None if self._ended(run, measures) else run

    def _ended(self, run: State, measures: Measures) -> bool:
        """Return whether an inner run has ended, by its rule or by its solver."""
        eps = float(np.finfo(dtype_of(run["state"]["x"])).eps)
        recent = tuple([Measures.of(kept) for kept in run["recent"]])
        first = Measures(math.nan, run["first"])
        so_far = RunSoFar(recent, run["nit"], 0.0, Evaluations(), first, eps=eps)
        return measures.status is not None or self.inner_stop.check(so_far) is not None


def _on_factor(problem: Problem, x: Any, k: int, seen: list[tuple[Tree, float, Any]]) -> Problem:
    """Return the problem of factor `k` with the others fixed; its evaluations are cached in `seen`."""
    f = problem.objective

    def whole(xk: Tree) -> tuple[Any, ...]:
        return (*x[:k], xk, *x[k + 1 :])

    def value_and_gradient(xk: Tree) -> tuple[float, Any]:
        for y, fun, egrad in seen:
            if y is xk:
                return fun, egrad[k]
        fun, egrad = f.value_and_gradient(whole(xk))  # type: ignore[misc]
        seen.append((xk, fun, egrad))
        return fun, egrad[k]

    def hessian_product(xk: Tree, u: Tree) -> Tree:
        zero = tree_map(np.zeros_like, x)
        return f.hessian_product(whole(xk), (*zero[:k], u, *zero[k + 1 :]))[k]  # type: ignore[misc]

    assert isinstance(problem.manifold, Factored)
    return Problem(
        problem.manifold.factors[k],
        Objective(lambda xk: f.value(whole(xk)), value_and_gradient, hessian_product if f.hessian_product else None),
    )


def _updated(problem: Problem, at: Iterate, updates: tuple[BlockUpdate, ...]) -> Iterate:
    """Return the iterate after the updates, or `at` if nothing changes or the value rises at the rounding level."""
    x = at.x
    names = _factor_names(problem)
    for update in updates:
        new = update.apply(freeze(x))
        if names and update.factors:
            chosen = [name in update.factors for name in names]
            new = tuple([b if take else a for a, b, take in zip(x, new, chosen, strict=True)])
        x = tree_map(lambda a, b: np.asarray(b, dtype=a.dtype).reshape(a.shape), x, new)
    if np.array_equal(flatten(x), flatten(at.x)):
        return at
    new = _look(problem, x)
    if new.fun > at.fun + float(np.finfo(dtype_of(x)).eps) ** 0.5 * max(1.0, abs(at.fun)):
        told = " and ".join(repr(update.name) for update in updates)
        raise ValueError(
            f"the update {told} raised the objective from {at.fun:.10g} to {new.fun:.10g}: a BlockUpdate must never "
            "increase it; check it with manifoldseq.testing.check_objective"
        )
    return at if new.fun > at.fun + _rounding(at) else new


def _rounding(at: Iterate) -> float:
    """Return the increase that counts as zero, so that the last digits do not stall."""
    return 50 * float(np.finfo(dtype_of(at.x)).eps) * abs(at.fun)


def _factor_names(problem: Problem) -> tuple[str, ...]:
    return problem.manifold.names or () if isinstance(problem.manifold, Factored) else ()


def _look(problem: Problem[Point], x: Point) -> Iterate:
    """Return the evaluation at `x`, without a gradient if the objective has none."""
    if problem.objective.value_and_gradient is None:
        return Iterate(x, problem.objective.value(x), None, None, None, None)  # type: ignore[arg-type]
    return evaluate(problem, x)


def _answering(problem: Problem, pair: Any) -> Problem:
    """Return the problem with the known evaluation at the point that is evaluated next."""
    return Problem(problem.manifold, Objective(lambda x: pair[0], lambda x: pair))


def _measures(
    problem: Problem,
    at: Iterate,
    step_size: float | None = None,
    curvature: float | None = None,
    status: Status | None = None,
) -> Measures:
    if at.egrad is None:
        return Measures(at.fun, step_size=step_size, status=status)
    return at.measures(problem.manifold, step_size, curvature, status)
