"""The estimator of any mixture of rows that is registered as a model."""

from __future__ import annotations

from collections.abc import Sequence
from inspect import signature
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp
from sklearn.base import DensityMixin
from sklearn.utils.validation import check_is_fitted

from .._problem import Problem
from ..estimators import RowsLike, check_sample_weight, random_generator, validate_rows
from ..hooks import get_model
from ..solvers import learned, share_of_batch
from ..storage import Checkpoint
from ._assembly import Prepared
from ._criteria import Array, DensityCriteria
from ._estimator import ModelEstimator
from ._mixture import MixtureSums, Point, minus_log_likelihood


class RowMixture(  # pyright: ignore[reportIncompatibleMethodOverride]  # the `score` of the mixin returns nothing
    DensityCriteria, DensityMixin, ModelEstimator
):
    """Abstract base class of estimators of mixtures of rows; a subclass defines the parameters.

    The base class uses the parameter `model`, the name of a record from `mixture_model`, and, if the subclass has them,
    `solver`, `batch_size`, `init` and the parameters of `ModelEstimator`. All other parameters are passed to
    `MixtureModel.of`.

    Attributes
    ----------
    weights_ : ndarray of shape (K,)
    parameters_ : tuple of ndarray
        The other parts of the point.
    log_likelihood_ : float
        Mean log-likelihood of the rows. It is absent if the registered model has another cost.
    """

    model: str
    stored_types: tuple[type, ...] = (MixtureSums,)
    """A subclass adds its `MixtureModel`, so that fitted estimators can be saved."""

    def fit(
        self,
        X: RowsLike,
        y: object = None,
        sample_weight: ArrayLike | None = None,
        *,
        observers: Sequence[Any] = (),
        checkpoint: Checkpoint | str | Path | None = None,
        resume: bool = False,
    ) -> Self:
        """Fit to rows, (N, D), with weights, (N,).

        Raises
        ------
        ValueError
            If rows contain NaN, if weights are negative, or if parameters of the model are invalid.
        """
        X, weight = self._checked(X, sample_weight, True)
        problem = self._stated(X, weight)
        solver = getattr(self, "solver", "")
        size = getattr(self, "batch_size", None)
        options = None if size is None or solver != "online-em" else {"batch_size": size}
        loop: dict[str, Any] = {"observers": observers, "checkpoint": checkpoint, "resume": resume}
        best = self._solved(
            problem, X, weight, init=getattr(self, "init", None), solver=solver, options=options, **loop
        )
        self._forget("running_", "batches_", "log_likelihood_")
        if problem.data.spec.value is minus_log_likelihood:
            self.log_likelihood_ = -best.fun
        return self._kept(problem, best.x)

    def partial_fit(self, X: RowsLike, y: object = None, sample_weight: ArrayLike | None = None) -> Self:
        """Take one step of online EM with a batch of rows; the first batch chooses the start and the settings."""
        first = not hasattr(self, "batches_")
        X, weight = self._checked(X, sample_weight, first)
        problem = self._stated(X, weight)
        if first:
            self.settings_ = problem.data.model
            self._kept(problem, self._begun(problem, getattr(self, "init", None)))
            self.running_, self.batches_ = None, 0
        model = self.settings_
        problem = problem.data.spec.problem(Prepared(model, problem.data.blocks, model))
        additive, x = problem.objective.additive, (self.weights_, *self.parameters_)
        share = share_of_batch(self.batches_)
        x, self.running_ = learned(additive, x, self.running_, additive.sums(x), share)
        self.batches_ += 1
        return self._kept(problem, x)

    def score_samples(self, X: RowsLike) -> Array:
        """Return ln p(x) of each row, (N,)."""
        return np.asarray(logsumexp(self._joint(X), axis=1))

    def predict(self, X: RowsLike) -> NDArray[np.intp]:
        """Return the likeliest component of each row, (N,)."""
        return self._joint(X).argmax(axis=1)

    def predict_proba(self, X: RowsLike) -> Array:
        """Return the responsibilities of the components for each row, (N, K)."""
        joint = self._joint(X)
        return np.exp(joint - np.asarray(logsumexp(joint, axis=1, keepdims=True)))

    def sample(self, n_samples: int = 1, random_state: Any = None) -> tuple[Array, NDArray[np.intp]]:
        """Draw rows, (n, D), and return them with their components, (n,)."""
        check_is_fitted(self, "weights_")
        rng = random_generator(random_state)
        labels = rng.choice(len(self.weights_), n_samples, p=self.weights_ / self.weights_.sum())
        return self.settings_.draw((self.weights_, *self.parameters_), labels, rng), labels

    def _n_parameters(self) -> int:
        return int(self.settings_.manifold().dim)

    def _joint(self, X: RowsLike) -> Array:
        check_is_fitted(self, "weights_")
        return self.settings_.joint((self.weights_, *self.parameters_), validate_rows(self, X, reset=False))

    def _checked(self, X: RowsLike, sample_weight: ArrayLike | None, reset: bool) -> tuple[Array, Array | None]:
        X = validate_rows(self, X, reset=reset)
        return X, check_sample_weight(sample_weight, len(X))

    def _stated(self, X: Array, weight: Array | None) -> Problem:
        spec = get_model(self.model)
        wanted = [name for name in signature(spec.entry).parameters if hasattr(self, name)]
        return self._problem(spec, (X, weight), **{name: getattr(self, name) for name in wanted})

    def _kept(self, problem: Problem, x: Point) -> Self:
        self.settings_, (self.weights_, *parameters) = problem.data.model, x
        self.parameters_ = tuple(parameters)
        return self
