"""Symmetric positive definite matrices."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
import scipy.linalg

from ..linalg import EPS, eigh, smallest_eigenvalue, symmetric
from ._base import InFrame, Manifold, _root, logarithmic_longest, size
from ._geodesics import growth
from ._memory import remembered

_OTHERS: dict[str, type[SymmetricPositiveDefinite]] = {}
"""The subclasses with other metrics, each in its own file."""


@dataclass(frozen=True)
class SymmetricPositiveDefinite(Manifold[np.ndarray]):
    """Symmetric positive definite n×n matrices: covariances, kernels, metrics.

    Parameters
    ----------
    n : int
    metric : {"affine-invariant", "log-euclidean", "bures-wasserstein"}
        The log-Euclidean metric measures matrix logarithms: its geometry is flat, ``dist`` is ``‖log X − log Y‖``, and
        means have a closed form. It does not change if the unit or the orthonormal basis changes. The Bures–Wasserstein
        metric is the distance of optimal transport between normal distributions of mean zero, ``dist² = tr X + tr Y − 2
        tr (X^½ Y X^½)^½``; it has no singularity at the boundary, which is at a finite distance.

    Raises
    ------
    ValueError
        If the metric is unknown.

    Notes
    -----
    The affine-invariant metric is ``<U, V> = tr(X⁻¹ U X⁻¹ V)``: it does not depend on the basis, and no step leaves the
    set. Two retractions are of second order: ``"exp"`` (default; the geodesic, on which no eigenvalue grows by more
    than a factor of 1/√eps in a step) and ``"quadratic"``, ``X + U + ½ U X⁻¹ U``. With the Cholesky factors of X = LLᵀ
    and Y = MMᵀ the transport ``ML⁻¹ U L⁻ᵀMᵀ`` keeps inner products. All computations use float64. The set is open:
    ``feasibility`` is one or more if an eigenvalue is not positive, and ``nearest`` raises such eigenvalues to the size
    of rounding. Source: Bhatia, "Positive definite matrices", 2007, chapter 6.

    Log-Euclidean: the retraction is ``exp(log X + D log(X)[U])``. Source: Arsigny, Fillard, Pennec, Ayache, "Geometric
    means in a novel vector space structure on symmetric positive-definite matrices", 2007.

    Bures–Wasserstein: with the solution L of ``XL + LX = U`` the metric is ``½ tr(LV)`` and ``exp(X, U) = (I + L) X (I
    + L)``. Geodesics leave the set where an eigenvalue of I + L becomes zero, and ``exp`` is NaN beyond this point. The
    geodesic between two points of the set never leaves it. The retraction ``"exp"`` stays inside the set by positive
    factors. Parallel transport has no closed form. Sources: Malagò, Montrucchio, Pistone, "Wasserstein Riemannian
    geometry of Gaussian densities", 2018; Han, Mishra, Jawanpuria, Gao, "On Riemannian optimization over positive
    definite matrices with the Bures-Wasserstein geometry", 2021.

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
        """The manifold with symmetric coordinates C, U = L C Lᵀ, for the Cholesky factor L of X."""
        return _InFrame(self.n)

    def project(self, x: np.ndarray, u: np.ndarray) -> np.ndarray:
        return symmetric(u)

    def inner(self, x: np.ndarray, u: np.ndarray, v: np.ndarray) -> Any:
        # tr(X⁻¹UX⁻¹V) is the dot product of L⁻¹ U L⁻ᵀ and L⁻¹ V L⁻ᵀ
        inverse = cholesky(x).inverse
        left = congruent(inverse, u)
        return super().inner(x, left, left if v is u else congruent(inverse, v))

    def gradient(self, x: np.ndarray, egrad: np.ndarray) -> np.ndarray:
        return congruent(double(x), egrad).astype(x.dtype, copy=False)

    def euclidean_gradient(self, x: np.ndarray, u: np.ndarray) -> np.ndarray:
        inverse = cholesky(x).inverse
        return congruent(inverse.mT, congruent(inverse, u)).astype(x.dtype, copy=False)

    def hessian(self, x: np.ndarray, egrad: np.ndarray, ehess: np.ndarray, u: np.ndarray) -> np.ndarray:
        # X sym(D²f[U]) X + sym(U sym(G) X), the second term from the connection of the metric
        base, slope = double(x), symmetric(double(egrad))
        curved = base @ symmetric(double(ehess)) @ base
        return symmetric(curved + double(u) @ slope @ base).astype(x.dtype, copy=False)

    def retract(self, x: np.ndarray, u: np.ndarray, kind: str | None = None) -> np.ndarray:
        return _moved(x, congruent(cholesky(x).inverse, u), self._kind(kind))

    def transport(self, x: np.ndarray, y: np.ndarray, u: np.ndarray) -> np.ndarray:
        return congruent(cholesky(y).factor @ cholesky(x).inverse, u).astype(x.dtype, copy=False)

    @property
    def typical_distance(self) -> float:  # type: ignore[override]
        return math.sqrt(self.dim)

    def exp(self, x: np.ndarray, u: np.ndarray) -> np.ndarray:
        # as far as numbers reach, unlike the retraction
        w, V = eigh(congruent(cholesky(x).inverse, u))
        return square(cholesky(x).factor @ (V * np.exp(0.5 * w)[..., None, :])).astype(x.dtype, copy=False)

    def log(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        w, V = _logarithms(x, y)
        half = cholesky(x).factor @ V
        return symmetric((half * w[..., None, :]) @ half.mT).astype(x.dtype, copy=False)

    def dist(self, x: np.ndarray, y: np.ndarray) -> Any:
        w, _ = _logarithms(x, y)
        return _root(np.sum(w * w, axis=-1))

    def parallel_transport(self, x: np.ndarray, y: np.ndarray, u: np.ndarray) -> np.ndarray:
        # E U Eᵀ with E = (Y X⁻¹)^½ = L (L⁻¹ Y L⁻ᵀ)^½ L⁻¹
        w, V = _logarithms(x, y)
        along = (cholesky(x).factor @ (V * np.exp(0.5 * w)[..., None, :])) @ (V.mT @ cholesky(x).inverse)
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
        """Return the largest eigenvalue."""
        return -smallest_eigenvalue(-symmetric(double(x)))

    def longest(self, x: np.ndarray, u: np.ndarray) -> Any:
        return logarithmic_longest(self, x, u)

    def random_point(self, rng: np.random.Generator, dtype: Any = np.float64) -> np.ndarray:
        Q = np.linalg.qr(rng.standard_normal(self.shape))[0]
        return symmetric((Q * np.exp(0.5 * rng.standard_normal(self.n))) @ Q.T).astype(dtype)

    def random_tangent(self, x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return congruent(cholesky(x).factor, rng.standard_normal(x.shape)).astype(x.dtype)


class SymmetricInFrame(InFrame[np.ndarray]):
    """Mixin for coordinates that are symmetric matrices and a self-adjoint linear map of U: inherit it first."""

    def gradient(self, x: np.ndarray, egrad: np.ndarray) -> np.ndarray:
        return self.from_frame(x, egrad)

    def random_tangent(self, x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return symmetric(rng.standard_normal(x.shape)).astype(x.dtype)


class _InFrame(SymmetricInFrame, SymmetricPositiveDefinite):
    """The coordinates are C = L⁻¹ U L⁻ᵀ."""

    def to_frame(self, x: np.ndarray, u: np.ndarray) -> np.ndarray:
        return congruent(cholesky(x).inverse, u).astype(x.dtype, copy=False)

    def from_frame(self, x: np.ndarray, c: np.ndarray) -> np.ndarray:
        return congruent(cholesky(x).factor, c).astype(x.dtype, copy=False)

    def gradient(self, x: np.ndarray, egrad: np.ndarray) -> np.ndarray:
        # L⁻¹ (X G X) L⁻ᵀ
        return congruent(cholesky(x).factor.mT, egrad).astype(x.dtype, copy=False)

    def hessian(self, x: np.ndarray, egrad: np.ndarray, ehess: np.ndarray, u: np.ndarray) -> np.ndarray:
        adjoint = cholesky(x).factor.mT
        return symmetric(congruent(adjoint, ehess) + double(u) @ congruent(adjoint, egrad)).astype(x.dtype, copy=False)

    def retract(self, x: np.ndarray, u: np.ndarray, kind: str | None = None) -> np.ndarray:
        return _moved(x, double(u), self._kind(kind))


def double(x: np.ndarray) -> np.ndarray:
    return x.astype(np.float64, copy=False)


def congruent(A: np.ndarray, u: np.ndarray) -> np.ndarray:
    """Return A U Aᵀ with the symmetric part of U, in float64."""
    return symmetric(A @ symmetric(double(u)) @ A.mT)


def _moved(x: np.ndarray, c: np.ndarray, kind: str | None) -> np.ndarray:
    """Return L exp(C) Lᵀ, or L (I + C + ½C²) Lᵀ, as a square or a sum of squares so that it stays positive."""
    L = cholesky(x).factor
    if kind == "quadratic":
        # I + C + ½C² = ½ (I + (I + C)²)
        half = L + L @ c
        return (0.5 * symmetric(L @ L.mT + half @ half.mT)).astype(x.dtype, copy=False)
    return square(L @ _root_of_exponential(c)).astype(x.dtype, copy=False)


_TAYLOR = ((3.4e-4, 4, 2), (9.1e-3, 6, 3), (8.9e-2, 9, 3), (0.3, 12, 3))
"""Norms up to which the Taylor polynomials of these degrees are the exponential to rounding (Al-Mohy, Higham 2011,
table 3.1), and the number of powers in a block. Beyond, an eigendecomposition is as fast."""


def _root_of_exponential(c: np.ndarray) -> np.ndarray:
    """Return R with exp(C) = RRᵀ: exp(½C) by matrix products for short steps, and otherwise by eigenvalues."""
    half = 0.5 * c
    flat = half.reshape(*half.shape[:-2], -1)
    norm = np.vecdot(flat, flat).max(initial=0.0) ** 0.5
    for bound, degree, block in _TAYLOR:
        if norm <= bound:
            return _taylor(half, degree, block)
    w, V = eigh(c)
    return V * np.sqrt(growth(w))[..., None, :]


def _taylor(a: np.ndarray, degree: int, block: int) -> np.ndarray:
    """Return Σ aᵏ/k! up to a degree, by Horner's rule over blocks of powers (Paterson and Stockmeyer)."""
    powers = [np.eye(a.shape[-1]), a]
    while len(powers) <= block:
        powers.append(a @ powers[-1])
    total = powers[block] * (1 / math.factorial(degree))
    for first in range(degree - block, -1, -block):
        for k in range(block):
            total = total + powers[k] * (1 / math.factorial(first + k))
        if first:
            total = powers[block] @ total
    return total


def square(half: np.ndarray) -> np.ndarray:
    return symmetric(half @ half.mT)


def _logarithms(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the eigenvalues and eigenvectors of log(L⁻¹ Y L⁻ᵀ)."""
    inverse = cholesky(x).inverse
    whitened = congruent(inverse, y)
    off = (whitened - np.eye(whitened.shape[-1])).reshape(*whitened.shape[:-2], -1)
    near = np.vecdot(off, off)[..., None] < 0.25
    if near.any():
        # of L⁻¹ (Y − X) L⁻ᵀ = L⁻¹ Y L⁻ᵀ − I where that is small, so that nothing cancels
        whitened = np.where(near[..., None], congruent(inverse, double(y) - double(x)), whitened)
    # one decomposition of each matrix, of the one or the other: means in SPD(100) are 1.4 times faster
    w, V = eigh(whitened)
    with np.errstate(invalid="ignore"):
        return np.where(near, np.log1p(np.where(near, w, 0)), np.log(np.maximum(w, np.finfo(np.float64).tiny))), V


(_INVERT,) = scipy.linalg.get_lapack_funcs(("trtri",), dtype=np.float64)


class _Cholesky(NamedTuple):
    """The lower triangular L with X = LLᵀ, and its inverse."""

    factor: np.ndarray
    inverse: np.ndarray


@remembered
def cholesky(x: np.ndarray) -> _Cholesky:
    base = symmetric(double(x))
    try:
        L = np.linalg.cholesky(base)
    except np.linalg.LinAlgError:
        # an eigenvalue is zero up to rounding, or a line search went out of range (NaN)
        w, V = eigh(base)
        least = np.maximum(EPS[np.dtype(np.float64)] ** 2 * w[..., -1:], np.finfo(np.float64).tiny)
        half = V * np.sqrt(np.maximum(w, least))[..., None, :]
        L = np.linalg.qr(half.mT)[1].mT
        diagonal = np.diagonal(L, axis1=-2, axis2=-1)
        L = L * np.where(diagonal < 0, -1.0, 1.0)[..., None, :]
        place = np.arange(L.shape[-1])
        L[..., place, place] = np.maximum(np.abs(diagonal), least**0.5)
    if L.ndim == 2:
        return _Cholesky(L, _INVERT(L, lower=1)[0])
    try:
        with np.errstate(all="ignore"):
            return _Cholesky(L, np.tril(np.linalg.inv(L)))
    except np.linalg.LinAlgError:  # that of the row exchanges: one matrix of the stack is singular to rounding
        rows = [_INVERT(row, lower=1)[0] for row in L.reshape(-1, *L.shape[-2:])]
        return _Cholesky(L, np.stack(rows).reshape(L.shape))
