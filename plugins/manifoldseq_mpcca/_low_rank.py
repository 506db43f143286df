"""Where EM with private latent vectors begins: noise of low rank plus a diagonal, pooled within clusters of k-means.

Each view has the factors that it shares with the others, and factors of its own.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

import manifoldseq as ms

from ._em import EM
from ._parameters import Array, Mixture
from ._starts import Start
from ._statistics import Prior
from ._views import View

_LEAST_NOISE = 0.05
"""Share of the variance that the noise keeps at least in the start."""
_MOST_ITERATIONS, _TOL = 50, 1e-6
"""Of the fit of what is pooled."""


@dataclass(frozen=True, eq=False)
class LowRank:
    """What the components have in common: a mixture of one that is fitted to rows less the means of their clusters."""

    pooled: Mixture

    @classmethod
    def of(cls, start: Start, private: tuple[int, ...]) -> Self:
        """Return the likeliest mixture of one, (D,) columns, for the rows of a start less the means of clusters."""
        labels = start.clusters()
        means = _means(start, labels)
        rows = start.rows - means[labels]
        first = _first(rows * np.sqrt(start.weights / start.weights.mean())[:, None], start, private)
        rows[start.holes] = np.nan
        views: list[View] = [rows[:, columns] for columns in start.columns]
        weights = None if (start.weights == 1).all() else start.weights
        origin = np.zeros(rows.shape[1])
        em = EM.of_parts(views, origin, start.floor, "expanded", True, weights, private)
        stop = ms.CostChange(_TOL) | ms.MaxIterations(_MOST_ITERATIONS)
        run = ms.iterate(em.step, lambda: em.start(first), stop=stop)
        return cls(Mixture.from_point(run.state["x"], private))

    def prior(self, rows: float, diagonal: float) -> Prior | None:
        """Return the prior that counts as so many rows in each component; none for no rows."""
        return Prior.of(self.pooled, rows, diagonal) if rows else None

    def mixture(self, start: Start) -> Mixture:
        """Return the mixture of the clusters of a start, with the pooled loadings and noise in each."""
        labels, one = start.clusters(), self.pooled
        counts = np.bincount(labels, start.weights, minlength=start.n_components)
        if start.n_components == 1:
            means = one.means
        else:
            means = _means(start, labels)
        K = len(counts)
        loadings, noise = np.repeat(one.loadings, K, axis=0), [np.repeat(part, K, axis=0) for part in one.noise]
        return Mixture.trusted(counts / counts.sum(), means + start.moments.mean, loadings, noise, one.private)


def private_sizes(n_private: int, sizes: tuple[int, ...]) -> tuple[int, ...]:
    """Return how many private latent dimensions views of these sizes have: fewer than columns."""
    return tuple(min(n_private, size - 1) for size in sizes)


def _means(start: Start, labels: NDArray[np.int64]) -> Array:
    """Return the means of clusters, (K, D)."""
    return np.stack(
        [
            np.average(start.rows[labels == k], axis=0, weights=start.weights[labels == k])
            for k in range(start.n_components)
        ]
    )


def _first(rows: Array, start: Start, private: tuple[int, ...]) -> Mixture:
    """Return shared factors by canonical correlations of principal components, then private ones by what is left."""
    (n, D), d = rows.shape, start.n_latent
    scale = np.sqrt(np.maximum(np.mean(rows**2, axis=0), start.floor))
    Z = rows / scale
    # orthonormal principal components of each view, side by side, (n, r): singular vectors are what views share, and
    # squared singular values 1 + (V - 1) p
    bases = []
    for columns, q in zip(start.columns, private, strict=True):
        U, s, _ = np.linalg.svd(Z[:, columns], full_matrices=False)
        found = int(min(2 * (d + q) + 1, np.count_nonzero(s > 1e-6 * s[0]), max(n // 4, 1)))
        bases.append(U[:, :found])
    V = len(bases)
    loadings, psi = np.zeros((D, d + sum(private))), np.ones(D)
    rest = Z
    if d:
        G, s, _ = np.linalg.svd(np.concatenate(bases, axis=1), full_matrices=False)
        G, s = G[:, :d], s[:d]
        p = np.clip((s**2 - 1) / (V - 1), 0.01, 0.99)
        W = Z.T @ G / np.sqrt(n)
        rest = Z - G @ (G.T @ Z)
        loadings[:, : len(s)] = W * np.sqrt(V * p / (1 + (V - 1) * p))
    end = d
    for columns, q in zip(start.columns, private, strict=True):
        _, s, Vt = np.linalg.svd(rest[:, columns], full_matrices=False)
        values = s**2 / n
        found = min(q, len(s))
        share = np.maximum(values[:found] - values[found:].mean() if len(s) > found else values[:found], 0.0)
        share = np.maximum(share, 0.1 * values[:found])
        loadings[columns, end : end + found] = Vt[:found].T * np.sqrt(share)
        end += q
    psi = np.maximum(1 - np.sum(loadings**2, axis=1), _LEAST_NOISE)
    noise: list[Array] = [np.maximum(psi * scale**2, start.floor)[None, columns] for columns in start.columns]
    return Mixture.trusted(np.ones(1), np.zeros((1, D)), (scale[:, None] * loadings)[None], noise, private)
