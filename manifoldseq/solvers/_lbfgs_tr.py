"""The default solver: L-BFGS alternating with trust regions."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np

from .._problem import Problem
from .._result import Measures, Point, Status
from ..linalg import EPS
from ._base import Solver, whole_numbers
from ._hessian import has_cheap_products
from ._iterates import Iterate, State, inner_product
from ._lbfgs import LBFGS
from ._precondition import has_scales, scale_of_entries
from ._tr import TR

WINDOW, FAST = 15, 0.15
"""L-BFGS continues as long as the gradient falls by at least FAST decades per iteration, over WINDOW iterations."""

LONG, SLOW = 300, 0.01
"""The same numbers if a product with the Hessian costs at least as much as a gradient."""

NEAR, EARLY = 0.1, 75
"""Trust regions begin only if the gradient norm is at most NEAR times the first one, or after EARLY iterations."""

LENGTHS = 8.0
"""The first radius, as a multiple of the length of the last step of L-BFGS."""

BUDGET, GROWTH, PAYS, RETRY = 1000, 8, 0.002, 150
"""In BUDGET evaluations, products included, trust regions must decrease the gradient by PAYS decades per evaluation, or
half as fast as L-BFGS in its last window. Otherwise L-BFGS continues, and its progress is checked after RETRY
iterations. With each return to L-BFGS, the budget grows by the factor GROWTH: an ill-conditioned Lyapunov equation that
only ``tr`` solves in 1,000 iterations needs 14,000 evaluations of trust regions.

Measured by ``make bench-engine ARGS=varied``, CPU seconds of the better of ``lbfgs`` and ``tr`` over those of this
solver, in the geometric mean of sixteen problems and three seeds: 0.95. With ten pairs of vectors for all sizes, on the
problems with Hessian products, it was 1.04 for one seed, and 0.98 with a window of 20 iterations; for another seed it
was 0.98, and 0.90 or 0.95 with a first radius of 2 or 32 lengths."""

VISIBLE, FAR = 1e-8, 100.0
"""Trust regions are kept if they decreased the value, relatively, by less than VISIBLE. After a step without a
decrease, the other solver takes over if the gradient exceeds FAR times √eps of the Euclidean gradient."""

LAST = 6
"""Maximum number of steps of trust regions where a run would end as STALLED. On a mean of 50 linear dynamical systems,
L-BFGS ends at the minimum, but with a gradient in which rounding errors hide whether it is a minimum."""

_BOOK = ("regions", "spent", "mark", "first", "rate", "pace", "failures", "value", "last", "budget")


@dataclass(frozen=True)
class LBFGSTR(Solver):
    """L-BFGS, followed by trust regions if L-BFGS is slow: the default solver of :func:`minimize`.

    A run begins with :class:`LBFGS`. If the gradient falls slowly, :class:`TR` continues from the same iterate, with
    the scales of the factors that L-BFGS has learned and a radius of eight times its last step. Trust regions begin
    earlier if products with the Hessian are cheap. If trust regions reduce the gradient too slowly, the run returns to
    L-BFGS. If one solver finds no decrease, the other takes over, once in a run. A run that would end as stalled makes
    at most six more steps of trust regions.

    The decisions depend on gradients, iterations and products only. A run with the same seed therefore gives the same
    result on every machine, also if it is resumed. At most 50 vectors are stored.

    Parameters
    ----------
    memory : int, optional
        Number of stored pairs, as in :class:`LBFGS`.
    retraction : str, optional
        The name of a retraction of the manifold; by default the default retraction of the manifold.

    Examples
    --------
    A linear system with a condition number of 1e6, on a product:

    >>> import numpy as np, manifoldseq as ms
    >>> a, M = np.geomspace(1e-6, 1, 60), ms.manifolds.Product(ms.manifolds.Euclidean(60), ms.manifolds.Sphere(3))
    >>> f = ms.objective(lambda x: 0.5 * a @ x[0] ** 2 + x[1][0], lambda x: (a * x[0], np.eye(3)[0]),
    ...                  hessian_product=lambda x, u: (a * u[0], np.zeros(3)))
    >>> result = ms.minimize(ms.Problem(M, f), (np.ones(60), np.eye(3)[1]), solver="lbfgs-tr")
    >>> result.success, round(result.fun, 6)
    (True, -1.0)
    """

    memory: int | None = None
    retraction: str | None = None
    curvature: ClassVar[bool] = True
    frames: ClassVar[bool] = True  # type: ignore[misc]
    trusted: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.memory is not None:
            whole_numbers("LBFGSTR", memory=self.memory)

    @cached_property
    def _lbfgs(self) -> LBFGS:
        return LBFGS(memory=self.memory, retraction=self.retraction)

    @cached_property
    def _tr(self) -> TR:
        return TR(retraction=self.retraction)

    @property
    def scale_free(self) -> bool:
        return True

    def inverse_hessian(self, problem: Problem, state: State) -> Callable[[np.ndarray], np.ndarray] | None:
        return None if state["regions"] else self._lbfgs.inverse_hessian(problem, state)

    def init(self, problem: Problem[Point], point: Point) -> tuple[State, Measures]:
        """Return the first state, a state of L-BFGS."""
        state, measures = self._lbfgs.init(problem, point)
        norm = state["grad_norm"]
        book = {
            "regions": False,
            "spent": 0,
            "mark": norm,
            "first": norm,
            "rate": 0.0,
            "pace": 0.0,
            "failures": 0,
            "last": 0,
            "budget": BUDGET,
        }
        book["value"] = state["fun"]
        return {**state, **book}, measures

    def start_at(self, problem: Problem, state: State, at: Iterate) -> State:
        solver = self._tr if state["regions"] else self._lbfgs
        return {**solver.start_at(problem, state, at), **{name: state[name] for name in _BOOK}}

    def step(self, problem: Problem, state: State) -> tuple[State, Measures]:
        """Take a step of the current solver, and decide which solver takes the next step."""
        regions: bool = state["regions"]
        new, measures = (self._tr if regions else self._lbfgs).step(problem, state)
        book = {name: state[name] for name in _BOOK}
        book["spent"] += 1 + (new["products"] if regions else 0)
        if measures.status is Status.NO_DECREASE and book["failures"] == 0 and _far(new):
            book["failures"], slow, measures = 1, True, replace(measures, status=None)
        elif measures.status is not None:
            return {**new, **book}, measures
        else:
            slow = (_regions_are_slow if regions else _lbfgs_is_slow)(problem, book, new)
        if not slow:
            return {**new, **book}, measures
        handed = self._to_lbfgs(problem, new) if regions else self._to_regions(problem, new)
        return {**handed, **book, "regions": not regions, **_marked(new)}, measures

    def leave(self, problem: Problem, state: State, negative: bool) -> tuple[State, Measures] | None:
        """Return a step along negative curvature, or one of at most LAST steps of trust regions."""
        if negative or state["last"] >= LAST:
            return super().leave(problem, state, negative)
        regions = state if state["regions"] else self._to_regions(problem, state)
        new, measures = self._tr.step(problem, regions)
        if measures.status is not None:
            return None
        book = {name: state[name] for name in _BOOK} | {"last": state["last"] + 1}
        return {**new, **book, "regions": True, **_marked(new)}, measures

    def _to_regions(self, problem: Problem, state: State) -> State:
        at, radius = Iterate.of(state), None
        memory = _scales(state)
        if state["pairs"]:
            s, dot = state["pairs"][-1][0], inner_product(problem, at.x)
            scaled = s / scale_of_entries(problem, memory, s.dtype) if memory and has_scales(memory) else s
            radius = LENGTHS * abs(dot(s, scaled)) ** 0.5
        return self._tr.started(problem, at, radius) | memory

    def _to_lbfgs(self, problem: Problem, state: State) -> State:
        return self._lbfgs.start_at(problem, {}, Iterate.of(state)) | _scales(state)


def _scales(state: State) -> State:
    """Return the entries of a state about the scales of the factors of a product."""
    return {name: state[name] for name in ("scales", "steps") if name in state}


def _marked(state: State) -> State:
    """Return the entries of the book with which later progress is compared."""
    return {"spent": 0, "mark": state["grad_norm"], "value": state["fun"]}


def _gained(book: State, state: State) -> float:
    """Return the number of decades by which the gradient has fallen since the last mark."""
    norm: float = state["grad_norm"]
    return math.log10(book["mark"] / norm) if 0 < norm < math.inf and book["mark"] > 0 else math.inf


def _far(state: State) -> bool:
    """Return whether the gradient is so large that a decrease of the objective is visible."""
    level: float = FAR * EPS[state["grad"].dtype] ** 0.5
    return state["grad_norm"] > level * state["egrad_norm"]


def _lbfgs_is_slow(problem: Problem, book: State, state: State) -> bool:
    """Return whether L-BFGS is slow; at the end of each window, the gradient is marked in the book."""
    if book["rate"]:  # after a return from trust regions
        window, pace = RETRY, book["rate"]
    else:
        window, pace = (WINDOW, FAST) if has_cheap_products(problem) else (LONG, SLOW)
    if book["spent"] % window:
        return False
    book["pace"] = _gained(book, state) / window
    book["mark"] = state["grad_norm"]
    return book["pace"] < pace and (state["grad_norm"] <= NEAR * book["first"] or book["spent"] >= EARLY)


def _regions_are_slow(problem: Problem, book: State, state: State) -> bool:
    """Return whether trust regions are slow; at the end of each budget, progress is marked in the book."""
    if book["spent"] < book["budget"]:
        return False
    rate = _gained(book, state) / book["spent"]
    # if the value hardly changes any more, only second-order steps make progress
    visible = book["value"] - state["fun"] > VISIBLE * abs(state["fun"])
    book |= _marked(state) | {"rate": max(rate, PAYS)}
    slow = visible and rate < min(PAYS, 0.5 * book["pace"])
    book["budget"] *= GROWTH if slow else 1
    return slow
