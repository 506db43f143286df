"""NumPy's `.npy` and `.npz` formats: headers are compared with the bytes that are there before any array is made."""

import math
import mmap
import zipfile
from collections.abc import Callable
from io import BytesIO
from pathlib import PurePosixPath
from typing import IO, Any, BinaryIO, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from ._limits import BLOCK, DEFLATE_RATIO, OVERHEAD, FilePath, ReadError, require_memory

T = TypeVar("T")
MAPPED = 2**18
"""Bytes from which an array stays on disk: below, reading it is as fast."""


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
            array = decode(self.path, where, stream, info.file_size, width=self.width, taken=self.taken)
            if stream.read(1):
                raise ReadError(f"{where} is longer than it claims: save it again")
        self.taken += array.nbytes + self.width * array.size
        return array


def members_of(path: FilePath, archive: zipfile.ZipFile, size: int) -> dict[str, zipfile.ZipInfo]:
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


class Header(NamedTuple):
    """What a `.npy` file says that it holds, compared with the bytes that are there."""

    shape: tuple[int, ...]
    fortran: bool
    dtype: np.dtype[Any]
    start: int
    """Where the values begin."""
    size: int
    """Bytes of all values."""


def decode(path: FilePath, where: str, stream: IO[bytes], size: int, *, width: int = 0, taken: int = 0) -> NDArray[Any]:
    """Return the array in the `size` bytes of a `.npy` file.

    Its header is compared with that size, and the array and `width` bytes per value beside it with the memory, before
    any of it is read.
    """
    shape, fortran, dtype, _, held = header(where, stream, size)
    count = math.prod(shape)
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


def mapped(stream: BinaryIO, found: Header) -> NDArray[Any] | None:
    """Return the array of a `.npy` file on disk, read-only, its pages read when they are used.

    None for what is better read: small arrays, and those that would be converted anyway.
    """
    as_it_is = found.dtype in (np.float32, np.float64) and found.dtype.isnative and not found.fortran
    if not as_it_is or found.size < MAPPED:
        return None
    try:
        return np.asarray(np.memmap(stream, found.dtype, "r", found.start, found.shape))
    except OSError:  # a file system, or a limit on the number of maps
        return None


def release(array: NDArray[Any]) -> None:
    """Let the system take back the memory of a mapped array at once; it is read again when it is used again."""
    base: Any = array
    while isinstance(base, np.ndarray):
        base = base.base
    if isinstance(base, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        base.madvise(mmap.MADV_DONTNEED)


def header(where: str, stream: IO[bytes], size: int) -> Header:
    """Return the header of the `.npy` file in the `size` bytes of a stream, which is left where the values begin."""
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
    shape, fortran, dtype = _undisturbed(lambda: read(BytesIO(head)))
    if dtype.hasobject:
        raise ReadError(f"{where} holds Python objects, which could run code: save numbers, or labels as strings")
    count, held = math.prod(shape), size - len(head) - np.lib.format.MAGIC_LEN
    if min(shape, default=1) < 0 or count * dtype.itemsize != held:
        claim = f"claims shape {str(shape)[:60]} of {dtype} but holds {held} bytes"
        raise ReadError(f"{where} {claim}: it is cut off or damaged, save it again")
    return Header(shape, fortran, dtype, size - held, held)


def _undisturbed(read: Callable[[], T]) -> T:
    """Return ``read()``, tried again where another thread disturbed Python's parser: headers are Python literals.

    Python 3.11 and 3.12 keep one recursion depth for all threads that parse (python/cpython#106905): the
    ``SystemError`` that follows says nothing about the file.
    """
    for _ in range(9):
        try:
            return read()
        except SystemError:
            continue
    return read()
