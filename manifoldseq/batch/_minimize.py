"""Many independent problems over one manifold, minimized together in the main loop."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Mapping, Sequence
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .._iterate import Asks, confirmed
from .._minimize import chosen_rule, description, with_callback
from .._observers import Observer
from .._problem import Problem
from .._quoted import quoted
from .._result import BatchResult, NotConverged, Point, Run, Status
from .._start import as_point, check_finite, compare_shapes, generator, on_manifold, start_point
from .._stopping import Stop
from ..estimators import marked, seed_fingerprint
from ..execution import map_ordered
from ..hooks import get_solver
from ..linalg import ROWS, freeze, leaves, tree_map
from ..manifolds import Manifold
from ..objectives._counted import Counter, batched_pair
from ..solvers import LM, LineSearch, Solver
from ..storage import Checkpoint
from ._rows import Clock, Oracle, RowRun
from ._whole_runs import GROUP, WholeRuns


def minimize_batch(
    problem: Problem[Point] | Sequence[Problem[Point]],
    x0: ArrayLike | tuple[Any, ...] | BatchResult[Any] | None = None,
    *,
    n_problems: int | None = None,
    solver: str | Solver = "bb",
    options: Mapping[str, Any] | None = None,
    stop: Stop | None = None,
    tol: float | None = None,
    max_iter: int | None = None,
    project: bool = False,
    callback: Observer | None = None,
    observers: Sequence[Observer] = (),
    checkpoint: Checkpoint | str | Path | None = None,
    resume: bool = False,
    seed: int | np.random.Generator | None = None,
    raise_on_failure: bool = False,
) -> BatchResult[Point]:
    """Minimize many independent objectives over one manifold together.

    Every problem has its own step sizes and stopping test, and solved problems leave the computation. For small
    problems this is faster than a loop, because linear algebra over a leading axis costs a fraction of a Python loop.

    Parameters
    ----------
    problem : Problem or sequence of Problem
        One problem whose objective has ``batched(points, which) -> (values, gradients)``, see
        :func:`manifoldseq.objective`. Alternatively, one problem per row: all problems are over equal manifolds, and
        the executor of the context evaluates them one by one. Alternatively, one problem without ``batched``, which is
        minimized from many starts.
    x0 : point, BatchResult, str or None
        Starts, with a leading axis of length B on every array; the result of another run; or the name of an
        initializer. With None, every problem starts from its first initializer or, if it has none, from a random point.
        Every problem stays in the connected component of its start: for O(n), give starts with both determinants.
    n_problems : int, optional
        The number B, if it does not follow from `x0` and `problem`.
    solver : {"bb", "cg", "gd", "lbfgs"} or Solver
        As in :func:`manifoldseq.minimize`: every problem takes the same steps as in a separate run. ``"lbfgs"`` needs
        fewer evaluations than ``"bb"``, and more arithmetic between evaluations. Your own
        :class:`manifoldseq.solvers.LineSearch` can be used. The compiled solvers of `manifoldseq-jax`, such as
        ``"jax:lbfgs"``, can be used for problems with one cost function whose data are ``args`` of
        :func:`manifoldseq.objective`. Compiled solvers run all problems in blocks, with one compiled call per block.
        With observers or checkpoints they run groups of 500 problems and call the observers after each group.
    options : mapping, optional
        Options of the solver.
    stop, tol, max_iter
        As in :func:`manifoldseq.minimize`. Rules are evaluated for every problem separately, with the time of the whole
        run.
    project : bool
        Start from the nearest points of the manifold; otherwise a start off the manifold raises ValueError.
    callback, observers, checkpoint, resume
        As in :func:`manifoldseq.minimize`; the point of an event holds the best point so far of every problem.
    seed : int or numpy.random.Generator, optional
        The seed of initializers and random starts. Every problem has its own child generator.
    raise_on_failure : bool
        Raise :class:`NotConverged` unless all problems are solved.

    Returns
    -------
    BatchResult
        Before a problem ends with success, two more evaluations compare the objective with its gradient along a random
        tangent vector. If they contradict each other, the problem ends with NO_DECREASE.

    Raises
    ------
    ValueError
        If starts have the wrong shape or are off the manifold, or if the manifolds differ.
    NotConverged
        If `raise_on_failure` is True and a problem is not solved.

    Examples
    --------
    Two hundred nearest matrices with orthonormal columns at once:

    >>> import numpy as np, manifoldseq as ms
    >>> A = np.random.default_rng(0).standard_normal((200, 6, 2))
    >>> def batched(X, which):
    ...     D = X - A[which]
    ...     return (D * D).sum(axis=(1, 2)), 2 * D
    >>> problem = ms.Problem(ms.manifolds.Stiefel(6, 2), ms.objective(batched=batched))
    >>> result = ms.minimize_batch(problem, n_problems=200, seed=0)
    >>> bool(result.success.all()), bool(np.allclose(result.x, ms.linalg.polar(A), atol=1e-4))
    (True, True)
    """
    problems = _problems(problem)
    rule = chosen_rule(stop, tol, max_iter)
    algorithm = _solver(solver, options, problems)
    manifold = problems[0].manifold
    drawn = seed_fingerprint(seed)
    points = _starts(problems, x0, n_problems, project, generator(seed))
    n = len(leaves(points)[0])
    reference = x0.reference if isinstance(x0, BatchResult) else None
    store = marked(checkpoint, lambda: (n, [description(each, algorithm, drawn) for each in problems]))
    watching, clock = with_callback(observers, callback), Clock()
    if isinstance(algorithm, LineSearch):
        inside = (manifold.frame if algorithm.frames else None) or manifold
        run = RowRun(inside, _oracle(problems, n), algorithm, rule, clock, reference)
        start = functools.partial(run.start, points)
    else:
        run = WholeRuns(problems, algorithm, rule, GROUP if watching or store else n)
        start = functools.partial(run.start, points, n)
    done = confirmed(run.step, start, None, Asks(), clock, watching, store, resume, algorithm.trusted)
    result = _result(manifold, done)
    if raise_on_failure and not result.success.all():
        raise NotConverged(result)
    return result


def _solver(solver: str | Solver, options: Mapping[str, Any] | None, problems: Sequence[Problem]) -> Solver:
    """Return the solver of the batch: a descent with a search, or a solver that runs many problems itself."""
    if options is not None and not isinstance(options, Mapping):
        raise TypeError(f"options={quoted(options)}: pass a dict of options of the solver")
    if options and not isinstance(solver, str):
        raise ValueError(
            f"options={quoted(options)} can be used only with the name of a solver: pass the options to "
            f"{type(solver).__name__}(…) instead"
        )
    algorithm = get_solver(solver, **(options or {})) if isinstance(solver, str) else solver
    able = isinstance(algorithm, Solver) and type(algorithm).minimize_rows is not Solver.minimize_rows
    if able and not isinstance(algorithm, LineSearch):
        for need in algorithm.needs:
            if not all(getattr(each.objective, need, None) for each in problems):
                raise ValueError(
                    f"the solver {quoted(solver)} needs {need}, which the objective of a problem does not have: pass "
                    "it to ms.objective(…)"
                )
        return algorithm
    if not isinstance(algorithm, LineSearch):
        joint = ", or minimize one problem over Power(M, n) whose residuals depend on one point each"
        raise ValueError(
            f"solver={quoted(solver)} cannot solve batches: choose 'bb', 'cg', 'gd', 'lbfgs' "
            f"or an ms.solvers.LineSearch of your own{joint if isinstance(algorithm, LM) else ''}"
        )
    return algorithm


def _problems(problem: Problem | Sequence[Problem]) -> tuple[Problem, ...]:
    if not isinstance(problem, Problem | Sequence):
        raise TypeError(f"minimize_batch needs a Problem or a sequence of them, got {type(problem).__name__}")
    problems = (problem,) if isinstance(problem, Problem) else tuple(problem)
    for k, each in enumerate(problems):
        if not isinstance(each, Problem):
            raise TypeError(
                f"minimize_batch needs a Problem or a sequence of them, got {type(each).__name__} as problem {k}"
            )
        if each.manifold != problems[0].manifold:
            raise ValueError(
                f"problem {k} is over {each.manifold!r}, but problem 0 is over {problems[0].manifold!r}: all problems "
                "of minimize_batch must be over the same manifold"
            )
        if each.equalities or each.inequalities:
            raise ValueError(
                "minimize_batch does not support constraints: use minimize(…, solver='augmented-lagrangian')"
            )
        if not (each.objective.value_and_gradient or (each.objective.batched and len(problems) == 1)):
            raise ValueError(
                f"the objective of problem {k} has no gradient: pass value_and_gradient=… to ms.objective (or, for a "
                "single problem, batched=…)"
            )
    if not problems:
        raise ValueError("minimize_batch got an empty sequence of problems: pass at least one problem")
    return problems


def _starts(
    problems: tuple[Problem, ...], x0: Any, n_problems: int | None, project: bool, rng: np.random.Generator
) -> Any:
    manifold = problems[0].manifold
    known = len(problems) if len(problems) > 1 else n_problems
    if n_problems is not None and (isinstance(n_problems, bool) or not isinstance(n_problems, Integral)):
        raise ValueError(f"n_problems={quoted(n_problems)}: use a whole number ≥ 1")
    if x0 is None or isinstance(x0, str):
        if known is None or known < 1 or (n_problems is not None and n_problems != known):
            raise ValueError(
                f"n_problems={quoted(n_problems)}: pass the number of problems, or one start per problem as x0"
            )
        several = problems * int(known) if len(problems) == 1 else problems
        made = [
            start_point(each, x0, child, project) for each, child in zip(several, rng.spawn(len(several)), strict=True)
        ]
        return tree_map(lambda *rows: np.stack(rows), *made)
    point = as_point(x0.x if isinstance(x0, BatchResult) else x0)
    lengths = {len(leaf) if leaf.ndim else 0 for leaf in leaves(point)}
    if len(lengths) != 1 or 0 in lengths:
        raise ValueError(
            "the leaves of x0 must have one leading axis of the same length, one start per problem: stack a list of "
            "points as tuple(np.stack(parts) for parts in zip(*points))"
        )
    compare_shapes(_row_shapes(point), manifold.shape, manifold.names, "a row of x0")
    n = lengths.pop()
    if known is not None and n != known:
        raise ValueError(f"x0 has {n} starts for {known} problems: pass one start per problem")
    check_finite(point, "x0")
    return on_manifold(manifold, point, project=project)


def _row_shapes(tree: Any) -> Any:
    return tuple(_row_shapes(part) for part in tree) if isinstance(tree, tuple) else tree.shape[1:]


class _Batched:
    """Validated results of `batched`; arrays of jax get few different numbers of rows, as each is compiled."""

    def __init__(self, batched: Callable[..., Any], n: int) -> None:
        self._batched, self._sizes = batched, [*itertools.takewhile(lambda k: k < n, (4**k for k in range(30))), n]
        self._compiled = False

    def __call__(self, points: Any, which: np.ndarray) -> tuple[np.ndarray, Any]:
        n = which.size
        if self._compiled:  # rows that nobody asked for are copies of the first
            size = next((size for size in self._sizes if size >= n), n)
            rows = np.concatenate([np.arange(n), np.zeros(size - n, int)])
            points, which = ROWS.take(rows, points, which)
        values, gradients = batched_pair(self._watched, freeze(points), which)
        return (values, gradients) if values.size == n else ROWS.take(slice(n), values, gradients)

    def _watched(self, points: Any, which: np.ndarray) -> Any:
        pair = self._batched(points, which)
        if isinstance(pair, tuple | list) and pair:
            self._compiled = type(pair[0]).__module__.startswith("jax")
        return pair


def _oracle(problems: tuple[Problem, ...], n: int) -> Oracle:
    """Return the function that evaluates the problems of given rows of points, with validated results."""
    batched = problems[0].objective.batched if len(problems) == 1 else None
    if batched is not None:
        return _Batched(batched, n)
    counter = Counter()
    objectives = [counter.wrap(each.objective) for each in problems]
    if len(objectives) == 1:
        objectives *= n

    def one_by_one(points: Any, which: np.ndarray) -> tuple[np.ndarray, Any]:
        def single(k: int) -> tuple[float, Any]:
            fused = objectives[which[k]].value_and_gradient
            assert fused is not None
            return fused(tree_map(lambda leaf: leaf[k], points))

        values, gradients = zip(*map_ordered(single, range(which.size)), strict=True)
        return np.array(values), tree_map(lambda *rows: np.stack(rows), *gradients)

    return one_by_one


def _result(manifold: Manifold, run: Run) -> BatchResult:
    state = run.state
    names = [name or run.status.name for name in state["status"].tolist()]
    return BatchResult(
        x=tree_map(np.array, state["x"]),
        fun=state["fun"].copy(),
        grad_norm=state["grad_norm"].copy(),
        status=tuple(Status[name] for name in names),
        nit=state["nit"].copy(),
        nfev=state["nfev"].copy(),
        time=run.time,
        feasibility=np.asarray(manifold.feasibility(state["x"])),
        history=run.history,
        reference=state["first"][1].copy(),
    )
