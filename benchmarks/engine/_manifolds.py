"""Problems on the manifolds that the race does not contain, five seeds each, compared with pymanopt and scipy."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from statistics import geometric_mean

import numpy as np

from . import _ours, _pymanopt, _scipy
from ._measure import Outcome, factors
from ._more_problems import more_cases
from ._problems import Case
from ._race import MEMOIZED
from ._session import Session

SEEDS, LIMIT, REPEATED, SHORT = 5, 40.0, 5, 1.0
DEFAULT, OURS = "auto", ("auto", "lbfgs", "bb", "cg")
CG, CG_POLAR = MEMOIZED
TR, FREE = "pymanopt TR, memoized", "scipy L-BFGS-B, free"

Runs = dict[str, list[Outcome]]


def contestants(case: Case) -> dict[str, Callable[[float], Outcome]]:
    """Return everybody who can solve the problem."""
    runs: dict[str, Callable[[float], Outcome]] = {name: partial(_ours.run, name, case) for name in OURS}
    runs["tr"] = partial(_ours.run, "tr", case)
    if all(_scipy.chart(factor) for factor in factors(case.manifold)):
        runs[FREE] = partial(_scipy.free, case)
    try:
        _pymanopt.theirs(case.manifold)
    except TypeError:  # pymanopt has no such manifold
        return runs
    runs[CG] = partial(_pymanopt.memoized, case)
    if any(word in case.name for word in ("SO(", "O(", "St(")):
        runs[CG_POLAR] = partial(_pymanopt.memoized, case, retraction="polar")
    if case.hessian is not None:
        runs[TR] = partial(_pymanopt.trust_regions, case)
    return runs


def measured(case: Case, session: Session) -> Runs:
    """Run everybody in turn, short runs several times, and keep all outcomes."""
    runs = contestants(case)
    results: Runs = {name: [] for name in runs}
    for _ in range(1 if session.quick else REPEATED):
        for name, run in runs.items():
            results[name].append(run(2.0 if session.quick else LIMIT))
        if sum(many[-1].seconds for many in results.values()) > SHORT:
            break
    return results


def ratio(results: Runs, peer: str, ours: str) -> float | None:
    """Return how many times as long the peer takes, None if there is none; a run of ours that gave up takes for ever.

    The time of a peer that gave up is a lower bound of what it needs.
    """
    if peer not in results or ours not in results:
        return None
    if not results[ours][-1].solved:
        return 1e-3
    return float(np.median([a.seconds / b.seconds for a, b in zip(results[peer], results[ours], strict=True)]))


Table = dict[str, list[Runs]]
"""The runs of each problem, one entry per seed."""


def tabulated(session: Session, cases: Callable[[bool, int], list[Case]]) -> Table:
    """Run everybody on the problems of every seed, and print medians over the seeds."""
    seeds = range(1 if session.quick else SEEDS)
    table: Table = {case.name: [] for case in cases(session.quick, 0)}
    for run in contestants(cases(session.quick, 0)[0]).values():  # imports, and first calls of libraries
        run(0.1)
    for seed in seeds:
        for name, case in zip(table, cases(session.quick, seed), strict=True):
            table[name].append(measured(case, session))
    report = session.report
    for name, every in table.items():
        report.title(f"{name}: CPU seconds to 1e-6, evaluated values (medians of {len(every)} seeds), seeds not solved")
        for who in every[0]:
            seconds = float(np.median([np.median([one.seconds for one in results[who]]) for results in every]))
            values = float(np.median([results[who][-1].values for results in every]))
            missed = sum(not results[who][-1].solved for results in every)
            report.note(f"{who:<30}{seconds:>9.4f} s{values:>9.0f}{f'{missed:>6}' if missed else ''}")
    return table


def median(table: Table, name: str, peer: str, ours: str) -> float | None:
    """Return the median over the seeds of :func:`ratio`."""
    found = [one for results in table[name] if (one := ratio(results, peer, ours)) is not None]
    return float(np.median(found)) if found else None


def row(session: Session, table: Table, what: str, name: str, peer: str, ours: str, least: float | None = None) -> None:
    """Print the ratio on one problem, if the peer can solve it."""
    value = median(table, name, peer, ours)
    if value is not None:
        session.report.row(f"{name}: {what}", value, least=least)


def summary(
    session: Session, table: Table, what: str, peer: str, ours: str, least: float, worst: float | None = None
) -> None:
    """Print the ratios on all problems that the peer can solve, their geometric mean, and the lowest."""
    report = session.report
    each = {name: value for name in table if (value := median(table, name, peer, ours)) is not None}
    if peer == CG:  # the better of its retractions
        each = {n: min(v, w) if (w := median(table, n, CG_POLAR, ours)) is not None else v for n, v in each.items()}
    # the time of a peer that gave up says how long it was given: such problems are named, and left out of the mean
    given_up = [n for n in each if sum(results[peer][-1].solved for results in table[n]) <= len(table[n]) // 2]
    for name in given_up:
        report.note(f"{name:<34}{what} gave up")
        del each[name]
    for name, value in each.items():
        report.note(f"{name:<34}{what} / {ours:<12}{value:>9.2f}")
    report.row(f"{what} / {ours}, geometric mean of {len(each)} problems", geometric_mean(each.values()), least=least)
    lowest = min(each, key=lambda name: each[name])
    report.row(f"{what} / {ours}, worst problem ({lowest})", each[lowest], least=worst)


def run(session: Session) -> None:
    """Print the ratios of CPU seconds to a relative gradient of 1e-6 in the metric."""
    table = tabulated(session, more_cases)
    session.report.title("ratios of CPU seconds, medians over the seeds; a run of ours that was not solved: 0.001")
    for name in table:
        told = partial(row, session, table)
        if "synchronization" in name:
            told(f"pymanopt CG with k= / {DEFAULT}", name, CG, DEFAULT, least=4.0 if "2000" in name else 5.0)
            told(f"pymanopt CG with k=, polar / {DEFAULT}", name, CG_POLAR, DEFAULT)
        if name.startswith("Gaussian mixture"):
            told("pymanopt CG / lbfgs", name, CG, "lbfgs", least=2.5 if "SPD(7)" in name else 2.2)
            told("pymanopt CG / bb", name, CG, "bb", least=2.0)
        if name.startswith("Karcher"):
            told(f"pymanopt CG / {DEFAULT}", name, CG, DEFAULT, least=3.0 if "SPD(20)" in name else 2.2)
    summary(session, table, "memoized pymanopt CG", CG, DEFAULT, 2.3, 0.9)
    summary(session, table, "scipy on free parameters", FREE, DEFAULT, 0.8)
    summary(session, table, "pymanopt TR", TR, "tr", 2.2)
