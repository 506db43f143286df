"""Bounds that are active at the optimum: what they cost in iterations."""

from __future__ import annotations

import numpy as np

import manifoldseq as ms
from manifoldseq.manifolds import OpenBox, Product

from ._problems import Case, mixed
from ._session import Session

ACTIVE, INACTIVE, TOLERANCE, MOST = 0.5, 50.0, 1e-8, 20_000


def run(session: Session) -> None:
    """Measure: the same problems and starts with a tight and with a wide bound."""
    seeds = range(1) if session.quick else range(6)
    report = session.report
    report.title(f"an active bound: iterations to {TOLERANCE:g} with bound {ACTIVE} over those with {INACTIVE:g}")
    for solver, target in (("lbfgs", 2.0), ("bb", 2.0)):
        ratios = []
        for seed in seeds:
            tight, held = _iterations(mixed(60, 5, ACTIVE, seed), solver, session)
            wide, free = _iterations(mixed(60, 5, INACTIVE, seed), solver, session)
            assert held > 0 == free, "the bounds of this problem are to be active in one case only"
            ratios.append(tight / wide)
        report.row(f"{solver}, median of {len(ratios)} problems", float(np.median(ratios)), most=target)
        report.row(f"{solver}, worst of {len(ratios)} problems", max(ratios))
    tight, _ = _iterations(mixed(60, 5, ACTIVE), "lbfgs", session)
    inside, _ = _iterations(mixed(60, 5, ACTIVE), "lbfgs", session, sigmoid=True)
    report.row("lbfgs, OpenBox over clipping", inside / tight)


def _iterations(case: Case, solver: str, session: Session, sigmoid: bool = False) -> tuple[int, int]:
    """Return how many iterations it takes, and how many numbers end at their bound."""
    frame, rotation, box = case.manifold.factors  # type: ignore[attr-defined]
    manifold = Product(frame, rotation, OpenBox(box.n, box.bound)) if sigmoid else case.manifold
    start = (*case.start[:2], np.clip(case.start[2], -0.8 * ACTIVE, 0.8 * ACTIVE))
    stop = ms.GradientNorm(TOLERANCE, relative=True) | ms.MaxIterations(MOST)
    problem = ms.Problem(manifold, ms.objective(value_and_gradient=case.fused))
    result = ms.minimize(problem, start, solver=solver, stop=stop)
    session.returned(case.manifold, result.x)
    return result.nit, int(np.sum(np.abs(result.x[2]) >= box.bound))
