"""Rows of the benchmark, interleaved timing, and where the reference problems are."""

import importlib.util
import os
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np


class Report:
    """Print rows as they are measured and remember which targets were missed, and what could not be measured."""

    def __init__(self) -> None:
        self.missed: list[str] = []
        self.skipped: list[str] = []

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
        root = Path(__file__).resolve().parents[2]
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


def interleaved(functions: dict[str, Callable[[], object]], repeat: int = 7) -> dict[str, np.ndarray]:
    """Return the CPU seconds of every function in every round; a round calls each once, after one warm-up.

    On one thread these are the seconds of an idle machine; other processes disturb them less.
    """
    seconds: dict[str, list[float]] = {name: [] for name in functions}
    for number in range(repeat + 1):
        for name, function in functions.items():
            start = time.process_time()
            function()
            if number:
                seconds[name].append(time.process_time() - start)
    return {name: np.array(values) for name, values in seconds.items()}
