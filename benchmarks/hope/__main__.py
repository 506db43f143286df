"""Run the benchmark's sections and print one row per figure, with its target."""

import sys

from .._report import run_sections

SECTIONS = (
    "accuracy",
    "sweep",
    "mixture",
    "small",
    "text",
    "density",
    "dimension",
    "patches",
    "features",
    "vectors",
    "digits",
    "finetune",
    "network",
    "orthogonal",
)

if __name__ == "__main__":
    sys.exit(run_sections("benchmarks.hope", SECTIONS, __doc__))
