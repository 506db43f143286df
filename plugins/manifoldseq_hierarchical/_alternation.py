"""k-means in the best subspace: assignment of the frames, and the closed form, in turn, as one pure step."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

import manifoldseq as ms

from ._closed_form import encode, leading_directions, nearest, weighted_centroids
from ._moments import Array, Codes, Moments

_UNPACKED = 1_000_000
"""Multiply-adds of a product up to which OpenBLAS does not copy its factors first; K columns are few to copy for."""

State = dict[str, Any]
"""``x``: V' (m, d) and centroids (h, d); ``labels`` (N,), ``counts``, ``sums``, ``singular_values``, ``start``."""


@dataclass(frozen=True)
class Alternation:
    """The frames of one clustering problem, with the functions of them that the alternation is made of.

    Parameters
    ----------
    X : ndarray of shape (N, d)
    n_clusters : int
    n_components : int or None
        m, or None for the best one in every step.
    origin : ndarray of shape (d,)
        mu_0, the mean of the frames.
    scatter, tolerance : float
        The trace of S_0 (7), and what rounding can contribute to a singular value.
    empty : Moments
        Of no frames, K classes.
    """

    X: NDArray
    n_clusters: int
    n_components: int | None
    origin: Array
    scatter: float
    tolerance: float
    empty: Moments

    @classmethod
    def of(cls, X: NDArray, n_clusters: int, n_components: int | None) -> "Alternation":
        """Return the problem of these frames.

        Raises
        ------
        ValueError
            If a frame is not finite, or all are equal.
        """
        whole = Moments.of(X, np.zeros(len(X), np.int64))
        origin = whole.mean
        scatter, tolerance = whole.scatter(origin), whole.tolerance(origin)
        if scatter <= tolerance**2:
            raise ValueError("all frames of X are equal to rounding, so that there is nothing to cluster")
        return cls(X, n_clusters, n_components, origin, scatter, tolerance, Moments.empty(X, n_clusters))

    def start(self, init: Any, rng: np.random.Generator, number: int) -> tuple[State, ms.Measures]:
        """Return the state that the alternation begins with, and its measures: labels first, then the closed form."""
        N, K = len(self.X), self.n_clusters
        if isinstance(init, str) and init == "random":
            labels = rng.permutation(N) % K
        elif isinstance(init, str) and init == "segments":
            labels = np.arange(N) * K // N
        elif isinstance(init, str) or init.ndim == 2:
            labels = self._assigned(self._spread(rng) if isinstance(init, str) else init)
        else:
            labels = init
        return self.solved(labels, {"labels": labels, "start": number})

    def step(self, state: State) -> tuple[State, ms.Measures]:
        """Return the state with every frame at its nearest centroid, and the closed form for that (4), (9)-(13)."""
        Vt, centroids = state["x"]
        labels = self._assigned(centroids, Vt.T)
        counts = np.bincount(labels, minlength=self.n_clusters)
        if not counts.all():
            labels = self._repaired(labels, counts, Vt.T, centroids)
        old = state["labels"]
        moved = np.flatnonzero(labels != old)
        if 4 * len(moved) > len(labels):
            return self.solved(labels, state)
        moments = replace(self.empty, counts=state["counts"].copy(), sums=state["sums"].copy())
        moments.move(self.X[moved], old[moved], labels[moved])
        return self.solved(labels, state, moments)

    def solved(self, labels: Codes, before: State, moments: Moments | None = None) -> tuple[State, ms.Measures]:
        """Return the state with these labels and the V, m, mu that are best for them, and its measures."""
        moments = Moments.of(self.X, labels, self.n_clusters) if moments is None else moments
        centroids = np.where(moments.counts[:, None] > 0, moments.centroids, self.origin)
        B = weighted_centroids(centroids, moments.counts, self.origin)
        V, s = leading_directions(B, self.tolerance, self.n_components)
        energy = max(self.scatter - float(np.square(s[: V.shape[1]]).sum()), 0.0)
        state = {
            "x": (V.T, centroids),
            "labels": labels,
            "counts": moments.counts,
            "sums": moments.sums,
            "singular_values": s,
            "start": before["start"],
        }
        moved = int(np.count_nonzero(labels != before["labels"]))
        return state, ms.Measures(fun=energy / self.scatter, extra={"m": V.shape[1], "moved": moved})

    def _assigned(self, targets: Array, V: Array | None = None) -> Codes:
        """Return the nearest of K points of each frame, in coordinates V or in all d.

        By matrix products of the frames and a d×K matrix, or a d×m and an m×K one, if that is less work.
        """
        d, K = len(self.origin), self.n_clusters
        codes = targets - self.origin if V is None else (targets - self.origin) @ V
        directions = -2 * codes.T if V is None else V @ (-2 * codes.T)
        factors = [directions]
        if V is not None and V.shape[1] * (d + K) < d * K:
            factors = [V, -2 * codes.T]
        offsets = np.square(codes).sum(axis=1) - (self.origin - self.empty.shift) @ directions
        labels = np.empty(len(self.X), np.int64)
        factors = [np.ascontiguousarray(factor) for factor in factors]
        step = _UNPACKED // (d * K) if d * K < _UNPACKED // 16 else len(self.X)
        for rows, block in self.empty.blocks(self.X):
            for first in range(0, len(block), step):
                scores = block[first : first + step]
                for factor in factors:
                    scores = scores @ factor
                scores += offsets
                scores.argmin(axis=1, out=labels[rows][first : first + step])
        return labels

    def _repaired(self, labels: Codes, counts: NDArray[np.int64], V: Array, centroids: Array) -> Codes:
        """Give each empty cluster the worst represented frame that another cluster can spare; F falls."""
        codes = encode(centroids, V, self.origin)
        squared = nearest(encode(self.X, V, self.origin).astype(np.float64), codes)[1]
        labels, counts = labels.copy(), counts.copy()
        order = iter(np.argsort(-squared, kind="stable"))
        for k in np.flatnonzero(counts == 0):
            i = next((i for i in order if counts[labels[i]] > 1), None)
            if i is None or squared[i] <= 0:
                break  # the other frames coincide with their centroids
            counts[labels[i]] -= 1
            labels[i], counts[k] = k, 1
        return labels

    def _spread(self, rng: np.random.Generator) -> Array:
        """Return K spread frames: greedy k-means++."""
        from sklearn.cluster import kmeans_plusplus

        seed = int(rng.integers(2**31))
        X = self.X.astype(np.result_type(self.X, np.float32), copy=False)  # sums of whole numbers would wrap around
        return kmeans_plusplus(X, self.n_clusters, random_state=seed)[0].astype(np.float64)
