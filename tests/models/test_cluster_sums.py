"""Sums of clusters: a cluster without rows begins again at the farthest row of a cluster that keeps another."""

from __future__ import annotations

from functools import reduce
from operator import add

import numpy as np
import pytest
from helpers import parametrize

import manifoldseq as ms
from manifoldseq.models import ClusterSums, farthest, restarts

K = 5


def drawn(seed: int, N: int = 14) -> tuple[np.ndarray, ...]:
    """Rows, costs with ties, clusters (some without rows) and weights."""
    rng = np.random.default_rng(seed)
    labels = rng.choice(rng.permutation(K)[:3], N)
    return rng.standard_normal((N, 2)), rng.integers(0, 6, N) / 2, labels, rng.integers(1, 3, N).astype(float)


def sums_of(rows: np.ndarray, costs: np.ndarray, labels: np.ndarray, weights: np.ndarray) -> ClusterSums:
    member = (labels[:, None] == np.arange(K)) * weights[:, None]
    counts = member.sum(axis=0)
    far = farthest(costs, np.count_nonzero(counts == 0), K)
    parts = rows[far], costs[far], labels[far], weights[far]
    return ClusterSums(float(weights.sum()), counts, member.T @ rows, float(costs @ weights), parts)


def naive(costs: np.ndarray, labels: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The clusters of the rows after the restarts, by a loop over clusters and rows."""
    new, moved = labels.copy(), set()
    for k in range(K):
        if (labels == k).any():
            continue
        best = None
        for i in range(len(costs)):
            keeps = [j for j in range(len(costs)) if new[j] == new[i] and j != i]
            if i not in moved and keeps and (best is None or costs[i] > costs[best]):
                best = i
        if best is not None:
            new[best] = k
            moved.add(best)
    return new


@parametrize("seed", range(20), fast=5)
def test_a_lost_cluster_gets_the_farthest_row_of_a_cluster_of_two_or_more(seed: int) -> None:
    rows, costs, labels, weights = drawn(seed)
    expected = naive(costs, labels, weights)
    counts = np.bincount(labels, minlength=K)
    found = list(restarts(counts == 0, counts, costs, labels))
    new = labels.copy()
    for k, i in found:
        new[i] = k
    np.testing.assert_array_equal(new, expected)
    np.testing.assert_array_equal(counts, np.bincount(new, minlength=K))
    whole = sums_of(rows, costs, labels, weights)
    refilled, by_hand = whole.refilled(whole.counts == 0), sums_of(rows, costs, expected, weights)
    np.testing.assert_allclose(refilled.counts, by_hand.counts)
    np.testing.assert_allclose(refilled.sums, by_hand.sums, atol=1e-14)


@parametrize("seed", range(10), fast=3)
def test_blocks_and_means_of_rows_restart_at_the_same_rows(seed: int) -> None:
    """What scales the sums scales the weights of rows."""
    parts = drawn(seed)
    whole = sums_of(*parts)
    expected = whole.refilled(whole.counts == 0)
    blocks = [sums_of(*(part[rows] for part in parts)) for rows in (slice(0, 4), slice(4, 9), slice(9, None))]
    joined = reduce(add, blocks)
    means = whole.per_row()
    for made, scale in ((joined, 1.0), (means, whole.n)):
        found = made.refilled(made.counts == 0)
        np.testing.assert_allclose(found.counts * scale, expected.counts, atol=1e-13)
        np.testing.assert_allclose(found.sums * scale, expected.sums, atol=1e-13)


@pytest.mark.parametrize("solver", [None, 30], ids=["em", "online"])
@pytest.mark.parametrize("model", ["hope.cosine", "hierarchical.clusters"])
def test_every_solver_fills_all_clusters_from_equal_centres(model: str, solver: int | None) -> None:
    rng = np.random.default_rng(0)
    X = np.repeat(8 * np.eye(6)[:4], 40, axis=0) + rng.standard_normal((160, 6))
    problem = ms.get_model(model).problem(X, n_clusters=4)
    centres = np.repeat(X[:1], 4, axis=0)
    x0 = centres / np.linalg.norm(centres[0]) if model == "hope.cosine" else (np.eye(6)[:, :3], centres)
    em = "em" if solver is None else ms.solvers.OnlineEM(solver)
    run = ms.minimize(problem, x0, solver=em, stop=ms.MaxIterations(20), seed=0)
    found = run.x if model == "hope.cosine" else run.x[1]
    near = found @ X.T - np.square(found).sum(axis=1)[:, None] / 2
    assert (np.bincount(near.argmax(axis=0), minlength=4) > 0).all()
    if solver is None:
        assert (np.diff(run.history["fun"]) <= 1e-12).all()
