"""Logarithms of Welch spectra: which frequencies a sequence has, whatever their phases."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from scipy.signal import welch

from ._description import Array, DescriptionKernel

N_BINS = 32
"""Bins of the frequency axis."""
SEGMENT = 256
"""Most time steps of a segment; a shorter sequence is one segment."""
FLOOR = 1e-3
"""Power that is told apart from none, as a share of the power of the sequence per bin."""


@dataclass(frozen=True, eq=False)
class SpectrumKernel(DescriptionKernel):
    """The Gaussian of the distance of log power spectra, whose sum over frequencies and channels is 1.

    Spectra are those of Welch (Hann windows that overlap by a half) in `n_bins` bins per channel.

    Parameters
    ----------
    n_bins : int
        Bins of equal width on a scale that is linear below the frequency of one period per segment and logarithmic
        above.
    segment : int
        Time steps of a segment; `fitted` lowers it to the median length of the sequences.

    Examples
    --------
    >>> import numpy as np, manifoldseq as ms
    >>> kernel, t = ms.get_kernel("spectrum"), np.arange(100)[:, None]
    >>> packed = kernel.pack([np.sin(0.3 * t), np.sin(0.3 * t + 2), np.sin(0.9 * t)])
    >>> near, far = kernel.squared(packed, packed)[0, 1:]
    >>> bool(near < 0.1 * far)
    True
    """

    n_bins: int = N_BINS
    segment: int = SEGMENT
    name = "spectrum"

    def _learned(self, sequences: list[Array]) -> Self:
        typical = int(np.median([len(x) for x in sequences]))
        return replace(self, segment=max(4, min(self.segment, typical)))

    def describe(self, sequences: list[Array]) -> Array:
        """Return log spectra, (N, n_bins d)."""
        gather = bins(self.segment, self.n_bins)
        unit = 1.0 if self.channels is None else np.where(self.channels, self.channels, 1.0)
        lengths = np.array([len(x) for x in sequences])
        rows = np.empty((len(sequences), self.n_bins * sequences[0].shape[1]))
        # sequences of one length together: a call per sequence took five times as long
        for length in np.unique(lengths):
            some = np.flatnonzero(lengths == length)
            z = np.stack([sequences[i] for i in some]) / unit
            z -= z.mean(axis=1, keepdims=True)
            segment = min(int(length), self.segment)
            power = welch(z, window="hann", nperseg=segment, nfft=self.segment, detrend="constant", axis=1)[1]
            binned = gather @ power  # (n, n_bins, d)
            share = binned / np.maximum(binned.mean(axis=(1, 2), keepdims=True), np.finfo(float).tiny)
            rows[some] = np.log(share + FLOOR).reshape(len(some), -1)
        return rows


def bins(segment: int, n_bins: int) -> Array:
    """Return the matrix that averages the frequencies of a segment in bins, (n_bins, segment // 2 + 1)."""
    frequencies = np.arange(segment // 2 + 1, dtype=float)
    scale = np.log1p(frequencies)  # linear for few periods per segment, logarithmic for many
    edges = np.linspace(0, scale[-1], n_bins + 1)
    middles = (edges[:-1] + edges[1:]) / 2
    step = edges[1]
    # triangles, so that a bin narrower than the spacing of the frequencies takes from its two neighbours
    nearest = np.interp(middles, scale, frequencies)
    weights = np.maximum(0.0, 1 - np.abs(scale - middles[:, None]) / step)
    between = np.maximum(0.0, 1 - np.abs(frequencies - nearest[:, None]))
    weights = weights + 1e-6 * between
    return weights / weights.sum(axis=1, keepdims=True)
