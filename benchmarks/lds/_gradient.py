"""Accuracy of the gradients of the kernel and of the mean."""

import numpy as np

import manifoldseq as ms
from manifoldseq_lds import Systems

from .._report import Report


def run(report: Report) -> None:
    """Measure."""
    report.title("gradient of the mean (n=6, m=30, N=40): Lambda, V, U against central differences, h = 1e-5")
    rng = np.random.default_rng(0)
    A = rng.standard_normal((40, 6, 6))
    A *= (rng.uniform(0.5, 0.95, 40) / np.abs(np.linalg.eigvals(A)).max(axis=1))[:, None, None]
    problem = ms.get_model("lds.mean").build(Systems(A, np.linalg.qr(rng.standard_normal((40, 30, 6)))[0]))
    point = problem.manifold.random_point(rng)
    value, gradient = problem.objective.value_and_gradient(point)  # pyright: ignore[reportOptionalCall]
    for i, name in enumerate(("Lambda", "V", "U")):
        errors, slopes = [], []
        for _ in range(10):
            direction = rng.standard_normal(point[i].shape)
            exact = float(np.sum(gradient[i] * direction))

            def at(h: float, i: int = i, direction: np.ndarray = direction) -> float:
                moved = tuple(p + h * direction if j == i else p for j, p in enumerate(point))
                return problem.objective.value(moved)

            errors.append(abs((at(1e-5) - at(-1e-5)) / 2e-5 - exact) / abs(exact))
            rest = [abs(at(h) - value - h * exact) for h in (1e-3, 1e-4)]
            slopes.append(np.log10(rest[0] / rest[1]))
        report.row(f"largest relative error, {name}, of 10 directions", max(errors), ".1e", most=1e-7)
        report.row(f"smallest slope of the Taylor remainder, {name}", min(slopes), least=1.9)
