"""Quoted values in messages: on one line, and shortened if they are long."""

from __future__ import annotations

from typing import Any


def quoted(value: Any, most: int = 120) -> str:
    """Return the `repr` of a value in one line, cut after `most` characters.

    Examples
    --------
    >>> quoted("a" * 10_000, most=10)
    "'aaaaaaaaa…"
    >>> quoted([1, 2])
    '[1, 2]'
    """
    text = " ".join(repr(value[: most + 1] if isinstance(value, str | bytes) else value).split())
    return text if len(text) <= most else text[:most] + "…"
