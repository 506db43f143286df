"""k-means in the feature space of a kernel, and the agreement of clusterings of halves.

An epoch costs one product with the kernel matrix. Estimators whose centres are items, such as linear dynamical systems,
begin with these labels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating[Any]]
Labels = NDArray[np.int64]
Find = Callable[[Array, Sequence[int]], list[NDArray[np.intp]]]

N_STARTS = 10
"""Number of starts of a kernel k-means."""
LAPS = 30
"""Maximum number of epochs of a start."""


def kernel_kmeans(gram: Array, n_clusters: int, rng: np.random.Generator, n_init: int = N_STARTS) -> list[Labels]:
    """Return the labels of several starts of k-means in the feature space of a kernel matrix, the best first.

    Each start is chosen by k-means++. No cluster is empty.

    Parameters
    ----------
    gram : ndarray of shape (N, N)
        A symmetric kernel matrix.
    n_clusters : int
        At most N.
    rng : numpy.random.Generator
    n_init : int
        Number of starts.

    Returns
    -------
    list of ndarray of shape (N,), int

    Examples
    --------
    >>> x = np.array([0.0, 0.1, 5.0, 5.2])
    >>> labels = kernel_kmeans(np.outer(x, x), 2, np.random.default_rng(0))[0]
    >>> bool(labels[0] == labels[1] != labels[2] == labels[3])
    True
    """
    N, own = len(gram), gram.diagonal()
    found, values = [], []
    for _ in range(n_init):
        labels, squared = _spread_labels(gram, n_clusters, rng), np.empty((N, n_clusters))
        for _ in range(LAPS):
            shares = np.eye(n_clusters)[labels]
            shares /= shares.sum(axis=0)
            cross = gram @ shares
            # |phi(x) - centre|^2 = k(x, x) - 2 k(x, centre) + k(centre, centre), the centre a mean of members
            squared = own[:, None] - 2 * cross + np.einsum("ik,ik->k", shares, cross)
            new = squared.argmin(axis=1)
            if (new == labels).all() or np.bincount(new, minlength=n_clusters).min() == 0:
                break
            labels = new
        found.append(labels)
        values.append(float(squared[np.arange(N), labels].sum()))
    return [found[i] for i in np.argsort(values, kind="stable")]


def _spread_labels(gram: Array, n_clusters: int, rng: np.random.Generator) -> Labels:
    """Return the labels of the nearest of K rows of k-means++; each of these rows has its own label."""
    own = gram.diagonal()

    def squared_to(rows: NDArray[np.intp]) -> Array:
        return np.maximum(own + own[rows, None] - 2 * gram[rows], 0.0)

    rows = spread_rows(len(gram), n_clusters, rng, squared_to, trials=1)
    labels = np.argmin(squared_to(rows), axis=0)
    labels[rows] = np.arange(n_clusters)
    return labels


def spread_rows(
    n: int,
    n_clusters: int,
    rng: np.random.Generator,
    away: Callable[[NDArray[np.intp]], Array],
    *,
    power: int = 1,
    trials: int | None = None,
) -> NDArray[np.intp]:
    """Choose the rows of K members out of n by greedy k-means++ (Arthur and Vassilvitskii 2007).

    Each row is the best of several candidates, which are drawn with probabilities proportional to a power of the
    distance from the nearest row so far: the sum of these distances is smallest with the best candidate.

    Parameters
    ----------
    n, n_clusters : int
    rng : numpy.random.Generator
    away : callable
        ``away(rows) -> ndarray of shape (len(rows), n)``: distances from some rows to all, or squared distances.
    power : int
        The power for the probabilities: 1 for squared distances, 2 for distances.
    trials : int, optional
        Number of candidates, by default ``2 + int(log(n_clusters))``.

    Returns
    -------
    ndarray of shape (n_clusters,), int

    Examples
    --------
    >>> x = np.array([0.0, 0.1, 5.0, 5.1])
    >>> rows = spread_rows(4, 2, np.random.default_rng(0), lambda rows: (x[rows, None] - x) ** 2)
    >>> sorted((x[rows] > 1).tolist())
    [False, True]
    """
    trials = 2 + int(np.log(n_clusters)) if trials is None else trials
    rows = [int(rng.integers(n))]
    nearest = away(np.array(rows))[0]
    while len(rows) < n_clusters:
        weights = nearest**power
        weights[rows] = 0.0
        if not weights.sum() > 0:  # all others are equal to a chosen one
            weights = np.isin(np.arange(n), rows, invert=True).astype(float)
        candidates = rng.choice(n, size=trials, p=weights / weights.sum())
        nearer = np.minimum(nearest, away(candidates))
        best = int(nearer.sum(axis=1).argmin())
        rows.append(int(candidates[best]))
        nearest = nearer[best]
    return np.array(rows)


def agreements(K: Array, order: NDArray[np.intp], clusters: Sequence[int], find: Find) -> list[float]:
    """Return the adjusted Rand index between the clusterings of two halves, for each number of clusters.

    The clustering of each half is extended to all rows. The index is 1 if the two clusterings agree, and 0 on average
    for random clusterings. A high value does not show that clusters are meaningful.

    Parameters
    ----------
    K : ndarray of shape (N, N)
        A kernel matrix.
    order : ndarray of shape (N,), int
        A permutation of the rows; the first half and the second half are compared.
    clusters : sequence of int
    find : callable
        ``find(K, clusters)`` returns the labels of a half for each number of clusters.

    Returns
    -------
    list of float

    Examples
    --------
    >>> x, rng = np.repeat([0.0, 5.0], 6), np.random.default_rng(0)
    >>> find = lambda K, clusters: [kernel_kmeans(K, k, rng)[0] for k in clusters]
    >>> agreements(np.outer(x, x), np.arange(12)[::-1].reshape(2, 6).T.ravel(), [2], find)
    [1.0]
    """
    halves = order[: len(order) // 2], order[len(order) // 2 :]
    inner = [K[np.ix_(rows, rows)] for rows in halves]
    across = K[np.ix_(*halves)]
    found = []
    for k, labels in zip(clusters, zip(*(find(one, clusters) for one in inner), strict=True), strict=True):
        both = []
        for a, b, cross in ((0, 1, across.T), (1, 0, across)):
            members = np.eye(k)[labels[a]]
            members /= np.maximum(members.sum(axis=0), 1.0)
            # |phi(x) - centre|^2 but for k(x, x), with the mean of the members as centre
            squared = (members * (inner[a] @ members)).sum(axis=0) - 2 * cross @ members
            both.append(adjusted_rand(labels[b], squared.argmin(axis=1), k))
        found.append(float(np.mean(both)))
    return found


def adjusted_rand(one: NDArray[np.intp], other: NDArray[np.intp], k: int) -> float:
    """Return the adjusted Rand index of two assignments to the clusters 0 to k - 1.

    Equivalent to `sklearn.metrics.adjusted_rand_score`, which validates its input: with it, a choice of settings on 80
    sequences takes 1.9 times as long (``python -m benchmarks.lds settings``).
    """
    table = np.bincount(one * k + other, minlength=k * k).reshape(k, k).astype(float)
    pairs, rows, columns, total = (
        float((n * (n - 1)).sum()) for n in (table, table.sum(axis=1), table.sum(axis=0), table.sum())
    )
    expected, most = rows * columns / max(total, 1.0), (rows + columns) / 2
    return (pairs - expected) / (most - expected) if most > expected else 1.0
