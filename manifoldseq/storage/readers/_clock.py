"""Detection of the time column of a table, and its sampling rate."""

import math
import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from .._data import SequenceData
from .._limits import ReadError

Float = NDArray[np.float64]

AUTO = "auto"
_WORDS = frozenset(
    "time times timestamp timestamps datetime date clock utc epoch elapsed zeit temps tiempo tempo "
    "index idx frame frames unnamed".split()
)
_NAMES = frozenset("t ts s ms us ns sec secs second seconds minute minutes hour hours step sample row tick".split())
_COUNTERS = frozenset("index idx frame frames unnamed step sample row tick".split())
_SECONDS = {
    **dict.fromkeys("s sec secs second seconds".split(), 1.0),
    **dict.fromkeys("ms msec msecs millisecond milliseconds millis".split(), 1e-3),
    **dict.fromkeys("us µs μs usec usecs microsecond microseconds micros".split(), 1e-6),
    **dict.fromkeys("ns nsec nsecs nanosecond nanoseconds nanos".split(), 1e-9),
    **dict.fromkeys("min mins minute minutes".split(), 60.0),
    **dict.fromkeys("h hr hrs hour hours".split(), 3600.0),
}
"""Seconds of the units in names; the signs of micro are U+00B5 and U+03BC."""
_TOLERANCE, _SHARE = 0.25, 0.9
_STRICT = 0.1


def says_time(name: str) -> bool:
    """Return whether the name of a column denotes a clock or an index. A missing name counts as an index.

    Examples
    --------
    >>> [says_time(name) for name in ("Time [s]", "timestamp_ms", "t", "Unnamed: 0", "", "tension", "ramp")]
    [True, True, True, True, True, False, False]
    """
    words = re.findall("[a-z]+", re.sub(r"[\[(].*?[\])]", " ", re.sub("(?<=[a-z])(?=[A-Z])", " ", name)).lower())
    return not name.strip() or not _WORDS.isdisjoint(words) or bool(words and words[0] in _NAMES)


def unit(name: str) -> float | None:
    """Return the seconds of the unit in a clock's name: in brackets, as its last word, or spelled out.

    Examples
    --------
    >>> [unit(name) for name in ("Time [s]", "timestamp_ms", "elapsedUs", "seconds since start", "ts", "time")]
    [1.0, 0.001, 1e-06, 1.0, None, None]
    """
    brackets = _words(" ".join(re.findall(r"[\[(](.*?)[\])]", name)))
    words = _words(name)
    # an abbreviation counts only where units stand: "h" may also be a height, "s" a genitive
    places = [*brackets, *words[-1:], *(word for word in words if len(word) > 3)]
    return next((_SECONDS[word] for word in places if word in _SECONDS), None)


def _words(name: str) -> list[str]:
    return re.findall("[a-zµμ]+", re.sub("(?<=[a-z])(?=[A-Z])", " ", name).lower())


def seconds(stamps: NDArray) -> Float:
    """Return datetime64 or timedelta64 as seconds since the first, NaN where there is none.

    The reference is not 1970, because float64 would then not resolve nanoseconds.

    Examples
    --------
    >>> seconds(np.array(["2024-05-01T12:00:01.5", "NaT", "2024-05-01T12:00"], dtype="M8[ms]")).tolist()
    [1.5, nan, 0.0]
    """
    there = stamps[~np.isnat(stamps)]
    return np.full(len(stamps), np.nan) if len(there) == 0 else (stamps - there.min()) / np.timedelta64(1, "s")


def steady(t: Float, tolerance: float = _TOLERANCE) -> bool:
    """Return whether values increase strictly with a nearly constant step: nine of ten near the median."""
    return steady_step(t, tolerance) is not None


def steady_step(t: Float, tolerance: float = _TOLERANCE) -> float | None:
    """Return the median step of values that are `steady`, or None; 0 for a single value."""
    with np.errstate(over="ignore", invalid="ignore"):  # steps between the ends of the number range
        steps = np.diff(t)
    return _typical(steps, tolerance) if np.isfinite(t).all() else None


def _typical(steps: Float, tolerance: float) -> float | None:
    middle = float(np.median(steps)) if len(steps) else 0.0
    if not (math.isfinite(middle) and (steps > 0).all()):
        return None
    near = np.count_nonzero(np.abs(steps - middle) <= tolerance * middle)
    return middle if near >= _SHARE * len(steps) else None


def filled(t: Float) -> Float:
    """Return times with filled missing values (NaN), if the others have a nearly constant step per row.

    At most half of them may be missing.

    Examples
    --------
    >>> filled(np.array([np.nan, 0.1, np.nan, 0.3, 0.4])).round(12).tolist()
    [0.0, 0.1, 0.2, 0.3, 0.4]
    >>> filled(np.array([0.0, np.nan, 0.3, 0.9])).tolist()
    [0.0, nan, 0.3, 0.9]
    """
    rows = np.flatnonzero(np.isfinite(t))
    if len(rows) == len(t) or len(rows) < max(3, len(t) / 2) or np.isinf(t).any():
        return t
    step = _typical(np.diff(t[rows]) / np.diff(rows), _TOLERANCE)
    if step is None:
        return t
    whole = np.interp(np.arange(len(t)), rows, t[rows])
    whole[: rows[0]] = t[rows[0]] - step * np.arange(rows[0], 0, -1)
    whole[rows[-1] + 1 :] = t[rows[-1]] + step * np.arange(1, len(t) - rows[-1])
    return whole


def is_time(t: Float) -> bool:
    """Return whether the values of one sequence of a long table, which may be in any order, are times.

    Times increase from row to row by any steps, or are steady after sorting. Duplicates are allowed here and raise an
    error later.
    """
    t = t[np.isfinite(t)]
    if (np.diff(t) > 0).all():
        return True
    distinct = np.unique(t)
    return 2 * len(distinct) >= len(t) and steady(distinct)


def rises(t: Float) -> bool:
    """Return whether the values of one sequence certainly belong to a clock.

    They must increase from row to row: three or more values by a nearly constant step, or five or more by any steps.
    """
    return len(t) > 2 and bool(np.isfinite(t).all() and (steady(t) or (len(t) > 4 and (np.diff(t) > 0).all())))


def defect(t: Float) -> tuple[int, str]:
    """Return the first row in which values contradict a clock, and a description of the contradiction."""
    if len(bad := np.flatnonzero(~np.isfinite(t))):
        return int(bad[0]), "is missing"
    steps = np.diff(t)
    row = int(np.argmax(steps <= 0 if (steps <= 0).any() else np.abs(steps - np.median(steps)))) + 1
    verb = "falls" if t[row] < t[row - 1] else "stays" if t[row] == t[row - 1] else "jumps"
    return row, f"{verb} from {t[row - 1]:.10g} to {t[row]:.10g}"


def partly(name: str, why: str, clock: str) -> str:
    """Return the message for a column that is a clock in some sequences only, with remedies."""
    return (
        f"column {name!r} {why}, but the same column is a time axis in {clock}: correct the column, sort the rows by "
        f"the column with time={name!r} (--read time={name}), or use it as a channel with time=None (--read time=none)"
    )


def check_all_or_none(path: object, data: SequenceData) -> None:
    """Raise an error if a column that is called a time is a clock in some sequences of a folder, but not in all."""
    for j, name in enumerate(data.channel_names or ()):
        times = [filled(x[:, j]) for x in data.sequences] if says_time(name) else []
        wrong = next((i for i, t in enumerate(times) if not steady(t)), None)
        clock = next((i for i, t in enumerate(times) if len(t) > 2 and steady(t)), None)
        if wrong is not None and clock is not None:
            row, why = defect(times[wrong])
            where = f"{path}, {data.ids[wrong]}, t = {row}"
            raise ReadError(f"{where}: {partly(name, why, data.ids[clock])}")


def clocks(sequences: Sequence[Float], names: Sequence[str] | None) -> list[int]:
    """Return the columns that are clocks.

    A clock increases strictly with a nearly constant step in every sequence (at least nine of ten steps within a
    quarter of the median), and at least one sequence has three rows. Its name denotes a time or an index. If columns
    have no names, it is the first column and has the same step in all sequences (within a tenth). Up to half of its
    values may be missing, if the other values determine them (see `filled`). One column is always kept.
    """
    if max(map(len, sequences)) < 3:
        return []
    columns = sequences[0].shape[1]
    if names is None:
        found = [0] if rises_alike(sequences, 0) else []
    else:
        candidates = [j for j in range(columns) if says_time(names[j])]
        found = [j for j in candidates if all(steady(filled(x[:, j])) for x in sequences)]
    return found if len(found) < columns else []


def rises_alike(sequences: Sequence[Float], column: int) -> bool:
    """Return whether a column is steady in every sequence, with the same step in all of them."""
    times = [filled(x[:, column]) for x in sequences]
    steps = [float(np.median(np.diff(t))) for t in times if len(t) > 1]
    return (
        max(map(len, sequences)) > 2
        and all(steady(t, _STRICT) for t in times)
        and max(steps) <= (1 + _STRICT) * min(steps)
    )


def sampling_rate(times: Float, lengths: Sequence[int], unit: float | None = None) -> float | None:
    """Return the time steps per second that a clock shows, from its values in each sequence.

    Parameters
    ----------
    times : ndarray of shape (sum of lengths,), float64
        Finite times, in order within each sequence.
    lengths : sequence of int
        The number of rows of each sequence.
    unit : float, optional
        Seconds per unit of the times; by default the rate is per unit.

    Returns
    -------
    float or None
        The reciprocal of the mean of the steps within a quarter of the median (rounded times have steps of two sizes,
        lost rows have long steps). None if the steps of a sequence are not nearly constant, if the steps of the
        sequences differ by more than a tenth, or if no sequence has three rows.

    Examples
    --------
    >>> sampling_rate(np.array([0.0, 20.0, 40.0, 60.0, 5.0, 25.0]), [4, 2], unit=1e-3)
    50.0
    >>> sampling_rate(np.array([0.0, 1.0, 2.0, 0.0, 2.0, 4.0]), [3, 3]) is None
    True
    >>> sampling_rate(np.round(np.arange(100) / 0.06), [100], unit=1e-3).__round__(1)
    60.0
    """
    if max(lengths, default=0) < 3:
        return None
    starts = np.cumsum(lengths)[:-1]
    with np.errstate(over="ignore", invalid="ignore"):
        steps = np.delete(np.diff(times), starts - 1)
        # a clock all of whose steps are alike needs no median of each sequence: 1.1 times as fast from end to end
        # (python -m benchmarks.tables)
        if not 0 < steps.max() <= (1 + _STRICT) * steps.min() < math.inf:
            medians = []
            for t in np.split(times, starts):
                if (middle := steady_step(t)) is None:
                    return None
                medians += [middle] * (len(t) > 1)
            if max(medians) > (1 + _STRICT) * min(medians):
                return None
            middle = np.median(steps)
            steps = steps[np.abs(steps - middle) <= _TOLERANCE * middle]
        step = float(steps.mean()) * (1.0 if unit is None else unit)
    rate = float(f"{1.0 / step:.12g}") if step > 0 else math.inf  # 100, not 99.99999999999999
    return rate if math.isfinite(rate) and rate > 0 else None


def counts(name: str) -> bool:
    """Return whether a clock's name denotes a count of rows, whose steps do not determine a sampling rate."""
    return unit(name) is None and (not name.strip() or not _COUNTERS.isdisjoint(_words(name)))


def _telling(name: str) -> int:
    """Return the information of a clock's name about seconds: a unit, a time, or only a count."""
    return 2 if unit(name) is not None else int(not counts(name))


def without_nothing(data: SequenceData) -> SequenceData:
    """Return the data without a last column that has neither a name nor a value (lines that end with a comma)."""
    width = data.sequences[0].shape[1]
    named = data.channel_names is not None and data.channel_names[-1]
    if width == 1 or named or not all(np.isnan(x[:, -1]).all() for x in data.sequences):
        return data
    names = None if data.channel_names is None else data.channel_names[:-1]
    return replace(data, sequences=[x[:, :-1] for x in data.sequences], channel_names=names)


def without_clocks(data: SequenceData) -> SequenceData:
    """Return the data without the clock columns, whose names it records."""
    found = clocks(data.sequences, data.channel_names)
    return without(data, found) if found else data


def without(data: SequenceData, columns: Sequence[int]) -> SequenceData:
    """Return the data without some columns, which become its clocks; one of them determines the sampling rate."""
    kept = [j for j in range(data.sequences[0].shape[1]) if j not in columns]
    names = data.channel_names
    taken = [f"column {j}" if names is None else names[j] for j in columns]
    # of several clocks, the one with the most specific name: an index next to a time has steps of one
    j, name = max(zip(columns, taken, strict=True), key=lambda clock: _telling(clock[1]))
    rate = data.sampling_rate
    if not data.clocks:
        times = np.concatenate([filled(x[:, j]) for x in data.sequences])
        rate = None if names and counts(name) else sampling_rate(times, list(map(len, data.sequences)), unit(name))
    return replace(
        data,
        sequences=[x[:, kept] for x in data.sequences],
        sampling_rate=rate,
        channel_names=None if names is None else [names[j] for j in kept],
        clocks=(*data.clocks, *taken),
    )
