"""Eight problems of Hock and Schittkowski and six on manifolds, for sequential quadratic programming.

The list was written before the first measurement. Gradients, Jacobians and vector-Jacobian products are written by
hand; no second derivatives are given, as scipy's SLSQP takes none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import manifoldseq as ms
from manifoldseq.manifolds import (
    Euclidean,
    Manifold,
    Product,
    SpecialOrthogonal,
    Sphere,
    Stiefel,
    SymmetricPositiveDefinite,
)

Array = np.ndarray
Function = tuple[Callable[[Any], Any], Callable[[Any], Any]]
"""A value and its derivative: the gradient of a cost, the Jacobian (entries × variables) of constraints."""


@dataclass(frozen=True)
class Listed:
    """A problem, its starts, and for those of Hock and Schittkowski the functions and the published minimum."""

    name: str
    problem: ms.Problem
    start: Callable[[np.random.Generator], Any]
    published: float | None = None
    cost: Function | None = None
    equalities: Function | None = None
    inequalities: Function | None = None


STARTS = 20


def listed() -> list[Listed]:
    """Return all problems."""
    return [*hock_schittkowski(), *on_manifolds()]


def _textbook(
    number: int,
    x0: list[float],
    published: float,
    cost: Function,
    equalities: Function | None = None,
    inequalities: Function | None = None,
) -> Listed:
    """Return a problem; starts are the published one with the noise of a standard normal vector."""
    center = np.array(x0)

    def given(functions: Function | None) -> Any:
        if functions is None:
            return ()
        value, jacobian = functions
        return ms.constraint(value, jacobian=jacobian)

    problem = ms.Problem(
        Euclidean(center.size),
        ms.objective(*cost),
        equalities=given(equalities),
        inequalities=given(inequalities),
    )
    return Listed(
        f"HS{number}",
        problem,
        lambda rng: center + rng.standard_normal(center.size),
        published,
        cost,
        equalities,
        inequalities,
    )


def _bounded(low: Array, high: Array, nonlinear: Function | None = None) -> Function:
    """Return bounds as inequalities, after nonlinear ones."""
    eye = np.eye(low.size)
    constant = np.concatenate([eye, -eye])
    if nonlinear is None:
        return lambda x: np.concatenate([x - high, low - x]), lambda x: constant
    value, jacobian = nonlinear
    return (
        lambda x: np.concatenate([value(x), x - high, low - x]),
        lambda x: np.concatenate([jacobian(x), constant]),
    )


def hock_schittkowski() -> list[Listed]:
    """Return the eight problems; inequalities are written as g ≤ 0."""

    def f100(x: Array) -> float:
        a, b, c, d, e, p, q = x.tolist()
        return (
            (a - 10) ** 2 + 5 * (b - 12) ** 2 + c**4 + 3 * (d - 11) ** 2
            + 10 * e**6 + 7 * p**2 + q**4 - 4 * p * q - 10 * p - 8 * q
        )  # fmt: skip

    def d100(x: Array) -> Array:
        a, b, c, d, e, p, q = x.tolist()
        return np.array(
            [2 * (a - 10), 10 * (b - 12), 4 * c**3, 6 * (d - 11), 60 * e**5, 14 * p - 4 * q - 10, 4 * q**3 - 4 * p - 8]
        )

    def g100(x: Array) -> Array:
        a, b, c, d, e, p, q = x.tolist()
        return np.array(
            [
                2 * a**2 + 3 * b**4 + c + 4 * d**2 + 5 * e - 127,
                7 * a + 3 * b + 10 * c**2 + d - e - 282,
                23 * a + b**2 + 6 * p**2 - 8 * q - 196,
                4 * a**2 + b**2 - 3 * a * b + 2 * c**2 + 5 * p - 11 * q,
            ]
        )

    def j100(x: Array) -> Array:
        a, b, c, d, _, p, _ = x.tolist()
        return np.array(
            [
                [4 * a, 12 * b**3, 1, 8 * d, 5, 0, 0],
                [7, 3, 20 * c, 1, -1, 0, 0],
                [23, 2 * b, 0, 0, 0, 12 * p, -8],
                [8 * a - 3 * b, 2 * b - 3 * a, 4 * c, 0, 0, 5, -11],
            ]
        )

    weights = np.array([1.0, 1, 1, 4, 1, 2, 5, 7, 2, 1])
    centers = np.array([0.0, 0, 10, 5, 3, 1, 0, 11, 10, 7])

    def f113(x: Array) -> float:
        return float(weights @ (x - centers) ** 2 + x[0] * x[1] - 14 * x[0] - 16 * x[1] + 45)

    def d113(x: Array) -> Array:
        slope = 2 * weights * (x - centers)
        slope[:2] += [x[1] - 14, x[0] - 16]
        return slope

    def g113(x: Array) -> Array:
        a, b, c, d, e, p, q, r, s, t = x.tolist()
        return np.array(
            [
                4 * a + 5 * b - 3 * q + 9 * r - 105,
                10 * a - 8 * b - 17 * q + 2 * r,
                -8 * a + 2 * b + 5 * s - 2 * t - 12,
                3 * (a - 2) ** 2 + 4 * (b - 3) ** 2 + 2 * c**2 - 7 * d - 120,
                5 * a**2 + 8 * b + (c - 6) ** 2 - 2 * d - 40,
                0.5 * (a - 8) ** 2 + 2 * (b - 4) ** 2 + 3 * e**2 - p - 30,
                a**2 + 2 * (b - 2) ** 2 - 2 * a * b + 14 * e - 6 * p,
                -3 * a + 6 * b + 12 * (s - 8) ** 2 - 7 * t,
            ]
        )

    def j113(x: Array) -> Array:
        a, b, c, _, e, _, _, _, s, _ = x.tolist()
        return np.array(
            [
                [4, 5, 0, 0, 0, 0, -3, 9, 0, 0],
                [10, -8, 0, 0, 0, 0, -17, 2, 0, 0],
                [-8, 2, 0, 0, 0, 0, 0, 0, 5, -2],
                [6 * (a - 2), 8 * (b - 3), 4 * c, -7, 0, 0, 0, 0, 0, 0],
                [10 * a, 8, 2 * (c - 6), -2, 0, 0, 0, 0, 0, 0],
                [a - 8, 4 * (b - 4), 0, 0, 6 * e, -1, 0, 0, 0, 0],
                [2 * a - 2 * b, 4 * (b - 2) - 2 * a, 0, 0, 14, -6, 0, 0, 0, 0],
                [-3, 6, 0, 0, 0, 0, 0, 0, 24 * (s - 8), -7],
            ]
        )

    linear43 = np.array([[1.0, -1, 1, -1], [-1, 0, 0, -1], [2, -1, 0, -1]])
    square43 = np.array([[1.0, 1, 1, 1], [1, 2, 1, 2], [2, 1, 1, 0]])
    right43, weights43, slope43 = np.array([8.0, 10, 5]), np.array([1.0, 1, 2, 1]), np.array([-5.0, -5, -21, 7])

    def f65(x: Array) -> float:
        return float((x[0] - x[1]) ** 2 + ((x[0] + x[1] - 10) / 3) ** 2 + (x[2] - 5) ** 2)

    def d65(x: Array) -> Array:
        off, near = 2 * (x[0] - x[1]), 2 * (x[0] + x[1] - 10) / 9
        return np.array([off + near, near - off, 2 * (x[2] - 5)])

    def d71(x: Array) -> Array:
        a, b, c, d = x.tolist()
        return np.array([d * (2 * a + b + c), a * d, a * d + 1, a * (a + b + c)])

    def j71(x: Array) -> Array:
        a, b, c, d = x.tolist()
        return -np.array([[b * c * d, a * c * d, a * b * d, a * b * c]])

    return [
        _textbook(
            6,
            [-1.2, 1.0],
            0.0,
            (lambda x: float((1 - x[0]) ** 2), lambda x: np.array([2 * x[0] - 2, 0.0])),
            (lambda x: np.array([10 * (x[1] - x[0] ** 2)]), lambda x: np.array([[-20 * x[0], 10.0]])),
        ),
        _textbook(
            7,
            [2.0, 2.0],
            -(3.0**0.5),
            (lambda x: float(np.log1p(x[0] ** 2) - x[1]), lambda x: np.array([2 * x[0] / (1 + x[0] ** 2), -1.0])),
            (
                lambda x: np.array([(1 + x[0] ** 2) ** 2 + x[1] ** 2 - 4]),
                lambda x: np.array([[4 * x[0] * (1 + x[0] ** 2), 2 * x[1]]]),
            ),
        ),
        _textbook(
            39,
            [2.0, 2.0, 2.0, 2.0],
            -1.0,
            (lambda x: float(-x[0]), lambda x: np.array([-1.0, 0.0, 0.0, 0.0])),
            (
                lambda x: np.array([x[1] - x[0] ** 3 - x[2] ** 2, x[0] ** 2 - x[1] - x[3] ** 2]),
                lambda x: np.array([[-3 * x[0] ** 2, 1.0, -2 * x[2], 0.0], [2 * x[0], -1.0, 0.0, -2 * x[3]]]),
            ),
        ),
        _textbook(
            43,
            [0.0, 0.0, 0.0, 0.0],
            -44.0,
            (lambda x: float(weights43 @ x**2 + slope43 @ x), lambda x: 2 * weights43 * x + slope43),
            None,
            (
                lambda x: square43 @ x**2 + linear43 @ x - right43,
                lambda x: 2 * square43 * x + linear43,
            ),
        ),
        _textbook(
            65,
            [-5.0, 5.0, 0.0],
            0.9535288567,
            (f65, d65),
            None,
            _bounded(
                np.array([-4.5, -4.5, -5.0]),
                np.array([4.5, 4.5, 5.0]),
                (lambda x: np.array([x @ x - 48]), lambda x: 2 * x[None]),
            ),
        ),
        _textbook(
            71,
            [1.0, 5.0, 5.0, 1.0],
            17.0140173,
            (lambda x: float(x[0] * x[3] * (x[0] + x[1] + x[2]) + x[2]), d71),
            (lambda x: np.array([x @ x - 40]), lambda x: 2 * x[None]),
            _bounded(np.ones(4), np.full(4, 5.0), (lambda x: np.array([25 - np.prod(x)]), j71)),
        ),
        _textbook(100, [1.0, 2.0, 0.0, 4.0, 0.0, 1.0, 1.0], 680.6300573, (f100, d100), None, (g100, j100)),
        _textbook(
            113, [2.0, 3.0, 5.0, 5.0, 1.0, 2.0, 7.0, 3.0, 6.0, 10.0], 24.3062091, (f113, d113), None, (g113, j113)
        ),
    ]


def on_manifolds() -> list[Listed]:
    """Return the six problems on manifolds; starts are random points."""
    rng = np.random.default_rng(0)

    def made(name: str, M: Manifold, cost: Function, **constraints: Any) -> Listed:
        return Listed(name, ms.Problem(M, ms.objective(*cost), **constraints), M.random_point)

    half = rng.standard_normal((20, 20))
    A = half @ half.T / 20
    pca = made(
        "nonnegative principal component, Sphere(20)",
        Sphere(20),
        (lambda x: float(-x @ A @ x), lambda x: -2 * A @ x),
        inequalities=ms.constraint(lambda x: -x, vjp=lambda x, w: -w),
    )

    C = rng.standard_normal((8, 2))
    nearest = made(
        "nearest frame with bounded entries, Stiefel(8, 2)",
        Stiefel(8, 2),
        (lambda X: float(0.5 * np.sum((X - C) ** 2)), lambda X: X - C),
        inequalities=ms.constraint(lambda X: np.stack([X - 0.45, -X - 0.45]), vjp=lambda X, w: w[0] - w[1]),
    )

    B = rng.standard_normal((5, 3))

    def f_product(point: Any) -> float:
        x, y = point
        return float(-x @ B @ y + 0.25 * (y @ y) ** 2)

    def d_product(point: Any) -> Any:
        x, y = point
        return -B @ y, (y @ y) * y - x @ B

    product = made(
        "bilinear form, Sphere(5) × Euclidean(3)",
        Product(Sphere(5), Euclidean(3)),
        (f_product, d_product),
        equalities=ms.constraint(
            lambda point: np.array([point[0].sum() - 0.5]), vjp=lambda point, w: (np.full(5, w[0]), np.zeros(3))
        ),
        inequalities=ms.constraint(
            lambda point: np.append(-point[1], point[0][0] + point[1][0] - 0.5),
            vjp=lambda point, w: (w[3] * np.eye(5)[0], w[3] * np.eye(3)[0] - w[:3]),
        ),
    )

    points = rng.standard_normal((12, 3)) * [3.0, 1.0, 0.5]
    ellipsoid = made(
        "ellipsoid of least volume around 12 points, SPD(3)",
        SymmetricPositiveDefinite(3),
        (lambda S: float(-np.linalg.slogdet(S)[1]), lambda S: -np.linalg.inv(S)),
        inequalities=ms.constraint(
            lambda S: np.einsum("ki,ij,kj->k", points, S, points) - 1, vjp=lambda S, w: (points.T * w) @ points
        ),
    )

    target = SpecialOrthogonal(3).random_point(rng) + 0.3 * rng.standard_normal((3, 3))
    least = 1 + 2 * np.cos(np.pi / 4)
    rotation = made(
        "rotation of at most 45 degrees, SO(3)",
        SpecialOrthogonal(3),
        (lambda R: float(-np.sum(R * target)), lambda R: -target),
        inequalities=ms.constraint(lambda R: np.array([least - np.trace(R)]), vjp=lambda R, w: -w[0] * np.eye(3)),
    )

    samples = rng.standard_normal((30, 4)) * [2.0, 1.0, 0.7, 0.4]
    scatter = samples.T @ samples / 30

    def f_trace(S: Array) -> float:
        return float(np.linalg.slogdet(S)[1] + np.sum(np.linalg.inv(S) * scatter))

    def d_trace(S: Array) -> Array:
        inverse = np.linalg.inv(S)
        return inverse - inverse @ scatter @ inverse

    trace = made(
        "covariance of given trace and least variances, SPD(4)",
        SymmetricPositiveDefinite(4),
        (f_trace, d_trace),
        equalities=ms.constraint(lambda S: np.array([np.trace(S) - 4]), vjp=lambda S, w: w[0] * np.eye(4)),
        inequalities=ms.constraint(lambda S: 0.5 - np.diagonal(S), vjp=lambda S, w: -np.diag(w)),
    )
    return [pca, nearest, product, ellipsoid, rotation, trace]
