"""MATLAB files of version 7.3, which are HDF5: external links are not followed, sizes are checked first."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._limits import DEFLATE_RATIO, OVERHEAD, FilePath, ReadError, decoding, extra, require_inflated, require_memory
from ._mat_variable import Variable

FILTERS = {1, 2, 3}
"""HDF5's own deflate, shuffle and checksum; another number could load a library."""


@contextmanager
def variables_of_hdf5(path: FilePath) -> Iterator[dict[str, Variable]]:
    """Open the file and give its variables, which can be loaded while it is open."""
    h5py = extra("h5py", path, "a MATLAB file of version 7.3")
    with decoding(path, "a MATLAB 7.3 file"), h5py.File(path, "r") as file:
        found: dict[str, Variable] = {}
        for name in file:
            if name.startswith("#") or not isinstance(file.get(name, getlink=True), h5py.HardLink):
                continue  # MATLAB's own store of cells, and links, which MATLAB does not write
            item = file[name]
            if isinstance(item, h5py.Dataset):
                kind = _kind(item)
                shape = tuple(reversed(item.shape or ()))
                found[name] = Variable(kind, shape, partial(_load, h5py, path, name, item, kind))
            else:
                found[name] = Variable("struct", (), partial(_load, h5py, path, name, item, "struct"))
        yield found


def _kind(item: Any) -> str:
    kind = item.attrs.get("MATLAB_class", b"double")
    return kind.decode("latin-1") if isinstance(kind, bytes) else str(kind)


def _load(h5py: Any, path: FilePath, name: str, item: Any, kind: str) -> NDArray[Any] | list[NDArray[Any]]:
    if not isinstance(item, h5py.Dataset):
        raise _error(path, name, "a struct")
    if kind != "cell":
        return _array(path, name, item)
    if "MATLAB_empty" in item.attrs:
        return []
    if h5py.check_ref_dtype(item.dtype) is not h5py.Reference:
        raise _error(path, name, "a cell array without references")
    cells, total = [], 0
    for reference in _values(path, name, item).T.ravel(order="F"):
        cell: Any = item.file[reference] if reference else None
        if not isinstance(cell, h5py.Dataset) or cell.shape is None:
            raise _error(path, name, "a cell that is not an array")
        total += cell.size * (8 + cell.dtype.itemsize) + OVERHEAD
        require_memory(path, total)  # a small file can refer to one array many times
        cells.append(_array(path, name, cell))
    return cells


def _array(path: FilePath, name: str, item: Any) -> NDArray[Any]:
    """Return the numbers or characters of a dataset as MATLAB shows them: HDF5 has the dimensions reversed."""
    if "MATLAB_empty" in item.attrs:
        return np.zeros((0, 0))
    if item.shape is None or item.dtype.kind not in "biuf":
        raise _error(path, name, f"values of type {item.dtype}")
    array = _values(path, name, item).T
    if _kind(item) != "char":
        return array
    return np.array(["".join(map(chr, row)).rstrip() for row in np.atleast_2d(array).tolist()])


def _values(path: FilePath, name: str, item: Any) -> NDArray[Any]:
    """Read a dataset that holds itself what it claims."""
    properties = item.id.get_create_plist()
    filters = [properties.get_filter(i)[0] for i in range(properties.get_nfilters())]
    if item.is_virtual or item.external or not FILTERS.issuperset(filters):
        raise _error(path, name, "values that are in another file or are not compressed as by MATLAB")
    held = min(item.id.get_storage_size(), Path(path).stat().st_size)
    if item.size * item.dtype.itemsize > held * (DEFLATE_RATIO if filters else 1):
        raise _error(path, name, f"a dataset that states {item.size} values but has only {held} bytes")
    chunk = item.dtype.itemsize * math.prod(item.chunks or ())  # inflated as a whole, though one value is asked for
    if filters.count(1) > 1 or (filters and chunk > held * DEFLATE_RATIO):
        raise _error(path, name, f"a dataset with chunks of {chunk} bytes that has only {held} bytes")
    require_memory(path, 2 * chunk + item.size * (8 + item.dtype.itemsize))
    require_inflated(path, item.size * item.dtype.itemsize if filters else 0)
    return np.asarray(item[()])


def _error(path: FilePath, name: str, what: str) -> ReadError:
    return ReadError(
        f"{path}, variable {name!r} contains {what}: save a cell array of matrices, or a full numeric array"
    )
