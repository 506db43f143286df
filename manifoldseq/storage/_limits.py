"""What every reader keeps to: errors of one sentence, and sizes that are checked before memory is taken."""

import os
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from ._data import SequenceData

FilePath = str | os.PathLike[str]
DEFLATE_RATIO = 1032
"""The most bytes that one byte of a deflate stream can stand for."""
OVERHEAD = 256
"""Bytes that one more array, and its place in a list, take in Python."""


class ReadError(ValueError):
    """A file cannot be read; one sentence names it and says what is wrong, where, and what to do."""


def _half_of_memory() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    except (AttributeError, ValueError, OSError):  # not POSIX
        return 4 * 2**30


LIMIT = _half_of_memory()
"""The most bytes that one file may take as float64 arrays."""


def require(path: FilePath, values: int, arrays: int = 1) -> None:
    """Refuse a file whose `values` numbers in `arrays` arrays would take more than `LIMIT` bytes."""
    needed = 8 * values + OVERHEAD * arrays
    if needed > LIMIT:
        raise ReadError(
            f"{path} would take {needed / 2**30:.3g} GiB of memory, a reader may use {LIMIT / 2**30:.3g} GiB here: "
            "split the file, or keep fewer channels or time steps"
        )


@contextmanager
def opened(path: FilePath, kind: str) -> Iterator[BinaryIO]:
    """Open a file; whatever a decoder raises inside becomes a `ReadError` (what `open` raises does not)."""
    with open(path, "rb") as file:
        if os.fstat(file.fileno()).st_size == 0:
            raise ReadError(f"{path} is empty: expected {kind}")
        with decoding(path, kind):
            yield file


@contextmanager
def decoding(path: FilePath, kind: str) -> Iterator[None]:
    """Turn every exception but `ReadError` into one, and silence the warnings of decoders."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except ReadError:
        raise
    except Exception as error:
        detail = " ".join(f"{type(error).__name__}: {error}".split())
        raise ReadError(
            f"{path} cannot be read as {kind} ({detail[:150]}): it is damaged or of another kind, save it again"
        ) from error


def extra(package: str, path: FilePath, kind: str) -> Any:
    """Import an optional package, or say which file needs it and how to install it."""
    try:
        return import_module(package)
    except ImportError:
        name = package.partition(".")[0]
        raise ImportError(f"{path} is {kind}, which needs {name}: run `pip install {name}`, or convert it") from None


@contextmanager
def naming(path: FilePath) -> Iterator[None]:
    """Put the name of the file before the sentence of a `ValueError`."""
    try:
        yield
    except ReadError:
        raise
    except ValueError as error:
        raise ReadError(f"{path}: {error}") from error


def natural(text: str) -> list[tuple[int, str]]:
    """Return a sort key that puts ``a2`` before ``a10``."""
    parts = re.split("([0-9]+)", text)
    return [(len(part.lstrip("0")), part.lstrip("0")) if i % 2 else (0, part) for i, part in enumerate(parts)]


def numbers(array: NDArray[Any], where: str) -> NDArray[np.float64]:
    """Return a C-contiguous, writeable float64 array, or refuse what holds no real numbers."""
    if array.dtype.kind not in "biuf":
        raise ReadError(f"{where} has dtype {array.dtype}: save real numbers")
    return np.array(array, dtype=np.float64, order="C")


def as_labels(array: NDArray[Any], where: str) -> NDArray[Any]:
    """Return labels of shape (N,), numbers or strings; whole numbers stored as floats become integers."""
    if array.dtype.kind not in "biufSU":
        raise ReadError(f"{where} has dtype {array.dtype}: save labels as numbers or strings")
    if array.ndim > 2 or array.size != max(array.shape, default=1):
        raise ReadError(f"{where} has shape {array.shape}: save one label per sequence")
    labels = array.reshape(-1)
    if labels.dtype.kind in "SU":
        texts = [text.decode() if isinstance(text, bytes) else text for text in labels.tolist()]
        return np.array(texts)
    if labels.dtype.kind == "f" and np.isfinite(labels).all() and (labels == np.round(labels)).all():
        return labels.astype(np.int64) if (abs(labels) < 2**53).all() else labels.astype(np.float64)
    return np.array(labels)


def record(
    path: FilePath,
    sequences: Sequence[NDArray[np.float64]],
    labels: NDArray[Any] | None = None,
    *,
    name: str | None = None,
    sampling_rate: float | None = None,
    channel_names: Sequence[str] | None = None,
) -> SequenceData:
    """Return the record of what a file held: at least one sequence, none empty, all with the same channels."""
    if not sequences:
        raise ReadError(f"{path} holds no sequences: save at least one (T, d) array")
    for i, x in enumerate(sequences):
        if x.ndim != 2 or x.size == 0:
            raise ReadError(f"{path}, sequence {i} has shape {x.shape}: save a (T, d) array with T, d ≥ 1, time first")
        if x.shape[1] != (d := sequences[0].shape[1]):
            raise ReadError(
                f"{path}, sequence {i} has {x.shape[1]} channels but sequence 0 has {d}: save the same channels"
            )
    with naming(path):
        name = Path(path).stem if name is None else name
        return SequenceData(sequences, labels, name, sampling_rate, channel_names)
