"""Nearest neighbours of sequences under a kernel, and anomaly scores."""

from numbers import Integral
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from manifoldseq.estimators import check_parameters, check_whole
from manifoldseq.execution import one_blas_thread

from ..identification._before import MOVES_BOUND, settings_moved
from ..identification._identifier import LDSIdentifier
from ..identification._sequence_input import IDENTIFICATION, SequenceEstimator, learned_systems, new_systems, remember
from ..kernels._resolved import check_kernel, resolved_kernel
from ..means._common_problem import items_of
from ..systems._record import Systems

Array = NDArray[np.floating[Any]]


class LDSNeighbors(SequenceEstimator):
    """Find the sequences whose linear dynamical systems are nearest, and score outliers.

    The distance is that of the feature space of a kernel, ``sqrt(k(x, x) + k(y, y) - 2 k(x, y))``.

    Parameters
    ----------
    n_neighbors : int
    n_states : int or str
        Of the systems that sequences are identified as: ``identifier=LDSIdentifier(n_states)`` for short.
    identifier : LDSIdentifier, optional
        How sequences are identified, by default with its defaults; it is copied. Without effect on `Systems`.
    kernel : str or kernel object
        A registered name, such as ``"projection"``, or an object with the methods of a kernel.

    Attributes
    ----------
    systems_ : Systems
        The systems of the sequences of `fit`.
    n_features_in_ : int
    scale_ : ndarray of shape (d,)
        What each channel of sequences is divided by; absent after a fit to `Systems`.

    Examples
    --------
    >>> import numpy as np
    >>> rng, t = np.random.default_rng(0), np.arange(60)[:, None]
    >>> X = [np.cos(t * w + rng.uniform(0, 6) + [0, 1, 2]) for w in [0.2] * 5 + [0.9]]
    >>> neighbors = LDSNeighbors(2, n_states=2).fit(X)
    >>> int(neighbors.score_samples().argmin())
    5
    """

    systems_: Systems

    stored_upgrades = MOVES_BOUND

    @settings_moved
    def __init__(
        self,
        n_neighbors: int = 5,
        *,
        n_states: int | str = "auto",
        identifier: LDSIdentifier | None = None,
        kernel: Any = "projection",
    ) -> None:
        self.n_neighbors = n_neighbors
        self.n_states = n_states
        self.identifier = identifier
        self.kernel = kernel

    def fit(self, X: Any, y: object = None) -> Self:
        """Identify and keep the systems of sequences.

        Parameters
        ----------
        X : list of array-like of shape (T_i, d), or Systems
        y : ignored

        Raises
        ------
        ValueError
            For an invalid parameter or input; one sentence says which, where, and what to do.
        """
        check_parameters(self, {**IDENTIFICATION, "n_neighbors": check_whole, "kernel": check_kernel})
        systems, identifier = learned_systems(self, X)
        self.systems_ = systems
        remember(self, systems, identifier)
        return self

    def kneighbors(self, X: Any = None, n_neighbors: int | None = None) -> tuple[Array, NDArray[np.int64]]:
        """Return the nearest sequences of `fit`.

        Parameters
        ----------
        X : list of array-like of shape (T_i, d), or Systems, optional
            By default the sequences of `fit`; none is then its own neighbour.
        n_neighbors : int, optional

        Returns
        -------
        distances : ndarray of shape (N, n_neighbors)
        rows : ndarray of shape (N, n_neighbors), int
            Of the sequences of `fit`, the nearest first.

        Raises
        ------
        ValueError
            If there are fewer sequences to choose from.
        """
        check_is_fitted(self, "systems_")
        n = self.n_neighbors if n_neighbors is None else n_neighbors
        most = len(self.systems_) - (X is None)
        if not isinstance(n, Integral) or isinstance(n, bool) or not 1 <= n <= most:
            raise ValueError(f"n_neighbors={n!r} is not valid: pass a whole number from 1 to {most}, of the sequences")
        systems = self.systems_ if X is None else new_systems(self, X)
        kernel = resolved_kernel(self.kernel)
        with one_blas_thread():
            known = kernel.pack(items_of(kernel, self.systems_))
            packed = known if X is None else kernel.pack(items_of(kernel, systems))
            # |phi(x) - phi(y)|² = k(x, x) + k(y, y) - 2 k(x, y), (N, known)
            squared = kernel.diag(packed)[:, None] + kernel.diag(known) - 2 * kernel.cross(packed, known)
        distances = np.sqrt(np.maximum(squared, 0.0))
        if X is None:
            np.fill_diagonal(distances, np.inf)
        rows = np.argsort(distances, axis=1, kind="stable")[:, :n]
        return np.take_along_axis(distances, rows, axis=1), rows

    def score_samples(self, X: Any = None) -> Array:
        """Return minus the mean distance to the nearest sequences of `fit`; the lowest are outliers.

        Parameters
        ----------
        X : list of array-like of shape (T_i, d), or Systems, optional
            By default the sequences of `fit`, each compared with the others.

        Returns
        -------
        ndarray of shape (N,)
        """
        return -self.kneighbors(X)[0].mean(axis=1)
