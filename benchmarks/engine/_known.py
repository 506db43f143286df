"""Problems whose minimum is known, to be started near and far: what a success must mean."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh, sqrtm
from scipy.special import logsumexp

import manifoldseq as ms
from manifoldseq.manifolds import (
    BoundedDiagonal,
    Euclidean,
    GeneralizedStiefel,
    Hyperbolic,
    Positive,
    Product,
    Simplex,
    Sphere,
    Stiefel,
    SymmetricPositiveDefinite,
)

Array = NDArray[Any]
Point = Any
SCALES = (1e-6, 1e-4, 1e-2, 1.0, 1e2, 1e4, 1e6)


@dataclass(frozen=True)
class Known:
    """A problem with its minimum.

    Attributes
    ----------
    start : callable
        ``start(scale, rng)``: far from the minimizers at large scales, next to a boundary, saddle or origin at small
        ones.
    fun : float
        The minimum.
    distance : callable
        From a point to the nearest minimizer, Euclidean.
    size : float
        Norm of a minimizer.
    group : str
        "ill" where the condition number at the minimum is above 1e6, "zero" where f = 0 at x = 0, else "well".
    """

    name: str
    problem: ms.Problem
    start: Callable[[float, np.random.Generator], Point]
    fun: float
    distance: Callable[[Point], float]
    size: float
    group: str = "well"

    def wrong(self, result: ms.Result) -> bool:
        """Whether a success is none: value and point are both off."""
        return result.success and not self.reached(result) and self.distance(result.x) > 1e-3 * max(1.0, self.size)

    def reached(self, result: ms.Result) -> bool:
        """Whether the value is the minimum."""
        return bool(result.fun - self.fun <= 1e-6 * max(1.0, abs(self.fun)))

    def starts(self, n: int) -> Iterator[Point]:
        """Yield `n` starts, at all scales in turn; one whose value is not finite is drawn again at scale one."""
        for i in range(n):
            rng = np.random.default_rng([i, len(self.name)])
            with np.errstate(all="ignore"):
                x = self.start(SCALES[i % len(SCALES)], rng)
                if not np.isfinite(self.problem.objective.value(x)):
                    x = self.start(1.0, rng)
            yield x


def _of(
    name: str,
    manifold: ms.manifolds.Manifold,
    fused: Callable[[Point], tuple[float, Point]],
    best: Point,
    *,
    hessian: Callable[[Point, Point], Point] | None = None,
    start: Callable[[float, np.random.Generator], Point] | None = None,
    distance: Callable[[Point], float] | None = None,
    group: str = "well",
) -> Known:
    def apart(x: Point) -> float:
        return float(
            np.sqrt(sum(np.sum((np.asarray(a) - b) ** 2) for a, b in zip(_parts(x), _parts(best), strict=True)))
        )

    def gaussian(scale: float, rng: np.random.Generator) -> Point:
        return scale * rng.standard_normal(manifold.shape)

    problem = ms.Problem(manifold, ms.objective(value_and_gradient=fused, hessian_product=hessian))
    size = float(np.sqrt(sum(np.sum(np.square(b)) for b in _parts(best))))
    return Known(name, problem, start or gaussian, float(fused(best)[0]), distance or apart, size, group)


def _parts(x: Point) -> tuple[Any, ...]:
    return x if isinstance(x, tuple) else (x,)


def _newton(x: Array, gradient: Callable[[Array], Array], hessian: Callable[[Array], Array]) -> Array:
    for _ in range(50):
        x = x - np.linalg.solve(hessian(x), gradient(x))
    return x


def _spread(n: int, condition: float, rng: np.random.Generator) -> Array:
    Q = np.linalg.qr(rng.standard_normal((n, n)))[0]
    return (Q * np.geomspace(1.0, 1.0 / condition, n)) @ Q.T


def _euclidean() -> Iterator[Known]:
    rng = np.random.default_rng(7)
    A, E = 0.5 * rng.standard_normal((40, 3)), Euclidean(3)
    counts = rng.poisson(np.exp(A @ np.array([0.5, -0.3, 0.2]))).astype(float)

    def poisson(x: Array) -> tuple[float, Array]:
        with np.errstate(over="ignore"):
            mean = np.exp(A @ x)
        return float(np.mean(mean - counts * (A @ x))), A.T @ (mean - counts) / 40

    def poisson_hessian(x: Array, u: Array) -> Array:
        return A.T @ (np.exp(A @ x) * (A @ u)) / 40

    best = _newton(np.zeros(3), lambda x: poisson(x)[1], lambda x: A.T @ (np.exp(A @ x)[:, None] * A) / 40)
    yield _of("Poisson regression", E, poisson, best, hessian=poisson_hessian)

    labels, ridge = np.sign(A @ np.ones(3) + 0.3 * rng.standard_normal(40)), 0.05

    def logistic(x: Array) -> tuple[float, Array]:
        z = labels * (A @ x)
        p = 0.5 * (1 - np.tanh(0.5 * z))
        return float(np.mean(np.logaddexp(0, -z)) + 0.5 * ridge * x @ x), -A.T @ (labels * p) / 40 + ridge * x

    def weights(x: Array) -> Array:
        p = 0.5 * (1 - np.tanh(0.5 * (A @ x)))
        return p * (1 - p)

    best = _newton(
        np.zeros(3), lambda x: logistic(x)[1], lambda x: A.T @ (weights(x)[:, None] * A) / 40 + ridge * np.eye(3)
    )
    yield _of(
        "logistic regression",
        E,
        logistic,
        best,
        hessian=lambda x, u: A.T @ (weights(x) * (A @ u)) / 40 + ridge * u,
    )

    for condition, group in ((1e3, "well"), (1e10, "ill")):
        H, b = _spread(10, condition, rng), rng.standard_normal(10)

        def quadratic(x: Array, H: Array = H, b: Array = b) -> tuple[float, Array]:
            d = x - b
            return 0.5 * float(d @ H @ d) + 3.0, H @ d

        yield _of(
            f"quadratic, condition {condition:.0e}",
            Euclidean(10),
            quadratic,
            b,
            hessian=lambda x, u, H=H: H @ u,
            group=group,
        )

    def rosenbrock(x: Array) -> tuple[float, Array]:
        a, b = x[1] - x[0] ** 2, 1 - x[0]
        return float(100 * a * a + b * b), np.array([-400 * x[0] * a - 2 * b, 200 * a])

    def rosenbrock_hessian(x: Array, u: Array) -> Array:
        cross = -400 * x[0]
        return np.array([[1200 * x[0] ** 2 - 400 * x[1] + 2, cross], [cross, 200.0]]) @ u

    yield _of("Rosenbrock", Euclidean(2), rosenbrock, np.ones(2), hessian=rosenbrock_hessian)

    b = np.array([1.0, 8.0, 27.0, 0.125])

    def quartic(x: Array) -> tuple[float, Array]:
        return float(np.sum(0.25 * x**4 - b * x)), x**3 - b

    yield _of("quartic", Euclidean(4), quartic, np.cbrt(b), hessian=lambda x, u: 3 * x**2 * u)

    T = np.concatenate([rng.standard_normal((12, 4)), np.eye(4), -np.eye(4)])
    shift = 0.3 * rng.standard_normal(20)

    def exponentials(x: Array) -> tuple[float, Array]:
        z = T @ x + shift
        return float(logsumexp(z)), T.T @ np.exp(z - logsumexp(z))

    def soft(x: Array) -> Array:
        z = T @ x + shift
        return np.exp(z - logsumexp(z))

    def bent(x: Array, u: Array) -> Array:
        p = soft(x)
        return T.T @ (p * (T @ u) - p * (p @ (T @ u)))

    best = _newton(
        np.zeros(4),
        lambda x: exponentials(x)[1],
        lambda x: T.T @ (soft(x)[:, None] * T) - np.outer(T.T @ soft(x), T.T @ soft(x)),
    )
    yield _of("log-sum-exp", Euclidean(4), exponentials, best, hessian=bent)

    B = rng.standard_normal((30, 6))
    for solution, group in ((rng.standard_normal(6), "well"), (np.zeros(6), "zero")):
        y = B @ solution

        def squares(x: Array, y: Array = y) -> tuple[float, Array]:
            r = B @ x - y
            return 0.5 * float(r @ r), B.T @ r

        name = "consistent least squares" + (" at zero" if group == "zero" else "")
        yield _of(name, Euclidean(6), squares, solution, hessian=lambda x, u: B.T @ (B @ u), group=group)


def _open() -> Iterator[Known]:
    rng = np.random.default_rng(8)

    def positive(n: int) -> Callable[[float, np.random.Generator], Array]:
        return lambda scale, rng: scale * np.exp(rng.standard_normal(n))

    for n in (1, 5):
        b, a = np.geomspace(1.0, 3.0, n), np.geomspace(1.0, 20.0, n)

        def square(x: Array, a: Array = a, b: Array = b) -> tuple[float, Array]:
            return float(np.sum(a * (x - b) ** 2)) + 1.0, 2 * a * (x - b)

        yield _of(
            f"(x − b)² on Positive({n})",
            Positive(n),
            square,
            b,
            hessian=lambda x, u, a=a: 2 * a * u,
            start=positive(n),
        )
    b = np.array([0.01, 1.0, 30.0])

    def gamma(x: Array) -> tuple[float, Array]:
        return float(np.sum(x - b * np.log(x))), 1 - b / x

    yield _of("gamma likelihood", Positive(3), gamma, b, hessian=lambda x, u: b / x**2 * u, start=positive(3))

    n = 4
    S = _spread(n, 50.0, rng)

    def definite(scale: float, rng: np.random.Generator) -> Array:
        W = rng.standard_normal((n, 2 * n))
        return scale * (W @ W.T) / (2 * n)

    def log_det(X: Array) -> tuple[float, Array]:
        sign, value = np.linalg.slogdet(X)
        return float(np.vdot(S, X) - value) if sign > 0 else np.inf, S - np.linalg.inv(X)

    def log_det_hessian(X: Array, U: Array) -> Array:
        inverse = np.linalg.inv(X)
        return inverse @ U @ inverse

    def nearest(X: Array) -> tuple[float, Array]:
        return 0.5 * float(np.sum((X - S) ** 2)) + 0.5, X - S

    for metric in ("", "log-euclidean", "bures-wasserstein"):
        M = SymmetricPositiveDefinite(n, metric) if metric else SymmetricPositiveDefinite(n)
        name = f" ({metric})" if metric else ""
        inverse = np.linalg.inv(S)
        yield _of(f"tr(SX) − log det X{name}", M, log_det, inverse, hessian=log_det_hessian, start=definite)
        yield _of(f"‖X − B‖² on SPD{name}", M, nearest, S, hessian=lambda X, U: U, start=definite)

    W = np.array([[2.0, 0.3], [0.3, 0.5]])

    def riccati(X: Array) -> tuple[float, Array]:
        inverse = np.linalg.inv(X)
        return float(np.trace(W @ X) + np.trace(inverse)), W - inverse @ inverse

    # the gradient W − X⁻² is zero at X = W^-½
    yield _of(
        "tr(WX) + tr X⁻¹",
        SymmetricPositiveDefinite(2),
        riccati,
        np.linalg.inv(np.real(sqrtm(W))),
        hessian=lambda X, U: _anticommuted(np.linalg.inv(X), U),
        start=lambda scale, rng: scale * (np.eye(2) + 0.3 * np.diag(rng.uniform(size=2))),
    )

    d, rows = 3, 200
    data = rng.standard_normal((rows, d)) @ np.linalg.cholesky(_spread(d, 30.0, rng) + 0.1 * np.eye(d)).T + 2.0
    centre = data.mean(axis=0)
    covariance = (data - centre).T @ (data - centre) / rows

    def gaussian(point: Point) -> tuple[float, Point]:
        C, m = point
        P, off = np.linalg.inv(C), centre - m
        scatter = covariance + np.outer(off, off)
        sign, value = np.linalg.slogdet(C)
        fun = 0.5 * float(value + np.vdot(P, scatter)) if sign > 0 else np.inf
        return fun, (0.5 * (P - P @ scatter @ P), -P @ off)

    def moments(scale: float, rng: np.random.Generator) -> Point:
        return scale * np.eye(d), rng.standard_normal(d) * max(scale, 1.0)

    yield _of(
        "Gaussian likelihood, SPD × R^d",
        Product(SymmetricPositiveDefinite(d), Euclidean(d)),
        gaussian,
        (covariance, centre),
        start=moments,
    )


def _anticommuted(inverse: Array, U: Array) -> Array:
    V = inverse @ U @ inverse
    return V @ inverse + inverse @ V


def _compact() -> Iterator[Known]:
    rng = np.random.default_rng(9)
    for name, values, group in (
        ("Rayleigh quotient", np.linspace(1.0, 3.0, 12), "well"),
        ("Rayleigh quotient, condition 1e6", np.r_[1.0, 1.001, np.geomspace(1.1, 1e6, 10)], "ill"),
    ):
        Q = np.linalg.qr(rng.standard_normal((12, 12)))[0]
        S = (Q * values) @ Q.T

        def rayleigh(x: Array, S: Array = S) -> tuple[float, Array]:
            return 0.5 * float(x @ S @ x), S @ x

        yield _of(
            name,
            Sphere(12),
            rayleigh,
            Q[:, 0],
            hessian=lambda x, u, S=S: S @ u,
            # small scales start next to the largest eigenvector, a maximum
            start=lambda scale, rng, Q=Q: _normalized(Q[:, -1] + scale * rng.standard_normal(12)),
            distance=lambda x, Q=Q: float(min(np.linalg.norm(x - Q[:, 0]), np.linalg.norm(x + Q[:, 0]))),
            group=group,
        )

    n, p = 10, 3
    M = Stiefel(n, p)
    S, N = np.diag(np.arange(1.0, n + 1)), np.arange(float(p), 0, -1)

    def brockett(X: Array) -> tuple[float, Array]:
        G = (S @ X) * N
        return 0.5 * float(np.vdot(X, G)), G

    def frame(scale: float, rng: np.random.Generator) -> Array:
        return M.nearest(np.eye(n)[:, ::-1][:, :p] + scale * rng.standard_normal((n, p)))

    target = rng.standard_normal((n, p))
    best = M.nearest(target)

    def procrustes(X: Array) -> tuple[float, Array]:
        return 0.5 * float(np.sum((X - target) ** 2)), X - target

    for manifold, name in (M, ""), (Stiefel(n, p, metric="canonical"), " (canonical)"):
        yield _of(
            f"Brockett{name}",
            manifold,
            brockett,
            np.eye(n, p),
            hessian=lambda X, U: (S @ U) * N,
            start=frame,
            distance=lambda X: float(np.linalg.norm(np.abs(X) - np.eye(n, p))),
        )
        yield _of(f"Procrustes{name}", manifold, procrustes, best, hessian=lambda X, U: U, start=frame)

    centre = rng.standard_normal(n) * 5

    def planes(point: Point) -> tuple[float, Point]:
        X, m = point
        G, off = -(S @ X), m - centre
        return 0.5 * float(np.vdot(X, G)) + 0.5 * float(off @ off), (G, off)

    top = np.eye(n)[:, -p:]
    yield _of(
        "subspace and centre, Stiefel × R^d",
        Product(M, Euclidean(n)),
        planes,
        (top, centre),
        hessian=lambda point, U: (-(S @ U[0]), U[1]),
        start=lambda scale, rng: (M.nearest(rng.standard_normal((n, p))), scale * rng.standard_normal(n)),
        distance=lambda point: float(
            np.sqrt(np.sum((point[0] @ point[0].T - top @ top.T) ** 2) + np.sum((point[1] - centre) ** 2))
        ),
    )


def _newer() -> Iterator[Known]:
    rng = np.random.default_rng(11)
    H = Hyperbolic(4)
    points = np.stack([H.random_point(rng) for _ in range(20)])
    mirrored = points * np.array([1.0, -1, -1, -1, -1])
    total = points.sum(axis=0)

    def products(x: Array) -> tuple[float, Array]:
        return float(np.sum(mirrored @ x)), mirrored.sum(axis=0)

    yield _of(
        "centre by Lorentz products, hyperbolic space",
        H,
        products,
        total / np.sqrt(total[0] ** 2 - total[1:] @ total[1:]),
        hessian=lambda x, u: np.zeros_like(u),
        start=lambda scale, rng: H.nearest(scale * rng.standard_normal(5)),
    )

    n, p = 10, 3
    factor = rng.standard_normal((n, 2 * n))
    A, B = np.diag(np.arange(1.0, n + 1)), factor @ factor.T / n
    G = GeneralizedStiefel(B, p)
    vectors = eigh(A, B)[1][:, :p]

    def trace(X: Array) -> tuple[float, Array]:
        return 0.5 * float(np.vdot(X, A @ X)), A @ X

    yield _of(
        "generalized eigenvectors",
        G,
        trace,
        vectors,
        hessian=lambda X, U: A @ U,
        start=lambda scale, rng: G.nearest(eigh(A, B)[1][:, -p:] + scale * rng.standard_normal((n, p))),
        distance=lambda X: float(np.linalg.norm(X @ X.T - vectors @ vectors.T)),
    )


def _normalized(x: Array) -> Array:
    return x / np.linalg.norm(x)


def _convex() -> Iterator[Known]:
    rng = np.random.default_rng(10)
    counts = np.array([1.0, 5.0, 20.0, 4.0, 100.0])
    b = rng.dirichlet(5 * np.ones(5))

    def face(scale: float, rng: np.random.Generator) -> Array:
        """Return a point whose distance to the faces of the simplex is of this order, where that is small."""
        x = rng.exponential(size=5) ** 2
        x[rng.integers(5)] *= min(scale, 1.0)
        return x / x.sum()

    def multinomial(x: Array) -> tuple[float, Array]:
        return -float(counts @ np.log(x)) / 100, -counts / x / 100

    yield _of(
        "multinomial likelihood",
        Simplex(5),
        multinomial,
        counts / counts.sum(),
        hessian=lambda x, u: counts / x**2 * u / 100,
        start=face,
    )

    def squared(x: Array) -> tuple[float, Array]:
        return 0.5 * float(np.sum((x - b) ** 2)) + 0.1, x - b

    yield _of("‖x − b‖² on the simplex", Simplex(5), squared, b, hessian=lambda x, u: u, start=face)

    a, wanted, bound = np.geomspace(1.0, 100.0, 6), np.array([0.3, 1.5, -2.0, 0.0, 0.89, -0.4]), 0.9

    def box(x: Array) -> tuple[float, Array]:
        return 0.5 * float(np.sum(a * (x - wanted) ** 2)), a * (x - wanted)

    yield _of(
        "box",
        BoundedDiagonal(6, bound),
        box,
        np.clip(wanted, -bound, bound),
        hessian=lambda x, u: a * u,
        start=lambda scale, rng: np.clip(scale * rng.standard_normal(6), -bound, bound),
    )


def _adapted() -> Iterator[Known]:
    import pymanopt

    ball = ms.from_pymanopt(pymanopt.manifolds.PoincareBall(3))
    b = np.array([0.5, -0.3, 0.2])

    def squared(x: Array) -> tuple[float, Array]:
        return 0.5 * float(np.sum((x - b) ** 2)) + 0.1, x - b

    def near_boundary(scale: float, rng: np.random.Generator) -> Array:
        """Return a point whose distance to the sphere at infinity is of this order, where that is small."""
        u = _normalized(rng.standard_normal(3))
        return u * (1 - min(scale, 1.0) * rng.uniform(0.1, 0.9))

    yield _of("‖x − b‖² on the Poincaré ball of pymanopt", ball, squared, b, start=near_boundary)


def known() -> list[Known]:
    """Return all of them."""
    return [*_euclidean(), *_open(), *_compact(), *_convex(), *_adapted(), *_newer()]
