"""Mini-batch k-means: every centre meets its new members with the weight of all that it has seen."""

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

import manifoldseq as ms

from ._clustering import Clustering, as_systems, distances
from ._mean import mean_objective
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
        problem = ms.Problem(task.manifold, weighted_mean(task.kernel, task.kernel.pack(members), weights))
        moved[k] = ms.minimize(problem, moved[k], solver=task.solver, stop=ms.MaxIterations(task.inner_iter)).x
    stacked = tuple(np.stack([point[i] for point in moved]) for i in range(len(centres)))
    return stacked, counts + np.bincount(labels, minlength=task.n_clusters)


def weighted_mean(kernel: Any, packed: Any, weights: Array) -> ms.Objective:
    """Return (8) with weights: ``-2 sum_i w_i k(S, S_i) / sum_i w_i``, and k(S, S) where it is not constant."""
    if np.ptp(weights) == 0:
        return mean_objective(kernel, packed)
    both = ms.objectives.last_point(partial(_both, kernel, packed, -2 * weights / weights.sum()))
    return ms.Objective(partial(_value, both), both)


def _both(kernel: Any, packed: Any, beta: Array, point: Point) -> tuple[float, Point]:
    value, gradient = kernel.weighted(point, packed, beta)
    if kernel.constant_diagonal:
        return value, gradient
    own, own_gradient = kernel.self_term(point)
    return value + own, tuple(g + h for g, h in zip(gradient, own_gradient, strict=True))


def _value(both: Any, point: Point) -> float:
    return both(point)[0]
