"""Clusters and the subspace that separates them: the estimator of two models."""

import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp
from sklearn.base import ClusterMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

import manifoldseq as ms
from manifoldseq.estimators import (
    available_where,
    check_choice,
    check_number,
    check_parameters,
    check_sample_weight,
    check_whole,
    count_distinct,
    quoted,
    random_generator,
    row_blocks,
    warn_of_few_distinct,
)
from manifoldseq.models import Choice, ModelEstimator, Step, at_end_of_range
from manifoldseq.solvers import learned, share_of_batch

from . import _clusters, _tied_mixture
from ._closed_form import check_components, encode, energy
from ._coordinates import SubspaceCodes
from ._moments import Array, Moments
from ._tied_mixture import SHRINKAGES, Frames, Prior, Statistics, Tied, TiedModel, log_densities, statistics

OBJECTIVES = ("mixture", "printed")
_FRAMES_EACH = 5
"""Minimum mean number of frames per cluster, if the number of clusters is chosen."""
_MOST_CLUSTERS = 20
_WORSE = 3
"""The search over numbers of clusters, from 1 on, ends after this many numbers that are worse than the best."""
_OF_FIT = (
    *("statistics_", "prior_", "shift_", "moments_", "weights_", "covariance_", "shrinkage_", "log_likelihood_"),
    *("bic_", "energy_", "choice_"),
)
"""Attributes of one of the objectives."""


def _check_mixture(estimator: Any) -> None:
    """Raise AttributeError for an objective without probabilities."""
    if estimator.objective != "mixture":
        raise AttributeError(
            f"objective={quoted(estimator.objective)} assigns each frame to one cluster, without probabilities: use "
            "objective='mixture'"
        )


class SubspaceKMeans(ClusterMixin, SubspaceCodes, ModelEstimator):
    """Cluster frames, and find the coordinates that separate the clusters best.

    The default objective is the posterior density of a Gaussian mixture with one shrunk covariance (a tied mixture),
    whose means lie in a subspace. EM with soft assignments maximizes it. The coordinates are the result of linear
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
        mixture warns if m is larger, and uses this dimension. With a smaller m, the clusters are the clusters that m
        coordinates can separate. ``"auto"`` chooses m by the same criterion.
    objective : {"mixture", "printed"}
        ``"mixture"`` is the posterior density, and ``"printed"`` is equation (1) of the paper. With ``"printed"`` and
        ``n_components=None``, the labels equal the labels of Lloyd's k-means, and the subspace only stores the
        centroids compactly.
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
        The largest number of iterations of a start.
    tol : float
        A start ends when the objective changes by at most `tol` in a step, in nats per frame, or relative to the trace
        of S_0 with ``"printed"``. With ``"printed"`` and 0, a start ends when F does not change.
    random_state : int, numpy.random.Generator, numpy.random.RandomState or None
        Seed of the random choices.
    solver : str
        ``"em"``: EM for the mixture, and the alternation of assignments and closed form for ``"printed"``; or the name
        of another solver of `manifoldseq.minimize`.
    model : str, optional
        The name of the registered model whose cost is minimized, by default ``"hierarchical.tied"`` for the mixture and
        ``"hierarchical.clusters"`` for ``"printed"``.
    n_jobs : int or None
        The number of threads for the starts, -1 for one per core; None uses the executor of the context.
    verbose : int
        1 logs the end of every start, 2 logs every iteration, to the logger ``"manifoldseq"``.

    Attributes
    ----------
    labels_ : ndarray of shape (N,), int
        The most likely cluster of each frame (mixture), or the nearest cluster (``"printed"``). If the starts are
        random, the clusters of the mixture are numbered along the first coordinate. After `partial_fit`, they are the
        labels of the last batch.
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
    objective_ : float
        The smallest value of the cost of the model: minus the log-density of a frame and of the prior, or F divided by
        the trace of S_0.
    log_likelihood_, bic_ : float
        The mean log-density of a frame, and the Bayesian information criterion (mixture only). They do not exist if
        `model` has another cost.
    singular_values_ : ndarray of shape (min(K, d),)
        The singular values of the weighted centroids; for the mixture, in the metric of `covariance_`.
    energy_ : float
        The objective F, equation (1) (``"printed"`` only).
    scatter_ : float
        The trace of S_0, equation (7); for the mixture, in the metric of `covariance_`.
    n_iter_ : int
        The number of steps of the best start.
    history_ : dict of str to ndarray
        Columns of equal length for the best start, which begin with the start itself: ``nit``, ``time``, ``fun`` (see
        `objective_`) and further columns.
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
        init: str | ArrayLike = "k-means++",
        n_init: int = 4,
        max_iter: int = 300,
        tol: float = 1e-7,
        random_state: Any = None,
        solver: str = "em",
        model: str | None = None,
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
        self.solver = solver
        self.model = model
        self.n_jobs = n_jobs
        self.verbose = verbose

    def fit(
        self,
        X: ArrayLike,
        y: object = None,
        sample_weight: ArrayLike | None = None,
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
            As in `manifoldseq.iterate`, for every start; the state holds ``x``, a point of the model. Each start has
            its own folder in the checkpoint.

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
            sizes = {"n_clusters": int(self.n_clusters), "n_components": m}
            problem = self._problem(self._model_name, (X, weight), **sizes)
            begin: Any = partial(_clusters.start_at, init)
        else:
            problem, choice = self._mixture_problem(X, weight, m, init, n_starts)
            begin = partial(_tied_mixture.start_at, init)
        data = (X,) if weight is None else (X, weight)
        options: dict[str, Any] = {"observers": observers, "checkpoint": checkpoint, "resume": resume}
        begin = init if isinstance(init, str) else begin
        best = self._solved(problem, *data, init=begin, solver=self.solver, n_starts=n_starts, **options)
        self._forget(*_OF_FIT)
        if choice is not None:
            self.choice_ = choice
        self.n_clusters_, self.batches_ = problem.data.model.n_clusters, 1
        if self.objective == "printed":
            self._learned(best.x, problem.data.model)
        else:
            self._learned_mixture(best.x, problem)
        if kept is not None:  # frames without weight are in clusters too
            labels, self.labels_ = self.labels_, np.empty(len(kept), np.int64)
            self.labels_[kept], self.labels_[~kept] = labels, self.predict(frames[~kept])
        if m is not None and len(self.components_) < m:
            warnings.warn(
                f"n_components={m} exceeds {len(self.components_)}, the number of directions in which the "
                f"{self.n_clusters_} cluster means differ: the fit keeps {len(self.components_)} components",
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

    def partial_fit(self, X: ArrayLike, y: object = None, sample_weight: ArrayLike | None = None) -> Self:
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
            For invalid input, or if `objective` was changed after the first fit.
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
            moments.add(X, self._labels(X), weight)
            origin = moments.mean
            known = moments.n, self.n_clusters_, 0, origin, moments.scatter(origin), moments.tolerance(origin), moments
            self._keep(_clusters.Clusters(*known), moments, check_components(self.n_components, X.shape[1]))
        self.batches_ += 1
        self.labels_ = self._labels(frames)
        return self

    def predict(self, X: ArrayLike) -> NDArray[np.int64]:
        """Return the most likely cluster of each frame, or the nearest cluster in the coordinates of the subspace.

        Returns
        -------
        ndarray of shape (N,), int
        """
        return self._labels(self._frames(X, reset=False))

    @available_where(_check_mixture)
    def predict_proba(self, X: ArrayLike) -> Array:
        """Return the probabilities of the clusters for each frame, by the mixture; the printed objective has none.

        Returns
        -------
        ndarray of shape (N, K)
        """
        check_is_fitted(self, "components_")
        scores = self._scores(self._frames(X, reset=False))
        scores -= np.asarray(logsumexp(scores, axis=1, keepdims=True))
        return np.exp(scores, out=scores)

    def score(self, X: ArrayLike, y: object = None) -> float:
        """Return the mean log-density of frames, or minus their F (1) with ``objective="printed"``.

        F uses the nearest centroid in the first m coordinates, and mu_0 in the remaining coordinates.
        """
        if self._is_mixture:
            frames = self._frames(X, reset=False)
            n, second = self._tied_model.of_batch(frames, None)
            found = replace(statistics(self._tied_model.blocks, self._tied, (frames, None)), second=second)
            return log_densities(self._tied_model, self._tied, found)[0] / n
        X = self._frames(X, reset=False)
        V = self.components_.T
        total = energy(X, V, self.center_, (self.cluster_centers_ - self.center_) @ V)
        if not np.isfinite(total):
            self.transform(X)  # which says where
        return -total

    def rotation(self) -> Array:
        """Return the orthogonal matrix V, shape (d, d), for ``objective="printed"``; the mixture has no such matrix."""
        if self._is_mixture:
            raise ValueError(
                "rotation is not defined for objective='mixture', whose coordinates are not a rotation: choose "
                "objective='printed'"
            )
        return super().rotation()

    @property
    def _is_mixture(self) -> bool:
        check_is_fitted(self, "components_")
        return hasattr(self, "covariance_")

    @property
    def _tied(self) -> Tied:
        codes = (self.cluster_centers_ - self.center_) @ self.components_.T
        return Tied(self.weights_, self.center_, self.covariance_, self.components_, codes)

    @property
    def _tied_model(self) -> TiedModel:
        """The model of the frames so far, without the frames."""
        blocks = Moments(np.zeros(0), np.zeros((0, len(self.shift_))), self.shift_, 0.0, 0.0)
        m, rank = self.n_components, min(self.n_clusters_ - 1, len(self.shift_))
        m = max(1, min(rank, (len(self.components_) if m == "auto" else m) or rank))
        second = self.statistics_.second * self.n_frames_
        return TiedModel(self.n_frames_, self.n_clusters_, m, second, self.prior_, blocks)

    @property
    def _model_name(self) -> str:
        return self.model or ("hierarchical.tied" if self.objective == "mixture" else "hierarchical.clusters")

    def _basis(self) -> Array:
        return self.covariance_ @ self.components_.T if self._is_mixture else self.components_.T

    def _labels(self, X: NDArray) -> NDArray[np.int64]:
        return self._scores(X).argmax(axis=1) if self._is_mixture else self._nearest(X)[0].astype(np.int64)

    def _scores(self, X: NDArray) -> Array:
        """Return the scores of the clusters for each frame, shape (N, K), up to an offset for each frame."""
        codes = encode(X, self.components_.T, self.center_).astype(np.float64, copy=False)
        own = (self.cluster_centers_ - self.center_) @ self.components_.T
        weights = np.maximum(self.weights_, np.finfo(np.float64).tiny)
        return codes @ own.T + (np.log(weights) - np.square(own).sum(axis=1) / 2)

    def _mixture_problem(
        self, X: NDArray, weight: Array | None, m: int | None, init: Any, n_starts: int
    ) -> tuple[ms.Problem, Choice | None]:
        """Return the problem after the choice of the numbers of clusters and of coordinates that are ``"auto"``."""
        began = time.perf_counter()
        rng = random_generator(self.random_state).spawn(1)[0]
        automatic = isinstance(self.n_clusters, str)
        frames = Frames.of(X, weight, 1 if automatic else int(self.n_clusters), rng)

        def of(K: int, m: int | None) -> ms.Problem:
            return self._problem(self._model_name, frames, n_clusters=K, n_components=m, **known)

        known: dict[str, Any] = {"shrinkage": self.shrinkage, "seed": rng}
        first = of(1 if automatic else int(self.n_clusters), m)
        if not automatic and self.n_components != "auto":
            return first, None
        stop = ms.CostChange(max(self.tol, 1e-6)) | ms.MaxIterations(self.max_iter)
        tried: dict[int, float] = {}
        best: tuple[ms.Problem, Any] | None = None
        # of few frames, one cluster each would fit best: the criterion is one of many frames
        most = min(_MOST_CLUSTERS, max(2, len(X) // _FRAMES_EACH), len(X))
        for K in range(1, most + 1) if automatic else [first.data.model.n_clusters]:
            problem = of(K, m)
            begin = init if isinstance(init, str) else partial(_tied_mixture.start_at, init)
            runs = [
                ms.minimize(problem, self._begun(problem, begin, rng), solver="em", stop=stop, project=True)
                for _ in range(1 if K == 1 else n_starts)
            ]
            x = min(runs, key=lambda run: run.fun).x
            tried[K] = _criteria(problem.data.model, x, problem.data.blocks.sum(statistics, problem.data.sweep, x))[1]
            lowest = min(tried, key=tried.__getitem__)
            if lowest == K:
                best = problem, x
            if K - lowest == _WORSE:
                break
        assert best is not None
        problem, x = best
        model: TiedModel = problem.data.model
        steps = [_by_bic("n_clusters", tried)] if automatic else []
        at_end = at_end_of_range(model.n_clusters, tried) if most == _MOST_CLUSTERS else []
        for note in at_end:
            warnings.warn(note, stacklevel=3)
        if model.n_clusters == 1:
            warnings.warn(
                "n_clusters='auto' chose one cluster: several clusters with a common covariance are not more likely",
                stacklevel=3,
            )
        if self.n_components == "auto":
            criteria = model.criteria(_singular_values(model, Tied(*x)))
            steps.append(_by_bic("n_components", dict(enumerate(criteria, 1))))
            smaller = replace(model, n_components=max(1, min(1 + int(criteria.argmin()), model.n_components)))
            problem = problem.data.spec.problem(replace(problem.data, model=smaller))
        params = {name: value for step in steps for name, value in step.params[step.chosen[0]].items()}
        return problem, Choice(steps, params, at_end, time.perf_counter() - began)

    def _take_batch(self, X: NDArray, weight: Array | None) -> None:
        """Take a step of online EM."""
        model = self._tied_model
        n, second = model.of_batch(X, weight)
        model = replace(model, n=model.n + n)
        blocks = ms.execution.RowBlocks.of(X, weight)
        problem = self._problem(self._model_name, ms.Prepared(model, blocks, model.blocks))
        additive: Any = problem.objective.additive
        padded = _padded(self._tied, model.n_components)
        batch = replace(additive.sums(padded), second=second)
        share = share_of_batch(self.batches_)
        x, self.statistics_ = learned(additive, padded, self.statistics_, batch, share)
        self.n_frames_ = model.n
        self._remember(Tied(*x), model)

    def _remember(self, mixture: Tied, model: TiedModel) -> None:
        self.weights_, self.cluster_centers_, self.center_ = mixture.weights, mixture.means, mixture.center
        self.covariance_ = mixture.covariance
        self.components_ = np.ascontiguousarray(mixture.components[mixture.components.any(axis=1)])
        self.singular_values_ = _singular_values(model, mixture)
        self.scatter_ = model.n * model.scatter(mixture, self.statistics_)
        self.shrinkage_ = model.prior.strength / (model.n + model.prior.strength)

    def _learned_mixture(self, x: Any, problem: ms.Problem) -> None:
        model, mixture, order = problem.data.model, Tied(*x), np.arange(problem.data.model.n_clusters)
        if isinstance(self.init, str) and self.init != "segments" and mixture.components.any():
            # numbers by chance would differ between starts that are as good: along the first coordinate
            order = np.argsort((mixture.means - mixture.center) @ mixture.components[0], kind="stable")
        mixture = mixture._replace(weights=mixture.weights[order], codes=mixture.codes[order])
        whole = problem.data.blocks.sum(statistics, problem.data.sweep, x)
        found = replace(whole, second=model.second).per_row()
        self.prior_, self.shift_, self.n_frames_ = model.prior, model.blocks.shift, model.n
        self.statistics_ = replace(found, counts=found.counts[order], sums=found.sums[order])
        self._remember(mixture, model)
        self.labels_ = model.labels(mixture, model.frames.X)
        if problem.data.spec.value is _tied_mixture.value:
            self.log_likelihood_, self.bic_ = _criteria(model, x, whole)

    def _learned(self, x: Any, model: _clusters.Clusters) -> None:
        V, mu = x
        assert model.frames is not None
        self.labels_ = model.labels(model.frames[0], mu, V)
        moments = Moments.of(model.frames[0], self.labels_, model.n_clusters, model.frames[1])
        self._keep(model, moments, None if self.n_components is None else model.n_components)

    def _keep(self, model: _clusters.Clusters, moments: Moments, n_components: int | None) -> None:
        """Set the attributes from the moments of the clusters."""
        V, self.cluster_centers_, self.singular_values_ = model.solved(moments, n_components)
        self.components_, self.moments_ = np.ascontiguousarray(V.T), moments
        self.center_, self.scatter_ = model.origin, model.scatter
        self.energy_ = max(model.scatter - float(np.square(self.singular_values_[: V.shape[1]]).sum()), 0.0)

    def _weights(self, sample_weight: ArrayLike | None, X: NDArray) -> tuple[Array | None, NDArray[np.bool_] | None]:
        """Return the positive weights (None if all are equal), and the frames that have them (None for all frames)."""
        weight = check_sample_weight(sample_weight, len(X))
        if weight is None or weight.all():
            return weight, None
        return weight[weight > 0], weight > 0

    def _check_printed(self) -> None:
        for name in ("n_clusters", "n_components"):
            if isinstance(getattr(self, name), str):
                raise ValueError(
                    f"{name}='auto' chooses a value by the likelihood, which is not defined for objective='printed': "
                    "pass a number"
                )

    def _checked_init(self, X: NDArray) -> Any:
        N, K, known = len(X), self.n_clusters, ms.get_model(self._model_name).initializers
        if isinstance(K, str):
            if not isinstance(self.init, str):
                raise ValueError(
                    "n_clusters='auto' does not support initial labels or centroids: remove init, or pass the number "
                    "of clusters as n_clusters"
                )
        elif N < K:
            raise ValueError(f"X has n_samples={N} frames for n_clusters={K}: pass more frames or lower n_clusters")
        if isinstance(self.init, str):
            if self.init not in known:
                raise ValueError(
                    f"init={quoted(self.init)} is not known: choose {', '.join(map(repr, known))}, labels or centroids"
                )
            return self.init
        init = np.asarray(self.init)
        if init.shape == (K, X.shape[1]) and init.dtype.kind in "iuf" and np.isfinite(init).all():
            return init.astype(np.float64)
        if init.shape != (N,) or init.dtype.kind not in "iu":
            raise ValueError(
                f"init is not valid: pass {', '.join(map(repr, known))}, finite centroids of shape ({K}, {X.shape[1]}) "
                "or the cluster of each frame as a whole number"
            )
        if set(np.unique(init)) != set(range(int(K))):
            raise ValueError(
                f"init does not use exactly the clusters 0 to {int(K) - 1}: assign at least one frame to each cluster"
            )
        return init.astype(np.int64)


def _by_bic(name: str, criteria: Mapping[int, float]) -> Step:
    """Return the step of a choice of the number with the smallest criterion."""
    label = "Bayesian information criterion, up to a constant"
    figure = np.array([*criteria.values()])
    return Step("BIC", label, [{name: number} for number in criteria], figure, [int(figure.argmin())])


def _criteria(model: TiedModel, x: Any, found: Statistics) -> tuple[float, float]:
    """Return the mean log-likelihood of a frame, and the Bayesian information criterion."""
    mean = log_densities(model, x, found)[0] / model.n
    parameters = model.parameters(int(np.count_nonzero(x[3].any(axis=1))))
    return mean, -2 * model.n * mean + parameters * float(np.log(model.n))


def _singular_values(model: TiedModel, mixture: Tied) -> Array:
    """Return the singular values of the weighted centroids in the metric, (min(K, d),)."""
    found = np.zeros(min(len(mixture.codes), len(mixture.center)))
    s = np.linalg.svd(np.sqrt(model.n * mixture.weights)[:, None] * mixture.codes, compute_uv=False)
    found[: len(s)] = s[: len(found)]
    return found


def _padded(mixture: Tied, m: int) -> Tied:
    """Return the mixture with rows of zeros as further components, m in all."""
    more = m - len(mixture.components)
    components, codes = np.pad(mixture.components, ((0, more), (0, 0))), np.pad(mixture.codes, ((0, 0), (0, more)))
    return mixture._replace(components=components, codes=codes)


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
