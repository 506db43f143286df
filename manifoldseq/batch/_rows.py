"""The state of a batch of problems; rows are removed when they have ended."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np

from .._iterate import concluded, is_cornered, is_waiting, needs_confirmation, undecided
from .._problem import Problem
from .._result import Evaluations, Measures, Point, Status
from .._stopping import ASSERTED, LAST, Look, RunSoFar, StoppingRule, look_ahead
from ..linalg import EPS, ROWS, Rows, dtype_of, leaves, tree_map
from ..manifolds import Manifold
from ..objectives import Objective
from ..solvers import Iterate, LineSearch, Solver, stationary
from ..solvers._around import in_range, in_unit, leaves_range

Oracle = Callable[[Any, np.ndarray], tuple[np.ndarray, Any]]

FEW = 5
"""Maximum number of rows that continue as single problems: an iteration of rows costs five or six single ones."""

MANY = 128
"""Number of rows that may have ended (at most the number of active rows) that are measured again together.

Compared with 32, batches of 500 and of 1,000 problems take 0.9 of the time; with 256 they take as long.
"""

State = dict[str, Any]

_FAILED = (np.linalg.LinAlgError, FloatingPointError)


class RowProblem(Problem[Any]):
    """Many problems over one manifold, in the form that solvers use: points and values have a leading axis.

    Parameters
    ----------
    manifold : Manifold
    oracle : callable
        ``(points, which) -> (values, gradients)`` for the rows `which`.
    which : ndarray of int
        The numbers of the rows.
    trials : ndarray of float
        Number of evaluations of every row, in one array for all parts of a batch.

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
        """Return values and gradients; infinity and NaN for rows in which linear algebra fails."""
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
        """Return row `k` as a single problem; its evaluations are counted here."""
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
    """A rule that never ends the run; it passes the time of the loop to the rows."""

    time = 0.0

    def check(self, so_far: RunSoFar) -> Status | None:
        self.time = so_far.time


class _Now(NamedTuple):
    """Measures of the active problems, one column each, in the order of :class:`Measures`."""

    fun: Any
    grad_norm: Any
    step_size: Any = np.nan
    egrad_norm: Any = np.nan
    curvature: Any = np.nan
    curvature_ahead: Any = np.nan
    scale: Any = np.nan
    pushed_inward: Any = np.nan

    @classmethod
    def of(cls, measures: Measures) -> np.ndarray:
        """Return the columns of measures, of shape (8,), or (problems, 8) for many problems."""
        columns = [np.nan if (value := getattr(measures, name)) is None else value for name in cls._fields]
        return np.stack(np.broadcast_arrays(*columns), axis=-1)


_NONE, _NO_COLUMNS = Evaluations(), {}


@dataclass(frozen=True)
class RowRun:
    """The start and the step of a batch; the state contains the best point of every problem, and the active problems.

    Most active problems are ``"rows"`` of one state of the solver. Problems that may have ended are ``"waiting"`` until
    there are enough to measure them again together. A few problems continue ``"alone"`` as in `minimize`: the last
    problems, problems at a saddle, and problems that need a separate unit.
    """

    manifold: Manifold
    oracle: Oracle
    algorithm: LineSearch
    rule: StoppingRule
    clock: Clock
    reference: np.ndarray | None

    @cached_property
    def single(self) -> Solver:
        """The solver of problems that continue alone."""
        return in_range(self.algorithm)

    def start(self, points: Point) -> tuple[State, Measures]:
        """Return the state with every row active."""
        n = len(leaves(points)[0])
        which, trials = np.arange(n), np.zeros(n)
        with np.errstate(over="ignore", under="ignore"):
            solver, measures = self.algorithm.init(self.problem(which, trials), points)
        rows = {"which": which, "solver": solver, "recent": _Now.of(measures)[:, None], "failed": np.zeros(n, bool)}
        state = {
            "x": points,
            "fun": solver["fun"],
            "grad_norm": solver["grad_norm"].copy(),
            "status": np.full(n, "", "U20"),
            "nit": np.zeros(n, int),
            "nfev": np.zeros(n),
            "rows": rows,
            "waiting": {name: ROWS.take(np.zeros(0, int), rows[name]) for name in rows},
            "alone": (),
        }
        state = self.parted(state, trials, self.astray(rows))
        for one in state["alone"]:  # the norm may have left the range, but in a unit of its own
            state["grad_norm"][one["which"]] = one["recent"][-1, 1]
        first = state["grad_norm"] if self.reference is None else np.fmax(state["grad_norm"], self.reference)
        return self.settled({**state, "first": (state["fun"], first)}, trials, None)

    def step(self, state: State) -> tuple[State, Measures]:
        """Move the active problems that do not wait, and store the best point of each."""
        rows, alone, trials, nit = state["rows"], [], np.zeros(len(state["fun"])), state["nit"].copy()
        lengths = [0.0]
        if rows["which"].size:
            solver, measures = self.algorithm.step(self.problem(rows["which"], trials), rows["solver"])
            recent = np.concatenate([rows["recent"][:, 1 - LAST :], _Now.of(measures)[:, None]], axis=1)
            rows = {**rows, "solver": solver, "recent": recent, "failed": _failed(measures, rows["which"].size)}
            nit[rows["which"]] += np.isfinite(recent[:, -1, :2]).all(axis=1)
            lengths.append(float(np.max(measures.step_size)) if measures.step_size is not None else 0.0)
        for one in state["alone"]:
            new, measures = self.single.step(self.problem_of(one["which"], trials), one["solver"])
            recent = np.concatenate([one["recent"][1 - LAST :], _Now.of(measures)[None]])
            alone.append({**one, "solver": new, "recent": recent, "status": measures.status and measures.status.name})
            nit[one["which"]] += bool(np.isfinite(recent[-1, :2]).all())
            lengths.append(measures.step_size or 0.0)
        state = {**state, "rows": rows, "alone": tuple(alone), "nit": nit}
        return self.settled(self.kept(state, better=True), trials, max(lengths))

    def problem(self, which: np.ndarray, trials: np.ndarray) -> RowProblem:
        """Return some rows as a problem."""
        return RowProblem(self.manifold, self.oracle, which, trials)

    def problem_of(self, number: int, trials: np.ndarray) -> Problem:
        """Return one row as a single problem."""
        return self.problem(np.array([number]), trials).one(0)

    def kept(self, state: State, better: bool, rows: Any = None, alone: Any = None) -> State:
        """Return the state with the points of rows and of others as best points, optionally only if they are lower."""
        rows, alone = state["rows"] if rows is None else rows, state["alone"] if alone is None else alone
        some = rows["recent"][:, -1, 0] < state["fun"][rows["which"]] if better else np.ones(rows["which"].size, bool)
        places, now = rows["which"][some], rows["recent"][some, -1]
        parts = [(places, ROWS.take(some, rows["solver"]["x"]), now[:, 0], now[:, 1])] if places.size else []
        for one in alone:
            fun, grad_norm = one["recent"][-1, :2].tolist()
            if not better or fun < state["fun"][one["which"]]:
                parts.append((one["which"], one["solver"]["x"], fun, grad_norm))
        for places, *best in parts:
            names = ("x", "fun", "grad_norm")
            state = {**state, **{k: ROWS.put(state[k], places, part) for k, part in zip(names, best, strict=True)}}
        return state

    def astray(self, rows: State) -> np.ndarray:
        """Return the rows whose squared gradients would overflow or underflow, so that they need a unit."""
        grad, grad_norm = rows["solver"]["grad"], rows["solver"]["grad_norm"]
        return np.flatnonzero(leaves_range(self.single, grad.dtype, grad_norm))

    def parted(self, state: State, trials: np.ndarray, some: np.ndarray, part: str = "rows") -> State:
        """Return the state with some rows alone, in separate units if necessary."""
        if not some.size:
            return state
        rows, alone = state[part], list(state["alone"])
        for k in some.tolist():
            number, recent, at = int(rows["which"][k]), rows["recent"][k], Iterate.of(rows["solver"]).row(k)
            one = self.algorithm.descent.alone(ROWS.one(rows["solver"], k)) | at.state()
            now = _measures(recent[-1:])[0]
            one, now = in_unit(self.single, self.problem_of(number, trials), one, now)
            recent = np.concatenate([recent[:-1], _Now.of(now)[None]])
            status = Status.NO_DECREASE.name if rows["failed"][k] else None
            alone.append({"which": number, "solver": one, "recent": recent, "status": status})
        rest = np.setdiff1d(np.arange(rows["which"].size), some)
        return {**state, part: ROWS.take(rest, rows), "alone": tuple(alone)}

    def settled(self, state: State, trials: np.ndarray, step_size: float | None) -> tuple[State, Measures]:
        """Count iterations, remove the problems that are solved or cannot continue, and measure the whole batch."""
        before = state["nfev"]

        def counted() -> State:
            return {**state, "nfev": before + trials}

        rows = state["rows"]
        finite = np.isfinite(rows["recent"][:, -1, :2]).all(axis=1)
        may = self.rule.may_end(self.so_far(counted(), rows)) | rows["failed"] | ~finite
        found: list[Status | None] = [None] * finite.size
        for k in np.flatnonzero(may).tolist():
            found[k] = self.asked(self.so_far(counted(), rows, k)) if finite[k] else Status.NON_FINITE
        claim = np.array([status in ASSERTED or (status is not None and status.success) for status in found], bool)
        if claim.any():
            waiting = self.joined(state["waiting"], ROWS.take(claim, rows))
            state = {**state, "rows": ROWS.take(~claim, rows), "waiting": waiting}
            found = [status for status, waits in zip(found, claim, strict=True) if not waits]
        state = self.without(state, "rows", found)
        n, waiting = state["rows"]["which"].size, state["waiting"]["which"].size
        if waiting >= min(MANY, n) and waiting > FEW:
            part, found = self.judged(counted(), state["waiting"], trials)
            ends = enumerate(found)
            cornered = [k for k, end in ends if is_cornered(end, _measures(part["recent"][k, -1:])[0])]
            state = self.parted({**state, "waiting": part}, trials, np.array(cornered, int), "waiting")
            part, found = state["waiting"], [end for k, end in enumerate(found) if k not in cornered]
            state = self.without({**state, "waiting": part}, "waiting", found)
            none = ROWS.take(np.zeros(0, int), state["waiting"])
            state = {**state, "rows": self.joined(state["rows"], state["waiting"]), "waiting": none}
        elif n <= FEW:
            state = self.parted(state, trials, np.arange(waiting), "waiting")
        rows = state["rows"]
        some = np.arange(rows["which"].size)
        if some.size > FEW:
            some = np.union1d(np.flatnonzero(stationary(Iterate.of(rows["solver"]))), self.astray(rows))
        state = self.parted(state, trials, some)
        nit = state["nit"].copy()
        alone = [self.left(*self.asked_alone(counted(), one, trials), trials, nit) for one in state["alone"]]
        state = {**counted(), "nit": nit, "alone": tuple([one for one, end in alone if end is None])}
        if len(state["alone"]) < len(alone):
            status = state["status"].copy()
            for one, end in alone:
                status[one["which"]] = end.name if end else ""
            solved = [one for one, end in alone if end and end.success]
            state = {**self.kept(state, False, ROWS.take(np.zeros(0, int), rows), solved), "status": status}
        return state, self.whole(state, step_size, float(trials.sum()))

    def asked(self, so_far: RunSoFar) -> Status | None:
        """Return the status of the rule or of the last step."""
        return self.rule.check(so_far) or so_far.current.status

    def asked_alone(self, state: State, one: State, trials: np.ndarray) -> tuple[State, Status | None]:
        """Return a problem that continues alone, with the measures of a confirmation, and its status or None."""
        part = {"which": np.array([one["which"]]), "recent": one["recent"][None], "failed": [False]}
        so_far = self.so_far(state, part, 0)
        so_far.current.status = Status[one["status"]] if one["status"] else None
        if not np.isfinite(one["recent"][-1, :2]).all():
            return one, Status.NON_FINITE
        status = self.asked(so_far)
        if status is None:
            return one, None
        problem, solver, spent = self.problem_of(one["which"], trials), one["solver"], trials[one["which"]]

        def confirm(so_far: RunSoFar) -> Measures:
            now = self.single.confirm(problem, solver, so_far.recent, look_ahead(self.rule, so_far))
            return now.with_evaluations(Evaluations(*[float(trials[one["which"]] - spent)] * 2))

        def verify(now: Measures) -> Measures:
            return replace(now, unclaimed_slope=self.single.unclaimed_slope(problem, solver, now))

        status, so_far = concluded(self.rule, so_far, status, confirm if self.rule.looks_ahead else None, verify)
        recent = np.concatenate([one["recent"][:-1], _Now.of(so_far.current)[None]])
        return {**one, "recent": recent}, status

    def left(
        self, one: State, status: Status | None, trials: np.ndarray, nit: np.ndarray
    ) -> tuple[State, Status | None]:
        """Return a problem that goes on alone one step beyond a saddle, or as it is where it is not at one."""
        if not is_cornered(status, _measures(one["recent"][-1:])[0]):
            return one, status
        lower = self.single.leave(self.problem_of(one["which"], trials), one["solver"])
        if lower is None:
            return one, status
        nit[one["which"]] += 1
        recent = np.concatenate([one["recent"][1 - LAST :], _Now.of(lower[1])[None]])
        return {**one, "solver": lower[0], "recent": recent, "status": None}, None

    def judged(self, state: State, part: State, trials: np.ndarray) -> tuple[State, list[Status | None]]:
        """Return a part after its rows have been measured again, and their statuses (or None)."""
        problem, before = self.problem(part["which"], trials), trials.copy()
        solver, recent = part["solver"], part["recent"].copy()
        runs = [self.so_far(state, part, k) for k in range(len(recent))]
        found = list(map(self.asked, runs))
        some = [k for k, so_far in enumerate(runs) if needs_confirmation(found[k], so_far.current.status)]
        if self.rule.looks_ahead:
            for k in [k for k in some if is_waiting(found[k], runs[k])]:
                now = undecided(runs[k].current)
                recent[k, -1], found[k] = _Now.of(now), self.asked(runs[k].instead(now))
                some.remove(k)
        if some and self.rule.looks_ahead:
            look = Look(*np.array([look_ahead(self.rule, runs[k]) for k in some]).T)
            rows, at = ROWS.take(some, problem, solver)
            measures = self.algorithm.confirm(rows, at, _columns(recent[some]), look)
            recent[some, -1] = _Now.of(measures)
            for k in some:
                now = _measures(recent[k, -1:])[0]
                now.status = runs[k].current.status
                now.evaluations = Evaluations(*[float((trials - before)[part["which"][k]])] * 2)
                found[k] = self.asked(runs[k].instead(now))
        some = [k for k, status in enumerate(found) if status is not None and status.success]
        if some:
            now = _columns(recent[some])[-1]
            rows, at = ROWS.take(some, problem, solver)
            slopes = np.asarray(self.algorithm.unclaimed_slope(rows, at, now))
            for k in np.flatnonzero(slopes).tolist():
                found[some[k]] = Status.NO_DECREASE
        return {**part, "recent": recent}, found

    def without(self, state: State, part: str, found: list[Status | None]) -> State:
        """Return the state without the ended rows of a part; solved rows keep their last points."""
        ended = np.array([status is not None for status in found], bool)
        if not ended.any():
            return state
        solved, rows = [status is not None and status.success for status in found], state[part]
        state = self.kept(state, False, ROWS.take(np.flatnonzero(solved), rows), ())
        status = state["status"].copy()
        status[rows["which"][ended]] = [given.name for given in found if given is not None]
        return {**state, "status": status, part: ROWS.take(~ended, rows)}

    def joined(self, rows: State, others: State) -> State:
        """Return two parts as one."""
        if not (rows["which"].size and others["which"].size):
            return rows if rows["which"].size else others
        parts = (rows, others)
        long = max(part["recent"].shape[1] for part in parts)
        pads = [((0, 0), (long - part["recent"].shape[1], 0), (0, 0)) for part in parts]
        recent = [np.pad(part["recent"], pad, constant_values=np.nan) for part, pad in zip(parts, pads, strict=True)]
        which, failed = (np.concatenate([part[name] for part in parts]) for name in ("which", "failed"))
        solver = self.algorithm.descent.joined(rows["solver"], others["solver"])
        return {"which": which, "solver": solver, "recent": np.concatenate(recent), "failed": failed}

    def so_far(self, state: State, rows: State, k: int | None = None) -> RunSoFar:
        """Return the run of row `k` so far, or the runs of all rows as arrays if `k` is None."""
        i = rows["which"] if k is None else int(rows["which"][k])
        fun, first = (column[i] for column in state["first"])
        nit, spent, eps = state["nit"][i], state["nfev"][i], EPS[dtype_of(state["x"])]
        if k is None:
            recent: tuple[Measures, ...] = _columns(rows["recent"])
        else:
            nit, fun, first, spent = int(nit), float(fun), float(first), float(spent)
            # a row that has begun later, or has waited, has fewer measures than others
            recent = _measures(rows["recent"][k, -1 - nit :])
            recent[-1].status = Status.NO_DECREASE if rows["failed"][k] else None
        return RunSoFar(recent, nit, self.clock.time, Evaluations(spent, spent), Measures(fun, first), first, eps)

    def whole(self, state: State, step_size: float | None, spent: float) -> Measures:
        """Return the measures of the whole batch."""
        finite = np.isfinite(state["fun"]) & np.isfinite(state["grad_norm"])
        active = sum(state[part]["which"].size for part in ("rows", "waiting")) + len(state["alone"])
        return Measures(
            float(state["fun"][finite].sum()),
            float(state["grad_norm"][finite].max(initial=0.0)),
            step_size=step_size,
            evaluations=Evaluations(spent, spent),
            status=None if active else Status[_overall(state["status"])],
            extra={"active": active},
        )


def _measures(recent: np.ndarray) -> tuple[Measures, ...]:
    """Return the measures of one problem at its last iterates, from shape (iterates, 8); NaN marks unknown numbers."""
    known = recent.astype(object)
    known[:, 2:][np.isnan(recent[:, 2:])] = None
    rows = known.tolist()  # in the order of `_Now`
    return tuple([Measures(f, g, None, s, e, _NONE, None, _NO_COLUMNS, c, a, x, b) for f, g, s, e, c, a, x, b in rows])


def _columns(recent: np.ndarray) -> tuple[Measures, ...]:
    """Return the measures of the last iterates as arrays over the problems, from shape (problems, iterates, 8)."""
    measured = []
    for i in range(recent.shape[1]):
        now = _Now(*recent[:, i].T)
        measures = Measures(now.fun, now.grad_norm, None, now.step_size, now.egrad_norm)
        measures.curvature, measures.scale, measures.curvature_ahead = now.curvature, now.scale, now.curvature_ahead
        measured.append(measures)
    return tuple(measured)


def _failed(measures: Measures, n: int) -> np.ndarray:
    """Return a mask of the rows without a decrease in a step, from an array of statuses or a common status."""
    given = measures.status
    return np.full(n, given is not None) if given is None or isinstance(given, Status) else given


def _overall(names: np.ndarray) -> str:
    """Return the name of the status of the whole run: the most frequent failure, or success if there is none."""
    failures = [name for name in names.tolist() if not Status[name].success]
    return max(failures, key=failures.count) if failures else Status.CONVERGED.name
