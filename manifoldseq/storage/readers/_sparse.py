"""Sparse matrices as `scipy.sparse.save_npz` writes them; their indices are checked before a matrix is made."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csc_array, csr_array

from ..._quoted import quoted
from .._limits import FilePath, ReadError, numbers, require_memory
from .._numpy_files import Loader

_FORMATS = ("csr", "csc", "coo")


def sparse_rows(path: FilePath, load: Loader) -> csr_array:
    """Return the matrix of an archive with the arrays ``format``, ``shape`` and ``data`` as sparse rows.

    Indices are sorted and unique. The number of rows and columns without entries is limited by the size of the file
    (see `manifoldseq.storage.require_memory`).

    Raises
    ------
    ReadError
        If the arrays are not a valid matrix (wrong types, lengths or indices), or if the matrix is too large.
    """
    kind = _format(path, load("format"))
    shape = load("shape")
    if shape.shape != (2,) or shape.dtype.kind not in "iu" or min(shape.tolist()) < 1:
        raise ReadError(f"{path}, array 'shape' is {str(shape.tolist())[:60]}: save a matrix of rows and columns")
    n, d = shape.tolist()
    require_memory(path, load.taken + 8 * (n + d), taken=load.taken)
    values = load("data")
    if values.ndim != 1:
        raise ReadError(
            f"{path}, array 'data' has shape {values.shape}: save the matrix again with scipy.sparse.save_npz"
        )
    values = numbers(values, f"{path}, array 'data'")
    # the matrix, and sums of what is there twice, are copies of values and indices
    require_memory(path, load.taken + 3 * 16 * len(values) + 8 * (n + d), taken=load.taken)
    if kind == "coo":
        row, column = (_indices(path, load, name, len(values), size) for name, size in (("row", n), ("col", d)))
        found = csr_array(coo_array((values, (row, column)), shape=(n, d)))
    else:
        major, minor = (n, d) if kind == "csr" else (d, n)
        made = csr_array if kind == "csr" else csc_array
        ends = _ends(path, load, len(values), major)
        indices = _indices(path, load, "indices", len(values), minor)
        found = csr_array(made((values, indices, ends), shape=(n, d)))
    found.sum_duplicates()
    if not found.nnz:
        raise ReadError(f"{path} contains a sparse matrix without entries: save a matrix with nonzero entries")
    if max(n, d, found.nnz) < 2**31:  # what scikit-learn takes
        found = csr_array((found.data, found.indices.astype(np.int32), found.indptr.astype(np.int32)), found.shape)
    return found


def _format(path: FilePath, array: NDArray[Any]) -> str:
    """Return the name of a format that is known."""
    name = array.item() if array.size == 1 and array.dtype.kind in "SU" else b"?"
    name = name.decode("ascii", "replace") if isinstance(name, bytes) else str(name)
    if name not in _FORMATS:
        raise ReadError(
            f"{path} contains a sparse matrix in the format {quoted(name)}: save it as rows, with "
            "scipy.sparse.save_npz(path, X.tocsr())"
        )
    return name


def _whole(path: FilePath, load: Loader, name: str, length: int) -> NDArray[np.int64]:
    if name not in load.members:
        raise ReadError(
            f"{path} contains a sparse matrix without the array {quoted(name)}: save it with scipy.sparse.save_npz"
        )
    array = load(name)
    if array.dtype.kind not in "iu" or array.shape != (length,):
        raise ReadError(
            f"{path}, array {quoted(name)} has shape {array.shape} of {array.dtype}, but a sparse matrix of this kind "
            f"needs {length} whole numbers: save it again with scipy.sparse.save_npz"
        )
    return array.astype(np.int64)


def _ends(path: FilePath, load: Loader, entries: int, major: int) -> NDArray[np.int64]:
    ends = _whole(path, load, "indptr", major + 1)
    if ends[0] != 0 or ends[-1] != entries or (np.diff(ends) < 0).any():
        raise ReadError(
            f"{path}, array 'indptr' does not increase from 0 to {entries}, the number of entries: it is damaged; save "
            "the matrix again"
        )
    return ends


def _indices(path: FilePath, load: Loader, name: str, entries: int, size: int) -> NDArray[np.int64]:
    found = _whole(path, load, name, entries)
    if entries and not 0 <= (least := int(found.min())) <= (most := int(found.max())) < size:
        wrong = least if least < 0 else most
        raise ReadError(
            f"{path}, array {quoted(name)} has the index {wrong}, but indices must be below {size}: it is damaged; "
            "save the matrix again"
        )
    return found
