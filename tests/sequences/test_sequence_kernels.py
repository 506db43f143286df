"""Kernels of sequences: laws of kernels, and descriptions against naive loops and scipy."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
import scipy.signal

import manifoldseq as ms
from manifoldseq_sequences import (
    AutocovarianceKernel,
    ConvolutionsKernel,
    ShapeKernel,
    SpectrumKernel,
    StatisticsKernel,
    WarpingKernel,
)

NAMES = "statistics spectrum autocovariance shape warping convolutions dynamics".split()


def walks(N=7, d=2, seed=0, low=20, high=50):
    """Return random walks of different lengths."""
    rng = np.random.default_rng(seed)
    return [np.cumsum(rng.standard_normal((int(rng.integers(low, high)), d)), axis=0) for _ in range(N)]


@pytest.mark.parametrize("name", NAMES)
def test_registered_kernels_satisfy_the_laws(name: str) -> None:
    assert ms.testing.check_kernel(name).ok
    record = ms.hooks.get_record(ms.hooks.KernelSpec, name)
    fitted = record.factory().fitted([(x,) for x in walks(12)])
    report = ms.testing.check_kernel(fitted, [(x,) for x in walks(8, seed=1)])
    assert report.ok, str(report)


@pytest.mark.parametrize("name", NAMES)
def test_units_of_the_channels_do_not_count_after_a_fit(name: str) -> None:
    """What is measured in other units is compared as before."""
    X, units = walks(12), np.array([1e4, 1e-3])
    grams = []
    for data in (X, [x * units for x in X]):
        kernel = ms.get_kernel(name).fitted(data, 2)
        packed = kernel.pack(data)
        grams.append(kernel.cross(packed, packed))
    np.testing.assert_allclose(grams[0], grams[1], atol=2e-4)


def test_warping_is_that_of_a_loop_over_the_table() -> None:
    X = [x - x.mean(axis=0) for x in walks(6, d=3, low=1, high=30, seed=3)]
    kernel = WarpingKernel(band=1.0, channels=np.full(3, 1e9))
    Z = [kernel.standardized(x) for x in X]

    def distance(a, b):
        table = np.full((len(a) + 1, len(b) + 1), np.inf)
        table[0, 0] = 0
        for i, j in np.ndindex(len(a), len(b)):
            least = min(table[i, j], table[i, j + 1], table[i + 1, j])
            table[i + 1, j + 1] = np.square(a[i] - b[j]).sum() + least
        return table[-1, -1] / max(len(a), len(b))

    packed = kernel.pack(X)
    expected = [[distance(a, b) for b in Z] for a in Z]
    np.testing.assert_allclose(kernel.squared(packed, packed), expected, rtol=1e-4, atol=1e-7)
    np.testing.assert_allclose(kernel.squared(packed[1:], packed[[0]])[:, 0], np.array(expected)[1:, 0], rtol=1e-4)


def test_a_narrow_band_still_connects_sequences_of_very_different_lengths() -> None:
    kernel = WarpingKernel(band=0.01)
    packed = kernel.pack([np.arange(n, dtype=float)[:, None] for n in (1, 2, 3, 7, 30, 63)])
    assert np.isfinite(kernel.squared(packed, packed)).all()


def test_a_band_forbids_alignments_that_are_far_from_the_diagonal() -> None:
    t = np.arange(60)[:, None]
    bumps = [np.exp(-np.square((t - place) / 2.0)) for place in (15, 24, 45)]
    packed = WarpingKernel().pack(bumps)
    free, banded = WarpingKernel(band=1.0).squared(packed, packed), WarpingKernel(band=0.2).squared(packed, packed)
    assert np.isclose(free[0, 1], banded[0, 1], atol=1e-3) and banded[0, 2] > 10 * (free[0, 2] + 0.01)


def test_spectra_are_means_of_those_of_scipy() -> None:
    """A tone has its power in the bin of its frequency, whatever its phase, and bins hold what Welch's method gives."""
    rng, t = np.random.default_rng(0), np.arange(400)
    x = np.sin(2 * np.pi * 20 / 256 * t + rng.uniform(0, 6))[:, None] + 0.1 * rng.standard_normal((400, 1))
    row = SpectrumKernel().describe([x])[0]
    frequency, power = scipy.signal.welch(x[:, 0], nperseg=256)
    edges = np.expm1(np.linspace(0, np.log1p(128), 33))
    peak = int(np.searchsorted(edges, 256 * frequency[power.argmax()]) - 1)
    assert abs(int(row.argmax()) - peak) <= 1
    flat = SpectrumKernel(n_bins=8, segment=64).describe([rng.standard_normal((20_000, 1))])[0]
    assert np.ptp(flat[1:]) < 0.3  # white noise has a flat spectrum; the first bin holds the mean, which is subtracted


def test_autocovariances_are_sums_of_products() -> None:
    x = walks(1, d=3, seed=2)[0]
    row = AutocovarianceKernel(n_lags=3).describe([x])[0]
    z = (x - x.mean(axis=0)) / x.std(axis=0)
    own = [[sum(z[t, c] * z[t + lag, c] for t in range(len(z) - lag)) / len(z) for c in range(3)] for lag in (1, 2, 3)]
    np.testing.assert_allclose(row[:9], np.ravel(own) / np.sqrt(3))
    correlations = np.corrcoef(x.T)[np.triu_indices(3, 1)]
    np.testing.assert_allclose(row[9:], correlations)


def test_statistics_are_means_and_deviations() -> None:
    X = walks(9)
    rows = StatisticsKernel().describe(X)
    np.testing.assert_allclose(rows, [[*x.mean(axis=0), *np.log(x.std(axis=0))] for x in X])
    kernel = StatisticsKernel().fitted(X)
    np.testing.assert_allclose(kernel.describe(X).std(axis=0), 1.0)


@pytest.mark.parametrize("length", [7, 64, 65, 200, 1000])
def test_a_straight_line_keeps_its_shape_at_any_length(length: int) -> None:
    kernel = ShapeKernel(n_points=16)
    line, longer = (kernel.describe([np.linspace(0, 3, n)[:, None]])[0] for n in (length, 4096))
    np.testing.assert_allclose(np.diff(line), np.diff(line).mean(), atol=2e-4)
    np.testing.assert_allclose(line, longer, atol=0.08)


def test_responses_to_convolutions_are_shares_of_steps_above_a_threshold() -> None:
    """Against numpy's convolution, of one channel and one spacing."""
    X = walks(5, d=1, seed=4)
    kernel = ConvolutionsKernel().fitted(X)
    rows = kernel.describe(X).reshape(len(X), len(kernel.dilations), 84, 2)
    every = list(combinations(range(9), 3))
    for place in (0, 1, 2), (0, 1, 3), (3, 4, 6):
        number = every.index(place)
        a = 1
        dilation = kernel.dilations[a]
        weights = np.full(9, -1.0)
        weights[list(place)] = 2.0
        taps = np.zeros(8 * dilation + 1)
        taps[::dilation] = weights
        for i, x in enumerate(X):
            z = kernel.standardized(x)[:, 0]
            response = np.convolve(np.pad(z, 4 * dilation), taps[::-1], mode="valid")
            expected = (response > kernel.thresholds[a, number, 0]).mean()
            assert abs(rows[i, a, number, 0] - expected) < 2 / len(z)


def test_a_motif_is_found_wherever_it_is() -> None:
    rng = np.random.default_rng(0)
    X = []
    for i in range(10):
        x = 0.1 * rng.standard_normal(150)
        at = int(rng.integers(5, 110))
        x[at : at + 30] += np.sin(np.linspace(0, (2, 6)[i % 2] * np.pi, 30))
        X.append(x[:, None])
    kernel = ConvolutionsKernel().fitted(X)
    packed = kernel.pack(X)
    K = kernel.cross(packed, packed) - 2 * np.eye(10)
    assert ((K.argmax(axis=1) % 2) == np.arange(10) % 2).all()


def test_a_constant_channel_is_no_error() -> None:
    X = [np.column_stack([x[:, 0], np.full(len(x), 3.0)]) for x in walks()]
    for name in NAMES[:-1]:
        kernel = ms.get_kernel(name).fitted(X)
        packed = kernel.pack(X)
        assert np.isfinite(kernel.cross(packed, packed)).all()
