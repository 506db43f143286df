"""The choice of columns, for files, folders, frames and views."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..._quoted import quoted
from .._limits import ReadError
from ._clock import AUTO, counts, sampling_rate, says_time, unit

PLACES = re.compile(r"([0-9]+)(?:-([0-9]+))?")
"""Positions of columns: one position, or the first and the last."""


@dataclass(frozen=True)
class Asked:
    """The requested columns of a table, as in `read_csv`.

    With `each`, every table is one sequence as in `read_directory`, and the columns of id and label may be `elsewhere`.
    Messages refer to the channels by the name of their `option`.
    """

    id: str | None
    time: str | int | None
    channels: Sequence[str] | None
    label: str | None
    ordered: bool = True
    each: bool = False
    elsewhere: tuple[str, ...] = ("label",)
    option: str = "channels"

    @property
    def names(self) -> list[str]:
        """The columns that can be named."""
        return [str(name) for name in (self.id, self.time, self.label, *(self.channels or ())) if name is not None]


@dataclass(frozen=True)
class Columns:
    """The names of the columns in use, which all exist in the table.

    The time is `certain` if it was named or holds time stamps, which are in `seconds` regardless of its name. Other
    columns may be `clocks` unless the channels or the time were named. Rows that are not `ordered` need no clock.
    Columns that are not `named` have numbers for names.
    """

    id: str | None
    time: str | None
    label: str | None
    channels: tuple[str, ...]
    certain: bool
    clocks: bool
    seconds: bool = False
    ordered: bool = True
    named: bool = True

    @property
    def names(self) -> tuple[str, ...] | None:
        """The names of the channels, if they have any."""
        return self.channels if self.named else None

    @property
    def texts(self) -> list[str]:
        """The columns of id and label, each once."""
        return list(dict.fromkeys(name for name in (self.id, self.label) if name is not None))

    @property
    def in_use(self) -> list[str]:
        """All columns, each once."""
        time = () if self.time is None else (self.time,)
        return list(dict.fromkeys((*self.texts, *time, *self.channels)))

    @property
    def otherwise(self) -> str:
        """The remedy if dates are not a clock, such as the day of a recording."""
        return ", or name another time column and the channels (time=…, channels=…)" if self.seconds else ""

    def rate(self, times: NDArray[np.float64], lengths: Sequence[int]) -> float | None:
        """Return the sampling rate that the time shows, if it does not count rows."""
        name = str(self.time)
        if self.seconds:
            return sampling_rate(times, lengths, 1.0)
        return None if self.named and counts(name) else sampling_rate(times, lengths, unit(name))


@dataclass(frozen=True)
class Index:
    """The levels of the index of a frame, which can be used as columns; the levels of the ids and of the time."""

    levels: tuple[str, ...] = ()
    id: str | None = None
    time: str | None = None


def matching(header: Sequence[str], patterns: Iterable[str], *, places: bool = False) -> list[int]:
    """Return the columns that match names or patterns with ``*`` and ``?``, without duplicates, in this order.

    ``-x`` removes columns, and `places` may be numbers, ``2`` or ``0-5``, if no column has such a name.

    Raises
    ------
    LookupError
        If no column matches a name or pattern; the error contains the first such name.
    """
    of_name = {name: j for j, name in enumerate(header)}
    chosen: dict[int, None] = {}
    for pattern in map(str, patterns):
        if pattern in of_name:
            chosen[of_name[pattern]] = None
        elif pattern.startswith("-") and len(pattern) > 1:
            for j in matching(header, [pattern[1:]], places=places):
                chosen.pop(j, None)
        else:
            alike = _in_span(pattern, len(header)) if places else None
            if not (alike := _alike(of_name, pattern) if alike is None else alike):
                raise LookupError(pattern)
            chosen.update(dict.fromkeys(alike))
    return list(chosen)


def _in_span(pattern: str, width: int) -> list[int] | None:
    """Return the columns of places, none if some are not there; None for anything else."""
    if (span := PLACES.fullmatch(pattern)) is None:
        return None
    first, last = int(span[1]), int(span[2] or span[1])
    return list(range(first, last + 1)) if last < width else []


def _alike(of_name: dict[str, int], pattern: str) -> list[int]:
    if {"*", "?"}.isdisjoint(pattern):
        return []
    letters = ({"*": ".*", "?": "."}.get(letter, re.escape(letter)) for letter in pattern)
    expression = re.compile("".join(letters), re.DOTALL)
    return [j for name, j in of_name.items() if expression.fullmatch(name)]


def choose_columns(
    where: object,
    header: Sequence[str],
    asked: Asked,
    *,
    stamps: Sequence[str] = (),
    index: Index = Index(),
    named: bool = True,
) -> Columns:
    """Find the columns in the header; the default columns of the label and the time may be missing.

    Columns of `stamps` contain dates or times. The levels of an `index` are channels only if they are requested.
    """
    known = dict.fromkeys((*header, *index.levels))
    if len(set(header)) < len(header):
        counted = set[str]()
        twice = next(name for name in header if name in counted or counted.add(name))
        raise ReadError(f"{where} has two columns named {quoted(twice)}: rename one")
    id, time, label = (_or_none(name, known) for name in (asked.id, asked.time, asked.label))
    if id == AUTO and AUTO not in known:
        id = "id" if "id" in known else index.id
    id, label = (None if name in asked.elsewhere and name not in known else name for name in (id, label))
    for option, name, without in [
        ("id", id, ", or id=None if the file is one sequence"),
        ("time", None if time == AUTO else time, ", or time=None if the rows are in order"),
        ("label", label, ", or label=None"),
    ]:
        if name is not None and name not in known:
            raise _lacking(where, known, option, name, without)
    channels = None
    if asked.channels is not None:
        try:
            names = list(known)
            channels = [names[j] for j in matching(names, asked.channels)]
        except LookupError as error:
            raise _lacking(where, known, asked.option, error.args[0], "") from None
    certain, clocks = time != AUTO, time == AUTO and channels is None
    if time == AUTO:
        time, certain = _automatic_time(where, header, asked, channels, (id, label), stamps, index)
    if channels is None:
        taken = {id, time, label}
        channels = [name for name in header if name not in taken]
    if not channels:
        raise ReadError(f"{where} has no columns apart from {_shown(known)}: add at least one column of numbers")
    return Columns(id, time, label, tuple(channels), certain, clocks, time in stamps, asked.ordered, named)


def _automatic_time(
    where: object,
    header: Sequence[str],
    asked: Asked,
    channels: Sequence[str] | None,
    taken: Sequence[str | None],
    stamps: Sequence[str],
    index: Index,
) -> tuple[str | None, bool]:
    """Return the column or index of time if none is named, and whether it is certain.

    That is an index of dates, else the column ``time`` (of a folder only if the channels were named), else the one
    column of dates, else an index that may be a time.
    """
    there = "time" in header and not (asked.each and (channels is None or "time" in channels))
    if there or index.time in stamps:
        name = "time" if there else index.time
        return name, name in stamps
    used = {*taken, *(channels or ())}
    dates = [name for name in stamps if name not in used and name in header]
    if len(dates) > 1:  # the one that is called a time
        named = [name for name in dates if says_time(name)]
        dates = named if len(named) == 1 else dates
    if len(dates) == 1:
        return dates[0], True
    if dates and channels is None:
        shown = " and ".join(map(repr, dates))[:200]
        raise ReadError(
            f"{where} has several columns of time stamps, {shown}: name the time column with time=…, and the channels"
        )
    if index.time is not None and index.time not in used:
        return index.time, index.id is not None
    if not asked.each and asked.ordered and channels is not None and taken[0] is not None:
        raise _lacking(where, dict.fromkeys(header), "time", "time", ", or time=None if the rows are in order")
    return None, asked.each or taken[0] is None


def _lacking(where: object, known: Iterable[str], option: str, name: str, without: str) -> ReadError:
    shown = _shown(known)
    return ReadError(f"{where} has no column {quoted(name)}, only {shown}: name the column with {option}=…{without}")


def _shown(names: Iterable[str]) -> str:
    return ", ".join(list(names)[:10])[:200]


def _or_none(name: str | int | None, known: Iterable[str]) -> str | None:
    """Return None for the word "none" of a command line, unless a column has this name."""
    return None if name is None or (str(name) not in known and str(name).lower() == "none") else str(name)
