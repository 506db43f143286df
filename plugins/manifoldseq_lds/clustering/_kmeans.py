"""k-means of linear dynamical systems in the feature space of a kernel."""

import warnings
from collections.abc import Sequence
from numbers import Integral
from pathlib import Path
from typing import Any, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin, clone
from sklearn.exceptions import ConvergenceWarning

import manifoldseq as ms
from manifoldseq.estimators import (
    check_choice,
    check_parameters,
    check_switch,
    check_whole,
    fit_starts,
    marked,
    quoted,
    random_generator,
)
from manifoldseq.execution import one_blas_thread

from ..identification._identifier import LDSIdentifier, check_bound
from ..identification._resumed import stages_of
from ..identification._sequence_input import (
    IDENTIFICATION,
    SequenceEstimator,
    SequencesOrSystems,
    check_moments,
    identifier_of,
    learned_systems,
    new_systems,
    remember,
)
from ..kernels._moments import fitted_kernel, keep_moment_weights
from ..kernels._resolved import check_kernel, manifold_of
from ..means._centre_rules import CanonicalMean, resolved_rule
from ..means._common_problem import beyond, items_of, points_of
from ..systems._record import Systems
from ._epoch import RACE, Clustering, absorbed, distances
from ._selection import Chosen, chosen_by_default
from ._settings import choose_settings, is_open, settled

Array = NDArray[np.floating[Any]]

AUTO = "auto"
INITS = ("k-means++", "medoid")


def _check_solver(name: str, value: Any) -> None:
    if isinstance(value, str) and value != "auto":
        ms.get_solver(value)
    elif not isinstance(value, str | ms.solvers.Solver):
        raise ValueError(
            f"{name}={quoted(value)} is not a solver: pass a name such as 'lbfgs', or an ms.solvers.Solver"
        )


def _check_init(name: str, value: Any) -> None:
    if isinstance(value, str):
        check_choice(name, value, INITS, "labels or Systems")


def _check_clusters(name: str, value: Any) -> None:
    if isinstance(value, str) and value != AUTO:
        raise ValueError(f"{name}={quoted(value)} is not known: pass a whole number, or 'auto'")
    if value != AUTO:
        check_whole(name, value)


def _check_starts(name: str, value: Any) -> None:
    if isinstance(value, str) and value != AUTO:
        raise ValueError(f"{name}={quoted(value)} is not known: pass a whole number, or 'auto'")
    if value != AUTO:
        check_whole(name, value)


_RULES = {
    **IDENTIFICATION,
    "bound": check_bound,
    "n_clusters": _check_clusters,
    "n_init": _check_starts,
    "moments": check_moments,
    "kernel": check_kernel,
    "mean": lambda _, value: resolved_rule(value),
    "solver": _check_solver,
    "inner_iter": check_whole,
    "init": _check_init,
    "relocate": check_switch,
}


def _check_enough(n_sequences: int, n_clusters: int) -> None:
    if n_sequences < n_clusters:
        raise ValueError(
            f"X has {n_sequences} sequences for n_clusters={n_clusters}: pass more sequences or lower n_clusters"
        )


def checked_init(init: Any, systems: Systems, n_clusters: int) -> Any:
    """Return the validated name, labels or systems of the start."""
    _check_enough(len(systems), n_clusters)
    N, K = len(systems), n_clusters
    if isinstance(init, str):
        return init
    if isinstance(init, Systems):
        size = (K, systems.n_outputs, systems.n_states)
        if init.C.shape != size:
            raise ValueError(f"init has C of shape {init.C.shape}: pass {K} systems with C of shape {size}")
        return init
    labels = np.asarray(init)
    if labels.shape != (N,) or labels.dtype.kind not in "iu":
        raise ValueError(
            f"init is not valid: pass {quoted(INITS[0])}, {quoted(INITS[1])}, Systems with {K} centres, or the cluster "
            "of each sequence as a whole number"
        )
    if set(np.unique(labels)) != set(range(K)):
        raise ValueError(
            f"init does not use exactly the clusters 0 to {K - 1}: assign at least one sequence to each cluster"
        )
    return labels.astype(np.int64)


class LDSKMeans(Chosen, ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, SequenceEstimator):
    """Cluster sequences by k-means of their linear dynamical systems.

    Each sequence is identified as a system; k-means runs in the feature space of a kernel on systems, with the squared
    distance ``k(x, x) + k(c, c) - 2 k(x, c)``. The centre of a cluster is the system that minimizes the mean squared
    distance to its members: (7), (8) of Huang et al., among all stable systems.

    Parameters
    ----------
    n_clusters : int or "auto"
        The number of clusters. With ``"auto"``, `choose_clustering` chooses it in `fit` without labels, from two to
        twelve and at most a quarter of the number of sequences. Twelve pairs of halves are clustered with each number,
        on one matrix of kernel values.
    n_states : int or str
        Number of states of the identified systems, short for ``identifier=LDSIdentifier(n_states)``. With ``"auto"``,
        `fit` chooses the number without labels, together with the delay, the mean, the stabilizer and `moments`; see
        the notes. With a number, only dynamics are compared: on JapaneseVowels ``n_states=3`` has a purity of 0.64,
        while ``"auto"``, which chooses three states as well, has a purity of 0.96. To keep the chosen settings with
        another number of states: ``model.set_params(**{**fitted.choice_.best_params, "n_states": 4})``.
    identifier : LDSIdentifier, optional
        Identifier of sequences; it is copied. It has no effect on `Systems`. With ``n_states="auto"``, and if the
        identifier has no number of states, `fit` also chooses its `delay`, `center` and (for ``method="pca"``)
        `stabilizer` if they have their default values. Its other parameters are kept. The choice always compares
        systems of ``method="pca"``, independently of the identifier's `method`.
    bound : float
        Upper bound of the singular values of A for ``mean="canonical"`` (problem 12). Members may have larger
        singular values; a member that is nearer to the others than the computed mean becomes the centre.
    kernel : str or kernel object
        A registered name, such as ``"projection"``, or an object with the methods of a kernel.
    moments : {"auto", "none", "level", "size", "both"}
        Moments that are compared in addition to the dynamics: the mean of each channel (``"level"``), its standard
        deviation (``"size"``), or both. The kernel is then a `MomentKernel`, whose widths are learned in `fit`, and
        centres have moments, ``systems_.moments``. ``"auto"`` chooses the moments together with the states if
        ``n_states="auto"``, and otherwise means ``"none"``.
    mean : str or CentreRule
        The rule for the centre of a cluster: a registered name, or an object. ``"exact"``: descent over all stable
        systems, which are points ``[A; C]`` with orthonormal columns (output-normal form), all centres at once. It
        starts at the last centre, or at the medoid of the members if the medoid is better (with more than 2000
        sequences, at the best of 40 members), and never raises the objective. For kernels that are not functions of the
        observability subspace, ``"exact"`` means ``"canonical"``. ``"canonical"``: descent on the paper's problem (12),
        with singular values of A up to `bound`. ``"medoid"``: the member with the smallest sum of squared distances to
        the others. The distribution manifoldseq-papers has the baselines of the paper, such as ``"papers:align"``, and
        a plugin can register further rules (`manifoldseq.hooks.RuleSpec`). All rules except ``"exact"`` and
        ``"canonical"`` may raise the objective.
    solver : str or solver
        Solver of the exact and the canonical mean. ``"auto"`` is L-BFGS; for the exact mean it updates all centres
        together (`ms.solvers.LBFGS`).
    inner_iter : int
        Iterations of the solver per centre and epoch. The number doubles, up to 8, whenever the assignment has settled.
    init : {"k-means++", "medoid"}, array of int of shape (N,), or Systems
        ``"k-means++"`` chooses distant systems greedily, and ``"medoid"`` uses the medoids of a random assignment (the
        start of the authors). An array assigns sequences to clusters, whose medoids are the initial centres, and
        `Systems` are the initial centres; `n_init` is then one.
    n_init : int or "auto"
        Number of starts; the result with the smallest objective is kept. ``"auto"``: with ``init="k-means++"``, ten
        starts are compared on the kernel matrix of at most 1000 systems and the best one is continued; otherwise four
        starts.
    max_iter : int
        Epochs per start.
    tol : float
        A start ends when the mean squared distance, f, changes by at most ``tol * max(1, f)`` in an epoch.
    relocate : bool
        After the assignment has settled, dissolve one cluster and split another cluster in two if this lowers the
        objective. The parameter has an effect for ``mean="exact"`` and ``"canonical"`` only.
    random_state : int, numpy.random.Generator, numpy.random.RandomState or None
        Seed of the random choices.
    n_jobs : int or None
        The number of threads for the starts, -1 for one per core; None uses the executor of the context.
    verbose : int
        1 logs the end of every start, 2 logs every iteration, to the logger ``"manifoldseq"``.

    Attributes
    ----------
    labels_ : ndarray of shape (N,), int
    systems_ : Systems
        The K centres.
    mean_kernel_value_ : float
        Mean kernel value of the systems and their centres, ``(1/N) sum_i k(x_i, c_i)``.
    inertia_ : float
        Sum of the squared distances of the systems to their centres.
    n_iter_ : int
        Epochs of the best start.
    history_ : dict of str to ndarray
        Columns of equal length for the best start, which begin with the start itself: ``nit``, ``time``, ``fun`` (mean
        squared distance), ``nfev``, ``mean_kernel_value``, ``moved`` (number of systems that changed cluster) and
        further columns.
    status_ : manifoldseq.Status
        The reason why the best start ended; ``INTERRUPTED`` if Ctrl-C ended or prevented any start.
    n_clusters_ : int
        The number of clusters, K.
    choice_ : manifoldseq.models.Choice
        The comparison for ``n_states="auto"``, or for ``n_clusters="auto"``, which includes the numbers of states.
        ``print(model.choice_)`` prints a table. Absent if both were given.
    stability_ : float
        Mean adjusted Rand index between clusterings of random halves of the data with the chosen settings, as in
        `choice_`, and with the chosen number of clusters: 1 is perfect agreement, 0 the level of chance. A high value
        shows that the clusters are repeatable, not that they are correct. Absent if nothing was compared.
    agreement_ : float
        Mean adjusted Rand index between the best of the compared starts and the others, after a fit with
        ``n_init="auto"`` and ``init="k-means++"``. The best of ten starts varies less than a single start. Fits with
        different seeds therefore agree at least about as well as this value.
    silhouette_ : float
        Mean silhouette by distances in feature space: 1 for members of well separated clusters, 0 for members between
        two clusters. With more than 250 sequences, it is computed from 250 evenly spaced sequences, unless the fit has
        compared all pairs. NaN for one cluster. Absent after `partial_fit`, and after Ctrl-C.
    moment_weights_ : ndarray of shape (2 d,)
        Weights of the `MomentKernel`; absent if only dynamics are compared.
    counts_ : ndarray of shape (K,), int
        Number of systems of each centre: the sizes of the clusters, or the numbers seen by `partial_fit`.
    n_features_in_ : int
        Number of channels of the sequences, or of outputs of the `Systems`, in the fit.
    feature_names_in_ : ndarray of str of shape (d,)
        Names of the channels, if every sequence of `fit` is a data frame.
    scale_ : ndarray of shape (d,)
        Scale by which each channel of sequences is divided; absent after a fit to `Systems`.

    Notes
    -----
    Ctrl-C ends `fit` with the best state so far.

    With ``n_states="auto"``, settings of the identification are compared by one-step-ahead forecasts of the last third
    of each sequence. Settings whose error is at most 25 % above the smallest error are treated as equal. For each of
    these settings, level and size of the channels are admitted if the kernel matrices of dynamics and moments are
    aligned (0.3 or more). Among the remaining settings, the one whose clusterings of random halves of the data agree
    best is chosen. Ties go to the setting that uses the most information. If forecasts do not beat a constant by more
    than their standard error over sequences, dynamics are no reference for moments; level and size are then admitted
    without the condition on alignment, even if the systems hardly differ.

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

    def __init__(
        self,
        n_clusters: int | str = 8,
        *,
        n_states: int | str = "auto",
        identifier: LDSIdentifier | None = None,
        kernel: Any = "projection",
        moments: str = "auto",
        mean: Any = "exact",
        solver: Any = "auto",
        inner_iter: int = 4,
        init: str | ArrayLike | Systems = "k-means++",
        n_init: int | str = "auto",
        max_iter: int = 50,
        tol: float = 1e-4,
        relocate: bool = True,
        random_state: Any = None,
        bound: float = 0.99,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_clusters = n_clusters
        self.n_states = n_states
        self.identifier = identifier
        self.kernel = kernel
        self.moments = moments
        self.mean = mean
        self.solver = solver
        self.inner_iter = inner_iter
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.relocate = relocate
        self.random_state = random_state
        self.bound = bound
        self.n_jobs = n_jobs
        self.verbose = verbose

    def fit(
        self,
        X: SequencesOrSystems,
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
            As in `manifoldseq.iterate`, for every start; the state contains ``x`` (the centres as stacked points),
            ``labels`` and ``start`` (the number of the start). Each start has its own folder in the checkpoint. The
            choice for ``n_clusters="auto"`` also has a folder, and observers receive its events first. The checkpoint
            also contains the choice of the identification and the identified systems, for which observers receive no
            events.

        Raises
        ------
        ValueError
            If a parameter or the input is invalid. The message says what is wrong, where, and what to do.

        Warns
        -----
        UserWarning
            If the data limit the choice of settings: some sequences are too short for the best settings of the others,
            the dynamics predict nothing, or there are fewer than four sequences per cluster (``choice_.notes``).
        UserWarning
            Once, if output matrices of centres are rank-deficient; `systems_` then contains the nearest systems.
            With ``mean="canonical"``, if centres are members beyond the bound; the warning gives the increase of the
            objective within the bound.
        """
        check_parameters(self, _RULES)
        self.__dict__.pop("choice_", None)
        fitting = self._fit_chosen if self.n_clusters == AUTO or is_open(self, X) else self._fit_quietly
        clustering, state = fitting(X, observers=observers, checkpoint=checkpoint, resume=resume)
        cost = clustering.cost_of_bound(state)
        if cost is not None:
            warnings.warn(cost, stacklevel=2)
        return self

    def _fit_chosen(
        self, X: SequencesOrSystems, *, checkpoint: Any, **options: Any
    ) -> tuple[Clustering, dict[str, Any]]:
        """Choose the settings that are not given, then fit with them; the parameters of the estimator do not change."""
        choice: Any
        if self.n_clusters == AUTO:
            if not isinstance(self.init, str):
                raise ValueError(
                    "n_clusters='auto' does not support initial labels or centres: pass init='k-means++', or the "
                    "number of clusters as n_clusters"
                )
            store = marked(checkpoint, lambda: (self, X if isinstance(X, Systems) else list(X)))
            choice = chosen_by_default(self, X, checkpoint=store and store.child("choice"), **options)
        else:
            if isinstance(X, list | tuple) and X:  # before a choice of settings, which takes time
                _check_enough(len(X), int(self.n_clusters))
            stages = self._stages(X, "choice", checkpoint, options["resume"])
            choice = choose_settings(self, X, int(self.n_clusters), dynamics_only=self._dynamics_only, stages=stages)
        if choice is None:
            return self._fit_quietly(X, checkpoint=checkpoint, **options)
        made = cast(Any, clone(self)).set_params(**choice.best_params)
        found = made._fit_quietly(X, checkpoint=checkpoint, **options)
        settings = self.get_params(deep=False)
        vars(self).update({name: value for name, value in vars(made).items() if name not in settings})
        self.choice_ = choice
        return found

    def _stages(
        self, X: SequencesOrSystems, folder: str, checkpoint: Any = None, resume: bool = False, **_: Any
    ) -> ms.models.Stages:
        """Return the stages that precede the starts; observers expect states of k-means and receive no events."""
        store = ms.storage.Checkpoint.at(checkpoint)
        return stages_of(self, identifier_of(self), X, checkpoint=store and store.child(folder), resume=resume)

    @property
    def _dynamics_only(self) -> bool:
        """Whether the rule of the mean supports (A, C) only."""
        return bool(resolved_rule(self.mean).on_AC_only)

    def _fit_quietly(self, X: SequencesOrSystems, **options: Any) -> tuple[Clustering, dict[str, Any]]:
        """Fit, and return the clustering problem with the best state."""
        systems, identifier = learned_systems(self, X, self._stages(X, "systems", **options))
        n_clusters = int(self.n_clusters)
        init = checked_init(self.init, systems, n_clusters)
        race = self.n_init == AUTO and isinstance(init, str) and init == INITS[0]
        keep_moment_weights(self, self.moments, systems)
        with one_blas_thread():
            clustering = self._clustering(systems, n_clusters)
            if isinstance(init, Systems):
                init = items_of(clustering.kernel, init)
            # kernels without a repr of their own are told apart by some of their values
            cross = clustering.kernel.cross(clustering.packed[:1], clustering.packed[:16])
            values = [f"{value:.6g}" for value in (*cross[0], *clustering.self_values[:16])]

            def run(number: int, rng: np.random.Generator, **loop: Any) -> ms.Run:
                return ms.iterate(
                    clustering.step,
                    lambda: clustering.start(RACE if race else init, rng, number),
                    stop=ms.CostChange(self.tol) | ms.MaxIterations(self.max_iter),
                    **loop,
                )

            n_starts = 1 if race or not isinstance(init, str) else 4 if self.n_init == AUTO else int(self.n_init)
            best = fit_starts(self, run, clustering.systems, values, n_starts=n_starts, **options)
        self.labels_ = np.array(best.state["labels"])
        self.n_clusters_ = clustering.n_clusters
        self.counts_ = np.bincount(self.labels_, minlength=self.n_clusters_)
        self.systems_ = self._kept(clustering, best.state["x"])
        self.mean_kernel_value_ = best.measures.extra["mean_kernel_value"]
        self.inertia_ = best.measures.fun * len(systems)
        self.n_iter_ = best.nit
        self.history_ = best.history
        self.status_ = best.status
        for name in ("agreement_", "silhouette_"):
            self.__dict__.pop(name, None)
        if "agreement" in best.state:
            self.agreement_ = float(best.state["agreement"])
        if best.status is not ms.Status.INTERRUPTED:  # Ctrl-C ends a fit at once
            with one_blas_thread():
                self.silhouette_ = clustering.silhouette(self.labels_)
                different = clustering.count_different(best.state["x"])
            if different < n_clusters:
                warnings.warn(
                    f"{n_clusters} clusters have {different} different centres, because X has too few different "
                    "systems. The assignment to clusters with equal centres is arbitrary: pass a smaller "
                    "n_clusters",
                    ConvergenceWarning,
                    stacklevel=3,
                )
        remember(self, systems, identifier)
        return clustering, best.state

    def _kept(self, clustering: Clustering, centres: Any) -> Systems:
        """Return centres as systems with orthonormal outputs; warn about centres without an equivalent system."""
        systems, deficient = clustering.systems_of(centres)
        if deficient.any():
            kernel, whole = clustering.kernel, clustering.pack_centres(centres)
            own = np.array([kernel.cross(whole[[k]], kernel.pack(systems[[k]]))[0, 0] for k in range(len(systems))])
            lost = float((kernel.diag(whole) - own)[deficient].max())
            warnings.warn(
                f"the outputs C of centres {np.flatnonzero(deficient).tolist()} are rank-deficient, so no equivalent "
                "system has orthonormal outputs. systems_ contains the nearest systems, and their kernel values "
                f"k(centre, system) are lower than k(centre, centre) by up to {lost:.2g}: choose fewer states",
                stacklevel=4,
            )
        return systems

    def partial_fit(self, X: SequencesOrSystems, y: object = None) -> Self:
        """Update the centres with a mini-batch of sequences or systems.

        The batch is assigned to the nearest centres; each centre then descends, with `solver` and `inner_iter`, on the
        weighted mean problem of its new members and of its previous position, which represents all earlier sequences.
        The first batch determines the centres, as one start of `fit` does, and the scale of the channels; it needs at
        least `n_clusters` sequences. The method requires ``mean="exact"`` or ``"canonical"``.

        Returns
        -------
        self
            The estimator with `labels_`, `mean_kernel_value_` and `inertia_` of the batch after the update; `history_`
            and `status_` do not change.

        Raises
        ------
        ValueError
            For the reasons of `fit`.
        """
        check_parameters(self, _RULES)
        if not isinstance(resolved_rule(self.mean), CanonicalMean):
            raise ValueError(
                f"partial_fit supports mean='exact' and 'canonical' only, not mean={quoted(self.mean)}: use fit"
            )
        begun = hasattr(self, "counts_")
        if not begun and self.n_clusters == AUTO:
            raise ValueError("partial_fit does not support n_clusters='auto': pass a whole number, or call fit")
        if begun and self.n_clusters not in (len(self.counts_), AUTO):
            raise ValueError(f"n_clusters={self.n_clusters} but there are {len(self.counts_)} centres: call fit again")
        if begun:
            systems, identifier = new_systems(self, X), None
        else:
            made = settled(self, X, int(self.n_clusters), dynamics_only=self._dynamics_only)
            systems, identifier = learned_systems(made, X)
            keep_moment_weights(self, made.moments, systems)
        self.n_clusters_ = len(self.counts_) if begun else int(self.n_clusters)
        with one_blas_thread():
            clustering = self._clustering(systems, self.n_clusters_)
            if begun:
                known, counts = items_of(clustering.kernel, self.systems_), self.counts_
                if clustering.stable:
                    centres = clustering.canonical(known)
                else:
                    centres = points_of(known)
                    if not beyond(clustering.manifold, centres).any():
                        centres = clustering.manifold.nearest(centres)
            else:
                init = checked_init(self.init, systems, self.n_clusters_)
                centres = clustering.start(init, random_generator(self.random_state), 0)[0]["x"]
                counts = np.zeros(self.n_clusters_, dtype=np.int64)
            centres, self.counts_ = absorbed(clustering, centres, counts)
            values, squared = clustering.distances(centres)
        self.systems_, everyone = self._kept(clustering, centres), np.arange(len(systems))
        self.labels_ = squared.argmin(axis=0)
        self.mean_kernel_value_ = float(values[self.labels_, everyone].mean())
        self.inertia_ = float(squared[self.labels_, everyone].sum())
        self.n_iter_ = getattr(self, "n_iter_", 0) + 1
        for name in ("agreement_", "silhouette_"):  # of all sequences of a fit
            self.__dict__.pop(name, None)
        if not begun:
            remember(self, systems, identifier)
        return self

    def predict(self, X: SequencesOrSystems) -> NDArray[np.int64]:
        """Assign sequences or systems to the nearest centre.

        Returns
        -------
        ndarray of shape (N,), int
        """
        return self._squared_distances(X).argmin(axis=1)

    def transform(self, X: SequencesOrSystems) -> Array:
        """Return the distances in feature space from sequences or systems to the centres.

        Returns
        -------
        ndarray of shape (N, K)
            ``sqrt(k(x, x) + k(c, c) - 2 k(x, c))``, at most ``sqrt(2 n_states)`` for the projection kernel.
        """
        return np.sqrt(self._squared_distances(X))

    def fit_transform(self, X: SequencesOrSystems, y: object = None, **options: Any) -> Array:  # pyright: ignore
        """Equivalent to ``fit(X).transform(X)``, with one identification."""
        self.fit(X, **options)
        return self.transform(X)

    def score(self, X: SequencesOrSystems, y: object = None) -> float:
        """Return minus the sum of squared distances from sequences or systems to their nearest centres."""
        return -float(self._squared_distances(X).min(axis=1).sum())

    def score_samples(self, X: SequencesOrSystems) -> Array:
        """Return minus the distance from sequences or systems to their nearest centres; outliers have low values.

        Returns
        -------
        ndarray of shape (N,)
        """
        return -np.sqrt(self._squared_distances(X).min(axis=1))

    def nearest(self, X: SequencesOrSystems, n: int = 1) -> NDArray[np.int64]:
        """Return the rows of the sequences or systems that are nearest to each centre, as examples of each cluster.

        Returns
        -------
        ndarray of shape (K, n), int
            Rows of X, the nearest first.
        """
        squared = self._squared_distances(X).T
        if not isinstance(n, Integral) or isinstance(n, bool) or not 1 <= n <= squared.shape[1]:
            raise ValueError(
                f"n={quoted(n)} is not valid: pass a whole number from 1 to {squared.shape[1]}, the number of sequences"
            )
        return np.argsort(squared, axis=1, kind="stable")[:, :n]

    @property
    def _n_features_out(self) -> int:
        return len(self.systems_)

    def _squared_distances(self, X: SequencesOrSystems) -> Array:
        systems = new_systems(self, X)
        with one_blas_thread():
            kernel = fitted_kernel(self)
            packed = kernel.pack(items_of(kernel, systems))
            return distances(kernel, kernel.pack(self.systems_), packed, kernel.diag(packed))[1].T

    def _clustering(self, systems: Systems, n_clusters: int) -> Clustering:
        kernel = fitted_kernel(self)
        rule = resolved_rule(self.mean)
        manifold = manifold_of(kernel, systems.n_outputs, systems.n_states, self.bound)
        used = items_of(kernel, systems)
        if used.moments is not None and rule.on_AC_only:
            raise ValueError(
                f"mean={quoted(self.mean)} is not defined with moments={quoted(self.moments)}: choose 'exact'"
            )
        if used.x1 is not None and rule.on_AC_only:
            raise ValueError(
                f"mean={quoted(self.mean)} is not defined for the kernel {quoted(self.kernel)}: choose 'exact'"
            )
        packed = kernel.pack(used)
        return Clustering(
            kernel,
            manifold,
            used,
            n_clusters,
            rule,
            self.solver,
            self.inner_iter,
            packed,
            kernel.diag(packed),
            self.relocate and isinstance(rule, CanonicalMean),
        )
