"""Logarithms of Welch spectra: the frequencies of a sequence, independent of their phases."""

from __future__ import annotations

from dataclasses import dataclass

from manifoldseq.evaluation import LogSpectrum

from ._description import Array, DescriptionKernel, learned_by

N_BINS = LogSpectrum().n_bins


@dataclass(frozen=True, eq=False)
class SpectrumKernel(DescriptionKernel):
    """Gaussian kernel of the distance between logarithms of the power spectra of the channels.

    Spectra are the features of `manifoldseq.evaluation.LogSpectrum`: the power of each channel, divided by its
    variance, at `n_bins` frequencies by Welch's method (1967), and the logarithm of its standard deviation.

    Parameters
    ----------
    n_bins : int
        Number of evenly spaced frequencies.

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
    name = "spectrum"

    def describe(self, sequences: list[Array]) -> Array:
        """Return log spectra channel by channel, (N, d (n_bins + 1))."""
        features = learned_by(LogSpectrum(self.n_bins), {"channel_scale_": self.units(sequences)})
        return features.described(sequences)
