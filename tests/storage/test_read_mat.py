"""The reader of MATLAB files: both formats, and the error for each defect."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.io
import scipy.sparse
from helpers import parametrize
from storage.samples import (
    LABELS,
    assert_sequences,
    cell,
    deflated_element,
    mat73_bytes,
    mat_bytes,
    needs,
    rejects,
    sequences,
)

from manifoldseq.storage import ReadError, read_mat


@pytest.fixture
def write(tmp_path):
    def write(content):
        path = tmp_path / "walks.mat"
        path.write_bytes(content)
        return path

    return write


@pytest.mark.parametrize("compressed", [False, True])
def test_cell_array(write, compressed):
    data = read_mat(write(mat_bytes(compressed, walks=cell(sequences()), y=[[1.0, 2.0, 1.0]])))
    assert_sequences(data, sequences())
    assert data.labels is not None and data.labels.tolist() == [1, 2, 1] and data.labels.dtype == np.int64


def test_channels_first(write):
    path = write(mat_bytes(walks=cell([x.T for x in sequences()])))
    assert_sequences(read_mat(path, orientation="channels-first"), sequences())


@pytest.mark.parametrize("dtype", ["f8", "f4", "u1", "i8"])
def test_numeric_arrays(write, dtype):
    block = np.arange(24).reshape(3, 4, 2).astype(dtype)
    assert_sequences(read_mat(write(mat_bytes(block=block))), list(block))
    assert_sequences(read_mat(write(mat_bytes(block=block)), orientation="channels-first"), [x.T for x in block])
    assert_sequences(read_mat(write(mat_bytes(block=block[0]))), [block[0]])


@pytest.mark.parametrize("labels", [cell(LABELS), np.array([x.ljust(4) for x in LABELS])])
def test_labels_as_text(write, labels):
    data = read_mat(write(mat_bytes(x=cell(sequences()), who=labels)), variable="x", labels="who")
    assert data.labels is not None and [label.strip() for label in data.labels] == LABELS


def test_only_the_wanted_variable_is_loaded(write, leave_memory):
    path = write(mat_bytes(True, x=cell(sequences()), big=np.zeros((10**4, 200))))
    leave_memory(2 * 2**20)
    assert_sequences(read_mat(path, variable="x"), sequences())
    with pytest.raises(ReadError, match=r"would need 0\.0596 GiB"):
        read_mat(path, variable="big")


def test_files_of_matlab_itself():
    """Files of many versions and machines, shipped with scipy's own tests, are read, or raise an error of one line."""
    folder = Path(scipy.io.__file__).parent / "matlab" / "tests" / "data"
    for path in folder.glob("*.mat"):
        try:
            data = read_mat(path)
        except (ReadError, ImportError) as error:
            assert str(error).startswith(str(path))
        else:
            assert all(np.isfinite(x).all() for x in data.sequences)
    for path in folder.glob("testmatrix_[5-7]*.mat"):
        np.testing.assert_array_equal(read_mat(path).sequences[0], scipy.io.loadmat(path)["testmatrix"])


GOOD = mat_bytes(x=cell(sequences()))
HEAD = GOOD[:128]


def edited(place: int, value: int) -> bytes:
    """Return the good file with another 32-bit number after its header."""
    content = bytearray(GOOD)
    content[128 + place : 132 + place] = np.array([value], "<u4").tobytes()
    return bytes(content)


BAD = {
    "empty": (b"", {}, "is empty: expected a MATLAB file"),
    "text": (b"x = [1 2 3]", {}, "is not a MATLAB file of version 5 to 7.3: save it with save('-v7', …)"),
    "header only": (HEAD, {}, "has no variable that could be the sequences: save a cell array"),
    "cut": (GOOD[:-20], {}, "bytes remain"),
    "size": (edited(4, 2**32 - 8), {}, "has an element of 4294967288 bytes, but only"),
    "cells": (edited(32, 2**31 - 1), {}, "has a cell array of 3 cells whose header says 6442450941"),
    "negative": (edited(32, 2**32 - 1), {}, "has a variable of shape (-1, 3)"),
    "compressed claim": (
        deflated_element(np.array([14, 2**31], "<u4").tobytes()),
        {},
        "variable of 2147483648 bytes that",
    ),
    "compressed cut": (deflated_element(GOOD[128:-20]), {}, "whose header says"),
    "struct": (mat_bytes(x={"a": [1, 2]}), {"variable": "x"}, "is of class struct: save a cell array"),
    "text variable": (mat_bytes(x="abc"), {"variable": "x"}, "is of class char"),
    "sparse": (mat_bytes(x=scipy.sparse.eye_array(3)), {"variable": "x"}, "is of class sparse"),
    "complex": (mat_bytes(x=np.eye(3) * 1j), {}, "variable 'x' contains complex numbers: save real numbers"),
    "cell in a cell": (mat_bytes(x=cell([cell([np.eye(2)])])), {}, "variable 'x' contains class cell"),
    "text in a cell": (mat_bytes(x=cell(["abc"])), {}, "sequence 0 has"),
    "empty cell": (mat_bytes(x=cell([np.eye(2), np.zeros((0, 0))])), {}, "sequence 1 has shape (0, 0)"),
    "two": (mat_bytes(a=np.eye(2), b=np.eye(2)), {}, "could be the sequences (a, b): choose one with variable=…"),
    "unknown": (GOOD, {"variable": "walks"}, "has no variable 'walks': it has x"),
    "unknown labels": (GOOD, {"labels": "who"}, "has no variable 'who': it has x"),
    "labels": (mat_bytes(x=np.ones((3, 2, 2)), y=[1, 2]), {}, "labels have shape (2,) but there are 3 sequences"),
    "labels in cells": (mat_bytes(x=np.ones((2, 2, 2)), y=cell(["a", 1.0])), {}, "a cell that is not a single label"),
    "orientation": (GOOD, {"orientation": "sideways"}, "choose 'time-first' or 'channels-first'"),
}


@parametrize("case", BAD, fast=6)
def test_defects_raise_an_error(write, case):
    content, options, sentence = BAD[case]
    path = write(content)
    with rejects(path, sentence):
        read_mat(path, **options)


@needs("h5py")
class TestVersion73:
    def test_cell_array(self, write):
        data = read_mat(write(mat73_bytes()))
        assert_sequences(data, sequences())
        assert data.labels is not None and data.labels.tolist() == LABELS

    def store(self, tmp_path, fill):
        import h5py

        path = tmp_path / "walks.mat"
        with h5py.File(path, "w") as file:
            fill(file, h5py)
        return path

    def test_numeric_array_is_stored_transposed(self, tmp_path):
        block = np.arange(24.0).reshape(3, 4, 2)
        path = self.store(tmp_path, lambda file, _: file.create_dataset("x", data=block.T))
        assert_sequences(read_mat(path), list(block))

    def check_error(self, tmp_path, sentence, fill, **options):
        path = self.store(tmp_path, fill)
        with pytest.raises(ReadError, match=sentence) as caught:
            read_mat(path, **options)
        assert str(caught.value).startswith(str(path)) and "\n" not in str(caught.value)

    def test_nothing_outside_is_followed(self, tmp_path):
        other = self.store(tmp_path, lambda file, _: file.create_dataset("x", data=np.eye(3))).rename(
            tmp_path / "other.h5"
        )

        def link(file, h5py):
            file["x"] = h5py.ExternalLink(str(other), "x")

        def virtual(file, h5py):
            layout = h5py.VirtualLayout((3, 3), "f8")
            layout[:] = h5py.VirtualSource(str(other), "x", (3, 3))
            file.create_virtual_dataset("x", layout)

        def external(file, _):
            file.create_dataset("x", (3, 3), "f8", external=[(str(other), 0, 72)])

        self.check_error(tmp_path, "has no variable that could be the sequences", link)
        self.check_error(tmp_path, "values that are in another file", virtual)
        self.check_error(tmp_path, "values that are in another file", external)

    def test_claims(self, tmp_path):
        huge = (10**6, 10**6)
        claim = "contains a dataset that states 1000000000000 values but has only 0 bytes"
        self.check_error(tmp_path, claim, lambda file, _: file.create_dataset("x", huge, "f8"))
        self.check_error(tmp_path, claim, lambda file, _: file.create_dataset("x", huge, "f8", compression="gzip"))

    def test_cells_that_repeat_one_array(self, tmp_path, leave_memory):
        def fill(file, h5py):
            item = file.create_dataset("#refs#/a", data=np.ones((100, 100)))
            cells = file.create_dataset("x", (1000, 1), h5py.ref_dtype)
            cells[...] = item.ref
            cells.attrs["MATLAB_class"] = np.bytes_("cell")

        leave_memory(2 * 2**20)
        self.check_error(tmp_path, "would need", fill)

    def test_other_contents(self, tmp_path):
        self.check_error(tmp_path, "is of class struct", lambda file, _: file.create_group("x"), variable="x")
        self.check_error(
            tmp_path, "contains values of type object", lambda file, _: file.create_dataset("x", data=[["a"] * 2] * 2)
        )

        def cells(value):
            def fill(file, h5py):
                group = file.create_group("#refs#/g")
                item = file.create_dataset("x", (1, 1), h5py.ref_dtype if value else "f8")
                item[...] = group.ref if value == "group" else h5py.Reference() if value else 0
                item.attrs["MATLAB_class"] = np.bytes_("cell")

            return fill

        self.check_error(tmp_path, "contains a cell that is not an array", cells("group"))
        self.check_error(tmp_path, "contains a cell that is not an array", cells("null"))
        self.check_error(tmp_path, "contains a cell array without references", cells(None))


def test_version_73_without_h5py(write, monkeypatch):
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(
        ImportError, match=r"is a MATLAB file of version 7\.3, which needs h5py: run `pip install h5py`"
    ):
        read_mat(write(HEAD[:124] + b"\x00\x02IM" + bytes(384)))
