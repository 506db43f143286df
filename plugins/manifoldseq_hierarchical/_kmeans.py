"""k-means whose centroids live in the subspace that tells them apart best."""

import dataclasses
import warnings
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClusterMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

import manifoldseq as ms
from manifoldseq.estimators import random_generator, seed_fingerprint

from ._alternation import Alternation
from ._closed_form import energy
from ._codes import SubspaceCodes
from ._moments import row_blocks
from ._settings import check_components, check_not_negative, check_whole

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

    Attributes
    ----------
    labels_ : ndarray of shape (N,), int
    components_ : ndarray of shape (m, d)
        The transpose of V, orthonormal rows.
    centroids_ : ndarray of shape (K, d)
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
    ) -> None:
        self.n_clusters = n_clusters
        self.n_components = n_components
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

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
        check_whole(self, "n_clusters", "n_init", "max_iter")
        check_not_negative(self, "tol")
        X = self._frames(X, reset=True, least=2)
        init = self._checked_init(X)
        problem = Alternation.of(X, self.n_clusters, check_components(self.n_components, X.shape[1]))
        random = isinstance(init, str) and init != "segments"
        store = self._store(checkpoint, X, init)  # before a Generator is drawn from
        generators = random_generator(self.random_state).spawn(self.n_init if random else 1)
        runs: dict[int, ms.Run] = {}

        def run(number: int, observers: Sequence[Any]) -> ms.Run:
            made = runs[number] = ms.iterate(
                problem.step,
                lambda: problem.start(init, generators[number], number),
                stop=ms.CostChange(self.tol) | ms.MaxIterations(self.max_iter),
                observers=observers,
                checkpoint=store and store.child(f"start-{number}"),
                resume=resume,
            )
            if made.status is ms.Status.INTERRUPTED:
                raise KeyboardInterrupt  # also ends the other starts
            return made

        interrupted = False
        try:
            # a start elsewhere fills no dict here
            runs.update(enumerate(ms.map_observed(run, range(len(generators)), observers)))
        except KeyboardInterrupt:
            if not runs:
                raise
            interrupted = True
        best = min(
            (runs[number] for number in sorted(runs)),
            key=lambda made: (made.status is ms.Status.NON_FINITE, made.measures.fun),
        )
        self._learned(best, problem)
        self.status_ = ms.Status.INTERRUPTED if interrupted else best.status
        return self

    def fit_predict(self, X: Any, y: object = None, **options: Any) -> NDArray[np.int64]:  # pyright: ignore
        """Equivalent to ``fit(X).labels_``."""
        return self.fit(X, **options).labels_

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
        total = energy(X, V, self.center_, (self.centroids_ - self.center_) @ V)
        if not np.isfinite(total):
            self.transform(X)  # which says where
        return -total

    def _learned(self, best: ms.Run, problem: Alternation) -> None:
        self.labels_ = np.array(best.state["labels"])
        state, measures = problem.solved(self.labels_, best.state)  # sums anew, without the rounding of many moves
        self.components_, self.centroids_ = np.ascontiguousarray(state["x"][0]), state["x"][1]
        self.singular_values_ = state["singular_values"]
        self.center_, self.scatter_ = problem.origin, problem.scatter
        self.energy_ = measures.fun * problem.scatter
        self.n_iter_, self.history_ = best.nit, best.history
        found = len(np.unique(self.labels_))
        if found < self.n_clusters:
            warnings.warn(
                f"only {found} of {self.n_clusters} clusters have frames: X has too few distinct ones",
                ConvergenceWarning,
                stacklevel=3,
            )

    def _store(self, checkpoint: Any, X: NDArray, init: Any) -> ms.storage.Checkpoint | None:
        """Return the checkpoint, marked with what a state depends on: data and settings, not the stopping rule."""
        if checkpoint is None:
            return None
        store = ms.storage.Checkpoint(checkpoint) if isinstance(checkpoint, str | Path) else checkpoint
        if store.fingerprint is not None:
            return store
        digest = sha256(repr((X.shape, X.dtype.str)).encode())
        for rows in row_blocks(X):
            digest.update(np.ascontiguousarray(X[rows]).tobytes())
        seed = seed_fingerprint(self.random_state)
        start = init if isinstance(init, str) else init.tolist()
        digest.update(repr([self.n_clusters, self.n_components, seed, start]).encode())
        return dataclasses.replace(store, fingerprint=digest.hexdigest())

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
