"""The model ``mpcca.shrunk``: covariances that are shrunk towards the covariance within all components.

Its cost is minus the log-posterior under an inverse Wishart prior. The missing data of EM are the responsibilities and
not the latent vectors: the M-step shrinks the covariance of all columns of each component, and computes the
maximum-likelihood loadings and noise for this covariance. No step lowers the posterior.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

import manifoldseq as ms
from manifoldseq.estimators import check_number, check_whole
from manifoldseq.objectives import Sums

from ._expectation import SKIP, Expectation
from ._objective import Model, Point, checked, summed
from ._parameters import Array, Mixture
from ._starts import Start
from ._views import CheckedViews

_LARGEST_CORRELATION = 1 - 1e-9
"""Canonical correlations of loadings stay below this, so that the noise of each view stays positive definite."""
_INNER = 20
"""Inner iterations of EM in the M-step of three and more views, which has no closed form."""
_SETTLING = 10
"""Iterations that update the prior before it is fixed, if values are missing."""


@dataclass(frozen=True, eq=False)
class Scatter(Sums):
    """Sums over the rows for the M-step.

    Attributes
    ----------
    n : float
    moments : ndarray of shape (K, D + 1, D + 1)
        sum g <[v, 1] [v, 1]'>, where v is a row minus the origin.
    log_likelihood : float
        (12), of the mixture that made the responsibilities.
    """

    n: float
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

    def completed(self, mixture: Mixture, columns: NDArray[np.bool_], origin: Array) -> Scatter:
        """Return the sums of all columns from those of the observed columns, by the posterior of the others."""
        Sigma, mu = dense(mixture), mixture.means - origin
        o, m = np.flatnonzero(columns), np.flatnonzero(~columns)
        oo, mo, mm = Sigma[:, o[:, None], o], Sigma[:, m[:, None], o], Sigma[:, m[:, None], m]
        # E[v_m | v_o] = mu_m + G (v_o - mu_o) = B [v_o, 1], and the covariance is C
        G = np.linalg.solve(oo, mo.mT).mT
        B = np.concatenate([G, (mu[:, m] - (G @ mu[:, o, None])[:, :, 0])[:, :, None]], axis=2)
        C = mm - G @ mo.mT
        whole, seen = np.zeros((len(mu), len(columns) + 1, len(columns) + 1)), np.append(o, len(columns))
        whole[:, seen[:, None], seen] = self.moments
        whole[:, m[:, None], seen] = B @ self.moments
        whole[:, seen[:, None], m] = whole[:, m[:, None], seen].mT
        whole[:, m[:, None], m] = B @ self.moments @ B.mT + self.moments[:, -1:, -1:] * C
        return replace(self, moments=whole)


def prepare(
    data: Any,
    *,
    views: Sequence[int] | None = None,
    n_components: int = 2,
    n_latent: int = 2,
    noise_floor: float = 1e-6,
    shrinkage: float = 200.0,
    diagonal: float = 0.2,
    within: Mixture | None = None,
    seed: Any = 0,
) -> ms.Prepared:
    """Prepare the data of the model, with points and parameters of the model ``mpcca`` with full noise.

    The prior is computed here and then stays fixed, so that all starts use the same prior: from the covariance within
    the clusters of k-means, or within the components of a given mixture. If values are missing, a few steps of EM
    update the mixture and the prior first.

    Parameters
    ----------
    data, views, n_components, n_latent
        As of the model ``mpcca``.
    noise_floor : float
        The floor, relative to the variance of a column, is added to the variances of the prior.
    shrinkage : float
        The weight nu of the prior of the covariance of a component, as a number of rows.
    diagonal : float
        Weight of the diagonal of the pooled covariance in the prior.
    within : Mixture, optional
        A mixture whose clusters determine the prior; by default the clusters of k-means.
    seed : int, numpy.random.Generator or list of numpy.random.Generator
        The seed of k-means. With a list, k-means runs once with each generator, and each clustering gives a prior. The
        prior of the clustering with the highest posterior density is used.
    """
    if not isinstance(data, CheckedViews):
        for name, size in (("n_components", n_components), ("n_latent", n_latent)):
            check_whole(name, size)
        check_number("noise_floor", noise_floor, 0.0, 1.0, open_=True)
        check_number("shrinkage", shrinkage, open_=True)
        check_number("diagonal", diagonal, 0.0, 1.0)
        data = checked(data, views, n_components, n_latent, n_latent, True, True)
    moments: Any = data.moments
    table, kind = (None, None) if data.holes is None else data.holes
    sizes = data.n, data.sizes, n_components, n_latent, True, moments.mean, noise_floor * moments.variance
    model = Model(*sizes, shrinkage=shrinkage, diagonal=diagonal, patterns=table, data=data, constant=moments.constant)
    blocks, sweep = ms.execution.RowBlocks.of(*data.views, data.weights, kind), replace(model, data=None)
    if data.begun is not None:
        return ms.Prepared(replace(model, pooled=data.begun[0], n=data.begun[1]), blocks, sweep)

    def found(mixture: Mixture) -> Scatter:
        return blocks.sum(statistics, sweep, mixture.point)

    known: dict[str, tuple[Any, Any]] = {}
    chosen = ""
    if within is not None:
        rows = found(within)
        model = replace(model, pooled=_pooled(model, rows))
    else:
        generators = seed if isinstance(seed, list) else [np.random.default_rng(seed)]
        rows, lowest = Scatter(model.n, model.origin, 0.0), np.inf
        for rng in generators:
            before, start = _place(rng), model.drawn(rng)
            labels = start.clusters()
            known[before] = rng.bit_generator.state, labels
            clustered = _clustered(model, start, labels)
            own = replace(model, pooled=_pooled(model, clustered))
            cost = _value_of_clusters(own, clustered) if len(generators) > 1 else 0.0
            if not chosen or cost < lowest:
                chosen, rows, lowest, model = before, clustered, cost, own
    for _ in range(_SETTLING if table is not None else 0):
        within = maximize(model, rows, within)
        rows = found(within)
        model = replace(model, pooled=_pooled(model, rows))
    if chosen:
        known[chosen] = known[chosen][0], maximize(model, rows, within).point
    return ms.Prepared(replace(model, known=known), blocks, sweep)


def _clustered(model: Model, start: Start, labels: NDArray[np.int64]) -> Scatter:
    """Return the sums for clusters of the rows of a start."""
    return Scatter(model.n, start.scatter(labels), -np.inf)


def _value_of_clusters(model: Model, found: Scatter) -> float:
    """Return the value after an M-step from a clustering, each row only in its cluster, up to a constant."""
    mixture = maximize(model, found, None)
    Sigma = dense(mixture)
    log_weights = np.log(mixture.weights) - np.linalg.slogdet(Sigma)[1] / 2
    traces = np.trace(np.linalg.solve(Sigma, found.within(mixture.means - model.origin)), axis1=1, axis2=2)
    hard = float(found.counts @ log_weights - traces.sum() / 2)
    return value(model, mixture.point, replace(found, log_likelihood=hard))


def _place(rng: np.random.Generator) -> str:
    """Return the state of a generator as text; that of a Mersenne Twister has an array."""
    return json.dumps(rng.bit_generator.state, default=np.ndarray.tolist)


def _pooled(model: Model, found: Scatter) -> Array:
    """Return the covariance within components, (D, D), shrunk to its diagonal."""
    pooled = found.within(found.means(np.zeros(len(model.origin)))).sum(axis=0) / found.counts.sum()
    own, floor = model.diagonal, model.floor
    return (1 - own) * pooled + np.diag(own * (np.diagonal(pooled) + floor) + (1 - own) * floor)


def statistics(model: Model, point: Point, block: tuple[Any, ...]) -> Scatter:
    """Return the sums over a block of rows, including the expectations of missing values."""
    return summed(_scatter, model, point, block)


def value(model: Model, point: Point, found: Scatter) -> float:
    """Return minus the sum of the mean log-likelihood (12) and the log-density of the prior, up to a constant."""
    return -(found.log_likelihood + log_prior(model, point) * (found.n / model.n)) / found.n


def log_prior(model: Model, point: Point) -> float:
    """Return the log-density of the prior for all rows, up to a constant."""
    # tr(S_0 Sigma^-1) = |L^-1 R|² with Sigma = L L' and S_0 = R R'
    L, R = np.linalg.cholesky(dense(model.mixture(point))), np.linalg.cholesky(model.pooled)
    log_det = 2 * np.log(np.diagonal(L, axis1=1, axis2=2)).sum()
    trace = sum(float(np.sum(solve_triangular(one, R, lower=True) ** 2)) for one in L)
    return float(-model.shrinkage / 2 * (log_det + trace))


def value_and_gradient(model: Model, point: Point, found: Scatter) -> tuple[float, Point]:
    """Return the value and its derivatives, by Fisher's identity."""
    mixture, counts, nu = model.mixture(point), found.counts, model.shrinkage * (found.n / model.n)
    P, means = np.linalg.inv(dense(mixture)), mixture.means - model.origin
    first = found.moments[:, :-1, -1] - counts[:, None] * means  # of rows minus the mean, (K, D)
    cross = means[:, :, None] * first[:, None, :]
    S = found.within(means) - cross - cross.mT + nu * model.pooled
    by_covariance = (P @ S @ P - (counts + nu)[:, None, None] * P) / 2
    noise = tuple(by_covariance[:, c, c] for c in map(mixture.columns, range(len(mixture.noise))))
    by_means = (P @ first[:, :, None])[:, :, 0]
    derivatives = counts / mixture.weights, by_means, 2 * by_covariance @ mixture.loadings
    *rest, by_noise = [tuple((one / -found.n).astype(point[0].dtype) for one in part) for part in (derivatives, noise)]
    return value(model, point, found), (*rest[0], by_noise)


def em(model: Model, point: Point, found: Scatter) -> Point:
    """Return the mixture with the highest posterior density for these sums."""
    return maximize(model, found, model.mixture(point)).point


def clusters(problem: ms.Problem, rng: np.random.Generator) -> Point:
    """Return the mixture of the clusters of k-means; clusterings that `prepare` computed are reused."""
    model: Model = problem.data.model
    after, found = (model.known or {}).get(_place(rng), (None, None))
    start = model.drawn(rng)
    labels = start.clusters() if found is None else found
    if after is not None:
        rng.bit_generator.state = after
    return labels if isinstance(labels, tuple) else maximize(model, _clustered(model, start, labels), None).point


def maximize(model: Model, found: Scatter, old: Mixture | None) -> Mixture:
    """Return the mixture of the next iteration."""
    counts, nu, prior = found.counts, model.shrinkage * (found.n / model.n), model.pooled
    means = found.means(np.zeros(len(model.origin)) if old is None else old.means - model.origin)
    # the mode of the posterior given the scatter of N_k rows: (scatter + nu S_0) / (N_k + nu)
    # constant columns have the variance of the floor in every component, so that determinants favour no component
    still = counts[:, None, None] * np.diag(model.floor * model.constant)
    S = (found.within(means) + still + nu * prior) / (counts + nu)[:, None, None]
    loadings, noise = cut(S, model.sizes, model.n_latent, old)
    weights = np.maximum(counts / counts.sum(), np.finfo(float).tiny)  # the simplex is open
    return Mixture.trusted(weights, means + model.origin, loadings, noise)


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


def _scatter(expectation: Expectation, views: Any, weights: Array | None) -> Scatter:
    """Return the sums over rows of the observed columns."""
    K, D = expectation.means.shape
    found, log_likelihood = np.zeros((K, D + 1, D + 1)), 0.0
    for block in expectation.blocks(views):
        w = 1.0 if weights is None else weights[block.rows]
        log_likelihood += float(np.sum(w * block.log_density))
        for k, g in enumerate(block.g * w):
            rows = np.flatnonzero(g > SKIP)
            part = block.V[rows]
            found[k] += (part * g[rows, None]).T @ part
    n = float(len(views[0]) if weights is None else weights.sum())
    return Scatter(n, found, log_likelihood)
