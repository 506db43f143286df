"""Mini-batch k-means: every centre meets its new members with the weight of all that it has seen."""

import numpy as np
from numpy.typing import NDArray

from ._centres import descended
from ._clustering import Clustering, as_systems, distances
from ._systems import Systems

Array = NDArray[np.float64]
Point = tuple[Array, ...]


def absorbed(task: Clustering, centres: Point, counts: NDArray[np.int64]) -> tuple[Point, NDArray[np.int64]]:
    """Return the centres and their counts after the systems of a clustering problem were met as a mini-batch."""
    old = as_systems(centres)
    squared = distances(task.kernel, old, task.packed, task.self_values)[1]
    labels = squared.argmin(axis=0)
    moved = [tuple(leaf[k] for leaf in centres) for k in range(task.n_clusters)]
    for k in np.unique(labels):
        rows = np.flatnonzero(labels == k)
        members, weights = task.systems[rows], np.ones(len(rows))
        if counts[k]:
            members = Systems.concatenate([old[[k]], members])
            weights = np.append(float(counts[k]), weights)
        beta = -2 * weights / weights.sum()
        moved[k] = descended(task, moved[k], task.kernel.pack(members), beta, task.inner_iter)[0]
    stacked = tuple(np.stack([point[i] for point in moved]) for i in range(len(centres)))
    return stacked, counts + np.bincount(labels, minlength=task.n_clusters)
