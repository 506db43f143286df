"""Sixteen problems: products with unequal scales, points of 1e4 to 1e6 entries, and positive definite matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from manifoldseq.manifolds import Euclidean, Oblique, Product, Sphere, Stiefel, SymmetricPositiveDefinite

from ._more_problems import karcher, rayleigh
from ._problems import Case, Point
from ._units import PROBLEMS, in_unit

Array = NDArray[Any]
UNIT = 100.0


def laplacian(n: int) -> Any:
    """Return the sparse matrix of minus the Laplacian on an n × n grid with zero boundary."""
    one = scipy.sparse.diags_array([-np.ones(n - 1), 2 * np.ones(n), -np.ones(n - 1)], offsets=(-1, 0, 1))
    return scipy.sparse.csr_array(scipy.sparse.kronsum(one, one))


def ground_state(n: int = 128, repulsion: float = 500.0, seed: int = 0) -> Case:
    """The lowest state of the Gross–Pitaevskii equation in a random potential: ½ xᵀ(L + V)x + ¼β Σ x⁴ on a sphere."""
    rng = np.random.default_rng(seed)
    H = laplacian(n) + scipy.sparse.diags_array(0.1 * rng.random(n * n))
    manifold = Sphere(n * n)

    def fused(x: Array) -> tuple[float, Array]:
        Hx, cubes = H @ x, repulsion * x**3
        return float(x @ (0.5 * Hx + 0.25 * cubes)), Hx + cubes

    return Case(
        f"Gross–Pitaevskii S^{n * n - 1}",
        manifold,
        manifold.random_point(rng),
        fused,
        lambda x: fused(x)[0],
        lambda x: fused(x)[1],
        lambda x, u: H @ u + 3 * repulsion * x * x * u,
    )


def sparse_cut(n: int = 2000, p: int = 20, seed: int = 0) -> Case:
    """The relaxation of max-cut for a sparse graph: ½ tr(X W Xᵀ) over matrices with unit columns."""
    rng = np.random.default_rng(seed)
    W = scipy.sparse.random_array((n, n), density=5 / n, rng=rng, data_sampler=rng.standard_normal)
    W = scipy.sparse.csr_array(W + W.T)
    manifold = Oblique(p, n)

    def gradient(X: Array) -> Array:
        return np.ascontiguousarray((W @ X.T).T)

    def fused(X: Array) -> tuple[float, Array]:
        G = gradient(X)
        return 0.5 * float(np.vdot(X, G)), G

    start = manifold.random_point(rng)
    hessian = lambda X, U: gradient(U)  # noqa: E731
    return Case(f"sparse max-cut oblique({p},{n})", manifold, start, fused, lambda X: fused(X)[0], gradient, hessian)


def factorization(m: int = 600, n: int = 800, r: int = 5, observed: float = 0.1, seed: int = 0) -> Case:
    """Factors of a matrix from some of its entries: ½ Σ (⟨uᵢ, vⱼ⟩ − aᵢⱼ)² + ½λ(‖U‖² + ‖V‖²)."""
    rng = np.random.default_rng(seed)
    mask = scipy.sparse.csr_array(scipy.sparse.random_array((m, n), density=observed, rng=rng))
    i, j = mask.nonzero()
    truth = rng.standard_normal((m, 5)), rng.standard_normal((n, 5))
    a = np.einsum("er,er->e", truth[0][i], truth[1][j]) + 0.1 * rng.standard_normal(len(i))
    weight = 1.0

    def sparse(values: Array) -> Any:
        return scipy.sparse.csr_array((values, mask.indices, mask.indptr), shape=(m, n))

    def products(U: Array, V: Array) -> Array:
        return np.einsum("er,er->e", U[i], V[j])

    def fused(x: Point) -> tuple[float, Point]:
        U, V = x
        e = products(U, V) - a
        E = sparse(e)
        penalty = 0.5 * weight * float(np.vdot(U, U) + np.vdot(V, V))
        return 0.5 * float(e @ e) + penalty, (E @ V + weight * U, E.T @ U + weight * V)

    def hessian(x: Point, u: Point) -> Point:
        (U, V), (S, T) = x, u
        E, D = sparse(products(U, V) - a), sparse(products(S, V) + products(U, T))
        return D @ V + E @ T + weight * S, D.T @ U + E.T @ S + weight * T

    start = rng.standard_normal((m, r)) / np.sqrt(r), rng.standard_normal((n, r)) / np.sqrt(r)
    manifold = Product(Euclidean(m, r), Euclidean(n, r))
    return Case(
        f"factorization R^({m}×{r}) × R^({n}×{r})",
        manifold,
        start,
        fused,
        lambda x: fused(x)[0],
        lambda x: fused(x)[1],
        hessian,
    )


def modes(n: int = 100, p: int = 4, seed: int = 0) -> Case:
    """The p lowest modes of a grid in a random potential, in their order: ½ tr(XᵀHX N) on Stiefel."""
    rng = np.random.default_rng(seed)
    H, N = laplacian(n) + scipy.sparse.diags_array(rng.random(n * n)), np.arange(p, 0.0, -1.0)
    manifold = Stiefel(n * n, p)

    def fused(X: Array) -> tuple[float, Array]:
        G = (H @ X) * N
        return 0.5 * float(np.vdot(X, G)), G

    return Case(
        f"modes St({n * n},{p})",
        manifold,
        manifold.random_point(rng),
        fused,
        lambda X: fused(X)[0],
        lambda X: (H @ X) * N,
        lambda X, U: (H @ U) * N,
    )


def denoising(n: int = 300, weight: float = 0.3, smooth: float = 0.05, seed: int = 0) -> Case:
    """An image without its noise: ½‖x − y‖² + λ Σ √(ε² + |∇x|²)."""
    rng = np.random.default_rng(seed)
    s, t = np.meshgrid(np.linspace(-1, 1, n), np.linspace(-1, 1, n))
    y = (s * s + t * t < 0.5) + 0.5 * (s > t) + 0.2 * rng.standard_normal((n, n))

    def slopes(x: Array) -> tuple[Array, Array]:
        across, down = np.zeros_like(x), np.zeros_like(x)
        np.subtract(x[:, 1:], x[:, :-1], out=across[:, :-1])
        np.subtract(x[1:], x[:-1], out=down[:-1])
        return across, down

    def adjoint(p: Array, q: Array) -> Array:
        g = -p - q
        g[:, 1:] += p[:, :-1]
        g[1:] += q[:-1]
        return g

    def fused(x: Array) -> tuple[float, Array]:
        (a, d), r = slopes(x), x - y
        root = np.sqrt(smooth * smooth + a * a + d * d)
        return 0.5 * float(np.vdot(r, r)) + weight * float(root.sum()), r + adjoint(
            weight * a / root, weight * d / root
        )

    def hessian(x: Array, u: Array) -> Array:
        (a, d), (da, dd) = slopes(x), slopes(u)
        root = np.sqrt(smooth * smooth + a * a + d * d)
        along = (a * da + d * dd) / (root * root)
        return u + adjoint(weight * (da - a * along) / root, weight * (dd - d * along) / root)

    manifold = Euclidean(n, n)
    return Case(f"denoising R^({n}×{n})", manifold, y, fused, lambda x: fused(x)[0], lambda x: fused(x)[1], hessian)


def bures(n: int = 20, N: int = 10, seed: int = 0) -> Case:
    """The barycenter of Gaussians under optimal transport: ½ mean tr(X + A − 2(A^½ X A^½)^½)."""
    rng = np.random.default_rng(seed)
    roots = rng.standard_normal((N, n, n)) / np.sqrt(n)
    roots = roots @ roots.mT + 0.1 * np.eye(n)
    constant = 0.5 * float(np.vdot(roots, roots)) / N

    def parts(X: Array) -> tuple[Array, Array]:
        return np.linalg.eigh(roots @ X @ roots)

    def fused(X: Array) -> tuple[float, Array]:
        w, V = parts(X)
        half = roots @ (V * w[:, None, :] ** -0.25)
        value = constant + 0.5 * float(np.trace(X)) - float(np.sqrt(w).sum()) / N
        return value, 0.5 * np.eye(n) - 0.5 / N * (half @ half.mT).sum(axis=0)

    manifold = SymmetricPositiveDefinite(n)
    return Case(f"Bures barycenter SPD({n})", manifold, np.eye(n), fused, lambda X: fused(X)[0], lambda X: fused(X)[1])


def lyapunov(n: int = 20, condition: float = 1e3, seed: int = 0) -> Case:
    """The solution of AX + XA = Q with an ill-conditioned A: tr(XAX) − tr(QX)."""
    rng = np.random.default_rng(seed)
    B = np.linalg.qr(rng.standard_normal((n, n)))[0]
    A = (B * np.geomspace(1 / condition, 1.0, n)) @ B.T
    factor = rng.standard_normal((n, n)) / np.sqrt(n)
    X = factor @ factor.T + 0.1 * np.eye(n)
    Q = A @ X + X @ A

    def gradient(X: Array) -> Array:
        AX = A @ X
        return AX + AX.T - Q

    def fused(X: Array) -> tuple[float, Array]:
        AX = A @ X
        return float(np.vdot(X, AX - Q)), AX + AX.T - Q

    def hessian(X: Array, U: Array) -> Array:
        AU = A @ U
        return AU + AU.T

    manifold = SymmetricPositiveDefinite(n)
    return Case(f"Lyapunov SPD({n})", manifold, np.eye(n), fused, lambda X: fused(X)[0], gradient, hessian)


def student_scatter(d: int = 20, n: int = 2000, nu: float = 2.0, seed: int = 0) -> Case:
    """The scatter of a multivariate t distribution: ½ log det S + ½(ν + d) mean log(1 + xᵀS⁻¹x/ν)."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) @ (rng.standard_normal((d, d)) / np.sqrt(d))
    X /= np.sqrt(rng.chisquare(nu, n) / nu)[:, None]

    def parts(S: Array) -> tuple[Array, Array, Array]:
        inverse = np.linalg.inv(S)
        T = X @ inverse
        return inverse, T, np.einsum("ij,ij->i", T, X)

    def fused(S: Array) -> tuple[float, Array]:
        inverse, T, q = parts(S)
        value = 0.5 * np.linalg.slogdet(S)[1] + 0.5 * (nu + d) * float(np.log1p(q / nu).mean())
        weights = (nu + d) / (nu + q) / n
        return float(value), 0.5 * (inverse - (T * weights[:, None]).T @ T)

    def hessian(S: Array, U: Array) -> Array:
        inverse, T, q = parts(S)
        weights = (nu + d) / (nu + q) / n
        TU = T @ U
        slopes = weights / (nu + q) * np.einsum("ij,ij->i", TU, T)
        mixed = inverse @ (TU * weights[:, None]).T @ T
        return 0.5 * (mixed + mixed.T - inverse @ U @ inverse - (T * slopes[:, None]).T @ T)

    manifold = SymmetricPositiveDefinite(d)
    return Case(
        f"Student scatter SPD({d})", manifold, np.eye(d), fused, lambda S: fused(S)[0], lambda S: fused(S)[1], hessian
    )


def varied_cases(quick: bool = False, seed: int = 0) -> list[Case]:
    """Return the sixteen problems, small ones for a smoke run."""
    products = [
        in_unit(f"{make.__name__.replace('_', ' ')}, unit {UNIT:g}", make(np.random.default_rng(seed)), UNIT)
        for make in PROBLEMS
    ]
    if quick:
        return [
            *products,
            *(ground_state(8, seed=seed), sparse_cut(60, 3, seed), factorization(20, 30, 3, 0.3, seed)),
            *(modes(8, 2, seed), denoising(12, seed=seed), rayleigh(200, seed)),
            *(karcher(6, 4, seed), bures(4, 4, seed), lyapunov(4, 10.0, seed), student_scatter(3, 50, seed=seed)),
        ]
    return [
        *products,
        *(ground_state(seed=seed), sparse_cut(seed=seed), factorization(seed=seed), modes(seed=seed)),
        *(denoising(seed=seed), rayleigh(200_000, seed), karcher(100, seed=seed), bures(seed=seed)),
        *(lyapunov(seed=seed), student_scatter(seed=seed)),
    ]
