"""Plain tables of text by the parsers of pandas or NumPy: with the outcome of the cell by cell reader, or not."""

import os
import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from itertools import product
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from .._limits import FilePath, open_file, require_memory

Runs = tuple[list[str], NDArray[np.intp]]
"""The texts of a column, each once for the rows in which it stands one after the other, and how many rows these are."""
Found = tuple[list[NDArray[np.float64]], list[Runs]]

MISSING = frozenset(("", "?", "na", "n/a", "null", "none"))
"""Cells without a number, in any case and with blanks around them."""
_SPELLED = sorted({"".join(w) for m in MISSING for w in product(*({c, c.upper()} for c in m))} | {"nan", "NaN", "NAN"})
_TRUTH = ["True", "TRUE", "true", "False", "FALSE", "false"]
_PRINTABLE = bytes({*b"\t\r\n", *range(32, 127)})
_SWAPPED = str.maketrans(",.", ".,")
_COMPRESSED = (".gz", ".bz2", ".xz", ".lzma")
"""Endings that NumPy would decompress."""
_BLOCK = 1 << 16
"""Bytes that are looked at together: half of the longest cell that the csv module takes."""
SMALL, LARGE = 1 << 16, 1 << 24
"""Bytes from which pandas is worth its overhead, and its import."""


@dataclass(frozen=True)
class Layout:
    """Where the cells of a table are: lines before the first row, cells per row, and the columns that are wanted.

    Those of `numeric` are wanted in one array for each group.
    """

    delimiter: str
    skip: int
    width: int
    numeric: Sequence[Sequence[int]]
    texts: Sequence[int] = ()
    decimal: str = "."

    @property
    def numbers(self) -> set[int]:
        return {j for group in self.numeric for j in group}


def plain_table(path: FilePath, layout: Layout) -> Found | None:
    """Return columns of a table without quotes and other surprises; None for any other, which is read cell by cell.

    pandas takes a fifteenth of the time of the cells, NumPy a quarter (``python -m benchmarks.tables``). What they take
    otherwise than `_csv.Text.number` and the csv module do is left to the cells, and so is what is wrong, since only
    those say where.

    Parameters
    ----------
    path : str or path-like
    layout : Layout

    Returns
    -------
    (list of ndarray of shape (rows, len(group)), float64; list of runs of texts), or None
    """
    with suppress(Exception), open_file(path) as file:  # whatever they raise, the cells get their sentence
        size = os.fstat(file.fileno()).st_size
        # a cell takes two characters or more, and 8 bytes twice; a text its characters, and an object
        require_memory(path, (10 + 48 * len(layout.texts) // layout.width) * size)
        head = b"".join(file.readline() for _ in range(layout.skip))
        if len(head) == size or head.count(b"\r") != head.count(b"\r\n"):
            return None
        pandas = _module("pandas") if size >= (SMALL if "pandas" in sys.modules else LARGE) else None
        return _by_numpy(path, file, layout) if pandas is None else _by_pandas(pandas, path, file, layout)
    return None


def _module(name: str) -> Any:
    try:
        return import_module(name)
    except Exception:  # it is not there, or made for another NumPy
        return None


def _by_numpy(path: FilePath, file: BinaryIO, layout: Layout) -> Found | None:
    if str(path).lower().endswith(_COMPRESSED) or not _plain(file, printable=True):
        return None
    kinds = [(f"{j}", np.float64 if j in layout.numbers else object) for j in range(layout.width)]
    source: Any = os.path.abspath(path)
    if commas := layout.decimal == ",":  # NumPy knows points only: both marks are swapped, and swapped back in texts
        if layout.delimiter in ",.":
            return None
        file.seek(0)
        source = (line.decode("ascii").translate(_SWAPPED) for line in file)
    found = np.loadtxt(source, kinds, comments=None, delimiter=layout.delimiter, skiprows=layout.skip, ndmin=1)
    values = _stacked({j: found[f"{j}"] for j in layout.numbers}, layout)
    if len(found) == 0 or not all(np.isfinite(group).all() for group in values):
        return None
    runs = [_runs(found[f"{j}"]) for j in layout.texts]
    return values, [([cell.translate(_SWAPPED) for cell in cells], n) for cells, n in runs] if commas else runs


def _by_pandas(pandas: Any, path: FilePath, file: BinaryIO, layout: Layout) -> Found | None:
    width, numbers = layout.width, layout.numbers
    version = tuple(map(int, pandas.__version__.split(".")[:2]))
    mark, start = layout.delimiter.encode(), file.tell()
    first = file.readline().split(mark)
    if len(first) != width or not _short_cells(file, start):  # rows longer than the first are an error to pandas
        return None
    file.seek(start)
    if version < (3, 1) and not _plain(file, printable=False):  # it cuts cells at a NUL
        return None
    arrow = _module("pyarrow") if version >= (3, 0) and _module("pyarrow.compute") else None
    options: dict[str, Any] = {
        "sep": layout.delimiter,
        "decimal": layout.decimal,
        "header": None,
        "names": range(width),
        "index_col": False,
        "skiprows": layout.skip,
        "engine": "c",
        "quoting": 3,
        "compression": None,
        "skip_blank_lines": False,
    }
    if version < (3, 1):  # later ones always round correctly
        options["float_precision"] = "round_trip"
    # text is read faster where pandas finds out that it is text: 1.3 times from end to end (benchmarks.tables)
    kinds: dict[int, Any] = {j: np.float64 if j in numbers else object for j in range(width)}
    if arrow is not None:
        kinds = {j: kind for j, kind in kinds.items() if kind is np.float64 or _number_like(first[j])}
    # truth values in all rows of a part would be numbers: they count as missing, which nothing else does at first
    missing = _TRUTH
    while True:
        filters = {"keep_default_na": False, "na_values": dict.fromkeys(numbers, missing)}
        try:
            frame = pandas.read_csv(os.path.abspath(path), dtype=kinds, **options, **filters)
        except ValueError:
            if missing is _SPELLED:
                return None
            missing = _SPELLED
            continue
        texts = [j for j in range(width) if j not in numbers]
        if all(frame[j].dtype == kinds.get(j, "str") for j in texts):
            break
        kinds |= dict.fromkeys(texts, object)
    values = _stacked({j: frame[j].to_numpy() for j in numbers}, layout)
    holes = not all(np.isfinite(group).all() for group in values)
    if holes and (
        missing is _TRUTH or _has_truth_values(file, start) or any(np.isinf(group).any() for group in values)
    ):
        return None
    runs = {j: _runs(frame[j], arrow) for j in texts}
    if any('"' in text for cells, _ in runs.values() for text in cells):
        return None
    if "" in runs[width - 1][0] if width - 1 in runs else holes and bool(frame[width - 1].isna().any()):
        # a row that is too short ends with missing cells, as one that is complete may
        file.seek(start)
        marks = sum(block.count(mark) for block in iter(lambda: file.read(_BLOCK), b""))
        if width == 1 or marks != len(frame) * (width - 1):
            return None
    return values, [runs[j] for j in layout.texts]


def _plain(file: BinaryIO, printable: bool) -> bool:
    """Return whether all parsers see the same lines and cells in the rest of a file.

    No cell is quoted or holds a NUL, none is as long as the csv module refuses (a block would have no line end), and a
    carriage return never stands alone.
    """
    open_end = False
    while block := file.read(_BLOCK):
        if b'"' in block or b"\0" in block or (len(block) == _BLOCK and b"\n" not in block):
            return False
        if open_end and block[:1] != b"\n":
            return False
        open_end = block.endswith(b"\r")
        if b"\r" in block and block.count(b"\r") - block.count(b"\r\n") != open_end:
            return False
        if printable and block.translate(None, _PRINTABLE):
            return False
    return not open_end


def _short_cells(file: BinaryIO, start: int) -> bool:
    """Return whether every block has a line end, mostly from a look at its beginning."""
    for place in range(start, os.fstat(file.fileno()).st_size - _BLOCK + 1, _BLOCK):
        file.seek(place)
        if not any(b"\n" in file.read(size) for size in (_BLOCK >> 4, _BLOCK - (_BLOCK >> 4))):
            return False
    return True


def _has_truth_values(file: BinaryIO, start: int) -> bool:
    file.seek(start)
    return any(re.search(rb"[Tt]rue|TRUE|[Ff]alse|FALSE", line) for line in file)


def _number_like(cell: bytes) -> bool:
    try:
        float(cell)
    except ValueError:
        return cell.strip().lower() in (b"", b"true", b"false")
    return True


def _stacked(columns: dict[int, NDArray[np.float64]], layout: Layout) -> list[NDArray[np.float64]]:
    rows = len(next(iter(columns.values())))
    values = [np.empty((rows, len(group))) for group in layout.numeric]
    for group, into in zip(layout.numeric, values, strict=True):
        for k, j in enumerate(group):
            into[:, k] = columns[j]
    return values


def _runs(cells: Any, arrow: Any = None) -> Runs:
    """Return the runs of a column, an object array or a series of pandas."""
    if cells.dtype == object:
        cells = np.asarray(cells)
        starts = np.flatnonzero(np.append(True, cells[1:] != cells[:-1]))
        return cells[starts].tolist(), np.diff(starts, append=len(cells))
    found = cells.array.__arrow_array__()
    parts = found.chunks if isinstance(found, arrow.ChunkedArray) else [found]
    encoded = [arrow.compute.run_end_encode(part) for part in parts]
    lengths = [np.diff(part.run_ends.to_numpy(), prepend=0) for part in encoded]
    return [text for part in encoded for text in part.values.to_pylist()], np.concatenate(lengths)
