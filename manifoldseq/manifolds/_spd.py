"""Symmetric positive definite matrices."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ..linalg import eigh, smallest_eigenvalue, symmetric
from ._base import InFrame, Manifold, _root, logarithmic_longest, size
from ._geodesics import growth
from ._memory import remembered

_OTHERS: dict[str, type[SymmetricPositiveDefinite]] = {}
"""Subclasses with metrics of their own, each in its file."""


@dataclass(frozen=True)
class SymmetricPositiveDefinite(Manifold[np.ndarray]):
    """Symmetric positive definite n×n matrices: covariances, kernels, metrics.

    Parameters
    ----------
    n : int
    metric : {"affine-invariant", "log-euclidean", "bures-wasserstein"}
        The second measures in matrix logarithms: its geometry is flat, ``dist`` is ``‖log X − log Y‖``, and means are
        closed forms. It is the same in any unit and any orthonormal basis. The third is optimal transport between
        normal distributions of mean zero, ``dist² = tr X + tr Y − 2 tr (X^½ Y X^½)^½``; it has no singularity at the
        boundary, which is at a finite distance.

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

    Bures–Wasserstein: with the solution L of ``XL + LX = U`` the metric is ``½ tr(LV)`` and ``exp(X, U) = (I + L) X
    (I + L)``. Geodesics leave the set where I + L loses its last positive eigenvalue: from there on ``exp`` is NaN,
    between two points never. The retraction ``"exp"`` goes on inside, by factors that stay positive. There is no closed
    form of parallel transport. Sources: Malagò, Montrucchio, Pistone, "Wasserstein Riemannian geometry of Gaussian
    densities", 2018; Han, Mishra, Jawanpuria, Gao, "On Riemannian optimization over positive definite matrices with the
    Bures-Wasserstein geometry", 2021.

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
    _example: ClassVar[tuple[Any, ...]] = (3,)

    def __init_subclass__(cls, metric: str | None = None) -> None:
        super().__init_subclass__()
        if metric is not None:
            _OTHERS[metric] = cls

    def __post_init__(self) -> None:
        size("SymmetricPositiveDefinite", n=self.n)
        if self.metric not in (known := ("affine-invariant", *_OTHERS)):
            raise ValueError(
                f"SymmetricPositiveDefinite(metric={self.metric!r}): choose {', '.join(map(repr, known[:-1]))} or "
                f"{known[-1]!r}"
            )
        if type(self) is SymmetricPositiveDefinite and self.metric in _OTHERS:
            object.__setattr__(self, "__class__", _OTHERS[self.metric])
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
        inverse = spectral(x).inverse_root
        left = _congruent(inverse, u)
        return super().inner(x, left, left if v is u else _congruent(inverse, v))

    def gradient(self, x: np.ndarray, egrad: np.ndarray) -> np.ndarray:
        return _congruent(double(x), egrad).astype(x.dtype, copy=False)

    def hessian(self, x: np.ndarray, egrad: np.ndarray, ehess: np.ndarray, u: np.ndarray) -> np.ndarray:
        # X sym(D²f[U]) X + sym(U sym(G) X), the second term from the connection of the metric
        base, slope = double(x), symmetric(double(egrad))
        curved = base @ symmetric(double(ehess)) @ base
        return symmetric(curved + double(u) @ slope @ base).astype(x.dtype, copy=False)

    def retract(self, x: np.ndarray, u: np.ndarray, kind: str | None = None) -> np.ndarray:
        return _moved(x, _congruent(spectral(x).inverse_root, u), self._kind(kind))

    def transport(self, x: np.ndarray, y: np.ndarray, u: np.ndarray) -> np.ndarray:
        map_ = spectral(y).root @ spectral(x).inverse_root
        return symmetric(map_ @ double(u) @ map_.swapaxes(-1, -2)).astype(x.dtype, copy=False)

    @property
    def typical_distance(self) -> float:  # type: ignore[override]
        return math.sqrt(self.dim)

    def exp(self, x: np.ndarray, u: np.ndarray) -> np.ndarray:
        # as far as numbers reach, unlike the retraction
        w, V = eigh(_congruent(spectral(x).inverse_root, u))
        return square(spectral(x).root @ (V * np.exp(0.5 * w)[..., None, :])).astype(x.dtype, copy=False)

    def log(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        w, V = _logarithms(x, y)
        half = spectral(x).root @ V
        return symmetric((half * w[..., None, :]) @ half.mT).astype(x.dtype, copy=False)

    def dist(self, x: np.ndarray, y: np.ndarray) -> Any:
        w, _ = _logarithms(x, y)
        return _root(np.sum(w * w, axis=-1))

    def parallel_transport(self, x: np.ndarray, y: np.ndarray, u: np.ndarray) -> np.ndarray:
        # E U Eᵀ with E = (Y X⁻¹)^½ = X^½ (X^-½ Y X^-½)^½ X^-½
        w, V = _logarithms(x, y)
        along = (spectral(x).root @ (V * np.exp(0.5 * w)[..., None, :])) @ (V.mT @ spectral(x).inverse_root)
        return symmetric(along @ symmetric(double(u)) @ along.mT).astype(u.dtype, copy=False)

    def nearest(self, x: np.ndarray) -> np.ndarray:
        base = symmetric(double(x))
        w, V = eigh(base)
        # eigenvalues below the rounding of the largest are raised to it, if one is not positive
        floor = 4 * self.n * np.finfo(x.dtype).eps * np.abs(w).max(axis=-1, keepdims=True)
        raised = (V * np.maximum(w, np.maximum(floor, np.finfo(x.dtype).tiny))[..., None, :]) @ V.swapaxes(-1, -2)
        return np.where(w[..., :1, None] > 0, base, symmetric(raised)).astype(x.dtype, copy=False)

    def feasibility(self, x: np.ndarray) -> Any:
        base = double(x)
        low = smallest_eigenvalue(symmetric(base))
        violation = np.maximum(np.abs(base - base.swapaxes(-1, -2)).max(axis=(-2, -1)), np.where(low > 0, 0, 1 - low))
        return float(violation) if violation.ndim == 0 else violation

    def pushed_inward(self, x: np.ndarray, egrad: np.ndarray) -> Any:
        # moving along v v' of the least eigenvalue of the gradient by the largest one of X changes f by their product
        low = smallest_eigenvalue(symmetric(double(egrad)))
        gain = np.maximum(-low, 0) * self._largest(x)
        return float(gain) if gain.ndim == 0 else gain

    def _largest(self, x: np.ndarray) -> np.ndarray:
        """Return the largest eigenvalue, from what the metric decomposes X into."""
        return spectral(x).largest

    def longest(self, x: np.ndarray, u: np.ndarray) -> Any:
        return logarithmic_longest(self, x, u)

    def random_point(self, rng: np.random.Generator, dtype: Any = np.float64) -> np.ndarray:
        Q = np.linalg.qr(rng.standard_normal(self.shape))[0]
        return symmetric((Q * np.exp(0.5 * rng.standard_normal(self.n))) @ Q.T).astype(dtype)

    def random_tangent(self, x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return _congruent(spectral(x).root, rng.standard_normal(x.shape)).astype(x.dtype)


class SymmetricInFrame(InFrame[np.ndarray]):
    """Coordinates that are symmetric matrices, linear in U by a map that is its own adjoint: inherit it first."""

    def gradient(self, x: np.ndarray, egrad: np.ndarray) -> np.ndarray:
        return self.from_frame(x, egrad)

    def random_tangent(self, x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return symmetric(rng.standard_normal(x.shape)).astype(x.dtype)


class _InFrame(SymmetricInFrame, SymmetricPositiveDefinite):
    """The coordinates are C = X^-½ U X^-½."""

    def to_frame(self, x: np.ndarray, u: np.ndarray) -> np.ndarray:
        return _congruent(spectral(x).inverse_root, u).astype(x.dtype, copy=False)

    def from_frame(self, x: np.ndarray, c: np.ndarray) -> np.ndarray:
        return _congruent(spectral(x).root, c).astype(x.dtype, copy=False)

    def hessian(self, x: np.ndarray, egrad: np.ndarray, ehess: np.ndarray, u: np.ndarray) -> np.ndarray:
        root = spectral(x).root
        return symmetric(_congruent(root, ehess) + double(u) @ _congruent(root, egrad)).astype(x.dtype, copy=False)

    def retract(self, x: np.ndarray, u: np.ndarray, kind: str | None = None) -> np.ndarray:
        return _moved(x, double(u), self._kind(kind))


def double(x: np.ndarray) -> np.ndarray:
    return x.astype(np.float64, copy=False)


def _congruent(root: np.ndarray, u: np.ndarray) -> np.ndarray:
    """Return R U R with symmetric R and the symmetric part of U, in float64."""
    return symmetric(root @ symmetric(double(u)) @ root)


def _moved(x: np.ndarray, c: np.ndarray, kind: str | None) -> np.ndarray:
    """Return X^½ exp(C) X^½, or its quadratic approximation, as a square so that it stays positive."""
    # φ(C) = exp(C), or 1 + w + w²/2 of its eigenvalues w
    w, V = eigh(c)
    factor = growth(w) if kind == "exp" else 1 + w + 0.5 * w**2
    half = (spectral(x).root @ V) * np.sqrt(factor)[..., None, :]
    return square(half).astype(x.dtype, copy=False)


def square(half: np.ndarray) -> np.ndarray:
    return symmetric(half @ half.mT)


def _logarithms(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the eigenvalues and eigenvectors of log(X^-½ Y X^-½)."""
    inverse = spectral(x).inverse_root
    # of X^-½ (Y − X) X^-½ = X^-½ Y X^-½ − I where that is small, so that nothing cancels
    w, V = eigh(_congruent(inverse, double(y) - double(x)))
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
def spectral(x: np.ndarray) -> _Spectral:
    w, V = eigh(symmetric(double(x)))
    scale = np.sqrt(np.maximum(w, np.finfo(np.float64).tiny))[..., None, :]
    Vt = V.swapaxes(-1, -2)
    return _Spectral((V * scale) @ Vt, (V / scale) @ Vt, w[..., -1])
