"""The reader of `.parquet` files in the long format."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._data import SequenceData
from ._limits import FilePath, ReadError, extra, opened, require
from ._read_long import Columns, Rows, assemble, choose_columns


def read_parquet(
    path: FilePath,
    *,
    id: str | None = "id",
    time: str | None = "time",
    channels: Sequence[str] | None = None,
    label: str | None = "label",
) -> SequenceData:
    """Read sequences from a `.parquet` file in the long format, one row per time step.

    Parameters
    ----------
    path : str or path-like
        Needs pyarrow; only the columns in use are read.
    id, time, channels, label
        As in `read_csv`; the time may also be a time stamp. Nulls in channels become NaN.

    Returns
    -------
    SequenceData
        Sequences in order of their first rows; labels as stored, numbers or strings; the channels' names.

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
        columns = choose_columns(path, plain, id=id, time=time, channels=channels, label=label)
        _check_size(path, file.metadata, header, columns)
        table = file.read(
            [*filter(None, (columns.id, columns.time, columns.label)), *columns.channels], use_threads=False
        )
        return assemble(path, columns, _rows(path, table, columns), lambda row: f"row {int(row)}")


def _check_size(path: FilePath, metadata: Any, header: Sequence[str], columns: Columns) -> None:
    """Compare what the footer claims with the memory, and with the file as far as its encodings allow."""
    used = len(columns.channels) + 3
    if metadata.num_rows < 0 or metadata.num_columns < len(header):
        raise ReadError(f"{path} has a damaged footer: save it again")
    require(path, metadata.num_rows * used)
    claimed = sum(metadata.row_group(i).total_byte_size for i in range(metadata.num_row_groups))
    require(path, claimed // 8)


def _rows(path: FilePath, table: Any, columns: Columns) -> Rows:
    values = np.empty((table.num_rows, len(columns.channels)))
    for j, name in enumerate(columns.channels):
        values[:, j] = _numbers(path, name, table[name])
    times = None
    if columns.time is not None:
        times = _numbers(path, columns.time, table[columns.time], stamps=True)
        if len(bad := np.flatnonzero(~np.isfinite(times))):
            raise ReadError(f"{path}, row {bad[0]} has no {columns.time}: fill or remove it")
    ids, id_names = _codes(path, columns.id, table)
    labels, label_names = _codes(path, columns.label, table)
    return Rows(values, times, ids, id_names, labels, label_names)


def _numbers(path: FilePath, name: str, column: Any, *, stamps: bool = False) -> NDArray[np.float64]:
    pa = extra("pyarrow", path, "a .parquet file")
    kind = column.type
    if stamps and (pa.types.is_timestamp(kind) or pa.types.is_date(kind) or pa.types.is_time(kind)):
        column = column.cast(pa.int32() if kind.bit_width == 32 else pa.int64())
    elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
        raise ReadError(
            f"{path}, column {name!r} holds {kind}, no numbers: convert it, or choose others with channels=…"
        )
    if column.null_count == 0:
        return column.to_numpy().astype(np.float64)
    return column.cast(pa.float64(), safe=False).fill_null(float("nan")).to_numpy()


def _codes(path: FilePath, name: str | None, table: Any) -> tuple[NDArray[np.intp] | None, list[Any]]:
    """Number the values of a column from 0 in order of appearance."""
    if name is None:
        return None, []
    column = table[name]
    if column.null_count:
        raise ReadError(f"{path}, column {name!r} has empty cells: fill them or remove the rows")
    encoded = column.combine_chunks().dictionary_encode() if table.num_rows else column.combine_chunks()
    if table.num_rows == 0:
        return np.empty(0, np.intp), []
    return encoded.indices.to_numpy().astype(np.intp), encoded.dictionary.to_pylist()
