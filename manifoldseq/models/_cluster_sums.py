"""Sums over rows that are assigned to clusters, with the rows at which clusters without rows begin again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ..objectives import Sums

Array = NDArray[np.floating[Any]]


@dataclass(frozen=True)
class ClusterSums(Sums):
    """Counts and sums of the rows of each cluster, for models in which every row belongs to one cluster.

    Attributes
    ----------
    n : float
        The number of rows, or the sum of their weights.
    counts : ndarray of shape (K,)
    sums : ndarray of shape (K, D)
    cost : float
        The sum of the costs of the rows.
    far : tuple of ndarray
        Rows with large costs in descending order, (L, D), and their costs, clusters and weights, (L,). L may be 0 if
        every cluster has rows.
    """

    n: float
    counts: Array
    sums: Array
    cost: float
    far: tuple[Any, ...]

    def _with(self, other: Any, of: Callable[[Any, Any], Any]) -> Self:
        far = [np.concatenate(pair) for pair in zip(self.far, other.far, strict=True)]
        order = np.argsort(-far[1], kind="stable")[: 2 * len(self.counts)]
        n, counts, sums, cost = (
            of(getattr(self, name), getattr(other, name)) for name in ("n", "counts", "sums", "cost")
        )
        return type(self)(n, counts, sums, cost, tuple(part[order] for part in far))
