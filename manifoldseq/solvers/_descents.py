"""Descents, which compute directions. With a search they form a solver, see :class:`LineSearch`."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from .._problem import Problem
from .._quoted import quoted
from ..linalg import ONE, ROWS, Decision, One, Rows, Scalar, Vector, axis_of, leaves, tree_map
from ..manifolds import Factored, Manifold, base_of
from ._base import one_of, positive_numbers, whole_numbers
from ._iterates import Dot, Iterate, State, inner_product, secant
from ._precondition import (
    Precondition,
    check_precondition,
    entries_of,
    has_scales,
    metric_of_factors,
    no_scales,
    preconditioned,
    scale_of_entries,
    scales_begin,
    steepest,
    with_pair,
)
from ._schedules import Schedule, rate_at


class Direction(NamedTuple):
    """The return value of :meth:`Descent.query`.

    Attributes
    ----------
    vector : ndarray of shape (n,)
        Flat tangent vector.
    slope : float
        Its inner product with the gradient.
    size : float
        Its length in the metric.
    first : float
        The step to try first. If it is NaN, the curvature along the vector determines the first step, and the search
        may enlarge it.
    plain : bool
        Whether it is the simplest direction of the descent. Its slope is not tested.
    used : object
        The part of the memory from which it was made, for :meth:`Descent.learn`.

    Examples
    --------
    >>> import numpy as np, manifoldseq as ms
    >>> M = ms.manifolds.Product(ms.manifolds.Sphere(2), ms.manifolds.Euclidean(1))
    >>> problem = ms.Problem(M, lambda x: x[0][0] + (x[1] ** 2).sum())
    >>> at, descent = ms.solvers.evaluate(problem, (np.array([0.0, 1.0]), np.array([3.0]))), ms.solvers.Steepest()
    >>> direction = descent.query(problem, at, descent.begin(problem, at))
    >>> direction.vector.round(9).tolist(), round(direction.slope, 9), direction.plain
    ([-1.0, -0.0, -6.0], -37.0, True)
    """

    vector: Vector
    slope: Scalar
    size: Scalar
    first: Scalar
    plain: Decision
    used: Any = None


class Descent(ABC):
    """The direction of a solver's steps; a :class:`Search` decides their length. A subclass is a frozen dataclass.

    The memory of a descent is a dict of arrays and numbers, which :class:`LineSearch` keeps in the state of the solver.
    The same code is used by :func:`minimize` and :func:`minimize_batch`: ``problem.axis`` is the arithmetic of one
    problem, with vectors of shape (n,) and floats, or of many problems, with vectors of shape (B, n) and arrays of
    shape (B,). The memory must not share data between the problems of a batch.

    Examples
    --------
    Gradient descent with momentum, as a solver:

    >>> import dataclasses, numpy as np, manifoldseq as ms
    >>> @dataclasses.dataclass(frozen=True)
    ... class Momentum(ms.solvers.Descent):
    ...     share: float = 0.5
    ...     def begin(self, problem, at):
    ...         return {"velocity": np.zeros_like(at.grad)}
    ...     def query(self, problem, at, kept):
    ...         manifold, axis, dot = problem.manifold, problem.axis, ms.solvers.inner_product(problem, at.x)
    ...         v = axis.flatten(manifold.project(at.x, axis.tree(manifold.shape)(kept["velocity"])))
    ...         v = self.share * v - at.grad
    ...         return ms.solvers.Direction(v, dot(at.grad, v), abs(dot(v, v)) ** 0.5, axis.filled(at.x, np.nan), False)
    ...     def simpler(self, problem, at, kept):
    ...         return self.begin(problem, at), np.any(kept["velocity"] != 0, axis=-1)
    ...     def learn(self, problem, at, new, went, t, kept):
    ...         return {"velocity": went.vector}, None
    >>> @dataclasses.dataclass(frozen=True)
    ... class HeavyBall(ms.solvers.LineSearch):
    ...     descent = Momentum()
    ...     search = ms.solvers.Armijo()
    >>> problem = ms.Problem(ms.manifolds.Euclidean(2), ms.objective(lambda x: ((x - 1) ** 2).sum()))
    >>> ms.minimize(problem, np.zeros(2), solver=HeavyBall()).x.round(6).tolist()
    [1.0, 1.0]
    """

    @abstractmethod
    def begin(self, problem: Problem, at: Iterate) -> State:
        """Return the memory of a new start."""

    @abstractmethod
    def query(self, problem: Problem, at: Iterate, kept: State) -> Direction:
        """Return the direction at an iterate; `kept` is the state of the solver."""

    @abstractmethod
    def learn(
        self, problem: Problem, at: Iterate, new: Iterate, went: Direction, t: Scalar, kept: State
    ) -> tuple[State, Scalar | None]:
        """Return the memory after the step of `t` along `went`, and the curvature along it (None if unknown)."""

    def simpler(self, problem: Problem, at: Iterate, kept: State) -> tuple[State, Decision]:
        """Return a memory with a simpler direction after a failed search, and whether there is a simpler direction.

        It has the same structure as the given memory.
        """
        return kept, problem.axis.filled(at.x, False)

    def alone(self, kept: State) -> State:
        """Return the state of one problem, made from the state of a row of a batch."""
        return kept

    def joined(self, kept: State, other: State) -> State:
        """Return the states of two batches as the state of one batch."""
        return ROWS.join(kept, other)

    def inverse(self, problem: Problem, at: Iterate, kept: State) -> Callable[[Vector], Vector] | None:
        """Return the product of tangent vectors with a positive approximation of the inverse Hessian, or None."""
        return None


@dataclass(frozen=True)
class Steepest(Descent):
    """The negative gradient, or the preconditioned one: the descent of :class:`GD`, with its options."""

    step_size: float | Schedule | None = None
    precondition: Precondition | None = None

    def __post_init__(self) -> None:
        name = type(self).__name__
        if self.step_size is not None and not isinstance(self.step_size, Schedule):
            positive_numbers(name, step_size=self.step_size)
        check_precondition(name, self.precondition)

    def begin(self, problem: Problem, at: Iterate) -> State:
        return {"step": problem.axis.filled(at.x, math.nan), "count": problem.axis.filled(at.x, 0)}

    def query(self, problem: Problem, at: Iterate, kept: State) -> Direction:
        vector, slope = steepest(self.precondition, problem, at)
        size = at.grad_norm if self.precondition is None else abs(inner_product(problem, at.x)(vector, vector)) ** 0.5
        first = 2.0 * kept["step"]
        if self.step_size is not None:
            first = problem.axis.each(partial(rate_at, self.step_size), kept["count"])
        return Direction(vector, slope, size, first, problem.axis.filled(at.x, True))

    def learn(
        self, problem: Problem, at: Iterate, new: Iterate, went: Direction, t: Scalar, kept: State
    ) -> tuple[State, Scalar | None]:
        dot, carry = inner_product(problem, new.x), carrier(problem, at, new)
        moved = carry(went.vector)
        square = dot(moved, moved)
        rise = dot(moved, new.grad) - (-square if self.precondition is None else dot(moved, carry(at.grad)))
        return {"step": t, "count": kept["count"] + 1}, secant(rise, t * square)


@dataclass(frozen=True)
class BarzilaiBorwein(Descent):
    """The negative gradient, with the step size of Barzilai and Borwein: the descent of :class:`BB`."""

    step_size: str = "adaptive"

    def __post_init__(self) -> None:
        one_of(type(self).__name__, ("adaptive", "alternating", "long", "short"), step_size=self.step_size)

    def begin(self, problem: Problem, at: Iterate) -> State:
        filled = problem.axis.filled
        return {"step": filled(at.x, math.nan), "even": filled(at.x, True), **self._unscaled(problem, at)}

    def _unscaled(self, problem: Problem, at: Iterate) -> State:
        memory = no_scales(problem, at)
        return {**memory, "metric": np.ones((*at.grad.shape[:-1], memory["scales"].shape[-1] // 2))} if memory else {}

    def query(self, problem: Problem, at: Iterate, kept: State) -> Direction:
        plain, first = problem.axis.filled(at.x, True), kept["step"]
        if "scales" not in kept:
            return Direction(-at.grad, -at.grad_norm * at.grad_norm, at.grad_norm, first, plain)
        vector, dot = -at.grad, inner_product(problem, at.x)
        if np.any(has_scales(kept)):
            vector = entries_of(problem, kept["metric"].astype(vector.dtype, copy=False)) * vector
        return Direction(vector, dot(at.grad, vector), abs(dot(vector, vector)) ** 0.5, first, plain)

    def simpler(self, problem: Problem, at: Iterate, kept: State) -> tuple[State, Decision]:
        if "scales" not in kept:
            return kept, problem.axis.filled(at.x, False)
        plain = {**kept, "step": problem.axis.filled(at.x, math.nan), **self._unscaled(problem, at)}
        return plain, has_scales(kept)

    def learn(
        self, problem: Problem, at: Iterate, new: Iterate, went: Direction, t: Scalar, kept: State
    ) -> tuple[State, Scalar | None]:
        # with the step s and the change y of the gradient: the long size is ⟨s, s⟩/|⟨s, y⟩|, the short |⟨s, y⟩|/⟨y, y⟩
        axis, dot, even, memory = problem.axis, inner_product(problem, new.x), kept["even"], {}
        carry = carrier(problem, at, new)
        last, square = carry(at.grad), -went.slope
        if "scales" in kept:
            s, y = axis.times(t, carry(went.vector)), new.grad - last
            product, length = dot(s, y), dot(s, s)
            memory = with_pair(problem, new, (s, y), kept)
            memory["metric"] = metric_of_factors(memory, kept["metric"])
            D = entries_of(problem, memory["metric"].astype(y.dtype, copy=False))
            long = axis.ratio(dot(s, s / D), abs(product), math.inf)
            short = axis.ratio(abs(product), dot(y, D * y), math.inf)
            curvature = secant(product, length)
        else:
            # s = −t g: ‖g‖², ⟨g, g⁺⟩ and ‖g⁺‖² are all that both need
            square = square if last is at.grad else dot(last, last)
            product = dot(last, new.grad)
            curved = abs(square - product)
            long = axis.ratio(t * square, curved, math.inf)
            short = axis.ratio(t * curved, square - 2 * product + new.grad_norm * new.grad_norm, math.inf)
            curvature = secant(square - product, t * square)
        if self.step_size == "adaptive":
            step = axis.where(short < _SHORT * long, short, long)
        elif self.step_size == "alternating":
            step = axis.where(even, long, short)
        else:
            step = long if self.step_size == "long" else short
        step = axis.where((step > 0) & (step < math.inf), step, t)
        return {"step": step, "even": axis.no(even), **memory}, curvature


_SHORT = 0.15
"""Adaptive steps are short where the short size is below this share of the long one."""


class Products(NamedTuple):
    """Inner products of gradients and directions, with and without preconditioner; old vectors are transported."""

    new: Scalar
    """Of the new gradient and the preconditioned new gradient."""
    old: Scalar
    """The same of the last point, there."""
    new_old: Scalar
    """Of the preconditioned new gradient and the old gradient."""
    slope: Scalar
    """Of the new gradient and the old direction."""
    old_slope: Scalar
    """Of the old gradient and the old direction."""


def _hestenes_stiefel(axis: One | Rows, p: Products) -> Scalar:
    return axis.most(0.0, axis.quotient(p.new - p.new_old, p.slope - p.old_slope))


def _dai_yuan(axis: One | Rows, p: Products) -> Scalar:
    return axis.quotient(p.new, p.slope - p.old_slope)


BETAS: dict[str, Callable[[One | Rows, Products], Scalar]] = {
    "hestenes-stiefel": _hestenes_stiefel,
    "polak-ribiere": lambda axis, p: axis.most(0.0, axis.quotient(p.new - p.new_old, p.old)),
    "fletcher-reeves": lambda axis, p: axis.quotient(p.new, p.old),
    "dai-yuan": _dai_yuan,
    "hybrid": lambda axis, p: axis.most(0.0, axis.least(_hestenes_stiefel(axis, p), _dai_yuan(axis, p))),
}


@dataclass(frozen=True)
class Conjugate(Descent):
    """Conjugate directions ``−P g⁺ + β d``: the descent of :class:`CG`, with its options."""

    beta: str = "hestenes-stiefel"
    restart: float = 0.5
    precondition: Precondition | None = None

    def __post_init__(self) -> None:
        name = type(self).__name__
        one_of(name, BETAS, beta=self.beta)
        check_precondition(name, self.precondition)
        if not (isinstance(self.restart, int | float) and self.restart > 0):
            raise ValueError(f"{name}(restart={quoted(self.restart)}): restart must be a number above zero")

    def begin(self, problem: Problem, at: Iterate) -> State:
        direction, slope = steepest(self.precondition, problem, at)
        filled = problem.axis.filled
        start = {
            "direction": direction,
            "square": -slope,
            "fresh": filled(at.x, True),
            "change": filled(at.x, math.nan),
        }
        return start if self.precondition is not None else start | no_scales(problem, at)

    def query(self, problem: Problem, at: Iterate, kept: State) -> Direction:
        axis, vector, plain = problem.axis, kept["direction"], kept["fresh"]
        dot = inner_product(problem, at.x)
        slope = dot(at.grad, vector)
        first = axis.ratio(-kept["change"], -slope, math.nan)
        return Direction(vector, slope, abs(dot(vector, vector)) ** 0.5, first, plain)

    def simpler(self, problem: Problem, at: Iterate, kept: State) -> tuple[State, Decision]:
        # a large last decrease may have predicted far too much
        known = kept["change"] == kept["change"]
        changed = problem.axis.no(kept["fresh"]) | known
        if "scales" in kept:
            changed = changed | has_scales(kept)
        return self.begin(problem, at), changed

    def learn(
        self, problem: Problem, at: Iterate, new: Iterate, went: Direction, t: Scalar, kept: State
    ) -> tuple[State, Scalar | None]:
        axis, manifold, dot = problem.axis, problem.manifold, inner_product(problem, new.x)
        carry = carrier(problem, at, new)
        moved = axis.flatten(manifold.transport(at.x, new.x, axis.tree(manifold.shape)(went.vector)))
        old, length, memory = carry(at.grad), t * went.size, {}
        # −P g⁺ and ⟨−P g⁺, g⁺⟩, then d⁺ = −P g⁺ + β d with d transported to the new point
        if "scales" in kept:
            s, y = axis.times(t, moved), new.grad - old
            memory = with_pair(problem, new, (s, y), kept)
            descent = -scale_of_entries(problem, memory, y.dtype) * new.grad
            slope = dot(descent, new.grad)
        else:
            descent, slope = steepest(self.precondition, problem, new)
        products = Products(-slope, kept["square"], -dot(descent, old), dot(new.grad, moved), dot(old, moved))
        rise = products.slope - products.old_slope
        beta = BETAS[self.beta](axis, products)
        # Powell's restart: of a quadratic function successive gradients are orthogonal
        anew = (abs(products.new_old) >= self.restart * -slope) | (beta == 0)
        if memory:  # the preconditioner is another one from there on
            anew = anew | (has_scales(memory) & ~np.asarray(has_scales(kept)))
        if manifold.bounded:
            anew = anew | _changed(problem, at, new)
        turned = descent if axis.all(anew) else axis.where(anew, descent, descent + axis.times(beta, moved))
        memory |= {"direction": turned, "square": -slope, "fresh": anew, "change": t * went.slope}
        return memory, secant(t * rise, length * length)


def _changed(problem: Problem, at: Iterate, new: Iterate) -> Decision:
    """Return whether the coordinates that active bounds hold have changed."""
    before, after = (problem.manifold.free(i.x, i.egrad) for i in (at, new))
    if before is None or after is None:
        return problem.axis.filled(at.x, before is not after)
    flatten = problem.axis.flatten
    return np.any(flatten(before) != flatten(after), axis=-1)


Pair = tuple[Vector, Vector, Scalar, Scalar]

PAIRS, FEW, MANY = 10, 5, 10_000
"""The number of pairs, and that number for vectors of so many entries, where passing over the pairs takes time. On six
problems of 1e4 to 2e5 entries, five pairs take as many evaluations as ten and 1.31 times less CPU, and twenty take 1.41
times more (``make bench-engine ARGS=varied``); on smaller problems five take up to 1.4 times the evaluations."""

AGREE = 2.0
"""The first steps use one scale for all factors. When the scales of the factors are first used, the pairs of these
steps are discarded if a step with the pairs predicts a decrease that is more than this number times the decrease
predicted with the scales alone. The first steps hardly move the factors with large scales, but the moves of the other
factors change the gradients of these factors, so that such pairs are misleading. From 28 distant starts, a normal
distribution whose curvatures differ by a factor of 1e6 was found 28 times with this rule and never without it."""

LONGER = 4.0
"""After a step without positive curvature, the scales of the factors are multiplied by this number, because no new pair
makes the next step longer. A registration took 77 evaluations with this rule, and 152 with unchanged scales."""


@dataclass(frozen=True)
class QuasiNewton(Descent):
    """The two-loop recursion of limited-memory BFGS: the descent of :class:`LBFGS`, with its options.

    The entry ``"step"`` of the state is the size of a step along the negative gradient. It is NaN at the start; a known
    size saves an evaluation. After every step, the last pair determines the size. On a product, the recursion begins
    with one scale for each factor, Σ⟨s, y⟩/Σ⟨y, y⟩ over the last pairs of the factor.
    """

    memory: int | None = None
    precondition: Precondition | None = None

    def __post_init__(self) -> None:
        name = type(self).__name__
        if self.memory is not None:
            whole_numbers(name, memory=self.memory)
        check_precondition(name, self.precondition)

    def begin(self, problem: Problem, at: Iterate) -> State:
        start = {"pairs": (), "held": np.zeros(at.grad.shape, bool), "step": problem.axis.filled(at.x, math.nan)}
        return start if self.precondition is not None else start | no_scales(problem, at)

    def query(self, problem: Problem, at: Iterate, kept: State) -> Direction:
        axis, manifold, dot = problem.axis, problem.manifold, inner_product(problem, at.x)
        pairs, held = _released(problem, at, kept["pairs"], kept["held"], dot)
        P = None
        if self.precondition is not None and "plain" not in kept:
            P = partial(preconditioned, self.precondition, problem, at)
        vector = two_loop(-at.grad, pairs, dot, P, self._diagonal(problem, at, kept))
        if pairs:
            # pairs of earlier points are not tangent here
            vector = axis.flatten(manifold.project(at.x, axis.tree(manifold.shape)(vector)))
        # the pairs and the scales have the unit of the inverse Hessian, so that a step of one is tried first
        none, unknown = _without_pairs(axis, at, pairs), axis.filled(at.x, math.nan)
        first = axis.where(none, unknown if kept["pairs"] else kept["step"], 1.0)
        plain = none
        if P is not None:
            plain = axis.filled(at.x, False)
        elif "scales" in kept:
            if axis.any(none):
                scaled = none & has_scales(kept)
                first, plain = axis.where(scaled, 1.0, first), none & axis.no(scaled)
        return Direction(vector, dot(at.grad, vector), abs(dot(vector, vector)) ** 0.5, first, plain, (pairs, held))

    def _most(self, at: Iterate) -> int:
        """Return the number of pairs."""
        return self.memory or (PAIRS if at.grad.shape[-1] < MANY else FEW)

    def _diagonal(self, problem: Problem, at: Iterate, kept: State) -> Vector | None:
        """Return the diagonal of the first matrix of the recursion, None where the last pair gives one scale."""
        if "scales" not in kept or not np.any(has_scales(kept)):
            return None
        pairs = kept["pairs"]
        return scale_of_entries(problem, kept, at.grad.dtype, pairs[-1][3] if pairs else 1.0)

    def _astray(self, problem: Problem, at: Iterate, kept: State) -> Decision:
        """Return whether a step with the pairs predicts more than AGREE times the decrease of one with the scales."""
        dot, diagonal = inner_product(problem, at.x), self._diagonal(problem, at, kept)
        step = two_loop(at.grad, kept["pairs"], dot, None, diagonal)
        return dot(at.grad, step) > AGREE * dot(at.grad, diagonal * at.grad)

    def simpler(self, problem: Problem, at: Iterate, kept: State) -> tuple[State, Decision]:
        axis, pairs = problem.axis, kept["pairs"]
        some = axis.no(_without_pairs(axis, at, pairs))
        if self.precondition is not None and "plain" not in kept and not axis.any(some):
            return {**kept, "plain": True}, axis.filled(at.x, True)
        memory = {**kept, "pairs": _no_pairs(axis, at, pairs), "step": axis.filled(at.x, math.nan)}
        if "scales" not in kept:
            return memory, some
        # first without the pairs, then without the scales
        memory["steps"] = axis.where(some, kept["steps"], 0 * kept["steps"])
        return memory, some | has_scales(kept)

    def alone(self, kept: State) -> State:
        return {**kept, "pairs": tuple([pair for pair in kept["pairs"] if pair[2] < math.inf])}

    def joined(self, kept: State, other: State) -> State:
        # a batch with fewer pairs gets such of no effect before its own
        most = max(len(kept["pairs"]), len(other["pairs"]))
        padded = []
        for state in (kept, other):
            zero, ones, pairs = np.zeros_like(state["grad"]), np.ones(len(state["grad"])), state["pairs"]
            none = ((zero, zero, np.inf * ones, ones),) * (most - len(pairs))
            padded.append({**state, "pairs": none + pairs})
        return ROWS.join(*padded)

    def inverse(self, problem: Problem, at: Iterate, kept: State) -> Callable[[Vector], Vector] | None:
        pairs, diagonal = kept["pairs"], self._diagonal(problem, at, kept)
        return _InverseHessian(problem, at, pairs, diagonal) if pairs else None

    def learn(
        self, problem: Problem, at: Iterate, new: Iterate, went: Direction, t: Scalar, kept: State
    ) -> tuple[State, Scalar | None]:
        axis, (pairs, held) = problem.axis, went.used
        # the secant pair s = t d, y = g⁺ − g; with another metric both are first transported to the new point
        s, length = axis.times(t, went.vector), t * went.size
        if problem.manifold.metric != "embedded":
            pairs, curvature = _transported(problem, at, new, (*pairs, (s, -at.grad))[-self._most(at) :])
            learned = bool(pairs) and curvature is not None and axis.any(curvature > 0)
        else:
            y, dot = new.grad - at.grad, inner_product(problem, at.x)
            pair = secant_pair(s, y, dot, pairs)
            curvature = secant(dot(s, y) if pair is None or axis is not ONE else pair[2], length * length)
            pairs, learned = pairs if pair is None else (*pairs, pair)[-self._most(at) :], pair is not None
        memory = {"pairs": pairs, "held": held, "step": _newest(axis, pairs, kept["step"])}
        if "scales" in kept:
            memory |= with_pair(problem, new, pairs[-1] if learned else (s, 0 * s), kept, longer=LONGER)
            if axis.any(scales_begin(memory)):
                astray = scales_begin(memory) & self._astray(problem, new, memory)
                memory["pairs"] = axis.where(astray, _no_pairs(axis, at, pairs), pairs)
        return memory, curvature


class _InverseHessian(NamedTuple):
    """The product with the inverse Hessian of the pairs; of many problems a named tuple of which rows can be taken."""

    problem: Problem
    at: Iterate
    pairs: tuple[Pair, ...]
    diagonal: Vector | None

    def __call__(self, v: Vector) -> Vector:
        problem, x, axis = self.problem, self.at.x, self.problem.axis
        tree = axis.tree(problem.manifold.shape)
        product = two_loop(v, self.pairs, inner_product(problem, x), diagonal=self.diagonal)
        return axis.flatten(problem.manifold.project(x, tree(product)))


def _newest(axis: One | Rows, pairs: tuple[Pair, ...], before: Scalar) -> Scalar:
    """Return the step size that the last pair suggests."""
    if axis is ONE or not pairs:
        return pairs[-1][3] if pairs else math.nan
    return np.where(pairs[-1][2] < math.inf, pairs[-1][3], before)


def _no_pairs(axis: One | Rows, at: Iterate, pairs: tuple[Pair, ...]) -> tuple[Pair, ...]:
    """Return a memory without pairs: empty for one problem; for a batch, as many pairs as before, without effect."""
    none = axis.filled(at.x, math.inf), axis.filled(at.x, 1.0)
    return () if axis is ONE else tuple([(0 * s, 0 * y, *none) for s, y, *_ in pairs])


def _without_pairs(axis: One | Rows, at: Iterate, pairs: tuple[Pair, ...]) -> Decision:
    if axis is ONE or not pairs:
        return axis.filled(at.x, not pairs)
    return np.logical_and.reduce([np.isinf(pair[2]) for pair in pairs])


def _transported(
    problem: Problem, at: Iterate, new: Iterate, pairs: tuple[Any, ...]
) -> tuple[tuple[Any, ...], Scalar | None]:
    """Return the pairs at the new point, without those that lose their curvature there, and the curvature of the last.

    The last one comes as the step with the negative gradient at its start; the new gradient makes it complete.
    """
    # all vectors s and y as one stack of 2k rows, transported at once; only the last y lacks the gradient at its end
    manifold, axis, k = problem.manifold, problem.axis, len(pairs)
    tree = axis.tree(manifold.shape)
    vectors = tree_map(lambda *parts: np.stack(parts), *(tree(v) for i in (0, 1) for v in [pair[i] for pair in pairs]))
    with np.errstate(all="ignore"):
        moved = _carried(manifold, at.x, new.x, vectors)
        flat = [axis.flatten(tree_map(lambda leaf, i=i: leaf[i], moved)) for i in range(2 * k)]
        flat[-1] = flat[-1] + new.grad
        S, Y = (tree_map(lambda *parts: np.stack(parts), *map(tree, part)) for part in (flat[:k], flat[k:]))
        x = base_of(manifold, new.x, k)
        ss, sy, yy = (manifold.inner(x, u, v) for u, v in ((S, S), (S, Y), (Y, Y)))
        # transport by projection is not an isometry: the inverse Hessian stays positive with positive ⟨s, y⟩ only
        curved = np.isfinite(ss) & np.isfinite(yy) & (yy > 0) & (sy > 1e-12 * np.sqrt(ss) * np.sqrt(yy))
        curvature = secant(axis.number(sy[-1]), axis.number(ss[-1]))
        if axis is ONE:
            rows = zip(flat[:k], flat[k:], sy.tolist(), yy.tolist(), curved, strict=True)
            return tuple((s, y, a, a / b) for s, y, a, b, keep in rows if keep), curvature
        kept: list[Any] = []
        for pair in zip(flat[:k], flat[k:], sy, yy, curved, strict=True):
            kept.append(_row_pair(*pair, kept))
    return tuple(kept), curvature


def _carried(manifold: Manifold, x: Any, y: Any, vectors: Any) -> Any:
    """Transport vectors over a leading axis from x to y; where the metric is embedded they stay as they are."""
    if isinstance(manifold, Factored):
        return tuple(map(_carried, manifold.factors, x, y, vectors))
    if manifold.metric == "embedded":
        return vectors
    k = len(leaves(vectors)[0])
    return manifold.transport(base_of(manifold, x, k), base_of(manifold, y, k), vectors)


def secant_pair(s: Vector, y: Vector, dot: Dot, before: Sequence[Pair] = ()) -> Pair | None:
    """Return the quantities of a step that :func:`two_loop` uses: s, y, ⟨s, y⟩ and ⟨s, y⟩/⟨y, y⟩.

    Parameters
    ----------
    s, y : ndarray of shape (n,)
        The step and the change of the gradient, flat tangent vectors at one point.
    dot : callable
        Their inner product, see :func:`inner_product`.
    before : sequence of pairs
        The pairs before this one. Rows without positive curvature keep their scale.

    Returns
    -------
    tuple or None
        None if the curvature ⟨s, y⟩ is not positive beyond rounding. For such rows of a batch ⟨s, y⟩ is set to
        infinity, so that the pair has no effect.

    Examples
    --------
    >>> import numpy as np, manifoldseq as ms
    >>> M = ms.manifolds.Product(ms.manifolds.Positive(1), ms.manifolds.Euclidean(1))
    >>> dot = ms.solvers.inner_product(ms.Problem(M, lambda x: 0.0), (np.array([2.0]), np.zeros(1)))
    >>> ms.solvers.secant_pair(np.array([1.0, 0.0]), np.array([4.0, 0.0]), dot)[2:]
    (1.0, 0.25)
    """
    sy, yy = dot(s, y), dot(y, y)
    curved = (yy > 0) & (sy > 1e-12 * abs(dot(s, s) * yy) ** 0.5)
    if s.ndim > 1:
        return _row_pair(s, y, sy, yy, curved, before)
    return (s, y, sy, sy / yy) if curved else None


def _row_pair(s: Vector, y: Vector, sy: Scalar, yy: Scalar, curved: Decision, before: Sequence[Pair]) -> Pair:
    """Return a pair of many problems, of no effect in the rows without curvature: their scale is that before."""
    last = before[-1][3] if before else np.ones(len(s))
    if not curved.all():
        s, y = (np.where(curved[:, None], v, v.dtype.type(0)) for v in (s, y))
    with np.errstate(all="ignore"):
        return s, y, np.where(curved, sy, np.inf), np.where(curved, sy / yy, last)


def two_loop(
    v: Vector,
    pairs: Sequence[Pair],
    dot: Dot,
    initial: Callable[[Vector], Vector] | None = None,
    diagonal: Vector | None = None,
) -> Vector:
    """Multiply the inverse Hessian of L-BFGS by a vector, by the two-loop recursion.

    Parameters
    ----------
    v : ndarray of shape (n,)
        Flat tangent vector; the negative gradient gives the quasi-Newton direction. With shape (B, n), one vector per
        row.
    pairs : sequence of tuples
        Pairs of :func:`secant_pair`, oldest first, all at the point of `v`. Without pairs the result is `v`, or
        ``initial(v)``.
    dot : callable
        Inner product of flat tangent vectors.
    initial : callable, optional
        Product with the initial matrix of the recursion, up to a factor. The identity is used by default, and if ⟨y,
        initial(y)⟩ of the last pair is not positive. The factor is ⟨s, y⟩/⟨y, initial(y)⟩.
    diagonal : ndarray of the shape of `v`, optional
        Diagonal of the initial matrix of the recursion, in place of `initial` and of its factor.

    Returns
    -------
    ndarray of shape (n,)
        A new array.

    References
    ----------
    Nocedal, Wright, "Numerical Optimization", 2006, algorithm 7.4.

    Examples
    --------
    On a product, with the gradient of a quadratic function of curvatures 4 and 2: after a step along each of the two
    axes the direction leads to the minimizer.

    >>> import numpy as np, manifoldseq as ms
    >>> M = ms.manifolds.Product(ms.manifolds.Euclidean(1), ms.manifolds.Euclidean(1))
    >>> problem = ms.Problem(M, lambda x: (2 * x[0] ** 2 + x[1] ** 2).sum())
    >>> at = ms.solvers.evaluate(problem, (np.array([1.0]), np.array([3.0])))
    >>> dot = ms.solvers.inner_product(problem, at.x)
    >>> axes = [(np.array([1.0, 0.0]), np.array([4.0, 0.0])), (np.array([0.0, 1.0]), np.array([0.0, 2.0]))]
    >>> ms.solvers.two_loop(-at.grad, [ms.solvers.secant_pair(s, y, dot) for s, y in axes], dot).tolist()
    [-1.0, -3.0]
    """
    if not pairs:
        return initial(v) if initial is not None else v.copy() if diagonal is None else diagonal * v
    axis = axis_of(v)
    axpy, q, n = axis.axpy_of(v), v.copy(), v.size
    alphas = []
    # from the newest pair to the oldest: αᵢ = ⟨sᵢ, q⟩/⟨sᵢ, yᵢ⟩, q ← q − αᵢ yᵢ
    for s, y, sy, _ in reversed(pairs):
        alpha = dot(s, q) / sy
        alphas.append(alpha)
        axpy(y, q, n, -alpha)
    _, y, sy, scale = pairs[-1]
    # the first matrix γ P with ⟨y, γ P y⟩ = ⟨s, y⟩ for the newest pair
    curved = 0.0 if initial is None else dot(y, initial(y))
    if initial is not None and axis.all(curved > 0):
        q = axis.times(sy / curved, initial(q))
    else:
        q = axis.times(scale, q) if diagonal is None else diagonal * q
    # and back: q ← q + (αᵢ − ⟨yᵢ, q⟩/⟨sᵢ, yᵢ⟩) sᵢ
    for s, y, sy, _ in pairs:
        axpy(s, q, n, alphas.pop() - dot(y, q) / sy)
    return q


def _released(
    problem: Problem, at: Iterate, pairs: tuple[Pair, ...], held: np.ndarray, dot: Dot
) -> tuple[tuple[Pair, ...], np.ndarray]:
    """Return the pairs without the coordinates that a bound has come to hold, and which are held."""
    manifold, axis = problem.manifold, problem.axis
    # what bounds hold is among the zeros of the gradient
    if not manifold.bounded or (at.grad == 0).tobytes() == held.tobytes():
        return pairs, held
    mask = manifold.free(at.x, at.egrad)
    now = np.zeros(at.grad.shape, bool) if mask is None else ~axis.flatten(mask)
    still = now & ~held
    if not pairs or not still.any():
        return pairs, now
    kept: list[Pair] = []
    for s, y, *_ in pairs:
        pair = secant_pair(np.where(still, s.dtype.type(0), s), np.where(still, y.dtype.type(0), y), dot, kept)
        if pair is not None:
            kept.append(pair)
    return tuple(kept), now


def carrier(problem: Problem, at: Iterate, new: Iterate) -> Callable[[Vector], Vector]:
    """Return the function that transports a flat tangent vector to the new point, up to a normal part."""
    manifold, axis = problem.manifold, problem.axis
    if manifold.metric == "embedded":
        return _same
    tree = axis.tree(manifold.shape)
    return lambda v: axis.flatten(manifold.transport(at.x, new.x, tree(v)))


def _same(v: Vector) -> Vector:
    return v
