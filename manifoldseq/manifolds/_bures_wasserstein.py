"""Symmetric positive definite matrices with the metric of optimal transport."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np

from ..linalg import eigh, polar, smallest_eigenvalue, symmetric
from ._base import Manifold, _root
from ._memory import remembered
from ._spd import SymmetricInFrame, SymmetricPositiveDefinite, double, square


class _BuresWasserstein(SymmetricPositiveDefinite, metric="bures-wasserstein"):
    """The metric of optimal transport: the coordinates of U are √(2(wᵢ + wⱼ)) Cᵢⱼ = Uᵢⱼ in the eigenvectors of X."""

    retractions: ClassVar[tuple[str, ...]] = ("exp",)
    second_order: ClassVar[tuple[str, ...]] = ("exp",)
    parallel_transport = None  # type: ignore[assignment]
    _example: ClassVar[tuple[Any, ...]] = (3, "bures-wasserstein")

    def __repr__(self) -> str:
        return f"SymmetricPositiveDefinite(n={self.n}, metric='bures-wasserstein')"

    @property
    def frame(self) -> Manifold[np.ndarray] | None:
        return _BuresWassersteinInFrame(self.n)

    def inner(self, x: np.ndarray, u: np.ndarray, v: np.ndarray) -> Any:
        left = _by_sums(x, u, -0.5)
        return Manifold.inner(self, x, left, left if v is u else _by_sums(x, v, -0.5))

    def gradient(self, x: np.ndarray, egrad: np.ndarray) -> np.ndarray:
        return _by_sums(x, egrad, 1).astype(x.dtype, copy=False)

    def euclidean_gradient(self, x: np.ndarray, u: np.ndarray) -> np.ndarray:
        return _by_sums(x, u, -1).astype(u.dtype, copy=False)

    def hessian(self, x: np.ndarray, egrad: np.ndarray, ehess: np.ndarray, u: np.ndarray) -> np.ndarray:
        return _turned(x, egrad, ehess, u).astype(x.dtype, copy=False)

    def retract(self, x: np.ndarray, u: np.ndarray, kind: str | None = None) -> np.ndarray:
        self._kind(kind)
        w, V = eigh(2 * _by_sums(x, u, -1))
        return _pushed(x, V, _kept_inside(w, x.dtype))

    def transport(self, x: np.ndarray, y: np.ndarray, u: np.ndarray) -> np.ndarray:
        return _by_sums(y, _by_sums(x, u, -0.5), 0.5).astype(u.dtype, copy=False)

    def exp(self, x: np.ndarray, u: np.ndarray) -> np.ndarray:
        w, V = eigh(2 * _by_sums(x, u, -1))
        inside = w[..., :1] > -1 - 1e-12 * np.maximum(1, w[..., -1:])  # as far as eigenvalues are known
        return _pushed(x, V, np.where(inside, 1 + w, np.nan))

    def log(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        V, root, _ = _sums(x)
        half = _transported(x, y) * root[..., None, :]
        return symmetric(2 * V @ half @ V.mT).astype(x.dtype, copy=False)

    def dist(self, x: np.ndarray, y: np.ndarray) -> Any:
        K = _transported(x, y)
        return _root(np.sum(K * K, axis=(-2, -1)))

    def scale(self, x: np.ndarray) -> Any:
        """Return the distance to zero."""
        return _root(np.trace(double(x), axis1=-2, axis2=-1))

    def longest(self, x: np.ndarray, u: np.ndarray) -> Any:
        # as far as the geodesic stays in the set
        low = smallest_eigenvalue(2 * _by_sums(x, u, -1))
        most = np.divide(-1.0, low, out=np.full(np.shape(low), np.inf), where=low < 0)
        return float(most) if most.ndim == 0 else most

    def _largest(self, x: np.ndarray) -> np.ndarray:
        return _sums(x).root[..., -1] ** 2

    def random_tangent(self, x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return _by_sums(x, rng.standard_normal(x.shape), 0.5).astype(x.dtype)


class _BuresWassersteinInFrame(SymmetricInFrame, _BuresWasserstein):
    parallel_transport = None  # type: ignore[assignment]

    def to_frame(self, x: np.ndarray, u: np.ndarray) -> np.ndarray:
        return _by_sums(x, u, -0.5).astype(x.dtype, copy=False)

    def from_frame(self, x: np.ndarray, c: np.ndarray) -> np.ndarray:
        return _by_sums(x, c, 0.5).astype(x.dtype, copy=False)

    def hessian(self, x: np.ndarray, egrad: np.ndarray, ehess: np.ndarray, u: np.ndarray) -> np.ndarray:
        return self.to_frame(x, _turned(x, egrad, ehess, _by_sums(x, u, 0.5)))

    def retract(self, x: np.ndarray, u: np.ndarray, kind: str | None = None) -> np.ndarray:
        return _BuresWasserstein.retract(self, x, _by_sums(x, u, 0.5), kind)

    def scale(self, x: np.ndarray) -> Any:
        return _BuresWasserstein.scale(self, x)

    def longest(self, x: np.ndarray, u: np.ndarray) -> Any:
        return _BuresWasserstein.longest(self, x, _by_sums(x, u, 0.5))


class _Sums(NamedTuple):
    """Eigenvectors of X, the roots of its eigenvalues, and twice the sums of two eigenvalues."""

    V: np.ndarray
    root: np.ndarray
    sums: np.ndarray


@remembered
def _sums(x: np.ndarray) -> _Sums:
    w, V = eigh(symmetric(double(x)))
    w = np.maximum(w, np.finfo(np.float64).tiny)
    return _Sums(V, np.sqrt(w), 2 * (w[..., :, None] + w[..., None, :]))


def _by_sums(x: np.ndarray, u: np.ndarray, power: float) -> np.ndarray:
    """Return the symmetric part of U times a power of 2(wᵢ + wⱼ), in the eigenvectors of X; 2 (XU + UX) for power 1.

    For power −1, the result is half of the solution L of ``XL + LX = U``.
    """
    V, _, sums = _sums(x)
    return symmetric(V @ (sums**power * (V.mT @ symmetric(double(u)) @ V)) @ V.mT)


def _transported(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return (T − I) X^½ of the map T that transports X to Y, T X T = Y, in the eigenvectors of X."""
    V, root, sums = _sums(x)
    # T X^½ = GᵀO with Y = GᵀG and the polar factor O of G X^½: nothing is divided by small eigenvalues
    W, scale, _ = _sums(y)
    G = scale[..., :, None] * (W.mT @ V)
    far = G.mT @ polar(G * root[..., None, :]) - root[..., None, :] * np.eye(root.shape[-1])
    # where Y is close to X nothing must cancel: D = X^½ (T − I) X^½ solves XD + DX + D² = X^½ (Y − X) X^½
    gap, across = V.mT @ symmetric(double(y) - double(x)) @ V, root[..., :, None] * root[..., None, :]
    with np.errstate(over="ignore"):
        near = np.sum((gap / across) ** 2, axis=(-2, -1), keepdims=True) < 1e-6
    if not near.any():
        return far
    gap = np.where(near, across * gap, 0.0)
    D = 2 * gap / sums
    for _ in range(5):  # each makes the error a thousand times smaller
        D = 2 * (gap - D @ D) / sums
    return np.where(near, D / root[..., :, None], far)


def _pushed(x: np.ndarray, V: np.ndarray, factors: np.ndarray) -> np.ndarray:
    """Return T X T of a map T with these eigenvectors and eigenvalues, as a square."""
    W, root, _ = _sums(x)
    return square((V * factors[..., None, :]) @ (V.mT @ (W * root[..., None, :]))).astype(x.dtype, copy=False)


def _kept_inside(w: np.ndarray, dtype: Any) -> np.ndarray:
    """Return 1 + w, and ½ exp(2w + 1) where 1 + w is below one half, so that squares do not underflow."""
    eps = float(np.finfo(dtype).eps)
    return np.clip(np.where(w > -0.5, 1 + w, 0.5 * np.exp(2 * np.minimum(w, -0.5) + 1)), eps**0.125, eps**-0.25)


def _turned(x: np.ndarray, egrad: np.ndarray, ehess: np.ndarray, u: np.ndarray) -> np.ndarray:
    """Return the Hessian of the Bures–Wasserstein metric (Han et al. 2021, proposition 1), with XL + LX = U:

    4 sym(D²f[U] X) + 2 sym(GU) + 4 sym(X sym(GL)) − sym(L grad f).
    """
    base, slope, step = double(x), symmetric(double(egrad)), symmetric(double(u))
    L = 2 * _by_sums(x, u, -1)
    bent = 2 * slope @ step + 4 * base @ symmetric(slope @ L) - L @ _by_sums(x, egrad, 1)
    return _by_sums(x, ehess, 1) + symmetric(bent)
