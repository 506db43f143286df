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
    if case.hessian is not None:
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


def run(session: Session) -> None:
    """Print medians over the seeds, in CPU seconds to a relative gradient of 1e-6 in the metric, and the ratios."""
    seeds = range(1 if session.quick else SEEDS)
    names = [case.name for case in more_cases(session.quick)]
    table: dict[str, list[Runs]] = {name: [] for name in names}
    for seed in seeds:
        for name, case in zip(names, more_cases(session.quick, seed), strict=True):
            table[name].append(measured(case, session))
    report = session.report
    for name, every in table.items():
        report.title(f"{name}: CPU seconds to 1e-6, evaluated values (medians of {len(every)} seeds), seeds not solved")
        for who in every[0]:
            seconds = float(np.median([np.median([one.seconds for one in results[who]]) for results in every]))
            values = float(np.median([results[who][-1].values for results in every]))
            missed = sum(not results[who][-1].solved for results in every)
            report.note(f"{who:<30}{seconds:>9.4f} s{values:>9.0f}{f'{missed:>6}' if missed else ''}")

    def median(name: str, peer: str, ours: str) -> float | None:
        found = [one for results in table[name] if (one := ratio(results, peer, ours)) is not None]
        return float(np.median(found)) if found else None

    def row(what: str, name: str, peer: str, ours: str, least: float | None = None) -> None:
        value = median(name, peer, ours)
        if value is not None:
            report.row(f"{name}: {what}", value, least=least)

    report.title("ratios of CPU seconds, medians over the seeds; a run of ours that was not solved counts as 0.001")
    for name in names:
        if "synchronization" in name:
            row(f"pymanopt CG with k= / {DEFAULT}", name, CG, DEFAULT, least=4.0 if "2000" in name else 5.0)
            row(f"pymanopt CG with k=, polar / {DEFAULT}", name, CG_POLAR, DEFAULT)
        if name.startswith("Gaussian mixture"):
            row("pymanopt CG / lbfgs", name, CG, "lbfgs", least=2.2)
            row("pymanopt CG / bb", name, CG, "bb", least=2.0)
        if name.startswith("Karcher"):
            row(f"pymanopt CG / {DEFAULT}", name, CG, DEFAULT, least=2.2)
    summaries = (
        ("memoized pymanopt CG", CG, DEFAULT, 2.3, 0.9),
        ("scipy on free parameters", FREE, DEFAULT, 0.8, None),
    )
    for what, peer, ours, mean, worst in (*summaries, ("pymanopt TR", TR, "tr", 2.2, None)):
        each = {name: value for name in names if (value := median(name, peer, ours)) is not None}
        if peer == CG:  # the better of its retractions
            each = {n: min(v, w) if (w := median(n, CG_POLAR, ours)) is not None else v for n, v in each.items()}
        # the time of a peer that gave up says how long it was given: such problems are named, and left out of the mean
        given_up = [n for n in each if sum(results[peer][-1].solved for results in table[n]) <= len(table[n]) // 2]
        for name in given_up:
            report.note(f"{name:<34}{what} gave up")
            del each[name]
        for name, value in each.items():
            report.note(f"{name:<34}{what} / {ours:<12}{value:>9.2f}")
        report.row(
            f"{what} / {ours}, geometric mean of {len(each)} problems", geometric_mean(each.values()), least=mean
        )
        lowest = min(each, key=lambda name: each[name])
        report.row(f"{what} / {ours}, worst problem ({lowest})", each[lowest], least=worst)
