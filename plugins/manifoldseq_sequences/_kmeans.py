"""k-means of sequences in an embedding by several kernels, whose weights are learned without labels."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin

import manifoldseq as ms
from manifoldseq.estimators import (
    SequencesLike,
    check_parameters,
    check_whole,
    marked,
    random_generator,
    warn_of_few_distinct,
)
from manifoldseq.execution import one_blas_thread
from manifoldseq.models import Choice, Step, at_end_of_range, choose_n_clusters, numbers_of_clusters

from ._components import Components
from ._estimator import AUTO, RULES, KernelsOfSequences, several, warn_of
from ._fusion import Fusion, fuse
from ._weights import learned_weights, weights_of_any_number

Array = NDArray[np.float64]

REFERENCE = 1000
"""The maximum number of sequences that are compared with each other; the others are assigned to the nearest centre."""
SAME = 1e-10
"""Sequences are considered equal if their squared distance is at most this share of the mean square."""
LEAST = 4
"""The minimum number of sequences, so that each half can have two clusters."""


def check_n_clusters(name: str, value: Any) -> None:
    """Raise ValueError unless a value is "auto" or a whole number of at least 1."""
    if not (isinstance(value, str) and value == AUTO):
        try:
            check_whole(name, value)
        except ValueError as error:
            raise ValueError(f"{error}, or {AUTO!r}") from None


_RULES = {**RULES, "n_clusters": check_n_clusters, "n_init": check_whole}


class SequenceKMeans(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, KernelsOfSequences):
    """Cluster sequences without prior knowledge, using the descriptions that separate them.

    Sequences are compared by several kernels: of their statistics, spectra, autocovariances, shapes, alignments,
    responses to random convolutions, and (if manifoldseq-lds is installed) linear dynamical systems. Each kernel is
    centred and scaled to a mean square of 1, and gets a weight that is learned without labels. The graphs of nearest
    neighbours under the kernels are combined by similarity network fusion (Wang et al., Nature Methods 11, 2014), and
    k-means runs in the leading eigenvectors of the fused graph. With a single kernel, k-means runs in the feature
    space of this kernel.

    Parameters
    ----------
    n_clusters : int or "auto"
        With ``"auto"``, `fit` chooses from two to twelve clusters, at most a quarter of the number of sequences,
        without labels. It chooses the largest number for which clusterings of random halves agree as well as for any
        other number (`manifoldseq.models.choose_n_clusters`).
    kernel : str, kernel object or dict of str to float
        ``"auto"`` combines `kernels` with learned weights; `choice_` shows how the weights were learned. ``"sum"``
        combines them with equal weights, and a dict with the given weights. A registered name such as ``"shape"``, or
        a kernel object, selects this kernel alone.
    kernels : sequence of str or kernel objects, optional
        The kernels of ``"auto"`` and ``"sum"``, by default the bundled kernels. A kernel of another plugin is used only
        if it is named here.
    n_init : int
        Number of starts of k-means; the result with the smallest inertia is kept.
    random_state : int, numpy.random.Generator, numpy.random.RandomState or None
        Seed of the random choices.

    Attributes
    ----------
    labels_ : ndarray of shape (N,), int
    cluster_centers_ : ndarray of shape (n_clusters, r)
        Means of the clusters in the embedding: r is the number of clusters if several kernels are combined, and
        otherwise the number of principal components of the kernel.
    weights_ : dict of str to float
        Weights of the kernels, with sum 1.
    choice_ : manifoldseq.models.Choice
        How the weights and the number of clusters were chosen; ``print(model.choice_)`` prints the table. Absent unless
        ``kernel="auto"`` or ``n_clusters="auto"``.
    n_clusters_ : int
        The number of clusters.
    inertia_ : float
        Sum of the squared distances of the sequences to their centres.
    fusion_ : object or None
        The fused graph, which embeds new sequences; None for a single kernel.
    components_ : dict
        The fitted kernels with positive weights and their principal components, by name.
    sequences_ : list of ndarray
        The sequences of `fit` with which new sequences are compared, at most 1000.
    n_features_in_ : int
        Number of channels.
    feature_names_in_ : ndarray of str of shape (d,)
        Names of the channels, if every sequence of `fit` is a data frame.

    Notes
    -----
    Missing values raise an error: fill them first, for example by ``--read missing=linear`` in the shell or by
    `manifoldseq.storage.interpolate`.

    The weights are a guess, because there are no labels. Even if the clusters of a description are stable, balanced and
    confirmed by other descriptions, they can differ from the groups that you look for. If several descriptions in the
    table of `choice_` are stable but do not confirm each other, there is more than one way to group the sequences.

    Examples
    --------
    >>> import numpy as np
    >>> rng, t = np.random.default_rng(0), np.arange(60)[:, None]
    >>> X = [np.cos(t * w + rng.uniform(0, 6) + [0, 1, 2]) for w in [0.2] * 6 + [0.9] * 6]
    >>> labels = SequenceKMeans(2, random_state=0).fit_predict(X)
    >>> np.ptp(labels.reshape(2, 6), axis=1).tolist()
    [0, 0]
    """

    stored_types: ClassVar[tuple[type, ...]] = (Components, Fusion, Choice, Step)
    fusion_: Fusion | None

    def __init__(
        self,
        n_clusters: int | str = 8,
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

    def fit(
        self,
        X: SequencesLike,
        y: object = None,
        *,
        observers: Sequence[Any] = (),
        checkpoint: ms.storage.Checkpoint | str | Path | None = None,
        resume: bool = False,
    ) -> Self:
        """Cluster sequences.

        Parameters
        ----------
        X : list of array-like of shape (T_i, d)
        y : ignored
        observers, checkpoint, resume
            As in `manifoldseq.iterate`. With a checkpoint, one iteration computes the matrix of one kernel, which takes
            nearly all of the time of a fit to many sequences. A resumed fit has the same result. Without a checkpoint,
            the kernels are computed in parallel by the executor of the context (`manifoldseq.execution.using`).

        Raises
        ------
        ValueError
            For an invalid parameter or input. The message names the parameter or the sequence and the remedy.
        KeyboardInterrupt
            After Ctrl-C. The checkpoint, if any, is written first.

        Warns
        -----
        UserWarning
            If there are too few sequences to learn weights, or if no description has clusters.
        ConvergenceWarning
            If there are fewer different sequences than clusters.
        """
        check_parameters(self, _RULES)
        store = marked(checkpoint, lambda: (self, list(X)))
        sequences, rng = self._sequences(X, reset=True), random_generator(self.random_state)
        K = None if self.n_clusters == AUTO else int(self.n_clusters)
        if len(sequences) < (LEAST if K is None else K):
            said = (
                f", but n_clusters={AUTO!r} compares clusterings of halves of the data"
                if K is None
                else f" for n_clusters={self.n_clusters!r}"
            )
            remedy = (
                f"pass {LEAST} or more sequences, or set n_clusters"
                if K is None
                else "pass more sequences or lower n_clusters"
            )
            raise ValueError(f"X has {len(sequences)} sequences{said}: {remedy}")
        several(sequences)
        rows = np.arange(len(sequences))
        if len(rows) > REFERENCE:
            rows = np.sort(rng.permutation(len(rows))[:REFERENCE])
        start = {"rows": rows, "rng": rng.bit_generator.state}
        loop: dict[str, Any] = {"observers": observers, "checkpoint": store, "resume": resume}
        components, coordinates, notes, state = self._descriptions(sequences, K, start, **loop)
        rng.bit_generator.state, rows = state["rng"], np.array(state["rows"])  # of the run that was resumed
        reference = [sequences[i] for i in rows]
        weights, K = self._chosen(coordinates, K, rng, notes)
        self._keep(components, weights, reference)
        with one_blas_thread():
            distinct = _distinct(self._joined(coordinates))
            used = {name: w for name, w in self.weights_.items() if w > 0 and coordinates[name].shape[1]}
            self.fusion_ = fuse(coordinates, used, K) if len(used) > 1 else None
            Z = self._embedded(coordinates)
            labels = ms.kernels.kernel_kmeans(Z @ Z.T, K, rng, int(self.n_init))[0]
        members = np.eye(K)[labels]
        self.n_clusters_ = K
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
        warn_of_few_distinct(distinct, K, "n_clusters", "sequences")
        return self

    def _embedded(self, coordinates: Mapping[str, Array]) -> Array:
        """Return the vectors that are clustered, from the coordinates of sequences under each kernel."""
        if self.fusion_ is None:
            return self._joined(coordinates)
        reference = {name: self.components_[name].reference for name in self.fusion_.lengths}
        return self.fusion_.embedded(coordinates, reference, self.weights_)

    def _chosen(
        self, coordinates: Mapping[str, Array], n_clusters: int | None, rng: np.random.Generator, notes: list[str]
    ) -> tuple[Mapping[str, float], int]:
        """Return the weights of the kernels and the number of clusters, and store their choice in `choice_`."""
        self.__dict__.pop("choice_", None)
        began, learned = time.perf_counter(), isinstance(self.kernel, str) and self.kernel == AUTO
        weights: Mapping[str, float] = dict.fromkeys(coordinates, 1.0)
        if isinstance(self.kernel, Mapping):
            weights = {name: float(self.kernel[name]) for name in coordinates}
        steps: list[Step] = []
        params: dict[str, Any] = {}
        with one_blas_thread():
            if n_clusters is None:
                first = weights_of_any_number(coordinates, rng) if learned else weights
                gram = sum((w * (coordinates[name] @ coordinates[name].T) for name, w in first.items()), np.zeros(()))
                steps.append(choose_n_clusters(gram, rng))
                params |= steps[0].params[steps[0].chosen[0]]
                n_clusters = int(params["n_clusters"])
                at_end = at_end_of_range(n_clusters, (one["n_clusters"] for one in steps[0].params))
                warn_of(at_end)
                notes = [*notes, *at_end]
            if learned:
                choice = learned_weights(coordinates, n_clusters, rng)
                steps, params, notes = [*steps, *choice.steps], params | choice.best_params, [*notes, *choice.notes]
                weights = choice.best_params["kernel"]
                warn_of(choice.notes)
        if params:
            self.choice_ = Choice(steps, params, notes, time.perf_counter() - began)
        return weights, n_clusters

    def predict(self, X: SequencesLike) -> NDArray[np.int64]:
        """Assign sequences to the nearest centre.

        Returns
        -------
        ndarray of shape (N,), int
        """
        return self._squared_distances(self._sequences(X, reset=False)).argmin(axis=1)

    def transform(self, X: SequencesLike) -> Array:
        """Return the distances in feature space from sequences to the centres.

        Returns
        -------
        ndarray of shape (N, n_clusters)
        """
        return np.sqrt(self._squared_distances(self._sequences(X, reset=False)))

    def score(self, X: SequencesLike, y: object = None) -> float:
        """Return minus the sum of squared distances from sequences to their nearest centres."""
        return -float(self._squared_distances(self._sequences(X, reset=False)).min(axis=1).sum())

    def _squared_distances(self, sequences: list[Array]) -> Array:
        return _squared(self._embedded(self._coordinates(sequences)), self.cluster_centers_)

    @property
    def _n_features_out(self) -> int:
        return len(self.cluster_centers_)


def _distinct(Z: Array) -> int:
    """Return the number of different rows."""
    gram = Z @ Z.T
    own = gram.diagonal()
    equal = own[:, None] + own - 2 * gram <= SAME * max(float(own.mean()), np.finfo(float).tiny)
    np.fill_diagonal(equal, True)
    return len(np.unique(equal.argmax(axis=1)))


def _squared(Z: Array, centres: Array) -> Array:
    """Return squared distances of rows to centres, (N, K)."""
    # differences, because the root of a small difference of large squares is wrong in its eighth digit
    return np.stack([np.square(Z - centre).sum(axis=1) for centre in centres], axis=1)


def cost_of_choice(estimator: Any, X: SequencesLike) -> str:
    """Return a description of the computations of a fit; an empty text if the number of clusters is given."""
    if estimator.n_clusters != AUTO or len(X) < LEAST:
        return ""
    clusters = numbers_of_clusters(len(X))
    return (
        f"n_clusters='auto' compares n_clusters from {clusters[0]} to {clusters[-1]} by the agreement of "
        "clusterings of random halves, under a sum of kernels"
    )
