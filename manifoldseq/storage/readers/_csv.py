"""Tables of text (delimiter, decimal mark, dates, missing values); the reader of `.csv` files in the long format."""

import codecs
import csv
import io
import math
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain, islice, zip_longest
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ..._quoted import quoted
from .._data import SequenceData
from .._limits import BLOCK as BYTES
from .._limits import FilePath, ReadError, bounded_lines, open_file, opened, require
from ._ascii_numbers import decimal, decimals, written_otherwise
from ._clock import AUTO
from ._dates import is_date, seconds_of
from ._long_table import Asked, Columns, Rows, assemble, choose_columns
from ._plain_table import MISSING, Layout, plain_table

BLOCK = 1 << 14
_FEW = 50
"""Rows that are looked at to tell names from data, and dates from numbers."""


def read_csv(
    path: FilePath,
    *,
    id: str | None = "id",
    time: str | None = AUTO,
    channels: Sequence[str] | None = None,
    label: str | None = "label",
    delimiter: str | None = None,
    decimal: str = ".",
    ordered: bool = True,
) -> SequenceData:
    """Read sequences from a `.csv` file in the long format, one row per time step.

    Parameters
    ----------
    path : str or path-like
        UTF-8 text whose first line names the columns. If it holds numbers only, other than 0, 1, 2, …, which pandas
        writes, it is data, and columns are called by their numbers, from ``"0"``. So it is if only its last cell is a
        text that stands there in a later row too, the label; or if columns are named by number. Of two columns ``x``
        the second is called ``"x.1"``. All of this is warned of.
    id : str or None
        The column that says to which sequence a row belongs; None: the file is one sequence; ``"auto"``: the column
        ``id`` if there is one.
    time : str or None
        The column by which the rows of a sequence are sorted, numbers, or dates and times of ISO 8601
        (``2024-05-01T12:00:01.5``, with an offset or without; ``12:00:01``); None: they are in order, and no column is
        the time. By default ``"auto"``, the column ``time`` if it is a clock: in every sequence it increases from row
        to row, or has a nearly constant step once it is sorted. If it is none it is a channel. A file without it needs
        a column of dates, or another clock, see `read_directory`; clocks beside it are not channels either.
    channels : sequence of str, optional
        The columns of the channels; default all others that are not clocks. Empty cells, ``?``, ``NA`` and ``NaN`` are
        missing values and become NaN. Other cells are numbers in decimal digits.
    label : str or None
        The column of the label, the same in all rows of a sequence. That of the default name may be missing.
    delimiter : str, optional
        One character; ``tab`` and ``\\t`` are the tabulator. By default the comma, the semicolon beside decimal commas.
    decimal : {".", ","}
        The mark before decimals.
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
    asked = Asked(id, time, channels, label, ordered)
    columns, rows, place = read_rows(path, Text.of(path, delimiter, decimal), asked, said)
    data = assemble(path, columns, rows, place)
    first = [] if columns.named else [FIRST_LINE + ": columns are called by numbers from 0"]
    for sentence in [*first, *said]:  # not while the file is open: what decoders warn of is silenced
        warnings.warn(f"{path} {sentence}", stacklevel=2)
    return data


@dataclass(frozen=True)
class Text:
    """How a table is written: the character that separates cells, and the mark before decimals."""

    delimiter: str
    decimal: str = "."

    @classmethod
    def of(cls, path: FilePath, delimiter: str | None, decimal: str = ".") -> Self:
        """Return what options say; a tabulator may be spelt out, as shells have none."""
        if decimal not in (".", ","):
            raise ReadError(f"{path}: decimal is {quoted(decimal)}: pass a point or a comma")
        found = {"tab": "\t", "\\t": "\t", None: "," if decimal == "." else ";"}.get(delimiter, str(delimiter))
        if len(found) != 1:
            raise ReadError(f"{path}: delimiter is {quoted(delimiter)}: pass one character")
        return cls(found, decimal)

    def number(self, cell: str) -> float:
        """Return the number in a cell, NaN for a missing value; raises ValueError for anything else."""
        return math.nan if cell.strip().lower() in MISSING else decimal(self.pointed(cell))

    def pointed(self, cell: str) -> str:
        """Return a number with a decimal point, as Python has it; one with a point is none beside decimal commas."""
        if self.decimal == ".":
            return cell
        return cell.replace(".", "_").replace(",", ".")

    def all_numbers(self, cells: Sequence[str]) -> bool:
        """Return whether cells hold numbers, of which some may be missing."""
        try:
            return any(map(str.strip, cells)) and bool([self.number(cell) for cell in cells])
        except ValueError:
            return False


def read_rows(path: FilePath, text: Text, asked: Asked, said: list[str]) -> tuple[Columns, Rows, Callable[[int], str]]:
    """Read a table; what is to be warned of is added to `said`.

    Returns
    -------
    (Columns, Rows, callable)
        The last says in which line of the file a row is.
    """
    with parsed(path, text.delimiter) as lines:
        filled = filter(None, lines)
        first = [cell.strip() for cell in next(filled, ())]
        skip = lines.line_num
        few = list(islice(filled, _FEW))
        if not first:
            raise ReadError(f"{path} has no row of numbers: write one row per time step")
        label, numbers = asked.label, list(map(str, range(len(first))))
        labelled = _ends_with_label(first, few, text) and set(asked.names).isdisjoint(first)
        if labelled and label == "label":
            label = numbers[-1]
            said.append(f"has texts such as {first[-1][:40]!r} in column {label}, which are taken as labels")
        if labelled or _is_data(first, few, text, asked):
            header, skip, few = numbers, 0, [first, *few]
        else:
            header = header_of(path, first, text, said)
        for name, new in zip(first, header, strict=True) if skip else ():
            if name != new and name in (asked.id, asked.time, asked.label):
                raise ReadError(
                    f"{path} has two columns named {quoted(name)}: rename one, or call the second {quoted(new)}"
                )
        stamps = [name for name, *cells in zip(header, *few, strict=False) if _hold_dates(cells)]
        columns = choose_columns(path, header, replace(asked, label=label), stamps=stamps, named=skip > 0)
        table = _Table(path, header, columns, text, skip)
        if (plain := table.plain_rows()) is not None:
            return columns, plain, table.place
        lines_left = chain(few, filled)
        while block := list(islice(lines_left, BLOCK)):
            table.add(block)
        return columns, table.rows(), table.place


@contextmanager
def parsed(path: FilePath, delimiter: str = ",") -> Iterator[Any]:
    """Open a file and give its `csv.reader`; a sentence says in which line the text is not UTF-8."""
    with opened(path, "a .csv file") as file:
        try:
            with io.TextIOWrapper(file, encoding="utf-8-sig", newline="") as text:
                yield csv.reader(bounded_lines(path, text), delimiter=delimiter, strict=True)
        except UnicodeDecodeError:
            raise ReadError(
                f"{path}, line {_undecodable(path)}: the text is not UTF-8: save the file as UTF-8"
            ) from None


FIRST_LINE = "has a first line of numbers, which is taken as data"


def header_of(path: FilePath, names: Sequence[str], text: Text, said: list[str]) -> list[str]:
    """Return the names of a first line, each once; what is to be warned of is added to `said`.

    Raises
    ------
    ReadError
        If another character seems to separate the cells.
    """
    for mark, word in ((";", "';'"), ("\t", "tab")):
        parts = [part for name in names for part in name.split(mark)]
        if mark != text.delimiter and len(parts) > len(names) and (len(names) == 1 or text.all_numbers(parts)):
            cell = next(name for name in names if mark in name)[:40]
            what = f"one column {cell!r}" if len(names) == 1 else f"the cell {cell!r} in its first line"
            raise ReadError(f"{path} has {what}: separated by {word}? Pass delimiter={word} (--read delimiter={word})")
    if decimals := [name for name in names if text.decimal in name and text.all_numbers([name])]:
        words = [j for j, name in enumerate(names) if not text.all_numbers([name])]
        said.append(
            f"has numbers such as {decimals[0]} in its first line, which is taken as names: if it is data, write a "
            f"line of names above it, or name columns by number, such as label={words[-1]} (--read label={words[-1]})"
        )
    header = _named_apart(names)
    if renamed := [repr(new) for name, new in zip(names, header, strict=True) if name != new]:
        said.append(f"names columns twice: the later ones are called {', '.join(renamed)[:200]}")
    return header


def otherwise(cell: str, text: Text) -> str:
    """Return what to say of a number in another form, nothing of any other cell."""
    if text.decimal == "." and re.fullmatch(r"[-+]?\d+,\d+([eE][-+]?\d+)?", cell.strip()):
        return ", a decimal comma? Pass decimal=, (--read decimal=,)"
    if re.fullmatch(r"\d+[./]\d+[./]\d+([ T].*)?", cell.strip()):
        return ", a date? Write it as 2024-05-01"
    return ""


def csv_header(path: FilePath, delimiter: str | None = None, decimal: str = ".") -> list[str]:
    """Return the names in the first line of a table."""
    with parsed(path, Text.of(path, delimiter, decimal).delimiter) as lines:
        return _named_apart([cell.strip() for cell in next(filter(None, lines), ())])


def _is_data(first: Sequence[str], few: Sequence[Sequence[str]], text: Text, asked: Asked) -> bool:
    """Return whether a first line is one of numbers, or columns are named by number that have no such names."""
    second = few[0] if few else []
    dates = [is_date(cell) and is_date(below) for cell, below in zip_longest(first, second[: len(first)], fillvalue="")]
    numeric = [text.all_numbers([cell]) or written_otherwise(cell) or not cell for cell in first]
    if all(map(max, numeric, dates)):
        return any(first) and not numbers_columns(first, second, text)
    given = {int(name) for name in asked.names if name.isdecimal() and name not in first}
    rest = [cell for j, cell in enumerate(first) if j not in given or str(j) in (asked.channels or ())]
    return bool(given) and max(given) < len(first) and all(text.all_numbers([cell]) for cell in rest)


def _ends_with_label(first: Sequence[str], few: Sequence[Sequence[str]], text: Text) -> bool:
    """Return whether a first line holds numbers and a last text that occurs again, which no name of a column does."""
    if len(first) < 2 or not text.all_numbers(first[:-1]) or text.all_numbers(first[-1:]) or not first[-1]:
        return False
    return any(len(cells) == len(first) and cells[-1].strip() == first[-1] for cells in few)


def _hold_dates(cells: Sequence[str]) -> bool:
    """Return whether cells hold dates or times, of which some may be missing."""
    present = [cell for cell in cells if cell.strip().lower() not in MISSING]
    return bool(present) and all(map(is_date, present))


def numbers_columns(first: Sequence[str], second: Sequence[str], text: Text) -> bool:
    """Return whether a first line of numbers is that of names: 0, 1, 2, … as pandas writes them where there are none.

    They may follow an empty cell, and begin again once (tables side by side). The next line has decimals, which a line
    of data would have too, or there are five of them.
    """
    cells = [cell.strip() for cell in first]
    cells = cells[1:] if cells[:1] == [""] else cells
    run = next((k for k, cell in enumerate(cells) if cell != str(k)), len(cells))
    if cells[run:] != [str(k) for k in range(len(cells) - run)] or len(cells) - run > run or run < 2:
        return False
    return run >= 5 or any({text.decimal, *"eE"} & set(cell) for cell in second[len(first) - len(cells) :])


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
    """Collects the columns in use, block by block; texts and dates as numbers of what stands there."""

    def __init__(self, path: FilePath, header: list[str], columns: Columns, text: Text, skip: int) -> None:
        self.path, self.header, self.columns, self.text, self.skip = path, header, columns, text, skip
        self.count = 0
        self.numeric: list[NDArray[np.float64]] = []
        self.time = None if columns.seconds else columns.time
        texts = [*columns.texts, *([columns.time] if columns.seconds and columns.time is not None else [])]
        self.codes: dict[str, list[NDArray[np.intp]]] = {name: [] for name in texts}
        self.names: dict[str, _Codes] = {name: _Codes() for name in texts}

    def add(self, block: list[list[str]]) -> None:
        width = len(self.header)
        for i, cells in enumerate(block):
            if len(cells) != width:
                where = self.place(self.count + i)
                raise ReadError(f"{self.path}, {where} has {len(cells)} cells, not {width}: complete or remove it")
        cells_of = dict(zip(self.header, zip(*block, strict=True), strict=True))
        names = [*([] if self.time is None else [self.time]), *self.columns.channels]
        numeric = np.empty((len(block), len(names)))
        for j, name in enumerate(names):
            numeric[:, j] = self._numbers(name, cells_of[name])
        self.numeric.append(numeric)
        for name, codes in self.names.items():
            numbered = map(codes.__getitem__, map(str.strip, cells_of[name]))
            self.codes[name].append(np.fromiter(numbered, np.intp, len(block)))
        self.count += len(block)
        columns, names_of_codes = len(names) + len(self.names), sum(map(len, self.names.values()))
        require(self.path, 3 * self.count * columns, names_of_codes)  # in blocks, joined, sorted

    def _numbers(self, name: str, cells: tuple[str, ...]) -> Any:
        try:
            return decimals(cells if self.text.decimal == "." else [*map(self.text.pointed, cells)])
        except ValueError:
            return [self._number(name, i, cell) for i, cell in enumerate(cells)]

    def _number(self, name: str, i: int, cell: str) -> float:
        try:
            return self.text.number(cell)
        except ValueError:
            missing = "write a number, or nothing where it is missing, or leave the column out with channels=…"
            what = "write a number" if name == self.time else missing
            if is_date(cell) and name == self.time:
                what = f"it has numbers, or nothing, in its first {_FEW} rows: write dates there too"
            elif is_date(cell):
                what = f"pass time={name} (--read time={name}) if it is the time, or choose others with channels=…"
            where = f"{self.place(self.count + i)}, column {name!r}"
            found = f"{cell[:40]!r}, no number in decimal digits{otherwise(cell, self.text)}"
            raise ReadError(f"{self.path}, {where} is {found}: {what}") from None

    def plain_rows(self) -> Rows | None:
        """Return the rows of a plain table; None for any other."""
        places = {name: j for j, name in enumerate(self.header)}
        channels = self.columns.channels
        if not self.names.keys().isdisjoint((self.time, *channels)):  # an id that is a channel too
            return None
        groups = [[places[name] for name in channels], *([] if self.time is None else [[places[self.time]]])]
        texts = [places[name] for name in self.names]
        layout = Layout(self.text.delimiter, self.skip, len(self.header), groups, texts, self.text.decimal)
        found = plain_table(self.path, layout)
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
        if self.time is None:
            return self._rows(numeric, None, codes)
        return self._rows(np.ascontiguousarray(numeric[:, 1:]), numeric[:, 0], codes)

    def _rows(
        self, values: NDArray[np.float64], times: NDArray[np.float64] | None, codes: dict[str, NDArray[np.intp]]
    ) -> Rows:
        found: list[Any] = []
        for name in (self.columns.id, self.columns.label):
            found += [None, []] if name is None else [codes[name], list(self.names[name])]
        if self.columns.seconds:
            name = str(self.columns.time)
            times = self._seconds(name, list(self.names[name]), codes[name])
        return Rows(values, times, *found)

    def _seconds(self, name: str, texts: list[str], codes: NDArray[np.intp]) -> NDArray[np.float64]:
        try:
            return seconds_of(["" if text.lower() in MISSING else text for text in texts])[codes]
        except ValueError as error:
            wrong = int(error.args[0])
            where = f"{self.path}, {self.place(int(np.argmax(codes == wrong)))}, column {name!r}"
            hint = "write all of them as 2024-05-01T12:00:00, with an offset such as +02:00 or Z, or without"
            raise ReadError(f"{where} is {quoted(texts[wrong])}, no date as the others: {hint}") from None

    def place(self, row: int) -> str:
        """Say in which line a row ends: the file is read again, since cells may hold line ends."""
        with parsed(self.path, self.text.delimiter) as lines:
            next(islice(filter(None, lines), int(row) + (self.skip > 0), None), None)
            return f"line {lines.line_num}"
