"""Mixtures of densities of rows, registered as models by their log-densities, moments and M-step."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from inspect import Parameter, Signature, signature
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from .._problem import Problem
from ..estimators import distinct_rows, row_blocks
from ..execution import RowBlocks
from ..hooks import ModelSpec
from ..manifolds import Product
from ..objectives import Sums
from ..solvers import in_structure_of
from ._assembly import Prepared

Array = NDArray[np.floating[Any]]
Point = tuple[Any, ...]
_SEEN = 20_000
"""Maximum number of rows for a start."""


@dataclass(frozen=True)
class MixtureSums(Sums):
    """Sums over rows, weighted by the responsibilities of the components.

    Attributes
    ----------
    n : float
        The number of rows, or the sum of their weights.
    counts : ndarray of shape (K,)
        Sums of the responsibilities.
    moments : tuple of ndarray
        The sums of the values of `MixtureModel.moments`.
    log_likelihood : float
    """

    n: float
    counts: Array
    moments: tuple[Array, ...]
    log_likelihood: float

    def _with(self, other: Any, of: Callable[[Any, Any], Any]) -> Self:
        moments = tuple(of(a, b) for a, b in zip(self.moments, other.moments, strict=True))
        n, counts = of(self.n, other.n), of(self.counts, other.counts)
        return type(self)(n, counts, moments, of(self.log_likelihood, other.log_likelihood))


class MixtureModel(ABC):
    """Abstract base class of mixtures of densities; an object contains the settings, `mixture_model` is the record.

    A point is ``(weights, *parameters)`` on `manifold`, whose first factor is the simplex of the weights.
    """

    @classmethod
    @abstractmethod
    def of(cls, X: Array, weight: Array | None, **params: Any) -> Self:
        """Return the settings for rows X, (N, D), with weights, (N,) or None."""

    @abstractmethod
    def manifold(self) -> Product:
        """Return the product of the simplex and of the manifolds of the parameters, with names."""

    @abstractmethod
    def start(self, X: Array, weight: Array, rng: np.random.Generator) -> Point:
        """Return a starting point from at most 20,000 different rows.

        Each row has the total weight of the rows that are equal to it, so that a row of weight two is equivalent to
        two rows.
        """

    @abstractmethod
    def joint(self, point: Point, X: Array) -> Array:
        """Return the logarithm of weight times density, (N, K)."""

    @abstractmethod
    def moments(self, X: Array, R: Array) -> tuple[Array, ...]:
        """Return the sums over rows for `maximized`, with responsibilities R, (N, K), times the weights."""

    @abstractmethod
    def maximized(self, point: Point, sums: MixtureSums) -> Point:
        """Return the point that maximizes the likelihood for the sums at `point` (the M-step)."""

    @abstractmethod
    def draw(self, point: Point, labels: NDArray[np.intp], rng: np.random.Generator) -> Array:
        """Draw one row of each of the given components, (n, D)."""


def mixture_model(name: str, model: type[MixtureModel], **fields: Any) -> ModelSpec:
    """Return the record of a mixture; `fields` are further fields of the record, such as `summary` and `example`.

    Parameters
    ----------
    name : str
    model : subclass of MixtureModel
    """
    parts: dict[str, Any] = {"manifold": model.manifold, "statistics": _statistics, "value": minus_log_likelihood}
    parts |= {"initializers": {"seeds": _seeds}, "updates": {"em": _em}, "solver": "em", "input": "samples"}
    return ModelSpec(name, _Preparing(model), **{**parts, **fields})


@dataclass(frozen=True)
class _Preparing:
    """`prepare` of a mixture: of rows, or of rows and their weights."""

    model: type[MixtureModel]

    @property
    def __signature__(self) -> Signature:
        _, _, *params = signature(self.model.of).parameters.values()
        return Signature([Parameter("data", Parameter.POSITIONAL_OR_KEYWORD), *params])

    @property
    def __wrapped__(self) -> Any:
        return self.model.of  # where listings say that it is defined

    def __call__(self, data: Any, **params: Any) -> Prepared:
        X, weight = data if isinstance(data, tuple) else (np.asarray(data), None)
        made = self.model.of(X, weight, **params)
        return Prepared(made, RowBlocks.of(X, weight), made)


def _seeds(problem: Problem, rng: np.random.Generator) -> Point:
    n = problem.data.blocks.n
    rows = np.arange(n) if n <= _SEEN else np.sort(rng.choice(n, _SEEN, replace=False))
    X, weight = problem.data.blocks.take(rows)
    weight = np.ones(len(X)) if weight is None else weight
    start = problem.data.model.start(*distinct_rows(X[weight > 0], weight[weight > 0])[:2], rng)
    return in_structure_of(problem.manifold.random_point(rng), start)


def _statistics(model: MixtureModel, point: Point, block: tuple[Any, Any]) -> MixtureSums:
    (X, weight), total = block, None
    for rows in row_blocks(len(X)):
        part = np.asarray(X[rows])
        joint = model.joint(point, part)
        density = np.asarray(logsumexp(joint, axis=1))
        R, n = np.exp(joint - density[:, None]), float(len(part))
        if weight is not None:
            R, density, n = R * weight[rows, None], density * weight[rows], float(weight[rows].sum())
        sums = MixtureSums(n, R.sum(axis=0), model.moments(part, R), float(density.sum()))
        total = sums if total is None else total + sums
    assert total is not None  # a block has rows
    return total


def minus_log_likelihood(model: MixtureModel, point: Point, sums: MixtureSums) -> float:
    """Return minus the mean log-likelihood."""
    return -sums.log_likelihood / sums.n


def _em(model: MixtureModel, point: Point, sums: MixtureSums) -> Point:
    return model.maximized(point, sums)
