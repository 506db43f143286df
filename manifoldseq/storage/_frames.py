"""Sequences from data frames of pandas, polars or pyarrow, which narwhals reads."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._extras import needing
from .._quoted import quoted
from ._data import SequenceData
from ._limits import ReadError
from ._xarray import from_xarray, is_xarray
from .readers._clock import AUTO
from .readers._columns import Asked, choose_columns
from .readers._long_table import Rows, assemble
from .readers._table import Table, of_table, with_index, without_row_names


def from_frame(
    frame: Any,
    *,
    id: str | None = None,
    time: str | None = AUTO,
    label: str | None = None,
    columns: Sequence[str] | None = None,
) -> SequenceData:
    """Convert data frames to sequences, by the rules of the readers of tables.

    Parameters
    ----------
    frame : data frame, list or mapping of data frames, or xarray object
        A table in memory, of pandas, polars, pyarrow or another library that narwhals supports, in the long format: one
        row per time step. In a list or mapping each frame is one sequence; the keys of a mapping are the ids. An xarray
        ``DataArray`` has a dimension of time and up to two more, of sequences (``id``, ``trial``, …) and of channels
        (``channel``, ``feature``, …); the variables of a ``Dataset`` are channels.
    id : str, optional
        The column with the sequence of each row, or the dimension of the sequences; by default ``id``, or the first
        level of an index (id, time). Without an id, all rows are one sequence.
    time : str or None
        The column of numbers or dates by which the rows of a sequence are sorted. None: the rows are in order, and no
        column is the time. The default ``"auto"`` follows the rules of `read_csv`; it also accepts an index that holds
        dates or has the name and values of a time, or the only column of dates with such a name. A time is required
        only if rows have an id. For xarray, the name of the dimension, by default ``time``, whose coordinate is the
        time.
    label : str, optional
        The column of the label, the same in all rows of a sequence; by default ``label`` if there is one.
    columns : sequence of str, optional
        The columns of the channels; by default all other columns that are not a time axis, which must contain numbers.
        If columns are given, only the column ``time``, an index or a column of dates is used as the time.

    Returns
    -------
    SequenceData
        float64 sequences of shape (T_i, d) in order of their first rows. Missing values (None, null, NA) become NaN,
        and booleans 0 and 1. Ids are strings. Labels are numbers or strings as stored, and categories become text. The
        channel names and the clocks are kept, and the sampling rate if a clock has a nearly constant step: time steps
        per second if the time holds dates or its name gives a unit (``"time [ms]"``, ``"t_s"``), otherwise time steps
        per unit.

    Raises
    ------
    ValueError
        If a frame is empty or lazy, a column is missing or two columns have the same name, a channel holds no numbers,
        an id or time is missing, a time occurs twice, labels differ within a sequence, or dimensions are ambiguous.
    TypeError
        If it is not a data frame.
    ImportError
        If narwhals, which reads data frames, is not installed. xarray objects do not need narwhals.

    See Also
    --------
    read_csv, read_parquet : The same for files.

    Examples
    --------
    .. code-block:: python

        frame = pandas.DataFrame({"id": ["a", "a", "b"], "time": [0.0, 0.1, 0.0], "x": [1.0, 2.0, 3.0]})
        data = ms.storage.from_frame(frame)
        data.ids, data.clocks, data.channel_names   # ('a', 'b'), ('time',), ('x',)
    """
    if isinstance(columns, str):
        raise ReadError(f"columns={quoted(columns)} is not valid: pass a list of names")
    id, time, label = (None if name is None else str(name) for name in (id, time, label))
    if is_xarray(frame):
        return replace(from_xarray(frame, id=id, time=time, label=label, columns=columns), name="")
    channels = None if columns is None else [str(name) for name in columns]
    elsewhere = ("label",) if label is None else ()
    asked = Asked(id or AUTO, time, channels, label or "label", elsewhere=elsewhere, option="columns")
    if isinstance(frame, Mapping):
        named = [(f"frame {str(name)[:40]!r}", item) for name, item in frame.items()]
        data = _of_several([_table(item, where) for where, item in named], asked, list(frame), given=True)
    elif isinstance(frame, list | tuple):
        tables = [_table(item, f"frame {i}") for i, item in enumerate(frame)]
        data = _of_several(tables, asked, range(len(tables)))
    else:
        data = of_table(_table(frame, "the frame"), asked)
    return replace(data, name="")


def _of_several(tables: Sequence[Table], asked: Asked, names: Sequence[Any], *, given: bool = False) -> SequenceData:
    """Return one sequence per table; sequences of a list have the ids of their columns, if they exist."""
    if not tables:
        raise ReadError("there are no frames: pass at least one")
    path, first = "the frames", tables[0]
    index = replace(first.index, id=None)
    columns = choose_columns(path, first.header, asked, stamps=first.stamps(), index=index)
    for table in tables[1:]:
        if asked.channels is None and (unlike := set(table.header) ^ set(first.header)):
            shown = ", ".join(map(repr, sorted(unlike)))[:200]
            raise ReadError(f"{table.where} and {first.where} differ in {shown}: use the same columns in all frames")
        if columns.time is not None and (columns.time in table.stamps()) != columns.seconds:
            raise ReadError(f"{path} contain both dates and numbers in {columns.time}: convert them to one type")
    lengths = [len(table.frame) for table in tables]
    levels = {name: _joined([table.column(name) for table in tables]) for name in first.levels if name == columns.time}
    wanted = [name for name in columns.in_use if name not in levels]
    for table in tables:
        for name in wanted:
            table.column(name)  # or an error
    ends = np.cumsum(lengths)

    def place(row: int) -> str:
        k = int(np.searchsorted(ends, row, side="right"))
        return f"row {row - int(ends[k]) + lengths[k]} of {tables[k].where}"

    joined = Table(path, _joined([table.frame[wanted] for table in tables]), place, index, levels, option=asked.option)
    rows = joined.rows(columns)
    numbers = np.repeat(np.arange(len(tables)), lengths)
    ids = _one_each(tables, columns.id, rows, numbers)
    if given or ids is None:
        ids = list(names)
    columns = replace(columns, id=columns.id or "frame", certain=columns.certain or columns.time is None)
    columns, rows = without_row_names(columns, replace(rows, ids=numbers, id_names=ids), first.header)
    return assemble(path, replace(columns, certain=columns.certain or columns.time is None), rows, place)


def _one_each(tables: Sequence[Table], id: str | None, rows: Rows, numbers: NDArray[np.intp]) -> list[Any] | None:
    """Return the common id of all rows of each table, or None without ids."""
    if rows.ids is None:
        return None
    starts = np.flatnonzero(np.diff(numbers, prepend=-1))
    if len(unlike := np.flatnonzero(rows.ids != rows.ids[starts][numbers])):
        where = tables[int(numbers[unlike[0]])].where
        raise ReadError(
            f"{where} has several different values in column {quoted(id)}, but each frame in a list must contain "
            "exactly one sequence: concatenate the frames and pass the single frame"
        )
    return [rows.id_names[i] for i in rows.ids[starts].tolist()]


def _joined(parts: Sequence[Any]) -> Any:
    return parts[0] if len(parts) == 1 else import_module("pandas").concat(parts, ignore_index=True)


def _table(frame: Any, where: str) -> Table:
    """Return a frame of pandas, or of another library by narwhals, with strings as names."""
    with needing("data frames need", "frames"):
        pandas = import_module("pandas")
    if not isinstance(frame, pandas.DataFrame):
        frame = _by_narwhals(frame, where)
    if frame.columns.nlevels > 1:
        raise ReadError(f"{where} has column names with several levels: use one name per column")
    names = [str(name) for name in frame.columns]
    if len(set(names)) < len(names):  # for pandas 1 and "1" are two
        counted = set[str]()
        twice = next(name for name in names if name in counted or counted.add(name))
        raise ReadError(f"{where} has two columns named {quoted(twice)}: rename one")
    if len(frame) == 0:
        raise ReadError(f"{where} has no rows: pass one row per time step")
    index = frame.index
    frame = frame.set_axis(names, axis=1)
    levels = [index.get_level_values(i).to_series(index=range(len(frame))) for i in range(index.nlevels)]
    frame = frame.reset_index(drop=True)
    return with_index(Table(where, frame, option="columns"), list(index.names), levels)


def _by_narwhals(frame: Any, where: str) -> Any:
    with needing("data frames need", "frames"):
        nw = import_module("narwhals.stable.v1")
    try:
        eager = nw.from_native(frame)
        if isinstance(eager, nw.LazyFrame):
            raise ReadError(f"{where} is lazy: call frame.collect() first")
        eager = nw.from_native(frame, eager_only=True)
    except TypeError:
        kind = type(frame).__name__
        raise TypeError(
            f"{where} is of the type {kind}: pass a data frame (of pandas, polars, pyarrow), a list of them, or an "
            "xarray object; for arrays, use SequenceData"
        ) from None
    except ValueError as error:
        if isinstance(error, ReadError) or "unique column names" not in str(error):
            raise
        twice = str(error).partition("'")[2].partition("'")[0]
        raise ReadError(f"{where} has two columns named {quoted(twice)}: rename one") from None
    return eager.to_pandas()
