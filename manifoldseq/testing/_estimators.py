"""Checks of estimators: scikit-learn's own checks, and additional ones for sequences and views."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

import numpy as np

from ._conventions import Case, alike, common_laws, displayed, instance, learned, quick, raises, unreal
from ._report import Examination, Report, Verdict, unless


def check_estimator(estimator: Any, expected_failures: Mapping[str, str] | None = None) -> Report:
    """Run scikit-learn's ``check_estimator`` on an estimator of samples, and test its display before and after `fit`.

    Parameters
    ----------
    estimator : estimator or estimator class
    expected_failures : mapping of str to str, optional
        Names of checks that fail, each with the reason. A listed check that passes or does not exist is reported as a
        failure.

    Returns
    -------
    Report
        A report with one law for each check.

    Raises
    ------
    TypeError
        If it is not an estimator.

    Examples
    --------
    >>> import manifoldseq as ms
    >>> from sklearn.preprocessing import StandardScaler
    >>> ms.testing.check_estimator(StandardScaler()).ok
    True
    """
    made, expected = instance(estimator), dict(expected_failures or {})
    from sklearn.base import clone
    from sklearn.utils import estimator_checks, get_tags

    exam = Examination(f"estimator {type(made).__name__} (scikit-learn)")
    seen = set()
    with warnings.catch_warnings(action="ignore", category=UserWarning):  # of rows of zeros, and of few distinct ones
        results = estimator_checks.check_estimator(made, expected_failed_checks=expected, on_skip=None, on_fail=None)
    for result in results:
        name, status, error = result["check_name"], result["status"], result["exception"]
        seen.add(name)
        if status == "xfail":
            exam.law(name, lambda name=name: (True, f"fails as expected: {expected[name]}"))
        elif status == "failed" and "'NoneType' object has no attribute 'multi_class'" in str(error.__cause__):
            # of sparse rows: no error of the estimator, whose fit and predict have passed by then
            exam.law(name, lambda: (True, "scikit-learn's check treats estimators with predict_proba as classifiers"))
        elif status == "failed":
            exam.law(name, lambda error=error: (False, f"{type(error).__name__}: {error}".strip()))
        elif status == "passed" and name in expected:
            exam.law(
                name, lambda: (False, "passes, though it is listed as an expected failure: remove it from the list")
            )
        elif status == "passed":
            exam.law(name, lambda: (True, ""))
    for name in expected.keys() - seen:
        exam.law(name, lambda: (False, "is listed as an expected failure, but there is no such check"))

    def shown() -> Verdict:
        unfitted, fitted = (quick(cast(Any, clone(made)), 0) for _ in range(2))
        rng = np.random.default_rng(0)
        X, y = rng.random((60, 4)), np.arange(60) % 2
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tags = get_tags(fitted).target_tags
            target = (y if tags.single_output else rng.random((60, 3))) if tags.required else None
            return displayed(unfitted, fitted.fit(X, target))

    exam.law("its display works before and after fit", shown)
    return exam.report()


def check_sequence_estimator(
    estimator: Any, X: Sequence[np.ndarray] | None = None, y: Any = None, *, seed: int = 0
) -> Report:
    """Check an estimator of sequences, lists of ``(T_i, d)`` arrays, against the conventions of this project.

    Parameters are stored untouched and survive ``clone``; ``fit`` returns the estimator, sets only names with a
    trailing underscore, ``n_features_in_`` among them, does not change its input and is reproducible for a given
    ``random_state``; a 3-D array is treated as a list; ``predict``, ``transform`` and the like return one row per
    sequence, also after pickling; invalid input raises a ``ValueError`` that names the sequence; an unfitted estimator
    raises ``NotFittedError``. The check makes six fits, with ``n_init=1`` and ``max_iter=5`` if the estimator has these
    parameters.

    Parameters
    ----------
    estimator : estimator or estimator class
        A class is instantiated with its default parameters.
    X : list of ndarray of shape (T_i, d), optional
        At least four sequences of at least two channels; by default sixteen noisy oscillations of six channels.
    y : array-like, optional
        Labels; by default the kinds of the oscillations.
    seed : int

    Returns
    -------
    Report

    Raises
    ------
    TypeError, ValueError
        If the argument is not an estimator, or if there are too few sequences.

    Examples
    --------
    >>> import manifoldseq as ms
    >>> estimator = ms.get_estimator("lds-identifier")(n_states=2)
    >>> ms.testing.check_sequence_estimator(estimator).ok
    True
    """
    made = instance(estimator)
    if X is None:
        X, labels = oscillations(seed)
        y = labels if y is None else y
    sequences = [np.asarray(sequence, dtype=float) for sequence in X]
    if len(sequences) < 4:
        raise ValueError(f"check_sequence_estimator: {len(sequences)} sequences are too few: pass at least four")
    case = Case(made, sequences, y, lambda data: (data,), seed)
    exam = Examination(f"sequence estimator {type(made).__name__}")
    if not common_laws(exam, case):
        return exam.report()
    exam.law("n_features_in_ is the number of channels", lambda: _features(case))
    exam.law("one row per sequence", lambda: _rows(case))
    exam.law("a 3-D array is treated as a list", lambda: _three_dimensional(case))
    for name, bad, words in _bad_sequences(sequences):
        exam.law(
            f"raises ValueError for {name}",
            lambda bad=bad, words=words: _rejects(case, bad, words, ["fit", *case.methods()]),
        )
    more = [np.hstack([sequence, sequence[:, :1]]) for sequence in sequences]
    exam.law("raises ValueError for one channel more than in fit", lambda: _rejects(case, more, "", case.methods()))
    return exam.report()


def check_multiview_estimator(estimator: Any, views: Sequence[np.ndarray] | None = None, *, seed: int = 0) -> Report:
    """Check an estimator of several views, arrays of shape ``(N, d_v)``, against the conventions of this project.

    The conventions are the same as for :func:`check_sequence_estimator`. In addition, ``fit(X, Y)`` and ``fit([X, Y])``
    must be equivalent.

    Parameters
    ----------
    estimator : estimator or estimator class
    views : sequence of ndarray of shape (N, d_v), optional
        By default, two views of four and three features, which share two latent features.
    seed : int

    Returns
    -------
    Report

    Raises
    ------
    TypeError, ValueError
        If the argument is not an estimator, or if there is only one view.

    Examples
    --------
    scikit-learn's own estimator of two views takes them only as ``fit(X, Y)``:

    >>> import manifoldseq as ms
    >>> from sklearn.cross_decomposition import PLSSVD
    >>> [law.name for law in ms.testing.check_multiview_estimator(PLSSVD()).failures]
    ['fit(X, Y) is fit([X, Y])']
    """
    made = instance(estimator)
    if views is None:
        rng = np.random.default_rng(seed)
        latent = rng.standard_normal((60, 2))
        views = [latent @ rng.standard_normal((2, d)) + 0.3 * rng.standard_normal((60, d)) for d in (4, 3)]
    arrays = [np.asarray(view, dtype=float) for view in views]
    if len(arrays) < 2:
        raise ValueError("check_multiview_estimator: pass at least two views")
    case = Case(made, arrays, None, tuple, seed)
    exam = Examination(f"multi-view estimator {type(made).__name__}")
    if not common_laws(exam, case):
        return exam.report()

    def listed() -> Verdict:
        first, second = case.once, case.new().fit([*arrays])
        return unless(None if alike(learned(first), learned(second)) else "fit([X, Y]) learns a different result")

    exam.law("fit(X, Y) is fit([X, Y])", listed)
    holed = [arrays[0], arrays[1].copy()]
    holed[1][3, 1] = np.nan
    exam.law("fit raises ValueError for NaN", lambda: raises(lambda: case.fit(case.new(), holed), "NaN"))
    exam.law(
        "fit raises ValueError for views of different length",
        lambda: raises(lambda: case.fit(case.new(), [arrays[0][1:], *arrays[1:]]), ""),
    )
    return exam.report()


def _features(case: Case) -> Verdict:
    channels, found = case.data[0].shape[1], getattr(case.once, "n_features_in_", None)
    return (
        found == channels,
        f"{found}" if found == channels else f"n_features_in_ is {found}, but the data have {channels} channels",
    )


def _rows(case: Case) -> Verdict:
    fitted, some = case.once, case.data[1:4]
    labels = getattr(fitted, "labels_", None)
    if labels is not None and np.shape(labels) != (len(case.data),):
        return False, f"labels_ has shape {np.shape(labels)} for {len(case.data)} sequences"
    for name in case.methods():
        whole, part = case.ask(fitted, name), case.ask(fitted, name, some)
        if name == "score":
            if not (np.ndim(whole) == 0 and np.isfinite(whole)):
                return False, f"score returned {whole!r}, not a number"
        elif (len(whole), len(part)) != (len(case.data), len(some)):
            return False, f"{name} returned {len(part)} rows for {len(some)} sequences"
        elif not _close(part, whole[1:4]):
            return False, f"{name} of a sequence depends on the other sequences"
    return True, ""


def _three_dimensional(case: Case) -> Verdict:
    length = min(map(len, case.data))
    cut = [array[:length] for array in case.data]
    listed, stacked = case.fit(case.new(), cut), case.fit(case.new(), np.stack(cut))
    return unless(None if alike(learned(listed), learned(stacked)) else "fit learned a different result from the array")


def _rejects(case: Case, bad: Any, words: str, methods: list[str]) -> Verdict:
    """Return whether every method raises ValueError for bad input, with the message of the first."""
    said = []
    for name in methods:
        ask = (
            (lambda: case.fit(case.new(), bad)) if name == "fit" else (lambda name=name: case.ask(case.once, name, bad))
        )
        ok, text = raises(ask, words)
        if not ok:
            return False, f"{name} {text}"
        said.append(text)
    return True, said[0] if said else "no method to test"


def _bad_sequences(sequences: list[np.ndarray]) -> Iterable[tuple[str, Any, str]]:
    def replaced(k: int, sequence: Any) -> list[Any]:
        return [*sequences[:k], sequence, *sequences[k + 1 :]]

    holed, infinite = sequences[2].copy(), sequences[1].copy()
    holed[3, 1], infinite[0, 0] = np.nan, np.inf
    yield "NaN", replaced(2, holed), "sequence 2"
    yield "infinity", replaced(1, infinite), "sequence 1"
    yield "mixed channels", replaced(3, sequences[3][:, 1:]), "sequence 3"
    yield "a sequence that is not a matrix", replaced(1, sequences[1][:, 0]), "sequence 1"
    yield "an empty sequence", replaced(2, sequences[2][:0]), "sequence 2"
    yield "an empty list", [], ""
    for name, bad in unreal(sequences[1]):
        yield name, replaced(1, bad), "sequence 1"


def _close(a: Any, b: Any) -> bool:
    """Return whether two answers agree to rounding; rows of records are compared one by one."""
    try:
        return bool(np.allclose(np.asarray(a, dtype=float), np.asarray(b, dtype=float), rtol=1e-6, atol=1e-8))
    except (TypeError, ValueError):
        pairs = zip(a, b, strict=True)
        return all(_close(p, q) for p, q in pairs) if not isinstance(a, str) else a == b


def oscillations(seed: int) -> tuple[list[np.ndarray], np.ndarray]:
    """Return sixteen noisy oscillations of six channels, and which of two frequencies they have."""
    rng, sequences = np.random.default_rng(seed), []
    labels = np.arange(16) % 2
    for label in labels:
        t = np.arange(rng.integers(40, 60))[:, None]
        clean = np.cos(t * (0.3, 0.8)[label] + rng.uniform(0, 6) + np.arange(6))
        sequences.append(clean + 0.1 * rng.standard_normal(clean.shape))
    return sequences, labels
