"""Read tables of text with pandas, with NumPy and cell by cell, and print the time beside plain ``pandas.read_csv``."""

import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import numpy as np
import pandas as pd

import manifoldseq as ms
from manifoldseq.storage.readers import _csv

from .._report import Report, interleaved

SEQUENCES, STEPS, CHANNELS = 300, 1000, 3
WITH, WITHOUT = 1.3, 5.0
"""Times as long as pandas takes, at most, where it is installed and where it is not."""


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


@contextmanager
def without_pandas() -> Iterator[None]:
    """Let readers find no pandas."""
    with mock.patch.dict(sys.modules, {"pandas": None}):
        yield


def main() -> int:
    """Print one row per table and parser; return 1 if a target is missed."""
    warnings.simplefilter("ignore")
    report = Report()
    print(f"pandas {pd.__version__}, NumPy {np.__version__}; CPU seconds, medians of interleaved rounds\n")
    with tempfile.TemporaryDirectory() as folder:
        for name, path in tables(Path(folder)):

            def numpy(path: Path = path) -> None:
                with without_pandas():
                    ms.storage.read_csv(path)

            def cells(path: Path = path) -> None:
                with mock.patch.object(_csv, "plain_table", lambda path, layout: None):
                    ms.storage.read_csv(path)

            readers = {
                "pandas": lambda path=path: pd.read_csv(path),
                "with pandas": lambda path=path: ms.storage.read_csv(path),
                "without": numpy,
                "cells": cells,
            }
            seconds = interleaved(readers, repeat=9)
            plain = seconds.pop("pandas")
            report.title(f"{name}: {path.stat().st_size / 1e6:.0f} MB, pandas.read_csv {np.median(plain):.3f} s")
            for how, most in ("with pandas", WITH), ("without", WITHOUT), ("cells", None):
                report.row(f"read_csv, {how}, times", float(np.median(seconds[how] / plain)), ".2f", most=most)
    return report.summary()


if __name__ == "__main__":
    sys.exit(main())
