"""The race: every contestant on every problem, from the same start to the same gradient norm."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import util
from statistics import geometric_mean
from typing import Any

import numpy as np

from . import _ours, _pymanopt, _scipy
from ._measure import Outcome
from ._problems import Case, cases
from ._session import Session

DEFAULT, NAMED = "lbfgs-tr", ("lbfgs-tr", "lbfgs", "bb", "cg")
STOCK = "pymanopt CG"
MEMOIZED = ("pymanopt CG, memoized", "pymanopt CG, memoized, polar")
CORE, EXTRA = 40.0, 10.0  # CPU seconds after which a run is given up
BUDGET, MOST = 12.0, 15  # short comparisons are repeated until this many seconds or rounds

Run = Callable[[float], Outcome]


def contestants(case: Case, quick: bool) -> tuple[dict[str, Run], dict[str, Run]]:
    """Return those that targets are about, and the others, which run once if they are slow."""
    core: dict[str, Run] = {name: partial(_ours.run, name, case) for name in NAMED}
    core[STOCK] = partial(_pymanopt.stock, case)
    core[MEMOIZED[0]] = partial(_pymanopt.memoized, case)
    core[MEMOIZED[1]] = partial(_pymanopt.memoized, case, retraction="polar")
    extra: dict[str, Run] = {name: partial(_ours.run, name, case) for name in _ours.NAMES if name not in NAMED}
    if case.hessian is not None:
        extra["pymanopt TR, memoized"] = partial(_pymanopt.trust_regions, case)
    extra["scipy L-BFGS-B on QR"] = partial(_scipy.lbfgsb, case)
    if util.find_spec("geoopt"):
        from . import _geoopt

        trial = 0.05 if quick else min(1.0, max(0.2, 10 * core[DEFAULT](CORE).seconds))
        extra["geoopt, tuned"] = partial(_geoopt.run, case, setting=_geoopt.tuned(case, trial))
    return core, extra


def race(case: Case, session: Session) -> dict[str, list[Outcome]]:
    """Run everybody, interleaved; what was given up, and the slow ones without a target, run once."""
    core, extra = contestants(case, session.quick)
    core_limit, extra_limit = (2.0, 0.5) if session.quick else (CORE, EXTRA)
    results = {name: [run(extra_limit)] for name, run in extra.items()}
    running = {name: (run, core_limit) for name, run in core.items()}
    running |= {name: (extra[name], extra_limit) for name, (one,) in results.items() if one.seconds < 1.0}
    for name in core:
        results[name] = []
    spent = rounds = 0.0
    while rounds < session.rounds or (not session.quick and spent < BUDGET and rounds < MOST):
        for name, (run, limit) in list(running.items()):
            outcome = run(limit)
            results[name].append(outcome)
            spent += outcome.seconds
            if not outcome.solved:
                del running[name]
        rounds += 1
    return results


def row(results: list[Outcome]) -> dict[str, Any]:
    """Return the medians of one contestant on one problem."""
    last = results[-1]
    return {
        "seconds": float(np.median([r.seconds for r in results])),
        "values": last.values,
        "gradients": last.gradients,
        "hessians": last.hessians,
        "relative": last.relative,
        "fun": last.fun,
        "solved": last.solved,
        "runs": len(results),
        "settings": last.settings,
    }


def run(session: Session) -> None:
    """Race on all problems and print the ratios."""
    if not util.find_spec("geoopt"):
        session.report.skipped.append("geoopt, which is not installed")
    report, ratios = session.report, {"stock": [], "memoized": [], "best": []}
    unsolved_stock = []
    for case in cases(session.quick):
        report.title(f"{case.name}: CPU seconds, evaluated values, gradients and Hessian products, to 1e-6")
        results = race(case, session)
        table = {name: row(each) for name, each in results.items()}
        session.race.append({"problem": case.name, "contestants": table})
        order = partial(_order, table)
        for name in sorted(table, key=order):
            one = table[name]
            end = "" if one["solved"] else f"   not there: {one['relative']:.1e}"
            settings = f"   {one['settings']}" if name.startswith("geoopt") else ""
            counts = "".join(f"{one[count]:>9.0f}" for count in ("values", "gradients", "hessians"))
            report.note(f"{name:<30}{one['seconds']:>9.4f} s{counts}   of {one['runs']:>2}{end}{settings}")
        for name in _ours.NAMES:
            session.off["float64"] += [outcome.feasibility for outcome in results[name]]
        best, expert = min(NAMED, key=order), min(MEMOIZED, key=order)
        ratios["stock"].append(against(results[STOCK], results[DEFAULT]))
        ratios["memoized"].append(against(results[expert], results[DEFAULT]))
        ratios["best"].append(against(results[expert], results[best]))
        unsolved_stock.append(not table[STOCK]["solved"])
    report.title("ratios of CPU seconds; the memoized CG with the better of its two retractions on each problem")
    for key, peer, target in (("stock", "stock pymanopt CG", 3.0), ("memoized", "memoized pymanopt CG", 2.2)):
        report.row(f"default solver against {peer}, geometric mean", geometric_mean(ratios[key]), least=target)
        report.row(f"default solver against {peer}, worst problem", min(ratios[key]), least=0.95)
    report.row(
        "best named solver against memoized pymanopt CG, geometric mean", geometric_mean(ratios["best"]), least=2
    )
    if any(unsolved_stock):
        rest = [ratio for ratio, skipped in zip(ratios["stock"], unsolved_stock, strict=True) if not skipped]
        report.note(
            f"stock CG gave up on {sum(unsolved_stock)} of {len(unsolved_stock)} problems, where its time is a lower "
            f"bound; geometric mean of the others {geometric_mean(rest):.3g}"
        )


def _order(table: dict[str, dict[str, Any]], name: str) -> tuple[bool, float]:
    """Order contestants by time, after those that did not get there."""
    return not table[name]["solved"], table[name]["seconds"]


def against(peer: list[Outcome], ours: list[Outcome]) -> float:
    """Return the median ratio over the rounds; a run of ours that gave up counts as infinitely slow."""
    if not all(outcome.solved for outcome in ours):
        return 1e-9
    return float(np.median([a.seconds / b.seconds for a, b in zip(peer, ours, strict=False)]))
