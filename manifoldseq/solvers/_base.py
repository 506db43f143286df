"""What a solver is: frozen options, an initial state and a step."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from numbers import Integral
from typing import Any, ClassVar, NamedTuple

import numpy as np

from .._problem import Problem
from .._result import Evaluations, Measures, Point, Status
from .._stopping import StoppingRule
from ..linalg._tree import dot, dot_of, flatten, leaves, norm, tree_map, unflattener
from ..manifolds import Manifold

State = dict[str, Any]
_NONE = Evaluations()
_NO_COLUMNS: dict[str, float] = {}
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
    resumable : bool
        Whether a run can be saved and resumed between its steps.
    curvature : bool
        Whether its measures carry curvature, scale and boundary; of a deterministic solver that does not, ``minimize``
        adds them from the gradients that were asked for.
    """

    needs: ClassVar[tuple[str, ...]] = ("value_and_gradient",)
    constraints: ClassVar[bool] = False
    deterministic: ClassVar[bool] = True
    resumable: ClassVar[bool] = True
    curvature: ClassVar[bool] = False

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

    def answer(self, problem: Problem, state: State) -> Point:
        """Return the point that a run which ended in `state` found."""
        return state["x"]

    def confirm(self, problem: Problem, state: State, recent: tuple[Measures, ...]) -> Measures:
        """Return the measures of `state`, the last of `recent`, with the curvature along what is left of the gradient.

        Asked before a run ends with success; the evaluations are counted.
        """
        return recent[-1]

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
    egrad_norm: float
    """Norm of the Euclidean gradient, in units of the metric where those are small."""

    @classmethod
    def of(cls, state: State) -> Iterate:
        """Return the iterate that :meth:`state` put into a state."""
        return cls(*[state[name] for name in cls._fields])

    def state(self, **more: Any) -> State:
        """Return a state with this iterate and `more`."""
        more.update(zip(self._fields, self, strict=True))
        return more

    def measures(
        self,
        manifold: Manifold,
        step_size: float | None = None,
        curvature: float | None = None,
        status: Status | None = None,
    ) -> Measures:
        """Return the measures of this point; `curvature` is that along the step that led here."""
        return Measures(
            self.fun,
            self.grad_norm,
            None,
            step_size,
            self.egrad_norm,
            _NONE,
            status,
            _NO_COLUMNS,
            curvature,
            None,
            float(manifold.scale(self.x)),
            None if manifold.metric == "embedded" else float(manifold.pushed_inward(self.x, self.egrad)),
        )


def evaluate(problem: Problem, x: Point) -> Iterate:
    """Return the fused evaluation at `x`; its gradient norm is NaN where the metric has left the range of numbers."""
    fun, egrad = problem.objective.value_and_gradient(x)  # type: ignore[misc]
    manifold = problem.manifold
    if manifold.metric == "embedded":
        flat = flatten(manifold.gradient(x, egrad))
        grad_norm = dot(flat, flat) ** 0.5
        return Iterate(x, fun, egrad, flat, grad_norm, _rounded(flat, grad_norm, egrad))
    with np.errstate(all="ignore"):
        gradient = manifold.gradient(x, egrad)
        square = manifold.inner(x, gradient, gradient)
    flat = flatten(gradient)
    grad_norm, length = square**0.5 if square >= 0 else math.nan, dot(flat, flat) ** 0.5
    unit = length / grad_norm if grad_norm > length else 1.0
    return Iterate(x, fun, egrad, flat, grad_norm, unit * _rounded(flat, length, egrad))


def _rounded(grad: np.ndarray, grad_norm: float, egrad: Point) -> float:
    """Return the norm of the Euclidean gradient whose rounding is in the Riemannian one.

    Where the two differ much: of the entries that are not zero by themselves (of bounds, or of a frozen factor), in the
    factor where the share that is left is largest; the others say nothing about its rounding.
    """
    whole = norm(egrad)
    if not 0 < grad_norm <= 1e-4 * whole:
        return whole
    share = 0.0
    for a, b in zip(leaves(unflattener(egrad)(grad)), leaves(egrad), strict=True):
        moves = a != 0
        if moves.any():
            share = max(share, norm(a) / max(norm(b[moves]), 1e-300))
    return grad_norm / share if share > 0 else whole


def try_point(problem: Problem, at: Iterate, x: Point) -> Iterate:
    """Return the evaluation at a trial point; one where linear algebra fails has the value infinity."""
    try:
        return evaluate(problem, x)
    except (np.linalg.LinAlgError, FloatingPointError):
        return at._replace(x=x, fun=math.inf, grad_norm=math.nan)


def secant(product: float, square: float) -> float | None:
    """Return the curvature ⟨s, y⟩/⟨s, s⟩ of a step, None where the step was nothing."""
    return product / square if square > 0 else None


def step_curvature(problem: Problem, x: Point, grad: np.ndarray, new: Iterate) -> float | None:
    """Return the curvature along a step from `x`, where the Riemannian gradient was `grad` (flat), by any way."""
    manifold, tree = problem.manifold, unflattener(x)
    with np.errstate(all="ignore"):
        s = flatten(manifold.project(new.x, tree_map(np.subtract, new.x, x)))
        y = new.grad - flatten(manifold.transport(x, new.x, tree(grad)))
        dot = inner(problem, new.x)
        return secant(dot(s, y), dot(s, s))


def inner(problem: Problem, x: Point) -> Dot:
    """Return the inner product at `x` of flat tangent vectors."""
    manifold = problem.manifold
    if manifold.metric == "embedded":
        return dot_of(leaves(x)[0].dtype)
    tree = unflattener(x)

    def product(u: np.ndarray, v: np.ndarray) -> float:
        with np.errstate(all="ignore"):
            return manifold.inner(x, tree(u), tree(v))

    return product


def retracted(problem: Problem, x: Point, u: Point, kind: str | None) -> Point:
    """Return the point reached from `x` along `u`: without a warning one that is not finite where `u` leads too far."""
    manifold = problem.manifold
    if manifold.metric == "embedded":
        return manifold.retract(x, u, kind)
    with np.errstate(all="ignore"):
        return manifold.retract(x, u, kind)


def whole_numbers(solver: str, **options: Any) -> None:
    """Raise a sentence unless every option is an integer of at least one."""
    for name, value in options.items():
        if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
            raise ValueError(f"{solver}({name}={value!r}): {name} must be a whole number ≥ 1")


def positive_numbers(solver: str, **options: Any) -> None:
    """Raise a sentence unless every option is a number above zero."""
    for name, value in options.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
            raise ValueError(f"{solver}({name}={value!r}): {name} must be a number above zero")


def one_of(solver: str, known: Iterable[str], **options: Any) -> None:
    """Raise a sentence unless every option is one of the known words."""
    for name, value in options.items():
        if value not in known:
            raise ValueError(f"{solver}({name}={value!r}): {name} must be one of {', '.join(map(repr, known))}")
