"""Criteria of estimators that give a density of rows: `score`, `aic` and `bic`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from ..estimators import RowsLike

Array = NDArray[np.floating[Any]]


class DensityCriteria(ABC):
    """Criteria from ``score_samples(X)`` and the number of free parameters, `_n_parameters`; abstract."""

    @abstractmethod
    def score_samples(self, X: RowsLike) -> Array:
        """Return ln p(x) of each row, (N,)."""

    @abstractmethod
    def _n_parameters(self) -> int:
        """Return the number of free parameters of the model."""

    def score(self, X: RowsLike, y: object = None) -> float:
        """Return the mean of ln p(x) over the rows."""
        return float(self.score_samples(X).mean())

    def aic(self, X: RowsLike) -> float:
        """Return Akaike's information criterion of rows; smaller is better."""
        return float(-2 * self.score_samples(X).sum() + 2 * self._n_parameters())

    def bic(self, X: RowsLike) -> float:
        """Return the Bayesian information criterion of rows; smaller is better."""
        density = self.score_samples(X)
        return float(-2 * density.sum() + self._n_parameters() * np.log(len(density)))

    def fit_predict(self, X: RowsLike, y: object = None, **options: Any) -> NDArray[np.intp]:
        """Equivalent to ``fit(X).predict(X)``."""
        return cast(Any, self).fit(X, **options).predict(X)
