"""The chi-square kernels of histograms, and the domain of histograms."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

import manifoldseq as ms
from manifoldseq.estimators import quoted

from ..systems._record import real_array

Array = NDArray[Any]


class Histogram(NamedTuple):
    """One histogram, an item of the domain ``"histograms"``: entries of at least 0, (d,)."""

    values: Array


@dataclass(frozen=True)
class Chi2Kernel:
    """The chi-square kernels of histograms.

    The chi-square distance is ``d(a, b) = 1/2 sum (a - b)^2 / (a + b)``, over bins with ``a + b > 0``. The kernel is
    ``exp(-d / scale)``. Without a scale it is the additive kernel ``sum 2 a b / (a + b)``, which equals ``1 - d`` for
    histograms with sum 1. Both kernels are positive definite and have gradients. The kernel with a scale is equivalent
    to ``sklearn.metrics.pairwise.chi2_kernel`` with ``gamma = 1 / (2 scale)``.

    Parameters
    ----------
    scale : float or None
        Scale of the Gaussian; None selects the additive kernel.

    Examples
    --------
    >>> import numpy as np, manifoldseq as ms
    >>> kernel = ms.get_kernel("chi2", scale=None)
    >>> packed = kernel.pack(np.array([[0.5, 0.5], [1.0, 0.0]]))
    >>> kernel.cross(packed, packed).round(6)
    array([[1.      , 0.666667],
           [0.666667, 1.      ]])
    """

    scale: float | None = 1.0
    name = "chi2"
    domain = "histograms"
    positive_definite = True
    products_only = False
    convex_in_output = False

    def __post_init__(self) -> None:
        if self.scale is not None and (not isinstance(self.scale, Real) or not 0 < float(self.scale) < np.inf):
            raise ValueError(f"scale={quoted(self.scale)} is not valid: pass a number above 0, or None")

    @property
    def constant_diagonal(self) -> bool:
        """Whether k(h, h) is the same for all histograms, which is the case with a scale."""
        return self.scale is not None

    def pack(self, items: Any) -> Array:
        """Return histograms as an array (N, d).

        Parameters
        ----------
        items : array of shape (N, d), or sequence of tuples of one array of shape (d,)

        Raises
        ------
        ValueError
            If histograms have different numbers of bins, or an entry is negative or not finite; the message names the
            histogram.
        """
        h = real_array("histograms", items if isinstance(items, np.ndarray) else list(items))
        h = h[:, 0] if h.ndim == 3 and h.shape[1] == 1 else h
        if h.ndim != 2 or 0 in h.shape:
            raise ValueError(f"histograms have shape {h.shape}: pass (N, d) with at least one histogram and one bin")
        bad = np.argwhere(~(np.isfinite(h) & (h >= 0)))
        if len(bad):
            i, k = bad[0]
            raise ValueError(f"histogram {i} has {h[i, k]} in bin {k}: entries must be finite and not negative")
        return h

    def cross(self, P: Array, Q: Array) -> Array:
        """Return the kernel matrix k(P_i, Q_j), of shape (len(P), len(Q))."""
        from sklearn.metrics.pairwise import additive_chi2_kernel

        if P.shape[1] != Q.shape[1]:
            raise ValueError(
                f"the first histograms have {P.shape[1]} bins, the second have {Q.shape[1]}: pass equal numbers of bins"
            )
        if not len(P) or not len(Q):
            return np.zeros((len(P), len(Q)))
        # scikit-learn's is minus sum (a - b)² / (a + b); and sum 2ab / (a + b) = (sum a + sum b) / 2 - d
        d = -additive_chi2_kernel(P, Q) / 2
        if self.scale is not None:
            return np.exp(-d / self.scale)
        return (P.sum(axis=1)[:, None] + Q.sum(axis=1)) / 2 - d

    def diag(self, P: Array) -> Array:
        """Return k(P_i, P_i), of shape (len(P),)."""
        return P.sum(axis=1) if self.scale is None else np.ones(len(P))

    def weighted(self, point: Any, P: Array, beta: ArrayLike) -> tuple[float, Array]:
        """Return the value and the Euclidean gradient of ``sum_i beta_i k(h, P_i)`` at a histogram h, (d,)."""
        b, h = real_array("beta", beta), np.asarray(point).astype(float, copy=False)
        if b.shape != (len(P),) or h.shape != P.shape[1:]:
            raise ValueError(
                f"beta has shape {b.shape} and the point has shape {h.shape}: pass beta of shape {(len(P),)} and a "
                f"point of shape {P.shape[1:]}"
            )
        # d = 1/2 sum (h - p) r with r = (h - p) / (h + p), (N, d): its slope in h is r - r²/2
        total = h + P
        ratio = np.divide(h - P, total, out=np.ones_like(total), where=total > 0)  # 1 for empty bins: the right slope
        d, slope = ((h - P) * ratio).sum(axis=1) / 2, ratio - ratio**2 / 2
        if self.scale is not None:
            b = b * np.exp(-d / self.scale)
            value, gradient = b.sum(), -(b / self.scale) @ slope
        else:
            value, gradient = b @ ((h.sum() + P.sum(axis=1)) / 2 - d), b @ (0.5 - slope)
        return float(value), gradient.astype(np.result_type(point, np.float32), copy=False)

    def self_term(self, point: Any) -> tuple[float, Array]:
        """Return the value and the Euclidean gradient of k(h, h)."""
        h = np.asarray(point)
        dtype = np.result_type(h, np.float32)
        if self.scale is not None:
            return 1.0, np.zeros(h.shape, dtype)
        return float(h.sum(dtype=float)), np.ones(h.shape, dtype)

    def manifold(self, m: int, n: int = 1, bound: float = 0.99) -> Any:
        """Return the probability simplex of m bins."""
        return ms.manifolds.Simplex(m)


def manifold(m: int, n: int = 1, bound: float = 0.99) -> Any:
    """Return the probability simplex of m bins, the manifold of means of histograms."""
    return ms.manifolds.Simplex(m)


def to_item(point: Any) -> Histogram:
    """Return the item of a point."""
    return Histogram(point)


def example(rng: np.random.Generator) -> list[Histogram]:
    """Return five random histograms of six bins, some with an empty bin."""
    h = rng.dirichlet(np.ones(6), 5)
    h[0, :2] = 0
    return [Histogram(row / row.sum()) for row in h]
