"""Features of sequences: spectra, resampled curves, random convolutions, and curves for dynamic time warping.

They are features of the baselines of this package, and descriptions of the kernels of manifoldseq-sequences.
"""

from collections.abc import Iterator
from functools import partial
from itertools import combinations
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from scipy.signal import welch

from ..estimators import random_generator
from ..execution import map_ordered
from ._controls import SequenceFeatures

Array = NDArray[np.float64]

N_BINS = 128
"""Number of frequencies of `LogSpectrum`, half the number of steps of a segment (`make bench-real`: 32 frequencies do
not separate steps at 0.8 Hz from steps at 1.3 Hz, recorded 100 times per second)."""
N_POINTS = 64
"""Points of `ResampledCurves`."""
LEAST_SPREAD = 1e-3
"""Within a sequence, a channel is divided at least by this share of its standard deviation in all sequences, so that
rounding errors of a constant channel are not amplified to noise of full size."""
_FLOOR = 1e-3
"""Share of the mean power that is added to a spectrum before its logarithm."""
_WARPED = 100
"""Maximum number of points to which sequences are resampled for time warping, whose time grows with the square."""
WINDOW = 0.1
"""Share of the points by which a warping path may leave the diagonal."""
_EQUAL = 1e-13
"""A squared warping distance up to this share of the squared norms of the curves is rounding and counts as zero."""
_DILATIONS = 8
_BIASES = 2
_TAPS = np.array(list(combinations(range(9), 3)))
"""Positions of the three weights 2 in each of the 84 kernels of length 9 of MiniRocket; the other weights are -1."""
_COUNTED = 2048
"""For longer sequences, the responses of a convolution are counted at this many evenly spaced steps or more."""
_AT_ONCE = 2**15
"""Number of time steps that are convolved together, so that the responses fit into the cache of a processor."""


class LogSpectrum(SequenceFeatures):
    """Logarithms of the power of the channels of a sequence at frequencies of equal spacing, by Welch's method.

    Segments of ``2 n_bins`` steps with Hann windows overlap by a half (`scipy.signal.welch`); a shorter sequence is one
    segment. The power of each channel is divided by the variance of the channel. Half the logarithm of this variance is
    the last feature of the channel. `transform` returns an array (N, d * (n_bins + 1)).

    Parameters
    ----------
    n_bins : int
        Number of frequencies above 0.

    References
    ----------
    Welch: The use of fast Fourier transform for the estimation of power spectra, IEEE Transactions on Audio and
    Electroacoustics, 1967.

    Examples
    --------
    >>> import numpy as np
    >>> t = np.arange(200.0)
    >>> spectra = LogSpectrum().fit_transform([np.sin(w * t)[:, None] for w in (0.2, 2.0)])
    >>> spectra[:, :-1].argmax(axis=1).tolist()
    [7, 80]
    """

    learned = ("channel_scale_",)

    def __init__(self, n_bins: int = N_BINS) -> None:
        self.n_bins = n_bins

    def learn(self, sequences: list[Array]) -> None:
        """Store the standard deviations of the channels over all sequences."""
        self.channel_scale_ = channel_scale(sequences)[1]

    def described(self, sequences: list[Array]) -> Array:
        """Return the logarithms channel by channel."""
        bins, d = int(self.n_bins), sequences[0].shape[1]
        rows = np.empty((len(sequences), d, bins + 1))
        lengths = np.array([len(x) for x in sequences])
        for length in np.unique(lengths):  # all sequences of one length at once
            some = np.flatnonzero(lengths == length)
            x = np.stack([sequences[i] for i in some])
            x = x - x.mean(axis=1, keepdims=True)
            variance = np.maximum(np.mean(x**2, axis=1), (LEAST_SPREAD * self.channel_scale_) ** 2)  # (n, d)
            x /= np.sqrt(np.where(variance > 0, variance, 1.0))[:, None]
            segment = min(2 * bins, int(length))
            power = welch(x, nperseg=segment, nfft=2 * bins, axis=1, detrend=cast(Any, False))[1][:, 1:]
            rows[some, :, :bins] = np.log(power + _FLOOR).swapaxes(1, 2)
            rows[some, :, bins] = 0.5 * np.log(variance + np.finfo(float).tiny)
        return rows.reshape(len(sequences), -1)


class ResampledCurves(SequenceFeatures):
    """The channels of a sequence at points that are evenly spaced between its ends, each standardized.

    `transform` returns an array (N, d * n_points).

    Parameters
    ----------
    n_points : int

    Examples
    --------
    >>> import numpy as np
    >>> short, long = np.arange(5.0)[:, None], np.arange(50.0)[:, None]
    >>> a, b = ResampledCurves().fit_transform([short, long])
    >>> bool(np.allclose(a, b))
    True
    """

    learned = ("channel_scale_",)

    def __init__(self, n_points: int = N_POINTS) -> None:
        self.n_points = n_points

    def learn(self, sequences: list[Array]) -> None:
        """Store the standard deviations of the channels over all sequences."""
        self.channel_scale_ = channel_scale(sequences)[1]

    def described(self, sequences: list[Array]) -> Array:
        """Return the curves channel by channel, (N, d * n_points)."""
        curves = resampled(sequences, int(self.n_points))
        curves = curves - curves.mean(axis=1, keepdims=True)
        spread = np.maximum(curves.std(axis=1, keepdims=True), LEAST_SPREAD * self.channel_scale_)
        curves = curves / np.where(spread > 0, spread, 1.0)
        return curves.swapaxes(1, 2).reshape(len(curves), -1)


class RandomConvolutions(SequenceFeatures):
    """Shares of the steps at which a convolution of a sequence with a kernel exceeds a threshold.

    The kernels are the 84 kernels of MiniRocket. Each kernel is used with up to eight dilations that are evenly spaced
    on a logarithmic scale, and is applied to random sums of channels. The thresholds are random quantiles of the
    convolutions of eight sequences of `fit`. Channels are standardized over all sequences of `fit`. In long sequences,
    at least 2048 evenly spaced steps are counted.

    Parameters
    ----------
    random_state : int or None
        Seed of the random choices.

    References
    ----------
    Dempster, Schmidt and Webb: MiniRocket, KDD 2021. Jorge and Rubio: Time series clustering with random convolutional
    kernels, Data Mining and Knowledge Discovery, 2024.

    Examples
    --------
    >>> import numpy as np
    >>> X = [np.arange(30.0)[:, None] % period for period in (2, 3)]
    >>> RandomConvolutions(random_state=0).fit_transform(X).shape
    (2, 504)
    """

    learned = ("channel_mean_", "channel_scale_", "dilations_", "mixing_", "thresholds_")

    def __init__(self, random_state: int | None = None) -> None:
        self.random_state = random_state

    def learn(self, sequences: list[Array]) -> None:
        """Draw dilations, sums of channels and thresholds."""
        rng = random_generator(self.random_state)
        self.channel_mean_, self.channel_scale_ = channel_scale(sequences)
        longest, d = max(map(len, sequences)), sequences[0].shape[1]
        most = max(np.log2(max(longest - 1, 8) / 8), 0.0)
        self.dilations_ = np.unique(np.floor(2 ** np.linspace(0, most, _DILATIONS)).astype(np.intp))
        self.mixing_ = np.zeros((len(self.dilations_), d, len(_TAPS)))
        for mixing in self.mixing_:
            for kernel in mixing.T:
                some = rng.choice(d, size=int(rng.integers(1, min(d, 9) + 1)), replace=False)
                kernel[some] = 1.0
        self.thresholds_ = np.empty((len(self.dilations_), _BIASES, len(_TAPS)))
        for place in range(len(self.dilations_)):
            some = rng.choice(len(sequences), size=min(len(sequences), 8), replace=False)
            values = []
            for i in some:
                Z, _, every = self._padded([sequences[i]])
                values.append(np.concatenate(list(self._convolved(Z, place, every))).T)
            quantiles = rng.uniform(0.1, 0.9, (_BIASES, len(_TAPS)))
            order = np.sort(np.concatenate(values), axis=0)
            order = (order[1:] + order[:-1]) / 2 if len(order) > 1 else order  # no threshold is itself a value
            self.thresholds_[place] = np.take_along_axis(order, (quantiles * len(order)).astype(np.intp), axis=0)

    def described(self, sequences: list[Array]) -> Array:
        """Return the shares dilation by dilation, (N, n_dilations * 2 * 84)."""
        rows = np.empty((len(sequences), *self.thresholds_.shape))
        batches = list(self._batches(sequences))
        tasks = [[sequences[i] for i in some] for some in batches]
        for some, shares in zip(batches, map_ordered(self._shares, tasks), strict=True):
            rows[some] = shares
        return rows.reshape(len(sequences), -1)

    def _shares(self, batch: list[Array]) -> Array:
        """Return the shares of the sequences of a batch, (n, n_dilations, 2, 84)."""
        Z, counted, every = self._padded(batch)
        steps, found = counted.sum(axis=1), np.empty((len(batch), *self.thresholds_.shape))
        for place, thresholds in enumerate(self.thresholds_):
            for kernel, values in enumerate(self._convolved(Z, place, every)):
                for bias in range(_BIASES):
                    above = np.count_nonzero((values > thresholds[bias, kernel]) & counted, axis=1)
                    found[:, place, bias, kernel] = above / steps
        return found

    def _batches(self, sequences: list[Array]) -> Iterator[NDArray[np.intp]]:
        """Yield the rows of batches, in ascending order of the lengths."""
        lengths = np.array([len(x) for x in sequences])
        order = np.argsort(lengths, kind="stable")
        while len(order):
            # sequences of similar lengths: at most a third of the steps of a batch are padding
            near = lengths[order] <= max(1.5 * lengths[order[0]], 16)
            near &= lengths[order] // _COUNTED == lengths[order[0]] // _COUNTED
            size = max(1, min(int(near.sum()), _AT_ONCE // int(lengths[order[near]][-1])))
            some, order = order[:size], order[size:]
            yield some

    def _padded(self, batch: list[Array]) -> tuple[Array, NDArray[np.bool_], int]:
        """Return standardized sequences with zeros behind their ends (n, T, d), which steps count, every k-th."""
        lengths = np.array([len(x) for x in batch])
        longest, every = int(lengths[-1]), max(1, int(lengths[0]) // _COUNTED)
        Z = np.zeros((len(batch), longest, len(self.channel_scale_)))
        for place, x in enumerate(batch):
            Z[place, : len(x)] = (x - self.channel_mean_) / self.channel_scale_
        return Z, np.arange(0, longest, every) < lengths[:, None], every

    def _convolved(self, Z: Array, place: int, every: int) -> Iterator[Array]:
        """Yield the convolutions of sequences (n, T, d) with each kernel at every k-th step, (n, ceil(T / k))."""
        step, (n, T, d) = int(self.dilations_[place]), Z.shape
        taps, total, sums = [], np.empty(0), dict[tuple[int, int], Array]()
        for kernel, (i, j, k) in enumerate(_TAPS.tolist()):
            if d > 1 or not taps:  # with a single channel, all kernels have the same input
                padded = np.zeros((n, T + 8 * step))
                padded[:, 4 * step : 4 * step + T] = Z @ self.mixing_[place][:, kernel]
                taps = [padded[:, tap * step : tap * step + T : every] for tap in range(9)]
                total, sums = -sum(taps[1:], taps[0]), {}
            if (i, j) not in sums:
                sums[i, j] = taps[i] + taps[j]
            yield total + 3 * (sums[i, j] + taps[k])


class AlignedCurves(SequenceFeatures):
    """The channels of sequences for dynamic time warping: resampled to the length of the longest, at most 100 steps.

    Channels are standardized over all sequences of `fit`. `transform` returns an array (N, n_steps * d), step by step.

    Examples
    --------
    >>> import numpy as np
    >>> AlignedCurves().fit_transform([np.array([[0.0], [2.0]]), np.array([[2.0], [1.0], [0.0]])]).round(1).tolist()
    [[-1.1, 0.0, 1.1], [1.1, 0.0, -1.1]]
    """

    learned = ("channel_mean_", "channel_scale_", "n_steps_")

    def learn(self, sequences: list[Array]) -> None:
        """Store the number of steps and the scale of the channels."""
        self.channel_mean_, self.channel_scale_ = channel_scale(sequences)
        self.n_steps_ = min(_WARPED, max(map(len, sequences)))

    def described(self, sequences: list[Array]) -> Array:
        """Return the curves step by step, (N, n_steps * d)."""
        curves = (resampled(sequences, int(self.n_steps_)) - self.channel_mean_) / self.channel_scale_
        return curves.reshape(len(curves), -1)


def resampled(sequences: list[Array], n_steps: int) -> Array:
    """Return sequences at evenly spaced points between their ends, (N, n_steps, d), by linear interpolation."""
    places = np.linspace(0, 1, n_steps)
    return np.stack(
        [np.stack([np.interp(places, np.linspace(0, 1, len(x)), row) for row in x.T], axis=1) for x in sequences]
    )


def channel_scale(sequences: list[Array]) -> tuple[Array, Array]:
    """Return the mean and the standard deviation of each channel over all sequences (1 for a constant channel)."""
    every = np.concatenate(sequences)
    scale = every.std(axis=0)
    return every.mean(axis=0), np.where(scale > 0, scale, 1.0)


def warping_distances(A: Array, B: Array, window: float = WINDOW) -> Array:
    """Return dynamic time warping distances between curves, within a Sakoe-Chiba band.

    A distance is the root of the smallest sum of squared differences along a path, as in
    `dtaidistance.dtw_ndim.distance`.

    Parameters
    ----------
    A, B : ndarray of shape (n, L, d), (m, L, d)
        Curves of L steps and d channels.
    window : float
        The largest distance of a path from the diagonal, as a fraction of L. At least one step is allowed.

    Returns
    -------
    ndarray of shape (n, m)

    References
    ----------
    Sakoe and Chiba: Dynamic programming algorithm optimization for spoken word recognition, IEEE Transactions on
    Acoustics, Speech, and Signal Processing, 1978.

    Examples
    --------
    >>> a, b = np.array([[[0.0], [1.0], [1.0], [0.0]]]), np.array([[[0.0], [0.0], [1.0], [0.0]]])
    >>> warping_distances(a, b).tolist()
    [[0.0]]
    """
    radius = max(1, int(np.ceil(window * A.shape[1])))
    b = np.ascontiguousarray(B.transpose(1, 2, 0))  # (L, d, m)
    parts = map_ordered(partial(_warped, b, radius), [A[start : start + 16] for start in range(0, len(A), 16)])
    return np.concatenate(parts) if parts else np.empty((0, len(B)))


def _warped(b: Array, radius: int, A: Array) -> Array:
    """Return the distances of a few curves, (n, L, d), to all curves of b, (L, d, m), computed together."""
    L, _, m = b.shape
    b_squared = np.sum(b**2, axis=1)
    a = np.ascontiguousarray(A.transpose(1, 0, 2))  # (L, n, d)
    a_squared = np.sum(a**2, axis=2)
    before: dict[int, Array] = {-1: np.zeros((a.shape[1], m))}
    for i in range(L):
        row: dict[int, Array] = {}
        for j in range(max(0, i - radius), min(L, i + radius + 1)):
            last = [one for one in (before.get(j - 1), before.get(j), row.get(j - 1)) if one is not None]
            cost = a[i] @ b[j]
            cost *= -2
            cost += a_squared[i][:, None]
            cost += b_squared[j]
            np.maximum(cost, 0, out=cost)
            least = last[0] if len(last) == 1 else np.minimum(*last[:2])
            row[j] = cost + (least if len(last) < 3 else np.minimum(least, last[2]))
        before = row
    sizes = a_squared.sum(axis=0)[:, None] + b_squared.sum(axis=0)
    squared = before[L - 1]
    return np.sqrt(np.where(squared > _EQUAL * sizes, squared, 0.0))
