"""Whether a success is one: problems with known minima, fifty starts from next to a boundary to a million away."""

from __future__ import annotations

import os
from collections import Counter
from concurrent.futures import ProcessPoolExecutor

import numpy as np

import manifoldseq as ms

from ._known import known
from ._problems import cases
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
    report, problems, n = session.report, known(), 7 if session.quick else STARTS
    report.title("honesty: called solved / reached the minimum / runs; WRONG: a success far from it")
    tasks = [(k, solver, n) for k in range(len(problems)) for solver in SOLVERS]
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        found = dict(zip(tasks, pool.map(judge, tasks), strict=True))
    for k, case in enumerate(problems):
        row = [f"{solver} {_told(found[k, solver, n])}" for solver in SOLVERS]
        report.note(f"{case.name + (f' ({case.group})' if case.group != 'well' else ''):46s} {'  '.join(row)}")
    for solver in SOLVERS:
        by = {g: Counter[str]() for g in ("well", "ill", "zero")}
        for k, case in enumerate(problems):
            by[case.group].update(found[k, solver, n])
        honest = solver in HONEST
        least = {"cg": 0.85}.get(solver, 0.93) if honest else None
        for group, c in by.items():
            judged = honest and group != "ill"
            report.row(
                f"{solver}, {group}: wrong successes in {c['runs']} runs", c["wrong"], "d", most=0 if judged else None
            )
            share = c["called"] / max(c["reached"], 1)
            what = f"{solver}, {group}: called solved of {c['reached']} that reached the minimum"
            report.row(what, share, ".3f", least=least if group == "well" else None)
    price(session)


def price(session: Session) -> None:
    """Compare evaluations and Hessian products to the default rule with those to a relative gradient norm of 1e-6."""
    report, ratios = session.report, {}
    relative = ms.GradientNorm(1e-6, relative=True) | ms.MaxIterations(1000)
    report.title("evaluations to the default rule / to a relative gradient norm of 1e-6, eight problems, four solvers")
    for case in cases(session.quick):
        found = []
        for solver in HONEST:
            default, old = (ms.minimize(case.problem, case.start, solver=solver, stop=s) for s in (None, relative))
            found.append((default.nfev + default.nhev) / (old.nfev + old.nhev))
        ratios[case.name] = found
        report.note(f"{case.name:44s} {'  '.join(f'{r:.2f}' for r in found)}")
    report.row("median of all", float(np.median([r for found in ratios.values() for r in found])), ".2f", most=1.15)
    worst = max(ratios, key=lambda name: np.median(ratios[name]))
    report.row(f"worst problem by its median: {worst}", float(np.median(ratios[worst])), ".2f", most=1.3)


def _told(c: Counter[str]) -> str:
    return f"{c['called']}/{c['reached']}/{c['runs']}" + (f" WRONG {c['wrong']}" if c["wrong"] else "")
