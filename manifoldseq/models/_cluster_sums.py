"""Sums over rows that are assigned to clusters, with the rows at which clusters without rows begin again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
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
        Rows with large costs in descending order, (L, D), and their costs, clusters and weights, (L,), see `farthest`.
    """

    n: float
    counts: Array
    sums: Array
    cost: float
    far: tuple[Any, ...]

    def refilled(self, lost: NDArray[np.bool_]) -> Self:
        """Return sums in which each lost cluster has received the row with the largest cost of another cluster.

        `lost` is a mask of shape (K,). If no cluster can give a row, a lost cluster stays empty, see `restarts`. The
        cost is not changed.
        """
        rows, costs, labels, weights = self.far
        sums, counts = self.sums.copy(), self.counts.copy()
        for k, i in restarts(lost, counts, costs, labels, weights):
            sums[labels[i]] -= weights[i] * rows[i]
            sums[k] = weights[i] * rows[i]
        return replace(self, counts=counts, sums=sums)

    def _with(self, other: Any, of: Callable[[Any, Any], Any]) -> Self:
        (*far, weight), (*far_too, other_weight) = self.far, other.far
        # the weights of rows are scaled as the counts are; of a row that is there twice, one has no weight
        weights = np.concatenate([of(weight, 0 * weight), of(0 * other_weight, other_weight)])
        far = [*(np.concatenate(pair) for pair in zip(far, far_too, strict=True)), weights]
        order = np.argsort(-far[1], kind="stable")
        order = order[weights[order] > 0][: 2 * len(self.counts)]
        n, counts, sums, cost = (
            of(getattr(self, name), getattr(other, name)) for name in ("n", "counts", "sums", "cost")
        )
        return type(self)(n, counts, sums, cost, tuple(part[order] for part in far))


def farthest(costs: Array, lost: int, n_clusters: int) -> NDArray[np.intp]:
    """Return the numbers of the rows with the largest costs in descending order, ``lost + n_clusters`` of them.

    They suffice for a number of `lost` clusters: each cluster has at most one row that it cannot give away. If no
    cluster is lost, the result is empty.

    Examples
    --------
    >>> farthest(np.array([1.0, 0.0, 3.0, 2.0]), 1, 2).tolist()
    [2, 3, 0]
    """
    return np.argsort(-costs, kind="stable")[: lost + n_clusters] if lost else np.empty(0, np.intp)


def restarts(
    lost: NDArray[np.bool_], counts: NDArray[Any], costs: Array, labels: NDArray[Any], weights: Any = None
) -> Iterator[tuple[int, int]]:
    """Move rows to lost clusters: yield each of these clusters, and the row at which it begins again.

    The row has the largest cost of all rows whose cluster keeps at least one other row. `counts` is changed in place.
    If there are too few such rows, the last lost clusters are not yielded.

    Parameters
    ----------
    lost : ndarray of bool of shape (K,)
        The clusters that need a row.
    counts : ndarray of shape (K,)
        The sums of the weights of the rows of each cluster.
    costs, labels : ndarray of shape (L,)
        The costs of rows in their clusters, and these clusters.
    weights : ndarray of shape (L,), optional
        The weights of the rows; 1 by default.

    Examples
    --------
    >>> counts, costs, labels = np.array([3, 1, 0]), np.array([1.0, 0.0, 5.0, 2.0]), np.array([0, 0, 1, 0])
    >>> list(restarts(counts == 0, counts, costs, labels)), counts.tolist()
    ([(2, 3)], [2, 1, 1])
    """
    clusters = np.flatnonzero(lost).tolist()
    if not clusters:
        return
    weights = np.ones(len(costs), counts.dtype) if weights is None else weights
    for i in np.argsort(-costs, kind="stable").tolist():
        if not clusters:
            return
        if counts[labels[i]] > weights[i]:
            k = clusters.pop(0)
            counts[labels[i]] -= weights[i]
            counts[k] = weights[i]
            yield k, i
