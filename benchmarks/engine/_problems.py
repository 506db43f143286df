"""The problems of the race: each a manifold, a start, and a cost with its derivatives written by hand in numpy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

import manifoldseq as ms
from manifoldseq.manifolds import BoundedDiagonal, Grassmann, Manifold, Orthogonal, Product, Stiefel
from manifoldseq_lds import Systems

Array = NDArray[Any]
Point = Any


@dataclass(frozen=True)
class Case:
    """One problem, as every contestant gets it.

    Attributes
    ----------
    fused : callable
        ``fused(point) -> (value, Euclidean gradient)``, what the two have in common computed once.
    cost, gradient : callable
        The two apart, as one writes them for a library that asks for them one by one.
    hessian : callable, optional
        ``hessian(point, tangent)``: the Euclidean Hessian product, where it is cheap.
    """

    name: str
    manifold: Manifold
    start: Point
    fused: Callable[[Point], tuple[float, Point]]
    cost: Callable[[Point], float]
    gradient: Callable[[Point], Point]
    hessian: Callable[[Point, Point], Point] | None = None

    @property
    def problem(self) -> ms.Problem:
        """The problem as a user of this package writes it."""
        return ms.Problem(self.manifold, ms.objective(value_and_gradient=self.fused, hessian_product=self.hessian))


def symmetric(n: int, rng: np.random.Generator) -> Array:
    """Return a random symmetric matrix with eigenvalues between about −1 and 1."""
    B = rng.standard_normal((n, n))
    return (B + B.T) / np.sqrt(8 * n)


def brockett(n: int = 1000, p: int = 10) -> Case:
    """Order the p smallest eigenvectors: ½ tr(XᵀSX N) on Stiefel, ill-conditioned by the small gaps of S."""
    rng = np.random.default_rng(0)
    S, N = symmetric(n, rng), np.arange(1.0, p + 1)

    def fused(X: Array) -> tuple[float, Array]:
        G = (S @ X) * N
        return 0.5 * float(np.vdot(X, G)), G

    manifold = Stiefel(n, p)
    return Case(
        f"Brockett St({n},{p})",
        manifold,
        manifold.random_point(rng),
        fused,
        lambda X: 0.5 * float(np.vdot(X, (S @ X) * N)),
        lambda X: (S @ X) * N,
        lambda X, U: (S @ U) * N,
    )


def procrustes(n: int = 500, p: int = 20) -> Case:
    """Fit frames onto each other with unequal weights: ½‖AX − B‖² on Stiefel (the unbalanced problem)."""
    rng = np.random.default_rng(1)
    A = rng.standard_normal((n, n)) / np.sqrt(n) + 0.5 * np.eye(n)
    manifold = Stiefel(n, p)
    B = A @ manifold.random_point(rng) + 0.1 * rng.standard_normal((n, p))

    def fused(X: Array) -> tuple[float, Array]:
        R = A @ X - B
        return 0.5 * float(np.vdot(R, R)), A.T @ R

    def cost(X: Array) -> float:
        R = A @ X - B
        return 0.5 * float(np.vdot(R, R))

    return Case(
        f"Procrustes St({n},{p})",
        manifold,
        manifold.random_point(rng),
        fused,
        cost,
        lambda X: A.T @ (A @ X - B),
        lambda X, U: A.T @ (A @ U),
    )


def eigenspace(n: int = 2000, p: int = 50) -> Case:
    """Find the space of the p largest eigenvalues, −½ tr(XᵀSX) on Stiefel, of a covariance of p factors and noise."""
    rng = np.random.default_rng(2)
    factors = rng.standard_normal((n, p)) * np.linspace(3.0, 0.5, p) @ rng.standard_normal((p, n)) / np.sqrt(p)
    data = factors + rng.standard_normal((n, n))
    S = data.T @ data / n

    def fused(X: Array) -> tuple[float, Array]:
        G = -(S @ X)
        return 0.5 * float(np.vdot(X, G)), G

    manifold = Stiefel(n, p)
    return Case(
        f"eigenspace St({n},{p})",
        manifold,
        manifold.random_point(rng),
        fused,
        lambda X: -0.5 * float(np.vdot(X, S @ X)),
        lambda X: -(S @ X),
        lambda X, U: -(S @ U),
    )


def joint_diagonalization(n: int = 50, k: int = 10) -> Case:
    """Diagonalize k noisy symmetric matrices by one orthogonal matrix: −½ Σ ‖diag(XᵀA_kX)‖²."""
    rng = np.random.default_rng(3)
    Q = np.linalg.qr(rng.standard_normal((n, n)))[0]
    A = np.stack([Q * rng.standard_normal(n) @ Q.T + 0.05 * symmetric(n, rng) for _ in range(k)])

    def parts(X: Array) -> tuple[Array, Array]:
        AX = A @ X
        return AX, np.einsum("kij,ij->kj", AX, X)

    def fused(X: Array) -> tuple[float, Array]:
        AX, d = parts(X)
        return -0.5 * float(np.vdot(d, d)), -2 * np.einsum("kij,kj->ij", AX, d)

    def cost(X: Array) -> float:
        d = parts(X)[1]
        return -0.5 * float(np.vdot(d, d))

    def hessian(X: Array, U: Array) -> Array:
        AX, d = parts(X)
        change = 2 * np.einsum("kij,ij->kj", AX, U)
        return -2 * (np.einsum("kij,kj->ij", A @ U, d) + np.einsum("kij,kj->ij", AX, change))

    manifold = Orthogonal(n)
    start = np.linalg.qr(Q + 0.5 * rng.standard_normal((n, n)) / np.sqrt(n))[0]
    return Case(f"joint diagonalization O({n})", manifold, start, fused, cost, lambda X: fused(X)[1], hessian)


def mixed(n: int = 200, p: int = 10, bound: float = 0.9, seed: int = 0) -> Case:
    """A frame, a rotation and bounded numbers: ½ tr(XᵀSX N) + ½‖X diag(λ)V − A‖², bounds active at the optimum.

    All three factors are coupled, the oracle is cheap: what is measured is the engine around it.
    """
    rng = np.random.default_rng(seed)
    S = rng.standard_normal((n, n))
    S = S @ S.T / n
    N = np.arange(1.0, p + 1)
    A = np.linalg.qr(rng.standard_normal((n, p)))[0] * rng.uniform(0.2, 1.3, p)
    A = A @ np.linalg.qr(rng.standard_normal((p, p)))[0]

    def fused(point: Point) -> tuple[float, Point]:
        X, V, lam = point
        SXN = (S @ X) * N
        LV = lam[:, None] * V
        R = X @ LV - A
        XR = X.T @ R
        value = 0.5 * float(np.vdot(X, SXN)) + 0.5 * float(np.vdot(R, R))
        return value, (SXN + R @ LV.T, lam[:, None] * XR, (XR * V).sum(axis=1))

    def cost(point: Point) -> float:
        X, V, lam = point
        R = X @ (lam[:, None] * V) - A
        return 0.5 * float(np.vdot(X, (S @ X) * N)) + 0.5 * float(np.vdot(R, R))

    manifold = Product(Stiefel(n, p), Orthogonal(p), BoundedDiagonal(p, bound), names=("X", "V", "lam"))
    start = manifold.random_point(np.random.default_rng(seed + 1))
    return Case(f"St({n},{p})×O({p})×box({p})", manifold, start, fused, cost, lambda x: fused(x)[1])


def lds_mean(systems: int = 50, m: int = 177, n: int = 10, noise: float = 0.3) -> Case:
    """The mean of linear dynamical systems under the projection kernel, from the medoid."""
    rng = np.random.default_rng(0)

    def stable(A: Array) -> Array:
        U, s, Vt = np.linalg.svd(A)
        return U * np.tanh(1.25 * s) @ Vt

    A0, C0 = stable(1.2 * rng.standard_normal((n, n)) / np.sqrt(n)), np.linalg.qr(rng.standard_normal((m, n)))[0]
    A, C = [], []
    for _ in range(systems):
        a = stable(0.9 * A0 + noise * rng.standard_normal((n, n)) / np.sqrt(n))
        c = np.linalg.qr(C0 + noise * rng.standard_normal((m, n)) / np.sqrt(m))[0]
        P = np.linalg.qr(rng.standard_normal((n, n)))[0]
        A.append(P.T @ a @ P)
        C.append(c @ P)
    data = Systems(np.stack(A), np.stack(C))
    problem = ms.get_model("lds.mean").problem(data)
    kernel = ms.get_kernel("projection")
    packed, beta = kernel.pack(data), np.full(systems, -2 / systems)

    def cost(point: Point) -> float:
        lam, V, U = point
        return float(kernel.cross(kernel.pack([(lam[:, None] * V, U)]), packed)[0] @ beta)

    fused = partial(kernel.weighted, P=packed, beta=beta)
    start = problem.initializers["medoid"](problem, rng)
    return Case(f"LDS mean, {systems} systems ({m},{n})", problem.manifold, start, fused, cost, lambda x: fused(x)[1])


def sparse_pca(n: int = 300, p: int = 6, weight: float = 0.1, smooth: float = 1e-2) -> Case:
    """Sparse principal components: −½ tr(XᵀSX) + weight·Σ √(x² + smooth²) on Stiefel, with planted sparse loadings."""
    rng = np.random.default_rng(4)
    loadings = np.zeros((n, p))
    for k in range(p):
        loadings[k * n // (2 * p) : (k + 1) * n // (2 * p), k] = 1.0
    scores = rng.standard_normal((2 * n, p)) * np.linspace(1.5, 1.0, p)
    data = scores @ loadings.T / np.sqrt(n / (2 * p)) * 3 + rng.standard_normal((2 * n, n))
    S = data.T @ data / (2 * n)
    tiny = smooth * smooth

    def fused(X: Array) -> tuple[float, Array]:
        G, root = -(S @ X), np.sqrt(X * X + tiny)
        return 0.5 * float(np.vdot(X, G)) + weight * float(root.sum()), G + weight * (X / root)

    def cost(X: Array) -> float:
        return -0.5 * float(np.vdot(X, S @ X)) + weight * float(np.sqrt(X * X + tiny).sum())

    manifold = Stiefel(n, p)
    return Case(
        f"sparse PCA St({n},{p})",
        manifold,
        manifold.random_point(rng),
        fused,
        cost,
        lambda X: weight * (X / np.sqrt(X * X + tiny)) - S @ X,
        lambda X, U: weight * tiny * U / (X * X + tiny) ** 1.5 - S @ U,
    )


def completion(m: int = 300, n: int = 400, r: int = 5, observed: float = 0.2) -> Case:
    """Low-rank matrix completion by its column space: min_V ½‖P(UVᵀ − A)‖² + ½ε‖V‖², V eliminated, on Grassmann."""
    rng = np.random.default_rng(5)
    A = rng.standard_normal((m, r)) @ rng.standard_normal((r, n)) + 0.1 * rng.standard_normal((m, n))
    mask = (rng.uniform(size=(m, n)) < observed).astype(float)
    A *= mask
    ridge = 1e-2 * np.eye(r)

    def parts(U: Array) -> tuple[Array, Array]:
        gram = (mask.T @ (U[:, :, None] * U[:, None, :]).reshape(m, r * r)).reshape(n, r, r)
        V = np.linalg.solve(gram + ridge, (A.T @ U)[..., None])[..., 0]
        R = U @ V.T
        R *= mask
        R -= A
        return R, V

    def fused(U: Array) -> tuple[float, Array]:
        R, V = parts(U)
        return 0.5 * float(np.vdot(R, R)) + 0.5 * ridge[0, 0] * float(np.vdot(V, V)), R @ V

    def cost(U: Array) -> float:
        R, V = parts(U)
        return 0.5 * float(np.vdot(R, R)) + 0.5 * ridge[0, 0] * float(np.vdot(V, V))

    manifold = Grassmann(m, r)
    return Case(f"completion Gr({m},{r})", manifold, manifold.random_point(rng), fused, cost, lambda U: fused(U)[1])


def cases(quick: bool = False) -> list[Case]:
    """Return the single problems of the race, small ones for a smoke run."""
    if quick:
        return [
            brockett(30, 2),
            procrustes(30, 3),
            eigenspace(40, 3),
            joint_diagonalization(8, 3),
            mixed(20, 3),
            lds_mean(6, 12, 2),
            sparse_pca(40, 2),
            completion(30, 40, 2, 0.5),
        ]
    return [
        brockett(),
        procrustes(),
        eigenspace(),
        joint_diagonalization(),
        mixed(),
        lds_mean(),
        sparse_pca(),
        completion(),
    ]
