"""The reader of folders: one sequence per file, one label per subfolder."""

import os
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._data import SequenceData
from .._limits import FilePath, ReadError, natural, record, require
from ._ascii_numbers import written_otherwise
from ._clock import AUTO, filled, without, without_clocks
from ._csv import number, numbers_columns, parsed
from ._npz import read_arrays
from ._parquet import parquet_tables, stamps_of
from ._plain_table import Layout, plain_table

Float = NDArray[Any]
Table = tuple[list[str] | None, Float]
"""The names of the columns, if they have any, and the numbers of a file."""


def read_directory(path: FilePath, *, time: str | int | None = AUTO) -> SequenceData:
    """Read one sequence from each file of a folder.

    Parameters
    ----------
    path : str or path-like
        A folder of ``.npy`` files, arrays of shape (T, d) or (T,), or of ``.csv`` or ``.parquet`` files, tables of
        numbers with a row per time step; the first line of a ``.csv`` may name the channels. The files are all of one
        kind and taken in natural order of their names (``walk2`` before ``walk10``). If there are only subfolders,
        their names are the labels of the files in them. A file ``labels.csv`` beside the others gives their labels: two
        columns, the names of the files (with their endings or without) and the labels; its first line may hold titles,
        and files that are not there are warned of. Hidden files are left out.
    time : str, int or None
        Of tables, the name or number of the column by which rows are sorted and that is not a channel; None: there is
        none, all columns are channels. By default ``"auto"``: clocks are not channels. A column of time
        stamps in ``.parquet`` files is the time.

    Returns
    -------
    SequenceData
        float32 where all arrays or columns are, else float64. Arrays of ``.npy`` files of 64 MiB or more stay on disk,
        see `read_npy`, and all of them if they do not fit into memory. With the names of the files as ids
        (``"walk/1.csv"`` in subfolders), the columns that were taken as clocks, and the sampling rate that they show.

    Notes
    -----
    A column is a clock if in every file it increases strictly with a nearly constant step (at least nine of ten steps
    within a quarter of the median step), at least one file has three rows, and its name says that it is a time or an
    index (``time``, ``Timestamp [s]``, ``t``, ``frame``, ``index``, none at all, as pandas writes its index, …). In
    tables without names it is the first column, with the same step in all files. A name alone never suffices: a channel
    that is called ``time`` and is not a clock is kept. Nor does a ramp alone: a channel of another name, or in another
    place, is kept. A table of nothing but clocks keeps them.

    Raises
    ------
    ReadError
        If kinds of files are mixed, or files with folders, if there is no file, one is bad, or all are too large for
        memory.
    NotADirectoryError, FileNotFoundError
        If there is no such folder.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     for name, steps in [("walk", 3), ("run", 2)]:
    ...         (Path(folder) / name).mkdir()
    ...         np.save(Path(folder) / name / "1.npy", np.zeros((steps, 2)))
    ...     data = read_directory(folder)
    >>> [x.shape for x in data.sequences], data.labels.tolist()
    ([(2, 2), (3, 2)], ['run', 'walk'])
    """
    entries = _entries(Path(path))
    listed = [entry for entry in entries if entry.name.lower() == _LABELS and len(entries) > 1 and entry.is_file()]
    entries = [entry for entry in entries if entry not in listed]
    if len(listed) > 1:
        raise ReadError(f"{path} has both {listed[0].name} and {listed[1].name}: keep one")
    if any(entry.is_dir() for entry in entries):
        if listed:
            raise ReadError(f"{listed[0]} lies beside subfolders, whose names are labels: keep one or the other")
        files = [
            (file, folder.name) for folder in entries for file in (_entries(folder) if folder.is_dir() else [folder])
        ]
        if wrong := [file for file, folder in files if file.is_dir() or file.name == folder]:
            raise ReadError(f"{wrong[0]} is {_what(wrong[0])}: keep one subfolder per label and only files in them")
    else:
        files = [(file, None) for file in entries]
    kinds = sorted({file.suffix.lower() for file, _ in files})
    if len(kinds) != 1 or kinds[0] not in _KINDS:
        found = f"files of the kinds {', '.join(kinds)[:80]}" if kinds else "no files"
        raise ReadError(f"{path} has {found}: keep one kind, {' or '.join(_KINDS)}, with one sequence per file")
    named = [file for file, _ in files]
    if kinds[0] == ".parquet" and time == AUTO:
        time = stamps_of(named[0]) or AUTO
    names, sequences = _checked(named, _KINDS[kinds[0]](path, named, time))
    labels = [label for _, label in files if label is not None]
    # a name that is not UTF-8 could not be written to a table
    shown = [os.fsencode(file.name).decode("utf-8", "replace") for file, _ in files]
    ids = [name if label is None else f"{label}/{name}" for name, (_, label) in zip(shown, files, strict=True)]
    found = np.array(labels) if labels else listed_labels(listed[0], ids) if listed else None
    data = record(path, sequences, found, name=Path(path).name, channel_names=names, ids=ids)
    if time is None or kinds[0] == ".npy":
        return data
    return without_clocks(data) if time == AUTO else _sorted(path, data, time)


_LABELS = "labels.csv"


def listed_labels(file: Path, ids: Sequence[str], what: str = "file") -> NDArray[np.str_]:
    """Return the labels of members from a table of names and labels, whose first line may be one of titles.

    What is called "file" may be named without its ending.
    """
    files = {Path(name).stem: name for name in ids if what == "file"} | {name: name for name in ids}
    labels: dict[str, str] = {}
    lines_of: dict[str, int] = {}
    others: list[str] = []
    with parsed(file) as lines:
        for i, cells in enumerate(filter(None, lines)):
            where = f"{file}, line {lines.line_num}"
            if len(cells) != 2:
                raise ReadError(f"{where} has not two cells: write the name of a {what}, a comma and its label")
            name, label = (cell.strip() for cell in cells)
            if name not in files:
                others += [name] if i else []
                continue
            found = files[name]
            if found in labels:
                raise ReadError(f"{where} names {found} again, after line {lines_of[found]}: keep one of the two")
            if not label:
                raise ReadError(
                    f"{where} has no label beside {name}: write one{', or move that file elsewhere' * (what == 'file')}"
                )
            labels[found], lines_of[found] = label, lines.line_num
    unknown = f"{', '.join(others[:3])}{', …' if len(others) > 3 else ''}"
    if missing := [name for name in ids if name not in labels]:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        beside = f" ({unknown} in it {'is' if len(others) == 1 else 'are'} no {what} there)" if others else ""
        raise ReadError(f"{file} has no label for {missing[0]}{more}{beside}: write one line for each {what}")
    if others:
        many = f"{what}{'s' * (len(others) > 1)} not in the {'folder' if what == 'file' else 'data'}"
        warnings.warn(f"{file} names {len(others)} {many}: {unknown}", stacklevel=3)
    return np.array([labels[name] for name in ids])


def _sorted(path: FilePath, data: SequenceData, time: str | int) -> SequenceData:
    """Return the data sorted by a column that is named, and without it."""
    columns = data.channel_names or tuple(map(str, range(data.sequences[0].shape[1])))
    if str(time) not in columns:
        if str(time).lower() == "none":
            return data
        raise ReadError(f"{path} has no column {time!r} but {', '.join(columns)[:200]}: name one of them, or time=None")
    column = columns.index(str(time))
    if len(columns) == 1:
        raise ReadError(f"{path} has no channels beside {time!r}: add at least one column of numbers")
    ordered = []
    for name, x in zip(data.ids, data.sequences, strict=True):
        t = filled(x[:, column])
        order = np.argsort(t, kind="stable")
        if not (np.isfinite(t).all() and (np.diff(t[order]) > 0).all()):
            raise ReadError(f"{path}, {name} has rows without {time}, or two with the same: correct or remove them")
        ordered.append(x[order])
        ordered[-1][:, column] = t[order]
    return without(replace(data, sequences=ordered), [column])


def _entries(folder: Path) -> list[Path]:
    entries = [entry for entry in folder.iterdir() if not entry.name.startswith(".")]
    return sorted(entries, key=lambda entry: natural(entry.name))


def _what(file: Path) -> str:
    return "a folder in a subfolder" if file.is_dir() else "a file beside subfolders"


def _checked(files: list[Path], tables: Iterable[Table]) -> tuple[list[str] | None, list[Float]]:
    """Return the names of the channels and the arrays of all files, which have the same channels."""
    names: list[str] | None = None
    sequences: list[Float] = []
    for file, (names_here, x) in zip(files, tables, strict=True):
        x = x[:, None] if x.ndim == 1 else x
        if x.ndim != 2 or x.size == 0 or (sequences and x.shape[1] != sequences[0].shape[1]):
            wanted = f"(T, {sequences[0].shape[1]}), as in {files[0].name}" if sequences else "(T, d)"
            raise ReadError(f"{file} has an array of shape {x.shape}: save one sequence per file, {wanted}")
        if sequences and names_here != names:
            raise ReadError(f"{file} names its channels otherwise than {files[0].name}: use the same names")
        names = names_here
        sequences.append(x)
    return names, sequences


def _read_arrays(path: FilePath, files: list[Path], time: str | int | None) -> Iterator[Table]:
    return ((None, array) for array in read_arrays(path, files))


def _read_tables(path: FilePath, files: list[Path], time: str | int | None) -> Iterator[Table]:
    total = 0
    for file in files:
        names, x = _read_table(file)
        require(path, total := total + x.size, len(files))
        yield names, x


def _no_number(file: Path, line: int, cells: list[str], names: list[str] | None) -> ReadError:
    for column, cell in sorted(enumerate(cells), key=lambda pair: not written_otherwise(pair[1])):
        try:
            number(cell)
        except ValueError:
            named = names is not None and column < len(names) and names[column]
            where = f"{file}, line {line}, column {named!r}" if named else f"{file}, line {line}, column {column}"
            return ReadError(f"{where} is {cell[:40]!r}, no number in decimal digits: write numbers only")
    raise AssertionError("a cell is not a number")


def _read_table(file: Path) -> tuple[list[str] | None, Float]:
    """Read a table of numbers with, optionally, names in the first line."""
    names: list[str] | None = None
    rows: list[list[float]] = []
    first: list[str] = []
    settled, skip = False, 0
    with parsed(file) as lines:
        for cells in filter(None, lines):
            try:
                row = [number(cell) for cell in cells]
            except ValueError:
                if names or rows or any(map(written_otherwise, cells)):
                    raise _no_number(file, lines.line_num, cells, names) from None
                names = [cell.strip() for cell in cells]
                continue
            rows.append(row)
            if len(rows) == 2 and names is None and numbers_columns(first, cells):
                names, rows = [cell.strip() for cell in first], [row]
            first, skip = cells, lines.line_num - 1 if len(rows) == 1 else skip
            if len(row) != (width := len(names or rows[0])):
                where = f"{file}, line {lines.line_num}"
                raise ReadError(f"{where} has {len(row)} cells, unlike the first with {width}: complete or remove it")
            if not settled and (names is not None or len(rows) == 2):
                settled = True
                if (plain := plain_table(file, Layout(",", skip, width, [range(width)]))) is not None:
                    return names, plain[0][0]
            require(file, 4 * width * len(rows), len(rows))
    if not rows:
        raise ReadError(f"{file} has no row of numbers: write one row per time step")
    return names, np.array(rows, dtype=np.float64)


_KINDS = {".npy": _read_arrays, ".csv": _read_tables, ".parquet": parquet_tables}
