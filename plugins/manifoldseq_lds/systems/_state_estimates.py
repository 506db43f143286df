"""States and outputs of sequences with their covariances, from the Kalman filter and smoother."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating[Any]]


@dataclass(frozen=True, eq=False)
class StateEstimates:
    """Estimated states of N sequences given their recorded values, as returned by `LDSIdentifier.filter` and `smooth`.

    Attributes
    ----------
    means : list of ndarray of shape (T_i - delay + 1, n)
        Means of the states.
    covariances : list of ndarray of shape (T_i - delay + 1, n, n)
    outputs : list of ndarray of shape (T_i, d)
        The expected outputs in the units of the sequences: a prediction for missing values, and the signal without
        noise for recorded values.
    output_std : list of ndarray of shape (T_i, d)
        Standard deviations of a new recording around the expected outputs, including output noise.
    log_likelihood : ndarray of shape (N,)
        As `LDSIdentifier.log_likelihood`.
    """

    means: list[Array]
    covariances: list[Array]
    outputs: list[Array]
    output_std: list[Array]
    log_likelihood: Array

    def __len__(self) -> int:
        return len(self.means)
