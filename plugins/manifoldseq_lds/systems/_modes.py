"""The modes of systems: frequency, damping and shape of each eigenvalue of the transition matrix."""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from manifoldseq.estimators import quoted

from ._record import Systems

Array = NDArray[np.floating[Any]]
Complex = NDArray[np.complex128]

_MOVED = 0.01
"""Change of an eigenvalue by a stabilizer, relative to its modulus, above which a warning is given."""


@dataclass(frozen=True, eq=False)
class Modes:
    """The modes of N systems, as returned by `modes`, in descending order of frequency with adjacent conjugate pairs.

    Attributes
    ----------
    eigenvalues : ndarray of shape (N, n), complex
        Eigenvalues of A: a mode is multiplied by its eigenvalue in each step.
    frequencies : ndarray of shape (N, n)
        ``|angle| / 2 pi`` times the sampling rate: Hz, or cycles per step without a rate.
    damping_ratios : ndarray of shape (N, n)
        ``-ln|z| / |ln z|``, between 0 (an undamped mode) and 1 (no oscillation); negative for a mode that grows.
    decay_times : ndarray of shape (N, n)
        Seconds (steps without a rate) after which a mode has decayed to ``1/e``. The time is 0 if the eigenvalue is 0,
        infinite if its modulus is 1, and negative if the mode grows.
    shapes : ndarray of shape (N, m, n), complex
        ``C`` times the eigenvectors, scaled to unit length: the amplitude and phase of the mode in each output.
    """

    eigenvalues: Complex
    frequencies: Array
    damping_ratios: Array
    decay_times: Array
    shapes: Complex


def modes(systems: Systems, sampling_rate: float | None = None) -> Modes:
    """Return the frequency, damping and shape of each mode of systems.

    The modes belong to A, which a stabilizer may have changed. `LDSIdentifier.modes` returns the estimated modes of
    sequences before stabilization.

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

    Warns
    -----
    UserWarning
        If stabilization has moved an eigenvalue by more than 1 % of its modulus, for systems that
        `LDSIdentifier.transform` returned.

    Examples
    --------
    >>> import numpy as np
    >>> turn = 0.9 * np.array([[np.cos(0.2), -np.sin(0.2)], [np.sin(0.2), np.cos(0.2)]])
    >>> found = modes(Systems(A=[turn], C=[np.eye(2)]), sampling_rate=100.0)
    >>> np.round(found.frequencies, 3), np.round(found.decay_times, 4)
    (array([[3.183, 3.183]]), array([[0.0949, 0.0949]]))
    """
    changes = _moved(systems)
    if len(changes) and changes.max() > _MOVED:
        i = int(changes.argmax())
        warnings.warn(
            f"stabilization has moved an eigenvalue of system {i} by {changes[i]:.0%} of its modulus "
            f"(by more than {_MOVED:.0%} in {np.count_nonzero(changes > _MOVED)} of {len(changes)} systems), which "
            "also changes the modes: use LDSIdentifier.modes(X), which returns the modes before stabilization",
            stacklevel=2,
        )
    return modes_of(systems.A, systems.C, sampling_rate)


def modes_of(A: Array, C: Array, sampling_rate: float | None) -> Modes:
    """Return the modes of transition matrices (N, n, n), stable or not, and output matrices (N, m, n)."""
    rate = 1.0 if sampling_rate is None else float(sampling_rate)
    if not 0 < rate < np.inf:
        raise ValueError(
            f"sampling_rate={quoted(sampling_rate)} is not valid: pass a positive number of steps per second"
        )
    values, vectors = np.linalg.eig(A)
    values = values.astype(np.complex128)  # numpy gives real ones if they all are
    angle = np.abs(np.angle(values))
    # by frequency, then by modulus; of a conjugate pair the one with positive imaginary part first
    order = np.lexsort((-values.imag, -np.abs(values), -angle))
    values, angle = np.take_along_axis(values, order, 1), np.take_along_axis(angle, order, 1)
    shapes = np.take_along_axis(C @ vectors, order[:, None], 2)
    with np.errstate(divide="ignore"):
        decay = -np.log(np.abs(values)) + 0.0  # per step; infinite where a mode is gone after one, never -0
        times = 1 / (decay * rate)
    size = np.hypot(np.where(np.isinf(decay), 1.0, decay), angle)
    damping = np.where(np.isinf(decay), 1.0, decay / np.where(size > 0, size, 1.0))
    return Modes(values, angle / (2 * np.pi) * rate, damping, times, shapes.astype(complex))


def _moved(systems: Systems) -> Array:
    """Return the largest relative change of an eigenvalue of each system by stabilization, (N,); empty if unknown."""
    if systems.A_estimate is None:
        return np.empty(0)
    before, after = np.linalg.eigvals(systems.A_estimate), np.linalg.eigvals(systems.A)
    distance = np.abs(before[:, :, None] - after[:, None])
    # rounding moves eigenvalues of zero by any share
    share = distance / np.maximum(np.abs(before), 1e-6)[:, :, None]
    made = np.zeros(len(before))
    for i in np.flatnonzero((systems.A_estimate != systems.A).any(axis=(1, 2))):
        made[i] = share[i][linear_sum_assignment(distance[i])].max()
    return made


def frequency_text(frequencies: Array, sampling_rate: float | None) -> str:
    """Return the frequencies of modes for a message, with one value per conjugate pair."""
    different = np.unique(np.round(frequencies, 12))
    numbers = ", ".join(f"{one:.3g}" for one in different[:6]) + ", …" * (len(different) > 6)
    return f"{numbers} {'per step' if sampling_rate is None else 'Hz'}"
