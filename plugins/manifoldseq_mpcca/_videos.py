"""Precomputed descriptors of videos, such as those of HMDB51 and UCF101, read on demand."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import manifoldseq as ms
from manifoldseq.estimators import check_whole, quoted

TRAJECTORIES = {"hog": slice(40, 136), "hof": slice(136, 244), "mbhx": slice(244, 340), "mbhy": slice(340, 436)}
"""Columns of dense or improved trajectories (Wang et al.) after 10 for the position and 30 for the path."""
INTEREST_POINTS = {"hog": slice(9, 81), "hof": slice(81, 171)}
"""Columns of space-time interest points (Laptev) after 9 for the point."""
_LAYOUTS = {436: TRAJECTORIES, 171: INTEREST_POINTS}
_KINDS = (".npz", ".txt", ".txt.gz", ".features", ".features.gz")
_FOLDS = ("train", "test")
_LONGEST = 2**20
"""Maximum number of bytes of a line of a table; 436 numbers need a hundredth of it."""


class DescriptorFiles(Sequence[NDArray[np.float32]]):
    """One descriptor of many videos. Each video is read from its file when it is indexed.

    Parameters
    ----------
    files : sequence of pathlib.Path
    descriptor : str
        ``"hog"``, ``"hof"``, ``"mbhx"``, ``"mbhy"``, or ``"mbh"`` for the last two concatenated.
    """

    def __init__(self, files: Sequence[Path], descriptor: str) -> None:
        self.files, self.descriptor = list(files), descriptor

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, i: Any) -> Any:
        if isinstance(i, slice | np.ndarray | list):
            rows = range(len(self))[i] if isinstance(i, slice) else np.asarray(i)
            return DescriptorFiles([self.files[int(row)] for row in rows], self.descriptor)
        found = read_descriptors(self.files[i])
        wanted = ("mbhx", "mbhy") if self.descriptor == "mbh" and "mbh" not in found else (self.descriptor,)
        if missing := [name for name in wanted if name not in found]:
            raise ValueError(
                f"{self.files[i]} has {', '.join(found)} but not {missing[0]}: pass descriptors that all files contain"
            )
        return found[wanted[0]] if len(wanted) == 1 else np.concatenate([found[name] for name in wanted], axis=1)


@dataclass(frozen=True)
class VideoDescriptors:
    """Paired descriptors of videos, with a split into training and test.

    Attributes
    ----------
    views : list of DescriptorFiles
        Bags for `MultiViewSuperVector`.
    labels : ndarray of shape (N,), str
    names : list of str
    train, test : ndarray of int
        Indices of videos.
    """

    views: list[DescriptorFiles]
    labels: NDArray[np.str_]
    names: list[str]
    train: NDArray[np.int64]
    test: NDArray[np.int64]


@lru_cache(maxsize=4)
def read_descriptors(path: Path) -> dict[str, NDArray[np.float32]]:
    """Read the descriptors of one video by name, (T, d) each.

    Parameters
    ----------
    path : pathlib.Path
        A text file with one row per descriptor, also compressed (``.gz``), with the 436 columns of dense and improved
        trajectories or the 171 of space-time interest points; or ``.npz`` with arrays ``hog``, ``hof``, ``mbhx``, …
        A file without rows is a video without descriptors.

    Raises
    ------
    ValueError
        If the file has another format, or a value that is not finite.
    """
    if path.suffix == ".npz":
        found = _read_arrays(path)
    else:
        table = _read_table(path)
        layout = _LAYOUTS.get(table.shape[1]) if len(table) else TRAJECTORIES
        if layout is None:
            raise ValueError(
                f"{path} has {table.shape[1]} columns, but 436 (trajectories) or 171 (interest points) are required"
            )
        empty = {name: np.empty((0, columns.stop - columns.start), np.float32) for name, columns in layout.items()}
        found = {name: table[:, columns] for name, columns in layout.items()} if len(table) else empty
    for name, array in found.items():
        if not np.isfinite(array).all():
            row = int(np.argwhere(~np.isfinite(array))[0, 0])
            raise ValueError(
                f"{path} contains a value that is not finite in {name}, row {row}: extract the descriptors again"
            )
    return found


def read_videos(folder: str | Path, descriptors: Sequence[str] = ("hog", "hof"), *, split: int = 1) -> VideoDescriptors:
    """Find the descriptor files of videos and a published split of the videos.

    Parameters
    ----------
    folder : str or path-like
        A folder with one subfolder per class, one file per video (see `read_descriptors`) and, in any subfolder, the
        split files: ``CLASS_test_split1.txt`` (HMDB51: lines ``name.avi 1``, where 1 means training, 2 means test and 0
        means neither) or ``trainlist01.txt`` and ``testlist01.txt`` (UCF101: lines ``CLASS/name.avi 1``).
    descriptors : sequence of str
        One descriptor per view.
    split : int

    Raises
    ------
    FileNotFoundError, ValueError
        If there are no split files, or a video of the split has no file. The message names the video.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as name:
    ...     folder = Path(name)
    ...     for fold, count in (("train", 2), ("test", 1)):
    ...         videos = [f"Run/{fold}{i}.avi" for i in range(count)]
    ...         _ = (folder / f"{fold}list01.txt").write_text("\\n".join(videos))
    ...         for video in videos:
    ...             path = folder / video.replace(".avi", ".npz")
    ...             path.parent.mkdir(exist_ok=True)
    ...             np.savez(path, hog=np.zeros((5, 96)), hof=np.zeros((5, 108)))
    ...     found = read_videos(folder)
    ...     print(found.labels.tolist(), found.train.tolist(), found.views[1][0].shape)
    ['Run', 'Run', 'Run'] [0, 1] (5, 108)
    """
    if isinstance(descriptors, str) or len(descriptors) == 0:
        raise ValueError(f"descriptors={quoted(descriptors)} is not valid: pass a list such as ['hog', 'hof']")
    known = [*TRAJECTORIES, "mbh"]
    if wrong := [name for name in descriptors if name not in known]:
        raise ValueError(f"unknown descriptor {quoted(wrong[0])}: pass any of {', '.join(known)}")
    check_whole("split", split)
    root = Path(folder)
    members = _hmdb(root, split) or _ucf(root, split)
    if not members:
        raise FileNotFoundError(
            f"{root} has no files of split {split}: put the published files there, *_test_split{split}.txt (HMDB51) or "
            f"trainlist{split:02d}.txt and testlist{split:02d}.txt (UCF101)"
        )
    files = {_stem(path): path for path in sorted(root.rglob("*")) if path.name.endswith(_KINDS)}
    if absent := [video for video, _, _ in members if video not in files]:
        raise FileNotFoundError(
            f"{root} has no descriptors of {absent[0]} ({len(absent)} videos of the split have none): add the files"
        )
    paths = [files[video] for video, _, _ in members]
    fold = np.array([fold for _, _, fold in members])
    if missing := [name for name in _FOLDS if name not in fold]:
        raise ValueError(f"split {split} in {root} has no {missing[0]} videos: put all files of the split there")
    return VideoDescriptors(
        [DescriptorFiles(paths, name) for name in descriptors],
        np.array([label for _, label, _ in members]),
        [video for video, _, _ in members],
        np.flatnonzero(fold == "train"),
        np.flatnonzero(fold == "test"),
    )


def _hmdb(root: Path, split: int) -> list[tuple[str, str, str]]:
    """Return (``CLASS/name``, class, fold) of the videos of a split of HMDB51; none if it has no files."""
    members = []
    for path in sorted(root.rglob(f"*_test_split{split}.txt")):
        label = path.name.removesuffix(f"_test_split{split}.txt")
        for number, line in enumerate(_lines(path), 1):
            name, _, part = line.strip().rpartition(" ")
            if part not in ("0", "1", "2") or not name:
                raise ValueError(
                    f"{path}, line {number}: {quoted(line.strip())} is not 'name.avi N' with N = 0, 1 or 2"
                )
            if part != "0":
                members.append((f"{label}/{_bare(name.strip())}", label, _FOLDS[int(part) - 1]))
    return members


def _ucf(root: Path, split: int) -> list[tuple[str, str, str]]:
    """Return (``CLASS/name``, class, fold) of the videos of a split of UCF101; none if it has no files."""
    members = []
    for fold in _FOLDS:
        for path in sorted(root.rglob(f"{fold}list{split:02d}.txt")):
            for number, line in enumerate(_lines(path), 1):
                label, slash, name = line.split()[0].partition("/")
                if not slash:
                    raise ValueError(f"{path}, line {number}: {quoted(line.strip())} is not 'CLASS/name.avi'")
                members.append((f"{label}/{_bare(name)}", label, fold))
    return members


def _lines(path: Path) -> list[str]:
    """Return the lines of a split file that are not blank."""
    return list(filter(str.strip, ms.storage.read_bytes(path).decode("utf-8").splitlines()))


def _stem(path: Path) -> str:
    """Return ``CLASS/name`` of a descriptor file."""
    name = path.name
    for kind in sorted(_KINDS, key=len, reverse=True):
        if name.endswith(kind):
            name = name.removesuffix(kind)
            break
    return f"{path.parent.name}/{_bare(name)}"


def _bare(name: str) -> str:
    return re.sub(r"\.(avi|mp4|mkv|webm)$", "", name)


def _read_arrays(path: Path) -> dict[str, NDArray[np.float32]]:
    found = ms.storage.load_arrays(path, (*TRAJECTORIES, "mbh"))
    for name, array in found.items():
        if array.ndim != 2 or array.dtype.kind not in "iuf":
            raise ValueError(
                f"{path}, array {quoted(name)} has shape {array.shape} and dtype {array.dtype}: save an array of "
                "numbers of shape (T, d)"
            )
    if len({len(array) for array in found.values()}) > 1:
        raise ValueError(f"{path} has different numbers of descriptors: save paired descriptors, row by row")
    if not found:
        raise ValueError(f"{path} has none of {', '.join(TRAJECTORIES)}: save the descriptors under these names")
    taken = sum(array.nbytes for array in found.values())
    ms.storage.require_memory(path, taken + 4 * sum(array.size for array in found.values()), taken=taken)
    return {name: array.astype(np.float32) for name, array in found.items()}


def _read_table(path: Path) -> NDArray[np.float32]:
    import gzip

    rows: list[NDArray[np.float32]] = []
    try:
        with ms.storage.open_file(path) as file:
            lines: Any = gzip.GzipFile(fileobj=file) if path.suffix == ".gz" else file
            number = taken = 0
            while line := lines.readline(_LONGEST):
                number += 1
                if len(line) == _LONGEST:
                    raise ValueError(f"line {number} has more than {_LONGEST} characters")
                if cells := line.decode().partition("#")[0].split():
                    try:
                        rows.append(ms.storage.decimals(cells).astype(np.float32))
                    except ValueError:
                        raise ValueError(f"line {number} has a value that is not a number") from None
                    if len(rows[-1]) != len(rows[0]):
                        raise ValueError(
                            f"line {number} has {len(rows[-1])} columns, but the first row has {len(rows[0])}"
                        )
                    taken += rows[-1].nbytes + 128
                    ms.storage.require_memory(path, 2 * taken, taken=taken)
    except ms.storage.ReadError:
        raise
    except (ValueError, OSError, EOFError) as error:
        raise ValueError(f"{path} is not a table of descriptors: {error}") from None
    return np.stack(rows) if rows else np.empty((0, 0), np.float32)
