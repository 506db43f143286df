"""Controls: estimators of sequences that know no model of time, or nothing but second moments."""

from typing import Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, ClassifierMixin, ClusterMixin, TransformerMixin
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import pairwise_distances
from sklearn.neighbors import NearestNeighbors
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_array, check_is_fitted

from ..estimators import channel_statistics, check_real, check_sequences

Array = NDArray[np.float64]

_MOST_CHANNELS = 32
"""Of more, only the covariances of each channel with itself are features."""


class ChannelStatistics(TransformerMixin, BaseEstimator):
    """The mean and the standard deviation of each channel of a sequence.

    Examples
    --------
    >>> import numpy as np
    >>> ChannelStatistics().fit_transform([np.array([[0.0], [2.0]]), np.array([[5.0], [5.0]])]).tolist()
    [[1.0, 1.0], [5.0, 0.0]]
    """

    def fit(self, X: Any, y: object = None) -> Self:
        """Check the sequences, a list of arrays (T, d)."""
        self.n_features_in_ = check_sequences(X)[0].shape[1]
        return self

    def transform(self, X: Any) -> Array:
        """Return means and deviations, (N, 2 d), float64."""
        check_is_fitted(self, "n_features_in_")
        return channel_statistics(X)


class LaggedAutocovariance(TransformerMixin, BaseEstimator):
    """Covariances of the channels of a sequence with those some steps later.

    What a linear dynamical system determines, without identifying one. The covariances at lag 0 are divided out, so
    that neither level nor size of a channel counts: ``E[x_i(t) x_j(t + lag)] / (s_i s_j)``.

    Parameters
    ----------
    n_lags : int
        Lags 0 to `n_lags`; those beyond the end of a sequence are zero.

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

    def fit(self, X: Any, y: object = None) -> Self:
        """Check the sequences, a list of arrays (T, d)."""
        if isinstance(self.n_lags, bool) or not isinstance(self.n_lags, int | np.integer) or self.n_lags < 0:
            raise ValueError(f"n_lags={self.n_lags!r}: pass a whole number, 0 or more")
        self.n_features_in_ = check_sequences(X)[0].shape[1]
        return self

    def transform(self, X: Any) -> Array:
        """Return the covariances lag by lag, (N, (n_lags + 1) d²), float64; of more than 32 channels the diagonals."""
        check_is_fitted(self, "n_features_in_")
        return np.stack([self._of(x) for x in check_sequences(X)])

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


class _Rows:
    """Rows of numbers as they are, checked; sparse ones stay sparse."""

    def fit_transform(self, X: Any) -> Array:
        """Return the rows, (N, d), float64."""
        return check_array(check_real(X), dtype=cast(Any, np.float64), accept_sparse=cast(Any, "csr"))


class PrincipalComponents(TransformerMixin, BaseEstimator):
    """Coordinates of rows along their principal components, by scikit-learn's `PCA`.

    Parameters
    ----------
    n_components : int or None
        All by default.

    Examples
    --------
    >>> import numpy as np
    >>> PrincipalComponents(1).fit_transform(np.diag([3.0, 1.0])).round(2).ravel().tolist()
    [1.58, -1.58]
    """

    def __init__(self, n_components: int | None = None) -> None:
        self.n_components = n_components

    def fit(self, X: Any, y: object = None) -> Self:
        """Fit rows of numbers, (N, d)."""
        with np.errstate(invalid="ignore"):  # the shares of a variance of zero
            found = PCA(self.n_components).fit(_Rows().fit_transform(X))
        self.mean_, self.components_ = cast(Array, found.mean_), cast(Array, found.components_)
        return self

    def transform(self, X: Any) -> Array:
        """Return coordinates along the principal components, (N, n_components)."""
        check_is_fitted(self, "components_")
        return (_Rows().fit_transform(X) - self.mean_) @ self.components_.T


class RowNeighbors(BaseEstimator):
    """The nearest rows by the distance of standardized columns: a control for neighbours of samples.

    Parameters
    ----------
    n_neighbors : int

    Examples
    --------
    >>> RowNeighbors(1).fit([[0.0], [0.1], [7.0]]).kneighbors(return_distance=False).ravel().tolist()
    [1, 0, 1]
    """

    def __init__(self, n_neighbors: int = 5) -> None:
        self.n_neighbors = n_neighbors

    def fit(self, X: Any, y: object = None) -> Self:
        """Keep rows of numbers, (N, d), standardized."""
        Z = _Rows().fit_transform(X)
        self.mean_, self.scale_ = _location_and_scale(Z)
        self.rows_ = (Z - self.mean_) / self.scale_
        return self

    def kneighbors(self, X: Any = None, n_neighbors: int | None = None, return_distance: bool = True) -> Any:
        """Return distances and numbers of the nearest rows, each (N, n_neighbors); without X, of the others."""
        check_is_fitted(self, "rows_")
        Z = None if X is None else (_Rows().fit_transform(X) - self.mean_) / self.scale_
        nearest = NearestNeighbors().fit(self.rows_)
        return nearest.kneighbors(cast(Any, Z), n_neighbors or self.n_neighbors, return_distance)


class _KMeans(ClusterMixin, BaseEstimator):
    """k-means of standardized features."""

    _features: ClassVar[type[Any]]

    def __init__(self, n_clusters: int = 8, *, n_init: int = 10, random_state: int | None = None) -> None:
        self.n_clusters, self.n_init, self.random_state = n_clusters, n_init, random_state

    def fit(self, X: Any, y: object = None) -> Self:
        """Cluster the members."""
        Z = self._features().fit_transform(X)
        self.mean_, self.scale_ = _location_and_scale(Z)
        kmeans: Any = KMeans(self.n_clusters, n_init=cast(Any, self.n_init), random_state=self.random_state)
        kmeans.fit((Z - self.mean_) / self.scale_)
        self.cluster_centers_: Array = kmeans.cluster_centers_
        self.labels_: NDArray[np.int32] = kmeans.labels_
        self.inertia_ = float(kmeans.inertia_)
        return self

    def transform(self, X: Any) -> Array:
        """Return the distances of the standardized features to the centres, (N, n_clusters)."""
        check_is_fitted(self, "cluster_centers_")
        Z = (self._features().fit_transform(X) - self.mean_) / self.scale_
        return cast(Array, pairwise_distances(Z, self.cluster_centers_))

    def predict(self, X: Any) -> NDArray[np.intp]:
        """Return the nearest cluster of each member, (N,)."""
        return self.transform(X).argmin(axis=1)


def _location_and_scale(Z: Any) -> tuple[Array | float, Array | float]:
    """Return what features are standardized by; sparse ones, whose zeros mean something, stay as they are."""
    if issparse(Z):
        return 0.0, 1.0
    scaler = StandardScaler().fit(Z)
    return cast(Array, scaler.mean_), cast(Array, scaler.scale_)


class StatisticsKMeans(_KMeans):
    """k-means of the means and standard deviations of channels: a control for clusterings by models of time.

    Parameters
    ----------
    n_clusters, n_init : int
    random_state : int or None

    Examples
    --------
    >>> import numpy as np
    >>> X = [np.full((5, 1), level) for level in (0.0, 0.1, 7.0, 7.1)]
    >>> a, b, c, d = StatisticsKMeans(2, random_state=0).fit(X).labels_
    >>> bool(a == b != c == d)
    True
    """

    _features = ChannelStatistics


class AutocovarianceKMeans(_KMeans):
    """k-means of lagged autocovariances, parameters as of `StatisticsKMeans`: second moments, without a model."""

    _features = LaggedAutocovariance


class RowKMeans(_KMeans):
    """k-means of standardized rows, parameters as of `StatisticsKMeans`: a control for clusterings of samples.

    Sparse rows are not standardized.
    """

    _features = _Rows


class _Classifier(ClassifierMixin, BaseEstimator):
    """Logistic regression on standardized features."""

    _features: ClassVar[type[Any]]

    def __init__(self, C: float = 1.0) -> None:
        self.C = C

    def fit(self, X: Any, y: ArrayLike) -> Self:
        """Fit members and their classes (N,)."""
        Z = self._features().fit_transform(X)
        scaler, logistic = make_pipeline(*linear_classifier(self.C)).fit(Z, y).named_steps.values()
        self.classes_: NDArray[Any] = logistic.classes_
        self.coef_: Array = logistic.coef_ / scaler.scale_
        self.intercept_: Array = logistic.intercept_ - self.coef_ @ scaler.mean_
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the class of each member, (N,)."""
        check_is_fitted(self, "coef_")
        scores = self._features().fit_transform(X) @ self.coef_.T + self.intercept_
        best = (scores[:, 0] > 0).astype(int) if scores.shape[1] == 1 else scores.argmax(axis=1)
        return self.classes_[best]


class StatisticsClassifier(_Classifier):
    """Logistic regression on the means and standard deviations of channels: a control for models of time.

    Parameters
    ----------
    C : float
        Of `sklearn.linear_model.LogisticRegression`.

    Examples
    --------
    >>> import numpy as np
    >>> X = [np.full((5, 1), level) for level in (0.0, 0.1, 7.0, 7.1)]
    >>> StatisticsClassifier().fit(X, ["low", "low", "high", "high"]).predict(X[1:3]).tolist()
    ['low', 'high']
    """

    _features = ChannelStatistics


class AutocovarianceClassifier(_Classifier):
    """Logistic regression on lagged autocovariances, parameters as of `StatisticsClassifier`."""

    _features = LaggedAutocovariance


class RowClassifier(_Classifier):
    """Logistic regression on standardized rows, parameters as of `StatisticsClassifier`."""

    _features = _Rows


def linear_classifier(C: float = 1.0) -> tuple[Any, ...]:
    """Return the steps of a linear classifier of features of any scale."""
    return StandardScaler(), LogisticRegression(C=C, max_iter=2000)


STANDARDIZING = (ChannelStatistics, LaggedAutocovariance, RowNeighbors, _KMeans, _Classifier)
"""Controls to which the units of columns make no difference."""
