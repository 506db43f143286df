"""How far the returned points of all sections are off their manifolds, and the same in single precision."""

from __future__ import annotations

import numpy as np

import manifoldseq as ms

from ._problems import cases
from ._session import Session


def run(session: Session) -> None:
    """Solve every problem once more in float32, then judge all points returned so far."""
    stop = ms.GradientNorm(1e-3, relative=True) | ms.MaxIterations(300)
    for case in cases(session.quick):
        start = case.start
        single = tuple(x.astype(np.float32) for x in start) if isinstance(start, tuple) else start.astype(np.float32)
        for solver in ("lbfgs", "bb", "cg"):
            result = ms.minimize(case.problem, single, solver=solver, stop=stop, project=True)
            session.returned(case.manifold, result.x, "float32")
    if not session.off["float64"]:
        for case in cases(session.quick):
            session.returned(case.manifold, ms.minimize(case.problem, case.start, stop=stop).x)
    report = session.report
    report.title("feasibility of every returned point of this run: max |XᵀX − I|")
    for dtype, unit, most in (("float64", ", over p", 1e-14), ("float32", "", 1e-6)):
        off = session.off[dtype]
        report.row(f"{dtype}{unit}, worst of {len(off)} points", max(off), ".1e", most=most)
