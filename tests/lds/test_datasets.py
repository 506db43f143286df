"""Recorded sequences in aeon's wheel, no import of aeon; generated ones: what tells their classes apart."""

import subprocess
import sys
from importlib.util import find_spec

import numpy as np
import pytest
from helpers import parametrize

import manifoldseq as ms

needs_aeon = pytest.mark.skipif(find_spec("aeon") is None, reason="aeon's data files are not installed")


def load(name):
    """Return a data set by its name."""
    return ms.hooks.get_dataset(name).loader()


@needs_aeon
def test_japanese_vowels():
    data = load("japanese-vowels")
    assert len(data) == 640 and {x.shape[1] for x in data.sequences} == {12}
    lengths = [len(x) for x in data.sequences]
    assert (min(lengths), max(lengths)) == (7, 29)
    assert data.labels is not None and sorted(set(data.labels)) == list("123456789")
    assert np.unique(data.labels[:270], return_counts=True)[1].tolist() == [30] * 9
    assert data.sequences[0][0, 0] == 1.860936


@needs_aeon
def test_basic_motions():
    data = load("basic-motions")
    assert np.stack(data.sequences).shape == (80, 100, 6) and data.sampling_rate == 10
    assert data.labels is not None and np.unique(data.labels, return_counts=True)[1].tolist() == [20] * 4
    assert data.sequences[0][0, 0] == 0.079106


@pytest.mark.slow
@needs_aeon
def test_aeon_itself_is_not_imported():
    code = (
        "import sys, manifoldseq as ms; ms.hooks.get_dataset('basic-motions').loader(); "
        "assert 'aeon' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_missing_files_raise_an_error(monkeypatch):
    monkeypatch.setitem(sys.modules, "aeon", None)
    with pytest.raises(FileNotFoundError) as caught:
        load("basic-motions")
    assert str(caught.value) == "aeon's data files are not installed: run `pip install --no-deps aeon`"


GENERATED = {
    "damaged-structure": (80, (200, 6), 4),
    "noisy-textures": (80, (80, 64), 4),
    "echoes": (60, (200, 1), 3),
    "two-tones": (60, (200, 1), 3),
}


@parametrize(("name", "expected"), GENERATED.items(), fast=1)
def test_generated_sets_repeat_and_have_other_seeds(name, expected):
    loader = ms.hooks.get_dataset(name).loader
    data, again, other = loader(), loader(0), loader(1)
    classes, counts = np.unique(data.labels, return_counts=True)
    assert (len(data), data.sequences[0].shape, len(classes)) == expected and len(set(counts)) == 1
    np.testing.assert_array_equal(data.sequences, again.sequences)
    assert not np.isclose(data.sequences, other.sequences).all(axis=(1, 2)).any()


def test_the_damage_is_in_the_spectrum():
    """The highest natural frequency of the whole row is 2 sin(6 π / 14) radians per second; damage lowers it."""
    data = ms.hooks.get_dataset("damaged-structure").loader(0, per_class=5, T=4000)
    highest = {}
    for label in ("whole", "spring 4"):
        power = sum(
            np.abs(np.fft.rfft(x, axis=0)) ** 2 for x, y in zip(data.sequences, data.labels, strict=True) if y == label
        )
        angle = np.fft.rfftfreq(4000, 0.5) * 2 * np.pi
        highest[label] = angle[np.argmax(np.where(angle > 1.83, power.sum(axis=1), 0))]
    assert highest["whole"] == pytest.approx(2 * np.sin(6 * np.pi / 14), abs=0.01)
    assert highest["spring 4"] < highest["whole"] - 0.05


def test_an_echo_is_where_its_label_says():
    data = ms.hooks.get_dataset("echoes").loader(0, T=2000)
    for x, label in zip(data.sequences, data.labels, strict=True):
        correlation = [float(np.mean(x[lag:] * x[:-lag])) for lag in range(1, 14)]
        assert f"after {1 + int(np.argmax(correlation))}" == label


def test_tones_are_as_far_apart_as_their_label_says():
    data = ms.hooks.get_dataset("two-tones").loader(0, T=2000)
    for x, label in zip(data.sequences, data.labels, strict=True):
        power, angle = np.abs(np.fft.rfft(x[:, 0])) ** 2, 2 * np.pi * np.fft.rfftfreq(2000)
        low, high = (angle[np.argmax(np.where(part, power, 0))] for part in (angle < 0.6, angle > 0.6))
        assert float(label.split()[0]) == pytest.approx(high - low, abs=0.01)


def test_textures_have_one_mean_and_variance():
    data = ms.hooks.get_dataset("noisy-textures").loader(0, per_class=5, T=400, noise=0.5)
    moments = np.array([(x.mean(), x.var()) for x in data.sequences])
    np.testing.assert_allclose(moments, [[0.0, 1.0]] * 20, atol=0.03)
