"""k-means on a kernel matrix, and the agreement of clusterings of halves, against scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score

import manifoldseq as ms


def blobs(seed: int, spread: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Return rows around four centres, and their centres' numbers."""
    rng = np.random.default_rng(seed)
    y = np.arange(60) % 4
    return 6 * rng.standard_normal((4, 5))[y] + spread * rng.standard_normal((60, 5)), y


@pytest.mark.parametrize("seed", range(5))
def test_the_linear_kernel_gives_k_means(seed: int) -> None:
    """Of rows that overlap: the best start is as good as that of scikit-learn, and a fixed point of Lloyd's steps."""
    X, _ = blobs(seed, spread=3.0)
    found = ms.kernels.kernel_kmeans(X @ X.T, 4, np.random.default_rng(0), 30)
    inertias = np.array([sum(np.square(X[y == k] - X[y == k].mean(axis=0)).sum() for k in range(4)) for y in found])
    assert (np.diff(inertias) >= -1e-9 * inertias[0]).all()
    assert inertias[0] <= 1.02 * KMeans(4, n_init=30, random_state=0).fit(X).inertia_
    centres = np.stack([X[found[0] == k].mean(axis=0) for k in range(4)])
    np.testing.assert_array_equal(np.square(X[:, None] - centres).sum(axis=2).argmin(axis=1), found[0])


def test_no_cluster_is_empty_where_items_are_equal() -> None:
    for labels in ms.kernels.kernel_kmeans(np.ones((5, 5)), 3, np.random.default_rng(0)):
        assert np.bincount(labels, minlength=3).all()


def test_halves_agree_as_scikit_learn_carries_them_over() -> None:
    X, y = blobs(1, spread=4.0)
    order = np.random.default_rng(0).permutation(60)

    def find(K: np.ndarray, clusters: list[int]) -> list[np.ndarray]:
        return [ms.kernels.kernel_kmeans(K, k, np.random.default_rng(3))[0] for k in clusters]

    halves = [X[order[:30]], X[order[30:]]]
    labels = [find(half @ half.T, [4])[0] for half in halves]
    values = []
    for a, b in ((0, 1), (1, 0)):
        centres = np.stack([halves[a][labels[a] == k].mean(axis=0) for k in range(4)])
        carried = np.square(halves[b][:, None] - centres).sum(axis=2).argmin(axis=1)
        values.append(adjusted_rand_score(labels[b], carried))
    assert ms.kernels.agreements(X @ X.T, order, [4], find)[0] == pytest.approx(np.mean(values))
    assert ms.kernels.adjusted_rand(y, np.roll(y, 7), 4) == pytest.approx(adjusted_rand_score(y, np.roll(y, 7)))
