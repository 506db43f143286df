"""The core's readers are found by the names of files."""

from __future__ import annotations

import numpy as np
import pytest
from storage.samples import PARAMETERS, SAMPLES

import manifoldseq as ms


@pytest.mark.parametrize("name", PARAMETERS)
def test_every_kind_of_file(name, tmp_path):
    sample = SAMPLES[name]
    path = sample.write(tmp_path, sample.contents()[0])
    data, expected = ms.storage.read(path), sample.read(path)
    assert len(data) == len(expected)
    for x, y in zip(data.sequences, expected.sequences, strict=True):
        np.testing.assert_array_equal(x, y)


def test_an_unknown_name_lists_the_known_ones(tmp_path):
    (tmp_path / "walk.doc").touch()
    with pytest.raises(ms.storage.ReadError) as caught:
        ms.storage.read(tmp_path / "walk.doc")
    for pattern in ("*.csv", "*.mat", "*.npy", "*.npz", "*.parquet", "*.ts", "*/"):
        assert pattern in str(caught.value)


def test_options_reach_the_reader(tmp_path):
    path = tmp_path / "walk.csv"
    path.write_text("x;y\n1;2\n")
    assert ms.storage.read(path, id=None, time=None, delimiter=";").sequences[0].tolist() == [[1, 2]]
