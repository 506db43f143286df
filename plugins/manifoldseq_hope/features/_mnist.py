"""The MNIST digits, from the four files of the database (idx format, gzipped)."""

import gzip
import math
import os
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import manifoldseq as ms
from manifoldseq.storage import SequenceData

Images = NDArray[np.uint8]

FILES = {
    "train-images-idx3-ubyte.gz": "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
    "train-labels-idx1-ubyte.gz": "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
    "t10k-images-idx3-ubyte.gz": "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
    "t10k-labels-idx1-ubyte.gz": "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
}
"""The files, with their SHA-256."""

MIRRORS = ("https://ossci-datasets.s3.amazonaws.com/mnist/", "https://storage.googleapis.com/cvdf-datasets/mnist/")

SIDE = 28


@dataclass(frozen=True)
class Digits:
    """The digits of MNIST.

    Attributes
    ----------
    train, test : ndarray of uint8 of shape (n, 784)
        The 60000 training images and the 10000 test images, row by row.
    train_labels, test_labels : ndarray of int64 of shape (n,)
    """

    train: Images
    train_labels: NDArray[np.int64]
    test: Images
    test_labels: NDArray[np.int64]


def mnist(folder: Path | str | None = None) -> SequenceData:
    """Return the 60000 training images of MNIST, one row of 784 pixels from 0 to 1 each, and their digits.

    Parameters
    ----------
    folder : path-like, optional
        As in `read_mnist`, with the same errors.
    """
    digits = read_mnist(folder)
    return _samples(digits.train, digits.train_labels, "mnist")


def mnist_test(folder: Path | str | None = None) -> SequenceData:
    """Return the 10000 test images of MNIST, otherwise as `mnist`."""
    digits = read_mnist(folder)
    return _samples(digits.test, digits.test_labels, "mnist-test")


def read_mnist(folder: Path | str | None = None, *, verify: bool = True) -> Digits:
    """Read the four files of MNIST.

    Parameters
    ----------
    folder : path-like, optional
        The folder with the four files; by default the value of the environment variable ``MANIFOLDSEQ_MNIST``. Without
        it, the files are downloaded once (12 MB) with pooch.
    verify : bool
        Whether files must equal those of the database, byte for byte. If False, any idx files with these names are
        read.

    Returns
    -------
    Digits

    Raises
    ------
    ValueError
        If a file is missing, truncated, exchanged with another or not the one of the database; the message names it.
    ImportError
        If the files must be downloaded and pooch is not installed.
    OSError
        If the download fails.
    """
    place = Path(folder or os.environ.get("MANIFOLDSEQ_MNIST") or fetched())
    parts = []
    for part in ("train", "t10k"):
        images, labels = f"{part}-images-idx3-ubyte.gz", f"{part}-labels-idx1-ubyte.gz"
        X = _read(place / images, 3, verify)
        y = _read(place / labels, 1, verify)
        if len(X) != len(y):
            raise ValueError(
                f"{images} contains {len(X)} images, but {labels} contains {len(y)} labels: fetch both files again, "
                "because they do not belong together"
            )
        parts += [X.reshape(len(X), -1), y.astype(np.int64)]
    return Digits(*parts)


def fetched(mirrors: Sequence[str] = MIRRORS, cache: Any = None) -> Path:
    """Return the folder with the four files, which are downloaded on first use and verified by SHA-256."""
    try:
        import pooch  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise ImportError(
            "fetching MNIST needs pooch, which is not installed: run `pip install 'manifoldseq-hope[datasets]'`, or "
            "set MANIFOLDSEQ_MNIST to the folder with the four .gz files of MNIST"
        ) from error
    folder = Path(cache or pooch.os_cache("manifoldseq")) / "mnist"
    for name, digest in FILES.items():
        trouble: Exception | None = None
        for mirror in mirrors:
            try:
                pooch.retrieve(mirror + name, known_hash=f"sha256:{digest}", fname=name, path=folder, progressbar=False)
                break
            except (OSError, ValueError) as error:  # no network; another file than that of the database
                trouble = error
        else:
            raise OSError(
                f"{name} could not be fetched from {' or '.join(mirrors)} ({type(trouble).__name__}): set "
                "MANIFOLDSEQ_MNIST to the folder with the four .gz files of MNIST"
            ) from trouble
    return folder


def _samples(X: Images, labels: NDArray[np.int64], name: str) -> SequenceData:
    rows = X / 255.0
    return SequenceData(list(rows[:, None, :]), labels, name=name)


def _read(path: Path, n_axes: int, verify: bool) -> NDArray[np.uint8]:
    """Return the array of one gzipped idx file; its hash is verified before decompression."""
    try:
        packed = ms.storage.read_bytes(path)
    except OSError as error:
        raise ValueError(
            f"{path} cannot be read ({error.strerror}): pass the folder with the four .gz files of MNIST by "
            "--data or MANIFOLDSEQ_MNIST"
        ) from error
    found = sha256(packed).hexdigest()
    whose = next((name for name, digest in FILES.items() if digest == found), path.name)
    if verify and whose != path.name:
        raise ValueError(
            f"{path} contains the data of {whose}, perhaps because the two files were swapped: fetch both again"
        )
    if verify and found != FILES[path.name]:
        raise ValueError(f"{path} is truncated, damaged, or another file (SHA-256 differs): fetch it again")
    try:
        with gzip.GzipFile(fileobj=BytesIO(packed)) as stream:
            return _array(path, stream, n_axes, len(packed))
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(f"{path} is truncated or not a gzip file ({error}): fetch it again") from error


def _array(path: Path, stream: gzip.GzipFile, n_axes: int, taken: int) -> NDArray[np.uint8]:
    """Return the array of an idx file; no more bytes are decompressed than the header states."""
    head = stream.read(4 + 4 * n_axes)
    if len(head) < 4 + 4 * n_axes or head[:4] != bytes((0, 0, 8, n_axes)):
        kind = "images" if n_axes == 3 else "labels"
        raise ValueError(
            f"{path} is not an idx file of {kind}: check whether the four files of MNIST have the right names"
        )
    shape = struct.unpack(f">{n_axes}I", head[4:])
    count = math.prod(shape)
    ms.storage.require_memory(path, taken + 2 * count, taken=taken)  # zlib joins the blocks that it inflates
    raw = stream.read(count)
    if len(raw) < count or stream.read(1):
        held = f"{len(raw)} bytes" if len(raw) < count else "more bytes"
        raise ValueError(f"{path} declares {shape} but contains {held}, so it is damaged: fetch it again")
    return np.frombuffer(raw, np.uint8).reshape(shape)
