"""The sections of a benchmark, its rows, interleaved timing, and where the reference problems are."""

import argparse
import importlib
import importlib.util
import os
import platform
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np

import manifoldseq as ms


def run_sections(package: str, sections: tuple[str, ...], about: str | None) -> int:
    """Run the sections named on the command line, modules ``_name`` of a package; return 1 if a target is missed."""
    parser = argparse.ArgumentParser(prog=f"python -m {package}", description=about)
    parser.add_argument("sections", nargs="*", metavar="section", help=f"any of {', '.join(sections)} (default: all)")
    chosen = parser.parse_args().sections or sections
    for name in chosen:
        if name not in sections:
            parser.error(f"unknown section {name!r}: choose from {', '.join(sections)}")
    with ms.execution.one_blas_thread():
        threads = ms.execution.blas_threads()
        print(f"numpy {np.__version__}, Python {platform.python_version()}, {threads} BLAS thread; CPU seconds;")
        print("ratios are medians of interleaved repetitions in this run; other load on the machine still moves them\n")
        report = Report()
        for name in chosen:
            importlib.import_module(f"{package}._{name}").run(report)
    return report.summary()


class Report:
    """Print rows as they are measured and remember which targets were missed, and what could not be measured."""

    def __init__(self) -> None:
        self.missed: list[str] = []
        self.skipped: list[str] = []
        self.rows: list[dict[str, object]] = []

    def row(
        self, what: str, value: float, form: str = ".3g", *, least: float | None = None, most: float | None = None
    ) -> None:
        """Print one figure; `least` or `most` is its target."""
        verdict = ""
        target = f">= {least:g}" if least is not None else f"<= {most:.7g}" if most is not None else ""
        if target:
            passed = (least is None or value >= least) and (most is None or value <= most)
            verdict = f"   {target}  {'pass' if passed else 'MISS'}"
            if not passed:
                self.missed.append(what)
        self.rows.append({"what": what, "value": float(value), "target": target})
        print(f"  {what:<86}{value:>12{form}}{verdict}", flush=True)

    def title(self, text: str) -> None:
        """Begin a section."""
        print(text, flush=True)

    def note(self, text: str) -> None:
        """Print a sentence."""
        print(f"  {text}", flush=True)

    def summary(self) -> int:
        """Print what was missed and return the exit status."""
        print(f"\nmissed: {'; '.join(self.missed)}" if self.missed else "\nevery target that was measured is reached")
        if self.skipped:
            print(f"not measured: {'; '.join(self.skipped)}")
        return int(bool(self.missed))

    def reference(self, name: str, section: str) -> ModuleType | None:
        """Load a reference file that is not part of the repository; say so if it is absent."""
        root = Path(__file__).resolve().parents[1]
        folder = Path(os.environ.get("MANIFOLDSEQ_REFERENCE", root.parent / "shared" / "reference"))
        path = folder / f"{name}.py"
        if not path.is_file():
            self.note(f"skipped: {path.name} is not there; set MANIFOLDSEQ_REFERENCE to the folder of the references")
            self.skipped.append(section)
            return None
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module


def interleaved(
    functions: dict[str, Callable[[], object]], repeat: int = 7, clock: Callable[[], float] = time.process_time
) -> dict[str, np.ndarray]:
    """Return the seconds of every function in every round; a round calls each once, after one warm-up.

    By default these are CPU seconds: on one thread those of an idle machine, which other processes disturb less.
    """
    seconds: dict[str, list[float]] = {name: [] for name in functions}
    for number in range(repeat + 1):
        for name, function in functions.items():
            start = clock()
            function()
            if number:
                seconds[name].append(clock() - start)
    return {name: np.array(values) for name, values in seconds.items()}
