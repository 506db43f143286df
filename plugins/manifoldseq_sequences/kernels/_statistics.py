"""Means and standard deviations of the channels, which do not depend on the order of the time steps."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from manifoldseq.estimators import channel_statistics

from ._description import Array, DescriptionKernel

LEAST_DEVIATION = 1e-3
"""The smallest standard deviation that differs from zero, relative to that of the channel in all sequences."""


@dataclass(frozen=True, eq=False)
class StatisticsKernel(DescriptionKernel):
    """Gaussian kernel of the distance between means, and between logarithms of standard deviations, of the channels.

    After `fitted`, each of these 2 d numbers is divided by its standard deviation over the sequences.

    Parameters
    ----------
    scale : ndarray of shape (2 d,), optional
        Divisors of the means and of the logarithms of standard deviations, which `fitted` learns.

    Examples
    --------
    >>> import manifoldseq as ms
    >>> kernel = ms.get_kernel("statistics")
    >>> packed = kernel.pack([[[0.0], [2.0]], [[1.0], [3.0]]])
    >>> kernel.cross(packed, packed).round(3)
    array([[1.   , 0.368],
           [0.368, 1.   ]])
    """

    scale: ArrayLike | None = None
    name = "statistics"

    def _learned(self, sequences: list[Array]) -> Self:
        deviation = self.describe(sequences).std(axis=0)
        return replace(self, scale=np.where(deviation > 1e-12, deviation, 1.0))

    def describe(self, sequences: list[Array]) -> Array:
        """Return means and logarithms of standard deviations, (N, 2 d)."""
        means, deviations = np.hsplit(channel_statistics(sequences), 2)
        logarithms = np.log(np.maximum(deviations, LEAST_DEVIATION * self.units(sequences)))
        return np.hstack([means, logarithms]) / (1.0 if self.scale is None else np.asarray(self.scale))
