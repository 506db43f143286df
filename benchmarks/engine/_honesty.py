"""Whether a success is one: problems with known minima, fifty starts from next to a boundary to a million away."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np

import manifoldseq as ms

from ._known import Known, known
from ._problems import cases
from ._session import Session

BATCH = "batch "
"""Before the name of a solver: all starts at once, with `minimize_batch`."""

SOLVERS = ("lbfgs-tr", "lbfgs", "bb", "cg", "tr", "gd", "pgd", *(BATCH + name for name in ("lbfgs", "bb", "cg")))
HONEST = ("lbfgs-tr", "lbfgs", "bb", "cg", "tr")
JUDGED = (*HONEST, *(BATCH + name for name in ("lbfgs", "bb", "cg")))
STARTS = 50


def judge(task: tuple[int, str, int]) -> Counter[str]:
    """Return what became of all starts of one problem with one solver."""
    number, solver, n = task
    case, counts = known()[number], Counter[str]()
    for result in _results(case, solver, n):
        counts["runs"] += 1
        counts["wrong"] += case.wrong(result)
        counts["reached"] += case.reached(result)
        counts["called"] += case.reached(result) and result.success
        counts["evaluations"] += int(result.nfev)
        counts[f"status {result.status.name}"] += not (case.reached(result) and result.success)
    return counts


def _results(case: Known, solver: str, n: int) -> Iterator[Any]:
    """Yield the results from all starts, one after the other or in a batch."""
    with np.errstate(all="ignore"), ms.execution.one_blas_thread():
        if solver.startswith(BATCH):
            starts = ms.linalg.tree_map(lambda *rows: np.stack(rows), *case.starts(n))
            yield from ms.minimize_batch(case.problem, starts, solver=solver.removeprefix(BATCH), project=True)
        else:
            for i, x in enumerate(case.starts(n)):
                yield ms.minimize(case.problem, x, solver=solver, seed=i, project=True)


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
        honest = solver in JUDGED
        least = (0.85 if solver.endswith("cg") else 0.93) if honest else None
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
    report.row("median of all", float(np.median([r for found in ratios.values() for r in found])), ".2f", most=1.2)
    worst = max(ratios, key=lambda name: np.median(ratios[name]))
    report.row(f"worst problem by its median: {worst}", float(np.median(ratios[worst])), ".2f", most=1.35)


def _told(c: Counter[str]) -> str:
    return f"{c['called']}/{c['reached']}/{c['runs']}" + (f" WRONG {c['wrong']}" if c["wrong"] else "")
