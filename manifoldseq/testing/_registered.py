"""The check of a registered record of any kind, or the reason why it cannot be tested."""

from __future__ import annotations

import inspect
import tempfile
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatch
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from .. import hooks
from ..manifolds import Manifold
from ..report import Fitted
from ..report._drawing import drawn
from ..storage import SequenceData
from ._conventions import instance, quick
from ._estimators import check_estimator, check_multiview_estimator, check_sequence_estimator, oscillations
from ._kernel import check_kernel, sizes
from ._manifold import check_manifold
from ._model import check_model
from ._points import same
from ._report import Examination, Report, Verdict, unless
from ._solver import check_solver, lacking

_CHECKS = {
    "sequences": check_sequence_estimator,
    "views": check_multiview_estimator,
    "bags": check_multiview_estimator,  # a bag may be one row
}
"""Checks of estimators by their input, where it is not rows."""


class NotExercised(Exception):
    """Error for a record that can be imported but not run; the message is the reason."""


def check_record(record: hooks.Record, others: Sequence[hooks.Record] = ()) -> Report:
    """Check a record with the checks of its kind.

    Parameters
    ----------
    record : Record
    others : sequence of Record
        The other records of the package: a plot is drawn for the estimators that name it.

    Returns
    -------
    Report
        A report with at least one law.

    Raises
    ------
    NotExercised
        If there are no data for a test. The targets were imported.
    Exception
        Exceptions of the targets.
    """
    resolved = hooks.with_all_parts(record) if isinstance(record, hooks.ModelSpec) else record.resolved()
    report = _report(resolved, others)
    if not report.laws:
        raise NotExercised("its checker found no case to run")
    return report


def _report(record: Any, others: Sequence[hooks.Record]) -> Report:
    match record:
        case hooks.ModelSpec():
            if record.example is None:
                raise NotExercised("it has no example: set ModelSpec(example=…)")
            return check_model(record)
        case hooks.InitializerSpec() | hooks.UpdateSpec():
            if not record.model:
                raise NotExercised("the record names no model")
            model = hooks.get_model(record.model)
            if model.example is None:
                raise NotExercised(f"the model {record.model!r} has no example")
            return replace(check_model(model), subject=f"{record.kind[:-1]} {record.name} of {record.model}")
        case hooks.KernelSpec():
            return check_kernel(record)
        case hooks.DomainSpec():
            return _domain(record)
        case hooks.ManifoldSpec():
            return check_manifold(record.example(np.random.default_rng(0)))
        case hooks.SolverSpec():
            solver = record.factory()
            if needs := lacking(solver):
                raise NotExercised(f"it needs {' and '.join(needs)}, which the problems of check_solver do not have")
            return check_solver(solver)
        case hooks.EstimatorSpec():
            return _CHECKS.get(record.input, check_estimator)(record.factory())
        case hooks.RuleSpec():
            used = hooks.get_record(hooks.EstimatorSpec, record.estimator)
            estimator = used.factory().set_params(**{record.parameter: record.factory()})
            report = _CHECKS.get(used.input, check_estimator)(estimator)
            return replace(report, subject=f"rule {record.name} of {record.estimator}")
        case hooks.PlotSpec():
            named = [one for one in others if isinstance(one, hooks.EstimatorSpec) and record.name in one.plots]
            return _plot(record, named)
        case hooks.ReaderSpec():
            return _reader(record)
        case hooks.DatasetSpec():
            return _dataset(record)
    raise NotExercised(f"run it with `manifoldseq reproduce {record.name}`")


def _domain(record: hooks.DomainSpec) -> Report:
    """Check that items are tuples of arrays, and that points of the manifold become items of the same sizes."""
    exam = Examination(f"domain {record.name}")
    items = [tuple(item) for item in record.example(np.random.default_rng(0))]
    again = [tuple(item) for item in record.example(np.random.default_rng(0))]

    def gives() -> Verdict:
        if len(items) < 2:
            return False, f"{len(items)} items are too few for a kernel"
        if not same(items, again):
            return False, "the same generator gave different items: draw from rng only"
        bad = [k for k, item in enumerate(items) if not item or not all(map(_finite, item))]
        return (False, f"item {bad[0]} is not a tuple of finite arrays") if bad else (True, f"{len(items)} items")

    if not exam.law("the example gives items", gives):
        return exam.report()
    manifold = record.manifold(*sizes(items[0]), 0.99)
    if not exam.law("manifold(m, n, bound) gives a manifold", lambda: (isinstance(manifold, Manifold), repr(manifold))):
        return exam.report()

    def becomes() -> Verdict:
        item = tuple(record.to_item(manifold.random_point(np.random.default_rng(0))))
        if not item or not all(map(_finite, item)):
            return False, "it did not return a tuple of finite arrays"
        pairs = zip(item, items[0], strict=False)  # an item may say more than a point does
        off = [(np.shape(a), np.shape(b)) for a, b in pairs if np.shape(a) != np.shape(b)]
        return unless(f"a part has shape {off[0][0]}, but the example has {off[0][1]}" if off else None)

    exam.law("to_item converts a point to an item with the shapes of the example", becomes)
    return exam.report()


def _finite(part: Any) -> bool:
    return bool(np.all(np.isfinite(np.asarray(part, dtype=float))))


def _reader(record: hooks.ReaderSpec) -> Report:
    if record.example is None:
        raise NotExercised("it has no example: set ReaderSpec(example=…)")
    exam = Examination(f"reader {record.name}")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(record.example(Path(folder)))

        def matches() -> Verdict:
            found = path.is_file() and any(fnmatch(path.name, pattern) for pattern in record.patterns)
            return found, path.name if found else f"{path.name} is not a file that matches {', '.join(record.patterns)}"

        if exam.law("the example writes a file that the patterns match", matches):
            data: list[Any] = []
            if exam.law("reads it as SequenceData", lambda: _loads(lambda: record.factory(path), data)):
                exam.law("reads the same again", lambda: (_equal(data[0], record.factory(path)), ""))
    return exam.report()


def _dataset(record: hooks.DatasetSpec) -> Report:
    try:
        data = record.loader()
    except (ImportError, OSError) as error:
        raise NotExercised(f"its data are not installed: {error}") from error
    exam = Examination(f"dataset {record.name}")
    exam.law("loads as SequenceData", lambda: _loads(lambda: data, []))
    return exam.report()


def _loads(load: Callable[[], Any], into: list[Any]) -> Verdict:
    data = load()
    if not isinstance(data, SequenceData):
        return False, f"it gave {type(data).__name__} in place of manifoldseq.storage.SequenceData"
    into.append(data)
    number = len(data.sequences)
    return bool(number), f"{number} sequences" if number else "there is no sequence in it"


def _equal(a: SequenceData, b: SequenceData) -> bool:
    return same(a.sequences, b.sequences) and same(a.labels, b.labels)


def _plot(record: hooks.PlotSpec, estimators: Sequence[hooks.EstimatorSpec]) -> Report:
    """Check that a plot draws a small fit of every estimator that names it and that it accepts."""
    if not estimators:
        raise NotExercised("no estimator of this package names it in its plots")
    exam = Examination(f"plot {record.name}")
    why = []
    for named in estimators:
        try:
            fitted = _fitted(named.resolved())
            if named.auto and not record.accepts(fitted):
                fitted = _fitted(named.resolved(), dict.fromkeys(named.auto, "auto"))
        except Exception as error:
            why.append(f"{named.name} could not be fitted to small data ({type(error).__name__}: {error})")
            continue
        if record.accepts(fitted):
            exam.law(f"draws a fit of {named.name}", partial(_draws, record, fitted))
        else:
            why.append(f"it does not accept a small fit of {named.name}")
    if not exam.report().laws:
        raise NotExercised("; ".join(why))
    return exam.report()


def _draws(record: hooks.PlotSpec, fitted: Fitted) -> Verdict:
    drawing = drawn(record.name, record.summary, lambda ax: record.draw(ax, fitted))
    return True, drawing.title


def _fitted(record: hooks.EstimatorSpec, settings: Mapping[str, Any] | None = None) -> Fitted:
    """Return a fit, with `settings`, of sixteen sequences, or of 80 rows of four times four features in two classes."""
    rng = np.random.default_rng(0)
    labels = np.arange(80) % 2
    rows = rng.standard_normal((80, 16)) + 3 * labels[:, None] * (np.arange(16) < 4)
    X: Any
    if record.input == "sequences":
        X, labels = oscillations(0)
    else:
        X = rows if record.input == "samples" else [rows[:, :8], rows[:, 8:]]
    if record.input == "bags":
        X = [[rows[start : start + 8] for start in range(0, 80, 8)] for rows in X]
        labels = labels[:10]
    estimator = quick(instance(record.factory()), 0)
    if settings:
        estimator.set_params(**settings)
    takes_labels = "y" in inspect.signature(estimator.fit).parameters
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # few iterations may well be too few
        estimator.fit(X, **({"y": labels} if takes_labels else {}))
    return Fitted(estimator, SequenceData(X, labels) if record.input == "sequences" else X, labels)
