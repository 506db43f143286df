"""Spectral clustering of sequences on a kernel of their linear dynamical systems."""

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClusterMixin

from manifoldseq.estimators import check_parameters, check_positive, check_whole, random_generator
from manifoldseq.execution import one_blas_thread

from ..identification._before import MOVES_BOUND, settings_moved
from ..identification._identifier import LDSIdentifier
from ..identification._sequence_input import IDENTIFICATION, SequenceEstimator, learned_systems, remember
from ..kernels._resolved import check_kernel, resolved_kernel
from ..means._common_problem import items_of

Array = NDArray[np.floating[Any]]

_RULES = {
    **IDENTIFICATION,
    "n_clusters": check_whole,
    "kernel": check_kernel,
    "sharpness": check_positive,
}


class LDSSpectralClustering(ClusterMixin, SequenceEstimator):
    """Cluster sequences by the eigenvectors of the normalized kernel matrix of their systems.

    scikit-learn's `SpectralClustering` on the affinity ``(k(x, y) / sqrt(k(x, x) k(y, y)))**sharpness``; negative
    values, which a kernel that is not positive can have, count as zero. There are no centres, so that new data cannot
    be assigned: for that, see `LDSKMeans`.

    Parameters
    ----------
    n_clusters : int
    n_states : int or str
        Of the systems that sequences are identified as: ``identifier=LDSIdentifier(n_states)`` for short.
    identifier : LDSIdentifier, optional
        How sequences are identified, by default with its defaults; it is copied. Without effect on `Systems`.
    kernel : str or kernel object
        A registered name, such as ``"projection"``, or an object with the methods of a kernel.
    sharpness : float
        Power of the normalized kernel; larger ones keep near neighbours only.
    random_state : int, numpy.random.Generator, numpy.random.RandomState or None

    Attributes
    ----------
    labels_ : ndarray of shape (N,), int
    affinity_matrix_ : ndarray of shape (N, N)
    n_features_in_ : int
    scale_ : ndarray of shape (d,)
        What each channel of sequences is divided by; absent after a fit to `Systems`.

    Examples
    --------
    >>> import numpy as np
    >>> rng, t = np.random.default_rng(0), np.arange(60)[:, None]
    >>> X = [np.cos(t * w + rng.uniform(0, 6) + [0, 1, 2]) for w in [0.2] * 5 + [0.9] * 5]
    >>> labels = LDSSpectralClustering(2, n_states=2, random_state=0).fit_predict(X)
    >>> np.ptp(labels.reshape(2, 5), axis=1).tolist()
    [0, 0]
    """

    stored_upgrades = MOVES_BOUND

    @settings_moved
    def __init__(
        self,
        n_clusters: int = 8,
        *,
        n_states: int | str = "auto",
        identifier: LDSIdentifier | None = None,
        kernel: Any = "projection",
        sharpness: float = 1.0,
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.n_states = n_states
        self.identifier = identifier
        self.kernel = kernel
        self.sharpness = sharpness
        self.random_state = random_state

    def fit(self, X: Any, y: object = None) -> Self:
        """Cluster sequences or systems.

        Parameters
        ----------
        X : list of array-like of shape (T_i, d), or Systems
        y : ignored

        Raises
        ------
        ValueError
            For an invalid parameter or input; one sentence says which, where, and what to do.
        """
        from sklearn.cluster import SpectralClustering

        check_parameters(self, _RULES)
        kernel = resolved_kernel(self.kernel)
        seed = int(random_generator(self.random_state).integers(2**31))
        systems, identifier = learned_systems(self, X)
        if len(systems) < self.n_clusters:
            raise ValueError(
                f"X has {len(systems)} sequences for n_clusters={self.n_clusters}: pass more sequences or lower it"
            )
        with one_blas_thread():
            packed = kernel.pack(items_of(kernel, systems))
            own = np.sqrt(kernel.diag(packed))
            for i in np.flatnonzero(~(own > 0)):
                raise ValueError(f"system {i} has k(x, x) = 0 under {self.kernel!r}: remove it or take another kernel")
            # cosines in feature space, k(x, y) / sqrt(k(x, x) k(y, y)), none negative
            affinity = np.maximum(kernel.cross(packed, packed) / (own[:, None] * own), 0.0) ** self.sharpness
            affinity = (affinity + affinity.T) / 2
            if self.n_clusters < len(systems):
                spectral = SpectralClustering(self.n_clusters, affinity="precomputed", random_state=seed)
                self.labels_ = np.asarray(spectral.fit_predict(affinity), dtype=np.int64)
            else:
                self.labels_ = np.arange(len(systems))
        self.affinity_matrix_ = affinity
        remember(self, systems, identifier)
        return self
