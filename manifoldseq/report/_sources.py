"""Data of figures: a fitted estimator with its data, a result, a run directory, or arrays."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..storage import SequenceData


@dataclass(frozen=True, eq=False, init=False)
class Fitted:
    """A fitted estimator with the data of its fit: the input of plots of estimators.

    Parameters
    ----------
    estimator : estimator
        The estimator after `fit`, which is not changed.
    data : SequenceData, list of array-like of shape (T_i, d), or other data as for its `fit`
    labels : array-like of shape (N,), optional
        The known classes; by default the labels of the `SequenceData`.
    name : str
        The name of the run, for the headings of a page.

    Attributes
    ----------
    X
        The data of `fit`: the sequences of a `SequenceData`, or `data`.
    history : dict of str to ndarray
        The estimator's ``history_``, empty if it has none.
    clusters : ndarray or None
        The estimator's ``labels_``, or the components that a mixture predicts.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.cluster import KMeans
    >>> X = np.repeat([[0.0], [1.0]], 3, axis=0)
    >>> fitted = Fitted(KMeans(2, n_init=1, random_state=0).fit(X), X, labels=list("aaabbb"))
    >>> len(fitted.clusters), fitted.labels[0]
    (6, np.str_('a'))
    """

    estimator: Any
    data: Any
    labels: NDArray[Any] | None
    name: str

    def __init__(self, estimator: Any, data: Any, labels: ArrayLike | None = None, name: str = "") -> None:
        if labels is None and isinstance(data, SequenceData):
            labels = data.labels
        object.__setattr__(self, "estimator", estimator)
        object.__setattr__(self, "data", data)
        object.__setattr__(self, "labels", None if labels is None else np.asarray(labels))
        object.__setattr__(self, "name", name or type(estimator).__name__)

    @property
    def X(self) -> Any:
        """The data of `fit`."""
        return self.data.sequences if isinstance(self.data, SequenceData) else self.data

    @property
    def history(self) -> dict[str, Any]:
        """The columns of the estimator's history."""
        return dict(getattr(self.estimator, "history_", None) or {})

    @property
    def clusters(self) -> NDArray[Any] | None:
        """The cluster of each member."""
        if "_clusters" not in self.__dict__:  # a mixture's prediction is asked for once
            object.__setattr__(self, "_clusters", _clusters_of(self.estimator, self.X))
        return self.__dict__["_clusters"]


def _clusters_of(estimator: Any, X: Any) -> NDArray[Any] | None:
    """Return ``labels_``, or what a mixture predicts."""
    labels = getattr(estimator, "labels_", None)
    if labels is None and hasattr(estimator, "predict") and hasattr(estimator, "__sklearn_tags__"):
        from sklearn.utils import get_tags

        if get_tags(estimator).estimator_type == "density_estimator":
            return np.asarray(estimator.predict(X))
    return labels


def history_of(result: Any) -> dict[str, NDArray[np.float64]]:
    """Return the columns of a history as float arrays, with ``nit`` filled in.

    `result` is a history, or has a history as ``history`` or ``history_``.
    """
    found = result if isinstance(result, Mapping) else getattr(result, "history", getattr(result, "history_", None))
    if found is None:
        raise ValueError(f"{type(result).__name__} has no history: pass a result or a fitted estimator")
    if "fun" not in found:
        raise ValueError(f"the history has no column 'fun': it has {', '.join(found) or 'no columns'}")
    columns = {name: np.asarray(values, dtype=float) for name, values in found.items()}
    return {"nit": np.arange(len(columns["fun"]), dtype=float)} | columns


def labels_and_clusters_of(result: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return label and cluster of each member from a `Fitted`, a run directory or a pair of arrays."""
    labels, clusters = assignment_of(result)
    if labels is None:
        raise ValueError("there are no labels to compare clusters with: pass (labels, clusters), or Fitted(labels=…)")
    return labels, clusters


def assignment_of(result: Any) -> tuple[NDArray[Any] | None, NDArray[Any]]:
    """Return labels (or None) and clusters of the members from an estimator, a `Fitted`, a run or arrays."""
    assignments = getattr(result, "assignments", None)
    if isinstance(result, tuple) and len(result) == 2:
        labels, clusters = result
    elif assignments:
        labels = None if assignments[0][0] is None else [label for label, _ in assignments]
        clusters = [cluster for _, cluster in assignments]
    elif isinstance(result, Fitted):
        labels, clusters = result.labels, result.clusters
    else:
        labels, clusters = None, getattr(result, "labels_", result if isinstance(result, list | np.ndarray) else None)
    if clusters is None:
        raise ValueError(f"{type(result).__name__} has no clusters: pass a fitted clustering or one cluster per member")
    clusters = np.asarray(clusters)
    labels = None if labels is None else np.asarray(labels)
    if labels is not None and labels.shape != clusters.shape:
        raise ValueError(
            f"labels have shape {labels.shape}, but clusters have shape {clusters.shape}: pass one label and one "
            "cluster per member"
        )
    return labels, clusters
