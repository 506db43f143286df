"""k-means of linear dynamical systems in the feature space of a kernel."""

import dataclasses
import re
from collections.abc import Sequence
from hashlib import sha256
from numbers import Integral, Real
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClusterMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

import manifoldseq as ms
from manifoldseq.estimators import random_generator, validate_sequences
from manifoldseq.execution import map_ordered, one_blas_thread

from ._clustering import Clustering, as_systems, distances
from ._identification import LDSIdentifier
from ._mean import items_on
from ._settings import check_solver, check_whole, resolved_kernel
from ._systems import Systems

Array = NDArray[np.float64]

MEANS = ("exact", "toolbox", "medoid")
INITS = ("k-means++", "medoid")


class LDSKMeans(TransformerMixin, ClusterMixin, BaseEstimator, auto_wrap_output_keys=None):
    """Cluster sequences by k-means of their linear dynamical systems.

    Each sequence is identified as a system; k-means runs in the feature space of a kernel on systems, with the squared
    distance ``k(x, x) + k(c, c) - 2 k(x, c)``. The centre of a cluster is the system that minimizes the mean squared
    distance to its members: (7), (8) of Huang et al., solved on the canonical manifold.

    Parameters
    ----------
    n_clusters : int
    n_states, center, scale, delay, stabilizer, bound
        How sequences are identified, see `LDSIdentifier`; without effect on `Systems`. `bound` also bounds the
        singular values of the centres' transition matrices.
    kernel : str or kernel object
        A registered name, such as ``"projection"``, or an object with the methods of a kernel.
    mean : {"exact", "toolbox", "medoid"}
        ``"exact"``: descent by `solver`, continued from the last centre; never raises the objective. ``"toolbox"``: the
        rule of the authors' toolbox, five steps of Algorithm 1 at the fixed rates .1 (Lambda, V) and 1 (U) on
        -(1/N) sum k, all of Lambda rescaled to at most .999; may raise the objective, and asks for a kernel
        on (A, C). ``"medoid"``: the member nearest to the others.
    solver : str or solver
        Solver of the exact mean.
    inner_iter : int
        Its iterations per centre and epoch; they double each time the assignment has settled.
    init : {"k-means++", "medoid"}, array of int of shape (N,), or Systems
        ``"k-means++"`` chooses spread systems greedily, ``"medoid"`` the medoids of a random assignment (the authors'
        start). An assignment starts from its medoids, K systems from themselves; then `n_init` is one.
    n_init : int
        Number of starts; the best by the objective is kept.
    max_iter : int
        Epochs per start.
    tol : float
        A start ends when the mean squared distance changes by at most ``tol * max(1, itself)`` in an epoch.
    random_state : int, numpy.random.Generator, numpy.random.RandomState or None

    Attributes
    ----------
    labels_ : ndarray of shape (N,), int
    systems_ : Systems
        The K centres.
    objective_ : float
        Mean kernel value of the systems and their centres.
    inertia_ : float
        Sum of the squared distances of the systems to their centres.
    n_iter_ : int
        Epochs of the best start.
    history_ : dict of str to ndarray
        Equally long columns of the best start, record 0 first: ``nit``, ``time``, ``fun`` (mean squared distance),
        ``nfev``, ``objective`` (mean kernel value), ``moved`` (systems that changed cluster) and further ones.
    status_ : manifoldseq.Status
        Why the best start ended; ``INTERRUPTED`` if Ctrl-C ended any start or kept one from running.
    n_features_in_ : int
        Channels of the sequences, or outputs of the `Systems`, seen in `fit`.
    scale_ : ndarray of shape (d,)
        What each channel of sequences is divided by; absent after a fit to `Systems`.

    Notes
    -----
    Ctrl-C during `fit` ends it; the estimator is then fitted with the best state reached so far.

    References
    ----------
    Huang, Harandi, Zhang, Fan, Sun, Huang: Efficient optimization for linear dynamical systems with applications to
    clustering and sparse coding, NIPS 2017.

    Examples
    --------
    >>> import numpy as np
    >>> rng, t = np.random.default_rng(0), np.arange(60)[:, None]
    >>> X = [np.cos(t * w + rng.uniform(0, 6) + [0, 1, 2]) for w in [0.2] * 5 + [0.9] * 5]
    >>> labels = LDSKMeans(n_clusters=2, n_states=2, random_state=0).fit_predict(X)
    >>> np.ptp(labels.reshape(2, 5), axis=1).tolist()
    [0, 0]
    """

    stored_types = (Systems,)

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        n_states: int = 5,
        kernel: Any = "projection",
        center: bool = True,
        scale: bool = True,
        delay: int = 1,
        stabilizer: str | None = "SN",
        mean: str = "exact",
        solver: Any = "lbfgs",
        inner_iter: int = 3,
        init: Any = "k-means++",
        n_init: int = 4,
        max_iter: int = 50,
        tol: float = 1e-4,
        random_state: Any = None,
        bound: float = 0.99,
    ) -> None:
        self.n_clusters = n_clusters
        self.n_states = n_states
        self.kernel = kernel
        self.center = center
        self.scale = scale
        self.delay = delay
        self.stabilizer = stabilizer
        self.mean = mean
        self.solver = solver
        self.inner_iter = inner_iter
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.bound = bound

    def fit(
        self,
        X: Any,
        y: object = None,
        *,
        observers: Sequence[Any] = (),
        checkpoint: ms.storage.Checkpoint | str | Path | None = None,
        resume: bool = False,
    ) -> Self:
        """Cluster sequences or systems.

        Parameters
        ----------
        X : list of array-like of shape (T_i, d), or Systems
        y : ignored
        observers, checkpoint, resume
            As in `manifoldseq.iterate`, for every start; the state holds ``x`` (the centres as stacked points),
            ``labels`` and ``start``, its number. Each start has its own folder in the checkpoint.

        Raises
        ------
        ValueError
            For an invalid parameter or input; one sentence says which, where, and what to do.
        """
        self._check_parameters()
        identifier = None if isinstance(X, Systems) else self._identifier()
        systems = X if identifier is None else identifier.fit_transform(X)
        init = self._checked_init(systems)
        generators = random_generator(self.random_state).spawn(self.n_init if isinstance(init, str) else 1)
        with one_blas_thread():
            clustering = self._clustering(systems)
            if isinstance(init, Systems):
                init = items_on(clustering.manifold, init)
            store = self._store(checkpoint, clustering, init)
            runs: dict[int, ms.Run] = {}
            interrupted = False

            def run(number: int) -> ms.Run:
                made = runs[number] = ms.iterate(
                    clustering.step,
                    lambda: clustering.start(init, generators[number], number),
                    stop=ms.CostChange(self.tol) | ms.MaxIterations(self.max_iter),
                    observers=observers,
                    checkpoint=store and store.child(f"start-{number}"),
                    resume=resume,
                )
                if made.status is ms.Status.INTERRUPTED:
                    raise KeyboardInterrupt  # also ends the other starts
                return made

            try:
                runs.update(enumerate(map_ordered(run, range(len(generators)))))  # a start elsewhere fills no dict here
            except KeyboardInterrupt:
                if not runs:
                    raise
                interrupted = True
        best = min((runs[number] for number in sorted(runs)), key=lambda made: made.measures.fun)
        self.labels_ = np.array(best.state["labels"])
        self.systems_ = as_systems(best.state["x"])
        self.objective_ = best.measures.extra["objective"]
        self.inertia_ = best.measures.fun * len(systems)
        self.n_iter_ = best.nit
        self.history_ = best.history
        self.status_ = ms.Status.INTERRUPTED if interrupted else best.status
        self.n_features_in_ = systems.n_outputs if identifier is None else identifier.n_features_in_
        self.__dict__.pop("scale_", None)
        if identifier is not None:
            self.scale_ = identifier.scale_
        return self

    def fit_predict(self, X: Any, y: object = None, **options: Any) -> NDArray[np.int64]:  # pyright: ignore
        """Equivalent to ``fit(X).labels_``."""
        return self.fit(X, **options).labels_

    def predict(self, X: Any) -> NDArray[np.int64]:
        """Assign sequences or systems to the nearest centre.

        Returns
        -------
        ndarray of shape (N,), int
        """
        return self._squared_distances(X).argmin(axis=1)

    def transform(self, X: Any) -> Array:
        """Return the distances in feature space from sequences or systems to the centres.

        Returns
        -------
        ndarray of shape (N, K)
            ``sqrt(k(x, x) + k(c, c) - 2 k(x, c))``, at most ``sqrt(2 n_states)`` for the projection kernel.
        """
        return np.sqrt(self._squared_distances(X))

    def fit_transform(self, X: Any, y: object = None, **options: Any) -> Array:  # pyright: ignore
        """Equivalent to ``fit(X).transform(X)``, with one identification."""
        self.fit(X, **options)
        return self.transform(X)

    def score(self, X: Any, y: object = None) -> float:
        """Return minus the sum of squared distances from sequences or systems to their nearest centres."""
        return -float(self._squared_distances(X).min(axis=1).sum())

    def _squared_distances(self, X: Any) -> Array:
        check_is_fitted(self, "systems_")
        systems = self._systems(X)
        with one_blas_thread():
            kernel = resolved_kernel(self.kernel)
            manifold = kernel.manifold(systems.n_outputs, systems.n_states, self.bound)
            packed = kernel.pack(items_on(manifold, systems))
            return distances(kernel, self.systems_, packed, kernel.diag(packed))[1].T

    def _identifier(self) -> LDSIdentifier:
        names = ("n_states", "center", "scale", "delay", "stabilizer", "bound")
        return LDSIdentifier(**{name: getattr(self, name) for name in names})

    def _systems(self, X: Any) -> Systems:
        """Return the systems of sequences, or systems of the size that was fitted."""
        if not isinstance(X, Systems):
            if not hasattr(self, "scale_"):
                raise ValueError(
                    f"this {type(self).__name__} was fitted on Systems: pass Systems, or fit it on sequences"
                )
            identifier = self._identifier()
            identifier.n_features_in_, identifier.scale_ = self.n_features_in_, self.scale_
            validate_sequences(self, X, reset=False)
            return identifier.transform(X)
        if (X.n_outputs, X.n_states) != (self.systems_.n_outputs, self.systems_.n_states):
            raise ValueError(
                f"X has systems with {X.n_outputs} outputs and {X.n_states} states but this {type(self).__name__} was "
                f"fitted on {self.systems_.n_outputs} and {self.systems_.n_states}: pass systems of the same size"
            )
        return X

    def _store(self, checkpoint: Any, clustering: Clustering, init: Any) -> ms.storage.Checkpoint | None:
        """Return the checkpoint, marked with what a state depends on: data and settings, not the stopping rule."""
        if checkpoint is None:
            return None
        store = ms.storage.Checkpoint(checkpoint) if isinstance(checkpoint, str | Path) else checkpoint
        if store.fingerprint is not None:
            return store
        digest = sha256()
        for record in (clustering.systems, init) if isinstance(init, Systems) else (clustering.systems,):
            for value in (record.A, record.C, record.x1):
                digest.update(b"none" if value is None else np.ascontiguousarray(value).tobytes())
        # kernels are told apart by some of their values, objects without a repr of their own by their type
        cross = clustering.kernel.cross(clustering.packed[:1], clustering.packed[:16])
        values = [f"{value:.6g}" for value in (*cross[0], *clustering.self_values[:16])]
        seed = self.random_state if isinstance(self.random_state, Integral) else type(self.random_state).__name__
        start = init if isinstance(init, str) else None if isinstance(init, Systems) else init.tolist()
        settings = [self.n_clusters, self.mean, self.solver, self.inner_iter, self.bound, seed, start, values]
        digest.update(re.sub(r" at 0x[0-9a-f]+", "", repr(settings)).encode())
        return dataclasses.replace(store, fingerprint=digest.hexdigest())

    def _clustering(self, systems: Systems) -> Clustering:
        kernel = resolved_kernel(self.kernel)
        manifold = kernel.manifold(systems.n_outputs, systems.n_states, self.bound)
        used = items_on(manifold, systems)
        if used.x1 is not None and self.mean == "toolbox":
            raise ValueError(f"mean='toolbox' is not defined for the kernel {self.kernel!r}: choose 'exact'")
        packed = kernel.pack(used)
        return Clustering(
            kernel,
            manifold,
            used,
            self.n_clusters,
            self.mean,
            self.solver,
            self.inner_iter,
            packed,
            kernel.diag(packed),
        )

    def _check_parameters(self) -> None:
        check_whole(self, "n_clusters", "n_init", "max_iter", "inner_iter")
        self._identifier().check_settings()
        resolved_kernel(self.kernel)
        check_solver(self.solver)
        if not isinstance(self.mean, str) or self.mean not in MEANS:
            raise ValueError(f"mean={self.mean!r} is not known: choose {', '.join(map(repr, MEANS))}")
        if isinstance(self.init, str) and self.init not in INITS:
            raise ValueError(
                f"init={self.init!r} is not known: choose {', '.join(map(repr, INITS))}, labels or Systems"
            )
        if not isinstance(self.tol, Real) or not self.tol >= 0:
            raise ValueError(f"tol={self.tol!r} is not valid: pass a number of at least 0")

    def _checked_init(self, systems: Systems) -> Any:
        N, K = len(systems), self.n_clusters
        if N < K:
            raise ValueError(f"X has {N} sequences for n_clusters={K}: pass more sequences or lower n_clusters")
        if isinstance(self.init, str):
            return self.init
        if isinstance(self.init, Systems):
            size = (K, systems.n_outputs, systems.n_states)
            if self.init.C.shape != size:
                raise ValueError(f"init has C of shape {self.init.C.shape}: pass {K} systems, C of shape {size}")
            return self.init
        labels = np.asarray(self.init)
        if labels.shape != (N,) or labels.dtype.kind not in "iu":
            raise ValueError(f"init must be {INITS[0]!r}, {INITS[1]!r}, {K} Systems, or one whole number per sequence")
        if set(np.unique(labels)) != set(range(K)):
            raise ValueError(f"init must assign a sequence to each of the clusters 0 to {K - 1}, and to no other")
        return labels.astype(np.int64)
