"""Tables of text, parsed by pandas; options of the format, and positions of rows for error messages."""

import codecs
import io
import os
import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import numpy as np
from numpy.typing import NDArray

from ..._quoted import quoted
from .._limits import FilePath, ReadError, bounded_lines, extra, opened, require_memory
from ._ascii_numbers import decimal, decimals

_KIND = "a table of text"
_MISSING = ("", "?", "na", "n/a", "null", "none", "nan")
"""Cells of missing values, in upper or lower case and with optional surrounding blanks."""
_MARKS = sorted({form(word) for word in _MISSING for form in (str.lower, str.upper, str.capitalize)} | {"NaN"})
_FORMULAS = ("=", "+", "-", "@", "\t", "\r", "\n", "'")
_DATE, _OFFSET = r"[0-9]{4}-[0-9]{2}-[0-9]{2}", r"(?:Z|[+-][0-9]{2}(?::?[0-9]{2})?)"
_TIME = r"[0-9]{2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]+)?"
_FORMS = {
    "date": rf"{_DATE}(?:[T ](?:[0-9]{{2}}:[0-9]{{2}}|{_TIME}))?",
    "date with offset": rf"{_DATE}[T ](?:[0-9]{{2}}:[0-9]{{2}}|{_TIME})[ ]?{_OFFSET}",
    "time of day": _TIME,
}
"""Dates and times of ISO 8601; a column must use one form."""


@dataclass(frozen=True)
class Text:
    """The format of a table of text; None means automatic detection or absence (see `read_csv`)."""

    delimiter: str | None = None
    decimal: str = "."
    thousands: str | None = None
    encoding: str | None = None
    comment: str | None = None
    date_format: str | None = None

    def check(self, path: FilePath) -> None:
        """Raise an error if pandas does not support an option."""
        if self.decimal not in (".", ","):
            raise ReadError(f"{path}: decimal is {quoted(self.decimal)}: pass a point or a comma")
        for option in ("delimiter", "thousands", "comment"):
            value = getattr(self, option)
            spelt = option == "delimiter" and value in ("tab", "\\t", "blank")
            if not (value is None or len(value) == 1 or spelt):
                raise ReadError(f"{path}: {option} is {quoted(value)}: pass one character")
        if self.thousands == self.decimal:
            raise ReadError(f"{path}: thousands and decimal are both {quoted(self.decimal)}: pass two characters")
        try:
            codecs.lookup(self.encoding or "utf-8")
        except LookupError:
            raise ReadError(f"{path}: encoding is {quoted(self.encoding)}: pass one such as utf-16") from None


class Record(NamedTuple):
    """A row of a table in the file: the numbers of its lines, from 1, and its cells."""

    first: int
    last: int
    text: str


class TextTable:
    """A table of text on disk."""

    def __init__(self, path: FilePath, text: Text) -> None:
        text.check(path)
        self.path, self.text = path, text
        self.encoding = text.encoding or _encoding(path)
        self.delimiter, self.comments, self.title = "", 0, ""
        self.delimiter = _spelt(text, path) or self._guessed()
        self._pass_comments()

    @contextmanager
    def _opened(self) -> Iterator[TextIO]:
        """Open the text; an error names the line that has another encoding."""
        with opened(self.path, _KIND) as file:
            if self.encoding == "utf-8" and file.read(3) != codecs.BOM_UTF8:  # 1.1 times as fast as utf-8-sig
                file.seek(0)
            try:
                with io.TextIOWrapper(file, encoding=self.encoding, newline="") as stream:
                    yield stream
            except UnicodeError:
                name = "UTF-8" if self.encoding == "utf-8" else self.encoding
                raise ReadError(
                    f"{self.path}, line {self._undecodable()}: the text is not {name}: save the file as UTF-8, or name "
                    "its encoding, such as encoding=latin-1 (--read encoding=latin-1)"
                ) from None

    def _undecodable(self) -> int:
        """Return the first line, from 1, that is in another encoding, or cut off in it."""
        decoder = codecs.getincrementaldecoder(self.encoding)()
        number = 0
        with opened(self.path, _KIND) as file:
            for number, line in enumerate(file, 1):
                try:
                    decoder.decode(line)
                except UnicodeError:
                    return number
        return number

    def records(self) -> Iterator[Record]:
        """Yield the rows, without comments, and lines without a cell; a cell in quotes may have several lines."""
        blanks = " \t\r\n".replace(self.delimiter or " ", "") + "\r\n"
        parts: list[str] = []
        first, open_quote = 1, False
        with self._opened() as stream:
            for number, line in enumerate(bounded_lines(self.path, stream), 1):
                if number <= self.comments:
                    continue
                if not parts:
                    if not line.strip(blanks) or (self.text.comment and line.startswith(self.text.comment)):
                        continue
                    first = number
                parts.append(line)
                open_quote ^= line.count('"') % 2 == 1
                if not open_quote:
                    yield Record(first, number, "".join(parts))
                    parts.clear()
            if parts:
                yield Record(first, first + len(parts) - 1, "".join(parts))

    def cells(self, text: str) -> list[str]:
        """Return the cells of a row; each is a row to pandas, which is as fast for many as for few."""
        text = text.rstrip("\r\n")
        if self.delimiter == " ":
            text = re.sub(r"\s+", " ", text.strip())
        if '"' not in text and "\0" not in text:
            return [cell.strip() for cell in text.split(self.delimiter)]
        pandas = _pandas(self.path)
        try:
            table = pandas.read_csv(
                io.StringIO(text), sep="\0", lineterminator=self.delimiter, header=None, dtype=str, na_filter=False,
                skip_blank_lines=False,
            )  # fmt: skip
        except pandas.errors.ParserError:
            raise self._open_quote(f"the row {text[:40]!r}") from None
        return table[0].str.strip().tolist()

    def _open_quote(self, row: str) -> ReadError:
        return ReadError(f"{self.path} has a quote that is opened in {row} and not closed: close or remove the quote")

    def parse(self, skip: int, width: int, texts: Collection[int]) -> Any:
        """Return the rows below a number of lines as a frame with numbered columns; the columns `texts` stay text."""
        pandas = _pandas(self.path)
        # a cell takes two characters or more, and 8 bytes twice; a text its characters, and an object
        require_memory(self.path, (10 + 48 * len(texts) // width) * os.stat(self.path).st_size)
        options: dict[str, Any] = {
            "sep": r"\s+" if self.delimiter == " " else self.delimiter,
            "header": None,
            "names": range(width),
            "index_col": False,
            "decimal": self.text.decimal,
            "thousands": self.text.thousands,
            "comment": self.text.comment,
            "keep_default_na": False,
        }
        if tuple(map(int, pandas.__version__.split(".")[:2])) < (3, 1):  # later ones always round correctly
            options["float_precision"] = "round_trip"
        # text is read faster where pandas finds out that it is text: 1.3 times from end to end (benchmarks.tables)
        row = self.cells(next((one.text for one in self.records() if one.first > skip), ""))
        numbers = {j: object for j in texts if j < len(row) and self.all_numbers(row[j : j + 1])}
        with self._below(skip) as stream:
            try:
                frame = pandas.read_csv(stream, dtype=numbers or None, na_values=_MARKS, **options)
            except pandas.errors.EmptyDataError:
                return pandas.DataFrame(columns=range(width))
            except pandas.errors.ParserError as error:
                if "Expected" in str(error):
                    self._check_widths(skip, width, None)
                if row := re.search("EOF inside string starting at row ([0-9]+)", str(error)):
                    raise self._open_quote(f"row {row[1]}") from None
                raise
        if frame[width - 1].isna().any():  # a row that is too short ends with missing cells, as a complete one may
            self._check_widths(skip, width, frame[width - 1].isna().to_numpy())
        kind = pandas.api.types.infer_dtype
        if lost := [j for j in texts if kind(frame[j], skipna=False) != "string"]:  # an id may be NA, or 007
            with self._below(skip) as stream:
                again = pandas.read_csv(stream, dtype=str, usecols=lost, na_filter=False, **options)
            frame[lost] = again[lost]
        return frame

    @contextmanager
    def _below(self, skip: int) -> Iterator[Any]:
        """Open the text below so many lines; as bytes, which pandas decodes in less time, where they are UTF-8."""
        with self._opened() as stream:
            raw: Any = stream.buffer
            start = raw.tell()
            above = "".join(stream.readline() for _ in range(skip))
            if self.encoding == "utf-8":
                raw.seek(start + len(above.encode()))
            yield raw if self.encoding == "utf-8" else stream

    def _check_widths(self, skip: int, width: int, rows: NDArray[np.bool_] | None) -> None:
        """Raise an error for the first row with another number of cells."""
        for i, record in enumerate(record for record in self.records() if record.first > skip):
            if rows is None or rows[i]:
                plain = re.sub('"[^"]*"', "", record.text)
                found = len(plain.split()) if self.delimiter == " " else plain.count(self.delimiter) + 1
                if found != width and len(cells := self.cells(record.text)) != width:
                    where = f"{self.path}, line {record.last}"
                    raise ReadError(f"{where} has {len(cells)} cells, not {width}: complete or remove it")

    def place(self, skip: int, row: int) -> str:
        """Return the line in which a row ends; the file is read again, because cells may contain line breaks."""
        below = (record for record in self.records() if record.first > skip)
        record = next(islice(below, row, None), None)
        return f"row {row}" if record is None else f"line {record.last}"

    def number(self, cell: str) -> float:
        """Return the number in a cell, NaN for a missing value; raises ValueError for anything else."""
        return float("nan") if cell.strip().lower() in _MISSING else decimal(self._pointed(cell))

    def _pointed(self, cell: str) -> str:
        """Return a number with a decimal point; with decimal commas, a number with a point is invalid."""
        cell = cell.replace(self.text.thousands, "") if self.text.thousands else cell
        return cell if self.text.decimal == "." else cell.replace(".", "_").replace(",", ".")

    def all_numbers(self, cells: Sequence[str]) -> bool:
        """Return whether cells hold numbers, of which some may be missing."""
        try:
            return any(map(str.strip, cells)) and bool([self.number(cell) for cell in cells])
        except ValueError:
            return False

    def numbers(self, column: Any) -> NDArray[np.float64]:
        """Return the numbers of a column of texts, which pandas returns if it cannot read some of the numbers."""
        texts = column.fillna("").astype(str).str.strip()
        values = np.full(len(texts), np.nan)
        there = ~texts.str.lower().isin(_MISSING).to_numpy()
        values[there] = decimals([*map(self._pointed, texts[there])])
        return values

    def is_date(self, cell: str) -> bool:
        """Return whether a cell has the form of a date, with a time of day or not, or of a time of day."""
        if self.text.date_format is None:
            return any(re.fullmatch(form, cell.strip()) for form in _FORMS.values())
        return bool(_pandas(self.path).to_datetime([cell], format=self.text.date_format, errors="coerce").notna()[0])

    def holds_dates(self, column: Any) -> bool:
        """Return whether the first cell that is not missing is a date."""
        if self.text.date_format is None and column.dtype.kind in "biufc":
            return False
        place = column.first_valid_index()
        return place is not None and self.is_date(str(column[place]))

    def dates(self, column: Any) -> Any:
        """Return a column of dates or times of day as pandas has them; raises ValueError with the first other row."""
        pandas = _pandas(self.path)
        texts = column.astype(str).str.strip().where(column.notna(), "")
        there = ~texts.str.lower().isin(_MISSING)
        if self.text.date_format is not None:
            found = pandas.to_datetime(texts.where(there), format=self.text.date_format, errors="coerce", utc=True)
        else:
            first = texts[there].iloc[0]
            name = next((name for name, form in _FORMS.items() if re.fullmatch(form, first)), "date")
            alike = texts.str.fullmatch(_FORMS[name])
            known = texts.where(there & alike).str.replace(",", ".")
            if name == "time of day":
                found = pandas.to_timedelta(known, errors="coerce")
            else:
                # an offset of hours alone, or behind a blank, is written otherwise
                known = known.str.replace(rf"[ ]?({_OFFSET})$", r"\1", regex=True) if "offset" in name else known
                found = pandas.to_datetime(known, format="ISO8601", errors="coerce", utc=True)
        wrong = (found.isna() & there).to_numpy()
        if wrong.any():
            raise ValueError(int(np.argmax(wrong)))
        return found

    def otherwise(self, cell: str) -> str:
        """Return a hint about a number in another form, or nothing for other cells."""
        if self.text.decimal == "." and re.fullmatch(r"[-+]?\d+,\d+([eE][-+]?\d+)?", cell.strip()):
            return ": for a decimal comma pass decimal=, (--read decimal=,), for a thousands separator thousands=,"
        if re.fullmatch(r"\d+[./]\d+[./]\d+([ T].*)?", cell.strip()):
            return ": write a date as 2024-05-01, or pass date_format=%d.%m.%Y (--read date_format=%d.%m.%Y)"
        return ""

    def _guessed(self) -> str:
        """Return the probable separator of the cells of a `.txt`: a tabulator, semicolon or comma, or blanks."""
        lines = (record.text for record in self.records() if not record.text.startswith("#"))
        line = next(lines, "")
        marks = ["\t", ";", *([] if self.text.decimal == "," else [","])]
        return next((mark for mark in marks if mark in line), " ")

    def _pass_comments(self) -> None:
        """Skip lines above the table that begin with ``#``, unless they contain the names (as by numpy.savetxt)."""
        if self.text.comment is not None:
            return
        below = self.records()
        comment, record = None, next(below, None)
        while record is not None and record.text.startswith("#"):
            comment, record = record, next(below, None)
        if comment is None or record is None:
            return
        names, cells = self.cells(comment.text[1:].strip()), self.cells(record.text)
        self.comments = comment.last
        if 1 < len(names) == len(cells) and self.all_numbers(cells) and not self.all_numbers(names):
            self.title = comment.text[1:].strip()


def read_cells(path: FilePath, delimiter: str = ",") -> list[tuple[int, list[str]]]:
    """Return the cells of a small table, such as a table of names and labels, as texts.

    Parameters
    ----------
    path : str or path-like
    delimiter : str
        The delimiter of rows without a comma.

    Returns
    -------
    list of (int, list of str)
        For each row, the number of its last line, from 1, and its cells without surrounding blanks.

    Raises
    ------
    ReadError
        A ValueError, if the file is empty, in another encoding than UTF-8 or UTF-16, or too large for memory.
    FileNotFoundError
        If there is no such file.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "labels.csv"
    ...     _ = path.write_text("walk, up\\n\\nrun,down\\n")
    ...     read_cells(path)
    [(1, ['walk', 'up']), (3, ['run', 'down'])]
    """
    table = TextTable(path, Text(","))
    found = []
    for record in table.records():
        cells = table.cells(record.text)
        table.delimiter = delimiter if len(cells) == 1 else ","
        found.append((record.last, [as_written(cell) for cell in table.cells(record.text)]))
        table.delimiter = ","
        require_memory(path, 256 * (1 + len(found[0][1])) * len(found))
    return found


def for_spreadsheets(cell: str) -> str:
    """Return a text for a table such that a spreadsheet does not interpret it as a formula.

    An apostrophe is inserted before a text that begins with ``=``, ``+``, ``-``, ``@``, a tabulator, a line end or an
    apostrophe. Numbers are not changed.
    """
    if not cell.startswith(_FORMULAS):
        return cell
    try:
        decimal(cell)
        return cell
    except ValueError:
        return f"'{cell}"


def as_written(cell: str) -> str:
    """Return the original text of a cell of `for_spreadsheets`."""
    return cell[1:] if cell.startswith("'") and cell[1:].startswith(_FORMULAS) else cell


def text_columns(path: FilePath, names: Collection[str] | None = None) -> dict[str, list[str]]:
    """Return all or some columns of a table of `csv_text` as texts; nothing if the file does not exist.

    Equal cells are one object.
    """
    if not Path(path).exists():
        return {}
    table = TextTable(path, Text(","))
    header = next(table.records(), None)
    if header is None:
        return {}
    places = {j: name for j, name in enumerate(table.cells(header.text)) if names is None or name in names}
    frame = table.parse(header.last, len(table.cells(header.text)), places)
    once: dict[str, str] = {}
    return {name: [once.setdefault(cell, as_written(cell)) for cell in frame[j]] for j, name in places.items()}


def _encoding(path: FilePath) -> str:
    """Return UTF-8, or UTF-16 if the file begins with its mark."""
    with opened(path, _KIND) as file:
        return "utf-16" if file.read(2) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) else "utf-8"


def _spelt(text: Text, path: FilePath) -> str | None:
    """Return the delimiter of an option or of the suffix of a file; None for a `.txt`."""
    if text.delimiter is not None:
        return {"tab": "\t", "\\t": "\t", "blank": " "}.get(text.delimiter, text.delimiter)
    ending = Path(path).suffix.lower()
    return {".tsv": "\t", ".txt": None}.get(ending, "," if text.decimal == "." else ";")


def _pandas(path: FilePath) -> Any:
    return extra("pandas", path, _KIND)
