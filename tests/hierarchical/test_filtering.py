"""Sequence filters against loops, and on a way travelled twice."""

import numpy as np
import pytest

from manifoldseq_hierarchical import HierarchicalSequenceEncoder
from manifoldseq_hierarchical._filtering import _EVIDENCE, _JUMP, along_lines, bayes
from manifoldseq_papers.hierarchical._generated_paths import long_path


@pytest.fixture
def squared():
    return np.random.default_rng(0).random((12, 15)) * 4


def test_lines_against_a_loop(squared):
    found = along_lines(squared, (0.5, 2.0), 4)
    for t in range(len(squared)):
        best = {}
        for speed in np.linspace(0.5, 2.0, 7):
            for j in range(15):
                steps = range(min(t + 1, 4))
                cost = np.mean([squared[t - back, np.clip(j - round(back * speed), 0, 14)] for back in steps])
                best[j] = min(cost, best.get(j, np.inf))
        assert best[found[t]] == pytest.approx(min(best.values()))


@pytest.mark.parametrize("smooth", [False, True])
def test_bayes_against_the_sum_over_all_ways(smooth):
    squared = np.random.default_rng(1).random((4, 5)) * 3
    n = squared.shape[1]
    # speed exactly 1: each query moves by one point, or anywhere at all
    move = (1 - _JUMP) * np.eye(n, k=1) + _JUMP / n
    nearest = squared.min(axis=1, keepdims=True)
    likelihood = np.exp((nearest - squared) * _EVIDENCE / np.median(squared.mean(axis=1, keepdims=True) - nearest))
    ways = np.zeros((4, n))
    for way in np.ndindex(*[n] * 4):
        weights = [likelihood[t, way[t]] * (move[way[t - 1], way[t]] if t else 1.0) for t in range(4)]
        for t in range(4):
            ways[t, way[t]] += np.prod(weights if smooth else weights[: t + 1])
    np.testing.assert_array_equal(bayes(squared, (1.0, 1.0), smooth), ways.argmax(axis=1))


def test_moving_backwards():
    squared = np.full((6, 9), 5.0)
    squared[np.arange(6), 7 - np.arange(6)] = 1.0
    squared[3] = 5.0  # nothing seen
    np.testing.assert_array_equal(bayes(squared, (-1.0, -1.0), False), 7 - np.arange(6))
    np.testing.assert_array_equal(along_lines(squared, (-1.0, -1.0), 4)[3:], (7 - np.arange(6))[3:])


@pytest.mark.parametrize("settings", [{}, {"smooth": True}, {"method": "lines", "window": 20}])
def test_consecutive_frames_are_found_where_single_ones_are_not(settings):
    X = long_path(3000, 32, seed=0)
    encoder = HierarchicalSequenceEncoder(20).fit(X)
    t = np.arange(400, 1000, 2)
    Q = X[t] + 2 * np.random.default_rng(0).standard_normal((len(t), 32), dtype=np.float32)
    alone = np.mean(np.abs(encoder.predict(Q) - t) <= 20)
    together = np.mean(np.abs(encoder.match(Q, speed=(1.0, 3.0), **settings) - t) <= 20)
    assert alone < 0.7 and together > alone + 0.15


@pytest.mark.parametrize("method", ["bayes", "lines"])
def test_no_speed_is_beyond_the_whole_sequence(method):
    X = long_path(400, 4)
    encoder = HierarchicalSequenceEncoder(20).fit(X)
    found = [encoder.match(X[:9], method=method, speed=(-fast, fast)) for fast in (400, 1e300)]
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [({"method": "guess"}, "'bayes' or 'lines'"), ({"window": 0}, "window=0"), ({"speed": (2, 1)}, "and the largest"),
     ({"speed": 1.0}, "least and the largest"), ({"speed": (0, np.nan)}, "least and the largest"),
     ({"speed": "fast"}, "speed='fast' is not valid")],
)  # fmt: skip
def test_refused(settings, sentence):
    X = long_path(400, 4)
    encoder = HierarchicalSequenceEncoder(20).fit(X)
    with pytest.raises(ValueError, match=sentence):
        encoder.match(X, **settings)
    with pytest.raises(ValueError, match="labels='segments'"):
        HierarchicalSequenceEncoder(20, labels="digits").fit(X).match(X)
