"""Run the benchmark's sections and print one row per figure, with its target."""

import sys

from .._report import run_sections

SECTIONS = ("iteration", "one_component", "stream", "fisher", "imputation", "private")

if __name__ == "__main__":
    sys.exit(run_sections("benchmarks.mpcca", SECTIONS, __doc__))
