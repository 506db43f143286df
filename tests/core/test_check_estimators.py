"""The checkers of estimators fail on each broken convention."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from core.cases import failing
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from manifoldseq import testing
from manifoldseq.estimators import random_generator, validate_sequences


class Means(TransformerMixin, BaseEstimator, auto_wrap_output_keys=None):  # type: ignore[call-arg]
    """Distances of the means of sequences to randomly chosen ones of them."""

    def __init__(self, n_means: int = 2, *, random_state: Any = None) -> None:
        self.n_means = n_means
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Means:
        sequences = validate_sequences(self, X, reset=True, min_length=2)
        means = np.stack([x.mean(axis=0) for x in sequences])
        self.means_ = means[random_generator(self.random_state).permutation(len(means))[: self.n_means]]
        return self

    def transform(self, X: Any) -> np.ndarray:
        check_is_fitted(self, "means_")
        sequences = validate_sequences(self, X, reset=False, min_length=2)
        return np.stack([np.linalg.norm(x.mean(axis=0) - self.means_, axis=1) for x in sequences])

    def predict(self, X: Any) -> np.ndarray:
        return np.argmin(self.transform(X), axis=1)


class ChangesParameters(Means):
    def __init__(self, n_means: int = 2, *, random_state: Any = None) -> None:
        super().__init__(n_means=int(n_means) + 0, random_state=[random_state])


class WritesInput(Means):
    def fit(self, X: Any, y: Any = None) -> Means:
        for x in X:
            x -= x.mean(axis=0)
        return super().fit(X)


class ReturnsNothing(Means):
    def fit(self, X: Any, y: Any = None) -> Any:
        super().fit(X)


class NoUnderscore(Means):
    def fit(self, X: Any, y: Any = None) -> Means:
        self.number = len(X)
        return super().fit(X)


class EarlyUnderscore(Means):
    def __init__(self, n_means: int = 2, *, random_state: Any = None) -> None:
        super().__init__(n_means, random_state=random_state)
        self.count_ = 0


class Irreproducible(Means):
    def fit(self, X: Any, y: Any = None) -> Means:
        super().fit(X)
        self.means_ = self.means_ + np.random.default_rng().standard_normal(self.means_.shape)
        return self


class SetsParameter(Means):
    def fit(self, X: Any, y: Any = None) -> Means:
        self.random_state = np.random.default_rng(0)
        return super().fit(X)


class AnswersUnfitted(Means):
    def predict(self, X: Any) -> np.ndarray:
        return np.zeros(len(X), int)


class AcceptsAnything(Means):
    def fit(self, X: Any, y: Any = None) -> Means:
        self.n_features_in_ = 6
        self.means_ = np.zeros((1, 1))
        return self

    def transform(self, X: Any) -> np.ndarray:
        check_is_fitted(self, "means_")
        return np.zeros((len(X), 1))


class OneRowTooMany(Means):
    def transform(self, X: Any) -> np.ndarray:
        rows = super().transform(X)
        return np.vstack([rows, rows[:1]])

    def predict(self, X: Any) -> np.ndarray:
        return super().predict(X)[:-1]


class DependsOnOthers(Means):
    def transform(self, X: Any) -> np.ndarray:
        rows = super().transform(X)
        return rows - rows.mean(axis=0)


class NoFeatures(Means):
    def fit(self, X: Any, y: Any = None) -> Means:
        super().fit(X)
        self.n_features_in_ = 1
        return self


def test_a_right_sequence_estimator_passes() -> None:
    testing.check_sequence_estimator(Means).raise_for_failure()
    testing.check_sequence_estimator(
        Means(n_means=3), [np.random.default_rng(i).random((9, 2)) for i in range(5)]
    ).raise_for_failure()


@pytest.mark.parametrize(
    ("estimator", "word"),
    [
        (ChangesParameters, "parameters are stored unchanged"),
        (WritesInput, "fit wrote into its input"),
        (ReturnsNothing, "fit returns the estimator"),
        (NoUnderscore, "without an underscore: ['number']"),
        (EarlyUnderscore, "set before fit: ['count_']"),
        (Irreproducible, "two fits with one random_state"),
        (SetsParameter, "fit replaced the parameters ['random_state']"),
        (AnswersUnfitted, "predict raised no NotFittedError"),
        (AcceptsAnything, "raises ValueError for NaN: fit accepted it"),
        (OneRowTooMany, "transform returned 4 rows for 3 sequences"),
        (DependsOnOthers, "transform of a sequence depends on the other sequences"),
        (NoFeatures, "n_features_in_ is 1, but the data have 6 channels"),
    ],
)
def test_broken_sequence_estimators_fail(estimator: type, word: str) -> None:
    report = testing.check_sequence_estimator(estimator)
    assert any(word in str(law) for law in report.failures), report


def test_sequence_estimators_need_enough_and_to_be_one() -> None:
    with pytest.raises(TypeError, match="is not an estimator"):
        testing.check_sequence_estimator(3)
    with pytest.raises(ValueError, match="too few: pass at least four"):
        testing.check_sequence_estimator(Means, [np.ones((3, 2))])


class Correlation(TransformerMixin, BaseEstimator, auto_wrap_output_keys=None):  # type: ignore[call-arg]
    """The singular vectors of the cross-covariance of two views."""

    strict = True

    def __init__(self) -> None:
        pass

    def fit(self, X: Any, Y: Any = None) -> Correlation:
        X, Y = self._views(X, Y)
        self.U_, _, self.V_ = np.linalg.svd((X - X.mean(axis=0)).T @ (Y - Y.mean(axis=0)))
        return self

    def transform(self, X: Any, Y: Any = None) -> np.ndarray:
        if not hasattr(self, "U_"):
            raise NotFittedError("fit first")
        X, Y = self._views(X, Y)
        return np.hstack([X @ self.U_, Y @ self.V_.T])

    def _views(self, X: Any, Y: Any) -> list[np.ndarray]:
        views = [np.asarray(view, float) for view in ((X, Y) if Y is not None else X)]
        if self.strict and any(not np.all(np.isfinite(view)) for view in views):
            raise ValueError("a view has NaN")
        return views


class Lax(Correlation):
    strict = False

    def fit(self, X: Any, Y: Any = None) -> Correlation:
        super().fit(X, Y)
        if Y is None:
            self.U_ = -self.U_
        return self


def test_multiview_estimators() -> None:
    testing.check_multiview_estimator(Correlation).raise_for_failure()
    report = testing.check_multiview_estimator(Lax())
    failing(report, "fit([X, Y]) learns a different result", "fit raises ValueError for NaN")
    with pytest.raises(ValueError, match="at least two views"):
        testing.check_multiview_estimator(Correlation, [np.ones((3, 2))])


def test_scikit_learns_checks_are_wrapped() -> None:
    from sklearn.preprocessing import FunctionTransformer, StandardScaler

    report = testing.check_estimator(StandardScaler)
    assert report.ok and len(report.laws) > 30
    name = report.laws[0].name
    failing(testing.check_estimator(StandardScaler(), {name: "no reason"}), "remove it from the list")
    failing(testing.check_estimator(StandardScaler(), {"check_nothing": "no reason"}), "there is no such check")

    class Squares(FunctionTransformer):
        def fit(self, X: Any, y: Any = None) -> Any:
            self.left = 1
            return super().fit(X, y)

    broken = testing.check_estimator(Squares())
    assert not broken.ok
    expected = {law.name: "sets an attribute without underscore" for law in broken.failures}
    listed = testing.check_estimator(Squares(), expected)
    assert listed.ok and "fails as expected: sets an attribute" in str(listed)
