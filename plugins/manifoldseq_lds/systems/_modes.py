"""The modes of systems: frequency, damping and shape of each eigenvalue of the transition matrix."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manifoldseq.estimators import quoted

from ._record import Systems

Array = NDArray[np.floating[Any]]
Complex = NDArray[np.complex128]


@dataclass(frozen=True, eq=False)
class Modes:
    """The modes of N systems, as `modes` returns them; the slowest oscillation last, conjugate pairs side by side.

    Attributes
    ----------
    eigenvalues : ndarray of shape (N, n), complex
        Of A: a mode is multiplied by its eigenvalue in each step.
    frequencies : ndarray of shape (N, n)
        ``|angle| / 2 pi`` times the sampling rate: Hz, or cycles per step without a rate.
    damping_ratios : ndarray of shape (N, n)
        ``-ln|z| / |ln z|``, between 0 (a mode that goes on for ever) and 1 (no oscillation).
    decay_times : ndarray of shape (N, n)
        Seconds (steps without a rate) after which ``1/e`` of a mode is left; 0 where the eigenvalue is 0.
    shapes : ndarray of shape (N, m, n), complex
        ``C`` times the eigenvectors, of unit length: how much each output takes part, and at which phase.
    """

    eigenvalues: Complex
    frequencies: Array
    damping_ratios: Array
    decay_times: Array
    shapes: Complex


def modes(systems: Systems, sampling_rate: float | None = None) -> Modes:
    """Return the frequency, damping and shape of each mode of systems.

    Parameters
    ----------
    systems : Systems
    sampling_rate : float, optional
        Time steps per second.

    Returns
    -------
    Modes
        Sorted by descending frequency.

    Raises
    ------
    ValueError
        If the sampling rate is not positive.

    Examples
    --------
    >>> import numpy as np
    >>> turn = 0.9 * np.array([[np.cos(0.2), -np.sin(0.2)], [np.sin(0.2), np.cos(0.2)]])
    >>> found = modes(Systems(A=[turn], C=[np.eye(2)]), sampling_rate=100.0)
    >>> np.round(found.frequencies, 3), np.round(found.decay_times, 4)
    (array([[3.183, 3.183]]), array([[0.0949, 0.0949]]))
    """
    rate = 1.0 if sampling_rate is None else float(sampling_rate)
    if not 0 < rate < np.inf:
        raise ValueError(
            f"sampling_rate={quoted(sampling_rate)} is not valid: pass a positive number of steps per second"
        )
    values, vectors = np.linalg.eig(systems.A)
    values = values.astype(np.complex128)  # numpy gives real ones if they all are
    angle = np.abs(np.angle(values))
    # by frequency, then by modulus; of a conjugate pair the one with positive imaginary part first
    order = np.lexsort((-values.imag, -np.abs(values), -angle))
    values, angle = np.take_along_axis(values, order, 1), np.take_along_axis(angle, order, 1)
    shapes = np.take_along_axis(systems.C @ vectors, order[:, None], 2)
    with np.errstate(divide="ignore"):
        decay = -np.log(np.abs(values))  # per step; infinite where a mode is gone after one
    damping = np.where(np.isinf(decay), 1.0, decay / np.hypot(np.where(np.isinf(decay), 1.0, decay), angle))
    return Modes(values, angle / (2 * np.pi) * rate, damping, 1 / (decay * rate), shapes.astype(complex))
