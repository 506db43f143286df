"""The cost of the default solver relative to the best of those it chooses from, each with its defaults."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

import manifoldseq as ms

from ._known import known
from ._more_problems import more_cases
from ._problems import cases
from ._session import Session
from ._varied_problems import lyapunov, varied_cases

SOLVERS = ("auto", "lbfgs", "bb", "cg", "tr")
ROUNDS = 5


def problems(quick: bool) -> Iterator[tuple[str, ms.Problem, ms.manifolds.Point]]:
    """Yield the problems of all sections, those of the section on honesty from a start that the rules never saw."""
    for case in [*cases(quick), *more_cases(quick), *varied_cases(quick)]:
        yield case.name, case.problem, case.start
    for condition in (1e3, 1e4, 1e5):
        hard = lyapunov(4 if quick else 20, condition)
        yield f"{hard.name}, condition {condition:g}, no Hessian", replace(hard, hessian=None).problem, hard.start
    for case in known():
        yield case.name, case.problem, list(case.starts(12))[11]


def run(session: Session) -> None:
    """Measure CPU seconds to the default rule of every solver that solves a problem; the default solver runs first."""
    report, ratios, lost = session.report, [], 0
    report.title("solver='auto': CPU seconds / those of the fastest of lbfgs, bb, cg, tr that ends as solved as low")
    for name, problem, x in problems(session.quick):
        seconds: dict[str, list[float]] = {s: [] for s in SOLVERS}
        ends = {}
        for _ in range(1 if session.quick else ROUNDS):
            for s in SOLVERS:
                began = time.process_time()
                with np.errstate(all="ignore"):
                    ends[s] = ms.minimize(problem, x, solver=s, seed=0, project=True)
                seconds[s].append(time.process_time() - began)
        least = min((r.fun for r in ends.values() if r.success), default=np.inf)
        solved = [s for s, r in ends.items() if r.success and r.fun <= least + 1e-6 * max(1.0, abs(least))]
        if not solved:
            report.note(f"{name:44s} not solved by any")
            continue
        lost += "auto" not in solved
        best = min(solved, key=lambda s: np.median(seconds[s]))
        ratio = float(np.median(np.divide(seconds["auto"], seconds[best]))) if "auto" in solved else np.inf
        ratios.append(ratio)
        report.note(f"{name:44s} {ends['auto'].solver:8s} {ratio:5.2f}   fastest: {best}")
    # the deconvolution has several local minima, of which ``bb`` reaches a lower one
    report.row(f"problems of {len(ratios)} solved by another solver and not by the default", lost, "d", most=1)
    report.row("share within 2 times of the fastest", float(np.mean(np.array(ratios) <= 2)), ".2f", least=0.82)
    report.row("median", float(np.median(ratios)), ".2f")
