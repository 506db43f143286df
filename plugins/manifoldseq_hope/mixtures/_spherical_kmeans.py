"""Spherical k-means: clusters of directions by the cosine."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.base import ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

import manifoldseq as ms
from manifoldseq.estimators import (
    RowsLike,
    check_number,
    check_parameters,
    count_distinct,
    row_blocks,
    validate_rows,
    warn_of_few_distinct,
)
from manifoldseq.execution import one_blas_thread
from manifoldseq.models import ModelEstimator

from ..families._family import Array
from ..families._rows import check_number_of, with_direction
from ._cosines import directions, nearest, unit


class SphericalKMeans(ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin, ModelEstimator):
    """Cluster rows by their cosines to unit centres.

    Parameters
    ----------
    n_clusters : int
        The number K of clusters.
    threshold : float
        The threshold epsilon of the features ``max(0, cosine - epsilon)``.
    n_init : int
        The number of starts. The best result is kept.
    max_iter : int
        The largest number of passes over the rows.
    tol : float
        A start ends when the mean cosine changes by at most `tol`.
    random_state : int, numpy.random.Generator, numpy.random.RandomState or None
        Seed of the random choices.
    init : str
        An initializer of the model: ``"seeds"`` (spherical k-means++) or a registered initializer.
    solver : str
        ``"em"`` (k-means) or the name of another solver of `manifoldseq.minimize`, such as ``"online-em"``.
    model : str
        Name of the registered model whose cost is minimized.
    n_jobs : int or None
        The number of threads for the starts, -1 for one per core; None uses the executor of the context.
    verbose : int
        1 logs the end of every start, 2 logs every iteration, to the logger ``"manifoldseq"``.

    Attributes
    ----------
    cluster_centers_ : ndarray of shape (K, D)
        The centres, which have unit length.
    labels_ : ndarray of shape (N,)
    inertia_ : float
        The sum of 1 - cosine over the rows, with the cosine to the nearest centre: `objective_` times the number of
        rows.
    objective_ : float
        The smallest value of the cost of the model, the mean of 1 - cosine.
    n_iter_ : int
    history_ : dict of str to ndarray
        Columns of equal length; ``fun`` is the mean of 1 - cosine.
    status_ : manifoldseq.Status
    n_features_in_ : int

    Notes
    -----
    A cluster that loses all its rows moves to the row that is farthest from its centre.

    References
    ----------
    Dhillon, Modha, Machine Learning 42 (2001).

    Examples
    --------
    >>> import numpy as np
    >>> from manifoldseq_hope import SphericalKMeans
    >>> rng = np.random.default_rng(0)
    >>> X = np.repeat(np.eye(6)[:3], 50, axis=0) + 0.1 * rng.standard_normal((150, 6))
    >>> np.bincount(SphericalKMeans(3, random_state=0).fit(X).labels_).tolist()
    [50, 50, 50]
    """

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        threshold: float = 0.0,
        n_init: int = 1,
        max_iter: int = 100,
        tol: float = 1e-6,
        random_state: Any = None,
        init: str = "seeds",
        solver: str = "em",
        model: str = "hope.cosine",
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_clusters = n_clusters
        self.threshold = threshold
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.init = init
        self.solver = solver
        self.model = model
        self.n_jobs = n_jobs
        self.verbose = verbose

    @one_blas_thread()
    def fit(
        self,
        X: RowsLike,
        y: object = None,
        *,
        observers: Sequence[Any] = (),
        checkpoint: ms.storage.Checkpoint | str | Path | None = None,
        resume: bool = False,
    ) -> Self:
        """Fit to rows.

        Parameters
        ----------
        X : array-like of shape (N, D)
            Sparse matrices stay sparse.
        y : ignored
        observers, checkpoint, resume
            As in `manifoldseq.iterate`, for every start; each has its own folder in the checkpoint.

        Raises
        ------
        ValueError
            For an invalid parameter, NaN, or fewer rows than clusters.

        Warns
        -----
        ConvergenceWarning
            If the rows have fewer different directions than there are clusters.
        """
        check_parameters(self, {"n_clusters": check_number_of, "threshold": (check_number, -1.0, 1.0)})
        every = validate_rows(self, X, reset=True, sparse=True)
        rows = with_direction(every, None)[0]
        if self.n_clusters > rows.shape[0]:
            raise ValueError(f"n_clusters={self.n_clusters} exceeds n_samples={rows.shape[0]}: lower n_clusters")
        data = directions(rows)
        parts = (rows.data, rows.indices, rows.indptr) if issparse(rows) else (rows,)
        options: dict[str, Any] = {"observers": observers, "checkpoint": checkpoint, "resume": resume}
        problem = self._problem(self.model, data, n_clusters=self.n_clusters)
        best = self._solved(problem, *parts, init=self.init, solver=self.solver, **options)
        self.cluster_centers_ = np.asarray(best.x)
        self.inertia_ = best.fun * rows.shape[0]
        self.labels_ = nearest(*directions(every), self.cluster_centers_)[0]
        different = count_distinct((unit(*data, part) for part in row_blocks(rows.shape[0])), self.n_clusters)
        warn_of_few_distinct(different, self.n_clusters, "n_clusters", "directions", stacklevel=3)
        return self

    @one_blas_thread()
    def transform(self, X: RowsLike) -> Array:
        """Return the features ``max(0, cosine - threshold)`` of each row, (N, K)."""
        rows, scale = self._checked(X)
        found = rows @ self.cluster_centers_.T.astype(rows.dtype, copy=False)
        found *= scale[:, None]
        found -= found.dtype.type(self.threshold)
        return np.maximum(found, 0, out=found)

    @one_blas_thread()
    def predict(self, X: RowsLike) -> NDArray[np.intp]:
        """Return the nearest centre of each row, (N,)."""
        return nearest(*self._checked(X), self.cluster_centers_)[0]

    @one_blas_thread()
    def score(self, X: RowsLike, y: object = None) -> float:
        """Return the mean cosine of the rows to their nearest centres."""
        return float(nearest(*self._checked(X), self.cluster_centers_)[1].mean(dtype=np.float64))

    def _checked(self, X: RowsLike) -> tuple[Array, Array]:
        check_is_fitted(self, "cluster_centers_")
        return directions(validate_rows(self, X, reset=False, sparse=True))

    def __sklearn_tags__(self) -> Any:
        """Return the tags of scikit-learn: sparse rows are accepted."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    @property
    def _n_features_out(self) -> int:
        return len(self.cluster_centers_)
