"""Numerical parts by themselves: moments in one pass, singular directions, quantizers, and filters of distances.

Their accuracy at the ends of the number range, their bytes and their sums over all ways cannot be told from a fitted
encoder, whose answers are rounded, coded and compared with each other.
"""

import mpmath
import numpy as np
import pytest
from hierarchical.problems import frames, means

from manifoldseq_hierarchical._closed_form import completed, leading_directions, nearest
from manifoldseq_hierarchical._filtering import _EVIDENCE, _JUMP, along_lines, bayes
from manifoldseq_hierarchical._moments import Moments, frame_blocks
from manifoldseq_hierarchical._quantize import BITS, ProductQuantizer, ScalarQuantizer


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


@pytest.mark.parametrize("second", [1e-3, 1e-2])
def test_small_singular_values_against_50_digits(second):
    """The Gram matrix would lose the last two; the singular values decide, and their directions are right."""
    rng, wanted = np.random.default_rng(0), np.array([1.0, second, 1e-8, 1e-11])
    B = np.linalg.qr(rng.standard_normal((5, 4)))[0] * wanted @ np.linalg.qr(rng.standard_normal((40, 4)))[0].T
    V, s = leading_directions(B, 1e-14)
    with mpmath.workdps(50):
        exact = mpmath.matrix(B.tolist())
        values = mpmath.eigsy(exact * exact.T, eigvals_only=True)
        reference = np.sqrt([float(abs(value)) for value in list(values)[::-1]])
        residual = exact - exact * mpmath.matrix(V.tolist()) * mpmath.matrix(V.T.tolist())
        left = float(mpmath.norm(residual))
    assert V.shape == (40, 4)
    np.testing.assert_allclose(s[:4], reference[:4], rtol=0, atol=1e-15)
    assert left < 1e-15


def test_by_gram_matrix_and_by_singular_values_agree():
    B = np.random.default_rng(0).standard_normal((6, 40))
    V, s = leading_directions(B, 1e-12)
    _, reference, Vt = np.linalg.svd(B, full_matrices=False)
    np.testing.assert_allclose(s, reference, rtol=1e-13)
    np.testing.assert_allclose(V @ V.T, Vt.T @ Vt, rtol=0, atol=1e-13)
    assert (V[np.abs(V).argmax(axis=0), range(6)] > 0).all()


def test_more_coordinates_than_the_rank_are_a_complement():
    B = np.random.default_rng(0).standard_normal((3, 10))
    V, _ = leading_directions(B, 1e-12, 8)
    np.testing.assert_allclose(V.T @ V, np.eye(8), rtol=0, atol=1e-13)
    np.testing.assert_allclose(np.linalg.norm(B @ V[:, :3]), np.linalg.norm(B), rtol=1e-13)
    np.testing.assert_array_equal(completed(np.zeros((4, 0)), 4), np.eye(4))


def test_nearest_by_matrix_products_is_the_nearest():
    rng = np.random.default_rng(0)
    Z, codes = rng.standard_normal((500, 7)), rng.standard_normal((11, 7))
    labels, squared = nearest(Z, codes)
    distances = np.array([[np.sum((z - c) ** 2) for c in codes] for z in Z])
    np.testing.assert_array_equal(labels, distances.argmin(axis=1))
    np.testing.assert_allclose(squared, distances.min(axis=1), atol=1e-12)


@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize("m", [1, 3, 8, 13])
def test_packing(bits, m):
    Z = np.random.default_rng(m).standard_normal((50, m)) * np.arange(1, m + 1)
    quantizer = ScalarQuantizer.of(Z, bits)
    codes = quantizer.encode(Z)
    assert codes.dtype == np.uint8 and codes.shape == (50, -(-m * bits // 8))
    decoded = quantizer.decode(codes)
    np.testing.assert_array_equal(quantizer.encode(decoded), codes)
    if bits == 32:
        np.testing.assert_array_equal(decoded, Z.astype(np.float32))
    # each coordinate takes the nearest of its own levels
    for j in range(m):
        levels = np.unique(decoded[:, j])
        nearest = levels[np.abs(Z[:, [j]] - levels).argmin(axis=1)]
        np.testing.assert_allclose(np.abs(Z[:, j] - decoded[:, j]), np.abs(Z[:, j] - nearest), atol=1e-5)


@pytest.mark.parametrize(("bits", "error"), [(1, 0.3634), (2, 0.1175), (4, 0.009497)])
def test_errors_on_normal_coordinates_are_those_of_max(bits, error):
    """Max, "Quantizing for minimum distortion" (1960), table I."""
    Z = np.random.default_rng(0).standard_normal((200_000, 2)) * [0.01, 100]
    quantizer = ScalarQuantizer.of(Z, bits)
    measured = np.mean((quantizer.decode(quantizer.encode(Z)) - Z) ** 2, axis=0) / np.mean(Z**2, axis=0)
    np.testing.assert_allclose(measured, error, rtol=0.02)


def test_bytes_cover_the_range():
    Z = np.random.default_rng(0).uniform(-3, 3, (5000, 4))
    quantizer = ScalarQuantizer.of(Z, 8)
    assert np.abs(quantizer.decode(quantizer.encode(Z)) - Z).max() <= 3 / 255 * 1.01


def test_constant_coordinates():
    quantizer = ScalarQuantizer.of(np.zeros((10, 3)), 2)
    assert np.isfinite(quantizer.decode(quantizer.encode(np.zeros((10, 3))))).all()


def test_product_codes_are_the_nearest():
    rng = np.random.default_rng(0)
    quantizer = ProductQuantizer(rng.standard_normal((3, 256, 2)).astype(np.float32))
    Z = rng.standard_normal((40, 6)).astype(np.float32)
    codes = quantizer.encode(Z)
    for g in range(3):
        distances = ((Z[:, None, 2 * g : 2 * g + 2] - quantizer.codebooks[g]) ** 2).sum(axis=2)
        np.testing.assert_array_equal(codes[:, g], distances.argmin(axis=1))
        np.testing.assert_array_equal(
            quantizer.decode(codes)[:, 2 * g : 2 * g + 2], quantizer.codebooks[g][codes[:, g]]
        )


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
