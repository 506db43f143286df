"""Sequence filters on a way travelled twice."""

import numpy as np
import pytest
from hierarchical.problems import long_path

from manifoldseq_hierarchical import HierarchicalSequenceEncoder


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
