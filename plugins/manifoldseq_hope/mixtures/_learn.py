"""From rows to a model: one start, by EM, by EM on mini-batches, or by a solver of the engine."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import manifoldseq as ms

from ..families._family import Family
from ._em import EM, Data
from ._noise import Noise
from ._online import Online
from ._parameters import Model
from ._projection_factors import Rows
from ._seeding import projection, seeded

LEARNERS = ("online-em", "em")
"""What else is named is a solver of `manifoldseq.minimize`."""


@dataclass(frozen=True)
class Learner:
    """Settings of learning.

    Attributes
    ----------
    family : Family
    normalize_z : bool
    n_latent, n_components : int
        M and K.
    init : {"pca", "random"} or ndarray of shape (M, D)
        Of the projection.
    noise : Noise or None
    learn_projection : bool
    solver : str
        One of `LEARNERS`, or the name of a solver.
    options : dict
        Of the solver.
    batch_size, max_iter : int
    tol : float
    """

    family: Family
    normalize_z: bool
    n_latent: int
    n_components: int
    init: Any
    noise: Noise | None
    learn_projection: bool
    solver: str
    options: dict[str, Any]
    batch_size: int
    max_iter: int
    tol: float

    def begin(self, data: Data, rng: np.random.Generator) -> Model:
        """Return a start."""
        if isinstance(self.init, str):
            U = projection(self.init, data.S, self.n_latent, rng)
        else:
            U = np.array(self.init, dtype=np.float64)
        return seeded(U, data.X, self.n_components, self.family, self.normalize_z, rng, data.weight)

    def start(self, data: Data, number: int, rng: np.random.Generator, **loop: Any) -> ms.Run:
        """Learn from one start; `fun` is minus the mean of ln p over the rows, exact, and ``state["x"]`` the point."""
        model, seed = self.begin(data, rng), int(rng.integers(2**31))
        stop = ms.CostChange(self.tol) | ms.MaxIterations(self.max_iter)
        if self.solver == "em" or (self.solver == "online-em" and data.X.shape[0] <= self.batch_size):
            em = EM(data, model, self.noise, self.learn_projection)
            return ms.iterate(em.step, em.start, stop=stop, **loop)
        if self.solver == "online-em":
            online = Online(data, model, self.noise, self.learn_projection, self.batch_size, seed)
            return self._exact(ms.iterate(online.step, online.start, stop=stop, **loop), data)
        return self._exact(self._solved(data, model, seed, loop), data)

    def _solved(self, data: Data, model: Model, seed: int, loop: dict[str, Any]) -> ms.Run:
        """Learn by a solver of the engine; `max_iter` counts passes over the rows."""
        from ._likelihood import problem_of

        solver = ms.get_solver(self.solver, **self.options)
        stop: Any = ms.CostChange(self.tol) | ms.MaxIterations(self.max_iter)
        if not solver.deterministic:
            size = getattr(solver, "batch_size", self.batch_size)
            stop = ms.MaxIterations(self.max_iter * -(-len(data.X) // size))
        problem = problem_of(data, Rows("orthonormal", self.noise or Noise(1.0)), model)
        start = model.point
        shapes = problem.manifold.shape
        tail = zip(start[2:], shapes[2:], strict=True)
        parts = [tuple(part) if shape and isinstance(shape[0], tuple) else part for part, shape in tail]
        x0 = (np.ascontiguousarray(start[0]), start[1], *parts)
        result = ms.minimize(problem, x0, solver=solver, stop=stop, seed=seed, project=True, **loop)
        found = (*result.x[:2], *map(np.asarray, result.x[2:]))
        return ms.Run({"x": found}, result.status, ms.Measures(result.fun), result.nit, result.time, result.history)

    def _exact(self, run: ms.Run, data: Data) -> ms.Run:
        """Return a run with the likelihood of all rows; one that is not finite has not converged, whatever ended it."""
        fun = -self.log_likelihood(self.at(run.state["x"]), data)
        failed = not np.isfinite(fun) and run.status is not ms.Status.INTERRUPTED
        return replace(run, measures=ms.Measures(fun), status=ms.Status.NON_FINITE if failed else run.status)

    def at(self, point: tuple[Any, ...]) -> Model:
        """Return the model at a point."""
        V, weights, *parameters = point
        return Model(np.asarray(V).T, np.asarray(weights), tuple(parameters), self.family, self.normalize_z)

    def log_likelihood(self, model: Model, data: Data) -> float:
        """Return the mean of ln p over the rows."""
        found = data.statistics(model, False).log_likelihood
        rest = self.noise.log_likelihood(model.U, data.S, data.n) if self.noise else 0.0
        return (found + rest) / data.n
