"""An estimator beside its controls: one figure by which they are compared, and a verdict in words."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import hooks
from ._tasks import (
    OnFeatures,
    assigned,
    default_controls,
    features,
    fitted,
    flat,
    folds_of,
    found_halves,
    halves,
    measured_classes,
    measured_clusters,
    nearest_others,
    size,
    taken,
    task_of,
    told_by_features,
)

_STABLE, _LOOSE = 0.85, 0.5
"""Agreement of seeds, a mean adjusted Rand index, from which clusters are called stable, or only somewhat unstable."""
_CLEAR = 0.02
"""Of two figures, a difference that is spoken of."""
_SAMPLES = 5000
"""Rows that R² is taken from, at most."""
_FEW = 16
"""Members below which the verdict says how few they are."""


@dataclass(frozen=True)
class Evaluation:
    """A quality figure of an estimator and of its controls.

    Parameters
    ----------
    task : str
        What was asked: ``"classes"``, ``"clusters"``, ``"neighbours"``, ``"features"``, or a plugin's own.
    measure : str
        The key of the rows by which they are compared; more is better.
    rows : tuple of dict
        ``name`` and figures; the estimator first, then its controls.
    verdict : str
        What this says, in a sentence.
    confusion : tuple of (ndarray, ndarray), optional
        The classes of members that were left out of a fit, and what was said of them.
    """

    task: str
    measure: str
    rows: tuple[dict[str, Any], ...]
    verdict: str
    confusion: tuple[NDArray[Any], NDArray[Any]] | None = None

    @property
    def winner(self) -> str:
        """The name of the row with the largest figure, the first of equal ones."""
        return max(self.rows, key=lambda row: row.get(self.measure, -np.inf))["name"]

    def as_dict(self) -> dict[str, Any]:
        """Return it for JSON, the confusion left out."""
        return {
            "task": self.task,
            "measure": self.measure,
            "rows": [dict(row) for row in self.rows],
            "winner": self.winner,
            "verdict": self.verdict,
        }


def evaluate(
    model: Any,
    X: Any,
    y: ArrayLike | None = None,
    *,
    name: str = "",
    input: str = "sequences",
    controls: Sequence[str] | None = None,
    random_state: int = 0,
    seconds: float = 60.0,
    took: float = 0.0,
    groups: ArrayLike | None = None,
) -> Evaluation | None:
    """Say how good a fit is, beside simple controls on the same data.

    ============  ==========================================  =================================================
    estimator     with labels                                 without
    ============  ==========================================  =================================================
    classifier    accuracy by stratified cross-validation     (cannot be fitted)
    clustering    purity, NMI, ARI; agreement of seeds;       agreement of seeds (mean ARI of three fits),
    or mixture    silhouette in the model's metric            silhouette
    features      accuracy of a linear classifier on them,    sequences, bags: halves of a member that find each
                  cross-validated                             other; rows: R² of held-out rows from the features
    neighbours    class of the nearest other member           halves that find each other
    ============  ==========================================  =================================================

    Parameters
    ----------
    model : estimator
        After `fit` on `X`; it is not changed.
    X : what `fit` took
    y : array-like of shape (N,), optional
        Known classes.
    name : str
        Of the row of the estimator; by default its class.
    input : {"sequences", "samples", "views", "bags"}
        What `X` is, as in the record of the estimator.
    controls : sequence of str, optional
        Names of registered estimators; default by what the estimator does, see `default_controls`.
    random_state : int
        Of folds, halves and controls.
    seconds : float
        Time for further fits. Where they would take longer, as judged by `took`, one split takes the place of five
        folds, and other seeds are left out.
    took : float
        Seconds that the fit took.
    groups : array-like of shape (N,), optional
        Members of one group, such as the rows of one recording, are never in two parts of a split.

    Returns
    -------
    Evaluation or None
        None where there is nothing to measure by: two members, one class, features that are no numbers.

    Examples
    --------
    >>> import numpy as np
    >>> import manifoldseq as ms
    >>> X = [np.full((8, 1), level) + np.eye(8)[:, :1] for level in (0.0, 0.1, 7.0, 7.1)]
    >>> model = ms.evaluation.StatisticsKMeans(2, random_state=0).fit(X)
    >>> found = ms.evaluation.evaluate(model, X, ["low", "low", "high", "high"], controls=())
    >>> found.measure, found.rows[0]["ari"]
    ('ari', 1.0)
    """
    task = task_of(model)
    # a single class says no more than none
    labels = None if y is None or len(np.unique(np.asarray(y))) < 2 else np.asarray(y)
    # one group is no group, and neither is a group for each member
    together = None if groups is None or len(np.unique(groups)) in (1, size(X, input)) else np.asarray(groups)
    if not task or size(X, input) < 4:
        return None

    def enough(fits: int) -> bool:
        return fits * took <= seconds

    few = f"; only {size(X, input)} members: one more or less may change this" if size(X, input) < _FEW else ""
    judge = {"classes": _classes, "clusters": _clusters, "features": _features, "neighbours": _neighbours}[task]
    names = default_controls(task, input) if controls is None else tuple(controls)
    candidates = [(name or type(model).__name__, model, X, input)]
    candidates += list(_controls(names, model, X, input, random_state))
    found = judge(candidates, labels, random_state, enough, together)
    return None if found is None else replace(found, verdict=found.verdict + few)


Enough = Callable[[int], bool]
"""Whether there is time for so many fits."""
Candidate = tuple[str, Any, Any, str]
"""Name, fitted estimator (a control: not fitted), its data, and what they are."""


def _controls(names: Sequence[str], model: Any, X: Any, input: str, seed: int) -> Iterator[Candidate]:
    """Yield the controls with as many clusters or components as the model has."""
    for name in names:
        record = hooks.get_record(hooks.EstimatorSpec, name)
        control = cast(Any, record.factory)()
        if type(control) is type(model):
            continue
        known = control.get_params(deep=False)
        same: dict[str, Any] = {"random_state": seed} if "random_state" in known else {}
        if "n_clusters" in known:
            same["n_clusters"] = _number_of_clusters(model, X)
        data = X if record.input == input else flat(X, input)
        if "n_components" in known and isinstance(data, np.ndarray):
            width = _width(model, X, input)
            same["n_components"] = min(*data.shape, width) if width else None
        yield name, control.set_params(**same), data, record.input


def _number_of_clusters(model: Any, X: Any) -> int:
    return len(np.unique(assigned(model, X)))


def _width(model: Any, X: Any, input: str) -> int:
    try:
        return features(model, taken(X, slice(0, 2), input)).shape[1]
    except (TypeError, ValueError, AttributeError):
        return 0


def _classes(candidates: list[Candidate], y: Any, seed: int, enough: Enough, groups: Any) -> Evaluation | None:
    if y is None or not (folds := folds_of(y, enough, seed, groups)):
        return None
    rows, confusion = [], None
    for name, model, X, input in candidates:
        measured, truth, said = measured_classes(model, X, y, input, folds)
        confusion = confusion or (truth, said)
        rows.append({"name": name, **measured})
    how = f"{len(folds)}-fold cross-validation" if len(folds) > 1 else "one part held out"
    guess = float(np.unique(y, return_counts=True)[1].max() / len(y))
    verdict = f"{rows[0]['accuracy']:.0%} of what was left out is right ({how}; always the largest class: {guess:.0%})"
    return Evaluation("classes", "accuracy", tuple(rows), _beside(verdict, rows, "accuracy"), confusion)


def _clusters(candidates: list[Candidate], y: Any, seed: int, enough: Enough, groups: Any) -> Evaluation | None:
    rows = []
    for k, (name, model, X, _) in enumerate(candidates):
        made = model if k == 0 else fitted(model, X)
        rows.append({"name": name, **measured_clusters(made, X, y, seed, enough if k == 0 else lambda fits: True)})
    own = rows[0]
    if _number_of_clusters(candidates[0][1], candidates[0][2]) < 2:
        return Evaluation("clusters", "clusters", ({**own, "clusters": 1.0},), "all members are in one cluster")
    if y is not None:
        verdict = f"agreement with the labels {own['ari']:.2f} (adjusted Rand index)"
        if "agreement_of_seeds" in own and own["agreement_of_seeds"] < _STABLE:
            verdict += f", and clusters are {_steadiness(own['agreement_of_seeds'])}"
        return Evaluation("clusters", "ari", tuple(rows), _beside(verdict, rows, "ari"))
    measure = "agreement_of_seeds" if "agreement_of_seeds" in own else "silhouette"
    if measure not in own:
        return None
    if measure == "silhouette":
        verdict = f"silhouette {own['silhouette']:.2f}, at most 1; no other seeds were tried"
        return Evaluation("clusters", measure, tuple(rows), verdict)
    verdict = f"clusters are {_steadiness(own[measure])}"
    if "silhouette" in own:
        verdict += f"; silhouette {own['silhouette']:.2f}, at most 1"
    return Evaluation("clusters", measure, tuple(rows), _beside(verdict, rows, measure))


def _steadiness(agreement: float) -> str:
    word = "stable" if agreement >= _STABLE else "somewhat unstable" if agreement >= _LOOSE else "not stable"
    return f"{word}: agreement {agreement:.2f} between seeds"


def _features(candidates: list[Candidate], y: Any, seed: int, enough: Enough, groups: Any) -> Evaluation | None:
    name, model, X, input = candidates[0]
    try:
        features(model, taken(X, slice(0, 2), input))
    except (TypeError, ValueError):
        return None
    rows: list[dict[str, Any]] = []
    if y is not None and (folds := folds_of(y, enough, seed, groups)):
        confusion = None
        for name, model, X, input in candidates:
            measured, truth, said = measured_classes(OnFeatures(model, input), X, y, input, folds)
            confusion = confusion or (truth, said)
            rows.append({"name": name, **measured})
        verdict = f"a linear classifier on the features names {rows[0]['accuracy']:.0%} of members that were left out"
        return Evaluation("features", "accuracy", tuple(rows), _beside(verdict, rows, "accuracy"), confusion)
    if input == "samples":
        rows = [{"name": name, "r2": _told(model, X, seed, groups)} for name, model, X, _ in candidates]
        if not np.isfinite(rows[0]["r2"]):
            return None
        verdict = f"a linear map of the features tells {rows[0]['r2']:.0%} of the variance of held-out rows"
        return Evaluation("features", "r2", tuple(rows), _beside(verdict, rows, "r2"))
    return _matched(candidates, seed)


def _neighbours(candidates: list[Candidate], y: Any, seed: int, enough: Enough, groups: Any) -> Evaluation | None:
    if y is None:
        return _matched(candidates, seed)
    rows = [
        {"name": name, "accuracy": float(np.mean(y[_nearest(model, X, k)] == y))}
        for k, (name, model, X, _) in enumerate(candidates)
    ]
    verdict = f"the nearest other member has the same label in {rows[0]['accuracy']:.0%}"
    return Evaluation("neighbours", "accuracy", tuple(rows), _beside(verdict, rows, "accuracy"))


def _nearest(model: Any, X: Any, k: int) -> NDArray[np.intp]:
    """Return the nearest other member of each."""
    if k == 0:
        return np.asarray(model.kneighbors(n_neighbors=1)[1])[:, 0]
    return nearest_others(features(fitted(model, X), X))


def _matched(candidates: list[Candidate], seed: int) -> Evaluation | None:
    rows = []
    for name, model, X, input in candidates:
        sides = halves(X, input, np.random.default_rng(seed))
        if sides is None:
            return None
        first, second = sides
        made = fitted(model, first)
        if hasattr(made, "kneighbors"):
            share = float(np.mean(np.asarray(made.kneighbors(second, 1)[1])[:, 0] == np.arange(len(second))))
        else:
            share = found_halves(features(made, first), features(made, second))
        rows.append({"name": name, "halves_found": share})
    chance = 1 / size(candidates[0][2], candidates[0][3])
    verdict = f"the second half of a member finds its first in {rows[0]['halves_found']:.0%} (by chance {chance:.0%})"
    return Evaluation("features", "halves_found", tuple(rows), _beside(verdict, rows, "halves_found"))


def _told(model: Any, X: Any, seed: int, groups: Any) -> float:
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(X))[:_SAMPLES]
    test, train = np.array_split(order, [len(order) // 4])
    if groups is not None:  # whole recordings are left out
        kinds = np.unique(groups)
        left_out = np.isin(groups[order], rng.permutation(kinds)[: max(1, len(kinds) // 4)])
        test, train = order[left_out], order[~left_out]
    A, B = (np.asarray(X[rows], dtype=np.float64) for rows in (np.sort(train), np.sort(test)))
    made = fitted(model, A)
    return told_by_features(A, B, features(made, A), features(made, B))


def _beside(verdict: str, rows: list[dict[str, Any]], measure: str) -> str:
    """Return the verdict with what the best control reaches."""
    others = [row for row in rows[1:] if measure in row]
    if not others:
        return verdict
    best = max(others, key=lambda row: row[measure])
    gap = best[measure] - rows[0][measure]
    said = "is better" if gap > _CLEAR else "is as good" if gap > -_CLEAR else "is below"
    return f"{verdict}; the control {best['name']} {said} ({best[measure]:.2f})"
