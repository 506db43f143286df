"""Sixteen more problems: the default solver compared with those that it combines, and with pymanopt and scipy."""

from __future__ import annotations

from statistics import geometric_mean

import numpy as np

from ._manifolds import CG, DEFAULT, FREE, TR, Table, row, summary, tabulated
from ._session import Session
from ._varied_problems import varied_cases

CHOICES = ("lbfgs", "tr")


def run(session: Session) -> None:
    """Print the ratios of CPU seconds to a relative gradient of 1e-6 in the metric."""
    table = tabulated(session, varied_cases)
    session.report.title("ratios of CPU seconds, medians over the seeds; a run of ours that was not solved: 0.001")
    choices(session, table)
    for name in table:
        if name.startswith("Karcher"):
            row(session, table, f"pymanopt CG / {DEFAULT}", name, CG, DEFAULT, least=4.0)
    summary(session, table, "memoized pymanopt CG", CG, DEFAULT, 2.8, 0.8)
    summary(session, table, "scipy on free parameters", FREE, DEFAULT, 1.1)
    summary(session, table, "pymanopt TR", TR, "tr", 2.5)


def choices(session: Session, table: Table) -> None:
    """Compare the default with the better of its two solvers, on each problem and seed by the median time."""
    each = {}
    for name, every in table.items():
        ratios = []
        for results in every:
            seconds = {
                who: float(np.median([one.seconds for one in results[who]])) if results[who][-1].solved else np.inf
                for who in (DEFAULT, *CHOICES)
            }
            best = min(seconds[who] for who in CHOICES)
            ratios.append(max(best / seconds[DEFAULT], 1e-3) if best < np.inf else 1.0)
        each[name] = geometric_mean(ratios)
        session.report.note(f"{name:<34}better of lbfgs and tr / {DEFAULT:<12}{each[name]:>9.2f}")
    session.report.row(
        f"better of lbfgs and tr / {DEFAULT}, geometric mean of {len(each)} problems",
        geometric_mean(each.values()),
        least=0.92,
    )
    lowest = min(each, key=lambda name: each[name])
    session.report.row(f"better of lbfgs and tr / {DEFAULT}, worst problem ({lowest})", each[lowest])
