"""The MNIST digits, from the four files of the database (idx format, gzipped)."""

import gzip
import struct
import zlib
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Images = NDArray[np.uint8]

FILES = {
    "train-images-idx3-ubyte.gz": "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
    "train-labels-idx1-ubyte.gz": "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
    "t10k-images-idx3-ubyte.gz": "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
    "t10k-labels-idx1-ubyte.gz": "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
}
"""The files, with their SHA-256."""

SIDE = 28


@dataclass(frozen=True)
class Digits:
    """The digits of MNIST.

    Attributes
    ----------
    train, test : ndarray of uint8 of shape (n, 784)
        Images, row by row; 60000 and 10000.
    train_labels, test_labels : ndarray of int64 of shape (n,)
    """

    train: Images
    train_labels: NDArray[np.int64]
    test: Images
    test_labels: NDArray[np.int64]


def read_mnist(folder: Path | str, *, verify: bool = True) -> Digits:
    """Read the four files of MNIST.

    Parameters
    ----------
    folder : path-like
    verify : bool
        Whether files must be those of the database, byte for byte; without, any idx files of these names are read.

    Returns
    -------
    Digits

    Raises
    ------
    ValueError
        If a file is missing, truncated, exchanged with another or not the one of the database; the sentence names it.
    """
    parts = []
    for part in ("train", "t10k"):
        images, labels = f"{part}-images-idx3-ubyte.gz", f"{part}-labels-idx1-ubyte.gz"
        X = _read(Path(folder) / images, 3, verify)
        y = _read(Path(folder) / labels, 1, verify)
        if len(X) != len(y):
            raise ValueError(
                f"{images} holds {len(X)} images, {labels} {len(y)} labels: the files do not belong together"
            )
        parts += [X.reshape(len(X), -1), y.astype(np.int64)]
    return Digits(*parts)


def _read(path: Path, n_axes: int, verify: bool) -> NDArray[np.uint8]:
    """Return the array of one gzipped idx file."""
    try:
        packed = path.read_bytes()
    except OSError as error:
        raise ValueError(
            f"{path} cannot be read ({error.strerror}): pass the folder with the four .gz files of MNIST as --data"
        ) from error
    found = sha256(packed).hexdigest()
    if verify and found != FILES[path.name]:
        other = next((name for name, digest in FILES.items() if digest == found), None)
        what = f"holds the bytes of {other}" if other else "is damaged, or another file (SHA-256 differs)"
        raise ValueError(f"{path} {what}: fetch it again from the MNIST database")
    try:
        raw = gzip.decompress(packed)
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(f"{path} is truncated or no gzip file ({error}): fetch it again") from error
    if len(raw) < 4 + 4 * n_axes or raw[:4] != bytes((0, 0, 8, n_axes)):
        kind = "images" if n_axes == 3 else "labels"
        raise ValueError(f"{path} does not begin as an idx file of {kind}: was it exchanged with another of the four?")
    shape = struct.unpack(f">{n_axes}I", raw[4 : 4 + 4 * n_axes])
    values = np.frombuffer(raw, np.uint8, offset=4 + 4 * n_axes)
    if values.size != np.prod(shape, dtype=np.int64):
        raise ValueError(f"{path} says {shape} and holds {values.size} bytes: it is truncated, fetch it again")
    return values.reshape(shape)
