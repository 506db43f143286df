"""L-BFGS and trust regions in turn: the default solver."""

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
"""L-BFGS goes on while the gradient falls by at least so many decades per iteration, over so many iterations."""

LONG, SLOW = 300, 0.01
"""The same where a product with the Hessian costs at least as much as a gradient: L-BFGS is left where it is stuck."""

NEAR, EARLY = 0.1, 75
"""Trust regions begin where the gradient is this share of its first; after so many iterations, wherever it is."""

LENGTHS = 8.0
"""The first radius, in lengths of the last step of L-BFGS."""

BUDGET, PAYS, RETRY = 1000, 0.002, 150
"""In so many evaluations, products included, trust regions must decrease the gradient by so many decades each, or by
half of what L-BFGS last did. Otherwise L-BFGS gets so many iterations to be faster.

Measured by ``make bench-engine ARGS=varied``, CPU seconds of the better of ``lbfgs`` and ``tr`` over those of this
solver, in the geometric mean of sixteen problems and three seeds: 0.95. With ten pairs of vectors for all sizes, on the
problems with Hessian products, it was 1.04 for one seed, and 0.98 with a window of 20 iterations; for another seed it
was 0.98, and 0.90 or 0.95 with a first radius of 2 or 32 lengths."""

VISIBLE, FAR = 1e-8, 100.0
"""L-BFGS gets no other turn where trust regions decreased the value, relatively, by less than the first number. The
solver is replaced after a step without a decrease if the gradient exceeds the second number times √eps of the Euclidean
gradient."""

_BOOK = ("regions", "spent", "mark", "first", "rate", "pace", "failures", "value")


@dataclass(frozen=True)
class LBFGSTR(Solver):
    """L-BFGS far from a minimum, and trust regions where L-BFGS is slow: the default solver of :func:`minimize`.

    A run begins with :class:`LBFGS`. If the gradient falls slowly, :class:`TR` continues from the same iterate, with
    the scales of the factors that L-BFGS has learnt and a radius of eight times its last step. It takes over earlier
    where products with the Hessian are cheap. If the products of trust regions do not pay, L-BFGS gets another turn. A
    solver that finds no decrease is replaced by the other, once in a run.

    The decisions depend on gradients, iterations and products only. Therefore a run with the same seed is the same on
    every machine, and after a resume. At most 50 vectors are kept.

    Parameters
    ----------
    memory : int, optional
        Number of stored pairs of L-BFGS, see there.
    retraction : str, optional
        A kind that the manifold knows; its default otherwise.

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
        """Return the first state, which is one of L-BFGS."""
        state, measures = self._lbfgs.init(problem, point)
        norm = state["grad_norm"]
        book = {"regions": False, "spent": 0, "mark": norm, "first": norm, "rate": 0.0, "pace": 0.0, "failures": 0}
        book["value"] = state["fun"]
        return {**state, **book}, measures

    def start_at(self, problem: Problem, state: State, at: Iterate) -> State:
        solver = self._tr if state["regions"] else self._lbfgs
        return {**solver.start_at(problem, state, at), **{name: state[name] for name in _BOOK}}

    def step(self, problem: Problem, state: State) -> tuple[State, Measures]:
        """Take a step of the solver whose turn it is, and decide whose turn the next one is."""
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
    """Return what a state knows about the scales of the factors of a product."""
    return {name: state[name] for name in ("scales", "steps") if name in state}


def _marked(state: State) -> State:
    """Return the entries of the book that later progress is compared with."""
    return {"spent": 0, "mark": state["grad_norm"], "value": state["fun"]}


def _gained(book: State, state: State) -> float:
    """Return by how many decades the gradient has fallen since it was marked."""
    norm: float = state["grad_norm"]
    return math.log10(book["mark"] / norm) if 0 < norm < math.inf and book["mark"] > 0 else math.inf


def _far(state: State) -> bool:
    """Return whether the gradient is so large that a decrease of the objective is visible."""
    level: float = FAR * EPS[state["grad"].dtype] ** 0.5
    return state["grad_norm"] > level * state["egrad_norm"]


def _lbfgs_is_slow(problem: Problem, book: State, state: State) -> bool:
    """Return whether L-BFGS is slow; at the end of each window, the gradient is marked in the book."""
    if book["rate"]:  # it has another turn
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
    if book["spent"] < BUDGET:
        return False
    rate = _gained(book, state) / book["spent"]
    # where the value hardly changes any more, only steps of second order go on
    visible = book["value"] - state["fun"] > VISIBLE * abs(state["fun"])
    book |= _marked(state) | {"rate": max(rate, PAYS)}
    return visible and rate < min(PAYS, 0.5 * book["pace"])
