"""Table 1 of the paper: classification with bags of systems and with pyramid pooling."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics.pairwise import additive_chi2_kernel
from sklearn.model_selection import LeaveOneOut, StratifiedKFold
from sklearn.svm import SVC

from manifoldseq.execution import one_blas_thread
from manifoldseq.reproduction import Rows, check_choice, check_whole, finished, names, row
from manifoldseq_lds import BagOfSystems, Blocks, PyramidPooling, VideoBlocks, dynamic_textures, read_textures

from ._data import LAYOUTS, recorded

Array = NDArray[np.floating[Any]]

DATASETS = ("japanese-vowels", "basic-motions", "dynamic-textures")
BAGS: dict[str, dict[str, Any]] = {
    "MDS + BoS": {"mean": "papers:mds"},
    "Align + BoS": {"mean": "papers:align"},
    "PGD + BoS": {"mean": "papers:toolbox"},
    "ours + BoS": {"mean": "exact"},
}
PYRAMIDS: dict[str, dict[str, Any]] = {
    "Grass-3 + STPM": {"method": "papers:grassmann"},
    "LDSST + STPM": {"method": "papers:symmetric"},
    "PGD + STPM": {"method": "pgd", "batch_size": (20, 4), "step_size": (0.5, 0.5, 5.0)},
    "ours + STPM": {"method": "canonical", "inner_iter": 3},
}
_PAPER = {
    "yupenn": (83.3, 82.1, 84.1, None, 91.6, 90.7, 93.6, None),
    "dyntex": (59.5, 62.7, 65.4, None, 75.1, 75.1, 76.5, None),
}
_IDENTIFICATION: dict[str, dict[str, Any]] = {
    "japanese-vowels": {"n_states": 2, "identifier__center": False, "window": 6, "stride": 1},
    "basic-motions": {"n_states": 4, "window": 25, "stride": 10},
}
_C = (0.1, 1.0, 10.0, 100.0)
_WIDTHS = (0.25, 1.0, 4.0)
"""Widths of the chi-square kernel, as multiples of the mean distance."""


def table1(
    data: Path | str | None = None,
    *,
    layout: str = "dyntex++",
    datasets: Sequence[str] | str = DATASETS,
    kernel: Any = "projection",
    n_words: int = 32,
    n_states: int = 10,
    size: Sequence[int] = (25, 8, 8),
    n_videos: int = 60,
    max_blocks: int = 12,
    max_iter: int = 10,
    alpha: float = 0.1,
    n_seeds: int = 3,
    n_folds: int | None = None,
    folder: str = "runs/lds-table1",
    resume: bool = False,
) -> Rows:
    """Classify videos and sequences by bags of systems (BoS) and pyramid pooling (STPM), with eight methods.

    Parameters
    ----------
    data : path-like, optional
        Folder of videos in the `layout` of a published collection, see `read_textures`. It replaces the data sets.
    layout : {"dyntex++", "yupenn", "dyntex"}
        Layout of the folder `data`.
    datasets : sequence of str
        Any of ``"japanese-vowels"``, ``"basic-motions"`` (their published test parts) and ``"dynamic-textures"``
        (generated; each video left out once).
    kernel : str or kernel object
        The kernel of the clusterings and dictionaries of PGD and of our method, such as ``"martin"``. MDS, Grass-3 and
        LDSST have their own kernels.
    n_words : int
        Number of codewords and atoms.
    n_states : int
        Number of states of the systems of video blocks.
    size : (int, int, int)
        Frames, rows and columns of a block.
    n_videos : int
        Number of generated dynamic textures.
    max_blocks : int
        Number of random blocks of each video from which codewords are learned.
    max_iter : int
        Epochs.
    alpha : float
        Sparsity factor of the codes.
    n_seeds : int
        Number of random starts of the codewords.
    n_folds : int, optional
        Number of folds of the videos; by default one video is left out at a time.
    folder : str
        Folder for finished results.
    resume : bool
        Continue with the results in `folder`.

    Returns
    -------
    list of dict
        Accuracies in %, with standard errors over the starts, and CPU seconds of learning and coding. Results of the
        paper are included for the data sets of the paper.

    Notes
    -----
    Codewords of videos are learned once per start from the blocks of all videos, without their classes. Codewords of
    sequences are learned from the training part. C and the width of the chi-square kernel are chosen by
    cross-validation inside every training part.
    """
    check_choice("layout", layout, LAYOUTS)
    sets = (layout,) if data is not None else names("datasets", datasets, DATASETS)
    counts = {"n_words": n_words, "n_states": n_states, "n_videos": n_videos, "max_blocks": max_blocks}
    for name, value in {**counts, "max_iter": max_iter, "n_seeds": n_seeds}.items():
        check_whole(name, value)
    rows: Rows = []
    with one_blas_thread():
        for name in sets:
            is_sequence = name in _IDENTIFICATION
            items = _Items(name, data, tuple(size), n_videos)
            for number, (model, special) in enumerate((BAGS | PYRAMIDS).items()):
                common: dict[str, Any] = {"kernel": kernel, "max_iter": max_iter, "max_blocks": max_blocks}
                common |= _IDENTIFICATION[name] if is_sequence else {"n_states": n_states, "identifier__scale": False}
                common |= {"n_init": 1} if model in BAGS else {"alpha": alpha}
                accuracies, seconds = [], []
                for seed in range(n_seeds):
                    settings = {**common, **special, "random_state": seed}
                    source = {"data": str(data), "size": list(size), "videos": n_videos, "folds": n_folds}
                    key = {"dataset": name, "model": model, "words": n_words, "settings": settings, **source}

                    compute = partial(_measure, items, model, n_words, settings, n_folds)
                    found = finished(folder, resume, key, compute)
                    accuracies.append(100 * found["accuracy"])
                    seconds.append(found["seconds"])
                paper = _PAPER.get(name, (None,) * 8)[number]
                rows.append(row(model, name, "accuracy", "%", accuracies, paper))
                rows.append(row(model, name, "CPU time of codewords and codes", "s", seconds))
    return rows


def _load(name: str, data: Path | str | None, size: Sequence[int], n_videos: int) -> tuple[list[Any], Any, int | None]:
    """Return items, their classes, and the number of leading training items; None if videos are left out in turn."""
    if name in _IDENTIFICATION:
        found = recorded(name)
        return found.sequences, found.labels, {"japanese-vowels": 270, "basic-motions": 40}[name]
    cut = VideoBlocks(size)
    if data is not None:
        videos = read_textures(str(data), name)
        blocks: list[Blocks] = [cut.transform([videos[i]])[0] for i in range(len(videos))]
        return blocks, videos.labels, None
    textures, labels = dynamic_textures(n_videos)
    return cut.transform(textures), labels, None


@dataclass(frozen=True)
class _Items:
    """A data set that is read on first use."""

    name: str
    data: Path | str | None
    size: tuple[int, ...]
    n_videos: int

    @cached_property
    def loaded(self) -> tuple[list[Any], Any, int | None]:
        return _load(self.name, self.data, self.size, self.n_videos)


def _measure(source: _Items, model: str, n_words: int, settings: dict[str, Any], n_folds: int | None) -> Any:
    items, labels, n_train = source.loaded
    kind = BagOfSystems if model in BAGS else PyramidPooling
    pooling = kind(n_words).set_params(**settings)
    start = time.process_time()
    features = pooling.fit(items if n_train is None else items[:n_train]).transform(items)
    seconds = time.process_time() - start
    grams: list[Array] = _chi_square_grams(features) if model in BAGS else [features @ features.T]
    if n_train is None:
        splits = _splits(labels, n_folds)
    else:
        splits = iter([(np.arange(n_train), np.arange(n_train, len(items)))])
    hits = [_classified(grams, labels, train, test) for train, test in splits]
    return {"accuracy": float(np.concatenate(hits).mean()), "seconds": seconds}


def _splits(labels: Any, n_folds: int | None) -> Iterator[tuple[Any, Any]]:
    splitter = LeaveOneOut() if n_folds is None else StratifiedKFold(n_folds, shuffle=True, random_state=0)
    return splitter.split(np.zeros(len(labels)), labels)


def _chi_square_grams(features: Array) -> list[Array]:
    """Return ``exp(-d / s)`` of the chi-square distances d of histograms, for several widths s."""
    distances = -additive_chi2_kernel(features) / 2  # 1/2 sum (a - b)^2 / (a + b)
    scale = float(distances.mean()) or 1.0
    return [np.exp(-distances / (width * scale)) for width in _WIDTHS]


def _classified(grams: list[Array], labels: Any, train: Any, test: Any) -> NDArray[np.bool_]:
    """Return which test items are classified correctly by the machine that cross-validation selects."""
    least = int(np.unique(labels[train], return_counts=True)[1].min())
    folds = list(StratifiedKFold(max(2, min(5, least))).split(train, labels[train]))

    def right(gram: Array, C: float, learn: Any, judge: Any) -> NDArray[np.bool_]:
        machine = SVC(kernel="precomputed", C=C).fit(gram[np.ix_(learn, learn)], labels[learn])
        return machine.predict(gram[np.ix_(judge, learn)]) == labels[judge]

    choices = [(gram, C) for gram in grams for C in _C]
    scores = [sum(right(*choice, train[a], train[b]).sum() for a, b in folds) for choice in choices]
    return right(*choices[int(np.argmax(scores))], train, test)
