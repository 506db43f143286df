"""Projected gradient descent on mini-batches: the stochastic version of Algorithm 1 of the LDS paper."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from .._problem import Problem
from .._result import Point
from ._iterates import Iterate, State
from ._schedules import Schedule
from ._stochastic import Stochastic


@dataclass(frozen=True, kw_only=True)
class StochasticPGD(Stochastic):
    """Steps of :class:`PGD` on mini-batches of a sum over data: Cayley and bound-normalized updates at given rates.

    This is the stochastic version of Algorithm 1 of "Efficient Optimization for Linear Dynamical Systems" (2017). Each
    step moves every factor along its ``descent_curve`` for the gradient of one batch, scaled to the whole sum. The
    objective must have ``terms``. There is no line search.

    Parameters
    ----------
    step_size : float or Schedule, optional
        A factor of all rates, for example the schedule of the paper, ``Halving(1.0, every=10 * batches)``, which halves
        them every 10 epochs. The default is 1 if `rates` are given, and otherwise an :class:`InverseTime` with a delay
        of ten epochs, at least 100 steps.
    rates : float or sequence of float, optional
        The rate τ, one number or one per factor of a product; the paper has ``(0.1, 0.1, 1.0)`` for (λ, V, U). By
        default, the first step chooses one number: ``1/2L`` with the largest curvature L of the first batch.
    batch_size : int
        The number of data per step. Every epoch visits all data once, in seeded order; PGD-128 of the paper uses 128.
    clip, average_from, retraction, seed
        As in :class:`SGD`; the retraction is not used.

    Examples
    --------
    >>> import numpy as np, manifoldseq as ms
    >>> f = ms.finite_sum(lambda x, i: ((x - 1.0) ** 2).sum() * len(i) / 8, n=8)
    >>> problem = ms.Problem(ms.manifolds.BoundedDiagonal(2, 0.5), f)
    >>> solver = ms.solvers.StochasticPGD(rates=0.4, batch_size=2)
    >>> ms.minimize(problem, np.zeros(2), solver=solver, stop=ms.MaxIterations(8), seed=0).x.tolist()
    [0.5, 0.5]
    """

    step_size: float | Schedule | None = None
    rates: float | Sequence[float] | None = None
    batch_size: int = 128
    chooses: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        rates = np.atleast_1d(1.0 if self.rates is None else self.rates)
        if rates.ndim != 1 or rates.dtype.kind not in "fiu" or not np.all(np.isfinite(rates) & (rates > 0)):
            raise ValueError(f"StochasticPGD(rates={self.rates!r}): pass a positive number, or one per factor")

    @property
    def measured(self) -> bool:
        return self.rates is None

    def begin(self, problem: Problem[Point], x: Point) -> State:
        """Validate the number of rates; there is no memory."""
        size, factors = np.size(1.0 if self.rates is None else self.rates), len(x) if isinstance(x, tuple) else 1
        if size not in (1, factors):
            raise ValueError(
                f"StochasticPGD(rates={self.rates!r}) has {size} rates, but the point has {factors} factor(s)"
            )
        return {}

    def move(self, problem: Problem[Point], at: Iterate, memory: State, rate: float, k: int) -> tuple[Point, State]:
        """Move every factor along its descent curve."""
        steps = rate * np.atleast_1d(1.0 if self.rates is None else self.rates)
        curve = problem.manifold.descent_curve(at.x, at.egrad)
        return curve(float(steps[0]) if steps.size == 1 else steps.tolist()), memory
