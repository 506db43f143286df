"""Controls: simple estimators without a model of time, or with second moments only."""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse
from sklearn.base import (
    BaseEstimator,
    ClassifierMixin,
    ClassNamePrefixFeaturesOutMixin,
    ClusterMixin,
    TransformerMixin,
)
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import pairwise_distances
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import StandardScaler, normalize
from sklearn.utils.validation import check_is_fitted

from ..estimators import (
    RowsLike,
    SequencesLike,
    channel_statistics,
    check_channel_names,
    check_optional,
    check_parameters,
    check_positive,
    check_whole,
    keep_channel_names,
    random_generator,
    validate_rows,
    validate_sequences,
)

Array = NDArray[np.float64]

_MOST_CHANNELS = 32
"""Maximum number of channels for cross-covariances; with more channels, only autocovariances are features."""


class _OfRows(BaseEstimator):
    """An estimator of rows, (N, d); sparse rows stay sparse."""

    def __sklearn_tags__(self) -> Any:
        """Return the tags of scikit-learn: sparse rows are accepted."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _features(self, X: RowsLike, *, reset: bool) -> Any:
        return validate_rows(self, X, reset=reset, sparse=True).astype(np.float64, copy=False)


class OfSequences(BaseEstimator):
    """An estimator of sequences, arrays (T, d), that uses features of each sequence."""

    _described: "ClassVar[type[SequenceFeatures]]"

    def _features(self, X: SequencesLike, *, reset: bool) -> Array:
        sequences = validate_sequences(self, X, reset=reset)
        keep_channel_names(self, X) if reset else check_channel_names(self, X)
        features, learned = self._described(), self._described.learned
        if "random_state" in features.get_params():
            features.set_params(random_state=cast(Any, self).random_state)
        if reset:
            features.learn(sequences)
        for name in learned:
            one, other = (features, self) if reset else (self, features)
            setattr(other, name, getattr(one, name))
        return features.described(sequences)


class SequenceFeatures(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """One row of features per sequence: the base class of `ChannelStatistics`, `LogSpectrum` and others.

    A subclass defines `described`. It also defines `learn` and `learned` if the description depends on the sequences of
    `fit`.

    Examples
    --------
    >>> class Lengths(SequenceFeatures):
    ...     def described(self, sequences):
    ...         return np.array([[float(len(x))] for x in sequences])
    >>> Lengths().fit_transform([[[0.0], [1.0]], [[2.0]]]).tolist()
    [[2.0], [1.0]]
    """

    n_features_in_: int
    learned: ClassVar[tuple[str, ...]] = ()
    """Attributes that `learn` sets, for the description of other sequences."""

    def fit(self, X: SequencesLike, y: object = None) -> Self:
        """Validate the sequences, a list of arrays (T, d)."""
        sequences = validate_sequences(self, X, reset=True)
        keep_channel_names(self, X)
        self.learn(sequences)
        self._n_features_out = self.described(sequences[:1]).shape[1]
        return self

    def transform(self, X: SequencesLike) -> Array:
        """Return the features, one row per sequence, float64."""
        check_is_fitted(self, "n_features_in_")
        check_channel_names(self, X)
        return self.described(validate_sequences(self, X, reset=False))

    def learn(self, sequences: list[Array]) -> None:
        """Learn attributes for the description of sequences; most features learn nothing."""

    @abstractmethod
    def described(self, sequences: list[Array]) -> Array:
        """Return the features of validated sequences."""


class ChannelStatistics(SequenceFeatures):
    """The mean and the standard deviation of each channel of a sequence.

    Examples
    --------
    >>> import numpy as np
    >>> ChannelStatistics().fit_transform([np.array([[0.0], [2.0]]), np.array([[5.0], [5.0]])]).tolist()
    [[1.0, 1.0], [5.0, 0.0]]
    """

    def described(self, sequences: list[Array]) -> Array:
        """Return means and deviations, (N, 2 d)."""
        return channel_statistics(sequences)


class LaggedAutocovariance(SequenceFeatures):
    """Covariances of the channels of a sequence with the channels at later steps.

    A linear dynamical system determines these covariances. They are computed without identifying a system. Covariances
    are divided by the standard deviations, so that level and size of a channel have no effect: ``E[x_i(t) x_j(t + lag)]
    / (s_i s_j)``. `transform` returns them lag by lag, (N, (n_lags + 1) d²), and only autocovariances for more than 32
    channels.

    Parameters
    ----------
    n_lags : int
        The largest lag. Covariances at lags beyond the end of a sequence are zero.

    Examples
    --------
    >>> import numpy as np
    >>> t = np.arange(200.0)
    >>> slow, fast = (np.sin(w * t)[:, None] for w in (0.1, 3.0))
    >>> LaggedAutocovariance(n_lags=1).fit_transform([slow, fast]).round(1).tolist()
    [[1.0, 1.0], [1.0, -1.0]]
    """

    def __init__(self, n_lags: int = 4) -> None:
        self.n_lags = n_lags

    def fit(self, X: SequencesLike, y: object = None) -> Self:
        """Validate the sequences, a list of arrays (T, d)."""
        check_whole("n_lags", self.n_lags, 0)
        return super().fit(X)

    def described(self, sequences: list[Array]) -> Array:
        """Return the covariances lag by lag."""
        return np.stack([self._of(x) for x in sequences])

    def _of(self, x: Array) -> Array:
        centred = x - x.mean(axis=0)
        spread = np.sqrt(np.mean(centred**2, axis=0))
        z = centred / np.where(spread > 0, spread, 1.0)
        T, d = z.shape
        parts = []
        for lag in range(self.n_lags + 1):
            early, late = z[: max(T - lag, 0)], z[lag:]
            if d > _MOST_CHANNELS:
                parts.append(np.sum(early * late, axis=0) / T)
            else:
                parts.append((early.T @ late).ravel() / T)
        return np.concatenate(parts)


class PrincipalComponents(ClassNamePrefixFeaturesOutMixin, TransformerMixin, _OfRows):
    """Coordinates of rows along their principal components, by scikit-learn's `PCA`.

    Parameters
    ----------
    n_components : int or None
        The number of components; all by default.

    Examples
    --------
    >>> import numpy as np
    >>> PrincipalComponents(1).fit_transform(np.diag([3.0, 1.0])).round(2).ravel().tolist()
    [1.58, -1.58]
    """

    def __init__(self, n_components: int | None = None) -> None:
        self.n_components = n_components

    def fit(self, X: RowsLike, y: object = None) -> Self:
        """Fit rows of numbers, (N, d)."""
        check_parameters(self, {"n_components": (check_optional, check_whole)})
        with np.errstate(invalid="ignore"):  # the shares of a variance of zero
            found = PCA(self.n_components).fit(self._features(X, reset=True))
        self.mean_, self.components_ = cast(Array, found.mean_), cast(Array, found.components_)
        return self

    def transform(self, X: RowsLike) -> Array:
        """Return coordinates along the principal components, (N, n_components)."""
        check_is_fitted(self, "components_")
        return (self._features(X, reset=False) - self.mean_) @ self.components_.T

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)


class RowNeighbors(_OfRows):
    """The nearest rows by the distance of standardized columns: a baseline for neighbours of samples.

    Parameters
    ----------
    n_neighbors : int
        The number of neighbours that vote.

    Examples
    --------
    >>> RowNeighbors(1).fit([[0.0], [0.1], [7.0]]).kneighbors(return_distance=False).ravel().tolist()
    [1, 0, 1]
    """

    def __init__(self, n_neighbors: int = 5) -> None:
        self.n_neighbors = n_neighbors

    def fit(self, X: RowsLike, y: object = None) -> Self:
        """Store standardized rows, (N, d)."""
        check_whole("n_neighbors", self.n_neighbors)
        Z = self._features(X, reset=True)
        self.mean_, self.scale_ = location_and_scale(Z)
        self.rows_ = (Z - self.mean_) / self.scale_
        return self

    def kneighbors(
        self, X: RowsLike | None = None, n_neighbors: int | None = None, return_distance: bool = True
    ) -> tuple[Array, NDArray[np.intp]] | NDArray[np.intp]:
        """Return distances and numbers of the nearest rows, each (N, n_neighbors); without X, each row is compared
        with the other rows."""
        check_is_fitted(self, "rows_")
        Z = None if X is None else (self._features(X, reset=False) - self.mean_) / self.scale_
        nearest = NearestNeighbors().fit(self.rows_)
        return nearest.kneighbors(cast(Any, Z), n_neighbors or self.n_neighbors, return_distance)


class _KMeans(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, BaseEstimator):
    """k-means of features, which are standardized unless a class says that they have one unit."""

    _features: Callable[..., Any]
    _standardized: ClassVar[bool] = True

    def __init__(self, n_clusters: int = 8, *, n_init: int = 10, random_state: int | None = None) -> None:
        self.n_clusters, self.n_init, self.random_state = n_clusters, n_init, random_state

    def fit(self, X: RowsLike | SequencesLike, y: object = None) -> Self:
        """Cluster the members."""
        check_parameters(self, {"n_clusters": check_whole})
        random_generator(self.random_state)  # raises for what is no seed
        Z = self._features(X, reset=True)
        self.mean_, self.scale_ = location_and_scale(Z, self._standardized)
        kmeans: Any = KMeans(self.n_clusters, n_init=cast(Any, self.n_init), random_state=self.random_state)
        kmeans.fit((Z - self.mean_) / self.scale_)
        self.cluster_centers_: Array = kmeans.cluster_centers_
        self.labels_: NDArray[np.int32] = kmeans.labels_
        self.inertia_ = float(kmeans.inertia_)
        return self

    def transform(self, X: RowsLike | SequencesLike) -> Array:
        """Return the distances of the standardized features to the centres, (N, n_clusters)."""
        check_is_fitted(self, "cluster_centers_")
        Z = (self._features(X, reset=False) - self.mean_) / self.scale_
        return cast(Array, pairwise_distances(Z, self.cluster_centers_))

    def predict(self, X: RowsLike | SequencesLike) -> NDArray[np.intp]:
        """Return the nearest cluster of each member, (N,)."""
        return self.transform(X).argmin(axis=1)

    @property
    def _n_features_out(self) -> int:
        return len(self.cluster_centers_)


def location_and_scale(Z: Any, standardized: bool = True) -> tuple[Array | float, Array | float]:
    """Return the means and scales of features; sparse features are not changed, because their zeros are meaningful."""
    if issparse(Z):
        return 0.0, 1.0
    if not standardized:
        return Z.mean(axis=0), 1.0
    scaler = StandardScaler().fit(Z)
    return cast(Array, scaler.mean_), cast(Array, scaler.scale_)


class StatisticsKMeans(_KMeans, OfSequences):
    """k-means of the means and standard deviations of channels: a baseline for clusterings of sequences.

    Parameters
    ----------
    n_clusters : int
        Number of clusters.
    n_init : int
        Number of starts.
    random_state : int or None
        Seed of the random choices.

    Examples
    --------
    >>> import numpy as np
    >>> X = [np.full((5, 1), level) for level in (0.0, 0.1, 7.0, 7.1)]
    >>> a, b, c, d = StatisticsKMeans(2, random_state=0).fit(X).labels_
    >>> bool(a == b != c == d)
    True
    """

    _described = ChannelStatistics


class AutocovarianceKMeans(_KMeans, OfSequences):
    """k-means of lagged autocovariances, with the parameters of `StatisticsKMeans`: second moments, without a model."""

    _described = LaggedAutocovariance


class RowKMeans(_KMeans, _OfRows):
    """k-means of standardized rows, with the parameters of `StatisticsKMeans`: a control for clusterings of samples.

    Sparse rows are not standardized.
    """


class NormalizedKMeans(_KMeans, _OfRows):
    """k-means of rows divided by their lengths, with the parameters of `StatisticsKMeans`: a control for directions."""

    _standardized = False

    def _features(self, X: RowsLike, *, reset: bool) -> Any:
        return normalize(super()._features(X, reset=reset))


class _Classifier(ClassifierMixin, BaseEstimator):
    """Logistic regression on standardized features."""

    _features: Callable[..., Any]

    def __init__(self, C: float = 1.0) -> None:
        self.C = C

    def fit(self, X: RowsLike | SequencesLike, y: ArrayLike) -> Self:
        """Fit members and their classes (N,)."""
        check_parameters(self, {"C": check_positive})
        Z = self._features(X, reset=True)
        mean, scale = location_and_scale(Z)
        logistic = linear_classifier(self.C)[-1].fit((Z - mean) / scale, y)
        self.classes_: NDArray[Any] = logistic.classes_
        self.coef_: Array = logistic.coef_ / scale
        self.intercept_: Array = logistic.intercept_ - (self.coef_ * mean).sum(axis=1)
        return self

    def predict(self, X: RowsLike | SequencesLike) -> NDArray[Any]:
        """Return the class of each member, (N,)."""
        check_is_fitted(self, "coef_")
        scores = self._features(X, reset=False) @ self.coef_.T + self.intercept_
        best = (scores[:, 0] > 0).astype(int) if scores.shape[1] == 1 else scores.argmax(axis=1)
        return self.classes_[best]


class StatisticsClassifier(_Classifier, OfSequences):
    """Logistic regression on the means and standard deviations of channels: a control for models of time.

    Parameters
    ----------
    C : float
        The parameter C of `sklearn.linear_model.LogisticRegression`.

    Examples
    --------
    >>> import numpy as np
    >>> X = [np.full((5, 1), level) for level in (0.0, 0.1, 7.0, 7.1)]
    >>> StatisticsClassifier().fit(X, ["low", "low", "high", "high"]).predict(X[1:3]).tolist()
    ['low', 'high']
    """

    _described = ChannelStatistics


class AutocovarianceClassifier(_Classifier, OfSequences):
    """Logistic regression on lagged autocovariances, with the parameters of `StatisticsClassifier`."""

    _described = LaggedAutocovariance


class RowClassifier(_Classifier, _OfRows):
    """Logistic regression on standardized rows, with the parameters of `StatisticsClassifier`.

    Sparse rows are not standardized.
    """


def linear_classifier(C: float = 1.0) -> tuple[Any, ...]:
    """Return the steps of a linear classifier of features with arbitrary scales."""
    return StandardScaler(), LogisticRegression(C=C, max_iter=2000)


STANDARDIZING = (SequenceFeatures, RowNeighbors, _KMeans, _Classifier)
"""Controls that do not depend on the units of columns."""
