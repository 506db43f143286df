"""The quality measures of each kind of estimator, with and without labels."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from inspect import signature
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.base import clone
from sklearn.metrics import adjusted_rand_score, pairwise_distances, pairwise_distances_argmin
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold
from sklearn.neighbors import NearestNeighbors
from sklearn.pipeline import make_pipeline
from sklearn.utils import get_tags

from ..estimators import uninterrupted

Array = NDArray[np.floating[Any]]
Labels = NDArray[Any]
Measured = dict[str, float]
Rows = NDArray[np.intp]

HALVINGS = 3
"""Number of random halvings, if there is time."""
_FOLDS = 5
_PART = 0.8
"""Fraction of the members in each of three parts, for a clustering without `predict` or with few members."""
_IN_HALF = 4
"""Minimum number of members per cluster in a half."""
_LEAST_STEPS = 8
"""Minimum number of time steps of the shortest sequence for the comparison of halves."""


_OF_SEQUENCES = {
    "clusters": (
        "statistics-kmeans",
        "autocovariance-kmeans",
        "spectrum-kmeans",
        "curves-kmeans",
        "convolutions-kmeans",
        "warping-kmedoids",
    ),
    "classes": (
        "statistics-classifier",
        "autocovariance-classifier",
        "spectrum-classifier",
        "convolutions-classifier",
        "warping-classifier",
    ),
}
"""Controls of estimators of sequences: the best methods without a model (`make bench-real`)."""


class Unmeasured(ValueError):
    """Error with the reason why a measure cannot be computed."""


def task_of(model: Any, *, labelled: bool = False) -> str:
    """Return the task of an estimator: ``"classes"``, ``"clusters"``, ``"neighbours"``, ``"features"`` or ``""``.

    A class without the tags of scikit-learn is identified by its methods. A class whose only method is `predict` is a
    classifier if the data are `labelled`.
    """
    tags = get_tags(model) if hasattr(model, "__sklearn_tags__") else None
    kind = None if tags is None else tags.estimator_type
    if tags is not None and kind == "classifier":
        # without labels, one that transforms has learned features; one that needs none is told by its other methods
        if labelled or (tags.target_tags.required and not hasattr(model, "transform")):
            return "classes"
    if kind == "clusterer" or hasattr(model, "labels_") or (kind == "density_estimator" and hasattr(model, "predict")):
        return "clusters"
    if hasattr(model, "kneighbors"):
        return "neighbours"
    if hasattr(model, "transform"):
        return "features"
    if kind is None and hasattr(model, "predict"):
        return "classes" if labelled or hasattr(model, "classes_") else "clusters"
    return ""


def default_controls(task: str, input: str) -> tuple[str, ...]:
    """Return the names of the controls of an estimator whose record names none.

    Parameters
    ----------
    task : {"classes", "clusters", "neighbours", "features"}
    input : {"sequences", "samples", "views", "bags"}
        The input of the estimator, as in its record.

    Examples
    --------
    >>> default_controls("clusters", "samples")
    ('kmeans', 'normalized-kmeans')
    """
    if input in ("sequences", "bags"):
        return _OF_SEQUENCES.get(task, ("statistics", "autocovariance"))
    return {
        "classes": ("linear-classifier",),
        "clusters": ("kmeans", "normalized-kmeans"),
        "neighbours": ("nearest-rows",),
    }.get(task, ("pca",))


# Data of any input: some of its members, how many there are, and what a control takes.


def taken(X: Any, rows: Rows | slice, input: str) -> Any:
    """Return some members of data of any input."""
    if input == "views":
        return [np.asarray(view)[rows] for view in X]
    if input == "bags":
        return [taken(view, rows, "sequences") for view in X]
    if isinstance(X, np.ndarray) or issparse(X):
        return X[rows]
    if hasattr(X, "iloc"):
        return X.iloc[rows]
    return [X[i] for i in np.arange(len(X))[rows]]


def size(X: Any, input: str) -> int:
    """Return the number of members."""
    return len(X[0]) if input in ("views", "bags") else X.shape[0] if issparse(X) else len(X)


def counted(n: int, what: str) -> str:
    """Return a number with its noun: ``"1 column"``, ``"2 columns"``, ``"3 classes"``."""
    return f"{n} {what}{'' if n == 1 else 'es' if what.endswith('s') else 's'}"


def flat(X: Any, input: str) -> Any:
    """Return the data for a control: concatenated views, or bags as sequences of concatenated descriptors.

    Missing values of views are replaced by the means of the columns.
    """
    if input == "views":
        rows = np.concatenate([np.asarray(view, dtype=np.float64) for view in X], axis=1)
        holes = np.isnan(rows)
        return np.where(holes, np.nanmean(rows, axis=0), rows) if holes.any() else rows
    if input == "bags":
        return [np.concatenate(parts, axis=1) for parts in zip(*X, strict=True)]
    return X


def checked_labels(y: Any, n: int) -> Labels | None:
    """Validate labels; return one label per member as an array, or None without labels.

    Raises
    ------
    ValueError
        If there is not one label per member, if a label is missing, or if labels are measurements.
    """
    if y is None:
        return None
    missing = np.ma.getmaskarray(y) if np.ma.isMaskedArray(y) else None
    try:
        labels = np.asarray(y)
    except ValueError:
        labels = np.empty(0)
    if labels.shape != (n,):
        raise ValueError(f"labels have shape {labels.shape} for {n} members: pass one label for each member")
    if labels.dtype.kind not in "biufUSTO":
        raise ValueError(f"labels have the type {labels.dtype}: pass names or whole numbers")
    if missing is None or not missing.any():
        missing = np.array([_is_missing(label) for label in labels.tolist()], dtype=bool)
    if missing.any():
        first = int(missing.argmax())
        raise ValueError(
            f"{missing.sum()} of {n} members have no label (the first is member {first}): label each member, or leave "
            "the labels out"
        )
    if labels.dtype.kind == "f" and (fractions := labels[labels % 1 != 0]).size:
        raise ValueError(f"labels have fractions, such as {fractions[0]:g}: pass names of classes or whole numbers")
    kinds = {type(label) for label in labels.tolist()} if labels.dtype.kind == "O" else set()
    if len(kinds) > 1:
        names = " and ".join(sorted(kind.__name__ for kind in kinds))
        raise ValueError(f"labels are of several types, {names}: pass all as strings")
    return np.array(labels.tolist()) if labels.dtype.kind == "O" else labels


def _is_missing(label: Any) -> bool:
    try:
        return label is None or bool(label != label) or (isinstance(label, str) and not label.strip())
    except TypeError:  # pandas' NA is neither equal to itself nor different
        return True


# New fits with the same settings.


def parameters_of(model: Any) -> dict[str, Any]:
    """Return the parameters of an estimator; an empty dict for a class without `get_params`."""
    return model.get_params(deep=False) if hasattr(model, "get_params") else {}


def fitted(model: Any, X: Any, y: Any = None, *, again: bool = False, **settings: Any) -> Any:
    """Return a new fit of an estimator with the same parameters, without its warnings.

    Settings that the estimator chose in `fit` (``choice_.best_params``) are kept, or chosen `again` from these data. An
    object without `get_params` is copied.
    """
    chosen = {} if again else getattr(getattr(model, "choice_", None), "best_params", {})
    made: Any = clone(model, safe=False)
    if chosen or settings:
        made.set_params(**{**chosen, **settings})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made.fit(X) if y is None else made.fit(X, y)
    return uninterrupted(made)


def takes_labels(model: Any, *, only: bool = False) -> bool:
    """Return whether `fit` has an argument for labels after the data (with `only`, an argument without a default)."""
    places = [one for one in signature(model.fit).parameters.values() if one.kind is not one.KEYWORD_ONLY]
    if not only:
        return len(places) > 1
    return any(one.default is one.empty and one.kind is one.POSITIONAL_OR_KEYWORD for one in places[1:2])


def assigned(model: Any, X: Any) -> Labels:
    """Return the cluster of each member."""
    labels = getattr(model, "labels_", None)
    return np.asarray(model.predict(X) if labels is None else labels)


# Clusters.


def against_labels(clusters: Labels, y: Labels) -> Measured:
    """Return purity, NMI and ARI."""
    from ..report import clustering_measures

    return clustering_measures(y, clusters)


def halves_of_members(model: Any, n: int, clusters: int) -> bool:
    """Return whether clusterings of halves are compared rather than clusterings of parts with four fifths."""
    return hasattr(model, "predict") and n // 2 >= _IN_HALF * clusters


def agreement_of_parts(
    model: Any, X: Any, input: str, seed: int, *, clusters: int = 1, halvings: int = HALVINGS
) -> float:
    """Return the mean adjusted Rand index between fits to parts of the data, each with its own choice and seed.

    The parts are two random halves, several times, and their fits are compared on all members. If an estimator does not
    predict, or if halves have few members per cluster, the parts are three random subsets of four fifths, which are
    compared on their common members.
    """
    n, rng = size(X, input), np.random.default_rng(seed)
    numbers = iter(range(seed + 1, seed + 1000))
    seeded = "random_state" in parameters_of(model)

    def fit(rows: Rows) -> tuple[Any, Any]:
        part = taken(X, rows, input)
        more = {"random_state": next(numbers) % 2**32} if seeded else {}
        return fitted(model, part, again=True, **more), part

    if halves_of_members(model, n, clusters):
        found = []
        for _ in range(halvings):
            sides = [np.sort(rows) for rows in np.array_split(rng.permutation(n), 2)]
            one, other = (np.asarray(fit(rows)[0].predict(X)) for rows in sides)
            found.append(adjusted_rand_score(one, other))
        return float(np.mean(found))
    runs = []
    for _ in range(3):
        rows = np.sort(rng.permutation(n)[: math.ceil(_PART * n)])
        runs.append((rows, assigned(*fit(rows))))
    found = []
    for (a, first), (b, second) in combinations(runs, 2):
        _, in_a, in_b = np.intersect1d(a, b, assume_unique=True, return_indices=True)
        found.append(adjusted_rand_score(first[in_a], second[in_b]))
    return float(np.mean(found))


def silhouette(model: Any, X: Any, clusters: Labels) -> float | None:
    """Return the mean silhouette width in the metric of the model, or None if the metric is not known.

    The metric is known if `transform` returns the distances to the centres, or if members are assigned to the nearest
    of the `cluster_centers_`, by 1 − cosine for unit vectors and otherwise by Euclidean distance. The result is then
    the simplified silhouette (Hruschka et al., 2004): the distance to the nearest other centre minus the distance to
    the own centre, divided by the larger of the two. Otherwise it is the `silhouette_` of the model, if it exists.
    """
    if not 1 < len(np.unique(clusters)) < len(clusters) or clusters.dtype.kind not in "iu" or clusters.min() < 0:
        return None
    values = next((values for values in _distances(model, X) if _explains(values, clusters)), None)
    if values is None:
        own = getattr(model, "silhouette_", None)
        return float(own) if isinstance(own, float) and math.isfinite(own) else None
    own = np.take_along_axis(values, clusters[:, None].astype(np.intp), axis=1)[:, 0]
    np.put_along_axis(values, clusters[:, None].astype(np.intp), np.inf, axis=1)
    other = values.min(axis=1)
    larger = np.maximum(own, other)
    return float(np.mean(np.where(larger > 0, (other - own) / np.where(larger > 0, larger, 1), 0)))


def _distances(model: Any, X: Any) -> Iterator[Array]:
    """Yield candidates for the (N, K) distances by which a model assigns members to clusters."""
    if hasattr(model, "transform"):
        yield np.array(model.transform(X), dtype=np.float64)
    centres = getattr(model, "cluster_centers_", None)
    if isinstance(centres, np.ndarray) and centres.ndim == 2 and getattr(X, "shape", ())[1:] == centres.shape[1:]:
        directions = np.allclose(np.linalg.norm(centres, axis=1), 1, atol=1e-4)
        yield pairwise_distances(X, centres, "cosine" if directions else "euclidean")


def _explains(values: Array, clusters: Labels) -> bool:
    """Return whether distances are finite and smallest for the own cluster, except for a few ties."""
    return (
        values.ndim == 2
        and len(values) == len(clusters)
        and values.shape[1] > int(clusters.max())
        and bool(np.isfinite(values).all())
        and float(np.mean(values.argmin(axis=1) == clusters)) >= 0.95
    )


# Classes.


def folds_of(
    y: Labels, enough: Callable[[int], bool], seed: int, groups: Labels | None = None
) -> list[tuple[Rows, Rows]]:
    """Return as many stratified folds as the time allows; groups stay together.

    Raises
    ------
    Unmeasured
        If there is only one class, or a class has only one member or group.
    """
    kinds = np.unique(y)
    if len(kinds) < 2:
        raise Unmeasured("all members have the same label")
    whole = np.arange(len(y)) if groups is None else np.asarray(groups)
    sizes = [len(np.unique(whole[y == kind])) for kind in kinds]
    number = min(_FOLDS, *sizes)
    if number < 2:
        single = "recording" if groups is not None else "member"
        raise Unmeasured(f"class {kinds[int(np.argmin(sizes))]} has a single {single}, which cannot be held out")
    all_of_them = enough(number)
    splitter = StratifiedKFold if groups is None else StratifiedGroupKFold
    folds = splitter(number if all_of_them else min(number, 4), shuffle=True, random_state=seed)
    return list(folds.split(np.zeros(len(y)), y, groups))[: None if all_of_them else 1]


def measured_classes(
    model: Any, X: Any, y: Labels, input: str, folds: Sequence[tuple[Rows, Rows]]
) -> tuple[Measured, Labels, Labels]:
    """Return the accuracy on held-out members (and its standard error), their classes, and the predictions."""
    truth, said = [], []
    for train, test in folds:
        made = fitted(model, taken(X, train, input), y[train], again=True)  # the choice may have used labels
        found = np.asarray(made.predict(taken(X, test, input)))
        if found.size != len(test):
            raise ValueError(
                f"predict returns an array of shape {found.shape} for {len(test)} members: return one class for each "
                "member"
            )
        truth.append(y[test])
        said.append(found.reshape(len(test)))
    shares = [float(np.mean(a == b)) for a, b in zip(said, truth, strict=True)]
    return accuracy_of(shares), np.concatenate(truth), np.concatenate(said)


def accuracy_of(shares: Sequence[float]) -> Measured:
    """Return the mean of the folds, and its standard error if there are several."""
    measured = {"accuracy": float(np.mean(shares))}
    if len(shares) > 1:
        measured["accuracy_se"] = float(np.std(shares, ddof=1) / np.sqrt(len(shares)))
    return measured


def largest_class(y: Labels, folds: Sequence[tuple[Rows, Rows]]) -> float:
    """Return the accuracy of predicting the largest class of the training members."""
    shares = []
    for train, test in folds:
        kinds, counts = np.unique(y[train], return_counts=True)
        shares.append(float(np.mean(y[test] == kinds[counts.argmax()])))
    return float(np.mean(shares))


class OnFeatures:
    """A linear classifier on the output of a transformer, with the methods that `fitted` requires."""

    def __init__(self, transformer: Any, input: str) -> None:
        self.transformer, self.input = transformer, input

    def __sklearn_clone__(self) -> OnFeatures:
        return OnFeatures(self.transformer, self.input)

    def fit(self, X: Any, y: Any) -> OnFeatures:
        """Fit the transformer, then the classifier."""
        from ._controls import linear_classifier

        # the second argument of a fit on views or bags is another view
        self.made = fitted(self.transformer, X, y if self.input in ("sequences", "samples") else None, again=True)
        self.classifier = make_pipeline(*linear_classifier()).fit(features(self.made, X), y)
        return self

    def predict(self, X: Any) -> Labels:
        """Return the classes."""
        return self.classifier.predict(features(self.made, X))


# Features and neighbours.


def features(model: Any, X: Any) -> NDArray[np.float64]:
    """Return the output of a transformer with one row per member; arrays of any shape are flattened."""
    found = model.transform(X)
    try:
        rows = np.asarray(found, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise Unmeasured(f"transform returns {type(found).__name__}, which is not an array of numbers") from error
    if not np.isfinite(rows).all():
        raise Unmeasured("transform returns values that are not finite")
    return rows.reshape(len(rows), -1)


def halves(X: Any, input: str, rng: np.random.Generator) -> tuple[Any, Any]:
    """Return the first and the second half of every sequence, or two random halves of every bag."""
    if input == "bags":
        orders = [rng.permutation(len(bag)) for bag in X[0]]
        cut = [tuple(np.array_split(order, 2)) for order in orders]
        sides = [
            [[np.asarray(bag)[np.sort(pair[side])] for bag, pair in zip(view, cut, strict=True)] for view in X]
            for side in (0, 1)
        ]
        return sides[0], sides[1]
    if (shortest := min(map(len, X))) < _LEAST_STEPS:
        raise Unmeasured(
            f"the shortest sequence has {shortest} time steps, but the comparison of halves needs {_LEAST_STEPS}"
        )
    return [x[: len(x) // 2] for x in X], [x[len(x) // 2 :] for x in X]


def found_halves(model: Any, first: Any, second: Any, n: int) -> float:
    """Return the fraction of second halves whose nearest first half (standardized features) has the same member."""
    made = fitted(model, first)
    if hasattr(made, "kneighbors"):
        nearest = np.asarray(made.kneighbors(second, 1)[1])[:, 0]
    else:
        a, b = features(made, first), features(made, second)
        if len(a) != n or len(b) != n:
            raise ValueError(
                f"transform returns {len(a)} and {len(b)} rows for {n} members: return one row for each member"
            )
        nearest = pairwise_distances_argmin(standardized(b, a), standardized(a, a))
    return float(np.mean(nearest == np.arange(n)))


def nearest_others(model: Any, X: Any) -> Rows:
    """Return the nearest other member of each: by `kneighbors` of a fitted estimator, or by standardized features."""
    if hasattr(model, "kneighbors"):
        return np.asarray(model.kneighbors(n_neighbors=1)[1])[:, 0]
    Z = features(model, X)
    return NearestNeighbors(n_neighbors=1).fit(standardized(Z, Z)).kneighbors(return_distance=False)[:, 0]


def standardized(Z: NDArray[np.float64], like: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return features standardized by the means and deviations of others; constant features become zero."""
    centred, spread = like - like.mean(axis=0), like.std(axis=0)
    varies = spread > 1e-12 * max(float(np.abs(centred).max(initial=0)), 1e-300)
    return np.where(varies, (Z - like.mean(axis=0)) / np.where(varies, spread, 1.0), 0.0)


def told_by_neighbours(Z: NDArray[np.float64], nearest: Rows) -> float:
    """Return the fraction of the variance of standardized rows that their nearest neighbours explain (R²)."""
    W = standardized(Z, Z)
    total = float(np.sum(W**2))
    if not total > 0:
        raise Unmeasured("the columns do not vary")
    return 1 - float(np.sum((W - W[nearest]) ** 2)) / total


def told_by_features(train: Any, test: Any, Z: NDArray[np.float64], W: NDArray[np.float64]) -> float:
    """Return the fraction of the variance of held-out rows that a linear map of their features explains (R²)."""
    mean, centre = train.mean(axis=0), Z.mean(axis=0)
    total = float(np.sum((test - mean) ** 2))
    if not total > 0:
        raise Unmeasured("the held-out rows do not vary")
    A = Z - centre
    ridge = 1e-6 * float(np.trace(A.T @ A)) / max(A.shape[1], 1) + 1e-300
    weights = np.linalg.solve(A.T @ A + ridge * np.eye(A.shape[1]), A.T @ (train - mean))
    error = test - mean - (W - centre) @ weights
    return 1 - float(np.sum(error**2)) / total
