"""Dictionary learning on sequences: atoms that are linear dynamical systems (9), (10)."""

import warnings
from collections.abc import Sequence
from numbers import Integral, Real
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

import manifoldseq as ms
from manifoldseq.estimators import (
    check_choice,
    check_optional,
    check_parameters,
    check_positive,
    check_whole,
    differing,
    fit_starts,
    quoted,
    random_generator,
    warn_of_few_distinct,
)
from manifoldseq.execution import one_blas_thread

from ..clustering._epoch import SAME
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
from ..means import _stable_systems as stable
from ..means._common_problem import BOUND_ADVICE, COSTLY
from ..means._mean import identified
from ..systems._record import Systems
from ._atom_families import AtomFamily, Leaves, StableAtoms, SystemAtoms
from ._dictionary_model import MODEL, DictionaryModel
from ._learning import Batches, Coding, Learning, coded, coding, updated

Array = NDArray[np.floating[Any]]

METHODS = ("lbfgs", "canonical", "pgd")


def _registered_family(method: Any) -> AtomFamily | None:
    """Return the family of atoms that is an object or registered; None for one of `METHODS`."""
    if isinstance(method, AtomFamily) or method in METHODS:
        return method if isinstance(method, AtomFamily) else None
    family = ms.hooks.get_rule(method, estimator="lds-dictionary", parameter="method", also=METHODS)
    if not isinstance(family, AtomFamily):
        raise ValueError(
            f"method={method!r} is of type {type(family).__name__}, which is not an atom family: derive this type "
            "from manifoldseq_lds.AtomFamily"
        )
    return family


def _check_rates(name: str, value: Any) -> None:
    rates = np.atleast_1d(np.asarray(value, dtype=object))
    if rates.shape not in ((3,), (4,)) or not all(isinstance(rate, Real) and float(rate) > 0 for rate in rates):
        raise ValueError(f"{name}={quoted(value)} is not valid: pass three learning rates (for Lambda, V and U)")


def _check_init(name: str, value: Any) -> None:
    if not isinstance(value, Systems):
        check_choice(name, value, tuple(ms.get_model(MODEL).initializers), "Systems")


_RULES = {
    **IDENTIFICATION,
    "bound": check_bound,
    "n_atoms": check_whole,
    "kernel": check_kernel,
    "alpha": check_positive,
    "method": lambda _, value: _registered_family(value),
    "step_size": _check_rates,
    "halve_every": (check_optional, check_whole),
    "inner_iter": check_whole,
    "batch_size": (check_optional, lambda _, value: _batch_size(value)),
    "init": _check_init,
}


class LDSDictionaryLearning(ClassNamePrefixFeaturesOutMixin, TransformerMixin, SequenceEstimator):
    """Learn a dictionary of linear dynamical systems over which sequences have sparse codes.

    Each sequence is identified as a system. The estimator minimizes (9) of Huang et al., the mean over the data of
    ``|phi(x) - sum_j z_j phi(D_j)|^2 + alpha |z|_1`` in the feature space of a kernel. It alternates between the codes,
    computed by the Lasso, and the atoms, each updated by (10) with fixed codes.

    Parameters
    ----------
    n_atoms : int
        The number of atoms.
    n_states : int or str
        The number of states of the identified systems; short for ``identifier=LDSIdentifier(n_states)``.
    identifier : LDSIdentifier, optional
        The identification of sequences. The object is copied, and it is not used for `Systems`. With
        ``n_states="auto"``, settings that are not given are chosen as in `LDSKMeans`.
    bound : float
        Upper bound of the singular values of A of each atom, for ``method="canonical"`` and ``"pgd"`` (problem 12).
        With ``"canonical"``, an atom that starts as a datum with larger singular values is kept until a better atom is
        found.
    kernel : str or kernel object
        A registered name, such as ``"projection"``, or a kernel object.
    alpha : float
        The sparsity factor lambda of problem (9), with kernel values that are not normalized. (The authors' toolbox
        minimizes half the squared distance plus ``0.1 |z|_1``, which corresponds to alpha=0.2.)
    method : {"lbfgs", "canonical", "pgd"}, or a registered name or AtomFamily
        ``"lbfgs"``: descent on problem (10) by L-BFGS over all stable systems, for kernels that are functions of the
        observability subspace alone; the objective never increases. ``"canonical"``: the same for problem (12) of the
        paper; for other kernels ``"lbfgs"`` means ``"canonical"``. ``"pgd"``: Algorithm 1 at fixed rates, with all data
        or mini-batches. A registered family of atoms (`manifoldseq.hooks.RuleSpec`) defines its kernel and uses all
        data: the distribution manifoldseq-papers has the baselines of the paper, ``"papers:grassmann"`` (Grass-L) and
        ``"papers:symmetric"`` (LDSST).
    step_size : (float, float, float)
        Rates of ``"pgd"`` for Lambda, V and U.
    halve_every : int or None
        Epochs after which the rates are halved.
    inner_iter : int
        Iterations per atom and update.
    batch_size : int, (int, int) or None
        The number of data per update of ``"pgd"``; None uses all data. A pair (20, 4) uses 20 random groups and 4
        random data of each group, and requires `groups` in `fit`.
    init : {"random", "medoid", "k-means"} or Systems
        The initial atoms: random data (``"random"``), medoids of random groups of data (``"medoid"``), centres of
        `LDSKMeans` after five epochs (``"k-means"``), the name of another initializer of the model
        ``lds.dictionary``, or given systems, for which `n_init` is one.
    n_init : int
        The number of starts. The result with the smallest objective is kept.
    max_iter : int
        Epochs per start.
    tol : float
        A start ends when the objective, f, changes by at most ``tol * max(1, f)`` in an epoch.
    random_state : int, numpy.random.Generator, numpy.random.RandomState or None
        Seed of the random choices.
    n_jobs : int or None
        The number of threads for the starts, -1 for one per core; None uses the executor of the context.
    verbose : int
        1 logs the end of every start, 2 logs every iteration, to the logger ``"manifoldseq"``.

    Attributes
    ----------
    systems_ : Systems
        The atoms. For a registered family, the systems that it returns for its atoms.
    atoms_ : tuple of ndarray
        The atoms of a registered family as it represents them; absent otherwise.
    objective_ : float
        The objective (9): of all data at the end or, with mini-batches, of each batch before its update.
    n_iter_ : int
        Epochs of the best start.
    history_ : dict of str to ndarray
        Columns of equal length for the best start, which begin with the start itself: ``nit``, ``time``, ``fun`` (the
        objective), ``error`` (mean squared distance), ``cost`` (the error without the constant k(x, x)), ``nonzero``
        (the fraction of nonzero codes), ``replaced`` (the number of atoms that no datum used) and further columns.
    status_ : manifoldseq.Status
    provenance_ : dict of str to str
        The plugins that provide the model ``lds.dictionary``, its initializer and its updates.
    choice_ : manifoldseq.models.Choice
        The comparison for ``n_states="auto"``. It does not exist for other values of `n_states`.
    n_features_in_ : int
    feature_names_in_ : ndarray of str of shape (d,)
        Names of the channels, if every sequence of `fit` is a data frame.
    scale_ : ndarray of shape (d,)
        The divisor of each channel of sequences. It does not exist after a fit to `Systems`.

    Notes
    -----
    Atoms that no datum uses are replaced by the data with the largest errors. Ctrl-C ends `fit` with the best state so
    far.

    References
    ----------
    Huang, Harandi, Zhang, Fan, Sun, Huang: Efficient optimization for linear dynamical systems with applications to
    clustering and sparse coding, NIPS 2017, equations (9)-(18), Algorithm 1.

    Examples
    --------
    >>> import numpy as np
    >>> rng, t = np.random.default_rng(0), np.arange(60)[:, None]
    >>> X = [np.cos(t * w + rng.uniform(0, 6) + [0, 1, 2]) for w in [0.2] * 5 + [0.9] * 5]
    >>> codes = LDSDictionaryLearning(n_atoms=2, n_states=2, init="k-means", random_state=0).fit_transform(X)
    >>> codes.shape, len(np.unique(codes.argmax(axis=1)))
    ((10, 2), 2)
    """

    def __init__(
        self,
        n_atoms: int = 16,
        *,
        n_states: int | str = "auto",
        identifier: LDSIdentifier | None = None,
        kernel: Any = "projection",
        bound: float = 0.99,
        alpha: float = 0.1,
        method: Any = "lbfgs",
        step_size: Sequence[float] = (0.1, 0.1, 1.0),
        halve_every: int | None = 10,
        inner_iter: int = 1,
        batch_size: Any = None,
        init: str | Systems = "random",
        n_init: int = 1,
        max_iter: int = 20,
        tol: float = 1e-4,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_atoms = n_atoms
        self.n_states = n_states
        self.identifier = identifier
        self.kernel = kernel
        self.bound = bound
        self.alpha = alpha
        self.method = method
        self.step_size = step_size
        self.halve_every = halve_every
        self.inner_iter = inner_iter
        self.batch_size = batch_size
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def fit(
        self,
        X: SequencesOrSystems,
        y: object = None,
        *,
        groups: ArrayLike | None = None,
        observers: Sequence[Any] = (),
        checkpoint: ms.storage.Checkpoint | str | Path | None = None,
        resume: bool = False,
    ) -> Self:
        """Learn a dictionary of sequences or systems.

        Parameters
        ----------
        X : list of array-like of shape (T_i, d), or Systems
        y : ignored
        groups : array-like of shape (N,), optional
            The group of each sequence, such as its video, for a `batch_size` of two numbers.
        observers, checkpoint, resume
            As in `manifoldseq.iterate`, for every start; the state contains ``x`` (the atoms as stacked arrays),
            ``codes`` and ``start`` (the number of the start). The checkpoint also contains the choice of the
            identification and the identified systems, for which observers receive no events.

        Raises
        ------
        ValueError
            If a parameter or the input is invalid, or if alpha is so large that all codes are zero. The message says
            what is wrong, where, and what to do.

        Warns
        -----
        UserWarning
            If output matrices of atoms are rank-deficient; `systems_` then contains the nearest systems. With
            ``method="canonical"``, if atoms are data beyond the bound; the warning gives the increase of the objective
            within the bound.
        ConvergenceWarning
            If there are fewer different systems than atoms.
        """
        check_parameters(self, _RULES)
        store = ms.storage.Checkpoint.at(checkpoint)
        before = {"checkpoint": store and store.child("systems"), "resume": resume}
        stages = stages_of(self, identifier_of(self), X, **before)  # observers expect states of the starts
        systems, identifier = learned_systems(settled(self, X, stages=stages), X, stages)
        self._check_data(systems, groups)
        with one_blas_thread():
            learning = self._learning(systems, groups)
            model = learning.model
            # kernels without a repr of their own are told apart by some of their values
            values = [f"{value:.6g}" for value in model.family.cross(model.packed[:1], model.packed[:16])[0]]

            def run(number: int, rng: np.random.Generator, **loop: Any) -> ms.Run:
                return ms.iterate(
                    learning.step,
                    lambda: learning.start(self.init, rng, number),
                    stop=ms.CostChange(self.tol) | ms.MaxIterations(self.max_iter),
                    **loop,
                )

            best = fit_starts(
                self,
                run,
                *(systems, learning.batch.groups, values, self.provenance_),
                n_starts=self.n_init if isinstance(self.init, str) else 1,
                observers=observers,
                checkpoint=checkpoint,
                resume=resume,
            )
        self._keep(model.family, best.state["x"])
        self.objective_ = best.measures.fun
        self.n_iter_ = best.nit
        self.history_ = best.history
        self.status_ = best.status
        remember(self, systems, identifier)
        with one_blas_thread():
            warn_of_few_distinct(_count_different(model, self.n_atoms), self.n_atoms, "n_atoms", "systems")
        if "path" in best.state:
            with one_blas_thread():
                within = coded(learning.problem, best.state["path"])
            self._warn_of_bound(within.fun, float(model.self_values.mean()))
        return self

    def partial_fit(self, X: SequencesOrSystems, y: object = None) -> Self:
        """Update the dictionary with one mini-batch of sequences or systems; the first batch initializes it.

        The batch is coded, and every atom is updated. Within the bound of (12), the update is Algorithm 1 with constant
        rates `step_size` (see `set_params`). Over all stable systems, it is a step with the first of these rates, or a
        shorter step. Channels are scaled as in the first batch. After `fit`, the method updates the fitted dictionary.

        Parameters
        ----------
        X : list of array-like of shape (T_i, d), or Systems
            The batch. The first batch needs at least `n_atoms` items.
        y : ignored
        """
        check_parameters(self, _RULES)
        begun = hasattr(self, "objective_")
        if begun and (J := len(self.systems_)) != self.n_atoms:
            raise ValueError(f"n_atoms={self.n_atoms} but the dictionary has {J} atoms: call fit again")
        systems, identifier = (new_systems(self, X), None) if begun else learned_systems(settled(self, X), X)
        with one_blas_thread():
            learning = self._learning(systems, solver="pgd")
            model = learning.model
            if begun:
                kept = _registered_family(self.method) is not None and hasattr(self, "atoms_")
                atoms = self.atoms_ if kept else model.family.chosen(self.systems_)
                made = coded(learning.problem, atoms)
            else:
                self._check_data(systems, None)
                atoms, made = learning.begun(self.init, random_generator(self.random_state))
            atoms = updated(learning.problem, (atoms, made.codes))
        self._keep(model.family, atoms)
        self.objective_ = made.fun
        if not begun:
            remember(self, systems, identifier)
        return self

    def transform(self, X: SequencesOrSystems) -> Array:
        """Return the sparse codes of sequences or systems.

        Returns
        -------
        ndarray of shape (N, n_atoms)
        """
        return self._coding(X).codes.T.copy()

    def fit_transform(self, X: SequencesOrSystems, y: object = None, **options: Any) -> Array:  # pyright: ignore
        """Equivalent to ``fit(X).transform(X)``."""
        return self.fit(X, **options).transform(X)

    @property
    def _n_features_out(self) -> int:
        return self.n_atoms

    def score(self, X: SequencesOrSystems, y: object = None) -> float:
        """Return minus the objective (9) of sequences or systems."""
        return -self._coding(X).fun

    def _warn_of_bound(self, within: float, scale: float) -> None:
        """Warn about the effect of the bound of (12) if it is not negligible."""
        if within - self.objective_ > COSTLY * scale:
            largest = np.linalg.norm(self.systems_.A, 2, axis=(1, 2))
            warnings.warn(
                f"{int((largest > self.bound).sum())} of {self.n_atoms} atoms have an A with singular values up to "
                f"{largest.max():.4g}, although the paper requires bound={self.bound:.4g}. With atoms within the "
                f"bound, the objective would be {within:.4g} instead of {self.objective_:.4g}: {BOUND_ADVICE}",
                stacklevel=3,
            )

    def _coding(self, X: SequencesOrSystems) -> Coding:
        registered = _registered_family(self.method) is not None
        check_is_fitted(self, "atoms_" if registered else "systems_")
        systems = new_systems(self, X)
        with one_blas_thread():
            family = self._family(systems.n_outputs, systems.n_states)
            packed_atoms = family.pack_atoms(self.atoms_) if registered else family.pack(self.systems_)
            return coding(family, packed_atoms, family.pack(systems), self.alpha)

    def _learning(self, systems: Systems, groups: ArrayLike | None = None, solver: str | None = None) -> Learning:
        """Return the problem of `fit` and its steps, which are pure functions."""
        problem = ms.get_model(MODEL).problem(self._model(systems, solver))
        self.provenance_ = ms.models.provenance(problem.data.spec, self.init)
        size = self.batch_size if self.batch_size is None else _batch_size(self.batch_size)
        rows = None if groups is None else np.unique(np.asarray(groups), return_inverse=True)[1]
        return Learning(problem, Batches(len(systems), size, rows), self.halve_every)

    def _model(self, systems: Systems, solver: str | None = None) -> DictionaryModel:
        """Return the data of (9)."""
        family = self._family(systems.n_outputs, systems.n_states, solver)
        packed = family.pack(systems)
        settings = self.n_atoms, family.atoms(systems, self.n_atoms), float(self.alpha), self.kernel, self.bound
        return DictionaryModel(family, systems, packed, family.diag(packed), *settings)

    def _family(self, n_outputs: int, n_states: int, solver: str | None = None) -> AtomFamily:
        """Return the kind of atoms that `method` learns."""
        registered = _registered_family(self.method)
        if registered is not None:
            return registered
        kernel = resolved_kernel(self.kernel)
        if self.method == "lbfgs" and stable.covers(kernel):
            return StableAtoms(kernel, self.inner_iter, None if solver is None else float(self.step_size[0]))
        manifold = manifold_of(kernel, n_outputs, n_states, self.bound)
        rates = tuple(float(rate) for rate in self.step_size)
        rates += rates[:1] * (len(manifold.shape) - len(rates))  # a first state moves at the rate of Lambda
        return SystemAtoms(
            kernel, manifold, "pgd" if "pgd" in (solver, self.method) else "lbfgs", rates, self.inner_iter
        )

    def _keep(self, family: AtomFamily, atoms: Leaves) -> None:
        """Store the atoms as systems; atoms of a registered family are also stored in their own representation."""
        self.systems_ = family.systems(atoms)
        self.__dict__.pop("atoms_", None)
        if _registered_family(self.method) is not None:
            self.atoms_ = atoms

    def _check_data(self, systems: Systems, groups: ArrayLike | None) -> None:
        N, J = len(systems), self.n_atoms
        if self.batch_size is not None and self.method != "pgd":
            raise ValueError(f"batch_size={quoted(self.batch_size)} requires method='pgd', not {quoted(self.method)}")
        if isinstance(self.init, Systems):
            size = (J, systems.n_outputs, systems.n_states)
            if self.init.C.shape != size:
                raise ValueError(f"init has C of shape {self.init.C.shape}: pass {J} systems with C of shape {size}")
        elif N < J:
            raise ValueError(f"X has {N} sequences for n_atoms={J}: pass more sequences or lower n_atoms")
        if groups is not None and np.shape(groups) != (N,):
            raise ValueError(
                f"groups have shape {np.shape(groups)} but there are {N} sequences: pass one group for each sequence"
            )
        if isinstance(self.batch_size, tuple | list) and groups is None:
            raise ValueError(
                f"batch_size={quoted(self.batch_size)} draws random groups, but fit received no groups: pass "
                "groups=… with one group per sequence"
            )


def prepare(
    data: Any,
    *,
    n_atoms: int = 3,
    n_states: int | str | None = None,
    identifier: LDSIdentifier | None = None,
    **settings: Any,
) -> ms.Prepared:
    """Prepare the objective (9) as a function of the atoms and of their codes of all data, (J, N).

    Parameters
    ----------
    data : Systems or list of array-like of shape (T_i, d)
    n_atoms : int
        J, at most the number of data.
    n_states, identifier
        As in the model ``"lds.mean"``.
    **settings
        The parameters `kernel`, `bound`, `alpha`, `method`, `step_size` and `inner_iter` of `LDSDictionaryLearning`.
        With ``method="canonical"``, initial atoms may be beyond the bound: use ``minimize(…, project=True)``.
    """
    if not isinstance(data, DictionaryModel):
        estimator = LDSDictionaryLearning(n_atoms, **settings)
        check_parameters(estimator, _RULES)
        data = estimator._model(identified(data, n_states, identifier))
    return ms.Prepared(data)


def _count_different(model: DictionaryModel, most: int) -> int:
    """Return the number of systems that differ in feature space, up to rounding and at most `most`."""
    size = model.self_values

    def away(i: int) -> Array:
        return size[i] + size - 2 * model.family.cross(model.packed[[i]], model.packed)[0]

    return len(differing(away, np.full(len(size), np.inf), SAME * size.max(), most))


def _batch_size(size: Any) -> int | tuple[int, int]:
    parts = tuple(size) if isinstance(size, tuple | list) else (size,)
    good = all(isinstance(part, Integral) and not isinstance(part, bool) and int(part) >= 1 for part in parts)
    if not good or len(parts) not in (1, 2):
        raise ValueError(
            f"batch_size={quoted(size)} is not valid: pass None, a whole number, or a pair such as (20, 4)"
        )
    return int(parts[0]) if len(parts) == 1 else (int(parts[0]), int(parts[1]))
