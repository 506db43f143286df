"""The parameters of a HOPE model: a projection and a mixture of one family."""

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from manifoldseq.objectives import Sums

from ..families._family import Array, Family, Parameters


@dataclass(frozen=True)
class Model:
    """A projection U with orthonormal rows, a mixture (7) of z = U x, and the variance of the residual.

    Attributes
    ----------
    U : ndarray of shape (M, D)
        The projection; its shape is (0, D) for models without a projection, where M is D.
    weights : ndarray of shape (K,)
    parameters : tuple
        The parameters of the family, with a leading axis of length K.
    family : Family
    normalize_z : bool
        Whether z is scaled to unit length (30).
    """

    U: Array
    weights: Array
    parameters: Parameters
    family: Family
    normalize_z: bool

    @property
    def M(self) -> int:
        """The dimension of z."""
        return len(self.U) or self.U.shape[1]

    @property
    def n_components(self) -> int:
        """K."""
        return len(self.weights)

    @property
    def point(self) -> tuple[Any, ...]:
        """The parameters as a point: U', the weights and the parameters of the family."""
        return (self.U.T, self.weights, *self.parameters)

    def at(self, point: tuple[Any, ...]) -> Self:
        """Return the model of the same kind at a point."""
        V, weights, *parameters = point
        return replace(self, U=np.asarray(V).T, weights=np.asarray(weights), parameters=tuple(parameters))


@dataclass(frozen=True)
class Data:
    """Rows and quantities that their likelihood needs in addition to sums over the rows.

    Attributes
    ----------
    X : ndarray of shape (N, D), or csr_array
    weight : ndarray of shape (N,) or None
    S : ndarray of shape (D, D) or Gram, or None
        X' X, weighted.
    n : float
        The sum of the weights.
    whole : (ndarray, float) or None
        For a batch: S and n of all rows.
    checked : bool
        Whether directions were checked.
    """

    X: Any
    weight: Array | None
    S: Any
    n: float
    whole: tuple[Array, float] | None = None
    checked: bool = False

    @property
    def energy(self) -> float:
        """The sum of the squares; the sum of the weights for rows without a second moment, which have unit length."""
        return self.n if self.S is None else float(self.S.trace())

    @property
    def mean_square(self) -> float:
        """The mean square of the entries."""
        return self.energy / (self.n * (self.X.shape[1] if self.X is not None else self.S.shape[0]))


@dataclass(frozen=True)
class Statistics(Sums):
    """The sums over rows in the E-step, in float64.

    Attributes
    ----------
    n : float
        The number of rows, or the sum of their weights.
    counts : ndarray of shape (K,)
        N_k, the sums of the responsibilities (31).
    sums : ndarray of shape (K, F)
        Sums of the responsibilities times t(z).
    slope : ndarray of shape (M, D) or None
        The derivative (28), (34) of L1 by U.
    log_likelihood : float
        L1 (24), (29).
    """

    n: float
    counts: Array
    sums: Array
    slope: Array | None
    log_likelihood: float
