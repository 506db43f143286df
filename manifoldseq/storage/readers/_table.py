"""A table in memory as a frame of pandas, from text, Parquet and other frames; and its rows."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, time
from decimal import Decimal
from importlib import import_module
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..._quoted import quoted
from .._data import SequenceData
from .._limits import ReadError
from ._clock import says_time, seconds
from ._columns import Asked, Columns, Index, choose_columns
from ._long_table import Rows, are_times, assemble
from ._text import TextTable, as_written

_MANY = 100
"""Number of columns that are copied together, for speed."""


@dataclass(frozen=True)
class Table:
    """A frame of pandas with strings as column names, and its description for messages.

    `place` describes the position of a row in the file. The `levels` of an index are columns if they are requested. In
    a table of `text`, numbers may have forms that pandas does not read.
    """

    where: str
    frame: Any
    place: Callable[[int], str] = "row {}".format
    index: Index = Index()
    levels: dict[str, Any] = field(default_factory=dict)
    text: TextTable | None = None
    option: str = "channels"

    def column(self, name: str) -> Any:
        """Return a column or a level of the index."""
        if name in self.frame.columns:
            return self.frame[name]
        if name in self.levels:
            return self.levels[name]
        raise ReadError(
            f"{self.where} has no column {quoted(name)}, unlike the first frame: use the same columns in all frames"
        )

    @property
    def header(self) -> list[str]:
        """The names of the columns."""
        return [str(name) for name in self.frame.columns]

    def stamps(self, named: str | None = None) -> list[str]:
        """Return the columns, and levels of the index, that hold dates or times; The column `named` is the time."""
        found = [name for name, kind in zip(self.header, self.frame.dtypes, strict=True) if _may_hold_stamps(kind)]
        if named is not None and named in self.frame.columns and named not in found and self.text is not None:
            found.append(named)
        return [name for name in (*found, *self.levels) if self._holds_stamps(self.column(name))]

    def _holds_stamps(self, column: Any) -> bool:
        if column.dtype.kind in "Mm":
            return True
        if self.text is not None:
            return self.text.holds_dates(column)
        array = array_of(column)
        return array is not None and array.dtype.kind in "Mm"

    def rows(self, columns: Columns) -> Rows:
        """Return the rows of the columns in use."""
        times = None if columns.time is None else self._times(columns.time, stamps=columns.seconds)
        ids, labels = self._codes(columns.id), self._codes(columns.label)
        if np.array(labels[1]).dtype.kind not in "biufU":
            found = f"column {quoted(columns.label)} holds {quoted(labels[1][0])}"
            raise ReadError(f"{self.where}, {found}: pass numbers or text as labels")
        return Rows(self._values(columns), times, *ids, *labels)

    def _values(self, columns: Columns) -> NDArray[Any]:
        """Return the channels, float32 if all are, NaN where values are missing."""
        names = list(columns.channels)
        known = [name for name in names if name in self.frame.columns]
        kinds = self.frame.dtypes[known] if len(known) < self.frame.shape[1] else self.frame.dtypes
        plain = len(known) == len(names) and all(isinstance(kind, np.dtype) and kind.kind in "biuf" for kind in kinds)
        dtype = np.float32 if plain and all(kind == np.float32 for kind in kinds) else np.float64
        if plain and len(names) > _MANY:
            frame = self.frame if len(names) == self.frame.shape[1] else self.frame[names]
            return np.require(frame.to_numpy(dtype), dtype, ("C", "W"))
        values = np.empty((len(self.frame), len(names)), dtype)
        for j, name in enumerate(names):
            values[:, j] = self.frame[name] if plain else self._numbers(name)
        return values

    def _numbers(self, name: str) -> NDArray[Any]:
        column = self.column(name)
        array = self._array(column)
        if array is not None and array.dtype.kind == "f":
            return array
        remedy = f"choose the channels with {self.option}=[…], or convert it"
        if array is not None:
            found = f"{self.where}, column {name!r} contains dates or times and no numbers"
            raise ReadError(f"{found}: name it with time={quoted(name)} if it is the time, or {remedy}")
        if self.text is not None:
            remedy = "write a number, leave the cell empty if it is missing, or leave the column out with channels=…"
            if self.text.holds_dates(column):
                remedy = f"pass time={name} (--read time={name}) if it is the time, or choose others with channels=…"
        raise self._no_number(name, remedy)

    def _times(self, name: str, *, stamps: bool) -> NDArray[np.float64]:
        """Return the time; dates or times become seconds."""
        column = self.column(name)
        if stamps and self.text is not None and column.dtype.kind not in "Mm":
            try:
                column = self.text.dates(column)
            except ValueError as error:
                row = int(error.args[0])
                where = f"{self.where}, {self.place(row)}, column {name!r}"
                hint = "write all dates as 2024-05-01T12:00:00, all with an offset such as +02:00 or Z, or all without"
                raise ReadError(
                    f"{where} is {quoted(str(column[row]))}, which is not a date in the format of the other cells: "
                    f"{hint}"
                ) from None
        array = self._array(column)
        if array is None:
            remedy = "convert the time to numbers or dates, or name another column with time=…"
            raise self._no_number(name, remedy if self.text is None else "write a number")
        return array.astype(np.float64, copy=False) if array.dtype.kind == "f" else seconds(array)

    def _array(self, column: Any) -> NDArray[Any] | None:
        array = array_of(column)
        if array is None and self.text is not None:
            try:
                return self.text.numbers(column)
            except ValueError:
                return None
        return array

    def _no_number(self, name: str, remedy: str) -> ReadError:
        column = self.column(name)
        cells = zip(column.tolist(), column.isna().tolist(), strict=True)
        wrong = next(((i, v) for i, (v, missing) in enumerate(cells) if not missing and not self._is_number(v)), None)
        if wrong is None:
            return ReadError(f"{self.where}, column {name!r} contains {column.dtype} and no numbers: {remedy}")
        row, value = wrong
        hint = "" if self.text is None else f" in decimal digits{self.text.otherwise(str(value))}"
        where = f"{self.where}, {self.place(row)}, column {name!r}"
        return ReadError(f"{where} is {str(value)[:40]!r}, which is not a number{hint}: {remedy}")

    def _is_number(self, value: Any) -> bool:
        if self.text is None or not isinstance(value, str):
            return _is_number(value)
        try:
            return self.text.number(value) is not None
        except ValueError:
            return False

    def _codes(self, name: str | None) -> tuple[NDArray[np.intp] | None, list[Any]]:
        """Number the values of a column from 0 in order of appearance; blanks around texts do not count."""
        if name is None:
            return None, []
        import pandas

        column = self.column(name)
        runs = _runs(column)
        try:
            codes, values = pandas.factorize(column if runs is None else column.iloc[runs])
        except TypeError:
            found = f"column {quoted(name)} holds {quoted(column.iloc[0])}"
            raise ReadError(f"{self.where}, {found}, not one value per row: write text or a number") from None
        numbers: dict[Any, int] = {}
        read = str.strip if self.text is None else lambda cell: as_written(cell.strip())
        stripped = [read(value) if isinstance(value, str) else value for value in values.tolist()]
        renumbered = np.array([numbers.setdefault(value, len(numbers)) for value in stripped], np.intp)
        empty = codes == -1 if "" not in numbers else (codes == -1) | (renumbered == numbers[""])[codes]
        if empty.any():
            first = int(np.argmax(empty))
            where = f"{self.where}, {self.place(first if runs is None else int(runs[first]))}"
            raise ReadError(f"{where}: column {quoted(name)} has empty cells: fill them or remove the rows")
        codes = renumbered[codes] if len(renumbered) else codes.astype(np.intp)
        return codes if runs is None else np.repeat(codes, np.diff(runs, append=len(column))), list(numbers)


def _runs(column: Any) -> NDArray[np.intp] | None:
    """Return where texts differ from those above: 1.2 times as fast from end to end (python -m benchmarks.tables)."""
    if getattr(column.dtype, "storage", "") != "pyarrow" or len(column) == 0:
        return None
    compute = import_module("pyarrow.compute")
    cells = column.array.__arrow_array__()
    cells = cells.combine_chunks() if hasattr(cells, "combine_chunks") else cells
    ends = compute.run_end_encode(cells).run_ends.to_numpy()
    return np.append(0, ends[:-1]).astype(np.intp)


def of_table(table: Table, asked: Asked, *, named: bool = True) -> SequenceData:
    """Return the sequences of a table in the long format, of a file or in memory."""
    stamps = table.stamps(None if asked.time is None else str(asked.time))
    columns = choose_columns(table.where, table.header, asked, stamps=stamps, index=table.index, named=named)
    columns, rows = without_row_names(columns, table.rows(columns), table.header)
    return assemble(table.where, columns, rows, table.place)


def without_row_names(columns: Columns, rows: Rows, header: Sequence[str]) -> tuple[Columns, Rows]:
    """Leave out an index that counts rows or names their origin; its name does not make it a time."""
    if rows.times is None or columns.certain or columns.time in header or are_times(rows.times, rows.ids):
        return columns, rows
    return replace(columns, time=None, certain=rows.ids is None), replace(rows, times=None)


def with_index(table: Table, names: Sequence[Any], levels: Sequence[Any]) -> Table:
    """Add the index of a pandas frame: (id, time), or one that may be a time by its values or name; by name the others.

    A column of the same name comes first.
    """
    stamps = [(array := array_of(level)) is not None and array.dtype.kind in "Mm" for level in levels]
    tells = [
        stamp or (name is not None and says_time(str(name)) and array_of(level) is not None)
        for stamp, name, level in zip(stamps, names, levels, strict=True)
    ]
    if len(names) > 2:
        raise ReadError(
            f"{table.where} has an index of {len(names)} levels: call reset_index(), and name one column with id=…"
        )
    if len(names) == 2:
        place = 0 if tells == [True, False] else 1
        known = {1 - place: "id", place: "time"}
    elif tells[0] or (names[0] is None and levels[0].dtype.kind == "f"):  # whether it is a clock is asked later
        known = {0: "time"}
    else:
        known = {}
    called = {i: role if names[i] is None else str(names[i]) for i, role in known.items()}
    called |= {i: str(name) for i, name in enumerate(names) if name is not None and i not in called}
    found = {name: levels[i] for i, name in called.items() if name not in table.frame.columns}
    roles = {role: called[i] for i, role in known.items() if called[i] in found}
    return replace(table, levels=found, index=Index(tuple(found), roles.get("id"), roles.get("time")))


def array_of(column: Any) -> NDArray[Any] | None:
    """Return a column as floats, datetime64 or timedelta64; None for one that holds something else."""
    kind = column.dtype
    if isinstance(kind, np.dtype) and kind.kind in "fMm":
        return column.to_numpy()
    if kind == "category" or kind.kind in "SU":
        return None
    if getattr(kind, "tz", None) is not None:
        return column.dt.tz_convert(None).to_numpy()
    if kind.kind in "biuf":
        return column.to_numpy(np.float64, na_value=np.nan)
    if kind.kind != "O":
        return None
    return _of_objects([None if gone else value for value, gone in zip(column, column.isna(), strict=True)])


def _may_hold_stamps(kind: Any) -> bool:
    return kind.kind not in "biufc" and kind != "category"


def _of_objects(values: Sequence[Any]) -> NDArray[Any] | None:
    present = [value for value in values if value is not None]
    if all(map(_is_number, present)):
        try:
            return np.array([np.nan if value is None else float(value) for value in values])
        except OverflowError:  # a whole number beyond the range of float64
            return None
    if all(isinstance(value, date) and getattr(value, "tzinfo", None) is None for value in present):
        return np.array(values, dtype="datetime64[us]")
    if all(isinstance(value, time) for value in present):
        return np.array([np.timedelta64("NaT") if v is None else _since_midnight(v) for v in values], "timedelta64[us]")
    return None


def _is_number(value: Any) -> bool:
    return isinstance(value, Real | Decimal | np.bool_)


def _since_midnight(value: time) -> np.timedelta64:
    whole = 3600 * value.hour + 60 * value.minute + value.second
    return np.timedelta64(1_000_000 * whole + value.microsecond, "us")
