"""A classifier: a network of rectified layers, each after an orthonormal projection."""

import warnings
from collections.abc import Callable, Sequence
from copy import copy
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

import manifoldseq as ms
from manifoldseq.estimators import (
    check_choice,
    check_number,
    check_parameters,
    check_positive,
    check_real,
    check_whole,
    fit_starts,
    quoted,
    random_generator,
)

from ..families._family import Array
from ..mixtures._dense import Dense
from ._initial_weights import STARTS, Sizes, begin, checked_sizes
from ._labels import kind_of_labels
from ._schedule import Exponential, Ramp, ReduceOnPlateau, Training
from ._torch import threads, torch_device
from ._windows import Windows

_VALIDATED: Callable[..., Any] = validate_data  # whose signature says that y and dtype are strings
_ROWS = 4096
_LARGEST = 1e15
"""Sums of squares of larger inputs overflow in float32."""


class HOPENetworkClassifier(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClassifierMixin, BaseEstimator):
    """Classify rows by a network of rectified layers, each learned as an orthonormal projection followed by units.

    A layer is ``eta = max(0, (x U') mu' + b)`` with orthonormal rows of U, and the last layer is a softmax layer. All
    layers are trained together by back-propagation with momentum. After training, every layer can be merged into an
    ordinary layer.

    Parameters
    ----------
    layers : sequence of (M, K) or K
        ``(M, K)`` is a HOPE layer with M projections and K units, and a number K is an ordinary layer. ``(None, K)``
        uses the smaller of the numbers of inputs and units for M. ``[(400, 1200), (400, 1200)]`` is a stack of two HOPE
        layers (Figure 3 (b)), ``[(400, 1200), 1200]`` is a HOPE layer followed by an ordinary layer (Figure 3 (a)), and
        ``[1000]`` is the plain baseline.
    orthogonality : {"polar", "qr", "penalty", None}
        With ``"polar"`` and ``"qr"``, every step keeps rows orthonormal (see `manifoldseq.torch`). ``"penalty"``: the
        gradient (18) of the penalty of the paper, times `beta`, is added, and rows are only approximately orthonormal.
        With None, projections are unconstrained linear bottlenecks.
    beta : float
        Weight of the penalty.
    criterion : {"softmax", "eta"} or callable
        ``"softmax"`` is the cross-entropy of a softmax layer on the features. ``"eta"`` is (40) as printed, the
        cross-entropy of the features of the last layer, which must have one unit per class. A callable takes the scores
        (N, classes) and the numbers of the classes (N,) as tensors on `device` and returns the loss, a tensor of one
        number.
    init : {"uniform", "pca"}
        The initial projections: random (equation 41), orthonormalized if `orthogonality` is ``"polar"`` or ``"qr"``, or
        the leading principal directions of the inputs of the layer.
    gamma : float
        Scale of the initial weights (equation 41).
    learning_rate : float, Schedule or ReduceOnPlateau
        A number is the rate of the first epoch; every epoch multiplies it by `decay` (equation 42). `ReduceOnPlateau`
        depends on the error on validation rows, which `fit` then requires.
    decay : float
        The factor of the learning rate per epoch (equation 42).
    momentum : (float, float) or float
        First and last momentum (equation 43).
    momentum_epochs : int, optional
        Number of epochs in which the momentum grows (T in equation 43); by default `max_iter`.
    batch_size : int
        Rows of a mini-batch.
    max_iter : int
        Epochs.
    weight_decay : float
        Weight decay of all weights except biases and orthonormal or penalized projections.
    dropout : (float, float)
        Dropout rates of the inputs and of the units of every hidden layer.
    random_state : int, numpy.random.Generator, numpy.random.RandomState or None
        Seed of the random choices.
    n_jobs : int or None
        The number of torch threads during training, -1 for one per core; None does not change it. The last digits of
        the results can depend on this number.
    device : str
        The torch device of the training, such as ``"cuda"``, with float64. All rows are copied to it and must fit into
        its memory. Results on different devices differ in the last digits, and with dropout in the random numbers.
        Fitted networks are applied on the CPU.
    verbose : int
        1 logs the end of training, and 2 logs every epoch: see `manifoldseq.estimators.fit_starts`.

    Attributes
    ----------
    layers_ : tuple of Dense
    head_ : Dense or None
        None for ``criterion="eta"``.
    classes_ : ndarray
    n_parameters_, n_merged_parameters_ : int
        Numbers of parameters of the network before and after merging.
    n_iter_ : int
    history_ : dict of str to ndarray
        Columns of equal length: ``nit``, ``time``, ``fun`` (loss) and ``error`` (%) during the epoch,
        ``validation_error`` (%) after the epoch, ``feasibility`` (largest entry of ``|U U' - I|``) and
        ``correlations_i``, the sum of the correlations of the rows of the i-th projection (Figure 4); the first entry
        is the start.
    status_ : manifoldseq.Status
    n_features_in_ : int

    Notes
    -----
    The network is trained in float32 by torch. It is stored as arrays and applied without torch. Inputs are not scaled:
    scale them first. `Windows` over sequences can be passed in place of rows. Ctrl-C ends `fit` with the last complete
    epoch.

    References
    ----------
    Zhang, Jiang, sections 5.3 and 5.4, equations (40)-(43).

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from manifoldseq_hope import HOPENetworkClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = HOPENetworkClassifier([(20, 100)], max_iter=20, random_state=0).fit(X[:1000] / 16, y[:1000])
    >>> model.score(X[1000:] / 16, y[1000:]) > 0.9
    True
    >>> model.n_parameters_, model.n_merged_parameters_
    (4390, 7510)
    """

    stored_types = (Dense, Exponential, ReduceOnPlateau, Ramp)
    sequential = "each step of training starts from the weights of the step before"
    """Why a fit is not distributed, for messages."""

    def __init__(
        self,
        layers: Any = ((None, 100),),
        *,
        orthogonality: str | None = "polar",
        beta: float = 0.01,
        criterion: str | Callable[[Any, Any], Any] = "softmax",
        init: str = "pca",
        gamma: float = 0.5,
        learning_rate: Any = 0.05,
        decay: float = 0.998,
        momentum: Any = (0.5, 0.9),
        momentum_epochs: int | None = None,
        batch_size: int = 100,
        max_iter: int = 50,
        weight_decay: float = 1e-5,
        dropout: tuple[float, float] = (0.0, 0.0),
        random_state: Any = None,
        n_jobs: int | None = None,
        device: str = "cpu",
        verbose: int = 0,
    ) -> None:
        self.layers = layers
        self.orthogonality = orthogonality
        self.beta = beta
        self.criterion = criterion
        self.init = init
        self.gamma = gamma
        self.learning_rate = learning_rate
        self.decay = decay
        self.momentum = momentum
        self.momentum_epochs = momentum_epochs
        self.batch_size = batch_size
        self.max_iter = max_iter
        self.weight_decay = weight_decay
        self.dropout = dropout
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.device = device
        self.verbose = verbose

    def fit(
        self,
        X: ArrayLike | Windows,
        y: ArrayLike,
        *,
        validation: tuple[ArrayLike | Windows, ArrayLike] | None = None,
        observers: Sequence[Any] = (),
        checkpoint: ms.storage.Checkpoint | str | Path | None = None,
        resume: bool = False,
    ) -> Self:
        """Train the network.

        Parameters
        ----------
        X : array-like of shape (N, D), or Windows
        y : array-like of shape (N,)
            The labels, with at least two classes.
        validation : tuple of X and y, optional
            Rows that are not used for training. The error on them is measured after every epoch. Classes that do not
            occur in `y` count as errors.
        observers, checkpoint, resume
            As in `manifoldseq.iterate`. An iteration is an epoch, and the parameters are the ``x`` of the state.

        Raises
        ------
        ValueError
            For an invalid parameter, a device that torch cannot use, NaN, missing labels, labels of one class only,
            labels of another type than the labels of the validation rows, or `ReduceOnPlateau` without validation rows.
        ImportError
            If torch is not installed.

        Warns
        -----
        UserWarning
            If the loss becomes infinite or NaN. Training then ends with the previous epoch.
        """
        return self._train(X, y, None, validation, observers, checkpoint, resume)

    def fine_tune(
        self,
        X: ArrayLike | Windows,
        y: ArrayLike,
        layers: Sequence[Dense],
        *,
        validation: tuple[ArrayLike | Windows, ArrayLike] | None = None,
        observers: Sequence[Any] = (),
        checkpoint: ms.storage.Checkpoint | str | Path | None = None,
        resume: bool = False,
    ) -> Self:
        """Train as `fit` does, starting from given first layers, for example the layers of a `HOPEStack`.

        Parameters
        ----------
        X, y
            As in `fit`.
        layers : sequence of Dense
            The first layers of the network, with the same sizes.
        validation, observers, checkpoint, resume
            As in `fit`.
        """
        return self._train(X, y, tuple(layers), validation, observers, checkpoint, resume)

    def decision_function(self, X: ArrayLike | Windows) -> Array:
        """Return the scores of the classes, (N, classes); for two classes, the difference of the scores, (N,)."""
        scores = self._scores(X)
        return scores[:, 1] - scores[:, 0] if len(self.classes_) == 2 else scores

    def predict_proba(self, X: ArrayLike | Windows) -> Array:
        """Return the probabilities of the classes by the softmax of the scores, (N, classes)."""
        scores = self._scores(X)
        scores -= scores.max(axis=1, keepdims=True)
        np.exp(scores, out=scores)
        scores /= scores.sum(axis=1, keepdims=True)
        return scores

    def predict(self, X: ArrayLike | Windows) -> Array:
        """Return the likeliest class of each row, (N,)."""
        best = self._scores(X).argmax(axis=1)
        return self.classes_[best]

    def transform(self, X: ArrayLike | Windows) -> Array:
        """Return the features eta (39) of the last layer, (N, K)."""
        X = self._checked(X)
        return np.concatenate([self._features(X[i : i + _ROWS]) for i in range(0, len(X), _ROWS)])

    @property
    def _n_features_out(self) -> int:
        return len(self.layers_[-1].bias)

    def merged(self) -> tuple[Dense, ...]:
        """Return all layers, the head last, merged into an ordinary ReLU network that computes the same function."""
        check_is_fitted(self, "layers_")
        return tuple(layer.merged() for layer in (*self.layers_, *(() if self.head_ is None else (self.head_,))))

    def module(self) -> Any:
        """Return the network as a `torch.nn.Sequential` of `HOPELayer` and linear layers, in float32."""
        from ._training import module

        check_is_fitted(self, "layers_")
        return module(self.layers_, self.head_)

    @property
    def n_parameters_(self) -> int:
        """The number of parameters of the network before merging."""
        return self._count(False)

    @property
    def n_merged_parameters_(self) -> int:
        """The number of parameters of the network after merging."""
        return self._count(True)

    def _count(self, merged: bool) -> int:
        if "layers_" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__} is not fitted: call fit first")
        head = 0 if self.head_ is None else self.head_.n_parameters()
        return sum(layer.n_parameters(merged) for layer in self.layers_) + head

    def _train(
        self,
        X: ArrayLike | Windows,
        y: ArrayLike,
        given: tuple[Dense, ...] | None,
        validation: tuple[ArrayLike | Windows, ArrayLike] | None,
        observers: Sequence[Any],
        checkpoint: ms.storage.Checkpoint | str | Path | None,
        resume: bool,
    ) -> Self:
        X, codes = self._checked_fit(X, y)
        held = None if validation is None else self._checked_validation(validation, y)
        sizes, training = settings_of(self, X.shape[1], len(self.classes_))
        if isinstance(training.rate, ReduceOnPlateau) and held is None:
            raise ValueError(
                "learning_rate=ReduceOnPlateau(...) requires validation rows, but there are none: pass "
                "validation=(X, y) to fit"
            )
        from ._training import Trainer

        rng = random_generator(self.random_state)
        n_classes = None if isinstance(self.criterion, str) and self.criterion == "eta" else len(self.classes_)
        layers, head = begin(X, sizes, n_classes, self.init, training.on_stiefel, self.gamma, rng)
        if given is not None:
            layers = _replaced(layers, given)
        device = torch_device(self.device)
        trainer = Trainer(X, codes, layers, head, training, int(rng.integers(2**63)), held, device)

        def train(number: int, _: np.random.Generator, **loop: Any) -> ms.Run:
            return ms.iterate(trainer.step, trainer.start, stop=ms.MaxIterations(self.max_iter), **loop)

        settled = copy(self)  # what a checkpoint belongs to: without a number of epochs for momentum that is max_iter
        settled.momentum_epochs = self.max_iter if self.momentum_epochs is None else self.momentum_epochs
        data = (part for one in (X, codes, *(held or ())) for part in _arrays(one))
        options: dict[str, Any] = {"observers": observers, "checkpoint": checkpoint, "resume": resume}
        with threads(self.n_jobs):
            run = fit_starts(settled, train, training, given, *data, n_starts=1, **options)
        if run.status is ms.Status.NON_FINITE:
            warnings.warn(
                f"the loss of epoch {run.nit + 1} is not finite, so training ended with the previous epoch: lower "
                "learning_rate",
                stacklevel=3,
            )
        self.layers_, self.head_ = trainer.dense(run.state["x"])
        self.n_iter_, self.history_, self.status_ = run.nit, run.history, run.status
        return self

    def _checked_fit(self, X: ArrayLike | Windows, y: ArrayLike) -> tuple[Array | Windows, Array]:
        if y is not None:
            kind_of_labels("y", y)
        if isinstance(X, Windows):
            y = _labels(X, y)
            self.n_features_in_ = X.shape[1]
            vars(self).pop("feature_names_in_", None)
        else:
            X, y = _VALIDATED(self, check_real(X), y, dtype=[np.float32, np.float64])
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"y has one class, {quoted(self.classes_.tolist()[0])}: pass rows of at least two classes")
        largest = np.abs(X.frames if isinstance(X, Windows) else X).max()
        if largest > _LARGEST:
            raise ValueError(f"X has entries as large as {largest:.0e}: scale X so that its entries are about 1")
        if not isinstance(X, Windows):
            X = np.ascontiguousarray(X, np.float32)
        return X, codes.astype(np.int64)

    def _checked_validation(self, validation: Any, learned: Any) -> tuple[Array | Windows, Array]:
        """Return validation rows and the numbers of their classes; -1 denotes a class without training rows."""
        if not isinstance(validation, list | tuple) or len(validation) != 2:
            parts = f" of {len(validation)} parts" if isinstance(validation, list | tuple) else ""
            raise ValueError(f"validation is of type {type(validation).__name__}{parts}: pass a tuple (X, y)")
        X, y = validation
        X = self._rows(X)
        found, expected = kind_of_labels("validation's y", y), kind_of_labels("y", learned)
        y = _labels(X, y)
        if found != expected:
            raise ValueError(f"validation's y has {found}, but y has {expected}: pass labels of one type")
        found = np.searchsorted(self.classes_, y).clip(max=len(self.classes_) - 1)
        return X, np.where(self.classes_[found] == y, found, -1)

    def _checked(self, X: ArrayLike | Windows) -> Array | Windows:
        check_is_fitted(self, "layers_")
        return self._rows(X)

    def _rows(self, X: ArrayLike | Windows) -> Array | Windows:
        if not isinstance(X, Windows):
            return _VALIDATED(self, check_real(X), reset=False, dtype=[np.float32, np.float64])
        if X.shape[1] != self.n_features_in_:
            raise ValueError(
                f"X has windows of {X.shape[1]} values, but the network has {self.n_features_in_} inputs: pass windows "
                "of the same width and channels as in fit"
            )
        return X

    def _scores(self, X: ArrayLike | Windows) -> Array:
        X = self._checked(X)
        found = []
        for first in range(0, len(X), _ROWS):
            eta = self._features(X[first : first + _ROWS])
            found.append(eta if self.head_ is None else self.head_(eta))
        return np.concatenate(found)

    def _features(self, rows: Array) -> Array:
        for layer in self.layers_:
            rows = layer(rows)
            np.maximum(rows, 0, out=rows)
        return rows


def settings_of(
    network: HOPENetworkClassifier, n_features: int, n_classes: int | None = None
) -> tuple[Sizes, Training]:
    """Validate the parameters; return the sizes of the layers and the training settings."""
    sizes = checked_sizes(network.layers, n_features)
    check_parameters(network, {"init": (check_choice, STARTS), "gamma": check_positive})
    rate = network.learning_rate
    if not isinstance(rate, ms.solvers.Schedule | ReduceOnPlateau):
        check_positive("learning_rate", rate)
        check_number("decay", network.decay, 0.0, 1.0, open_=True)
        rate = Exponential(float(rate), float(network.decay))
    first, last = _ends(network.momentum)
    for value in (first, last):
        check_number("momentum", value, 0.0, 1.0)
    epochs = network.max_iter if network.momentum_epochs is None else network.momentum_epochs
    check_whole("momentum_epochs", epochs)
    training = Training(
        rate,
        Ramp(float(first), float(last), int(epochs)),
        network.batch_size,
        network.orthogonality,
        network.beta,
        network.weight_decay,
        network.dropout,
        network.criterion,
    )
    eta = isinstance(network.criterion, str) and network.criterion == "eta"
    if eta and n_classes is not None and sizes[-1][1] != n_classes:
        raise ValueError(
            f"criterion='eta' needs one unit of the last layer per class, but there are {n_classes} classes and "
            f"{sizes[-1][1]} units: end layers with a layer of {n_classes} units"
        )
    return sizes, training


def _arrays(rows: Array | Windows) -> tuple[Array, ...]:
    """Return the arrays that contain the rows."""
    return (rows.frames, rows.starts) if isinstance(rows, Windows) else (rows,)


def _labels(X: Array | Windows, y: ArrayLike) -> Array:
    """Return labels, one per row."""
    y = np.asarray(y)
    if y.shape != (len(X),):
        raise ValueError(f"y has shape {y.shape} for {len(X)} rows: pass one label per row")
    return y


def _ends(momentum: Any) -> tuple[Any, Any]:
    """Return the initial and the final momentum from a pair or from one number."""
    several = isinstance(momentum, tuple | list) and len(momentum) == 2
    return (momentum[0], momentum[1]) if several else (momentum, momentum)


def _replaced(layers: tuple[Dense, ...], given: tuple[Dense, ...]) -> tuple[Dense, ...]:
    """Return the layers with the first layers replaced by given layers of the same sizes."""
    for place, new in enumerate(given):
        old = layers[place] if place < len(layers) else None
        if old is None or [part.shape for part in old.parts] != [part.shape for part in new.parts]:
            shapes = [part.shape for part in new.parts]
            raise ValueError(
                f"the given layer {place} has parts of shapes {shapes}: pass layers with the sizes of the network"
            )
    single = np.float32
    given = tuple(
        Dense(None if d.U is None else d.U.astype(single), d.weight.astype(single), d.bias.astype(single))
        for d in given
    )
    return (*given, *layers[len(given) :])
