"""Tables in text files: detection of the header, and of rows that are time steps or series."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..._quoted import quoted
from .._data import SequenceData
from .._limits import FilePath, ReadError
from ._ascii_numbers import written_otherwise
from ._clock import AUTO
from ._columns import Asked
from ._table import Table, of_table
from ._text import Text, TextTable
from ._wide import holds_series, of_series

FIRST_LINE = "has a first line of numbers, which is used as data"
_FEW = 50
"""Number of rows that are searched for a text at the end of the first line."""


def read_csv(
    path: FilePath,
    *,
    id: str | None = "id",
    time: str | None = AUTO,
    channels: Sequence[str] | None = None,
    label: str | None = "label",
    delimiter: str | None = None,
    decimal: str = ".",
    thousands: str | None = None,
    encoding: str | None = None,
    comment: str | None = None,
    date_format: str | None = None,
    wide: bool | None = None,
    ordered: bool = True,
) -> SequenceData:
    """Read sequences from a table of text: one row per time step, or (`wide`) one series per row.

    pandas parses the text. Lines above the table that begin with ``#`` are left out.

    Parameters
    ----------
    path : str or path-like
        Text whose first line contains the names of the columns. In three cases, the first line is data, and the columns
        have the names ``"0"``, ``"1"``, …: the line contains only numbers (other than 0, 1, 2, …, which pandas writes);
        only its last cell is text, and this text is repeated in the last column (the label); or the options name
        columns by number. If two columns are called ``x``, the second is renamed to ``"x.1"``. Each of these cases
        causes a warning.
    id : str or None
        The column with the sequence of each row. None: the file is one sequence. ``"auto"``: the column ``id`` if there
        is one.
    time : str or None
        The column by which the rows of a sequence are sorted. It contains numbers, or dates and times in the format of
        ISO 8601 (``2024-05-01T12:00:01.5``, with or without an offset; ``12:00:01``) or of `date_format`. None: the
        rows are in order, and no column is the time. The default ``"auto"`` is the column ``time`` if this column is a
        clock: in every sequence, its values increase from row to row, or have a nearly constant step after sorting.
        Otherwise the column is a channel. A file with ids and without this column needs a column of dates, or another
        clock, see `read_directory`. Clocks in other columns are not channels either.
    channels : sequence of str, optional
        The columns of the channels, as names or patterns (``acc_*``); by default all other columns except the time.
        Empty cells, ``?``, ``NA`` and ``NaN`` are missing values and become NaN. Other cells are numbers in decimal
        digits. A column may also hold only ``True`` and ``False``.
    label : str or None
        The column of the label, the same in all rows of a sequence. The default column may be missing.
    delimiter : str, optional
        One character; ``tab`` and ``\\t`` are the tabulator, ``blank`` any number of blanks. The default is the comma,
        or the semicolon if `decimal` is a comma. For a ``.tsv`` file, the default is the tabulator. For a ``.txt``
        file, it is the first of tabulator, semicolon and comma that occurs in the first line, and otherwise blanks.
    decimal : {".", ","}
        The decimal separator.
    thousands : str, optional
        The thousands separator.
    encoding : str, optional
        The encoding of the text, such as ``"latin-1"``; by default UTF-8, or UTF-16 if the file begins with its byte
        order mark.
    comment : str, optional
        The character that begins a comment.
    date_format : str, optional
        The format of dates other than ISO 8601, as for `datetime.datetime.strptime`: ``"%d.%m.%Y %H:%M"``.
    wide : bool, optional
        Each row is a series of one channel, and the first column may be its label, as in the files of the UCR archive.
        The label column is named `label` or, in a table without names, holds text or a few repeated whole numbers. The
        default is True if the table has no names and the options name no column.
    ordered : bool
        Whether rows are time steps. With False, rows are samples in any order, and a time axis is ignored. If no id
        occurs twice, the rows keep the order of the file, and each row with an id or a label is a separate sequence.

    Returns
    -------
    SequenceData
        Sequences in order of their first rows, with ids, labels as strings, channel names, the columns that were used
        as clocks, and their sampling rate.

    Raises
    ------
    ReadError
        If the file is empty, in another encoding or too large for memory, if a column is missing, a row has another
        number of cells, a cell is not a number, a time occurs twice, or labels differ within a sequence.
    ImportError
        If pandas is not installed.
    FileNotFoundError
        If the file does not exist.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "two.csv"
    ...     _ = path.write_text("id,time,x,y,label\\na,1,5,6,up\\na,0,3,4,up\\nb,0,7,,down\\n")
    ...     data = read_csv(path)
    >>> data.sequences[0].tolist(), data.sequences[1].tolist(), data.labels.tolist()
    ([[3.0, 4.0], [5.0, 6.0]], [[7.0, nan]], ['up', 'down'])
    """
    asked = Asked(id, time, channels, label, ordered)
    text = Text(delimiter, decimal, thousands, encoding, comment, date_format)
    said: list[str] = []
    found = read_table(path, text, asked, said, series=wide is not False)
    if wide or (wide is None and not found.named and asked == Asked("id", AUTO, None, label) and ordered):
        data = of_series(found.table, found.named, label, said)
    else:
        if not found.named:
            said.insert(0, FIRST_LINE + ": columns are named by numbers from 0")
        data = of_table(found.table, replace(asked, label=found.label), named=found.named)
    for message in said:  # not while the file is open: what decoders warn of is silenced
        warnings.warn(f"{path} {message}", stacklevel=2)
    return data


@dataclass(frozen=True)
class Found:
    """A table of text, whether its first line names its columns, and which column is its label."""

    table: Table
    named: bool
    label: str | None


def read_table(path: FilePath, text: Text, asked: Asked, said: list[str], *, series: bool = False) -> Found:
    """Read a table; warnings are appended to `said`. Tables of `series` have no column names."""
    file = TextTable(path, text)
    first, lines, second = _head(file)
    numbers = [*map(str, range(len(first)))]
    header, label = numbers, asked.label
    frame, skip = None, file.comments
    labelled = len(first) > 1 and file.all_numbers(first[:-1]) and not file.all_numbers(first[-1:]) and bool(first[-1])
    if labelled and set(asked.names).isdisjoint(first):
        frame = file.parse(skip, len(first), _texts(numbers, asked) | {len(first) - 1})
        if first[-1] in frame[len(first) - 1].iloc[1:_FEW].str.strip().tolist():
            label = numbers[-1] if label == "label" else label
            said.append(f"has texts such as {first[-1][:40]!r} in column {numbers[-1]}, which are used as labels")
        else:
            frame = None
    named = frame is None and not _is_data(first, second, file, asked, series=series)
    if named:
        header, skip = _header(file, first, asked, said), lines
    if frame is None:
        frame = file.parse(skip, len(first), _texts(header, replace(asked, label=label)))
    if len(frame) == 0:
        raise ReadError(f"{path} has a header but no rows: add one row per time step")
    frame.columns = header
    return Found(Table(str(path), frame, lambda row: file.place(skip, int(row)), text=file), named, label)


def header_of(path: FilePath, text: Text) -> list[str]:
    """Return the names in the first line of a table."""
    return _named_apart(_head(TextTable(path, text))[0])


def _head(file: TextTable) -> tuple[list[str], int, list[str]]:
    """Return the cells of the first line, the number of the file's line where it ends, and the cells of the second."""
    records = file.records()
    first, second = (None, next(records, None)) if file.title else (next(records, None), next(records, None))
    cells = file.cells(file.title if first is None else first.text)
    if not file.title and (first is None or not cells):
        raise ReadError(f"{file.path} has no row of numbers: write one row per time step")
    return cells, file.comments if first is None else first.last, [] if second is None else file.cells(second.text)


def _texts(header: Sequence[str], asked: Asked) -> set[int]:
    """Return the positions of id and label, which stay texts; without column names, they are requested by number."""
    wanted = {str(name) for name in (asked.id, asked.label) if name is not None}
    wanted |= {"id"} if asked.id == AUTO else set()
    return {j for j, name in enumerate(header) if name in wanted}


def _header(file: TextTable, names: Sequence[str], asked: Asked, said: list[str]) -> list[str]:
    """Return unique names from a first line; raise an error if another character seems to separate the cells."""
    for mark, word in ((";", "';'"), ("\t", "tab")):
        parts = [part for name in names for part in name.split(mark)]
        if mark != file.delimiter and len(parts) > len(names) and (len(names) == 1 or file.all_numbers(parts)):
            cell = next(name for name in names if mark in name)[:40]
            what = f"one column {cell!r}" if len(names) == 1 else f"the cell {cell!r} in its first line"
            raise ReadError(
                f"{file.path} has {what}: if {word} separates the cells, pass delimiter={word} "
                f"(--read delimiter={word})"
            )
    if decimals := [name for name in names if file.text.decimal in name and file.all_numbers([name])]:
        words = [j for j, name in enumerate(names) if not file.all_numbers([name])]
        said.append(
            f"has numbers such as {decimals[0]} in its first line, which is used as names: if it is data, write a "
            f"line of names above it, or name columns by number, such as label={words[-1]} (--read label={words[-1]})"
        )
    header = _named_apart(names)
    renamed = [(name, new) for name, new in zip(names, header, strict=True) if name != new]
    for name, new in renamed:
        if name in (asked.id, asked.time, asked.label):
            raise ReadError(
                f"{file.path} has two columns named {quoted(name)}: rename one, or call the second {quoted(new)}"
            )
    if renamed:
        shown = ", ".join(repr(new) for _, new in renamed)[:200]
        said.append(f"has duplicate column names: the later columns are named {shown}")
    return header


def _is_data(first: Sequence[str], second: Sequence[str], file: TextTable, asked: Asked, *, series: bool) -> bool:
    """Return whether a first line contains numbers, or whether the options name columns by number."""
    if file.title:
        return False
    below = [*second[: len(first)], *[""] * (len(first) - len(second))]
    alike = (
        not cell or file.all_numbers([cell]) or written_otherwise(cell) or (file.is_date(cell) and file.is_date(other))
        for cell, other in zip(first, below, strict=True)
    )
    if all(alike):
        return any(first) and not _counts(first, second, file)
    if series and asked == Asked("id", AUTO, None, asked.label) and holds_series(first, file):
        return True
    given = {int(name) for name in asked.names if name.isdecimal() and name not in first}
    rest = [cell for j, cell in enumerate(first) if j not in given or str(j) in (asked.channels or ())]
    return bool(given) and max(given) < len(first) and all(file.all_numbers([cell]) for cell in rest)


def _counts(first: Sequence[str], second: Sequence[str], file: TextTable) -> bool:
    """Return whether a first line of numbers is that of names: 0, 1, 2, … as pandas writes them where there are none.

    They may follow an empty cell, and begin again once (tables side by side). The next line has decimals, which a line
    of data would have too, or there are five of them.
    """
    cells = list(first[1:] if first[:1] == [""] else first)
    run = next((k for k, cell in enumerate(cells) if cell != str(k)), len(cells))
    if cells[run:] != [str(k) for k in range(len(cells) - run)] or len(cells) - run > run or run < 2:
        return False
    return run >= 5 or any({file.text.decimal, *"eE"} & set(cell) for cell in second[len(first) - len(cells) :])


def _named_apart(header: Sequence[str]) -> list[str]:
    """Return names with .1, .2, … for duplicates, as in pandas."""
    found: dict[str, None] = {}
    given = set(header)
    for name in header:
        new, again = name, 0
        while new in found or (again and new in given):
            again += 1
            new = f"{name}.{again}"
        found[new] = None
    return list(found)
