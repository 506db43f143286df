"""The files of MNIST: read back byte for byte, refused when they are truncated, exchanged or damaged."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest

from manifoldseq_hope._mnist import FILES, read_mnist

RNG = np.random.default_rng(0)
IMAGES = RNG.integers(256, size=(5, 28, 28)).astype(np.uint8)
LABELS = RNG.integers(10, size=5).astype(np.uint8)


def idx(array: np.ndarray) -> bytes:
    """Return an array of bytes as an idx file."""
    return struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape) + array.tobytes()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in FILES:
        (tmp_path / name).write_bytes(gzip.compress(idx(IMAGES if "images" in name else LABELS)))
    return tmp_path


def test_digits_come_back(folder: Path) -> None:
    digits = read_mnist(folder, verify=False)
    for X, labels in ((digits.train, digits.train_labels), (digits.test, digits.test_labels)):
        np.testing.assert_array_equal(X, IMAGES.reshape(5, 784))
        np.testing.assert_array_equal(labels, LABELS)
        assert labels.dtype == np.int64


def test_files_that_are_not_the_database_are_refused(folder: Path) -> None:
    with pytest.raises(ValueError, match=r"train-images.*SHA-256 differs"):
        read_mnist(folder)


def test_a_missing_file_is_named(folder: Path) -> None:
    (folder / "t10k-labels-idx1-ubyte.gz").unlink()
    with pytest.raises(ValueError, match=r"t10k-labels-idx1-ubyte.gz cannot be read.*--data"):
        read_mnist(folder, verify=False)


def test_truncated_and_exchanged_files_are_refused_in_one_sentence(folder: Path) -> None:
    name = "t10k-images-idx3-ubyte.gz"
    whole = (folder / name).read_bytes()
    labels = (folder / "t10k-labels-idx1-ubyte.gz").read_bytes()
    short = gzip.compress(idx(IMAGES)[:-1])
    fewer = gzip.compress(idx(IMAGES[:3]))
    for content, words in (
        (whole[:-20], "truncated"),
        (b"not gzip", "no gzip file"),
        (whole[:40] + bytes(20) + whole[60:], "truncated or no gzip"),
        (short, "holds 3919 bytes"),
        (labels, "exchanged"),
        (fewer, "3 images, t10k-labels-idx1-ubyte.gz 5 labels"),
        (b"", "idx file|truncated"),
    ):
        (folder / name).write_bytes(content)
        with pytest.raises(ValueError, match=words) as caught:
            read_mnist(folder, verify=False)
        assert name in str(caught.value) and "\n" not in str(caught.value)
