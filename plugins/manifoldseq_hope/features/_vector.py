"""Features of vectors: distances to the directions of a mixture, compared with the mean distance."""

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone
from sklearn.utils.validation import check_is_fitted

import manifoldseq as ms
from manifoldseq.estimators import (
    check_number,
    check_parameters,
    check_switch,
    check_whole,
    quoted,
    random_generator,
    row_blocks,
    validate_rows,
)
from manifoldseq.execution import one_blas_thread

from ..families._family import Array
from ..families._rows import unit_rows
from ..mixtures._hope import HOPE
from ..mixtures._projected import ProjectedMixture
from ..mixtures._spherical_kmeans import SphericalKMeans
from ..mixtures._without_hope import PCAMovMF, VonMisesFisherMixture

_MOST, _ROWS_EACH = 200, 3
_MODELS = (HOPE, PCAMovMF, VonMisesFisherMixture, SphericalKMeans)


class VectorFeatures(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Features of rows for a linear classifier: chord lengths to the directions of a mixture, without labels.

    The mean of the rows is subtracted, a constant column is appended, and rows are scaled to unit length, z. A von
    Mises-Fisher mixture learns K unit directions m_k. With ``d_k = |z - m_k| = sqrt(2 - 2 z'm_k)`` the features are
    ``max(0, mean_j d_j - d_k)``: only directions that are nearer than the mean contribute, as in the "triangle"
    features of k-means.

    Parameters
    ----------
    n_components : int or "auto"
        The number K. ``"auto"`` is 200, or a third of the number of rows if it is smaller. With a single component all
        features are zero.
    center : bool
        Subtract the mean of the training rows first. Set `center` to False if zero has a meaning in your data.
    lift : float
        The value of the additional column, in units of the root mean square length of the rows. With this column,
        directions depend on the length of a row. 0 omits it, for rows that are compared by cosines, such as embeddings.
    model : estimator, optional
        The model that learns the directions of the D + 1 columns: `VonMisesFisherMixture`, `PCAMovMF`, `HOPE` with von
        Mises-Fisher components, or `SphericalKMeans`, with its own number of components. By default
        ``VonMisesFisherMixture(n_components, kappa="shared")``, whose concentration is estimated by EM: a fixed
        concentration that is too low for the data makes components coincide.
    random_state : int, numpy.random.Generator, numpy.random.RandomState or None
        The random state of a model without its own random state.

    Attributes
    ----------
    model_ : estimator
        The fitted model. Its concentrations do not enter the features, but they influence the directions.
    mean_ : ndarray of shape (D,)
        Zeros without `center`.
    lift_ : float
        The value of the additional column; 0 without it.
    n_features_in_ : int

    Notes
    -----
    Columns are not scaled: standardize columns with arbitrary units. Without a lift, a row that equals the mean up to
    rounding has no direction, and its features are zero. `HOPE.transform` returns other features, the pruned
    log-likelihoods (39).

    References
    ----------
    Coates, Lee, Ng, AISTATS 2011 (the triangle, of k-means); Banerjee, Dhillon, Ghosh, Sra, JMLR 6 (2005).

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.svm import LinearSVC
    >>> from manifoldseq_hope import VectorFeatures
    >>> X, y = load_digits(return_X_y=True)
    >>> features = VectorFeatures(random_state=0).fit(X[:1000])
    >>> eta = features.transform(X)
    >>> eta.shape, LinearSVC(C=10).fit(eta[:1000], y[:1000]).score(eta[1000:], y[1000:]) > 0.94
    ((1797, 200), True)
    """

    stored_types = _MODELS

    def __init__(
        self,
        n_components: int | str = "auto",
        *,
        center: bool = True,
        lift: float = 1.0,
        model: Any = None,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.center = center
        self.lift = lift
        self.model = model
        self.random_state = random_state

    @one_blas_thread()
    def fit(
        self,
        X: ArrayLike,
        y: object = None,
        *,
        observers: Sequence[Any] = (),
        checkpoint: ms.storage.Checkpoint | str | Path | None = None,
        resume: bool = False,
    ) -> Self:
        """Fit the mixture to the directions of rows.

        Parameters
        ----------
        X : array-like of shape (N, D)
        y : ignored
        observers, checkpoint, resume
            As in `manifoldseq.iterate`, for the model.

        Raises
        ------
        ValueError
            For an invalid parameter, NaN, rows that are all the same, or fewer rows than components.
        TypeError
            For sparse rows.

        Warns
        -----
        UserWarning
            If the model has one component only, if its fixed concentration makes components coincide, or if
            `n_components` is set and `model` has another number.
        """
        rules = {"n_components": _check_number, "center": check_switch, "lift": check_number, "model": _check_model}
        check_parameters(self, rules)
        if self.model is not None and self.n_components not in ("auto", _number_of(self.model)):
            warnings.warn(
                f"n_components={self.n_components} is ignored, since model={quoted(self.model)} has its own "
                "number of components: remove n_components",
                stacklevel=3,  # the decorator is in between
            )
        rows = _dense_rows(self, X, reset=True)
        with np.errstate(over="ignore", invalid="ignore"):
            self.mean_ = rows.mean(axis=0, dtype=np.float64) if self.center else np.zeros(rows.shape[1])
            self.lift_ = 0.0
            rows = self._lifted(rows)
            self.lift_ = float(self.lift) * _typical_length(rows)
        if not np.isfinite(self.lift_) or not np.isfinite(self.mean_).all():
            raise ValueError("the entries of X are too large to be summed: divide X by its largest entry")
        if self.center and not rows.any():
            raise ValueError("all rows of X are equal (or there is one sample): pass rows that differ")
        if self.lift_ > 0:
            rows = self._with_lift(rows)
        elif self.center:
            rows = rows[rows.any(axis=1)]
        model = self.model
        if model is None:
            number = self.n_components
            if isinstance(number, str):
                number = min(_MOST, max(2, len(rows) // _ROWS_EACH), len(rows))
            model = VonMisesFisherMixture(number, kappa="shared")
        made: Any = clone(model)
        if made.random_state is None:
            made.set_params(random_state=int(random_generator(self.random_state).integers(2**31)))
        self.model_ = made.fit(rows, observers=observers, checkpoint=checkpoint, resume=resume)
        if self._n_features_out == 1:
            warnings.warn(
                "one component was learned, whose feature is zero for every row: pass a number of components above one",
                stacklevel=3,
            )
        return self

    @one_blas_thread()
    def transform(self, X: ArrayLike) -> Array:
        """Return the features of rows, (N, K), float32 for rows in float32, else float64."""
        check_is_fitted(self, "model_")
        rows = _dense_rows(self, X, reset=False)
        found = np.empty((len(rows), self._n_features_out), rows.dtype)
        centres = self._directions.T.astype(rows.dtype)
        for part in row_blocks(len(rows)):
            z = unit_rows(self._lifted(rows[part]))
            if isinstance(self.model_, ProjectedMixture):
                z = unit_rows(self.model_.project(z))
            # d_k squared; of rows without a direction all are the same
            chord = z @ centres
            np.multiply(chord, -2, out=chord)
            chord += 2
            chord = np.sqrt(np.maximum(chord, 0, out=chord), out=chord)
            np.subtract(chord.mean(axis=1, keepdims=True), chord, out=chord)
            np.maximum(chord, 0, out=found[part])
            found[part][~z.any(axis=1)] = 0  # not what rounding leaves
        return found

    def _lifted(self, rows: Array) -> Array:
        """Return rows minus the mean, with the additional column; differences of the size of rounding become zero."""
        mean = self.mean_.astype(rows.dtype)
        rows = rows - mean
        rounding = np.abs(mean).max() * rows.dtype.type(8 * np.finfo(rows.dtype).eps)
        rows[np.abs(rows).max(axis=1) <= rounding] = 0
        return self._with_lift(rows) if self.lift_ > 0 else rows

    def _with_lift(self, rows: Array) -> Array:
        return np.concatenate([rows, np.full((len(rows), 1), self.lift_, rows.dtype)], axis=1)

    @property
    def _directions(self) -> Array:
        """m_k, (K, M)."""
        own = isinstance(self.model_, ProjectedMixture)
        return self.model_.directions_ if own else self.model_.cluster_centers_

    @property
    def _n_features_out(self) -> int:
        return len(self._directions)


def _number_of(model: Any) -> Any:
    return model.n_clusters if isinstance(model, SphericalKMeans) else model.n_components


def _dense_rows(estimator: VectorFeatures, X: ArrayLike, reset: bool) -> Array:
    if issparse(X):
        raise TypeError(
            "X is sparse, but centred rows are dense: pass X.toarray(), or fit VonMisesFisherMixture, PCAMovMF "
            "or SphericalKMeans, whose transform accepts sparse rows"
        )
    return validate_rows(estimator, X, reset=reset)


def _typical_length(rows: Array) -> float:
    """Return the root mean square length of rows without overflow or underflow of squares."""
    largest = float(np.abs(rows).max())
    if not 0 < largest < np.inf:
        return largest
    scaled = rows / rows.dtype.type(largest)
    return largest * float(np.sqrt(np.einsum("nd,nd->", scaled, scaled, dtype=np.float64) / len(rows)))


def _check_number(name: str, value: Any) -> None:
    if not (isinstance(value, str) and value == "auto"):
        check_whole(name, value)


def _check_model(name: str, model: Any) -> None:
    if model is None:
        return
    if not isinstance(model, _MODELS) or (isinstance(model, HOPE) and model.family != "movmf"):
        raise ValueError(
            f"{name}={quoted(model)} has no directions: pass VonMisesFisherMixture, PCAMovMF, HOPE with "
            f"family='movmf', or "
            "SphericalKMeans"
        )
