"""Measure the engine and its peers, and print one row per figure with its target."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from importlib import import_module, metadata, util
from pathlib import Path

import manifoldseq as ms

from .._report import Report
from . import _docs, _profile
from ._session import Session

SECTIONS = (
    *(
        "honesty",
        "race",
        "manifolds",
        "varied",
        "geometry",
        "default",
        "units",
        "iteration",
        "batch",
        "global",
        "hessian",
        "bounds",
        "constraints",
        "sqp",
        "least_squares",
        "feasible",
        "threads",
        "executors",
        "jax",
    ),
)
PACKAGES = ("numpy", "scipy", "pymanopt", "geoopt", "torch")


def main() -> int:
    """Run the named sections; exit with 1 if a target is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.engine", description=__doc__)
    parser.add_argument("sections", nargs="*", metavar="section", help=f"any of {', '.join(SECTIONS)} (default: all)")
    parser.add_argument("--quick", action="store_true", help="tiny problems, one round: a smoke run, not a measurement")
    parser.add_argument("-o", "--output", type=Path, default=Path("runs/bench-engine"), help="default: %(default)s")
    parser.add_argument("--docs", action="store_true", help="write table and figure of the race into docs/")
    arguments = parser.parse_args()
    chosen = arguments.sections or SECTIONS
    for name in chosen:
        if name not in SECTIONS:
            parser.error(f"unknown section {name!r}: choose from {', '.join(SECTIONS)}")
    if arguments.docs and (arguments.quick or "race" not in chosen):
        parser.error("--docs needs the whole race: drop --quick, and name no sections or race too")
    session = Session(Report(), arguments.quick)
    with ms.execution.one_blas_thread():
        about = f"{_versions()}; {ms.execution.blas_threads()} BLAS thread; {os.cpu_count()} cores"
        print(f"{about}, load {os.getloadavg()[0]:.1f} at the start")
        print("CPU seconds; ratios are medians of interleaved rounds, which other load on the machine still moves\n")
        for name in chosen:
            import_module(f"benchmarks.engine._{name}").run(session)
        print(f"\nload {os.getloadavg()[0]:.1f} at the end")
    arguments.output.mkdir(parents=True, exist_ok=True)
    measured = {"about": about, "rows": session.report.rows, "race": session.race}
    (arguments.output / "results.json").write_text(json.dumps(measured, indent=1), encoding="utf-8")
    if session.race:
        _profile.draw(session.race, arguments.output / "profile.png")
    if arguments.docs:
        _docs.update(session.race, about)
    status = session.report.summary()
    print(f"written: {arguments.output}")
    return status


def _versions() -> str:
    """Return the versions of what is compared; torch, if it is there, gets one thread as well."""
    if util.find_spec("torch"):
        import torch

        torch.set_num_threads(1)
    found = [f"{name} {metadata.version(name)}" for name in PACKAGES if util.find_spec(name)]
    return ", ".join([f"Python {platform.python_version()}", *found])


if __name__ == "__main__":
    sys.exit(main())
