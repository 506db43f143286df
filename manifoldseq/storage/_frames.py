"""Sequences from data frames of pandas, polars or pyarrow, which narwhals reads."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, time
from decimal import Decimal
from importlib import import_module
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._extras import needing
from .._quoted import quoted
from ._data import SequenceData
from ._limits import ReadError
from ._xarray import from_xarray, is_xarray
from .readers._clock import AUTO, says_time, seconds
from .readers._long_table import Asked, Columns, Rows, are_times, assemble, choose_columns


def from_frame(
    frame: Any,
    *,
    id: str | None = None,
    time: str | None = AUTO,
    label: str | None = None,
    columns: Sequence[str] | None = None,
) -> SequenceData:
    """Take over sequences from data frames, as the readers of files do from tables.

    Parameters
    ----------
    frame : data frame, list or mapping of data frames, or xarray object
        A table in memory, of pandas, polars, pyarrow or another library that narwhals knows, in the long format: one
        row per time step. In a list each frame is one sequence; in a mapping too, and the keys are the ids. An xarray
        ``DataArray`` has a dimension of time and up to two more, of sequences (``id``, ``trial``, …) and of channels
        (``channel``, ``feature``, …); the variables of a ``Dataset`` are channels.
    id : str, optional
        The column that says to which sequence a row belongs, or the dimension of the sequences; by default ``id``, or
        the first level of an index (id, time). Without it all rows are one sequence.
    time : str or None
        The column by which the rows of a sequence are sorted, numbers or dates and times; None: they are in order, and
        no column is the time. By default ``"auto"``: as in `read_csv`, and also an index that holds dates or has the
        name and values of a time, or the one column of dates with such a name. Only where rows have an id must one be
        there. Of xarray, the name of the dimension, by default ``time``, whose coordinate is the time.
    label : str, optional
        The column of the label, the same in all rows of a sequence; by default ``label`` if there is one.
    columns : sequence of str, optional
        The columns of the channels; by default all others that are not clocks, which must hold numbers. Then only the
        column ``time``, an index or a column of dates is taken as time.

    Returns
    -------
    SequenceData
        float64 sequences of shape (T_i, d) in order of their first rows, NaN where values are missing (None, null, NA);
        truth values are 0 and 1. Ids are strings; labels as stored, numbers or strings, categories as their text. With
        the channels' names, the clocks, and the sampling rate where a clock has a nearly constant step: time steps per
        second if the time holds dates or its name gives a unit (``"time [ms]"``, ``"t_s"``), else per unit.

    Raises
    ------
    ValueError
        If a frame is empty or lazy, a column is missing or has the name of another, a channel holds no numbers, an id
        or time is missing, a time occurs twice, labels differ within a sequence, or dimensions are ambiguous.
    TypeError
        If it is not a data frame.
    ImportError
        If narwhals, by which frames are read, is not installed; xarray does not need it.

    See Also
    --------
    read_csv, read_parquet : The same from files.

    Examples
    --------
    .. code-block:: python

        frame = pandas.DataFrame({"id": ["a", "a", "b"], "time": [0.0, 0.1, 0.0], "x": [1.0, 2.0, 3.0]})
        data = ms.storage.from_frame(frame)
        data.ids, data.clocks, data.channel_names   # ('a', 'b'), ('time',), ('x',)
    """
    if isinstance(columns, str):
        raise ReadError(f"columns is {quoted(columns)}: pass a list of names")
    id, time, label = (None if name is None else str(name) for name in (id, time, label))
    if is_xarray(frame):
        return replace(from_xarray(frame, id=id, time=time, label=label, columns=columns), name="")
    if isinstance(frame, Mapping):
        named = [(f"frame {str(name)[:40]!r}", item) for name, item in frame.items()]
        data = _from_tables([_table(item, where) for where, item in named], id, time, label, columns, list(frame))
    elif isinstance(frame, list | tuple):
        tables = [_table(item, f"frame {i}") for i, item in enumerate(frame)]
        data = _from_tables(tables, id, time, label, columns, range(len(tables)))
    else:
        data = _from_tables([_table(frame, "the frame")], id, time, label, columns, None)
    return replace(data, name="")


@dataclass(frozen=True)
class _Table:
    """A frame: its columns and the levels of its index by name, as series of narwhals; which levels are id and time."""

    where: str
    rows: int
    columns: dict[str, Any]
    levels: dict[str, Any] = field(default_factory=dict)
    id: str | None = None
    time: str | None = None

    def column(self, name: str) -> Any:
        if name in self.columns:
            return self.columns[name]
        if name in self.levels:
            return self.levels[name]
        raise ReadError(
            f"{self.where} has no column {quoted(name)}, unlike the first: give all frames the same columns"
        )

    def is_stamp(self, name: str) -> bool:
        return _holds_stamps(self.column(name))

    def numbers(self, name: str) -> NDArray[np.float64]:
        """Return a channel, NaN where values are missing."""
        array = _array(self.column(name))
        if array is not None and array.dtype.kind == "f":
            return array
        remedy = "choose the channels with columns=[…], or convert it"
        if array is not None:
            found = f"{self.where}, column {name!r} holds dates or times, no numbers"
            raise ReadError(f"{found}: name it with time={quoted(name)} if it is the time, or {remedy}")
        raise self._no_number(name, remedy)

    def times(self, name: str) -> tuple[NDArray[np.float64], bool]:
        """Return the time, and whether it held dates or times, which become seconds."""
        array = _array(self.column(name))
        if array is None:
            raise self._no_number(name, "convert the time to numbers or dates, or name another column with time=…")
        return (array, False) if array.dtype.kind == "f" else (seconds(array), True)

    def _no_number(self, name: str, remedy: str) -> ReadError:
        column = self.column(name)
        cells = zip(column.to_list(), column.is_null().to_list(), strict=True)
        wrong = next(((i, v) for i, (v, missing) in enumerate(cells) if not missing and not _is_number(v)), None)
        if wrong is None:
            return ReadError(f"{self.where}, column {name!r} holds {column.dtype}, no numbers: {remedy}")
        row, value = wrong
        return ReadError(f"{self.where}, row {row}, column {name!r} is {str(value)[:40]!r}, no number: {remedy}")


def _table(frame: Any, where: str) -> _Table:
    with needing("data frames need", "frames"):
        nw = import_module("narwhals.stable.v1")
    try:
        eager = nw.from_native(frame)
        if isinstance(eager, nw.LazyFrame):
            raise ReadError(f"{where} is lazy: collect it first, frame.collect()")
        eager = nw.from_native(frame, eager_only=True)
    except TypeError:
        kind = type(frame).__name__
        raise TypeError(
            f"{where} is of the type {kind}: pass a data frame (of pandas, polars, pyarrow), a list of them, or an "
            "xarray object; arrays go into SequenceData"
        ) from None
    except ValueError as error:
        if isinstance(error, ReadError) or "unique column names" not in str(error):
            raise
        twice = str(error).partition("'")[2].partition("'")[0]
        raise ReadError(f"{where} has two columns named {quoted(twice)}: rename one") from None
    names = [str(name) for name in eager.columns]
    if any(isinstance(name, tuple) for name in eager.columns):
        raise ReadError(f"{where} has columns of several levels: give each column one name")
    if len(set(names)) < len(names):  # for narwhals 1 and "1" are two
        twice = next(name for i, name in enumerate(names) if name in names[:i])
        raise ReadError(f"{where} has two columns named {quoted(twice)}: rename one")
    columns = dict(zip(names, eager.to_dict(as_series=True).values(), strict=True))
    index = nw.maybe_get_index(eager)
    if len(eager) == 0:
        raise ReadError(f"{where} has no rows: pass one row per time step")
    table = _Table(where, len(eager), columns)
    if index is None:
        return table
    levels = [index.get_level_values(i).to_series() for i in range(index.nlevels)]
    return _with_index(table, list(index.names), [nw.from_native(level, series_only=True) for level in levels])


def _with_index(table: _Table, names: list[Any], levels: list[Any]) -> _Table:
    """Add the index of a pandas frame: (id, time), or one that may be a time by its values or name; by name the others.

    A column of the same name comes first.
    """
    tells = [
        _holds_stamps(level) or (name is not None and says_time(str(name)) and _array(level) is not None)
        for name, level in zip(names, levels, strict=True)
    ]
    if len(names) > 2:
        raise ReadError(
            f"{table.where} has an index of {len(names)} levels: call reset_index(), and name one column with id=…"
        )
    if len(names) == 2:
        place = 0 if tells == [True, False] else 1
        id_name = "id" if names[1 - place] is None else str(names[1 - place])
        time_name = "time" if names[place] is None else str(names[place])
        return replace(table, levels={id_name: levels[1 - place], time_name: levels[place]}, id=id_name, time=time_name)
    if tells[0] or (names[0] is None and levels[0].dtype.is_float()):  # whether it is a clock is asked later
        time_name = "time" if names[0] is None else str(names[0])
        return replace(table, levels={time_name: levels[0]}, time=time_name)
    return table if names[0] is None else replace(table, levels={str(names[0]): levels[0]})


def _from_tables(
    tables: Sequence[_Table],
    id: str | None,
    time: str | None,
    label: str | None,
    columns: Sequence[str] | None,
    names: Sequence[Any] | None,
) -> SequenceData:
    """Return sequences of one long table, or, where names are given, of one table each."""
    if not tables:
        raise ReadError("there are no frames: pass at least one")
    path = "the frame" if names is None else "the frames"
    chosen = _choose(path, tables[0], id, time, label, columns, each=names is not None)
    for table in tables[1:]:
        if columns is None and (unlike := set(table.columns) ^ set(tables[0].columns)):
            shown = ", ".join(map(repr, sorted(unlike)))[:200]
            raise ReadError(f"{table.where} and {tables[0].where} differ in {shown}: give all frames the same columns")
    values = [np.column_stack([table.numbers(name) for name in chosen.channels]) for table in tables]
    times = None
    if chosen.time is not None:
        of_tables = [table.times(chosen.time) for table in tables]
        if len({stamps for _, stamps in of_tables}) > 1:
            raise ReadError(f"{path} hold dates and numbers as {chosen.time}: convert either")
        times, chosen = np.concatenate([t for t, _ in of_tables]), replace(chosen, seconds=of_tables[0][1])
    labels, label_names = _codes(tables, chosen.label)
    if np.array(label_names).dtype.kind not in "biufU":
        raise ReadError(
            f"{path}, column {quoted(chosen.label)} holds {quoted(label_names[0])}: pass numbers or text as labels"
        )
    ids, id_names = _codes(tables, chosen.id)
    if names is not None:
        ids, id_names = _one_each(tables, chosen.id, ids, id_names, names)
        chosen = replace(chosen, id=chosen.id or "frame")
    if times is not None and not chosen.certain and chosen.time not in tables[0].columns:
        # the name of an index does not suffice: it counts rows, or says whence they came
        if not are_times(times, ids):
            times, chosen = None, replace(chosen, time=None, certain=chosen.id is None or names is not None)
    rows = Rows(np.concatenate(values), times, ids, id_names, labels, label_names)
    ends = np.cumsum([table.rows for table in tables])

    def place(row: int) -> str:
        k = int(np.searchsorted(ends, row, side="right"))
        inside = row - int(ends[k]) + tables[k].rows
        return f"row {inside}" if names is None else f"row {inside} of {tables[k].where}"

    return assemble(path, chosen, rows, place)


def _choose(
    path: str,
    table: _Table,
    id: str | None,
    time: str | None,
    label: str | None,
    columns: Sequence[str] | None,
    *,
    each: bool,
) -> Columns:
    """Find the columns in use, those of the index included; without ids no time has to be among them."""
    names = [*table.columns, *(name for name in table.levels if name not in table.columns)]
    channels = None if columns is None else [str(name) for name in columns]
    if time is not None and time not in names and time.lower() == "none":
        time = None
    given = [("id", id), ("time", None if time == AUTO else time), ("label", label)]
    for option, name in [*given, *(("columns", name) for name in channels or ())]:
        if name is not None and name not in names:
            shown = ", ".join(names[:10])[:200]
            raise ReadError(f"{table.where} has no column {quoted(name)} but {shown}: name it with {option}=…")
    if id is None and not each:
        id = "id" if "id" in names else table.id
    elif id is None and "id" in names:
        id = "id"
    label = "label" if label is None and "label" in names else label
    found = _automatic_time(table, {id, label, *(channels or ())}) if time == AUTO else None
    indexed = found is not None and found not in table.columns
    certain = found is not None and (table.is_stamp(found) or (indexed and table.id is not None))
    # only the levels of the index that are in use stand among the columns
    used = (id, label, found if time == AUTO else time, *(channels or ()))
    header = [*(name for name in names if name in used and name not in table.columns), *table.columns]
    ordered = time == AUTO and found is None and (id is None or each)
    if time == AUTO and (certain or indexed or (ordered and channels is not None)):
        time = found
    chosen = choose_columns(path, header, Asked(id, time, channels, label))
    if certain or indexed:
        return replace(chosen, certain=certain, clocks=channels is None)
    return replace(chosen, certain=True) if ordered else chosen


def _automatic_time(table: _Table, taken: set[str | None]) -> str | None:
    """Return the column ``time``, else the time of the index, else the one column of dates that is called a time."""
    if "time" in table.columns:
        return "time"
    if table.time is not None and table.time not in table.columns and table.time not in taken:
        return table.time
    named = [name for name in table.columns if name not in taken and says_time(name)]
    stamps = [name for name in named if table.is_stamp(name)]
    return stamps[0] if len(stamps) == 1 else None


def _codes(tables: Iterable[_Table], name: str | None) -> tuple[NDArray[np.intp] | None, list[Any]]:
    """Number the values of a column, through all tables, from 0 in order of appearance."""
    if name is None:
        return None, []
    numbers: dict[Any, int] = {}
    codes: list[int] = []
    for table in tables:
        column = table.column(name)
        values = [value.strip() if isinstance(value, str) else value for value in column.to_list()]  # as in text
        if column.is_null().any() or any(isinstance(value, float) and value != value for value in values):
            raise ReadError(f"{table.where}, column {quoted(name)} has empty cells: fill them or remove the rows")
        try:
            codes += [numbers.setdefault(value, len(numbers)) for value in values]
        except TypeError:
            raise ReadError(
                f"{table.where}, column {quoted(name)} holds {quoted(values[0])}, not one value per row"
            ) from None
    return np.array(codes, np.intp), list(numbers)


def _one_each(
    tables: Sequence[_Table], id: str | None, ids: NDArray[np.intp] | None, id_names: list[Any], names: Sequence[Any]
) -> tuple[NDArray[np.intp], list[Any]]:
    """Return the numbers of the tables as codes of ids; a list has the ids in the column id if there is one."""
    numbers = np.repeat(np.arange(len(tables)), [table.rows for table in tables])
    if ids is None:
        return numbers, list(names)
    starts = np.flatnonzero(np.diff(numbers, prepend=-1))
    if len(unlike := np.flatnonzero(ids != ids[starts][numbers])):
        where = tables[int(numbers[unlike[0]])].where
        raise ReadError(
            f"{where} has several values in {quoted(id)}, but is one sequence: pass one frame, not a list of them"
        )
    return numbers, [id_names[i] for i in ids[starts].tolist()] if isinstance(names, range) else list(names)


def _array(column: Any) -> NDArray[Any] | None:
    """Return float64, datetime64 or timedelta64; None for a column that holds something else."""
    if str(column.dtype).startswith(("Categorical", "Enum")):
        return None
    array = np.asarray(column.to_numpy())
    if array.dtype.kind in "biuf":
        return array.astype(np.float64)
    if array.dtype.kind in "Mm":
        return array
    if array.dtype.kind != "O":
        return None
    missing = np.array(column.is_null().to_list(), dtype=bool)
    return _of_objects([None if gone else value for value, gone in zip(column.to_list(), missing, strict=True)])


def _of_objects(values: list[Any]) -> NDArray[Any] | None:
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


def _holds_stamps(column: Any) -> bool:
    array = _array(column)
    return array is not None and array.dtype.kind in "Mm"
