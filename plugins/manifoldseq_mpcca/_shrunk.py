"""EM for covariances that are shrunk towards a pooled one, and the targets of shrinkage for low-rank noise.

The algorithm computes a mode of the posterior under an inverse Wishart prior.

The missing data of EM are the responsibilities and not the latent vectors: the M-step shrinks the covariance of all
columns of each component, and computes the maximum-likelihood loadings and noise for this covariance. No step lowers
the posterior.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

import manifoldseq as ms

from ._expectation import SKIP, Expectation
from ._parameters import Array, Mixture
from ._patterns import grouped, kinds
from ._starts import Start
from ._statistics import Prior
from ._views import CheckedViews, View

State = dict[str, Any]
"""``x``: `Mixture.point`; ``statistics`` at it: `Scatter`; ``prior``, the pooled covariance; ``start``, a number."""

_LARGEST_CORRELATION = 1 - 1e-9
"""Canonical correlations of loadings stay below this, so that the noise of each view stays positive definite."""
_INNER = 20
"""Inner iterations of EM in the M-step of three and more views, which has no closed form."""
_SETTLING = 10
"""Iterations that update the prior before the first iteration, if values are missing."""
_LEAST_NOISE = 0.05
"""Minimum fraction of the variance that is noise in the start."""
_MOST_ITERATIONS, _TOL = 50, 1e-6
"""Settings of the fit of the pooled mixture."""


@dataclass(frozen=True, eq=False)
class Scatter:
    """Sums over the rows for the M-step.

    Attributes
    ----------
    moments : ndarray of shape (K, D + 1, D + 1)
        sum g <[v, 1] [v, 1]'>, where v is a row minus the origin.
    log_likelihood : float
        (12), of the mixture that made the responsibilities.
    """

    moments: Array
    log_likelihood: float

    @property
    def counts(self) -> Array:
        """sum g, (K,)."""
        return self.moments[:, -1, -1]

    def means(self, instead: Array) -> Array:
        """Return the means minus the origin, (K, D); components without rows keep the given means."""
        alive = self.counts > np.finfo(float).tiny
        counts = np.where(alive, self.counts, 1.0)[:, None]
        return np.where(alive[:, None], self.moments[:, :-1, -1] / counts, instead)

    def within(self, means: Array) -> Array:
        """Return the scatter about the means of the components, (K, D, D)."""
        S = self.moments[:, :-1, :-1] - self.counts[:, None, None] * means[:, :, None] * means[:, None, :]
        return (S + S.mT) / 2


@dataclass(frozen=True)
class ShrunkEM:
    """The data of one problem and its iteration; `step` never lowers the posterior.

    Attributes
    ----------
    groups : tuple of (columns, views, weights)
        Groups of rows with the same observed columns: the mask (D,) of the columns, the observed views, and the weights
        or None.
    n : float
        Sum of the weights of rows.
    origin, floor : ndarray of shape (D,)
        The floor is added to the variances of the prior.
    constant : ndarray of bool of shape (D,)
        Columns that have the variance of the floor in every component, so that their determinants favour no component.
    sizes : tuple of int
        Columns of each view.
    n_latent : int
    shrinkage : float
        The weight nu of the prior of the covariance of a component, as a number of rows.
    diagonal : float
        Weight of the diagonal of the pooled covariance in the prior.
    """

    groups: tuple[tuple[NDArray[np.bool_], list[Any], Array | None], ...]
    n: float
    origin: Array
    floor: Array
    constant: NDArray[np.bool_]
    sizes: tuple[int, ...]
    n_latent: int
    shrinkage: float
    diagonal: float

    @classmethod
    def of(cls, data: CheckedViews, noise_floor: float, n_latent: int, shrinkage: float, diagonal: float) -> Self:
        """Return the problem of views."""
        groups, moments = tuple(grouped(data)), data.moments
        assert moments is not None  # views that are fitted have them
        known = moments.mean, noise_floor * moments.variance, moments.constant
        return cls(groups, float(data.n), *known, data.sizes, n_latent, shrinkage, diagonal)

    def start(self, first: Start | Mixture, number: int = 0) -> tuple[State, ms.Measures]:
        """Return the initial state of EM and its measures, from clusters of k-means or from a mixture."""
        if isinstance(first, Mixture):
            mixture, scatter = first, self.evaluate(first)
        else:
            mixture, scatter = None, Scatter(first.scatter(), -np.inf)
        prior = self.pooled(scatter)
        if mixture is None:
            mixture = self.maximize(scatter, prior, None)
            scatter = self.evaluate(mixture)
        if any(not columns.all() for columns, _, _ in self.groups):
            for _ in range(_SETTLING):
                prior = self.pooled(scatter)
                mixture = self.maximize(scatter, prior, mixture)
                scatter = self.evaluate(mixture)
        return self._at(mixture, scatter, prior, number)

    def step(self, state: State) -> tuple[State, ms.Measures]:
        """Return the state after one iteration, which does not lower the posterior."""
        scatter = Scatter(**state["statistics"])
        mixture = self.maximize(scatter, state["prior"], Mixture.from_point(state["x"]))
        return self._at(mixture, self.evaluate(mixture), state["prior"], state["start"])

    def pooled(self, scatter: Scatter) -> Array:
        """Return the covariance within components, (D, D), shrunk to its diagonal."""
        pooled = (
            scatter.within(scatter.means(np.zeros(scatter.moments.shape[1] - 1))).sum(axis=0) / scatter.counts.sum()
        )
        variances = np.diagonal(pooled) + self.floor
        return (1 - self.diagonal) * pooled + np.diag(self.diagonal * variances + (1 - self.diagonal) * self.floor)

    def maximize(self, scatter: Scatter, prior: Array, old: Mixture | None) -> Mixture:
        """Return the mixture of the next iteration."""
        counts, nu = scatter.counts, self.shrinkage
        means = scatter.means(np.zeros(len(prior)) if old is None else old.means - self.origin)
        # the mode of the posterior given the scatter of N_k rows: (scatter + nu S_0) / (N_k + nu)
        still = counts[:, None, None] * np.diag(self.floor * self.constant)
        S = (scatter.within(means) + still + nu * prior) / (counts + nu)[:, None, None]
        loadings, noise = cut(S, self.sizes, self.n_latent, old)
        return Mixture.trusted(counts / counts.sum(), means + self.origin, loadings, noise)

    def evaluate(self, mixture: Mixture) -> Scatter:
        """Return the scatter of all rows, including the expectations of missing values."""
        D = len(self.origin)
        whole, log_likelihood = np.zeros((mixture.n_components, D + 1, D + 1)), 0.0
        for columns, views, weights in self.groups:
            seen = mixture.observed(columns)
            moments, value = _moments(Expectation(seen, self.origin[columns]), views, weights)
            whole += moments if columns.all() else self._completed(moments, mixture, columns)
            log_likelihood += value
        return Scatter(whole, log_likelihood)

    def log_prior(self, mixture: Mixture, prior: Array) -> float:
        """Return the log-density of the covariances under the prior, up to a constant."""
        # tr(S_0 Sigma^-1) = |L^-1 R|² with Sigma = L L' and S_0 = R R'
        L, R = np.linalg.cholesky(dense(mixture)), np.linalg.cholesky(prior)
        log_det = 2 * np.log(np.diagonal(L, axis1=1, axis2=2)).sum()
        trace = sum(float(np.sum(solve_triangular(one, R, lower=True) ** 2)) for one in L)
        return float(-self.shrinkage / 2 * (log_det + trace))

    def _completed(self, moments: Array, mixture: Mixture, columns: NDArray[np.bool_]) -> Array:
        """Return second moments of all columns from those of the observed columns, by the posterior of the others."""
        Sigma, mu = dense(mixture), mixture.means - self.origin
        o, m = np.flatnonzero(columns), np.flatnonzero(~columns)
        oo, mo, mm = Sigma[:, o[:, None], o], Sigma[:, m[:, None], o], Sigma[:, m[:, None], m]
        # E[v_m | v_o] = mu_m + G (v_o - mu_o) = B [v_o, 1], and the covariance is C
        G = np.linalg.solve(oo, mo.mT).mT
        B = np.concatenate([G, (mu[:, m] - (G @ mu[:, o, None])[:, :, 0])[:, :, None]], axis=2)
        C = mm - G @ mo.mT
        whole, seen = np.zeros((len(mu), len(columns) + 1, len(columns) + 1)), np.append(o, len(columns))
        whole[:, seen[:, None], seen] = moments
        whole[:, m[:, None], seen] = B @ moments
        whole[:, seen[:, None], m] = whole[:, m[:, None], seen].mT
        whole[:, m[:, None], m] = B @ moments @ B.mT + moments[:, -1:, -1:] * C
        return whole

    def _at(self, mixture: Mixture, scatter: Scatter, prior: Array, number: int) -> tuple[State, ms.Measures]:
        posterior = scatter.log_likelihood + self.log_prior(mixture, prior)
        statistics = {"moments": scatter.moments, "log_likelihood": scatter.log_likelihood}
        state = {"x": mixture.point, "statistics": statistics, "prior": prior, "start": number}
        return state, ms.Measures(fun=-posterior / self.n, evaluations=ms.Evaluations(1, 1), extra={"repairs": 0.0})


def cut(S: Array, sizes: tuple[int, ...], n_latent: int, old: Mixture | None = None) -> tuple[Array, list[Array]]:
    """Return maximum-likelihood loadings (K, D, d) and noises (K, d_v, d_v) of views with the covariances S, (K, D, D).

    For two views the closed form of Bach and Jordan: with ``S_xx = L_x L_x'`` and ``L_x^-1 S_xy L_y^-' = U p V'``,
    ``W_x = L_x U_d p_d^1/2`` and ``W_y = L_y V_d p_d^1/2``. The covariance of each view is kept, and the
    cross-covariance is reduced to the d largest canonical correlations. For more views, the function performs some
    iterations of EM from the loadings of `old`.

    Examples
    --------
    >>> W, noise = cut(np.array([[[4.0, 1.0], [1.0, 1.0]]]), (1, 1), 1)
    >>> np.round(W[0] @ W[0].T + np.diag([noise[0].item(), noise[1].item()]), 12)
    array([[4., 1.],
           [1., 1.]])
    """
    K, D, _ = S.shape
    slices = [slice(int(a), int(b)) for a, b in pairwise(np.cumsum([0, *sizes]))]
    W = np.zeros((K, D, n_latent))
    if n_latent and len(sizes) == 2:
        x, y = slices
        L, M = np.linalg.cholesky(S[:, x, x]), np.linalg.cholesky(S[:, y, y])
        R = np.linalg.solve(L, np.linalg.solve(M, S[:, y, x]).mT)
        U, p, Vt = np.linalg.svd(R, full_matrices=False)
        root = np.sqrt(np.minimum(p[:, None, :n_latent], _LARGEST_CORRELATION))
        W[:, x], W[:, y] = L @ (U[:, :, :n_latent] * root), M @ (Vt.mT[:, :, :n_latent] * root)
    elif n_latent:
        return _cut_many(S, slices, n_latent, old)
    return W, [S[:, c, c] - W[:, c] @ W[:, c].mT for c in slices]


def _cut_many(S: Array, slices: list[slice], n_latent: int, old: Mixture | None) -> tuple[Array, list[Array]]:
    """Return loadings and noises of three and more views by iterations that raise the likelihood."""
    # with each view whitened, S is I + what the views share: its eigenvectors of the largest eigenvalues are a start
    white = np.zeros_like(S)
    for c in slices:
        white[:, c, c] = np.linalg.inv(np.linalg.cholesky(S[:, c, c]))
    R = white @ S @ white.mT
    if old is None:
        values, vectors = np.linalg.eigh(R)
        share = np.clip((values[:, ::-1][:, :n_latent] - 1) / (len(slices) - 1), 1e-3, 0.9) * len(slices)
        W = vectors[:, :, ::-1][:, :, :n_latent] * np.sqrt(share)[:, None, :]
        norm = np.stack([np.linalg.norm(W[:, c], 2, axis=(1, 2)) for c in slices]).max(axis=0)
        W /= np.maximum(norm / 0.95, 1)[:, None, None]  # a view has variance one, more than its loadings explain
        Psi = [np.eye(W[:, c].shape[1]) - W[:, c] @ W[:, c].mT for c in slices]
    else:
        W = white @ old.loadings
        Psi = [white[:, c, c] @ noise @ white[:, c, c].mT for c, noise in zip(slices, old.noise, strict=True)]
    for _ in range(_INNER):
        T = np.concatenate([np.linalg.solve(P, W[:, c]) for c, P in zip(slices, Psi, strict=True)], axis=1).mT
        cov = np.linalg.inv(np.eye(n_latent) + T @ W)  # of z given a row, (K, d, d)
        A = cov @ T
        RA = R @ A.mT
        W = np.linalg.solve(A @ RA + cov, RA.mT).mT
        rest = [R[:, c, c] - W[:, c] @ RA[:, c].mT for c in slices]
        Psi = [(P + P.mT) / 2 for P in rest]
    root = [np.linalg.inv(white[:, c, c]) for c in slices]
    noise: list[Array] = [L @ P @ L.mT for L, P in zip(root, Psi, strict=True)]
    return np.concatenate([L @ W[:, c] for c, L in zip(slices, root, strict=True)], axis=1), noise


def dense(mixture: Mixture) -> Array:
    """Return the covariances of all columns, (K, D, D)."""
    Sigma = mixture.loadings @ mixture.loadings.mT
    for v, noise in enumerate(mixture.noise):
        c = mixture.columns(v)
        Sigma[:, c, c] += noise
    return Sigma


def _moments(expectation: Expectation, views: list[View], weights: Array | None) -> tuple[Array, float]:
    """Return sum g [v, 1] [v, 1]' of each component, (K, D + 1, D + 1), and the log-likelihood."""
    K, D = expectation.means.shape
    found, log_likelihood = np.zeros((K, D + 1, D + 1)), 0.0
    for block in expectation.blocks(views):
        w = 1.0 if weights is None else weights[block.rows]
        log_likelihood += float(np.sum(w * block.log_density))
        for k, g in enumerate(block.g * w):
            rows = np.flatnonzero(g > SKIP)
            part = block.V[rows]
            found[k] += (part * g[rows, None]).T @ part
    return found, log_likelihood


# Noise of low rank plus a diagonal: what components have in common, pooled within clusters of k-means.


@dataclass(frozen=True, eq=False)
class LowRank:
    """The common part of the components: a mixture of one component, fitted to rows minus their cluster means."""

    pooled: Mixture

    @classmethod
    def of(cls, start: Start, private: tuple[int, ...]) -> Self:
        """Return the maximum-likelihood mixture of one component for the rows of a start minus their cluster means."""
        labels = start.clusters()
        rows = start.rows
        rows -= _means(start, labels, rows)[labels]
        first = _first(rows * np.sqrt(start.weights / start.weights.mean())[:, None], start, private)
        rows[start.holes] = np.nan
        views: list[View] = [rows[:, columns] for columns in start.columns]
        weights = None if (start.weights == 1).all() else start.weights
        origin = np.zeros(rows.shape[1])
        data = CheckedViews(views, weights=weights, origin=origin, floor=start.floor, holes=kinds(views))
        sizes = {"n_components": 1, "n_latent": first.n_latent, "n_private": max(private)}
        # of the bundled model, whatever has replaced it: this is about what shrinks, not about the cost
        problem = ms.get_model("mpcca:mpcca").problem(data, **sizes, update="expanded")
        stop = ms.CostChange(_TOL) | ms.MaxIterations(_MOST_ITERATIONS)
        x0 = first.point
        result = ms.minimize(problem, x0, solver="em", options={"accelerated": True}, stop=stop)
        return cls(Mixture.from_point(result.x, private))

    def prior(self, rows: float, diagonal: float) -> Prior | None:
        """Return the prior with the weight of a number of rows in each component; None for zero rows."""
        return Prior.of(self.pooled, rows, diagonal) if rows else None

    def mixture(self, start: Start) -> Mixture:
        """Return the mixture of the clusters of a start, with the pooled loadings and noise in each cluster."""
        labels, one = start.clusters(), self.pooled
        counts = np.bincount(labels, start.weights, minlength=start.n_components)
        if start.n_components == 1:
            means = one.means
        else:
            means = _means(start, labels, start.rows)
        K = len(counts)
        loadings, noise = np.repeat(one.loadings, K, axis=0), [np.repeat(part, K, axis=0) for part in one.noise]
        return Mixture.trusted(counts / counts.sum(), means + start.moments.mean, loadings, noise, one.private)


def private_sizes(n_private: int, sizes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the numbers of private latent dimensions of views of these sizes, below the numbers of columns."""
    return tuple(min(n_private, size - 1) for size in sizes)


def _means(start: Start, labels: NDArray[np.int64], rows: Array) -> Array:
    """Return the means of clusters of the rows of a start, (K, D)."""
    return np.stack(
        [np.average(rows[labels == k], axis=0, weights=start.weights[labels == k]) for k in range(start.n_components)]
    )


def _first(rows: Array, start: Start, private: tuple[int, ...]) -> Mixture:
    """Return shared factors from canonical correlations of principal components, and private ones of the residuals."""
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
