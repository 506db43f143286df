"""The model ``hierarchical.clusters``: F (1) of clusters of frames, with the subspace that separates them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

import manifoldseq as ms
from manifoldseq.estimators import check_whole
from manifoldseq.models import ClusterSums, farthest

from ._closed_form import check_components, encode, leading_directions, nearest, weighted_centroids
from ._moments import Array, Codes, Moments

# A trick of speed: with one product per block `SubspaceKMeans.fit` (4000 × 256, K=10) takes 1.13 times as long
# (`python -m benchmarks.tricks assign`).
_UNPACKED = 1_000_000
"""Multiply-adds of a product up to which OpenBLAS does not copy its factors first; K columns are few to copy for."""

Point = tuple[Array, Array]


@dataclass(frozen=True)
class Clusters:
    """The settings of a clustering, and properties of the frames that do not depend on the clusters.

    Parameters
    ----------
    n : float
        The weight of the frames.
    n_clusters, n_components : int
    origin : ndarray of shape (d,)
        mu_0, the mean of the frames.
    scatter, tolerance : float
        The trace of S_0 (7), and the contribution of rounding errors to a singular value.
    empty : Moments
        Moments of K classes without frames.
    frames : (ndarray of shape (N, d), ndarray of shape (N,) or None) or None
        The frames and their weights, which only starts need.
    """

    n: float
    n_clusters: int
    n_components: int
    origin: Array
    scatter: float
    tolerance: float
    empty: Moments
    frames: tuple[NDArray, Array | None] | None = None

    def labels(self, X: NDArray, targets: Array, V: Array | None = None) -> Codes:
        """Return the nearest of K points for each frame, in the coordinates V or in all d columns.

        The function multiplies the frames by a d×K matrix, or by a d×m and an m×K matrix if this is faster.
        """
        d, K = len(self.origin), self.n_clusters
        # |V'(x - c)|² less |V'x|²: x' V (-2 V'c) + |V'c|², by one d×K matrix, or by V (d×m) and then m×K if that is
        # less
        codes = targets - self.origin if V is None else (targets - self.origin) @ V
        directions = -2 * codes.T if V is None else V @ (-2 * codes.T)
        factors = [directions]
        if V is not None and V.shape[1] * (d + K) < d * K:
            factors = [V, -2 * codes.T]
        offsets = np.square(codes).sum(axis=1) - (self.origin - self.empty.shift) @ directions
        labels = np.empty(len(X), np.int64)
        factors = [np.ascontiguousarray(factor) for factor in factors]
        step = _UNPACKED // (d * K) if d * K < _UNPACKED // 16 else len(X)
        for rows, block in self.empty.blocks(X):
            for first in range(0, len(block), step):
                scores = block[first : first + step]
                for factor in factors:
                    scores = scores @ factor
                scores += offsets
                scores.argmin(axis=1, out=labels[rows][first : first + step])
        return labels

    def solved(self, moments: Moments, n_components: int | None = None) -> tuple[Array, Array, Array]:
        """Return the optimal V (9)-(12), mu (4) and the singular values for the moments of clusters."""
        centroids = np.where(moments.counts[:, None] > 0, moments.centroids, self.origin)
        B = weighted_centroids(centroids, moments.counts, self.origin)
        V, s = leading_directions(B, self.tolerance, n_components)
        return V, centroids, s


def prepare(data: Any, *, n_clusters: int = 2, n_components: int | None = None) -> ms.Prepared:
    """Prepare the clustering of frames by F (1), with parameters of `SubspaceKMeans`.

    Parameters
    ----------
    data : array-like of shape (N, d), or a tuple of the frames and their weights
    n_clusters : int
        The number of clusters.
    n_components : int, optional
        By default one less than there are clusters, which all differences of centroids need.

    Raises
    ------
    ValueError
        If a frame is not finite, or all are equal.
    """
    X, weight = data if isinstance(data, tuple) else (np.asarray(data), None)
    check_whole("n_clusters", n_clusters)
    m = check_components(n_components, X.shape[1]) or max(1, min(n_clusters - 1, X.shape[1]))
    whole = Moments.of(X, np.zeros(len(X), np.int64), weight=weight)
    origin = whole.mean
    scatter, tolerance = whole.scatter(origin), whole.tolerance(origin)
    if scatter <= tolerance**2:
        raise ValueError("all frames of X are equal up to rounding: pass frames that differ")
    empty = Moments.empty(X, n_clusters)
    model = Clusters(whole.n, n_clusters, m, origin, scatter, tolerance, empty, (X, weight))
    return ms.Prepared(model, ms.execution.RowBlocks.of(X, weight), replace(model, frames=None))


def manifold(model: Clusters) -> ms.manifolds.Product:
    """Return the manifold of V, up to rotations, and of the centroids."""
    M, d = ms.manifolds, len(model.origin)
    factors = M.Grassmann(d, model.n_components), M.Euclidean(model.n_clusters, d)
    return M.Product(*factors, names=("V", "mu"))


def statistics(model: Clusters, point: Point, block: tuple[Any, Any]) -> ClusterSums:
    """Return the sums of a block of frames in the clusters of their nearest centroids."""
    (V, mu), (X, weight), K = point, block, model.n_clusters
    labels = model.labels(X, mu, V)
    moments = model.empty.copy()
    moments.sum_up(X, labels, weight)
    counts, B = moments.counts, moments.sums - moments.counts[:, None] * (model.origin - moments.shift)
    # |V'(x - mu_k)|² less |V'(x - mu_0)|², summed over the frames
    codes = (mu - model.origin) @ V
    cost = float(counts @ np.square(codes).sum(axis=1) - 2 * np.vdot(codes, B @ V))
    lost = int(np.count_nonzero(counts == 0))
    squared = nearest(encode(X, V, model.origin).astype(np.float64), codes)[1] if lost else np.empty(0)
    rows = farthest(squared, lost, K)
    rows = rows[squared[rows] > 0]  # the other frames coincide with their centroids
    weights = np.ones(len(rows)) if weight is None else weight[rows]
    far = X[rows].astype(np.float64) - moments.shift, squared[rows], labels[rows], weights
    n = float(len(X) if weight is None else weight.sum())
    return ClusterSums(n, counts.astype(np.float64), moments.sums, cost, far)


def value(model: Clusters, point: Point, found: ClusterSums) -> float:
    """Return F (1) divided by the trace of S_0 of as many frames."""
    return 1 + found.cost / (model.scatter * (found.n / model.n))


def value_and_gradient(model: Clusters, point: Point, found: ClusterSums) -> tuple[float, Point]:
    """Return the value and its derivatives."""
    (V, mu), counts = point, found.counts[:, None]
    A, B = mu - model.origin, found.sums - counts * (model.origin - model.empty.shift)
    scale = 2 / (model.scatter * (found.n / model.n))
    AV, BV = A @ V, B @ V
    by_V = A.T @ (counts * AV - BV) - B.T @ AV
    return value(model, point, found), (scale * by_V, scale * (counts * AV - BV) @ V.T)


def alternation(model: Clusters, point: Point, found: ClusterSums) -> Point:
    """Return the closed form (4), (9)-(13) for the clusters of these sums.

    An empty cluster gets the farthest frame of a cluster of two or more, which lowers F.
    """
    found = found.refilled(found.counts == 0)
    return model.solved(replace(model.empty, counts=found.counts, sums=found.sums), model.n_components)[:2]


def start_at(init: Any, problem: ms.Problem, rng: np.random.Generator) -> Point:
    """Return the closed form for labels, (N,), or for the frames nearest to centroids, (K, d)."""
    model: Clusters = problem.data.model
    assert model.frames is not None  # only a sweep has none
    X, weight = model.frames
    moments = model.empty.copy()
    moments.sum_up(X, init if init.ndim == 1 else model.labels(X, init), weight)
    return model.solved(moments, model.n_components)[:2]


def _start(kind: str, problem: ms.Problem, rng: np.random.Generator) -> Point:
    """Return a start from frames drawn by greedy k-means++, from segments, or from random labels."""
    from sklearn.cluster import kmeans_plusplus

    X, weight = problem.data.model.frames
    N, K = len(X), problem.data.model.n_clusters
    if kind == "random":
        return start_at(rng.permutation(N) % K, problem, rng)
    if kind == "segments":
        return start_at(np.arange(N) * K // N, problem, rng)
    X = X.astype(np.result_type(X, np.float32), copy=False)  # sums of whole numbers would wrap around
    found = kmeans_plusplus(X, K, sample_weight=weight, random_state=int(rng.integers(2**31)))[0]
    return start_at(found.astype(np.float64), problem, rng)


k_means, random, segments = (partial(_start, kind) for kind in ("k-means++", "random", "segments"))


def permuted(model: Clusters, point: Point, rng: np.random.Generator) -> Point:
    """Return the point with its centroids in another order: the same F."""
    return point[0], rng.permutation(point[1])
