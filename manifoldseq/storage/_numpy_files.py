"""NumPy's `.npy` and `.npz` formats: headers are compared with the size of the file before arrays are allocated."""

import math
import mmap
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from io import BytesIO
from itertools import pairwise
from pathlib import PurePosixPath
from typing import IO, Any, BinaryIO, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from ._limits import BLOCK, DEFLATE_RATIO, OVERHEAD, FilePath, ReadError, require_inflated, require_memory
from ._real import real_dtype

T = TypeVar("T")
MAPPED = 1 << 26
"""Number of bytes from which arrays are mapped; smaller arrays are read, so that their files may be rewritten."""


class Loader:
    """A loader of members of an archive, which checks the memory for all members and their `real` numbers."""

    def __init__(
        self, path: FilePath, archive: zipfile.ZipFile, members: dict[str, zipfile.ZipInfo], *, real: bool = False
    ) -> None:
        self.path, self.archive, self.members, self.real = path, archive, members, real
        self.taken = 0

    def __call__(self, key: str) -> NDArray[Any]:
        info = self.members[key]
        where = f"{self.path}, array {key!r}"
        with self.archive.open(info) as stream:
            header = Header.read(where, stream, info.file_size)
            array = decode(self.path, where, stream, header, real=self.real, taken=self.taken)
            if stream.read(1):
                raise ReadError(f"{where} is longer than its header states: save it again")
        self.taken += header.size(self.real)
        return array


def members_of(path: FilePath, archive: zipfile.ZipFile, size: int) -> dict[str, zipfile.ZipInfo]:
    """Return the members by key, after a check that their claimed sizes fit into the file."""
    infos = archive.infolist()
    for info in infos:
        name = PurePosixPath(info.filename)
        where = f"{path}, member {info.filename[:60]!r}"
        if name.suffix != ".npy" or name.is_absolute() or ".." in name.parts or "\\" in info.filename:
            raise ReadError(f"{where} was not written by numpy.savez: save the arrays again with numpy.savez")
        if info.flag_bits & 1 or info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ReadError(
                f"{where} is encrypted, or compressed by a method that NumPy does not use: save it with numpy.savez"
            )
        ratio = 1 if info.compress_type == zipfile.ZIP_STORED else DEFLATE_RATIO
        if info.compress_size > size or info.file_size > ratio * info.compress_size:
            raise ReadError(
                f"{where} is too short for the {info.file_size} bytes that its header states: save it again"
            )
    if sum(info.compress_size for info in infos) > size:
        raise ReadError(f"{path} has members that overlap: save it again with numpy.savez")
    require_memory(path, max((info.file_size for info in infos), default=0) + OVERHEAD * len(infos))
    require_inflated(path, sum(info.file_size for info in infos if info.compress_type != zipfile.ZIP_STORED))
    members = {info.filename.removesuffix(".npy"): info for info in infos}
    if len(members) < len(infos):
        raise ReadError(f"{path} has two members with the same name: save it again with numpy.savez")
    return members


@dataclass(frozen=True)
class Header:
    """The header of a `.npy` file, validated against the size of the file."""

    shape: tuple[int, ...]
    fortran: bool
    dtype: np.dtype
    offset: int

    @classmethod
    def read(cls, where: str, stream: IO[bytes], size: int) -> Self:
        """Read the header from a stream of `size` bytes; the stream is then at the beginning of the array."""
        version = np.lib.format.read_magic(stream)
        lengths = {(1, 0): 2, (2, 0): 4}
        if version not in lengths:
            raise ReadError(
                f"{where} has format version {version}, but only 1.0 and 2.0 are supported: save plain numbers or "
                "strings"
            )
        head = stream.read(lengths[version])
        length = int.from_bytes(head, "little")
        if length > size:
            raise ValueError(f"a header of {length} bytes in a file of {size}")
        head += stream.read(length)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, fortran, dtype = _undisturbed(lambda: read(BytesIO(head)))
        if dtype.hasobject:
            raise ReadError(
                f"{where} contains Python objects, which could run code: save numbers, or labels as strings"
            )
        offset = len(head) + np.lib.format.MAGIC_LEN
        if min(shape, default=1) < 0 or math.prod(shape) * dtype.itemsize != size - offset:
            claim = f"has a header with shape {str(shape)[:60]} of {dtype}, but contains {size - offset} bytes"
            raise ReadError(f"{where} {claim}: it is cut off or damaged; save it again")
        return cls(shape, fortran, dtype, offset)

    @property
    def held(self) -> int:
        """The number of bytes of the array."""
        return math.prod(self.shape) * self.dtype.itemsize

    @property
    def plain(self) -> bool:
        """Whether the bytes form a C-contiguous array of float32 or float64."""
        return not self.fortran and self.dtype.isnative and self.dtype == real_dtype(self.dtype)

    def size(self, real: bool) -> int:
        """Return the number of bytes of the array and of its conversion to `real` numbers."""
        needed = self.held + OVERHEAD * (self.shape[0] if len(self.shape) == 3 else 1)
        return needed if self.plain or not real else needed + math.prod(self.shape) * real_dtype(self.dtype).itemsize


def decode(
    path: FilePath, where: str, stream: IO[bytes], header: Header, *, real: bool = False, taken: int = 0
) -> NDArray[Any]:
    """Return the array that follows its header in a stream, after a check of the available memory."""
    require_memory(path, taken + header.size(real), taken=taken)
    values = np.empty(math.prod(header.shape), header.dtype)
    fill(where, stream, values)
    return values.reshape(header.shape, order="F" if header.fortran else "C")


def fill(where: str, stream: IO[bytes], values: NDArray[Any]) -> None:
    """Read all bytes of an array."""
    if values.nbytes:
        raw, place = values.reshape(-1).view(np.uint8), 0
        while place < len(raw) and (block := stream.read(min(BLOCK, len(raw) - place))):  # one call would copy it whole
            raw[place : place + len(block)] = np.frombuffer(block, np.uint8)
            place += len(block)
        if place < len(raw):
            raise ReadError(f"{where} ends after {place} of {len(raw)} bytes: it is cut off; save it again")


def mapped(stream: BinaryIO, header: Header) -> NDArray[Any] | None:
    """Return a read-only memory map of a plain array, or None if mapping is impossible."""
    try:
        return np.asarray(np.memmap(stream, header.dtype, "r", header.offset, header.shape))
    except OSError:  # a file system that cannot map, or a limit
        stream.seek(header.offset)
        return None


def in_one(arrays: Sequence[NDArray[Any]]) -> NDArray[Any] | None:
    """Return the array of which several arrays are consecutive rows, or None if they are not parts of one array.

    Examples
    --------
    >>> rows = np.arange(8.0).reshape(4, 2)
    >>> in_one([rows[1:2], rows[2:]]).tolist()
    [[2.0, 3.0], [4.0, 5.0], [6.0, 7.0]]
    >>> in_one([rows[:1], rows[2:]]) is None
    True
    """
    whole = arrays[0].base
    if not isinstance(whole, np.ndarray) or not whole.flags.c_contiguous:
        return None
    if not all(x.base is whole and x.flags.c_contiguous and x.dtype == whole.dtype for x in arrays):
        return None
    places = [x.__array_interface__["data"][0] for x in arrays]
    if any(place + x.nbytes != after for (place, after), x in zip(pairwise(places), arrays, strict=False)):
        return None
    values = whole.reshape(-1)
    start = (places[0] - values.__array_interface__["data"][0]) // values.itemsize
    return values[start : start + sum(x.size for x in arrays)].reshape(-1, arrays[0].shape[1])


def release(array: NDArray[Any]) -> None:
    """Release the memory of a mapped array; it is read again on the next access."""
    base: Any = array
    while isinstance(base, np.ndarray):
        base = base.base
    if isinstance(base, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        base.madvise(mmap.MADV_DONTNEED)


def _undisturbed(read: Callable[[], T]) -> T:
    """Return ``read()``, repeated if another thread disturbed Python's parser, because headers are Python literals.

    Python 3.11 and 3.12 keep one recursion depth for all threads that parse (python/cpython#106905): the
    ``SystemError`` that follows says nothing about the file.
    """
    for _ in range(9):
        try:
            return read()
        except SystemError:
            continue
    return read()
