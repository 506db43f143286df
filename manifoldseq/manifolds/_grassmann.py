"""The Grassmann manifold: subspaces, kept as orthonormal bases."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ._base import _root, size
from ._geodesics import aligned, grassmann_geodesic, grassmann_logarithm, grassmann_transport
from ._stiefel import _OrthonormalColumns


@dataclass(frozen=True)
class Grassmann(_OrthonormalColumns):
    """Subspaces of dimension p of R^n; a point is an n×p matrix of orthonormal columns that span the subspace.

    Use it in place of :class:`Stiefel` when the objective depends on the subspace only, ``f(X Q) = f(X)`` for every
    orthogonal Q: steps do not rotate the basis, and minimizers are isolated. A function with different values at X and
    X Q is not a function on this manifold.

    Parameters
    ----------
    n, p : int
        Dimensions, with n ≥ p.

    Raises
    ------
    ValueError
        If n < p.

    Notes
    -----
    Tangent vectors are horizontal, ``XᵀU = 0``, with the embedded metric. The retractions ``"polar"`` (default),
    ``"qr"``, ``"cayley"`` and ``"exp"`` (the geodesic) are all of second order. If n > 2p, no n×n matrix is formed.
    Source: Edelman, Arias, Smith, "The geometry of algorithms with orthogonality constraints", 1998.

    Examples
    --------
    >>> import numpy as np, manifoldseq as ms
    >>> S = np.diag([4.0, 3.0, 2.0, 1.0])
    >>> f = ms.objective(lambda X: -float(np.sum(X * (S @ X))), lambda X: -2 * S @ X)
    >>> result = ms.minimize(ms.Problem(ms.manifolds.Grassmann(4, 2), f), seed=0)
    >>> round(result.fun, 6)
    -7.0
    """

    n: int
    p: int
    second_order: ClassVar[tuple[str, ...]] = _OrthonormalColumns.retractions
    quotient: ClassVar[bool] = True
    _example: ClassVar[tuple[Any, ...]] = (7, 3)

    def __post_init__(self) -> None:
        size("Grassmann", n=self.n, p=self.p)
        if self.n < self.p:
            raise ValueError(f"Grassmann(n={self.n}, p={self.p}): R^{self.n} has no subspace of dimension {self.p}")

    @property
    def shape(self) -> tuple[int, int]:
        return self.n, self.p

    @property
    def dim(self) -> int:
        return self.p * (self.n - self.p)

    def project(self, x: np.ndarray, u: np.ndarray) -> np.ndarray:
        # the horizontal part (I − XXᵀ)U, without an n×n matrix
        return u - x @ (x.swapaxes(-1, -2) @ u)

    def hessian(self, x: np.ndarray, egrad: np.ndarray, ehess: np.ndarray, u: np.ndarray) -> np.ndarray:
        # (I − XXᵀ)(D²f[U] − U XᵀG): the second term is the curvature of the manifold
        return self.project(x, ehess - u @ (x.swapaxes(-1, -2) @ egrad))

    def retract(self, x: np.ndarray, u: np.ndarray, kind: str | None = None) -> np.ndarray:
        return grassmann_geodesic(x, u) if kind == "exp" else super().retract(x, u, kind)

    @property
    def typical_distance(self) -> float:  # type: ignore[override]
        return math.sqrt(self.p)

    def log(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:  # type: ignore[override]
        return grassmann_logarithm(x, y).astype(x.dtype, copy=False)

    def dist(self, x: np.ndarray, y: np.ndarray) -> Any:  # type: ignore[override]
        angle = aligned(x, y).angle
        return _root(np.sum(angle**2, axis=-1))

    def parallel_transport(self, x: np.ndarray, y: np.ndarray, u: np.ndarray) -> np.ndarray:  # type: ignore[override]
        return grassmann_transport(x, y, u).astype(u.dtype, copy=False)

    def inverse_retraction(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        # X + U = Y (XᵀY)⁻¹ spans span Y; computed from Y − X, so that nothing cancels
        base, chord = x.astype(np.float64, copy=False), (y - x).astype(np.float64, copy=False)
        C = base.mT @ chord + np.eye(self.p)
        singular = ~(np.linalg.svd(C, compute_uv=False)[..., -1:, None] > 1e-15)
        normal = chord - base @ (base.mT @ chord)
        u = (np.linalg.solve(np.where(singular, np.eye(self.p), C).mT, normal.mT)).mT
        return np.where(singular, np.nan, u).astype(x.dtype, copy=False)
