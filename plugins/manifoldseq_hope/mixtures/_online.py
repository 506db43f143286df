"""Expectation maximization over mini-batches: running statistics that turn with the projection."""

from dataclasses import dataclass
from typing import Any

import numpy as np

import manifoldseq as ms

from ..families._family import Array
from ._em import Data, maximized, polar_step, turned
from ._expectation import Expectation
from ._noise import Noise
from ._parameters import Model, Statistics

State = dict[str, Any]
"""``x``: `Model.point`; ``counts`` and ``sums``: means over the rows, running; ``batches`` seen; ``rng``."""

_FORGETTING = 0.6
"""Batch t counts with (t + 1)^-0.6 of everything seen until then (Cappé and Moulines 2009)."""


@dataclass(frozen=True)
class Running:
    """A model and the running statistics behind it, per row.

    Attributes
    ----------
    model : Model
    counts : ndarray of shape (K,)
    sums : ndarray of shape (K, F)
    batches : int
    """

    model: Model
    counts: Array
    sums: Array
    batches: int

    @classmethod
    def initial(cls, model: Model) -> "Running":
        """Return a start that knows no rows; its first batch replaces everything."""
        K = model.n_components
        F = model.family.statistics(np.zeros((1, model.M))).shape[1]
        return cls(model, np.zeros(K), np.zeros((K, F)), 0)

    def after(self, batch: Statistics, least: float, signal: Array | None) -> "Running":
        """Return the model after a batch: statistics mixed in, mixture in closed form, projection by a polar step.

        Parameters
        ----------
        batch : Statistics
            At this model.
        least : float
            The least share of a batch.
        signal : ndarray of shape (M, D) or None
            U S / (N sigma^2), the pull of the residual; None keeps the projection.
        """
        share = max((self.batches + 1) ** -_FORGETTING, least)
        # running means per row, s <- (1 - r) s + r s_batch with r_t = (t + 1)^-0.6
        counts = self.counts + share * (batch.counts / batch.n - self.counts)
        sums = self.sums + share * (batch.sums / batch.n - self.sums)
        mixed = Statistics(1.0, counts, sums, None, 0.0)
        if signal is None or batch.slope is None:
            model = maximized(self.model, mixed)
        else:
            slope = batch.slope / batch.n
            # a batch sees a share r of the rows: its derivative is noisier by r^-1/2, and is damped by as much
            damping = max(float(np.linalg.norm(slope, 2)), 1e-12) * share**-0.5
            U = polar_step(self.model.U, slope, signal, damping)
            model = turned(self.model, mixed, U)
            R = ms.linalg.polar(U @ self.model.U.T)
            sums = self.model.family.rotate(sums, counts, R)
        return Running(model, counts, sums, self.batches + 1)


@dataclass(frozen=True)
class Online:
    """Mini-batch learning of one problem; a step is one pass over the rows, in seeded order.

    Attributes
    ----------
    data : Data
    model : Model
        Where it starts.
    noise : Noise or None
    learn_projection : bool
    batch_size : int
    seed : int
    """

    data: Data
    model: Model
    noise: Noise | None
    learn_projection: bool
    batch_size: int
    seed: int

    def start(self) -> tuple[State, ms.Measures]:
        """Return the first state, and exact measures of it."""
        running = Running.initial(self.model)
        found = self.data.statistics(self.model, False)
        rest = self.noise.log_likelihood(self.model.U, self.data.S, self.data.n) if self.noise else 0.0
        fun = -(found.log_likelihood + rest) / self.data.n
        return self._state(running, np.random.default_rng(self.seed)), ms.Measures(fun, evaluations=_one(1.0))

    def step(self, state: State) -> tuple[State, ms.Measures]:
        """Return the state after one pass; the measures are means over its batches, each before it was learnt from."""
        rng = np.random.Generator(np.random.PCG64())
        rng.bit_generator.state = state["rng"]
        data, N = self.data, self.data.X.shape[0]
        order = rng.permutation(N)
        size = min(self.batch_size, N)
        count = -(-N // size)
        running = Running(self.model.at(state["x"]), state["counts"], state["sums"], state["batches"])
        total = 0.0
        for rows in np.array_split(order, count):
            rows.sort()
            X, weight = data.X[rows], None if data.weight is None else data.weight[rows]
            if weight is not None and not weight.any():
                continue
            U = running.model.U
            batch = Expectation(running.model, X.dtype).statistics(X, weight, self.learn_projection)
            rest, signal = 0.0, None
            if self.noise is not None:
                rest = self.noise.log_likelihood(U, data.S, data.n) / data.n
                signal = U @ data.S / (data.n * self.noise.variance(U, data.S, data.n))
            elif self.learn_projection:
                signal = np.zeros_like(U)
            total += batch.log_likelihood + rest * batch.n
            running = running.after(batch, 1 / count, signal if self.learn_projection else None)
        return self._state(running, rng), ms.Measures(-total / data.n, evaluations=_one(1.0))

    def _state(self, running: Running, rng: np.random.Generator) -> State:
        parts = {"x": running.model.point, "counts": running.counts, "sums": running.sums}
        return parts | {"batches": running.batches, "rng": rng.bit_generator.state}


def _one(calls: float) -> ms.Evaluations:
    return ms.Evaluations(nfev=calls)
