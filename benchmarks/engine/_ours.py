"""This package's solvers in the race, called as a user calls them."""

from __future__ import annotations

import time
from dataclasses import dataclass

import manifoldseq as ms

from ._measure import TOLERANCE, Outcome, feasibility, gradient_norm
from ._problems import Case

NAMES = ("lbfgs-tr", "lbfgs", "bb", "cg", "gd", "tr")


@dataclass(frozen=True)
class MaxCPUTime(ms.StoppingRule):
    """Ends a run after CPU seconds, which other load does not move."""

    deadline: float

    def check(self, so_far: object) -> ms.Status | None:
        """Return the limit, once it is passed."""
        return ms.Status.MAX_TIME if time.process_time() > self.deadline else None


def run(name: str, case: Case, limit: float) -> Outcome:
    """Solve with the solver of that name and its defaults."""
    problem = case.problem
    scale = gradient_norm(case.manifold, case.start, case.gradient(case.start))
    began = time.process_time()
    stop = ms.GradientNorm(TOLERANCE, relative=True) | ms.MaxIterations(10**6) | MaxCPUTime(began + limit)
    result = ms.minimize(problem, case.start, solver=name, stop=stop)
    seconds = time.process_time() - began
    relative = gradient_norm(case.manifold, result.x, case.gradient(result.x)) / scale
    off = feasibility(case.manifold, result.x)
    return Outcome(seconds, result.nfev, result.njev, result.nhev, relative, result.fun, off)
