"""Filter banks against sums written out, slopes against least squares."""

from __future__ import annotations

import math

import numpy as np
import pytest

from manifoldseq_papers import deltas, filter_bank


def naive(signal: np.ndarray, start: int, n_filters: int) -> list[float]:
    """Return log energies of one frame of 400 samples at 16 kHz, term by term."""
    frame = [float(x) for x in signal[start : start + 400]]
    energy = math.log(max(sum(x * x for x in frame), 1.0))
    sharp = [frame[0] * (1 - 0.97)] + [frame[t] - 0.97 * frame[t - 1] for t in range(1, 400)]
    sharp = [x * (0.54 - 0.46 * math.cos(2 * math.pi * t / 399)) for t, x in enumerate(sharp)]
    power = []
    for k in range(257):
        angles = 2 * math.pi * k / 512 * np.arange(400)
        power.append(float(np.dot(sharp, np.cos(angles)) ** 2 + np.dot(sharp, np.sin(angles)) ** 2))
    corners = [i * 2595 * math.log10(1 + 8000 / 700) / (n_filters + 1) for i in range(n_filters + 2)]
    found = []
    for i in range(n_filters):
        total = 0.0
        for k, value in enumerate(power):
            mel = 2595 * math.log10(1 + 16000 * k / 512 / 700)
            total += value * float(np.interp(mel, corners[i : i + 3], [0, 1, 0]))
        found.append(math.log(max(total, 1.0)))
    return [*found, energy]


@pytest.mark.parametrize("n_filters", [40, 23])
def test_filter_banks_are_sums_of_a_transform_written_out(n_filters: int) -> None:
    rng = np.random.default_rng(0)
    signal = np.round(500 * rng.standard_normal(16000 // 10))
    features = filter_bank(signal, n_filters=n_filters)
    assert features.shape == (8, n_filters + 1)
    for frame in (0, 5):
        np.testing.assert_allclose(features[frame], naive(signal, 160 * frame, n_filters), rtol=1e-10)


def test_energies_have_a_lower_bound_and_do_not_depend_on_blocks() -> None:
    assert (filter_bank(np.zeros(400)) == 0).all()
    signal = np.random.default_rng(0).standard_normal(160 * 5000) * 100
    far = filter_bank(signal)
    np.testing.assert_allclose(far[4500:], filter_bank(signal[160 * 4500 :]), rtol=1e-12)


def test_slopes_are_those_of_least_squares() -> None:
    x = np.random.default_rng(0).standard_normal((30, 3))
    found = deltas(x)
    for t in range(2, 28):
        np.testing.assert_allclose(found[t], np.polyfit(np.arange(-2, 3), x[t - 2 : t + 3], 1)[0], atol=1e-12)
    first = np.vstack([x[0], x[0], x[0], x[1], x[2]])
    np.testing.assert_allclose(found[0], np.polyfit(np.arange(-2, 3), first, 1)[0], atol=1e-12)


@pytest.mark.parametrize(
    ("signal", "settings", "words"),
    [
        (np.zeros(399), {}, "399 samples, but a frame has 400"),
        (np.zeros((400, 2)), {}, "one channel"),
        (np.full(400, np.nan), {}, "the signal contains NaN"),
        (np.zeros(400), {"n_filters": 0}, "n_filters=0"),
        (np.zeros(400), {"n_filters": 200}, "contains no frequency"),
    ],
)
def test_bad_input_raises_an_error(signal: np.ndarray, settings: dict[str, int], words: str) -> None:
    with pytest.raises(ValueError) as caught:
        filter_bank(signal, **settings)
    assert words in str(caught.value)


@pytest.mark.parametrize("shape", [(5,), (0, 3), (2, 2, 2)])
def test_slopes_are_of_frames(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"features have shape .*: pass"):
        deltas(np.zeros(shape))
