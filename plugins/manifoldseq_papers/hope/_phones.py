"""The phones of TIMIT: 61 labels, the 39 classes for scoring, and errors of recognized sequences."""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

import manifoldseq as ms

Codes = NDArray[np.int64]

PHONES = tuple(
    "aa ae ah ao aw ax ax-h axr ay b bcl ch d dcl dh dx eh el em en eng epi er ey f g gcl h# hh hv ih ix iy jh k kcl l "
    "m n ng nx ow oy p pau pcl q r s sh t tcl th uh uw ux v w y z zh".split()
)
"""The labels, in the order of their codes."""

_JOINED = {
    "aa": "ao",
    "ah": "ax ax-h",
    "er": "axr",
    "hh": "hv",
    "ih": "ix",
    "l": "el",
    "m": "em",
    "n": "en nx",
    "ng": "eng",
    "sh": "zh",
    "sil": "pcl tcl kcl bcl dcl gcl h# pau epi",
    "uw": "ux",
}
FOLDED: dict[str, str | None] = {
    **{phone: phone for phone in PHONES},
    **{phone: kept for kept, phones in _JOINED.items() for phone in phones.split()},
    "q": None,
}
"""The class of each label (Lee and Hon, 1989); the glottal stop has no class."""

CLASSES = tuple(sorted({kept for kept in FOLDED.values() if kept is not None}))
_DIGITS = 15
_CODES = {phone: code for code, phone in enumerate(PHONES)}
_CLASS = np.array([-1 if (kept := FOLDED[phone]) is None else CLASSES.index(kept) for phone in PHONES])


@dataclass(frozen=True)
class Segments:
    """The phones of an utterance and where they are.

    Attributes
    ----------
    starts, ends : ndarray of int64 of shape (n,)
        First sample of each segment, and the sample after the last.
    phones : ndarray of int64 of shape (n,)
        Codes of the phones, see `PHONES`.
    """

    starts: Codes
    ends: Codes
    phones: Codes

    def places(self, samples: ArrayLike) -> Codes:
        """Return the number of the segment of each sample; samples outside all segments get the nearest segment."""
        return np.minimum(np.searchsorted(self.ends, samples, side="right"), len(self.ends) - 1)


def read_phn(path: str | os.PathLike[str]) -> Segments:
    """Read a ``.phn`` file, which has a line ``start end phone`` per segment, in samples.

    Raises
    ------
    manifoldseq.storage.ReadError
        If a line has another form, a phone is not one of the 61, a segment is empty or out of order, or there are no
        segments.
    """
    path = Path(path)
    rows = []
    for number, line in enumerate(ms.storage.read_bytes(path).decode("latin-1").splitlines(), 1):
        parts = line.split()
        if not parts:
            continue
        if len(parts) != 3 or not all(part.isdecimal() and len(part) <= _DIGITS for part in parts[:2]):
            raise ms.storage.ReadError(
                f"{path}, line {number}: {line[:40]!r} is not 'start end phone': correct the line"
            )
        start, end, phone = int(parts[0]), int(parts[1]), parts[2].lower()
        if phone not in _CODES:
            raise ms.storage.ReadError(f"{path}, line {number}: {phone!r} is not a phone of TIMIT: correct it")
        if start >= end or (rows and end <= rows[-1][1]):
            raise ms.storage.ReadError(
                f"{path}, line {number}: the segment {start} to {end} is empty or out of order: correct it"
            )
        rows.append((start, end, _CODES[phone]))
    if not rows:
        raise ms.storage.ReadError(f"{path} has no segments: write one line 'start end phone' for each")
    return Segments(*np.array(rows, np.int64).T)


def fold(phones: ArrayLike) -> Codes:
    """Return the classes (codes of `CLASSES`) of phones (codes of `PHONES`) without the glottal stop."""
    classes = _CLASS[np.asarray(phones, np.int64)]
    return classes[classes >= 0]


def edit_distance(found: ArrayLike, said: ArrayLike) -> int:
    """Return the smallest number of insertions, deletions and substitutions that turn one sequence into the other.

    Parameters
    ----------
    found, said : array-like of int of shape (n,), (m,)

    Returns
    -------
    int

    Notes
    -----
    The table of Wagner and Fischer is computed row by row; insertions in a row are a running minimum.
    """
    found, said = np.asarray(found), np.asarray(said)
    places = np.arange(len(found) + 1)
    row = places.copy()
    for number, one in enumerate(said, 1):
        new = np.empty_like(row)
        new[0] = number
        np.minimum(row[1:] + 1, row[:-1] + (found != one), out=new[1:])
        row = np.minimum.accumulate(new - places) + places
    return int(row[-1])


def phone_error(found: Iterable[ArrayLike], said: Iterable[ArrayLike]) -> float:
    """Return the phone error rate (%): edits between folded sequences, divided by the number of spoken phones."""
    pairs: Sequence[tuple[Codes, Codes]] = [(fold(a), fold(b)) for a, b in zip(found, said, strict=True)]
    total = sum(len(b) for _, b in pairs)
    if not total:
        raise ValueError("the transcripts contain no phones: pass transcripts that are not empty")
    return 100 * sum(edit_distance(a, b) for a, b in pairs) / total
