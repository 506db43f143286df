"""Problems on the manifolds that the race does not visit, beside pymanopt's conjugate gradients with a memo."""

from __future__ import annotations

from functools import partial

import numpy as np

from . import _ours, _pymanopt
from ._measure import Outcome
from ._more_problems import more_cases
from ._race import DEFAULT, MEMOIZED, NAMED
from ._session import Session


def run(session: Session) -> None:
    """Print the CPU seconds of everybody, to a relative gradient of 1e-6 in the metric, and the ratios."""
    limit = 2.0 if session.quick else 20.0
    for case in more_cases(session.quick):
        session.report.title(f"{case.name}: CPU seconds to 1e-6, evaluated values")
        runs = {name: partial(_ours.run, name, case) for name in (*NAMED, "tr")}
        runs[MEMOIZED[0]] = partial(_pymanopt.memoized, case)
        if "SO(3)" in case.name:
            runs[MEMOIZED[1]] = partial(_pymanopt.memoized, case, retraction="polar")
        results: dict[str, list[Outcome]] = {name: [] for name in runs}
        for _ in range(session.rounds):
            for name, one in runs.items():
                results[name].append(one(limit))
        seconds = {name: float(np.median([outcome.seconds for outcome in many])) for name, many in results.items()}
        for name, many in results.items():
            end = "" if many[-1].solved else f"   not there: {many[-1].relative:.1e}"
            session.report.note(f"{name:<30}{seconds[name]:>9.4f} s{many[-1].values:>9.0f}{end}")
        peer = min(seconds[name] for name in runs if name in MEMOIZED)
        session.report.note(f"{'the better pymanopt / ' + DEFAULT:<30}{peer / seconds[DEFAULT]:>9.2f}")
