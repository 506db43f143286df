"""Classification of sequences by support vector machines on kernels of several descriptions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.svm import SVC

import manifoldseq as ms
from manifoldseq.estimators import SequencesLike, check_parameters, check_positive, quoted
from manifoldseq.execution import one_blas_thread

from ._estimator import RULES
from ._supervised import ClassesOfSequences, require_classes

Array = NDArray[np.float64]
_RULES = {**RULES, "C": check_positive}


class SequenceClassifier(ClassesOfSequences):
    """Classify sequences by support vector machines, with kernels that cross-validation chooses.

    Parameters
    ----------
    kernel : str, kernel object or dict of str to float
        ``"auto"`` compares `kernels`, and sums of several kernels, by the accuracy on held-out folds of the training
        sequences; `choice_` shows the comparison. The highest accuracy decides if it is clearly higher than the
        accuracy of random convolutions (by two standard errors of the difference); otherwise the classifier uses random
        convolutions. ``"sum"``, a name, an object and a dict have the same meaning as in `SequenceKMeans`.
    kernels : sequence of str or kernel objects, optional
        The kernels of ``"auto"`` and ``"sum"``, by default the bundled kernels. A kernel of another plugin is used only
        if it is named here.
    C : float
        Regularization of the support vector machines, whose kernel has a mean k(x, x) of 1.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    weights_ : dict of str to float
        Weights of the kernels, with sum 1.
    choice_ : manifoldseq.models.Choice
        The accuracies that were compared. Absent unless ``kernel="auto"``.
    components_, sequences_, n_features_in_, feature_names_in_
        As in `SequenceKMeans`, but for all sequences of `fit`.
    targets_ : ndarray of shape (N,), int
        Classes of the sequences of `fit`, as indices into `classes_`.
    coordinates_ : ndarray of shape (N, r)
        Concatenated principal components of the sequences of `fit`.

    Examples
    --------
    >>> import numpy as np
    >>> rng, t = np.random.default_rng(0), np.arange(60)[:, None]
    >>> X = [np.cos(t * w + rng.uniform(0, 6) + [0, 1, 2]) for w in [0.2] * 5 + [0.9] * 5]
    >>> y = ["slow"] * 5 + ["fast"] * 5
    >>> SequenceClassifier().fit(X[1:], y[1:]).predict(X[:1]).tolist()
    ['slow']
    """

    def __init__(self, kernel: Any = "auto", *, kernels: Any = None, C: float = 10.0) -> None:
        self.kernel = kernel
        self.kernels = kernels
        self.C = C

    def fit(
        self,
        X: SequencesLike,
        y: ArrayLike,
        *,
        observers: Sequence[Any] = (),
        checkpoint: ms.storage.Checkpoint | str | Path | None = None,
        resume: bool = False,
    ) -> Self:
        """Learn from sequences and their classes.

        Parameters
        ----------
        X : list of array-like of shape (T_i, d)
        y : array-like of shape (N,)
        observers, checkpoint, resume
            As in `SequenceKMeans.fit`: with a checkpoint, one iteration compares the sequences by one kernel.

        Raises
        ------
        ValueError
            For an invalid parameter or input, or labels of one class only.
        KeyboardInterrupt
            After Ctrl-C. The checkpoint, if any, is written first.
        """
        check_parameters(self, _RULES)
        require_classes(self, y)
        labels = np.asarray(y)
        if labels.ndim == 1 and len(labels) and len(set(labels.tolist())) < 2:
            raise ValueError(f"y has only the class {quoted(labels.tolist()[0])}: pass at least two classes")
        return self._fit_kernels(X, y, observers=observers, checkpoint=checkpoint, resume=resume)

    def decision_function(self, X: SequencesLike) -> Array:
        """Return the decision function of the support vector machines.

        Returns
        -------
        ndarray of shape (N, n_classes), or (N,) for two classes
        """
        cross = self._new_gram(X)[0]
        return self._machine().decision_function(cross)

    def predict(self, X: SequencesLike) -> NDArray[Any]:
        """Return the class of each sequence, (N,)."""
        cross, own = self._new_gram(X)
        Z = self.coordinates_
        return self.classes_[self._predicted(Z @ Z.T, self.targets_, cross, own)]

    def _machine(self) -> SVC:
        Z = self.coordinates_
        with one_blas_thread():
            return _machine(float(self.C)).fit(Z @ Z.T, self.targets_)

    def _predicted(self, gram: Array, targets: Any, cross: Array, own: Array) -> NDArray[np.int64]:
        return _machine(float(self.C)).fit(gram, targets).predict(cross)


def _machine(C: float) -> SVC:
    return SVC(C=C, kernel="precomputed", decision_function_shape="ovr")
