"""Run the benchmark's sections and print one row per figure, with its target."""

import sys

from .._report import run_sections

SECTIONS = (
    "pairs",
    "memory",
    "mean",
    "stable",
    "solvers",
    "compression",
    "epoch",
    "starts",
    "dictionary",
    "codes",
    "gradient",
    "purity",
    "identification",
    "output_noise",
    "controls",
    "choice",
    "settings",
    "dynamics",
    "svm",
)

if __name__ == "__main__":
    sys.exit(run_sections("benchmarks.lds", SECTIONS, __doc__))
