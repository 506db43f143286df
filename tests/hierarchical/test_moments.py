"""Moments of classes in one pass: against loops, at large offsets, in pieces, and in little memory."""

import tracemalloc

import numpy as np
import pytest
from hierarchical.problems import frames, means

from manifoldseq_hierarchical import SubspaceEncoder
from manifoldseq_hierarchical._moments import Moments, frame_blocks


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, np.int16, np.uint8, bool])
@pytest.mark.parametrize("offset", [0, 90])
@pytest.mark.parametrize("d", [7, 520])
def test_against_loops(dtype, offset, d):
    X, y = frames(500, d, 4, spread=6.0)
    X = (X + offset).astype(dtype)
    moments, exact = Moments.of(X, y), X.astype(np.longdouble)
    mu = means(exact, y)
    np.testing.assert_allclose(moments.centroids, mu.astype(float), rtol=0, atol=1e-13 * np.abs(mu).max())
    np.testing.assert_array_equal(moments.counts, np.bincount(y))
    within = float(sum(np.sum((x - mu[k]) ** 2) for x, k in zip(exact, y, strict=True)))
    assert moments.within == pytest.approx(within, rel=1e-12)
    for origin in (moments.mean, np.zeros(d), np.full(d, 3.0)):
        assert moments.scatter(origin) == pytest.approx(float(np.sum((exact - origin) ** 2)), rel=1e-12)


@pytest.mark.parametrize(("d", "h"), [(7, 4), (520, 4), (520, 900)])  # 900 classes: more than frames
def test_frames_that_move_are_as_if_they_had_come_there(d, h):
    rng = np.random.default_rng(0)
    X, old, new = rng.standard_normal((300, d)), rng.integers(0, h, 300), rng.integers(0, h, 300)
    moments, there = Moments.of(X, old, h), Moments.of(X, new, h)
    moments.move(X, old, new)
    np.testing.assert_allclose(moments.sums, there.sums, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(moments.counts, there.counts)


def test_a_large_common_offset_costs_no_digits():
    X, y = frames(2000, 6, 3)
    far = X + 2.0**20  # exact to 2⁻³²
    near = far - 2.0**20
    assert Moments.of(far, y).within == pytest.approx(Moments.of(near, y).within, rel=1e-12)
    assert np.sum(np.square(far)) * 1e-16 > 0.1  # what plain sums of squares would lose


def test_blocks_cover_every_frame_once():
    for shape in ((5, 3), (100_000, 30), (3, 2_000_000)):
        slices = list(frame_blocks(np.broadcast_to(0.0, shape)))
        assert [i for rows in slices for i in (rows.start, rows.stop)][1:-1:2] == [rows.start for rows in slices[1:]]
        assert slices[0].start == 0 and slices[-1].stop == shape[0]


@pytest.mark.parametrize("order", ["C", "F"])
def test_in_pieces_with_new_classes_is_at_once(order):
    X, y = frames(30_000, 40, 6)
    X = np.asarray(X, order=order)
    whole, parts = Moments.of(X, np.sort(y)), Moments.empty(X, 0)
    for rows in np.array_split(np.arange(len(X)), 7):
        parts.add(X[rows], np.sort(y)[rows])
    np.testing.assert_array_equal(parts.counts, whole.counts)
    np.testing.assert_allclose(parts.centroids, whole.centroids, rtol=1e-12, atol=1e-13)
    assert parts.within == pytest.approx(whole.within, rel=1e-13)


def test_more_classes_than_frames_of_a_block():
    X = np.random.default_rng(0).standard_normal((300, 3000))
    y = np.random.default_rng(1).permutation(300)
    np.testing.assert_array_equal(Moments.of(X, y).centroids, X[np.argsort(y)])


def test_a_bad_block_adds_nothing():
    X, y = frames(20, 4, 2)
    moments = Moments.of(X, y)
    bad = np.array([[1.0, 2, 3, 4], [1, np.inf, 3, 4]])
    with pytest.raises(ValueError, match="frame 1 has infinity in feature 1: remove or fill it"):
        moments.add(bad, np.array([0, 5]))
    assert moments.n == 20 and len(moments.counts) == 2


def test_no_matrix_of_the_size_of_the_features_squared():
    d, h = 20_000, 50
    X, y = frames(200, d, h)
    tracemalloc.start()
    SubspaceEncoder().fit(X, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10 * h * d * 8
