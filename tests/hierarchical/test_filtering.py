"""Sequence filters on a way travelled twice."""

import numpy as np
import pytest
from helpers import parametrize
from hierarchical.problems import long_path

from manifoldseq_hierarchical import HierarchicalSequenceEncoder
from manifoldseq_hierarchical._filtering import news


@pytest.mark.parametrize("settings", [{}, {"smooth": True}, {"method": "lines", "window": 20}])
def test_consecutive_frames_are_found_where_single_ones_are_not(settings):
    X = long_path(3000, 32, seed=0)
    encoder = HierarchicalSequenceEncoder(20).fit(X)
    t = np.arange(400, 1000, 2)
    Q = X[t] + 2 * np.random.default_rng(0).standard_normal((len(t), 32), dtype=np.float32)
    alone = np.mean(np.abs(encoder.predict(Q) - t) <= 20)
    together = np.mean(np.abs(encoder.match(Q, speed=(1.0, 3.0), **settings) - t) <= 20)
    assert alone < 0.7 and together > alone + 0.15


WAYS = {
    "backwards": (np.arange(1500, 1200, -1), (-2, -0.5)),
    "a stop": (np.r_[1000:1100, [1100] * 60, 1100:1200], (0, 2)),
    "there and back": (np.r_[1000:1150, 1150:1000:-1], (-2, 2)),
    "faster and slower": (1000 + np.cumsum(np.repeat([0.6, 1.9, 1.0], 80)), (0.5, 2)),
    "carried off, and the same place again": (np.r_[1000:1150, 1050:1200], (0.5, 2)),
    "to the last frame": (np.arange(2800, 3000), (0.5, 2)),
    "to the first frame": (np.arange(200, -1, -1), (-2, -0.5)),
    "one speed": (np.arange(1000, 1200), (1, 1)),
}


@parametrize("name", WAYS, fast=3)
def test_ways_of_travelling(name):
    t, speed = WAYS[name]
    t = np.rint(t).astype(int)
    X = long_path(3000, 64, seed=1)
    encoder = HierarchicalSequenceEncoder().fit(X)
    for seed in range(3):
        Q = X[t] + 2 * np.random.default_rng(seed).standard_normal((len(t), 64), dtype=np.float32)
        # codes of two bits are off by ten frames here and there: for long, where a traveller stands still
        places, probabilities = encoder.match_proba(Q, speed=speed, smooth=True, tolerance=20)
        right = np.abs(places - t) <= 20
        assert right.mean() > 0.95 > np.mean(np.abs(encoder.predict(Q) - t) <= 20) + 0.1
        assert abs(right.mean() - probabilities.mean()) < 0.05


@pytest.fixture(scope="module")
def known():
    """A way of 8000 frames and its encoder."""
    X = long_path(8000, 64, seed=2)
    return X, HierarchicalSequenceEncoder().fit(X)


WAITING = {
    "to the last frame": (np.minimum(7900 + np.arange(200), 7999), (0, 2)),
    "back to the first frame": (np.maximum(100 - np.arange(200), 0), (-2, 0)),
    "at the last frame": (np.full(100, 7999), (0, 2)),
    "at the last frame, and back": (np.full(100, 7999), (-2, 0)),
    "at the first frame, and on": (np.full(100, 0), (0, 2)),
    "at the first frame": (np.full(100, 0), (-2, 0)),
}


@parametrize("smooth", [False, True], fast=1)
@pytest.mark.parametrize("name", WAITING)
def test_waiting_at_an_end_of_the_way(known, name, smooth):
    """All its queries have the error of the path there in common: it must be no larger than elsewhere."""
    (t, speed), (X, encoder) = WAITING[name], known
    right, wrong = [], []
    for seed in range(3):
        Q = X[t] + 2 * np.random.default_rng(seed).standard_normal((len(t), 64), dtype=np.float32)
        places, probabilities = encoder.match_proba(Q, speed=speed, smooth=smooth)
        right.append(np.abs(places - t) <= 10)
        wrong.append((np.abs(places - t) > 10) & (probabilities > 0.9))
    assert np.mean(right) > 0.85 and np.mean(wrong) < 0.1


WRONG = {
    "reversed": (np.arange(3000, 3200), (-2, -0.5)),
    "too fast": (np.arange(3000, 3200), (5, 20)),
    "too slow": (np.arange(3000, 3800, 4), (0.5, 2)),
    "turned round": (np.arange(3200, 3000, -1), (0.5, 2)),
    "thrown about": (np.random.default_rng(0).permutation(8000)[:200], (0.5, 2)),
}


@parametrize("smooth", [False, True], fast=1)
@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_range_of_speeds_loses_and_says_so(known, name, smooth):
    """Else the range says nothing: transitions that leak from cell to cell let every speed through."""
    (t, speed), (X, encoder) = WRONG[name], known
    Q = X[t] + 2 * np.random.default_rng(0).standard_normal((len(t), 64), dtype=np.float32)
    with pytest.warns(UserWarning, match="does not seem to move by speed"):
        places, probabilities = encoder.match_proba(Q, speed=speed, smooth=smooth)
    wrong = np.abs(places - t) > 10
    assert wrong.mean() > 0.4
    assert probabilities.mean() < 0.3 and np.mean(wrong & (probabilities > 0.9)) < 0.06


def test_a_stop_out_of_the_range_is_doubted_while_it_lasts(known):
    X, encoder = known
    t = np.r_[1000:1150, [1150] * 80, 1150:1300]
    Q = X[t] + 2 * np.random.default_rng(0).standard_normal((len(t), 64), dtype=np.float32)
    probabilities = encoder.match_proba(Q, speed=(0.8, 1.2), smooth=True)[1]
    assert probabilities[160:220].mean() < 0.2 < 0.9 < probabilities[:130].mean()
    assert probabilities[260:].mean() > 0.9


@pytest.mark.parametrize("smooth", [False, True])
def test_the_same_frame_again_is_no_further_evidence(smooth):
    """Errors that queries have in common do not average out: one photograph sixty times makes nothing sure."""
    X = long_path(120, 64, seed=2)
    encoder = HierarchicalSequenceEncoder(1, bits=8).fit(X)
    rng, wrong = np.random.default_rng(0), []
    for t in rng.integers(10, 110, size=20):
        Q = np.repeat(X[t][None] + 2 * rng.standard_normal((1, 64), dtype=np.float32), 60, axis=0)
        places, probabilities = encoder.match_proba(Q, speed=(0.5, 2), smooth=smooth, tolerance=5)
        wrong.append(np.mean((np.abs(places - t) > 5) & (probabilities > 0.9)))
    assert np.mean(wrong) < 0.02


@pytest.mark.parametrize("noise", [0, 0.3, 1])
@parametrize("n", [2, 5, 30], fast=2)
def test_short_runs_are_as_sure_as_they_are_right(known, n, noise):
    """Neighbouring queries have the error of the codes in common: that is no reason to trust the coordinates less."""
    X, encoder = known
    rng, right, probability = np.random.default_rng(0), [], []
    for t in rng.integers(X.shape[0] - n, size=40 if n < 30 else 10):
        frames = t + np.arange(n)
        Q = X[frames] + np.float32(noise) * rng.standard_normal((n, 64), dtype=np.float32)
        places, probabilities = encoder.match_proba(Q, smooth=True)
        right.append(np.mean(np.abs(places - frames) <= 10))
        probability.append(probabilities.mean())
    assert np.mean(right) - np.mean(probability) < 0.1


def test_independent_errors_all_count():
    rng = np.random.default_rng(0)
    errors = rng.standard_normal((400, 32), dtype=np.float32)
    np.testing.assert_array_equal(news(errors, errors[::4]), 1)
    shares = news(np.repeat(errors, 2, axis=0), errors)
    assert (shares[2::2] == 1).all() and shares[1::2].max() <= 0.05


@pytest.mark.parametrize("scale", [1e-12, 1e12])
def test_places_have_no_unit_of_the_frames(scale):
    X = long_path(800, 8)
    Q = X[300:350] + np.random.default_rng(0).standard_normal((50, 8), dtype=np.float32)
    (a, p), (b, q) = (HierarchicalSequenceEncoder(20).fit(c * X).match_proba(c * Q, smooth=True) for c in (1, scale))
    np.testing.assert_allclose(a, b, atol=0.05)
    np.testing.assert_allclose(p, q, atol=0.01)


@pytest.mark.parametrize("length", [1, 3, 20])
@pytest.mark.parametrize("smooth", [False, True])
def test_own_frames_and_a_single_one(length, smooth):
    X = long_path(600, 16)
    encoder = HierarchicalSequenceEncoder(length, bits=32).fit(X)
    places, probabilities = encoder.match_proba(X[100:200], smooth=smooth)
    assert np.abs(places - np.arange(100, 200)).max() <= 10 and probabilities.min() > 0.5
    assert np.abs(encoder.match(X[250:251], smooth=smooth) - 250) <= 10


@pytest.mark.parametrize("method", ["bayes", "lines"])
def test_no_speed_is_beyond_the_whole_sequence(method):
    X = long_path(400, 4)
    encoder = HierarchicalSequenceEncoder(20).fit(X)
    found = [encoder.match(X[::45], method=method, speed=(-fast, fast)) for fast in (400, 1e300)]
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [({"method": "guess"}, "'bayes' or 'lines'"),
     ({"method": "lines", "smooth": True}, "smooth=True needs"), ({"window": 0}, "window=0"),
     ({"tolerance": 0}, "tolerance=0"),
     ({"speed": (2, 1)}, "and the largest"),
     ({"speed": 1.0}, "least and the largest"), ({"speed": (0, np.nan)}, "least and the largest"),
     ({"speed": "fast"}, "speed='fast' is not valid")],
)  # fmt: skip
def test_rejected(settings, sentence):
    X = long_path(400, 4)
    encoder = HierarchicalSequenceEncoder(20).fit(X)
    with pytest.raises(ValueError, match=sentence):
        encoder.match(X, **settings)
