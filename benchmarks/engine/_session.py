"""What the sections of one run share: the report, the size of the run, and the points that were returned."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .._report import Report
from ._measure import feasibility


@dataclass
class Session:
    """One run of the benchmark."""

    report: Report
    quick: bool
    off: dict[str, list[float]] = field(default_factory=lambda: {"float64": [], "float32": []})
    race: list[dict[str, Any]] = field(default_factory=list)

    @property
    def rounds(self) -> int:
        """How often a comparison is repeated at least."""
        return 1 if self.quick else 5

    def returned(self, manifold: Any, x: Any, dtype: str = "float64") -> None:
        """Remember how far a point that one of our solvers returned is off its manifold."""
        self.off[dtype].append(feasibility(manifold, x))
