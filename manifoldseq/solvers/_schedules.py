"""Schedules of step sizes."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from numbers import Real

from ._base import positive_numbers, whole_numbers


class Schedule(ABC):
    """The step size as a function of the iteration number; a subclass is a frozen dataclass.

    Solvers that accept a schedule accept a number as a constant step size.

    Examples
    --------
    A user-defined schedule:

    >>> import dataclasses, manifoldseq as ms
    >>> @dataclasses.dataclass(frozen=True)
    ... class WarmUp(ms.solvers.Schedule):
    ...     steps: int
    ...     def rate(self, k):
    ...         return 0.1 * min(1.0, (k + 1) / self.steps)
    >>> ms.solvers.SGD(step_size=WarmUp(10)).step_size.rate(4)
    0.05
    """

    @abstractmethod
    def rate(self, k: int) -> float:
        """Return the step size of iteration `k`, counted from 0."""


@dataclass(frozen=True)
class InverseTime(Schedule):
    """Decay as ``first / (1 + k / delay)``: the sum of the steps is infinite, the sum of their squares finite.

    Parameters
    ----------
    first : float
    delay : float
        Number of iterations after which the step size is half of the first.

    Examples
    --------
    >>> import manifoldseq as ms
    >>> ms.solvers.InverseTime(0.1, delay=100).rate(100)
    0.05
    """

    first: float
    delay: float = 100.0

    def __post_init__(self) -> None:
        positive_numbers("InverseTime", first=self.first, delay=self.delay)

    def rate(self, k: int) -> float:
        """Return the step size of iteration `k`."""
        return self.first / (1 + k / self.delay)


@dataclass(frozen=True)
class Cosine(Schedule):
    """Decrease from the first step size to the last along half a cosine wave, then stay constant.

    Parameters
    ----------
    first : float
    steps : int
        Number of iterations until the last step size.
    last : float

    References
    ----------
    Loshchilov, Hutter, "SGDR: stochastic gradient descent with warm restarts", ICLR 2017, equation (5), one period.

    Examples
    --------
    >>> import manifoldseq as ms
    >>> [round(ms.solvers.Cosine(0.1, steps=10).rate(k), 3) for k in (0, 5, 10, 20)]
    [0.1, 0.05, 0.0, 0.0]
    """

    first: float
    steps: int
    last: float = 0.0

    def __post_init__(self) -> None:
        positive_numbers("Cosine", first=self.first)
        whole_numbers("Cosine", steps=self.steps)
        if not (isinstance(self.last, Real) and 0 <= self.last <= self.first):
            raise ValueError(f"Cosine(last={self.last!r}): last must lie between 0 and first={self.first!r}")

    def rate(self, k: int) -> float:
        """Return the step size of iteration `k`."""
        return self.last + 0.5 * (self.first - self.last) * (1 + math.cos(math.pi * min(k / self.steps, 1.0)))


@dataclass(frozen=True)
class Halving(Schedule):
    """Halve the step size every `every` iterations.

    Parameters
    ----------
    first : float
    every : int

    Examples
    --------
    >>> import manifoldseq as ms
    >>> ms.solvers.Halving(0.8, every=100).rate(250)
    0.2
    """

    first: float
    every: int = 100

    def __post_init__(self) -> None:
        positive_numbers("Halving", first=self.first)
        whole_numbers("Halving", every=self.every)

    def rate(self, k: int) -> float:
        """Return the step size of iteration `k`."""
        return self.first * 0.5 ** (k // self.every)


def rate_at(step_size: float | Schedule, k: int) -> float:
    """Return the step size of iteration `k` of a schedule, or the constant."""
    return step_size.rate(k) if isinstance(step_size, Schedule) else float(step_size)
