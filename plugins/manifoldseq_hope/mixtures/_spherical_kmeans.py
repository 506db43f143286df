"""Spherical k-means: clusters of directions by the cosine."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, diags_array, issparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin
from sklearn.cluster import kmeans_plusplus
from sklearn.utils.validation import check_is_fitted

import manifoldseq as ms
from manifoldseq.estimators import (
    check_number,
    check_parameters,
    count_distinct,
    fit_starts,
    row_blocks,
    validate_rows,
    warn_of_few_distinct,
)
from manifoldseq.execution import one_blas_thread

from ..families._family import Array
from ..families._rows import check_number_of, unit_rows, with_direction

_BLOCK = 1 << 18
_SEEN, _LEAST = 20, 2000
"""Number of rows per cluster, and minimum number of rows, that a start uses."""


class SphericalKMeans(ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin, BaseEstimator):
    """Cluster rows by their cosines to unit centres.

    Parameters
    ----------
    n_clusters : int
        K.
    threshold : float
        The threshold epsilon of the features ``max(0, cosine - epsilon)``.
    n_init : int
        The number of starts from spherical k-means++ seeds. The best result is kept.
    max_iter : int
    tol : float
        A start ends when the mean cosine changes by at most this.
    random_state : int, numpy.random.Generator, numpy.random.RandomState or None
    n_jobs, verbose
        The number of threads for the starts, and the amount of logging: see `manifoldseq.estimators.fit_starts`.

    Attributes
    ----------
    cluster_centers_ : ndarray of shape (K, D)
        The centres, which have unit length.
    labels_ : ndarray of shape (N,)
    inertia_ : float
        The sum of 1 - cosine over the rows, with the cosine to the nearest centre.
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
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_clusters = n_clusters
        self.threshold = threshold
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    @one_blas_thread()
    def fit(
        self,
        X: Any,
        y: Any = None,
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
        rows, scale = _directions(with_direction(every, None)[0])
        N = rows.shape[0]
        if self.n_clusters > N:
            raise ValueError(f"n_clusters={self.n_clusters} exceeds n_samples={N}: lower n_clusters")

        def run(number: int, rng: np.random.Generator, **loop: Any) -> ms.Run:
            return ms.iterate(
                lambda state: _step(rows, scale, state),
                lambda: _start(rows, scale, self.n_clusters, rng),
                stop=ms.CostChange(self.tol) | ms.MaxIterations(self.max_iter),
                **loop,
            )

        parts = (rows.data, rows.indices, rows.indptr) if issparse(rows) else (rows,)
        best = fit_starts(self, run, *parts, observers=observers, checkpoint=checkpoint, resume=resume)
        self.cluster_centers_ = np.asarray(best.state["x"])
        self.inertia_ = best.measures.fun * N
        self.n_iter_, self.history_, self.status_ = best.nit, best.history, best.status
        self.labels_ = _nearest(*_directions(every), self.cluster_centers_)[0]
        different = count_distinct((_unit(rows, scale, part) for part in row_blocks(N)), self.n_clusters)
        warn_of_few_distinct(different, self.n_clusters, "n_clusters", "directions", stacklevel=3)
        return self

    @one_blas_thread()
    def transform(self, X: Any) -> Array:
        """Return the features ``max(0, cosine - threshold)`` of each row, (N, K)."""
        rows, scale = self._checked(X)
        found = rows @ self.cluster_centers_.T.astype(rows.dtype, copy=False)
        found *= scale[:, None]
        found -= found.dtype.type(self.threshold)
        return np.maximum(found, 0, out=found)

    @one_blas_thread()
    def predict(self, X: Any) -> NDArray[np.intp]:
        """Return the nearest centre of each row, (N,)."""
        return _nearest(*self._checked(X), self.cluster_centers_)[0]

    @one_blas_thread()
    def score(self, X: Any, y: Any = None) -> float:
        """Return the mean cosine of the rows to their nearest centres."""
        return float(_nearest(*self._checked(X), self.cluster_centers_)[1].mean(dtype=np.float64))

    def _checked(self, X: Any) -> tuple[Array, Array]:
        check_is_fitted(self, "cluster_centers_")
        return _directions(validate_rows(self, X, reset=False, sparse=True))

    def __sklearn_tags__(self) -> Any:
        """Return the tags of scikit-learn: sparse rows are accepted."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    @property
    def _n_features_out(self) -> int:
        return len(self.cluster_centers_)


def _directions(X: Any) -> tuple[Any, Array]:
    """Return rows (N, D) and the factors (N,) that scale them to unit length; rows of zeros stay.

    The rows are X itself, which may be larger than memory, unless squares overflow or underflow.
    """
    if issparse(X):
        return unit_rows(X), np.ones(X.shape[0], X.dtype)
    limits = np.finfo(X.dtype)
    with np.errstate(all="ignore"):
        length = np.sqrt(np.einsum("nd,nd->n", X, X))
        if np.all((length > np.sqrt(limits.tiny) / limits.eps) & (length < np.inf)):
            return X, 1 / length
    return unit_rows(X), np.ones(len(X), X.dtype)


def _nearest(rows: Any, scale: Array, centres: Array) -> tuple[NDArray[np.intp], Array]:
    """Return the nearest centre of each row and the cosine to it."""
    N = rows.shape[0]
    labels, cosine = np.empty(N, np.intp), np.empty(N, rows.dtype)
    across, size = centres.T.astype(rows.dtype), max(1, _BLOCK // len(centres))
    for start in range(0, N, size):
        part = slice(start, start + size)
        near = rows[part] @ across
        labels[part] = near.argmax(axis=1)
        cosine[part] = near[np.arange(len(near)), labels[part]]
    cosine *= scale
    return labels, cosine


def _start(rows: Any, scale: Array, K: int, rng: np.random.Generator) -> tuple[dict[str, Any], ms.Measures]:
    N = rows.shape[0]
    seen = np.arange(N)
    if max(_SEEN * K, _LEAST) < N:
        seen = np.sort(rng.choice(N, max(_SEEN * K, _LEAST), replace=False))
    directions = _unit(rows, scale, seen).astype(np.float64)
    centres = kmeans_plusplus(directions, K, random_state=int(rng.integers(2**31)))[0]
    return _assigned(rows, scale, centres)


def _unit(rows: Any, scale: Array, which: Any) -> Any:
    """Return a block of rows scaled to unit length."""
    return diags_array(scale[which]) @ rows[which] if issparse(rows) else rows[which] * scale[which, None]


def _dense(rows: Any) -> Array:
    return rows.toarray() if issparse(rows) else rows


def _assigned(rows: Any, scale: Array, centres: Array) -> tuple[dict[str, Any], ms.Measures]:
    labels, cosine = _nearest(rows, scale, centres)
    fun = float(np.mean(1 - cosine.astype(np.float64)))
    return {"x": centres, "labels": labels, "cosine": cosine}, ms.Measures(fun, evaluations=ms.Evaluations(nfev=1))


def _step(rows: Any, scale: Array, state: dict[str, Any]) -> tuple[dict[str, Any], ms.Measures]:
    """Move every centre to the mean direction of its rows, then assign rows."""
    K, labels = len(state["x"]), state["labels"]
    # rows by clusters, with what makes a row unit where it is: its transpose times the rows are the sums, (K, D)
    N = rows.shape[0]
    one = csr_array((scale, labels, np.arange(N + 1)), shape=(N, K))
    centres = np.asarray(_dense(one.T @ rows), dtype=np.float64)
    length = np.linalg.norm(centres, axis=1)
    lost = np.flatnonzero(length == 0)
    if len(lost):
        # clusters that lost their rows begin again at the rows farthest from their centres
        far = np.argsort(state["cosine"], kind="stable")[: len(lost)]
        centres[lost], length[lost] = _dense(_unit(rows, scale, far)), 1.0
    return _assigned(rows, scale, centres / length[:, None])
