"""Checks of solvers."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .._iterate import iterate
from .._minimize import minimize
from .._problem import Problem
from .._result import Measures, Point, Run, Status, Steps
from .._stopping import GradientNorm, MaxIterations
from ..hooks import get_solver
from ..linalg import freeze, leaves, norm, tree_map
from ..manifolds import BoundedDiagonal, CanonicalLDS, Euclidean, Manifold, Product, Stiefel
from ..objectives import FiniteTerms, Objective, Traced
from ..solvers import Solver
from ..storage import Checkpoint
from ..storage._state import normalize
from ._points import at_boundary, copied, interior_point, same
from ._report import Examination, Report, Verdict, unless, within

_ITERATIONS = 6


def check_solver(
    solver: Solver | str, problems: Sequence[Problem] | None = None, *, iterations: int = 5000, seed: int = 0
) -> Report:
    """Check a solver: pure steps, valid states, correct measures, resuming, and solutions of small problems.

    Parameters
    ----------
    solver : Solver or str
        The solver with its options, or a registered name for the default options.
    problems : sequence of Problem, optional
        By default, five small problems: a problem without constraints, and problems with orthonormal columns, with
        active bounds, on a product, and over canonical systems. The solver need not solve the problems that are passed
        here.
    iterations : int
        The number of iterations within which the default problems must reach a relative gradient norm of 1e-6.
    seed : int

    Returns
    -------
    Report

    Raises
    ------
    TypeError, ValueError
        If it is not a solver, or needs a function that the objectives do not have.

    Examples
    --------
    >>> import manifoldseq as ms
    >>> print(ms.testing.check_solver("lbfgs").ok)
    True
    """
    if isinstance(solver, str):
        solver = get_solver(solver)
    if not isinstance(solver, Solver):
        raise TypeError(f"check_solver needs a ms.solvers.Solver or the name of one, got {type(solver).__name__}")
    rng = np.random.default_rng(seed)
    tasks = _examples(rng) if problems is None else [(p, interior_point(p.manifold, rng), None) for p in problems]
    exam = Examination(f"solver {solver!r}")
    for problem, x, minimum in tasks:
        lacking = [need for need in solver.needs if not getattr(problem.objective, need, None)]
        if lacking:
            raise ValueError(
                f"check_solver: {solver!r} needs {lacking}: pass problems=… whose objectives have these attributes"
            )
        case, where = _Case(solver, problem, freeze(x)), f"on {problem.manifold!r}: "
        if not exam.law(f"{where}init and step return valid states", case.grammar):
            continue
        exam.law(f"{where}a repeated step gives the same result and does not change the state", case.pure)
        exam.law(f"{where}measures agree with the objective", case.honest)
        exam.law(f"{where}a resumed run equals a run without an interrupt", case.resumes)
        if minimum is not None:
            exam.law(
                f"{where}solves the problem",
                lambda problem=problem, x=x, minimum=minimum: _solves(solver, problem, x, minimum, iterations),
            )
    return exam.report()


def lacking(solver: Solver) -> list[str]:
    """Return the functions of an objective that a solver needs and the default problems do not have."""
    f = _examples(np.random.default_rng(0))[0][0].objective
    return [need for need in solver.needs if not getattr(f, need, None)]


@dataclass(frozen=True)
class _Case:
    solver: Solver
    problem: Problem
    x: Any

    def __post_init__(self) -> None:
        object.__setattr__(self, "solver", self.solver.until(MaxIterations(_ITERATIONS), 0.0))

    def start(self, problem: Problem | None = None) -> tuple[Any, Measures]:
        counted = self._counted(problem)
        return self.solver.init(counted, self.x)

    def _counted(self, problem: Problem | None = None) -> Problem:
        problem = problem or self.problem
        return dataclasses.replace(problem, objective=at_boundary(problem.objective))

    def _step(self, problem: Problem, state: Any) -> tuple[Any, Measures]:
        """Take a step, which may be many iterations."""
        new, outcome = self.solver.step(problem, state)
        return new, outcome.last if isinstance(outcome, Steps) else outcome

    def grammar(self) -> Verdict:
        before, problem = copied(self.x), self._counted()
        state, measures = self.start()
        for nit in range(_ITERATIONS):
            state = normalize(state)
            if not isinstance(measures, Measures):
                return False, f"gave {type(measures).__name__} in place of Measures"
            if not isinstance(state, dict) or "x" not in state:
                return False, "the state has no point at state['x']"
            off = float(np.max(self.problem.manifold.feasibility(state["x"])))
            if not off <= 1e-8:
                return False, f"the point of iteration {nit} is off the manifold by {off:.2g}"
            state, measures = self._step(problem, state)
        return unless(None if same(before, copied(self.x)) else "the start was written into")

    def pure(self) -> Verdict:
        problem = self._counted()
        state, _ = self.start()
        for nit in range(_ITERATIONS):
            state = normalize(state)
            kept = _copy(state)
            first, second = (self._step(problem, state) for _ in range(2))
            if not same(kept, _copy(state)):
                return False, f"step {nit + 1} wrote into its state"
            if not same(_copy(normalize(first[0])), _copy(normalize(second[0]))):
                return False, f"step {nit + 1}, taken twice from one state, gave two states"
            if not same(_plain(first[1]), _plain(second[1])):
                return False, f"step {nit + 1}, taken twice from one state, gave two measures"
            state = first[0]
        return True, ""

    def honest(self) -> Verdict:
        problem, f, M = self._counted(), at_boundary(self.problem.objective), self.problem.manifold
        state, measures = self.start()
        for nit in range(_ITERATIONS):
            x = freeze(state["x"])
            if self.solver.deterministic:
                fun, egrad = f.value_and_gradient(x)  # type: ignore[misc]
                gradient = M.gradient(x, egrad)
                length = float(M.inner(x, gradient, gradient)) ** 0.5
                if not abs(fun - measures.fun) <= 1e-10 * max(1.0, abs(fun)):
                    return (
                        False,
                        f"iteration {nit}: measures.fun is {measures.fun:.10g}, but the objective is {fun:.10g}",
                    )
                if measures.grad_norm is not None and not abs(length - measures.grad_norm) <= 1e-8 * max(
                    1, norm(egrad)
                ):
                    return (
                        False,
                        f"iteration {nit}: grad_norm is {measures.grad_norm:.6g}, but the norm is {length:.6g}",
                    )
            last = measures
            state, measures = self._step(problem, normalize(state))
            if self.solver.monotone and not measures.fun <= last.fun + 1e-12 * max(1.0, abs(last.fun)):
                return False, f"step {nit + 1} raised the objective, and the solver claims to be monotone"
        return True, ""

    def resumes(self) -> Verdict:
        calls, whole = self._run(None, None)
        first = self._calls_of_init()
        with tempfile.TemporaryDirectory() as folder:
            for k in range(first, calls):
                directory = Path(folder) / str(k)
                _, part = self._run(directory, k)
                if part.status is not Status.INTERRUPTED:
                    return False, f"an interrupt in evaluation {k + 1} ended the run with {part.status.name}"
                again = self._run(directory, None, resume=True)[1]
                columns = [name for name in whole.history if name != "time"]
                if not same(_copy(again.state), _copy(whole.state)):
                    return False, f"interrupted in evaluation {k + 1} and resumed, the last state differs"
                if again.status is not whole.status or not all(
                    same(again.history[name], whole.history[name]) for name in columns
                ):
                    return False, f"interrupted in evaluation {k + 1} and resumed, the history differs"
        return True, f"{calls - first} interrupts"

    def _calls_of_init(self) -> int:
        counter = _Interrupting(self.problem, None)
        self.start(counter.problem)
        return counter.calls

    def _run(self, directory: Path | None, interrupt: int | None, resume: bool = False) -> tuple[int, Run]:
        counter = _Interrupting(self.problem, interrupt)
        counted = self._counted(counter.problem)
        run = iterate(
            counter.watched(lambda state: self.solver.step(counted, state)),
            lambda: self.start(counter.problem),
            stop=MaxIterations(_ITERATIONS),
            checkpoint=None if directory is None else Checkpoint(directory, every_seconds=1e9),
            resume=resume,
        )
        return counter.calls, run


class _Interrupting:
    """A problem whose evaluation number `at` is interrupted as by Ctrl-C."""

    def __init__(self, problem: Problem, at: int | None) -> None:
        self.calls, self._at = 0, at
        f = problem.objective
        wrapped = {
            name: self.watched(getattr(f, name))
            for name in ("value", "value_and_gradient", "hessian_product")
            if getattr(f, name) is not None
        }
        if f.terms is not None:
            terms = f.terms
            wrapped["terms"] = FiniteTerms(terms.n, lambda i: _watched_batch(self, terms.batch(i)))
        self.problem = dataclasses.replace(problem, objective=dataclasses.replace(f, **wrapped))

    def watched(self, function: Any) -> Any:
        def watched(*args: Any) -> Any:
            self.calls += 1
            if self._at is not None and self.calls == self._at + 1:
                raise KeyboardInterrupt
            return function(*args)

        return watched


def _watched_batch(counter: _Interrupting, batch: Objective) -> Objective:
    names = [name for name in ("value", "value_and_gradient", "hessian_product") if getattr(batch, name) is not None]
    return dataclasses.replace(batch, **{name: counter.watched(getattr(batch, name)) for name in names})


def _copy(state: Any) -> Any:
    if isinstance(state, np.ndarray):
        return state.copy()
    if isinstance(state, tuple):
        return tuple(_copy(part) for part in state)
    return {key: _copy(part) for key, part in state.items()} if isinstance(state, dict) else state


def _plain(measures: Measures) -> Any:
    return {f.name: getattr(measures, f.name) for f in dataclasses.fields(measures)} | {"extra": dict(measures.extra)}


def _solves(solver: Solver, problem: Problem[Point], x: Point, minimum: float, iterations: int) -> Verdict:
    stop = GradientNorm(1e-6, relative=True) | MaxIterations(iterations)
    result = minimize(problem, copied(x), solver=solver, stop=stop, seed=0)
    first = float(result.history["fun"][0])
    if not solver.deterministic:
        return within((result.fun - minimum) / (first - minimum), 0.1)
    if not result.success:
        return False, f"{result!r}; the minimum is {minimum:.10g}"
    ok, text = within(abs(result.fun - minimum), 1e-6 * max(1.0, abs(minimum)))
    return ok, f"{text} after {result.nit} iterations"


def _examples(rng: np.random.Generator) -> list[tuple[Problem, Any, float]]:
    """Return small problems with a start and the minimum that is in reach of it."""
    S = np.diag(np.linspace(1.0, 2.5, 6))
    subspace = Stiefel(6, 2)
    found: list[tuple[Problem, Any, float]] = [
        (
            Problem(
                subspace,
                _with_terms(
                    lambda X: -float(np.sum(X * (S @ X))),
                    lambda X: -2 * S @ X,
                    lambda _, U: -2 * S @ U,
                    Traced(_trace, (S,)),
                ),
            ),
            subspace.random_point(rng),
            -float(np.trace(S[-2:, -2:])),
        )
    ]
    for manifold in (
        Euclidean(4),
        BoundedDiagonal(4, 0.5),
        Product(Stiefel(5, 2), Euclidean(3), names=("U", "b")),
        CanonicalLDS(5, 2),
    ):
        target = tree_map(lambda leaf: 1.3 * leaf + 0.05 * rng.standard_normal(leaf.shape), manifold.random_point(rng))
        found.append(_nearest_point(manifold, target, rng))
    return found


def _nearest_point(manifold: Manifold, target: Any, rng: np.random.Generator) -> tuple[Problem, Any, float]:
    """Return the problem of the point nearest to `target`, started not far from it."""

    def value(x: Point) -> float:
        return 0.5 * norm(tree_map(np.subtract, x, target)) ** 2

    traced = Traced(_half_square, (target,))
    f = _with_terms(value, lambda x: tree_map(np.subtract, x, target), lambda x, u: u, traced)
    best = manifold.nearest(target)
    x = manifold.retract(best, tree_map(lambda leaf: 0.2 * leaf, manifold.random_tangent(best, rng)))
    return Problem(manifold, f), x, value(best)


def _trace(X: Any, S: Any) -> Any:
    return -(X * (S @ X)).sum()


def _half_square(x: Any, target: Any) -> Any:
    return 0.5 * sum(((a - b) ** 2).sum() for a, b in zip(leaves(x), leaves(target), strict=True))


def _with_terms(value: Any, gradient: Any, hessian_product: Any, traced: Traced) -> Objective:
    """Return an objective with every ability of a solver's needs; its terms are four equal shares."""
    f = Objective(value, lambda x: (value(x), gradient(x)), hessian_product)
    return dataclasses.replace(f, terms=FiniteTerms(4, lambda indices: f), traced=traced)
