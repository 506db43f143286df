"""The product of a kernel of dynamics and a Gaussian of the means and deviations of the channels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

import manifoldseq as ms
from manifoldseq.estimators import quoted

from ..identification._sequence_input import MOMENTS
from ..systems._record import Systems
from ._resolved import resolved_kernel

Array = NDArray[np.floating[Any]]
Point = tuple[Array, ...]

_ROWS = 1000
"""Maximum number of rows for the width of a Gaussian."""


@dataclass(frozen=True, eq=False)
class PackedMoments:
    """Systems in the packed form of the kernel of the dynamics, with moments (N, p); indexed by rows like an array."""

    dynamics: Any
    moments: Array

    def __len__(self) -> int:
        return len(self.moments)

    def __getitem__(self, rows: Any) -> PackedMoments:
        return PackedMoments(self.dynamics[rows], self.moments[rows])


@dataclass(frozen=True)
class MomentKernel:
    """A kernel of the dynamics times the Gaussian ``exp(-sum_c weights_c (f_c - g_c)**2)`` of two rows of moments f, g.

    Systems are similar if their dynamics and also the levels and sizes of their channels are similar. Points are
    ``(lam, V, U, moments)``: a centre has its own moments.

    Parameters
    ----------
    kernel : str or kernel object
        The kernel of the dynamics (A, C), which must have a constant diagonal.
    weights : sequence of float
        One nonnegative weight for each column of `Systems.moments`; 0 excludes the column.

    Examples
    --------
    >>> from manifoldseq_lds import MomentKernel, Systems
    >>> systems = Systems(A=[[[0.5]]] * 2, C=[[[1.0]]] * 2, moments=[[0.0, 1.0], [2.0, 1.0]])
    >>> kernel = MomentKernel("projection", weights=(0.5, 0.0))
    >>> packed = kernel.pack(systems)
    >>> kernel.cross(packed, packed).round(4)
    array([[1.    , 0.1353],
           [0.1353, 1.    ]])
    """

    kernel: Any
    weights: Sequence[float] = ()
    name = "moments"
    domain = "lds"
    constant_diagonal = True
    products_only = False
    convex_in_output = False
    self_term = None

    def __post_init__(self) -> None:
        kernel = ms.kernels.as_kernel(self.kernel, "lds")
        if not kernel.constant_diagonal:
            raise ValueError(
                f"the kernel {quoted(kernel.name)} has no constant diagonal: use another kernel, or normalize it"
            )
        weights = tuple(float(w) for w in self.weights)
        if not weights or not all(np.isfinite(w) and w >= 0 for w in weights):
            raise ValueError(
                f"weights={quoted(self.weights)} is not valid: pass one number of at least 0 per column of the moments"
            )
        object.__setattr__(self, "kernel", kernel)
        object.__setattr__(self, "weights", weights)

    @property
    def positive_definite(self) -> bool:
        """Whether the kernel of the dynamics is positive definite."""
        return self.kernel.positive_definite

    def pack(self, items: Any) -> PackedMoments:
        """Pack systems with moments.

        Parameters
        ----------
        items : Systems with moments
        """
        if not isinstance(items, Systems) or items.moments is None or items.moments.shape[1] != len(self.weights):
            raise ValueError(
                f"the kernel compares {len(self.weights)} moments of each sequence: pass sequences, or Systems "
                "with this number of moments"
            )
        dynamics = self.kernel.pack(Systems.trusted({"A": items.A, "C": items.C}))
        return PackedMoments(dynamics, items.moments)

    def cross(self, P: PackedMoments, Q: PackedMoments) -> Array:
        """Return the kernel matrix, (len(P), len(Q))."""
        return self.kernel.cross(P.dynamics, Q.dynamics) * self.gaussian(P.moments, Q.moments)

    def diag(self, P: PackedMoments) -> Array:
        """Return k(P_i, P_i), (len(P),)."""
        return self.kernel.diag(P.dynamics)

    def manifold(self, m: int, n: int, bound: float = 0.99) -> Any:
        """Return the manifold of the kernel of the dynamics, with the moments as one more factor."""
        factors = self.kernel.manifold(m, n, bound).factors
        return ms.manifolds.Product(*factors, ms.manifolds.Euclidean(len(self.weights)))

    def weighted(self, point: Point, P: PackedMoments, beta: ArrayLike) -> tuple[float, Point]:
        """Return the value and the Euclidean gradient of ``sum_i beta_i k(S(point), P_i)``."""
        *dynamics, moments = point
        b = np.asarray(beta, dtype=float)
        gaussian = self.gaussian(moments[None], P.moments)[0]
        value, gradient = self.kernel.weighted(tuple(dynamics), P.dynamics, b * gaussian)
        # d exp(-sum w (f - f_i)^2) / df = 2 w (f_i - f) exp(...), each times beta_i and the kernel of the dynamics
        shares = b * gaussian * self._row(tuple(dynamics), P)
        slope = 2 * np.asarray(self.weights) * (shares @ P.moments - shares.sum() * moments)
        return value, (*gradient, slope)

    def settled(self, point: Point, P: PackedMoments, beta: Array) -> tuple[Array, Array]:
        """Return the moments of a centre after one mean shift, and the weights for the descent of its dynamics.

        With negative ``beta``, ``sum_i beta_i k(S, P_i)`` does not increase: exp is convex in minus the squared
        distance, so the mean of the data weighted by kernel values is at least as good.
        """
        *dynamics, moments = point
        return self.shifted(moments, self._row(tuple(dynamics), P), P.moments, beta)

    def shifted(self, moments: Array, values: Array, of_items: Array, beta: Array) -> tuple[Array, Array]:
        """Compute `settled` from the kernel values of the dynamics, (N,), and the moments of the items, (N, p)."""
        pull = beta * self.gaussian(moments[None], of_items)[0] * values
        if pull.sum() < 0:
            moments = pull @ of_items / pull.sum()
        return moments, beta * self.gaussian(moments[None], of_items)[0]

    def _row(self, dynamics: Point, P: PackedMoments) -> Array:
        """Return the kernel of the dynamics between a point and packed systems, (len(P),)."""
        item = ms.hooks.get_domain("lds").to_item(tuple(leaf[None] for leaf in dynamics))
        packed = self.kernel.pack(Systems.trusted({"A": item[0], "C": item[1]}))
        return self.kernel.cross(packed, P.dynamics)[0]

    def gaussian(self, f: Array, g: Array) -> Array:
        """Return the Gaussian between rows of moments, (len(f), len(g))."""
        root = np.sqrt(np.asarray(self.weights))
        f, g = f * root, g * root
        squared = np.square(f).sum(axis=1)[:, None] + np.square(g).sum(axis=1) - 2 * f @ g.T
        return np.exp(-np.maximum(squared, 0.0))


def moment_weights(moments: Array, which: str) -> Array:
    """Return the weights of a `MomentKernel`, (p,), without labels.

    Each column is divided by its standard deviation, and squared distances of the selected columns by their median.

    Parameters
    ----------
    moments : ndarray of shape (N, 2 d)
    which : {"level", "size", "both"}
        The first half of the columns, the second, or all.
    """
    d = moments.shape[1] // 2
    variances = moments.var(axis=0)
    counts = np.repeat([which != "size", which != "level"], d) & (variances > 0)
    weights = np.where(counts, 1 / np.where(variances > 0, variances, 1.0), 0.0)
    some = moments[:: -(-len(moments) // _ROWS)] * np.sqrt(weights)
    squared = np.square(some).sum(axis=1)[:, None] + np.square(some).sum(axis=1) - 2 * some @ some.T
    above = squared[np.triu_indices(len(some), 1)]
    width = float(np.median(above)) if len(above) else 0.0
    return weights / width if width > 0 else weights


def keep_moment_weights(estimator: Any, which: str, systems: Systems) -> None:
    """Set the attribute `moment_weights_` of an estimator if moments are compared; otherwise remove it."""
    estimator.__dict__.pop("moment_weights_", None)
    if which in MOMENTS:
        if systems.moments is None:
            raise ValueError(
                f"moments={quoted(which)} compares moments, but the given Systems have none: pass the sequences, or "
                "Systems with moments"
            )
        estimator.moment_weights_ = moment_weights(systems.moments, which)


def fitted_kernel(estimator: Any) -> Any:
    """Return the kernel of a fitted estimator: the kernel of the dynamics, times a Gaussian if moments are compared."""
    kernel = resolved_kernel(estimator.kernel)
    weights = getattr(estimator, "moment_weights_", None)
    return kernel if weights is None else MomentKernel(kernel, tuple(weights))
