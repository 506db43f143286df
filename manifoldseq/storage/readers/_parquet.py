"""The reader of `.parquet` files in the long format."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..._quoted import quoted
from .._data import SequenceData
from .._limits import FilePath, ReadError, extra, opened, require_memory
from ._clock import AUTO, seconds
from ._long_table import Asked, Columns, Rows, are_times, assemble, choose_columns

_INDEX = "__index_level_0__"
"""As pandas calls an index without a name."""
_ROWS = 1 << 16
"""Rows that are read at a time."""


def read_parquet(
    path: FilePath,
    *,
    id: str | None = "id",
    time: str | None = AUTO,
    channels: Sequence[str] | None = None,
    label: str | None = "label",
    ordered: bool = True,
) -> SequenceData:
    """Read sequences from a `.parquet` file in the long format, one row per time step.

    Parameters
    ----------
    path : str or path-like
        Needs pyarrow; only the columns in use are read.
    id, time, channels, label, ordered
        As in `read_csv`; the time may also be a time stamp, whose unit is known, or an index of pandas that holds some.
        Nulls in channels become NaN.

    Returns
    -------
    SequenceData
        Sequences in order of their first rows, with their ids; labels as stored, numbers or strings; the channels'
        names; which columns were taken as clocks, and the sampling rate that they show.

    Raises
    ------
    ReadError
        As `read_csv`; and if a channel's column holds no numbers.
    ImportError
        If pyarrow is not installed.
    FileNotFoundError
        If there is no such file.

    Examples
    --------
    .. code-block:: python

        data = ms.storage.read_parquet("walks.parquet", id="walk", channels=["x", "y"])
    """
    parquet = extra("pyarrow.parquet", path, "a .parquet file")
    with opened(path, "a .parquet file") as stream, parquet.ParquetFile(stream, pre_buffer=False) as file:
        columns = _columns(path, file, Asked(id, time, channels, label, ordered))
        rows, texts = _check_size(path, file, columns)
        # texts stay numbers into a table of them: a long one in every row costs a file nothing
        with parquet.ParquetFile(stream, metadata=file.metadata, read_dictionary=texts, pre_buffer=False) as again:
            table = again.read(_beside(columns), use_threads=False)
        values = np.empty((rows, len(columns.channels)), _dtype(file, columns.channels))
        _fill(path, file, columns.channels, values)
        _release()
        rows_read = _rows(path, table, columns, values)
        if columns.time == _INDEX:
            columns = replace(columns, time="time")
            times, ids = rows_read.times, rows_read.ids
            if times is not None and not (columns.certain or are_times(times, ids)):  # it names the rows
                columns, rows_read = replace(columns, time=None), replace(rows_read, times=None)
        return assemble(path, columns, rows_read, lambda row: f"row {int(row)}")


def parquet_tables(path: FilePath, files: Sequence[FilePath], asked: Asked) -> Iterator[tuple[Columns, Rows]]:
    """Yield the columns in use and the rows of each file of a folder: values are parts of one array if they are alike.

    The time is called ``"time"`` if it is an index without a name.
    """
    shapes, kinds = [], set()
    for name in files:
        with _opened(name) as file:
            columns = _columns(name, file, asked)
            shapes.append((_check_size(name, file, columns)[0], len(columns.channels)))
            kinds.add(_dtype(file, columns.channels))
    kind = np.result_type(*kinds)
    require_memory(path, sum(rows * width for rows, width in shapes) * kind.itemsize)
    together = len({width for _, width in shapes}) == 1
    ends = np.cumsum([rows for rows, _ in shapes])
    parts = np.split(np.empty((ends[-1], shapes[0][1]), kind), ends[:-1]) if together else [None] * len(files)
    for name, shape, part in zip(files, shapes, parts, strict=True):
        with _opened(name) as file:
            columns = _columns(name, file, asked)
            values = np.empty(shape, kind) if part is None else part
            _fill(name, file, columns.channels, values)
            rows = _rows(name, file.read(_beside(columns), use_threads=False), columns, values)
            yield replace(columns, time="time") if columns.time == _INDEX else columns, rows
    _release()


def _columns(path: FilePath, file: Any, asked: Asked) -> Columns:
    """Find the columns in use; an index without a name that holds time stamps, or floats, may be the time."""
    header = [str(name) for name in file.schema_arrow.names]
    stamps = [name for name in header if _is_stamp(file.schema_arrow.field(name).type)]
    plain = [name for name in header if not name.startswith("__index_level_")]  # what pandas adds
    index = None
    if asked.time == AUTO and _INDEX in header and len(header) == len(plain) + 1:
        index = _INDEX if _INDEX in stamps or _is_float(file.schema_arrow.field(_INDEX).type) else None
    return choose_columns(path, plain, asked, stamps=[name for name in stamps if name in (*plain, index)], index=index)


def _beside(columns: Columns) -> list[str]:
    """Return the columns that are no channels."""
    return list(dict.fromkeys([*columns.texts, *([] if columns.time is None else [columns.time])]))


@contextmanager
def _opened(path: FilePath) -> Iterator[Any]:
    parquet = extra("pyarrow.parquet", path, "a .parquet file")
    with opened(path, "a .parquet file") as stream, parquet.ParquetFile(stream, pre_buffer=False) as file:
        yield file


def parquet_header(path: FilePath) -> list[str]:
    """Return the names of the columns."""
    with _opened(path) as file:
        return [str(name) for name in file.schema_arrow.names]


def _check_size(path: FilePath, file: Any, columns: Columns) -> tuple[int, list[str]]:
    """Compare what the footer claims with the memory; return the rows, and the columns of texts."""
    pa = extra("pyarrow", path, "a .parquet file")
    metadata, schema = file.metadata, file.schema_arrow
    groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
    rows = sum(group.num_rows for group in groups)
    if metadata.num_rows != rows or metadata.num_columns < len(schema.names):
        raise ReadError(f"{path} has a damaged footer: save it again")
    for name in columns.channels:
        _require_numbers(path, name, schema.field(name).type)
    # the channels in order and sorted, of ids, times and labels codes and orders beside
    width, texts = 2 * _dtype(file, columns.channels).itemsize * len(columns.channels) + 96, []
    for name in _beside(columns):
        kind = schema.field(name).type
        if pa.types.is_nested(kind):
            raise ReadError(f"{path}, column {quoted(name)} holds {kind}, not one value per row: convert it")
        if pa.types.is_dictionary(kind):
            width += 16
        elif pa.types.is_primitive(kind) or pa.types.is_fixed_size_binary(kind) or pa.types.is_decimal(kind):
            width += kind.bit_width // 8 + 8
        else:
            texts.append(name)
            width += 16
    inflated = max((group.total_byte_size for group in groups), default=0)
    require_memory(path, rows * width + inflated)
    return rows, texts


def _dtype(file: Any, channels: Sequence[str]) -> np.dtype:
    """Return float32 if all columns hold that, else float64."""
    from pyarrow import types

    single = all(types.is_float32(file.schema_arrow.field(name).type) for name in channels)
    return np.dtype(np.float32 if single else np.float64)


def _fill(path: FilePath, file: Any, channels: Sequence[str], values: NDArray[Any]) -> None:
    """Read columns some rows at a time, so that nothing is there twice."""
    place = 0
    for batch in file.iter_batches(_ROWS, columns=list(channels), use_threads=False):
        rows = slice(place, place + len(batch))
        for j, name in enumerate(channels):
            values[rows, j] = _numbers(path, name, batch.column(name))
        place = rows.stop
    if place != len(values):
        raise ReadError(f"{path} holds {place} rows of {len(values)}: it is damaged, save it again")


def _release() -> None:
    """Let the system take back what pyarrow keeps for the next file: some 100 MB (``python -m benchmarks.memory``)."""
    from pyarrow import default_memory_pool

    default_memory_pool().release_unused()


def _require_numbers(path: FilePath, name: str, kind: Any) -> None:
    pa = extra("pyarrow", path, "a .parquet file")
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
        raise ReadError(
            f"{path}, column {quoted(name)} holds {kind}, no numbers: convert it, or choose others with channels=…"
        )


def _rows(path: FilePath, table: Any, columns: Columns, values: NDArray[Any]) -> Rows:
    times = None
    if columns.time is not None:
        column = table[columns.time]
        times = _stamps(path, column) if columns.seconds else _numbers(path, columns.time, column)
        times = times.astype(np.float64, copy=False)
    ids, id_names = _codes(path, columns.id, table)
    labels, label_names = _codes(path, columns.label, table)
    return Rows(values, times, ids, id_names, labels, label_names)


def _numbers(path: FilePath, name: str, column: Any) -> NDArray[np.float64]:
    pa = extra("pyarrow", path, "a .parquet file")
    _require_numbers(path, name, column.type)
    if column.null_count == 0:
        return np.asarray(column)
    return column.cast(pa.float64(), safe=False).fill_null(float("nan")).to_numpy()


def _stamps(path: FilePath, column: Any) -> NDArray[np.float64]:
    """Return time stamps in seconds; times of day are spans since midnight."""
    pa = extra("pyarrow", path, "a .parquet file")
    kind = column.type
    if pa.types.is_time(kind):
        ticks = column.cast(pa.int32() if kind.bit_width == 32 else pa.int64())
        column = ticks.cast(pa.int64()).cast(pa.duration(kind.unit))
    return seconds(column.to_numpy())


def _is_stamp(kind: Any) -> bool:
    from pyarrow import types

    return types.is_timestamp(kind) or types.is_date(kind) or types.is_time(kind)


def _is_float(kind: Any) -> bool:
    from pyarrow import types

    return types.is_floating(kind)


def _codes(path: FilePath, name: str | None, table: Any) -> tuple[NDArray[np.intp] | None, list[Any]]:
    """Number the values of a column from 0 in order of appearance."""
    if name is None:
        return None, []
    column = table[name]
    if column.null_count:
        raise ReadError(f"{path}, column {quoted(name)} has empty cells: fill them or remove the rows")
    if table.num_rows == 0:
        return np.empty(0, np.intp), []
    pa = extra("pyarrow", path, "a .parquet file")
    if pa.types.is_dictionary(column.type):
        encoded = column.unify_dictionaries().combine_chunks()
    else:
        encoded = column.combine_chunks().dictionary_encode()
    indices, names = encoded.indices.to_numpy().astype(np.intp), encoded.dictionary.to_pylist()
    firsts = np.full(len(names), len(indices))
    firsts[indices[::-1]] = np.arange(len(indices))[::-1]  # of equal indices the last assignment stays
    numbers: dict[Any, int] = {}
    codes = np.zeros(len(names), np.intp)
    for place in np.argsort(firsts, kind="stable").tolist():
        if firsts[place] < len(indices):
            value = names[place].strip() if isinstance(names[place], str) else names[place]  # as in text
            codes[place] = numbers.setdefault(value, len(numbers))
    return codes[indices], list(numbers)
