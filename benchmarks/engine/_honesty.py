"""Whether a success is one: problems with known minima, fifty starts from next to a boundary to a million away."""

from __future__ import annotations

import os
from collections import Counter
from concurrent.futures import ProcessPoolExecutor

import numpy as np

import manifoldseq as ms

from ._known import known
from ._session import Session

SOLVERS = ("lbfgs", "bb", "cg", "tr", "gd", "pgd")
HONEST = ("lbfgs", "bb", "cg", "tr")
STARTS = 50


def judge(task: tuple[int, str, int]) -> Counter[str]:
    """Return what became of all starts of one problem with one solver."""
    number, solver, n = task
    case, counts = known()[number], Counter[str]()
    for i, x in enumerate(case.starts(n)):
        with np.errstate(all="ignore"), ms.execution.one_blas_thread():
            result = ms.minimize(case.problem, x, solver=solver, seed=i, project=True)
        counts["runs"] += 1
        counts["wrong"] += case.wrong(result)
        counts["reached"] += case.reached(result)
        counts["called"] += case.reached(result) and result.success
        counts["evaluations"] += int(result.nfev)
        counts[f"status {result.status.name}"] += not (case.reached(result) and result.success)
    return counts


def run(session: Session) -> None:
    """Count the wrong successes of every solver, and the runs that reached the minimum without saying so."""
    report, cases, n = session.report, known(), 7 if session.quick else STARTS
    report.title("honesty: called solved / reached the minimum / runs; WRONG: a success far from it")
    tasks = [(k, solver, n) for k in range(len(cases)) for solver in SOLVERS]
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        found = dict(zip(tasks, pool.map(judge, tasks), strict=True))
    for k, case in enumerate(cases):
        row = [f"{solver} {_told(found[k, solver, n])}" for solver in SOLVERS]
        report.note(f"{case.name + (f' ({case.group})' if case.group != 'well' else ''):46s} {'  '.join(row)}")
    for solver in SOLVERS:
        by = {g: Counter[str]() for g in ("well", "ill", "zero")}
        for k, case in enumerate(cases):
            by[case.group].update(found[k, solver, n])
        wrong = sum(c["wrong"] for c in by.values())
        honest = solver in HONEST
        report.row(f"{solver}: wrong successes", wrong, "d", most=0 if honest else None)
        least = {"cg": 0.85}.get(solver, 0.93) if honest else None
        for group, c in by.items():
            share = c["called"] / max(c["reached"], 1)
            what = f"{solver}, {group}: called solved of {c['reached']} that reached, {c['runs']} runs"
            report.row(what, share, ".3f", least=least if group == "well" else None)


def _told(c: Counter[str]) -> str:
    return f"{c['called']}/{c['reached']}/{c['runs']}" + (f" WRONG {c['wrong']}" if c["wrong"] else "")
