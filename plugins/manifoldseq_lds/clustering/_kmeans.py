"""k-means of linear dynamical systems in the feature space of a kernel."""

import warnings
from collections.abc import Sequence
from numbers import Integral
from pathlib import Path
from typing import Any, Self, cast

import numpy as np
from numpy.typing import NDArray
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
from ..identification._sequence_input import (
    IDENTIFICATION,
    SequenceEstimator,
    check_moments,
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
from ._selection import Chosen, ClusteringChoice, chosen_by_default
from ._settings import SettingsChoice, choose_settings, is_open, settled

Array = NDArray[np.floating[Any]]

AUTO = "auto"
INITS = ("k-means++", "medoid")


def _check_solver(name: str, value: Any) -> None:
    if isinstance(value, str) and value != "auto":
        ms.get_solver(value)
    elif not isinstance(value, str | ms.solvers.Solver):
        raise ValueError(f"{name}={quoted(value)} is not a solver: pass a name such as 'lbfgs' or a ms.solvers.Solver")


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


def checked_init(init: Any, systems: Systems, n_clusters: int) -> Any:
    """Return the name, labels or systems to start from."""
    N, K = len(systems), n_clusters
    if N < K:
        raise ValueError(f"X has {N} sequences for n_clusters={K}: pass more sequences or lower n_clusters")
    if isinstance(init, str):
        return init
    if isinstance(init, Systems):
        size = (K, systems.n_outputs, systems.n_states)
        if init.C.shape != size:
            raise ValueError(f"init has C of shape {init.C.shape}: pass {K} systems, C of shape {size}")
        return init
    labels = np.asarray(init)
    if labels.shape != (N,) or labels.dtype.kind not in "iu":
        raise ValueError(
            f"init must be {quoted(INITS[0])}, {quoted(INITS[1])}, {K} Systems, or one whole number per sequence"
        )
    if set(np.unique(labels)) != set(range(K)):
        raise ValueError(f"init must assign a sequence to each of the clusters 0 to {K - 1}, and to no other")
    return labels.astype(np.int64)


class LDSKMeans(Chosen, ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, SequenceEstimator):
    """Cluster sequences by k-means of their linear dynamical systems.

    Each sequence is identified as a system; k-means runs in the feature space of a kernel on systems, with the squared
    distance ``k(x, x) + k(c, c) - 2 k(x, c)``. The centre of a cluster is the system that minimizes the mean squared
    distance to its members: (7), (8) of Huang et al., sought among all stable systems.

    Parameters
    ----------
    n_clusters : int or "auto"
        ``"auto"``: chosen in `fit` without labels, by `choose_clustering` from two to twelve, as many as a quarter of
        the sequences. Twelve pairs of halves are clustered with each number, on one matrix of kernel values.
    n_states : int or str
        Number of states of the identified systems, short for ``identifier=LDSIdentifier(n_states)``. ``"auto"``: chosen
        in `fit` without labels, together with the delay, the mean, the stabilizer and `moments`; see the notes. With a
        number, dynamics alone are compared: on JapaneseVowels ``n_states=3`` has a purity of 0.64, while ``"auto"``,
        which chooses three states as well, has a purity of 0.96. To change the number of states of a choice:
        ``model.set_params(**{**fitted.choice_.best_params, "n_states": 4})``.
    identifier : LDSIdentifier, optional
        Identifier of sequences; it is copied. It has no effect on `Systems`. With ``n_states="auto"``, here and in the
        identifier, its delay, `center` and (of ``method="pca"``) `stabilizer` are chosen too if they have their
        defaults, ``"auto"`` for delay and `center`; other parameters are kept. The choice judges by systems of
        ``method="pca"``, whatever its `method` is.
    bound : float
        ``mean="canonical"`` is sought among systems with singular values of A up to this, as (12) asks. Members may
        have larger ones; where one of them is nearer to the others than what was found, it is the centre.
    kernel : str or kernel object
        A registered name, such as ``"projection"``, or an object with the methods of a kernel.
    moments : {"auto", "none", "level", "size", "both"}
        Moments that are compared in addition to the dynamics: the mean of each channel (``"level"``), its standard
        deviation (``"size"``), or both. The kernel is then a `MomentKernel`, whose widths are learned in `fit`, and a
        centre has moments of its own, ``systems_.moments``. ``"auto"``: chosen with the states where
        ``n_states="auto"``, else ``"none"``.
    mean : str or CentreRule
        A rule of the centre by its registered name, or as an object.
        ``"exact"``: descent over all stable systems, which are points ``[A; C]`` with orthonormal columns
        (output-normal form), all centres at once. It goes on from the last centre, or from the medoid of the members
        where that is better (of more than 2000 sequences, the best of 40 members), and never raises the objective.
        Kernels that are no function of the observability subspace alone have ``"canonical"`` instead.
        ``"canonical"``: descent on the paper's problem (12), with singular values of A up to `bound`. ``"medoid"``: the
        member nearest to the others. The distribution manifoldseq-papers has the baselines of the paper, such as
        ``"papers:align"``, and a plugin can register rules of its own (`manifoldseq.hooks.RuleSpec`). Other rules than
        ``"exact"`` and ``"canonical"`` may raise the objective.
    solver : str or solver
        Solver of the exact and the canonical mean. ``"auto"``: L-BFGS, of the exact mean on all centres at once
        (`ms.solvers.LBFGS`).
    inner_iter : int
        Its iterations per centre and epoch; they double each time the assignment has settled, to at most 8.
    init : {"k-means++", "medoid"}, array of int of shape (N,), or Systems
        ``"k-means++"`` chooses spread systems greedily, ``"medoid"`` the medoids of a random assignment (the authors'
        start). An assignment starts from its medoids, K systems from themselves; then `n_init` is one.
    n_init : int or "auto"
        Number of starts; the best by the objective is kept. ``"auto"``: with ``init="k-means++"`` ten starts race on
        the kernel matrix of at most 1000 systems, and the best of them is continued; else four.
    max_iter : int
        Epochs per start.
    tol : float
        A start ends when the mean squared distance changes by at most ``tol * max(1, itself)`` in an epoch.
    relocate : bool
        With ``mean="exact"`` or ``"canonical"``, once the assignment has settled: dissolve a cluster if its centre
        lowers the objective more in the midst of another one.
    random_state : int, numpy.random.Generator, numpy.random.RandomState or None
    n_jobs, verbose
        Threads of the starts, and what is logged of them: see `manifoldseq.estimators.fit_starts`.

    Attributes
    ----------
    labels_ : ndarray of shape (N,), int
    systems_ : Systems
        The K centres.
    mean_kernel_value_ : float
        Of the systems and their centres, ``(1/N) sum_i k(x_i, c_i)``.
    inertia_ : float
        Sum of the squared distances of the systems to their centres.
    n_iter_ : int
        Epochs of the best start.
    history_ : dict of str to ndarray
        Equally long columns of the best start, record 0 first: ``nit``, ``time``, ``fun`` (mean squared distance),
        ``nfev``, ``mean_kernel_value``, ``moved`` (systems that changed cluster) and further ones.
    status_ : manifoldseq.Status
        Why the best start ended; ``INTERRUPTED`` if Ctrl-C ended any start or kept one from running.
    n_clusters_ : int
        The number of clusters, K.
    choice_ : SettingsChoice or ClusteringChoice
        How ``n_states="auto"`` was decided, or ``n_clusters="auto"``, with the first inside: ``print(model.choice_)``
        is the table. Absent if both were given.
    stability_ : float
        Mean adjusted Rand index between clusterings of random halves of the data with the chosen settings, as in
        `choice_`, and with the chosen number of clusters: 1 where the halves agree, 0 by chance. It says that clusters
        are repeatable, not that they are right. Absent if nothing was compared.
    agreement_ : float
        Mean adjusted Rand index of the starts that raced with the best of them, after a fit with ``n_init="auto"`` and
        ``init="k-means++"``. The best of ten is steadier than one of them: other seeds agree at least about as well.
    silhouette_ : float
        Mean silhouette by distances in feature space: 1 for clusters far from each other, 0 between two. Of more than
        250 sequences that of as many evenly spaced ones, unless the fit has compared all pairs. NaN for one cluster.
        Absent after `partial_fit`, and after Ctrl-C.
    moment_weights_ : ndarray of shape (2 d,)
        Weights of the `MomentKernel`; absent if only dynamics are compared.
    counts_ : ndarray of shape (K,), int
        Number of systems of each centre: the sizes of the clusters, or the numbers seen by `partial_fit`.
    n_features_in_ : int
        Channels of the sequences, or outputs of the `Systems`, seen in `fit`.
    feature_names_in_ : ndarray of str of shape (d,)
        Names of the channels, where every sequence of `fit` is a data frame.
    scale_ : ndarray of shape (d,)
        Scale by which each channel of sequences is divided; absent after a fit to `Systems`.

    Notes
    -----
    Ctrl-C during `fit` ends it; the estimator is then fitted with the best state reached so far.

    ``n_states="auto"``: settings of the identification are compared by forecasts one step ahead of the last third of
    each sequence; those within a quarter of the least error count as equal. With each of these, level and size of the
    channels are admitted where the kernel matrices of dynamics and moments are aligned (0.3 or more). Among the
    remaining settings, the one whose clusterings of random halves of the data agree best is chosen. Ties go to the
    setting that uses the most information. Where forecasts are no better than a constant, by more than their standard
    error over sequences, there are no dynamics to agree with: level and size are then also admitted with systems that
    hardly differ.

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

    stored_types = (*SequenceEstimator.stored_types, ClusteringChoice, SettingsChoice)

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
        init: Any = "k-means++",
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
            ``labels`` and ``start``, its number. Each start has its own folder in the checkpoint, and so has the choice
            of ``n_clusters="auto"``, whose events come first.

        Raises
        ------
        ValueError
            For an invalid parameter or input; the message says which, where, and what to do.

        Warns
        -----
        UserWarning
            If the choice of settings could not do all that it should: sequences too short for what the others ask for,
            dynamics that predict nothing, fewer than four sequences per cluster (``choice_.notes``).
        UserWarning
            Once, if the outputs of centres have lost a rank, so that `systems_` holds near systems; with
            ``mean="canonical"``, if centres are members beyond the bound: it says what the bound would cost.
        """
        check_parameters(self, _RULES)
        self.__dict__.pop("choice_", None)
        fitting = self._fit_chosen if self.n_clusters == AUTO or is_open(self, X) else self._fit_quietly
        clustering, state = fitting(X, observers=observers, checkpoint=checkpoint, resume=resume)
        cost = clustering.cost_of_bound(state)
        if cost is not None:
            warnings.warn(cost, stacklevel=2)
        return self

    def _fit_chosen(self, X: Any, *, checkpoint: Any, **options: Any) -> tuple[Clustering, dict[str, Any]]:
        """Choose the settings that are open, then fit with them; the parameters stay as they were given."""
        choice: Any
        if self.n_clusters == AUTO:
            if not isinstance(self.init, str):
                raise ValueError(
                    "init has a number of clusters: pass it as n_clusters, or init='k-means++' with 'auto'"
                )
            store = marked(checkpoint, lambda: (self, X if isinstance(X, Systems) else list(X)))
            choice = chosen_by_default(self, X, checkpoint=store and store.child("choice"), **options)
        else:
            choice = choose_settings(self, X, int(self.n_clusters), dynamics_only=self._dynamics_only)
        if choice is None:
            return self._fit_quietly(X, checkpoint=checkpoint, **options)
        made = cast(Any, clone(self)).set_params(**choice.best_params)
        found = made._fit_quietly(X, checkpoint=checkpoint, **options)
        settings = self.get_params(deep=False)
        vars(self).update({name: value for name, value in vars(made).items() if name not in settings})
        self.choice_ = choice
        return found

    @property
    def _dynamics_only(self) -> bool:
        """Whether the rule of the mean knows (A, C) only."""
        return bool(resolved_rule(self.mean).on_AC_only)

    def _fit_quietly(self, X: Any, **options: Any) -> tuple[Clustering, dict[str, Any]]:
        """Fit, and return the clustering problem with the best state."""
        systems, identifier = learned_systems(self, X)
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
                    f"{n_clusters} clusters have {different} different centres, as X has too few different systems: "
                    "the choice among equal clusters is arbitrary; pass a smaller n_clusters",
                    ConvergenceWarning,
                    stacklevel=3,
                )
        remember(self, systems, identifier)
        return clustering, best.state

    def _kept(self, clustering: Clustering, centres: Any) -> Systems:
        """Return centres as systems with orthonormal outputs; warn of those that have none."""
        systems, deficient = clustering.systems_of(centres)
        if deficient.any():
            kernel, whole = clustering.kernel, clustering.pack_centres(centres)
            own = np.array([kernel.cross(whole[[k]], kernel.pack(systems[[k]]))[0, 0] for k in range(len(systems))])
            lost = float((kernel.diag(whole) - own)[deficient].max())
            warnings.warn(
                f"the outputs C of centres {np.flatnonzero(deficient).tolist()} have lost a rank, so that no "
                f"equivalent system has orthonormal outputs: systems_ holds near ones, whose kernel with the centre is "
                f"up to {lost:.2g} below that of the centre with itself; choose fewer states",
                stacklevel=4,
            )
        return systems

    def partial_fit(self, X: Any, y: object = None) -> Self:
        """Move the centres by a mini-batch of sequences or systems.

        The batch is assigned to the nearest centres; each centre then descends, by `solver` and `inner_iter`, on the
        weighted mean problem of its new members and of its own last place, which stands for all that it has seen. The
        first batch chooses the centres, as `fit` does in one start, and the scale of the channels; it needs at least
        `n_clusters` sequences. Asks for ``mean="exact"`` or ``"canonical"``.

        Returns
        -------
        self
            With `labels_`, `mean_kernel_value_` and `inertia_` of the batch after the update; `history_` and `status_`
            are those of a fit before.

        Raises
        ------
        ValueError
            As `fit`.
        """
        check_parameters(self, _RULES)
        if not isinstance(resolved_rule(self.mean), CanonicalMean):
            raise ValueError(
                f"partial_fit is defined for mean='exact' and 'canonical' only, and mean={quoted(self.mean)}"
            )
        begun = hasattr(self, "counts_")
        if not begun and self.n_clusters == AUTO:
            raise ValueError("n_clusters='auto' is chosen by fit, from all sequences: pass a whole number")
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

    def score_samples(self, X: Any) -> Array:
        """Return minus the distance from sequences or systems to their nearest centres; the lowest are outliers.

        Returns
        -------
        ndarray of shape (N,)
        """
        return -np.sqrt(self._squared_distances(X).min(axis=1))

    def nearest(self, X: Any, n: int = 1) -> NDArray[np.int64]:
        """Return the rows of the sequences or systems that are nearest to each centre: what a cluster is like.

        Returns
        -------
        ndarray of shape (K, n), int
            Rows of X, the nearest first.
        """
        squared = self._squared_distances(X).T
        if not isinstance(n, Integral) or isinstance(n, bool) or not 1 <= n <= squared.shape[1]:
            raise ValueError(
                f"n={quoted(n)} is not valid: pass a whole number from 1 to the {squared.shape[1]} sequences"
            )
        return np.argsort(squared, axis=1, kind="stable")[:, :n]

    @property
    def _n_features_out(self) -> int:
        return len(self.systems_)

    def _squared_distances(self, X: Any) -> Array:
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
