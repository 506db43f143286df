"""Dates and times in text, as ISO 8601 writes them."""

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_DATE, _OFFSET = r"[0-9]{4}-[0-9]{2}-[0-9]{2}", r"Z|[+-][0-9]{2}(?::?[0-9]{2})?"
_STAMP = re.compile(
    rf"({_DATE})(?:[T ]([0-9]{{2}}:[0-9]{{2}})(?:(:[0-9]{{2}})([.,][0-9]+)?)?[ ]?({_OFFSET})?)?"
    r"|([0-9]{2}:[0-9]{2}:[0-9]{2})([.,][0-9]+)?"
)


def is_date(text: str) -> bool:
    """Return whether a text has the form of a date, with a time of day or not, or of a time of day with seconds.

    Examples
    --------
    >>> [is_date(text) for text in ("2024-05-01", "2024-05-01 12:00:01.5", "12:00:01", "2024", "01.05.2024")]
    [True, True, True, False, False]
    """
    return _STAMP.fullmatch(text.strip()) is not None


def seconds_of(texts: Sequence[str]) -> NDArray[np.float64]:
    """Return dates or times of day as seconds since the first of them, NaN for an empty text.

    An offset from universal time (``Z``, ``+02:00``) is taken off; fractions of a second may have any digits.

    Raises
    ------
    ValueError
        With the place of the first text that is no date, or is written otherwise than those before it: dates and times
        of day, times with an offset and without.

    Examples
    --------
    >>> seconds_of(["2024-05-01T12:00:01.25", "", "2024-05-01 12:00"]).tolist()
    [1.25, nan, 0.0]
    >>> seconds_of(["2024-03-31T01:59:59+01:00", "2024-03-31T03:00:00+02:00"]).tolist()
    [0.0, 1.0]
    """
    whole, rest = np.full(len(texts), np.datetime64("NaT"), "M8[s]"), np.zeros(len(texts))
    form = None
    for i, text in enumerate(texts):
        if not (text := text.strip()):
            continue
        found = _STAMP.fullmatch(text)
        if found is None:
            raise ValueError(i)
        date, minutes, of_minute, fraction, offset, alone, of_alone = found.groups()
        form = form or (date is None, offset is None)
        if form != (date is None, offset is None):
            raise ValueError(i)
        try:
            whole[i] = f"1970-01-01T{alone}" if date is None else f"{date}T{minutes or '00:00'}{of_minute or ''}"
        except ValueError:  # the 32nd of a month
            raise ValueError(i) from None
        if fraction or of_alone:
            rest[i] = float("0." + (fraction or of_alone)[1:])
        if offset and offset != "Z":
            digits = offset[1:].replace(":", "").ljust(4, "0")
            shift = 3600 * int(digits[:2]) + 60 * int(digits[2:])
            rest[i] -= shift if offset[0] == "+" else -shift
    there = ~np.isnat(whole)
    if not there.any():
        return np.full(len(texts), np.nan)
    found = (whole - whole[there].min()) / np.timedelta64(1, "s") + rest
    return found - np.nanmin(found)
