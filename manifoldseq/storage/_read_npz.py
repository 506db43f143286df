"""Readers of NumPy's `.npy` and `.npz` files; nothing is ever unpickled."""

import math
import zipfile
from collections.abc import Callable
from io import BytesIO
from pathlib import PurePosixPath
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from ._convert import from_lengths
from ._data import SequenceData
from ._limits import (
    BLOCK,
    DEFLATE_RATIO,
    OVERHEAD,
    FilePath,
    ReadError,
    as_labels,
    naming,
    natural,
    numbers,
    opened,
    record,
    require_memory,
)
from ._parser import undisturbed
from ._real import warn_of_order

Float = NDArray[np.float64]


def read_npy(path: FilePath) -> SequenceData:
    """Read sequences from a `.npy` file.

    Parameters
    ----------
    path : str or path-like
        An array of real numbers of shape (N, T, d), N sequences, or (T, d) or (T,), one sequence (cut it with
        `windows`).

    Returns
    -------
    SequenceData
        float64; NaN is kept.

    Raises
    ------
    ReadError
        If the file is empty, damaged, cut off, holds Python objects or no real numbers, or is too large for memory.
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
        The array ``X`` (or ``sequences``) of shape (N, T, d), or of shape (sum of lengths, d) beside the array
        ``lengths``; or, without these two names, one (T, d) array per sequence in natural order of the names (``x2``
        before ``x10``). Beside them, all optional: ``y`` or ``labels`` (N,), ``sampling_rate``, ``channel_names`` (d,).
        Further arrays beside ``X`` are left alone. A table ``X`` (N, d) with N > 1 labels is N sequences of one row.

    Returns
    -------
    SequenceData
        float64; NaN is kept.

    Raises
    ------
    ReadError
        If the file is empty, damaged or cut off, claims more than it holds, has members that NumPy would not write,
        holds Python objects, or is too large for memory.
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
        members = _members(path, archive, size=file.seek(0, 2))
        data, shape = _lay_out(path, members, Loader(path, archive, members, width=8))
    warn_of_order(shape, str(path), "save it with its last two axes exchanged", stacklevel=2)
    return data


def read_array(path: FilePath) -> Float:
    """Return the real numbers of a `.npy` file as float64; raises as `read_npy` does."""
    with opened(path, "a .npy file") as file:
        size = file.seek(0, 2)
        file.seek(0)
        return numbers(_decode(path, str(path), file, size, width=8), str(path))


class Loader:
    """Loads members of an archive; what all of them take, `width` bytes per value beside the array, is counted."""

    def __init__(
        self, path: FilePath, archive: zipfile.ZipFile, members: dict[str, zipfile.ZipInfo], width: int = 0
    ) -> None:
        self.path, self.archive, self.members, self.width = path, archive, members, width
        self.taken = 0

    def __call__(self, key: str) -> NDArray[Any]:
        info = self.members[key]
        where = f"{self.path}, array {key!r}"
        with self.archive.open(info) as stream:
            array = _decode(self.path, where, stream, info.file_size, width=self.width, taken=self.taken)
            if stream.read(1):
                raise ReadError(f"{where} is longer than it claims: save it again")
        self.taken += array.nbytes + self.width * array.size
        return array


def _members(path: FilePath, archive: zipfile.ZipFile, size: int) -> dict[str, zipfile.ZipInfo]:
    """Return the members by key, none of which claims more than the file can hold."""
    infos = archive.infolist()
    for info in infos:
        name = PurePosixPath(info.filename)
        where = f"{path}, member {info.filename[:60]!r}"
        if name.suffix != ".npy" or name.is_absolute() or ".." in name.parts or "\\" in info.filename:
            raise ReadError(f"{where} is nothing that numpy.savez writes: save the arrays again with numpy.savez")
        if info.flag_bits & 1 or info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ReadError(f"{where} is encrypted or compressed in another way than NumPy's: save it with numpy.savez")
        ratio = 1 if info.compress_type == zipfile.ZIP_STORED else DEFLATE_RATIO
        if info.compress_size > size or info.file_size > ratio * info.compress_size:
            raise ReadError(f"{where} claims {info.file_size} bytes, more than the file can hold: save it again")
    if sum(info.compress_size for info in infos) > size:
        raise ReadError(f"{path} has members that overlap: save it again with numpy.savez")
    require_memory(path, max((info.file_size for info in infos), default=0) + OVERHEAD * len(infos))
    members = {info.filename.removesuffix(".npy"): info for info in infos}
    if len(members) < len(infos):
        raise ReadError(f"{path} has two members of one name: save it again with numpy.savez")
    return members


def _decode(
    path: FilePath, where: str, stream: IO[bytes], size: int, *, width: int = 0, taken: int = 0
) -> NDArray[Any]:
    """Return the array in the `size` bytes of a `.npy` file.

    Its header is compared with that size, and the array and `width` bytes per value beside it with the memory, before
    any of it is read.
    """
    version = np.lib.format.read_magic(stream)
    lengths = {(1, 0): 2, (2, 0): 4}
    if version not in lengths:
        raise ReadError(f"{where} has format version {version}, known are 1.0 and 2.0: save plain numbers or strings")
    head = stream.read(lengths[version])
    length = int.from_bytes(head, "little")
    if length > size:
        raise ValueError(f"a header of {length} bytes in a file of {size}")
    head += stream.read(length)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, fortran, dtype = undisturbed(lambda: read(BytesIO(head)))
    if dtype.hasobject:
        raise ReadError(f"{where} holds Python objects, which could run code: save numbers, or labels as strings")
    count, held = math.prod(shape), size - len(head) - np.lib.format.MAGIC_LEN
    if min(shape, default=1) < 0 or count * dtype.itemsize != held:
        claim = f"claims shape {str(shape)[:60]} of {dtype} but holds {held} bytes"
        raise ReadError(f"{where} {claim}: it is cut off or damaged, save it again")
    arrays = shape[0] if len(shape) == 3 else 1
    require_memory(path, taken + held + width * count + OVERHEAD * arrays, taken=taken)
    values = np.empty(count, dtype)
    if held:
        raw, place = values.view(np.uint8), 0
        while place < held and (block := stream.read(min(BLOCK, held - place))):  # one call would take all of it twice
            raw[place : place + len(block)] = np.frombuffer(block, np.uint8)
            place += len(block)
        if place < held:
            raise ReadError(f"{where} ends after {place} of {held} bytes: it is cut off, save it again")
    return values.reshape(shape, order="F" if fortran else "C")


def _lay_out(path: FilePath, keys: Any, load: Callable[[str], NDArray[Any]]) -> tuple[SequenceData, tuple[int, ...]]:
    """Return the data, and the shape of the array that holds all of them, () if there is none."""
    beside = {"y", "labels", "lengths", "sampling_rate", "channel_names"}
    found = [key for key in ("X", "sequences") if key in keys] or sorted(set(keys) - beside, key=natural)
    if len(found) > 1 and ("lengths" in keys or "X" in found):
        raise ReadError(f"{path} has the arrays {', '.join(found[:5])}: keep one as X, or leave out lengths and X")
    arrays = [numbers(load(key), f"{path}, array {key!r}") for key in found]
    if "y" in keys and "labels" in keys:
        raise ReadError(f"{path} has both y and labels: keep one")
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
        raise ReadError(f"{path} has an array of shape {array.shape}: save (N, T, d), or (T, d) for one sequence")
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
