"""The readers of .npy and .npz files: layouts, and the error for each defect."""

from __future__ import annotations

import pickle
import struct
import zipfile

import numpy as np
import pytest
from helpers import parametrize
from storage.samples import LABELS, assert_sequences, npy_bytes, npz_bytes, rejects, sequences, zip_bytes

from manifoldseq.storage import ReadError, read_npy, read_npz

BLOCK = np.arange(24.0).reshape(3, 4, 2)


@pytest.fixture
def write(tmp_path):
    def write(content, name="walks.npz"):
        path = tmp_path / name
        path.write_bytes(content)
        return path

    return write


@pytest.mark.parametrize("dtype", ["f8", ">f8", "f4", "i2", "?"])
def test_npy_of_three_dimensions(write, dtype):
    data = read_npy(write(npy_bytes(BLOCK.astype(dtype)), "walks.npy"))
    assert_sequences(data, list(BLOCK.astype(dtype)))
    assert data.name == "walks" and data.labels is None


def test_npy_of_one_sequence(write):
    assert_sequences(read_npy(write(npy_bytes(BLOCK[0]))), [BLOCK[0]])
    assert_sequences(read_npy(write(npy_bytes([1.0, np.nan]))), [[[1.0], [np.nan]]])
    assert_sequences(read_npy(write(npy_bytes(np.asfortranarray(BLOCK[0])))), [BLOCK[0]])


@pytest.mark.parametrize("compressed", [False, True])
def test_npz_layouts(write, compressed):
    x = sequences()
    layouts = {
        "X": ({"X": BLOCK, "other": np.zeros(3)}, list(BLOCK)),
        "sequences": ({"sequences": BLOCK}, list(BLOCK)),
        "unnamed": ({"arr_0": BLOCK}, list(BLOCK)),
        "flat": ({"X": np.concatenate(x), "lengths": [5, 3, 9]}, x),
        "flat, one channel": ({"X": np.arange(5), "lengths": [3, 2]}, [[[0], [1], [2]], [[3], [4]]]),
        "one each": ({f"arr_{i}": np.full((2, 1), i) for i in range(12)}, [np.full((2, 1), i) for i in range(12)]),
        "vectors": ({"a2": [1.0], "a10": [2.0, 3.0]}, [[[1]], [[2], [3]]]),
    }
    for arrays, expected in layouts.values():
        assert_sequences(read_npz(write(npz_bytes(compressed, **arrays))), expected)


def test_npz_of_a_table_with_a_label_per_row(write):
    rows = np.arange(12.0).reshape(4, 3)
    data = read_npz(write(npz_bytes(X=rows, y=[3, 1, 3, 2])))
    assert_sequences(data, rows[:, None, :])
    assert data.labels is not None and data.labels.tolist() == [3, 1, 3, 2]
    assert_sequences(read_npz(write(npz_bytes(X=rows, y=["walk"]))), [rows])  # one sequence with its label
    assert_sequences(read_npz(write(npz_bytes(X=rows, y=[1, 2], lengths=[3, 1]))), [rows[:3], rows[3:]])


def test_npz_with_what_is_known(write):
    content = npz_bytes(X=BLOCK, y=LABELS, sampling_rate=50, channel_names=["left", "right"])
    data = read_npz(write(content))
    assert data.labels is not None and data.labels.tolist() == LABELS
    assert data.sampling_rate == 50.0 and data.channel_names == ("left", "right")
    data = read_npz(write(npz_bytes(X=BLOCK, labels=np.array([[1], [0], [1]]))))
    assert data.labels is not None and data.labels.tolist() == [1, 0, 1]


class Touch:
    """Creates a file when it is unpickled."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return open, (self.path, "w")


def test_nothing_is_unpickled(write, tmp_path):
    trap = tmp_path / "executed"
    objects = np.array([Touch(trap)], dtype=object)
    np.save(tmp_path / "a.npy", objects, allow_pickle=True)
    np.savez(tmp_path / "a.npz", X=objects)
    np.savez(tmp_path / "b.npz", X=BLOCK, y=np.array([Touch(trap)] * 3, dtype=object))
    for read, name in [(read_npy, "a.npy"), (read_npz, "a.npz"), (read_npz, "b.npz")]:
        with pytest.raises(ReadError, match="contains Python objects, which could run code: save numbers"):
            read(tmp_path / name)
    with pytest.raises(ReadError, match=r"cannot be read as a \.npy file"):
        read_npy(write(pickle.dumps(objects), "b.npy"))
    assert not trap.exists()


def with_header(text: str, data: bytes = b"\0" * 64) -> bytes:
    """Return a .npy file with this header."""
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode() + data


def header(shape: str, descr: str = "'<f8'") -> str:
    return f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}\n"


BAD_NPY = {
    "empty": (b"", "is empty: expected a .npy file"),
    "text": (b"1,2,3\n", "cannot be read as a .npy file"),
    "cut": (npy_bytes(BLOCK)[:-8], "a header with shape (3, 4, 2) of float64, but contains 184 bytes: it is cut off"),
    "longer": (npy_bytes(BLOCK) + b"\0", "contains 193 bytes"),
    "oversize": (with_header(header("(1000000000000, 5)")), "has a header with shape (1000000000000, 5)"),
    "overflow": (with_header(header("(4294967296, 4294967296)")), "a header with shape (4294967296, 4294967296)"),
    "negative": (with_header(header("(-1, -8)")), "a header with shape (-1, -8)"),
    "version 3": (b"\x93NUMPY\x03\x00" + npy_bytes(BLOCK)[8:], "has format version (3, 0)"),
    "length of the header": (b"\x93NUMPY\x02\x00\xff\xff\xff\xff{", "cannot be read as a .npy file"),
    "code in the header": (with_header("__import__('os').getcwd()"), "cannot be read as a .npy file"),
    "nested header": (with_header("(" * 9000), "cannot be read as a .npy file"),
    "complex": (npy_bytes(BLOCK * 1j), "has dtype complex128: save real numbers"),
    "strings": (npy_bytes(["a", "b"]), "has dtype <U1: save real numbers"),
    "no numbers": (npy_bytes(np.zeros((0, 3))), "has an array of shape (0, 3): save (N, T, d)"),
    "four dimensions": (npy_bytes(np.zeros((1, 1, 1, 1))), "has an array of shape (1, 1, 1, 1)"),
    "many empty sequences": (npy_bytes(np.zeros((10**9, 0, 3))), "would need 238 GiB of memory"),
}


@parametrize("case", BAD_NPY, fast=5)
def test_defects_of_npy(write, case):
    content, sentence = BAD_NPY[case]
    path = write(content, "walks.npy")
    with rejects(path, sentence):
        read_npy(path)


def lying(size: int, compression: int = zipfile.ZIP_STORED) -> bytes:
    """Return an archive whose directory claims this size for its member."""
    content = bytearray(zip_bytes({"X.npy": npy_bytes(BLOCK)}, compression))
    place = content.rindex(b"PK\x01\x02") + 24
    content[place : place + 4] = struct.pack("<I", size)
    return bytes(content)


X = npy_bytes(BLOCK)
BAD_NPZ = {
    "empty": (b"", "is empty: expected a .npz archive"),
    "no archive": (X, "cannot be read as a .npz archive (BadZipFile"),
    "cut": (npz_bytes(X=BLOCK)[:-30], "cannot be read as a .npz archive (BadZipFile"),
    "flipped": (npz_bytes(X=BLOCK).replace(struct.pack("<d", 9.0), struct.pack("<d", 8.0)), "Bad CRC-32"),
    "no arrays": (zip_bytes({}), "contains no sequences"),
    "only labels": (npz_bytes(y=[1]), "contains no sequences"),
    "parent path": (zip_bytes({"../X.npy": X}), "member '../X.npy' was not written by numpy.savez"),
    "absolute path": (zip_bytes({"/etc/X.npy": X}), "member '/etc/X.npy' was not written by numpy.savez"),
    "other member": (zip_bytes({"X.npy": X, "run.py": b"1"}), "member 'run.py' was not written by numpy.savez"),
    "other compression": (zip_bytes({"X.npy": X}, zipfile.ZIP_BZIP2), "is encrypted, or compressed by a method"),
    "claim": (lying(2**31), "member 'X.npy' is too short for the 2147483648 bytes that its header states"),
    "compressed claim": (
        lying(2**31, zipfile.ZIP_DEFLATED),
        "is too short for the 2147483648 bytes that its header states",
    ),
    "header in it": (zip_bytes({"X.npy": with_header(header("(9, 9)"))}), "array 'X' has a header with shape (9, 9)"),
    "both names": (npz_bytes(X=BLOCK, sequences=BLOCK), "has the arrays X, sequences: keep only one of them"),
    "lengths of many": (npz_bytes(a=BLOCK, b=BLOCK, lengths=[1]), "has the arrays a, b: keep only one of them"),
    "3-D among many": (npz_bytes(a=BLOCK, b=BLOCK[0]), "sequence 0 has shape (3, 4, 2)"),
    "lengths": (npz_bytes(X=BLOCK[0], lengths=[3, 2]), "lengths add up to 5 but X has 4 rows"),
    "fractions": (npz_bytes(X=BLOCK[0], lengths=[3.5, 0.5]), "lengths are not positive whole numbers"),
    "labels": (npz_bytes(X=BLOCK, y=[1, 2]), "labels have shape (2,) but there are 3 sequences"),
    "shape of labels": (npz_bytes(X=BLOCK, y=np.eye(3)), "array 'y' has shape (3, 3): save one label per sequence"),
    "two labels": (npz_bytes(X=BLOCK, y=[1, 2, 3], labels=[1, 2, 3]), "has both arrays y and labels"),
    "channels": (npz_bytes(a=BLOCK[0], b=BLOCK[0, :, :1]), "sequence 1 has 1 channels but sequence 0 has 2"),
    "rate": (npz_bytes(X=BLOCK, sampling_rate=-1.0), "sampling_rate is not one positive number"),
    "names": (npz_bytes(X=BLOCK, channel_names=["a"]), "sequence 0 has 2 channels but 1 channel_names"),
    "kind of names": (npz_bytes(X=BLOCK, channel_names=[1, 2]), "channel_names has shape (2,) of int64"),
}


@pytest.mark.filterwarnings("ignore:Duplicate name")
@parametrize("case", BAD_NPZ, fast=6)
def test_defects_of_npz(write, case):
    content, sentence = BAD_NPZ[case]
    path = write(content)
    with rejects(path, sentence):
        read_npz(path)


def test_a_bomb_raises_an_error_before_it_is_inflated(write, leave_memory, monkeypatch):
    path = write(npz_bytes(compressed=True, X=np.zeros((1000, 100, 20))))
    assert path.stat().st_size < 2**16
    leave_memory(2 * 2**20)
    monkeypatch.setattr(zipfile.ZipFile, "read", lambda *_: pytest.fail("inflated"))
    with pytest.raises(ReadError, match=r"would need 0\.0149 GiB of memory"):
        read_npz(path)


def test_two_members_of_one_name(write):
    content = zip_bytes({"X.npy": X, "Y.npy": X}).replace(b"Y.npy", b"X.npy")
    with pytest.raises(ReadError, match="has two members with the same name"):
        read_npz(write(content))
