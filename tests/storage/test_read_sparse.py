"""Sparse matrices in .npz: what scipy wrote comes back, and an error for each defect."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import parametrize
from scipy.sparse import block_diag, coo_array, csr_array, csr_matrix, save_npz
from storage.samples import npz_bytes

import manifoldseq as ms
from manifoldseq.storage import ReadError, read_npz

DENSE = np.array([[0.0, 2.0, 0.0], [1.5, 0.0, -1.0], [0.0, 0.0, 0.0], [0.0, 4.0, 3.0]])
GOOD = {
    "format": np.array(b"csr"),
    "shape": np.array([4, 3]),
    "data": np.array([2.0, 1.5, -1.0, 4.0, 3.0]),
    "indices": np.array([1, 0, 2, 1, 2], np.int32),
    "indptr": np.array([0, 1, 3, 3, 5], np.int32),
}
COO = {"format": np.array("coo"), "shape": [4, 3], "data": [1.0, 2.0], "row": [0, 3], "col": [2, 2]}


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int16, bool])
@pytest.mark.parametrize("kind", ["csr", "csc", "coo"])
def test_what_scipy_wrote_comes_back(tmp_path, kind, dtype):
    rows = DENSE.astype(dtype)
    for number, made in enumerate((csr_array(rows), csr_matrix(rows))):
        save_npz(tmp_path / f"{number}.npz", made.asformat(kind), compressed=bool(number))
        data = ms.storage.read(tmp_path / f"{number}.npz")
        (found,) = data.sequences
        assert isinstance(found, csr_array) and found.has_canonical_format and found.indices.dtype == np.int32
        assert found.dtype == (np.float32 if dtype == np.float32 else np.float64)
        np.testing.assert_array_equal(found.toarray(), rows.astype(found.dtype))
        assert "1 sequences of 4 steps, 3 channels" in repr(data)


def test_entries_that_are_there_twice_are_added(tmp_path):
    save_npz(tmp_path / "twice.npz", coo_array(([1.0, 2.0, 4.0], ([1, 1, 0], [2, 2, 0])), shape=(2, 3)))
    assert read_npz(tmp_path / "twice.npz").sequences[0].toarray().tolist() == [[4, 0, 0], [0, 0, 3]]


DEFECTS = {
    "pickled data": ({"data": np.array([{}] * 5, dtype=object)}, "Python objects, which could run code"),
    "pickled format": ({"format": np.array(["csr"], dtype=object)}, "Python objects, which could run code"),
    "text": ({"data": np.array(list("abcde"))}, "array 'data' has dtype <U1: save real numbers"),
    "complex": ({"data": np.ones(5, complex)}, "dtype complex128: save real numbers"),
    "matrix of data": ({"data": np.ones((5, 1))}, r"array 'data' has shape \(5, 1\)"),
    "unknown format": ({"format": np.array(b"xyz")}, "sparse matrix in the format 'xyz'"),
    "number for a format": ({"format": np.array(3)}, "sparse matrix in the format"),
    "three dimensions": ({"shape": np.array([4, 3, 2])}, "array 'shape' is .4, 3, 2."),
    "no rows": ({"shape": np.array([0, 3])}, "array 'shape' is .0, 3."),
    "negative shape": ({"shape": np.array([-4, 3])}, "array 'shape' is .-4, 3."),
    "shape of floats": ({"shape": np.array([4.0, 3.0])}, "array 'shape' is .4.0, 3.0."),
    "other shape": ({"shape": np.array([5, 3])}, r"array 'indptr' has shape \(5,\) of int32, .* needs 6 whole numbers"),
    "giant columns": ({"shape": np.array([4, 10**12])}, "GiB of memory"),
    "giant rows": ({"shape": np.array([2**62, 3])}, "GiB of memory"),
    "giant and unsigned": ({"shape": np.array([2**64 - 1, 2**64 - 1], np.uint64)}, "GiB of memory"),
    "index too large": ({"indices": np.array([1, 0, 3, 1, 2])}, "has the index 3, but indices must be below 3"),
    "negative index": ({"indices": np.array([1, 0, -1, 1, 2])}, "array 'indices' has the index -1"),
    "huge index": ({"indices": np.array([1, 0, 2**63, 1, 2], np.uint64)}, "array 'indices' has the index"),
    "float indices": ({"indices": np.array([1.0, 0, 2, 1, 2])}, r"array 'indices' has shape \(5,\) of float64"),
    "few indices": ({"indices": np.array([1, 0])}, r"array 'indices' has shape \(2,\)"),
    "float indptr": ({"indptr": np.array([0.0, 1, 3, 3, 5])}, r"array 'indptr' has shape \(5,\) of float64"),
    "falling indptr": ({"indptr": np.array([0, 3, 1, 3, 5])}, "array 'indptr' does not increase from 0 to 5"),
    "indptr from 1": ({"indptr": np.array([1, 1, 3, 3, 5])}, "array 'indptr' does not increase from 0 to 5"),
    "indptr beyond": ({"indptr": np.array([0, 1, 3, 3, 9])}, "array 'indptr' does not increase from 0 to 5"),
    "no indptr": ({"indptr": None}, "without the array 'indptr'"),
    "no indices": ({"indices": None}, "without the array 'indices'"),
    "no entries": ({"data": [], "indices": np.empty(0, int), "indptr": np.zeros(5, int)}, "without entries"),
    "coo, row beyond": ({**COO, "row": [0, 4]}, "array 'row' has the index 4, but indices must be below 4"),
    "coo, no col": ({**COO, "col": None}, "without the array 'col'"),
    "coo, giant": ({**COO, "shape": [10**12, 10**12]}, "GiB of memory"),
}


@parametrize("case", DEFECTS, fast=8)
def test_defects_raise_an_error(tmp_path, case):
    change, words = DEFECTS[case]
    arrays = {name: np.asarray(array) for name, array in {**GOOD, **change}.items() if array is not None}
    (tmp_path / "bad.npz").write_bytes(npz_bytes(**arrays))
    with pytest.raises(ReadError, match=words) as caught:
        read_npz(tmp_path / "bad.npz")
    assert "\n" not in str(caught.value) and str(caught.value).startswith(str(tmp_path / "bad.npz"))


def test_formats_that_are_no_rows_raise_an_error(tmp_path):
    for kind in ("bsr", "dia"):
        save_npz(tmp_path / "other.npz", csr_matrix(DENSE).asformat(kind))
        with pytest.raises(ReadError, match=f"in the format '{kind}': save it as rows"):
            read_npz(tmp_path / "other.npz")


def test_rows_are_no_time_steps(tmp_path):
    save_npz(tmp_path / "docs.npz", csr_array(block_diag([np.ones((3, 2))] * 2)))
    with pytest.raises(ReadError, match=r"docs\.npz: data are sparse rows and not time steps"):
        ms.storage.read(tmp_path / "docs.npz", missing="linear")
    data = ms.storage.read(tmp_path / "docs.npz")
    for use in (data.plot, lambda: ms.storage.windows(data, 3), lambda: ms.storage.scale(data)):
        with pytest.raises(ValueError, match="data are sparse rows"):
            use()
