"""The digits of MNIST as arrays of bytes, from the data sets ``mnist`` and ``mnist-test``."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import manifoldseq as ms

Array = NDArray[Any]

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

    train: NDArray[np.uint8]
    train_labels: NDArray[np.int64]
    test: NDArray[np.uint8]
    test_labels: NDArray[np.int64]


def read_mnist(folder: Path | str | None = None) -> Digits:
    """Return the digits from the folder with the four files; by default, from the place that the data sets use."""
    parts: list[Any] = []
    for name in ("mnist", "mnist-test"):
        found = ms.hooks.get_dataset(name).loader(folder)
        parts += [np.concatenate([np.rint(255 * x).astype(np.uint8) for x in found.sequences]), found.labels]
    return Digits(*parts)
