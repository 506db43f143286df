"""`minimize`: run a solver on a problem."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ._copies import with_parts
from ._iterate import Asks, confirmed, is_small
from ._observers import Observer
from ._problem import Problem
from ._quoted import quoted
from ._result import FEASIBLE, Evaluations, Measures, NotConverged, Point, Result, Run, Status, Steps
from ._start import drawn_from, searched, start_points, violation
from ._stopping import MaxIterations, PredictedDecrease, RunSoFar, Stop, StoppingRule, look_ahead, stopping_rule
from .estimators import marked, seed_fingerprint
from .estimators._starts import best_start
from .execution import one_blas_thread
from .hooks import get_solver
from .hooks import records as hook_records
from .linalg import dtype_of, freeze, norm, tree_map
from .manifolds import Manifold
from .objectives import Constraint, real_array
from .objectives._cost import NotANumber, number
from .objectives._counted import Counter
from .solvers import Solver, choose_solver
from .solvers._around import WithCurvature, in_range
from .solvers._claims import unclaimed_slope
from .solvers._iterates import evaluate
from .storage import Checkpoint

DECREASE = PredictedDecrease()
CLEAN, CLEAN_SINGLE = 1e-14, 1e-6
FAR_OUT = {np.dtype(t): float(np.finfo(t).max) ** 0.25 for t in (np.float32, np.float64)}
"""Norms of points beyond this value are a sign of an objective without a minimum."""


def minimize(
    problem: Problem[Point],
    x0: ArrayLike | tuple[Any, ...] | Result[Any] | None = None,
    *,
    solver: str | Solver = "auto",
    options: Mapping[str, Any] | None = None,
    stop: Stop | None = None,
    tol: float | None = None,
    max_iter: int | None = None,
    n_starts: int = 1,
    components: str | None = None,
    callback: Observer | None = None,
    observers: Sequence[Observer] = (),
    checkpoint: Checkpoint | str | Path | None = None,
    resume: bool = False,
    seed: int | np.random.Generator | None = None,
    raise_on_failure: bool = False,
    project: bool = False,
) -> Result[Point]:
    """Minimize an objective over a manifold.

    Parameters
    ----------
    problem : Problem
    x0 : point, Result, str or None
        A start, the result of another run (warm start), or the name of an initializer. With None, the run starts from
        the first initializer of the problem or, if there is none, from a random point. A given point is copied. A point
        that is off the manifold by more than 1e-6 raises ValueError, see `project`.
    solver : str or Solver
        A name listed by ``manifoldseq list solvers``, such as ``"lbfgs"`` or ``"pgd"``; by default the solver that
        :func:`manifoldseq.solvers.choose_solver` chooses for the problem, see ``result.solver``.
    options : mapping, optional
        Options of a solver that is not given as an object.
    stop : StoppingRule or callable, optional
        Replaces the default ``PredictedDecrease(tol) | MaxIterations(max_iter)``: a rule, or a function of a
        :class:`RunSoFar`.
    tol : float, optional
        The tolerance of the default rule: the predicted further decrease, relative to the objective. The default is
        1e-10.
    max_iter : int, optional
        The maximum number of iterations, in addition to the rule. The default is 1000 if `stop` is not given.
    n_starts : int
        The number of independent runs: the first starts from `x0`, the others from random points. The best result is
        returned. Its counts of evaluations are sums over all runs.
    components : {"all"}, optional
        Start in every connected component of the manifold. On ``Orthogonal(n)`` and square ``Stiefel(n, n)``, which
        have two components, this is the default if no start is given. On other manifolds, products and powers, the
        message of the result says that only the component of the start was searched.
    callback : callable, optional
        An additional observer: ``callback(event)`` is called for each iterate, see :class:`Event`. A callback cannot
        end a run: its return value is ignored, and an exception that it raises becomes a warning.
    observers : sequence of callables
        Each observer is called with an event for each iterate.
    checkpoint, resume
        See :func:`manifoldseq.iterate`. A checkpoint of another manifold, solver, objective or seed raises an error.
        Manifolds and solvers are compared by their descriptions, objectives by their values at one fixed point, and
        generators by their states.
    seed : int or numpy.random.Generator, optional
        The seed of initializers, random starts and stochastic solvers.
    raise_on_failure : bool
        Raise :class:`NotConverged` unless the run is successful.
    project : bool
        Start from ``manifold.nearest(x0)``, regardless of the distance between `x0` and the manifold.

    Returns
    -------
    Result

    Raises
    ------
    ValueError
        If the start is off the manifold or has the wrong shape, if a name is unknown, if the solver needs a function
        that the objective does not have, or if both `tol` and `stop` are given.
    NotConverged
        If `raise_on_failure` is True and the run was not successful.
    Exception
        Exceptions of the objective propagate after a checkpoint is written. Their attribute ``result`` is the
        :class:`Result` up to the exception.

    Notes
    -----
    Before a run ends with success, two further evaluations compare the objective with its gradient along a random
    tangent vector (more evaluations if the comparison fails). If the gradient contradicts the objective, the run ends
    with NO_DECREASE.

    Runs from points of fewer than 500,000 entries use one BLAS thread, because several threads slow down operations on
    small matrices, especially if other processes use the cores. A cost with much data can use more threads if their
    number is set inside a block: ``with ms.execution.one_blas_thread(), threadpoolctl.threadpool_limits(4):
    ms.minimize(…)``.

    Examples
    --------
    The nearest matrix with orthonormal columns (orthogonal Procrustes):

    >>> import numpy as np, manifoldseq as ms
    >>> A = np.arange(6.0).reshape(3, 2) + np.eye(3, 2)
    >>> cost, gradient = lambda X: ((X - A) ** 2).sum(), lambda X: 2 * (X - A)
    >>> problem = ms.Problem(ms.manifolds.Stiefel(3, 2), cost, gradient=gradient)
    >>> result = ms.minimize(problem, tol=1e-12, max_iter=200, seed=0)
    >>> bool(np.allclose(result.x, ms.linalg.polar(A), atol=1e-6))
    True
    """
    if not isinstance(problem, Problem):
        raise TypeError(f"minimize needs a Problem(manifold, objective), got {type(problem).__name__}")
    asked = chosen_rule(stop, tol, max_iter)
    if isinstance(n_starts, bool) or not isinstance(n_starts, Integral) or n_starts < 1:
        raise ValueError(f"n_starts={quoted(n_starts)}: use a whole number ≥ 1")
    auto = isinstance(solver, str) and solver == "auto"
    name = choose_solver(problem) if auto else solver
    try:
        algorithm = _solver(problem, name, options)
    except ValueError as error:
        if auto and options:
            raise ValueError(
                f"{error} (solver='auto' chose this solver: name the solver that has these options)"
            ) from None
        raise
    called = name if isinstance(name, str) else type(algorithm).__name__
    drawn = "" if checkpoint is None else seed_fingerprint(seed)  # before anything is drawn
    rng = drawn_from(seed)
    reference = x0.reference or 0.0 if isinstance(x0, Result) else 0.0
    rule = _Referred(asked, reference)
    starts = start_points(problem, x0, int(n_starts), components, rng, project)
    drawing = type(algorithm).seeded is not Solver.seeded
    solvers = [algorithm.seeded(int(child.integers(2**63))) for child in rng().spawn(len(starts))] if drawing else None
    store = marked(checkpoint, lambda: (_manifold(problem, algorithm), *description(problem, algorithm, drawn)[1:]))
    tasks = [
        (
            point,
            component,
            (solvers[k] if solvers else algorithm).until(rule.rule, rule.reference),
            store.child(f"start-{k}") if store and len(starts) > 1 else store,
        )
        for k, (point, component) in enumerate(starts)
    ]

    def run(start: tuple[Point, int | None, Solver, Checkpoint | None], observers: Sequence[Observer]) -> Result:
        point, component, solver, where = start
        with one_blas_thread() if is_small({"x": point}) else nullcontext():
            return _single(problem, point, solver, called, rule, observers, where, resume, component)

    def rank(result: Result) -> tuple[Any, ...]:
        return result.status is Status.NON_FINITE, max(result.feasibility, FEASIBLE), result.fun

    best, results = best_start(run, tasks, with_callback(observers, callback), rank)
    if len(results) > 1:
        total = {key: sum(getattr(r, key) for r in results) for key in ("nfev", "njev", "nhev", "time")}
        best = with_parts(best, **total)
    if raise_on_failure and not best.success:
        raise NotConverged(best)
    return best


def chosen_rule(stop: Stop | None, tol: float | None, max_iter: int | None) -> StoppingRule:
    """Return the rule of a run from the arguments of the caller."""
    if stop is None:
        decrease = DECREASE if tol is None else PredictedDecrease(tol)
        return decrease | MaxIterations(1000 if max_iter is None else max_iter)
    if tol is not None:
        raise ValueError(
            f"tol={quoted(tol)} sets the default stopping rule and cannot be combined with stop=…: write "
            "stop=ms.PredictedDecrease(tol) | …"
        )
    rule = stopping_rule(stop)
    return rule if max_iter is None else rule | MaxIterations(max_iter)


def with_callback(observers: Sequence[Observer], callback: Observer | None) -> Sequence[Observer]:
    """Return the observers of a run, followed by its callback."""
    if callback is not None and not callable(callback):
        raise TypeError(f"callback={quoted(callback)}: pass a function of an event")
    return observers if callback is None else (*observers, callback)


def _manifold(problem: Problem, solver: Solver) -> Manifold:
    """Return the manifold for a solver: the manifold in its frame, if it has a frame that the solver supports."""
    return (problem.manifold.frame if solver.frames else None) or problem.manifold


def description(problem: Problem, solver: object, seed: str) -> tuple[Any, ...]:
    """Return the identity of a run for checkpoints: manifold, solver, seed, and the values at one fixed point."""
    point = freeze(problem.manifold.random_point(np.random.default_rng(0)))
    _check_constraints(problem, point)
    with np.errstate(all="ignore"):
        values = [number(problem.objective.value(point))]
        values += [float(np.sum(c.value(point))) for c in (*problem.equalities, *problem.inequalities)]
    return problem.manifold, solver, [f"{value:.6g}" for value in values], len(problem.equalities), seed


def _check_constraints(problem: Problem, point: Point) -> None:
    """Raise TypeError for a constraint that does not return real numbers; the message says which one."""
    for kind, constraints in (("equality", problem.equalities), ("inequality", problem.inequalities)):
        for i, constraint in enumerate(constraints):
            with np.errstate(all="ignore"):
                if isinstance(constraint, Constraint):
                    real_array(f"{kind} {i}", constraint.value(point))
                    continue
                try:
                    number(constraint.value(point))
                except NotANumber as error:
                    advice = ": pass the function itself, or ms.constraint(…)" if math.prod(error.shape) > 1 else ""
                    raise TypeError(
                        f"{kind} {i} of the problem returned {error.got}, but an Objective must return one real "
                        f"number{advice}"
                    ) from error


def _solver(problem: Problem, solver: str | Solver, options: Mapping[str, Any] | None) -> Solver:
    if options is not None and not isinstance(options, Mapping):
        raise TypeError(f"options={quoted(options)}: pass a dict of the solver's options, such as {{'memory': 5}}")
    if isinstance(solver, str):
        algorithm = get_solver(solver, **(options or {}))
    elif options:
        raise ValueError(
            f"options={quoted(dict(options))} can be used only with the name of a solver: pass the options to "
            f"{type(solver).__name__}(…) instead"
        )
    else:
        algorithm = solver
    if not isinstance(algorithm, Solver):
        raise TypeError(
            f"solver={quoted(solver)} is not a solver: use a name such as 'lbfgs' or an instance of ms.solvers.Solver"
        )
    if (problem.equalities or problem.inequalities) and not algorithm.constraints:
        able = [r.name for _, r in hook_records("solvers") if getattr(r, "constraints", False)]
        raise ValueError(
            f"the solver {type(algorithm).__name__} does not support constraints: use {' or '.join(map(repr, able))}, "
            "or "
            "add a penalty to the objective"
        )
    lacking = [name for name in algorithm.needs if not getattr(problem.objective, name, None)]
    if lacking:
        able = [
            r.name
            for _, r in hook_records("solvers")
            if all(getattr(problem.objective, need, None) for need in getattr(r, "needs", ()))
        ]
        others = f"solvers that work without it: {', '.join(able)}" if able else "no registered solver works without it"
        raise ValueError(
            f"the solver {type(algorithm).__name__} needs {' and '.join(lacking)}, which the objective does not have: "
            f"pass it to {'ms.least_squares(…)' if 'residuals' in lacking else 'ms.objective(…)'}; {others}"
        )
    return algorithm


def _single(
    problem: Problem[Point],
    point: Point,
    solver: Solver,
    called: str,
    stop: _Referred,
    observers: Sequence[Observer],
    checkpoint: Checkpoint | None,
    resume: bool,
    component: int | None,
) -> Result[Point]:
    counter = Counter()
    counted = with_parts(
        problem,
        manifold=_manifold(problem, solver),
        objective=counter.wrap(problem.objective),
    )
    keep_best = solver.deterministic and not solver.monotone
    solver = in_range(solver)
    gradients = counted.objective.value_and_gradient is not None and "value_and_gradient" in solver.needs
    if solver.deterministic and not solver.curvature and gradients:
        solver = WithCurvature(solver)

    def spent(measures: Measures) -> Evaluations:
        taken = counter.take()
        return measures.evaluations.plus(taken) if solver.whole_pass or solver.counts else taken

    def start() -> tuple[Any, Measures]:
        _check_constraints(problem, point)
        state, measures = solver.init(counted, point)
        if keep_best:
            state = {**state, "best": None, "seen": measures.kept()}
        measures.evaluations = spent(measures)
        return state, measures

    def step(state: Any) -> tuple[Any, Measures | Steps]:
        new, measures = solver.step(counted, state)
        if isinstance(measures, Steps):  # the solver keeps the best point
            return new, dataclasses.replace(measures, evaluations=measures.evaluations.plus(counter.take()))
        return kept(state, new, measures)

    def kept(state: Any, new: Any, measures: Measures) -> tuple[Any, Measures]:
        measures.evaluations = spent(measures)
        if keep_best:  # "best" is None while the iterate itself is
            best, seen = state["best"], state["seen"]
            if best is not None or measures.feasibility is not None or measures.fun > seen[0]:
                before = Measures.of(seen)
                if best is None and _rank(measures.fun, measures.feasibility) > _rank(before.fun, before.feasibility):
                    best = _summary(state, before)
                elif best is not None and _rank(measures.fun, measures.feasibility) <= _rank(
                    best["fun"], best["feasibility"]
                ):
                    best = None
            new = {**new, "best": best, "seen": measures.kept()}
        return new, measures

    def sure(state: Any, so_far: RunSoFar) -> Measures:
        look = look_ahead(stop, so_far)
        measures = solver.confirm(counted, state, so_far.recent, look)
        return measures.with_evaluations(spent(measures))

    def verified(state: Any, now: Measures) -> Measures:
        slope = solver.unclaimed_slope(counted, state, now)
        return dataclasses.replace(now, unclaimed_slope=slope, evaluations=counter.take())

    def left(state: Any, negative: bool) -> tuple[Any, Measures] | None:
        lower = solver.leave(counted, state, negative)
        return lower and kept(state, *lower)

    look, verify = (sure if stop.looks_ahead else None), (verified if solver.deterministic else None)
    try:
        run = confirmed(
            step,
            start,
            None,
            Asks(look, verify, left, solver.informed),
            stop,
            observers,
            checkpoint,
            resume,
            solver.trusted,
        )
    except Exception as error:
        if isinstance(until := getattr(error, "run", None), Run):
            final = _final(until, keep_best)
            error.result = _result(problem, called, until, final, component, stop)  # type: ignore[attr-defined]
            error.add_note(
                f"iteration {until.nit + 1} raised this error; the attribute result of the error has the best earlier "
                "point"
            )
        raise
    if solver.deterministic:
        final = _final(run, keep_best)
    else:
        run, final = _on_all_data(counted, solver, run, stop, counter)
    return _result(problem, called, run, final, component, stop)


def _final(run: Run, kept_best: bool) -> Mapping[str, Any]:
    """Return the measures of the result of a run: the best point if it was stored, otherwise the last point.

    With constraints, this is the last iterate that satisfies them, or otherwise the iterate with the smallest
    violation.
    """
    feasible = run.status.success and run.measures.feasibility is not None  # no better point meets the constraints
    if kept_best and run.state["best"] is not None and not feasible:
        return run.state["best"]
    return _summary(run.state, run.measures)


def _on_all_data(
    problem: Problem, solver: Solver, run: Run, stop: _Referred, counter: Counter
) -> tuple[Run, dict[str, Any]]:
    """Return the run and its result with exact measures; a success of an estimate only is withdrawn."""
    x = freeze(solver.answer(problem, run.state))
    slope = 0.0
    try:
        f = problem.objective
        if f.value_and_gradient is None or solver.whole_pass:
            exact = Measures(f.value(x))
        else:
            at = evaluate(problem, x)
            exact = at.at_boundary(problem.manifold, at.measures(problem.manifold))
            slope = unclaimed_slope(problem, at, abs(at.fun)) if run.status.success else 0.0
    except KeyboardInterrupt:
        return dataclasses.replace(run, status=Status.INTERRUPTED), _summary({"x": x}, run.measures)
    exact = dataclasses.replace(exact, evaluations=run.measures.evaluations.plus(counter.take()))
    status = run.status
    if not np.isfinite(exact.fun + (exact.grad_norm or 0.0)):
        status = Status.NON_FINITE
    elif solver.whole_pass:  # the value is that of all rows, each at a point before the last
        tolerated = status is Status.COST_CHANGE and exact.fun <= run.measures.fun
        status = status if tolerated or not status.success else Status.ESTIMATE_ONLY
    elif status.success:
        records = [Measures(*pair) for pair in zip(run.history["fun"], run.history["grad_norm"], strict=True)]
        first, recent = records[0], (*records[-2:-1], exact)
        eps = float(np.finfo(dtype_of(x)).eps)
        so_far = RunSoFar(recent, run.nit, run.time, exact.evaluations, first, eps=eps)
        status = Status.NO_DECREASE if slope else stop.check(so_far) or Status.ESTIMATE_ONLY
    return dataclasses.replace(run, status=status, measures=exact), _summary({"x": x}, exact)


def _summary(state: Mapping[str, Any], measures: Measures) -> dict[str, Any]:
    return {
        "x": state["x"],
        "fun": measures.fun,
        "grad_norm": measures.grad_norm,
        "feasibility": measures.feasibility,
        "complementarity": measures.complementarity,
        "multipliers": state.get("multipliers"),
    }


def _rank(fun: float, feasibility: float | None) -> float:
    """Return the number that orders the iterates of a run: the objective or, with constraints, the violation.

    Points with a small violation can have values below the minimum, and early feasible points are not near the minimum.
    Among feasible points, the last is therefore returned.
    """
    return fun if feasibility is None else max(feasibility, FEASIBLE)


def _result(
    problem: Problem, called: str, run: Run, final: Mapping[str, Any], component: int | None, stop: _Referred
) -> Result:
    counts: Evaluations = run.measures.evaluations
    x, feasibility = _cleaned(problem.manifold, final["x"])
    met = (final["feasibility"] or 0.0) <= FEASIBLE  # by the returned point, if not by the last
    first = float(run.history["grad_norm"][0])
    multipliers = final["multipliers"]
    return Result(
        x=tree_map(np.array, x),
        fun=final["fun"],
        grad_norm=final["grad_norm"],
        status=Status.NO_DECREASE if met and run.status is Status.INFEASIBLE else run.status,
        nit=run.nit,
        nfev=counts.nfev,
        njev=counts.njev,
        nhev=counts.nhev,
        time=run.time,
        feasibility=max(feasibility, final["feasibility"] or 0.0),
        complementarity=final["complementarity"],
        note=" ".join(filter(None, [_note(run, final), _far_out(run, x), searched(problem.manifold, x, component)])),
        solver=called,
        history=run.history,
        multipliers=multipliers and {name: np.array(values) for name, values in multipliers.items()},
        component=component,
        reference=max(first, stop.reference) if math.isfinite(first) else stop.reference,
    )


def _note(run: Run, final: Mapping[str, Any]) -> str:
    """Return a note about a run without constraints that did not decrease the objective."""
    values = run.history["fun"]
    if run.nit == 0 or run.status is Status.NON_FINITE or final["feasibility"] is not None:
        return ""
    first, fun = float(values[0]), float(final["fun"])
    if fun > first + 1e-9 * abs(first):
        return f"The objective is higher than at the start ({fun:.6g} > {first:.6g}): use a smaller step size."
    last = run.measures.fun
    if fun == first < last and not run.status.success:
        return f"The start is returned because the steps raised the objective to {last:.6g}: use a smaller step size."
    return ""


def _far_out(run: Run, x: Any) -> str:
    """Return a note about a run that has gone so far that its numbers nearly overflow."""
    size = norm(x)
    if run.status.success or not size > FAR_OUT[dtype_of(x)]:
        return ""
    return f"The norm of the point is {size:.3g}: the objective may decrease without bound."


def _cleaned(manifold: Manifold[Point], x: Point) -> tuple[Point, float]:
    """Return a point and its violation, after a last projection if this reduces the violation."""
    off = violation(manifold, x)
    if off <= (CLEAN if dtype_of(x) == np.float64 else CLEAN_SINGLE):
        return x, off
    nearest = manifold.nearest(x)
    after = violation(manifold, nearest)
    return (nearest, after) if after < off else (x, off)


@dataclasses.dataclass(frozen=True)
class _Referred(StoppingRule):
    """A rule whose relative tolerances refer to the gradient norm of an earlier run, if that norm is larger."""

    rule: StoppingRule
    reference: float

    @property
    def looks_ahead(self) -> bool:
        return self.rule.looks_ahead

    def solved_within(self, so_far: RunSoFar) -> tuple[float, float]:
        return self.rule.solved_within(so_far)

    def check(self, so_far: RunSoFar) -> Status | None:
        if self.reference > so_far.reference:
            so_far = dataclasses.replace(so_far, reference=self.reference)
        return self.rule.check(so_far)
