"""A variable of a MATLAB file of either format."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

NUMERIC = frozenset(
    "double single int8 uint8 int16 uint16 int32 uint32 int64 uint64 logical".split()  # MATLAB's class names
)


@dataclass(frozen=True)
class Variable:
    """A variable of a file, not loaded yet: `load` returns an array, or the list of the arrays of a cell array."""

    kind: str
    shape: tuple[int, ...]
    load: Callable[[], NDArray[Any] | list[NDArray[Any]]]

    @property
    def holds_sequences(self) -> bool:
        """Whether it may be the sequences: a cell array, or numbers that are not a vector."""
        return self.kind == "cell" or (self.kind in NUMERIC and sum(n > 1 for n in self.shape) > 1)
