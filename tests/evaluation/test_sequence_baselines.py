"""Baselines for sequences against naive loops and properties that they are made for."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

import manifoldseq as ms
from benchmarks.real._generators import gait
from manifoldseq.evaluation import (
    AlignedCurves,
    ConvolutionsClassifier,
    ConvolutionsKMeans,
    CurvesKMeans,
    LogSpectrum,
    RandomConvolutions,
    ResampledCurves,
    SpectrumClassifier,
    SpectrumKMeans,
    WarpingClassifier,
    WarpingKMedoids,
    warping_distances,
)
from manifoldseq.evaluation._sequence_baselines import descriptions_of, explained_share

RNG = np.random.default_rng(5)
SEQUENCES = [RNG.standard_normal((int(T), 2)).cumsum(axis=0) for T in RNG.integers(12, 30, 16)]
LABELS = np.arange(16) % 2


def naive_warping(a: np.ndarray, b: np.ndarray, radius: int) -> float:
    G = np.full((len(a) + 1, len(b) + 1), np.inf)
    G[0, 0] = 0.0
    for i in range(len(a)):
        for j in range(len(b)):
            if abs(i - j) <= radius:
                G[i + 1, j + 1] = np.sum((a[i] - b[j]) ** 2) + min(G[i, j], G[i, j + 1], G[i + 1, j])
    return float(np.sqrt(G[-1, -1]))


@pytest.mark.parametrize(("window", "radius"), [(0.1, 2), (0.5, 10), (1.0, 20)])
def test_warping_distances_are_those_of_a_loop(window: float, radius: int) -> None:
    A, B = RNG.standard_normal((19, 20, 2)), RNG.standard_normal((3, 20, 2))
    expected = [[naive_warping(a, b, radius) for b in B] for a in A]
    np.testing.assert_allclose(warping_distances(A, B, window), expected, atol=1e-10)


def test_spectrum_is_that_of_a_discrete_fourier_transform() -> None:
    x = RNG.standard_normal((40, 2)) * [1.0, 5.0]
    z = (x - x.mean(axis=0)) / x.std(axis=0)
    weights: np.ndarray = np.array(0.5 - 0.5 * np.cos(2 * np.pi * np.arange(40) / 40))  # Hann
    times, frequencies = np.arange(40), np.arange(1, 129) / 256
    waves = np.exp(-2j * np.pi * np.outer(frequencies, times))
    power = np.abs(waves @ (z * weights[:, None])) ** 2 / np.sum(weights**2)
    power[:-1] *= 2  # both signs of a frequency, but for the last
    found = LogSpectrum().fit_transform([x])[0].reshape(2, 129)
    np.testing.assert_allclose(found[:, :128], np.log(power + 1e-3).T, atol=1e-10)
    np.testing.assert_allclose(found[:, 128], np.log(x.std(axis=0)))


def test_curves_have_no_level_size_and_pace() -> None:
    x = SEQUENCES[0]
    slow = np.stack([np.interp(np.linspace(0, 1, 3 * len(x) - 2), np.linspace(0, 1, len(x)), row) for row in x.T], 1)
    a, b = ResampledCurves().fit_transform([x, 5 + 3 * slow])
    np.testing.assert_allclose(a, b, atol=1e-12)
    assert a.shape == (128,) and abs(a[:64].mean()) < 1e-12 and a[:64].std() == pytest.approx(1)


def test_convolutions_are_those_of_a_loop() -> None:
    model = RandomConvolutions(random_state=3).fit(SEQUENCES)
    x = (SEQUENCES[4] - np.concatenate(SEQUENCES).mean(axis=0)) / np.concatenate(SEQUENCES).std(axis=0)
    expected = []
    for step, mixing, thresholds in zip(model.dilations_, model.mixing_, model.thresholds_, strict=True):
        for bias in thresholds:
            for kernel, places in enumerate(combinations(range(9), 3)):
                channel = x @ mixing[:, kernel]
                values = [
                    sum(
                        (2.0 if tap in places else -1.0) * channel[t + (tap - 4) * step]
                        for tap in range(9)
                        if 0 <= t + (tap - 4) * step < len(x)
                    )
                    for t in range(len(x))
                ]
                expected.append(np.mean(np.array(values) > bias[kernel]))
    np.testing.assert_allclose(model.transform([SEQUENCES[4]])[0], expected, atol=1e-12)
    assert set(model.dilations_) == {1, 2, 3}


def test_of_long_sequences_every_kth_response_is_counted() -> None:
    """The shares are nearly those of all responses, and do not depend on the other sequences."""
    rng = np.random.default_rng(0)
    long = [rng.standard_normal((T, 1)).cumsum(axis=0) for T in (2000, 4100, 5500, 13_000)]
    model = RandomConvolutions(random_state=0).fit(long)
    rows = model.transform(long)
    for x, row in zip(long, rows, strict=True):
        np.testing.assert_array_equal(model.transform([x])[0], row)
    step, place = int(model.dilations_[1]), (0, 4, 8)
    weights = np.full(9, -1.0)
    weights[list(place)] = 2.0
    taps = np.zeros(8 * step + 1)
    taps[::step] = weights
    number = list(combinations(range(9), 3)).index(place)
    z = (long[3][:, 0] - model.channel_mean_) / model.channel_scale_
    every = np.mean(np.correlate(np.pad(z, 4 * step), taps, "valid") > model.thresholds_[1, 0, number])
    assert rows[3].reshape(-1, 2, 84)[1, 0, number] == pytest.approx(every, abs=0.03)


@pytest.mark.parametrize("model", [LogSpectrum(), ResampledCurves()], ids=lambda model: type(model).__name__)
def test_rounding_of_a_constant_channel_is_not_blown_up(model: Any) -> None:
    rng = np.random.default_rng(0)
    X = [np.column_stack([x[:, 0], np.full(len(x), 0.1) + 1e-15 * rng.standard_normal(len(x))]) for x in SEQUENCES]
    X[0] = SEQUENCES[0] + 0.0  # where the second channel moves
    rows = model.fit_transform(X)
    second = rows[1:, rows.shape[1] // 2 :]
    assert np.ptp(second, axis=0).max() < 1e-6


def test_medoids_are_nearly_the_best_of_all() -> None:
    found = WarpingKMedoids(3, random_state=0).fit(SEQUENCES[:10])
    D = found.transform(SEQUENCES[:10])
    assert np.allclose(D[found.medoids_, range(3)], 0, atol=1e-6)
    models = [WarpingKMedoids(10, random_state=0).fit(SEQUENCES[:10])]
    every = models[0].transform(SEQUENCES[:10])[:, np.argsort(models[0].medoids_)]
    best = min(every[list(some)].min(axis=0).sum() for some in combinations(range(10), 3))
    assert found.inertia_ == pytest.approx(best, rel=0.1)  # ten starts of a local search


@pytest.mark.parametrize("model", [SpectrumKMeans, ConvolutionsKMeans], ids=lambda m: m.__name__)
def test_frequencies_of_steps_are_found(model: Any) -> None:
    X, y = gait(3)
    assert adjusted_rand_score(y, model(3, random_state=0).fit(X).labels_) > 0.95


MODELS = [
    SpectrumKMeans(2, random_state=0),
    CurvesKMeans(2, random_state=0),
    ConvolutionsKMeans(2, random_state=0),
    WarpingKMedoids(2, random_state=0),
    SpectrumClassifier(),
    ConvolutionsClassifier(random_state=0),
    WarpingClassifier(),
]


@pytest.mark.parametrize(
    "model",
    [*MODELS, LogSpectrum(), ResampledCurves(), RandomConvolutions(0), AlignedCurves()],
    ids=lambda model: type(model).__name__,
)
def test_baselines_pass_the_checks_of_estimators(model: Any) -> None:
    ms.testing.check_sequence_estimator(model).raise_for_failure()


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("model", MODELS[4:], ids=lambda model: type(model).__name__)
def test_classifiers_tell_frequencies_apart(model: Any, n_classes: int) -> None:
    t = np.arange(60)[:, None]
    y = np.arange(24) % n_classes
    X = [np.sin((0.2 + 0.4 * kind) * t) + 0.1 * RNG.standard_normal((60, 1)) for kind in y]
    assert (model.fit(X[:12], y[:12]).predict(X[12:]) == y[12:]).all()
    with pytest.raises(ValueError, match="one class"):
        model.fit(X, np.zeros(24, dtype=int))
    with pytest.raises(ValueError, match=r"y has shape \(3,\) but there are 24 sequences"):
        model.fit(X, y[:3])


def test_explained_shares_are_those_of_a_loop() -> None:
    descriptions = descriptions_of(SEQUENCES)
    assert len(descriptions) == 5 and all(np.mean(Z**2) == pytest.approx(1) for Z in descriptions)
    clusters = np.array(["a", "b", "c", "a"] * 4)
    found = []
    for Z in descriptions:
        total = sum(np.sum((z - Z.mean(axis=0)) ** 2) for z in Z)
        within = sum(np.sum((z - Z[clusters == c].mean(axis=0)) ** 2) for z, c in zip(Z, clusters, strict=True))
        found.append((1 - within / total - 2 / 15) / (1 - 2 / 15))
    assert explained_share(clusters, descriptions) == pytest.approx(np.mean(found))
    shuffled = [explained_share(RNG.permutation(clusters), descriptions) for _ in range(200)]
    assert np.mean(shuffled) == pytest.approx(0, abs=0.01)


def test_a_control_with_other_repeatable_clusters_is_named_without_labels() -> None:
    """Sequences in three rhythms, whose means and deviations tell nothing."""
    X, y = gait(3)
    found = ms.evaluation.evaluate(ms.evaluation.StatisticsKMeans(3, random_state=0).fit(X), X)
    rows = {row["name"]: row for row in found.rows}
    assert "has different clusters (agreement" in found.verdict and "compare both" in found.verdict
    assert rows["spectrum-kmeans"]["explained"] > rows["statistics-kmeans"]["explained"] + 0.05
    right = ms.evaluation.evaluate(SpectrumKMeans(3, random_state=0).fit(X), X)
    assert "; no control has different clusters that are as repeatable" in right.verdict
    assert "explained" not in ms.evaluation.evaluate(SpectrumKMeans(3, random_state=0).fit(X), X, y).rows[0]
