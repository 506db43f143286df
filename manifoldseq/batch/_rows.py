"""The state of a batch of problems in the loop; rows leave it when they are solved or cannot go on."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from .._result import Evaluations, Measures, Point, Status
from .._stopping import ASSERTED, LAST, RunSoFar, StoppingRule
from ..linalg._tree import dtype_of, leaves, tree_map
from ..manifolds import Manifold
from ._bb import AHEAD, AT, MEASURED, BatchBB, Oracle, contradicted, curvatures_ahead, flat_dots, take, without
from ._lbfgs import BatchLBFGS


class Clock(StoppingRule):
    """Never ends the run, but tells the rows the time that only the loop knows."""

    time = 0.0

    def check(self, so_far: RunSoFar) -> Status | None:
        self.time = so_far.time


@dataclass(frozen=True)
class RowRun:
    """The start and the step of a batch: the state holds the best point of every problem, and the active rows."""

    manifold: Manifold
    oracle: Oracle
    algorithm: BatchBB | BatchLBFGS
    rule: StoppingRule
    clock: Clock
    reference: np.ndarray | None

    def start(self, points: Point) -> tuple[dict[str, Any], Measures]:
        """Return the state with every row active."""
        rows = self.algorithm.init(self.manifold, self.oracle, points)
        n = rows["which"].size
        first = rows["grad_norm"] if self.reference is None else np.fmax(rows["grad_norm"], self.reference)
        state = {
            "x": points,
            "fun": rows["fun"],
            "grad_norm": rows["grad_norm"],
            "first": (rows["fun"], first),
            "status": np.full(n, "", "U20"),
            "nit": np.zeros(n, int),
            "nfev": np.zeros(n),
            "rows": {**rows, "recent": self.recent(rows, None)},
        }
        return self.settle(state)

    def step(self, state: dict[str, Any]) -> tuple[dict[str, Any], Measures]:
        """Move the active rows, and keep the best point of each."""
        old = state["rows"]
        rows = self.algorithm.step(self.manifold, self.oracle, old)
        which = rows["which"]
        better = rows["fun"] < state["fun"][which]
        place = which[better]
        nit = state["nit"].copy()
        nit[which] += ~rows["failed"]
        state = {
            **state,
            **{name: _placed(state[name], place, take(rows[name], better)) for name in ("x", "fun", "grad_norm")},
            "nit": nit,
            "rows": {**rows, "recent": self.recent(rows, old["recent"])},
        }
        return self.settle(state)

    def recent(self, rows: dict[str, Any], before: np.ndarray | None) -> np.ndarray:
        """Return the measures of the last iterates of every row, shape (rows, at most 12, 6), the current one last."""
        x, n = rows["x"], rows["which"].size
        pushed = np.nan if self.manifold.metric == "embedded" else self.manifold.pushed_inward(x, rows["egrad"])
        columns = (rows["fun"], rows["grad_norm"], rows["curvature"], np.nan, self.manifold.scale(x), pushed)
        now = np.stack([np.broadcast_to(column, n) for column in columns], axis=-1)[:, None]
        return now if before is None else np.concatenate([before[:, 1 - LAST :], now], axis=1)

    def settle(self, state: dict[str, Any]) -> tuple[dict[str, Any], Measures]:
        """Count, let the rows that are solved or cannot go on leave, and measure the whole."""
        rows = state["rows"]
        which = rows["which"]
        nfev = state["nfev"].copy()
        nfev[which] += rows["trials"]
        found = self.ask(state, nfev)
        ahead, still = self.rule.looks_ahead, _stationary(rows)
        asserted = [k for k, status in enumerate(found) if status in ASSERTED and k not in still] if ahead else []
        if asserted:  # the curvature ahead decides
            some, recent = _some(rows, asserted), rows["recent"].copy()
            along = curvatures_ahead(self.manifold, self.oracle, some, some["grad"])
            bent = self.bent(some)
            recent[asserted, -1, AHEAD] = np.where(bent < 0, bent, along)
            nfev[which[asserted]] += 4
            rows = {**rows, "recent": recent}
            state = {**state, "rows": rows}
            for k, status in zip(asserted, self.ask(state, nfev, asserted), strict=True):
                found[k] = status
        if not ahead:  # a rule of gradients decides by itself
            still = [k for k in still if found[k] is None or not found[k].success]  # type: ignore[union-attr]
        if still:  # no step leads away: curvature in a random direction tells a minimum from a saddle
            nfev[which[still]] += 2
            for k, curvature in zip(still, self.bent(_some(rows, still)), strict=True):
                found[k] = Status.STALLED if curvature < 0 else Status.ROUNDING_LEVEL
        solved = [k for k, status in enumerate(found) if status is not None and status.success]
        verified = np.zeros(0)
        if solved:
            wrong, verified = contradicted(self.manifold, self.oracle, _some(rows, solved))
            nfev[which[solved]] += verified
            for k in np.flatnonzero(wrong).tolist():
                found[solved[k]] = Status.NO_DECREASE
        if any(found):
            ended = np.array([status is not None for status in found])
            solved = np.array([status is not None and status.success for status in found])
            status = state["status"].copy()
            status[which[ended]] = [given.name for given in found if given is not None]
            place = which[solved]
            state = {
                **state,
                **{name: _placed(state[name], place, take(rows[name], solved)) for name in ("x", "fun", "grad_norm")},
                "status": status,
                "rows": without(rows, ended),
            }
        state = {**state, "nfev": nfev}
        finite = np.isfinite(state["fun"]) & np.isfinite(state["grad_norm"])
        active = state["rows"]["which"].size
        total = float(rows["trials"].sum()) + 4.0 * len(asserted) + 2.0 * len(still) + float(verified.sum())
        return state, Measures(
            float(state["fun"][finite].sum()),
            float(state["grad_norm"][finite].max(initial=0.0)),
            step_size=float(rows["length"].max()) if state["nit"].any() else None,
            evaluations=Evaluations(total, total),
            status=None if active else Status[_overall(state["status"])],
            extra={"active": active},
        )

    def bent(self, some: dict[str, Any]) -> np.ndarray:
        """Return the curvature from a random tangent vector on, for two evaluations of every row."""
        tangent = self.manifold.random_tangent(some["x"], np.random.default_rng(0))
        return curvatures_ahead(self.manifold, self.oracle, some, tangent)

    def ask(self, state: dict[str, Any], nfev: np.ndarray, some: list[int] | None = None) -> list[Status | None]:
        """Return for every active row, or for some of them, why it ends, or None."""
        rows = state["rows"]
        finite = np.isfinite(rows["fun"]) & np.isfinite(rows["grad_norm"])
        egrad_norm = _rounded(rows)
        so_far = _RowSoFar(state, egrad_norm, nfev, self.clock.time)
        check, found = self.rule.check, []
        for k in range(finite.size) if some is None else some:
            so_far.k = k
            if not finite[k]:
                found.append(Status.NON_FINITE)
            else:
                found.append(check(cast(RunSoFar, so_far)) or (Status.NO_DECREASE if rows["failed"][k] else None))
        return found


def _some(rows: dict[str, Any], chosen: list[int]) -> dict[str, Any]:
    return {key: take(rows[key], np.array(chosen)) for key in (*AT, "which", "recent")}


def _rounded(rows: dict[str, Any]) -> np.ndarray:
    """Return for every row the norm of the Euclidean gradient whose rounding is in the Riemannian one."""
    share = np.zeros(rows["which"].size)
    for a, b in zip(leaves(rows["grad"]), leaves(rows["egrad"]), strict=True):
        left, whole = flat_dots(a, a), flat_dots(np.where(a != 0, b, 0), b)
        share = np.fmax(share, np.sqrt(np.divide(left, whole, out=np.zeros_like(left), where=whole > 0)))
    whole = np.sqrt(flat_dots(rows["egrad"], rows["egrad"]))
    grad_norm = np.sqrt(flat_dots(rows["grad"], rows["grad"]))
    return np.divide(grad_norm, share, out=whole, where=share > 0)


def _stationary(rows: dict[str, Any]) -> list[int]:
    """Return the rows whose gradient is zero."""
    return np.flatnonzero(rows["grad_norm"] == 0).tolist()


class _RowSoFar:
    """The :class:`RunSoFar` of row `k`; each part is made when a rule looks at it, which most rows spare."""

    def __init__(self, state: dict[str, Any], egrad_norm: np.ndarray, nfev: np.ndarray, time: float) -> None:
        rows = state["rows"]
        self.k = 0
        self.time = time
        self.nit: int = rows["count"]
        self.eps = float(np.finfo(dtype_of(state["x"])).eps)
        self._which = rows["which"].tolist()
        self._nfev = nfev
        self._first = [column.tolist() for column in state["first"]]
        self._recent = rows["recent"]
        self._now, self._before = (self._recent[:, -i].tolist() if self.nit >= i - 1 else [] for i in (1, 2))
        self._more = rows["length"].tolist(), egrad_norm.tolist(), rows["failed"].tolist()

    @property
    def current(self) -> Measures:
        length, egrad_norm, failed = (column[self.k] for column in self._more)
        measures = _measures(self._now[self.k])
        measures.step_size, measures.egrad_norm = length if self.nit else None, egrad_norm
        measures.status = Status.NO_DECREASE if failed else None
        return measures

    @property
    def previous(self) -> Measures | None:
        return _measures(self._before[self.k]) if self.nit else None

    @property
    def recent(self) -> tuple[Measures, ...]:
        return tuple(map(_measures, self._recent[self.k].tolist()))

    @property
    def first(self) -> Measures:
        i = self._which[self.k]
        return Measures(self._first[0][i], self._first[1][i])

    @property
    def reference(self) -> float:
        return self._first[1][self._which[self.k]]

    @property
    def evaluations(self) -> Evaluations:
        n = float(self._nfev[self._which[self.k]])
        return Evaluations(n, n)


def _measures(numbers: list[float]) -> Measures:
    measures = Measures(numbers[0], numbers[1])
    for name, value in zip(MEASURED[2:], numbers[2:], strict=True):
        if not math.isnan(value):
            setattr(measures, name, value)
    return measures


def _placed(tree: Any, rows: np.ndarray, values: Any) -> Any:
    """Return the tree with some rows replaced."""
    if rows.size == 0:
        return tree

    def place(leaf: np.ndarray, part: np.ndarray) -> np.ndarray:
        leaf = leaf.copy()
        leaf[rows] = part
        return leaf

    return tree_map(place, tree, values)


def _overall(names: np.ndarray) -> str:
    """Return the name of the status that the whole run ends with: the most frequent failure, else success."""
    failures = [name for name in names.tolist() if not Status[name].success]
    return max(failures, key=failures.count) if failures else Status.CONVERGED.name
