"""Common code of estimators with a subspace: codes of frames, reconstructions, nearest centroids."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_array, check_is_fitted

from manifoldseq.estimators import check_real, validate_rows

from ._closed_form import completed, decode, encode, nearest
from ._moments import Array

_FLOATS: Any = [np.float64, np.float32]
"""The dtypes that `check_array` keeps; it accepts lists of dtypes, although its signature names only strings."""


class SubspaceCodes(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Mixin of fitted estimators with ``components_``, ``center_`` and ``cluster_centers_``; it is not instantiated."""

    components_: Array
    center_: Array
    cluster_centers_: Array
    singular_values_: Array
    scatter_: float

    def transform(self, X: ArrayLike) -> NDArray:
        """Return the codes of frames, ``V' (x - mu_0)``.

        Parameters
        ----------
        X : array-like of shape (N, d)

        Returns
        -------
        ndarray of shape (N, m), float32 for float32 frames, else float64
        """
        check_is_fitted(self, "components_")
        X = self._frames(X, reset=False)
        return encode(X, self.components_.T, self.center_)

    def inverse_transform(self, X: ArrayLike) -> NDArray:
        """Return the frames ``mu_0 + V z`` of codes; with a metric, ``mu_0 + covariance_ @ V @ z``.

        Parameters
        ----------
        X : array-like of shape (N, m)
            Codes from `transform`.

        Returns
        -------
        ndarray of shape (N, d)

        Raises
        ------
        ValueError
            If the codes are not finite, or if their number of coordinates is wrong.
        """
        check_is_fitted(self, "components_")
        Z = check_array(check_real(X), dtype=_FLOATS)
        if Z.shape[1] != len(self.components_):
            raise ValueError(
                f"the codes have shape {Z.shape}: pass (N, {len(self.components_)}), as returned by transform"
            )
        return decode(Z, self._basis(), self.center_)

    def rotation(self) -> Array:
        """Return the full orthogonal matrix V, shape (d, d): the components as its first columns, and a complement.

        The complement is arbitrary; F (1) does not depend on it.
        """
        check_is_fitted(self, "components_")
        return completed(self.components_.T, self.components_.shape[1])

    def gain_curve(self) -> Array:
        """Return F (1) for the best subspace of 0, 1, 2, … dimensions: the trace of S_0 minus the cumulated gains (13).

        Returns
        -------
        ndarray of shape (min(h, d) + 1,)
        """
        check_is_fitted(self, "singular_values_")
        return self.scatter_ - np.concatenate([[0.0], np.cumsum(np.square(self.singular_values_))])

    def _basis(self) -> Array:
        """Return the columns that reconstruct frames, shape (d, m)."""
        return self.components_.T

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def _frames(self, X: ArrayLike, *, reset: bool, least: int = 1) -> NDArray:
        # whether frames are finite is found out on the way, without another pass
        return validate_rows(self, X, reset=reset, finite=False, least=least)

    def _nearest(self, X: ArrayLike) -> tuple[NDArray[np.intp], NDArray]:
        """Return the class row of each frame in the coordinates of the subspace, and the squared distance there."""
        check_is_fitted(self, "components_")
        codes = encode(self.cluster_centers_, self.components_.T, self.center_)
        Z = np.asarray(self.transform(X))  # a frame after set_output
        return nearest(Z, codes.astype(Z.dtype))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
