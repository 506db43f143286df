"""The model ``hierarchical.tied``: a Gaussian mixture with one shrunk covariance and means in a subspace."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Self, cast

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve, solve_triangular
from scipy.special import logsumexp
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

import manifoldseq as ms
from manifoldseq.estimators import check_choice, check_number, check_whole, distinct_rows

from ._closed_form import check_components, leading_directions
from ._moments import Array, Codes, Moments, not_finite

SHRINKAGES = ("auto", "ledoit-wolf")
_SAMPLE = 20_000
"""Maximum number of frames for the search of a start; EM continues with all frames."""
_SAMPLED = 1 << 23
"""Maximum number of values of these frames: 64 MiB."""
_STARTING = 50
"""Maximum number of principal components for the initial k-means, because the others are mostly noise."""
_SHRINKAGE, _SHRINKAGE_WIDE = 0.02, 0.1
"""Weight of the target in the covariance, and its minimum relative to columns per frame."""
_LEAST = 1e-6
"""Minimum shrinkage and minimum level of the target (in units of the total variance), for an invertible metric."""
_WIDEST = 5000
"""Maximum number of columns, which is also the size of the metric."""


class Tied(NamedTuple):
    """Parameters of the mixture, in the units of the frames: a point of the model.

    Parameters
    ----------
    weights : ndarray of shape (K,)
    center : ndarray of shape (d,)
        The mean of the frames.
    covariance : ndarray of shape (d, d)
    components : ndarray of shape (m, d)
        W. The M-step has ``W covariance W' = I``: the within-class metric is the identity in ``W (x - center)``.
    codes : ndarray of shape (K, m)
        The means are ``center + codes W covariance``, which differ in the m coordinates only.
    """

    weights: Array
    center: Array
    covariance: Array
    components: Array
    codes: Array

    @property
    def means(self) -> Array:
        """The means of the components, (K, d)."""
        return self.center + self.codes @ (self.components @ self.covariance)

    def scores(self) -> tuple[Array, Array]:
        """Return D (d, K) and offsets (K,): ``x'D + offsets`` is ln pi_k + ln N(x) up to a number for each frame."""
        # -(x-mu_k)'S^-1(x-mu_k)/2 = -(x-c)'S^-1(x-c)/2 + z'c_k - c_k'WSW'c_k/2 with z = W (x - c) and codes c_k
        W, D = self.components, self.components.T @ self.codes.T
        size = np.einsum("km,mn,kn->k", self.codes, W @ self.covariance @ W.T, self.codes)
        weights = np.maximum(self.weights, np.finfo(np.float64).tiny)
        return D, np.log(weights) - size / 2 - self.center @ D


@dataclass(frozen=True)
class Statistics(ms.objectives.Sums):
    """The sums of the M-step, over frames minus the shift of the model.

    Attributes
    ----------
    n : float
    counts : ndarray of shape (K,)
    sums : ndarray of shape (K, d)
    log_sums : float
        The sum of the logarithms of the frames' summed scores.
    second : ndarray of shape (d, d) or None
        The second moments of the frames, if these are not the frames of the model.
    """

    n: float
    counts: Array
    sums: Array
    log_sums: float
    second: Array | None = None


@dataclass(frozen=True)
class Prior:
    """An inverse Wishart prior of the covariance, worth `strength` frames of covariance ``level * diag(scale²)``.

    Parameters
    ----------
    strength, level : float
    scale : ndarray of shape (d,)
        Standard deviations of the columns, 1 for constant columns, so that the metric does not depend on units.
    varies : ndarray of shape (d,), bool
        Mask of columns that are not constant.
    """

    strength: float
    level: float
    scale: Array
    varies: NDArray[np.bool_]


@dataclass(frozen=True)
class Frames:
    """Frames with their second moments, and the sample from which starts and the prior come.

    Parameters
    ----------
    X : ndarray of shape (N, d)
    weight : ndarray of shape (N,) or None
    second : ndarray of shape (d, d)
        Sum of ``(x - shift) (x - shift)'`` over the frames.
    scale, varies : ndarray of shape (d,)
        As of `Prior`.
    blocks : Moments
        Moments without frames, which read the frames block by block about a shift.
    sample : NDArray
        Numbers of the frames for the search of starts.
    directions : ndarray of shape (d, at most 50)
        Principal components of the frames in units of the columns' deviations.
    """

    X: NDArray
    weight: Array | None
    second: Array
    scale: Array
    varies: NDArray[np.bool_]
    blocks: Moments
    sample: NDArray[np.intp]
    directions: Array

    @classmethod
    def of(cls, X: NDArray, weight: Array | None, n_clusters: int, rng: np.random.Generator) -> Self:
        """Return the moments of frames, and a sample for this number of clusters.

        Raises
        ------
        ValueError
            If a frame is not finite, all are equal, or there are more than 5000 columns.
        """
        d = X.shape[1]
        if d > _WIDEST:
            raise ValueError(
                f"X has {d} columns, but objective='mixture' learns a metric of this size: reduce X to at most "
                f"{_WIDEST} principal components first, or choose objective='printed'"
            )
        empty = Moments.empty(X, 0)
        second, first, n = second_moments(X, weight, empty)
        variances = np.diagonal(second) / n - np.square(first / n)
        # what rounding leaves of a constant column: of the numbers, in their own dtype, about the shift
        unit = np.finfo(X.dtype if X.dtype.kind == "f" else np.float64).eps
        rounding = np.square(8 * unit * (np.abs(first / n) + np.abs(empty.shift) + np.sqrt(np.maximum(variances, 0))))
        varies = variances > np.maximum(rounding, np.finfo(np.float64).tiny)
        if not varies.any():
            raise ValueError("all frames of X are equal up to rounding: pass frames that differ")
        scale = np.sqrt(np.where(varies, variances, 1.0))
        S_0 = (second - np.outer(first, first) / n) / n / (scale[:, None] * scale)
        S_0[~varies] = S_0[:, ~varies] = 0
        values, U = np.linalg.eigh(S_0)
        most = min(_STARTING, int((values > 1e-9 * values[-1]).sum()))
        sample = np.arange(len(X))
        size = max(min(_SAMPLE, _SAMPLED // d), 1000, 2 * n_clusters)
        if len(X) > size:
            sample = np.sort(rng.choice(len(X), size, replace=False))
        return cls(X, weight, second, scale, varies, empty, sample, U[:, ::-1][:, :most] / scale[:, None])

    @property
    def n(self) -> float:
        """The weight of all frames."""
        return float(len(self.X) if self.weight is None else self.weight.sum())

    def counted(self, labels: Codes, n_clusters: int) -> Statistics:
        """Return the statistics of labels of all frames."""
        counts, sums = np.zeros(n_clusters), np.zeros((n_clusters, len(self.second)))
        for rows, block in self.blocks.blocks(self.X):
            member = (labels[rows, None] == np.arange(n_clusters)).astype(np.float64)
            if self.weight is not None:
                member *= self.weight[rows, None]
            counts += member.sum(axis=0)
            sums += member.T @ block
        return Statistics(self.n, counts, sums, np.nan)

    def grouped(self, n_clusters: int, rng: np.random.Generator) -> Codes:
        """Return labels of the sample by k-means in principal components."""
        # equal frames become one with their weight: copies of a frame are what a weight is, and their order is nothing
        weight = np.ones(len(self.sample)) if self.weight is None else self.weight[self.sample]
        rows, weight, place = distinct_rows(self.X[self.sample], weight)
        K = min(n_clusters, len(rows))
        found: Any = KMeans(K, n_init=cast(Any, 1), random_state=int(rng.integers(2**31)))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # fewer distinct frames: `fit` says so
            found.fit(rows.astype(np.float64) @ self.directions, sample_weight=weight)
        return found.labels_.astype(np.int64)[place]

    def nearest(self, centroids: Array) -> Codes:
        """Return the nearest centroid of each frame in units of the columns' deviations."""
        codes = (centroids - self.blocks.shift) / self.scale**2
        found = np.empty(len(self.X), np.int64)
        offsets = -np.square((centroids - self.blocks.shift) / self.scale).sum(axis=1) / 2
        for rows, block in self.blocks.blocks(self.X):
            (block @ codes.T + offsets).argmax(axis=1, out=found[rows])
        return found

    def prior(self, labels: Codes, n_clusters: int, shrinkage: float | str) -> Prior:
        """Return the prior for the shrinkage, with a level estimated from labels of the sample."""
        scale, varies, n = self.scale, self.varies, self.n
        X = (self.X[self.sample].astype(np.float64) - self.blocks.shift)[:, varies] / scale[varies]
        w = np.ones(len(X)) if self.weight is None else self.weight[self.sample]
        member = (labels[:, None] == np.arange(n_clusters)) * w[:, None]
        X -= ((member.T @ X) / np.maximum(member.sum(axis=0), 1e-300)[:, None])[labels]
        d, total = X.shape[1], float(w.sum())
        S = (X * w[:, None]).T @ X / total
        level = float(np.trace(S)) / d
        if shrinkage == "ledoit-wolf":
            # their b² / d²: the variance of S over its distance from a multiple of the identity
            apart = float(np.square(S).sum()) - d * level**2
            spread = max(float(w @ np.square(np.vecdot(X, X))) / total - float(np.square(S).sum()), 0.0) / n
            shrinkage = spread / apart if apart > 1e-12 * d * level**2 else 0.0
        elif shrinkage == "auto":
            shrinkage = max(_SHRINKAGE, _SHRINKAGE_WIDE * d / n)
        else:
            shrinkage = float(shrinkage)
        shrinkage = float(np.clip(shrinkage, _LEAST, 1 - 1e-3))
        return Prior(n * shrinkage / (1 - shrinkage), max(level, _LEAST), scale, varies)


@dataclass(frozen=True)
class TiedModel:
    """The mixture of some frames.

    Parameters
    ----------
    n : float
        The weight of the frames.
    n_clusters : int
    n_components : int
        The number m of rows of `Tied.components`; rows that the means do not span are zero.
    second : ndarray of shape (d, d)
    prior : Prior
    blocks : Moments
    frames : Frames or None
        None: there are no starts.
    given : dict
        Parameters of `prepare`, for the start from a sample.
    """

    n: float
    n_clusters: int
    n_components: int
    second: Array
    prior: Prior
    blocks: Moments
    frames: Frames | None = None
    given: Any = None

    def of_batch(self, X: NDArray, weight: Array | None) -> tuple[float, Array]:
        """Return the weight and the second moments of other frames."""
        second, _, n = second_moments(X, weight, self.blocks)
        return n, second

    def second_of(self, found: Statistics) -> Array:
        """Return the second moments that belong to sums."""
        return self.second * (found.n / self.n) if found.second is None else found.second

    def about(self, point: Array, found: Statistics) -> Array:
        """Return the sum of ``(x - point) (x - point)'``, shape (d, d)."""
        away = self.blocks.shift - point
        first = np.outer(found.sums.sum(axis=0), away)
        return self.second_of(found) + first + first.T + float(found.counts.sum()) * np.outer(away, away)

    def scatter(self, mixture: Tied, found: Statistics) -> float:
        """Return the trace of S_0 (7) in the metric of a mixture."""
        factor = cho_factor(mixture.covariance, lower=True)
        return float(np.trace(cho_solve(factor, self.about(mixture.center, found))))

    def parameters(self, n_components: int) -> int:
        """Return the number of free parameters: weights, a center, means of rank m, a covariance."""
        d, K, m = len(self.second), self.n_clusters, n_components
        return K - 1 + d + m * (d + K - 1 - m) + d * (d + 1) // 2

    def criteria(self, singular_values: Array) -> Array:
        """Return the Bayesian information criterion, up to a constant, of 1, 2, … coordinates.

        A direction in which the means have the singular value s in the metric gains n/2 ln(1 + s²/n) (Bartlett 1947).
        """
        n = self.n
        most = max(min(len(singular_values), self.n_clusters - 1), 1)
        gains = n * np.cumsum(np.log1p(np.square(singular_values[:most]) / n))
        costs = np.array([self.parameters(m) for m in range(1, most + 1)]) * np.log(n)
        return costs - gains

    def labels(self, mixture: Tied, X: NDArray) -> Codes:
        """Return the likeliest cluster of each frame, shape (N,)."""
        found = np.empty(len(X), np.int64)
        for rows, scores, _ in _scores(self.blocks, mixture, X):
            scores.argmax(axis=1, out=found[rows])
        return found


def prepare(
    data: Any, *, n_clusters: int = 2, n_components: int | None = None, shrinkage: float | str = "auto", seed: Any = 0
) -> ms.Prepared:
    """Prepare the posterior density of a tied mixture, with parameters of `SubspaceKMeans`.

    Parameters
    ----------
    data : array-like of shape (N, d), or Frames
    n_clusters : int
        The number of clusters.
    n_components : int, optional
        The number of coordinates; by default one less than there are clusters.
    shrinkage : float, "auto" or "ledoit-wolf"
        The weight of the target in the covariance.
    seed : int or numpy.random.Generator
        The seed of the k-means that estimates the level of the prior.
    """
    rng = np.random.default_rng(seed)
    if not isinstance(data, Frames):
        check_whole("n_clusters", n_clusters)
        if isinstance(shrinkage, str):
            check_choice("shrinkage", shrinkage, SHRINKAGES, "a number from 0 to 1")
        else:
            check_number("shrinkage", shrinkage, 0.0, 1.0)
        X = np.asarray(data)
        check_components(n_components, X.shape[1])
        data = Frames.of(X, None, n_clusters, rng)
    prior = data.prior(data.grouped(n_clusters, rng), n_clusters, shrinkage)
    rank = min(n_clusters - 1, data.X.shape[1])
    m = max(1, min(rank, n_components or rank))
    given = {"n_clusters": n_clusters, "n_components": n_components, "shrinkage": shrinkage}
    model = TiedModel(data.n, n_clusters, m, data.second, prior, data.blocks, data, given)
    return ms.Prepared(model, ms.execution.RowBlocks.of(data.X, data.weight), data.blocks)


def manifold(model: TiedModel) -> ms.manifolds.Product:
    """Return the manifold of the weights, the center, the covariance, the components and the codes."""
    M, (K, d, m) = ms.manifolds, (model.n_clusters, len(model.second), model.n_components)
    factors = M.Simplex(K), M.Euclidean(d), M.SymmetricPositiveDefinite(d), M.Euclidean(m, d), M.Euclidean(K, m)
    return M.Product(*factors, names=Tied._fields)


def statistics(blocks: Moments, point: Any, block: tuple[Any, Any]) -> Statistics:
    """Return the sums over a block of frames by responsibilities."""
    (X, weight), K = block, len(point[0])
    counts, sums, total = np.zeros(K), np.zeros((K, X.shape[1])), 0.0
    for rows, scores, part in _scores(blocks, Tied(*point), X):
        log_sum: Array = np.asarray(logsumexp(scores, axis=1))
        scores -= log_sum[:, None]
        np.exp(scores, out=scores)
        if weight is not None:
            scores *= weight[rows, None]
            log_sum *= weight[rows]
        counts += scores.sum(axis=0)
        sums += scores.T @ part
        total += float(log_sum.sum())
    return Statistics(float(len(X) if weight is None else weight.sum()), counts, sums, total)


def log_densities(model: TiedModel, point: Any, found: Statistics) -> tuple[float, float]:
    """Return the log-likelihood of the columns that are not constant, and the log-density of the prior."""
    mixture, prior, n = Tied(*point), model.prior, float(found.counts.sum())
    units = prior.scale[:, None] * prior.scale
    L, lower = cho_factor(mixture.covariance / units, lower=True)
    log_det = 2 * float(np.log(np.diagonal(L)).sum())
    inverse = cho_solve((L, lower), np.eye(len(units)))
    quadratic = float(np.sum(inverse / units * model.about(mixture.center, found)))
    constant = np.diagonal(mixture.covariance)[~prior.varies]
    size = (len(units) - len(constant)) * np.log(2 * np.pi) - float(np.log(constant).sum())
    size += log_det + 2 * float(np.log(prior.scale).sum())
    density = -prior.strength / 2 * (log_det + prior.level * float(np.trace(inverse)))
    return found.log_sums - quadratic / 2 - n * size / 2, density * (found.n / model.n)


@np.errstate(all="ignore")  # a line search may step too far
def value(model: TiedModel, point: Any, found: Statistics) -> float:
    """Return minus the mean of the log-likelihood and the log-density of the prior."""
    try:
        return -sum(log_densities(model, point, found)) / float(found.counts.sum())
    except np.linalg.LinAlgError:
        return np.inf


def value_and_gradient(model: TiedModel, point: Any, found: Statistics) -> tuple[float, Any]:
    """Return the value and its derivatives, by Fisher's identity."""
    weights, center, covariance, W, C = Tied(*point)
    prior, counts, share = model.prior, found.counts, found.n / model.n
    P = np.linalg.inv(covariance)
    T = found.sums - counts[:, None] * (center - model.blocks.shift)  # of frames minus the center, (K, d)
    CC, across = C.T @ (counts[:, None] * C), W @ covariance
    n, a = float(counts.sum()), C @ W
    size = n * (P - np.diag(np.where(prior.varies, 0.0, 1 / np.diagonal(covariance))))
    shrunk = share * prior.strength * (P - prior.level * (P * prior.scale**2) @ P)
    by_covariance = P @ model.about(center, found) @ P - size - shrunk - a.T @ (counts[:, None] * a)
    by_center = P @ T.sum(axis=0) - counts @ a
    by_codes = (T - counts[:, None] * (C @ across)) @ W.T
    derivatives = counts / weights, by_center, by_covariance / 2, C.T @ T - CC @ across, by_codes
    return value(model, point, found), tuple((part / -n).astype(weights.dtype) for part in derivatives)


def em(model: TiedModel, point: Any, found: Statistics) -> Tied:
    """Return the parameters with the highest posterior density for these sums.

    If there are fewer components than the means span, the means lie in the m directions with the largest scatter of
    the means in the metric, and the remaining scatter is added to the within-class scatter (Campbell 1984; Hastie and
    Tibshirani 1996).
    """
    prior, scale, second = model.prior, model.prior.scale, model.second_of(found)
    n, d, strength = float(found.counts.sum()), len(scale), prior.strength * (found.n / model.n)
    held = np.maximum(found.counts, 1e-10 * n)[:, None]
    center = found.sums.sum(axis=0) / n
    means = found.sums / held
    # S = (S_w + nu T) / (n + nu), S_w = sum of x x' less n_k mu_k mu_k'; in units of the columns' deviations
    within = second - (found.sums / held).T @ found.sums
    S = (within + strength * prior.level * np.diag(scale**2)) / (n + strength)
    S /= scale[:, None] * scale
    L = np.linalg.cholesky((S + S.T) / 2)
    away = (means - center) / scale
    # rows sqrt(n_k) L^-1 (mu_k - mu), (K, d): the weighted centroids of (9)-(13) in the metric
    codes = solve_triangular(L, away.T, lower=True).T
    B = np.sqrt(found.counts)[:, None] * codes
    rounding = 1e-12 * float(np.linalg.norm(B)) + np.finfo(np.float64).tiny
    V, s = leading_directions(B, rounding)
    rank = min(len(B) - 1, d)
    V = V[:, : min(rank, V.shape[1], model.n_components)]
    if V.shape[1] < min(rank, int((s > rounding).sum())):
        # what m directions leave of the centroids is within: L (I + R'R / (n + nu)) L' in place of L L'
        rest = B - (B @ V) @ V.T
        S += L @ (rest.T @ rest) @ L.T / (n + strength)
    W, C = np.zeros((model.n_components, d)), np.zeros((len(B), model.n_components))
    W[: V.shape[1]] = solve_triangular(L, V, lower=True, trans=1).T / scale
    C[:, : V.shape[1]] = codes @ V
    weights = np.maximum(found.counts / n, np.finfo(float).tiny)  # the simplex is open
    return Tied(weights, model.blocks.shift + center, (S + S.T) / 2 * (scale[:, None] * scale), W, C)


def permuted(model: TiedModel, point: Any, rng: np.random.Generator) -> Tied:
    """Return the point with its components in another order: the same density."""
    mixture, order = Tied(*point), rng.permutation(model.n_clusters)
    return mixture._replace(weights=mixture.weights[order], codes=mixture.codes[order])


def start_at(init: Any, problem: ms.Problem, rng: np.random.Generator) -> Tied:
    """Return the start from labels, (N,), or from centroids, (K, d)."""
    model: TiedModel = problem.data.model
    frames = cast(Frames, model.frames)
    return em(model, None, frames.counted(init if init.ndim == 1 else frames.nearest(init), model.n_clusters))


def _start(kind: str, problem: ms.Problem, rng: np.random.Generator) -> Tied:
    """Return a start from labels, which are those of k-means, of segments, or random."""
    model: TiedModel = problem.data.model
    frames, K = cast(Frames, model.frames), model.n_clusters
    N = len(frames.X)
    if kind == "random":
        return start_at(rng.permutation(N) % K, problem, rng)
    if kind == "segments":
        return start_at(np.arange(N) * K // N, problem, rng)
    if N == len(frames.sample):
        return start_at(frames.grouped(K, rng), problem, rng)
    # of many frames: EM on the sample first
    weight = None if frames.weight is None else frames.weight[frames.sample]
    some = Frames.of(frames.X[frames.sample], weight, K, rng)
    part = problem.data.spec.problem(some, **model.given, seed=rng)
    stop = ms.CostChange(1e-6) | ms.MaxIterations(100)
    found = ms.minimize(part, _start(kind, part, rng), solver="em", stop=stop, project=True)
    return em(model, None, statistics(model.blocks, found.x, (frames.X, frames.weight)))


k_means, random, segments = (partial(_start, kind) for kind in ("k-means++", "random", "segments"))


def example(rng: np.random.Generator) -> Array:
    """Return 120 frames of five columns around three means, as example data."""
    return np.repeat(3 * rng.standard_normal((3, 5)), 40, axis=0) + rng.standard_normal((120, 5))


def _scores(blocks: Moments, mixture: Tied, X: NDArray) -> Iterator[tuple[slice, Array, Array]]:
    """Yield blocks of frames minus the shift, with their scores (rows, K)."""
    D, offsets = mixture.scores()
    offsets = offsets + blocks.shift @ D
    for rows, block in blocks.blocks(X):
        scores = block @ D
        scores += offsets
        yield rows, scores, block


def second_moments(X: NDArray, weight: Array | None, blocks: Moments) -> tuple[Array, Array, float]:
    """Return the second moments of frames about the shift of `blocks`, their sum, and their weight."""
    d = X.shape[1]
    second, first, n = np.zeros((d, d)), np.zeros(d), 0.0
    with np.errstate(all="ignore"):
        for rows, block in blocks.blocks(X):
            weighted = block if weight is None else block * weight[rows, None]
            second += weighted.T @ block
            first += weighted.sum(axis=0)
            n += len(block) if weight is None else float(weight[rows].sum())
            if not np.isfinite(np.trace(second)):
                raise ValueError(not_finite(X[rows], rows.start))
    return second, first, n
