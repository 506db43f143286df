"""The control that a sequence person would try first: k-means under dynamic time warping with barycentre averages."""

import numpy as np

Sequences = list[np.ndarray]


def dtw_kmeans(sequences: Sequences, n_clusters: int, seed: int, max_iter: int = 10) -> np.ndarray:
    """Return labels; centres are averages along warping paths (Petitjean et al. 2011), the start greedy k-means++."""
    rng = np.random.default_rng(seed)
    X, lengths = _padded(sequences)
    chosen = [int(rng.integers(len(X)))]
    closest = _warped(sequences[chosen[0]], X, lengths)[0]
    while len(chosen) < n_clusters:
        tried = rng.choice(len(X), size=2 + int(np.log(n_clusters)), p=closest / closest.sum())
        costs = [np.minimum(closest, _warped(sequences[i], X, lengths)[0]) for i in tried]
        best = int(np.argmin([cost.sum() for cost in costs]))
        chosen.append(int(tried[best]))
        closest = costs[best]
    centres = [sequences[i] for i in chosen]
    labels = np.full(len(X), -1)
    for _ in range(max_iter):
        distances = np.stack([_warped(centre, X, lengths)[0] for centre in centres])
        if (distances.argmin(axis=0) == labels).all():
            break
        labels = distances.argmin(axis=0)
        for k in range(n_clusters):
            rows = np.flatnonzero(labels == k)
            if len(rows):
                centres[k] = _average(centres[k], X[rows], lengths[rows])
    return labels


def _padded(sequences: Sequences) -> tuple[np.ndarray, np.ndarray]:
    lengths = np.array([len(x) for x in sequences])
    X = np.zeros((len(sequences), lengths.max(), sequences[0].shape[1]))
    for x, sequence in zip(X, sequences, strict=True):
        x[: len(sequence)] = sequence
    return X, lengths


def _warped(centre: np.ndarray, X: np.ndarray, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return squared warping distances from one sequence to many, and the cumulative costs (P + 1, T + 1, N)."""
    P, T = len(centre), X.shape[1]
    cost = np.square(centre).sum(axis=1)[:, None, None] - 2 * np.einsum("pd,ntd->ptn", centre, X, optimize=True)
    cost += np.square(X).sum(axis=2).T
    G = np.full((P + 1, T + 1, len(X)), np.inf)
    G[0, 0] = 0
    for diagonal in range(2, P + T + 1):
        i = np.arange(max(1, diagonal - T), min(P, diagonal - 1) + 1)
        j = diagonal - i
        G[i, j] = cost[i - 1, j - 1] + np.minimum(np.minimum(G[i - 1, j - 1], G[i - 1, j]), G[i, j - 1])
    return np.maximum(G[P, lengths, np.arange(len(X))], 0.0), G


def _average(centre: np.ndarray, X: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return the centre whose every step is the mean of what the warping paths lay on it."""
    G = _warped(centre, X, lengths)[1]
    total, count, everyone = np.zeros_like(centre), np.zeros(len(centre)), np.arange(len(X))
    i, j = np.full(len(X), len(centre)), lengths.copy()
    while True:
        live = (i > 0) & (j > 0)
        if not live.any():
            return total / np.maximum(count, 1)[:, None]
        n = everyone[live]
        np.add.at(total, i[n] - 1, X[n, j[n] - 1])
        np.add.at(count, i[n] - 1, 1)
        before = np.stack([G[i[n] - 1, j[n] - 1, n], G[i[n] - 1, j[n], n], G[i[n], j[n] - 1, n]]).argmin(axis=0)
        i[n] -= before != 2
        j[n] -= before != 1
