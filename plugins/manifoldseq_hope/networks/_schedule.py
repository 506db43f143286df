"""Training settings: learning rates (42), momentum (43), decay, dropout and orthogonality."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import manifoldseq as ms
from manifoldseq.estimators import check_choice, check_number, check_whole, quoted

_ON_STIEFEL = ("polar", "qr")
OF_HOPE = (*_ON_STIEFEL, "penalty")
"""Methods that keep the rows of a HOPE layer orthonormal, exactly or approximately."""
ORTHOGONALITIES = (*OF_HOPE, None)
CRITERIA = ("softmax", "eta")


@dataclass(frozen=True)
class Exponential(ms.solvers.Schedule):
    """Decay as ``first * factor^k`` (42).

    Parameters
    ----------
    first : float
    factor : float
        At most 1.

    Examples
    --------
    >>> from manifoldseq_hope import Exponential
    >>> round(Exponential(0.1, 0.998).rate(50), 4)
    0.0905
    """

    first: float
    factor: float = 0.998

    def __post_init__(self) -> None:
        check_number("first", self.first)
        check_number("factor", self.factor, 0.0, 1.0)

    def rate(self, k: int) -> float:
        """Return the rate of epoch `k`."""
        return self.first * self.factor**k


@dataclass(frozen=True)
class Ramp(ms.solvers.Schedule):
    """Change linearly from the first value to the last over a number of epochs, then stay constant (43).

    Parameters
    ----------
    first, last : float
    epochs : int
        T.

    Examples
    --------
    >>> from manifoldseq_hope import Ramp
    >>> [round(Ramp(0.5, 0.99, 50).rate(k), 3) for k in (0, 25, 50, 80)]
    [0.5, 0.745, 0.99, 0.99]
    """

    first: float
    last: float
    epochs: int

    def __post_init__(self) -> None:
        check_number("first", self.first, 0.0, 1.0)
        check_number("last", self.last, 0.0, 1.0)
        check_whole("epochs", self.epochs)

    def rate(self, k: int) -> float:
        """Return the momentum of epoch `k`."""
        share = min(k / self.epochs, 1.0)
        return share * self.last + (1 - share) * self.first


@dataclass(frozen=True)
class ReduceOnPlateau:
    """Keep the rate while the error on validation rows decreases, then halve it in every epoch until training ends.

    Parameters
    ----------
    first : float
    factor : float
        The factor by which the rate is reduced, below 1.
    tol : float
        Training ends when the error (%) decreases by less than `tol` in two consecutive epochs with lowered rates.

    References
    ----------
    Zhang, Jiang, section 6.2: initial rate 0.004, factor 1/2, tolerance 0.1 %.

    Examples
    --------
    >>> from manifoldseq_hope import ReduceOnPlateau
    >>> schedule = ReduceOnPlateau(0.08)
    >>> schedule.rate([60.0, 50.0, 45.0]), schedule.rate([60.0, 50.0, 51.0]), schedule.rate([60.0, 50.0, 51.0, 48.0])
    (0.08, 0.04, 0.02)
    >>> schedule.ended([60.0, 50.0, 51.0, 48.0]), schedule.ended([60.0, 50.0, 51.0, 48.0, 48.0, 47.95])
    (False, True)
    """

    first: float
    factor: float = 0.5
    tol: float = 0.1

    def __post_init__(self) -> None:
        check_number("first", self.first, open_=True)
        check_number("factor", self.factor, 0.0, 0.999, open_=True)
        check_number("tol", self.tol)

    def rate(self, errors: Sequence[float]) -> float:
        """Return the rate of the next epoch from the errors (%) at the start and after every previous epoch."""
        return self.first * self.factor ** self._lowered(errors)

    def ended(self, errors: Sequence[float]) -> bool:
        """Return whether training is over."""
        last = errors[-3:]
        return self._lowered(errors) > 2 and all(a - b < self.tol for a, b in pairwise(last))

    @staticmethod
    def _lowered(errors: Sequence[float]) -> int:
        """Return the number of reductions: one per epoch, beginning with the first epoch without improvement."""
        for place in range(1, len(errors)):
            if not errors[place] < errors[place - 1]:
                return len(errors) - place
        return 0


@dataclass(frozen=True)
class Training:
    """The settings of training; see `HOPENetworkClassifier`."""

    rate: ms.solvers.Schedule | ReduceOnPlateau
    momentum: ms.solvers.Schedule
    batch_size: int = 100
    orthogonality: str | None = "polar"
    beta: float = 0.01
    weight_decay: float = 1e-5
    dropout: tuple[float, float] = (0.0, 0.0)
    criterion: str | Callable[[Any, Any], Any] = "softmax"

    def __post_init__(self) -> None:
        check_whole("batch_size", self.batch_size)
        check_choice("orthogonality", self.orthogonality, ORTHOGONALITIES)
        check_number("beta", self.beta)
        check_number("weight_decay", self.weight_decay)
        good = isinstance(self.dropout, tuple | list) and len(self.dropout) == 2
        if not good:
            raise ValueError(
                f"dropout={quoted(self.dropout)} is not valid: pass two numbers, for the inputs and for hidden units"
            )
        for value in self.dropout:
            check_number("dropout", value, 0.0, 0.99)
        if not callable(self.criterion):
            check_choice("criterion", self.criterion, CRITERIA)

    @property
    def on_stiefel(self) -> bool:
        """Whether projections stay orthonormal in every step."""
        return self.orthogonality in _ON_STIEFEL
