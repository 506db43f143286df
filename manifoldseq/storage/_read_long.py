"""The long format of `.csv` and `.parquet`: one row per time step, with columns id, time, channels and label."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._data import SequenceData
from ._limits import FilePath, ReadError, record


@dataclass(frozen=True)
class Columns:
    """The names of the columns in use, each of which the file has."""

    id: str | None
    time: str | None
    label: str | None
    channels: tuple[str, ...]


def choose_columns(
    path: FilePath,
    header: Sequence[str],
    *,
    id: str | None,
    time: str | None,
    channels: Sequence[str] | None,
    label: str | None,
) -> Columns:
    """Find the columns in the header; only the default label column may be missing."""
    if twice := sorted({name for name in header if header.count(name) > 1}):
        raise ReadError(f"{path} has two columns named {twice[0]!r}: rename one")
    if label == "label" and label not in header:
        label = None
    shown = ", ".join(header[:10])
    for option, name, without in [
        ("id", id, ", or id=None if the file is one sequence"),
        ("time", time, ", or time=None if the rows are in order"),
        ("label", label, ", or label=None"),
        *(("channels", name, "") for name in channels or ()),
    ]:
        if name is not None and name not in header:
            raise ReadError(f"{path} has no column {name!r} but {shown[:200]}: name it with {option}=…{without}")
    if channels is None:
        channels = [name for name in header if name not in (id, time, label)]
    if not channels:
        raise ReadError(f"{path} has no channels beside {shown[:200]}: add at least one column of numbers")
    return Columns(id, time, label, tuple(channels))


@dataclass(frozen=True)
class Rows:
    """The rows in file order: codes number ids and labels from 0; what the file does not have is None."""

    values: NDArray[np.float64]
    times: NDArray[np.float64] | None
    ids: NDArray[np.intp] | None
    id_names: Sequence[Any]
    labels: NDArray[np.intp] | None
    label_names: Sequence[Any]


def assemble(path: FilePath, columns: Columns, rows: Rows, place: Callable[[int], str]) -> SequenceData:
    """Make sequences, in order of first appearance and sorted by time; `place` says where a row is in the file."""
    if len(rows.values) == 0:
        raise ReadError(f"{path} has a header but no rows: add one row per time step")
    ids = np.zeros(len(rows.values), np.intp) if rows.ids is None else rows.ids
    order = np.lexsort((ids,) if rows.times is None else (rows.times, ids))
    ids = ids[order]
    if rows.times is not None:
        times = rows.times[order]
        for i in np.flatnonzero((times[1:] == times[:-1]) & (ids[1:] == ids[:-1]))[:1].tolist():
            of = "" if rows.ids is None else f" of {columns.id} {str(rows.id_names[int(ids[i])])[:40]!r}"
            where = f"{path}, {place(int(order[i]))} and {place(int(order[i + 1]))}"
            raise ReadError(f"{where}: both have {columns.time} {times[i]:g}{of}: remove or correct one")
    starts = np.flatnonzero(np.diff(ids, prepend=-1))
    labels = None
    if rows.labels is not None:
        codes = rows.labels[order]
        firsts = codes[starts]
        for i in np.flatnonzero(codes != np.repeat(firsts, np.diff(starts, append=len(ids))))[:1].tolist():
            found = f"{columns.label} is {str(rows.label_names[int(codes[i])])[:40]!r}, unlike in an earlier row"
            raise ReadError(f"{path}, {place(int(order[i]))}: {found}: give all rows of a sequence one label")
        labels = np.array(rows.label_names)[firsts]
    values = rows.values if (np.diff(order) == 1).all() else rows.values[order]
    return record(path, np.split(values, starts[1:]), labels, channel_names=columns.channels)
