"""The reader of `.parquet` files in the long format."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..._quoted import quoted
from .._data import SequenceData
from .._limits import FilePath, ReadError, extra, opened, require_inflated, require_memory
from ._clock import AUTO
from ._columns import Asked, Columns, Index, choose_columns
from ._long_table import Rows, assemble
from ._table import Table, without_row_names

_INDEX = "__index_level_0__"
"""The pattern of pandas' names for an index without a name."""
_KIND = "a .parquet file"


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
        The file. pyarrow is needed, and only the columns in use are read.
    id, time, channels, label, ordered
        As in `read_csv`. The time may also be a time stamp, whose unit is known, or an index of pandas with time
        stamps. Nulls in channels become NaN.

    Returns
    -------
    SequenceData
        Sequences in order of their first rows, with ids, labels (numbers or strings, as stored), channel names, the
        columns that were used as clocks, and their sampling rate.

    Raises
    ------
    ReadError
        For the reasons of `read_csv`, and if the column of a channel does not contain numbers.
    ImportError
        If pyarrow is not installed.
    FileNotFoundError
        If there is no such file.

    Examples
    --------
    .. code-block:: python

        data = ms.storage.read_parquet("walks.parquet", id="walk", channels=["x", "y"])
    """
    columns, rows, table = parquet_rows(path, Asked(id, time, channels, label, ordered))
    return assemble(path, columns, rows, table.place)


def parquet_rows(path: FilePath, asked: Asked) -> tuple[Columns, Rows, Table]:
    """Return the columns in use, which alone are read, their rows, and where these are."""
    with _opened(path) as (stream, file):
        schema = file.schema_arrow
        plain = [name for name in schema.names if not name.startswith("__index_level_")]  # what pandas adds
        stamps = [name for name in schema.names if _is_stamp(schema.field(name).type)]
        index = Index()
        alone = _INDEX in schema.names and len(schema.names) == len(plain) + 1 and "time" not in plain
        if asked.time == AUTO and alone and (_INDEX in stamps or _is_float(schema.field(_INDEX).type)):
            index = Index(("time",), None, "time")
        stamps = ["time" if name == _INDEX else name for name in stamps]
        columns = choose_columns(path, plain, asked, stamps=stamps, index=index)
        texts = _check_size(path, file, columns, index)
        # texts stay numbers into a table of them: a long one in every row costs a file nothing
        parquet = extra("pyarrow.parquet", path, _KIND)
        with parquet.ParquetFile(stream, metadata=file.metadata, read_dictionary=texts, pre_buffer=False) as again:
            named = [_INDEX if name in index.levels else name for name in columns.in_use]
            frame = _with_spans(again.read(named, use_threads=False)).to_pandas(
                ignore_metadata=True, date_as_object=False, split_blocks=True, self_destruct=True, use_threads=False
            )
    if len(frame) == 0:
        raise ReadError(f"{path} has a header but no rows: add one row per time step")
    frame.columns = ["time" if name == _INDEX else name for name in frame.columns]
    table = Table(str(path), frame)
    columns, rows = without_row_names(columns, table.rows(columns), plain)
    del frame
    _release()
    return columns, rows, table


@contextmanager
def _opened(path: FilePath) -> Iterator[tuple[Any, Any]]:
    parquet = extra("pyarrow.parquet", path, _KIND)
    extra("pandas", path, _KIND)
    with opened(path, _KIND) as stream, parquet.ParquetFile(stream, pre_buffer=False) as file:
        yield stream, file


def parquet_header(path: FilePath) -> list[str]:
    """Return the names of the columns."""
    with _opened(path) as (_, file):
        return [str(name) for name in file.schema_arrow.names]


def _check_size(path: FilePath, file: Any, columns: Columns, index: Index) -> list[str]:
    """Compare what the footer claims with the memory; return the columns of texts."""
    pa = extra("pyarrow", path, "a .parquet file")
    metadata, schema = file.metadata, file.schema_arrow
    groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
    rows = sum(group.num_rows for group in groups)
    if metadata.num_rows != rows or metadata.num_columns < len(schema.names):
        raise ReadError(f"{path} has a damaged footer: save it again")
    for name in columns.channels:
        _require_numbers(path, name, schema.field(name).type)
    # bytes per row: the channels in order and sorted, and the codes and orders of ids, times and labels
    width, texts = 2 * _dtype(file, columns.channels).itemsize * len(columns.channels) + 96, []
    for name in dict.fromkeys([*columns.texts, *([columns.time] if columns.time else [])]):
        kind = schema.field(_INDEX if name in index.levels else name).type
        if pa.types.is_nested(kind):
            raise ReadError(f"{path}, column {quoted(name)} contains {kind}, not one value per row: convert it")
        if pa.types.is_dictionary(kind):
            width += 16
        elif pa.types.is_primitive(kind) or pa.types.is_fixed_size_binary(kind) or pa.types.is_decimal(kind):
            width += kind.bit_width // 8 + 8
        else:
            texts.append(name)
            width += 16
    inflated = max((group.total_byte_size for group in groups), default=0)
    require_memory(path, rows * width + inflated)
    require_inflated(path, rows * width + inflated)
    return texts


def _dtype(file: Any, channels: Sequence[str]) -> np.dtype:
    """Return float32 if all columns hold that, else float64."""
    from pyarrow import types

    single = all(types.is_float32(file.schema_arrow.field(name).type) for name in channels)
    return np.dtype(np.float32 if single else np.float64)


def _release() -> None:
    """Let the system take back what pyarrow keeps for the next file: some 100 MB (``python -m benchmarks.memory``)."""
    from pyarrow import default_memory_pool

    default_memory_pool().release_unused()


def _require_numbers(path: FilePath, name: str, kind: Any) -> None:
    pa = extra("pyarrow", path, "a .parquet file")
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
        raise ReadError(
            f"{path}, column {quoted(name)} contains {kind} and no numbers: convert it, or choose other columns with "
            "channels=…"
        )


def _with_spans(table: Any) -> Any:
    """Return a table with times of day as spans since midnight, which may have nanoseconds."""
    import pyarrow as pa

    for j, one in enumerate(table.schema):
        if pa.types.is_time(one.type):
            ticks = table.column(j).cast(pa.int32() if one.type.bit_width == 32 else pa.int64())
            table = table.set_column(j, one.name, ticks.cast(pa.int64()).cast(pa.duration(one.type.unit)))
    return table


def _is_stamp(kind: Any) -> bool:
    from pyarrow import types

    return types.is_timestamp(kind) or types.is_date(kind) or types.is_time(kind)


def _is_float(kind: Any) -> bool:
    from pyarrow import types

    return types.is_floating(kind)
