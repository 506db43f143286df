"""The reader of folders: one sequence per file, one label per subfolder."""

import os
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..._quoted import quoted
from .._data import SequenceData
from .._limits import FilePath, ReadError, natural, record, require, require_memory
from ._clock import AUTO, check_all_or_none, filled, steady, without_clocks, without_nothing
from ._columns import Asked, Columns, choose_columns
from ._csv import FIRST_LINE, read_table
from ._long_table import Rows
from ._npz import read_arrays
from ._parquet import parquet_rows
from ._text import Text, read_cells

Tables = Iterator[tuple[Columns, Rows]]
"""The columns in use and the rows of each file."""


def read_directory(
    path: FilePath,
    *,
    id: str | None = "id",
    time: str | int | None = AUTO,
    channels: Sequence[str] | None = None,
    label: str | None = "label",
    delimiter: str | None = None,
    decimal: str = ".",
    thousands: str | None = None,
    encoding: str | None = None,
    comment: str | None = None,
    date_format: str | None = None,
) -> SequenceData:
    """Read one sequence from each file of a folder.

    Parameters
    ----------
    path : str or path-like
        A folder of ``.npy`` files, arrays of shape (T, d) or (T,), or of ``.csv``, ``.tsv``, ``.txt`` or ``.parquet``
        files, tables of numbers with a row per time step; the first line of text may name the channels. All files have
        the same kind and are read in natural order of their names (``walk2`` before ``walk10``). If the folder has only
        subfolders, their names are the labels of their files. A file ``labels.csv`` contains the labels of the other
        files. One column has the names (with or without endings) or the ids of the files, and another column has the
        labels. The first line may contain titles, which are required if there are more than two columns. The titles are
        ``file`` or ``id``, and ``label``, or the values of the parameters `id` and `label`. Names of missing files
        cause a warning. Hidden files are ignored.
    time : str, int or None
        The name or number of the column with the time, by which rows are sorted. None: all columns are channels. With
        the default ``"auto"``, clocks in tables are not channels. A column of dates or time stamps is the time. In
        ``.parquet`` files, an index of pandas without a name is the time if it contains dates, or floats that are a
        clock.
    id, label : str or None
        Columns of tables with the id and the label of a file, the same in all rows of the file; the default columns may
        be missing. A column with different values in the rows of a file is dropped with a warning. None:
        such a column is a channel.
    channels : sequence of str, optional
        The columns of the channels, by number if they have no names; by default all other columns except the time.
        If channels are given, only the column ``time`` can be a clock.
    delimiter, decimal, thousands, encoding, comment, date_format
        As in `read_csv`.

    Returns
    -------
    SequenceData
        The dtype is float32 if all arrays or columns have this dtype, otherwise float64. Arrays of ``.npy`` files of 64
        MiB or more stay on disk (see `read_npy`). If the arrays do not fit into memory together, all of them stay on
        disk. The ids are the names of the files (``"walk/1.csv"`` in subfolders). The clocks and their sampling rate
        are stored too.

    Notes
    -----
    A column is a clock if three conditions hold. First, in every file it increases strictly with a nearly constant step
    (at least nine of ten steps differ from the median step by at most a quarter). Second, at least one file has three
    rows. Third, its name denotes a time or an index (``time``, ``Timestamp [s]``, ``t``, ``frame``, ``index``, or an
    empty name, as pandas writes its index, …); in tables without names, it is the first column, with the same step in
    all files. A column with the name ``time`` whose values are not a clock is a channel. An increasing column with
    another name or position is a channel too. A table that contains only clocks keeps them as channels. A column with
    the name of a time that is a clock in some files, but not in all, is an error. A last column without a name and
    without values is dropped.

    Raises
    ------
    ReadError
        If kinds of files, or files and folders, are mixed, if there is no file, if a file is invalid, if all files are
        too large for memory, or if a given column is missing.
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
    files, listed = sequence_files(path)
    kind = files[0][0].suffix.lower()
    text = Text(delimiter, decimal, thousands, encoding, comment, date_format)
    if text != Text() and _KINDS[kind] is not _read_tables:
        raise ReadError(f"{path} has {kind} files, which have no delimiter: leave the option out")
    mark = {None: ",", "tab": "\t", "\\t": "\t", "blank": " "}.get(delimiter, str(delimiter))
    titles = () if listed is None else tuple(_rows_of(listed, mark)[0][1])
    asked = Asked(id, time, channels, label, each=True, elsewhere=("id", "label", *titles))
    named = [file for file, _ in files]
    tables = _checked(named, _KINDS[kind](path, named, asked, text))
    columns = tables[0][0]
    by_folder = [label for _, label in files if label is not None]
    ids = names = names_of(files)
    if (column := _one_each(named, "id", columns.id, [rows.id_names for _, rows in tables])) is not None:
        own = [str(text) for text in column]
        if len(set(own)) == len(own):
            ids = own
        else:
            twice = next(text for i, text in enumerate(own) if text in own[:i])
            warnings.warn(
                f"{path} has several files with the {columns.id} {quoted(twice)}: the file names are used as ids",
                stacklevel=2,
            )
    found = np.array(by_folder) if by_folder else None
    if listed is not None:
        found = listed_labels(listed, ids, names, delimiter=mark, id=id, label=label)
    if (column := _one_each(named, "label", columns.label, [rows.label_names for _, rows in tables])) is not None:
        if found is None:
            found = np.array(column)
        elif unlike := [i for i, text in enumerate(column) if str(text) != found[i]]:
            i = unlike[0]
            warnings.warn(
                f"{named[i]} has the {columns.label} {quoted(str(column[i]))} in the table, but "
                f"{'its folder' if listed is None else listed.name} gives {quoted(str(found[i]))}: the label in the "
                "table is ignored",
                stacklevel=2,
            )
    sequences = [rows.values for _, rows in tables]
    data = record(path, sequences, found, name=Path(path).name, channel_names=columns.names, ids=ids)
    data = without_nothing(data)
    if columns.time is not None:
        data = _sorted(path, data, columns, [rows.times for _, rows in tables if rows.times is not None])
    if not columns.clocks:
        return data
    data = without_clocks(data)
    check_all_or_none(path, data)
    return data


def sequence_files(path: FilePath) -> tuple[list[tuple[Path, str | None]], Path | None]:
    """Return the files of a folder, which must have one format, their subfolders, and the table of labels."""
    entries = _entries(Path(path))
    listed = [entry for entry in entries if entry.name.lower() == _LABELS and len(entries) > 1 and entry.is_file()]
    entries = [entry for entry in entries if entry not in listed]
    if len(listed) > 1:
        raise ReadError(f"{path} has both {listed[0].name} and {listed[1].name}: keep only one of these files")
    files: list[tuple[Path, str | None]] = [(file, None) for file in entries]
    if any(entry.is_dir() for entry in entries):
        if listed:
            raise ReadError(
                f"{listed[0]} and subfolders, whose names are labels, are in one folder: keep only one source of labels"
            )
        files = [
            (file, folder.name) for folder in entries for file in (_entries(folder) if folder.is_dir() else [folder])
        ]
        if wrong := [file for file, folder in files if file.is_dir() or file.name == folder]:
            raise ReadError(f"{wrong[0]} is {_what(wrong[0])}: keep one subfolder per label, and only files in each")
    kinds = sorted({file.suffix.lower() for file, _ in files})
    if len(kinds) != 1 or kinds[0] not in _KINDS:
        found = f"files of the kinds {', '.join(kinds)[:80]}" if kinds else "no files"
        raise ReadError(f"{path} has {found}: keep one kind, {' or '.join(_KINDS)}, with one sequence per file")
    return files, listed[0] if listed else None


def names_of(files: Iterable[tuple[Path, str | None]]) -> list[str]:
    """Return the names of files relative to their folder; names that are not UTF-8 are replaced."""
    shown = [(os.fsencode(file.name).decode("utf-8", "replace"), folder) for file, folder in files]
    return [name if folder is None else f"{folder}/{name}" for name, folder in shown]


_LABELS = "labels.csv"


def listed_labels(
    file: Path,
    ids: Sequence[str],
    files: Sequence[str] = (),
    *,
    delimiter: str = ",",
    id: str | None = None,
    label: str | None = None,
) -> NDArray[np.str_]:
    """Return the labels of members from a table of names and labels, whose first line may be one of titles.

    Names are the ids, or the names of the files with or without their endings. Titles determine the columns; they are
    required if there are more than two columns.
    """
    what = "file" if files else "member"
    lines = _rows_of(file, delimiter)
    places = label_places(lines[0][1], id, label)
    if places is None:
        titles = ", ".join(lines[0][1])[:200]
        raise ReadError(
            f"{file}, line {lines[0][0]} has the cells {titles}, but the columns of names and labels are unknown: "
            f"rename one column to {quoted(what)} or 'id' and another column to 'label', or give their names with id=… "
            "and label=… (--read label=…)"
        )
    members: dict[str, set[int]] = {}
    for i, one in enumerate(ids):
        of_file = (files[i], files[i].rpartition("/")[2]) if files else ()
        for name in (one, *of_file, *(name.rpartition(".")[0] or name for name in of_file)):
            members.setdefault(name, set()).add(i)
    found: dict[int, tuple[str, int]] = {}
    others: list[str] = []
    for k, (number, cells) in enumerate(lines):
        where = f"{file}, line {number}"
        if len(cells) != len(lines[0][1]) or len(cells) < 2:
            many = "two" if len(lines[0][1]) < 3 else len(lines[0][1])
            raise ReadError(f"{where} does not have {many} cells: write the name of a {what}, a comma and its label")
        name, text = cells[places[0]], cells[places[1]]
        if name not in members:
            others += [name] if k else []
            continue
        if len(members[name]) > 1:
            both = " and ".join((files or ids)[i] for i in sorted(members[name])[:2])
            raise ReadError(f"{where}: {name} matches {both}: write the whole name of the file")
        (i,) = members[name]
        if i in found:
            raise ReadError(f"{where} names {ids[i]} again, after line {found[i][1]}: keep only one of the two lines")
        if not text:
            elsewhere = ", or move that file elsewhere" if files else ""
            raise ReadError(f"{where} has no label for {name}: write the label{elsewhere}")
        found[i] = text, number
    unknown = f"{', '.join(others[:3])}{', …' if len(others) > 3 else ''}"
    if missing := [one for i, one in enumerate(ids) if i not in found]:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        strange = f" (no such {what}: {unknown})" if others else ""
        raise ReadError(f"{file} has no label for {missing[0]}{more}{strange}: write one line for each {what}")
    if others:
        many = f"{what}{'s' * (len(others) > 1)} not in the {'folder' if files else 'data'}"
        warnings.warn(f"{file} names {len(others)} {many}: {unknown}", stacklevel=3)
    return np.array([found[i][0] for i in range(len(ids))])


def label_places(titles: Sequence[str], id: str | None, label: str | None) -> tuple[int, int] | None:
    """Return the columns of names and labels: those with such titles, else the first and second of two."""
    names = [name for name in (None if id == "id" else id, "file", "id") if name in titles]
    labels = [name for name in (label, "label") if name in titles]
    if names and labels:
        return titles.index(names[0]), titles.index(labels[0])
    return (0, 1) if len(titles) < 3 else None


def _rows_of(file: Path, delimiter: str) -> list[tuple[int, list[str]]]:
    """Return the lines of a small table with their numbers; cells may be separated as in the other tables."""
    rows = read_cells(file, delimiter)
    if not rows:
        raise ReadError(f"{file} has no lines: write the name of a file, a comma and its label in each")
    return rows


def _sorted(path: FilePath, data: SequenceData, columns: Columns, times: list[NDArray[np.float64]]) -> SequenceData:
    """Return the data sorted by the time, or unchanged if the column is not a time."""
    times = [filled(t) for t in times]
    if not columns.certain and not (max(map(len, times)) > 2 and all(map(steady, times))):
        return data
    orders = [np.argsort(t, kind="stable") for t in times]
    for name, t, order in zip(data.ids, times, orders, strict=True):
        if not (np.isfinite(t).all() and (np.diff(t[order]) > 0).all()):
            what = f"{columns.time}" if columns.named else f"column {columns.time}"
            raise ReadError(
                f"{path}, {name} has rows without {what}, or two rows with the same {what}: correct or remove these "
                f"rows{columns.otherwise}"
            )
    lengths = list(map(len, times))
    moved = [not (np.diff(order) == 1).all() for order in orders]
    require_memory(path, sum(x.nbytes for x, one in zip(data.sequences, moved, strict=True) if one))
    return replace(
        data,
        sequences=[x[order] if one else x for x, order, one in zip(data.sequences, orders, moved, strict=True)],
        sampling_rate=columns.rate(np.concatenate([t[order] for t, order in zip(times, orders, strict=True)]), lengths),
        clocks=(f"{columns.time}" if columns.named else f"column {columns.time}",),
        order=np.concatenate([order + start for order, start in zip(orders, np.cumsum([0, *lengths]), strict=False)]),
    )


def _entries(folder: Path) -> list[Path]:
    entries = [entry for entry in folder.iterdir() if not entry.name.startswith(".")]
    return sorted(entries, key=lambda entry: natural(entry.name))


def _what(file: Path) -> str:
    return "a folder in a subfolder" if file.is_dir() else "a file next to subfolders"


def _one_each(files: list[Path], option: str, name: str | None, found: Sequence[Sequence[Any]]) -> list[Any] | None:
    """Return the value of a column in each file, or None with a warning if a file has several values."""
    for file, values in zip(files, found if name is not None else (), strict=False):
        if len(values) > 1 or values[0] == "":
            what = f"has {values[0]!r} and {values[1]!r}" if len(values) > 1 else "is empty"
            warnings.warn(
                f"{file}, column {quoted(name)} {what[:100]}, not one value for all rows: the column is ignored "
                f"({option}=None makes the column a channel)",
                stacklevel=3,
            )
            return None
    return None if name is None else [values[0] for values in found]


def _checked(files: list[Path], tables: Tables) -> list[tuple[Columns, Rows]]:
    """Return all tables, which have the same columns and some rows."""
    found: list[tuple[Columns, Rows]] = []
    for file, (columns, rows) in zip(files, tables, strict=True):
        first = found[0][0] if found else columns
        if len(rows.values) == 0:
            raise ReadError(f"{file} has a header but no rows: add one row per time step")
        if (columns.time, columns.seconds) != (first.time, first.seconds):
            raise ReadError(
                f"{file} and {files[0].name} have dates in different formats: use the same format in all files"
            )
        if len(columns.channels) != len(first.channels):
            wanted = f"(T, {len(first.channels)}), as in {files[0].name}"
            raise ReadError(f"{file} has an array of shape {rows.values.shape}: save one sequence per file, {wanted}")
        if (columns.names, columns.texts) != (first.names, first.texts):
            raise ReadError(f"{file} has other channel names than {files[0].name}: use the same names")
        found.append((columns, rows))
    return found


def _read_arrays(path: FilePath, files: list[Path], asked: Asked, text: Text) -> Tables:
    for file, x in zip(files, read_arrays(path, files), strict=True):
        x = x[:, None] if x.ndim == 1 else x
        if x.ndim != 2 or x.size == 0:
            raise ReadError(f"{file} has an array of shape {x.shape}: save one sequence per file, (T, d)")
        columns = replace(choose_columns(file, [*map(str, range(x.shape[1]))], asked, named=False), clocks=False)
        if columns.texts:
            raise ReadError(f"{file} has an array of numbers, without ids and labels: do not pass id= and label=")
        times = None if columns.time is None else x[:, int(columns.time)].astype(np.float64)
        if len(columns.channels) < x.shape[1]:
            x = x[:, [int(name) for name in columns.channels]]
        yield columns, Rows(x, times, None, [], None, [])


def _read_tables(path: FilePath, files: list[Path], asked: Asked, text: Text) -> Tables:
    total = 0
    for i, file in enumerate(files):
        said: list[str] = []
        found = read_table(file, text, asked, said)
        table, one = found.table, replace(asked, label=found.label)
        stamps = table.stamps(None if asked.time is None else str(asked.time))
        columns = choose_columns(file, table.header, one, stamps=stamps, named=found.named)
        rows = table.rows(columns)
        top = rows.values[:1].ravel()
        if not columns.named and (top == np.round(top)).all() and len(set(top.tolist())) == len(top):  # years, say
            said.append(f"{FIRST_LINE}: if it names the columns, write names that are not numbers")
        for message in said if i == 0 else ():  # the others have the same names
            warnings.warn(f"{file} {message}", stacklevel=5)
        require(path, total := total + rows.values.size, len(files))
        yield columns, rows


def _read_parquet(path: FilePath, files: list[Path], asked: Asked, text: Text) -> Tables:
    total = 0
    for file in files:
        columns, rows, _ = parquet_rows(file, asked)
        require_memory(path, total := total + rows.values.nbytes)
        yield columns, rows


_KINDS = {
    ".npy": _read_arrays,
    **dict.fromkeys((".csv", ".tsv", ".txt"), _read_tables),
    ".parquet": _read_parquet,
}
