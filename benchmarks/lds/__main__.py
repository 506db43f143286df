"""Run the benchmark's sections and print one row per figure, with its target."""

import sys

from .._report import run_sections

if __name__ == "__main__":
    sys.exit(
        run_sections(
            "benchmarks.lds",
            ("pairs", "memory", "mean", "solvers", "compression", "epoch", "gradient", "purity", "identification"),
            __doc__,
        )
    )
