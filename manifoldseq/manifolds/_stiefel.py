"""Matrices with orthonormal columns: the Stiefel manifold and the orthogonal group."""

from __future__ import annotations

import functools
import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from ..linalg import cayley_curve, cayley_retraction, orthonormality, polar, qr_retraction, symmetric
from ._base import InFrame, Manifold, alike, known_component, size
from ._geodesics import (
    carried_along,
    great_circle,
    inverse_cayley,
    inverse_polar,
    rotation_logarithm,
    skew_exponential,
    stiefel_geodesic,
)
from ._stiefel_logarithm import stiefel_logarithm

_RETRACTIONS: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "polar": lambda x, u: polar(x + u),
    "qr": lambda x, u: qr_retraction(x + u),
    "cayley": cayley_retraction,
    "exp": stiefel_geodesic,
}


def _logarithm(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return (x @ rotation_logarithm(x, y)).astype(x.dtype, copy=False)


def _carried(x: np.ndarray, y: np.ndarray, u: np.ndarray) -> np.ndarray:
    # X Γ goes to Y exp(−Ω/2) Γ exp(Ω/2) with Y = X exp(Ω): the metric is the same from the left and from the right
    half = skew_exponential(0.5 * rotation_logarithm(x, y))
    return (y @ half.mT @ x.mT @ u @ half).astype(u.dtype, copy=False)


def _circle(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    arc = great_circle(x, y, (-2,))
    return (arc.angle * arc.direction).astype(x.dtype, copy=False)


def _carried_along_circle(x: np.ndarray, y: np.ndarray, u: np.ndarray) -> np.ndarray:
    return carried_along(great_circle(x, y, (-2,)), x, u, (-2,)).astype(u.dtype, copy=False)


class _OrthonormalColumns(Manifold[np.ndarray]):
    """n×p matrices with ``XᵀX = I``, with the embedded metric."""

    retractions: ClassVar[tuple[str, ...]] = tuple(_RETRACTIONS)
    second_order: ClassVar[tuple[str, ...]] = ("polar", "exp")
    one_base: ClassVar[bool] = True  # type: ignore[misc]

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]: ...

    @property
    def dim(self) -> int:
        n, p = self.shape
        return n * p - p * (p + 1) // 2

    def project(self, x: np.ndarray, u: np.ndarray) -> np.ndarray:
        # U − X sym(XᵀU): what is normal to the manifold at X is X times a symmetric p×p matrix
        return u - x @ symmetric(x.mT @ u)

    def hessian(self, x: np.ndarray, egrad: np.ndarray, ehess: np.ndarray, u: np.ndarray) -> np.ndarray:
        # the projection of D²f[U] − U sym(XᵀG); the second term is the curvature of the manifold (Absil, Mahony and
        # Trumpf 2013)
        return self.project(x, ehess - u @ symmetric(x.mT @ egrad))

    def retract(self, x: np.ndarray, u: np.ndarray, kind: str | None = None) -> np.ndarray:
        return _RETRACTIONS[self._kind(kind) or "polar"](x, u)

    @property
    def typical_distance(self) -> float:  # type: ignore[override]
        n, p = self.shape
        return math.pi * math.sqrt(p) if n == p else math.sqrt(p)

    @property
    def log(self) -> Callable[..., Any] | None:  # type: ignore[override]
        """Along a rotation on square matrices, a great circle on one column, else an iteration with a radius."""
        n, p = self.shape
        if n == p:
            return _logarithm
        return _circle if p == 1 else functools.partial(stiefel_logarithm, metric="embedded")

    def dist(self, x: np.ndarray, y: np.ndarray) -> Any:
        length = self._length_of_log(x, y)
        if self.components == 1:
            return length
        # no geodesic leads to the other determinant
        apart = np.isnan(length) & np.isfinite(x).all(axis=(-2, -1)) & np.isfinite(y).all(axis=(-2, -1))
        return np.where(apart, np.inf, length)[()]

    @property
    def parallel_transport(self) -> Callable[..., Any] | None:  # type: ignore[override]
        """The parallel transport, or None for n > p > 1, because it has no closed form."""
        n, p = self.shape
        return _carried if n == p else _carried_along_circle if p == 1 else None

    def inverse_retraction(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return inverse_polar(x, y)

    def nearest(self, x: np.ndarray) -> np.ndarray:
        return polar(x)

    def scale(self, x: np.ndarray) -> Any:
        return alike(x, 2, x.shape[-1] ** 0.5)

    def feasibility(self, x: np.ndarray) -> Any:
        violation = orthonormality(x)
        return float(violation) if violation.ndim == 0 else violation

    def random_point(self, rng: np.random.Generator, dtype: Any = np.float64) -> np.ndarray:
        return qr_retraction(rng.standard_normal(self.shape)).astype(dtype)

    def to_component(self, x: np.ndarray, i: int) -> np.ndarray:
        known_component(self, i)
        if self.components == 1:
            return x
        # a change of sign of the last column is a reflection: it leads to the other determinant
        wrong = (np.linalg.det(x) > 0) == (i == 1)
        y = x.copy()
        y[..., -1] *= np.where(wrong, -1, 1).astype(x.dtype)[..., None]
        return y

    def descent_curve(self, x: np.ndarray, egrad: np.ndarray) -> Callable[[Any], np.ndarray]:
        return cayley_curve(x, egrad)


@dataclass(frozen=True)
class Stiefel(_OrthonormalColumns):
    """n×p matrices with orthonormal columns.

    Parameters
    ----------
    n, p : int
        Numbers of rows and columns, n ≥ p. For n = p this is the orthogonal group with its two components, see
        :class:`Orthogonal`.
    metric : {"embedded", "canonical"}
        The canonical metric is ``<U, V> = tr Uᵀ(I − ½ XXᵀ)V``: rotations within the span of the columns have half the
        squared length that they have in the embedded metric.

    Raises
    ------
    ValueError
        If n < p, or if the metric is unknown.

    Notes
    -----
    The retractions are ``"polar"`` (default), ``"qr"``, ``"cayley"`` and ``"exp"``, the geodesic of the metric. With
    the canonical metric, ``"cayley"`` is the default and is of second order. ``descent_curve`` is equation (17) of the
    LDS paper, which descends along the canonical gradient.

    For 1 < p < n ``log`` is an iteration. It computes the shortest geodesic if its length is below π (embedded) or
    √(4/5) π (canonical), where it is unique. Beyond this length ``log`` and ``dist`` are NaN. If p is large, most
    random points are farther apart than this length. ``log`` and ``dist`` are also NaN if the iteration does not
    converge. In a test, this happened for 4 of 1,440 pairs at 0.99 of this length, and for none of 10,080 pairs at
    smaller distances. Sources: Edelman, Arias, Smith, "The geometry of algorithms with orthogonality constraints",
    1998; Zimmermann, Hüper, "Computing the Riemannian logarithm on the Stiefel manifold: metrics, methods, and
    performance", 2022.

    Examples
    --------
    >>> import numpy as np, manifoldseq as ms
    >>> M = ms.manifolds.Stiefel(5, 2)
    >>> X = M.random_point(np.random.default_rng(0))
    >>> M.dim, bool(M.feasibility(X) < 1e-14)
    (7, True)

    The matrix `apart` rotates each column by one radian in a separate plane, and `turned` rotates both columns by one
    radian in their common plane:

    >>> c, s = np.cos(1.0), np.sin(1.0)
    >>> X, apart = np.eye(5)[:, :2], np.array([[c, 0], [0, c], [s, 0], [0, s], [0, 0]])
    >>> turned = X @ np.array([[c, -s], [s, c]])
    >>> canonical = ms.manifolds.Stiefel(5, 2, metric="canonical")
    >>> [[round(M.dist(X, Y) ** 2, 6) for Y in (apart, turned)] for M in (M, canonical)]
    [[2.0, 2.0], [2.0, 1.0]]
    """

    n: int
    p: int
    metric: str = field(default="embedded", repr=False)
    _example: ClassVar[tuple[Any, ...]] = (7, 3)

    def __post_init__(self) -> None:
        size("Stiefel", n=self.n, p=self.p)
        if self.n < self.p:
            raise ValueError(
                f"Stiefel(n={self.n}, p={self.p}): {self.p} columns need at least {self.p} rows; swap n and p"
            )
        if self.metric not in ("embedded", "canonical"):
            raise ValueError(f"Stiefel(metric={self.metric!r}): choose 'embedded' or 'canonical'")
        if type(self) is Stiefel and self.metric == "canonical":
            object.__setattr__(self, "__class__", _Canonical)
        if isinstance(self, InFrame):  # whose inner product is the dot product
            object.__setattr__(self, "metric", "embedded")

    @property
    def shape(self) -> tuple[int, int]:
        return self.n, self.p

    @property
    def components(self) -> int:  # type: ignore[override]
        return 2 if self.n == self.p else 1


class _Canonical(Stiefel):
    """The canonical metric: the coordinates of U = X A + W are C = X A/√2 + W, where XᵀW = 0."""

    retractions: ClassVar[tuple[str, ...]] = ("cayley", "polar", "qr", "exp")
    second_order: ClassVar[tuple[str, ...]] = ("cayley", "exp")
    open: ClassVar[bool] = False  # type: ignore[misc]
    _example: ClassVar[tuple[Any, ...]] = (7, 3, "canonical")

    def __repr__(self) -> str:
        return f"Stiefel(n={self.n}, p={self.p}, metric='canonical')"

    @property
    def frame(self) -> Manifold[np.ndarray] | None:
        return _CanonicalInFrame(self.n, self.p)

    @property
    def typical_distance(self) -> float:  # type: ignore[override]
        return super().typical_distance / (math.sqrt(2) if self.n == self.p else 1)

    @property
    def log(self) -> Callable[..., Any] | None:  # type: ignore[override]
        # on square matrices the metric is half of the embedded one, on one column it is the same
        return functools.partial(stiefel_logarithm, metric="canonical") if self.n > self.p > 1 else super().log

    def inverse_retraction(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return inverse_cayley(x, y)

    def inner(self, x: np.ndarray, u: np.ndarray, v: np.ndarray) -> Any:
        A = x.mT @ u
        B = A if v is u else x.mT @ v
        return Manifold.inner(self, x, u, v) - 0.5 * Manifold.inner(self, x, A, B)

    def gradient(self, x: np.ndarray, egrad: np.ndarray) -> np.ndarray:
        return egrad - x @ (egrad.mT @ x)

    def euclidean_gradient(self, x: np.ndarray, u: np.ndarray) -> np.ndarray:
        return _stretched(x, u, -0.5)

    def hessian(self, x: np.ndarray, egrad: np.ndarray, ehess: np.ndarray, u: np.ndarray) -> np.ndarray:
        return self.gradient(x, _bent(x, egrad, ehess, u))

    def retract(self, x: np.ndarray, u: np.ndarray, kind: str | None = None) -> np.ndarray:
        kind = self._kind(kind)
        return stiefel_geodesic(x, u, "canonical") if kind == "exp" else super().retract(x, u, kind)

    def transport(self, x: np.ndarray, y: np.ndarray, u: np.ndarray) -> np.ndarray:
        return _stretched(y, self.project(y, _stretched(x, u, _INTO)), _OUT)

    def scale(self, x: np.ndarray) -> Any:
        return Manifold.inner(self, x, x, x) ** 0.5


class _CanonicalInFrame(InFrame[np.ndarray], _Canonical):
    open: ClassVar[bool] = False  # type: ignore[misc]

    def to_frame(self, x: np.ndarray, u: np.ndarray) -> np.ndarray:
        return _stretched(x, u, _INTO)

    def from_frame(self, x: np.ndarray, c: np.ndarray) -> np.ndarray:
        return _stretched(x, c, _OUT)

    def gradient(self, x: np.ndarray, egrad: np.ndarray) -> np.ndarray:
        return _stretched(x, self.project(x, egrad), _OUT)

    def hessian(self, x: np.ndarray, egrad: np.ndarray, ehess: np.ndarray, u: np.ndarray) -> np.ndarray:
        return self.gradient(x, _bent(x, egrad, ehess, _stretched(x, u, _OUT)))

    def retract(self, x: np.ndarray, u: np.ndarray, kind: str | None = None) -> np.ndarray:
        return _Canonical.retract(self, x, _stretched(x, u, _OUT), kind)

    def scale(self, x: np.ndarray) -> Any:
        return _Canonical.scale(self, x)


_INTO, _OUT = math.sqrt(0.5) - 1, math.sqrt(2) - 1


def _stretched(x: np.ndarray, u: np.ndarray, by: float) -> np.ndarray:
    """Return U + by·X XᵀU: the part of U in span X stretched by 1 + by."""
    return u + x.dtype.type(by) * (x @ (x.mT @ u))


def _bent(x: np.ndarray, egrad: np.ndarray, ehess: np.ndarray, u: np.ndarray) -> np.ndarray:
    """Return the Euclidean gradient of V ↦ <Hess U, V>: with Π = I − XXᵀ and sym the symmetric part

    D²f[U] + ½ (X UᵀG + G UᵀX) − Π U sym(XᵀG) (Edelman, Arias, Smith 1998, section 2.4.5).
    """
    slope = symmetric(x.mT @ egrad)
    side = u - x @ (x.mT @ u)
    return ehess + 0.5 * (x @ (u.mT @ egrad) + egrad @ (u.mT @ x)) - side @ slope


@dataclass(frozen=True)
class Orthogonal(_OrthonormalColumns):
    """Orthogonal n×n matrices, of either determinant.

    Parameters
    ----------
    n : int

    Notes
    -----
    The group has two connected components: component 0 has determinant +1, component 1 has −1. No continuous path
    connects them. ``minimize`` searches both components if it has no start, or if it is called as ``minimize(…, x0,
    components="all")``.

    Examples
    --------
    >>> import numpy as np, manifoldseq as ms
    >>> M = ms.manifolds.Orthogonal(3)
    >>> float(np.linalg.det(M.to_component(np.eye(3), 1)))
    -1.0
    """

    n: int
    components: ClassVar[int] = 2  # type: ignore[misc]
    second_order: ClassVar[tuple[str, ...]] = ("polar", "cayley", "exp")
    _example: ClassVar[tuple[Any, ...]] = (4,)

    def __post_init__(self) -> None:
        size("Orthogonal", n=self.n)

    @property
    def shape(self) -> tuple[int, int]:
        return self.n, self.n
