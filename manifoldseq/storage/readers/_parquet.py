"""The reader of `.parquet` files in the long format."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._data import SequenceData
from .._limits import FilePath, ReadError, extra, opened, require_memory
from ._clock import AUTO, seconds
from ._long_table import Columns, Rows, assemble, choose_columns


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
        As in `read_csv`; the time may also be a time stamp, whose unit is known. Nulls in channels become NaN.

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
        header = [str(name) for name in file.schema_arrow.names]
        plain = [name for name in header if not name.startswith("__index_level_")]  # what pandas adds
        columns = choose_columns(path, plain, id=id, time=time, channels=channels, label=label, ordered=ordered)
        named = [name for name in (columns.id, columns.time, columns.label) if name is not None]
        used = list(dict.fromkeys([*named, *columns.channels]))
        texts = _check_size(path, file.metadata, file.schema_arrow, columns, used)
        # texts stay numbers into a table of them: a long one in every row costs a file nothing
        with parquet.ParquetFile(stream, metadata=file.metadata, read_dictionary=texts, pre_buffer=False) as again:
            table = again.read(used, use_threads=False)
        if columns.time is not None and _is_stamp(table[columns.time].type):
            columns = replace(columns, certain=True, seconds=True)
        return assemble(path, columns, _rows(path, table, columns), lambda row: f"row {int(row)}")


def parquet_header(path: FilePath) -> list[str]:
    """Return the names of the columns."""
    parquet = extra("pyarrow.parquet", path, "a .parquet file")
    with opened(path, "a .parquet file") as stream, parquet.ParquetFile(stream, pre_buffer=False) as file:
        return [str(name) for name in file.schema_arrow.names]


def _check_size(path: FilePath, metadata: Any, schema: Any, columns: Columns, used: Sequence[str]) -> list[str]:
    """Compare what the footer claims with the memory; return the columns in use that are texts."""
    pa = extra("pyarrow", path, "a .parquet file")
    groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
    rows = max(metadata.num_rows, sum(group.num_rows for group in groups))
    if metadata.num_rows < 0 or metadata.num_columns < len(schema.names):
        raise ReadError(f"{path} has a damaged footer: save it again")
    # the columns as numbers three times (as read, sorted, in order), of ids, times and labels codes and orders beside
    width, texts = 24 * len(columns.channels) + 96, []
    for name in used:
        kind = schema.field(name).type
        if name in columns.channels:
            _require_numbers(path, name, kind)
        if pa.types.is_nested(kind):
            raise ReadError(f"{path}, column {name!r} holds {kind}, not one value per row: convert it")
        if pa.types.is_dictionary(kind):
            width += 16
        elif pa.types.is_primitive(kind) or pa.types.is_fixed_size_binary(kind) or pa.types.is_decimal(kind):
            width += kind.bit_width // 8 + 8
        else:
            texts.append(name)
            width += 16
    inflated = max((group.total_byte_size for group in groups), default=0)
    require_memory(path, rows * width + inflated)
    return texts


def _require_numbers(path: FilePath, name: str, kind: Any) -> None:
    pa = extra("pyarrow", path, "a .parquet file")
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
        raise ReadError(
            f"{path}, column {name!r} holds {kind}, no numbers: convert it, or choose others with channels=…"
        )


def _rows(path: FilePath, table: Any, columns: Columns) -> Rows:
    values = np.empty((table.num_rows, len(columns.channels)))
    for j, name in enumerate(columns.channels):
        values[:, j] = _numbers(path, name, table[name])
    times = None
    if columns.time is not None:
        column = table[columns.time]
        times = _stamps(path, column) if _is_stamp(column.type) else _numbers(path, columns.time, column)
    ids, id_names = _codes(path, columns.id, table)
    labels, label_names = _codes(path, columns.label, table)
    return Rows(values, times, ids, id_names, labels, label_names)


def _numbers(path: FilePath, name: str, column: Any) -> NDArray[np.float64]:
    pa = extra("pyarrow", path, "a .parquet file")
    _require_numbers(path, name, column.type)
    if column.null_count == 0:
        return column.to_numpy().astype(np.float64)
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


def _codes(path: FilePath, name: str | None, table: Any) -> tuple[NDArray[np.intp] | None, list[Any]]:
    """Number the values of a column from 0 in order of appearance."""
    if name is None:
        return None, []
    column = table[name]
    if column.null_count:
        raise ReadError(f"{path}, column {name!r} has empty cells: fill them or remove the rows")
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
            codes[place] = numbers.setdefault(names[place], len(numbers))
    return codes[indices], list(numbers)
