"""Baselines for sequences: spectra, resampled curves, random convolutions, and dynamic time warping.

Each baseline is a standard method for one kind of difference between sequences: rhythms, shapes that are aligned in
time, local patterns at any place, and shapes at different speeds. None of them needs a model.
"""

from itertools import combinations
from typing import Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.signal import welch
from sklearn.base import BaseEstimator, ClassifierMixin, ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin
from sklearn.linear_model import RidgeClassifierCV
from sklearn.svm import SVC
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from ..estimators import (
    check_channel_names,
    check_parameters,
    check_positive,
    check_whole,
    keep_channel_names,
    random_generator,
    validate_sequences,
)
from ._controls import (
    ChannelStatistics,
    LaggedAutocovariance,
    OfSequences,
    SequenceFeatures,
    _KMeans,
    location_and_scale,
)

Array = NDArray[np.float64]

_BINS = 128
"""Number of frequencies of `LogSpectrum`, half of the steps of a segment.

32 frequencies do not separate steps at 0.8 Hz from steps at 1.3 Hz at a sampling rate of 100 Hz (`make bench-real`).
"""
_STEPS = 64
"""Number of points of `ResampledCurves`."""
_WARPED = 100
"""Maximum number of points of resampled sequences for time warping, whose time is quadratic in this number."""
_WINDOW = 0.1
"""Maximum distance of a warping path from the diagonal, relative to the number of points."""
_MEDOIDS = 1000
"""Maximum number of sequences for the search of medoids, because the number of distances is quadratic."""
_DILATIONS = 8
_BIASES = 2
_TAPS = np.array(list(combinations(range(9), 3)))
"""Positions of the three weights 2 in each of the 84 kernels of length 9 of MiniRocket; the other weights are -1."""
_FLOOR = 1e-3
"""Fraction of the mean power that is added to a spectrum before its logarithm."""


class LogSpectrum(SequenceFeatures):
    """Logarithms of the power of the channels of a sequence at 128 frequencies, by Welch's method.

    The power of each channel is divided by its variance; half of the logarithm of the variance is the last feature.
    `transform` returns an array (N, d * 129).

    Examples
    --------
    >>> import numpy as np
    >>> t = np.arange(200.0)
    >>> spectra = LogSpectrum().fit_transform([np.sin(w * t)[:, None] for w in (0.2, 2.0)])
    >>> spectra[:, :-1].argmax(axis=1).tolist()
    [7, 80]
    """

    def described(self, sequences: list[Array]) -> Array:
        """Return the logarithms channel by channel."""
        return np.stack([self._of(x) for x in sequences])

    def _of(self, x: Array) -> Array:
        centred = x - x.mean(axis=0)
        variance = np.mean(centred**2, axis=0)
        z = centred / np.sqrt(np.where(variance > 0, variance, 1.0))
        segment = min(2 * _BINS, len(z))
        power = welch(z, nperseg=segment, nfft=2 * _BINS, axis=0, detrend=cast(Any, False))[1][1:]
        size = 0.5 * np.log(variance + np.finfo(float).tiny)
        return np.concatenate([np.log(power + _FLOOR), size[None]]).T.ravel()


class ResampledCurves(SequenceFeatures):
    """The channels of a sequence at 64 points that are evenly spaced between its ends, each standardized.

    Examples
    --------
    >>> import numpy as np
    >>> short, long = np.arange(5.0)[:, None], np.arange(50.0)[:, None]
    >>> a, b = ResampledCurves().fit_transform([short, long])
    >>> bool(np.allclose(a, b))
    True
    """

    def described(self, sequences: list[Array]) -> Array:
        """Return the curves channel by channel, (N, d * 64)."""
        curves = resampled(sequences, _STEPS)
        curves = curves - curves.mean(axis=1, keepdims=True)
        spread = curves.std(axis=1, keepdims=True)
        curves = curves / np.where(spread > 0, spread, 1.0)
        return curves.swapaxes(1, 2).reshape(len(curves), -1)


class RandomConvolutions(SequenceFeatures):
    """Fractions of the steps at which a convolution of a sequence with a kernel exceeds a threshold.

    The features use the 84 kernels of MiniRocket (Dempster, Schmidt and Webb 2021) with up to eight logarithmically
    spaced dilations, random signed sums of channels, and thresholds that are random quantiles of the convolution of one
    of the sequences of `fit`. Channels are standardized over all of these sequences.

    Parameters
    ----------
    random_state : int or None

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
            values = np.concatenate([self._convolved(sequences[i], place) for i in some])
            quantiles = rng.uniform(0.1, 0.9, (_BIASES, len(_TAPS)))
            order = np.sort(values, axis=0)
            order = (order[1:] + order[:-1]) / 2 if len(order) > 1 else order  # no threshold is itself a value
            self.thresholds_[place] = np.take_along_axis(order, (quantiles * len(order)).astype(np.intp), axis=0)

    def described(self, sequences: list[Array]) -> Array:
        """Return the fractions dilation by dilation, (N, n_dilations * 2 * 84)."""
        return np.stack([self._of(x) for x in sequences])

    def _of(self, x: Array) -> Array:
        parts = []
        for place, thresholds in enumerate(self.thresholds_):
            values = self._convolved(x, place)
            parts += [np.mean(values > bias, axis=0) for bias in thresholds]
        return np.concatenate(parts)

    def _convolved(self, x: Array, place: int) -> Array:
        """Return the convolutions (T, 84) with one dilation; beyond the ends of the sequence the channels are zero."""
        step = int(self.dilations_[place])
        mixed = ((x - self.channel_mean_) / self.channel_scale_) @ self.mixing_[place]
        padded = np.pad(mixed, ((4 * step, 4 * step), (0, 0)))
        taps = [padded[tap * step : tap * step + len(x)] for tap in range(9)]
        total = -sum(taps[1:], taps[0])
        every = np.stack(taps)  # (9, T, 84)
        return total + 3 * sum(every[_TAPS[:, k], :, np.arange(len(_TAPS))].T for k in range(3))


def descriptions_of(sequences: list[Array]) -> list[Array]:
    """Return five descriptions of sequences, centred and divided by their root mean square, each (N, p).

    The descriptions are statistics, autocovariances, spectra, curves and random convolutions.
    """
    found = []
    for features in (
        ChannelStatistics(),
        LaggedAutocovariance(),
        LogSpectrum(),
        ResampledCurves(),
        RandomConvolutions(0),
    ):
        features.learn(sequences)
        Z = features.described(sequences)
        mean, scale = location_and_scale(Z, not isinstance(features, LogSpectrum | ResampledCurves))
        Z = (Z - mean) / scale
        size = float(np.sqrt(np.mean(Z**2)))
        if size > 0:
            found.append(Z / size)
    return found


def explained_share(clusters: NDArray[Any], descriptions: list[Array]) -> float:
    """Return the fraction of the variance of descriptions that clusters explain, corrected for random clusters.

    The value is the mean over descriptions of ``(R² - e) / (1 - e)``, where ``e = (K - 1) / (N - 1)`` is the expected
    R² of K random clusters of N members.
    """
    codes = np.unique(clusters, return_inverse=True)[1]
    members = np.eye(int(codes.max()) + 1)[codes]
    sizes = members.sum(axis=0)
    chance = (members.shape[1] - 1) / max(len(codes) - 1, 1)
    if not descriptions or chance >= 1:
        return 0.0
    shares = [
        float(np.sum((members.T @ Z) ** 2 / sizes[:, None])) / float(np.sum((Z - Z.mean(axis=0)) ** 2))
        for Z in descriptions
    ]
    return float(np.mean([(share - chance) / (1 - chance) for share in shares]))


def resampled(sequences: list[Array], n_steps: int) -> Array:
    """Return sequences at evenly spaced points between their ends, (N, n_steps, d), by linear interpolation."""
    places = np.linspace(0, 1, n_steps)
    return np.stack(
        [np.stack([np.interp(places, np.linspace(0, 1, len(x)), row) for row in x.T], axis=1) for x in sequences]
    )


def channel_scale(sequences: list[Array]) -> tuple[Array, Array]:
    """Return the mean and the standard deviation of each channel over all sequences, one for a constant channel."""
    every = np.concatenate(sequences)
    scale = every.std(axis=0)
    return every.mean(axis=0), np.where(scale > 0, scale, 1.0)


def warping_distances(A: Array, B: Array, window: float = _WINDOW) -> Array:
    """Return dynamic time warping distances between curves (n, L, d) and (m, L, d), within a Sakoe-Chiba band.

    The distance is the square root of the minimum sum of squared differences along a path, as in
    `dtaidistance.dtw_ndim.distance`.
    """
    L = A.shape[1]
    radius = max(1, int(np.ceil(window * L)))
    found = np.empty((len(A), len(B)))
    b = np.ascontiguousarray(B.transpose(1, 2, 0))  # (L, d, m)
    b_squared = np.sum(b**2, axis=1)
    for start in range(0, len(A), 16):  # all pairs of these with B at once
        a = np.ascontiguousarray(A[start : start + 16].transpose(1, 0, 2))  # (L, 16, d)
        a_squared = np.sum(a**2, axis=2)
        before: dict[int, Array] = {-1: np.zeros((a.shape[1], len(B)))}
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
        found[start : start + 16] = np.sqrt(before[L - 1])
    return found


class _Warped(BaseEstimator):
    """An estimator of sequences by their warping distances."""

    def _curves(self, X: Any, *, reset: bool) -> Array:
        sequences = validate_sequences(self, X, reset=reset)
        if reset:
            keep_channel_names(self, X)
            self.mean_, self.scale_ = channel_scale(sequences)
            self.n_steps_ = min(_WARPED, max(map(len, sequences)))
        else:
            check_channel_names(self, X)
        return (resampled(sequences, self.n_steps_) - self.mean_) / self.scale_


class SpectrumKMeans(_KMeans, OfSequences):
    """k-means of logarithms of spectra, parameters as of `StatisticsKMeans`."""

    _described = LogSpectrum
    _standardized = False


class CurvesKMeans(_KMeans, OfSequences):
    """k-means of resampled and standardized curves, parameters as of `StatisticsKMeans`."""

    _described = ResampledCurves
    _standardized = False


class ConvolutionsKMeans(_KMeans, OfSequences):
    """k-means of standardized random convolutions, parameters as of `StatisticsKMeans`."""

    _described = RandomConvolutions


class WarpingKMedoids(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, _Warped):
    """k-medoids of sequences under dynamic time warping.

    Sequences are resampled to the length of the longest one, at most 100 steps; a warping path stays within a tenth of
    this length from the diagonal. Channels are standardized over all sequences. If there are more than 1,000 sequences,
    medoids are searched among 1,000 random sequences, and the others are assigned to the nearest medoid.

    Parameters
    ----------
    n_clusters : int
    n_init : int
        Number of starts, by greedy k-means++.
    random_state : int or None

    Examples
    --------
    >>> import numpy as np
    >>> t = np.arange(40)[:, None]
    >>> X = [np.exp(-((t - place) ** 2) / 8.0) for place in (10, 11)] + [np.sin(t / 4.0 + phase) for phase in (0, 0.1)]
    >>> a, b, c, d = WarpingKMedoids(2, random_state=0).fit(X).labels_
    >>> bool(a == b != c == d)
    True
    """

    def __init__(self, n_clusters: int = 8, *, n_init: int = 10, random_state: int | None = None) -> None:
        self.n_clusters, self.n_init, self.random_state = n_clusters, n_init, random_state

    def fit(self, X: Any, y: object = None) -> Self:
        """Cluster the sequences, a list of arrays (T, d)."""
        check_parameters(self, {"n_clusters": check_whole, "n_init": check_whole})
        rng = random_generator(self.random_state)
        curves = self._curves(X, reset=True)
        if self.n_clusters > len(curves):
            raise ValueError(f"n_clusters={self.n_clusters} for {len(curves)} sequences: pass at most that number")
        some = np.sort(rng.permutation(len(curves))[:_MEDOIDS])
        D = warping_distances(curves[some], curves[some])
        found = [_medoids(D, self.n_clusters, rng) for _ in range(self.n_init)]
        medoids = min(found, key=lambda one: float(D[one].min(axis=0).sum()))
        self.medoids_: NDArray[np.intp] = some[np.sort(medoids)]
        self.curves_ = curves[self.medoids_]
        distances = warping_distances(curves, self.curves_)
        self.labels_: NDArray[np.intp] = distances.argmin(axis=1)
        self.inertia_ = float(distances.min(axis=1).sum())
        return self

    def transform(self, X: Any) -> Array:
        """Return the warping distances to the medoids, (N, n_clusters)."""
        check_is_fitted(self, "curves_")
        return warping_distances(self._curves(X, reset=False), self.curves_)

    def predict(self, X: Any) -> NDArray[np.intp]:
        """Return the nearest medoid of each sequence, (N,)."""
        return self.transform(X).argmin(axis=1)

    @property
    def _n_features_out(self) -> int:
        return len(self.curves_)


def _medoids(D: Array, n_clusters: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Return medoids by greedy k-means++ and alternating minimization (Park and Jun 2009)."""
    chosen = [int(rng.integers(len(D)))]
    while len(chosen) < n_clusters:
        nearest = D[chosen].min(axis=0)
        weights = nearest**2
        weights[chosen] = 0.0
        if not weights.sum() > 0:  # copies only
            weights = np.ones(len(D))
            weights[chosen] = 0.0
        tried = rng.choice(len(D), size=2 + int(np.log(n_clusters)), p=weights / weights.sum())
        chosen.append(int(min(tried, key=lambda one: float(np.minimum(nearest, D[one]).sum()))))
    medoids = np.array(chosen)
    for _ in range(100):
        labels = D[medoids].argmin(axis=0)
        labels[medoids] = np.arange(n_clusters)
        rows = [np.flatnonzero(labels == k) for k in range(n_clusters)]
        moved = np.array([some[D[np.ix_(some, some)].sum(axis=0).argmin()] for some in rows])
        if (moved == medoids).all():
            break
        medoids = moved
    return medoids


class _FeatureClassifier(ClassifierMixin, OfSequences):
    """A classifier of features, standardized or only centred."""

    _standardized: ClassVar[bool] = True

    def _rows(self, X: Any, *, reset: bool) -> Array:
        Z = self._features(X, reset=reset)
        if reset:
            self.mean_, self.scale_ = location_and_scale(Z, self._standardized)
        return (Z - self.mean_) / self.scale_


class SpectrumClassifier(_FeatureClassifier):
    """Support vector machines, one against the rest, with a Gaussian kernel on logarithms of spectra.

    Parameters
    ----------
    C : float
        The parameter C of `sklearn.svm.SVC`; the width of the kernel is that of ``gamma="scale"``.

    Examples
    --------
    >>> import numpy as np
    >>> t = np.arange(80)[:, None]
    >>> X = [np.sin(w * t) for w in (0.2, 0.21, 0.22, 2.0, 2.01, 2.02)]
    >>> SpectrumClassifier().fit(X, ["slow"] * 3 + ["fast"] * 3).predict(X[2:4]).tolist()
    ['slow', 'fast']
    """

    _described = LogSpectrum
    _standardized = False

    def __init__(self, C: float = 10.0) -> None:
        self.C = C

    def fit(self, X: Any, y: ArrayLike) -> Self:
        """Fit sequences and their classes (N,)."""
        check_parameters(self, {"C": check_positive})
        Z = self._rows(X, reset=True)
        labels = _classes(y, len(Z))
        self.classes_, codes = np.unique(labels, return_inverse=True)
        self.rows_ = Z
        spread = float(Z.var())
        self.gamma_ = 1 / (Z.shape[1] * spread) if spread > 0 else 1.0
        kernel = self._kernel(Z)
        self.dual_coef_, self.intercept_ = np.zeros((len(self.classes_), len(Z))), np.zeros(len(self.classes_))
        for c in range(len(self.classes_)):
            machine = SVC(kernel="precomputed", C=self.C).fit(kernel, codes == c)
            self.dual_coef_[c, machine.support_] = machine.dual_coef_[0]
            self.intercept_[c] = machine.intercept_[0]
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the class of each sequence, (N,)."""
        check_is_fitted(self, "dual_coef_")
        scores = self._kernel(self._rows(X, reset=False)) @ self.dual_coef_.T + self.intercept_
        return self.classes_[scores.argmax(axis=1)]

    def _kernel(self, Z: Array) -> Array:
        squared = np.sum(Z**2, axis=1)[:, None] + np.sum(self.rows_**2, axis=1) - 2 * Z @ self.rows_.T
        return np.exp(-self.gamma_ * np.maximum(squared, 0))


class ConvolutionsClassifier(_FeatureClassifier):
    """Ridge regression from standardized random convolutions to the classes, with leave-one-out choice of its weight.

    Parameters
    ----------
    random_state : int or None

    Examples
    --------
    >>> import numpy as np
    >>> t = np.arange(80)[:, None]
    >>> X = [np.sin(w * t) for w in (0.2, 0.21, 0.22, 2.0, 2.01, 2.02)]
    >>> ConvolutionsClassifier(random_state=0).fit(X, ["slow"] * 3 + ["fast"] * 3).predict(X[2:4]).tolist()
    ['slow', 'fast']
    """

    _described = RandomConvolutions

    def __init__(self, random_state: int | None = None) -> None:
        self.random_state = random_state

    def fit(self, X: Any, y: ArrayLike) -> Self:
        """Fit sequences and their classes (N,)."""
        Z = self._rows(X, reset=True)
        ridge = RidgeClassifierCV(alphas=np.logspace(-3, 3, 10)).fit(Z, _classes(y, len(Z)))
        self.classes_: NDArray[Any] = ridge.classes_
        self.coef_, self.intercept_ = np.atleast_2d(cast(Any, ridge.coef_)), np.atleast_1d(cast(Any, ridge.intercept_))
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the class of each sequence, (N,)."""
        check_is_fitted(self, "coef_")
        scores = self._rows(X, reset=False) @ self.coef_.T + self.intercept_
        best = (scores[:, 0] > 0).astype(int) if scores.shape[1] == 1 else scores.argmax(axis=1)
        return self.classes_[best]


class WarpingClassifier(ClassifierMixin, _Warped):
    """The class of the nearest sequence under dynamic time warping, with curves as in `WarpingKMedoids`.

    Examples
    --------
    >>> import numpy as np
    >>> t = np.arange(40)[:, None]
    >>> X = [np.exp(-((t - place) ** 2) / 8.0) for place in (10, 11)] + [np.sin(t / 4.0 + phase) for phase in (0, 0.1)]
    >>> WarpingClassifier().fit(X[:3], ["bump", "bump", "wave"]).predict(X[3:]).tolist()
    ['wave']
    """

    def fit(self, X: Any, y: ArrayLike) -> Self:
        """Store sequences and their classes (N,)."""
        self.curves_ = self._curves(X, reset=True)
        self.classes_, self.targets_ = np.unique(_classes(y, len(self.curves_)), return_inverse=True)
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the class of the nearest sequence of `fit` for each sequence, (N,)."""
        check_is_fitted(self, "curves_")
        nearest = warping_distances(self._curves(X, reset=False), self.curves_).argmin(axis=1)
        return self.classes_[self.targets_[nearest]]


def _classes(y: Any, n: int) -> NDArray[Any]:
    """Validate the classes of `fit`: one per sequence, and at least two different classes."""
    if y is None:
        raise ValueError("the classifier requires y to be passed, but the target y is None")
    labels = np.asarray(y)
    if labels.shape != (n,):
        raise ValueError(f"y has shape {labels.shape} but there are {n} sequences: pass one class for each sequence")
    check_classification_targets(labels)
    if len(np.unique(labels)) < 2:
        raise ValueError("y has only one class: pass sequences of at least two classes")
    return labels
