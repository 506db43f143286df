"""A trick of speed: what takes its place, and what is measured with either."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from typing import Any
from unittest import mock

import numpy as np

from .._report import Report, interleaved


@dataclass(frozen=True)
class Trick:
    """One trick.

    Attributes
    ----------
    plain : tuple of context managers
        Inside all of them plain code runs; entered anew in every round.
    work : dict of str to callable
        What a user calls, by what it is.
    """

    plain: tuple[AbstractContextManager[Any], ...]
    work: dict[str, Callable[[], object]]

    def run(self, report: Report, rounds: int) -> None:
        """Print the CPU milliseconds of each piece of work, and how many times as long it takes without the trick."""
        for what, work in self.work.items():

            def without(work: Callable[[], object] = work) -> None:
                with ExitStack() as stack:
                    for change in self.plain:
                        stack.enter_context(change)
                    work()

            seconds = interleaved({"with": work, "without": without}, rounds)
            ratio = seconds["without"] / seconds["with"]
            low, middle, high = np.quantile(ratio, (0.25, 0.5, 0.75))
            report.row(f"{what}: times as long without", float(middle), ".2f")
            report.note(f"  quartiles {low:.2f} and {high:.2f}; {1e3 * np.median(seconds['with']):.0f} ms with it")


def replaced(owner: Any, **plain: Any) -> AbstractContextManager[Any]:
    """Return a context in which attributes of an object are others."""
    return mock.patch.multiple(owner, **plain)
