"""Compare clusterings and classifiers with baselines on recorded and generated sequences.

Without an argument the development sets are measured, recorded and generated ones; `untouched` and `later` measure the
two other lists, on which nothing may be chosen. `clusterings`, `classifiers` and `verdicts` measure one of the
three parts alone.
"""

import argparse
import platform
import sys

import numpy as np

import manifoldseq as ms

from .._report import Report
from . import _classifiers, _clusterings, _verdicts
from ._sets import DEVELOPMENT, GENERATED, LATER, UNTOUCHED, Set

PARTS = {"clusterings": _clusterings.run, "classifiers": _classifiers.run, "verdicts": _verdicts.run}
LISTS: dict[str, tuple[Set, ...]] = {"untouched": UNTOUCHED, "later": LATER}


def main() -> int:
    """Measure the chosen sets and parts."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.real", description=__doc__)
    parser.add_argument("words", nargs="*", metavar="word", help=f"{', '.join([*LISTS, *PARTS])}, or names of sets")
    words = parser.parse_args().words
    lists = [sets for name, sets in LISTS.items() if name in words]
    sets: tuple[Set, ...] = sum(lists, ()) or DEVELOPMENT + GENERATED
    named = [word for word in words if word not in PARTS and word not in LISTS]
    if unknown := set(named) - {one.name for one in sets}:
        parser.error(f"unknown {unknown.pop()!r}: name a part, or one of {', '.join(one.name for one in sets)}")
    sets = tuple(one for one in sets if not named or one.name in named)
    with ms.execution.one_blas_thread():
        print(f"numpy {np.__version__}, Python {platform.python_version()}, one BLAS thread; CPU seconds\n")
        report = Report()
        for name, run in PARTS.items():
            if name in words or not set(words) & set(PARTS):
                run(report, sets)
    return report.summary()


if __name__ == "__main__":
    sys.exit(main())
