"""Small problems with constraints, and scipy's SLSQP as the judge of what solvers return for them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.optimize

import manifoldseq as ms
from manifoldseq.manifolds import Euclidean, Sphere, Stiefel


@dataclass(frozen=True)
class Case:
    """A problem, a generator of starts, and the manifold written as equalities for SLSQP."""

    problem: ms.Problem
    start: Callable[[np.random.Generator], np.ndarray]
    manifold: tuple[ms.Objective, ...] = ()
    feasible: bool = True


def cost(value: Callable[[Any], Any], gradient: Callable[[Any], Any]) -> ms.Objective:
    return ms.objective(lambda x: float(value(x)), gradient)


def linear(a: Any, b: float = 0.0) -> ms.Objective:
    """Return a·x − b."""
    normal = np.array(a, float)
    return cost(lambda x: normal @ x - b, lambda x: normal)


def quadratic(Q: Any, a: Any = 0.0, b: float = 0.0) -> ms.Objective:
    """Return xᵀQx + a·x − b; a vector Q is the diagonal."""
    Q = np.diag(Q) if np.ndim(Q) == 1 else np.asarray(Q, float)
    a = np.broadcast_to(np.asarray(a, float), len(Q))
    return cost(lambda x: x @ Q @ x + a @ x - b, lambda x: (Q + Q.T) @ x + a)


def box(n: int, low: float, high: float) -> list[ms.Objective]:
    return [linear(s * np.eye(n)[k], b) for s, b in ((1, high), (-1, -low)) for k in range(n)]


def squares(n: int) -> list[ms.Objective]:
    """Return x² ≤ 1 for each coordinate."""
    return [quadratic(np.eye(n)[k], b=1.0) for k in range(n)]


def around(n: int, size: float) -> Callable[[np.random.Generator], np.ndarray]:
    return lambda rng: rng.uniform(-size, size, n)


def euclidean(
    f: ms.Objective,
    start: Callable[[np.random.Generator], np.ndarray],
    *,
    h: Sequence[ms.Objective] = (),
    g: Sequence[ms.Objective] = (),
    feasible: bool = True,
) -> Case:
    n = start(np.random.default_rng(0)).size
    return Case(ms.Problem(Euclidean(n), f, equalities=h, inequalities=g), start, feasible=feasible)


def on_sphere(f: ms.Objective, *, h: Any = (), g: Any = (), feasible: bool = True) -> Case:
    M, length = Sphere(4), quadratic(np.ones(4), b=1.0)
    return Case(ms.Problem(M, f, equalities=h, inequalities=g), M.random_point, (length,), feasible)


def on_stiefel() -> Case:
    M, Q, C = Stiefel(3, 2), np.diag([3.0, 2.0, 1.0]), np.array([[0.1, -0.2], [0.3, 0.0], [0.2, 0.3]])
    units = np.eye(6).reshape(6, 3, 2)
    f = cost(lambda X: np.sum(C * X) - np.sum(X * (Q @ X)), lambda X: C - 2 * Q @ X)
    g = [cost(lambda X, E=E: np.sum(E * X) - 0.8, lambda X, E=E: E) for E in units]

    def product(i: int, j: int) -> ms.Objective:
        def gradient(X: np.ndarray) -> np.ndarray:
            G = np.zeros_like(X)
            G[:, i] += X[:, j]
            G[:, j] += X[:, i]
            return G

        return cost(lambda X: X[:, i] @ X[:, j] - (i == j), gradient)

    return Case(ms.Problem(M, f, inequalities=g), M.random_point, (product(0, 0), product(0, 1), product(1, 1)))


def _cases() -> dict[str, Case]:
    bilinear, triangle = quadratic([[0, 0.5], [0.5, 0]]), [linear([-1, 0]), linear([0, -1]), linear([1, 1], 1)]
    hyperbola, ball = quadratic([[0, -0.5], [-0.5, 0]], b=-1.0), quadratic([1, 1], b=1.0)
    B = np.array([[0.7, -1.2, 0.4], [0.3, 0.9, -0.8], [-1.1, 0.2, 0.6]])
    six = np.zeros((6, 6))
    six[:3, 3:] = B
    peaks = quadratic([-1, -1], [0.3, 0.5])
    c04 = quadratic([[-2, 1], [1, -2]], [2, 6], 10)
    c04_bounds = [quadratic([1, 0], [-2, 0]), quadratic([[1, -1], [-1, 1]], b=1.0), quadratic([0, 1], [0, -6], -8)]
    rosenbrock = cost(
        lambda x: (1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2,
        lambda x: np.array([-2 * (1 - x[0]) - 400 * x[0] * (x[1] - x[0] ** 2), 200 * (x[1] - x[0] ** 2)]),
    )
    cubic = cost(lambda x: x[0] ** 3 + x[0] * x[1], lambda x: np.array([3 * x[0] ** 2 + x[1], x[0]]))
    hs71 = cost(
        lambda x: x[0] * x[3] * (x[0] + x[1] + x[2]) + x[2],
        lambda x: np.array(
            [x[3] * (2 * x[0] + x[1] + x[2]), x[0] * x[3], x[0] * x[3] + 1, x[0] * (x[0] + x[1] + x[2])]
        ),
    )
    volume = cost(lambda x: 25 - np.prod(x), lambda x: -np.array([np.prod(np.delete(x, k)) for k in range(4)]))
    H = B @ B.T + np.eye(3)
    pca = np.pad(-H, (0, 1))
    pca[3, 0] = pca[0, 3] = 0.4
    slope = linear([1.0, -0.5, 0.3, 0.8])
    positive = [linear(-row) for row in np.eye(4)]
    coupled = np.zeros((4, 4))
    coupled[:2, 2:] = B[:2, :2]
    return {
        "bilinear, squares": euclidean(bilinear, around(2, 6), g=squares(2)),
        "bilinear, squares, feasible starts": euclidean(bilinear, around(2, 0.9), g=squares(2)),
        "bilinear, bounds": euclidean(bilinear, around(2, 6), g=box(2, -1, 1)),
        "bilinear, duplicated constraints": euclidean(
            bilinear, around(2, 6), g=[*squares(2), *squares(2), *box(2, -1, 1)]
        ),
        "bilinear in six variables": euclidean(quadratic(six), around(6, 6), g=squares(6)),
        "concave, triangle": euclidean(peaks, around(2, 6), g=triangle),
        "concave, triangle, feasible starts": euclidean(peaks, lambda rng: rng.dirichlet(np.ones(3))[:2], g=triangle),
        "concave, simplex": euclidean(
            quadratic([-1, -1.2, -0.8, -1.1], [0.1, 0.2, 0.3, 0.1]), around(4, 6), h=[linear(np.ones(4), 1)], g=positive
        ),
        "concave, ball": euclidean(
            quadratic([-1, -2, -1.5], [0.1, 0.2, -0.3]), around(3, 6), g=[quadratic(np.ones(3), b=1.0)]
        ),
        "concave, Manopt.jl 232": euclidean(c04, around(2, 10), g=c04_bounds),
        "convex, all inactive": euclidean(
            quadratic(np.ones(3), [-0.2, -0.4, -0.6]), around(3, 6), g=[*box(3, -1, 1), quadratic(np.ones(3), b=4.0)]
        ),
        "indefinite, some inactive": euclidean(
            quadratic([-1, 1, 2], [0.1, -0.2, 0.3]), around(3, 6), g=[*box(3, -1, 1), linear(np.ones(3), 5)]
        ),
        "circle and half-plane": euclidean(
            quadratic([1, -1], [0.3, 0.2]), around(2, 6), h=[ball], g=[linear([0, 1], 0.5)]
        ),
        "two equalities, two inequalities": euclidean(
            quadratic([-1, 1, -0.5, 2], [0.3, 0.2, -0.1, 0.4]),
            around(4, 6),
            h=[linear(np.ones(4), 1), quadratic(np.ones(4), b=2.0)],
            g=[linear([-1, 0, 0, 0]), linear([0, 0, 1, 0], 0.8)],
        ),
        "duplicated equality": euclidean(
            quadratic([-1, 1, -0.5], [0.3, 0.2, -0.1]),
            around(3, 6),
            h=[quadratic(np.ones(3), b=1.0)] * 2,
            g=[linear([-1, 0, 0])] * 2,
        ),
        "lens": euclidean(linear([1, 0.3]), around(2, 6), g=[ball, quadratic([1, 1], [-2, 0])]),
        "hyperbola": euclidean(quadratic([1, 2]), around(2, 6), g=[hyperbola]),
        "concave, hyperbola and box": euclidean(
            quadratic([-1, -0.5], [0.2, 0]), around(2, 6), g=[hyperbola, *box(2, -3, 3)]
        ),
        "Rosenbrock, disk": euclidean(rosenbrock, around(2, 2), g=[ball]),
        "Hock and Schittkowski 71": euclidean(
            hs71, lambda rng: rng.uniform(1, 5, 4), h=[quadratic(np.ones(4), b=40.0)], g=[volume, *box(4, 1, 5)]
        ),
        "annulus": euclidean(linear([1, 0.5]), around(2, 6), g=[quadratic([-1, -1], b=-1.0), quadratic([1, 1], b=4.0)]),
        "cubic, unbounded outside": euclidean(cubic, around(2, 2), g=squares(2)),
        "sphere, nonnegative PCA": on_sphere(quadratic(pca), g=positive),
        "sphere, linear": on_sphere(slope, g=positive),
        "sphere, equality and inequality": on_sphere(
            quadratic(coupled), h=[linear(np.ones(4), 0.5)], g=[linear([1, 0, 0, 0], 0.4)]
        ),
        "Stiefel, bounds": on_stiefel(),
        "infeasible: a square below zero": euclidean(
            bilinear, around(2, 6), g=[quadratic([1, 1], b=-1.0)], feasible=False
        ),
        "infeasible: bounds": euclidean(
            bilinear, around(2, 6), g=[linear([1, 0], -1), linear([-1, 0], -1), *squares(2)], feasible=False
        ),
        "infeasible: an equality": euclidean(
            quadratic(-np.ones(3)), around(3, 6), h=[quadratic(np.ones(3), b=-1.0)], feasible=False
        ),
        "infeasible: sphere": on_sphere(slope, g=[linear([0, 0, 0, -1], -2.0)], feasible=False),
    }


CASES = _cases()


def scaled(f: ms.Objective, factor: float) -> ms.Objective:
    return cost(lambda x: factor * f.value(x), lambda x: factor * f.value_and_gradient(x)[1])  # type: ignore[misc]


def in_units(problem: ms.Problem, of_cost: float, of_constraints: float) -> ms.Problem:
    """Return the problem with the objective and the constraints multiplied by numbers."""
    return replace(
        problem,
        objective=scaled(problem.objective, of_cost),
        equalities=tuple([scaled(c, of_constraints) for c in problem.equalities]),
        inequalities=tuple([scaled(c, of_constraints) for c in problem.inequalities]),
    )


def violation(case: Case, x: np.ndarray) -> float:
    h, g = (*case.problem.equalities, *case.manifold), case.problem.inequalities
    return max([abs(c.value(x)) for c in h] + [c.value(x) for c in g] + [0.0])


def by_slsqp(case: Case, x0: np.ndarray) -> Any:
    """Minimize with scipy, the manifold among the equalities; the point of the result has the shape of `x0`."""

    def flat(f: ms.Objective, sign: int = 1) -> dict[str, Callable[[np.ndarray], Any]]:
        return {
            "fun": lambda x: sign * f.value(x.reshape(x0.shape)),
            "jac": lambda x: sign * np.ravel(f.value_and_gradient(x.reshape(x0.shape))[1]),  # type: ignore[misc]
        }

    h, g = (*case.problem.equalities, *case.manifold), case.problem.inequalities
    constraints = [{"type": "eq", **flat(c)} for c in h] + [{"type": "ineq", **flat(c, -1)} for c in g]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = scipy.optimize.minimize(
            **flat(case.problem.objective),
            x0=np.ravel(x0),
            method="SLSQP",
            constraints=constraints,
            options={"maxiter": 500, "ftol": 1e-10},
        )
    found.x = found.x.reshape(x0.shape)
    return found


def solves(case: Case, x: np.ndarray, feasibility: float) -> bool:
    """Return whether `x` meets the constraints, and SLSQP from there and from points near by finds nothing lower."""
    off = violation(case, x)
    if not case.feasible or off > feasibility:
        return False
    rng, fun = np.random.default_rng(1), case.problem.objective.value(x)
    for k in range(4):
        found = by_slsqp(case, x + 1e-3 * (k > 0) * rng.standard_normal(x.shape))
        met = found.success and violation(case, found.x) <= 1e-6 and np.linalg.norm(found.x - x) < 3
        # a point that violates the constraints by `off` may be lower than the minimum by a multiple of that
        if met and found.fun < fun - (1e-4 + 10 * off) * max(1.0, abs(fun)):
            return False
    return True
