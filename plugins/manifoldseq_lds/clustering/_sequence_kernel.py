"""A kernel on sequences through identification: each sequence is a linear dynamical system, which a kernel compares."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Self, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from manifoldseq.estimators import quoted
from manifoldseq.execution import one_blas_thread

from ..identification._sequence_input import learned_systems, new_systems, remember
from ..kernels._moments import fitted_kernel, keep_moment_weights
from ..means._common_problem import items_of
from ._kernel_matrix import LDSKernelMatrix
from ._settings import settled

Array = NDArray[np.floating[Any]]


@dataclass(frozen=True, eq=False)
class DynamicsKernel:
    """The kernel between the linear dynamical systems of two sequences, normalized to k(x, x) = 1.

    Parameters
    ----------
    matrix : LDSKernelMatrix
        The identification and the comparison of sequences. With ``n_states="auto"``, `fitted` chooses the settings as
        `LDSKMeans` does, for the given number of clusters.

    Examples
    --------
    >>> import numpy as np, manifoldseq as ms
    >>> rng, t = np.random.default_rng(0), np.arange(60)[:, None]
    >>> X = [np.cos(t * w + rng.uniform(0, 6) + [0, 1, 2]) for w in [0.2] * 5 + [0.9] * 5]
    >>> kernel = ms.get_kernel("dynamics", matrix=LDSKernelMatrix(n_states=2)).fitted(X)
    >>> packed = kernel.pack(X)
    >>> K = kernel.cross(packed, packed)
    >>> bool(K[0, :5].min() > K[0, 5:].max())
    True
    """

    matrix: LDSKernelMatrix = field(default_factory=LDSKernelMatrix)
    stored_types = (LDSKernelMatrix,)
    domain = "sequences"
    name = "dynamics"
    constant_diagonal = True
    positive_definite = True
    products_only = False
    convex_in_output = False
    weighted = None
    manifold = None
    self_term = None

    def fitted(self, items: Iterable[Any], n_clusters: int | None = None) -> Self:
        """Return the kernel with settings and scales from a set of sequences."""
        X = _sequences(items)
        made = cast(LDSKernelMatrix, clone(self.matrix))
        with warnings.catch_warnings(), one_blas_thread():
            warnings.simplefilter("ignore")  # how well dynamics suit these sequences is judged with the other kernels
            chosen = settled(made, X, n_clusters)
            systems, identifier = learned_systems(chosen, X)
        keep_moment_weights(made, chosen.moments, systems)
        made.systems_ = systems
        remember(made, systems, identifier)
        return replace(self, matrix=made)

    def pack(self, items: Iterable[Any]) -> Any:
        """Identify N sequences with the settings of the fit."""
        X = _sequences(items)
        fitted = self if hasattr(self.matrix, "systems_") else self.fitted(X)
        with warnings.catch_warnings(), one_blas_thread():
            warnings.simplefilter("ignore")
            kernel = fitted_kernel(fitted.matrix)
            return kernel.pack(items_of(kernel, new_systems(fitted.matrix, X)))

    def cross(self, P: Any, Q: Any) -> Array:
        """Return the normalized kernel matrix, (len(P), len(Q))."""
        kernel = fitted_kernel(self.matrix)
        roots = [np.sqrt(kernel.diag(one)) for one in (P, Q)]
        for i in np.flatnonzero(~(roots[0] > 0)):
            raise ValueError(f"sequence {i} has k(x, x) = 0 under {quoted(kernel.name)}: remove the sequence")
        with one_blas_thread():
            return kernel.cross(P, Q) / np.maximum(roots[0][:, None] * roots[1], np.finfo(float).tiny)

    def diag(self, P: Any) -> Array:
        """Return k(x, x), which is 1."""
        return np.ones(len(P))


def _sequences(items: Iterable[Any]) -> list[Array]:
    return [np.asarray(item[0] if isinstance(item, tuple) else item, dtype=float) for item in items]


def example(rng: np.random.Generator) -> list[tuple[Array]]:
    """Return six noisy oscillations, items of the domain `sequences` of manifoldseq-sequences."""
    items = []
    for i in range(6):
        t = np.arange(int(rng.integers(40, 60)))[:, None]
        x = np.sin((0.2, 0.5)[i % 2] * t + rng.uniform(0, 6) + np.arange(2)) + 0.1 * rng.standard_normal((len(t), 2))
        items.append((x,))
    return items
