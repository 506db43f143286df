"""Symmetric positive definite matrices."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
import scipy.linalg

from ..linalg._eigen import eigh, smallest_eigenvalue
from ..linalg._polar import symmetric
from ._base import InFrame, Manifold, _root, logarithmic_longest, size
from ._geodesics import growth
from ._memory import remembered


@dataclass(frozen=True)
class SymmetricPositiveDefinite(Manifold[np.ndarray]):
    """Symmetric positive definite n×n matrices: covariances, kernels, metrics.

    Parameters
    ----------
    n : int
    metric : {"affine-invariant", "log-euclidean"}
        The second measures in matrix logarithms: its geometry is flat, ``dist`` is ``‖log X − log Y‖``, and means are
        closed forms. It is the same in any unit and any orthonormal basis.

    Raises
    ------
    ValueError
        For another metric.

    Notes
    -----
    Affine-invariant metric ``<U, V> = tr(X⁻¹ U X⁻¹ V)``: the same problem in any basis, and no step leaves the set.
    Retractions of second order: ``"exp"`` (default; the geodesic, no eigenvalue growing by more than 1/√eps in a step)
    and ``"quadratic"``, ``X + U + ½ U X⁻¹ U``. The transport ``Y^½ X^-½ U X^-½ Y^½`` keeps inner products. Computed in
    float64 throughout. The set is open: ``feasibility`` is one or more where an eigenvalue is not positive, and
    ``nearest`` gives such a matrix eigenvalues of the size of rounding. Source: Bhatia, "Positive definite matrices",
    2007, chapter 6; of the other metric Arsigny, Fillard, Pennec, Ayache, "Geometric means in a novel vector space
    structure on symmetric positive-definite matrices", 2007; its retraction is ``exp(log X + D log(X)[U])``.

    Examples
    --------
    >>> import numpy as np, manifoldseq as ms
    >>> M = ms.manifolds.SymmetricPositiveDefinite(2)
    >>> M.retract(np.eye(2), np.diag([1.0, 0.0])).round(3).tolist()
    [[2.718, 0.0], [0.0, 1.0]]
    """

    n: int
    metric: str = field(default="affine-invariant", repr=False)
    retractions: ClassVar[tuple[str, ...]] = ("exp", "quadratic")
    second_order: ClassVar[tuple[str, ...]] = ("exp", "quadratic")
    one_base: ClassVar[bool] = True  # type: ignore[misc]

    def __new__(cls, n: int = 1, metric: str = "affine-invariant") -> Any:
        chosen = cls is SymmetricPositiveDefinite and metric == "log-euclidean"
        return object.__new__(_LogEuclidean if chosen else cls)

    def __post_init__(self) -> None:
        size("SymmetricPositiveDefinite", n=self.n)
        if self.metric not in ("affine-invariant", "log-euclidean"):
            raise ValueError(
                f"SymmetricPositiveDefinite(metric={self.metric!r}): choose 'affine-invariant' or 'log-euclidean'"
            )
        if isinstance(self, InFrame):  # whose inner product is the dot product
            object.__setattr__(self, "metric", "embedded")

    @property
    def shape(self) -> tuple[int, int]:
        return self.n, self.n

    @property
    def dim(self) -> int:
        return self.n * (self.n + 1) // 2

    @property
    def frame(self) -> Manifold[np.ndarray] | None:
        """Symmetric C for U = X^½ C X^½."""
        return _InFrame(self.n)

    def project(self, x: np.ndarray, u: np.ndarray) -> np.ndarray:
        return symmetric(u)

    def inner(self, x: np.ndarray, u: np.ndarray, v: np.ndarray) -> Any:
        # tr(X⁻¹UX⁻¹V) is the dot product of X^-½ U X^-½ and X^-½ V X^-½
        inverse = _spectral(x).inverse_root
        left = _congruent(inverse, u)
        return super().inner(x, left, left if v is u else _congruent(inverse, v))

    def gradient(self, x: np.ndarray, egrad: np.ndarray) -> np.ndarray:
        return _congruent(_double(x), egrad).astype(x.dtype, copy=False)

    def hessian(self, x: np.ndarray, egrad: np.ndarray, ehess: np.ndarray, u: np.ndarray) -> np.ndarray:
        # X sym(D²f[U]) X + sym(U sym(G) X), the second term from the connection of the metric
        base, slope = _double(x), symmetric(_double(egrad))
        curved = base @ symmetric(_double(ehess)) @ base
        return symmetric(curved + _double(u) @ slope @ base).astype(x.dtype, copy=False)

    def retract(self, x: np.ndarray, u: np.ndarray, kind: str | None = None) -> np.ndarray:
        return _moved(x, _congruent(_spectral(x).inverse_root, u), self._kind(kind))

    def transport(self, x: np.ndarray, y: np.ndarray, u: np.ndarray) -> np.ndarray:
        map_ = _spectral(y).root @ _spectral(x).inverse_root
        return symmetric(map_ @ _double(u) @ map_.swapaxes(-1, -2)).astype(x.dtype, copy=False)

    @property
    def typical_distance(self) -> float:  # type: ignore[override]
        return math.sqrt(self.dim)

    def exp(self, x: np.ndarray, u: np.ndarray) -> np.ndarray:
        # as far as numbers reach, unlike the retraction
        w, V = eigh(_congruent(_spectral(x).inverse_root, u))
        return _square(_spectral(x).root @ (V * np.exp(0.5 * w)[..., None, :])).astype(x.dtype, copy=False)

    def log(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        w, V = _logarithms(x, y)
        half = _spectral(x).root @ V
        return symmetric((half * w[..., None, :]) @ half.mT).astype(x.dtype, copy=False)

    def dist(self, x: np.ndarray, y: np.ndarray) -> Any:
        w, _ = _logarithms(x, y)
        return _root(np.sum(w * w, axis=-1))

    def parallel_transport(self, x: np.ndarray, y: np.ndarray, u: np.ndarray) -> np.ndarray:
        # E U Eᵀ with E = (Y X⁻¹)^½ = X^½ (X^-½ Y X^-½)^½ X^-½
        w, V = _logarithms(x, y)
        along = (_spectral(x).root @ (V * np.exp(0.5 * w)[..., None, :])) @ (V.mT @ _spectral(x).inverse_root)
        return symmetric(along @ symmetric(_double(u)) @ along.mT).astype(u.dtype, copy=False)

    def nearest(self, x: np.ndarray) -> np.ndarray:
        base = symmetric(_double(x))
        w, V = eigh(base)
        # eigenvalues below the rounding of the largest are raised to it, if one is not positive
        floor = 4 * self.n * np.finfo(x.dtype).eps * np.abs(w).max(axis=-1, keepdims=True)
        raised = (V * np.maximum(w, np.maximum(floor, np.finfo(x.dtype).tiny))[..., None, :]) @ V.swapaxes(-1, -2)
        return np.where(w[..., :1, None] > 0, base, symmetric(raised)).astype(x.dtype, copy=False)

    def feasibility(self, x: np.ndarray) -> Any:
        base = _double(x)
        low = smallest_eigenvalue(symmetric(base))
        violation = np.maximum(np.abs(base - base.swapaxes(-1, -2)).max(axis=(-2, -1)), np.where(low > 0, 0, 1 - low))
        return float(violation) if violation.ndim == 0 else violation

    def pushed_inward(self, x: np.ndarray, egrad: np.ndarray) -> Any:
        # moving along v v' of the least eigenvalue of the gradient by the largest one of X changes f by their product
        low = smallest_eigenvalue(symmetric(_double(egrad)))
        gain = np.maximum(-low, 0) * _spectral(x).largest
        return float(gain) if gain.ndim == 0 else gain

    def longest(self, x: np.ndarray, u: np.ndarray) -> Any:
        return logarithmic_longest(self, x, u)

    def random_point(self, rng: np.random.Generator, dtype: Any = np.float64) -> np.ndarray:
        Q = np.linalg.qr(rng.standard_normal(self.shape))[0]
        return symmetric((Q * np.exp(0.5 * rng.standard_normal(self.n))) @ Q.T).astype(dtype)

    def random_tangent(self, x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return _congruent(_spectral(x).root, rng.standard_normal(x.shape)).astype(x.dtype)


class _InFrame(InFrame[np.ndarray], SymmetricPositiveDefinite):
    """The coordinates are C = X^-½ U X^-½."""

    def to_frame(self, x: np.ndarray, u: np.ndarray) -> np.ndarray:
        return _congruent(_spectral(x).inverse_root, u).astype(x.dtype, copy=False)

    def from_frame(self, x: np.ndarray, c: np.ndarray) -> np.ndarray:
        return _congruent(_spectral(x).root, c).astype(x.dtype, copy=False)

    def gradient(self, x: np.ndarray, egrad: np.ndarray) -> np.ndarray:
        return self.from_frame(x, egrad)

    def hessian(self, x: np.ndarray, egrad: np.ndarray, ehess: np.ndarray, u: np.ndarray) -> np.ndarray:
        root = _spectral(x).root
        return symmetric(_congruent(root, ehess) + _double(u) @ _congruent(root, egrad)).astype(x.dtype, copy=False)

    def retract(self, x: np.ndarray, u: np.ndarray, kind: str | None = None) -> np.ndarray:
        return _moved(x, _double(u), self._kind(kind))

    def random_tangent(self, x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return symmetric(rng.standard_normal(x.shape)).astype(x.dtype)


class _LogEuclidean(SymmetricPositiveDefinite):
    """The metric of matrix logarithms: the coordinates of U are C = D log(X)[U]."""

    retractions: ClassVar[tuple[str, ...]] = ("exp",)
    second_order: ClassVar[tuple[str, ...]] = ("exp",)

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

    def random_tangent(self, x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return _exponential_along(x, symmetric(rng.standard_normal(x.shape))).astype(x.dtype)


class _LogEuclideanInFrame(InFrame[np.ndarray], _LogEuclidean):
    def to_frame(self, x: np.ndarray, u: np.ndarray) -> np.ndarray:
        return _logarithm_along(x, u).astype(x.dtype, copy=False)

    def from_frame(self, x: np.ndarray, c: np.ndarray) -> np.ndarray:
        return _exponential_along(x, c).astype(x.dtype, copy=False)

    def project(self, x: np.ndarray, u: np.ndarray) -> np.ndarray:
        return symmetric(u)

    def gradient(self, x: np.ndarray, egrad: np.ndarray) -> np.ndarray:
        return self.from_frame(x, egrad)  # D exp is its own adjoint

    def hessian(self, x: np.ndarray, egrad: np.ndarray, ehess: np.ndarray, u: np.ndarray) -> np.ndarray:
        return _bent(x, egrad, ehess, u).astype(x.dtype, copy=False)

    def retract(self, x: np.ndarray, u: np.ndarray, kind: str | None = None) -> np.ndarray:
        self._kind(kind)
        return _at_logarithm(x, _limited(u, x.dtype))

    def random_tangent(self, x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return symmetric(rng.standard_normal(x.shape)).astype(x.dtype)


class _Eigen(NamedTuple):
    """Eigenvectors of X, log X, and the divided differences (log wᵢ − log wⱼ)/(wᵢ − wⱼ) of its eigenvalues."""

    V: np.ndarray
    log: np.ndarray
    slopes: np.ndarray


@remembered
def _eigen(x: np.ndarray) -> _Eigen:
    w, V = eigh(symmetric(_double(x)))
    w = np.maximum(w, np.finfo(np.float64).tiny)
    total = w[..., :, None] + w[..., None, :]
    # log wᵢ − log wⱼ = 2 artanh r with r = (wᵢ − wⱼ)/(wᵢ + wⱼ): accurate where eigenvalues are close
    r = (w[..., :, None] - w[..., None, :]) / total
    near = np.abs(r) < 0.5
    z = np.log(w)
    gap = np.where(near, 2 * np.arctanh(np.where(near, r, 0)), z[..., :, None] - z[..., None, :])
    slopes = np.divide(gap, r, out=np.full_like(r, 2.0), where=np.abs(r) > 1e-12) / total
    return _Eigen(V, symmetric((V * z[..., None, :]) @ V.mT), slopes)


def _logarithm_along(x: np.ndarray, u: np.ndarray) -> np.ndarray:
    """Return the derivative of the logarithm at X along U."""
    V, _, slopes = _eigen(x)
    return symmetric(V @ (slopes * (V.mT @ symmetric(_double(u)) @ V)) @ V.mT)


def _exponential_along(x: np.ndarray, c: np.ndarray) -> np.ndarray:
    """Return the derivative of the exponential at log X along C."""
    V, _, slopes = _eigen(x)
    return symmetric(V @ ((V.mT @ symmetric(_double(c)) @ V) / slopes) @ V.mT)


def _at_logarithm(x: np.ndarray, c: np.ndarray) -> np.ndarray:
    """Return exp(log X + C)."""
    w, V = eigh(_eigen(x).log + symmetric(_double(c)))
    return _square(V * np.exp(0.5 * w)[..., None, :]).astype(x.dtype, copy=False)


def _limited(c: np.ndarray, dtype: Any) -> np.ndarray:
    """Return C with eigenvalues of at most −½ log eps: no step multiplies by more."""
    w, V = eigh(symmetric(_double(c)))
    longest = -0.5 * np.log(np.finfo(dtype).eps)
    return symmetric((V * np.clip(w, -longest, longest)[..., None, :]) @ V.mT)


def _bent(x: np.ndarray, egrad: np.ndarray, ehess: np.ndarray, c: np.ndarray) -> np.ndarray:
    """Return the Hessian product of f(exp L) along C, at L = log X."""
    straight = _exponential_along(x, ehess)
    # and the second derivative of the exponential along C and the gradient: the corner of a block triangular matrix
    L, C, G = np.broadcast_arrays(_eigen(x).log, symmetric(_double(c)), symmetric(_double(egrad)))
    none = np.zeros_like(L)
    blocks = np.concatenate(
        [np.concatenate(row, axis=-1) for row in ([L, C, none], [none, L, G], [none, none, L])], axis=-2
    )
    n = L.shape[-1]
    corner = scipy.linalg.expm(blocks)[..., :n, 2 * n :]
    return straight + corner + corner.mT


def _double(x: np.ndarray) -> np.ndarray:
    return x.astype(np.float64, copy=False)


def _congruent(root: np.ndarray, u: np.ndarray) -> np.ndarray:
    """Return R U R with symmetric R and the symmetric part of U, in float64."""
    return symmetric(root @ symmetric(_double(u)) @ root)


def _moved(x: np.ndarray, c: np.ndarray, kind: str | None) -> np.ndarray:
    """Return X^½ exp(C) X^½, or its quadratic approximation, as a square so that it stays positive."""
    # φ(C) = exp(C), or 1 + w + w²/2 of its eigenvalues w
    w, V = eigh(c)
    factor = growth(w) if kind == "exp" else 1 + w + 0.5 * w**2
    half = (_spectral(x).root @ V) * np.sqrt(factor)[..., None, :]
    return _square(half).astype(x.dtype, copy=False)


def _square(half: np.ndarray) -> np.ndarray:
    return symmetric(half @ half.mT)


def _logarithms(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the eigenvalues and eigenvectors of log(X^-½ Y X^-½)."""
    inverse = _spectral(x).inverse_root
    # of X^-½ (Y − X) X^-½ = X^-½ Y X^-½ − I where that is small, so that nothing cancels
    w, V = eigh(_congruent(inverse, _double(y) - _double(x)))
    near = np.abs(w).max(axis=-1, keepdims=True) < 0.5
    if near.all():
        return np.log1p(w), V
    far, turned = eigh(_congruent(inverse, y))
    far = np.log(np.maximum(far, np.finfo(np.float64).tiny))
    return np.where(near, np.log1p(np.where(near, w, 0)), far), np.where(near[..., None], V, turned)


class _Spectral(NamedTuple):
    """The symmetric X^½ and X^-½, and the largest eigenvalue; NaN where a line search went out of range."""

    root: np.ndarray
    inverse_root: np.ndarray
    largest: np.ndarray


@remembered
def _spectral(x: np.ndarray) -> _Spectral:
    w, V = eigh(symmetric(_double(x)))
    scale = np.sqrt(np.maximum(w, np.finfo(np.float64).tiny))[..., None, :]
    Vt = V.swapaxes(-1, -2)
    return _Spectral((V * scale) @ Vt, (V / scale) @ Vt, w[..., -1])
