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
from ._clock import AUTO, filled, refuse_some, without, without_clocks, without_nothing
from ._csv import FIRST_LINE, decimal_comma, header_of, number, numbers_columns, parsed, separator
from ._npz import read_arrays
from ._parquet import Asked, parquet_tables, stamps_of
from ._plain_table import Layout, plain_table

Float = NDArray[Any]
Table = tuple[list[str] | None, Float, dict[str, list[Any]]]
"""The names of the columns, if they have any, and the numbers of a file; the values of the id and label, each once."""


def read_directory(
    path: FilePath,
    *,
    time: str | int | None = AUTO,
    id: str | None = "id",
    label: str | None = "label",
    delimiter: str = ",",
) -> SequenceData:
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
        The name or number of the column by which rows are sorted and that is not a channel; None: there is none, all
        columns are channels. By default ``"auto"``: of tables, clocks are not channels. A column of time stamps in
        ``.parquet`` files is the time.
    id, label : str or None
        Columns of tables whose value, the same in all rows of a file, is the id and the label of the file; those of the
        default names may be missing. One that is not the same in all rows is left out with a warning; None: such a
        column is a channel.
    delimiter : str
        One character, which separates cells in ``.csv`` files; ``tab`` and ``\\t`` are the tabulator.

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
    place, is kept. A table of nothing but clocks keeps them. What is called a time and is a clock in some files, but
    not in all, is an error. A last column without a name and without a value is left out.

    Raises
    ------
    ReadError
        If kinds of files are mixed, or files with folders, if there is no file, one is bad, or all are too large for
        memory; if a column that is named is missing.
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
    if delimiter != "," and kinds[0] != ".csv":
        raise ReadError(f"{path} has {kinds[0]} files, which have no delimiter: leave it out")
    named = [file for file, _ in files]
    if kinds[0] == ".parquet" and time == AUTO:
        time = stamps_of(named[0]) or AUTO
    asked = Asked(time, "id" if id == AUTO else id, label, separator(path, delimiter))
    names, sequences, texts = _checked(named, _KINDS[kinds[0]](path, named, asked), asked)
    labels = [label for _, label in files if label is not None]
    # a name that is not UTF-8 could not be written to a table
    shown = [os.fsencode(file.name).decode("utf-8", "replace") for file, _ in files]
    ids = [name if label is None else f"{label}/{name}" for name, (_, label) in zip(shown, files, strict=True)]
    found = np.array(labels) if labels else listed_labels(listed[0], ids, delimiter=asked.delimiter) if listed else None
    if (column := _one_each(named, "label", asked.label, texts)) is not None:
        if found is None:
            found = np.array(column)
        elif unlike := [i for i, text in enumerate(column) if str(text) != found[i]]:
            i = unlike[0]
            warnings.warn(
                f"{named[i]} has the {asked.label} {str(column[i])[:40]!r} in its column, and {str(found[i])!r} by "
                f"{'its folder' if labels else listed[0].name}, which is taken",
                stacklevel=2,
            )
    if (column := _one_each(named, "id", asked.id, texts)) is not None:
        own = [str(text) for text in column]
        if len(set(own)) == len(own):
            ids = own
        else:
            twice = next(text for i, text in enumerate(own) if text in own[:i])
            warnings.warn(
                f"{path} has several files with the {asked.id} {twice[:40]!r}: ids are their names", stacklevel=2
            )
    data = without_nothing(record(path, sequences, found, name=Path(path).name, channel_names=names, ids=ids))
    if time is None or (kinds[0] == ".npy" and time == AUTO):
        return data
    if time != AUTO:
        return _sorted(path, data, time)
    found_clocks = without_clocks(data)
    refuse_some(path, found_clocks)
    return found_clocks


_LABELS = "labels.csv"


def listed_labels(file: Path, ids: Sequence[str], what: str = "file", *, delimiter: str = ",") -> NDArray[np.str_]:
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
            cells = cells[0].split(delimiter) if len(cells) == 1 else cells  # separated as the tables are
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


def _one_each(files: list[Path], option: str, name: str | None, texts: list[dict[str, list[Any]]]) -> list[Any] | None:
    """Return the one value of a column in each file; None, with a warning, if a file has several."""
    columns = [found.get(name or "") for found in texts]
    for file, values in zip(files, columns, strict=True):
        if values is None:
            return None
        if len(values) > 1 or values[0] == "":
            what = f"has {values[0]!r} and {values[1]!r}" if len(values) > 1 else "is empty"
            warnings.warn(
                f"{file}, column {name!r} {what[:100]}, not one value for all rows: it is left out; {option}=None "
                "makes it a channel",
                stacklevel=3,
            )
            return None
    return [values[0] for values in columns if values]


def _checked(
    files: list[Path], tables: Iterable[Table], asked: Asked
) -> tuple[list[str] | None, list[Float], list[dict[str, list[Any]]]]:
    """Return the names of the channels, and of all files, which have the same, the arrays and texts."""
    names: list[str] | None = None
    sequences: list[Float] = []
    texts: list[dict[str, list[Any]]] = []
    for file, (names_here, x, texts_here) in zip(files, tables, strict=True):
        x = x[:, None] if x.ndim == 1 else x
        if names_here is None:
            asked.words(file, [])
        if x.ndim != 2 or x.size == 0 or (sequences and x.shape[1] != sequences[0].shape[1]):
            wanted = f"(T, {sequences[0].shape[1]}), as in {files[0].name}" if sequences else "(T, d)"
            raise ReadError(f"{file} has an array of shape {x.shape}: save one sequence per file, {wanted}")
        if sequences and (names_here != names or texts_here.keys() != texts[0].keys()):
            raise ReadError(f"{file} names its channels otherwise than {files[0].name}: use the same names")
        names = names_here
        sequences.append(x)
        texts.append(texts_here)
    return names, sequences, texts


def _read_arrays(path: FilePath, files: list[Path], asked: Asked) -> Iterator[Table]:
    return ((None, array, {}) for array in read_arrays(path, files))


def _read_tables(path: FilePath, files: list[Path], asked: Asked) -> Iterator[Table]:
    total = 0
    for i, file in enumerate(files):
        said: list[str] = []
        table = _read_table(file, asked, said)
        top = table[1][0]
        if table[0] is None and (top == np.round(top)).all() and len(set(top.tolist())) == len(top):  # years, say
            said.append(f"{FIRST_LINE}: if it names the columns, write names that are no numbers")
        for sentence in said if i == 0 else ():  # the others have the same names
            warnings.warn(f"{file} {sentence}", stacklevel=4)
        require(path, total := total + table[1].size, len(files))
        yield table


def _no_number(file: Path, line: int, cells: list[str], names: list[str] | None, words: Sequence[int]) -> ReadError:
    for column, cell in sorted(enumerate(cells), key=lambda pair: not written_otherwise(pair[1])):
        if names is not None and len(cells) == len(names) and column in words:
            continue
        try:
            number(cell)
        except ValueError:
            named = names is not None and column < len(names) and names[column]
            where = f"{file}, line {line}, column {named!r}" if named else f"{file}, line {line}, column {column}"
            return ReadError(
                f"{where} is {cell[:40]!r}, no number in decimal digits{decimal_comma(cell)}: write numbers only"
            )
    raise AssertionError("a cell is not a number")


def _read_table(file: Path, asked: Asked, said: list[str]) -> Table:
    """Read a table of numbers with, optionally, names in the first line; what is to be warned of is added to `said`."""
    names: list[str] | None = None
    rows: list[list[float]] = []
    first: list[str] = []
    numeric: Sequence[int] = ()
    words: Sequence[int] = ()
    texts: dict[str, dict[str, None]] = {}
    settled, skip = False, 0
    with parsed(file, asked.delimiter) as lines:
        for cells in filter(None, lines):
            if names is not None and len(cells) == len(names):
                for j in words:
                    texts[names[j]][cells[j].strip()] = None
                cells_here = [cells[j] for j in numeric]
            else:
                cells_here = cells
            try:
                row = [number(cell) for cell in cells_here]
            except ValueError:
                if names or rows or any(map(written_otherwise, cells)):
                    raise _no_number(file, lines.line_num, cells, names, words) from None
                names = header_of(file, [cell.strip() for cell in cells], asked.delimiter, said)
                words = [names.index(name) for name in asked.words(file, names)]
                numeric = [j for j in range(len(names)) if j not in words]
                texts = {names[j]: {} for j in words}
                if not numeric:
                    raise ReadError(
                        f"{file} has no channels beside {', '.join(names)[:200]}: add a column of numbers"
                    ) from None
                continue
            rows.append(row)
            if len(rows) == 2 and names is None and numbers_columns(first, cells):
                names, rows = header_of(file, [cell.strip() for cell in first], asked.delimiter, said), [row]
                numeric = range(len(names))
            first, skip = cells, lines.line_num - 1 if len(rows) == 1 else skip
            if len(cells) != (width := len(names or rows[0])):
                where = f"{file}, line {lines.line_num}"
                raise ReadError(f"{where} has {len(cells)} cells, unlike the first with {width}: complete or remove it")
            if not settled and (names is not None or len(rows) == 2):
                settled = True
                layout = Layout(asked.delimiter, skip, width, [numeric if names else range(width)], words)
                if (plain := plain_table(file, layout)) is not None:
                    found = [list(dict.fromkeys(map(str.strip, cells))) for cells, _ in plain[1]]
                    return _without(names, words), plain[0][0], dict(zip(texts, found, strict=True))
            require(file, 4 * width * len(rows), len(rows))
    if not rows:
        raise ReadError(f"{file} has no row of numbers: write one row per time step")
    return (
        _without(names, words),
        np.array(rows, dtype=np.float64),
        {name: list(found) for name, found in texts.items()},
    )


def _without(names: list[str] | None, words: Sequence[int]) -> list[str] | None:
    return None if names is None else [name for j, name in enumerate(names) if j not in words]


_KINDS = {".npy": _read_arrays, ".csv": _read_tables, ".parquet": parquet_tables}
