"""A batch of problems as one state of the loop: rows that are solved, or cannot go on, leave it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from .._result import Evaluations, Measures, Point, Status
from .._stopping import RunSoFar, StoppingRule
from ..linalg._tree import dtype_of, tree_map
from ..manifolds import Manifold
from ._batch_bb import BatchBB, Oracle, flat_dots, take


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
    algorithm: BatchBB
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
            "rows": {**rows, "last_fun": np.full(n, np.nan), "last_grad_norm": np.full(n, np.nan)},
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
            "rows": {**rows, "last_fun": old["fun"], "last_grad_norm": old["grad_norm"]},
        }
        return self.settle(state)

    def settle(self, state: dict[str, Any]) -> tuple[dict[str, Any], Measures]:
        """Count, let the rows that are solved or cannot go on leave, and measure the whole."""
        rows = state["rows"]
        which = rows["which"]
        nfev = state["nfev"].copy()
        nfev[which] += rows["trials"]
        found = self.ask(state, nfev)
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
                "rows": {key: value if key == "count" else take(value, ~ended) for key, value in rows.items()},
            }
        state = {**state, "nfev": nfev}
        finite = np.isfinite(state["fun"]) & np.isfinite(state["grad_norm"])
        active = state["rows"]["which"].size
        total = float(rows["trials"].sum())
        return state, Measures(
            float(state["fun"][finite].sum()),
            float(state["grad_norm"][finite].max(initial=0.0)),
            step_size=float(rows["length"].max()) if state["nit"].any() else None,
            evaluations=Evaluations(total, total),
            status=None if active else Status[_overall(state["status"])],
            extra={"active": active},
        )

    def ask(self, state: dict[str, Any], nfev: np.ndarray) -> list[Status | None]:
        """Return for every active row why it ends, or None."""
        rows = state["rows"]
        finite = np.isfinite(rows["fun"]) & np.isfinite(rows["grad_norm"])
        egrad_norm = np.sqrt(flat_dots(rows["egrad"], rows["egrad"]))
        so_far = _RowSoFar(state, egrad_norm, nfev, self.clock.time)
        check, found = self.rule.check, []
        for k in range(finite.size):
            so_far.k = k
            if not finite[k]:
                found.append(Status.NON_FINITE)
            else:
                found.append(check(cast(RunSoFar, so_far)) or (Status.NO_DECREASE if rows["failed"][k] else None))
        return found


class _RowSoFar:
    """What a stopping rule may look at, of row `k`; made when it is looked at."""

    def __init__(self, state: dict[str, Any], egrad_norm: np.ndarray, nfev: np.ndarray, time: float) -> None:
        rows = state["rows"]
        self.k = 0
        self.time = time
        self.nit: int = rows["count"]
        self.eps = float(np.finfo(dtype_of(state["x"])).eps)
        self._which = rows["which"].tolist()
        self._nfev = nfev
        self._first = [column.tolist() for column in state["first"]]
        self._last = rows["last_fun"].tolist(), rows["last_grad_norm"].tolist()
        self._now = rows["fun"].tolist(), rows["grad_norm"].tolist(), rows["length"].tolist(), egrad_norm.tolist()

    @property
    def current(self) -> Measures:
        fun, grad_norm, length, egrad_norm = self._now
        k = self.k
        return Measures(fun[k], grad_norm[k], None, length[k] if self.nit else None, egrad_norm[k])

    @property
    def previous(self) -> Measures | None:
        return Measures(self._last[0][self.k], self._last[1][self.k]) if self.nit else None

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
