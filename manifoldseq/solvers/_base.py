"""What a solver is: frozen options, an initial state and a step."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from numbers import Integral
from typing import Any, ClassVar, NamedTuple

import numpy as np

from .._problem import Problem
from .._result import Measures, Point
from ..linalg._tree import flatten, norm, unflattener

State = dict[str, Any]
Dot = Callable[[np.ndarray, np.ndarray], float]


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
    """

    needs: ClassVar[tuple[str, ...]] = ("value_and_gradient",)
    constraints: ClassVar[bool] = False
    deterministic: ClassVar[bool] = True

    @property
    def monotone(self) -> bool:
        return True

    @abstractmethod
    def init(self, problem: Problem, point: Point) -> tuple[State, Measures]:
        """Return the first state, with the point at ``state["x"]``, and its measures."""

    @abstractmethod
    def step(self, problem: Problem, state: State) -> tuple[State, Measures]:
        """Return the next state and its measures; `state` is not written to."""


class Iterate(NamedTuple):
    """A point with what one fused evaluation says about it; the gradient is flat."""

    x: Point
    fun: float
    egrad: Point
    grad: np.ndarray
    grad_norm: float

    def measures(self, **more: Any) -> Measures:
        """Return the measures of this point."""
        return Measures(self.fun, self.grad_norm, egrad_norm=norm(self.egrad), **more)


def evaluate(problem: Problem, x: Point) -> Iterate:
    """Return the fused evaluation at `x`."""
    fun, egrad = problem.objective.value_and_gradient(x)  # type: ignore[misc]
    gradient = problem.manifold.gradient(x, egrad)
    flat = flatten(gradient)
    return Iterate(x, fun, egrad, flat, inner(problem, x)(flat, flat) ** 0.5)


def inner(problem: Problem, x: Point) -> Dot:
    """Return the inner product at `x` of flat tangent vectors."""
    manifold = problem.manifold
    if manifold.metric == "embedded":
        return _dot
    tree = unflattener(x)
    return lambda u, v: manifold.inner(x, tree(u), tree(v))


def _dot(u: np.ndarray, v: np.ndarray) -> float:
    return float(np.dot(u, v))


def whole_numbers(solver: str, **options: Any) -> None:
    """Raise a sentence unless every option is an integer of at least one."""
    for name, value in options.items():
        if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
            raise ValueError(f"{solver}({name}={value!r}): {name} must be a whole number ≥ 1")
