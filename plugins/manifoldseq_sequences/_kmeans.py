"""k-means of sequences under a weighted sum of kernels, whose weights are learned without labels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin

import manifoldseq as ms
from manifoldseq.estimators import check_parameters, check_whole, random_generator, warn_of_few_distinct
from manifoldseq.execution import one_blas_thread
from manifoldseq.models import Choice

from ._estimator import AUTO, RULES, KernelsOfSequences, warn_of
from ._weights import learned_weights

Array = NDArray[np.float64]

REFERENCE = 1000
"""Most sequences that are compared with each other; further ones go to the nearest centre."""
SAME = 1e-10
"""Squared distances up to this share of the mean square are those of equal sequences."""
_RULES = {**RULES, "n_clusters": check_whole, "n_init": check_whole}


class SequenceKMeans(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, KernelsOfSequences):
    """Cluster sequences of which nothing is known: by the descriptions that separate them.

    Sequences are compared by several kernels: of their statistics, spectra, autocovariances, shapes, alignments,
    responses to random convolutions, and (if manifoldseq-lds is installed) linear dynamical systems. Each kernel is
    centred and scaled to a mean square of 1. k-means runs in the feature space of their weighted sum, with weights
    that are learned without labels.

    Parameters
    ----------
    n_clusters : int
    kernel : str, kernel object or dict of str to float
        ``"auto"``: a sum of `kernels` whose weights are learned; `choice_` says how. ``"sum"``: all with equal weights.
        A registered name such as ``"shape"`` or a kernel object: this kernel alone. A dict: a sum with these weights.
    kernels : sequence of str or kernel objects, optional
        The kernels that ``"auto"`` and ``"sum"`` are about, by default the bundled ones. A kernel of another plugin
        takes part only where it is named here.
    n_init : int
        Starts of k-means; the one of least inertia is kept.
    random_state : int, numpy.random.Generator, numpy.random.RandomState or None

    Attributes
    ----------
    labels_ : ndarray of shape (N,), int
    cluster_centers_ : ndarray of shape (n_clusters, r)
        Means of the clusters in the joined principal components of the kernels.
    weights_ : dict of str to float
        Of the kernels; their sum is 1.
    choice_ : manifoldseq.models.Choice
        How the weights were learned: ``print(model.choice_)`` is the table. Absent unless ``kernel="auto"``.
    inertia_ : float
        Sum of the squared distances of the sequences to their centres.
    components_ : dict
        By name, the fitted kernels that count, with their principal components.
    sequences_ : list of ndarray
        The sequences of `fit` that new ones are compared with, at most 1000.
    n_features_in_ : int
        Channels.
    feature_names_in_ : ndarray of str of shape (d,)
        Names of the channels, where every sequence of `fit` is a data frame.

    Notes
    -----
    The weights are a guess, for there are no labels. A description whose clusters are stable, balanced and found by
    other descriptions too can still be about something that you do not look for: a table of `choice_` with several
    stable descriptions that do not confirm each other says that there is more than one way to group the sequences.

    Examples
    --------
    >>> import numpy as np
    >>> rng, t = np.random.default_rng(0), np.arange(60)[:, None]
    >>> X = [np.cos(t * w + rng.uniform(0, 6) + [0, 1, 2]) for w in [0.2] * 6 + [0.9] * 6]
    >>> labels = SequenceKMeans(2, random_state=0).fit_predict(X)
    >>> np.ptp(labels.reshape(2, 6), axis=1).tolist()
    [0, 0]
    """

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        kernel: Any = "auto",
        kernels: Any = None,
        n_init: int = 20,
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.kernel = kernel
        self.kernels = kernels
        self.n_init = n_init
        self.random_state = random_state

    def fit(self, X: Any, y: object = None) -> Self:
        """Cluster sequences.

        Parameters
        ----------
        X : list of array-like of shape (T_i, d)
        y : ignored

        Raises
        ------
        ValueError
            For an invalid parameter or input; the message says which, where, and what to do.

        Warns
        -----
        UserWarning
            If there are too few sequences to learn weights, or no description has clusters.
        ConvergenceWarning
            If fewer sequences are different than there are clusters.
        """
        check_parameters(self, _RULES)
        sequences, K = self._sequences(X, reset=True), int(self.n_clusters)
        if len(sequences) < K:
            raise ValueError(
                f"X has {len(sequences)} sequences for n_clusters={K}: pass more sequences or lower n_clusters"
            )
        rng = random_generator(self.random_state)
        rows = np.arange(len(sequences))
        if len(rows) > REFERENCE:
            rows = np.sort(rng.permutation(len(rows))[:REFERENCE])
        reference = [sequences[i] for i in rows]
        components, coordinates, notes = self._descriptions(reference, K)
        self.__dict__.pop("choice_", None)
        if isinstance(self.kernel, str) and self.kernel == AUTO:
            with one_blas_thread():
                choice = learned_weights(coordinates, K, rng)
            self.choice_ = Choice(choice.steps, choice.best_params, [*notes, *choice.notes], choice.time)
            weights: Mapping[str, float] = choice.best_params["kernel"]
            warn_of(choice.notes)
        elif isinstance(self.kernel, Mapping):
            weights = {one.name: float(self.kernel[one.name]) for one in components}
        else:
            weights = dict.fromkeys(coordinates, 1.0)
        self._keep(components, weights, reference)
        Z = self._joined(coordinates)
        with one_blas_thread():
            gram = Z @ Z.T
            labels = ms.kernels.kernel_kmeans(gram, K, rng, int(self.n_init))[0]
            own = gram.diagonal()
            equal = own[:, None] + own - 2 * gram <= SAME * max(float(own.mean()), np.finfo(float).tiny)
        np.fill_diagonal(equal, True)
        members = np.eye(K)[labels]
        self.cluster_centers_ = members.T @ Z / members.sum(axis=0)[:, None]
        squared = _squared(Z, self.cluster_centers_)
        self.inertia_ = float(squared[np.arange(len(labels)), labels].sum())
        self.labels_ = np.empty(len(sequences), dtype=np.int64)
        self.labels_[rows] = labels
        rest = np.setdiff1d(np.arange(len(sequences)), rows)
        if len(rest):
            squared = self._squared_distances([sequences[i] for i in rest])
            self.labels_[rest] = squared.argmin(axis=1)
            self.inertia_ += float(squared.min(axis=1).sum())
        warn_of_few_distinct(len(np.unique(equal.argmax(axis=1))), K, "n_clusters", "sequences")
        return self

    def predict(self, X: Any) -> NDArray[np.int64]:
        """Assign sequences to the nearest centre.

        Returns
        -------
        ndarray of shape (N,), int
        """
        return self._squared_distances(self._sequences(X, reset=False)).argmin(axis=1)

    def transform(self, X: Any) -> Array:
        """Return the distances in feature space from sequences to the centres.

        Returns
        -------
        ndarray of shape (N, n_clusters)
        """
        return np.sqrt(self._squared_distances(self._sequences(X, reset=False)))

    def score(self, X: Any, y: object = None) -> float:
        """Return minus the sum of squared distances from sequences to their nearest centres."""
        return -float(self._squared_distances(self._sequences(X, reset=False)).min(axis=1).sum())

    def _squared_distances(self, sequences: list[Array]) -> Array:
        return _squared(self._coordinates(sequences), self.cluster_centers_)

    @property
    def _n_features_out(self) -> int:
        return len(self.cluster_centers_)


def _squared(Z: Array, centres: Array) -> Array:
    """Return squared distances of rows to centres, (N, K)."""
    # differences, because the root of a small difference of large squares is wrong in its eighth digit
    return np.stack([np.square(Z - centre).sum(axis=1) for centre in centres], axis=1)
