"""Robust losses of least squares, as functions of the squared norm of a residual."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from .._checks import check_positive


@dataclass(frozen=True)
class Loss(ABC):
    """A function ρ of the squared norm s of a weighted residual, with ρ(s) ≈ s near zero.

    A least-squares objective is ``½ Σ ρ(‖rₖ‖²)``. A subclass implements :meth:`of`.

    Parameters
    ----------
    scale : float
        The norm of a weighted residual above which the loss is smaller than the squared norm. It is a number of
        standard deviations if the weights are inverse standard deviations.

    Examples
    --------
    >>> import numpy as np, manifoldseq as ms
    >>> value, weight = ms.losses.Huber(2.0)(np.array([1.0, 100.0]))
    >>> value.tolist(), weight.tolist()
    ([1.0, 36.0], [1.0, 0.2])
    """

    scale: float = 1.0

    def __post_init__(self) -> None:
        check_positive(f"{type(self).__name__}: scale", self.scale)

    def __call__(self, s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return ρ(s) and the weight ρ'(s) of reweighted least squares."""
        value, weight = self.of(s / self.scale**2)
        return self.scale**2 * value, weight

    @abstractmethod
    def of(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return ρ and ρ' of the loss with scale one."""

    def widened(self, factor: float) -> Self:
        """Return the loss with its scale multiplied by a factor."""
        return replace(self, scale=self.scale * factor)


class Squared(Loss):
    """ρ(s) = s: ordinary least squares. The scale has no effect."""

    def of(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return z, np.ones_like(z)


class Huber(Loss):
    """A convex loss: quadratic up to the scale c, and ρ(s) = 2c√s − c² above it (linear in the norm)."""

    def of(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        root = np.sqrt(np.maximum(z, 1.0))
        return np.where(z > 1, 2 * root - 1, z), 1 / root


class Cauchy(Loss):
    """ρ(s) = c² log(1 + s/c²), the negative log-likelihood of a Cauchy distribution."""

    def of(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.log1p(z), 1 / (1 + z)


class GemanMcClure(Loss):
    """ρ(s) = c² s/(c² + s), which is bounded by c²: gross errors have almost no influence."""

    def of(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return z / (1 + z), 1 / (1 + z) ** 2


class Welsch(Loss):
    """ρ(s) = c² (1 − exp(−s/c²)), which is bounded by c²."""

    def of(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        weight = np.exp(-z)
        return -np.expm1(-z), weight


class Truncated(Loss):
    """ρ(s) = min(s, c²): a residual longer than the scale is an outlier and has no influence."""

    def of(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.minimum(z, 1.0), (z <= 1).astype(z.dtype)


@dataclass(frozen=True)
class Graduated(GemanMcClure):
    """The loss of Geman and McClure, which ``solver="lm"`` approaches by graduated non-convexity; ``loss="gnc"``.

    The first steps minimize the loss with a scale so large that it is nearly quadratic. The scale decreases by a factor
    of √1.4 with every step until it equals the scale of the loss. With many outliers, or with a start far from the
    solution, fewer runs end in a wrong local minimum than with the loss itself. Other solvers minimize the loss without
    these steps.

    References
    ----------
    Yang, Antonante, Tzoumas, Carlone, "Graduated non-convexity for robust spatial perception", 2020.
    """

    scale: float = 3.0

    def first(self, largest: float) -> float:
        """Return the factor of the first scale, for the largest squared norm of a residual at the start."""
        return max(1.0, math.sqrt(2 * largest) / self.scale)


GRADUATION = math.sqrt(1.4)
"""The scale is divided by this in every step (Yang et al. 2020: μ is divided by 1.4)."""


def loss_of(given: Loss | str | None, scale: float | None = None) -> Loss:
    """Return the loss with a name, with its default scale unless a scale is given."""
    if given is None:
        return Squared()
    if isinstance(given, Loss):
        return given
    known = {
        "squared": Squared, "huber": Huber, "cauchy": Cauchy, "geman-mcclure": GemanMcClure, "welsch": Welsch,
        "truncated": Truncated, "gnc": Graduated,
    }  # fmt: skip
    if not isinstance(given, str) or given not in known:
        raise ValueError(
            f"loss={given!r}: use one of {', '.join(map(repr, known))}, or a loss such as ms.losses.Cauchy(3)"
        )
    return known[given]() if scale is None else known[given](scale)
