"""The residual part L2 of the likelihood (19)-(23): isotropic Gaussian noise outside the projection, above a floor."""

from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from manifoldseq.estimators import quoted

from ..families._family import Array

KINDS = ("closed", "bounded")
GRADIENTS = ("full", "simplified")


def residual_energy(U: Array, S: Array) -> float:
    """Return the sum of ``n' n`` (20) over rows with the second moment ``S = X' X``; U U' may differ from I.

    Parameters
    ----------
    U : ndarray of shape (M, D)
    S : ndarray of shape (D, D)

    Examples
    --------
    >>> import numpy as np
    >>> from manifoldseq_hope import residual_energy
    >>> residual_energy(np.eye(3)[:2], np.diag([5.0, 3.0, 2.0]))
    2.0
    """
    # n = (I - U'U) x (5): tr(S) - 2 tr(U S U') + tr(U S U' U U'), the last two alike where U U' = I
    signal = U @ S @ U.T
    return float(S.trace() - 2 * np.trace(signal) + np.sum(signal * (U @ U.T)))


@dataclass(frozen=True)
class Noise:
    """The estimate of the variance of the residual, and the term L2.

    Attributes
    ----------
    kind : float, "closed" or "bounded"
        A fixed variance, the closed form (23), or (23) limited to the smallest variance of z. With (23) alone, the
        projection of maximum likelihood may be a minor subspace; the limit excludes this, as in probabilistic PCA.
    floor : float
        The lower bound of the variance.
    gradient : {"full", "simplified"}
        ``"full"`` is (21), (22); ``"simplified"`` uses U U' = I in both (footnote 3): both agree only if the constraint
        holds.
    """

    kind: Any = "closed"
    floor: float = 0.0
    gradient: str = "full"

    def __post_init__(self) -> None:
        fixed = isinstance(self.kind, Real) and not isinstance(self.kind, bool) and 0 < float(self.kind) < np.inf
        if not fixed and not (isinstance(self.kind, str) and self.kind in KINDS):
            raise ValueError(
                f"noise_variance={quoted(self.kind)} is not valid: pass 'closed', 'bounded' or a number above zero"
            )
        if self.gradient not in GRADIENTS:
            raise ValueError(f"noise_gradient={quoted(self.gradient)} is not known: choose 'full' or 'simplified'")

    def variance(self, U: Array, S: Array, n: float) -> float:
        """Return sigma^2 of n rows with second moment S."""
        return self._variance(U, S, n)[0]

    def log_likelihood(self, U: Array, S: Array, n: float) -> float:
        """Return L2 with all its constants."""
        return self.value_and_gradient(U, S, n)[0]

    def value_and_gradient(
        self, U: Array, S: Array, n: float, whole: tuple[Array, float] | None = None
    ) -> tuple[float, Array]:
        """Return L2 (21) and its derivative by U (22), (M, D), including the dependence of the variance on U.

        For a batch, `whole` is the second moment and the number of all rows, which determine the variance.
        """
        M, D = U.shape
        if M == D:
            return 0.0, np.zeros_like(U)
        S_whole, n_whole = whole or (S, n)
        variance, bound = self._variance(U, S_whole, n_whole)
        energy, US = self._energy(U, S), U @ S
        value = -0.5 * n * (D - M) * np.log(2 * np.pi * variance) - 0.5 * energy / variance
        if self.gradient == "simplified":
            slope = US / variance
        else:
            slope = (2 * US - (U @ U.T) @ US - (US @ U.T) @ U) / variance
        if bound is not None:  # elsewhere (23) makes the derivative by the variance zero
            # sigma² = b' U S U' b / n with the eigenvector b: its derivative by U is 2 b b' U S / n
            by_variance = 0.5 * (energy / variance - n * (D - M)) / variance
            slope = slope + by_variance * 2 / n_whole * np.outer(bound, bound @ U @ S_whole)
        return float(value), slope

    def _energy(self, U: Array, S: Array) -> float:
        if self.gradient == "simplified":
            return float(S.trace() - np.sum((U @ S) * U))
        return residual_energy(U, S)

    def _variance(self, U: Array, S: Array, n: float) -> tuple[float, Array | None]:
        """Return sigma^2, and the eigenvector of the smallest variance of z if this variance is the bound."""
        M, D = U.shape
        if not isinstance(self.kind, str):
            return float(self.kind), None
        if M == D:
            return max(self.floor, np.finfo(float).tiny), None
        # (23), not above the least eigenvalue of the covariance of z if "bounded"
        variance, bound = self._energy(U, S) / (n * (D - M)), None
        if self.kind == "bounded":
            values, vectors = np.linalg.eigh(U @ S @ U.T / n)
            if values[0] < variance:
                variance, bound = float(values[0]), vectors[:, 0]
        least = max(self.floor, np.finfo(float).tiny)
        return (least, None) if variance < least else (variance, bound)
