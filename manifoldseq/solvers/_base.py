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
from ._saddle import confirm


class Solver(ABC):
    """One algorithm. A subclass is a frozen dataclass of its options; it prints, times and counts nothing.

    Attributes
    ----------
    needs : tuple of str
        The abilities of the objective that it uses, such as ``"value_and_gradient"``.
    constraints : bool
        Whether it takes the equalities and inequalities of a problem.
    deterministic : bool
        Whether the best point seen is returned; otherwise the last one.
    monotone : bool
        Whether no step ever raises the objective, so that the last point is the best.
    whole_pass : bool
        Of a solver that is not deterministic: whether a step goes through all rows once, and its value is their mean.
    counts : bool
        Whether its measures hold the evaluations, since it evaluates other functions than those of the objective.
    curvature : bool
        Whether its measures carry curvature and scale; of a deterministic solver that does not, ``minimize``
        adds them from the gradients that were asked for.
    frames : bool
        Whether ``minimize`` may give it ``manifold.frame`` for a manifold that has one: it asks for products with the
        Hessian through :func:`hessian_product` only, since those of the objective take ambient vectors.
    trusted : bool
        Whether its states hold arrays that nobody writes to, and plain numbers: the loop then checks none of them.
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
        """Whether the steps are the same for any multiple of the objective, so that a run may choose its unit."""
        return False

    def seeded(self, seed: int) -> Solver:
        """Return the solver that draws from `seed` unless its options name one; one that draws nothing is itself."""
        return self

    def until(self, stop: StoppingRule, reference: float) -> Solver:
        """Return the solver that asks `stop` inside its step; one whose steps are short leaves that to the loop."""
        return self

    def answer(self, problem: Problem[Point], state: State) -> Point:
        """Return the point that a run which ended in `state` found."""
        return state["x"]

    def confirm(self, problem: Problem, state: State, recent: tuple[Measures, ...], look: Look) -> Measures:
        """Return the measures of `state`, the last of `recent`, with the curvature along what is left of the gradient.

        With `pushed_inward` too, where the manifold has a boundary. Asked before a run ends with success; the
        evaluations are counted. Here for states that hold an :class:`Iterate` with a gradient.
        """
        measured = self.curvature and state.get("egrad") is not None
        if not measured:
            return recent[-1]
        return confirm(problem, Iterate.of(state), recent, look, self.inverse_hessian(problem, state))

    def inverse_hessian(self, problem: Problem, state: State) -> Callable[[np.ndarray], np.ndarray] | None:
        """Return the product of tangent vectors with a positive approximate inverse Hessian, where there is one."""
        return None

    def unclaimed_slope(self, problem: Problem, state: State, now: Measures) -> float:
        """Return the slope of the objective at `state` beyond what the gradient claims, zero where they agree.

        Asked before a run ends with success; the evaluations are counted. Where the state holds no :class:`Iterate`,
        the gradient is evaluated again; zero is returned for a solver that needs none.
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

        One problem stands for all rows. Here None: ``minimize_batch`` then needs a :class:`LineSearch`.
        """
        return None

    @abstractmethod
    def init(self, problem: Problem[Point], point: Point) -> tuple[State, Measures]:
        """Return the first state, with the point at ``state["x"]``, and its measures."""

    @abstractmethod
    def step(self, problem: Problem, state: State) -> tuple[State, Any]:
        """Return the next state and its :class:`Measures`, or those of many iterations (:class:`Steps`).

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
