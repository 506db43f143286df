"""Nearest neighbours of sequences under a kernel, and anomaly scores."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

import manifoldseq as ms
from manifoldseq.estimators import available_where, check_parameters, check_unmasked, check_whole
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
from ._settings import settled

Array = NDArray[np.floating[Any]]

_RULES = {**IDENTIFICATION, "n_neighbors": check_whole, "kernel": check_kernel, "moments": check_moments}


def _check_classes(model: Any) -> None:
    if hasattr(model, "targets_"):
        return
    known = "was fitted without y" if hasattr(model, "systems_") else "is not fitted yet"
    raise AttributeError(f"this LDSNeighbors {known}: call fit(X, y) with the classes y before predict")


class LDSNeighbors(ClassifierMixin, SequenceEstimator):
    """Find the sequences whose linear dynamical systems are nearest, score outliers, and classify by neighbours.

    The distance is the distance in the feature space of a kernel, ``sqrt(k(x, x) + k(y, y) - 2 k(x, y))``. scikit-learn
    treats the estimator as a classifier (folds are stratified), but `fit` does not require classes.

    Parameters
    ----------
    n_neighbors : int
        Number of neighbours.
    n_states : int or str
        The number of states of the identified systems, a short form of ``identifier=LDSIdentifier(n_states)``.
    identifier : LDSIdentifier, optional
        The identification of sequences. The object is copied, and it is not used for `Systems`. With
        ``n_states="auto"``, settings that are not given are chosen as in `LDSKMeans`.
    kernel : str or kernel object
        A registered name, such as ``"projection"``, or an object with the methods of a kernel.
    moments : {"auto", "none", "level", "size", "both"}
        Moments that are compared in addition to the dynamics, as in `LDSKMeans`.

    Attributes
    ----------
    systems_ : Systems
        The systems of the sequences of `fit`.
    classes_ : ndarray of shape (n_classes,)
        Classes of `y` in `fit`; absent after a fit without `y`.
    choice_ : manifoldseq.models.Choice
        The comparison of settings for ``n_states="auto"``; absent for other values of `n_states`.
    moment_weights_ : ndarray of shape (2 d,)
        Weights of the `MomentKernel`; absent if only dynamics are compared.
    n_features_in_ : int
    feature_names_in_ : ndarray of str of shape (d,)
        Names of the channels, if every sequence of `fit` is a data frame.
    scale_ : ndarray of shape (d,)
        The divisor of each channel of sequences; absent after a fit to `Systems`.

    Examples
    --------
    >>> import numpy as np
    >>> rng, t = np.random.default_rng(0), np.arange(60)[:, None]
    >>> X = [np.cos(t * w + rng.uniform(0, 6) + [0, 1, 2]) for w in [0.2] * 5 + [0.9]]
    >>> neighbors = LDSNeighbors(2, n_states=2).fit(X)
    >>> int(neighbors.score_samples().argmin())
    5
    """

    systems_: Systems

    def __init__(
        self,
        n_neighbors: int = 5,
        *,
        n_states: int | str = "auto",
        identifier: LDSIdentifier | None = None,
        kernel: Any = "projection",
        moments: str = "auto",
    ) -> None:
        self.n_neighbors = n_neighbors
        self.n_states = n_states
        self.identifier = identifier
        self.kernel = kernel
        self.moments = moments

    def fit(
        self,
        X: SequencesOrSystems,
        y: object = None,
        *,
        observers: Sequence[Any] = (),
        checkpoint: ms.storage.Checkpoint | str | Path | None = None,
        resume: bool = False,
    ) -> Self:
        """Identify the systems of sequences and store them.

        Parameters
        ----------
        X : list of array-like of shape (T_i, d), or Systems
        y : array-like of shape (N,), optional
            The class of each sequence, for `predict`.
        observers, checkpoint, resume
            As in `manifoldseq.models.Stages`: an iteration compares one setting or identifies one batch of sequences.

        Raises
        ------
        ValueError
            If a parameter or the input is invalid. The message says what is wrong, where, and what to do.
        KeyboardInterrupt
            After Ctrl-C. The checkpoint, if any, contains the results so far.
        """
        check_parameters(self, _RULES)
        labels = None if y is None else np.asarray(check_unmasked(y))
        loop: dict[str, Any] = {"observers": observers, "checkpoint": checkpoint, "resume": resume}
        stages = stages_of(self, identifier_of(self), X, **loop)
        made = settled(self, X, stages=stages)
        systems, identifier = learned_systems(made, X, stages)
        if labels is not None and labels.shape != (len(systems),):
            raise ValueError(
                f"y has shape {labels.shape} but there are {len(systems)} sequences: pass one class for each sequence"
            )
        keep_moment_weights(self, made.moments, systems)
        self.systems_ = systems
        for name in ("classes_", "targets_"):
            self.__dict__.pop(name, None)
        if labels is not None:
            self.classes_, self.targets_ = np.unique(labels, return_inverse=True)
        remember(self, systems, identifier)
        return self

    def kneighbors(
        self, X: SequencesOrSystems | None = None, n_neighbors: int | None = None
    ) -> tuple[Array, NDArray[np.int64]]:
        """Return the nearest sequences of `fit`.

        Parameters
        ----------
        X : list of array-like of shape (T_i, d), or Systems, optional
            By default the sequences of `fit`; a sequence is then not its own neighbour.
        n_neighbors : int, optional

        Returns
        -------
        distances : ndarray of shape (N, n_neighbors)
        rows : ndarray of shape (N, n_neighbors), int
            Rows of the sequences of `fit`, the nearest first.

        Raises
        ------
        ValueError
            If there are fewer than `n_neighbors` sequences.
        """
        check_is_fitted(self, "systems_")
        n = self.n_neighbors if n_neighbors is None else n_neighbors
        check_whole("n_neighbors", n)
        N = len(self.systems_)
        most = N - (X is None)
        if not most:
            raise ValueError("fit had 1 sequence, and a sequence is not its own neighbour: fit two or more sequences")
        if n > most:
            raise ValueError(
                f"n_neighbors={n}, but fit had {N} sequence{'s' * (N > 1)}"
                f"{', and a sequence is not its own neighbour' * (X is None)}: lower n_neighbors to {most}, or fit "
                "more sequences"
            )
        systems = self.systems_ if X is None else new_systems(self, X)
        kernel = fitted_kernel(self)
        with one_blas_thread():
            known = kernel.pack(items_of(kernel, self.systems_))
            packed = known if X is None else kernel.pack(items_of(kernel, systems))
            # |phi(x) - phi(y)|² = k(x, x) + k(y, y) - 2 k(x, y), (N, known)
            squared = kernel.diag(packed)[:, None] + kernel.diag(known) - 2 * kernel.cross(packed, known)
        distances = np.sqrt(np.maximum(squared, 0.0))
        if X is None:
            np.fill_diagonal(distances, np.inf)
        rows = np.argsort(distances, axis=1, kind="stable")[:, :n]
        return np.take_along_axis(distances, rows, axis=1), rows

    @available_where(_check_classes)
    def predict_proba(self, X: SequencesOrSystems) -> Array:
        """Return the proportion of each class among the nearest sequences of `fit`.

        All neighbours have equal weight, so the values are multiples of ``1 / n_neighbors`` and are not calibrated.
        The probabilities of `LDSClassifier` are calibrated on held-out sequences.

        Returns
        -------
        ndarray of shape (N, n_classes)
        """
        rows = self.kneighbors(X)[1]
        return np.eye(len(self.classes_))[self.targets_[rows]].mean(axis=1)

    @available_where(_check_classes)
    def predict(self, X: SequencesOrSystems) -> NDArray[Any]:
        """Return the most frequent class among the nearest sequences of `fit`; the nearest sequence decides ties.

        Returns
        -------
        ndarray of shape (N,)
        """
        shares = self.predict_proba(X)
        nearest = self.targets_[self.kneighbors(X)[1]]
        most = shares == shares.max(axis=1, keepdims=True)
        first = np.take_along_axis(most, nearest, axis=1).argmax(axis=1)
        return self.classes_[np.take_along_axis(nearest, first[:, None], axis=1)[:, 0]]

    def score(self, X: SequencesOrSystems, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None) -> float:  # pyright: ignore
        """Return the accuracy of `predict`: the fraction of sequences or systems with a correctly predicted class.

        Parameters
        ----------
        X : list of array-like of shape (T_i, d), or Systems
        y : array-like of shape (N,)
            The true classes.
        sample_weight : array-like of shape (N,), optional
        """
        check_is_fitted(self, "systems_")
        if y is None:
            raise ValueError("score requires the classes y: pass y, or call score_samples, which does not use classes")
        return float(super().score(X, y, sample_weight))

    def __sklearn_tags__(self) -> Any:
        """Return the tags of scikit-learn: a classifier that can be fitted without classes."""
        tags = super().__sklearn_tags__()
        tags.target_tags.required = False
        return tags

    def score_samples(self, X: SequencesOrSystems | None = None) -> Array:
        """Return minus the mean distance to the nearest sequences of `fit`; outliers have low values.

        Parameters
        ----------
        X : list of array-like of shape (T_i, d), or Systems, optional
            By default the sequences of `fit`, each compared with the others.

        Returns
        -------
        ndarray of shape (N,)
        """
        return -self.kneighbors(X)[0].mean(axis=1)
