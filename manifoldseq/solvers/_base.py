"""The base class of solvers: frozen options, an initial state and a step."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar

import numpy as np

from .._checks import check_choice, check_positive, check_whole
from .._problem import Problem
from .._result import BatchResult, Measures, Point
from .._stopping import Look, StoppingRule
from ._claims import unclaimed_slope
from ._iterates import Iterate, State, evaluate
from ._saddle import below, confirm


class Solver(ABC):
    """One algorithm. A subclass is a frozen dataclass of its options; it does no printing, timing or counting.

    Attributes
    ----------
    needs : tuple of str
        The functions of the objective that the solver uses, such as ``"value_and_gradient"``.
    constraints : bool
        Whether the solver supports the equalities and inequalities of a problem.
    deterministic : bool
        Whether the best point of the run is returned; otherwise the last one.
    monotone : bool
        Whether no step increases the objective, so that the last point is the best.
    whole_pass : bool
        For a solver that is not deterministic: whether a step processes all rows once, and its value is their mean.
    counts : bool
        Whether its measures contain the evaluations, because it evaluates functions that are not part of the objective.
    curvature : bool
        Whether its measures contain curvature and scale. For a deterministic solver without them, ``minimize`` computes
        them from the evaluated gradients.
    frames : bool
        Whether ``minimize`` may pass it ``manifold.frame`` for a manifold that has a frame. Such a solver must compute
        products with the Hessian by :func:`hessian_product`, because the Hessian products of the objective take ambient
        vectors.
    trusted : bool
        Whether its states contain only plain numbers and arrays that are never written to. The loop does not validate
        such states.
    """

    needs: ClassVar[tuple[str, ...]] = ("value_and_gradient",)
    constraints: ClassVar[bool] = False
    deterministic: ClassVar[bool] = True
    whole_pass: ClassVar[bool] = False
    counts: ClassVar[bool] = False
    curvature: ClassVar[bool] = False
    frames: bool = False
    trusted: ClassVar[bool] = False

    @property
    def monotone(self) -> bool:
        return True

    @property
    def scale_free(self) -> bool:
        """Whether the steps do not change if the objective is multiplied by a number; a run may then scale it."""
        return False

    def seeded(self, seed: int) -> Solver:
        """Return the solver with this seed, unless its options contain a seed or it uses no random numbers."""
        return self

    def until(self, stop: StoppingRule, reference: float) -> Solver:
        """Return the solver that evaluates `stop` inside its step; by default, only the loop evaluates it."""
        return self

    def answer(self, problem: Problem[Point], state: State) -> Point:
        """Return the resulting point of a run that ended in `state`."""
        return state["x"]

    def confirm(self, problem: Problem, state: State, recent: tuple[Measures, ...], look: Look) -> Measures:
        """Return the measures of `state`, the last of `recent`, with the curvature along the remaining gradient.

        If the manifold has a boundary, they also contain `pushed_inward`. The method is called before a run ends with
        success, and its evaluations are counted. The default requires states that contain an :class:`Iterate` with a
        gradient.
        """
        measured = self.curvature and state.get("egrad") is not None
        if not measured:
            return recent[-1]
        return confirm(problem, Iterate.of(state), recent, look, self.inverse_hessian(problem, state))

    def inverse_hessian(self, problem: Problem, state: State) -> Callable[[np.ndarray], np.ndarray] | None:
        """Return the product of tangent vectors with a positive approximation of the inverse Hessian, or None."""
        return None

    def informed(self, state: State, measures: Measures) -> State:
        """Return the state of a run that continues after a confirmation with these measures; by default, `state`."""
        return state

    def leave(self, problem: Problem, state: State, negative: bool) -> tuple[State, Measures] | None:
        """Return one more step of a run that would end as STALLED, or None to end the run.

        By default, this is a step along negative curvature, if the curvature ahead is `negative` and such a step
        decreases the objective. A run with a special symmetry can approach a saddle without reaching a point where
        :func:`stationary` holds. The default requires states that contain an :class:`Iterate` with a gradient.
        """
        if not negative or self.constraints or not self.curvature or state.get("egrad") is None:
            return None
        curvature, lower = below(problem, Iterate.of(state), None)
        if lower is None:
            return None
        new, t = lower
        return self.start_at(problem, state, new), new.measures(problem.manifold, step_size=t, curvature=curvature)

    def start_at(self, problem: Problem, state: State, at: Iterate) -> State:
        """Return the state at an iterate below a saddle; `state` is the state at the saddle."""
        return self.init(problem, at.x)[0]

    def unclaimed_slope(self, problem: Problem, state: State, now: Measures) -> float:
        """Return the slope of the objective at `state` minus the slope from the gradient, zero if they agree.

        The method is called before a run ends with success, and its evaluations are counted. If the state contains no
        :class:`Iterate`, the gradient is evaluated again. Zero is returned for a solver that needs no gradient.
        """
        if all(state.get(name) is not None for name in Iterate._fields):
            at = Iterate.of(state)
        elif "value_and_gradient" in self.needs:
            at = evaluate(problem, state["x"])
        else:
            return 0.0
        return unclaimed_slope(problem, at, abs(now.fun))

    def minimize_rows(self, problems: Sequence[Problem], points: Any, stop: StoppingRule) -> BatchResult | None:
        """Return whole runs of many problems over one manifold, from points with a leading axis.

        One problem represents all rows. The default returns None: ``minimize_batch`` then needs a :class:`LineSearch`.
        """
        return None

    @abstractmethod
    def init(self, problem: Problem[Point], point: Point) -> tuple[State, Measures]:
        """Return the first state, with the point at ``state["x"]``, and its measures."""

    @abstractmethod
    def step(self, problem: Problem, state: State) -> tuple[State, Any]:
        """Return the next state and its :class:`Measures`, or the :class:`Steps` of many iterations.

        `state` is not written to.
        """


def whole_numbers(solver: str, **options: Any) -> None:
    """Raise ValueError unless every option is a whole number of at least one."""
    for name, value in options.items():
        if type(value) is int and value >= 1:  # nearly always
            continue
        check_whole(f"{solver}: {name}", value)


def positive_numbers(solver: str, **options: Any) -> None:
    """Raise ValueError unless every option is a finite number above zero."""
    for name, value in options.items():
        check_positive(f"{solver}: {name}", value)


def one_of(solver: str, known: Iterable[str], **options: Any) -> None:
    """Raise ValueError unless every option is one of the known words."""
    for name, value in options.items():
        check_choice(f"{solver}: {name}", value, tuple(known))
