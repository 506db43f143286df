"""Expectation maximization on mini-batches, with running means of the sums."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from .._checks import check_number
from .._problem import Problem
from .._result import Evaluations, Measures, Point
from ..linalg import freeze
from ._base import Solver, whole_numbers
from ._em import check_updates, in_structure_of
from ._iterates import State

_FORGETTING = 0.6
"""Exponent of the weight of batch t in the running means; EM converges for (0.5, 1]."""


@dataclass(frozen=True)
class OnlineEM(Solver):
    """Expectation maximization on mini-batches with running means of the sums; a step is one pass over the rows.

    The objective of a step is the mean over its batches, each evaluated before the update. If one batch contains all
    rows, the objective of a step is the value at the new point.

    Parameters
    ----------
    batch_size : int
        Number of rows of a mini-batch.
    forgetting : float
        The exponent, in (0.5, 1]: batch t has the weight ``(t + 1) ** -forgetting`` in the running means.
    seed : int, optional
        The seed of the order of the rows; by default the seed of the run.

    References
    ----------
    Cappé, Moulines, JRSS B 71 (2009).
    """

    batch_size: int = 4096
    forgetting: float = _FORGETTING
    seed: int | None = None
    needs: ClassVar[tuple[str, ...]] = ("additive",)
    deterministic: ClassVar[bool] = False
    whole_pass: ClassVar[bool] = True

    def __post_init__(self) -> None:
        whole_numbers("OnlineEM", batch_size=self.batch_size)
        check_number("OnlineEM: forgetting", self.forgetting, 0.5, 1.0, open_=True)

    def seeded(self, seed: int) -> Solver:
        """Return the solver that draws from `seed`."""
        return self if self.seed is not None else replace(self, seed=seed)

    def init(self, problem: Problem[Point], point: Point) -> tuple[State, Measures]:
        """Return the state before the first pass."""
        fun = problem.objective.value(point)
        rng = np.random.default_rng(self.seed).bit_generator.state
        return {"x": point, "running": None, "batches": 0, "rng": rng}, Measures(fun)

    def step(self, problem: Problem, state: State) -> tuple[State, Measures]:
        """Return the state after a pass."""
        rng = np.random.Generator(np.random.PCG64())
        rng.bit_generator.state = state["rng"]
        additive: Any = problem.objective.additive  # the solver needs it
        x, batches = state["x"], state["batches"]
        N, running = additive.blocks.n, state["running"]
        count = -(-N // min(self.batch_size, N))
        total, seen = 0.0, 0.0
        for rows in np.array_split(rng.permutation(N), count):
            rows.sort()
            # one batch of all rows: the sums that the value at this point was made of
            sums = additive.sums(freeze(x)) if count == 1 else additive.batch(x, rows)
            if not sums.n:  # all weights are zero
                continue
            if isinstance(running, dict):
                running = type(sums)(**running)
            if count > 1:
                total, seen = total + additive.value(x, sums) * sums.n, seen + sums.n
            # what one pass has seen is never forgotten within it
            x, running = learned(additive, x, running, sums, max(share_of_batch(batches, self.forgetting), 1 / count))
            batches += 1
        fun = problem.objective.value(x) if count == 1 else total / seen
        new = {"x": x, "running": None if running is None else running.state(), "batches": batches}
        passes = Evaluations(nfev=float(count > 1))  # the batches of a pass are one evaluation
        return new | {"rng": rng.bit_generator.state}, Measures(fun, evaluations=passes)


def share_of_batch(batches: int, forgetting: float = _FORGETTING) -> float:
    """Return the weight of a batch in the running means of online EM, after a number of earlier batches.

    Examples
    --------
    >>> import manifoldseq as ms
    >>> [round(ms.solvers.share_of_batch(batches), 3) for batches in range(3)]
    [1.0, 0.66, 0.517]
    """
    return (batches + 1) ** -forgetting


def learned(additive: Any, x: Any, running: Any, sums: Any, share: float) -> tuple[Any, Any]:
    """Return the point after an update by the sums of a batch, and the running means of the sums at this point.

    Parameters
    ----------
    additive : Additive
    x : point
    running : Sums or None
        The running means at `x`, or None before the first batch.
    sums : Sums
        The sums of the batch, at `x`.
    share : float
        The weight of the batch in the new running means, see `share_of_batch`.
    """
    check_updates(additive, "online-em")
    means = sums.per_row()
    running = means if running is None else running.mixed(means, share)
    new = x
    if additive.damped:
        for update in additive.damped:
            # the derivative of a share r of the rows is noisier by r^-1/2, and is damped by as much
            new = update.apply(new, running, share**-0.5)
    else:
        for update in additive.plain:
            new = update.apply(new, running)
    new = in_structure_of(x, new)
    return new, running if additive.carry is None else additive.carry(x, new, running)
