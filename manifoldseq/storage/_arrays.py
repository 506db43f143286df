"""Arrays in files, read in their own dtypes under the limits of all readers."""

import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._limits import FilePath, opened, require_memory
from ._numpy_files import Header, Loader, decode, members_of
from .readers._mat import opened_variables
from .readers._mat_variable import NUMERIC


def load_array(path: FilePath) -> NDArray[Any]:
    """Load the array of a `.npy` file in its own dtype, without unpickling and within the memory limit.

    Parameters
    ----------
    path : str or path-like

    Returns
    -------
    ndarray

    Raises
    ------
    ReadError
        A ValueError, if the file is empty, damaged, truncated or not a regular file, contains Python objects, or is too
        large for memory (see `require_memory`).
    FileNotFoundError
        If there is no such file.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "levels.npy"
    ...     np.save(path, np.arange(3, dtype=np.uint8))
    ...     load_array(path)
    array([0, 1, 2], dtype=uint8)
    """
    with opened(path, "a .npy file") as file:
        size = file.seek(0, 2)
        file.seek(0)
        return decode(path, str(path), file, Header.read(str(path), file, size))


def load_arrays(path: FilePath, names: Iterable[str] | None = None) -> dict[str, NDArray[Any]]:
    """Load the arrays of a `.npz` file, or the full numeric arrays of a MATLAB file, by name and in their own dtypes.

    Parameters
    ----------
    path : str or path-like
        A file whose name ends with ``.mat`` is read as a MATLAB file of version 5 to 7, or 7.3 (needs h5py). The arrays
        have the shapes that MATLAB displays. Any other file is read as ``.npz``.
    names : iterable of str, optional
        Only these arrays are loaded, if they exist; by default all arrays.

    Returns
    -------
    dict of str to ndarray

    Raises
    ------
    ReadError
        A ValueError, for the reasons of `load_array`.
    ImportError
        If the file is of MATLAB's version 7.3 and h5py is not installed.
    FileNotFoundError
        If there is no such file.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "two.npz"
    ...     np.savez(path, hog=np.zeros((5, 96), np.float32), hof=np.zeros((5, 108), np.float32))
    ...     {name: array.shape for name, array in load_arrays(path).items()}
    {'hog': (5, 96), 'hof': (5, 108)}
    """
    wanted = None if names is None else set(names)
    if Path(path).suffix.lower() != ".mat":
        with opened(path, "a .npz archive") as file, zipfile.ZipFile(file) as archive:
            load = Loader(path, archive, members_of(path, archive, size=file.seek(0, 2)))
            return {key: load(key) for key in load.members if wanted is None or key in wanted}
    arrays: dict[str, NDArray[Any]] = {}
    with opened_variables(path) as variables:
        for name, variable in variables.items():
            if variable.kind in NUMERIC and (wanted is None or name in wanted):
                arrays[name] = np.asarray(variable.load())
                require_memory(path, taken := sum(array.nbytes for array in arrays.values()), taken=taken)
    return arrays
