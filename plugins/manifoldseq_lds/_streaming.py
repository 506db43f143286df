"""Mini-batch k-means: every centre meets its new members with the weight of all that it has seen."""

import numpy as np
from numpy.typing import NDArray

from ._canonical import canonical_form
from ._centres import descended
from ._clustering import MEDOIDS, Clustering, as_systems, distances, point_values
from ._common import best_datum, beyond, own_weight, whole_point
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
        beta, own = -2 * weights / weights.sum(), own_weight(task.kernel, 1.0)
        packed = task.kernel.pack(members)
        cut = beyond(task.manifold, canonical_form(members.A, members.C, members.x1))
        if not cut.any():
            moved[k] = descended(task, moved[k], packed, beta, task.inner_iter)[0]
            continue
        found = descended(task, task.manifold.nearest(moved[k]), packed, beta, task.inner_iter)[0]
        member = whole_point(members, best_datum(task.kernel, packed, beta, own, MEDOIDS)[0])
        points = [found, moved[k], member]  # as in a fit: no centre is worse than its last place or the best member
        moved[k] = points[int(point_values(task.kernel, points, packed, beta, own).argmin())]
    stacked = tuple(np.stack([point[i] for point in moved]) for i in range(len(centres)))
    return stacked, counts + np.bincount(labels, minlength=task.n_clusters)
