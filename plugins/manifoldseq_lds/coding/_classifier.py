"""Classification of sequences by the kernels of their linear dynamical systems."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self, cast

import numpy as np
import scipy.optimize
import scipy.special
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin, clone
from sklearn.model_selection import StratifiedKFold
from sklearn.svm import SVC
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

import manifoldseq as ms
from manifoldseq.estimators import (
    available_where,
    check_choice,
    check_parameters,
    check_positive,
    check_unmasked,
    quoted,
)
from manifoldseq.execution import one_blas_thread
from manifoldseq.models import Stages

from ..clustering._settings import is_open, settled
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
from ..kernels._resolved import check_kernel, manifold_of
from ..systems._record import Systems
from ._atom_families import SystemAtoms
from ._labelled_settings import choose_by_labels
from ._lasso import positive_semidefinite, sparse_codes, zero_codes

Array = NDArray[np.floating[Any]]

METHODS = ("svm", "nearest", "residual", "ridge")
_RIDGE = 0.1
_FOLDS = 5
_RULES = {
    **IDENTIFICATION,
    "method": (check_choice, METHODS),
    "kernel": check_kernel,
    "moments": check_moments,
    "C": check_positive,
    "alpha": check_positive,
}


def _check_calibrated(model: Any) -> None:
    if hasattr(model, "temperature_"):
        return
    if not hasattr(model, "targets_"):
        raise AttributeError("this LDSClassifier is not fitted yet: call fit before predict_proba")
    rare = model.classes_[np.bincount(model.targets_).argmin()]
    raise AttributeError(
        f"probabilities are not available, because class {quoted(rare.item())} has only one sequence in fit, which "
        "cannot be held out for the calibration: pass two or more sequences of each class"
    )


class LDSClassifier(ClassifierMixin, SequenceEstimator):
    """Classify sequences by their identified linear dynamical systems.

    Parameters
    ----------
    method : {"svm", "nearest", "residual", "ridge"}
        ``"svm"``: one-against-rest support vector machines on the kernel. ``"nearest"``: the class of the nearest
        training system in feature space. ``"residual"``: sparse coding over all training systems; the predicted class
        is the class whose atoms and codes reconstruct the system best. ``"ridge"``: ridge regression (with penalty 0.1)
        from these codes to the classes.
    n_states : int or str
        The number of states of the identified systems, a short form of ``identifier=LDSIdentifier(n_states)``.
    identifier : LDSIdentifier, optional
        The identification of sequences. The object is copied, and it is not used for `Systems`. With
        ``n_states="auto"``, settings that are not given are chosen by leave-one-out predictions of the labels: first
        the number of states and the delay, then moments and centring for the three best combinations. If a class has
        only one sequence, the rule of `LDSKMeans` is used instead.
    kernel : str or kernel object
        A registered name, or an object with the methods of a kernel.
    moments : {"auto", "none", "level", "size", "both"}
        Moments that are compared in addition to the dynamics, as in `LDSKMeans`; ``"auto"`` chooses them by the labels.
    C : float
        Regularization of ``"svm"``, with the kernel divided by its mean k(x, x).
    alpha : float
        The sparsity factor of ``"residual"`` and ``"ridge"``, see `LDSSparseCoder`.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    systems_ : Systems
        The training systems.
    targets_ : ndarray of shape (N,), int
        Classes of the training systems, as indices into `classes_`.
    temperature_ : float
        The divisor of scores for `predict_proba`; absent if a class has only one sequence.
    choice_ : manifoldseq.models.Choice
        The comparison of settings for ``n_states="auto"``, by the labels or, if a class has only one sequence, without
        them; absent for other values of `n_states`.
    moment_weights_ : ndarray of shape (2 d,)
        Weights of the `MomentKernel`; absent if only dynamics are compared.
    n_features_in_ : int
    feature_names_in_ : ndarray of str of shape (d,)
        Names of the channels, if every sequence of `fit` is a data frame.
    scale_ : ndarray of shape (d,)
        The divisor of each channel of sequences; absent after a fit to `Systems`.

    Raises
    ------
    ValueError
        In `fit`, if a parameter or the input is invalid, if all labels are the same, or if all codes are zero.

    Notes
    -----
    These are the classifiers of the authors' toolbox. For ``"svm"``, negative eigenvalues of the kernel matrix are set
    to zero with a warning.

    Examples
    --------
    >>> import numpy as np
    >>> rng, t = np.random.default_rng(0), np.arange(60)[:, None]
    >>> X = [np.cos(t * w + rng.uniform(0, 6) + [0, 1, 2]) for w in [0.2] * 5 + [0.9] * 5]
    >>> y = ["slow"] * 5 + ["fast"] * 5
    >>> LDSClassifier(n_states=2).fit(X[1:], y[1:]).predict(X[:1]).tolist()
    ['slow']
    """

    def __init__(
        self,
        method: str = "svm",
        *,
        n_states: int | str = "auto",
        identifier: LDSIdentifier | None = None,
        kernel: Any = "projection",
        moments: str = "auto",
        C: float = 10.0,
        alpha: float = 0.1,
    ) -> None:
        self.method = method
        self.n_states = n_states
        self.identifier = identifier
        self.kernel = kernel
        self.moments = moments
        self.C = C
        self.alpha = alpha

    def fit(
        self,
        X: SequencesOrSystems,
        y: ArrayLike,
        *,
        observers: Sequence[Any] = (),
        checkpoint: ms.storage.Checkpoint | str | Path | None = None,
        resume: bool = False,
    ) -> Self:
        """Learn from sequences or systems and their classes.

        Parameters
        ----------
        X : list of array-like of shape (T_i, d), or Systems
        y : array-like of shape (N,)
        observers, checkpoint, resume
            As in `manifoldseq.models.Stages`: an iteration compares one setting, identifies one batch of sequences, or
            fits the classifier to all sequences or to the sequences outside one fold.

        Raises
        ------
        KeyboardInterrupt
            After Ctrl-C. The checkpoint, if any, contains the results so far.
        """
        check_parameters(self, _RULES)
        if y is None:
            raise ValueError("LDSClassifier requires y to be passed, but the target y is None")
        labels = np.asarray(check_unmasked(y))
        loop: dict[str, Any] = {"observers": observers, "checkpoint": checkpoint, "resume": resume}
        stages = stages_of(self, identifier_of(self), X, labels, **loop)
        made = self._settled(X, labels, stages)
        systems, identifier = learned_systems(made, X, stages)
        if labels.shape != (len(systems),):
            raise ValueError(
                f"y has shape {labels.shape} but there are {len(systems)} sequences: pass one class for each sequence"
            )
        keep_moment_weights(self, made.moments, systems)
        try:
            check_classification_targets(labels)
            classes, codes = np.unique(labels, return_inverse=True)
        except TypeError:
            raise ValueError(
                "y mixes classes that cannot be sorted, such as words and numbers: pass classes of one type"
            ) from None
        if len(classes) < 2:
            raise ValueError(
                f"y has only the class {quoted(classes.tolist()[0])}: pass sequences of at least two classes"
            )
        with one_blas_thread():
            family = self._family(systems)
            packed = family.pack(systems)
            gram = _symmetric(family.cross(packed, packed))
            if self.method != "nearest":
                gram = positive_semidefinite(gram)
                if not gram.any() or (self.method != "svm" and self.alpha >= 2 * np.abs(gram).max()):
                    raise zero_codes(self.alpha, gram)
            learned = next(stages.map(lambda K: self._learned(K, codes, len(classes)), [gram]))
            temperature = self._temperature(gram, codes, len(classes), stages)
        self.classes_, self.systems_ = classes, systems
        self.targets_ = codes
        for name in ("dual_coef_", "intercept_", "temperature_"):
            self.__dict__.pop(name, None)
        if learned is not None:
            self.dual_coef_, self.intercept_ = (np.require(part, requirements="W") for part in learned)
        if temperature is not None:
            self.temperature_ = temperature
        remember(self, systems, identifier)
        return self

    def _settled(self, X: SequencesOrSystems, labels: NDArray[Any], stages: Stages) -> Any:
        """Return the estimator, or a copy with settings that are chosen by the labels or else without them."""
        kinds: dict[Any, int] = {}
        codes = np.array([kinds.setdefault(label, len(kinds)) for label in labels.ravel().tolist()], dtype=np.intp)
        choice = choose_by_labels(self, X, codes, stages) if is_open(self, X) and len(kinds) > 1 else None
        if choice is None:
            return settled(self, X, len(kinds), stages=stages)
        self.choice_ = choice
        return cast(Any, clone(self)).set_params(**choice.best_params)

    def decision_function(self, X: SequencesOrSystems) -> Array:
        """Return the scores of each class for sequences or systems.

        Returns
        -------
        ndarray of shape (N, n_classes), or (N,) for two classes
            Larger scores mean more evidence. For two classes, the result is the score of the second class minus the
            score of the first class.
        """
        scores = self._class_scores(X)
        return scores[:, 1] - scores[:, 0] if len(self.classes_) == 2 else scores

    def predict(self, X: SequencesOrSystems) -> NDArray[Any]:
        """Return the class of each sequence or system."""
        scores = self.decision_function(X)
        return self.classes_[(scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)]

    @available_where(_check_calibrated)
    def predict_proba(self, X: SequencesOrSystems) -> Array:
        """Return the probability of each class, calibrated on held-out sequences of `fit`.

        The probability is ``softmax(scores / temperature_)`` with the scores of `decision_function` (for two classes,
        before the subtraction). The temperature maximizes the likelihood of held-out classes: each fifth of the data is
        scored by a classifier that was fitted to the rest (temperature scaling; Guo, Pleiss, Sun and Weinberger 2017).
        The targets are smoothed as by Platt (1999), so that probabilities from few sequences stay below one. The most
        likely class is that of `predict`. The settings of ``n_states="auto"`` were chosen on all sequences, including
        the held-out sequences. The method is not available if a class has only one sequence, which cannot be held out.

        Returns
        -------
        ndarray of shape (N, n_classes)
        """
        return scipy.special.softmax(self._class_scores(X) / self.temperature_, axis=1)

    @available_where(_check_calibrated)
    def predict_log_proba(self, X: SequencesOrSystems) -> Array:
        """Return the logarithm of `predict_proba`."""
        return scipy.special.log_softmax(self._class_scores(X) / self.temperature_, axis=1)

    def _class_scores(self, X: SequencesOrSystems) -> Array:
        """Return the scores of each class for sequences or systems, (N, n_classes)."""
        check_is_fitted(self, "dual_coef_" if self.method in ("svm", "ridge") else "systems_")
        systems = new_systems(self, X)
        with one_blas_thread():
            family = self._family(systems)
            train, packed = family.pack(self.systems_), family.pack(systems)
            gram = None
            if self.method in ("residual", "ridge"):
                gram = positive_semidefinite(_symmetric(family.cross(train, train)))
            learned = (self.dual_coef_, self.intercept_) if hasattr(self, "dual_coef_") else None
            cross, known, own = family.cross(train, packed), family.diag(train), family.diag(packed)
            return self._scores(gram, cross, known, own, self.targets_, len(self.classes_), learned).T

    def _learned(self, gram: Array, codes: NDArray[np.intp], n_classes: int) -> tuple[Array, Array] | None:
        """Return the coefficients (n_classes, N) and intercepts of "svm" and "ridge"."""
        if self.method not in ("svm", "ridge"):
            return None
        return (self._support_vectors if self.method == "svm" else self._ridge)(gram, codes, n_classes)

    def _scores(
        self,
        gram: Array | None,
        cross: Array,
        known: Array,
        own: Array,
        targets: NDArray[np.intp],
        n_classes: int,
        learned: tuple[Array, Array] | None,
    ) -> Array:
        """Return the scores (n_classes, n) of n systems, by their kernel values (N, n) with N training systems.

        `known` and `own` are k(x, x) of both, `gram` is the kernel matrix of the training systems.
        """
        rows = [np.flatnonzero(targets == c) for c in range(n_classes)]
        if self.method == "nearest":
            squared = known[:, None] + own - 2 * cross
            return np.stack([-squared[some].min(axis=0) for some in rows])
        if self.method == "svm":
            assert learned is not None
            return learned[0] @ cross / known.mean() + learned[1][:, None]
        assert gram is not None
        Z = sparse_codes(gram, cross, self.alpha)
        if learned is not None:
            return learned[0] @ Z + learned[1][:, None]
        # what the atoms of a class alone, with their codes, leave of the system, but for k(x, x)
        left = [(Z[some], gram[np.ix_(some, some)], cross[some]) for some in rows]
        return np.stack([-np.einsum("jn,jn->n", z, inner @ z - 2 * outer) for z, inner, outer in left])

    def _temperature(self, gram: Array, codes: NDArray[np.intp], n_classes: int, stages: Stages) -> float | None:
        """Return the temperature that maximizes the likelihood of held-out classes; None if a class has one system."""
        folds = min(_FOLDS, int(np.bincount(codes).min()))
        if folds < 2:
            return None
        scores, own = np.empty((len(codes), n_classes)), gram.diagonal()

        def held_out(split: tuple[NDArray[np.intp], NDArray[np.intp]]) -> Array:
            seen, left = split
            inner, cross = gram[np.ix_(seen, seen)], gram[np.ix_(seen, left)]
            learned = self._learned(inner, codes[seen], n_classes)
            return self._scores(inner, cross, own[seen], own[left], codes[seen], n_classes, learned).T

        splits = list(StratifiedKFold(folds, shuffle=True, random_state=0).split(gram, codes))
        for (_, left), found in zip(splits, stages.map(held_out, splits), strict=True):
            scores[left] = found
        # Platt's targets: (n + 1) / (n + K) for the class of a sequence, one of n, and 1 / (n + K) for each other
        sizes = np.bincount(codes)[codes][:, None]
        targets = (np.eye(n_classes)[codes] * sizes + 1) / (sizes + n_classes)
        spread = float(scores.std(axis=1).mean())
        if not spread > 0:
            return 1.0

        def loss(log_temperature: float) -> float:
            return -float((targets * scipy.special.log_softmax(scores / np.exp(log_temperature), axis=1)).sum())

        at = np.log(spread)
        found = scipy.optimize.minimize_scalar(loss, bounds=(at - 10, at + 10), method="bounded")
        return float(np.exp(found.x))

    def _support_vectors(self, gram: Array, codes: NDArray[np.intp], n_classes: int) -> tuple[Array, Array]:
        """Return coefficients of the training systems (n_classes, N) and intercepts, one class against the rest."""
        scaled = gram / gram.diagonal().mean()
        dual, intercept = np.zeros((n_classes, len(gram))), np.zeros(n_classes)
        for c in range(n_classes):
            machine = SVC(kernel="precomputed", C=float(self.C)).fit(scaled, codes == c)
            dual[c, machine.support_] = machine.dual_coef_[0]
            intercept[c] = machine.intercept_[0]
        return dual, intercept

    def _ridge(self, gram: Array, codes: NDArray[np.intp], n_classes: int) -> tuple[Array, Array]:
        """Return the weights ``W = L Z' (Z Z' + 0.1 I)^-1`` of the codes Z of the training systems."""
        Z = sparse_codes(gram, gram, self.alpha)
        targets = np.eye(n_classes)[:, codes]
        weights = np.linalg.solve(Z @ Z.T + _RIDGE * np.eye(len(Z)), Z @ targets.T).T
        return weights, np.zeros(n_classes)

    def _family(self, systems: Systems) -> SystemAtoms:
        kernel = fitted_kernel(self)
        return SystemAtoms(kernel, manifold_of(kernel, systems.n_outputs, systems.n_states, 0.99), "pgd", (), 1)


def _symmetric(gram: Array) -> Array:
    return (gram + gram.T) / 2
