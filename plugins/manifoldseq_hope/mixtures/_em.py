"""Expectation maximization over all rows: the mixture in closed form, the projection by a backtracked polar step."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

import manifoldseq as ms

from ..families._family import Array
from ._expectation import Expectation
from ._noise import Noise
from ._parameters import Model, Statistics

State = dict[str, Any]
"""``x``: `Model.point`; ``statistics`` at it; ``damping``: c of the polar step, relative to its first value."""

_TRIALS = 4
"""Polar steps, each damped more, before a step of EM alone."""
_RELAXED = 0.7


@dataclass(frozen=True)
class Data:
    """Rows with what their likelihood needs besides a sweep.

    Attributes
    ----------
    X : ndarray of shape (N, D), or csr_array
    weight : ndarray of shape (N,) or None
    S : ndarray of shape (D, D) or Gram
        X' X, weighted.
    n : float
        Sum of the weights.
    whole : (ndarray, float) or None
        Of a batch: S and n of all rows.
    """

    X: Any
    weight: Array | None
    S: Any
    n: float
    whole: tuple[Array, float] | None = None

    def statistics(self, model: Model, slope: bool = True) -> Statistics:
        """Return the statistics of all rows."""
        return Expectation(model, self.X.dtype).statistics(self.X, self.weight, slope)


def maximized(model: Model, statistics: Statistics) -> Model:
    """Return the model with the likeliest mixture for these statistics: the M-step."""
    parameters = model.family.maximize(statistics.sums, statistics.counts, model.M)
    weights = statistics.counts / statistics.counts.sum()
    return Model(model.U, weights, parameters, model.family, model.normalize_z)


def turned(model: Model, statistics: Statistics, U: Array) -> Model:
    """Return the model at another projection, with the likeliest mixture for the statistics turned along with it."""
    # the rotation of the coordinates z that the new rows come nearest to, so that components keep their places
    R = ms.linalg.polar(U @ model.U.T)
    sums = model.family.rotate(statistics.sums, statistics.counts, R)
    moved = Statistics(statistics.n, statistics.counts, sums, None, statistics.log_likelihood)
    return maximized(Model(U, model.weights, model.parameters, model.family, model.normalize_z), moved)


def polar_step(U: Array, slope: Array, signal: Array, damping: float) -> Array:
    """Return the maximizer over orthonormal rows of a linear minorant: polar(g1 + g2 + c U)."""
    return ms.linalg.polar((slope + signal + damping * U).T).T


@dataclass(frozen=True)
class EM:
    """Full-batch learning of one problem as a pure step; no step lowers the likelihood.

    Attributes
    ----------
    data : Data
    model : Model
        Where it starts, and of which kind points are.
    noise : Noise or None
        None: there is no residual, U is a fixed rotation.
    learn_projection : bool
    """

    data: Data
    model: Model
    noise: Noise | None
    learn_projection: bool

    def start(self) -> tuple[State, ms.Measures]:
        """Return the first state and its measures."""
        statistics = self.data.statistics(self.model, self.learn_projection)
        return self._state(self.model, statistics, 1.0), self._measures(self.model, statistics, 1)

    def step(self, state: State) -> tuple[State, ms.Measures]:
        """Return the state of a likelier model."""
        old, before = self.model.at(state["x"]), statistics_from(state["statistics"])
        value, damping, calls = self.value(old, before), state["damping"], 0
        if self.learn_projection and before.slope is not None:
            # g1 is the derivative of the mean of L1 (34), g2 = U S / (n sigma²) that of the signal part of L2 (22),
            # which is convex in U: polar(g1 + g2 + c U) maximizes its linear minorant with a damping c, in units of
            # |g1|
            n = self.data.n
            slope = before.slope / n
            variance = self._variance(old.U)
            signal = old.U @ self.data.S / (n * variance) if self.noise else 0.0 * slope
            scale = max(float(np.linalg.norm(slope, 2)), 1e-12)
            found: list[tuple[Model, Statistics, float]] = []

            def lost(t: float) -> float:
                """Minus the log-likelihood after a polar step, the mixture in closed form along with it."""
                model = turned(old, before, polar_step(old.U, slope, signal, 1 / t))
                statistics = self.data.statistics(model)
                found.append((model, statistics, self.value(model, statistics)))
                return -found[-1][2] / n

            first = 1 / (damping * scale)
            t = ms.solvers.backtrack(lost, -value / n, first=first, max_trials=_TRIALS)
            calls = len(found)
            model, statistics, reached = found[-1]
            if t is not None and reached >= value:
                state = self._state(model, statistics, _RELAXED * damping * first / t)
                return state, self._measures(model, statistics, calls)
            damping *= 2**_TRIALS
        # the M-step alone never lowers the likelihood, but for rounding
        model = maximized(old, before)
        statistics = self.data.statistics(model, self.learn_projection)
        if -np.inf < self.value(model, statistics) < value:  # rounding: nothing is left to gain
            return state, self._measures(old, before, calls + 1, ms.Status.ROUNDING_LEVEL)
        return self._state(model, statistics, damping), self._measures(model, statistics, calls + 1)

    def value(self, model: Model, statistics: Statistics) -> float:
        """Return the log-likelihood (11) with all constants."""
        return statistics.log_likelihood + (self._rest(model.U) if self.learn_projection else self._fixed_rest)

    @cached_property
    def _fixed_rest(self) -> float:
        return self._rest(self.model.U)

    def _rest(self, U: Array) -> float:
        return self.noise.log_likelihood(U, self.data.S, self.data.n) if self.noise else 0.0

    def _variance(self, U: Array) -> float:
        return self.noise.variance(U, self.data.S, self.data.n) if self.noise else 1.0

    def _state(self, model: Model, statistics: Statistics, damping: float) -> State:
        parts = {"n": statistics.n, "counts": statistics.counts, "sums": statistics.sums}
        parts |= {"slope": statistics.slope, "log_likelihood": statistics.log_likelihood}
        return {"x": model.point, "statistics": parts, "damping": float(damping)}

    def _measures(
        self, model: Model, statistics: Statistics, calls: int, status: ms.Status | None = None
    ) -> ms.Measures:
        fun = -self.value(model, statistics) / self.data.n
        return ms.Measures(fun, evaluations=ms.Evaluations(nfev=calls), status=status)


def statistics_from(parts: dict[str, Any]) -> Statistics:
    """Return the statistics that a state holds."""
    return Statistics(**parts)
