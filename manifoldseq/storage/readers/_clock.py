"""Which column of a table is the clock, and therefore no channel."""

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from .._data import SequenceData

Float = NDArray[np.float64]

AUTO = "auto"
_WORDS = frozenset(
    "time times timestamp timestamps datetime date clock utc epoch elapsed zeit temps tiempo tempo "
    "index idx frame frames unnamed".split()
)
_NAMES = frozenset("t ts s ms us ns sec secs second seconds minute minutes hour hours step sample row tick".split())
_TOLERANCE, _SHARE = 0.25, 0.9
_STRICT = 0.1


def says_time(name: str) -> bool:
    """Return whether a column's name may be that of a clock or an index; no name is that of an index.

    Examples
    --------
    >>> [says_time(name) for name in ("Time [s]", "timestamp_ms", "t", "Unnamed: 0", "", "tension", "ramp")]
    [True, True, True, True, True, False, False]
    """
    words = re.findall("[a-z]+", re.sub(r"[\[(].*?[\])]", " ", re.sub("(?<=[a-z])(?=[A-Z])", " ", name)).lower())
    return not name.strip() or not _WORDS.isdisjoint(words) or bool(words and words[0] in _NAMES)


def steady(t: Float, tolerance: float = _TOLERANCE) -> bool:
    """Return whether values increase strictly with a nearly constant step: nine of ten near the median."""
    steps = np.diff(t)
    if not (np.isfinite(t).all() and (steps > 0).all()):
        return False
    middle = np.median(steps) if len(steps) else 0.0
    return bool(np.count_nonzero(np.abs(steps - middle) <= tolerance * middle) >= _SHARE * len(steps))


def is_time(t: Float) -> bool:
    """Return whether the values of one sequence of a long table, which may be in any order, are times.

    They increase from row to row, by whatever steps, or are steady once they are sorted; some may occur twice, which is
    an error that is found later.
    """
    t = t[np.isfinite(t)]
    distinct = np.unique(t)
    return bool((np.diff(t) > 0).all()) or (2 * len(distinct) >= len(t) and steady(distinct))


def clocks(sequences: Sequence[Float], names: Sequence[str] | None) -> list[int]:
    """Return the columns that are clocks.

    A clock increases strictly with a nearly constant step in every sequence (at least nine of ten steps within a
    quarter of the median), at least one of which has three rows; and its name says time or index, or, where columns
    have no names, it is the first and has the same step in all sequences (a tenth). One column is always kept.
    """
    if max(map(len, sequences)) < 3:
        return []
    columns = sequences[0].shape[1]
    if names is None:
        found = [0] if rises_alike(sequences, 0) else []
    else:
        candidates = [j for j in range(columns) if says_time(names[j])]
        found = [j for j in candidates if all(steady(x[:, j]) for x in sequences)]
    return found if len(found) < columns else []


def rises_alike(sequences: Sequence[Float], column: int) -> bool:
    """Return whether a column is steady in every sequence, with the same step in all of them."""
    steps = [float(np.median(np.diff(x[:, column]))) for x in sequences if len(x) > 1]
    return (
        max(map(len, sequences)) > 2
        and all(steady(x[:, column], _STRICT) for x in sequences)
        and max(steps) <= (1 + _STRICT) * min(steps)
    )


def without_clocks(data: SequenceData) -> SequenceData:
    """Return the data without the columns that are clocks, which it names."""
    found = clocks(data.sequences, data.channel_names)
    return without(data, found) if found else data


def without(data: SequenceData, columns: Sequence[int]) -> SequenceData:
    """Return the data without some columns, which become its clocks."""
    kept = [j for j in range(data.sequences[0].shape[1]) if j not in columns]
    names = data.channel_names
    taken = [f"column {j}" if names is None else names[j] for j in columns]
    return replace(
        data,
        sequences=[x[:, kept] for x in data.sequences],
        channel_names=None if names is None else [names[j] for j in kept],
        clocks=(*data.clocks, *taken),
    )
