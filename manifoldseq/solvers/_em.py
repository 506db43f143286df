"""Expectation maximization over all rows, for models whose data enter through sums."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from .._problem import Problem
from .._result import Measures, Point, Status
from ..linalg import freeze
from ._base import Solver
from ._descents import secant_pair, two_loop
from ._iterates import State
from ._search import backtrack

_DELAY, _LONGEST_WAIT = 3, 32
"""Iterations of EM before L-BFGS, and their maximum after failures of L-BFGS, which double them from one."""
_ROUNDING = 1e-6
"""Relative increase of the objective by an update that exceeds rounding."""


@dataclass(frozen=True)
class EM(Solver):
    """Expectation maximization: closed-form updates from sums over the rows. No step increases the objective.

    A step is the first of the following operations that does not increase the objective: the restart of a collapsed
    component; a step of L-BFGS in the units of EM, if `accelerated`; a damped update of all factors, with more damping
    after every failure; the plain updates, one after the other.

    Parameters
    ----------
    trials : int
        The number of updates with increasing damping before the plain updates.
    relaxed : float
        Factor of the damping after a success.
    accelerated : bool
        Whether L-BFGS accelerates EM, for models that define the part `units`.
    memory : int
        The number of pairs of L-BFGS.

    References
    ----------
    Dempster, Laird, Rubin, JRSS B 39 (1977); Jamshidian, Jennrich, JRSS B 59 (1997) for the acceleration.
    """

    trials: int = 4
    relaxed: float = 0.7
    accelerated: bool = False
    memory: int = 10
    needs: ClassVar[tuple[str, ...]] = ("additive",)

    def init(self, problem: Problem[Point], point: Point) -> tuple[State, Measures]:
        """Return the state before the first update."""
        check_updates(problem.objective.additive, "em")
        fun = problem.objective.value(point)
        state: State = {"x": point, "fun": fun, "damping": 1.0, "pairs": (), "wait": _DELAY, "patience": 1}
        return {**state, "tried": np.zeros(0, bool), "repairs": 0}, _measures(problem, fun, 0)

    def step(self, problem: Problem, state: State) -> tuple[State, Measures]:
        """Return the state after an update."""
        f, x, fun, state = problem.objective, state["x"], state["fun"], dict(state)
        additive: Any = f.additive  # the solver needs it
        sums = additive.sums(x)
        for attempt in (_repaired, self._extrapolated, self._damped):
            found = attempt(f, additive, sums, state)
            if found is not None:
                return {**state, "x": found[0], "fun": found[1]}, _measures(problem, found[1], state["repairs"])
        state["wait"] = max(state["wait"] - 1, 0)
        new = x
        for update in additive.plain:
            new = update.apply(new, sums)
        new, reached = _moved(f, x, new)
        if fun < reached < math.inf:  # rounding: nothing is left to gain
            if reached - fun > _ROUNDING * max(1.0, abs(fun)):
                names = " and ".join(update.name for update in additive.plain)
                warnings.warn(
                    f"the update {names} raised the objective from {fun:.8g} to {reached:.8g}, so EM ended: check "
                    "the update with manifoldseq.testing.check_model",
                    stacklevel=2,
                )
            return state, _measures(problem, fun, state["repairs"], Status.ROUNDING_LEVEL)
        return {**state, "x": new, "fun": reached, "pairs": ()}, _measures(problem, reached, state["repairs"])

    def _damped(self, f: Any, additive: Any, sums: Any, state: State) -> tuple[Any, float] | None:
        """Return the point of a damped update that does not raise the value."""
        x, fun = state["x"], state["fun"]
        for update in additive.damped:
            found: list[tuple[Any, float]] = []

            def value(t: float, update: Any = update, found: Any = found) -> float:
                found.append(_moved(f, x, update.apply(x, sums, 1 / t)))
                return found[-1][1]

            first = 1 / state["damping"]
            t = backtrack(value, fun, first=first, max_trials=self.trials)
            if t is not None and found[-1][1] <= fun:
                state["damping"] = self.relaxed * state["damping"] * first / t
                return found[-1]
            state["damping"] *= 2.0**self.trials
        return None

    def _extrapolated(self, f: Any, additive: Any, sums: Any, state: State) -> tuple[Any, float] | None:
        """Return the point of a step of L-BFGS in the units of EM that does not raise the value."""
        if not self.accelerated or additive.units is None or state["wait"]:
            return None
        x, fun = state["x"], state["fun"]
        chart = additive.units(x)
        if chart is None:
            return None
        slope = chart.gradient()
        direction = two_loop(slope, state["pairs"], np.dot)
        found: list[tuple[Any, float]] = []

        def value(t: float) -> float:
            with np.errstate(all="ignore"):  # the search shortens a step that is too long
                found.append(_moved(f, x, chart.moved(-t * direction)))
            return found[-1][1] * sums.n

        t = backtrack(value, fun * sums.n, -float(slope @ direction), max_trials=2)
        new, reached = found[-1]
        if t is None or reached > fun:
            state |= {"wait": state["patience"], "patience": min(2 * state["patience"], _LONGEST_WAIT)}
            return None
        ahead = additive.units(new)
        pair = None if ahead is None else secant_pair(-t * direction, ahead.gradient() - slope, np.dot)
        state |= {"patience": 1, "pairs": (*state["pairs"], *([] if pair is None else [pair]))[-self.memory :]}
        return new, reached


def _repaired(f: Any, additive: Any, sums: Any, state: State) -> tuple[Any, float] | None:
    """Return the point with a restarted collapsed component, if this does not raise the value."""
    if additive.repair is None:
        return None
    if not len(state["tried"]):
        state["tried"] = np.zeros(len(sums.counts), bool)
    proposal = additive.repair(state["x"], sums, state["tried"])
    if proposal is None:
        return None
    k, new = proposal
    state["tried"] = state["tried"] | (np.arange(len(state["tried"])) == k)
    new, reached = _moved(f, state["x"], new)
    if not -math.inf < reached <= state["fun"]:
        return None
    state |= {"repairs": state["repairs"] + 1, "pairs": ()}
    return new, reached


def _measures(problem: Any, fun: float, repairs: int, status: Status | None = None) -> Measures:
    extra = {} if problem.objective.additive.repair is None else {"repairs": float(repairs)}
    return Measures(fun, status=status, extra=extra)


def _moved(f: Any, x: Any, new: Any) -> tuple[Any, float]:
    """Return a point in the structure of `x`, and the value there."""
    new = in_structure_of(x, new)
    return new, f.value(new)


def in_structure_of(x: Any, new: Any, what: str = "a part of the model") -> Any:
    """Return a read-only point with the dtypes of another point; arrays with the right dtype are not copied.

    `what` names the source of a point with other shapes in the error message.
    """
    if not isinstance(x, tuple):
        leaf = np.asarray(new, dtype=x.dtype)
        if leaf.shape != x.shape:
            raise ValueError(f"{what} returned an array of shape {leaf.shape} instead of {x.shape}")
        return freeze(leaf)
    if not isinstance(new, tuple | list) or len(new) != len(x):
        got = f"{len(new)} arrays" if isinstance(new, tuple | list) else type(new).__name__
        raise ValueError(f"{what} returned {got}, but the point is a tuple of {len(x)}")
    return tuple([in_structure_of(a, b, what) for a, b in zip(x, new, strict=True)])


def check_updates(additive: Any, solver: str) -> None:
    """Raise an error if an objective has no block updates."""
    if not (additive.damped or additive.plain):
        raise ValueError(
            f"the solver {solver!r} needs an update, but the model has none: a model with another cost does not "
            "inherit the updates of its base, so register an update, or use solver='lbfgs'"
        )
