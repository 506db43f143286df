"""k-means whose centroids live in the subspace that tells them apart best: the alternation, and the estimator."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClusterMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

import manifoldseq as ms
from manifoldseq.estimators import check_parameters, check_whole, fit_starts

from ._closed_form import check_components, encode, energy, leading_directions, nearest, weighted_centroids
from ._coordinates import SubspaceCodes
from ._moments import Array, Codes, Moments

# One step assigns the frames and solves the closed form; it is pure, for the one loop.

# A trick of speed: with one product per block `SubspaceKMeans.fit` (4000 × 256, K=10) takes 1.13 times as long
# (`python -m benchmarks.tricks assign`).
_UNPACKED = 1_000_000
"""Multiply-adds of a product up to which OpenBLAS does not copy its factors first; K columns are few to copy for."""

State = dict[str, Any]
"""``x``: V' (m, d) and centroids (h, d); ``labels`` (N,), ``counts``, ``sums``, ``singular_values``, ``start``."""


@dataclass(frozen=True)
class Alternation:
    """The frames of one clustering problem, with the functions of them that the alternation is made of.

    Parameters
    ----------
    X : ndarray of shape (N, d)
    n_clusters : int
    n_components : int or None
        m, or None for the best one in every step.
    origin : ndarray of shape (d,)
        mu_0, the mean of the frames.
    scatter, tolerance : float
        The trace of S_0 (7), and what rounding can contribute to a singular value.
    empty : Moments
        Of no frames, K classes.
    """

    X: NDArray
    n_clusters: int
    n_components: int | None
    origin: Array
    scatter: float
    tolerance: float
    empty: Moments

    @classmethod
    def of(cls, X: NDArray, n_clusters: int, n_components: int | None) -> "Alternation":
        """Return the problem of these frames.

        Raises
        ------
        ValueError
            If a frame is not finite, or all are equal.
        """
        whole = Moments.of(X, np.zeros(len(X), np.int64))
        origin = whole.mean
        scatter, tolerance = whole.scatter(origin), whole.tolerance(origin)
        if scatter <= tolerance**2:
            raise ValueError("all frames of X are equal to rounding, so that there is nothing to cluster")
        return cls(X, n_clusters, n_components, origin, scatter, tolerance, Moments.empty(X, n_clusters))

    def start(self, init: Any, rng: np.random.Generator, number: int) -> tuple[State, ms.Measures]:
        """Return the state that the alternation begins with, and its measures: labels first, then the closed form."""
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
        """Return the state with every frame at its nearest centroid, and the closed form for that (4), (9)-(13)."""
        Vt, centroids = state["x"]
        labels = self._assigned(centroids, Vt.T)
        counts = np.bincount(labels, minlength=self.n_clusters)
        if not counts.all():
            labels = self._repaired(labels, counts, Vt.T, centroids)
        old = state["labels"]
        moved = np.flatnonzero(labels != old)
        # A trick of speed: with sums over all frames in every step `fit` (4000 × 512, K=20) takes 1.19 times as long
        # (`python -m benchmarks.tricks moves`); their rounding is taken off at the end, see `_learned`
        if 4 * len(moved) > len(labels):
            return self.solved(labels, state)
        moments = replace(self.empty, counts=state["counts"].copy(), sums=state["sums"].copy())
        moments.move(self.X[moved], old[moved], labels[moved])
        return self.solved(labels, state, moments)

    def solved(self, labels: Codes, before: State, moments: Moments | None = None) -> tuple[State, ms.Measures]:
        """Return the state with these labels and the V, m, mu that are best for them, and its measures."""
        moments = Moments.of(self.X, labels, self.n_clusters) if moments is None else moments
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

    def _assigned(self, targets: Array, V: Array | None = None) -> Codes:
        """Return the nearest of K points of each frame, in coordinates V or in all d.

        By matrix products of the frames and a d×K matrix, or a d×m and an m×K one, if that is less work.
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
        """Give each empty cluster the worst represented frame that another cluster can spare; F falls."""
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
        """Return K spread frames: greedy k-means++."""
        from sklearn.cluster import kmeans_plusplus

        seed = int(rng.integers(2**31))
        X = self.X.astype(np.result_type(self.X, np.float32), copy=False)  # sums of whole numbers would wrap around
        return kmeans_plusplus(X, self.n_clusters, random_state=seed)[0].astype(np.float64)


INITS = ("k-means++", "random", "segments")


class SubspaceKMeans(ClusterMixin, SubspaceCodes):
    """Cluster frames by k-means in the m coordinates that tell the clusters apart best.

    Labels and subspace alternate on one objective, F(V, m, mu) (1): each frame goes to the nearest centroid in the
    coordinates ``V' x``; then V, m and mu are the closed form for these labels. No step raises F.

    Parameters
    ----------
    n_clusters : int
    n_components : int or None
        m, from 1 to d. None takes the best m in every step, the rank of the centroids; nearest in these coordinates is
        then nearest in all d, so that labels are those of Lloyd's k-means and the subspace is what stores them
        compactly. A smaller m also chooses the clusters by what m coordinates can tell apart.
    init : {"k-means++", "random", "segments"} or array-like
        ``"segments"``: contiguous segments of a sequence. Or labels 0 to K - 1 of shape (N,), or centroids (K, d).
    n_init : int
        Number of starts; the best by F is kept. One is made of ``"segments"`` and of arrays.
    max_iter : int
    tol : float
        A start ends when F changes by at most `tol` times the trace of S_0 in a step. 0 goes on until F stays the same.
    random_state : int, numpy.random.Generator, numpy.random.RandomState or None
    n_jobs, verbose
        Threads of the starts, and what is logged of them: see `manifoldseq.estimators.fit_starts`.

    Attributes
    ----------
    labels_ : ndarray of shape (N,), int
    components_ : ndarray of shape (m, d)
        The transpose of V, orthonormal rows.
    cluster_centers_ : ndarray of shape (K, d)
        Means of the frames of each cluster (4).
    center_ : ndarray of shape (d,)
        mu_0, the mean of the frames.
    singular_values_ : ndarray of shape (min(K, d),)
        Of the weighted centroids.
    energy_ : float
        F (1).
    scatter_ : float
        The trace of S_0 (7).
    n_iter_ : int
        Steps of the best start.
    history_ : dict of str to ndarray
        Equally long columns of the best start, record 0 first: ``nit``, ``time``, ``fun`` (F over the trace of S_0),
        ``m``, ``moved`` (frames that changed cluster) and further ones.
    status_ : manifoldseq.Status
        Why the best start ended; ``INTERRUPTED`` if Ctrl-C ended any start or kept one from running.
    n_features_in_ : int

    See Also
    --------
    SubspaceEncoder : for given labels or segments.

    Notes
    -----
    F can be that of SubKMeans (Mautz et al. 2017), whose update is an eigendecomposition of a d×d matrix.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((90, 20)) + 4 * np.repeat(rng.standard_normal((3, 20)), 30, axis=0)
    >>> model = SubspaceKMeans(n_clusters=3, random_state=0).fit(X)
    >>> model.components_.shape, sorted(np.bincount(model.labels_).tolist())
    ((2, 20), [30, 30, 30])
    """

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        n_components: int | None = None,
        init: Any = "k-means++",
        n_init: int = 4,
        max_iter: int = 300,
        tol: float = 0.0,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_clusters = n_clusters
        self.n_components = n_components
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
        *,
        observers: Sequence[Any] = (),
        checkpoint: ms.storage.Checkpoint | str | Path | None = None,
        resume: bool = False,
    ) -> Self:
        """Cluster frames.

        Parameters
        ----------
        X : array-like of shape (N, d)
            Of any real dtype; a `numpy.memmap` is read block by block.
        y : ignored
        observers, checkpoint, resume
            As in `manifoldseq.iterate`, for every start; the state holds ``x`` (V' and the centroids), ``labels``,
            and ``start``, its number. Each start has its own folder in the checkpoint.

        Raises
        ------
        ValueError
            For an invalid parameter or input; one sentence says which, where, and what to do.
        """
        check_parameters(self, {"n_clusters": check_whole})
        X = self._frames(X, reset=True, least=2)
        init = self._checked_init(X)
        problem = Alternation.of(X, self.n_clusters, check_components(self.n_components, X.shape[1]))

        def run(number: int, rng: np.random.Generator, **loop: Any) -> ms.Run:
            return ms.iterate(
                problem.step,
                lambda: problem.start(init, rng, number),
                stop=ms.CostChange(self.tol) | ms.MaxIterations(self.max_iter),
                **loop,
            )

        n_starts = self.n_init if isinstance(init, str) and init != "segments" else 1
        options: dict[str, Any] = {"observers": observers, "checkpoint": checkpoint, "resume": resume}
        best = fit_starts(self, run, X, n_starts=n_starts, **options)
        self._learned(best, problem)
        return self

    def predict(self, X: Any) -> NDArray[np.int64]:
        """Return the number of the nearest centroid of each frame, in the coordinates of the subspace.

        Returns
        -------
        ndarray of shape (N,), int
        """
        return self._nearest(X)[0].astype(np.int64)

    def score(self, X: Any, y: object = None) -> float:
        """Return minus F (1) of frames: in the coordinates about the nearest centroid, in the others about mu_0."""
        check_is_fitted(self, "components_")
        X = self._frames(X, reset=False)
        V = self.components_.T
        total = energy(X, V, self.center_, (self.cluster_centers_ - self.center_) @ V)
        if not np.isfinite(total):
            self.transform(X)  # which says where
        return -total

    def _learned(self, best: ms.Run, problem: Alternation) -> None:
        self.labels_ = np.array(best.state["labels"])
        state, measures = problem.solved(self.labels_, best.state)  # sums anew, without the rounding of many moves
        self.components_, self.cluster_centers_ = np.ascontiguousarray(state["x"][0]), state["x"][1]
        self.singular_values_ = state["singular_values"]
        self.center_, self.scatter_ = problem.origin, problem.scatter
        self.energy_ = measures.fun * problem.scatter
        self.n_iter_, self.history_, self.status_ = best.nit, best.history, best.status
        found = len(np.unique(self.labels_))
        if found < self.n_clusters:
            warnings.warn(
                f"only {found} of {self.n_clusters} clusters have frames: X has too few distinct ones",
                ConvergenceWarning,
                stacklevel=3,
            )

    def _checked_init(self, X: NDArray) -> Any:
        N, K = len(X), self.n_clusters
        if N < K:
            raise ValueError(f"X has n_samples={N} frames for n_clusters={K}: pass more frames or lower n_clusters")
        if isinstance(self.init, str):
            if self.init not in INITS:
                raise ValueError(
                    f"init={self.init!r} is not known: choose {', '.join(map(repr, INITS))}, labels or centroids"
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
        if set(np.unique(init)) != set(range(K)):
            raise ValueError(f"init must assign a frame to each of the clusters 0 to {K - 1}, and to no other")
        return init.astype(np.int64)
