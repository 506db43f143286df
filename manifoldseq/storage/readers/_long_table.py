"""The long format of `.csv` and `.parquet`: one row per time step, with columns id, time, channels and label."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._data import SequenceData
from .._limits import FilePath, ReadError, record
from ._clock import defect, filled, is_time, partly, rises, without_clocks, without_nothing
from ._columns import Columns


@dataclass(frozen=True)
class Rows:
    """The rows in file order, with codes of ids and labels from 0; missing columns are None."""

    values: NDArray[np.float64]
    times: NDArray[np.float64] | None
    ids: NDArray[np.intp] | None
    id_names: Sequence[Any]
    labels: NDArray[np.intp] | None
    label_names: Sequence[Any]


def assemble(path: FilePath, columns: Columns, rows: Rows, place: Callable[[int], str]) -> SequenceData:
    """Return sequences in order of first appearance and sorted by time; `place` describes the position of a row."""
    if len(rows.values) == 0:
        raise ReadError(f"{path} has a header but no rows: add one row per time step")
    if not columns.ordered and (rows.ids is None or len(rows.id_names) == len(rows.values)):
        return _samples(path, columns, rows)
    ids = np.zeros(len(rows.values), np.intp) if rows.ids is None else rows.ids
    given, unsorted = rows, rows.times is not None and columns.seconds and not columns.ordered
    if unsorted:  # dates of samples may occur twice, and are no channel either
        rows = replace(rows, times=None)
    if rows.times is not None and np.isnan(rows.times).any():
        rows = replace(rows, times=_without_holes(rows.times, ids))
    starts = _in_order(ids, rows.times)
    if rows.times is not None and starts is None and not columns.certain and not are_times(rows.times, ids):
        _check_all_or_none(path, columns, rows, ids, place)
        columns, rows = _as_channel(columns, given)
        starts = _in_order(ids, None)
    if rows.times is not None and len(bad := np.flatnonzero(~np.isfinite(rows.times))):
        raise ReadError(f"{path}, {place(int(bad[0]))} has no {columns.time}: write a number")
    values, times, codes, order = rows.values, rows.times, rows.labels, None
    if starts is None:
        order = np.lexsort((ids,) if times is None else (times, ids))
        ids, values = ids[order], values[order]
        times, codes = None if times is None else times[order], None if codes is None else codes[order]
        starts = np.flatnonzero(np.diff(ids, prepend=-1))
        if times is not None:
            _check_distinct(path, columns, rows, times, order, place)
    labels = None
    if codes is not None:
        firsts = codes[starts]
        for i in np.flatnonzero(codes != np.repeat(firsts, np.diff(starts, append=len(ids))))[:1].tolist():
            found = f"{columns.label} is {str(rows.label_names[int(codes[i])])[:40]!r}, unlike in an earlier row"
            where = f"{path}, {place(i if order is None else int(order[i]))}"
            raise ReadError(f"{where}: {found}: use one label for all rows of a sequence")
        labels = np.array(rows.label_names)[firsts]
    names = None if rows.ids is None else [str(rows.id_names[i]) for i in ids[starts].tolist()]
    known: dict[str, Any] = {"clocks": (str(columns.time),)} if unsorted else {}
    if times is not None:
        lengths = np.diff(starts, append=len(ids)).tolist()
        known = {"sampling_rate": columns.rate(times, lengths), "clocks": (str(columns.time),)}
    data = record(
        path, np.split(values, starts[1:]), labels, channel_names=columns.names, ids=names, order=order, **known
    )
    return _without_clocks(path, columns, without_nothing(data))


def _without_clocks(path: FilePath, columns: Columns, data: SequenceData) -> SequenceData:
    """Return the data without other clocks, one of which must exist if rows have ids but no time."""
    if not columns.clocks:
        return data
    data = without_clocks(data)
    if columns.ordered and columns.time is None and not columns.certain and not data.clocks:
        shown = ", ".join(filter(None, (columns.id, *columns.channels, columns.label)))[:200]
        raise ReadError(
            f"{path} has no column 'time', only {shown}: name the column with time=…, or time=None if the rows are in "
            "order"
        )
    return data


def _check_distinct(
    path: FilePath,
    columns: Columns,
    rows: Rows,
    times: NDArray[np.float64],
    order: NDArray[np.intp],
    place: Callable[[int], str],
) -> None:
    """Raise an error if two rows of a sequence have the same time; these are sorted, and stand in an order."""
    ids = np.zeros(len(order), np.intp) if rows.ids is None else rows.ids[order]
    for i in np.flatnonzero((times[1:] == times[:-1]) & (ids[1:] == ids[:-1]))[:1].tolist():
        of = "" if rows.ids is None else f" of {columns.id} {str(rows.id_names[int(ids[i])])[:40]!r}"
        where = f"{path}, {place(int(order[i]))} and {place(int(order[i + 1]))}"
        same = f"the same {columns.time}" if columns.seconds else f"{columns.time} {times[i]:g}"
        raise ReadError(f"{where}: both have {same}{of}: remove or correct one{columns.otherwise}")


def _in_order(ids: NDArray[np.intp], times: NDArray[np.float64] | None) -> NDArray[np.intp] | None:
    """Return where sequences start, or None if their rows do not stand together, or their times do not increase."""
    starts = np.append(0, np.flatnonzero(ids[1:] != ids[:-1]) + 1)
    if not (np.diff(ids[starts]) > 0).all():
        return None
    if times is not None:
        with np.errstate(over="ignore", invalid="ignore"):
            steps = np.diff(times)
        steps[starts[1:] - 1] = 1
        if not (steps > 0).all():
            return None
    return starts


def _without_holes(times: NDArray[np.float64], ids: NDArray[np.intp]) -> NDArray[np.float64]:
    """Return times with missing values filled if the neighbouring steps determine them."""
    order = np.argsort(ids, kind="stable")
    starts = np.flatnonzero(np.diff(ids[order], prepend=-1))
    whole = np.empty_like(times)
    whole[order] = np.concatenate([filled(t) for t in np.split(times[order], starts[1:])])
    return whole


def _samples(path: FilePath, columns: Columns, rows: Rows) -> SequenceData:
    """Make a sequence of each row that has an id or a label of its own, else one of all rows; in file order."""
    named = () if columns.time is None or not columns.certain else (columns.time,)
    if columns.time is not None and not named:
        columns, rows = _as_channel(columns, rows)
    data = record(path, [rows.values], channel_names=columns.names)
    data = without_nothing(data)
    if columns.clocks:  # which rise from row to row of the file
        data = without_clocks(data)
    data = replace(data, clocks=(*named, *data.clocks), sampling_rate=None)
    if rows.ids is None and rows.labels is None:
        return data
    labels = None if rows.labels is None else np.array(rows.label_names)[rows.labels]
    names = None if rows.ids is None else [str(rows.id_names[i]) for i in rows.ids.tolist()]
    return replace(data, sequences=list(data.sequences[0][:, None]), labels=labels, ids=names)


def are_times(times: NDArray[np.float64], ids: NDArray[np.intp] | None) -> bool:
    """Return whether the values of every sequence are times, see `is_time`."""
    if ids is None:
        return is_time(times)
    order = np.argsort(ids, kind="stable")
    starts = np.flatnonzero(np.diff(ids[order], prepend=-1))
    return all(map(is_time, np.split(times[order], starts[1:])))


def _check_all_or_none(
    path: FilePath, columns: Columns, rows: Rows, ids: NDArray[np.intp], place: Callable[[int], str]
) -> None:
    """Raise an error if what is called time is a clock in some sequences, since it is none in all."""
    assert rows.times is not None
    order = np.argsort(ids, kind="stable")
    parts = np.split(order, np.flatnonzero(np.diff(ids[order])) + 1)
    wrong = next(part for part in parts if not is_time(rows.times[part]))
    clock = next((part for part in parts if rises(rows.times[part])), None)
    if clock is not None:
        row, why = defect(rows.times[wrong])
        of = [f"{columns.id} {str(rows.id_names[int(ids[part[0]])])[:40]!r}" for part in (wrong, clock)]
        where = f"{path}, {place(int(wrong[row]))}, {of[0]}"
        raise ReadError(f"{where}: {partly(str(columns.time), why, of[1])}")


def _as_channel(columns: Columns, rows: Rows) -> tuple[Columns, Rows]:
    """Return the columns and rows with a column that is named time, but is not a clock, as the first channel."""
    assert columns.time is not None and rows.times is not None
    if columns.time not in columns.channels:
        values = np.column_stack([rows.times, rows.values])
        columns, rows = replace(columns, channels=(columns.time, *columns.channels)), replace(rows, values=values)
    return replace(columns, time=None, certain=True), replace(rows, times=None)
