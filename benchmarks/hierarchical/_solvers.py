"""Generic solvers on the model from random starts against the closed form."""

import manifoldseq as ms

from .._report import Report
from ._problems import frames

SOLVERS = ("lbfgs", "cg", "tr", "bb", "alternating")
STOP = ms.GradientNorm(1e-9, relative=True) | ms.MaxIterations(5000)
STARTS = 20


def run(report: Report) -> None:
    """Measure."""
    report.title(f"hierarchical.subspace, {STARTS} random starts per problem: relative distance to the closed form")
    known = {record.name for _, record in ms.hooks.records("solvers")}
    build = ms.get_model("hierarchical.subspace").problem
    for d, h, m in ((20, 6, None), (200, 10, None), (200, 10, 4)):
        problem = build(frames(1000, d, h, spread=2.0), n_components=m)
        start = ms.minimize(problem)
        report.row(f"d={d}, h={h}, m={m or h - 1}: iterations from the closed form", start.nit, "d", most=0)
        for solver in SOLVERS:
            if solver not in known:
                report.note(f"{solver} is not installed")
                continue
            results = [ms.minimize(problem, "random", solver=solver, seed=seed, stop=STOP) for seed in range(STARTS)]
            worst = max(abs(result.fun / start.fun - 1) for result in results)
            report.row(f"d={d}, h={h}, m={m or h - 1}: {solver}, worst of {STARTS}", worst, ".1e", most=1e-10)
