"""Spectral clustering of sequences on a kernel of their linear dynamical systems."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClusterMixin

import manifoldseq as ms
from manifoldseq.estimators import (
    check_parameters,
    check_positive,
    check_whole,
    differing,
    quoted,
    random_generator,
    warn_of_few_distinct,
)
from manifoldseq.execution import one_blas_thread

from ..identification._identifier import LDSIdentifier
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
from ..kernels._resolved import check_kernel
from ..means._common_problem import items_of
from ..systems._record import Systems
from ._epoch import SAME, silhouette
from ._selection import Chosen
from ._settings import settled

Array = NDArray[np.floating[Any]]

_RULES = {
    **IDENTIFICATION,
    "n_clusters": check_whole,
    "kernel": check_kernel,
    "moments": check_moments,
    "sharpness": check_positive,
}


class LDSSpectralClustering(Chosen, ClusterMixin, SequenceEstimator):
    """Cluster sequences by the eigenvectors of the normalized kernel matrix of their systems.

    The estimator applies scikit-learn's `SpectralClustering` to the affinity ``(k(x, y) / sqrt(k(x, x) k(y,
    y)))**sharpness``. Negative kernel values are set to zero. New data are assigned to the nearest cluster in the
    feature space in which normalized cuts are a weighted k-means (Dhillon, Guan and Kulis 2004).

    Parameters
    ----------
    n_clusters : int
        Number of clusters.
    n_states : int or str
        The number of states of the identified systems, a short form of ``identifier=LDSIdentifier(n_states)``.
    identifier : LDSIdentifier, optional
        The identification of sequences. The object is copied, and it is not used for `Systems`. With
        ``n_states="auto"``, settings that are not given are chosen as in `LDSKMeans`.
    kernel : str or kernel object
        A registered name, such as ``"projection"``, or an object with the methods of a kernel.
    moments : {"auto", "none", "level", "size", "both"}
        Moments that are compared in addition to the dynamics, as in `LDSKMeans`.
    sharpness : float
        Power of the normalized kernel; large powers keep only near neighbours.
    random_state : int, numpy.random.Generator, numpy.random.RandomState or None
        Seed of the random choices.

    Attributes
    ----------
    labels_ : ndarray of shape (N,), int
    affinity_matrix_ : ndarray of shape (N, N)
    systems_ : Systems
        The systems of the sequences of `fit`.
    choice_ : manifoldseq.models.Choice
        The comparison of settings for ``n_states="auto"``; absent for other values of `n_states`.
    stability_ : float
        Mean adjusted Rand index between clusterings of random halves of the data with the chosen settings, as in
        `choice_`: 1 is perfect agreement, 0 the level of chance. A high value shows that the clusters are repeatable,
        not that they are correct. Absent if nothing was compared.
    silhouette_ : float
        Mean silhouette of the sequences, with ``sqrt(2 - 2 affinity)`` as distance; NaN for one cluster.
    moment_weights_ : ndarray of shape (2 d,)
        Weights of the `MomentKernel`; absent if only dynamics are compared.
    n_features_in_ : int
    feature_names_in_ : ndarray of str of shape (d,)
        Names of the channels, if every sequence of `fit` is a data frame.
    scale_ : ndarray of shape (d,)
        The divisor of each channel of sequences; absent after a fit to `Systems`.

    Notes
    -----
    The estimator has no `agreement_` of starts, unlike `LDSKMeans`, because starts of k-means on the first K
    eigenvectors agree for any data: 0.92 with two clusters on systems without clusters, whereas the clusters of halves
    have an agreement of 0.01. Use `stability_`.

    Examples
    --------
    >>> import numpy as np
    >>> rng, t = np.random.default_rng(0), np.arange(60)[:, None]
    >>> X = [np.cos(t * w + rng.uniform(0, 6) + [0, 1, 2]) for w in [0.2] * 5 + [0.9] * 5]
    >>> labels = LDSSpectralClustering(2, n_states=2, random_state=0).fit_predict(X)
    >>> np.ptp(labels.reshape(2, 5), axis=1).tolist()
    [0, 0]
    """

    systems_: Systems

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        n_states: int | str = "auto",
        identifier: LDSIdentifier | None = None,
        kernel: Any = "projection",
        moments: str = "auto",
        sharpness: float = 1.0,
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.n_states = n_states
        self.identifier = identifier
        self.kernel = kernel
        self.moments = moments
        self.sharpness = sharpness
        self.random_state = random_state

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
            As in `manifoldseq.models.Stages`: an iteration compares one setting, identifies one batch of sequences, or
            computes the affinities or the clusters.

        Raises
        ------
        ValueError
            If a parameter or the input is invalid. The message says what is wrong, where, and what to do.
        KeyboardInterrupt
            After Ctrl-C. The checkpoint, if any, contains the results so far.

        Warns
        -----
        ConvergenceWarning
            If there are fewer different systems than clusters.
        """
        from sklearn.cluster import SpectralClustering

        check_parameters(self, _RULES)
        loop: dict[str, Any] = {"observers": observers, "checkpoint": checkpoint, "resume": resume}
        stages = stages_of(self, identifier_of(self), X, **loop)
        made = settled(self, X, self.n_clusters, stages=stages)
        seed = int(random_generator(self.random_state).integers(2**31))
        systems, identifier = learned_systems(made, X, stages)
        if len(systems) < self.n_clusters:
            raise ValueError(
                f"X has {len(systems)} sequences for n_clusters={self.n_clusters}: pass more sequences or lower "
                "n_clusters"
            )
        keep_moment_weights(self, made.moments, systems)

        def symmetric(systems: Systems) -> Array:
            affinity = self._affinity(systems, systems)
            return (affinity + affinity.T) / 2

        def labels(affinity: Array) -> NDArray[np.int64]:
            spectral = SpectralClustering(self.n_clusters, affinity="precomputed", random_state=seed)
            return np.asarray(spectral.fit_predict(affinity), dtype=np.int64)

        with one_blas_thread():
            affinity = np.require(next(stages.map(symmetric, [systems])), requirements="W")
            if self.n_clusters < len(systems):
                self.labels_ = np.require(next(stages.map(labels, [affinity])), requirements="W")
            else:
                self.labels_ = np.arange(len(systems))
            different = self._count_different(affinity)
        self.affinity_matrix_ = affinity
        self.silhouette_ = silhouette(affinity.diagonal(), affinity, self.labels_)
        self.systems_ = systems
        remember(self, systems, identifier)
        warn_of_few_distinct(different, int(self.n_clusters), "n_clusters", "systems")
        return self

    def predict(self, X: SequencesOrSystems) -> NDArray[np.int64]:
        """Assign sequences or systems to the clusters of `fit`.

        Normalized cuts are a k-means in the feature space of ``affinity / (degree degree')`` with the degrees as
        weights. Each sequence is assigned to the nearest of these means.

        Returns
        -------
        ndarray of shape (N,), int
        """
        systems = new_systems(self, X)
        members = np.eye(int(self.labels_.max()) + 1)[self.labels_]
        with one_blas_thread():
            cross = self._affinity(systems, self.systems_)
        volume = members.T @ self.affinity_matrix_.sum(axis=1)
        # |mean|^2 = sum of a_ij over the members / volume^2; phi(x)'mean = sum_j a(x, j) / (degree(x) volume), (N, K)
        own = np.einsum("ik,ij,jk->k", members, self.affinity_matrix_, members, optimize=True) / volume**2
        degree = np.maximum(cross.sum(axis=1), np.finfo(float).tiny)
        return (own - 2 * cross @ members / (degree[:, None] * volume)).argmin(axis=1)

    def _count_different(self, affinity: Array) -> int:
        """Return the number of systems that differ in feature space, up to rounding."""
        squared, N = 2 - 2 * affinity ** (1 / self.sharpness), len(affinity)
        return len(differing(squared.__getitem__, np.full(N, np.inf), SAME, N))

    def _affinity(self, systems: Systems, others: Systems) -> Array:
        """Return powers of cosines in feature space, k(x, y) / sqrt(k(x, x) k(y, y)); negative values become zero."""
        kernel = fitted_kernel(self)
        P = kernel.pack(items_of(kernel, systems))
        Q = P if others is systems else kernel.pack(items_of(kernel, others))
        roots = [np.sqrt(kernel.diag(one)) for one in (P, Q)]
        for i in np.flatnonzero(~(roots[0] > 0)):
            raise ValueError(
                f"system {i} has k(x, x) = 0 under {quoted(self.kernel)}: remove the system or change the kernel"
            )
        return np.maximum(kernel.cross(P, Q) / (roots[0][:, None] * roots[1]), 0.0) ** self.sharpness
