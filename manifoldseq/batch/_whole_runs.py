"""Many problems by a solver that runs each completely: the loop has one step per group of problems."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._problem import Problem
from .._result import Evaluations, Measures, Status
from .._stopping import StoppingRule
from ..linalg import ROWS
from ..solvers import Solver

GROUP = 500
"""Number of problems between two events or checkpoints, if there are observers or checkpoints."""

State = dict[str, Any]


@dataclass(frozen=True)
class WholeRuns:
    """The steps of a batch whose solver has ``minimize_rows``."""

    problems: Sequence[Problem]
    solver: Solver
    rule: StoppingRule
    group: int

    def start(self, points: Any, n: int) -> tuple[State, Measures]:
        """Return the initial state, in which no problem is solved."""
        nothing, count = np.full(n, np.nan), np.zeros(n)
        state = {"x": points, "fun": nothing, "grad_norm": nothing, "first": (nothing, count), "done": 0}
        state |= {"nit": count.astype(int), "nfev": count, "status": np.full(n, "", "U20")}
        return state, Measures(0.0, 0.0, extra={"active": n})

    def step(self, state: State) -> tuple[State, Measures]:
        """Solve the next group of problems; the last group is padded, so that all groups have one size."""
        n, a = len(state["fun"]), state["done"]
        size = min(self.group, n)
        rows = np.arange(a, min(a + size, n))
        filled = np.concatenate([rows, np.zeros(size - len(rows), int)])
        problems = self.problems if len(self.problems) == 1 else [self.problems[k] for k in filled]
        found = self.solver.minimize_rows(problems, ROWS.take(filled, state["x"]), self.rule)
        assert found is not None
        some = slice(len(rows))
        x, first = ROWS.take(some, found.x), ROWS.take(some, found.reference)
        new = {**state, "x": ROWS.put(state["x"], rows, x), "done": int(rows[-1]) + 1}
        new["first"] = (state["first"][0], _put(state["first"][1], rows, first))
        new["status"] = _put(state["status"], rows, [one.name for one in found.status[some]])
        for name in ("fun", "grad_norm", "nit", "nfev"):
            new[name] = _put(state[name], rows, getattr(found, name)[some])
        names = new["status"].tolist()
        failures = [name for name in names if name and not Status[name].success]
        overall = Status[max(failures, key=failures.count)] if failures else Status.CONVERGED
        spent = float(found.nfev[some].sum())
        return new, Measures(
            float(np.nansum(new["fun"])),
            float(np.nanmax(new["grad_norm"])),
            evaluations=Evaluations(spent, spent),
            status=overall if new["done"] == n else None,
            extra={"active": n - new["done"]},
        )


def _put(column: np.ndarray, rows: np.ndarray, values: Any) -> np.ndarray:
    column = column.copy()
    column[rows] = values
    return column
