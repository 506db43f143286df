"""HOPE layers learned one after another without labels, a classifier on top, and fine-tuning with labels."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import (
    BaseEstimator,
    ClassifierMixin,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    clone,
)
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

import manifoldseq as ms
from manifoldseq.estimators import (
    check_choice,
    check_number,
    check_parameters,
    check_positive,
    check_real,
    quoted,
    random_generator,
    uninterrupted,
    validate_rows,
)

from ..families._family import Array
from ..families._von_mises_fisher import von_mises_fisher
from ..mixtures._dense import Dense
from ..mixtures._hope import HOPE
from ._initial_weights import Sizes, checked_sizes
from ._labels import kind_of_labels
from ._network import HOPENetworkClassifier, settings_of
from ._schedule import ReduceOnPlateau

HEADS = ("softmax", "svm")
_RULES = {"quantile": (check_number, 0.0, 1.0), "head": (check_choice, HEADS), "C": check_positive}
_ROWS = 10_000
"""Number of rows, evenly spaced, for scales and thresholds."""

E = TypeVar("E", bound=BaseEstimator)


def _copied(estimator: E) -> E:
    """Return an unfitted estimator with the same parameters."""
    copied: Any = clone(estimator)
    return copied


class HOPEStack(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClassifierMixin, BaseEstimator):
    """Learn the layers of a network one after the other by HOPE models, without labels (5.2).

    For each layer, a `HOPE` model with von Mises-Fisher components is fitted to the centred features of the previous
    layer. It is converted to a rectified layer ``max(0, (x U') mu' + b)`` with ``b_k = ln pi_k + ln C_M(kappa_k) -
    epsilon`` (39). If there are labels, a softmax layer or a linear support vector machine is fitted to the features of
    the last layer. With `network`, all layers are then fine-tuned together.

    Parameters
    ----------
    layers : sequence of (M, K)
        Sizes of the layers. ``(None, K)`` uses the smaller of the numbers of inputs and units for M.
    mixture : HOPE, optional
        Settings of every layer, except sizes and seed; by default ``HOPE(prepare="unit",
        kappa="shared")``.
    quantile : float
        The threshold epsilon of a layer is this quantile of phi (equation 37) over the training rows and units.
    head : {"softmax", "svm"}
        The classifier on top of the layers.
    C : float
        Inverse strength of the regularization of the head, for features divided by their root mean square.
    network : HOPENetworkClassifier, optional
        If given, the layers are fine-tuned with labels, together with new layers. The `layers` of this network are the
        new layers; ``[]`` adds only a softmax layer (Figure 3).
    random_state : int, numpy.random.Generator, numpy.random.RandomState or None
        Seed of the random choices.

    Attributes
    ----------
    layers_ : tuple of Dense
        The layers that were learned without labels.
    mixtures_ : list of HOPE
        The fitted models of the centred inputs of each layer.
    means_ : list of ndarray
        The means of the inputs, which the biases of `layers_` contain.
    head_ : LogisticRegression, LinearSVC or None
    network_ : HOPENetworkClassifier or None
        The fine-tuned network. If it exists, it computes the predictions.
    classes_ : ndarray
        The classes, if `fit` had labels.
    n_features_in_ : int

    Notes
    -----
    A layer does not scale z to unit length, so that it can be merged into an ordinary layer. Rows are multiplied by one
    number per layer, such that z has unit length on average. Features are never negative, and all their directions are
    near the direction of their mean. Without centring (footnote 1), a second layer would therefore model mainly the
    length of rows. With a shared concentration, all units have responses of similar size. A row equal to the mean has
    no direction: HOPE models are fitted without it. To train a network on the features of a fixed stack, put the two in
    a pipeline.

    References
    ----------
    Zhang, Jiang, sections 5.1, 5.2 and 5.4, equations (37)-(39), Figures 1 and 3.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from manifoldseq_hope import HOPEStack
    >>> X, y = load_digits(return_X_y=True)
    >>> stack = HOPEStack([(20, 50)], random_state=0).fit(X[:1000], y[:1000])
    >>> stack.transform(X[:5]).shape, stack.score(X[1000:], y[1000:]) > 0.85
    ((5, 50), True)
    """

    stored_types = (Dense, HOPE, HOPENetworkClassifier, LogisticRegression, LinearSVC)

    def __init__(
        self,
        layers: Any = ((None, 8),),
        *,
        mixture: HOPE | None = None,
        quantile: float = 0.5,
        head: str = "softmax",
        C: float = 1.0,
        network: HOPENetworkClassifier | None = None,
        random_state: Any = None,
    ) -> None:
        self.layers = layers
        self.mixture = mixture
        self.quantile = quantile
        self.head = head
        self.C = C
        self.network = network
        self.random_state = random_state

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike | None = None,
        *,
        observers: Sequence[Any] = (),
        checkpoint: ms.storage.Checkpoint | str | Path | None = None,
        resume: bool = False,
    ) -> Self:
        """Learn the layers. With labels, also fit the head, and the network if there is one.

        Parameters
        ----------
        X : array-like of shape (N, D)
        y : array-like of shape (N,), optional
        observers, checkpoint, resume
            As in `manifoldseq.iterate`, for every layer and the network; each has its own folder in the checkpoint.

        Raises
        ------
        ValueError
            For an invalid parameter, NaN, labels of one class only, or fewer rows than components of a layer.
        KeyboardInterrupt
            If Ctrl-C is pressed while a layer is learned without labels, because a stack needs all layers. `resume`
            continues the fit. If Ctrl-C is pressed during fine-tuning, `fit` ends with the last complete epoch.
        """
        X = validate_rows(self, X, reset=True)
        codes = None if y is None else self._codes(X, y)
        sizes = self._sizes(X.shape[1])
        self._check_network(sizes, None if codes is None else len(self.classes_))
        store = ms.storage.Checkpoint.at(checkpoint)
        rng = random_generator(self.random_state)
        layers: list[Dense] = []
        mixtures: list[HOPE] = []
        means: list[Array] = []
        rows = X
        for place, (M, K) in enumerate(sizes):
            model = _copied(HOPE(prepare="unit", kappa="shared") if self.mixture is None else self.mixture)
            model.set_params(n_components=K, n_latent=M, random_state=int(rng.integers(2**31)))
            means.append(rows.mean(axis=0, dtype=np.float64).astype(rows.dtype))
            used = rows - means[-1]
            used = used[used.any(axis=1)]
            if len(used) < K:
                raise ValueError(
                    f"layers[{place}] has K={K}, but only {len(used)} rows differ from the mean: lower K or quantile"
                )
            part = store and store.child(f"layer-{place}")
            mixtures.append(uninterrupted(model.fit(used, observers=observers, checkpoint=part, resume=resume)))
            layers.append(_layer(model, used, means[-1], float(self.quantile)))
            rows = layers[-1](rows)
            np.maximum(rows, 0, out=rows)
        self.layers_, self.mixtures_, self.means_ = tuple(layers), mixtures, means
        self.head_ = self.network_ = None
        self._seed = int(rng.integers(2**31))
        if codes is not None:
            self._fit_head(X, rows, codes, observers, store, resume)
        return self

    def fit_head(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Fit the head, and the network if there is one, to labelled rows without changing the learned layers.

        Parameters
        ----------
        X : array-like of shape (N, D)
        y : array-like of shape (N,)
        """
        X = self._checked(X)
        codes = self._codes(X, y)
        self._check_network(self._sizes(X.shape[1]), len(self.classes_))
        self._fit_head(X, self._features(X), codes, (), None, False)
        return self

    def transform(self, X: ArrayLike) -> Array:
        """Return the features of the last layer that was learned without labels, (N, K)."""
        return self._features(self._checked(X))

    def decision_function(self, X: ArrayLike) -> Array:
        """Return the scores of the classes, (N, classes), or (N,) for two."""
        X = self._checked(X)
        return self._head_of(X, "decision_function") if self.network_ is None else self.network_.decision_function(X)

    def predict(self, X: ArrayLike) -> Array:
        """Return the likeliest class of each row, (N,)."""
        X = self._checked(X)
        return self._head_of(X, "predict") if self.network_ is None else self.network_.predict(X)

    def module(self) -> Any:
        """Return the layers as a `torch.nn.Sequential` of `HOPELayer`, in float32."""
        from ._training import module

        check_is_fitted(self, "layers_")
        return module(self.layers_, None)

    @property
    def _n_features_out(self) -> int:
        return len(self.layers_[-1].bias)

    def _head_of(self, X: Array, method: str) -> Array:
        if self.head_ is None:
            raise ValueError("the stack was fitted without labels: call fit_head(X, y) first")
        return getattr(self.head_, method)(self._features(X) / self.feature_scale_)

    def _fit_head(
        self, X: Array, eta: Array, y: Array, observers: Any, store: ms.storage.Checkpoint | None, resume: bool
    ) -> None:
        self.feature_scale_ = _root_mean_square(eta)
        kind = LogisticRegression(C=self.C, max_iter=1000) if self.head == "softmax" else LinearSVC(C=self.C)
        kind.set_params(random_state=self._seed)
        self.head_ = kind.fit(eta / self.feature_scale_, y)
        if self.network is not None:
            sizes = [(len(layer.weight[0]), len(layer.bias)) for layer in self.layers_]
            network = _copied(self.network).set_params(layers=[*sizes, *self.network.layers], random_state=self._seed)
            part = store and store.child("network")
            self.network_ = network.fine_tune(
                X, y, _unit_scale(self.layers_, X), observers=observers, checkpoint=part, resume=resume
            )

    def _sizes(self, n_features: int) -> Sizes:
        """Validate the parameters; return the sizes of the layers."""
        check_parameters(self, _RULES)
        if self.mixture is not None and not (isinstance(self.mixture, HOPE) and self.mixture.family == "movmf"):
            raise ValueError(f"mixture={quoted(self.mixture)} has no rectified layers: pass HOPE(family='movmf', …)")
        layers = self.layers
        pairs = isinstance(layers, Sequence) and not isinstance(layers, str) and len(layers) > 0
        if not pairs or not all(isinstance(layer, Sequence) and len(layer) == 2 for layer in layers):
            raise ValueError(f"layers={quoted(layers)} is not valid: pass a list of pairs (M, K), such as [(20, 400)]")
        return checked_sizes(layers, n_features)

    def _check_network(self, sizes: Sizes, n_classes: int | None) -> None:
        """Raise ValueError for a network that cannot fine-tune the layers, before the layers are learned."""
        network = self.network
        if network is None:
            return
        if not isinstance(network, HOPENetworkClassifier):
            raise ValueError(f"network={quoted(network)} is not valid: pass a HOPENetworkClassifier, or None")
        if isinstance(network.learning_rate, ReduceOnPlateau):
            raise ValueError(
                "network has learning_rate=ReduceOnPlateau(...), which needs validation rows, but a stack has none: "
                "pass a number"
            )
        if not isinstance(network.layers, list | tuple):
            raise ValueError(f"network: layers={quoted(network.layers)} is not valid: pass a list, such as [1200]")
        K = sizes[-1][1]
        above = _copied(network).set_params(layers=list(network.layers) or [K])
        try:
            settings_of(above, K, n_classes)
        except ValueError as error:
            raise ValueError(f"network: {error}") from error

    def _codes(self, X: Array, y: ArrayLike) -> Array:
        kind_of_labels("y", y)
        labels: Any = validate_data(self, check_real(X), cast(Any, y), reset=False, dtype=[np.float64, np.float32])[1]
        check_classification_targets(labels)
        self.classes_ = np.unique(labels)
        if len(self.classes_) < 2:
            raise ValueError(f"y has one class, {quoted(self.classes_.tolist()[0])}: pass rows of at least two classes")
        return labels

    def _checked(self, X: ArrayLike) -> Array:
        check_is_fitted(self, "layers_")
        return validate_rows(self, X, reset=False)

    def _features(self, rows: Array) -> Array:
        for layer in self.layers_:
            rows = layer(rows)
            np.maximum(rows, 0, out=rows)
        return rows


def _layer(model: HOPE, rows: Array, mean: Array, quantile: float) -> Dense:
    """Return the rectified layer of a model fitted to centred rows; z has unit length on average."""
    rows = _some(rows)
    Z = rows @ model.components_.T
    length = float(np.linalg.norm(Z, axis=1).mean())
    # phi_k = mu_k' z + ln C_M(|mu_k|) + ln w_k less the threshold of (39), for z of length one; z here has `length` in
    # the mean, and its mean U m is taken off through the bias
    mu, offset = von_mises_fisher(model.bessel).natural(model.parameters_, len(model.components_))
    used = model.weights_ > 0
    offset = offset + np.log(np.where(used, model.weights_, 1.0))
    weight, bias = np.where(used[:, None], mu, 0.0) / (length or 1.0), np.where(used, offset, 0.0)
    phi = Z @ weight[used].T + bias[used]
    bias = np.where(used, bias - np.quantile(phi, quantile), 0.0)  # a component without weight is never active
    bias = bias - weight @ (model.components_ @ mean)
    return Dense(*(np.ascontiguousarray(part, rows.dtype) for part in (model.components_, weight, bias)))


def _unit_scale(layers: tuple[Dense, ...], X: Array) -> tuple[Dense, ...]:
    """Return layers rescaled by one factor each, such that features have unit root mean square."""
    made, rows, before = [], _some(X), 1.0
    for layer in layers:
        rows = np.maximum(layer(rows), 0)
        # relu(c x) = c relu(x): weights take what the layer before has lost, weights and bias what this one loses
        after = _root_mean_square(rows)
        made.append(Dense(layer.U, layer.weight * (before / after), layer.bias / after))
        before = after
    return tuple(made)


def _some(rows: Array) -> Array:
    return rows[np.unique(np.linspace(0, len(rows) - 1, min(len(rows), _ROWS)).astype(np.intp))]


def _root_mean_square(values: Array) -> float:
    return float(np.sqrt(np.mean(np.square(values, dtype=np.float64)))) or 1.0
