"""Numerical parts by themselves: moments in one pass, singular directions, quantizers, and filters of distances.

Their accuracy at the ends of the number range, their bytes and their sums over all ways cannot be told from a fitted
encoder, whose answers are rounded, coded and compared with each other.
"""

import mpmath
import numpy as np
import pytest
from helpers import parametrize
from hierarchical.problems import frames, means

from manifoldseq_hierarchical._closed_form import completed, leading_directions, nearest
from manifoldseq_hierarchical._filtering import (
    _JUMP,
    _KEEP,
    _SLIP,
    _SLIP_EVERY,
    Doubt,
    Motion,
    along_lines,
    marginals,
    windows,
)
from manifoldseq_hierarchical._moments import Moments, frame_blocks
from manifoldseq_hierarchical._quantize import BITS, ProductQuantizer, ScalarQuantizer


@parametrize("dtype", [np.float64, np.float32, np.float16, np.int16, np.uint8, bool], fast=3)
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
    assert codes.dtype == np.uint8 and codes.shape == (50, -(-m // 4) + -(-m // 8) if bits == 3 else -(-m * bits // 8))
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


def chain(speeds, n, t):
    """Return the probabilities from one state to another between queries t - 1 and t, by loops over the definition."""
    states = [(s, p) for s in range(len(speeds)) for p in range(n)]
    made = np.zeros((len(states), len(states)))
    for i, (s, p) in enumerate(states):
        for change in (-1, 0, 1):
            share = _KEEP if change == 0 else (1 - _KEEP) / 2
            to = s + change
            if not 0 <= to < len(speeds):
                to = s  # at the slowest and the fastest the speed stays
            moved = p + int(np.floor(t * speeds[to] + 0.5)) - int(np.floor((t - 1) * speeds[to] + 0.5))
            moved = min(max(moved, 0), n - 1)
            slip = _SLIP * _SLIP_EVERY if t % _SLIP_EVERY == 0 else 0.0
            for off, part in ((-1, slip), (0, 1 - 2 * slip), (1, slip)):
                cell = min(max(moved + off, 0), n - 1)
                made[i, states.index((to, cell))] += share * part
    return made + _JUMP / len(states)


def posterior_by_loops(seen, speeds, smooth):
    """Return the forward-backward algorithm in logarithms, state by state."""
    n, size = seen.shape[1], len(speeds) * seen.shape[1]
    log = np.log(np.tile(seen, (1, len(speeds))))
    moves = [np.log(chain(speeds, n, t)) for t in range(len(seen))]
    ahead = [log[0]]
    for t in range(1, len(seen)):
        ahead.append(np.array([np.logaddexp.reduce(ahead[-1] + moves[t][:, j]) + log[t, j] for j in range(size)]))
    back = [np.zeros(size)]
    for t in range(len(seen) - 1, 0, -1):
        back.append(np.array([np.logaddexp.reduce(moves[t][i] + log[t] + back[-1]) for i in range(size)]))
    total = np.array(ahead) + (np.array(back[::-1]) if smooth else 0)
    total -= np.logaddexp.reduce(total, axis=1, keepdims=True)
    return np.exp(total).reshape(len(seen), len(speeds), n).sum(axis=1)


def posterior(seen, speeds, smooth):
    made = np.full(seen.shape, np.nan)
    motion, doubt = Motion(speeds, seen.shape[1]), Doubt(*seen.shape)
    parts = marginals(lambda rows: seen[rows].astype(np.float32), len(seen), motion, smooth, doubt)
    for rows, probabilities in parts:
        made[rows] = probabilities
    return made


@pytest.mark.parametrize("smooth", [False, True])
@pytest.mark.parametrize("speeds", [[1.0], [-1.1, -0.2], [-0.5, 0.0, 0.5], [0.4, 0.9, 1.4]])
@pytest.mark.parametrize("n_queries", [1, 2, 19])
def test_the_filter_against_loops_in_logarithms(smooth, speeds, n_queries):
    seen = np.exp(-4 * np.random.default_rng(1).random((n_queries, 7)))
    speeds = np.array(speeds)
    np.testing.assert_allclose(
        posterior(seen, speeds, smooth), posterior_by_loops(seen, speeds, smooth), rtol=1e-4, atol=1e-7
    )


@pytest.mark.parametrize("smooth", [False, True])
def test_the_filter_against_the_sum_over_all_ways(smooth):
    seen, speeds = np.exp(-3 * np.random.default_rng(2).random((4, 3))), np.array([0.3, 1.0])
    moves = [chain(speeds, 3, t) for t in range(4)]
    sums = np.zeros((4, 3))
    for way in np.ndindex(*[6] * 4):
        weights = [seen[t, way[t] % 3] * (moves[t][way[t - 1], way[t]] if t else 1.0) for t in range(4)]
        for t in range(4):
            sums[t, way[t] % 3] += np.prod(weights if smooth else weights[: t + 1])
    # a way that is cut counts once for each of its 6 ** (3 - t) ends, the same at all cells
    np.testing.assert_allclose(posterior(seen, speeds, smooth), sums / sums.sum(axis=1, keepdims=True), rtol=1e-4)


@pytest.mark.parametrize("speeds", [[-3.0, 2.0], [0.4, 0.9]])
def test_moves_back_are_the_transpose_of_moves_ahead(speeds):
    """The first range leaves cells between its speeds, over which it spreads."""
    rng, motion = np.random.default_rng(0), Motion(np.array(speeds), 30)
    a, b = rng.random((2, 2, 30), dtype=np.float32)
    for t in (1, 8):
        assert float(np.vdot(motion.ahead(a, t), b)) == pytest.approx(float(np.vdot(a, motion.back(b.copy(), t))))


@pytest.mark.parametrize("reach", [0.2, 0.5, 1.0, 1.7, 2.5, 6.1, 40.0])
def test_windows_against_a_loop(reach):
    P = np.random.default_rng(0).dirichlet(np.full(9, 0.3), 20)
    places, shares = windows(P, reach)
    part = [[max(0.0, min(j + 0.5, c + reach) - max(j - 0.5, c - reach)) for j in range(9)] for c in range(9)]
    inside = P @ np.array(part).T
    np.testing.assert_allclose(shares, inside.max(axis=1), rtol=1e-12)
    for row, place, share in zip(P, places, shares, strict=True):
        means = [row * w @ np.arange(9) / (row @ w) for w in np.array(part) if row @ w > share * (1 - 1e-12)]
        assert min(abs(place - mean) for mean in means) < 1e-9


def test_lines_backwards():
    squared = np.full((6, 9), 5.0)
    squared[np.arange(6), 7 - np.arange(6)] = 1.0
    squared[3] = 5.0  # nothing seen
    np.testing.assert_array_equal(along_lines(squared, (-1.0, -1.0), 4)[3:], (7 - np.arange(6))[3:])
