"""Nearest neighbours of sequences under kernels of several descriptions, and anomaly scores."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

import manifoldseq as ms
from manifoldseq.estimators import SequencesLike, available_where, check_parameters, check_whole

from ._estimator import RULES
from ._supervised import ClassesOfSequences

Array = NDArray[np.float64]
_RULES = {**RULES, "n_neighbors": check_whole}


def _check_classes(model: Any) -> None:
    if hasattr(model, "targets_"):
        return
    known = "was fitted without y" if hasattr(model, "components_") else "is not fitted yet"
    raise AttributeError(f"this SequenceNeighbors {known}: call fit(X, y) with the classes y before predict")


class SequenceNeighbors(ClassesOfSequences):
    """Find the nearest sequences, score outliers and classify, under kernels that are chosen with the classes.

    Distances are measured in the feature space of a kernel or of a sum of kernels. For scikit-learn this is a
    classifier, but `fit` does not require classes.

    Parameters
    ----------
    n_neighbors : int
        Number of neighbours.
    kernel : str, kernel object or dict of str to float
        With classes, ``"auto"`` compares `kernels`, and sums of several kernels, as in `SequenceClassifier`. Without
        classes, ``"auto"`` is the sum of all kernels.
        ``"sum"``, a name, an object and a dict have the same meaning as in `SequenceKMeans`.
    kernels : sequence of str or kernel objects, optional
        The kernels of ``"auto"`` and ``"sum"``, by default the bundled kernels.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The classes in the `y` of `fit`; absent if `fit` had no `y`.
    weights_, choice_, components_, sequences_, targets_, coordinates_, n_features_in_, feature_names_in_
        As in `SequenceClassifier`.

    Examples
    --------
    >>> import numpy as np
    >>> rng, t = np.random.default_rng(0), np.arange(60)[:, None]
    >>> X = [np.cos(t * w + rng.uniform(0, 6) + [0, 1, 2]) for w in [0.2] * 5 + [0.9]]
    >>> int(SequenceNeighbors(2).fit(X).score_samples().argmin())
    5
    """

    def __init__(self, n_neighbors: int = 1, *, kernel: Any = "auto", kernels: Any = None) -> None:
        self.n_neighbors = n_neighbors
        self.kernel = kernel
        self.kernels = kernels

    def fit(
        self,
        X: SequencesLike,
        y: ArrayLike | None = None,
        *,
        observers: Sequence[Any] = (),
        checkpoint: ms.storage.Checkpoint | str | Path | None = None,
        resume: bool = False,
    ) -> Self:
        """Store the sequences and, if there are classes, choose a kernel.

        Parameters
        ----------
        X : list of array-like of shape (T_i, d)
        y : array-like of shape (N,), optional
        observers, checkpoint, resume
            As in `SequenceKMeans.fit`: with a checkpoint, one iteration compares the sequences by one kernel.
        """
        check_parameters(self, _RULES)
        return self._fit_kernels(X, y, observers=observers, checkpoint=checkpoint, resume=resume)

    def kneighbors(
        self, X: SequencesLike | None = None, n_neighbors: int | None = None
    ) -> tuple[Array, NDArray[np.int64]]:
        """Return the nearest sequences of `fit`.

        Parameters
        ----------
        X : list of array-like of shape (T_i, d), optional
            By default the sequences of `fit`. In this case, no sequence is its own neighbour.
        n_neighbors : int, optional

        Returns
        -------
        distances : ndarray of shape (N, n_neighbors)
        rows : ndarray of shape (N, n_neighbors), int
            Indices of sequences of `fit`, the nearest first.
        """
        check_is_fitted(self, "components_")
        n = self.n_neighbors if n_neighbors is None else n_neighbors
        check_whole("n_neighbors", n)
        known = self.coordinates_
        most = len(known) - (X is None)
        if n > most:
            raise ValueError(
                f"n_neighbors={n} exceeds {most}, the number of sequences that can be neighbours: lower "
                "n_neighbors, or fit more sequences"
            )
        Z = known if X is None else self._joined(self._coordinates(self._sequences(X, reset=False)))
        squared = np.square(Z).sum(axis=1)[:, None] + np.square(known).sum(axis=1) - 2 * Z @ known.T
        if X is None:
            np.fill_diagonal(squared, np.inf)
        rows = np.argsort(squared, axis=1, kind="stable")[:, :n]
        # again from differences: the root of a small difference of large squares is wrong in its eighth digit
        distances = np.stack([np.linalg.norm(Z - known[column], axis=1) for column in rows.T], axis=1)
        order = np.argsort(distances, axis=1, kind="stable")
        return np.take_along_axis(distances, order, axis=1), np.take_along_axis(rows, order, axis=1)

    @available_where(_check_classes)
    def predict(self, X: SequencesLike) -> NDArray[Any]:
        """Return the most frequent class among the nearest sequences of `fit`; the nearest sequence decides ties."""
        return self.classes_[_voted(self.targets_[self.kneighbors(X)[1]], len(self.classes_))]

    @available_where(_check_classes)
    def predict_proba(self, X: SequencesLike) -> Array:
        """Return the share of each class among the nearest sequences of `fit`, (N, n_classes)."""
        return np.eye(len(self.classes_))[self.targets_[self.kneighbors(X)[1]]].mean(axis=1)

    def score(self, X: SequencesLike, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None) -> float:  # pyright: ignore
        """Return the accuracy of `predict`."""
        check_is_fitted(self, "components_")
        if y is None:
            raise ValueError("score requires the classes y: pass y, or call score_samples, which does not use classes")
        return float(super().score(X, y, sample_weight))

    def score_samples(self, X: SequencesLike | None = None) -> Array:
        """Return minus the mean distance to the nearest sequences of `fit`; outliers have low values."""
        return -self.kneighbors(X)[0].mean(axis=1)

    def __sklearn_tags__(self) -> Any:
        """Return the tags of scikit-learn: a classifier that can be fitted without classes."""
        tags = super().__sklearn_tags__()
        tags.target_tags.required = False
        return tags

    def _predicted(self, gram: Array, targets: Any, cross: Array, own: Array) -> NDArray[np.int64]:
        squared = gram.diagonal() - 2 * cross  # without k(x, x) of the new sequences, which is constant in a row
        rows = np.argsort(squared, axis=1, kind="stable")[:, : int(self.n_neighbors)]
        return _voted(targets[rows], int(targets.max()) + 1)


def _voted(nearest: NDArray[np.int64], n_classes: int) -> NDArray[np.int64]:
    """Return the most frequent class of each row, (N, n_neighbors); ties go to the nearest neighbour."""
    counts = np.eye(n_classes)[nearest].sum(axis=1)
    most = counts == counts.max(axis=1, keepdims=True)
    first = np.take_along_axis(most, nearest, axis=1).argmax(axis=1)
    return np.take_along_axis(nearest, first[:, None], axis=1)[:, 0]
