"""MATLAB files of version 5 to 7: sizes of elements are checked before SciPy decodes them."""

import math
import struct
import zlib
from collections.abc import Iterator
from functools import partial
from io import BytesIO
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..._quoted import quoted
from .._limits import DEFLATE_RATIO, OVERHEAD, FilePath, ReadError, require_inflated, require_memory
from ._mat_variable import NUMERIC, Variable

MATRIX, COMPRESSED = 14, 15
SIZES = {1: 1, 2: 1, 3: 2, 4: 2, 5: 4, 6: 4, 7: 4, 9: 8, 12: 8, 13: 8, 16: 1, 17: 2, 18: 4}
"""Bytes per value of each data type of elements."""
CLASSES = " cell struct object char sparse double single int8 uint8 int16 uint16 int32 uint32 int64 uint64".split(" ")
COMPLEX = 1 << 11


def variables(path: FilePath, data: bytes) -> dict[str, Variable]:
    """Return the variables in the bytes of a file, none of them loaded."""
    order = "<" if data[126:128] == b"IM" else ">"
    head = data[:116] + bytes(8) + data[124:128]
    found: dict[str, Variable] = {}
    for kind, payload in _elements(path, memoryview(data)[128:], order):
        matrix = _inflate(path, payload, order, 1024) if kind == COMPRESSED else payload
        if kind not in (MATRIX, COMPRESSED):
            raise _damaged(path, f"an element of type {kind} in place of a variable")
        variable_kind, shape, name, _ = _describe(path, matrix, order)
        if name:  # those without a name are MATLAB's own
            count = math.prod(shape) if variable_kind in NUMERIC else 0
            load = partial(_load, path, name, head, payload, order, count, compressed=kind == COMPRESSED)
            found[name] = Variable(variable_kind, shape, load)
    return found


def _elements(path: FilePath, data: memoryview, order: str) -> Iterator[tuple[int, memoryview]]:
    """Yield type and payload of the elements in `data`."""
    position = 0
    while position < len(data):
        if len(data) - position < 8:
            raise _damaged(path, "unexpected bytes at the end")
        kind, size = struct.unpack_from(order + "II", data, position)
        if kind >> 16:  # a small element: up to four bytes inside the tag
            kind, size, start, following = kind & 0xFFFF, kind >> 16, position + 4, position + 8
        else:
            start = position + 8
            following = start + size + (0 if kind == COMPRESSED else -size % 8)
        if start + size > min(following, len(data)):
            raise _damaged(path, f"an element of {size} bytes, but only {len(data) - start} bytes remain")
        yield kind, data[start : start + size]
        position = following


def _inflate(path: FilePath, payload: memoryview, order: str, most: int | None = None, count: int = 0) -> memoryview:
    """Return the content of the matrix element in a compressed element, or its first `most` bytes.

    The memory is counted for the `count` numbers that are made of it, too.
    """
    stream = zlib.decompressobj()
    tag = stream.decompress(payload, 8)
    kind, size = struct.unpack(order + "II", tag)
    if kind != MATRIX or size > DEFLATE_RATIO * len(payload):
        raise _damaged(path, f"a variable of {size} bytes that is compressed to {len(payload)} bytes")
    wanted = size if most is None else min(size, most)
    require_memory(path, _peak(wanted, count))
    require_inflated(path, wanted)
    content = stream.decompress(stream.unconsumed_tail, wanted) if wanted else b""
    if len(content) < wanted:
        raise _damaged(path, f"a variable of {len(content)} bytes whose header says {size}")
    if most is None and (stream.decompress(stream.unconsumed_tail, 1) or not stream.eof):
        raise _damaged(path, f"a variable that does not end after {size} bytes")
    return memoryview(content)


def _peak(size: int, count: int, arrays: int = 1) -> int:
    """Return the bytes that `size` inflated ones take: theirs, a copy for scipy, its arrays, and float64 ones."""
    return 3 * size + 8 * count + OVERHEAD * arrays


def _describe(path: FilePath, matrix: memoryview, order: str) -> tuple[str, tuple[int, ...], str, bool]:
    """Return class, shape, name and whether it is complex, which are the first three elements of a matrix."""
    head = list(islice(_elements(path, matrix, order), 3))
    if [kind for kind, _ in head] != [6, 5, 1] or len(head[0][1]) != 8 or len(head[1][1]) % 4:
        raise _damaged(path, "a variable without flags, dimensions and name")
    (flags,) = struct.unpack_from(order + "I", head[0][1])
    shape = struct.unpack(f"{order}{len(head[1][1]) // 4}i", head[1][1])
    if not 2 <= len(shape) <= 32 or min(shape) < 0:
        raise _damaged(path, f"a variable of shape {str(shape)[:40]}")
    kind = CLASSES[flags & 0xFF] if 0 < flags & 0xFF < len(CLASSES) else f"number {flags & 0xFF}"
    return kind, shape, bytes(head[2][1]).decode("latin-1"), bool(flags & COMPLEX)


def _load(
    path: FilePath, name: str, head: bytes, payload: memoryview, order: str, count: int, *, compressed: bool
) -> NDArray[Any] | list[NDArray[Any]]:
    from scipy.io import loadmat

    matrix = _inflate(path, payload, order, count=count) if compressed else payload
    count, arrays = _check(path, name, matrix, order)
    require_memory(path, _peak(len(matrix), count, arrays), taken=len(matrix) if compressed else 0)
    tag = struct.pack(order + "II", MATRIX, len(matrix))
    loaded = loadmat(BytesIO(b"".join((head, tag, matrix, bytes(-len(matrix) % 8)))), variable_names=[name])[name]
    return list(loaded.ravel(order="F")) if loaded.dtype == object else np.asarray(loaded)


def _check(path: FilePath, name: str, matrix: memoryview, order: str, *, in_cell: bool = False) -> tuple[int, int]:
    """Return the numbers of values and of arrays, after comparing dimensions with the bytes that are there."""
    kind, shape, _, is_complex = _describe(path, matrix, order)
    contents = islice(_elements(path, matrix, order), 3, None)
    count, values, arrays = math.prod(shape), 0, 1
    if kind == "cell" and not in_cell:
        for cell_kind, cell in contents:
            if cell_kind != MATRIX:
                raise _damaged(path, "a cell without a matrix")
            more = _check(path, name, cell, order, in_cell=True) if len(cell) else (0, 1)
            values, arrays = values + more[0], arrays + more[1]
        if arrays - 1 != count:
            raise _damaged(path, f"a cell array of {arrays - 1} cells whose header says {count}")
        return values, arrays
    if is_complex or (kind not in NUMERIC and kind != "char"):
        what = "complex numbers" if is_complex else f"class {kind}"
        raise ReadError(f"{path}, variable {quoted(name)} contains {what}: save real numbers, in cells or a full array")
    data_kind, data = next(contents, (1, memoryview(b"")))
    held = len(data) // SIZES.get(data_kind, len(data) + 1)
    if held < count or (kind != "char" and held != count):
        raise _damaged(path, f"a variable of {held} values whose header says {count}")
    return count, 1


def _damaged(path: FilePath, what: str) -> ReadError:
    return ReadError(f"{path} has {what}: it is cut off or damaged; save it again")
