"""Array-valued constraints: one evaluation, many inequalities, quadratic programs, and honest statuses."""

from __future__ import annotations

import time
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
import scipy.optimize
from scipy.optimize import minimize

import manifoldseq as ms
from manifoldseq.manifolds import Euclidean, Sphere, Stiefel
from manifoldseq.solvers._augmented_lagrangian import Penalized

from .._report import interleaved
from ._session import Session

anp: Any = import_module("autograd.numpy")
Bounds: Any = scipy.optimize.Bounds
LinearConstraint: Any = scipy.optimize.LinearConstraint


def run(session: Session) -> None:
    """Measure what the page on constraints and the issue state."""
    report = session.report
    report.title("array-valued constraints")
    for n in (20,) if session.quick else (20, 80, 160):
        seconds = interleaved(evaluations(n), 2 * session.rounds)
        ratio = float(np.median(seconds["array"] / seconds["penalty"]))
        report.row(f"{4 * n} inequalities: an evaluation over one with a penalty term in the cost", ratio, most=2.0)
        report.row(
            f"{4 * n} inequalities as scalar functions, over one array",
            float(np.median(seconds["scalars"] / seconds["array"])),
        )
    n = 200 if session.quick else 2000
    problem = factorization(n)
    start = time.process_time()
    result = ms.minimize(problem, seed=0)
    report.row(f"St({n}, 5), {5 * n} inequalities: CPU seconds", time.process_time() - start, most=3.0)
    report.row("its largest violation", max(result.feasibility, -result.x.min()), ".1e", most=1e-6)
    assert result.success
    size = 30 if session.quick else 300
    program, judge = quadratic_program(size)
    seconds = interleaved({"ours": partial(ms.minimize, program, np.zeros(size)), "slsqp": judge}, session.rounds)
    report.row(
        f"quadratic program, {size} variables, {4 * size} constraints: SLSQP's CPU over ours",
        float(np.median(seconds["slsqp"] / seconds["ours"])),
        least=None if session.quick else 2.5,
    )
    ends = [ms.minimize(problem, start, seed=0).status for problem, start in impossible()]
    report.row("impossible problems that end INFEASIBLE, of 4", ends.count(ms.Status.INFEASIBLE), "d", least=4)
    ends = [ms.minimize(*possible(seed)).status for seed in range(5 if session.quick else 30)]
    report.row(f"possible problems that end INFEASIBLE, of {len(ends)}", ends.count(ms.Status.INFEASIBLE), "d", most=0)
    report.row(
        f"possible problems that are solved, of {len(ends)}", sum(end.success for end in ends), "d", least=len(ends)
    )


def evaluations(n: int) -> dict[str, Any]:
    """Return evaluations at 20 points: of an augmented Lagrangian with an array, with functions, and of a penalty."""
    rng = np.random.default_rng(0)
    A, M = rng.random((n, 30)), Stiefel(n, 4)

    def cost(X: Any) -> Any:
        return anp.sum((A - X @ (X.T @ A)) ** 2)

    def penalty(X: Any) -> Any:
        return cost(X) + 0.5 * anp.sum(anp.maximum(0, -X) ** 2)

    points = [M.random_point(rng) for _ in range(20)]

    def augmented(inequalities: Any) -> Any:
        penalized = Penalized(ms.Problem(M, cost, inequalities=inequalities), None, 1.0, None)
        penalized.begin(points[0])
        return penalized.value_and_gradient

    scalars = [lambda X, i=i, j=j: -X[i, j] for i in range(n) for j in range(4)]
    asked = {
        "array": augmented(lambda X: -X),
        "scalars": augmented(scalars),
        "penalty": ms.Problem(M, penalty).objective.value_and_gradient,
    }
    return {name: lambda f=f: [f(x.copy()) for x in points] for name, f in asked.items()}


def factorization(n: int) -> ms.Problem:
    """Return a nonnegative factorization of 40 columns of n numbers with orthonormal factors, planted."""
    rng = np.random.default_rng(0)
    H = np.zeros((n, 5))
    H[np.arange(n), rng.integers(5, size=n)] = rng.random(n) + 0.5
    A = H / np.linalg.norm(H, axis=0) @ rng.random((5, 40)) * 5 + 0.01 * rng.random((n, 40))

    def value_and_gradient(X: np.ndarray) -> tuple[float, np.ndarray]:
        W = X.T @ A
        return -float(np.sum(W * W)), -2 * A @ W.T

    return ms.Problem(Stiefel(n, 5), ms.objective(value_and_gradient=value_and_gradient), inequalities=lambda X: -X)


def quadratic_program(n: int) -> tuple[ms.Problem, Any]:
    """Return a convex quadratic program with 2n linear inequalities and n bounds, and SLSQP's run on it."""
    rng = np.random.default_rng(n)
    B = rng.standard_normal((n, n))
    Q, c, A = B @ B.T / n + 0.1 * np.eye(n), rng.standard_normal(n), rng.standard_normal((2 * n, n)) / np.sqrt(n)
    given = [LinearConstraint(A, -np.inf, 0.3 * rng.random(2 * n)), Bounds(np.full(n, -0.5), np.full(n, 0.5))]

    def cost(x: np.ndarray) -> float:
        return float(0.5 * x @ Q @ x + c @ x)

    def gradient(x: np.ndarray) -> np.ndarray:
        return Q @ x + c

    def slsqp() -> Any:
        options = {"maxiter": 1000, "ftol": 1e-12}
        return minimize(cost, np.zeros(n), jac=gradient, bounds=given[1], constraints=given[:1], options=options)

    return ms.Problem(Euclidean(n), cost, gradient=gradient, inequalities=given), slsqp


def impossible() -> list[tuple[ms.Problem, Any]]:
    """Return four problems whose constraints cannot be met, and their starts."""
    E, positive = Euclidean(2), Bounds(np.zeros(2), np.full(2, np.inf))
    plane = LinearConstraint(np.ones((1, 2)), -np.inf, np.array([-1.0]))
    negative = [lambda X: -X, lambda X: anp.sum(X, 0) + 0.1]
    return [
        (ms.Problem(E, lambda x: anp.sum(x**2), inequalities=[plane, positive]), np.array([2.0, 3.0])),
        (ms.Problem(E, lambda x: anp.sum((x - 3) ** 2), inequalities=lambda x: x**2 + 1), np.array([2.0, 3.0])),
        (ms.Problem(Sphere(5), lambda x: x[0], equalities=lambda x: x[1:3] - 2.0), None),
        (ms.Problem(Stiefel(6, 2), lambda x: anp.sum(x[:, 0]), inequalities=negative), None),
    ]


def possible(seed: int) -> tuple[ms.Problem, np.ndarray]:
    """Return a nonconvex problem whose constraints a known point meets, and a far start."""
    rng = np.random.default_rng(seed)
    A, inside = rng.standard_normal((8, 6)), rng.standard_normal(6)
    rows = LinearConstraint(A, -np.inf, A @ inside + 0.1 * rng.random(8))
    near = [rows, lambda x: anp.sum((x - inside) ** 2) - 4.0]
    problem = ms.Problem(Euclidean(6), lambda x: anp.sum(anp.cos(x)) + anp.sum(x**2) * 0.1, inequalities=near)
    return problem, 5 * rng.standard_normal(6)
