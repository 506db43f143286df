"""A reader of the `.ts` text format of aeon and sktime."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from io import TextIOWrapper
from os import PathLike, fspath
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from ..._quoted import quoted
from .._data import SequenceData
from .._limits import ReadError, bounded_lines, open_file, require
from ._ascii_numbers import decimal, decimals
from ._clock import sampling_rate

_PAIR = re.compile(r"\(([^,()]*),([^,()]*)\)")
"""A time stamp and a value."""


def read_ts(path: str | PathLike[str]) -> SequenceData:
    """Read sequences from a `.ts` file.

    The header consists of lines ``@key value``, comments start with ``#`` or ``%``, and after ``@data`` each line is
    one case. Channels are separated by ``:`` and values by ``,``. The class label (``@classLabel true …``) or the
    target (``@targetLabel true``) is last. Cases may differ in length; ``?`` is a missing value and becomes NaN. With
    ``@timeStamps true``, values are pairs ``(time stamp,value)``. The time stamps are numbers or dates of ISO 8601, and
    each case is sorted by them.

    Parameters
    ----------
    path : str or path-like
        The file, UTF-8 text.

    Returns
    -------
    SequenceData
        Sequences of shape (T_i, d), float64; labels as strings, targets as floats, None where the file has neither.

    Raises
    ------
    ReadError
        If the file is not UTF-8 text, is empty or has no ``@data``, if a value is not a number, or if a case does not
        fit the header. The message names the file, the line and the remedy.
    FileNotFoundError
        If there is no such file.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "two.ts"
    ...     _ = path.write_text("@classLabel true a b\\n@data\\n1,2,3:4,5,?:a\\n6,7:8,9:b\\n")
    ...     data = read_ts(path)
    >>> [x.shape for x in data.sequences], data.labels.tolist()
    ([(3, 2), (2, 2)], ['a', 'b'])
    """
    reader = _Reader(fspath(path))
    for number, line in _lines(reader.path):
        if reader.in_data:
            reader.case(number, line)
        elif line.startswith("@"):
            reader.header(number, line)
        else:
            _fail(reader.path, number, "data before the @data line: add the header, or use another reader")
    return reader.result()


def _lines(path: str) -> Iterator[tuple[int, str]]:
    """Yield the numbers, from 1, and texts of the lines that are neither blank nor comments."""
    number = 0
    try:
        with open_file(path) as file, TextIOWrapper(file, encoding="utf-8-sig") as text:
            for number, line in enumerate(bounded_lines(path, text), 1):
                line = line.strip()
                if line and not line.startswith(("#", "%")):
                    yield number, line
    except UnicodeDecodeError:
        _fail(path, number + 1, "the text is not UTF-8 in this line or soon after it: save the file as UTF-8")
    if number == 0:
        raise ReadError(f"{path} is empty: expected a .ts file with a header and an @data section")


@dataclass
class _Reader:
    path: str
    in_data: bool = False
    name: str = ""
    classes: list[str] | None = None
    target: bool = False
    channels: int | None = None
    length: int | None = None
    equal_length: bool = False
    sequences: list[NDArray[np.float64]] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    size: int = 0
    stamped: bool = False
    stamps: list[list[str]] = field(default_factory=list)

    def header(self, number: int, line: str) -> None:
        key, *values = line[1:].split() or [""]
        value = values[0] if values else ""
        match key.lower():
            case "data":
                self.in_data = True
            case "problemname":
                self.name = " ".join(values)
            case "timestamps":
                self.stamped = self.flag(number, key, value)
            case "classlabel":
                self.classes = values[1:] if self.flag(number, key, value) else None
            case "targetlabel":
                self.target = self.flag(number, key, value)
            case "univariate":
                if self.flag(number, key, value):
                    self.channels = 1
            case "dimension" | "dimensions":
                self.channels = self.count(number, key, value)
            case "equallength":
                self.equal_length = self.flag(number, key, value)
            case "serieslength":
                self.length = self.count(number, key, value)
            case _:
                pass  # "missing" and unknown keys say nothing that the data does not

    def flag(self, number: int, key: str, value: str) -> bool:
        if value.lower() not in ("true", "false"):
            _fail(self.path, number, f"@{key} is {quoted(value)}: write true or false")
        return value.lower() == "true"

    def count(self, number: int, key: str, value: str) -> int:
        if not (value.isascii() and value.isdecimal()) or int(value) == 0:
            _fail(self.path, number, f"@{key} is {quoted(value)}: write a positive whole number")
        return int(value)

    def case(self, number: int, line: str) -> None:
        # the colons of times of day stand in brackets
        texts = re.findall(r"(?:[^:(]|\([^)]*\)?)+|(?<=:)(?=:|$)", line) if self.stamped else line.split(":")
        if self.classes is not None or self.target:
            self.labels.append(self.label(number, texts.pop().strip()))
            if not texts:
                what = "target" if self.target else "class label"
                _fail(self.path, number, f"the case has a {what} and no channels: write its values before the {what}")
        if self.channels is None:
            self.channels = len(texts)
        if len(texts) != self.channels:
            wanted = f"{self.channels} channels" + " and a label" * bool(self.labels)
            _fail(self.path, number, f"the case has {len(texts)} channels, not {wanted}: complete or remove it")
        if self.stamped:
            texts = [self.unstamped(number, channel, text) for channel, text in enumerate(texts)]
        channels = [self.values(number, channel, text) for channel, text in enumerate(texts)]
        lengths = {len(values) for values in channels}
        if len(lengths) > 1:
            _fail(self.path, number, f"channels differ in length ({min(lengths)} to {max(lengths)}): fill gaps with ?")
        if self.equal_length and self.length not in (None, len(channels[0])):
            found = len(channels[0])
            _fail(self.path, number, f"the case has {found} time steps, not {self.length} (@seriesLength): correct one")
        self.sequences.append(np.stack(channels, axis=1))
        self.size += self.sequences[-1].size
        require(self.path, self.size, len(self.sequences))

    def unstamped(self, number: int, channel: int, text: str) -> str:
        """Return the values of pairs (time stamp, value); all channels of a case have the same time stamps."""
        pairs = _PAIR.findall(text)
        if _PAIR.sub("", text).strip(", ") or not pairs:
            _fail(
                self.path,
                number,
                f"channel {channel} is not a list of pairs: write (time stamp,value),… as @timeStamps requires",
            )
        stamps = [stamp.strip() for stamp, _ in pairs]
        if channel == 0:
            self.stamps.append(stamps)
        elif stamps != self.stamps[-1]:
            _fail(self.path, number, f"channel {channel} has other time stamps than channel 0: resample the case")
        return ",".join(value for _, value in pairs)

    def label(self, number: int, text: str) -> str:
        if self.classes and text not in self.classes:
            known = ", ".join(name[:40] for name in self.classes[:10])
            _fail(
                self.path,
                number,
                f"the last field {quoted(text, 40)} is not a class of the header ({known}): correct it",
            )
        return text

    def values(self, number: int, channel: int, text: str) -> NDArray[np.float64]:
        texts = [value.strip() for value in text.split(",")]
        try:
            return decimals(["nan" if value == "?" else value for value in texts])
        except ValueError:
            t = next(t for t, value in enumerate(texts) if value != "?" and not _is_number(value))
            _fail(
                self.path,
                number,
                f"channel {channel}, t={t} is {quoted(texts[t])}, which is not a number: write a number or ?",
            )

    def result(self) -> SequenceData:
        if not self.sequences:
            what = "no cases after @data" if self.in_data else "no @data line"
            raise ReadError(f"{self.path} has {what}: the file is cut off or not in the .ts format")
        labels = None
        if self.target:
            if bad := [text for text in self.labels if not _is_number(text)]:
                raise ReadError(
                    f"{self.path} has the target {quoted(bad[0])}, which is not a number: write numbers, or use "
                    "@classLabel"
                )
            labels = np.array(self.labels, dtype=np.float64)
        elif self.classes is not None:
            labels = np.array(self.labels)
        data = SequenceData(self.sequences, labels, name=self.name)
        return self.in_order(data) if self.stamped else data

    def in_order(self, data: SequenceData) -> SequenceData:
        """Return the data sorted by the time stamps, numbers or dates, which are the clock."""
        of_case = [[*map(_seconds, stamps)] for stamps in self.stamps]
        if any(stamp is None for stamps in of_case for stamp in stamps):
            raise ReadError(
                f"{self.path} has time stamps that are neither numbers nor dates as in ISO 8601: convert them"
            )
        times = [np.array(stamps, dtype=np.float64) for stamps in of_case]
        orders = [np.argsort(t, kind="stable") for t in times]
        ordered = [t[order] for t, order in zip(times, orders, strict=True)]
        for i, t in enumerate(ordered):
            if len(t) > 1 and not (np.diff(t) > 0).all():
                raise ReadError(f"{self.path}, case {i} has a time stamp twice: correct or remove one")
        dated = any(":" in stamp or "-" in stamp[1:] for stamp in self.stamps[0])
        rate = sampling_rate(np.concatenate(ordered), [*map(len, ordered)], 1.0 if dated else None)
        rows = [x[order] for x, order in zip(data.sequences, orders, strict=True)]
        return replace(data, sequences=rows, sampling_rate=rate, clocks=("time stamps",))


def _seconds(stamp: str) -> float | None:
    """Return a time stamp as a number, that of a date in seconds since 1970."""
    if _is_number(stamp):
        return decimal(stamp)
    try:
        return float((np.datetime64(stamp) - np.datetime64(0, "s")) / np.timedelta64(1, "s"))
    except ValueError:
        return None


def _is_number(text: str) -> bool:
    try:
        decimal(text)
    except ValueError:
        return False
    return True


def _fail(path: str, number: int, message: str) -> NoReturn:
    raise ReadError(f"{path}, line {number}: {message}")
