"""The state of a batch of problems in the loop; rows leave it when they are solved or cannot go on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np

from .._problem import Problem
from .._result import Evaluations, Measures, Point, Status
from .._stopping import ASSERTED, LAST, Look, RunSoFar, StoppingRule, look_ahead
from ..linalg import ROWS, Rows, dtype_of, leaves, tree_map
from ..manifolds import Manifold
from ..objectives import Objective
from ..solvers import Iterate, LineSearch, Solver, stationary
from ..solvers._around import in_range, in_unit, leaves_range

Oracle = Callable[[Any, np.ndarray], tuple[np.ndarray, Any]]

FEW = 5
"""So many rows at most go on one by one: an iteration of rows costs as much as five or six of single problems."""

_FAILED = (np.linalg.LinAlgError, FloatingPointError)


class RowProblem(Problem[Any]):
    """Many problems over one manifold, as a solver sees them: points and values have a leading axis.

    Parameters
    ----------
    manifold : Manifold
    oracle : callable
        ``(points, which) -> (values, gradients)`` of some rows.
    which : ndarray of int
        The numbers of the rows.
    trials : ndarray of float
        Evaluations of every row, counted here; one array for all parts of a batch.

    Examples
    --------
    One step of L-BFGS on two problems:

    >>> import numpy as np, manifoldseq as ms
    >>> square = lambda x, which: ((x**2).sum(axis=1), 2 * x)
    >>> problem = ms.batch.RowProblem(ms.manifolds.Euclidean(1), square, np.arange(2), np.zeros(2))
    >>> state, _ = ms.solvers.LBFGS().init(problem, np.array([[1.0], [2.0]]))
    >>> state, measures = ms.solvers.LBFGS().step(problem, state)
    >>> state["x"].tolist(), problem.trials.tolist()
    ([[0.0], [0.0]], [3.0, 3.0])
    """

    axis: ClassVar[Rows] = ROWS
    hessian_product = None
    oracle: Oracle
    which: np.ndarray
    trials: np.ndarray

    def __init__(self, manifold: Manifold, oracle: Oracle, which: np.ndarray, trials: np.ndarray) -> None:
        # a problem is frozen; this one is its own objective
        vars(self).update(manifold=manifold, objective=self, oracle=oracle, which=which, trials=trials)

    def __repr__(self) -> str:
        return f"RowProblem({self.manifold!r}, {self.which.size} rows)"

    def value(self, points: Any) -> np.ndarray:
        return self.value_and_gradient(points)[0]

    def value_and_gradient(self, points: Any) -> tuple[np.ndarray, Any]:
        """Return values and gradients; of a row where linear algebra fails, infinity and NaN."""
        self.trials[self.which] += 1
        try:
            return self.oracle(points, self.which)
        except _FAILED:
            if self.which.size == 1:
                raise
        values, rows = np.full(self.which.size, np.inf), []
        for k in range(self.which.size):
            try:
                value, gradient = self.oracle(
                    tree_map(lambda leaf, k=k: leaf[k : k + 1], points), self.which[k : k + 1]
                )
                values[k] = value[0]
            except _FAILED:
                gradient = tree_map(lambda leaf: np.full_like(leaf[:1], np.nan), points)
            rows.append(gradient)
        return values, tree_map(lambda *parts: np.concatenate(parts), *rows)

    def take(self, rows: np.ndarray) -> RowProblem:
        """Return the problem of some rows."""
        return RowProblem(self.manifold, self.oracle, self.which[rows], self.trials)

    def one(self, k: int) -> Problem:
        """Return row `k` as a problem by itself; its evaluations are counted here."""
        row = self.take(np.array([k]))

        def both(x: Any) -> tuple[float, Any]:
            values, gradients = row.value_and_gradient(tree_map(lambda leaf: leaf[None], x))
            return float(values[0]), tree_map(lambda leaf: leaf[0], gradients)

        return Problem(self.manifold, Objective(lambda x: both(x)[0], both))

    def moved(self, state: Any, measures: Measures) -> tuple[RowProblem, Any]:
        """Return the problem and the state of a solver without the rows that found no decrease in its last step."""
        failed = _failed(measures, self.which.size)
        return (self, state) if not failed.any() else ROWS.take(~failed, self, state)


class Clock(StoppingRule):
    """Never ends the run, but tells the rows the time that only the loop knows."""

    time = 0.0

    def check(self, so_far: RunSoFar) -> Status | None:
        self.time = so_far.time


class _Now(NamedTuple):
    """Measures of the active problems, one column each."""

    fun: Any
    grad_norm: Any
    step_size: Any = np.nan
    egrad_norm: Any = np.nan
    curvature: Any = np.nan
    scale: Any = np.nan
    pushed_inward: Any = np.nan
    curvature_ahead: Any = np.nan

    @classmethod
    def of(cls, measures: Measures) -> np.ndarray:
        """Return the columns of measures: shape (8,), of many problems (problems, 8)."""
        columns = [np.nan if (value := getattr(measures, name)) is None else value for name in cls._fields]
        return np.stack(np.broadcast_arrays(*columns), axis=-1)

    def measures(self) -> Measures:
        """Return the measures of a row of numbers; those that are NaN are not known."""
        step, egrad_norm, curvature, scale, pushed, ahead = [None if v != v else v for v in self[2:]]
        fun, grad_norm = self[:2]
        return Measures(
            fun, grad_norm, None, step, egrad_norm, _NONE, None, _NO_COLUMNS, curvature, ahead, scale, pushed
        )


_NONE, _NO_COLUMNS = Evaluations(), {}


@dataclass(frozen=True)
class RowRun:
    """The start and the step of a batch: the state holds the best point of every problem, and the active ones.

    Most of these are rows of one state of the solver. A few go on by themselves, as `minimize` runs them, and follow
    the rows in ``which`` and ``recent``: the last ones, those at a saddle, and those that need a unit of their own.
    """

    manifold: Manifold
    oracle: Oracle
    algorithm: LineSearch
    rule: StoppingRule
    clock: Clock
    reference: np.ndarray | None

    @cached_property
    def single(self) -> Solver:
        """The solver of problems that go on by themselves."""
        return in_range(self.algorithm)

    def start(self, points: Point) -> tuple[dict[str, Any], Measures]:
        """Return the state with every row active."""
        n = len(leaves(points)[0])
        problem = RowProblem(self.manifold, self.oracle, np.arange(n), np.zeros(n))
        with np.errstate(over="ignore", under="ignore"):
            solver, measures = self.algorithm.init(problem, points)
        state = {
            "x": points,
            "fun": solver["fun"],
            "grad_norm": solver["grad_norm"],
            "status": np.full(n, "", "U20"),
            "nit": np.zeros(n, int),
            "nfev": np.zeros(n),
            "count": 0,
            "which": problem.which,
            "solver": solver,
            "alone": (),
            "recent": _Now.of(measures)[:, None],
        }
        state = self.parted(state, problem, self.astray(state))
        problem.which, now = state["which"], state["recent"][:, -1]
        fun, grad_norm = np.empty(n), np.empty(n)
        fun[problem.which], grad_norm[problem.which] = now[:, 0], now[:, 1]
        first = grad_norm if self.reference is None else np.fmax(grad_norm, self.reference)
        return self.settled({**state, "grad_norm": grad_norm, "first": (fun, first)}, problem, [None] * n)

    def step(self, state: dict[str, Any]) -> tuple[dict[str, Any], Measures]:
        """Move the active problems, and keep the best point of each."""
        which, n = state["which"], _rows(state)
        problem = RowProblem(self.manifold, self.oracle, which, np.zeros(len(state["fun"])))
        solver, given, columns, alone = state["solver"], [None] * which.size, [], []
        if n:
            rows = problem if n == which.size else problem.take(np.arange(n))
            solver, measures = self.algorithm.step(rows, solver)
            columns.append(_Now.of(measures))
            for k in np.flatnonzero(_failed(measures, n)).tolist():
                given[k] = Status.NO_DECREASE
        for k, one in enumerate(state["alone"], n):
            new, measures = self.single.step(problem.one(k), one)
            alone.append(new)
            columns.append(_Now.of(measures)[None])
            given[k] = measures.status
        now, nit = np.concatenate(columns), state["nit"].copy()
        nit[which] += 1
        state = {
            **state,
            "nit": nit,
            "count": state["count"] + 1,
            "solver": solver,
            "alone": tuple(alone),
            "recent": np.concatenate([state["recent"][:, 1 - LAST :], now[:, None]], axis=1),
        }
        return self.settled(_kept(state, now[:, 0] < state["fun"][which]), problem, given)

    def astray(self, state: dict[str, Any]) -> np.ndarray:
        """Return the rows whose gradients have left the range in which squares are exact: they need a unit."""
        grad, grad_norm = state["solver"]["grad"], state["solver"]["grad_norm"]
        return np.flatnonzero(leaves_range(self.single, grad.dtype, grad_norm))

    def parted(self, state: dict[str, Any], problem: RowProblem, some: np.ndarray) -> dict[str, Any]:
        """Return the state with some rows by themselves, in units of their own where they need one."""
        n, rest = _rows(state), np.ones(state["which"].size, bool)
        if not some.size:
            return state
        rest[some] = False
        order = np.concatenate([np.flatnonzero(rest), some])
        recent, alone = state["recent"][order], list(state["alone"])
        for i, k in enumerate(some.tolist(), order.size - some.size):
            one = self.by_itself(state, k)
            one, measures = in_unit(self.single, problem.one(k), one, _Now(*recent[i, -1].tolist()).measures())
            alone.append(one)
            recent[i, -1] = _Now.of(measures)
        solver = ROWS.take(rest[:n], state["solver"])
        return {**state, "which": state["which"][order], "solver": solver, "alone": tuple(alone), "recent": recent}

    def by_itself(self, state: dict[str, Any], k: int) -> dict[str, Any]:
        """Return the state of row `k` as that of one problem."""
        solver = state["solver"]
        return self.algorithm.descent.alone(ROWS.one(solver, k)) | Iterate.of(solver).row(k).state()

    def settled(
        self, state: dict[str, Any], problem: RowProblem, given: list[Status | None]
    ) -> tuple[dict[str, Any], Measures]:
        """Count, let the problems that are solved or cannot go on leave, and measure the whole."""
        which, recent, before, n = state["which"], state["recent"], state["nfev"], _rows(state)
        finite = np.isfinite(recent[:, -1, :2]).all(axis=1)
        found: list[Status | None] = [None] * which.size

        def counted() -> dict[str, Any]:
            return {**state, "nfev": before + problem.trials}

        def ask(some: list[int]) -> None:
            for k in some:
                found[k] = (self.rule.check(asked[k]) or given[k]) if finite[k] else Status.NON_FINITE

        def measured(some: list[int], rows: Callable[[Any, Any, Any], Any], one: Callable[[Any, Any, int], Any]) -> Any:
            """Return what is measured of some problems: of the rows at once, of a few of them one by one."""
            together = np.array([k for k in some if k < n], int)
            if together.size <= FEW:
                together = together[:0]
            taken, solver = ROWS.take(together, problem, state["solver"])
            parts = [rows(taken, solver, together)] if together.size else []
            rest = some[together.size :]
            parts += [
                one(problem.one(k), self.by_itself(state, k) if k < n else state["alone"][k - n], k)[None] for k in rest
            ]
            return np.concatenate(parts)

        may = self.rule.may_end(self.so_far(counted())) | ~finite | np.array([status is not None for status in given])
        some = np.flatnonzero(may).tolist()
        asked = {k: self.so_far(counted(), k, given[k]) for k in some}
        ask(some)
        asserted = [k for k, s in enumerate(found) if s in ASSERTED and (s is not given[k] or not s.success)]
        if asserted and self.rule.looks_ahead:  # the curvature ahead decides

            def confirmed(rows: Any, solver: Any, some: np.ndarray) -> np.ndarray:
                looks = Look(*np.array([look_ahead(self.rule, asked[k]) for k in some.tolist()]).T)
                return _Now.of(self.algorithm.confirm(rows, solver, _columns(recent[some]), looks))

            def confirmed_alone(one: Any, solver: Any, k: int) -> np.ndarray:
                look = look_ahead(self.rule, asked[k])
                return _Now.of(self.single.confirm(one, solver, asked[k].recent, look))

            recent[asserted, -1] = measured(asserted, confirmed, confirmed_alone)
            for k in asserted:
                now = _Now(*recent[k, -1].tolist()).measures()
                now.status, now.evaluations = given[k], Evaluations(*[float(problem.trials[which[k]])] * 2)
                asked[k] = asked[k].instead(now)
            ask(asserted)
        solved = [k for k, status in enumerate(found) if status is not None and status.success]
        if solved:  # unless the objective contradicts its gradient

            def slopes(rows: Any, solver: Any, some: np.ndarray) -> np.ndarray:
                return self.algorithm.unclaimed_slope(rows, solver, _columns(recent[some])[-1])  # type: ignore[return-value]

            def slope(one: Any, solver: Any, k: int) -> np.ndarray:
                return np.array(self.single.unclaimed_slope(one, solver, asked[k].current))

            for k in np.flatnonzero(measured(solved, slopes, slope)).tolist():
                found[solved[k]] = Status.NO_DECREASE
        state = self.without(counted(), found)
        stays = ROWS.take(np.flatnonzero([status is None for status in found]), problem)
        n = _rows(state)
        apart = np.arange(n)
        if n > FEW:
            apart = np.union1d(np.flatnonzero(stationary(Iterate.of(state["solver"]))), self.astray(state))
        state = self.parted(state, stays, apart)
        return state, self.whole(state, recent[:, -1, 2], float(problem.trials.sum()))

    def without(self, state: dict[str, Any], found: list[Status | None]) -> dict[str, Any]:
        """Return the state without the problems that have ended, those that are solved at their last points."""
        ended = np.array([status is not None for status in found], bool)
        if not ended.any():
            return state
        state = _kept(state, np.array([status is not None and status.success for status in found]))
        status, n = state["status"].copy(), _rows(state)
        status[state["which"][ended]] = [given.name for given in found if given is not None]
        return {
            **state,
            "status": status,
            "which": state["which"][~ended],
            "solver": ROWS.take(~ended[:n], state["solver"]),
            "alone": tuple(one for one, gone in zip(state["alone"], ended[n:], strict=True) if not gone),
            "recent": state["recent"][~ended],
        }

    def so_far(self, state: dict[str, Any], k: int | None = None, given: Status | None = None) -> RunSoFar:
        """Return the run of active problem `k` so far, or without it the last two iterates of all, as arrays."""
        i = state["which"] if k is None else int(state["which"][k])
        fun, first = (column[i] for column in state["first"])
        spent, eps = state["nfev"][i], float(np.finfo(dtype_of(state["x"])).eps)
        if k is None:
            recent: tuple[Measures, ...] = _columns(state["recent"][:, -2:])
        else:
            fun, first, spent = float(fun), float(first), float(spent)
            recent = tuple([_Now(*numbers).measures() for numbers in state["recent"][k].tolist()])
            recent[-1].status = given
        evaluations = Evaluations(spent, spent)
        return RunSoFar(recent, state["count"], self.clock.time, evaluations, Measures(fun, first), first, eps)

    def whole(self, state: dict[str, Any], lengths: np.ndarray, spent: float) -> Measures:
        """Return the measures of the whole batch."""
        finite = np.isfinite(state["fun"]) & np.isfinite(state["grad_norm"])
        active = state["which"].size
        return Measures(
            float(state["fun"][finite].sum()),
            float(state["grad_norm"][finite].max(initial=0.0)),
            step_size=float(np.nanmax(lengths)) if state["count"] and np.isfinite(lengths).any() else None,
            evaluations=Evaluations(spent, spent),
            status=None if active else Status[_overall(state["status"])],
            extra={"active": active},
        )


def _rows(state: dict[str, Any]) -> int:
    """Return how many of the active problems are rows of one state."""
    return state["which"].size - len(state["alone"])


def _columns(recent: np.ndarray) -> tuple[Measures, ...]:
    """Return the measures of the last iterates as arrays over the problems, from shape (problems, iterates, 8)."""
    measured = []
    for i in range(recent.shape[1]):
        now = _Now(*recent[:, i].T)
        measures = Measures(now.fun, now.grad_norm, None, now.step_size, now.egrad_norm)
        measures.curvature, measures.scale = now.curvature, now.scale
        measured.append(measures)
    return tuple(measured)


def _failed(measures: Measures, n: int) -> np.ndarray:
    """Return which rows found no decrease in a step: the status of their measures is an array, or that of all."""
    given = measures.status
    return np.full(n, given is not None) if given is None or isinstance(given, Status) else given


def _kept(state: dict[str, Any], some: np.ndarray) -> dict[str, Any]:
    """Return the state with the current points of some active problems as their best ones."""
    if not some.any():
        return state
    n, now = _rows(state), state["recent"][:, -1]
    x = ROWS.take(np.flatnonzero(some[:n]), state["solver"]["x"])
    ones = [one["x"] for one, better in zip(state["alone"], some[n:], strict=True) if better]
    if ones:
        x = tree_map(lambda leaf, *parts: np.concatenate([leaf, np.stack(parts)]), x, *ones)
    best = x, now[some, 0], now[some, 1]
    names, places = ("x", "fun", "grad_norm"), state["which"][some]
    return {**state, **{name: ROWS.put(state[name], places, part) for name, part in zip(names, best, strict=True)}}


def _overall(names: np.ndarray) -> str:
    """Return the name of the status that the whole run ends with: the most frequent failure, else success."""
    failures = [name for name in names.tolist() if not Status[name].success]
    return max(failures, key=failures.count) if failures else Status.CONVERGED.name
