"""Kernel matrices of sequences as a transformer, for scikit-learn's estimators with a precomputed kernel."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from copy import copy
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

import manifoldseq as ms
from manifoldseq.estimators import check_parameters, quoted
from manifoldseq.execution import one_blas_thread

from ..identification._identifier import LDSIdentifier
from ..identification._resumed import stages_of
from ..identification._sequence_input import (
    IDENTIFICATION,
    SequenceEstimator,
    SequencesOrSystems,
    check_moments,
    identifier_of,
    learned_systems,
    new_systems,
    remember,
)
from ..kernels._moments import fitted_kernel, keep_moment_weights
from ..kernels._resolved import check_kernel
from ..means._common_problem import items_of
from ..systems._record import Systems, replaced
from ._settings import settled

Array = NDArray[np.floating[Any]]

_NEGATIVE = 1e-8
_RULES = {**IDENTIFICATION, "kernel": check_kernel, "moments": check_moments}


class LDSKernelMatrix(ClassNamePrefixFeaturesOutMixin, TransformerMixin, SequenceEstimator):
    """Transform sequences into kernel values between them and the sequences of the fit.

    Each sequence is identified as a linear dynamical system. In a pipeline before ``SVC(kernel="precomputed")``,
    spectral clustering or kernel PCA, the kernel and its parameters can be selected by a grid search.

    Parameters
    ----------
    kernel : str or kernel object
        A registered name, such as ``"projection"``, or an object with the methods of a kernel.
    n_states : int or str
        The number of states of the identified systems, a short form of ``identifier=LDSIdentifier(n_states)``.
    identifier : LDSIdentifier, optional
        The identification of sequences, by default ``LDSIdentifier()``. The object is copied, and it is not used for
        `Systems`.
    moments : {"auto", "none", "level", "size", "both"}
        Moments that are compared in addition to the dynamics, as in `LDSKMeans`.

    Attributes
    ----------
    systems_ : Systems
        The systems of the sequences of `fit`.
    choice_ : manifoldseq.models.Choice
        The comparison of settings for ``n_states="auto"``; absent for other values of `n_states`.
    moment_weights_ : ndarray of shape (2 d,)
        Weights of the `MomentKernel`; absent if only dynamics are compared.
    n_features_in_ : int
        Number of channels of the sequences, or of outputs of the `Systems`, in the fit.
    feature_names_in_ : ndarray of str of shape (d,)
        Names of the channels, if every sequence of `fit` is a data frame.
    scale_ : ndarray of shape (d,)
        The divisor of each channel of sequences; absent after a fit to `Systems`.

    Warns
    -----
    UserWarning
        If the matrix of the fit has negative eigenvalues beyond rounding, which indefinite kernels can have.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.svm import SVC
    >>> rng, t = np.random.default_rng(0), np.arange(60)[:, None]
    >>> X = [np.cos(t * w + rng.uniform(0, 6) + [0, 1, 2]) for w in [0.2] * 5 + [0.9] * 5]
    >>> model = make_pipeline(LDSKernelMatrix(n_states=2), SVC(kernel="precomputed"))
    >>> model.fit(X, [0] * 5 + [1] * 5).score(X, [0] * 5 + [1] * 5)
    1.0
    """

    systems_: Systems

    def __init__(
        self,
        kernel: Any = "projection",
        *,
        n_states: int | str = "auto",
        identifier: LDSIdentifier | None = None,
        moments: str = "auto",
    ) -> None:
        self.kernel = kernel
        self.n_states = n_states
        self.identifier = identifier
        self.moments = moments

    def fit(
        self,
        X: SequencesOrSystems,
        y: object = None,
        *,
        observers: Sequence[Any] = (),
        checkpoint: ms.storage.Checkpoint | str | Path | None = None,
        resume: bool = False,
    ) -> Self:
        """Identify the reference sequences.

        Parameters
        ----------
        X : list of array-like of shape (T_i, d), or Systems
        y : ignored
        observers, checkpoint, resume
            As in `manifoldseq.models.Stages`: an iteration compares one setting or identifies one batch of sequences.

        Raises
        ------
        KeyboardInterrupt
            After Ctrl-C. The checkpoint, if any, contains the results so far.
        """
        self._fitted(X, observers=observers, checkpoint=checkpoint, resume=resume)
        return self

    def fit_transform(self, X: SequencesOrSystems, y: object = None, **options: Any) -> Array:  # pyright: ignore
        """Equivalent to ``fit(X).transform(X)`` with one identification; warns if the matrix is indefinite."""
        kernel = self._fitted(X, **options)
        with one_blas_thread():
            packed = kernel.pack(self.systems_)
            K = kernel.cross(packed, packed)
            if not kernel.positive_definite:
                w = np.linalg.eigvalsh((K + K.T) / 2)
                if w[0] < -_NEGATIVE * w[-1]:
                    warnings.warn(
                        f"the matrix of the kernel {quoted(self.kernel)} is indefinite, with eigenvalues from "
                        f"{w[0]:.3g} to "
                        f"{w[-1]:.3g}: methods for positive semidefinite kernels may not reach an optimum",
                        stacklevel=2,
                    )
        return K

    def transform(self, X: SequencesOrSystems) -> Array:
        """Return the kernel values between sequences or systems and the sequences of the fit.

        Returns
        -------
        ndarray of shape (N, N_fit)
        """
        check_is_fitted(self, "systems_")
        kernel = fitted_kernel(self)
        systems = new_systems(self, X)
        with one_blas_thread():
            return kernel.cross(kernel.pack(items_of(kernel, systems)), kernel.pack(self.systems_))

    @property
    def _n_features_out(self) -> int:
        return len(self.systems_)

    def _fitted(self, X: SequencesOrSystems, **loop: Any) -> Any:
        check_parameters(self, _RULES)
        stages = stages_of(self, identifier_of(self), X, **loop)
        like = copy(self)  # a fit that fails leaves the last one
        made = settled(like, X, stages=stages)
        systems, identifier = learned_systems(made, X, stages)
        keep_moment_weights(like, made.moments, systems)
        kernel = fitted_kernel(like)
        like.systems_ = replaced(items_of(kernel, systems), A_estimate=systems.A_estimate)
        remember(like, systems, identifier)
        self.__dict__.clear()
        self.__dict__.update(vars(like))
        return kernel
