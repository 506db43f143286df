"""Spherical k-means as the model ``hope.cosine``: the mean of 1 - cosine to the nearest centre."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, diags_array, issparse
from sklearn.cluster import kmeans_plusplus

import manifoldseq as ms
from manifoldseq.models import ClusterSums, farthest

from ..families._family import Array
from ..families._rows import check_directions, check_number_of, check_rows, unit_rows

_BLOCK = 1 << 18
_SEEN, _LEAST = 20, 2000
"""Number of rows per cluster, and minimum number of rows, that a start uses."""


@dataclass(frozen=True)
class Clusters:
    """K clusters of rows of D columns."""

    n_clusters: int
    n_features: int


def prepare(data: Any, *, n_clusters: int = 8) -> ms.Prepared:
    """Prepare the clustering of directions; `data` are rows, or the result of `directions`.

    Parameters
    ----------
    n_clusters : int
        The number K of clusters.
    """
    if not isinstance(data, tuple):
        check_number_of("n_clusters", n_clusters)
        rows = check_rows(data)
        check_directions(rows)
        data = directions(rows)
    return ms.Prepared(Clusters(n_clusters, data[0].shape[1]), ms.execution.RowBlocks.of(*data))


def manifold(model: Clusters) -> ms.manifolds.Manifold:
    """Return the manifold of K unit centres."""
    return ms.manifolds.Sphere(model.n_features) ** model.n_clusters


def statistics(model: Clusters, centres: Array, block: tuple[Any, Array]) -> ClusterSums:
    """Return the sums over a block of rows in the clusters of their nearest centres."""
    (rows, scale), K = block, model.n_clusters
    labels, cosine = nearest(rows, scale, centres)
    # rows by clusters, with what makes a row unit where it is: its transpose times the rows are the sums, (K, D)
    N = rows.shape[0]
    one = csr_array((scale, labels, np.arange(N + 1)), shape=(N, K))
    sums = np.asarray(_dense(one.T @ rows), dtype=np.float64)
    counts = np.bincount(labels, minlength=K).astype(np.float64)
    some = farthest(-cosine, int(_lost(sums).sum()), K)
    far = np.asarray(_dense(unit(rows, scale, some)), dtype=np.float64), -cosine[some].astype(np.float64)
    far = (*far, labels[some], np.ones(len(some)))
    return ClusterSums(float(N), counts, sums, float((1 - cosine.astype(np.float64)).sum()), far)


def value_and_gradient(model: Clusters, centres: Array, found: ClusterSums) -> tuple[float, Array]:
    """Return the mean of 1 - cosine, and its derivative where no row has two nearest centres."""
    return found.cost / found.n, (found.sums / -found.n).astype(centres.dtype)


def means(model: Clusters, centres: Array, found: ClusterSums) -> Array:
    """Return the mean directions of the clusters; lost clusters begin again at the rows farthest from their centres."""
    new = found.refilled(_lost(found.sums)).sums
    lost = _lost(new)
    length = np.where(lost, 1.0, np.linalg.norm(new, axis=1))
    return np.where(lost[:, None], centres, new / length[:, None])


def _lost(sums: Array) -> NDArray[np.bool_]:
    """Return which clusters have no rows, or rows that cancel, (K,)."""
    return np.count_nonzero(sums, axis=1) == 0


def seeds(problem: ms.Problem, rng: np.random.Generator) -> Array:
    """Return the seeds of spherical k-means++ among some of the rows."""
    blocks, K = problem.data.blocks, problem.data.model.n_clusters
    seen, most = np.arange(blocks.n), max(_SEEN * K, _LEAST)
    if most < blocks.n:
        seen = np.sort(rng.choice(blocks.n, most, replace=False))
    rows, scale = blocks.take(seen)
    rows = unit(rows, scale, slice(None)).astype(np.float64)
    return np.asarray(_dense(kmeans_plusplus(rows, K, random_state=int(rng.integers(2**31)))[0]))


def permuted(model: Clusters, centres: Array, rng: np.random.Generator) -> Array:
    """Return the centres in another order: the same cost."""
    return rng.permutation(centres)


def directions(X: Any) -> tuple[Any, Array]:
    """Return rows (N, D) and the factors (N,) that scale them to unit length; rows of zeros stay.

    The rows are X itself, which may be larger than memory, unless squares overflow or underflow.
    """
    if issparse(X):
        return unit_rows(X), np.ones(X.shape[0], X.dtype)
    limits = np.finfo(X.dtype)
    with np.errstate(all="ignore"):
        length = np.sqrt(np.einsum("nd,nd->n", X, X))
        if np.all((length > np.sqrt(limits.tiny) / limits.eps) & (length < np.inf)):
            return X, 1 / length
    return unit_rows(X), np.ones(len(X), X.dtype)


def nearest(rows: Any, scale: Array, centres: Array) -> tuple[NDArray[np.intp], Array]:
    """Return the nearest centre of each row and the cosine to it."""
    N = rows.shape[0]
    labels, cosine = np.empty(N, np.intp), np.empty(N, rows.dtype)
    across, size = centres.T.astype(rows.dtype), max(1, _BLOCK // len(centres))
    for start in range(0, N, size):
        part = slice(start, start + size)
        near = rows[part] @ across
        labels[part] = near.argmax(axis=1)
        cosine[part] = near[np.arange(len(near)), labels[part]]
    cosine *= scale
    return labels, cosine


def unit(rows: Any, scale: Array, which: Any) -> Any:
    """Return a block of rows scaled to unit length."""
    return diags_array(scale[which]) @ rows[which] if issparse(rows) else rows[which] * scale[which, None]


def _dense(rows: Any) -> Array:
    return rows.toarray() if issparse(rows) else rows
