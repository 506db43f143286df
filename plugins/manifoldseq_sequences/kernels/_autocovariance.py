"""Autocovariances: how each channel, and pairs of them, go on from step to step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ._description import Array, DescriptionKernel

N_LAGS = 16
"""Lags from one on at which each channel is compared with itself."""
PAIRS = 64
"""With at most so many channels, pairs of them are compared at lag 0."""


@dataclass(frozen=True, eq=False)
class AutocovarianceKernel(DescriptionKernel):
    """The Gaussian of the distance of autocorrelations, and of correlations of the channels.

    Parameters
    ----------
    n_lags : int

    Examples
    --------
    >>> import numpy as np, manifoldseq as ms
    >>> kernel, rng = ms.get_kernel("autocovariance"), np.random.default_rng(0)
    >>> kernel.pack([rng.standard_normal((50, 2))]).shape
    (1, 33)
    """

    n_lags: int = N_LAGS
    name = "autocovariance"

    def describe(self, sequences: list[Array]) -> Array:
        """Return autocorrelations of lags 1 to `n_lags` of each channel, and correlations of pairs of channels."""
        return np.stack([self._row(x) for x in sequences])

    def _row(self, x: Array) -> Array:
        z, (steps, d) = self.standardized(x), x.shape
        lags = range(1, self.n_lags + 1)
        own = [(z[: steps - lag] * z[lag:]).sum(axis=0) / steps if lag < steps else np.zeros(d) for lag in lags]
        parts = [np.ravel(own) / np.sqrt(self.n_lags)]
        if 1 < d <= PAIRS:
            # one correlation of each pair weighs as much as all lags of one channel do for one channel
            parts.append((z.T @ z / steps)[np.triu_indices(d, 1)] * np.sqrt(2 / (d - 1)))
        return np.concatenate(parts)
