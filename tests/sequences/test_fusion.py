"""Similarity network fusion: compared with loops over its equations."""

from __future__ import annotations

import numpy as np

from manifoldseq_sequences._fusion import NEIGHBOURS, ROUNDS, fuse


def fused_by_loops(views: list[np.ndarray], weights: list[float]) -> np.ndarray:
    """Return the fused graph by the equations of Wang et al. (2014), one pair of sequences after the other."""
    N, k = len(views[0]), NEIGHBOURS
    P, S = [], []
    for Z in views:
        d = np.array([[np.linalg.norm(Z[i] - Z[j]) for j in range(N)] for i in range(N)])
        length = [np.mean(np.sort(np.delete(d[i], i))[:k]) for i in range(N)]
        W = np.array([[np.exp(-(d[i, j] ** 2) / (length[i] * length[j])) + 1e-12 for j in range(N)] for i in range(N)])
        P.append(np.array([[_kept(W, i, j) for j in range(N)] for i in range(N)]))
        near = np.zeros((N, N))
        for i in range(N):
            columns = np.argsort(-W[i])[:k]
            near[i, columns] = W[i, columns] / W[i, columns].sum()
        S.append(near)
    for _ in range(ROUNDS):
        new = []
        for v in range(len(views)):
            rest = sum(weights[u] for u in range(len(views)) if u != v)
            others = sum(weights[u] * P[u] for u in range(len(views)) if u != v) / rest
            smoothed = S[v] @ others @ S[v].T
            smoothed = (smoothed + smoothed.T) / 2
            new.append(np.array([[_kept(smoothed, i, j) for j in range(N)] for i in range(N)]))
        P = new
    fused = sum(w * p for w, p in zip(weights, P, strict=True))
    return (fused + fused.T) / 2


def _kept(W: np.ndarray, i: int, j: int) -> float:
    """Return entry (i, j) of the walk that stays with probability 1/2."""
    return 0.5 if i == j else W[i, j] / (2 * (W[i].sum() - W[i, i]))


def test_the_embedding_is_that_of_the_fused_graph() -> None:
    rng = np.random.default_rng(0)
    views = {name: rng.standard_normal((30, r)) for name, r in (("a", 2), ("b", 3), ("c", 5))}
    weights = {"a": 0.5, "b": 0.3, "c": 0.2}
    W = fused_by_loops(list(views.values()), list(weights.values()))
    np.fill_diagonal(W, 0.0)
    degree = W.sum(axis=1)
    V = np.linalg.eigh(W / np.sqrt(np.outer(degree, degree)))[1]
    expected = V[:, -4:] / np.sqrt(degree)[:, None]
    expected /= np.sqrt(np.mean(expected**2, axis=0))
    found = fuse(views, weights, 4).features
    signs = np.sign(np.sum(found * expected, axis=0))
    np.testing.assert_allclose(found * signs, expected, atol=1e-9)
