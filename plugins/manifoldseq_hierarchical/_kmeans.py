"""Clusters and the subspace that separates them: the alternating minimization of F (1), and the estimator."""

import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp
from sklearn.base import ClusterMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import _check_sample_weight, check_is_fitted

import manifoldseq as ms
from manifoldseq.estimators import (
    available_where,
    check_choice,
    check_number,
    check_parameters,
    check_real,
    check_whole,
    count_distinct,
    fit_starts,
    quoted,
    random_generator,
    row_blocks,
    warn_of_few_distinct,
)
from manifoldseq.models import Choice, Step

from ._closed_form import check_components, encode, energy, leading_directions, nearest, weighted_centroids
from ._coordinates import SubspaceCodes
from ._moments import Array, Codes, Moments
from ._tied_mixture import MixtureProblem, Prior, Statistics, Tied, tied_of

# One step assigns the frames and solves the closed form; it is pure, for the one loop.

# A trick of speed: with one product per block `SubspaceKMeans.fit` (4000 × 256, K=10) takes 1.13 times as long
# (`python -m benchmarks.tricks assign`).
_UNPACKED = 1_000_000
"""Multiply-adds of a product up to which OpenBLAS does not copy its factors first; K columns are few to copy for."""

State = dict[str, Any]
"""``x``: V' (m, d) and centroids (h, d); ``labels`` (N,), ``counts``, ``sums``, ``singular_values``, ``start``."""


@dataclass(frozen=True)
class Alternation:
    """The frames of one clustering problem, with the steps of the alternation.

    Parameters
    ----------
    X : ndarray of shape (N, d)
    n_clusters : int
    n_components : int or None
        m, or None for the best number in every step.
    origin : ndarray of shape (d,)
        mu_0, the mean of the frames.
    scatter, tolerance : float
        The trace of S_0 (7), and what rounding can contribute to a singular value.
    empty : Moments
        Moments of K classes without frames.
    weight : ndarray of shape (N,) or None
    """

    X: NDArray
    n_clusters: int
    n_components: int | None
    origin: Array
    scatter: float
    tolerance: float
    empty: Moments
    weight: Array | None

    @classmethod
    def of(cls, X: NDArray, weight: Array | None, n_clusters: int, n_components: int | None) -> "Alternation":
        """Return the problem of these frames.

        Raises
        ------
        ValueError
            If a frame is not finite, or all are equal.
        """
        whole = Moments.of(X, np.zeros(len(X), np.int64), weight=weight)
        origin = whole.mean
        scatter, tolerance = whole.scatter(origin), whole.tolerance(origin)
        if scatter <= tolerance**2:
            raise ValueError("all frames of X are equal up to rounding: pass frames that differ")
        empty = Moments.empty(X, n_clusters)
        return cls(X, n_clusters, n_components, origin, scatter, tolerance, empty, weight)

    def start(self, init: Any, rng: np.random.Generator, number: int) -> tuple[State, ms.Measures]:
        """Return the initial state of the alternation and its measures: initial labels, then the closed form."""
        N, K = len(self.X), self.n_clusters
        if isinstance(init, str) and init == "random":
            labels = rng.permutation(N) % K
        elif isinstance(init, str) and init == "segments":
            labels = np.arange(N) * K // N
        elif isinstance(init, str) or init.ndim == 2:
            labels = self._assigned(self._spread(rng) if isinstance(init, str) else init)
        else:
            labels = init
        return self.solved(labels, {"labels": labels, "start": number})

    def step(self, state: State) -> tuple[State, ms.Measures]:
        """Assign every frame to its nearest centroid; return the state of the closed form (4), (9)-(13) for it."""
        Vt, centroids = state["x"]
        labels = self._assigned(centroids, Vt.T)
        counts = np.bincount(labels, minlength=self.n_clusters)
        if not counts.all():
            labels = self._repaired(labels, counts, Vt.T, centroids)
        old = state["labels"]
        moved = np.flatnonzero(labels != old)
        # A trick of speed: with sums over all frames in every step `fit` (4000 × 512, K=20) takes 1.19 times as long
        # (`python -m benchmarks.tricks moves`); their rounding is taken off at the end, see `_learned`
        if 4 * len(moved) > len(labels) or self.weight is not None:
            return self.solved(labels, state)
        moments = replace(self.empty, counts=state["counts"].copy(), sums=state["sums"].copy())
        moments.move(self.X[moved], old[moved], labels[moved])
        return self.solved(labels, state, moments)

    def solved(self, labels: Codes, before: State, moments: Moments | None = None) -> tuple[State, ms.Measures]:
        """Return the state with these labels and the optimal V, m, mu, and its measures."""
        moments = self.moments(labels) if moments is None else moments
        centroids = np.where(moments.counts[:, None] > 0, moments.centroids, self.origin)
        B = weighted_centroids(centroids, moments.counts, self.origin)
        V, s = leading_directions(B, self.tolerance, self.n_components)
        energy = max(self.scatter - float(np.square(s[: V.shape[1]]).sum()), 0.0)  # tr S_0 - sum of s², (6) at (9)-(13)
        state = {
            "x": (V.T, centroids),
            "labels": labels,
            "counts": moments.counts,
            "sums": moments.sums,
            "singular_values": s,
            "start": before["start"],
        }
        moved = int(np.count_nonzero(labels != before["labels"]))
        return state, ms.Measures(fun=energy / self.scatter, extra={"m": V.shape[1], "moved": moved})

    def moments(self, labels: Codes) -> Moments:
        """Return counts and sums of the clusters, from all frames."""
        return Moments.of(self.X, labels, self.n_clusters, self.weight)

    def _assigned(self, targets: Array, V: Array | None = None) -> Codes:
        """Return the nearest of K points for each frame, in the coordinates V or in all d columns.

        The function multiplies the frames by a d×K matrix, or by a d×m and an m×K matrix if this is faster.
        """
        d, K = len(self.origin), self.n_clusters
        # |V'(x - c)|² less |V'x|²: x' V (-2 V'c) + |V'c|², by one d×K matrix, or by V (d×m) and then m×K if that is
        # less
        codes = targets - self.origin if V is None else (targets - self.origin) @ V
        directions = -2 * codes.T if V is None else V @ (-2 * codes.T)
        factors = [directions]
        if V is not None and V.shape[1] * (d + K) < d * K:
            factors = [V, -2 * codes.T]
        offsets = np.square(codes).sum(axis=1) - (self.origin - self.empty.shift) @ directions
        labels = np.empty(len(self.X), np.int64)
        factors = [np.ascontiguousarray(factor) for factor in factors]
        step = _UNPACKED // (d * K) if d * K < _UNPACKED // 16 else len(self.X)
        for rows, block in self.empty.blocks(self.X):
            for first in range(0, len(block), step):
                scores = block[first : first + step]
                for factor in factors:
                    scores = scores @ factor
                scores += offsets
                scores.argmin(axis=1, out=labels[rows][first : first + step])
        return labels

    def _repaired(self, labels: Codes, counts: NDArray[np.int64], V: Array, centroids: Array) -> Codes:
        """Assign to each empty cluster the farthest frame of a cluster of two or more, which lowers F."""
        codes = encode(centroids, V, self.origin)
        squared = nearest(encode(self.X, V, self.origin).astype(np.float64), codes)[1]
        labels, counts = labels.copy(), counts.copy()
        order = iter(np.argsort(-squared, kind="stable"))
        for k in np.flatnonzero(counts == 0):
            i = next((i for i in order if counts[labels[i]] > 1), None)
            if i is None or squared[i] <= 0:
                break  # the other frames coincide with their centroids
            counts[labels[i]] -= 1
            labels[i], counts[k] = k, 1
        return labels

    def _spread(self, rng: np.random.Generator) -> Array:
        """Return K frames by greedy k-means++."""
        from sklearn.cluster import kmeans_plusplus

        seed = int(rng.integers(2**31))
        X = self.X.astype(np.result_type(self.X, np.float32), copy=False)  # sums of whole numbers would wrap around
        found = kmeans_plusplus(X, self.n_clusters, sample_weight=self.weight, random_state=seed)[0]
        return found.astype(np.float64)


INITS = ("k-means++", "random", "segments")
SHRINKAGES = ("auto", "ledoit-wolf")
OBJECTIVES = ("mixture", "printed")
_FRAMES_EACH = 5
"""Minimum mean number of frames per cluster, if the number of clusters is chosen."""
_MOST_CLUSTERS = 20
_WORSE = 3
"""The search over numbers of clusters, from 1 on, ends after this many numbers that are worse than the best."""
_FORGETTING = 0.6
"""Exponent for mini-batches: batch t has the weight t^-0.6 in the running sums (Cappé and Moulines 2009)."""


def _check_mixture(estimator: Any) -> None:
    """Raise AttributeError for an objective without probabilities."""
    if estimator.objective != "mixture":
        raise AttributeError(
            f"objective={quoted(estimator.objective)} assigns each frame to one cluster, without probabilities: use "
            "objective='mixture'"
        )


class SubspaceKMeans(ClusterMixin, SubspaceCodes):
    """Cluster frames, and find the coordinates that separate the clusters best.

    The default objective is the posterior density of a Gaussian mixture with one shrunk covariance (a tied mixture),
    whose means lie in a subspace. EM with soft assignments maximizes it. The coordinates are those of linear
    discriminant analysis of the clusters. The other objective is F(V, m, mu), equation (1) of the paper, in the metric
    of the unscaled columns. Its algorithm assigns each frame to the nearest centroid in the coordinates ``V' x``, and
    then computes V, m and mu in closed form for these labels.

    Parameters
    ----------
    n_clusters : int or "auto"
        ``"auto"`` chooses a number from 1 to 20 by the Bayesian information criterion of the mixture. Clusters have at
        least five frames on average (two clusters are tried for fewer than 15 frames, too). For real data, whose
        classes are not Gaussians of equal covariance, the criterion chooses more clusters than there are classes.
    n_components : int, None or "auto"
        The number m of coordinates, from 1 to d. None uses the dimension of the span of the means, at most K - 1. The
        mixture warns if m is larger, and uses this dimension. With a smaller m, the clusters are those that m
        coordinates can separate. ``"auto"`` chooses m by the same criterion.
    objective : {"mixture", "printed"}
        ``"mixture"`` is the posterior density, and ``"printed"`` is equation (1) of the paper. With ``"printed"`` and
        ``n_components=None``, the labels are those of Lloyd's k-means, and the subspace only stores the centroids
        compactly.
    shrinkage : float, "auto" or "ledoit-wolf"
        The shrinkage of the mixture's covariance toward a multiple of the columns' variances, from 0 to 1. ``"auto"``
        is 0.02, or a tenth of the number of columns divided by the number of frames if this value is larger. 0 and 1
        are replaced by 10⁻⁶ and 0.999, so that the covariance has an inverse and depends on the data.
        ``"ledoit-wolf"`` is the estimate of Ledoit and Wolf (2004) for the labels of a first k-means. It is larger:
        it is optimal for the covariance, but not for the clusters.
    init : {"k-means++", "random", "segments"} or array-like
        For the mixture, ``"k-means++"`` uses the labels of k-means in at most 50 principal components of the columns,
        each column divided by its standard deviation. ``"segments"`` uses contiguous segments of a sequence. An array
        has the labels 0 to K - 1, shape (N,), or the centroids, shape (K, d).
    n_init : int
        The number of starts. The result with the best objective is kept. ``"segments"`` and arrays give one start. For
        more than 20,000 frames, EM on 20,000 of the frames computes the start.
    max_iter : int
    tol : float
        A start ends when the objective changes by at most `tol` in a step, in nats per frame, or relative to the trace
        of S_0 with ``"printed"``. With ``"printed"`` and 0, a start ends when F does not change.
    random_state : int, numpy.random.Generator, numpy.random.RandomState or None
    n_jobs, verbose
        The number of threads for the starts, and the amount of logging: see `manifoldseq.estimators.fit_starts`.

    Attributes
    ----------
    labels_ : ndarray of shape (N,), int
        The most likely cluster of each frame (mixture), or the nearest cluster (``"printed"``). If the starts are
        random, the clusters of the mixture are numbered along the first coordinate. After `partial_fit`, the labels are
        those of the last batch.
    n_clusters_ : int
    components_ : ndarray of shape (m, d)
        The transpose of V. For the mixture, ``components_ @ covariance_ @ components_.T`` is the identity. For
        ``"printed"``, the rows are orthonormal.
    cluster_centers_ : ndarray of shape (K, d)
        The means of the clusters, equation (4); for the mixture they lie in the subspace.
    center_ : ndarray of shape (d,)
        mu_0, the mean of the frames.
    covariance_ : ndarray of shape (d, d)
        The common covariance of the clusters (mixture only).
    weights_ : ndarray of shape (K,)
        The probabilities of the clusters (mixture only).
    shrinkage_ : float
        The weight of the target, a multiple of the columns' variances, in `covariance_` (mixture only).
    choice_ : manifoldseq.models.Choice
        The criterion of the compared numbers of clusters and of coordinates; it exists only if a number is ``"auto"``.
    log_likelihood_, bic_ : float
        The mean log-density of a frame, and the Bayesian information criterion (mixture only).
    singular_values_ : ndarray of shape (min(K, d),)
        The singular values of the weighted centroids; for the mixture, in the metric of `covariance_`.
    energy_ : float
        The objective F, equation (1) (``"printed"`` only).
    scatter_ : float
        The trace of S_0, equation (7); for the mixture, in the metric of `covariance_`.
    n_iter_ : int
        The number of steps of the best start.
    history_ : dict of str to ndarray
        Columns of equal length for the best start, which begin with the start itself: ``nit``, ``time``, ``fun``
        (minus the log-density of a frame and of the prior, or F divided by the trace of S_0), ``m`` and further
        columns.
    status_ : manifoldseq.Status
        The reason why the best start ended. It is ``INTERRUPTED`` if Ctrl-C ended or prevented any start.
    n_features_in_ : int

    See Also
    --------
    SubspaceEncoder : for given labels or segments.

    Notes
    -----
    Shrinkage is an inverse Wishart prior centred on a multiple of the columns' variances. A first k-means estimates
    the multiple from the variances within its clusters. The prior is then fixed, so that no step of EM lowers the
    posterior density. Clusters do not depend on the units of the columns. Frames are read block by block, and the
    memory does not grow with the number of frames, except for the labels. The method of SubKMeans (Mautz et al. 2017),
    whose update is an eigendecomposition of a d × d matrix, minimizes F, too.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((90, 20)) + 4 * np.repeat(rng.standard_normal((3, 20)), 30, axis=0)
    >>> model = SubspaceKMeans(n_clusters=3, random_state=0).fit(X)
    >>> model.components_.shape, sorted(np.bincount(model.labels_).tolist())
    ((2, 20), [30, 30, 30])
    >>> SubspaceKMeans(n_clusters="auto", random_state=0).fit(X).n_clusters_
    3
    """

    stored_types = (Moments, Statistics, Prior, Choice, Step)

    def __init__(
        self,
        n_clusters: int | str = 8,
        *,
        n_components: int | str | None = None,
        objective: str = "mixture",
        shrinkage: float | str = "auto",
        init: Any = "k-means++",
        n_init: int = 4,
        max_iter: int = 300,
        tol: float = 1e-7,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_clusters = n_clusters
        self.n_components = n_components
        self.objective = objective
        self.shrinkage = shrinkage
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def fit(
        self,
        X: Any,
        y: object = None,
        sample_weight: Any = None,
        *,
        observers: Sequence[Any] = (),
        checkpoint: ms.storage.Checkpoint | str | Path | None = None,
        resume: bool = False,
    ) -> Self:
        """Cluster frames.

        Parameters
        ----------
        X : array-like of shape (N, d)
            The frames, of any real dtype. A `numpy.memmap` is read block by block.
        y : ignored
        sample_weight : array-like of shape (N,), optional
            A frame of weight 2 counts as two frames, and a frame of weight 0 is ignored.
        observers, checkpoint, resume
            As in `manifoldseq.iterate`, for every start; the state holds ``x`` (V' and the centroids) and ``start``,
            its number. Each start has its own folder in the checkpoint.

        Raises
        ------
        ValueError
            For an invalid parameter or input. The message says what is wrong, where, and what to do.
        """
        check_parameters(self, _RULES)
        frames = self._frames(X, reset=True, least=2)
        weight, kept = self._weights(sample_weight, frames)
        X = frames if kept is None else frames[kept]
        init = self._checked_init(X)
        n_starts = self.n_init if isinstance(init, str) and init != "segments" else 1
        m = None if self.n_components == "auto" else check_components(self.n_components, X.shape[1])
        choice = None
        if self.objective == "printed":
            self._check_printed()
            problem: Any = Alternation.of(X, weight, int(self.n_clusters), m)
        else:
            problem, choice = self._mixture_problem(X, weight, m, init, n_starts)

        def run(number: int, rng: np.random.Generator, **loop: Any) -> ms.Run:
            return ms.iterate(
                problem.step,
                lambda: problem.start(init, rng, number),
                stop=ms.CostChange(self.tol) | ms.MaxIterations(self.max_iter),
                **loop,
            )

        data = (X,) if weight is None else (X, weight)
        options: dict[str, Any] = {"observers": observers, "checkpoint": checkpoint, "resume": resume}
        best = fit_starts(self, run, *data, n_starts=n_starts, **options)
        for name in ("statistics_", "prior_", "moments_", "weights_", "covariance_", "shrinkage_", "bic_", "energy_"):
            self.__dict__.pop(name, None)  # of another objective
        self.__dict__.pop("choice_", None)
        if choice is not None:
            self.choice_ = choice
        self.n_clusters_, self.batches_ = problem.n_clusters, 1
        self.n_iter_, self.history_, self.status_ = best.nit, best.history, best.status
        if isinstance(problem, Alternation):
            self._learned(best, problem)
        else:
            self._learned_mixture(best, problem)
        if kept is not None:  # frames without weight are in clusters too
            labels, self.labels_ = self.labels_, np.empty(len(kept), np.int64)
            self.labels_[kept], self.labels_[~kept] = labels, self.predict(frames[~kept])
        if m is not None and len(self.components_) < m:
            warnings.warn(
                f"n_components={m} is more than the {len(self.components_)} directions that {self.n_clusters_} means "
                "span: only these directions are kept",
                stacklevel=2,
            )
        found = len(np.unique(self.labels_))
        if found < self.n_clusters_:
            different = count_distinct((X[part] for part in row_blocks(len(X))), self.n_clusters_)
            warn_of_few_distinct(different, self.n_clusters_, "n_clusters", "frames")
            if different >= self.n_clusters_:
                warnings.warn(
                    f"only {found} of {self.n_clusters_} clusters have frames: lower n_clusters",
                    ConvergenceWarning,
                    stacklevel=2,
                )
        return self

    def partial_fit(self, X: Any, y: object = None, sample_weight: Any = None) -> Self:
        """Update the fit with a mini-batch of frames, by a step of online EM or of k-means in the subspace.

        The first batch is fitted as by `fit`, and should be typical: it chooses the start, the units of the columns and
        the numbers that are ``"auto"``. After `fit`, batches continue from its result. Online EM forgets old frames
        (Cappé and Moulines 2009). With ``"printed"``, all frames have equal weight.

        Parameters
        ----------
        X : array-like of shape (b, d)
        y : ignored
        sample_weight : array-like of shape (b,), optional

        Raises
        ------
        ValueError
            For invalid input, or another `objective` than the one that was fitted.
        """
        if not hasattr(self, "components_"):
            return self.fit(X, sample_weight=sample_weight)
        check_parameters(self, _RULES)
        frames = self._frames(X, reset=False)
        weight, kept = self._weights(sample_weight, frames)
        X = frames if kept is None else frames[kept]
        if (self.objective == "mixture") != hasattr(self, "statistics_"):
            raise ValueError(f"objective={quoted(self.objective)} differs from the fitted objective: fit again")
        if self.objective == "mixture":
            self._take_batch(X, weight)
        else:
            moments = self.moments_.copy()
            moments.add(X, self.predict(X), weight)
            origin = moments.mean
            centroids = np.where(moments.counts[:, None] > 0, moments.centroids, origin)
            B = weighted_centroids(centroids, moments.counts, origin)
            m = check_components(self.n_components, X.shape[1])
            V, s = leading_directions(B, moments.tolerance(origin), m)
            self.moments_, self.center_, self.cluster_centers_ = moments, origin, centroids
            self.components_, self.singular_values_ = np.ascontiguousarray(V.T), s
            self.scatter_ = moments.scatter(origin)
            self.energy_ = max(self.scatter_ - float(np.square(s[: len(self.components_)]).sum()), 0.0)
        self.batches_ += 1
        self.labels_ = self.predict(frames)
        return self

    def predict(self, X: Any) -> NDArray[np.int64]:
        """Return the most likely cluster of each frame, or the nearest cluster in the coordinates of the subspace.

        Returns
        -------
        ndarray of shape (N,), int
        """
        if self._is_mixture:
            return self._scores(X).argmax(axis=1)
        return self._nearest(X)[0].astype(np.int64)

    @available_where(_check_mixture)
    def predict_proba(self, X: Any) -> Array:
        """Return the probabilities of the clusters for each frame, by the mixture; the printed objective has none.

        Returns
        -------
        ndarray of shape (N, K)
        """
        check_is_fitted(self, "components_")
        scores = self._scores(X)
        scores -= np.asarray(logsumexp(scores, axis=1, keepdims=True))
        return np.exp(scores, out=scores)

    def score(self, X: Any, y: object = None) -> float:
        """Return the mean log-density of frames, or minus their F (1) with ``objective="printed"``.

        F uses the nearest centroid in the first m coordinates, and mu_0 in the remaining coordinates.
        """
        if self._is_mixture:
            frames = self._frames(X, reset=False)
            problem = self._problem_of(frames)
            counted, log_sums = problem.expected(self._tied)
            return problem.log_likelihood(self._tied, counted, log_sums) / counted.n
        X = self._frames(X, reset=False)
        V = self.components_.T
        total = energy(X, V, self.center_, (self.cluster_centers_ - self.center_) @ V)
        if not np.isfinite(total):
            self.transform(X)  # which says where
        return -total

    def rotation(self) -> Array:
        """Return the orthogonal matrix V, shape (d, d), for ``objective="printed"``; the mixture has no such matrix."""
        if self._is_mixture:
            raise ValueError("the coordinates of objective='mixture' are not a rotation: choose objective='printed'")
        return super().rotation()

    @property
    def _is_mixture(self) -> bool:
        check_is_fitted(self, "components_")
        return hasattr(self, "covariance_")

    @property
    def _tied(self) -> Tied:
        return Tied(self.weights_, self.cluster_centers_, self.center_, self.covariance_, self.components_)

    def _basis(self) -> Array:
        return self.covariance_ @ self.components_.T if self._is_mixture else self.components_.T

    def _scores(self, X: Any) -> Array:
        """Return the scores of the clusters for each frame, shape (N, K), up to an offset for each frame."""
        X = self._frames(X, reset=False)
        codes = encode(X, self.components_.T, self.center_).astype(np.float64, copy=False)
        own = (self.cluster_centers_ - self.center_) @ self.components_.T
        weights = np.maximum(self.weights_, np.finfo(np.float64).tiny)
        return codes @ own.T + (np.log(weights) - np.square(own).sum(axis=1) / 2)

    def _mixture_problem(
        self, X: NDArray, weight: Array | None, m: int | None, init: Any, n_starts: int
    ) -> tuple[MixtureProblem, Choice | None]:
        """Return the problem after the choice of the numbers of clusters and of coordinates that are ``"auto"``."""
        began = time.perf_counter()
        rng = random_generator(self.random_state).spawn(1)[0]
        stop = ms.CostChange(max(self.tol, 1e-6)) | ms.MaxIterations(self.max_iter)
        automatic = isinstance(self.n_clusters, str)
        first = MixtureProblem.of(X, weight, 1 if automatic else int(self.n_clusters), m, rng, self.shrinkage)
        if not automatic and self.n_components != "auto":
            return first, None
        tried: dict[int, float] = {}
        best: tuple[MixtureProblem, ms.Run] | None = None
        # of few frames, one cluster each would fit best: the criterion is one of many frames
        most = min(_MOST_CLUSTERS, max(2, len(X) // _FRAMES_EACH), len(X))
        for K in range(1, most + 1) if automatic else [first.n_clusters]:
            problem = first.with_clusters(K, rng)
            runs = [
                ms.iterate(problem.step, partial(problem.start, init, rng, number), stop=stop)
                for number in range(1 if K == 1 else n_starts)
            ]
            run = min(runs, key=lambda run: run.fun)
            tried[K] = _bic(problem, run)
            lowest = min(tried, key=tried.__getitem__)
            if lowest == K:
                best = problem, run
            if K - lowest == _WORSE:
                break
        assert best is not None
        problem, run = best
        steps = [_by_bic("n_clusters", tried)] if automatic else []
        if problem.n_clusters == 1:
            warnings.warn(
                "n_clusters='auto' chose one cluster: several clusters of one shape are not more likely", stacklevel=3
            )
        if self.n_components == "auto":
            criteria = problem.criteria(run.state["singular_values"])
            steps.append(_by_bic("n_components", dict(enumerate(criteria, 1))))
            problem = replace(problem, n_components=1 + int(criteria.argmin()))
        params = {name: value for step in steps for name, value in step.params[step.chosen[0]].items()}
        return problem, Choice(steps, params, [], time.perf_counter() - began)

    def _problem_of(self, X: NDArray, weight: Array | None = None) -> MixtureProblem:
        """Return the problem of other frames with the learned prior."""
        return MixtureProblem.given(X, weight, self.n_clusters_, self.prior_)

    def _take_batch(self, X: NDArray, weight: Array | None) -> None:
        batch, _ = self._problem_of(X, weight).expected(self._tied)
        batch = batch.moved(self.statistics_.shift)
        share = (self.batches_ + 1) ** -_FORGETTING
        self.statistics_ = self.statistics_.joined(batch, share, self.statistics_.n + batch.n)
        m = len(self.components_) if self.n_components == "auto" else self.n_components
        self._remember(*self.prior_.maximized(self.statistics_, None if m is None else int(m)))

    def _remember(self, mixture: Tied, singular_values: Array) -> None:
        self.weights_, self.cluster_centers_, self.center_ = mixture.weights, mixture.means, mixture.center
        self.covariance_, self.components_ = mixture.covariance, np.ascontiguousarray(mixture.components)
        self.singular_values_ = singular_values
        self.scatter_ = self.statistics_.scatter(mixture)
        self.shrinkage_ = self.prior_.strength / (self.statistics_.n + self.prior_.strength)

    def _learned_mixture(self, best: ms.Run, problem: MixtureProblem) -> None:
        state, mixture = best.state, tied_of(best.state)
        order = np.arange(problem.n_clusters)
        if isinstance(self.init, str) and self.init != "segments" and len(mixture.components):
            # numbers by chance would differ between starts that are as good: along the first coordinate
            order = np.argsort((mixture.means - mixture.center) @ mixture.components[0], kind="stable")
        mixture = replace(mixture, weights=mixture.weights[order], means=mixture.means[order])
        counts, sums = state["counts"][order], state["sums"][order]
        self.prior_ = problem.prior
        self.statistics_ = Statistics(counts, sums, problem.second, problem.blocks.shift)
        self._remember(mixture, state["singular_values"])
        self.labels_ = problem.labels(mixture)
        self.log_likelihood_, self.bic_ = problem.mean_log_likelihood(best), _bic(problem, best)

    def _learned(self, best: ms.Run, problem: Alternation) -> None:
        self.labels_ = np.array(best.state["labels"])
        self.moments_ = problem.moments(self.labels_)  # sums anew, without the rounding of many moves
        state, measures = problem.solved(self.labels_, best.state, self.moments_)
        self.components_, self.cluster_centers_ = np.ascontiguousarray(state["x"][0]), state["x"][1]
        self.singular_values_ = state["singular_values"]
        self.center_, self.scatter_ = problem.origin, problem.scatter
        self.energy_ = measures.fun * problem.scatter

    def _weights(self, sample_weight: Any, X: NDArray) -> tuple[Array | None, NDArray[np.bool_] | None]:
        """Return the positive weights (None if all are equal), and the frames that have them (None for all frames)."""
        if sample_weight is None:
            return None, None
        weight = _check_sample_weight(
            check_real(sample_weight, "sample_weight"), X, dtype=np.float64, ensure_non_negative=True
        )
        if not weight.any():  # scikit-learn 1.6 takes it
            raise ValueError("sample_weight needs at least one non-zero number: it is zero for every frame")
        if weight.all():
            return weight, None
        return weight[weight > 0], weight > 0

    def _check_printed(self) -> None:
        for name in ("n_clusters", "n_components"):
            if isinstance(getattr(self, name), str):
                raise ValueError(
                    f"{name}='auto' is chosen by likelihood, which objective='printed' does not have: pass a number"
                )

    def _checked_init(self, X: NDArray) -> Any:
        N, K = len(X), self.n_clusters
        if isinstance(K, str):
            if not isinstance(self.init, str):
                raise ValueError(
                    "n_clusters='auto' chooses its own starts: leave init out, or pass a number of clusters"
                )
        elif N < K:
            raise ValueError(f"X has n_samples={N} frames for n_clusters={K}: pass more frames or lower n_clusters")
        if isinstance(self.init, str):
            if self.init not in INITS:
                raise ValueError(
                    f"init={quoted(self.init)} is not known: choose {', '.join(map(repr, INITS))}, labels or centroids"
                )
            return self.init
        init = np.asarray(self.init)
        if init.shape == (K, X.shape[1]) and init.dtype.kind in "iuf" and np.isfinite(init).all():
            return init.astype(np.float64)
        if init.shape != (N,) or init.dtype.kind not in "iu":
            raise ValueError(
                f"init must be one of {', '.join(map(repr, INITS))}, finite centroids of shape ({K}, {X.shape[1]}), "
                "or one whole number per frame"
            )
        if set(np.unique(init)) != set(range(int(K))):
            raise ValueError(
                f"init must assign at least one frame to each of the clusters 0 to {int(K) - 1}, and to no other "
                "cluster"
            )
        return init.astype(np.int64)


def _by_bic(name: str, criteria: Mapping[int, float]) -> Step:
    """Return the step of a choice of the number with the smallest criterion."""
    label = "Bayesian information criterion, up to a constant"
    figure = np.array([*criteria.values()])
    return Step("BIC", label, [{name: number} for number in criteria], figure, [int(figure.argmin())])


def _bic(problem: MixtureProblem, run: ms.Run) -> float:
    """Return the Bayesian information criterion; smaller is better."""
    parameters = problem.parameters(len(run.state["x"][0]))
    return -2 * problem.n * problem.mean_log_likelihood(run) + parameters * float(np.log(problem.n))


def _whole_or_auto(name: str, value: Any) -> None:
    if not (isinstance(value, str) and value == "auto"):
        try:
            check_whole(name, value)
        except ValueError as error:
            raise ValueError(f"{error}, or 'auto'") from None


def _shrinkage(name: str, value: Any) -> None:
    if isinstance(value, str):
        check_choice(name, value, SHRINKAGES, "a number from 0 to 1")
    else:
        check_number(name, value, 0.0, 1.0)


_RULES = {"shrinkage": _shrinkage, "n_clusters": _whole_or_auto, "objective": (check_choice, OBJECTIVES)}
