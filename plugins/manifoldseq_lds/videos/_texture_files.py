"""Videos of moving textures in the folder layouts of DynTex++, YUPENN and DynTex, read on demand."""

import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import manifoldseq as ms
from manifoldseq.estimators import quoted

LAYOUTS = ("dyntex++", "yupenn", "dyntex")
_IMAGES = (".png", ".jpg", ".jpeg", ".bmp", ".tif", ".tiff", ".pgm", ".ppm")
_MOVIES = (".avi", ".mov", ".mp4", ".mpg", ".mpeg")
_ARRAYS = (".npy", ".npz", ".mat")
_WHITE = {"bool": 1.0, "uint8": 255.0, "uint16": 65535.0}
"""The value of white by integer dtype."""


@dataclass(frozen=True)
class VideoFiles(Sequence[NDArray[np.float32]]):
    """Videos that are read on indexing, as float32 grey levels (T, rows, columns) from 0 to 1.

    Attributes
    ----------
    paths : tuple of pathlib.Path
        The file or the folder of frames of each video.
    labels : ndarray of shape (N,), str
    names : tuple of str
    """

    paths: tuple[Path, ...]
    labels: NDArray[np.str_]
    names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, i: Any) -> Any:
        if isinstance(i, slice | np.ndarray | list):
            rows = np.arange(len(self))[i]
            parts = tuple(self.paths[r] for r in rows), self.labels[rows], tuple(self.names[r] for r in rows)
            return VideoFiles(*parts)
        return read_video(self.paths[i])


def read_textures(folder: str | Path, layout: str = "dyntex++") -> VideoFiles:
    """Find the videos of a published collection of moving textures.

    Parameters
    ----------
    folder : str or path-like
    layout : {"dyntex++", "yupenn", "dyntex"}
        ``"dyntex++"`` and ``"yupenn"``: one subfolder per class, whose name is the class, with one file or one folder
        of frames per video. ``"dyntex"``: all videos in one folder or its subfolders, and a table ``labels.csv`` with
        lines ``name,class``; videos that are not in the table are left out.

    Returns
    -------
    VideoFiles
        The videos in natural order of classes and names.

    Raises
    ------
    FileNotFoundError, ValueError
        If there is no video or no table, or if the table names a missing video; the message names it.

    Notes
    -----
    A video is a ``.npy`` file (T, rows, columns), a ``.npz`` file with one such array, a ``.mat`` file with an array
    (rows, columns, T), a folder of images, or a movie, for which imageio with a codec is needed: ``pip install
    imageio[ffmpeg]``. Integers of eight and of sixteen bits are scaled to values from 0 to 1.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as name:
    ...     (Path(name) / "waves").mkdir()
    ...     np.save(Path(name) / "waves" / "1.npy", np.zeros((5, 4, 4)))
    ...     videos = read_textures(name)
    ...     print(videos.labels.tolist(), videos[0].shape)
    ['waves'] (5, 4, 4)
    """
    root = Path(folder)
    if layout not in LAYOUTS:
        raise ValueError(f"layout={quoted(layout)} is not known: choose {', '.join(map(repr, LAYOUTS))}")
    if not root.is_dir():
        raise FileNotFoundError(f"{root} is not a folder: pass the folder that contains the videos")
    found = _listed(root) if layout == "dyntex" else _in_classes(root)
    if not found:
        raise FileNotFoundError(f"{root} has no videos: pass a folder with {_EXPECTED[layout]}")
    paths, labels = zip(*found, strict=True)
    return VideoFiles(paths, np.array(labels), tuple(path.stem for path in paths))


_EXPECTED = {
    "dyntex++": "one subfolder per class with a .mat or .npy file per video",
    "yupenn": "one subfolder per class with a movie or a folder of frames per video",
    "dyntex": "videos and a file labels.csv, which has one line 'name,class' per video",
}


def read_video(path: Path) -> NDArray[np.float32]:
    """Read one video as grey levels.

    Parameters
    ----------
    path : pathlib.Path
        See `read_textures`.

    Returns
    -------
    ndarray of shape (T, rows, columns), float32
        Grey levels from 0 to 1: integers of eight bits are divided by 255, integers of sixteen bits by 65535, and
        floating-point numbers are not scaled. Colours are averaged as in ITU-R 601.

    Raises
    ------
    ValueError
        If the file contains no video, or integers of a dtype without a known value of white; the message names the
        file.
    ImportError
        If the file is a movie and imageio is not installed.
    """
    if path.is_dir():
        frames, size = [], 0
        for file in _entries(path):
            if file.suffix.lower() in _IMAGES:
                frames.append(_grey(_image(file, size), file))
                size += _COPIES * frames[-1].size
        if not frames:
            raise ValueError(f"{path} has no images: put the frames of one video there")
        if len({frame.shape for frame in frames}) > 1:
            raise ValueError(f"{path} has frames of different sizes: keep the frames of one video only")
        video = np.stack(frames)
    else:
        readers: dict[tuple[str, ...], Callable[[Path], NDArray[Any]]] = {_MOVIES: _movie}
        readers |= {(".npy",): _array, (".npz",): _archive, (".mat",): _matlab}
        kind = path.suffix.lower()
        reader = next((read for kinds, read in readers.items() if kind in kinds), None)
        if reader is None:
            raise ValueError(
                f"{path} is not a video: pass files of the types {', '.join((*_ARRAYS, *_MOVIES))}, or folders of "
                "images"
            )
        video = reader(path)
    if video.ndim == 4:
        video = _grey(video, path)
    if video.ndim != 3:
        raise ValueError(f"{path} contains an array of shape {video.shape}: save an array of shape (T, rows, columns)")
    return _unit(video, path)


def _in_classes(root: Path) -> list[tuple[Path, str]]:
    classes = [entry for entry in _entries(root) if entry.is_dir()]
    return [(video, one.name) for one in classes for video in _entries(one) if _is_video(video)]


def _listed(root: Path) -> list[tuple[Path, str]]:
    table = root / "labels.csv"
    if not table.is_file():
        raise FileNotFoundError(f"{table} does not exist: write one line 'name,class' per video")
    videos: dict[str, list[Path]] = {}
    for entry in filter(_is_video, sorted(root.rglob("*"))):
        videos.setdefault(entry.stem, []).append(entry)
    found = {}
    for number, row in ms.storage.read_cells(table):
        if len(row) != 2 or not all(row):
            raise ValueError(f"{table}, line {number}: {quoted(','.join(row))} is not 'name,class'")
        name = Path(row[0]).stem
        if name not in videos:
            raise FileNotFoundError(f"{table}, line {number}: {root} has no video {quoted(name)}")
        if len(videos[name]) > 1:
            one, other = videos[name][:2]
            raise ValueError(f"{table}, line {number}: {quoted(name)} is both {one} and {other}: rename or remove one")
        if videos[name][0] in found:
            raise ValueError(f"{table}, line {number}: {quoted(name)} has two lines: keep one of them")
        found[videos[name][0]] = row[1]
    return sorted(found.items(), key=lambda pair: (_natural(pair[1]), _natural(pair[0].stem)))


def _is_video(path: Path) -> bool:
    if path.is_dir():
        return any(file.suffix.lower() in _IMAGES for file in path.iterdir())
    return path.suffix.lower() in (*_ARRAYS, *_MOVIES)


def _entries(folder: Path) -> list[Path]:
    return sorted((e for e in folder.iterdir() if not e.name.startswith(".")), key=lambda e: _natural(e.name))


def _natural(name: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]


def _array(path: Path) -> NDArray[Any]:
    return _counted(path, ms.storage.load_array(path))


def _archive(path: Path) -> NDArray[Any]:
    videos = list(ms.storage.load_arrays(path).values())
    if len(videos) != 1:
        raise ValueError(f"{path} has {len(videos)} arrays: save one array of shape (T, rows, columns)")
    return _counted(path, videos[0])


def _matlab(path: Path) -> NDArray[Any]:
    videos = [array for array in ms.storage.load_arrays(path).values() if array.ndim == 3]
    if len(videos) != 1:
        raise ValueError(
            f"{path} has {len(videos)} arrays of three dimensions: save one array of shape (rows, columns, T)"
        )
    return np.moveaxis(_counted(path, videos[0]), 2, 0)


_COPIES = 16
"""Bytes per pixel of a video in addition to the file: grey levels as float64 or twice as float32, and the result."""


def _counted(path: Path, video: NDArray[Any]) -> NDArray[Any]:
    ms.storage.require_memory(path, video.nbytes + _COPIES * video.size, taken=video.nbytes)
    return video


def _image(path: Path, taken: int) -> NDArray[Any]:
    """Return the pixels of a frame; its size plus the memory `taken` by other frames is checked before reading."""
    from PIL import Image  # matplotlib's reader cuts sixteen bits of .pgm down to eight

    try:
        with ms.storage.open_file(path) as file, warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # a smaller frame than the memory holds
            with Image.open(file) as opened:
                pixels, channels = opened.width * opened.height, max(len(opened.getbands()), 4)
                ms.storage.require_memory(path, taken + (8 * channels + _COPIES) * pixels, taken=taken)
                kept = opened.mode in ("1", "L", "LA", "RGB", "RGBA", "F", "I") or opened.mode.startswith("I;16")
                image = np.asarray(opened if kept else opened.convert("RGB"))
                deep = opened.mode == "I" and opened.format in ("PPM", "PNG")
    except ms.storage.ReadError:
        raise
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise ValueError(f"{path} is not an image ({error}): extract the frames again") from None
    if deep:
        image = image.astype(np.uint16)  # Pillow has these sixteen bits in 32
    return image if image.ndim == 3 else image[..., None]


def _movie(path: Path) -> NDArray[Any]:
    try:
        import imageio.v3 as imageio  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise ImportError(
            f"{path} is a movie, which needs imageio: run `pip install imageio[ffmpeg]`, or extract the frames into a "
            "folder"
        ) from None
    with ms.storage.open_file(path):  # a regular file; the codec opens it by its name
        frames, size = [], 0
        for frame in imageio.imiter(path):  # what a codec inflates no header tells
            frames.append(np.asarray(frame))
            size += 2 * frames[-1].nbytes + _COPIES * frames[-1].size
            ms.storage.require_memory(path, size, taken=sum(one.nbytes for one in frames))
    return np.stack(frames)


def _grey(frames: NDArray[Any], path: Path) -> NDArray[np.float32]:
    """Average colours, from 0 to 1."""
    channels = _unit(frames[..., :3], path)
    weights = np.array([0.299, 0.587, 0.114], dtype=np.float32)
    return channels @ weights if channels.shape[-1] == 3 else channels[..., 0]


def _unit(values: NDArray[Any], path: Path) -> NDArray[np.float32]:
    """Return grey levels or colours from 0 to 1."""
    if values.dtype.kind == "f":
        return values.astype(np.float32)
    white = _WHITE.get(values.dtype.name)
    if white is None:
        raise ValueError(
            f"{path} contains {values.dtype}, for which the value of white is unknown: save uint8, uint16, or floats "
            "up to 1"
        )
    return (values / white).astype(np.float32)
