"""The reader of MATLAB files; `_mat5` and `_mat73` decode the two formats behind the one ending."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..._quoted import quoted
from .._data import SequenceData
from .._limits import FilePath, ReadError, as_labels, numbers, opened, record, require_memory
from .._real import warn_of_order
from ._mat5 import variables
from ._mat73 import variables_of_hdf5
from ._mat_variable import NUMERIC, Variable

LABELS = ("labels", "label", "y")
_OTHER = {"time-first": "channels-first", "channels-first": "time-first"}


def read_mat(
    path: FilePath, variable: str | None = None, labels: str | None = None, *, orientation: str = "time-first"
) -> SequenceData:
    """Read sequences from a MATLAB file.

    Parameters
    ----------
    path : str or path-like
        A file of version 5 to 7 (``save -v7``), or 7.3 (``save -v7.3``, needs h5py).
    variable : str, optional
        The name of the sequences: a cell array of matrices, a three-dimensional array with the sequences along its
        first dimension, or a matrix with one sequence. It is required only if several variables could be the sequences.
    labels : str, optional
        The name of the labels: a vector, a cell array of strings or a character matrix with one label per row. By
        default ``labels``, ``label`` or ``y``, if the file has one of them.
    orientation : {"time-first", "channels-first"}
        Whether a sequence is stored as (T, d) or as (d, T).

    Returns
    -------
    SequenceData
        Sequences of shape (T, d), float64; labels that are whole numbers as integers.

    Raises
    ------
    ReadError
        If the file is empty, damaged, cut off, of another version or too large for memory, or if the variables are
        missing or have another type.
    ImportError
        If the file is of version 7.3 and h5py is not installed.
    FileNotFoundError
        If there is no such file.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import scipy.io
    >>> cell = np.empty(2, dtype=object)
    >>> cell[:] = [np.zeros((3, 20)), np.zeros((3, 30))]
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "two.mat"
    ...     scipy.io.savemat(path, {"walks": cell, "y": [1, 2]})
    ...     data = read_mat(path, orientation="channels-first")
    >>> [x.shape for x in data.sequences], data.labels.tolist()
    ([(20, 3), (30, 3)], [1, 2])
    """
    if orientation not in ("time-first", "channels-first"):
        raise ReadError(f"{path}: orientation is {quoted(orientation)}: choose 'time-first' or 'channels-first'")
    with opened_variables(path) as found:
        data, shape = _choose(path, found, variable, labels, orientation)
    warn_of_order(shape, str(path), f"pass orientation={_OTHER[orientation]!r}", stacklevel=2)
    return data


@contextmanager
def opened_variables(path: FilePath) -> Iterator[dict[str, Variable]]:
    """Open a file of either format and give its variables, which can be loaded while it is open."""
    with opened(path, "a MATLAB file") as file:
        head = file.read(128)
        if head[124:128] in (b"\x00\x01IM", b"\x01\x00MI"):
            require_memory(path, file.seek(0, 2))
            file.seek(0)
            yield variables(path, file.read())
            return
        if head[124:128] != b"\x00\x02IM" and not head.startswith(b"\x89HDF"):
            raise ReadError(f"{path} is not a MATLAB file of version 5 to 7.3: save it with save('-v7', …)")
    with variables_of_hdf5(path) as found:
        yield found


def _choose(
    path: FilePath, found: dict[str, Variable], variable: str | None, labels: str | None, orientation: str
) -> tuple[SequenceData, tuple[int, ...]]:
    """Return the data, and the shape of the array of three dimensions that holds them, () if there is none."""
    for name in (variable, labels):
        if name is not None and name not in found:
            raise ReadError(f"{path} has no variable {quoted(name)}: it has {', '.join(sorted(found)[:10]) or 'none'}")
    labels = labels or next((name for name in LABELS if name in found and name != variable), None)
    if variable is None:
        names = sorted(name for name in found if found[name].holds_sequences and name != labels)
        if len(names) != 1:
            what = (
                f"several variables that could be the sequences ({', '.join(names[:10])}): choose one with variable=…"
                if names
                else "no variable that could be the sequences: save a cell array"
            )
            raise ReadError(f"{path} has {what}")
        variable = names[0]
    sequences = _sequences(path, variable, found[variable], orientation)
    data = record(path, sequences, None if labels is None else _labels(path, labels, found[labels]))
    whole = found[variable].kind != "cell" and len(found[variable].shape) == 3
    return data, (len(data), *data.sequences[0].shape) if whole else ()


def _sequences(path: FilePath, name: str, variable: Variable, orientation: str) -> list[NDArray[np.float64]]:
    if variable.kind != "cell" and variable.kind not in NUMERIC:
        raise ReadError(
            f"{path}, variable {quoted(name)} is of class {variable.kind}: save a cell array or a numeric array"
        )
    loaded = variable.load()
    items = loaded if isinstance(loaded, list) else list(loaded) if loaded.ndim == 3 else [loaded]
    sequences = []
    for i, item in enumerate(items):
        where = f"{path}, variable {name!r}, sequence {i}"
        if item.ndim != 2:
            raise ReadError(f"{where} has {item.ndim} dimensions: save matrices")
        sequences.append(numbers(item if orientation == "time-first" else item.T, where))
    return sequences


def _labels(path: FilePath, name: str, variable: Variable) -> NDArray[Any]:
    where = f"{path}, variable {name!r}"
    loaded = variable.load()
    if not isinstance(loaded, list):
        return as_labels(loaded, where)
    parts = [as_labels(item, where) for item in loaded]
    if not parts or any(len(part) != 1 or part.dtype.kind != parts[0].dtype.kind for part in parts):
        raise ReadError(f"{where} has a cell that is not a single label: save one string or number in each cell")
    return np.concatenate(parts)
