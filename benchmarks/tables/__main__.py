"""Read tables of text, and print the time compared with that of ``pandas.read_csv`` with exact decimal values."""

import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import manifoldseq as ms

from .._report import Report, interleaved

SEQUENCES, STEPS, CHANNELS = 300, 1000, 3
COLUMNS = 20_000
MOST, MOST_WIDE = 1.3, 3.0
"""Times as long as pandas takes, at most, of many rows and of many columns."""
OLD = tuple(map(int, pd.__version__.split(".")[:2])) < (3, 1)
EXACT: dict[str, Any] = {"float_precision": "round_trip"} if OLD else {}  # later ones always round correctly


def tables(folder: Path) -> Iterator[tuple[str, Path]]:
    """Write tables with and without text, of numbers with few digits and with all of them."""
    rng = np.random.default_rng(0)
    x = 10 * rng.standard_normal((SEQUENCES * STEPS, CHANNELS))
    i, t = np.divmod(np.arange(len(x)), STEPS)
    kinds = np.array(["slow", "normal", "fast"])[i % 3]
    digits: dict[str, Callable[[float], str]] = {
        "3 digits": "{:.3f}".format,
        "all digits": repr,
        "%.18e": "{:.18e}".format,
    }
    for name, form in digits.items():
        cells = [",".join(map(form, row)) for row in np.column_stack([t / 100, x]).tolist()]
        numbers = (f"{a},{row}" for a, row in zip(i.tolist(), cells, strict=True))
        yield f"numbers, {name}", _write(folder / "numbers.csv", "id,time,x,y,z", numbers)
        texts = (f"S{a:03d}_trial,{row},{b}" for a, row, b in zip(i.tolist(), cells, kinds, strict=True))
        yield f"ids, numbers and labels, {name}", _write(folder / "texts.csv", "id,time,x,y,z,label", texts)


def _write(path: Path, header: str, rows: Iterator[str]) -> Path:
    path.write_text("\n".join([header, *rows, ""]))
    return path


def wide(folder: Path) -> Path:
    """Write a table of two rows and 20,000 columns."""
    x = np.random.default_rng(0).standard_normal((2, COLUMNS)).tolist()
    header = ",".join(f"c{j}" for j in range(COLUMNS))
    return _write(folder / "wide.csv", header, (",".join(map(repr, row)) for row in x))


def main() -> int:
    """Print one row per table; return 1 if a target is missed."""
    warnings.simplefilter("ignore")
    report = Report()
    print(f"pandas {pd.__version__}, NumPy {np.__version__}; CPU seconds, medians of interleaved rounds\n")
    with tempfile.TemporaryDirectory() as folder:
        for name, path in tables(Path(folder)):
            _compare(report, name, path, MOST)
        _compare(report, "20,000 columns, 2 rows", wide(Path(folder)), MOST_WIDE, id=None, time=None)
    return report.summary()


def _compare(report: Report, name: str, path: Path, most: float, **options: None) -> None:
    readers = {
        "pandas": lambda: pd.read_csv(path, **EXACT),
        "read_csv": lambda: ms.storage.read_csv(path, **options),
    }
    seconds = interleaved(readers, repeat=9)
    report.title(f"{name}: {path.stat().st_size / 1e6:.0f} MB, pandas.read_csv {np.median(seconds['pandas']):.3f} s")
    report.row("read_csv, times", float(np.median(seconds["read_csv"] / seconds["pandas"])), ".2f", most=most)


if __name__ == "__main__":
    sys.exit(main())
