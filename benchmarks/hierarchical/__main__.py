"""Run the benchmark's sections and print one row per figure, with its target."""

import sys

from .._report import run_sections

SECTIONS = ("accuracy", "coordinates", "solvers", "labels", "clustering", "metric", "match", "ways", "stream")

if __name__ == "__main__":
    sys.exit(run_sections("benchmarks.hierarchical", SECTIONS, __doc__))
