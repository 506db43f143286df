"""Starts of EM: k-means and a closed form per cluster, or random components."""

import warnings
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans

from manifoldseq.estimators import check_choice, quoted, row_blocks

from ._maximization import raised
from ._parameters import Array, Mixture
from ._views import Moments, View

_MOST_ROWS = 20_000
"""Maximum number of rows for a start."""
_LEAST_NOISE = 0.05
"""Minimum fraction of the variance that is noise in the start ``"factors"``."""
_TINY_LOADING = 1e-2


class TooFewRows(ValueError):
    """Error for data with fewer distinct rows than components."""


@dataclass(frozen=True)
class Start:
    """The rows for a start, and the start from these rows.

    Attributes
    ----------
    views : list of ndarray of shape (N, d_v)
    chosen : ndarray of shape (n,), or slice
        The rows.
    moments : Moments
    columns : tuple of slice
        The columns of each view.
    n_components, n_latent : int
    full : bool
    floor : ndarray of shape (D,)
    rng : Generator
    weights : ndarray of shape (n,)
        The weights of the rows.
    """

    views: list[View]
    chosen: NDArray[np.intp] | slice
    moments: Moments
    columns: tuple[slice, ...]
    n_components: int
    n_latent: int
    full: bool
    floor: Array
    rng: np.random.Generator
    weights: Array

    @classmethod
    def of(
        cls,
        views: list[View],
        moments: Moments,
        n_components: int,
        n_latent: int,
        full: bool,
        floor: Array,
        rng: np.random.Generator,
        weights: Array | None = None,
    ) -> "Start":
        """Draw the rows."""
        N, ends = len(views[0]), np.cumsum([0, *(view.shape[1] for view in views)])
        chosen = slice(None) if N <= _MOST_ROWS else np.sort(rng.choice(N, _MOST_ROWS, replace=False))
        columns = tuple(slice(int(a), int(b)) for a, b in pairwise(ends))
        weights = np.ones(min(N, _MOST_ROWS)) if weights is None else weights[chosen]
        return cls(views, chosen, moments, columns, n_components, n_latent, full, floor, rng, weights)

    @property
    def rows(self) -> Array:
        """The rows minus the mean of all rows, (n, D), with missing values set to zero, as a new array at each call."""
        rows = np.empty((len(self.weights), self.columns[-1].stop))
        for view, columns in zip(self.views, self.columns, strict=True):
            rows[:, columns] = view[self.chosen]
        rows -= self.moments.mean
        rows[np.isnan(rows)] = 0.0
        return rows

    @property
    def holes(self) -> NDArray[np.bool_]:
        """Mask of missing values, (n, D)."""
        return np.hstack([np.isnan(view[self.chosen]) for view in self.views])

    def mixture(self, kind: str) -> Mixture:
        """Return the start of a kind.

        ``"cca"``: k-means on standardized columns, then canonical correlations per cluster, Bach and Jordan's closed
        form; the exact optimum for one component with full noise of two views. ``"factors"``: k-means, then principal
        factors per cluster. ``"random"``: means at random rows, random loadings for half of each variance. ``"auto"``
        is ``"cca"`` for full noise, else ``"factors"``.
        """
        if kind == "random":
            return self._random()
        labels, rows = self.clusters(), self.rows
        counts = np.bincount(labels, self.weights, minlength=self.n_components)
        means = np.stack([rows[labels == k].mean(axis=0) for k in range(self.n_components)])
        for part in row_blocks(len(rows)):  # in place: there is no second copy
            rows[part] -= means[labels[part]]
        pooled = self._covariances(rows)
        correlated = self.full if kind == "auto" else kind == "cca"
        parts = [self._component(rows[labels == k], pooled, correlated) for k in range(len(means))]
        loadings = np.stack([W for W, _ in parts])
        noise = [np.stack([own[v] for _, own in parts]) for v in range(len(self.columns))]
        return Mixture.trusted(counts / counts.sum(), means + self.moments.mean, loadings, noise)

    def scatter(self, labels: NDArray[np.int64]) -> Array:
        """Return sum [v, 1] [v, 1]' over the rows v of each cluster, (K, D + 1, D + 1)."""
        rows = np.column_stack([self.rows, np.ones(len(self.weights))])
        weighted = rows * self.weights[:, None]
        return np.stack([weighted[labels == k].T @ rows[labels == k] for k in range(self.n_components)])

    def clusters(self) -> NDArray[np.int64]:
        """Return the labels of k-means on standardized columns."""
        K = self.n_components
        if K == 1:
            return np.zeros(len(self.weights), np.int64)
        seed = int(self.rng.integers(2**31))
        means = KMeans(K, n_init=1, max_iter=50, random_state=seed, copy_x=False)  # pyright: ignore
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # too few distinct rows: said below
            scaled = self.rows
            scaled /= np.sqrt(self.moments.variance)
            labels = means.fit_predict(scaled, sample_weight=self.weights).astype(np.int64)
        found = len(np.unique(labels))
        if found < K:
            raise TooFewRows(f"n_components={K} exceeds the {found} distinct rows of the data: lower n_components")
        return labels

    def _covariances(self, centred: Array) -> list[Array]:
        """Return the covariances of each view, or the variances."""
        parts = [centred[:, columns] for columns in self.columns]
        return [x.T @ x / len(x) if self.full else np.mean(x**2, axis=0) for x in parts]

    def _component(self, centred: Array, pooled: list[Array], correlated: bool) -> tuple[Array, list[Array]]:
        """Return loadings and noise of one cluster, shrunk towards those of all clusters together."""
        n, D = centred.shape
        own = n / (n + D) if self.n_components > 1 else 1.0
        # own covariance and the pooled one, mixed by n rows against D columns
        covariances = [
            self._bounded(own * S + (1 - own) * T, columns)
            for S, T, columns in zip(self._covariances(centred), pooled, self.columns, strict=True)
        ]
        if correlated:
            roots = [_root(S) if self.full else np.sqrt(S) for S in covariances]
        else:
            roots = [np.sqrt(0.5 * (np.diagonal(S) if self.full else S)) for S in covariances]
        # rows with each view whitened, (n, D): singular values beyond one are what views (columns) have in common
        white = np.concatenate([_whitened(centred[:, c], R) for c, R in zip(self.columns, roots, strict=True)], axis=1)
        _, s, Vt = np.linalg.svd(white / np.sqrt(n), full_matrices=False)
        found = min(self.n_latent, len(s))
        # the whitened covariance is I + (what the views share): W W' in these units
        share = np.maximum(s[:found] ** 2 - 1, 0.0) * own
        if correlated:  # singular vectors have 1/V of their length in each of V views
            V = len(self.columns)
            share = np.minimum(share / (V - 1), 1.0) * V
        W = _TINY_LOADING * self.rng.standard_normal((D, self.n_latent))
        W[:, :found] = np.where(share > 0, Vt[:found].T * np.sqrt(share), W[:, :found])
        for c, R in zip(self.columns, roots, strict=True):
            W[c] = R @ W[c] if R.ndim == 2 else R[:, None] * W[c]
        return W, [self._rest(S, W[c], c) for S, c in zip(covariances, self.columns, strict=True)]

    def _rest(self, covariance: Array, W: Array, columns: slice) -> Array:
        """Return the noise as the residual of loadings."""
        if self.full:
            return raised(covariance - W @ W.T, self.floor[columns])
        return np.maximum(covariance - np.sum(W**2, axis=1), _LEAST_NOISE * covariance)

    def _bounded(self, covariance: Array, columns: slice) -> Array:
        floor = self.floor[columns]
        return raised(covariance, floor) if self.full else np.maximum(covariance, floor)

    def _random(self) -> Mixture:
        K, d, rows = self.n_components, self.n_latent, self.rows
        chosen = self.rng.choice(len(rows), K, replace=False)
        loadings, noise = np.empty((K, rows.shape[1], d)), []
        pooled = self._covariances(rows)
        for columns, S in zip(self.columns, pooled, strict=True):
            S = self._bounded(S, columns)
            directions = self.rng.standard_normal((K, len(S), d))
            if self.full:
                directions = np.linalg.qr(directions)[0] * np.sqrt(0.5)
                loadings[:, columns] = _root(S) @ directions
                noise.append(np.stack([self._rest(S, W, columns) for W in loadings[:, columns]]))
            else:
                directions *= np.sqrt(0.5) / np.maximum(np.linalg.norm(directions, axis=2, keepdims=True), 1e-300)
                loadings[:, columns] = np.sqrt(S)[:, None] * directions
                noise.append(np.tile(0.5 * S, (K, 1)))
        means = rows[chosen] + self.moments.mean
        return Mixture.trusted(np.full(K, 1 / K), means, loadings, noise)


def _root(covariance: Array) -> Array:
    """Return a square root R with RR' = covariance, from the correlations, which is accurate in all units."""
    scale = np.sqrt(np.diagonal(covariance))
    values, vectors = np.linalg.eigh(covariance / (scale[:, None] * scale))
    return scale[:, None] * (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T


def _whitened(rows: Array, root: Array) -> Array:
    return rows / root if root.ndim == 1 else np.linalg.solve(root, rows.T).T


def check_init(
    init: Any,
    names: tuple[str, ...],
    sizes: tuple[int, ...],
    n_components: int,
    n_latent: int,
    full: bool,
    private: tuple[int, ...] = (),
) -> None:
    """Raise ValueError unless the value is the name of an initializer or a mixture of this size."""
    if not isinstance(init, Mixture):
        check_choice("init", init, names, "a Mixture")
        return
    wanted = (n_components, sizes, n_latent, full, private)
    if (init.n_components, init.views, init.n_latent, init.full, init.private) != wanted:
        kind = "full" if full else f"private={private}" if private else "diag"
        raise ValueError(
            f"init={quoted(init)} is not valid: pass a Mixture with K={n_components}, views={sizes}, d={n_latent}, "
            f"{kind}"
        )
