"""Two runs along the same route: the Nordland railway in two seasons."""

import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manifoldseq.storage import SequenceData, load_arrays

Frames = NDArray[np.float32]
Runs = tuple[tuple[str, Frames], tuple[str, Frames]]
"""Two names, each with frames of shape (N, d), aligned frame by frame."""

_SOURCE = "https://raw.githubusercontent.com/tmadl/pySeqSLAM/d0caf4f/datasets/"
_FILES = {
    "preprocessing-spring-1-100-35601.mat": "d82e1bf4c2748ae789fa8339108362dbb585e4e79f831390088499186f535a55",
    "preprocessing-winter-1-100-35601.mat": "7deb0e1e96cb6154d42dc7520f40486a34d755f1a2fdb71c549b299a0749bc82",
}


def nordland(folder: Path) -> Runs:
    """Return spring and winter, 357 frames of 2048 patch-normalized pixels each, from the files of pySeqSLAM."""
    runs = []
    for name in _FILES:
        file = _existing(Path(folder) / "nordland" / name)
        arrays = load_arrays(file)
        frames = [array for array in arrays.values() if array.ndim == 2 and 2048 in array.shape]
        if len(frames) != 1:
            raise ValueError(f"{file} has no array of 2048 pixels per frame: use the file of pySeqSLAM")
        X = frames[0]
        runs.append((name.split("-")[1], np.asarray(X.T if X.shape[0] == 2048 else X, np.float32)))
    return runs[0], runs[1]


def nordland_dataset(folder: Path | str | None = None) -> SequenceData:
    """Return the Nordland railway in spring and in winter, two sequences of 357 frames of 2048 pixels.

    Each frame has zero mean and unit norm, and the average frame of each season is subtracted.

    Parameters
    ----------
    folder : path-like, optional
        The folder that contains ``nordland``. The default is the folder ``places`` in the folder of the environment
        variable ``MANIFOLDSEQ_DATA``. Without this variable, the files are downloaded once (1.4 MB) with pooch.

    Raises
    ------
    ValueError
        If a file is missing or differs from the published file.
    ImportError
        If the files are missing and pooch is not installed.
    OSError
        If the download fails.
    """
    local = Path(os.environ.get("MANIFOLDSEQ_DATA", "")) / "places"
    runs = nordland(Path(folder or (local if (local / "nordland").is_dir() else fetched())))
    return SequenceData([unit(X) for _, X in runs], labels=[name for name, _ in runs], name="nordland")


def fetched(source: str = _SOURCE, cache: Any = None) -> Path:
    """Return the folder with the files of Nordland, which are downloaded on first use and verified by SHA-256."""
    try:
        import pooch  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise ImportError(
            "fetching the Nordland frames needs pooch, which is not installed: run `pip install "
            "'manifoldseq-hierarchical[datasets]'`, or set MANIFOLDSEQ_DATA to a folder with places/nordland"
        ) from error
    folder = Path(cache or pooch.os_cache("manifoldseq"))
    for name, digest in _FILES.items():
        try:
            pooch.retrieve(source + name, known_hash=f"sha256:{digest}", fname=name, path=folder / "nordland")
        except OSError as error:
            raise OSError(
                f"{name} could not be fetched from {source}: connect to the network, or set MANIFOLDSEQ_DATA to a "
                "folder with places/nordland"
            ) from error
    return folder


def unit(X: Frames) -> Frames:
    """Return frames of zero mean and unit norm, minus their average, to remove brightness, contrast and season."""
    X = X - X.mean(axis=1, keepdims=True)
    X = X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), np.finfo(np.float32).tiny)
    return X - X.mean(axis=0)


def _existing(path: Path) -> Path:
    if not path.exists():
        raise ValueError(f"{path} does not exist: pass the folder that contains nordland and corridor")
    return path
