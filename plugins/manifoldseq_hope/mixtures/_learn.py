"""From rows to a model: several starts, each learnt by one of the learners, the best by its likelihood."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

import manifoldseq as ms

from ..families._family import Array, Family
from ._em import EM, Data
from ._noise import Noise
from ._online import Online
from ._parameters import Model
from ._projection_factors import Rows
from ._seeding import projection, seeded

LEARNERS = ("online-em", "em")
"""What else is named is a solver of `manifoldseq.minimize`."""


@dataclass(frozen=True)
class Learnt:
    """What learning gave.

    Attributes
    ----------
    model : Model
    log_likelihood : float
        Mean of ln p over the rows, exact.
    n_iter : int
    history : dict of str to ndarray
    status : manifoldseq.Status
    """

    model: Model
    log_likelihood: float
    n_iter: int
    history: dict[str, Array]
    status: ms.Status

    @property
    def rank(self) -> tuple[bool, float]:
        """What orders starts: those that stayed finite come before those that did not."""
        finite = np.isfinite(self.log_likelihood)
        return finite and self.status is not ms.Status.NON_FINITE, self.log_likelihood if finite else -np.inf

    @classmethod
    def of(cls, model: Model, log_likelihood: float, run: Any) -> Self:
        """Return the outcome of a run; one whose likelihood is not finite has not converged, whatever ended it."""
        failed = not np.isfinite(log_likelihood) and run.status is not ms.Status.INTERRUPTED
        return cls(model, log_likelihood, run.nit, run.history, ms.Status.NON_FINITE if failed else run.status)


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
    batch_size, max_iter, n_init : int
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
    n_init: int
    tol: float

    def begin(self, data: Data, rng: np.random.Generator) -> Model:
        """Return a start."""
        if isinstance(self.init, str):
            U = projection(self.init, data.S, self.n_latent, rng)
        else:
            U = np.array(self.init, dtype=np.float64)
        return seeded(U, data.X, self.n_components, self.family, self.normalize_z, rng, data.weight)

    def learn(
        self,
        data: Data,
        rng: np.random.Generator,
        observers: Sequence[Any] = (),
        store: ms.storage.Checkpoint | None = None,
        resume: bool = False,
    ) -> Learnt:
        """Return the best of `n_init` starts."""
        best: Learnt | None = None
        interrupted = None
        for number, child in enumerate(rng.spawn(self.n_init)):
            where = store and store.child(f"start-{number}")
            found = self._once(data, child, {"observers": observers, "checkpoint": where, "resume": resume})
            if best is None or found.rank > best.rank:
                best = found
            if found.status is ms.Status.INTERRUPTED:
                interrupted = found.status
                break
        assert best is not None
        return replace(best, status=interrupted or best.status)

    def _once(self, data: Data, rng: np.random.Generator, loop: dict[str, Any]) -> Learnt:
        model, seed = self.begin(data, rng), int(rng.integers(2**31))
        stop = ms.CostChange(self.tol) | ms.MaxIterations(self.max_iter)
        if self.solver == "em" or (self.solver == "online-em" and len(data.X) <= self.batch_size):
            em = EM(data, model, self.noise, self.learn_projection)
            run = ms.iterate(em.step, em.start, stop=stop, **loop)
            found = model.at(run.state["x"])
            return Learnt.of(found, -run.measures.fun, run)
        if self.solver == "online-em":
            online = Online(data, model, self.noise, self.learn_projection, self.batch_size, seed)
            run = ms.iterate(online.step, online.start, stop=stop, **loop)
            found = model.at(run.state["x"])
            return Learnt.of(found, self.log_likelihood(found, data), run)
        return self._solved(data, model, seed, loop)

    def _solved(self, data: Data, model: Model, seed: int, loop: dict[str, Any]) -> Learnt:
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
        found = model.at(result.x)
        found = replace(found, parameters=tuple(np.asarray(part) for part in found.parameters))
        return Learnt.of(found, self.log_likelihood(found, data), result)

    def log_likelihood(self, model: Model, data: Data) -> float:
        """Return the mean of ln p over the rows."""
        found = data.statistics(model, False).log_likelihood
        rest = self.noise.log_likelihood(model.U, data.S, data.n) if self.noise else 0.0
        return (found + rest) / data.n
