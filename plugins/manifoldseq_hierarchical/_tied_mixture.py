"""A Gaussian mixture with one shrunk covariance and means in a subspace: clusters in a within-class metric."""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve, solve_triangular
from scipy.special import logsumexp
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

import manifoldseq as ms

from ._closed_form import leading_directions
from ._moments import Array, Codes, Moments, not_finite

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

State = dict[str, Any]
"""``x``: W (m, d) and means (K, d); ``weights`` (K,), ``covariance`` (d, d), ``counts`` (K,), ``sums`` (K, d),
``singular_values``, ``start``."""


@dataclass(frozen=True)
class Tied:
    """Parameters of the mixture, in the units of the frames.

    Parameters
    ----------
    weights : ndarray of shape (K,)
    means : ndarray of shape (K, d)
        Means, which differ in the m coordinates only.
    center : ndarray of shape (d,)
        The mean of the frames.
    covariance : ndarray of shape (d, d)
    components : ndarray of shape (m, d)
        W with ``W covariance W' = I``: the within-class metric is the identity in the coordinates ``W (x - center)``.
    """

    weights: Array
    means: Array
    center: Array
    covariance: Array
    components: Array

    def scores(self) -> tuple[Array, Array]:
        """Return D (d, K) and offsets (K,): ``x'D + offsets`` is ln pi_k + ln N(x) up to a number for each frame."""
        # -(x-mu_k)'S^-1(x-mu_k)/2 = -(x-c)'S^-1(x-c)/2 + z'c_k - |c_k|²/2 with z = W (x - c), c_k = W (mu_k - c)
        codes = (self.means - self.center) @ self.components.T
        D = self.components.T @ codes.T
        weights = np.maximum(self.weights, np.finfo(np.float64).tiny)
        return D, np.log(weights) - np.square(codes).sum(axis=1) / 2 - self.center @ D


@dataclass(frozen=True)
class Statistics:
    """The sums of the M-step: weighted sums over frames minus `shift`, by component, and their second moments.

    Parameters
    ----------
    counts : ndarray of shape (K,)
    sums : ndarray of shape (K, d)
    second : ndarray of shape (d, d)
        Sum of ``(x - shift) (x - shift)'``.
    shift : ndarray of shape (d,)
    """

    counts: Array
    sums: Array
    second: Array
    shift: Array

    @property
    def n(self) -> float:
        """The weight of all frames."""
        return float(self.counts.sum())

    def joined(self, other: "Statistics", share: float, n: float) -> "Statistics":
        """Return the means over frames of both statistics, with weight `share` for `other`, times `n`."""
        mine, theirs = n * (1 - share) / self.n, n * share / other.n
        counts, sums, second = (mine * a + theirs * b for a, b in zip(self._parts(), other._parts(), strict=True))
        return Statistics(counts, sums, second, self.shift)

    def moved(self, shift: Array) -> "Statistics":
        """Return the statistics about another shift."""
        away = self.shift - shift
        first = np.outer(self.sums.sum(axis=0), away)
        second = self.second + first + first.T + self.n * np.outer(away, away)
        return Statistics(self.counts, self.sums + self.counts[:, None] * away, second, shift)

    def about(self, point: Array) -> Array:
        """Return the sum of ``(x - point) (x - point)'``, shape (d, d)."""
        return self.moved(point).second

    def scatter(self, mixture: Tied) -> float:
        """Return the trace of S_0 (7) in the metric of a mixture."""
        factor = cho_factor(mixture.covariance, lower=True)
        return float(np.trace(cho_solve(factor, self.about(mixture.center))))

    def _parts(self) -> tuple[Array, Array, Array]:
        return self.counts, self.sums, self.second


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

    def maximized(self, of: Statistics, n_components: int | None) -> tuple[Tied, Array]:
        """Return the parameters with the highest posterior density, and the singular values of the means in the metric.

        If there are fewer components than the means span, the means lie in the m directions with the largest scatter of
        the means in the metric, and the remaining scatter is added to the within-class scatter (Campbell 1984; Hastie
        and Tibshirani 1996).
        """
        n, d = of.n, len(self.scale)
        held = np.maximum(of.counts, 1e-10 * n)[:, None]
        center = of.sums.sum(axis=0) / n
        means = of.sums / held
        # S = (S_w + nu T) / (n + nu), S_w = sum of x x' less n_k mu_k mu_k'; in units of the columns' deviations
        within = of.second - (of.sums / held).T @ of.sums
        S = (within + self.strength * self.level * np.diag(self.scale**2)) / (n + self.strength)
        S /= self.scale[:, None] * self.scale
        L = np.linalg.cholesky((S + S.T) / 2)
        away = (means - center) / self.scale
        # rows sqrt(n_k) L^-1 (mu_k - mu), (K, d): the weighted centroids of (9)-(13) in the metric
        B = np.sqrt(of.counts)[:, None] * solve_triangular(L, away.T, lower=True).T
        rounding = 1e-12 * float(np.linalg.norm(B)) + np.finfo(np.float64).tiny
        rank = min(len(B) - 1, d)
        V, s = leading_directions(B, rounding)
        V = V[:, : min(rank, V.shape[1], n_components or rank)]
        if V.shape[1] < min(rank, int((s > rounding).sum())):
            # what m directions leave of the centroids is within: L (I + R'R / (n + nu)) L' in place of L L'
            rest = B - (B @ V) @ V.T
            S += L @ (rest.T @ rest) @ L.T / (n + self.strength)
            away = (L @ V @ (V.T @ solve_triangular(L, away.T, lower=True))).T
        W = solve_triangular(L, V, lower=True, trans=1).T / self.scale
        covariance = S * (self.scale[:, None] * self.scale)
        return Tied(of.counts / n, of.shift + center + away * self.scale, of.shift + center, covariance, W), s

    def penalty(self, covariance: Array) -> float:
        """Return minus the logarithm of the prior density, up to a constant."""
        factor = cho_factor(covariance / (self.scale[:, None] * self.scale), lower=True)
        inverse = cho_solve(factor, np.eye(len(self.scale)))
        return self.strength / 2 * (_log_determinant(factor) + self.level * float(np.trace(inverse)))


@dataclass(frozen=True)
class MixtureProblem:
    """The frames of one clustering problem, with the steps of EM on them.

    Parameters
    ----------
    X : ndarray of shape (N, d)
    weight : ndarray of shape (N,) or None
    n_clusters : int
    n_components : int or None
    second : ndarray of shape (d, d)
        Sum of ``(x - shift) (x - shift)'`` over the frames.
    prior : Prior
    blocks : Moments
        Moments without frames, which read the frames block by block about a shift.
    sample : NDArray
        Numbers of the frames for the search of starts.
    directions : ndarray of shape (d, at most 50)
        Principal components of the frames in units of the columns' deviations.
    shrinkage : float, "auto" or "ledoit-wolf"
    """

    X: NDArray
    weight: Array | None
    n_clusters: int
    n_components: int | None
    second: Array
    prior: Prior
    blocks: Moments
    sample: NDArray[np.intp]
    directions: Array
    shrinkage: float | str

    @classmethod
    def of(
        cls,
        X: NDArray,
        weight: Array | None,
        n_clusters: int,
        n_components: int | None,
        rng: np.random.Generator,
        shrinkage: float | str,
    ) -> "MixtureProblem":
        """Return the problem of these frames.

        Raises
        ------
        ValueError
            If a frame is not finite, all are equal, or there are more than 5000 columns.
        """
        d = X.shape[1]
        if d > _WIDEST:
            raise ValueError(
                f"X has {d} columns, but objective='mixture' learns a metric of that size: reduce X to at most "
                f"{_WIDEST} principal components first, or choose objective='printed'"
            )
        empty = Moments.empty(X, n_clusters)
        second, first, n = _sums(X, weight, empty)
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
        directions = U[:, ::-1][:, :most] / scale[:, None]
        flat = Prior(0.0, 1.0, scale, varies)
        made = cls(X, weight, n_clusters, n_components, second, flat, empty, sample, directions, shrinkage)
        return made.with_clusters(n_clusters, rng)

    @classmethod
    def given(cls, X: NDArray, weight: Array | None, n_clusters: int, prior: Prior) -> "MixtureProblem":
        """Return the problem of frames with a prior, without data for starts."""
        empty, nothing = Moments.empty(X, n_clusters), np.empty(0)
        second = _sums(X, weight, empty)[0]
        return cls(X, weight, n_clusters, None, second, prior, empty, nothing.astype(np.intp), nothing, 0.0)

    def with_clusters(self, n_clusters: int, rng: np.random.Generator) -> "MixtureProblem":
        """Return the problem with another number of clusters, and the prior that suits it."""
        made = replace(self, n_clusters=n_clusters)
        return replace(made, prior=made._prior(made._grouped(rng)))

    def start(self, init: Any, rng: np.random.Generator, number: int) -> tuple[State, ms.Measures]:
        """Return the initial state of EM and its measures: initial labels, then an M-step and an E-step."""
        N, K = len(self.X), self.n_clusters
        if isinstance(init, str) and init == "random":
            labels = rng.permutation(N) % K
        elif isinstance(init, str) and init == "segments":
            labels = np.arange(N) * K // N
        elif isinstance(init, str):
            if N > len(self.sample):
                return self._refined(rng, number)
            labels = self._grouped(rng)
        elif init.ndim == 2:
            labels = self._nearest(init)
        else:
            labels = init
        return self.solved(self._counted(labels), number)

    def step(self, state: State) -> tuple[State, ms.Measures]:
        """Return the state after an M-step and an E-step."""
        counted = Statistics(state["counts"], state["sums"], self.second, self.blocks.shift)
        return self.solved(counted, state["start"])

    def solved(self, counted: Statistics, number: int) -> tuple[State, ms.Measures]:
        """Return the state of the M-step for these statistics, with the statistics of the E-step there."""
        mixture, s = self.prior.maximized(counted, self.n_components)
        after, log_sums = self.expected(mixture)
        fun = -(self.log_likelihood(mixture, after, log_sums) - self.prior.penalty(mixture.covariance)) / after.n
        state = {
            "x": (mixture.components, mixture.means),
            "weights": mixture.weights,
            "center": mixture.center,
            "covariance": mixture.covariance,
            "counts": after.counts,
            "sums": after.sums,
            "singular_values": s,
            "start": number,
        }
        return state, ms.Measures(fun=fun, extra={"m": len(mixture.components)})

    def expected(self, mixture: Tied) -> tuple[Statistics, float]:
        """Return the statistics by responsibilities, and the sum of the logarithms of the frames' scores."""
        D, offsets = mixture.scores()
        counts, sums, total = np.zeros(self.n_clusters), np.zeros((self.n_clusters, len(D))), 0.0
        for rows, scores, block in self._scores(D, offsets):
            log_sum: Array = np.asarray(logsumexp(scores, axis=1))
            scores -= log_sum[:, None]
            np.exp(scores, out=scores)
            if self.weight is not None:
                scores *= self.weight[rows, None]
                log_sum *= self.weight[rows]
            counts += scores.sum(axis=0)
            sums += scores.T @ block
            total += float(log_sum.sum())
        return Statistics(counts, sums, self.second, self.blocks.shift), total

    def log_likelihood(self, mixture: Tied, counted: Statistics, log_sums: float) -> float:
        """Return the log-likelihood of the columns that are not constant."""
        factor = cho_factor(mixture.covariance, lower=True)
        quadratic = float(np.trace(cho_solve(factor, counted.about(mixture.center))))
        constant = np.diagonal(mixture.covariance)[~self.prior.varies]
        d = len(self.second) - len(constant)
        size = d * np.log(2 * np.pi) + _log_determinant(factor) - float(np.log(constant).sum())
        return log_sums - quadratic / 2 - counted.n * size / 2

    def mean_log_likelihood(self, run: ms.Run) -> float:
        """Return the mean log-density of a frame at the end of a run."""
        return self.prior.penalty(run.state["covariance"]) / self.n - run.fun

    def criteria(self, singular_values: Array) -> Array:
        """Return the Bayesian information criterion, up to a constant, of 1, 2, … coordinates.

        A direction in which the means have the singular value s in the metric gains n/2 ln(1 + s²/n) (Bartlett 1947).
        """
        n = self.n
        most = max(min(len(singular_values), self.n_clusters - 1), 1)
        gains = n * np.cumsum(np.log1p(np.square(singular_values[:most]) / n))
        costs = np.array([self.parameters(m) for m in range(1, most + 1)]) * np.log(n)
        return costs - gains

    def labels(self, mixture: Tied) -> Codes:
        """Return the likeliest cluster of each frame, shape (N,)."""
        found = np.empty(len(self.X), np.int64)
        for rows, scores, _ in self._scores(*mixture.scores()):
            scores.argmax(axis=1, out=found[rows])
        return found

    def parameters(self, n_components: int) -> int:
        """Return the number of free parameters: weights, a center, means of rank m, a covariance."""
        d, K, m = len(self.second), self.n_clusters, n_components
        return K - 1 + d + m * (d + K - 1 - m) + d * (d + 1) // 2

    def _scores(self, D: Array, offsets: Array) -> Iterator[tuple[slice, Array, Array]]:
        """Yield blocks of frames minus the shift, with their scores (rows, K)."""
        offsets = offsets + self.blocks.shift @ D
        for rows, block in self.blocks.blocks(self.X):
            scores = block @ D
            scores += offsets
            yield rows, scores, block

    def _counted(self, labels: Codes) -> Statistics:
        """Return the statistics of labels of all frames."""
        counts, sums = np.zeros(self.n_clusters), np.zeros((self.n_clusters, len(self.second)))
        for rows, block in self.blocks.blocks(self.X):
            member = (labels[rows, None] == np.arange(self.n_clusters)).astype(np.float64)
            if self.weight is not None:
                member *= self.weight[rows, None]
            counts += member.sum(axis=0)
            sums += member.T @ block
        return Statistics(counts, sums, self.second, self.blocks.shift)

    def _refined(self, rng: np.random.Generator, number: int) -> tuple[State, ms.Measures]:
        """Return the state of all frames after EM on the sample."""
        X = self.X[self.sample]
        weight = None if self.weight is None else self.weight[self.sample]
        part = MixtureProblem.of(X, weight, self.n_clusters, self.n_components, rng, self.shrinkage)
        run = ms.iterate(
            part.step, lambda: part.start("k-means++", rng, number), stop=ms.CostChange(1e-6) | ms.MaxIterations(100)
        )
        return self.solved(self.expected(tied_of(run.state))[0], number)

    def _grouped(self, rng: np.random.Generator) -> Codes:
        """Return labels of the sample by k-means in principal components."""
        # equal frames become one with their weight: copies of a frame are what a weight is, and their order is nothing
        rows, first, inverse = np.unique(self.X[self.sample], axis=0, return_index=True, return_inverse=True)
        weight = np.bincount(inverse.ravel(), None if self.weight is None else self.weight[self.sample])
        K = min(self.n_clusters, len(first))
        found: Any = KMeans(K, n_init=cast(Any, 1), random_state=int(rng.integers(2**31)))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # fewer distinct frames: `fit` says so
            found.fit(rows.astype(np.float64) @ self.directions, sample_weight=weight.astype(np.float64))
        return found.labels_.astype(np.int64)[inverse.ravel()]

    def _nearest(self, centroids: Array) -> Codes:
        """Return the nearest centroid of each frame in units of the columns' deviations."""
        codes = (centroids - self.blocks.shift) / self.prior.scale**2
        found = np.empty(len(self.X), np.int64)
        offsets = -np.square((centroids - self.blocks.shift) / self.prior.scale).sum(axis=1) / 2
        for rows, block in self.blocks.blocks(self.X):
            (block @ codes.T + offsets).argmax(axis=1, out=found[rows])
        return found

    @property
    def n(self) -> float:
        """The weight of all frames."""
        return float(len(self.X) if self.weight is None else self.weight.sum())

    def _prior(self, labels: Codes) -> Prior:
        """Return the prior for the shrinkage, with a level estimated from labels of the sample."""
        scale, varies, n = self.prior.scale, self.prior.varies, self.n
        X = (self.X[self.sample].astype(np.float64) - self.blocks.shift)[:, varies] / scale[varies]
        w = np.ones(len(X)) if self.weight is None else self.weight[self.sample]
        member = (labels[:, None] == np.arange(self.n_clusters)) * w[:, None]
        X -= ((member.T @ X) / np.maximum(member.sum(axis=0), 1e-300)[:, None])[labels]
        d, total = X.shape[1], float(w.sum())
        S = (X * w[:, None]).T @ X / total
        level = float(np.trace(S)) / d
        if self.shrinkage == "ledoit-wolf":
            # their b² / d²: the variance of S over its distance from a multiple of the identity
            apart = float(np.square(S).sum()) - d * level**2
            spread = max(float(w @ np.square(np.vecdot(X, X))) / total - float(np.square(S).sum()), 0.0) / n
            shrinkage = spread / apart if apart > 1e-12 * d * level**2 else 0.0
        elif self.shrinkage == "auto":
            shrinkage = max(_SHRINKAGE, _SHRINKAGE_WIDE * d / n)
        else:
            shrinkage = float(self.shrinkage)
        shrinkage = float(np.clip(shrinkage, _LEAST, 1 - 1e-3))
        return Prior(n * shrinkage / (1 - shrinkage), max(level, _LEAST), scale, varies)


def _sums(X: NDArray, weight: Array | None, blocks: Moments) -> tuple[Array, Array, float]:
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


def tied_of(state: State) -> Tied:
    """Return the parameters in a state."""
    W, means = state["x"]
    return Tied(state["weights"], means, state["center"], state["covariance"], W)


def _log_determinant(factor: Any) -> float:
    return 2 * float(np.log(np.diagonal(factor[0])).sum())
