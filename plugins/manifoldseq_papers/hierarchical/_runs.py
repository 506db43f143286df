"""Pairs of recorded runs along the same route: the Nordland railway in two seasons, and a corridor."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import manifoldseq as ms
from manifoldseq.storage import open_file, require_memory

Frames = NDArray[np.float32]
Runs = tuple[tuple[str, Frames], tuple[str, Frames]]
"""Two names, each with frames of shape (N, d). Frames have zero mean and unit norm and are aligned between the runs."""

_HEIGHT, _WIDTH = 24, 32


def nordland(folder: Path) -> Runs:
    """Return spring and winter, 357 frames of 2048 pixels each, from the files of pySeqSLAM."""
    found = ms.hooks.get_dataset("nordland").loader(folder)
    (first, X), (second, Y) = zip(found.labels, found.sequences, strict=True)
    return (str(first), X.astype(np.float32)), (str(second), Y.astype(np.float32))


def corridor(folder: Path) -> Runs:
    """Return the reference run and the queries, 111 images each as 24×32 grey values, from VPR-Bench."""
    from PIL import Image

    base, runs = Path(folder) / "corridor" / "datasets" / "corridor", []
    for part in ("ref", "query"):
        files = sorted(_existing(base / part).glob("*.jpg"))
        if not files:
            raise ValueError(f"{base / part} has no .jpg files: use the corridor of VPR-Bench")
        images = []
        for file in files:
            with open_file(file) as content, Image.open(content) as image:
                require_memory(file, 8 * image.width * image.height)
                images.append(np.asarray(image.convert("L").resize((_WIDTH, _HEIGHT), Image.Resampling.BOX)))
        runs.append((part, unit(np.array(images, np.float32).reshape(len(images), -1))))
    return runs[0], runs[1]


RUNS: dict[str, Callable[[Path], Any]] = {"nordland": nordland, "corridor": corridor}


def unit(X: Frames) -> Frames:
    """Return frames of zero mean and unit norm, less their average: brightness, contrast and season taken out."""
    X = X - X.mean(axis=1, keepdims=True)
    X = X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), np.finfo(np.float32).tiny)
    return X - X.mean(axis=0)


def _existing(path: Path) -> Path:
    if not path.exists():
        raise ValueError(f"{path} does not exist: pass the folder that contains nordland and corridor")
    return path
