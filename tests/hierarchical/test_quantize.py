"""Quantizers: packing is exact, errors are those of theory, product codes are the nearest."""

import numpy as np
import pytest

from manifoldseq_hierarchical._quantize import BITS, ProductQuantizer, ScalarQuantizer


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
