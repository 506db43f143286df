"""Bags of paired descriptors of scikit-learn's digits."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_PATCH, _STEP, _CELLS, _ANGLES = 4, 1, 2, 8
_CONTRAST = 1.0


def digit_descriptors() -> tuple[list[Array], list[Array], NDArray[np.int64]]:
    """Return scikit-learn's 1797 digits as bags of paired descriptors, and their labels.

    Every patch of 4 × 4 pixels that is not empty (standard deviation of at least one of 16 grey levels) has two
    descriptors: its 16 pixels, and histograms of its gradients (8 angles in 2 × 2 cells), weighted by the gradients'
    lengths. The positions of patches are discarded.

    Returns
    -------
    tuple of list of ndarray of shape (T_i, 16), list of ndarray of shape (T_i, 32), ndarray of shape (1797,)
    """
    from sklearn.datasets import load_digits

    digits: Any = load_digits()
    down, right = np.gradient(digits.images, axis=(1, 2))
    angle = np.floor((np.arctan2(down, right) / (2 * np.pi) + 1) * _ANGLES).astype(int) % _ANGLES
    oriented = np.hypot(down, right)[..., None] * (angle[..., None] == np.arange(_ANGLES))
    patches, histograms = [], []
    for image, lengths in zip(digits.images, oriented, strict=True):
        pixels = _patches(image).reshape(-1, _PATCH**2)
        cell = _PATCH // _CELLS
        cells = _patches(lengths).reshape(-1, _ANGLES, _CELLS, cell, _CELLS, cell).sum(axis=(3, 5))
        kept = pixels.std(axis=1) >= _CONTRAST
        patches.append(pixels[kept])
        histograms.append(cells.reshape(len(pixels), -1)[kept])
    return patches, histograms, digits.target


def _patches(image: Array) -> Array:
    """Return the patches of an image (8, 8, …) with their own two axes last."""
    found = np.lib.stride_tricks.sliding_window_view(image, (_PATCH, _PATCH), axis=(0, 1))[::_STEP, ::_STEP]
    return found.reshape(-1, *found.shape[2:])
