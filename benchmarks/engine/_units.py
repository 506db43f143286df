"""Products whose factors are measured in other units: how much the unit decides for each solver."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import manifoldseq as ms
from manifoldseq.manifolds import (
    Euclidean,
    Orthogonal,
    Positive,
    Product,
    SpecialOrthogonal,
    Sphere,
    Stiefel,
    SymmetricPositiveDefinite,
)

from ._problems import Case, Point
from ._session import Session

Fused = Callable[[Point], tuple[float, Point]]
HessianProduct = Callable[[Point, Point], Point]
Made = tuple[ms.manifolds.Manifold, Fused, HessianProduct, Point, int]
"""A manifold, the objective, its Hessian products, a start, and the factor whose unit changes."""

UNITS = (1.0, 10.0, 100.0, 1e3, 1e4)


def deconvolution(rng: np.random.Generator) -> Made:
    """Find a direction and a signal from the products of their measurements."""
    A, B = rng.standard_normal((400, 60)), rng.standard_normal((400, 150)) / 12
    manifold = Product(Sphere(60), Euclidean(150))
    start, truth = manifold.random_point(rng), manifold.random_point(rng)
    y = (A @ truth[0]) * (B @ truth[1]) + 0.01 * rng.standard_normal(400)

    def fused(x: Point) -> tuple[float, Point]:
        a, b = A @ x[0], B @ x[1]
        r = a * b - y
        return 0.5 * float(r @ r), (A.T @ (r * b), B.T @ (r * a))

    def hessian(x: Point, u: Point) -> Point:
        a, b, da, db = A @ x[0], B @ x[1], A @ u[0], B @ u[1]
        r, dr = a * b - y, da * b + a * db
        return A.T @ (dr * b + r * db), B.T @ (dr * a + r * da)

    return manifold, fused, hessian, start, 1


def weighted_pca(rng: np.random.Generator) -> Made:
    """Fit a matrix of rank 4 to entries of different weights."""
    X = 3 * rng.standard_normal((60, 4)) @ rng.standard_normal((4, 80)) + rng.standard_normal((60, 80))
    W = rng.random((60, 80))
    manifold = Product(Stiefel(60, 4), Euclidean(4, 80))

    def fused(x: Point) -> tuple[float, Point]:
        E = x[0] @ x[1] - X
        return 0.5 * float((W * E * E).sum()), ((W * E) @ x[1].T, x[0].T @ (W * E))

    def hessian(x: Point, u: Point) -> Point:
        WE, WD = W * (x[0] @ x[1] - X), W * (u[0] @ x[1] + x[0] @ u[1])
        return WD @ x[1].T + WE @ u[1].T, u[0].T @ WE + x[0].T @ WD

    return manifold, fused, hessian, manifold.random_point(rng), 1


def poses(rng: np.random.Generator) -> Made:
    """Find rotations and positions from measurements between pairs, along a chain and across it."""
    n = 40
    rotations = SpecialOrthogonal(3) ** n
    R, t = rotations.random_point(rng), 10 * rng.standard_normal((n, 3))
    i, j = np.r_[np.arange(n - 1), rng.integers(0, n, 40)], np.r_[np.arange(1, n), rng.integers(0, n, 40)]
    i, j = i[i != j], j[i != j]
    turned = R[i].transpose(0, 2, 1) @ R[j]
    moved = np.einsum("kji,kj->ki", R[i], t[j] - t[i]) + 0.05 * rng.standard_normal((len(i), 3))
    start = rotations.retract(R, rotations.project(R, 0.3 * rng.standard_normal(R.shape)))

    def fused(x: Point) -> tuple[float, Point]:
        E, v = x[0][i] @ turned - x[0][j], x[1][j] - x[1][i] - np.einsum("kij,kj->ki", x[0][i], moved)
        GR, Gt = np.zeros_like(x[0]), np.zeros_like(x[1])
        np.add.at(GR, i, 10 * E @ turned.transpose(0, 2, 1) - 0.25 * v[:, :, None] * moved[:, None, :])
        np.add.at(GR, j, -10 * E)
        np.add.at(Gt, j, 0.25 * v)
        np.add.at(Gt, i, -0.25 * v)
        return 5 * float((E * E).sum()) + 0.125 * float((v * v).sum()), (GR, Gt)

    # a quadratic form without a linear part: the Hessian is what the gradient does to the point
    begin = start, t + 2 * rng.standard_normal(t.shape)
    return Product(rotations, Euclidean(n, 3)), fused, lambda x, u: fused(u)[1], begin, 1


def factor_analysis(rng: np.random.Generator) -> Made:
    """Fit loadings and positive noise variances to a covariance matrix by maximum likelihood."""
    W = rng.standard_normal((30, 3))
    C = W @ W.T + np.diag(rng.uniform(0.5, 2, 30))

    def fused(x: Point) -> tuple[float, Point]:
        V = x[0] @ x[0].T + np.diag(x[1])
        inverse = np.linalg.inv(V)
        G = 0.5 * (inverse - inverse @ C @ inverse)
        value = 0.5 * float(np.linalg.slogdet(V)[1] + np.trace(inverse @ C))
        return value, (2 * G @ x[0], np.diag(G).copy())

    def hessian(x: Point, u: Point) -> Point:
        inverse = np.linalg.inv(x[0] @ x[0].T + np.diag(x[1]))
        K = inverse @ C @ inverse
        turned = u[0] @ x[0].T
        dV = turned + turned.T + np.diag(u[1])
        KVI = K @ dV @ inverse
        dG = 0.5 * (KVI + KVI.T - inverse @ dV @ inverse)
        return 2 * dG @ x[0] + (inverse - K) @ u[0], np.diag(dG).copy()

    return Product(Euclidean(30, 3), Positive(30)), fused, hessian, (rng.standard_normal((30, 3)), np.ones(30)), 0


def gaussian(rng: np.random.Generator) -> Made:
    """Fit a mean and a covariance matrix by maximum likelihood."""
    X = rng.standard_normal((300, 6)) @ rng.standard_normal((6, 6)) + 10 * rng.standard_normal(6)

    def fused(x: Point) -> tuple[float, Point]:
        E, inverse = X - x[0], np.linalg.inv(x[1])
        C = E.T @ E / len(X)
        value = 0.5 * float(np.linalg.slogdet(x[1])[1] + np.trace(inverse @ C))
        return value, (-inverse @ E.mean(axis=0), 0.5 * (inverse - inverse @ C @ inverse))

    def hessian(x: Point, u: Point) -> Point:
        E, inverse = X - x[0], np.linalg.inv(x[1])
        mean, K = E.mean(axis=0), inverse @ (E.T @ E / len(X)) @ inverse
        changed = inverse @ u[1] @ inverse
        KVI, outer = K @ u[1] @ inverse, np.outer(inverse @ mean, inverse @ u[0])
        return changed @ mean + inverse @ u[0], 0.5 * (KVI + KVI.T + outer + outer.T - changed)

    return Product(Euclidean(6), SymmetricPositiveDefinite(6)), fused, hessian, (np.zeros(6), 20 * np.eye(6)), 0


def registration(rng: np.random.Generator) -> Made:
    """Find a rotation, an offset and a scale between two sets of points, a tenth of them outliers."""
    P, rotations = rng.standard_normal((200, 5)), Orthogonal(5)
    Q = rotations.random_point(rng)
    q = 2 * P @ Q.T + 5 * rng.standard_normal(5) + 0.1 * rng.standard_normal((200, 5))
    q[:20] += 10 * rng.standard_normal((20, 5))
    start = rotations.retract(Q, rotations.project(Q, 0.5 * rng.standard_normal((5, 5))))

    def fused(x: Point) -> tuple[float, Point]:
        E = x[2][0] * P @ x[0].T + x[1] - q
        z = np.sqrt(1 + (E * E).sum(axis=1))
        G = E / z[:, None]
        return float(z.sum()), (x[2][0] * G.T @ P, G.sum(axis=0), np.array([(G * (P @ x[0].T)).sum()]))

    def hessian(x: Point, u: Point) -> Point:
        T, dT = P @ x[0].T, P @ u[0].T
        E, dE = x[2][0] * T + x[1] - q, u[2][0] * T + x[2][0] * dT + u[1]
        z = np.sqrt(1 + (E * E).sum(axis=1))[:, None]
        G, dG = E / z, dE / z - E * (E * dE).sum(axis=1)[:, None] / z**3
        return (u[2][0] * G + x[2][0] * dG).T @ P, dG.sum(axis=0), np.array([(dG * T + G * dT).sum()])

    return Product(rotations, Euclidean(5), Positive(1)), fused, hessian, (start, np.zeros(5), np.ones(1)), 1


PROBLEMS = (deconvolution, weighted_pca, poses, factor_analysis, gaussian, registration)


def in_unit(name: str, made: Made, unit: float) -> Case:
    """Return the problem with one factor measured in units of `unit`."""
    manifold, fused, hessian, start, k = made

    def times(unit: float, x: Point) -> Point:
        return tuple(unit * leaf if i == k else leaf for i, leaf in enumerate(x))

    def scaled(x: Point) -> tuple[float, Point]:
        value, gradient = fused(times(unit, x))
        return value, times(unit, gradient)

    return Case(
        name,
        manifold,
        times(1 / unit, start),
        scaled,
        lambda x: fused(times(unit, x))[0],
        lambda x: scaled(x)[1],
        lambda x, u: times(unit, hessian(times(unit, x), times(unit, u))),
    )


def run(session: Session) -> None:
    """Count evaluations and Hessian products to the default rule; three seeds, of which the median counts."""
    session.report.title(f"evaluations of the worst unit of a factor ({UNITS[0]:g} to {UNITS[-1]:g}) over the best")
    for solver in ("lbfgs", "bb", "cg", "tr"):
        everything = []
        for make in PROBLEMS:
            spreads = []
            for seed in range(1 if session.quick else 3):
                counts = list(map(partial(_evaluations, make, seed, solver, session), UNITS))
                everything += counts
                spreads.append(max(counts) / min(counts))
            most = 1.5 if solver == "lbfgs" else None
            session.report.row(f"{solver}, {make.__name__.replace('_', ' ')}", float(np.median(spreads)), most=most)
        session.report.row(f"{solver}: evaluations, geometric mean", float(np.exp(np.mean(np.log(everything)))))


def _evaluations(make: Callable[[Any], Made], seed: int, solver: str, session: Session, unit: float) -> float:
    case = in_unit(make.__name__, make(np.random.default_rng(seed)), unit)
    problem = ms.Problem(case.manifold, ms.objective(value_and_gradient=case.fused))
    result = ms.minimize(problem, case.start, solver=solver, max_iter=200 if session.quick else 2000)
    session.returned(problem.manifold, result.x)
    return result.nfev + result.nhev
