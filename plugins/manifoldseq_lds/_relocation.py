"""Leaving a poor local optimum of k-means: one cluster is dissolved where another is better split in two."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from ._clustering import Clustering

Array = NDArray[np.float64]
Labels = NDArray[np.int64]
Point = tuple[Array, ...]

_CANDIDATES = 200
"""Members that may become the second centre of a split cluster."""
_INNER = 3
"""Iterations for both centres of a split cluster."""


def relocated(
    task: Clustering, centres: Point, labels: Labels, values: Array, squared: Array, tried: int = 0
) -> tuple[Point, Labels, Array, Array] | None:
    """Return centres, labels, kernel values and squared distances after a relocation that lowers the objective.

    The cluster that is missed least is dissolved: its members would go to their second nearest centres. Its centre
    moves into the cluster with the largest sum of squared distances but `tried`, where both centres are fitted. None if
    that is no gain.
    """
    K = task.n_clusters
    if K < 2:
        return None
    everyone = np.arange(len(labels))
    own = squared[labels, everyone]
    second = np.partition(squared, 1, axis=0)[1]
    loss = np.bincount(labels, second - own, minlength=K)
    totals = np.bincount(labels, own, minlength=K)
    k = int(loss.argmin())
    others = [int(j) for j in np.argsort(-totals, kind="stable") if j != k]
    j = others[tried % len(others)]
    rows = np.flatnonzero(labels == j)
    if len(rows) < 3 or totals[j] <= loss[k]:
        return None
    split, rest = _split(task, tuple(leaf[j] for leaf in centres), rows, own[rows])
    if totals[j] - rest <= loss[k]:
        return None
    two_values, two = task.distances(split)
    trial, trial_values = _with_rows(squared, [k, j], two), _with_rows(values, [k, j], two_values)
    assigned = trial.argmin(axis=0)
    if trial[assigned, everyone].sum() < own.sum() and np.bincount(assigned, minlength=K).all():
        new = tuple(_with_rows(leaf, [k, j], part) for leaf, part in zip(centres, split, strict=True))
        return new, assigned, trial_values, trial
    return None


def _split(task: Clustering, centre: Point, rows: Labels, own: Array) -> tuple[Point, float]:
    """Return two stacked centres for the members `rows` of one, and the sum of squared distances to them."""
    some = rows[np.unique(np.linspace(0, len(rows) - 1, min(len(rows), _CANDIDATES)).astype(int))]
    gains = np.maximum(own - task.squared_to(some, rows), 0.0).sum(axis=1)
    pair = (task.point(int(some[gains.argmax()])), centre)
    side = task.distances(_stacked(pair), rows)[1].argmin(axis=0)
    pair = tuple(
        task.improved(point, task.feasible(point), rows[side == i], _INNER)[0] if (side == i).any() else point
        for i, point in enumerate(pair)
    )
    fitted = _stacked(pair)
    return fitted, float(task.distances(fitted, rows)[1].min(axis=0).sum())


def _stacked(points: tuple[Point, ...]) -> Point:
    return tuple(np.stack(leaves) for leaves in zip(*points, strict=True))


def _with_rows(array: Array, rows: Any, new: Array) -> Array:
    array = array.copy()
    array[rows] = new
    return array
