"""A problem and a solver, run by the loop."""

from __future__ import annotations

import dataclasses
import hashlib
import re
from collections.abc import Mapping, Sequence
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np

from ._iterate import iterate
from ._observers import Observer
from ._problem import Problem
from ._result import Evaluations, Measures, NotConverged, Point, Result, Run, Status
from ._stopping import GradientNorm, MaxIterations, RunSoFar, StoppingRule
from .execution import map_ordered
from .hooks import get_solver
from .hooks import records as hook_records
from .linalg._tree import dtype_of, freeze, leaves, shapes, tree_map
from .objectives._counted import Counter
from .objectives._objective import number
from .solvers import Solver
from .storage import Checkpoint

DEFAULT_STOP = GradientNorm(1e-6, relative=True) | MaxIterations(1000)
OFF_MANIFOLD = 1e-6


def minimize(
    problem: Problem,
    x0: Point | Result | str | None = None,
    *,
    solver: str | Solver = "lbfgs",
    options: Mapping[str, Any] | None = None,
    stop: StoppingRule | None = None,
    n_starts: int = 1,
    components: str | None = None,
    observers: Sequence[Observer] = (),
    checkpoint: Checkpoint | str | Path | None = None,
    resume: bool = False,
    seed: int | np.random.Generator | None = None,
    raise_on_failure: bool = False,
) -> Result:
    """Minimize an objective over a manifold.

    Parameters
    ----------
    problem : Problem
    x0 : point, Result, str or None
        A start, the result of another run (warm start), the name of an initializer, or None: the first initializer of
        the problem, else a random point. A given point is copied; off the manifold by more than 1e-6 it is refused.
    solver : str or Solver
        A name listed by ``manifoldseq solvers``, such as ``"lbfgs"`` or ``"pgd"``.
    options : mapping, optional
        Options of a solver given by name.
    stop : StoppingRule, optional
        Replaces the default ``GradientNorm(1e-6, relative=True) | MaxIterations(1000)``.
    n_starts : int
        Independent runs: the first from `x0`, the others from random points; the best is returned, evaluations summed.
    components : {"all"}, optional
        Also start in every connected component of the manifold (of O(n): both determinants).
    observers : sequence of callables
        Called with an event per iterate.
    checkpoint, resume
        See :func:`manifoldseq.iterate`. A checkpoint of another manifold, solver or objective is refused: they are told
        apart by their descriptions and the value at one fixed point.
    seed : int or numpy.random.Generator, optional
        For initializers and random starts.
    raise_on_failure : bool
        Raise :class:`NotConverged` unless the result is a success.

    Returns
    -------
    Result

    Raises
    ------
    ValueError
        For a start off the manifold or of the wrong shape, unknown names, a solver that needs what the objective lacks.
    NotConverged
        If asked for.

    Examples
    --------
    The nearest matrix with orthonormal columns (orthogonal Procrustes):

    >>> import numpy as np, manifoldseq as ms
    >>> A = np.arange(6.0).reshape(3, 2) + np.eye(3, 2)
    >>> f = ms.objective(lambda X: ((X - A) ** 2).sum(), lambda X: 2 * (X - A))
    >>> result = ms.minimize(ms.Problem(ms.manifolds.Stiefel(3, 2), f), seed=0)
    >>> bool(np.allclose(result.x, ms.linalg.polar(A), atol=1e-5))
    True
    """
    if not isinstance(problem, Problem):
        raise TypeError(f"minimize needs a Problem(manifold, objective), got {type(problem).__name__}")
    if stop is not None and not isinstance(stop, StoppingRule):
        raise TypeError(f"stop={stop!r} is not a stopping rule: use for example ms.MaxIterations(100)")
    if isinstance(n_starts, bool) or not isinstance(n_starts, Integral) or n_starts < 1:
        raise ValueError(f"n_starts={n_starts!r}: use a whole number ≥ 1")
    algorithm = _solver(problem, solver, options)
    rng = _generator(seed)
    reference = x0.reference or 0.0 if isinstance(x0, Result) else 0.0
    rule = _Referred(DEFAULT_STOP if stop is None else stop, reference)
    starts = _starts(problem, x0, int(n_starts), components, rng)
    store = Checkpoint(checkpoint) if isinstance(checkpoint, str | Path) else checkpoint
    if store is not None and store.fingerprint is None:
        store = dataclasses.replace(store, fingerprint=_fingerprint(problem, algorithm))
    interrupted = False

    def run(k: int) -> Result | None:
        nonlocal interrupted
        if interrupted:
            return None
        point, component = starts[k]
        part = store.child(f"start-{k}") if store is not None and len(starts) > 1 else store
        result = _single(problem, point, algorithm, rule, observers, part, resume, component)
        interrupted = interrupted or result.status is Status.INTERRUPTED
        return result

    results = [result for result in map_ordered(run, range(len(starts))) if result is not None]
    best = min(results, key=lambda r: (r.status is Status.NON_FINITE, r.fun))
    if len(results) > 1:
        total = {name: sum(getattr(r, name) for r in results) for name in ("nfev", "njev", "nhev", "time")}
        best = dataclasses.replace(best, **total)
    if interrupted:
        best = dataclasses.replace(best, status=Status.INTERRUPTED)
    if raise_on_failure and not best.success:
        raise NotConverged(best)
    return best


def _generator(seed: int | np.random.Generator | None) -> np.random.Generator:
    try:
        return np.random.default_rng(seed)
    except (TypeError, ValueError) as error:
        raise ValueError(f"seed={seed!r}: use a whole number ≥ 0, a numpy.random.Generator or None") from error


def _fingerprint(problem: Problem, solver: Solver) -> str:
    """Return what tells this problem and solver from others: their descriptions, and the value at one fixed point."""
    point = freeze(problem.manifold.random_point(np.random.default_rng(0)))
    with np.errstate(all="ignore"):
        value = number(problem.objective.value(point))
    described = re.sub(r" at 0x[0-9a-f]+", "", f"{problem.manifold!r} {solver!r} {value:.6g}")
    return hashlib.sha256(described.encode()).hexdigest()


def _solver(problem: Problem, solver: str | Solver, options: Mapping[str, Any] | None) -> Solver:
    if options is not None and not isinstance(options, Mapping):
        raise TypeError(f"options={options!r}: pass a dict of the solver's options, such as {{'memory': 5}}")
    if isinstance(solver, str):
        algorithm = get_solver(solver, **(options or {}))
    elif options:
        raise ValueError(
            f"options={dict(options)!r} go with a solver's name: write {type(solver).__name__}(…) with them instead"
        )
    else:
        algorithm = solver
    if not isinstance(algorithm, Solver):
        raise TypeError(
            f"solver={solver!r} is not a solver: use a name such as 'lbfgs' or an instance of ms.solvers.Solver"
        )
    if (problem.equalities or problem.inequalities) and not algorithm.constraints:
        raise ValueError(f"the solver {type(algorithm).__name__} takes no constraints: add a penalty to the objective")
    lacking = [name for name in algorithm.needs if not getattr(problem.objective, name, None)]
    if lacking:
        able = [
            r.name
            for _, r in hook_records("solvers")
            if all(getattr(problem.objective, need, None) for need in getattr(r, "needs", ()))
        ]
        others = f"solvers that would do: {', '.join(able)}" if able else "no registered solver does without it"
        raise ValueError(
            f"the solver {type(algorithm).__name__} needs {' and '.join(lacking)}, which the objective lacks: "
            f"give it with ms.objective(…); {others}"
        )
    return algorithm


def _starts(
    problem: Problem, x0: Point | Result | str | None, n_starts: int, components: str | None, rng: np.random.Generator
) -> list[tuple[Point, int | None]]:
    manifold = problem.manifold
    children = rng.spawn(n_starts - 1)
    points = [_start(problem, x0, rng), *(manifold.random_point(child) for child in children)]
    dtype = dtype_of(points[0])
    points = [points[0], *(tree_map(lambda leaf: leaf.astype(dtype), point) for point in points[1:])]
    if components is None:
        return [(point, None) for point in points]
    if components != "all":
        raise ValueError(f"components={components!r}: use 'all', or None for the component of the start")
    if manifold.components > 8:
        raise ValueError(
            f"{manifold!r} has {manifold.components} components, more than 8: pass starts in those that you want"
        )
    return [(manifold.to_component(point, i), i) for point in points for i in range(manifold.components)]


def _start(problem: Problem, x0: Point | Result | str | None, rng: np.random.Generator) -> Point:
    manifold = problem.manifold
    if isinstance(x0, Result):
        x0 = x0.x
    if isinstance(x0, str):
        if x0 not in problem.initializers:
            known = ", ".join(map(repr, problem.initializers)) or "none"
            raise ValueError(f"unknown initializer {x0!r}: this problem has {known}")
        x0 = problem.initializers[x0](problem, rng)
    elif x0 is None:
        first = next(iter(problem.initializers.values()), None)
        x0 = manifold.random_point(rng) if first is None else first(problem, rng)
    point = _as_point(x0)
    _compare_shapes(shapes(point), manifold.shape, manifold.names, "x0")
    for leaf in leaves(point):
        if not np.all(np.isfinite(leaf)):
            raise ValueError("x0 has NaN or infinite entries: start from a finite point")
    off = float(np.max(manifold.feasibility(point)))
    if off > max(OFF_MANIFOLD, 100 * float(np.finfo(dtype_of(point)).eps)):
        raise ValueError(f"x0 is off {manifold!r} by {off:.2g}: start from manifold.nearest(x0)")
    return manifold.nearest(point) if off > 1e-14 else point


def _as_point(x0: Any) -> Point:
    if isinstance(x0, tuple | list) and (
        isinstance(x0, tuple) or (any(np.ndim(part) > 0 for part in x0) and not _is_numeric(x0))
    ):
        return tuple(_as_point(part) for part in x0)
    array = np.array(x0)
    if array.dtype.kind not in "fiub":
        raise TypeError(f"x0 has dtype {array.dtype}: a point is made of real numbers")
    return array if array.dtype in (np.float32, np.float64) else array.astype(np.float64)


def _is_numeric(x0: Any) -> bool:
    try:
        return np.asarray(x0).dtype.kind in "fiub"
    except ValueError:
        return False


def _compare_shapes(got: Any, wanted: Any, names: Sequence[str] | None, where: str) -> None:
    nested = bool(wanted) and isinstance(wanted[0], tuple)
    if nested:
        if not (isinstance(got, tuple) and len(got) == len(wanted) and all(isinstance(part, tuple) for part in got)):
            labels = ", ".join(names or ())
            raise ValueError(f"{where} must be a tuple of {len(wanted)} arrays ({labels}), got shape {got}")
        for k, (part, shape) in enumerate(zip(got, wanted, strict=True)):
            label = names[k] if names and len(names) == len(wanted) else str(k)
            _compare_shapes(part, shape, None, f"{where}, factor {label!r}")
    elif got != wanted:
        raise ValueError(f"{where} has shape {got}, the manifold needs {wanted}")


def _single(
    problem: Problem,
    point: Point,
    solver: Solver,
    stop: _Referred,
    observers: Sequence[Observer],
    checkpoint: Checkpoint | None,
    resume: bool,
    component: int | None,
) -> Result:
    counter = Counter()
    counted = dataclasses.replace(problem, objective=counter.wrap(problem.objective))
    keep_best = solver.deterministic and not solver.monotone

    def start() -> tuple[Any, Measures]:
        state, measures = solver.init(counted, point)
        if keep_best:
            state = {"x": state["x"], "inner": state, "best": _summary(state["x"], measures)}
        return state, dataclasses.replace(measures, evaluations=counter.take())

    def step(state: Any) -> tuple[Any, Measures]:
        if not keep_best:
            state, measures = solver.step(counted, state)
        else:
            inner, measures = solver.step(counted, state["inner"])
            best = state["best"]
            state = {
                "x": inner["x"],
                "inner": inner,
                "best": _summary(inner["x"], measures) if measures.fun < best["fun"] else best,
            }
        return state, dataclasses.replace(measures, evaluations=counter.take())

    run = iterate(step, start, stop=stop, observers=observers, checkpoint=checkpoint, resume=resume)
    if keep_best:
        final = run.state["best"]
    else:
        final = _summary(run.state["x"], run.measures)
    return _result(problem, run, final, component, stop)


def _summary(x: Point, measures: Measures) -> dict[str, Any]:
    return {"x": x, "fun": measures.fun, "grad_norm": measures.grad_norm}


def _result(problem: Problem, run: Run, final: Mapping[str, Any], component: int | None, stop: _Referred) -> Result:
    counts: Evaluations = run.measures.evaluations
    first = float(run.history["grad_norm"][0])
    return Result(
        x=tree_map(np.array, final["x"]),
        fun=final["fun"],
        grad_norm=final["grad_norm"],
        status=run.status,
        nit=run.nit,
        nfev=counts.nfev,
        njev=counts.njev,
        nhev=counts.nhev,
        time=run.time,
        feasibility=float(np.max(problem.manifold.feasibility(final["x"]))),
        history=run.history,
        component=component,
        reference=max(first, stop.reference) if np.isfinite(first) else stop.reference,
    )


@dataclasses.dataclass(frozen=True)
class _Referred(StoppingRule):
    """A rule whose relative tolerances refer to the gradient norm of an earlier run, if larger."""

    rule: StoppingRule
    reference: float

    def check(self, so_far: RunSoFar) -> Status | None:
        if self.reference > so_far.reference:
            so_far = dataclasses.replace(so_far, reference=self.reference)
        return self.rule.check(so_far)
