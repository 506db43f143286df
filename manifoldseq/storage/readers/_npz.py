"""Readers of NumPy's `.npy` and `.npz` files; nothing is unpickled."""

import math
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, BinaryIO, cast

import numpy as np
from numpy.typing import NDArray

from .._convert import from_lengths
from .._data import SequenceData
from .._limits import (
    FilePath,
    ReadError,
    as_labels,
    naming,
    natural,
    numbers,
    opened,
    record,
    require_memory,
    require_open,
)
from .._numpy_files import MAPPED, Header, Loader, decode, fill, mapped, members_of
from .._real import warn_of_order
from ._sparse import sparse_rows

Float = NDArray[Any]
"""float64, or float32 where the file holds that."""


def read_npy(path: FilePath) -> SequenceData:
    """Read sequences from a `.npy` file.

    Parameters
    ----------
    path : str or path-like
        An array of real numbers. The shape is (N, T, d) for N sequences, and (T, d) or (T,) for one sequence (`windows`
        splits it).

    Returns
    -------
    SequenceData
        float32 is kept, and other dtypes are converted to float64; NaN is kept. An array of 64 MiB or more is
        memory-mapped: it stays on disk, is read-only, and is read when it is used. Do not change the file during this
        time.

    Raises
    ------
    ReadError
        If the file is empty, damaged or truncated, does not contain real numbers, or is too large for memory.
    FileNotFoundError
        If there is no such file.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "three.npy"
    ...     np.save(path, np.zeros((3, 20, 2)))
    ...     data = read_npy(path)
    >>> len(data), data.sequences[0].shape
    (3, (20, 2))
    """
    array = read_array(path)
    warn_of_order(array.shape, str(path), "save it with its last two axes exchanged", stacklevel=2)
    return record(path, _sequences(path, array))


def read_npz(path: FilePath) -> SequenceData:
    """Read sequences from a `.npz` file.

    Parameters
    ----------
    path : str or path-like
        The array ``X`` (or ``sequences``) of shape (N, T, d), or of shape (sum of lengths, d) with the array
        ``lengths``; or, without these two names, one (T, d) array per sequence in natural order of the names (``x2``
        before ``x10``). Optional arrays: ``y`` or ``labels`` (N,), ``sampling_rate``, ``channel_names`` (d,). Further
        arrays next to ``X`` are ignored. A table ``X`` (N, d) with N > 1 labels is N sequences of one row. The file can
        also contain a sparse matrix that `scipy.sparse.save_npz` has written in the format csr, csc or coo.

    Returns
    -------
    SequenceData
        float32 is kept, and other dtypes are converted to float64; NaN is kept. A sparse matrix is one sequence, a
        `scipy.sparse.csr_array`.

    Raises
    ------
    ReadError
        If the file is empty, damaged or cut off, if its header claims more data than the file contains, if it has
        members that NumPy would not write or Python objects, or if it is too large for memory.
    FileNotFoundError
        If there is no such file.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "two.npz"
    ...     np.savez(path, X=np.zeros((5, 2)), lengths=[3, 2], y=["up", "down"])
    ...     data = read_npz(path)
    >>> [x.shape for x in data.sequences], data.labels.tolist()
    ([(3, 2), (2, 2)], ['up', 'down'])
    """
    with opened(path, "a .npz archive") as file, zipfile.ZipFile(file) as archive:
        members = members_of(path, archive, size=file.seek(0, 2))
        load = Loader(path, archive, members, real=True)
        if {"format", "shape", "data"} <= members.keys():
            return record(path, cast(Any, [sparse_rows(path, load)]))
        data, shape = _lay_out(path, members, load)
    warn_of_order(shape, str(path), "save it with its last two axes exchanged", stacklevel=2)
    return data


def read_array(path: FilePath, *, least: int = MAPPED) -> Float:
    """Return the real numbers of a `.npy` file; raise as `read_npy` does.

    An array of float32 or float64 of at least so many bytes is mapped: it stays on disk, read-only.
    """
    with _header_of(path) as (file, header):
        if header.plain and header.held >= least and (array := mapped(file, header)) is not None:
            return array
        return numbers(decode(path, str(path), file, header, real=True), str(path))


def read_arrays(path: FilePath, files: Sequence[FilePath]) -> Iterator[Float]:
    """Return the real numbers of the files of a folder: large ones mapped, small ones in memory.

    If all are small and alike they are parts of one array, in order: their rows are together without a copy. If all
    together are too large for memory, small ones are mapped too.
    """
    headers = []
    for name in files:
        with _header_of(name) as (_, header):
            headers.append(header)
    least = MAPPED
    try:
        require_memory(path, sum(one.size(real=True) for one in headers if not one.plain or one.held < MAPPED))
    except ReadError:
        require_memory(path, sum(one.size(real=True) for one in headers if not one.plain))
        least = 0
    require_open(path, sum(one.plain and one.held >= least for one in headers))
    kinds = {(one.shape[1:], one.dtype) for one in headers}
    if len(kinds) == 1 and all(one.plain and len(one.shape) == 2 and one.held < least for one in headers):
        return _parts(files, headers)
    return (read_array(name, least=least) for name in files)


def _parts(files: Sequence[FilePath], headers: Sequence[Header]) -> Iterator[Float]:
    """Yield the arrays of files as parts of one."""
    ends = np.cumsum([header.shape[0] for header in headers])
    rows = np.empty((ends[-1], headers[0].shape[1]), headers[0].dtype)
    for name, header, part in zip(files, headers, np.split(rows, ends[:-1]), strict=True):
        with _header_of(name) as (file, now):
            if now != header:
                raise ReadError(f"{name} was changed while the folder was read: read it again")
            fill(str(name), file, part)
        yield part


@contextmanager
def _header_of(path: FilePath) -> Iterator[tuple[BinaryIO, Header]]:
    with opened(path, "a .npy file") as file:
        size = file.seek(0, 2)
        file.seek(0)
        yield file, Header.read(str(path), file, size)


def _lay_out(path: FilePath, keys: Any, load: Callable[[str], NDArray[Any]]) -> tuple[SequenceData, tuple[int, ...]]:
    """Return the data, and the shape of the array that holds all of them, () if there is none."""
    optional = {"y", "labels", "lengths", "sampling_rate", "channel_names"}
    found = [key for key in ("X", "sequences") if key in keys] or sorted(set(keys) - optional, key=natural)
    if len(found) > 1 and ("lengths" in keys or "X" in found):
        raise ReadError(
            f"{path} has the arrays {', '.join(found[:5])}: keep only one of them, or remove lengths and rename X"
        )
    arrays = [numbers(load(key), f"{path}, array {key!r}") for key in found]
    if "y" in keys and "labels" in keys:
        raise ReadError(f"{path} has both arrays y and labels: keep only one of them")
    label = next((key for key in ("y", "labels") if key in keys), None)
    ids = found if len(found) > 1 else None
    labels = None if label is None else as_labels(load(label), f"{path}, array {label!r}")
    if len(arrays) == 1 and "lengths" in keys:
        with naming(path):
            rows = arrays[0][:, None] if arrays[0].ndim == 1 else arrays[0]
            sequences = from_lengths(rows, load("lengths")).sequences
    elif len(arrays) == 1:
        table = labels is not None and arrays[0].ndim == 2 and len(arrays[0]) == len(labels) > 1
        sequences = _sequences(path, arrays[0][:, None, :] if table else arrays[0])
    else:
        sequences = [x[:, None] if x.ndim == 1 else x for x in arrays]
    data = record(
        path,
        sequences,
        labels,
        sampling_rate=_rate(path, load("sampling_rate")) if "sampling_rate" in keys else None,
        channel_names=_names(path, load("channel_names")) if "channel_names" in keys else None,
        ids=ids,
    )
    return data, arrays[0].shape if len(arrays) == 1 else ()


def _sequences(path: FilePath, array: Float) -> list[Float]:
    if array.ndim not in (1, 2, 3) or array.size == 0:
        images = ""
        if array.ndim == 4 and array.size:
            images = f", or images as rows, X.reshape({len(array)}, -1), with --set 'image_shape={[*array.shape[1:]]}'"
        raise ReadError(
            f"{path} has an array of shape {array.shape}: save (N, T, d), or (T, d) for one sequence{images}"
        )
    if array.ndim == 3:
        return list(array)
    return [array[:, None] if array.ndim == 1 else array]


def _rate(path: FilePath, array: NDArray[Any]) -> float:
    if array.size != 1 or array.dtype.kind not in "iuf" or not 0 < (rate := float(array.item())) < math.inf:
        raise ReadError(f"{path}, sampling_rate is not one positive number: save time steps per second")
    return rate


def _names(path: FilePath, array: NDArray[Any]) -> list[str]:
    if array.ndim != 1 or array.dtype.kind != "U":
        raise ReadError(f"{path}, channel_names has shape {array.shape} of {array.dtype}: save one string per channel")
    return array.tolist()
