"""The Martin kernel of linear dynamical systems, the Martin distance, and the Gaussian of the distance."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from numbers import Real
from typing import ClassVar

import numpy as np

from manifoldseq.estimators import quoted

from ._output_normal import Array, OutputNormalKernel, PackedSystems

_LARGEST = -float(np.log(np.finfo(float).tiny))


@dataclass(frozen=True)
class _Powers(OutputNormalKernel):
    """Powers of the product of the squared cosines, computed from logarithms of determinants."""

    self_value: ClassVar[float | None] = 1.0

    @property
    def power(self) -> float:
        """The exponent."""
        return 1.0

    def values(self, X: Array, J: int, c: int) -> Array:
        """Return the powers of the squared determinants."""
        return np.exp(2 * self.power * _log_determinants(X, J, c))

    def outer(self, G: Array, inverse: Array, beta: Array) -> tuple[float, Array, Array]:
        """Return the weighted value, ``2 p beta_i k_i G_i^-T`` and ``-sum_i p beta_i k_i G0^-1``.

        Where G_i is singular, k_i is 0 and its gradient is taken as 0 (it is 0 for an exponent above 1/2).
        """
        # ln k = p (2 ln |det G_i| - ln det G0), the data's own Gramians being I; d ln |det G| / dG = G^-T
        n = len(inverse)
        G = G.reshape(-1, n, n)
        logs = self.power * (2 * np.linalg.slogdet(G)[1] + np.linalg.slogdet(inverse)[1])
        k = np.exp(logs)
        regular = k > 0
        inverses = np.linalg.inv(np.where(regular[:, None, None], G, np.eye(n)))
        w = self.power * beta * k
        H = 2 * w[:, None, None] * inverses.swapaxes(-1, -2)
        return float(beta @ k), np.ascontiguousarray(H).reshape(-1, n), -w.sum() * inverse

    def distances(self, P: PackedSystems, Q: PackedSystems) -> Array:
        """Return the Martin distances ``d = -ln k``, of shape (len(P), len(Q)).

        The distance is infinite if a direction of one system is orthogonal to the other system. It is returned as 708,
        and a warning gives the number of such pairs.
        """
        d = -np.log(np.maximum(MartinKernel(self.dtype).cross(P, Q), np.finfo(float).tiny))
        far = int(np.count_nonzero(d >= _LARGEST))
        if far:
            warnings.warn(
                f"{far} pairs of systems have a singular product matrix and an infinite distance: use another kernel",
                stacklevel=2,
            )
        return np.maximum(d, 0.0)


@dataclass(frozen=True)
class MartinKernel(_Powers):
    """The Martin kernel (19): the product of squared cosines of the angles between two observability subspaces.

    ``k(S1, S2) = det(G11^-1 G12 G22^-1 G21)`` with the Gramians (6), between 0 and 1, and 1 for P-equivalent systems;
    at most ``(k_p / n)**n`` with the projection kernel k_p. The kernel is positive definite, and `distances` are the
    Martin distances ``-ln k``. Values are computed from logarithms. If the product matrix is singular, value and
    gradient are 0.

    Parameters
    ----------
    dtype : {"float64", "float32"}
        The dtype of the packed output matrices and of their products; single precision halves the memory.

    Examples
    --------
    >>> import manifoldseq as ms
    >>> from manifoldseq_lds import Systems
    >>> kernel = ms.get_kernel("martin")
    >>> packed = kernel.pack(Systems(A=[[[0.5]], [[0.0]]], C=[[[1.0], [0.0]], [[1.0], [0.0]]]))
    >>> kernel.cross(packed, packed).round(6)
    array([[1.  , 0.75],
           [0.75, 1.  ]])
    """

    name = "martin"
    positive_definite = True


@dataclass(frozen=True)
class MartinRBFKernel(_Powers):
    """The Gaussian of the Martin distance, ``exp(-d / scale) = k**(1 / scale)`` with the Martin kernel k (19).

    A fractional power of a positive definite kernel need not be positive definite, so `positive_definite` is False. The
    authors' toolbox uses ``scale = 100`` for clustering.

    Parameters
    ----------
    dtype : {"float64", "float32"}
        The dtype of the packed output matrices and of their products; single precision halves the memory.
    scale : float
        The scale, above 0.

    Examples
    --------
    >>> import manifoldseq as ms
    >>> from manifoldseq_lds import Systems
    >>> kernel = ms.get_kernel("martin-rbf", scale=2)
    >>> packed = kernel.pack(Systems(A=[[[0.5]], [[0.0]]], C=[[[1.0], [0.0]], [[1.0], [0.0]]]))
    >>> (kernel.cross(packed, packed) ** 2).round(6)
    array([[1.  , 0.75],
           [0.75, 1.  ]])
    """

    scale: float = 100.0
    name = "martin-rbf"
    positive_definite = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.scale, Real) or not 0 < float(self.scale) < np.inf:
            raise ValueError(f"scale={quoted(self.scale)} is not valid: pass a number above 0")

    @property
    def power(self) -> float:
        """One over the scale."""
        return 1 / self.scale


def _log_determinants(X: Array, J: int, c: int) -> Array:
    """Return ln |det X_ij| of product matrices (J n, c n), of shape (J, c)."""
    n = len(X) // J
    return np.linalg.slogdet(X.reshape(J, n, c, n).transpose(0, 2, 1, 3))[1]
