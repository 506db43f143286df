"""Dynamic time warping: curves are compared along the alignment of their time axes with the smallest distance."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from inspect import signature
from typing import Any, Self

import numpy as np

from manifoldseq.evaluation import AlignedCurves, warping_distances

from ._description import Array, SequenceKernel, as_arrays, learned_by, learned_from, standard_sequences

BAND: float = signature(warping_distances).parameters["window"].default
ROWS = 32
"""Number of curves that are compared together with all later curves."""


@dataclass(frozen=True, eq=False)
class WarpingKernel(SequenceKernel):
    """Gaussian kernel of the dynamic-time-warping distance within a band (Sakoe and Chiba 1978).

    The kernel is not positive definite. Channels are standardized over all sequences. The sequences are resampled to
    the length of the longest sequence, but at most 100 steps (`manifoldseq.evaluation.AlignedCurves`). The squared
    distance is the least sum of squared differences along an alignment (`manifoldseq.evaluation.warping_distances`).

    Parameters
    ----------
    band : float
        Maximum distance of an alignment from the diagonal, as a share of the number of steps.
    learned : dict of str to ndarray, optional
        Scale of the channels and number of steps; `fitted` learns them. The defaults are a scale of 1 and 64 steps.

    Examples
    --------
    >>> import numpy as np, manifoldseq as ms
    >>> kernel, t = ms.get_kernel("warping", band=0.2), np.arange(60)[:, None]
    >>> bump = lambda place: np.exp(-np.square((t - place) / 5.0))
    >>> packed = kernel.pack([bump(25), bump(32), bump(25) + bump(45)])
    >>> near, far = kernel.squared(packed, packed)[0, 1:]
    >>> bool(near < 0.1 * far)
    True
    """

    band: float = BAND
    learned: Mapping[str, Any] | None = field(default=None, repr=False)
    name = "warping"
    positive_definite = False

    def _learned(self, sequences: list[Array]) -> Self:
        return replace(self, learned=learned_from(AlignedCurves(), sequences))

    def pack(self, items: Iterable[Any]) -> Array:
        """Return curves, (N, n_steps, d)."""
        sequences, features, learned = as_arrays(items), AlignedCurves(), self.learned
        if learned is None:
            learned = learned_from(features, standard_sequences(sequences[0].shape[1]))
        rows = learned_by(features, learned).described(sequences)
        return rows.reshape(len(rows), -1, sequences[0].shape[1])

    def squared(self, P: Array, Q: Array) -> Array:
        """Return squared distances, (len(P), len(Q))."""
        if P is not Q:
            return np.square(warping_distances(P, Q, self.band))
        squared = np.zeros((len(P), len(P)))
        for start in range(0, len(P), ROWS):  # distances are symmetric: those below the diagonal are copied
            rows = P[start : start + ROWS]
            squared[start : start + ROWS, start:] = np.square(warping_distances(rows, P[start:], self.band))
        squared = np.triu(squared, 1)
        return squared + squared.T
