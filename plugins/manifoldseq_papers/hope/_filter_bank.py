"""Filter banks of speech: log energies on the mel scale, and their differences over time."""

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.fft import rfft

from manifoldseq.reproduction import check_whole

Float = NDArray[np.float64]

WINDOW, SHIFT = 0.025, 0.010
"""Length of a frame and distance between neighbouring frames, in seconds (6.2)."""
_EMPHASIS = 0.97
_LEAST_ENERGY = 1.0
"""Lower bound of energies, in squared units of 16-bit samples."""
_BLOCK = 4096


def filter_bank(signal: ArrayLike, rate: int = 16000, n_filters: int = 40) -> Float:
    """Return log energies of triangular filters on the mel scale and of the frame, as for Table 6 of the HOPE paper.

    Frames are 25 ms long, 10 ms apart, within the signal. Each frame is emphasized (``x[t] - 0.97 x[t-1]``) and
    multiplied by a Hamming window. The power spectrum of the frame is summed with the weights of triangular filters,
    which are linear in ``2595 log10(1 + f / 700)`` and evenly spaced from 0 to half the rate. The last column is the
    log energy of the original frame. Energies are at least 1.

    Parameters
    ----------
    signal : array-like of shape (n,)
        Samples, in units of 16-bit samples.
    rate : int
        Samples per second.
    n_filters : int

    Returns
    -------
    ndarray of shape (T, n_filters + 1), float64

    Raises
    ------
    ValueError
        If the signal has several channels, contains NaN or is shorter than a frame, or if there are too many filters
        for the rate.

    References
    ----------
    Zhang, Jiang, section 6.2; the conventions follow the HTK book.

    Examples
    --------
    >>> import numpy as np
    >>> from manifoldseq_papers import filter_bank
    >>> tone = 1000 * np.sin(2 * np.pi * 1000 * np.arange(16000) / 16000)
    >>> features = filter_bank(tone)
    >>> features.shape, int(features[50, :40].argmax())
    ((98, 41), 13)
    """
    signal = np.asarray(signal, np.float64)
    length, shift = round(WINDOW * rate), round(SHIFT * rate)
    if signal.ndim != 1:
        raise ValueError(f"the signal has shape {signal.shape}: pass one channel, (n,)")
    if len(signal) < length:
        raise ValueError(f"the signal has {len(signal)} samples, but a frame has {length}: pass a longer signal")
    if not np.isfinite(signal).all():
        raise ValueError("the signal contains NaN or infinity: remove or fill these samples")
    filters = _filters(int(rate), length, n_filters)
    frames = np.lib.stride_tricks.sliding_window_view(signal, length)[::shift]
    window = np.hamming(length)
    found = np.empty((len(frames), n_filters + 1))
    for first in range(0, len(frames), _BLOCK):
        block = frames[first : first + _BLOCK]
        rows = slice(first, first + len(block))
        found[rows, -1] = np.einsum("ij,ij->i", block, block)
        sharp = block.copy()
        sharp[:, 1:] -= _EMPHASIS * block[:, :-1]
        sharp[:, 0] *= 1 - _EMPHASIS
        spectrum: NDArray[Any] = np.asarray(rfft(sharp * window, 2 * (filters.shape[1] - 1), axis=1))
        found[rows, :-1] = (np.real(spectrum) ** 2 + np.imag(spectrum) ** 2) @ filters.T
    return np.log(np.maximum(found, _LEAST_ENERGY, out=found), out=found)


def deltas(features: ArrayLike, width: int = 2) -> Float:
    """Return the slopes of features over time by regression on `width` frames before and after.

    ``d[t] = sum_k k (c[t + k] - c[t - k]) / (2 sum_k k^2)``; the first and the last frame are repeated at the ends.

    Parameters
    ----------
    features : array-like of shape (T, d)
    width : int

    Returns
    -------
    ndarray of shape (T, d), float64

    Examples
    --------
    >>> import numpy as np
    >>> from manifoldseq_papers import deltas
    >>> deltas(np.arange(6.0)[:, None])[:, 0].tolist()
    [0.5, 0.8, 1.0, 1.0, 0.8, 0.5]
    """
    check_whole("width", width)
    features = np.asarray(features, np.float64)
    if features.ndim != 2 or not features.size:
        raise ValueError(f"features have shape {features.shape}: pass an array (T, d) with at least one frame")
    T = len(features)
    padded = np.pad(features, ((width, width), (0, 0)), mode="edge")
    slopes = np.zeros_like(features)
    for k in range(1, width + 1):
        slopes += k * (padded[width + k : width + k + T] - padded[width - k : width - k + T])
    return slopes / (2 * sum(k * k for k in range(1, width + 1)))


def speech_features(signal: ArrayLike, rate: int = 16000, n_filters: int = 40) -> Float:
    """Return filter banks with their first and second differences, (T, 3 (n_filters + 1)): 123 columns for 40."""
    static = filter_bank(signal, rate, n_filters)
    slopes = deltas(static)
    return np.hstack([static, slopes, deltas(slopes)])


def frame_centres(n_frames: int, rate: int = 16000) -> NDArray[np.int64]:
    """Return the sample in the middle of each frame."""
    return round(SHIFT * rate) * np.arange(n_frames) + round(WINDOW * rate) // 2


@lru_cache(maxsize=8)
def _filters(rate: int, length: int, n_filters: int) -> Float:
    """Return the weights (n_filters, bins) of triangular filters."""
    check_whole("n_filters", n_filters)
    size = 1 << (length - 1).bit_length()
    mel = 2595 * np.log10(1 + np.arange(size // 2 + 1) * rate / size / 700)
    centres = np.linspace(0, mel[-1], n_filters + 2)
    step = centres[1]
    weights = np.maximum(0, 1 - np.abs(mel - centres[1:-1, None]) / step)
    empty = np.flatnonzero(~weights.any(axis=1))
    if len(empty):
        raise ValueError(
            f"n_filters={n_filters} is too large, because filter {empty[0]} contains no frequency at {rate} samples/s: "
            "lower n_filters"
        )
    weights.flags.writeable = False
    return weights
