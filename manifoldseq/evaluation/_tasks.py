"""What each kind of estimator is measured by, without labels and with them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

Labels = NDArray[Any]
Measured = dict[str, float]

SEEDS = 3
_FOLDS = 5


def task_of(model: Any) -> str:
    """Return what an estimator does: ``"classes"``, ``"clusters"``, ``"neighbours"``, ``"features"`` or ``""``."""
    from sklearn.utils import get_tags

    kind = get_tags(model).estimator_type if hasattr(model, "__sklearn_tags__") else None
    if kind == "classifier":
        return "classes"
    if kind == "clusterer" or hasattr(model, "labels_") or (kind == "density_estimator" and hasattr(model, "predict")):
        return "clusters"
    if hasattr(model, "kneighbors"):
        return "neighbours"
    return "features" if hasattr(model, "transform") else ""


def default_controls(task: str, input: str) -> tuple[str, ...]:
    """Return the names of the estimators that stand beside one that names no controls of its own.

    Parameters
    ----------
    task : {"classes", "clusters", "neighbours", "features"}
    input : {"sequences", "samples", "views", "bags"}
        What the estimator takes, as in its record.

    Examples
    --------
    >>> default_controls("clusters", "sequences")
    ('statistics-kmeans', 'autocovariance-kmeans')
    """
    if input in ("sequences", "bags"):
        kind = {"classes": "classifier", "clusters": "kmeans"}.get(task)
        return tuple(f"{features}-{kind}" if kind else features for features in ("statistics", "autocovariance"))
    return {"classes": ("linear-classifier",), "clusters": ("kmeans",)}.get(task, ("pca",))


def taken(X: Any, rows: NDArray[np.intp] | slice, input: str) -> Any:
    """Return some members of data of any input."""
    if input == "views":
        return [np.asarray(view)[rows] for view in X]
    if input == "bags":
        return [taken(view, rows, "sequences") for view in X]
    if isinstance(X, np.ndarray):
        return X[rows]
    return [X[i] for i in np.arange(len(X))[rows]]


def size(X: Any, input: str) -> int:
    """Return the number of members."""
    return len(X[0]) if input in ("views", "bags") else len(X)


def flat(X: Any, input: str) -> Any:
    """Return what a control takes: views side by side, bags as sequences of their descriptors side by side.

    Where views have missing values, controls get the means of the columns.
    """
    if input == "views":
        rows = np.concatenate([np.asarray(view, dtype=np.float64) for view in X], axis=1)
        holes = np.isnan(rows)
        return np.where(holes, np.nanmean(rows, axis=0), rows) if holes.any() else rows
    if input == "bags":
        return [np.concatenate(parts, axis=1) for parts in zip(*X, strict=True)]
    return X


def fitted(model: Any, X: Any, y: Any = None) -> Any:
    """Return a new fit of an estimator with the same parameters, without its warnings."""
    from sklearn.base import clone

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return cast(Any, clone(model)).fit(X, y)


def assigned(model: Any, X: Any) -> NDArray[Any]:
    """Return the cluster of each member."""
    labels = getattr(model, "labels_", None)
    return np.asarray(model.predict(X) if labels is None else labels)


def measured_clusters(model: Any, X: Any, y: Labels | None, seed: int, enough: Callable[[int], bool]) -> Measured:
    """Return agreement with labels, agreement of seeds and silhouette of a fitted clustering."""
    from sklearn.base import clone
    from sklearn.metrics import adjusted_rand_score

    from ..report import clustering_measures

    found = assigned(model, X)
    measured = {} if y is None else clustering_measures(y, found)
    several = len(np.unique(found)) > 1  # one cluster agrees with itself, whatever the seed
    if several and "random_state" in model.get_params(deep=False) and enough(SEEDS - 1):
        seeds = [(seed + k) % 2**32 for k in range(1, SEEDS)]
        others = [fitted(cast(Any, clone(model)).set_params(random_state=one), X) for one in seeds]
        runs = [found, *(assigned(other, X) for other in others)]
        pairs = [adjusted_rand_score(a, b) for a, b in combinations(runs, 2)]
        measured["agreement_of_seeds"] = float(np.mean(pairs))
    if (width := silhouette(model, X, found)) is not None:
        measured["silhouette"] = width
    return measured


def silhouette(model: Any, X: Any, clusters: NDArray[Any]) -> float | None:
    """Return the mean silhouette width in the metric of the model, None where it has none that is known.

    It is known where `transform` gives the distances to the centres. The silhouette is the simplified one (Hruschka et
    al., 2004): distance to the nearest other centre less that to the own, over the larger.
    """
    if not (1 < len(np.unique(clusters)) < len(clusters) and hasattr(model, "transform")):
        return None
    values = np.array(model.transform(X), dtype=np.float64)
    if values.ndim != 2 or len(values) != len(clusters) or not np.isfinite(values).all():
        return None
    if (
        int(clusters.min()) < 0
        or values.shape[1] <= int(clusters.max())
        or np.mean(values.argmin(axis=1) == clusters) < 0.95
    ):
        return None
    own = np.take_along_axis(values, clusters[:, None].astype(np.intp), axis=1)[:, 0]
    np.put_along_axis(values, clusters[:, None].astype(np.intp), np.inf, axis=1)
    other = values.min(axis=1)
    larger = np.maximum(own, other)
    return float(np.mean(np.where(larger > 0, (other - own) / np.where(larger > 0, larger, 1), 0)))


def folds_of(
    y: Labels, enough: Callable[[int], bool], seed: int, groups: Labels | None = None
) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Return the stratified folds that there is time for, none where a class has one member; groups stay together."""
    from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold

    kinds = np.unique(y)
    whole = np.arange(len(y)) if groups is None else np.asarray(groups)
    number = min(_FOLDS, *(len(np.unique(whole[y == kind])) for kind in kinds))
    if number < 2 or len(kinds) < 2:
        return []
    all_of_them = enough(number)
    splitter = StratifiedKFold if groups is None else StratifiedGroupKFold
    folds = splitter(number if all_of_them else min(number, 4), shuffle=True, random_state=seed)
    return list(folds.split(np.zeros(len(y)), y, groups))[: None if all_of_them else 1]


def measured_classes(
    model: Any, X: Any, y: Labels, input: str, folds: Sequence[tuple[NDArray[np.intp], NDArray[np.intp]]]
) -> tuple[Measured, Labels, Labels]:
    """Return the accuracy on members that were left out (and its standard error), their classes, and what was said."""
    parts, truth, said = [], [], []
    for train, test in folds:
        made = fitted(model, taken(X, train, input), y[train])
        found = np.asarray(made.predict(taken(X, test, input)))
        if found.size != len(test):
            raise ValueError(
                f"predict returns an array of shape {found.shape} for {len(test)} members: return one class each"
            )
        found = found.reshape(len(test))
        parts.append(float(np.mean(found == y[test])))
        truth.append(y[test])
        said.append(found)
    measured = {"accuracy": float(np.mean(parts))}
    if len(parts) > 1:
        measured["accuracy_se"] = float(np.std(parts, ddof=1) / np.sqrt(len(parts)))
    return measured, np.concatenate(truth), np.concatenate(said)


class OnFeatures:
    """A linear classifier on what a transformer gives; as much of an estimator as `fitted` asks for."""

    def __init__(self, transformer: Any, input: str) -> None:
        self.transformer, self.input = transformer, input

    def __sklearn_clone__(self) -> OnFeatures:
        return OnFeatures(self.transformer, self.input)

    def fit(self, X: Any, y: Any) -> OnFeatures:
        """Fit the transformer, then the classifier."""
        from sklearn.pipeline import make_pipeline

        from ._controls import linear_classifier

        # the second argument of a fit on views or bags is another view
        self.made = fitted(self.transformer, X, y if self.input in ("sequences", "samples") else None)
        self.classifier = make_pipeline(*linear_classifier()).fit(features(self.made, X), y)
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the classes."""
        return self.classifier.predict(features(self.made, X))


def features(model: Any, X: Any) -> NDArray[np.float64]:
    """Return what a transformer gives, a row per member: numbers of any shape are laid out in a row."""
    rows = np.asarray(model.transform(X), dtype=np.float64)
    if not np.isfinite(rows).all():
        raise ValueError("transform returns values that are not finite")
    return rows.reshape(len(rows), -1)


def halves(X: Any, input: str, rng: np.random.Generator) -> tuple[Any, Any] | None:
    """Return the first and the second half of every sequence, or two random halves of every bag."""
    if input == "bags":
        orders = [rng.permutation(len(bag)) for bag in X[0]]
        cut = [tuple(np.array_split(order, 2)) for order in orders]
        sides = [
            [[np.asarray(bag)[np.sort(pair[side])] for bag, pair in zip(view, cut, strict=True)] for view in X]
            for side in (0, 1)
        ]
        return sides[0], sides[1]
    if min(map(len, X)) < 8:
        return None
    return [x[: len(x) // 2] for x in X], [x[len(x) // 2 :] for x in X]


def found_halves(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    """Return the share of second halves whose nearest first half, by standardized features, is of the same member."""
    from sklearn.metrics import pairwise_distances_argmin

    if len(first) != len(second):
        raise ValueError(f"transform returns {len(first)} and {len(second)} rows for as many members")
    a, b = standardized(first, first), standardized(second, first)
    return float(np.mean(pairwise_distances_argmin(b, a) == np.arange(len(b))))


def nearest_others(Z: NDArray[np.float64]) -> NDArray[np.intp]:
    """Return the nearest other row of each, by standardized features."""
    from sklearn.neighbors import NearestNeighbors

    return NearestNeighbors(n_neighbors=1).fit(standardized(Z, Z)).kneighbors(return_distance=False)[:, 0]


def standardized(Z: NDArray[np.float64], like: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return features less the means of others, over their deviations; those that do not vary there are zero."""
    centred, spread = like - like.mean(axis=0), like.std(axis=0)
    varies = spread > 1e-12 * max(float(np.abs(centred).max(initial=0)), 1e-300)
    return np.where(varies, (Z - like.mean(axis=0)) / np.where(varies, spread, 1.0), 0.0)


def told_by_features(train: Any, test: Any, Z: NDArray[np.float64], W: NDArray[np.float64]) -> float:
    """Return the share of the variance of held-out rows that a linear map of their features tells (R²)."""
    mean, centre = train.mean(axis=0), Z.mean(axis=0)
    A = Z - centre
    ridge = 1e-6 * float(np.trace(A.T @ A)) / max(A.shape[1], 1) + 1e-300
    weights = np.linalg.solve(A.T @ A + ridge * np.eye(A.shape[1]), A.T @ (train - mean))
    error = test - mean - (W - centre) @ weights
    total = float(np.sum((test - mean) ** 2))
    return 1 - float(np.sum(error**2)) / total if total > 0 else float("nan")
