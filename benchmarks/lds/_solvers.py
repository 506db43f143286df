"""Which solver finds the best mean from many starts with the same number of evaluations."""

import numpy as np

import manifoldseq as ms
from manifoldseq_lds import Systems

from .._report import Report

PROBLEMS, STARTS, BUDGET = 30, 20, 120
SIZE = (10, 12, 3)
DEFAULT = "lbfgs"
SOLVERS: dict[str, tuple[str, dict[str, object]]] = {
    DEFAULT: ("lbfgs", {}),
    "bb": ("bb", {}),
    "cg": ("cg", {}),
    "pgd, backtracking": ("pgd", {"step_size": (0.1, 0.1, 1.0)}),
    "polar steps of U, lbfgs on the rest": ("alternating", {}),
}


def random_mean(seed: int) -> ms.Problem:
    """Return a mean problem of systems that have little in common."""
    rng = np.random.default_rng(seed)
    N, m, n = SIZE
    A = rng.standard_normal((N, n, n)) + 2 * rng.standard_normal((n, n))
    A *= (rng.uniform(0.5, 0.95, N) / np.linalg.norm(A, 2, axis=(1, 2)))[:, None, None]
    C = np.linalg.qr(rng.standard_normal((m, n)) + rng.standard_normal((N, m, n)))[0]
    return ms.get_model("lds.mean").problem(Systems(A, C))


def run(report: Report) -> None:
    """Measure."""
    report.title(
        f"means: {PROBLEMS} random problems (N, m, n = {SIZE}), {STARTS} starts (the medoid, then random), "
        f"{BUDGET} evaluations each"
    )
    best = np.array([found(seed) for seed in range(PROBLEMS)])
    lowest = best.min(axis=1, keepdims=True)
    gaps = (best - lowest) / np.abs(lowest)
    for k, name in enumerate(SOLVERS):
        share = float(np.mean(gaps[:, k] <= 1e-6))
        target = 0.8 if name == DEFAULT else None
        report.row(f"{name}: share of problems within 1e-6 of the best solver", share, ".2f", least=target)
        report.row(f"{name}: largest gap", float(gaps[:, k].max()), ".1e")


def found(seed: int) -> list[float]:
    """Return the best objective of every solver on one problem, from the same starts."""
    problem, stop = random_mean(seed), ms.GradientNorm(1e-9, relative=True) | ms.MaxEvaluations(BUDGET)
    return [
        ms.minimize(problem, "medoid", n_starts=STARTS, solver=solver, options=options, stop=stop, seed=seed).fun
        for solver, options in SOLVERS.values()
    ]
