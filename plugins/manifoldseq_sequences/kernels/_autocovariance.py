"""Autocovariances: autocorrelations of each channel, and correlations of pairs of channels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ._description import Array, DescriptionKernel

N_LAGS = 16
"""Number of lags, from 1 on, of the autocorrelations of each channel."""
LEAST_SPREAD = 0.05
"""Within a sequence, a channel is divided by its standard deviation, but at least by this share of the standard
deviation of the channel in all sequences. A nearly constant channel is therefore not amplified to noise of full
size."""
PAIRS = 64
"""Maximum number of channels for which correlations of pairs of channels are computed."""


@dataclass(frozen=True, eq=False)
class AutocovarianceKernel(DescriptionKernel):
    """Gaussian kernel of the distance between autocorrelations, and between correlations of pairs of channels.

    Parameters
    ----------
    n_lags : int
        Lags 1 to `n_lags` are compared.

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
        d, least = sequences[0].shape[1], LEAST_SPREAD * self.units(sequences)
        lengths = np.array([len(x) for x in sequences])
        pairs = np.triu_indices(d, 1) if 1 < d <= PAIRS else None
        rows = np.empty((len(sequences), self.n_lags * d + (0 if pairs is None else len(pairs[0]))))
        for steps in np.unique(lengths):  # all sequences of one length at once
            some = np.flatnonzero(lengths == steps)
            z = np.stack([sequences[i] for i in some])
            z = (z - z.mean(axis=1, keepdims=True)) / np.maximum(z.std(axis=1), least)[:, None]
            for lag in range(1, self.n_lags + 1):
                own = (z[:, : max(steps - lag, 0)] * z[:, lag:]).sum(axis=1) / steps  # zeros from the last lag on
                rows[some, (lag - 1) * d : lag * d] = own / np.sqrt(self.n_lags)
            if pairs is not None:
                # the correlations of one channel with the others have the same weight as all its lags
                correlations = (z.swapaxes(1, 2) @ z)[:, pairs[0], pairs[1]] / steps
                rows[some, self.n_lags * d :] = correlations * np.sqrt(2 / (d - 1))
        return rows
