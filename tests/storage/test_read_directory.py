"""The reader of folders: order, labels, and the sentence for each defect."""

from __future__ import annotations

import numpy as np
import pytest

from manifoldseq.storage import ReadError, read_directory


def fill(folder, files):
    """Write files; the value is an array for .npy, else text; None makes a folder."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if content is None:
            path.mkdir()
        elif isinstance(content, str):
            path.write_text(content)
        else:
            np.save(path, content)
    return folder


def test_files_in_natural_order(tmp_path):
    files = {f"walk{i}.npy": np.full((i + 1, 2), i) for i in range(12)}
    data = read_directory(fill(tmp_path / "walks", {**files, ".hidden": "x"}))
    assert [len(x) for x in data.sequences] == list(range(1, 13))
    assert data.name == "walks" and data.labels is None


def test_tables_with_and_without_names(tmp_path):
    data = read_directory(fill(tmp_path / "a", {"1.csv": "x,y\n1,2\n3,\n", "2.csv": "x,y\n5,6\n"}))
    np.testing.assert_array_equal(data.sequences[0], [[1, 2], [3, np.nan]])
    assert data.channel_names == ("x", "y")
    data = read_directory(fill(tmp_path / "b", {"1.csv": "1\n3\n", "2.CSV": "5\n"}))
    assert [x.ravel().tolist() for x in data.sequences] == [[1, 3], [5]] and data.channel_names is None


def test_folders_are_labels(tmp_path):
    one = np.zeros(3)
    data = read_directory(fill(tmp_path, {"run/1.npy": one, "walk/2.npy": one, "walk/10.npy": one[:2]}))
    assert data.labels is not None and data.labels.tolist() == ["run", "walk", "walk"]
    assert [x.shape for x in data.sequences] == [(3, 1), (3, 1), (2, 1)]


ONE = np.ones((2, 2))
BAD = {
    "nothing": ({".hidden": ""}, "has no files: keep one kind, .npy or .csv, with one sequence per file"),
    "mixed": ({"a.npy": ONE, "b.csv": "1,2\n"}, "has files of the kinds .csv, .npy: keep one kind"),
    "unknown": ({"a.wav": ""}, "has files of the kinds .wav"),
    "beside folders": ({"a/1.npy": ONE, "b.npy": ONE}, "b.npy is a file beside subfolders: keep one subfolder"),
    "too deep": ({"a/b/1.npy": ONE}, "b is a folder in a subfolder"),
    "three dimensions": ({"a.npy": np.ones((2, 2, 2))}, "a.npy has an array of shape (2, 2, 2)"),
    "channels": ({"a.npy": ONE, "b.npy": ONE[:, :1]}, "b.npy has an array of shape (2, 1): save one sequence per file"),
    "damaged": ({"a.npy": ONE, "b.npy": "x"}, "b.npy cannot be read as a .npy file"),
    "empty": ({"a.csv": "", "b.csv": "1\n"}, "a.csv is empty"),
    "a word": ({"a.csv": "x\n1\n\nhigh\n"}, "a.csv, line 4, column 'x' is 'high', no number in decimal digits"),
    "cells": ({"a.csv": "1,2\n1\n"}, "a.csv, line 2 has 1 cells, unlike the first with 2"),
    "names only": ({"a.csv": "x,y\n"}, "a.csv has no row of numbers"),
    "other names": ({"a.csv": "x\n1\n", "b.csv": "y\n1\n"}, "b.csv names its channels otherwise than a.csv"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_defects_get_one_sentence(tmp_path, case):
    files, sentence = BAD[case]
    with pytest.raises(ReadError) as caught:
        read_directory(fill(tmp_path, files))
    assert str(caught.value).startswith(str(tmp_path)) and sentence in str(caught.value)
    assert "\n" not in str(caught.value)


def test_all_files_together_are_bounded(tmp_path, leave_memory):
    fill(tmp_path, {f"{i}.npy": np.zeros((1000, 2)) for i in range(4)})
    leave_memory(2 * 50_000)
    with pytest.raises(ReadError, match="of memory"):
        read_directory(tmp_path)


def test_no_folder(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_directory(tmp_path / "none")
    with pytest.raises(NotADirectoryError):
        read_directory(fill(tmp_path, {"a.npy": ONE}) / "a.npy")
