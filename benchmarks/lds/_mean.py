"""The mean problem, its fifteen start problems, and what restarts would still find."""

import time

import numpy as np

import manifoldseq as ms
from manifoldseq_lds import Systems

from .._report import Report, interleaved

STARTS = [(noise, seed) for noise in (0.3, 0.5, 0.6) for seed in range(5)]
RESTARTS = 20
SCOUT = ms.GradientNorm(1e-3, relative=True) | ms.MaxIterations(300)  # the best restart then continues to convergence


def run(report: Report) -> None:
    """Measure."""
    report.title("the mean problem: N=50, m=177, n=10, noise 0.3, from the medoid")
    problems = report.reference("lds_problems", "mean")
    if problems is None:
        return
    build = ms.get_model("lds.mean").problem

    def problem(noise: float, seed: int = 0) -> ms.Problem:
        return build(Systems(*problems.systems(50, 177, 10, noise, seed=seed)))

    first = problem(0.3)
    start = first.initializers["medoid"](first, np.random.default_rng(0))
    report.row("objective at the medoid", first.objective.value(start), ".4f")
    fused = first.objective.value_and_gradient
    assert fused is not None
    points = [tuple(leaf.copy() for leaf in start) for _ in range(2)]  # two, so that no memo helps
    seconds = interleaved({"oracle": lambda: [fused(points[i % 2]) for i in range(20)]})
    report.row("milliseconds per value and gradient", 1e3 * np.median(seconds["oracle"]) / 20)
    for solver, target in (("lbfgs", -14.2547), ("pgd", None)):
        began = time.process_time()
        result = ms.minimize(first, solver=solver, stop=ms.MaxEvaluations(320))
        elapsed = time.process_time() - began
        what = f"objective of {solver} within 320 evaluations ({result.nfev:g} used)"
        report.row(what, result.fun, ".5f", most=target)
        report.row(f"seconds of {solver}", elapsed)

    report.title(f"15 start problems: pgd from the medoid, the default solver against the best of {RESTARTS} restarts")
    worse, rises, gaps = 0, 0, []
    for noise, seed in STARTS:
        one = problem(noise, seed)
        result = ms.minimize(one, solver="pgd", stop=ms.MaxIterations(100))
        worse += result.fun > result.history["fun"][0]
        rises += int((np.diff(result.history["fun"]) > 0).sum())
        default = ms.minimize(one)
        scout = ms.minimize(one, "random", n_starts=RESTARTS, seed=seed, stop=SCOUT)
        best = min(default.fun, ms.minimize(one, scout.x).fun)
        gaps.append((default.fun - best) / abs(best))
        report.note(
            f"noise {noise}, seed {seed}: medoid {result.history['fun'][0]:.4f}, pgd {result.fun:.4f}, "
            f"default {default.fun:.4f} ({default.nfev:g} evaluations), best of it and random starts {best:.4f}"
        )
    report.row("problems where pgd with backtracking ends above its start", worse, "d", most=0)
    report.row("steps of pgd with backtracking that raised the objective", rises, "d", most=0)
    report.row("median relative gap of the default solver to the best", float(np.median(gaps)), ".2e")
    found = sum(gap < 1e-6 for gap in gaps)
    report.row("problems where the default solver finds the best (gap below 1e-6)", found, "d")
