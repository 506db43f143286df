"""Comparison of an estimator with its controls by one measure, and a verdict in words."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from hashlib import blake2b
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse
from sklearn.metrics import adjusted_rand_score

from .. import hooks
from ..report._quality import CHANCE, Evaluation, name_of
from ..storage import SequenceData, interpolate
from ..storage._numpy_files import release
from ._tasks import (
    HALVINGS,
    Labels,
    Measured,
    OnFeatures,
    Rows,
    Unmeasured,
    against_labels,
    agreement_of_parts,
    assigned,
    checked_labels,
    counted,
    default_controls,
    features,
    fitted,
    flat,
    folds_of,
    found_halves,
    halves,
    halves_of_members,
    largest_class,
    measured_classes,
    nearest_others,
    parameters_of,
    silhouette,
    size,
    taken,
    takes_labels,
    task_of,
    told_by_features,
    told_by_neighbours,
)

_REPEATABLE, _PARTLY = 0.85, 0.5
"""Agreement of fits (mean adjusted Rand index) from which clusters are reported as repeatable or partly repeatable."""
_CLEAR = 0.05
"""Minimum difference of two figures that is reported."""
_EXPLAINED, _ALIKE = 0.05, 0.8
"""Thresholds for the report of a control without labels.

Its clusters must be at least as repeatable, explain more by `_EXPLAINED`, and agree with those of the estimator by less
than `_ALIKE` (`make bench-real ARGS=verdicts`: hits and false alarms).
"""
_DESCRIBED = 2000
"""Maximum number of members for which descriptions are computed."""
_NOT_RIGHT = "which does not show that they are correct"
_ROWS = 20_000
"""Maximum number of rows; if there are more, this number is drawn and all figures come from fits to these rows."""
_MANY = 2000
"""Number of members for the estimate of the time of a control before it is fitted."""
_SAMPLES = 5000
"""Maximum number of rows for R²."""
_FEW = 16
"""Number of members below which the verdict contains their number."""
_SHUFFLES = 20
"""Number of random assignments for the level of chance."""
_LEAST = 4
"""Minimum number of members for a measurement."""
_COPIES = 0.1
"""Fraction of copies among the members from which copies are reported and kept in one part of a split."""
_ALONE = 0.95
"""Fraction of the total variance from which a single column is reported."""


def evaluate(
    model: Any,
    X: Any,
    y: ArrayLike | None = None,
    *,
    record: hooks.EstimatorSpec | None = None,
    name: str = "",
    input: str | None = None,
    controls: Sequence[str] | None = None,
    random_state: int = 0,
    seconds: float = 60.0,
    took: float = 0.0,
    groups: ArrayLike | None = None,
    columns: Sequence[str] | None = None,
) -> Evaluation:
    """Measure the quality of a fit and compare it with simple controls on the same data.

    ============  ==========================================  =================================================
    estimator     with labels                                 without
    ============  ==========================================  =================================================
    classifier    accuracy by stratified cross-validation     (cannot be fitted)
    clustering    purity, NMI, ARI; agreement of parts;       agreement of parts (mean ARI of fits to halves),
    or mixture    silhouette in the model's metric            silhouette
    features      accuracy of a linear classifier on them,    sequences, bags: share of second halves nearest to
                  cross-validated                             their own first half; rows: R² of held-out rows from
                                                              the features, or (with at least as many features as
                                                              columns) of a row from the row with the nearest features
    neighbours    class of the nearest other member           sequences: share of second halves nearest to their
                                                              own first half; rows: R² of a row from the nearest
                                                              other row
    ============  ==========================================  =================================================

    Agreement of parts compares fits to two random halves of the data on all members, for three random splits. A
    clustering without `predict`, or with few members per cluster, is instead fitted to three parts with four fifths of
    the members each. Each of these fits chooses its settings again. A high agreement shows that clusters are
    repeatable, not that they are correct. The last row, ``chance``, has the value for random assignments or for the
    largest class. If a measure of the estimator or of a control cannot be computed, the row has the reason (``why``),
    and all other measures are computed as usual.

    Parameters
    ----------
    model : estimator
        The estimator after `fit` on `X`, which is not changed. A class with only ``fit`` and ``predict`` is also
        evaluated, with copies that are fitted again.
    X : data as for `fit`
        The data of `fit`. For controls, missing values of sequences are interpolated linearly. If there are more than
        20,000 rows, 20,000 rows are drawn, and all values are from fits to these rows.
    y : array-like of shape (N,), optional
        Known classes: names or whole numbers.
    record : hooks.EstimatorSpec, optional
        The record that defines the following arguments if they are not given, and an optional `quality`. The default is
        the record of the estimator's class, if the class is registered.
    name : str
        The name in the row of the estimator; by default its registered name, or its class.
    input : {"sequences", "samples", "views", "bags"}, optional
        The kind of `X`; by default "sequences" for an estimator that is not registered.
    controls : sequence of str, optional
        Names of registered estimators. The default depends on the task of the estimator, see `default_controls`.
    random_state : int
        The seed of folds, halves and controls.
    seconds : float
        Time limit for further fits. If the fits would take longer (estimated from `took`), one split replaces five
        folds, and one pair of halves replaces three. If even one pair of halves would take too long, the agreement is
        not measured.
    took : float
        Duration of the fit in seconds. It is measured for a fit to 20,000 drawn rows.
    groups : array-like of shape (N,), optional
        Members of one group, such as the rows of one recording, are never in two parts of a split.
    columns : sequence of str, optional
        Names of the columns of samples or the channels of sequences, for the verdict, which reports a column with
        nearly all of the variance.

    Returns
    -------
    Evaluation
        The values and the verdict. If nothing can be measured, for example with two members, the row of the estimator
        has ``why`` instead of values, and the verdict gives the reason.

    Raises
    ------
    ValueError
        If the number of labels or groups differs from the number of members, or if a label is missing.

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
    if record is None and (known := hooks.record_of(model)):
        record = known[1]
    input = input or (record.input if record else "sequences")
    name = name or (record.name if record else type(model).__name__)
    n = size(X, input)
    labels = checked_labels(y, n)
    # names of millions of rows are fewer objects than letters
    together = None if groups is None else np.asarray(groups, None if isinstance(groups, np.ndarray) else object)
    if together is not None and together.shape != (n,):
        raise ValueError(f"groups have shape {together.shape} for {n} members: pass one group for each member")
    if record is not None and record.quality is not None:
        return _by_its_own(record, model, X, labels, random_state)
    task = task_of(model, labelled=labels is not None and takes_labels(model))
    if not task:
        kind = type(model).__name__
        return _nothing(name, f"{kind} has none of labels_, predict, transform and kneighbors after fit")
    if n < _LEAST:
        return _nothing(name, f"{n} {'member is' if n == 1 else 'members are'} too few: at least {_LEAST} are needed")
    said = f"; with {n} members, a single member may change this result" if n < _FEW else ""
    if input in ("samples", "views") and n > _ROWS:
        rows = np.sort(np.random.default_rng(random_state).choice(n, _ROWS, replace=False))
        whole, X = X, taken(X, rows, input)
        for array in whole if input == "views" else [whole]:
            release(array)
        labels = None if labels is None else labels[rows]
        together = None if together is None else together[rows]
        began = time.perf_counter()
        model = fitted(model, X, labels if input == "samples" else None, again=True)
        took = time.perf_counter() - began
        said = f"; all values are from fits to {_ROWS} of {n} rows"
    said += _dominated(model, X, input, columns)
    together = None if together is None else np.array(together.tolist())
    if together is None or len(np.unique(together)) in (1, len(together)):
        together = _copies(X, input)
        if together is not None:
            more = len(together) - len(np.unique(together))
            if more == len(together) - 1:
                return _nothing(name, f"all {len(together)} members are equal: there is nothing to distinguish")
            said += f"; {more} of {len(together)} members are copies of others"
    if record is not None and controls is None and record.controls:
        controls = record.controls
    judge = _Judge(
        labels=None if labels is None or len(np.unique(labels)) < 2 else labels,  # one class says no more than none
        groups=None if together is None or len(np.unique(together)) == 1 else together,
        seed=random_state,
        took=took,
        seconds=seconds,
        own=_Candidate(name, model, X, input),
        controls=default_controls(task, input) if controls is None else tuple(controls),
    )
    found = {
        "classes": judge.classes,
        "clusters": judge.clusters,
        "features": judge.features,
        "neighbours": judge.neighbours,
    }[task]()
    return replace(found, verdict=found.verdict + said)


def _nothing(name: str, why: str, task: str = "none", measure: str = "none") -> Evaluation:
    return Evaluation(task, measure, ({"name": name, "why": why},), f"the quality was not measured: {why}")


def _copies(X: Any, input: str) -> NDArray[np.intp] | None:
    """Return a number for each member, which is equal for copies, or None if there are few copies.

    Rows of one or two columns can be equal by chance, and count as copies only if all rows are equal.
    """
    if input == "bags":
        return None
    if issparse(X):
        X = np.split(np.stack([X.indices, X.data], axis=1), X.indptr[1:-1])
        input = "sequences"
    parts = X if input == "views" else [X]
    numbers: dict[bytes, int] = {}
    members = zip(*parts, strict=True) if not any(hasattr(part, "iloc") for part in parts) else ()
    found = np.array(
        [
            numbers.setdefault(blake2b(b"".join(np.asarray(x).tobytes() for x in member)).digest(), len(numbers))
            for member in members
        ],
        dtype=np.intp,
    )
    narrow = input != "sequences" and sum(np.shape(part)[1] for part in parts if np.ndim(part) == 2) < 3
    least = len(found) - 1 if narrow else max(1, _COPIES * len(found))
    return found if len(found) - len(numbers) >= least else None


def _dominated(model: Any, X: Any, input: str, names: Sequence[str] | None) -> str:
    """Return the column with nearly all of the variance, as the end of a verdict."""
    from ._controls import STANDARDIZING

    if isinstance(model, STANDARDIZING) or input not in ("samples", "sequences") or issparse(X):
        return ""
    parts = [np.asarray(x) for x in ([X] if input == "samples" else X)]
    step = max(1, sum(map(len, parts)) // _ROWS)
    if any(part.ndim != 2 or part.dtype.kind not in "biuf" for part in parts):
        return ""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # columns without any value, or too large to be squared
        variance = np.nanvar(np.concatenate([part[::step] for part in parts], dtype=np.float64), axis=0)
        share = variance / variance.sum()
    if len(share) < 3 or not np.isfinite(share).all() or (most := float(share.max())) < _ALONE:
        return ""
    j = int(share.argmax())
    column = f"{'column' if input == 'samples' else 'channel'} {j if names is None else repr(str(names[j]))}"
    percent = min(np.floor(1000 * most) / 10, 99.9)  # never 100
    return f"; {column} has {percent:.1f}% of the variance: standardize the data if the units are arbitrary"


def _by_its_own(record: hooks.EstimatorSpec, model: Any, X: Any, y: Any, seed: int) -> Evaluation:
    """Evaluate by the `quality` of a record. An exception, or a result of another type, becomes a reason."""
    plugins = [plugin.name for plugin, one in hooks.records("estimators") if one.name == record.name]
    whose = f"the quality of {record.name!r}" + (f" (plugin {' or '.join(plugins)})" if plugins else "")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = cast(Any, record.quality)(model, X, y, seed)
    except Exception as error:
        return _nothing(record.name, f"{whose} says: {_sentence(error)}")
    if isinstance(found, Evaluation):
        return found
    returned = "None" if found is None else f"a {type(found).__name__}"
    return _nothing(record.name, f"{whose} returned {returned}: it must return an evaluation.Evaluation")


@dataclass(frozen=True)
class _Candidate:
    """A fitted estimator, or a control before its fit, with its data and their kind."""

    name: str
    model: Any
    X: Any
    input: str
    fitted: bool = True

    def estimator(self) -> Any:
        """Return the estimator, fitted to all of its data."""
        return self.model if self.fitted else fitted(self.model, self.X)


@dataclass(frozen=True)
class _Judge:
    """Measures an estimator and its controls in the same way. A failure leaves a reason instead of a value."""

    own: _Candidate
    controls: tuple[str, ...]
    labels: Labels | None
    groups: Labels | None
    seed: int
    took: float
    seconds: float
    found: dict[str, Labels] = field(default_factory=dict)
    """The clusters of each measured estimator, by name."""

    def classes(self) -> Evaluation:
        """Evaluate the accuracy on held-out members."""
        try:
            return self.by_accuracy(
                "classes", lambda one: one.model, "of the held-out members are classified correctly"
            )
        except Unmeasured as error:
            return _nothing(self.own.name, str(error), "classes", "accuracy")

    def clusters(self) -> Evaluation:
        """Evaluate the agreement with the labels, and between fits."""
        agreement = "agreement_of_parts"
        rows = self.rows(self.cluster_figures, fits=1 + HALVINGS)
        own = rows[0]
        if "why" not in own and len(np.unique(assigned(self.own.model, self.own.X))) == 1:
            return self.one_cluster(rows, agreement)
        if self.labels is not None:
            rows.append(_row(CHANCE, [self.shuffled]))
            verdict = f"agreement with the labels {own['ari']:.2f} (adjusted Rand index)" if "ari" in own else ""
            found, known = (len(np.unique(kinds)) for kinds in (assigned(self.own.model, self.own.X), self.labels))
            if verdict and found != known:
                verdict += f", of {counted(found, 'cluster')} and {counted(known, 'class')}"
            if verdict and own.get(agreement, 1.0) < _REPEATABLE:
                verdict += f", and {_repeatability(own[agreement])}"
            return self.evaluation("clusters", "ari", rows, verdict)
        width = f"silhouette {own['silhouette']:.2f}, at most 1" if "silhouette" in own else ""
        if agreement not in own and width:  # the distances of controls are others: there is nothing to compare
            rows = [own, *({**row, "why": "the silhouette of a control uses another distance"} for row in rows[1:])]
            for row in rows[1:]:
                row.pop("silhouette", None)
            return self.evaluation(
                "clusters", "silhouette", rows, f"{width}; silhouettes of other fits use other distances"
            )
        verdict = f"{_repeatability(own[agreement])}, {_NOT_RIGHT}" if agreement in own else ""
        verdict += self.named(rows) if verdict else ""
        rows.append({"name": CHANCE, agreement: 0.0})
        return self.evaluation("clusters", agreement, rows, f"{verdict}; {width}" if width else verdict)

    def named(self, rows: Sequence[Mapping[str, Any]]) -> str:
        """Return the control with other clusters that are as repeatable and explain more, as part of a verdict."""
        own = rows[0]
        needed = ("agreement_of_parts", "explained")
        others = [row for row in rows[1:] if all(name in row for name in needed)]
        if "explained" not in own or not others:
            return ""
        clear = [
            row
            for row in others
            if row["agreement_of_parts"] >= own["agreement_of_parts"]
            and row["explained"] > own["explained"] + _EXPLAINED
            and adjusted_rand_score(self.found[self.own.name], self.found[row["name"]]) < _ALIKE
        ]
        if not clear:
            return "; no control has different clusters that are as repeatable and explain more of the variance"
        best = max(clear, key=lambda row: row["explained"])
        alike = adjusted_rand_score(self.found[self.own.name], self.found[best["name"]])
        return (
            f"; the control {best['name']} has different clusters (agreement {alike:.2f}) that are as "
            f"repeatable ({best['agreement_of_parts']:.2f}) and explain more of the variance "
            f"({best['explained']:.2f} compared with {own['explained']:.2f}): compare both"
        )

    @cached_property
    def described(self) -> tuple[Rows, list[NDArray[np.float64]]]:
        """A subset of the members, and their descriptions."""
        from ._sequence_baselines import descriptions_of

        own, n = self.own, size(self.own.X, self.own.input)
        rows = np.sort(np.random.default_rng(self.seed).permutation(n)[:_DESCRIBED])
        data = flat(_filled(taken(own.X, rows, own.input), own.input), own.input)
        return rows, descriptions_of([np.asarray(x, dtype=np.float64) for x in data])

    def one_cluster(self, rows: list[dict[str, Any]], agreement: str) -> Evaluation:
        """Evaluate a clustering with a single cluster. The controls have the requested number of clusters."""
        verdict = "all members are in one cluster"
        if (asked := self.asked()) < 2:
            return Evaluation("clusters", "clusters", [{**rows[0], "clusters": 1}], verdict)
        verdict += f" of {asked}"
        rows[0] |= {"clusters": 1, "why": "there is only one cluster"} if self.labels is None else {"clusters": 1}
        chance = _row(CHANCE, [self.shuffled]) if self.labels is not None else {"name": CHANCE, agreement: 0.0}
        return self.evaluation("clusters", agreement if self.labels is None else "ari", [*rows, chance], verdict)

    def asked(self) -> int:
        """Return the number of clusters in the estimator's parameters, or 1 without such a parameter."""
        known = parameters_of(self.own.model)
        numbers = [known.get(name) for name in ("n_clusters", "n_components")]
        return next((int(n) for n in numbers if isinstance(n, int | np.integer) and not isinstance(n, bool)), 1)

    def features(self) -> Evaluation:
        """Evaluate features by a linear classifier or, without labels, by predictions of held-out members."""
        said = "of the held-out members are classified correctly by a linear classifier on the features"
        with suppress(Unmeasured):  # no labels, or too few of one
            return self.by_accuracy("features", lambda one: OnFeatures(one.model, one.input), said)
        if self.own.input in ("sequences", "bags"):
            return self.by_halves("features")
        width, columns = _width(self.own.model, self.own.X, self.own.input), self.varying()
        if width >= columns > 0:
            return self.by_neighbours_of_features(width, columns)
        rows = [*self.rows(lambda one: [lambda: {"r2": self.told(one)}]), {"name": CHANCE, "r2": 0.0}]
        told = rows[0].get("r2")
        verdict = "" if told is None else f"a linear map of the features {_explains(told)} of held-out rows"
        return self.evaluation("features", "r2", rows, verdict)

    def by_neighbours_of_features(self, width: int, columns: int) -> Evaluation:
        """Evaluate features that are as many as the columns by nearest neighbours, because a linear map is exact."""
        own = self.own
        some = np.random.default_rng(self.seed).permutation(size(own.X, own.input))[:_SAMPLES]
        own = replace(own, X=taken(own.X, np.sort(some), own.input))
        judge = replace(self, own=own, controls=tuple(dict.fromkeys((*self.controls, "nearest-rows"))))
        Z = np.asarray(flat(own.X, own.input), dtype=np.float64)
        rows = judge.rows(lambda one: [lambda: {"r2": told_by_neighbours(Z, nearest_others(one.estimator(), one.X))}])
        verb = "does" if width == 1 else "do"
        verdict = f"{counted(width, 'feature')} of {counted(columns, 'column')} {verb} not reduce the dimension"
        if (told := rows[0].get("r2")) is not None:
            verdict += f"; the nearest neighbour by the features {_explains(told)} of a row"
        return self.evaluation("features", "r2", [*rows, {"name": CHANCE, "r2": 0.0}], verdict)

    def neighbours(self) -> Evaluation:
        """Evaluate neighbours by the class of the nearest other member or, without labels, by its similarity."""
        if self.labels is None and self.own.input in ("sequences", "bags"):
            return self.by_halves("neighbours")
        y = self.labels
        measure = "r2" if y is None else "accuracy"

        def figure(one: _Candidate) -> Measured:
            nearest = nearest_others(one.estimator(), one.X)
            if y is not None:
                return {measure: float(np.mean(y[nearest] == y))}
            return {
                measure: told_by_neighbours(np.asarray(flat(self.own.X, self.own.input), dtype=np.float64), nearest)
            }

        rows = self.rows(lambda one: [lambda: figure(one)])
        rows.append({"name": CHANCE, measure: 0.0 if y is None else _by_chance(y)})
        own = rows[0].get(measure)
        if own is None:
            return self.evaluation("neighbours", measure, rows, "")
        if y is None:
            verdict = f"the nearest neighbour {_explains(own)} of a row"
        else:
            verdict = f"the nearest neighbour has the same label for {own:.0%} of the members"
        return self.evaluation("neighbours", measure, rows, verdict)

    # What the tasks share.

    def rows(
        self, figures: Callable[[_Candidate], Sequence[Callable[[], Measured]]], fits: int = 1
    ) -> list[dict[str, Any]]:
        """Return a row for the estimator and one for each control, whose figures take so many fits to all members."""
        rows = [_row(self.own.name, figures(self.own))]
        for name in self.controls:
            try:
                control = self.control(name)
                if control is not None:
                    self.check_time(control, fits)
                    rows.append(_row(name, figures(control)))
            except Exception as error:
                rows.append({"name": name, "why": _sentence(error)})
        return rows

    def check_time(self, control: _Candidate, fits: int) -> None:
        """Raise Unmeasured if the fits of a control would take too long, as estimated from a fit to few members."""
        n = size(control.X, control.input)
        if n <= _MANY:
            return
        rows = np.sort(np.random.default_rng(self.seed).choice(n, _MANY // 10, replace=False))
        began = time.perf_counter()
        with suppress(Exception):  # what fails here fails again, with its reason
            fitted(control.model, taken(control.X, rows, control.input), self.labels_of(rows))
        expected = fits * 10 * n / _MANY * (time.perf_counter() - began)
        if expected > self.seconds:
            raise Unmeasured(
                f"its fits would take about {expected:.0f} s, longer than the limit of {self.seconds:.0f} s"
            )

    def labels_of(self, rows: Labels) -> Labels | None:
        """Return the labels of some members, if there are labels."""
        return None if self.labels is None else self.labels[rows]

    def control(self, name: str) -> _Candidate | None:
        """Return a control with the model's number of clusters or components; None if the model is the control."""
        record = hooks.get_record(hooks.EstimatorSpec, name)
        control = cast(Any, record.factory)()
        own, X, input = self.own.model, self.own.X, self.own.input
        if type(control) is type(own):
            return None
        known = parameters_of(control)
        same: dict[str, Any] = {"random_state": self.seed} if "random_state" in known else {}
        if "n_clusters" in known:
            found = len(np.unique(assigned(own, X)))
            same["n_clusters"] = self.asked() if found == 1 else found
        data = _filled(X, input) if record.input == input else flat(X, input)
        if "n_components" in known and isinstance(data, np.ndarray):
            width = _width(own, X, input)
            same["n_components"] = min(*data.shape, width) if width else None
        return _Candidate(name, control.set_params(**same), data, record.input, fitted=False)

    def evaluation(
        self, task: str, measure: str, rows: Sequence[Mapping[str, Any]], verdict: str, **more: Any
    ) -> Evaluation:
        """Return rows with a verdict about the first row and the result of the best of the other rows."""
        reason = f"no {name_of(measure)} of {rows[0]['name']}: {rows[0].get('why', 'it was not measured')}"
        made = Evaluation(task, measure, [_with_reason(row, measure) for row in rows], verdict or reason, **more)
        return replace(made, verdict=made.verdict + _comparison(made))

    def by_accuracy(self, task: str, classifier: Callable[[_Candidate], Any], said: str) -> Evaluation:
        """Compare by the accuracy on the same folds; raise Unmeasured if there are no folds."""
        if (y := self.labels) is None:
            raise Unmeasured("accuracy needs labels of two classes or more")
        folds = folds_of(y, self.enough, self.seed, self.groups)
        told: list[tuple[Labels, Labels]] = []

        def figure(one: _Candidate) -> Measured:
            measured, *pair = measured_classes(classifier(one), one.X, y, one.input, folds)
            if one is self.own:
                told.append((pair[0], pair[1]))
            return measured

        compared = self.rows(lambda one: [lambda: figure(one)], fits=len(folds))
        rows = [*compared, {"name": CHANCE, "accuracy": largest_class(y, folds)}]
        own = rows[0].get("accuracy")
        how = f"{len(folds)}-fold cross-validation" if len(folds) > 1 else "one part held out"
        verdict = "" if own is None else f"{own:.0%} {said} ({how})"
        return self.evaluation(task, "accuracy", rows, verdict, confusion=told[0] if told else None)

    def by_halves(self, task: str) -> Evaluation:
        """Compare by the fraction of members whose second half finds the first half."""
        n = size(self.own.X, self.own.input)

        def figure(one: _Candidate) -> Measured:
            first, second = halves(one.X, one.input, np.random.default_rng(self.seed))
            return {"halves_found": found_halves(one.model, first, second, n)}

        rows = [*self.rows(lambda one: [lambda: figure(one)]), {"name": CHANCE, "halves_found": 1 / n}]
        own = rows[0].get("halves_found")
        verdict = (
            ""
            if own is None
            else f"for {own:.0%} of the members, the first half nearest to the second half is from the same member (by "
            f"chance {1 / n:.0%})"
        )
        return self.evaluation(task, "halves_found", rows, verdict)

    def cluster_figures(self, one: _Candidate) -> list[Callable[[], Measured]]:
        """Return the figures of a clustering: agreement with labels, agreement between fits, silhouette."""

        @cache
        def made() -> Any:
            return one.estimator()

        @cache
        def found() -> Labels:
            self.found[one.name] = assigned(made(), one.X)
            return self.found[one.name]

        def labelled() -> Measured:
            return {} if self.labels is None else against_labels(found(), self.labels)

        def agreement() -> Measured:
            if len(np.unique(found())) < 2:  # one cluster agrees with itself
                if one is self.own:
                    return {}
                raise Unmeasured("all members are in one cluster")
            clusters = len(np.unique(found()))
            in_halves = halves_of_members(made(), size(one.X, one.input), clusters)
            halvings = next((times for times in (HALVINGS, 1) if one is not self.own or self.enough(times)), 0)
            if one is self.own and not (halvings if in_halves else self.enough(3, 0.8)):
                more = "two fits to halves" if in_halves else "three fits to parts"
                raise Unmeasured(f"{more} of the data would take longer than the limit of {self.seconds:.0f} s")
            return {
                "agreement_of_parts": agreement_of_parts(
                    made(), one.X, one.input, self.seed, clusters=clusters, halvings=halvings
                )
            }

        def width() -> Measured:
            value = silhouette(made(), one.X, found())
            return {} if value is None else {"silhouette": value}

        def explained() -> Measured:
            from ._sequence_baselines import explained_share

            if self.labels is not None or self.own.input not in ("sequences", "bags"):
                return {}
            rows, descriptions = self.described
            return {"explained": explained_share(found()[rows], descriptions)}

        return [labelled, agreement, width, explained]

    def shuffled(self) -> Measured:
        """Return the agreement of the model's clusters with the labels after random permutations."""
        found, rng = assigned(self.own.model, self.own.X), np.random.default_rng(self.seed)
        runs = [against_labels(rng.permutation(found), cast(Labels, self.labels)) for _ in range(_SHUFFLES)]
        return {name: float(np.mean([run[name] for run in runs])) for name in runs[0]}

    def varying(self) -> int:
        """Return the number of columns that are not constant."""
        rows = np.asarray(flat(self.own.X, self.own.input))
        return int(np.count_nonzero(np.any(rows != rows[:1], axis=0)))

    def told(self, one: _Candidate) -> float:
        """Return R² of held-out rows under a linear map of features, which must be fewer than the columns."""
        rng = np.random.default_rng(self.seed)
        order = rng.permutation(size(one.X, one.input))[:_SAMPLES]
        test, train = np.array_split(order, [len(order) // 4])
        if self.groups is not None:  # whole recordings are left out
            kinds = np.unique(self.groups)
            left_out = np.isin(self.groups[order], rng.permutation(kinds)[: max(1, len(kinds) // 4)])
            test, train = order[left_out], order[~left_out]
        A, B = (taken(one.X, np.sort(rows), one.input) for rows in (train, test))
        made = fitted(one.model, A)
        a, b = (np.asarray(flat(part, one.input), dtype=np.float64) for part in (A, B))
        Z, columns = features(made, A), self.varying()
        if Z.shape[1] >= columns > 0:  # of a control, or of an estimator that chooses their number
            raise Unmeasured(
                f"{counted(Z.shape[1], 'feature')} of {counted(columns, 'column')} do not reduce the dimension"
            )
        return told_by_features(a, b, Z, features(made, B))

    def enough(self, fits: int, share: float = 1.0) -> bool:
        """Return whether there is time for a number of fits of the estimator to a fraction of the members."""
        return fits * share * self.took <= self.seconds


def _filled(X: Any, input: str) -> Any:
    """Return sequences with linearly interpolated missing values, which controls do not accept."""
    arrays = input == "sequences" and all(isinstance(x, np.ndarray) and x.dtype.kind == "f" for x in X)
    return interpolate(SequenceData(X)).sequences if arrays and any(np.isnan(x).any() for x in X) else X


def _row(name: str, figures: Sequence[Callable[[], Measured]]) -> dict[str, Any]:
    """Return a row with the figures that can be measured, and reasons for the others."""
    row: dict[str, Any] = {"name": name}
    reasons = []
    for figure in figures:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = figure()
        except Exception as error:
            reasons.append(_sentence(error))
            continue
        row |= {key: value for key, value in found.items() if np.isfinite(value)}
        reasons += [f"{name_of(key)} is not finite" for key, value in found.items() if not np.isfinite(value)]
    return row | ({"why": "; ".join(dict.fromkeys(reasons))} if reasons else {})


def _with_reason(row: Mapping[str, Any], measure: str) -> Mapping[str, Any]:
    return row if measure in row or "why" in row else {**row, "why": f"{name_of(measure)} was not measured"}


def _sentence(error: Exception) -> str:
    text = " ".join(str(error).split())
    return text if isinstance(error, Unmeasured) and text else f"{type(error).__name__}: {text}".rstrip(": ")


def _width(model: Any, X: Any, input: str) -> int:
    try:
        return features(model, taken(X, slice(0, 2), input)).shape[1]
    except (TypeError, ValueError, AttributeError):
        return 0


def _by_chance(y: NDArray[Any]) -> float:
    return float(np.unique(y, return_counts=True)[1].max() / len(y))


def _explains(r2: float) -> str:
    """Return a phrase with the explained variance; R² below zero is an error larger than that of the mean."""
    return f"explains {r2:.0%} of the variance" if r2 > -0.005 else f"(R² = {r2:.2f}) does not explain the variance"


def _repeatability(agreement: float) -> str:
    how = "" if agreement >= _REPEATABLE else "partly " if agreement >= _PARTLY else "not "
    return f"clusters are {how}repeatable: agreement {agreement:.2f} between fits to parts of the data"


def _comparison(found: Evaluation) -> str:
    """Return the result of the best of the other rows, as the end of a verdict."""
    measure, sign = found.measure, 1 if found.greater_is_better else -1
    others = [row for row in found.rows[1:] if measure in row]
    if not others:
        return ""
    best = max(others, key=lambda row: sign * row[measure])
    who = best["name"] if best["name"] == CHANCE else f"the control {best['name']}"
    figure = f"{round(best[measure], 2) + 0.0:.2f}"  # no -0.00
    if measure == "agreement_of_parts" and measure in found.rows[0]:  # which says nothing of who is right
        return "" if "explained" in found.rows[0] or best["name"] == CHANCE else f"; {who} reaches {figure}"
    if measure not in found.rows[0]:
        return f"; {who} reaches {figure}"
    gap = sign * (best[measure] - found.rows[0][measure])
    said = "is better" if gap > _CLEAR else "is as good" if gap > -_CLEAR else "is worse"
    return f"; {who} {said} ({figure})"
