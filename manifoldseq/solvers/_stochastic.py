"""The base class of stochastic solvers: batches in seeded order, gradient clipping, averaging of iterates."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from .._checks import check_optional, check_whole
from .._problem import Problem
from .._result import Measures, Point
from ..linalg import flatten, norm, tree_map
from ._around import known, multiplied, times
from ._base import Solver, positive_numbers, whole_numbers
from ._batches import MiniBatches
from ._iterates import Iterate, State, evaluate
from ._saddle import krylov
from ._schedules import InverseTime, Schedule, rate_at

EPOCHS, STEPS = 10, 100
"""Number of epochs, and minimum number of steps, after which an automatic rate is half of the first."""


@dataclass(frozen=True, kw_only=True)
class Stochastic(Solver):
    """A solver that moves along the gradient of a mini-batch; a subclass implements :meth:`begin` and :meth:`move`.

    Every epoch visits all data once, in an order drawn from the generator in the state. The measures of a step are
    estimates from its batch, at the start of the step. Record 0 is exact. The result of ``minimize`` is exact too,
    because the last (or averaged) point is evaluated on all data.

    Parameters
    ----------
    step_size, batch_size, clip, average_from, retraction, seed
        As in :class:`SGD`.

    Attributes
    ----------
    chooses : bool
        Whether a step is the rate times a gradient, so that ``step_size=None`` can choose the rate by
        :meth:`first_rate`.

    Examples
    --------
    A solver with steps of a fixed length:

    >>> import dataclasses, numpy as np, manifoldseq as ms
    >>> @dataclasses.dataclass(frozen=True, kw_only=True)
    ... class Normalized(ms.solvers.Stochastic):
    ...     def begin(self, problem, x):
    ...         return {}
    ...     def move(self, problem, at, memory, rate, k):
    ...         step = -rate / max(at.grad_norm, 1e-12) * at.grad
    ...         return problem.manifold.retract(at.x, ms.linalg.unflattener(at.x)(step)), memory
    >>> M = ms.manifolds.Product(ms.manifolds.Sphere(2), ms.manifolds.Euclidean(1))
    >>> f = ms.finite_sum(lambda x, i: ((x[1] - i[:, None]) ** 2).sum() + 9 * x[0][0], n=9)
    >>> problem, solver = ms.Problem(M, f), Normalized(step_size=ms.solvers.Cosine(1.0, steps=100), batch_size=9)
    >>> start = np.array([0.0, 1.0]), np.zeros(1)
    >>> x = ms.minimize(problem, start, solver=solver, stop=ms.MaxIterations(100), seed=0).x
    >>> round(float(x[0][0]), 2), round(float(x[1][0]), 2)
    (-1.0, 4.0)
    """

    step_size: float | Schedule | None
    batch_size: int = 32
    clip: float | None = None
    average_from: int | None = None
    retraction: str | None = None
    seed: int | None = None
    needs: ClassVar[tuple[str, ...]] = ("value_and_gradient", "terms")
    deterministic: ClassVar[bool] = False
    chooses: ClassVar[bool] = False

    def __post_init__(self) -> None:
        name = type(self).__name__
        whole_numbers(name, batch_size=self.batch_size)
        if not isinstance(self.step_size, Schedule) and not (self.step_size is None and self.chooses):
            positive_numbers(name, step_size=self.step_size)
        if self.clip is not None:
            positive_numbers(name, clip=self.clip)
        for option in ("average_from", "seed"):
            check_optional(f"{name}: {option}", getattr(self, option), check_whole, 0)

    @property
    def monotone(self) -> bool:
        return False

    @abstractmethod
    def begin(self, problem: Problem[Point], x: Point) -> State:
        """Return the memory of :meth:`move` at the start."""

    @abstractmethod
    def move(self, problem: Problem[Point], at: Iterate, memory: State, rate: float, k: int) -> tuple[Point, State]:
        """Return the next point and memory.

        Parameters
        ----------
        problem : Problem
            The problem of all data.
        at : Iterate
            The clipped gradient of the batch, at the point of iteration `k`.
        memory : dict
            The return value of :meth:`begin` or of the last move.
        rate : float
            The step size of this iteration.
        k : int
            The number of earlier iterations.
        """

    @property
    def measured(self) -> bool:
        """Whether the rate is chosen in the first step, by :meth:`first_rate`."""
        return self.step_size is None

    def first_rate(self, problem: Problem, at: Iterate) -> float:
        """Return half the inverse of the largest curvature, by Lanczos steps from a random vector.

        The first step is at most as long as the scale of the point, because the curvature may be larger at larger
        distances.

        Parameters
        ----------
        problem : Problem
            The problem of the first batch, scaled to the whole sum.
        at : Iterate
            The iterate of the same batch, at the start.
        """
        manifold = problem.manifold
        size = norm(at.egrad)
        # in a unit in which the gradient is about 1, so that the objective may have any scale
        unit = math.ldexp(1.0, -math.frexp(size)[1]) if 0 < size < math.inf else 1.0
        there = evaluate(known(problem, at.fun * unit, times(unit, at.egrad)), at.x)
        v = flatten(manifold.random_tangent(at.x, np.random.default_rng(0)))
        _, H, *_ = krylov(multiplied(problem, unit), there, v, 5, None)
        curvature = float(np.abs(np.linalg.eigvalsh(H)).max()) if H.size and np.isfinite(H).all() else 0.0
        steepest = there.grad_norm / (float(manifold.scale(at.x)) or 1.0)
        largest = max(curvature, 0.5 * steepest if math.isfinite(steepest) else 0.0)
        return 0.5 * unit / largest if largest > 0 else 1.0

    def columns(self, problem: Problem, at: Iterate) -> Mapping[str, float]:
        """Return further columns of the history at an iterate; by default none."""
        return {}

    def seeded(self, seed: int) -> Solver:
        """Return the solver with this seed, unless its options contain a seed."""
        return self if self.seed is not None else replace(self, seed=seed)

    def init(self, problem: Problem[Point], point: Point) -> tuple[State, Measures]:
        """Return the state before the first epoch, with one evaluation on all data."""
        terms = problem.objective.terms
        assert terms is not None  # one of the needs
        state = {"x": point, "nit": 0, "memory": self.begin(problem, point), "mean": None, "rate": None}
        at = evaluate(problem, point)
        measures = at.at_boundary(problem.manifold, at.measures(problem.manifold))
        measures = replace(measures, extra=self.columns(problem, at))
        return {**state, **MiniBatches(self.batch_size).start(self.seed)}, measures

    def step(self, problem: Problem, state: State) -> tuple[State, Measures]:
        """Draw a batch and move along its gradient."""
        terms = problem.objective.terms
        assert terms is not None
        indices, drawn = MiniBatches(self.batch_size).draw(state, terms.n)
        batch = replace(problem, objective=terms.batch(indices))
        at = evaluate(batch, state["x"])
        k: int = state["nit"]
        first = state["rate"]
        if first is None:
            first = self.first_rate(batch, at) if self.measured else 1.0
        schedule = self.step_size
        if schedule is None:
            delay = max(STEPS, EPOCHS * math.ceil(terms.n / self.batch_size))
            schedule = InverseTime(1.0, delay) if self.measured else 1.0
        x, memory = self.move(problem, self._clipped(at), state["memory"], first * rate_at(schedule, k), k)
        change = flatten(x) - flatten(at.x)
        length = float(np.dot(change, change)) ** 0.5
        if not math.isfinite(length):
            return state, Measures(math.nan)
        # without scale and boundary: the answer is judged by exact measures
        measures = Measures(at.fun, at.grad_norm, None, length, at.egrad_norm, extra=self.columns(problem, at))
        more = {"x": x, "nit": k + 1, "memory": memory, "mean": self._mean(state["mean"], x, k), "rate": first}
        return {**state, **drawn, **more}, measures

    def answer(self, problem: Problem[Point], state: State) -> Point:
        """Return the last point, or the point nearest to the mean of the points from ``average_from`` on."""
        return state["x"] if state["mean"] is None else problem.manifold.nearest(state["mean"])

    def _clipped(self, at: Iterate) -> Iterate:
        if self.clip is None or at.grad_norm <= self.clip:
            return at
        share = self.clip / at.grad_norm
        egrad = tree_map(lambda leaf: leaf * leaf.dtype.type(share), at.egrad)
        return at._replace(grad=at.grad * at.grad.dtype.type(share), grad_norm=self.clip, egrad=egrad)

    def _mean(self, mean: Point | None, x: Point, k: int) -> Point | None:
        if self.average_from is None or k < self.average_from:
            return None
        if mean is None:
            return x
        # the running mean in ambient coordinates; `answer` takes it back to the manifold
        share = 1.0 / (k - self.average_from + 1)
        return tree_map(lambda a, b: a + a.dtype.type(share) * (b - a), mean, x)
