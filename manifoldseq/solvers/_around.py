"""Wrappers of solvers: scaling of objectives near overflow or underflow, and curvature."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any

import numpy as np

from .._copies import with_parts
from .._problem import Problem
from .._result import Measures, Point
from .._stopping import Look
from ..linalg import leaves, tree_map
from ..objectives import Objective
from ._base import Solver
from ._claims import unclaimed_slope
from ._iterates import State, evaluate, step_curvature
from ._saddle import confirm


def in_range(solver: Solver) -> Solver:
    """Return the solver with an automatic unit of the objective, if its steps do not depend on the unit."""
    if solver.constraints:
        return _InUnit(solver)
    return _InRange(solver) if solver.scale_free else solver


def leaves_range(solver: Solver, dtype: np.dtype, grad_norm: np.ndarray) -> np.ndarray:
    """Return a mask of gradients for which :func:`in_unit` chooses a unit."""
    most = MOST[dtype]
    return ~((1 / most <= grad_norm) & (grad_norm <= most)) & isinstance(solver, _InRange)


def in_unit(solver: Solver, problem: Problem, state: State, measures: Measures) -> tuple[State, Measures]:
    """Return a state that began without a unit in the form of :func:`in_range` solvers."""
    return solver.in_unit(problem, state, measures, 1.0) if isinstance(solver, _InRange) else (state, measures)


UNUSUAL = 32.0
"""For a problem with constraints, gradients at the start above this value or below its inverse get a unit."""

MOST = {np.dtype(t): float(np.finfo(t).max) ** 0.2 for t in (np.float32, np.float64)}
"""Products of five numbers between the inverse of this value and this value stay in the range of a dtype."""


_SAME = ("needs", "constraints", "deterministic", "whole_pass", "counts", "curvature", "trusted")
_same = attrgetter(*_SAME)


@dataclass(frozen=True)
class _Around(Solver):
    """A wrapper of a solver with the same properties; its state may contain a unit of the objective."""

    solver: Solver

    def __post_init__(self) -> None:
        vars(self).update(zip(_SAME, _same(self.solver), strict=True))

    @property
    def monotone(self) -> bool:
        return self.solver.monotone

    def confirm(self, problem: Problem, state: State, recent: tuple[Measures, ...], look: Look) -> Measures:
        unit: float = state.get("unit", 1.0)
        scaled = tuple([divided(measures, 1 / unit) for measures in recent])
        within = look._replace(decrease=look.decrease * unit)
        return divided(self.solver.confirm(multiplied(problem, unit), state, scaled, within), unit)

    def informed(self, state: State, measures: Measures) -> State:
        return self.solver.informed(state, measures)

    def leave(self, problem: Problem, state: State, negative: bool) -> tuple[State, Measures] | None:
        unit: float = state.get("unit", 1.0)
        lower = self.solver.leave(multiplied(problem, unit), state, negative)
        return lower and ({**lower[0], **({"unit": unit} if unit != 1.0 else {})}, divided(lower[1], unit))

    def unclaimed_slope(self, problem: Problem, state: State, now: Measures) -> float:
        unit: float = state.get("unit", 1.0)
        return self.solver.unclaimed_slope(multiplied(problem, unit), state, divided(now, 1 / unit)) / unit

    def answer(self, problem: Problem[Point], state: State) -> Point:
        return self.solver.answer(problem, state)


@dataclass(frozen=True)
class _InRange(_Around):
    """Multiplies the objective by a power of two while its gradient is so large or small that squares leave the range.

    The unit is 1 in all other cases. If the gradient grows or shrinks by the same factor again, a new unit is chosen
    and the solver restarts.
    """

    def init(self, problem: Problem[Point], point: Point) -> tuple[State, Measures]:
        with np.errstate(over="ignore", under="ignore"):
            state, measures = self.solver.init(problem, point)
        return self.in_unit(problem, state, measures, 1.0)

    def step(self, problem: Problem, state: State) -> tuple[State, Measures]:
        unit: float = state.get("unit", 1.0)
        if unit == 1.0:
            return self.in_unit(problem, *self.solver.step(problem, state), 1.0)
        new, measures = self.solver.step(multiplied(problem, unit), state)
        return self.in_unit(problem, {**new, "unit": unit}, divided(measures, unit), unit)

    def in_unit(self, problem: Problem, state: State, measures: Measures, unit: float) -> tuple[State, Measures]:
        """Return the state, restarted in another unit if the gradient leaves the range of the current unit."""
        most = MOST[state["grad"].dtype]
        if 1 / most <= (measures.grad_norm or 0.0) * unit <= most or measures.status is not None:
            return state, measures
        change = unit_of(_largest(state["egrad"]), most)
        unit = unit * change
        if change == 1.0 or not (0 < unit < math.inf and math.isfinite(state["fun"])):
            return state, measures
        state, begun = self.solver.init(
            known(problem, state["fun"] * change, times(change, state["egrad"])), state["x"]
        )
        if not math.isfinite(measures.grad_norm or math.nan):  # the norm alone had left the range
            measures = divided(begun, unit)
        return {**state, "unit": unit}, measures


@dataclass(frozen=True)
class _InUnit(_Around):
    """Multiplies the objective by a power of two where it is far from the constraints in size, for the whole run.

    Penalties and tolerances of constraints refer to the objective; multipliers are returned in its own unit.
    """

    def init(self, problem: Problem[Point], point: Point) -> tuple[State, Measures]:
        f = problem.objective
        fun, egrad = f.value_and_gradient(point)  # type: ignore[misc]
        unit = unit_of(_largest(egrad) or abs(fun), UNUSUAL)
        given = replace(f, value_and_gradient=lambda x: (fun, egrad) if x is point else f.value_and_gradient(x))  # type: ignore[misc]
        return self._in_own_unit(unit, *self.solver.init(multiplied(replace(problem, objective=given), unit), point))

    def step(self, problem: Problem, state: State) -> tuple[State, Measures]:
        unit: float = state["unit"]
        return self._in_own_unit(unit, *self.solver.step(multiplied(problem, unit), state))

    def _in_own_unit(self, unit: float, state: State, measures: Measures) -> tuple[State, Measures]:
        multipliers = {name: values / unit for name, values in state["multipliers"].items()}
        return {**state, "unit": unit, "multipliers": multipliers}, divided(measures, unit)


def unit_of(size: float, most: float) -> float:
    """Return the power of two that scales a size to about 1, or 1 for sizes from 1 / `most` to `most`."""
    unit = 2.0 ** min(1023, -round(math.log2(size))) if 0 < size < math.inf else 1.0
    return 1.0 if 1 / most <= unit <= most else unit


def _largest(tree: Point) -> float:
    return max(float(np.max(np.abs(leaf), initial=0.0)) for leaf in leaves(tree))


def multiplied(problem: Problem, unit: float) -> Problem:
    """Return the problem with its objective multiplied by a number; the same problem if that is 1."""
    if unit == 1.0:
        return problem
    f = problem.objective

    def value_and_gradient(x: Point) -> tuple[float, Point]:
        fun, egrad = f.value_and_gradient(x)  # type: ignore[misc]
        return fun * unit, times(unit, egrad)

    product = f.hessian_product
    return with_parts(
        problem,
        objective=Objective(
            lambda x: f.value(x) * unit,
            value_and_gradient,
            None if product is None else lambda x, u: times(unit, product(x, u)),
            costly_hessian=f.costly_hessian,
        ),
    )


def times(unit: float, tree: Point) -> Point:
    """Return a point or vector multiplied by a number, in its dtype."""
    return tree_map(lambda leaf: leaf * leaf.dtype.type(unit), tree)


def divided(measures: Measures, unit: float) -> Measures:
    """Return the measures of an objective from the measures of its multiple; unchanged if the factor is 1."""
    if unit == 1.0:
        return measures
    names = ("fun", "grad_norm", "egrad_norm", "curvature", "curvature_ahead", "pushed_inward", "unclaimed_slope")
    return replace(
        measures, **{name: None if (value := getattr(measures, name)) is None else value / unit for name in names}
    )


@dataclass(frozen=True)
class WithCurvature(_Around):
    """Adds curvature and scale to the measures of a solver that does not compute them.

    They are computed from the gradients that the solver evaluated at the points of its states.
    """

    def init(self, problem: Problem[Point], point: Point) -> tuple[State, Measures]:
        asked = _Asked(problem)
        state, measures = self.solver.init(asked.problem, point)
        return self._measured(problem, asked, {}, state, measures)

    def step(self, problem: Problem, state: State) -> tuple[State, Measures]:
        asked = _Asked(problem)
        new, measures = self.solver.step(asked.problem, state)
        return self._measured(problem, asked, state, new, measures)

    def confirm(self, problem: Problem, state: State, recent: tuple[Measures, ...], look: Look) -> Measures:
        egrad = state["egrad of x"]
        if egrad is None:
            return recent[-1]
        return confirm(problem, evaluate(known(problem, recent[-1].fun, egrad), state["x"]), recent, look)

    def unclaimed_slope(self, problem: Problem, state: State, now: Measures) -> float:
        egrad = state["egrad of x"]
        if egrad is None:
            return 0.0
        return unclaimed_slope(problem, evaluate(known(problem, now.fun, egrad), state["x"]), abs(now.fun))

    def _measured(
        self, problem: Problem, asked: _Asked, old: State, new: State, measures: Measures
    ) -> tuple[State, Measures]:
        egrad = old.get("egrad of x") if old and new["x"] is old["x"] else asked.gradient(new["x"])
        new = {**new, "egrad of x": egrad}
        if egrad is None or not math.isfinite(measures.fun):
            return new, measures
        at = evaluate(known(problem, measures.fun, egrad), new["x"])
        before, curvature = old.get("egrad of x"), None
        if before is not None and new["x"] is not old["x"]:
            grad = evaluate(known(problem, 0.0, before), old["x"]).grad
            curvature = step_curvature(problem, old["x"], grad, at)
        there = at.measures(problem.manifold, curvature=curvature)
        measures = replace(measures)
        measures.curvature, measures.scale = there.curvature, there.scale
        return new, measures


def known(problem: Problem[Point], fun: float, egrad: Point) -> Problem:
    """Return the problem with known value and gradient of the objective at a single point."""
    return replace(problem, objective=Objective(lambda x: fun, lambda x: (fun, egrad)))


class _Asked:
    """The problem, with the gradients that one step evaluated."""

    def __init__(self, problem: Problem) -> None:
        self._pairs: list[tuple[Any, Any]] = []
        fused = problem.objective.value_and_gradient

        def value_and_gradient(x: Point) -> tuple[float, Point]:
            fun, egrad = fused(x)  # type: ignore[misc]
            self._pairs = [*self._pairs[-1:], (x, egrad)]
            return fun, egrad

        self.problem = replace(problem, objective=replace(problem.objective, value_and_gradient=value_and_gradient))

    def gradient(self, x: Point) -> Point | None:
        """Return the gradient at `x` if it was evaluated."""
        for y, egrad in reversed(self._pairs):
            if y is x or all(map(np.array_equal, leaves(y), leaves(x))):
                return egrad
        return None
