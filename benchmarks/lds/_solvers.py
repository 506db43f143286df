"""Which solver finds the best mean from many starts with the same number of evaluations."""

import numpy as np

import manifoldseq as ms
from manifoldseq_lds import Systems

from .._report import Report

PROBLEMS, STARTS, BUDGET = 30, 20, 60
SIZE = (20, 30, 5)
SOLVERS: dict[str, tuple[str, dict[str, object]]] = {
    "lbfgs": ("lbfgs", {}),
    "bb": ("bb", {}),
    "cg": ("cg", {}),
    "pgd, backtracking": ("pgd", {"step_size": (0.1, 0.1, 1.0)}),
    "pgd, as printed": ("pgd", {"step_size": (0.1, 0.1, 1.0), "backtracking": False}),
    "pgd, toolbox scale": ("pgd", {"step_size": (0.05, 0.05, 0.5), "backtracking": False}),
    "polar steps of U, lbfgs on the rest": ("alternating", {}),
}


def random_mean(seed: int) -> ms.Problem:
    """Return a mean problem of systems that have little in common."""
    rng = np.random.default_rng(seed)
    N, m, n = SIZE
    A = rng.standard_normal((N, n, n)) + 2 * rng.standard_normal((n, n))
    A *= (rng.uniform(0.5, 0.95, N) / np.linalg.norm(A, 2, axis=(1, 2)))[:, None, None]
    C = np.linalg.qr(rng.standard_normal((m, n)) + rng.standard_normal((N, m, n)))[0]
    return ms.get_model("lds.mean").build(Systems(A, C))


def run(report: Report) -> None:
    """Measure."""
    report.title(
        f"means: {PROBLEMS} random problems (N, m, n = {SIZE}), {STARTS} starts (the medoid, then random), "
        f"{BUDGET} evaluations each"
    )
    best = np.empty((PROBLEMS, len(SOLVERS)))
    single = np.empty((PROBLEMS, len(SOLVERS)))
    stop = ms.GradientNorm(1e-9, relative=True) | ms.MaxEvaluations(BUDGET)
    for i in range(PROBLEMS):
        problem = random_mean(i)
        for k, (solver, options) in enumerate(SOLVERS.values()):
            settings = {"solver": solver, "options": options, "stop": stop, "seed": i}
            best[i, k] = ms.minimize(problem, "medoid", n_starts=STARTS, **settings).fun
            single[i, k] = ms.minimize(problem, "medoid", **settings).fun
    for values, what in ((best, f"best of {STARTS} starts"), (single, "from the medoid alone")):
        gaps = (values - best.min(axis=1, keepdims=True)) / np.abs(best.min(axis=1, keepdims=True))
        for k, name in enumerate(SOLVERS):
            target = 0.8 if name == "lbfgs" and values is best else None
            share = float(np.mean(gaps[:, k] <= 1e-6))
            report.row(f"{what}, {name}: share within 1e-6 of the best solver", share, ".2f", least=target)
        report.note(
            f"{what}, median gap: "
            + ", ".join(f"{n} {g:.1e}" for n, g in zip(SOLVERS, np.median(gaps, 0), strict=True))
        )
