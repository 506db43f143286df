"""The files of MNIST: read back byte for byte, errors for truncated, exchanged and damaged files."""

from __future__ import annotations

import gzip
import hashlib
import http.server
import struct
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import manifoldseq as ms
from manifoldseq.cli import main
from manifoldseq_hope.features import _mnist
from manifoldseq_hope.features._mnist import FILES, fetched, read_mnist

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


def test_files_that_are_not_the_database_raise_an_error(folder: Path) -> None:
    with pytest.raises(ValueError, match=r"train-images.*SHA-256 differs"):
        read_mnist(folder)


def test_a_missing_file_is_named(folder: Path) -> None:
    (folder / "t10k-labels-idx1-ubyte.gz").unlink()
    with pytest.raises(ValueError, match=r"t10k-labels-idx1-ubyte.gz cannot be read.*--data"):
        read_mnist(folder, verify=False)


def test_truncated_and_exchanged_files_raise_an_error(folder: Path) -> None:
    name = "t10k-images-idx3-ubyte.gz"
    whole = (folder / name).read_bytes()
    labels = (folder / "t10k-labels-idx1-ubyte.gz").read_bytes()
    short = gzip.compress(idx(IMAGES)[:-1])
    fewer = gzip.compress(idx(IMAGES[:3]))
    for content, words in (
        (whole[:-20], "truncated"),
        (b"not gzip", "not a gzip file"),
        (whole[:40] + bytes(20) + whole[60:], "truncated or not a gzip"),
        (short, "contains 3919 bytes"),
        (labels, "exchanged"),
        (fewer, "3 images, but t10k-labels-idx1-ubyte.gz contains 5 labels"),
        (b"", "idx file|truncated"),
    ):
        (folder / name).write_bytes(content)
        with pytest.raises(ValueError, match=words) as caught:
            read_mnist(folder, verify=False)
        assert name in str(caught.value) and "\n" not in str(caught.value)


@pytest.fixture
def database(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Five digits take the place of the database, checksums included."""
    sums = {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in FILES}
    sums["t10k-images-idx3-ubyte.gz"] = _rewritten(folder, "t10k-images-idx3-ubyte.gz", idx(IMAGES[::-1]))
    sums["t10k-labels-idx1-ubyte.gz"] = _rewritten(folder, "t10k-labels-idx1-ubyte.gz", idx(LABELS[::-1]))
    monkeypatch.setattr(_mnist, "FILES", sums)
    return folder


def _rewritten(folder: Path, name: str, content: bytes) -> str:
    (folder / name).write_bytes(gzip.compress(content))
    return hashlib.sha256((folder / name).read_bytes()).hexdigest()


@pytest.fixture
def server(database: Path) -> Iterator[str]:
    handler = partial(http.server.SimpleHTTPRequestHandler, directory=str(database))
    handler.log_message = lambda *_: None  # pyright: ignore
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


def test_the_files_of_the_database_say_what_became_of_them(database: Path) -> None:
    read_mnist(database)
    images, labels = "train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz"
    whole = (database / images).read_bytes()
    for content, words in (
        (whole[: len(whole) // 2], "truncated"),
        ((database / labels).read_bytes(), f"contains the data of {labels}"),
        ((database / "t10k-images-idx3-ubyte.gz").read_bytes(), "contains the data of t10k-images"),
        (gzip.compress(idx(IMAGES // 2)), "SHA-256 differs"),
    ):
        (database / images).write_bytes(content)
        with pytest.raises(ValueError, match=words) as caught:
            read_mnist(database)
        assert str(database / images) in str(caught.value) and "\n" not in str(caught.value)


def test_the_data_sets_are_read_from_a_folder(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    digits = read_mnist(database)
    for name, X, labels in (
        ("mnist", digits.train, digits.train_labels),
        ("mnist-test", digits.test, digits.test_labels),
    ):
        loader = ms.hooks.get_dataset(name).loader
        given = loader(database)
        monkeypatch.setenv("MANIFOLDSEQ_MNIST", str(database))
        for data in (given, loader()):
            np.testing.assert_allclose(np.concatenate(data.sequences), X / 255)
            np.testing.assert_array_equal(data.labels, labels)
        monkeypatch.setenv("MANIFOLDSEQ_MNIST", str(database / "nowhere"))
        with pytest.raises(ValueError, match=r"nowhere.*MANIFOLDSEQ_MNIST"):
            loader()
        monkeypatch.delenv("MANIFOLDSEQ_MNIST")


@pytest.mark.slow
def test_the_command_line_fits_the_data_set(
    database: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MANIFOLDSEQ_MNIST", str(database))
    sizes = ("--set", "n_components=5")
    assert main(["fit", "hope", "mnist", *sizes, "-o", str(tmp_path / "run")]) == 0
    assert "mnist: 5 rows of 784 columns" in capsys.readouterr().out
    assert ms.load(tmp_path / "run").components_.shape == (4, 784)
    assert main(["apply", str(tmp_path / "run"), "mnist-test", "-o", str(tmp_path / "features.npz")]) == 0
    with np.load(tmp_path / "features.npz") as found:
        assert found["transform"].shape == (5, 5)
    (database / "t10k-labels-idx1-ubyte.gz").write_bytes(b"")
    capsys.readouterr()
    assert main(["fit", "hope", "mnist", *sizes, "-o", str(tmp_path / "other")]) == 2
    assert "t10k-labels-idx1-ubyte.gz" in capsys.readouterr().err and not (tmp_path / "other").exists()


def test_files_are_fetched_once_and_compared(server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pooch", reason="pooch is not installed")
    nowhere = "http://127.0.0.1:9/"
    place = fetched((nowhere, server), tmp_path / "cache")
    np.testing.assert_array_equal(read_mnist(place).train, IMAGES.reshape(5, 784))
    assert fetched((nowhere,), tmp_path / "cache") == place  # nothing is asked for again
    monkeypatch.setattr(_mnist, "FILES", dict.fromkeys(FILES, "0" * 64))
    for mirrors in ((nowhere,), (server,)):  # no network; other bytes than those of the database
        with pytest.raises(OSError, match=r"train-images-idx3-ubyte.gz could not be fetched.*MANIFOLDSEQ_MNIST") as e:
            fetched(mirrors, tmp_path / "other")
        assert "\n" not in str(e.value)
    assert not list((tmp_path / "other").rglob("*.gz"))


def test_without_pooch_one_sentence_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pooch", None)
    monkeypatch.delenv("MANIFOLDSEQ_MNIST", raising=False)
    with pytest.raises(ImportError, match=r"needs pooch.*MANIFOLDSEQ_MNIST"):
        ms.hooks.get_dataset("mnist").loader()
