"""Baselines for sequences: spectra, resampled curves, random convolutions, and dynamic time warping.

Each baseline is a standard method for one kind of difference between sequences: rhythms, shapes that are aligned in
time, local patterns at any place, and shapes at different speeds. None of them needs a model.
"""

from typing import Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin, ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin
from sklearn.linear_model import RidgeClassifierCV
from sklearn.svm import SVC
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from ..estimators import SequencesLike, check_parameters, check_positive, check_whole, random_generator
from ..kernels import spread_rows
from ._controls import ChannelStatistics, LaggedAutocovariance, OfSequences, _KMeans, location_and_scale
from ._sequence_features import AlignedCurves, LogSpectrum, RandomConvolutions, ResampledCurves, warping_distances

Array = NDArray[np.float64]

_MEDOIDS = 1000
"""Maximum number of sequences for the search of medoids, because the number of distances is quadratic."""


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


class _Warped(OfSequences):
    """An estimator of sequences by their warping distances."""

    _described = AlignedCurves

    def _curves(self, X: SequencesLike, *, reset: bool) -> Array:
        """Return curves (N, n_steps, d)."""
        rows = self._features(X, reset=reset)
        return rows.reshape(len(rows), cast(Any, self).n_steps_, -1)


class SpectrumKMeans(_KMeans, OfSequences):
    """k-means of logarithms of spectra, with the parameters of `StatisticsKMeans`."""

    _described = LogSpectrum
    _standardized = False


class CurvesKMeans(_KMeans, OfSequences):
    """k-means of resampled and standardized curves, with the parameters of `StatisticsKMeans`."""

    _described = ResampledCurves
    _standardized = False


class ConvolutionsKMeans(_KMeans, OfSequences):
    """k-means of standardized random convolutions, with the parameters of `StatisticsKMeans`."""

    _described = RandomConvolutions


class WarpingKMedoids(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, _Warped):
    """k-medoids of sequences under dynamic time warping.

    Sequences are resampled to the length of the longest one, at most 100 steps; a warping path stays within a tenth of
    this length from the diagonal. Channels are standardized over all sequences. If there are more than 1,000 sequences,
    medoids are searched among 1,000 random sequences, and the others are assigned to the nearest medoid.

    Parameters
    ----------
    n_clusters : int
        Number of clusters.
    n_init : int
        Number of starts, by greedy k-means++.
    random_state : int or None
        Seed of the random choices.

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

    def fit(self, X: SequencesLike, y: object = None) -> Self:
        """Cluster the sequences, a list of arrays (T, d)."""
        check_parameters(self, {"n_clusters": check_whole, "n_init": check_whole})
        rng = random_generator(self.random_state)
        curves = self._curves(X, reset=True)
        if self.n_clusters > len(curves):
            raise ValueError(
                f"n_clusters={self.n_clusters} exceeds {len(curves)}, the number of sequences: lower n_clusters"
            )
        some = np.sort(rng.permutation(len(curves))[:_MEDOIDS])
        drawn = curves[some]
        D = warping_distances(drawn, drawn)
        found = [_medoids(D, self.n_clusters, rng) for _ in range(self.n_init)]
        medoids = min(found, key=lambda one: float(D[one].min(axis=0).sum()))
        self.medoids_: NDArray[np.intp] = some[np.sort(medoids)]
        self.curves_ = curves[self.medoids_]
        distances = warping_distances(curves, self.curves_)
        self.labels_: NDArray[np.intp] = distances.argmin(axis=1)
        self.inertia_ = float(distances.min(axis=1).sum())
        return self

    def transform(self, X: SequencesLike) -> Array:
        """Return the warping distances to the medoids, (N, n_clusters)."""
        check_is_fitted(self, "curves_")
        return warping_distances(self._curves(X, reset=False), self.curves_)

    def predict(self, X: SequencesLike) -> NDArray[np.intp]:
        """Return the nearest medoid of each sequence, (N,)."""
        return self.transform(X).argmin(axis=1)

    @property
    def _n_features_out(self) -> int:
        return len(self.curves_)


def _medoids(D: Array, n_clusters: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Return medoids by greedy k-means++ and alternating minimization (Park and Jun 2009)."""
    medoids = spread_rows(len(D), n_clusters, rng, lambda rows: D[rows], power=2)
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

    def _rows(self, X: SequencesLike, *, reset: bool) -> Array:
        Z = self._features(X, reset=reset)
        if reset:
            self.mean_, self.scale_ = location_and_scale(Z, self._standardized)
        return (Z - self.mean_) / self.scale_


class SpectrumClassifier(_FeatureClassifier):
    """Support vector machines, one against the rest, with a Gaussian kernel on logarithms of spectra.

    Parameters
    ----------
    C : float
        The parameter C of `sklearn.svm.SVC`; the kernel has ``gamma="scale"``.

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

    def fit(self, X: SequencesLike, y: ArrayLike) -> Self:
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

    def predict(self, X: SequencesLike) -> NDArray[Any]:
        """Return the class of each sequence, (N,)."""
        check_is_fitted(self, "dual_coef_")
        scores = self._kernel(self._rows(X, reset=False)) @ self.dual_coef_.T + self.intercept_
        return self.classes_[scores.argmax(axis=1)]

    def _kernel(self, Z: Array) -> Array:
        squared = np.sum(Z**2, axis=1)[:, None] + np.sum(self.rows_**2, axis=1) - 2 * Z @ self.rows_.T
        return np.exp(-self.gamma_ * np.maximum(squared, 0))


class ConvolutionsClassifier(_FeatureClassifier):
    """Ridge regression from standardized random convolutions to the classes; leave-one-out chooses the penalty.

    Parameters
    ----------
    random_state : int or None
        Seed of the random choices.

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

    def fit(self, X: SequencesLike, y: ArrayLike) -> Self:
        """Fit sequences and their classes (N,)."""
        Z = self._rows(X, reset=True)
        ridge = RidgeClassifierCV(alphas=np.logspace(-3, 3, 10)).fit(Z, _classes(y, len(Z)))
        self.classes_: NDArray[Any] = ridge.classes_
        self.coef_, self.intercept_ = np.atleast_2d(cast(Any, ridge.coef_)), np.atleast_1d(cast(Any, ridge.intercept_))
        return self

    def predict(self, X: SequencesLike) -> NDArray[Any]:
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

    def fit(self, X: SequencesLike, y: ArrayLike) -> Self:
        """Store sequences and their classes (N,)."""
        self.curves_ = self._curves(X, reset=True)
        self.classes_, self.targets_ = np.unique(_classes(y, len(self.curves_)), return_inverse=True)
        return self

    def predict(self, X: SequencesLike) -> NDArray[Any]:
        """Return the class of the nearest sequence of `fit` for each sequence, (N,)."""
        check_is_fitted(self, "curves_")
        nearest = warping_distances(self._curves(X, reset=False), self.curves_).argmin(axis=1)
        return self.classes_[self.targets_[nearest]]


def _classes(y: ArrayLike | None, n: int) -> NDArray[Any]:
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
