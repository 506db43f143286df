"""The base of estimators: a registered model, minimized by a registered solver from a registered initializer."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from .._minimize import minimize
from .._problem import Problem
from .._quoted import quoted
from .._result import Result, Run, Status
from .._start import begun, on_manifold, start_point
from .._stopping import CostChange, MaxIterations, StoppingRule
from ..estimators import fit_starts, random_generator
from ..hooks import ModelSpec, SolverSpec, get_model, get_record, get_solver, source_of, sources
from ..solvers import Solver, choose_solver
from ..storage import Checkpoint

Start = Callable[[Problem, np.random.Generator], Any]


class ModelEstimator(BaseEstimator):
    """Base of estimators that minimize a registered model; abstract.

    A subclass defines the parameters, converts its input to the data of the model (`_problem`), and sets attributes
    from the point that `_solved` returns. The base class uses its parameters ``n_init, max_iter, tol, random_state,
    n_jobs`` and ``verbose`` if they exist.

    Attributes
    ----------
    objective_ : float
        The smallest value of the cost of the model.
    n_iter_ : int
    history_ : dict of str to ndarray
        Columns of equal length, see `manifoldseq.Run`.
    status_ : manifoldseq.Status
    provenance_ : dict of str to str
        The plugins that provide the model, its initializer, its updates and the solver: ``"plugin:name version"``.

    Examples
    --------
    The mean of rows is the minimum of a model that is registered in this process:

    >>> import numpy as np, manifoldseq as ms
    >>> ms.register(ms.hooks.ModelSpec(
    ...     "centre", lambda X: X, manifold=lambda X: ms.manifolds.Euclidean(X.shape[1]),
    ...     value_and_gradient=lambda X, m: (0.5 * ((X - m) ** 2).sum(), (m - X).sum(axis=0))))
    >>> class Centre(ms.models.ModelEstimator):
    ...     def __init__(self, model="centre", random_state=None):
    ...         self.model, self.random_state = model, random_state
    ...     def fit(self, X, y=None):
    ...         self.mean_ = self._solved(self._problem(self.model, X), X).x
    ...         return self
    >>> Centre(random_state=0).fit(np.array([[1.0, 2.0], [3.0, 4.0]])).mean_.round(6).tolist()
    [2.0, 3.0]
    """

    def _forget(self, *names: str) -> None:
        """Delete the attributes of an earlier fit."""
        for name in names:
            vars(self).pop(name, None)

    def _problem(self, model: str | ModelSpec, data: Any, **params: Any) -> Problem:
        """Return the problem of a registered model for data."""
        return (get_model(model) if isinstance(model, str) else model).problem(data, **params)

    def _begun(self, problem: Problem, init: Any = None, rng: np.random.Generator | None = None) -> Any:
        """Return a point of an initializer (see `_solved`) on the manifold; `rng` comes from `random_state`."""
        return start_point(problem, init, rng or random_generator(getattr(self, "random_state", None)), project=True)

    def _solved(
        self,
        problem: Problem,
        *data: Any,
        init: str | Start | Any | None = None,
        solver: str = "",
        options: Mapping[str, Any] | None = None,
        n_starts: int | None = None,
        observers: Sequence[Any] = (),
        checkpoint: Checkpoint | str | Path | None = None,
        resume: bool = False,
    ) -> Result:
        """Return the best of the starts.

        Parameters
        ----------
        problem : Problem
            The problem of a registered model, see `_problem`.
        *data
            The data on which a state depends in addition to the parameters, for the fingerprint of checkpoints.
        init : str, callable, point or None
            An initializer by name, a function ``(problem, rng) -> point``, or a point; None for the first initializer.
        solver : str
            The name of a solver; "" for the default of the model, or for no solver if the initializer is exact.
        options : mapping, optional
            Options of the solver.
        n_starts, observers, checkpoint, resume
            As in `manifoldseq.estimators.fit_starts`.
        """
        spec, known = problem.data.spec, problem.initializers
        begin: Start | Any = next(iter(known), None) if init is None else init
        if isinstance(begin, str) and begin not in known:
            raise ValueError(
                f"init={quoted(begin)} is not an initializer of the model {spec.name!r}: use {_listed(known)}"
            )
        if not solver and isinstance(begin, str) and begin in spec.exact:
            self.provenance_ = provenance(spec, begin, "")
            rng = random_generator(getattr(self, "random_state", None))
            x, what = begun(problem, begin, rng, copy=False)
            best = _answered(problem, on_manifold(problem.manifold, x, what, project=False))
        else:
            solver = solver or choose_solver(problem)
            algorithm = get_solver(solver, **(options or {}))
            self.provenance_ = provenance(spec, begin, solver)
            stop = _rule(self, problem, algorithm)

            def run(number: int, rng: np.random.Generator, **loop: Any) -> Result:
                x0, _ = begun(problem, begin, rng, copy=False)
                seed = int(rng.integers(2**31))
                # mini-batches of EM are drawn from this very seed, not from a stream that `minimize` derives
                by = algorithm.seeded(seed) if "additive" in algorithm.needs else algorithm
                return minimize(problem, x0, solver=by, stop=stop, seed=seed, project=True, **loop)

            store = Checkpoint.at(checkpoint)
            store = store and replace(store, made_by=self.provenance_)
            loop: dict[str, Any] = {"observers": observers, "checkpoint": store, "resume": resume}
            best = fit_starts(self, run, *data, self.provenance_, n_starts=n_starts, **loop)
        self._ended(best)
        return best

    def _ended(self, best: Run | Result) -> None:
        """Store the status of the best run, and warn about a run that did not stay finite."""
        self.n_iter_, self.history_, self.status_, self.objective_ = best.nit, best.history, best.status, best.fun
        if best.status is Status.NON_FINITE:
            warnings.warn(
                f"the objective is not finite after {best.nit} iterations, so the fit ended without convergence: "
                "look for extreme values in the data, or lower n_components",
                stacklevel=5,
            )


def _rule(estimator: Any, problem: Problem, algorithm: Solver) -> StoppingRule | None:
    """Return the stopping rule of the parameters `tol` and `max_iter`, or None (the rule of `minimize`)."""
    if not hasattr(estimator, "tol"):
        return None
    if "terms" in algorithm.needs and problem.objective.terms is not None:  # an iteration is one batch
        batches = -(-problem.objective.terms.n // getattr(algorithm, "batch_size", 1))
        return MaxIterations(estimator.max_iter * batches)
    return CostChange(estimator.tol) | MaxIterations(estimator.max_iter)


def provenance(spec: ModelSpec, begin: Any, solver: str | None = None) -> dict[str, str]:
    """Return the plugins of the model, the initializer, the updates and the solver of a fit.

    A solver "" means that no solver is used; None means that the estimator applies the updates itself.
    """
    given_by = sources(spec)
    found = {"model": str(given_by[""])}
    if isinstance(begin, str):
        found["initializer"] = f"{begin} of {given_by[f'initializers {begin}']}"
    elif begin is not None:
        found["initializer"] = "given by the caller"
    if solver is None or (solver and get_record(SolverSpec, solver).needs == ("additive",)):
        found |= {f"update {name}": str(given_by[f"updates {name}"]) for name in spec.updates}
    if solver:
        found["solver"] = str(source_of(SolverSpec, solver))
    return found


def _answered(problem: Problem, x: Any) -> Result:
    """Return the result for a start that is the minimum, without a run."""
    began = time.perf_counter()
    fun = float(problem.objective.value(x))
    spent = time.perf_counter() - began
    history = {"nit": np.zeros(1, int), "time": np.array([spent]), "fun": np.array([fun]), "nfev": np.ones(1)}
    off = float(np.max(problem.manifold.feasibility(x)))
    return Result(x, fun, None, Status.CONVERGED, 0, 1, 0, 0, spent, off, history)


def _listed(names: Mapping[str, Any]) -> str:
    return " or ".join(map(repr, names)) or "a point: the model has no initializers"
