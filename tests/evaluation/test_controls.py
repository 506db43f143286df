"""Controls against scikit-learn's own pipelines and naive loops."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from helpers import parametrize
from scipy.sparse import csr_array
from sklearn.cluster import KMeans
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import adjusted_rand_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import manifoldseq as ms
from manifoldseq.evaluation import (
    AutocovarianceClassifier,
    AutocovarianceKMeans,
    ChannelStatistics,
    LaggedAutocovariance,
    PrincipalComponents,
    RowClassifier,
    RowKMeans,
    RowNeighbors,
    StatisticsClassifier,
    StatisticsKMeans,
)

RNG = np.random.default_rng(0)
SEQUENCES = [RNG.standard_normal((int(T), 3)).cumsum(axis=0) + 3 * (T % 2) for T in RNG.integers(12, 30, 24)]
LABELS = np.array(["even" if len(x) % 2 == 0 else "odd" for x in SEQUENCES])


def statistics() -> np.ndarray:
    return np.array([[*x.mean(axis=0), *x.std(axis=0)] for x in SEQUENCES])


@pytest.mark.parametrize("channels", [3, 40])
def test_autocovariances_are_those_of_a_loop(channels: int) -> None:
    x = RNG.standard_normal((15, channels)) * np.arange(1, channels + 1)
    z = (x - x.mean(axis=0)) / x.std(axis=0)
    found = LaggedAutocovariance(n_lags=2).fit_transform([x, x[:2]])
    pairs = [(i, i) for i in range(channels)] if channels > 32 else list(np.ndindex(channels, channels))
    expected = [sum(z[t, i] * z[t + lag, j] for t in range(15 - lag)) / 15 for lag in range(3) for i, j in pairs]
    np.testing.assert_allclose(found[0], expected, atol=1e-12)
    assert not found[1][2 * len(pairs) :].any()  # a lag beyond the end


def test_a_channel_that_does_not_vary_has_no_covariance() -> None:
    x = np.column_stack([np.ones(20), np.arange(20.0)])
    assert np.isfinite(LaggedAutocovariance().fit_transform([x])).all()


@pytest.mark.parametrize("value", [-1, 1.5, True])
def test_lags_are_a_whole_number(value: Any) -> None:
    with pytest.raises(ValueError, match=r"n_lags=.* pass a whole number"):
        LaggedAutocovariance(n_lags=value).fit(SEQUENCES)


def test_kmeans_is_that_of_scikit_learn_on_standardized_features() -> None:
    Z = StandardScaler().fit_transform(statistics())
    theirs = KMeans(3, n_init=10, random_state=0).fit(Z)
    ours = StatisticsKMeans(3, random_state=0).fit(SEQUENCES)
    assert adjusted_rand_score(theirs.labels_, ours.labels_) == 1.0
    np.testing.assert_allclose(ours.transform(SEQUENCES), theirs.transform(Z), atol=1e-10)
    np.testing.assert_array_equal(ours.predict(SEQUENCES), ours.labels_)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_classifier_is_that_of_scikit_learn_on_standardized_features(n_classes: int) -> None:
    y = np.arange(len(SEQUENCES)) % 3 if n_classes == 3 else LABELS
    theirs = make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000)).fit(statistics(), y)
    ours = StatisticsClassifier().fit(SEQUENCES, y)
    np.testing.assert_array_equal(ours.predict(SEQUENCES), theirs.predict(statistics()))


@pytest.mark.parametrize("model", [RowKMeans(2, random_state=0), RowClassifier()], ids=lambda m: type(m).__name__)
def test_controls_of_samples_are_kept_in_files(model: Any, tmp_path: Path) -> None:
    X = statistics()
    fitted = model.fit(X, LABELS)
    ms.storage.save_model(fitted, tmp_path)
    np.testing.assert_array_equal(ms.load(tmp_path).predict(X), fitted.predict(X))


@parametrize(
    "model",
    [PrincipalComponents(), RowNeighbors(), RowKMeans(2), RowClassifier()],
    fast=1,
    ids=lambda m: type(m).__name__,
)
def test_controls_of_rows_pass_the_checks_of_scikit_learn(model: Any) -> None:
    ms.testing.check_estimator(model).raise_for_failure()


@pytest.mark.parametrize(
    "model",
    [
        ChannelStatistics(),
        LaggedAutocovariance(),
        StatisticsKMeans(2),
        AutocovarianceKMeans(2),
        StatisticsClassifier(),
        AutocovarianceClassifier(),
    ],
    ids=lambda model: type(model).__name__,
)
def test_controls_of_sequences_pass_the_checks_of_estimators(model: Any) -> None:
    ms.testing.check_sequence_estimator(model).raise_for_failure()


@pytest.mark.parametrize(
    ("model", "names"),
    [
        (PrincipalComponents(2), ["principalcomponents0", "principalcomponents1"]),
        (ChannelStatistics(), [f"channelstatistics{i}" for i in range(6)]),
        (LaggedAutocovariance(0), [f"laggedautocovariance{i}" for i in range(9)]),
        (RowKMeans(2, random_state=0), ["rowkmeans0", "rowkmeans1"]),
        (StatisticsKMeans(2, random_state=0), ["statisticskmeans0", "statisticskmeans1"]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_controls_name_what_they_return(model: Any, names: list[str]) -> None:
    X = statistics() if isinstance(model, PrincipalComponents | RowKMeans) else SEQUENCES
    assert list(model.fit(X).get_feature_names_out()) == names
    assert model.transform(X).shape == (len(X), len(names))
    assert list(model.set_output(transform="pandas").transform(X).columns) == names


def test_controls_keep_the_names_of_channels() -> None:
    frames = [pd.DataFrame(x, columns=["a", "b", "c"]) for x in SEQUENCES]
    for model in (ChannelStatistics(), StatisticsKMeans(2, random_state=0)):
        assert list(model.fit(frames).feature_names_in_) == ["a", "b", "c"]
        with pytest.raises(ValueError, match="channel 0 of X is 'b' but it was 'a' in fit"):
            model.transform([frame[["b", "a", "c"]] for frame in frames])


def test_the_linear_classifier_takes_sparse_rows() -> None:
    X, y = np.abs(statistics()), np.arange(len(SEQUENCES)) % 2
    theirs = LogisticRegression(max_iter=2000).fit(X, y)
    ours = RowClassifier().fit(csr_array(X), y)
    np.testing.assert_array_equal(ours.predict(csr_array(X)), theirs.predict(X))
