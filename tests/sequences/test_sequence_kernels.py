"""Kernels of sequences: laws of kernels, and descriptions against naive loops and scipy."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.spatial
from helpers import needs

import manifoldseq as ms
from manifoldseq_sequences import AutocovarianceKernel, ConvolutionsKernel, ShapeKernel, StatisticsKernel, WarpingKernel

OWN = "statistics spectrum autocovariance shape warping convolutions".split()
NAMES = [*OWN, pytest.param("dynamics", marks=needs("lds"))]


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


FEATURES = {
    "spectrum": ms.evaluation.LogSpectrum(),
    "shape": ms.evaluation.ResampledCurves(),
    "convolutions": ms.evaluation.RandomConvolutions(0),
    "warping": ms.evaluation.AlignedCurves(),
}


@pytest.mark.parametrize("name", FEATURES)
def test_kernels_are_gaussians_of_the_distances_of_baselines(name: str) -> None:
    """The median squared distance of the sequences of the fit is the width."""
    X, new = walks(36), walks(5, seed=1)
    kernel, features = ms.get_kernel(name).fitted(X), FEATURES[name].fit(X)
    A, B = features.transform(new), features.transform(X)

    def distances(A, B):
        if name != "warping":
            return scipy.spatial.distance.cdist(A, B)
        return ms.evaluation.warping_distances(A.reshape(len(A), -1, 2), B.reshape(len(B), -1, 2))

    width = np.median(distances(B, B)[np.triu_indices(36, 1)] ** 2)
    packed = kernel.pack(X)
    expected = np.exp(-(distances(A, B) ** 2) / width)
    np.testing.assert_allclose(kernel.cross(kernel.pack(new), packed), expected, atol=1e-10)
    np.testing.assert_allclose(kernel.cross(packed, packed), np.exp(-(distances(B, B) ** 2) / width), atol=1e-10)


def test_a_band_forbids_alignments_that_are_far_from_the_diagonal() -> None:
    t = np.arange(60)[:, None]
    bumps = [np.exp(-np.square((t - place) / 2.0)) for place in (15, 24, 45)]
    packed = WarpingKernel().pack(bumps)
    free, banded = WarpingKernel(band=1.0).squared(packed, packed), WarpingKernel(band=0.2).squared(packed, packed)
    assert np.isclose(free[0, 1], banded[0, 1], atol=0.1) and banded[0, 2] > 10 * (free[0, 2] + 0.01)


def test_levels_count_for_warping_and_convolutions_but_not_for_spectra_and_shapes() -> None:
    """Sequences of one shape on two levels."""
    rng = np.random.default_rng(0)
    X = [np.sin(np.arange(50) / 5)[:, None] + 5 * (i % 2) + 0.1 * rng.standard_normal((50, 1)) for i in range(10)]
    for name, expected in (("warping", True), ("convolutions", True), ("spectrum", False), ("shape", False)):
        kernel = ms.get_kernel(name).fitted(X)
        K = kernel.cross(kernel.pack(X), kernel.pack(X))
        same = K[np.ix_(range(0, 10, 2), range(0, 10, 2))][np.triu_indices(5, 1)]
        assert (same.min() > K[::2, 1::2].max()) == expected, name


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
    np.testing.assert_allclose(line, longer, atol=1e-10)


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
    for name in OWN:
        kernel = ms.get_kernel(name).fitted(X)
        packed = kernel.pack(X)
        assert np.isfinite(kernel.cross(packed, packed)).all()


@pytest.mark.parametrize("name", ["spectrum", "autocovariance", "shape"])
def test_levels_are_not_told_apart_by_their_rounding(name: str) -> None:
    """These descriptions ignore a constant that is added, whose rounding is all that is left of it."""
    walk = walks(1)[0]
    items = [(walk + level,) for level in range(8)]
    kernel = ms.get_kernel(name).fitted(items)
    packed = kernel.pack(items)
    np.testing.assert_array_equal(kernel.cross(packed, packed), 1.0)


@pytest.mark.parametrize("name", OWN)
def test_equal_sequences_have_the_kernel_one(name: str) -> None:
    items = [(x,) for x in [walks(1)[0]] * 6 + walks(2, seed=1)]
    kernel = ms.get_kernel(name).fitted(items[:6])
    packed = kernel.pack(items)
    np.testing.assert_array_equal(kernel.cross(packed, packed)[:6, :6], 1.0)
    np.testing.assert_array_equal(kernel.cross(kernel.pack(items[:1]), packed)[:, :6], 1.0)
