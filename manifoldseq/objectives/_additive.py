"""Objectives of statistics that are sums over rows, and closed-form block updates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, Self

from ..execution import RowBlocks
from ._memo import last_point


@dataclass(frozen=True)
class BlockUpdate:
    """A closed-form update of some factors of a point that never increases the value.

    Attributes
    ----------
    name : str
    factors : tuple of str
        The factors that ``apply`` replaces; the others keep their arrays.
    apply : callable
        ``apply(point) -> point``.
    """

    name: str
    factors: tuple[str, ...]
    apply: Callable[[Any], Any]


@dataclass(frozen=True)
class Sums:
    """Abstract base class of statistics: a frozen dataclass of numbers and arrays that add over rows.

    A field ``n``, the number of rows or the sum of their weights, is required. A field that is None is ignored in sums.
    Override `mixed` for a field that is not a sum, such as the row with the smallest density.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> import manifoldseq as ms
    >>> @dataclass(frozen=True)
    ... class Moments(ms.objectives.Sums):
    ...     n: float
    ...     total: float
    >>> both = Moments(2.0, 3.0) + Moments(1.0, 6.0)
    >>> both, both.per_row()
    (Moments(n=3.0, total=9.0), Moments(n=1.0, total=3.0))
    """

    def __add__(self, other: Self) -> Self:
        return self._with(other, lambda a, b: a + b)

    def mixed(self, batch: Self, share: float) -> Self:
        """Return ``(1 - share) self + share batch``; a field that is None in one of the two is taken from the other."""
        return self._with(batch, lambda a, b: a + share * (b - a))

    def per_row(self) -> Self:
        """Return the means over the rows, whose `n` is one."""
        n = self.n  # type: ignore[attr-defined]  # a field of every subclass
        return self._with(self, lambda a, _: a / n)

    def state(self) -> dict[str, Any]:
        """Return the fields by name, for the state of a solver."""
        return {one.name: getattr(self, one.name) for one in fields(self)}

    def _with(self, other: Self, of: Callable[[Any, Any], Any]) -> Self:
        made = {}
        for one in fields(self):
            a, b = getattr(self, one.name), getattr(other, one.name)
            made[one.name] = b if a is None else a if b is None else of(a, b)
        return type(self)(**made)


@dataclass(frozen=True)
class Additive:
    """The interface between solvers and an objective whose data enter through sums over blocks of rows.

    Attributes
    ----------
    blocks : RowBlocks
        The rows.
    of_block : callable
        ``of_block(point, block) -> sums`` for the rows of one block.
    sums : callable
        ``sums(point)`` for all blocks, added in the order of the blocks on every executor. The sums of the last point
        are cached.
    value : callable
        ``value(point, sums)``, a mean over the rows that the sums contain.
    damped : tuple of BlockUpdate
        ``apply(point, sums, damping)`` decreases the value if the damping is large enough; 1 is the usual damping.
    plain : tuple of BlockUpdate
        ``apply(point, sums)`` never increases the value.
    carry : callable, optional
        ``carry(old, new, sums) -> sums`` transforms the running sums when the point changes.
    units : callable, optional
        ``units(point) -> chart`` or None, see `manifoldseq.hooks.ModelSpec`. The chart of the last point is cached.
    repair : callable, optional
        ``repair(point, sums, tried) -> (k, point)`` or None restarts a component that has collapsed. It is called once
        for every component k; `tried` of shape (K,) marks the components for which it was called before.
    """

    blocks: RowBlocks
    of_block: Callable[[Any, Any], Any]
    sums: Callable[[Any], Any]
    value: Callable[[Any, Any], float]
    damped: tuple[BlockUpdate, ...] = ()
    plain: tuple[BlockUpdate, ...] = ()
    carry: Callable[[Any, Any, Any], Any] | None = None
    units: Callable[[Any], Any] | None = None
    repair: Callable[[Any, Any, Any], Any] | None = None

    @classmethod
    def of(
        cls,
        blocks: RowBlocks,
        of_block: Callable[[Any, Any], Any],
        *,
        units: Callable[[Any, Any], Any] | None = None,
        **parts: Any,
    ) -> Additive:
        """Return the record with sums over all blocks, from ``units(point, sums) -> chart`` and the other parts."""
        sums = last_point(_Summed(blocks, of_block))
        at_point = None if units is None else last_point(partial(_from_sums, units, sums))
        return cls(blocks, of_block, sums, units=at_point, **parts)

    def batch(self, point: Any, rows: Any) -> Any:
        """Return the sums over some rows, given by their numbers."""
        return self.of_block(point, self.blocks.take(rows))


def _from_sums(part: Callable[[Any, Any], Any], sums: Callable[[Any], Any], point: Any) -> Any:
    return part(point, sums(point))


@dataclass(frozen=True)
class _Summed:
    blocks: RowBlocks
    of_block: Callable[[Any, Any], Any]

    def __call__(self, point: Any) -> Any:
        sums = self.blocks.sum(self.of_block, point)
        if not hasattr(sums, "n"):
            raise TypeError(
                f"statistics returned {type(sums).__name__}: return a dataclass based on manifoldseq.objectives.Sums, "
                "whose field n is the number of rows"
            )
        return sums
