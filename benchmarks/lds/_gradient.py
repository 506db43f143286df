"""Accuracy of the gradients of the mean under every kernel."""

import numpy as np

import manifoldseq as ms
from manifoldseq_lds import Systems

from .._report import Report

KERNELS: dict[str, tuple[str, dict[str, object]]] = {
    "projection": ("projection", {}),
    "martin": ("martin", {}),
    "martin-rbf": ("martin-rbf", {}),
    "grassmann": ("grassmann", {}),
    "symmetric-projection": ("symmetric-projection", {}),
    "symmetric-projection, skew": ("symmetric-projection", {"part": "skew"}),
    "binet-cauchy": ("binet-cauchy", {}),
    "binet-cauchy, trace": ("binet-cauchy", {"form": "trace"}),
}


def run(report: Report) -> None:
    """Measure."""
    report.title(
        "gradient of the mean of noisy copies of one system (n=3, m=30, N=40), a unit direction of every factor at a "
        "time, against central differences, h = 1e-5, relative to the norm of the gradient"
    )
    rng = np.random.default_rng(0)  # systems that have nothing in common have determinants below rounding
    A = rng.standard_normal((3, 3)) + 0.3 * rng.standard_normal((40, 3, 3))
    A *= (0.9 / np.linalg.norm(A, 2, axis=(1, 2)))[:, None, None]
    C = np.linalg.qr(rng.standard_normal((30, 3)) + 0.3 * rng.standard_normal((40, 30, 3)))[0]
    data = Systems(A, C, x1=1 + 0.1 * rng.standard_normal((40, 3)))
    for name, (kernel, params) in KERNELS.items():
        problem = ms.get_model("lds.mean").problem(data, kernel=ms.get_kernel(kernel, **params))
        point = problem.initializers["medoid"](problem, rng)
        error, slope = accuracy(problem, point, rng)
        report.row(f"{name}: largest relative error of 10 directions", error, ".1e", most=1e-7)
        report.row(f"{name}: smallest slope of the Taylor remainder", slope, least=1.9)


def accuracy(problem: ms.Problem, point: tuple[np.ndarray, ...], rng: np.random.Generator) -> tuple[float, float]:
    """Return the largest relative error of central differences, and the smallest slope of the Taylor remainder."""
    value, gradient = problem.objective.value_and_gradient(point)  # pyright: ignore[reportOptionalCall]
    size = float(np.sqrt(sum(np.sum(part**2) for part in gradient)))
    errors, slopes = [], []
    for i in range(len(point)):
        for _ in range(10):
            direction = rng.standard_normal(point[i].shape)
            direction /= np.linalg.norm(direction)
            exact = float(np.sum(gradient[i] * direction))

            def at(h: float, i: int = i, direction: np.ndarray = direction) -> float:
                moved = tuple(p + h * direction if j == i else p for j, p in enumerate(point))
                return problem.objective.value(moved)

            errors.append(abs((at(1e-5) - at(-1e-5)) / 2e-5 - exact) / size)
            rest = [abs(at(h) - value - h * exact) for h in (3e-3, 3e-4)]
            if rest[0] > 1e-11 * abs(value):  # else the objective is linear in this factor
                slopes.append(np.log10(rest[0] / rest[1]))
    return max(errors), min(slopes)
