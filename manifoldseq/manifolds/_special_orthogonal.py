"""Rotations: orthogonal matrices of determinant one."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..linalg import orthonormality, qr_retraction
from ._base import size
from ._stiefel import Orthogonal, _OrthonormalColumns


@functools.cache
def _skew_units(n: int) -> np.ndarray:
    """Return an orthonormal basis (d, n, n) of skew-symmetric matrices, for n = 3 in the order of rotation vectors."""
    i, j = (np.array([1, 2, 0]), np.array([2, 0, 1])) if n == 3 else np.triu_indices(n, 1)
    units, k = np.zeros((len(i), n, n)), np.arange(len(i))
    units[k, i, j], units[k, j, i] = -(0.5**0.5), 0.5**0.5
    return units


@dataclass(frozen=True)
class SpecialOrthogonal(_OrthonormalColumns):
    """Rotations: orthogonal n×n matrices of determinant +1.

    If reflections are allowed, use :class:`Orthogonal`: no path on this manifold leads to a reflection.

    Parameters
    ----------
    n : int

    Notes
    -----
    Tangent vectors are ambient, ``U = XΩ`` with skew-symmetric Ω; the metric is the embedded one. Retractions
    ``"polar"`` (default), ``"cayley"`` and ``"exp"`` are of second order, and ``"qr"`` is of first order. ``nearest``
    is the rotation of the Kabsch algorithm. ``feasibility`` is at least one at a reflection.

    Examples
    --------
    >>> import numpy as np, manifoldseq as ms
    >>> ms.manifolds.SpecialOrthogonal(2).nearest(np.diag([2.0, -1.0])).round(12).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """

    n: int
    second_order: ClassVar[tuple[str, ...]] = Orthogonal.second_order
    _example: ClassVar[tuple[Any, ...]] = (4,)

    def __post_init__(self) -> None:
        size("SpecialOrthogonal", n=self.n)

    @property
    def shape(self) -> tuple[int, int]:
        return self.n, self.n

    def basis(self, x: np.ndarray) -> np.ndarray:
        """Return ``X Eₖ / √2`` with skew-symmetric units Eₖ, for n = 3 the cross products with unit vectors."""
        B = np.einsum("...ab,dbc->...acd", x.astype(float, copy=False), _skew_units(self.n))
        return B.reshape(*x.shape[:-2], self.n * self.n, -1)

    def nearest(self, x: np.ndarray) -> np.ndarray:
        # W diag(1, …, 1, det(W Vᵀ)) Vᵀ: of all rotations the nearest, at the cost of the least singular value (Kabsch)
        left, _, right = np.linalg.svd(x.astype(np.float64, copy=False))
        left[..., -1] *= np.sign(np.linalg.det(left @ right))[..., None]
        return (left @ right).astype(x.dtype, copy=False)

    def feasibility(self, x: np.ndarray) -> Any:
        det = np.linalg.det(x.astype(np.float64, copy=False))
        violation = np.maximum(orthonormality(x), np.where(det < 0, 1 - det, 0))
        return float(violation) if violation.ndim == 0 else violation

    def random_point(self, rng: np.random.Generator, dtype: Any = np.float64) -> np.ndarray:
        # Q of a normal matrix is uniform over all orthogonal matrices if R has a positive diagonal
        x = qr_retraction(rng.standard_normal(self.shape))
        x[:, -1] *= np.sign(np.linalg.det(x))
        return x.astype(dtype)
