"""The recorded sequences in aeon's wheel: shapes, classes, and no import of aeon."""

import subprocess
import sys
from importlib.util import find_spec

import numpy as np
import pytest

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


@needs_aeon
def test_aeon_itself_is_not_imported():
    code = (
        "import sys, manifoldseq as ms; ms.hooks.get_dataset('basic-motions').loader(); "
        "assert 'aeon' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_missing_files_get_one_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "aeon", None)
    with pytest.raises(FileNotFoundError) as caught:
        load("basic-motions")
    assert str(caught.value) == "aeon's data files are not installed: run `pip install --no-deps aeon`"
