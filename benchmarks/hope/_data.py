"""Patches of handwritten digits: of MNIST where its files are, else generated ones."""

import gzip
import os
from pathlib import Path

import numpy as np

SIZE = 6


def mnist_images(part: str = "train") -> np.ndarray | None:
    """Return the images of MNIST, (60000, 28, 28) bytes (part "t10k": 10000), or None if the files are not there."""
    values = _mnist(f"{part}-images-idx3-ubyte.gz", 16)
    return None if values is None else values.reshape(-1, 28, 28)


def mnist_labels(part: str = "train") -> np.ndarray | None:
    """Return the digits of MNIST, or None if the files are not there."""
    return _mnist(f"{part}-labels-idx1-ubyte.gz", 8)


def _mnist(name: str, offset: int) -> np.ndarray | None:
    """Return the bytes of a file behind its header."""
    root = Path(__file__).resolve().parents[2]
    path = Path(os.environ.get("MANIFOLDSEQ_MNIST", root.parent / "shared" / "data" / "mnist")) / name
    if not path.is_file():
        return None
    with gzip.open(path) as stream:
        return np.frombuffer(stream.read(), np.uint8, offset=offset)


def patches(n: int, seed: int = 0) -> tuple[np.ndarray, str]:
    """Return n unit rows of 36 columns in float32, and what they are.

    Patches of 6 x 6 pixels less their mean, divided by their length; blank ones are drawn again.
    """
    rng, images = np.random.default_rng(seed), mnist_images()
    if images is None:
        X = rng.standard_normal((n, 30)) @ rng.standard_normal((30, SIZE**2)) + rng.standard_normal((n, SIZE**2)) / 4
        X -= X.mean(axis=1, keepdims=True)
        return (X / np.linalg.norm(X, axis=1, keepdims=True)).astype(np.float32), "generated, MNIST is not there"
    found = np.empty((0, SIZE**2), np.float32)
    while len(found) < n:
        which, at = rng.integers(len(images), size=2 * n), rng.integers(28 - SIZE + 1, size=(2, 2 * n))
        windows = np.lib.stride_tricks.sliding_window_view(images, (SIZE, SIZE), axis=(1, 2))
        X = windows[which, at[0], at[1]].reshape(2 * n, -1).astype(np.float32)
        X -= X.mean(axis=1, keepdims=True)
        length = np.linalg.norm(X, axis=1)
        found = np.concatenate([found, X[length > 0] / length[length > 0, None]])
    return found[:n], "6 x 6 patches of MNIST's training images"
