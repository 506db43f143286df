"""Tables of text, cell by cell (delimiter, missing values), and the reader of `.csv` files in the long format."""

import codecs
import csv
import io
import math
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain, islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._data import SequenceData
from .._limits import BLOCK as BYTES
from .._limits import FilePath, ReadError, bounded_lines, open_file, opened, require
from ._ascii_numbers import decimal, decimals
from ._clock import AUTO
from ._long_table import Columns, Rows, assemble, choose_columns
from ._plain_table import MISSING, Layout, plain_table

BLOCK = 1 << 14


def read_csv(
    path: FilePath,
    *,
    id: str | None = "id",
    time: str | None = AUTO,
    channels: Sequence[str] | None = None,
    label: str | None = "label",
    delimiter: str = ",",
    ordered: bool = True,
) -> SequenceData:
    """Read sequences from a `.csv` file in the long format, one row per time step.

    Parameters
    ----------
    path : str or path-like
        UTF-8 text whose first line names the columns. If it holds numbers only, other than 0, 1, 2, …, which pandas
        writes, it is data, and columns are called by their numbers, from ``"0"``. Of two columns ``x`` the second is
        called ``"x.1"``. Both are warned of.
    id : str or None
        The column that says to which sequence a row belongs; None: the file is one sequence; ``"auto"``: the column
        ``id`` if there is one.
    time : str or None
        The column of numbers by which the rows of a sequence are sorted; None: they are in order, and no column is the
        time. By default ``"auto"``, the column ``time`` if it is a clock: in every sequence it increases from row to
        row, or has a nearly constant step once it is sorted. If it is none it is a channel. A file without it needs
        another clock, see `read_directory`; clocks beside it are not channels either.
    channels : sequence of str, optional
        The columns of the channels; default all others that are not clocks. Empty cells, ``?``, ``NA`` and ``NaN`` are
        missing values and become NaN. Other cells are numbers in decimal digits.
    label : str or None
        The column of the label, the same in all rows of a sequence. That of the default name may be missing.
    delimiter : str
        One character; ``tab`` and ``\\t`` are the tabulator.
    ordered : bool
        False: rows are samples in any order. No clock is asked for; one that is there is left out. If no id occurs
        twice, rows stay in the order of the file, and each one that has an id or a label is a sequence of its own.

    Returns
    -------
    SequenceData
        Sequences in order of their first rows, with their ids; labels as strings; the channels' names; which columns
        were taken as clocks, and the sampling rate that they show.

    Raises
    ------
    ReadError
        If the file is empty, not UTF-8 or too large for memory, if a column is missing, a row has another number of
        cells, a cell is not a number, a time occurs twice, or labels differ within a sequence.
    FileNotFoundError
        If there is no such file.

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
    said: list[str] = []
    data = _read(path, delimiter, said, id=id, time=time, channels=channels, label=label, ordered=ordered)
    for sentence in said:  # not while the file is open: what decoders warn of is silenced
        warnings.warn(f"{path} {sentence}", stacklevel=2)
    return data


def _read(path: FilePath, delimiter: str, said: list[str], **options: Any) -> SequenceData:
    """Read a file; what is to be warned of is added to `said`."""
    delimiter = separator(path, delimiter)
    with parsed(path, delimiter) as lines:
        names, skip, rows = _begin(lines)
        if not skip and names:
            said.append(FIRST_LINE + ": columns are called by numbers from 0")
        header = header_of(path, names, delimiter, said)
        for name, new in zip(names, header, strict=True):
            if name != new and name in (options["id"], options["time"], options["label"]):
                raise ReadError(f"{path} has two columns named {name!r}: rename one, or call the second {new!r}")
        columns = replace(choose_columns(path, header, **options), named=skip > 0)
        table = _Table(path, header, columns, delimiter, skip)
        if (plain := table.plain_rows(skip)) is not None:
            return assemble(path, columns, plain, table.place)
        while block := list(islice(rows, BLOCK)):
            table.add([cells for cells in block if cells])
        return assemble(path, columns, table.rows(), table.place)


@contextmanager
def parsed(path: FilePath, delimiter: str = ",") -> Iterator[Any]:
    """Open a file and give its `csv.reader`; a sentence says in which line the text is not UTF-8."""
    delimiter = separator(path, delimiter)
    with opened(path, "a .csv file") as file:
        try:
            with io.TextIOWrapper(file, encoding="utf-8-sig", newline="") as text:
                yield csv.reader(bounded_lines(path, text), delimiter=delimiter, strict=True)
        except UnicodeDecodeError:
            raise ReadError(
                f"{path}, line {_undecodable(path)}: the text is not UTF-8: save the file as UTF-8"
            ) from None


FIRST_LINE = "has a first line of numbers, which is taken as data"


def separator(path: FilePath, delimiter: str) -> str:
    """Return the character that separates cells; a tabulator may be spelt out, as shells have none."""
    delimiter = {"tab": "\t", "\\t": "\t"}.get(delimiter, delimiter)
    if len(delimiter) != 1:
        raise ReadError(f"{path}: delimiter is {delimiter!r}: pass one character")
    return delimiter


def header_of(path: FilePath, names: Sequence[str], delimiter: str, said: list[str]) -> list[str]:
    """Return the names of a first line, each once; what is to be warned of is added to `said`.

    Raises
    ------
    ReadError
        If another character seems to separate the cells.
    """
    for mark, word in ((";", "';'"), ("\t", "tab")):
        parts = [part for name in names for part in name.split(mark)]
        if mark != delimiter and len(parts) > len(names) and (len(names) == 1 or all_numbers(parts)):
            cell = next(name for name in names if mark in name)[:40]
            what = f"one column {cell!r}" if len(names) == 1 else f"the cell {cell!r} in its first line"
            raise ReadError(f"{path} has {what}: separated by {word}? Pass delimiter={word} (--read delimiter={word})")
    if decimals := [name for name in names if "." in name and not all_numbers(names) and all_numbers([name])]:
        said.append(
            f"has numbers such as {decimals[0]} in its first line, which is taken as names: if it is data, write "
            "a line of names above it"
        )
    header = _named_apart(names)
    if renamed := [repr(new) for name, new in zip(names, header, strict=True) if name != new]:
        said.append(f"names columns twice: the later ones are called {', '.join(renamed)[:200]}")
    return header


def decimal_comma(cell: str) -> str:
    """Return what to say of a number with a decimal comma, nothing of any other cell."""
    return ", a decimal comma? Write a point" if re.fullmatch(r"[-+]?\d+,\d+([eE][-+]?\d+)?", cell.strip()) else ""


def csv_header(path: FilePath, delimiter: str = ",") -> list[str]:
    """Return the names in the first line of a table."""
    with parsed(path, delimiter) as lines:
        return _named_apart(_begin(lines)[0])


def _begin(lines: Any) -> tuple[list[str], int, Iterator[list[str]]]:
    """Return the names of the columns, in how many lines they stand (none: they are numbers), and the rows."""
    first = next(lines, [])
    skip, second = lines.line_num, next(filter(None, lines), None)
    rows = lines if second is None else chain([second], lines)
    if all_numbers(first) and not numbers_columns(first, second or []):
        return [str(j) for j in range(len(first))], 0, chain([first], rows)
    return [name.strip() for name in first], skip, rows


def all_numbers(cells: Sequence[str]) -> bool:
    """Return whether cells hold numbers, of which some may be missing."""
    try:
        return bool(np.isfinite([number(cell) for cell in cells]).any())
    except ValueError:
        return False


def numbers_columns(first: Sequence[str], second: Sequence[str]) -> bool:
    """Return whether a first line of numbers is that of names: 0, 1, 2, … as pandas writes them where there are none.

    They may follow an empty cell, and begin again once (tables side by side). The next line has decimals, which a line
    of data would have too, or there are five of them.
    """
    cells = [cell.strip() for cell in first]
    cells = cells[1:] if cells[:1] == [""] else cells
    run = next((k for k, cell in enumerate(cells) if cell != str(k)), len(cells))
    if cells[run:] != [str(k) for k in range(len(cells) - run)] or len(cells) - run > run or run < 2:
        return False
    return run >= 5 or any(set(".eE") & set(cell) for cell in second[len(first) - len(cells) :])


def _named_apart(header: Sequence[str]) -> list[str]:
    """Return names with .1, .2, … where one occurs again, as pandas gives them."""
    found: dict[str, None] = {}
    given = set(header)
    for name in header:
        new, again = name, 0
        while new in found or (again and new in given):
            again += 1
            new = f"{name}.{again}"
        found[new] = None
    return list(found)


def number(cell: str) -> float:
    """Return the number in a cell, NaN for a missing value; raises ValueError for anything else."""
    return math.nan if cell.strip().lower() in MISSING else decimal(cell)


def _undecodable(path: FilePath) -> int:
    decoder, number = codecs.getincrementaldecoder("utf-8")(), 1
    with open_file(path) as file:
        while block := file.read(BYTES):
            try:
                decoder.decode(block)
            except UnicodeDecodeError as error:
                return number + error.object[: error.start].count(b"\n")
            number += block.count(b"\n")
    return number


class _Codes(dict[str, int]):
    """Numbers strings from 0 in the order in which they are first asked for."""

    def __missing__(self, key: str) -> int:
        self[key] = code = len(self)
        return code


class _Table:
    """Collects the columns in use, block by block."""

    def __init__(self, path: FilePath, header: list[str], columns: Columns, delimiter: str, skip: int) -> None:
        self.path, self.header, self.columns, self.delimiter, self.skip = path, header, columns, delimiter, skip
        self.count = 0
        self.numeric: list[NDArray[np.float64]] = []
        self.codes: dict[str, list[NDArray[np.intp]]] = {
            name: [] for name in (columns.id, columns.label) if name is not None
        }
        self.names: dict[str, _Codes] = {name: _Codes() for name in self.codes}

    def add(self, block: list[list[str]]) -> None:
        width = len(self.header)
        for i, cells in enumerate(block):
            if len(cells) != width:
                where = self.place(self.count + i)
                raise ReadError(f"{self.path}, {where} has {len(cells)} cells, not {width}: complete or remove it")
        cells_of = dict(zip(self.header, zip(*block, strict=True), strict=True)) if block else {}
        names = [*([] if self.columns.time is None else [self.columns.time]), *self.columns.channels]
        numeric = np.empty((len(block), len(names)))
        for j, name in enumerate(names if block else ()):
            numeric[:, j] = self._numbers(name, cells_of[name])
        self.numeric.append(numeric)
        for name, codes in self.names.items():
            numbered = map(codes.__getitem__, map(str.strip, cells_of[name])) if block else ()
            self.codes[name].append(np.fromiter(numbered, np.intp, len(block)))
        self.count += len(block)
        columns, names_of_codes = len(names) + len(self.names), sum(map(len, self.names.values()))
        require(self.path, 3 * self.count * columns, names_of_codes)  # in blocks, joined, sorted

    def _numbers(self, name: str, cells: tuple[str, ...]) -> Any:
        try:
            return decimals(cells)
        except ValueError:
            return [self._number(name, i, cell) for i, cell in enumerate(cells)]

    def _number(self, name: str, i: int, cell: str) -> float:
        try:
            return number(cell)
        except ValueError:
            what = "write a number" if name == self.columns.time else "write a number, or nothing where it is missing"
            where = f"{self.place(self.count + i)}, column {name!r}"
            raise ReadError(f"{self.path}, {where} is {cell[:40]!r}, no number{decimal_comma(cell)}: {what}") from None

    def plain_rows(self, skip: int) -> Rows | None:
        """Return the rows of a plain table, which follow `skip` lines; None for any other."""
        places = {name: j for j, name in enumerate(self.header)}
        times, channels = self.columns.time, self.columns.channels
        if not self.names.keys().isdisjoint((times, *channels)):  # an id that is a channel too
            return None
        groups = [[places[name] for name in channels], *([] if times is None else [[places[times]]])]
        texts = [places[name] for name in self.names]
        found = plain_table(self.path, Layout(self.delimiter, skip, len(self.header), groups, texts))
        if found is None:
            return None
        (values, *time), runs = found
        codes = {}
        for (name, numbers), (cells, lengths) in zip(self.names.items(), runs, strict=True):
            of_runs = np.fromiter(map(numbers.__getitem__, map(str.strip, cells)), np.intp, len(cells))
            codes[name] = np.repeat(of_runs, lengths)
        return self._rows(values, time[0][:, 0] if time else None, codes)

    def rows(self) -> Rows:
        numeric = np.concatenate(self.numeric) if self.numeric else np.empty((0, 1))
        codes = {name: np.concatenate(parts or [np.empty(0, np.intp)]) for name, parts in self.codes.items()}
        if self.columns.time is None:
            return self._rows(numeric, None, codes)
        return self._rows(np.ascontiguousarray(numeric[:, 1:]), numeric[:, 0], codes)

    def _rows(
        self, values: NDArray[np.float64], times: NDArray[np.float64] | None, codes: dict[str, NDArray[np.intp]]
    ) -> Rows:
        of_ids, of_labels = self.columns.id or "", self.columns.label or ""
        return Rows(
            values,
            times,
            None if self.columns.id is None else codes[of_ids],
            list(self.names.get(of_ids, ())),
            None if self.columns.label is None else codes[of_labels],
            list(self.names.get(of_labels, ())),
        )

    def place(self, row: int) -> str:
        """Say in which line a row ends: the file is read again, since cells may hold line ends."""
        with parsed(self.path, self.delimiter) as lines:
            if self.skip:
                next(lines)
            next(islice(filter(None, lines), int(row), None), None)
            return f"line {lines.line_num}"
