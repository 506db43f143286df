"""Problems on manifolds that the race does not visit: rotations, covariances, unit columns, probabilities."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from manifoldseq.manifolds import (
    Euclidean,
    Oblique,
    Orthogonal,
    Product,
    Simplex,
    SpecialOrthogonal,
    Sphere,
    Stiefel,
    SymmetricPositiveDefinite,
)

from ._problems import Case

Array = NDArray[Any]


def synchronization(k: int = 150, edges: float = 8.0, outliers: float = 0.2, seed: int = 0) -> Case:
    """Rotations from noisy relative ones, some of them wrong: Σ √(1 + ‖R_i R_ijᵀ − R_j‖²/c²) over a random graph."""
    rng = np.random.default_rng(seed)
    manifold = SpecialOrthogonal(3) ** k
    truth = manifold.random_point(rng)
    path = np.stack([np.arange(k - 1), np.arange(1, k)])
    i, j = np.concatenate([path, rng.integers(0, k, (2, int(k * edges / 2)))], axis=1)
    i, j = i[i != j], j[i != j]
    M = truth[j].swapaxes(1, 2) @ truth[i]
    wrong = rng.uniform(size=len(i)) < outliers
    wrong[: k - 1] = False
    M[wrong] = (SpecialOrthogonal(3) ** int(wrong.sum())).random_point(rng)
    M += 0.05 * rng.standard_normal(M.shape)
    c = 0.5

    def fused(R: Array) -> tuple[float, Array]:
        D = R[i] - R[j] @ M
        root = np.sqrt(1 + np.einsum("eab,eab->e", D, D) / (c * c))
        W = D / (c * c * root)[:, None, None]
        G = np.zeros_like(R)
        np.add.at(G, i, W)
        np.subtract.at(G, j, W @ M.swapaxes(1, 2))
        return float(root.sum()), G

    def cost(R: Array) -> float:
        D = R[i] - R[j] @ M
        return float(np.sqrt(1 + np.einsum("eab,eab->e", D, D) / (c * c)).sum())

    return Case(f"synchronization SO(3)^{k}", manifold, manifold.random_point(rng), fused, cost, lambda R: fused(R)[1])


def gaussian_mixture(d: int = 6, K: int = 5, n: int = 1000, seed: int = 0) -> Case:
    """A Gaussian mixture by covariances of (x, 1), as of Hosseini and Sra (2015): SPD(d+1)^K × R^(K−1)."""
    rng = np.random.default_rng(seed)
    centres = 3 * rng.standard_normal((K, d))
    shapes = rng.standard_normal((K, d, d)) / np.sqrt(d)
    X = np.concatenate([c + rng.standard_normal((n // K, d)) @ s for c, s in zip(centres, shapes, strict=True)])
    Y = np.concatenate([X, np.ones((len(X), 1))], axis=1)
    manifold = Product(SymmetricPositiveDefinite(d + 1) ** K, Euclidean(K - 1), names=("S", "eta"))

    def parts(point: Any) -> tuple[float, Array, Array, Array, Array]:
        S, eta = point
        inverse = np.linalg.inv(S)
        weights = np.append(eta, 0.0)
        weights = weights - np.logaddexp.reduce(weights)
        T = Y @ inverse
        logs = weights[:, None] - 0.5 * np.einsum("kni,ni->kn", T, Y) - 0.5 * np.linalg.slogdet(S)[1][:, None]
        total = np.logaddexp.reduce(logs, axis=0)
        return -float(total.sum()) / n, inverse, T, np.exp(logs - total), weights

    def fused(point: Any) -> tuple[float, Any]:
        value, inverse, T, r, weights = parts(point)
        total = r.sum(axis=1)
        scatter = (T * r[..., None]).swapaxes(1, 2) @ T
        return value, (
            -0.5 / n * (scatter - total[:, None, None] * inverse),
            (np.exp(weights) * len(Y) - total)[:-1] / n,
        )

    start = np.stack([np.cov(Y[rng.choice(len(Y), len(Y) // K)].T, bias=True) + np.eye(d + 1) for _ in range(K)])
    return Case(
        f"Gaussian mixture SPD({d + 1})^{K}",
        manifold,
        (start, np.zeros(K - 1)),
        fused,
        lambda x: parts(x)[0],
        lambda x: fused(x)[1],
    )


def karcher(n: int = 20, N: int = 10, seed: int = 0) -> Case:
    """The mean of positive definite matrices in their own metric: ½ Σ ‖log(L⁻¹ A L⁻ᵀ)‖² with X = L Lᵀ."""
    rng = np.random.default_rng(seed)
    manifold = SymmetricPositiveDefinite(n)
    A = np.stack([(lambda B: B @ B.T / n + 0.1 * np.eye(n))(rng.standard_normal((n, n))) for _ in range(N)])

    def parts(X: Array) -> tuple[Array, Array, Array]:
        inverse = np.linalg.inv(np.linalg.cholesky(X))
        w, V = np.linalg.eigh(inverse @ A @ inverse.T)
        return inverse, np.log(w), V

    def fused(X: Array) -> tuple[float, Array]:
        inverse, logs, V = parts(X)
        total = ((V * logs[:, None, :]) @ V.swapaxes(1, 2)).sum(axis=0)
        return 0.5 * float(np.vdot(logs, logs)), -inverse.T @ total @ inverse

    return Case(
        f"Karcher mean SPD({n})",
        manifold,
        np.eye(n),
        fused,
        lambda X: 0.5 * float((parts(X)[1] ** 2).sum()),
        lambda X: fused(X)[1],
    )


def max_cut(n: int = 500, p: int = 20, seed: int = 0) -> Case:
    """The relaxation of max-cut of Burer and Monteiro: ½ tr(X W Xᵀ) over matrices with unit columns."""
    rng = np.random.default_rng(seed)
    W = np.triu((rng.uniform(size=(n, n)) < 10 / n) * rng.standard_normal((n, n)), 1)
    W = W + W.T
    manifold = Oblique(p, n)
    return Case(
        f"max-cut oblique({p},{n})",
        manifold,
        manifold.random_point(rng),
        lambda X: (0.5 * float(np.vdot(X @ W, X)), X @ W),
        lambda X: 0.5 * float(np.vdot(X @ W, X)),
        lambda X: X @ W,
        lambda X, U: U @ W,
    )


def rayleigh(n: int = 1_000_000, seed: int = 0) -> Case:
    """The smallest eigenvalue of a diagonal matrix with a gap of a hundredth: ½ Σ a x² on the sphere in R^n."""
    rng = np.random.default_rng(seed)
    a = np.sort(rng.uniform(0.01, 1.0, n))
    a[0] = 0.0
    manifold = Sphere(n)

    def fused(x: Array) -> tuple[float, Array]:
        G = a * x
        return 0.5 * float(np.dot(x, G)), G

    return Case(
        f"Rayleigh quotient S^{n - 1}",
        manifold,
        manifold.random_point(rng),
        fused,
        lambda x: 0.5 * float(np.dot(x, a * x)),
        lambda x: a * x,
        lambda x, u: a * u,
    )


def mixture_weights(K: int = 8, n: int = 5000, seed: int = 0) -> Case:
    """The weights of K known Gaussians, most likely for n numbers: −mean log(P w) on the simplex."""
    rng = np.random.default_rng(seed)
    centres, weights = 1.5 * np.arange(K), rng.dirichlet(np.full(K, 3.0))
    z = centres[rng.choice(K, n, p=weights)] + rng.standard_normal(n)
    P = np.exp(-0.5 * (z[:, None] - centres) ** 2) / np.sqrt(2 * np.pi)

    def fused(w: Array) -> tuple[float, Array]:
        mixed = P @ w
        return -float(np.log(mixed).mean()), -(1 / mixed) @ P / n

    return Case(
        f"mixture weights simplex({K})",
        Simplex(K),
        np.full(K, 1 / K),
        fused,
        lambda w: -float(np.log(P @ w).mean()),
        lambda w: fused(w)[1],
        lambda w, u: ((P @ u) / (P @ w) ** 2) @ P / n,
    )


def sphere_quadratic(n: int = 200, seed: int = 0) -> Case:
    """A quadratic function on the sphere, as in a trust region: ½ xᵀAx − bᵀx."""
    rng = np.random.default_rng(seed)
    B, b = rng.standard_normal((n, n)), rng.standard_normal(n) / np.sqrt(n)
    A = (B + B.T) / np.sqrt(8 * n)

    def fused(x: Array) -> tuple[float, Array]:
        Ax = A @ x
        return float(np.dot(x, 0.5 * Ax - b)), Ax - b

    manifold = Sphere(n)
    return Case(
        f"quadratic S^{n - 1}",
        manifold,
        manifold.random_point(rng),
        fused,
        lambda x: float(np.dot(x, 0.5 * (A @ x) - b)),
        lambda x: A @ x - b,
        lambda x, u: A @ u,
    )


def sphere_quartic(n: int = 50, m: int = 300, seed: int = 0) -> Case:
    """A quartic form on the sphere: ¼ Σ (aᵢᵀx)⁴."""
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((m, n)) / np.sqrt(n)

    def fused(x: Array) -> tuple[float, Array]:
        y = A @ x
        cubes = y**3
        return 0.25 * float(np.dot(cubes, y)), cubes @ A

    manifold = Sphere(n)
    return Case(
        f"quartic S^{n - 1}",
        manifold,
        manifold.random_point(rng),
        fused,
        lambda x: 0.25 * float(((A @ x) ** 4).sum()),
        lambda x: (A @ x) ** 3 @ A,
        lambda x, u: (3 * (A @ x) ** 2 * (A @ u)) @ A,
    )


def weighted_pca(n: int = 200, p: int = 6, seed: int = 0) -> Case:
    """The p leading eigenvectors of a covariance in their order, with gaps between all: −½ tr(XᵀAX N) on Stiefel."""
    rng = np.random.default_rng(seed)
    Q = np.linalg.qr(rng.standard_normal((n, n)))[0]
    A, N = (Q * 0.7 ** np.arange(n)) @ Q.T, np.arange(p, 0.0, -1.0) / p
    manifold = Stiefel(n, p)

    def fused(X: Array) -> tuple[float, Array]:
        G = -(A @ X) * N
        return 0.5 * float(np.vdot(X, G)), G

    return Case(
        f"weighted PCA St({n},{p})",
        manifold,
        manifold.random_point(rng),
        fused,
        lambda X: -0.5 * float(np.vdot(X, (A @ X) * N)),
        lambda X: -(A @ X) * N,
        lambda X, U: -(A @ U) * N,
    )


def independent_components(d: int = 10, n: int = 5000, seed: int = 0) -> Case:
    """Independent components of white data with heavy tails: Σ mean log cosh(wᵢᵀz) over orthogonal W."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((d, d)) @ rng.laplace(size=(d, n))
    w, V = np.linalg.eigh(np.cov(X))
    Z = ((V / np.sqrt(w)) @ V.T @ (X - X.mean(axis=1, keepdims=True))).T.copy()
    manifold = Orthogonal(d)

    def fused(W: Array) -> tuple[float, Array]:
        Y = Z @ W
        return float((np.logaddexp(Y, -Y) - np.log(2)).sum()) / n, Z.T @ np.tanh(Y) / n

    def hessian(W: Array, U: Array) -> Array:
        return Z.T @ ((1 - np.tanh(Z @ W) ** 2) * (Z @ U)) / n

    return Case(
        f"ICA O({d})",
        manifold,
        manifold.random_point(rng),
        fused,
        lambda W: float((np.logaddexp(Z @ W, -(Z @ W)) - np.log(2)).sum()) / n,
        lambda W: Z.T @ np.tanh(Z @ W) / n,
        hessian,
    )


def more_cases(quick: bool = False, seed: int = 0) -> list[Case]:
    """Return the problems, small ones for a smoke run."""
    if quick:
        return [
            *(synchronization(10, seed=seed), gaussian_mixture(2, 2, 60, seed), karcher(3, 4, seed)),
            *(max_cut(20, 3, seed), rayleigh(50, seed), mixture_weights(3, 100, seed), sphere_quadratic(6, seed)),
            *(sphere_quartic(5, 20, seed), weighted_pca(8, 2, seed), independent_components(3, 200, seed)),
        ]
    return [
        *(synchronization(seed=seed), synchronization(2000, seed=seed), gaussian_mixture(seed=seed)),
        *(gaussian_mixture(2, 3, seed=seed), karcher(seed=seed), karcher(5, 20, seed), max_cut(seed=seed)),
        *(rayleigh(seed=seed), mixture_weights(seed=seed), sphere_quadratic(seed=seed), sphere_quartic(seed=seed)),
        *(weighted_pca(seed=seed), independent_components(seed=seed)),
    ]
