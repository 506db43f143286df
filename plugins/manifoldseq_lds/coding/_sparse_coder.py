"""Sparse codes of sequences over a dictionary of systems, which is given or selected without learning."""

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
from manifoldseq.estimators import check_choice, check_parameters, check_positive, check_whole, random_generator
from manifoldseq.execution import one_blas_thread

from ..clustering._settings import settled
from ..identification._identifier import LDSIdentifier, check_bound
from ..identification._resumed import stages_of
from ..identification._sequence_input import (
    IDENTIFICATION,
    SequenceEstimator,
    SequencesOrSystems,
    identifier_of,
    learned_systems,
    new_systems,
    remember,
)
from ..kernels._resolved import check_kernel, manifold_of, resolved_kernel
from ..systems._record import Systems
from ._atom_families import SystemAtoms
from ._initial_atoms import INITS, starting_systems
from ._learning import Coding, coding

Array = NDArray[np.floating[Any]]


def _check_dictionary(name: str, value: Any) -> None:
    if not isinstance(value, Systems):
        check_choice(name, value, (*INITS, "all"), "Systems")


_RULES = {
    **IDENTIFICATION,
    "bound": check_bound,
    "dictionary": _check_dictionary,
    "n_atoms": check_whole,
    "kernel": check_kernel,
    "alpha": check_positive,
}


class LDSSparseCoder(ClassNamePrefixFeaturesOutMixin, TransformerMixin, SequenceEstimator):
    """Code sequences as sparse combinations of the systems of a dictionary.

    Each sequence is identified as a system x. Its code z minimizes ``|phi(x) - sum_j z_j phi(D_j)|^2 + alpha |z|_1`` in
    the feature space of a kernel, computed by batched coordinate descent. This is the first phase of (9) of Huang et
    al.

    Parameters
    ----------
    dictionary : Systems, {"random", "medoid", "k-means", "all"}
        The atoms, or the rule by which `fit` chooses `n_atoms` atoms from its data: random data, medoids of random
        groups, or centres of `LDSKMeans`. ``"all"`` uses all data. `LDSDictionaryLearning` learns atoms.
    n_atoms : int
        The number of atoms; ignored for `Systems` and ``"all"``.
    n_states : int or str
        The number of states of the identified systems; short for ``identifier=LDSIdentifier(n_states)``. With
        ``"auto"``, `fit` chooses the number without labels, as in `LDSKMeans`. If a dictionary is given, ``"auto"`` is
        the default of `LDSIdentifier`: set the value with which the systems of the dictionary were identified.
    identifier : LDSIdentifier, optional
        The identification of sequences, by default ``LDSIdentifier()``. The object is copied, and it is not used for
        `Systems`.
    kernel : str or kernel object
        A registered name, or a kernel object.
    bound : float
        The bound of the singular values of the centres for ``"k-means"``.
    alpha : float
        The sparsity factor lambda of problem (9), with kernel values that are not normalized.
    random_state : int, numpy.random.Generator, numpy.random.RandomState or None
        Seed of the random choices.

    Attributes
    ----------
    systems_ : Systems
        The atoms.
    choice_ : manifoldseq.models.Choice
        The comparison for ``n_states="auto"``. It does not exist if `n_states` or the dictionary was given.
    n_features_in_ : int
    feature_names_in_ : ndarray of str of shape (d,)
        Names of the channels, if every sequence of `fit` is a data frame.
    scale_ : ndarray of shape (d,)
        The divisor of each channel of sequences. It does not exist after a fit to `Systems`.

    Warns
    -----
    UserWarning
        In `transform`, `reconstruction_errors` and `score`: if every code is zero.

    Examples
    --------
    >>> import numpy as np
    >>> rng, t = np.random.default_rng(0), np.arange(60)[:, None]
    >>> X = [np.cos(t * w + rng.uniform(0, 6) + [0, 1, 2]) for w in [0.2] * 5 + [0.9] * 5]
    >>> codes = LDSSparseCoder("all", n_states=2).fit_transform(X)
    >>> codes.shape, bool((codes[:5, 5:].sum() < 0.1 * codes[:5, :5].sum()))
    ((10, 10), True)
    """

    def __init__(
        self,
        dictionary: str | Systems = "random",
        *,
        n_atoms: int = 16,
        n_states: int | str = "auto",
        identifier: LDSIdentifier | None = None,
        kernel: Any = "projection",
        bound: float = 0.99,
        alpha: float = 0.1,
        random_state: Any = None,
    ) -> None:
        self.dictionary = dictionary
        self.n_atoms = n_atoms
        self.n_states = n_states
        self.identifier = identifier
        self.kernel = kernel
        self.bound = bound
        self.alpha = alpha
        self.random_state = random_state

    def fit(
        self,
        X: SequencesOrSystems,
        y: object = None,
        *,
        observers: Sequence[Any] = (),
        checkpoint: ms.storage.Checkpoint | str | Path | None = None,
        resume: bool = False,
    ) -> Self:
        """Compute the scale of the channels and choose the dictionary, unless it is given.

        Parameters
        ----------
        X : list of array-like of shape (T_i, d), or Systems
        y : ignored
        observers, checkpoint, resume
            As in `manifoldseq.models.Stages`: an iteration compares one setting, identifies one batch of sequences, or
            is one epoch of ``"k-means"``.

        Raises
        ------
        ValueError
            For an invalid parameter or input. The message says what is wrong, where, and what to do.
        KeyboardInterrupt
            After Ctrl-C. The checkpoint, if any, contains the results so far.
        """
        check_parameters(self, _RULES)
        kernel = resolved_kernel(self.kernel)
        given = self.dictionary if isinstance(self.dictionary, Systems) else None
        like = copy(self)  # a fit that fails leaves the last one
        loop: dict[str, Any] = {"observers": observers, "checkpoint": checkpoint, "resume": resume}
        stages = stages_of(self, identifier_of(self), X, **loop)
        made = self if given is not None else settled(like, X, stages=stages)
        systems, identifier = learned_systems(made, X, stages)
        if given is not None or self.dictionary == "all":
            atoms = systems if given is None else given
            if (atoms.n_outputs, atoms.n_states) != (systems.n_outputs, systems.n_states):
                raise ValueError(
                    f"the dictionary has {atoms.n_outputs} outputs and {atoms.n_states} states, but the data "
                    f"have {systems.n_outputs} and {systems.n_states}: identify both in the same way"
                )
        else:
            if len(systems) < self.n_atoms:
                raise ValueError(
                    f"X has {len(systems)} sequences for n_atoms={self.n_atoms}: pass more sequences or lower n_atoms"
                )
            with one_blas_thread():
                family = self._family(systems, kernel)
                rng = random_generator(self.random_state)
                settings = {"kernel": self.kernel, "bound": self.bound, "rng": rng, "stages": stages}
                packed = family.pack(systems)
                atoms = starting_systems(str(self.dictionary), self.n_atoms, systems, family, packed, **settings)
        self.systems_ = atoms
        self.__dict__.pop("choice_", None)
        if given is None and hasattr(like, "choice_"):
            self.choice_ = like.choice_
        remember(self, systems, identifier)
        return self

    def transform(self, X: SequencesOrSystems) -> Array:
        """Return the sparse codes of sequences or systems.

        Returns
        -------
        ndarray of shape (N, J)
        """
        return self._coding(X).codes.T.copy()

    def reconstruction_errors(self, X: SequencesOrSystems) -> Array:
        """Return ``|phi(x) - sum_j z_j phi(D_j)|^2`` of sequences or systems, of shape (N,)."""
        return self._coding(X).squared

    def score(self, X: SequencesOrSystems, y: object = None) -> float:
        """Return minus the objective (9) of sequences or systems."""
        return -self._coding(X).fun

    @property
    def _n_features_out(self) -> int:
        return len(self.systems_)

    def _coding(self, X: SequencesOrSystems) -> Coding:
        check_is_fitted(self, "systems_")
        systems = new_systems(self, X)
        with one_blas_thread():
            family = self._family(systems, resolved_kernel(self.kernel))
            made = coding(family, family.pack(self.systems_), family.pack(systems), self.alpha)
        if not made.codes.any():
            warnings.warn(f"every code is zero for alpha={self.alpha:g}: lower alpha", stacklevel=3)
        return made

    def _family(self, systems: Systems, kernel: Any) -> SystemAtoms:
        return SystemAtoms(kernel, manifold_of(kernel, systems.n_outputs, systems.n_states, self.bound), "pgd", (), 1)
