"""Run the benchmark's sections and print one row per figure, with its target."""

import argparse
import platform
import sys
from importlib import import_module

import numpy as np

import manifoldseq as ms

from ._report import Report

SECTIONS = ("pairs", "mean", "epoch", "gradient", "purity")


def main() -> int:
    """Run the named sections; exit with 1 if a target is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.lds", description=__doc__)
    parser.add_argument("sections", nargs="*", metavar="section", help=f"any of {', '.join(SECTIONS)} (default: all)")
    chosen = parser.parse_args().sections or SECTIONS
    for name in chosen:
        if name not in SECTIONS:
            parser.error(f"unknown section {name!r}: choose from {', '.join(SECTIONS)}")
    with ms.execution.one_blas_thread():
        threads = ms.execution.blas_threads()
        print(f"numpy {np.__version__}, Python {platform.python_version()}, {threads} BLAS thread; CPU seconds;")
        print("ratios are medians of interleaved repetitions in this run; other load on the machine still moves them\n")
        report = Report()
        for name in chosen:
            import_module(f"benchmarks.lds._{name}").run(report)
    return report.summary()


if __name__ == "__main__":
    sys.exit(main())
