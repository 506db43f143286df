"""Measure each trick of speed against plain code, end to end: CPU seconds in interleaved rounds on one BLAS thread."""

from __future__ import annotations

import argparse
import sys
from importlib import import_module

import manifoldseq as ms

from .._report import Report

TRICKS = {
    "dot": "_engine",
    "polar": "_engine",
    "gemm": "_engine",
    "qr": "_engine",
    "responsibilities": "_hope",
    "denormal": "_hope",
    "rectify": "_hope",
    "pool": "_hope",
    "cut": "_hope",
    "rows": "_hope",
    "skip": "_hope",
    "series": "_hope",
    "pairs": "_models",
    "wide": "_models",
    "gram": "_models",
    "assign": "_models",
    "blocks": "_models",
    "leading": "_models",
}
"""For each trick, the file with the function of its name that returns it; a comment in the code has this name too."""


def main() -> int:
    """Measure the named tricks."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tricks", description=__doc__)
    parser.add_argument("tricks", nargs="*", metavar="trick", help=f"any of {', '.join(TRICKS)} (default: all)")
    parser.add_argument("--rounds", type=int, default=9, help="default: %(default)s")
    arguments = parser.parse_args()
    report = Report()
    for name in arguments.tricks or TRICKS:
        if name not in TRICKS:
            parser.error(f"unknown trick {name!r}: choose from {', '.join(TRICKS)}")
        with ms.execution.one_blas_thread():
            trick = getattr(import_module(f"benchmarks.tricks.{TRICKS[name]}"), name)()
            report.title(name)
            trick.run(report, arguments.rounds)
    return report.summary()


if __name__ == "__main__":
    sys.exit(main())
