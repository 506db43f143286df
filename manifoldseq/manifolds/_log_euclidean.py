"""Symmetric positive definite matrices with the metric of matrix logarithms."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np
import scipy.linalg

from ..linalg import eigh, symmetric
from ._base import Manifold, _root
from ._memory import remembered
from ._spd import SymmetricInFrame, SymmetricPositiveDefinite, double, square


class _LogEuclidean(SymmetricPositiveDefinite, metric="log-euclidean"):
    """The metric of matrix logarithms: the coordinates of U are C = D log(X)[U]."""

    retractions: ClassVar[tuple[str, ...]] = ("exp",)
    second_order: ClassVar[tuple[str, ...]] = ("exp",)
    _example: ClassVar[tuple[Any, ...]] = (3, "log-euclidean")

    def __repr__(self) -> str:
        return f"SymmetricPositiveDefinite(n={self.n}, metric='log-euclidean')"

    @property
    def frame(self) -> Manifold[np.ndarray] | None:
        return _LogEuclideanInFrame(self.n)

    def inner(self, x: np.ndarray, u: np.ndarray, v: np.ndarray) -> Any:
        left = _logarithm_along(x, u)
        return Manifold.inner(self, x, left, left if v is u else _logarithm_along(x, v))

    def gradient(self, x: np.ndarray, egrad: np.ndarray) -> np.ndarray:
        return _exponential_along(x, _exponential_along(x, egrad)).astype(x.dtype, copy=False)

    def euclidean_gradient(self, x: np.ndarray, u: np.ndarray) -> np.ndarray:
        return Manifold.euclidean_gradient(self, x, u)

    def hessian(self, x: np.ndarray, egrad: np.ndarray, ehess: np.ndarray, u: np.ndarray) -> np.ndarray:
        bent = _bent(x, egrad, ehess, _logarithm_along(x, u))
        return _exponential_along(x, bent).astype(x.dtype, copy=False)

    def retract(self, x: np.ndarray, u: np.ndarray, kind: str | None = None) -> np.ndarray:
        self._kind(kind)
        return _at_logarithm(x, _limited(_logarithm_along(x, u), x.dtype))

    def transport(self, x: np.ndarray, y: np.ndarray, u: np.ndarray) -> np.ndarray:
        return _exponential_along(y, _logarithm_along(x, u)).astype(u.dtype, copy=False)

    def exp(self, x: np.ndarray, u: np.ndarray) -> np.ndarray:
        return _at_logarithm(x, _logarithm_along(x, u))

    def log(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return _exponential_along(x, _eigen(y).log - _eigen(x).log).astype(x.dtype, copy=False)

    def dist(self, x: np.ndarray, y: np.ndarray) -> Any:
        c = _eigen(y).log - _eigen(x).log
        return _root(np.sum(c * c, axis=(-2, -1)))

    def parallel_transport(self, x: np.ndarray, y: np.ndarray, u: np.ndarray) -> np.ndarray:
        return _exponential_along(y, _logarithm_along(x, u)).astype(u.dtype, copy=False)

    def _largest(self, x: np.ndarray) -> np.ndarray:
        return _eigen(x).largest

    def random_tangent(self, x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return _exponential_along(x, symmetric(rng.standard_normal(x.shape))).astype(x.dtype)


class _LogEuclideanInFrame(SymmetricInFrame, _LogEuclidean):
    def to_frame(self, x: np.ndarray, u: np.ndarray) -> np.ndarray:
        return _logarithm_along(x, u).astype(x.dtype, copy=False)

    def from_frame(self, x: np.ndarray, c: np.ndarray) -> np.ndarray:
        return _exponential_along(x, c).astype(x.dtype, copy=False)

    def hessian(self, x: np.ndarray, egrad: np.ndarray, ehess: np.ndarray, u: np.ndarray) -> np.ndarray:
        return _bent(x, egrad, ehess, u).astype(x.dtype, copy=False)

    def retract(self, x: np.ndarray, u: np.ndarray, kind: str | None = None) -> np.ndarray:
        self._kind(kind)
        return _at_logarithm(x, _limited(u, x.dtype))


class _Eigen(NamedTuple):
    """Eigenvectors of X, log X, the divided differences (log wᵢ − log wⱼ)/(wᵢ − wⱼ) of its eigenvalues, the largest."""

    V: np.ndarray
    log: np.ndarray
    slopes: np.ndarray
    largest: np.ndarray


@remembered
def _eigen(x: np.ndarray) -> _Eigen:
    w, V = eigh(symmetric(double(x)))
    w = np.maximum(w, np.finfo(np.float64).tiny)
    total = w[..., :, None] + w[..., None, :]
    # log wᵢ − log wⱼ = 2 artanh r with r = (wᵢ − wⱼ)/(wᵢ + wⱼ): accurate where eigenvalues are close
    r = (w[..., :, None] - w[..., None, :]) / total
    near = np.abs(r) < 0.5
    z = np.log(w)
    gap = np.where(near, 2 * np.arctanh(np.where(near, r, 0)), z[..., :, None] - z[..., None, :])
    slopes = np.divide(gap, r, out=np.full_like(r, 2.0), where=np.abs(r) > 1e-12) / total
    return _Eigen(V, symmetric((V * z[..., None, :]) @ V.mT), slopes, w[..., -1])


def _logarithm_along(x: np.ndarray, u: np.ndarray) -> np.ndarray:
    """Return the derivative of the logarithm at X along U."""
    V, _, slopes, _ = _eigen(x)
    return symmetric(V @ (slopes * (V.mT @ symmetric(double(u)) @ V)) @ V.mT)


def _exponential_along(x: np.ndarray, c: np.ndarray) -> np.ndarray:
    """Return the derivative of the exponential at log X along C."""
    V, _, slopes, _ = _eigen(x)
    return symmetric(V @ ((V.mT @ symmetric(double(c)) @ V) / slopes) @ V.mT)


def _at_logarithm(x: np.ndarray, c: np.ndarray) -> np.ndarray:
    """Return exp(log X + C)."""
    w, V = eigh(_eigen(x).log + symmetric(double(c)))
    return square(V * np.exp(0.5 * w)[..., None, :]).astype(x.dtype, copy=False)


def _limited(c: np.ndarray, dtype: Any) -> np.ndarray:
    """Return C with eigenvalues limited to −½ log eps, which bounds the growth of eigenvalues in a step."""
    w, V = eigh(symmetric(double(c)))
    longest = -0.5 * np.log(np.finfo(dtype).eps)
    return symmetric((V * np.clip(w, -longest, longest)[..., None, :]) @ V.mT)


def _bent(x: np.ndarray, egrad: np.ndarray, ehess: np.ndarray, c: np.ndarray) -> np.ndarray:
    """Return the Hessian product of f(exp L) along C, at L = log X."""
    straight = _exponential_along(x, ehess)
    # and the second derivative of the exponential along C and the gradient: the corner of a block triangular matrix
    L, C, G = np.broadcast_arrays(_eigen(x).log, symmetric(double(c)), symmetric(double(egrad)))
    none = np.zeros_like(L)
    blocks = np.concatenate(
        [np.concatenate(row, axis=-1) for row in ([L, C, none], [none, L, G], [none, none, L])], axis=-2
    )
    n = L.shape[-1]
    corner = scipy.linalg.expm(blocks)[..., :n, 2 * n :]
    return straight + corner + corner.mT
