"""Matrices with orthonormal columns: the Stiefel manifold and the orthogonal group."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..linalg._cayley import cayley_curve, cayley_retraction
from ..linalg._polar import orthonormality, polar, qr_retraction, symmetric
from ._base import Manifold, known_component, size
from ._geodesics import (
    carried_along,
    great_circle,
    inverse_polar,
    rotation_logarithm,
    skew_exponential,
    stiefel_geodesic,
)

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
        """On square matrices from the logarithm of a rotation, on one column along a great circle; else None."""
        n, p = self.shape
        return _logarithm if n == p else _circle if p == 1 else None

    @property
    def dist(self) -> Callable[..., Any] | None:  # type: ignore[override]
        return None if self.log is None else self._distance

    def _distance(self, x: np.ndarray, y: np.ndarray) -> Any:
        length = self._length_of_log(x, y)
        if self.components == 1:
            return length
        # no geodesic leads to the other determinant
        apart = np.isnan(length) & np.isfinite(x).all(axis=(-2, -1)) & np.isfinite(y).all(axis=(-2, -1))
        return np.where(apart, np.inf, length)[()]

    @property
    def parallel_transport(self) -> Callable[..., Any] | None:  # type: ignore[override]
        """As ``log``: None where n > p > 1."""
        n, p = self.shape
        return _carried if n == p else _carried_along_circle if p == 1 else None

    def inverse_retraction(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return inverse_polar(x, y)

    def nearest(self, x: np.ndarray) -> np.ndarray:
        return polar(x)

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
        With n ≥ p. For n = p this is the orthogonal group, which has two components.

    Raises
    ------
    ValueError
        If n < p.

    Notes
    -----
    Retractions ``"polar"`` (default), ``"qr"``, ``"cayley"`` and ``"exp"``, the
    geodesic of the embedded metric. ``descent_curve`` is equation (17) of the LDS paper.

    Examples
    --------
    >>> import numpy as np, manifoldseq as ms
    >>> M = ms.manifolds.Stiefel(5, 2)
    >>> X = M.random_point(np.random.default_rng(0))
    >>> M.dim, bool(M.feasibility(X) < 1e-14)
    (7, True)
    """

    n: int
    p: int

    def __post_init__(self) -> None:
        size("Stiefel", n=self.n, p=self.p)
        if self.n < self.p:
            raise ValueError(
                f"Stiefel(n={self.n}, p={self.p}): {self.p} columns need at least {self.p} rows; swap n and p"
            )

    @property
    def shape(self) -> tuple[int, int]:
        return self.n, self.p

    @property
    def components(self) -> int:  # type: ignore[override]
        return 2 if self.n == self.p else 1


@dataclass(frozen=True)
class Orthogonal(_OrthonormalColumns):
    """Orthogonal n×n matrices, of either determinant.

    Parameters
    ----------
    n : int

    Notes
    -----
    Two connected components: number 0 has determinant +1, number 1 has −1. No continuous path leads from one to the
    other; ``minimize(…, components="all")`` searches both.

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

    def __post_init__(self) -> None:
        size("Orthogonal", n=self.n)

    @property
    def shape(self) -> tuple[int, int]:
        return self.n, self.n
