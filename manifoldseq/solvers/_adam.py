"""Riemannian Adam."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .._problem import Problem
from .._result import Point
from ..linalg import flatten, tree_map, unflattener
from ..manifolds import Factored, Manifold
from ._base import positive_numbers
from ._iterates import Iterate, State
from ._schedules import Schedule
from ._stochastic import Stochastic


@dataclass(frozen=True, kw_only=True)
class Adam(Stochastic):
    """Riemannian Adam: steps scaled by the recent size of the gradient, on mini-batches of a sum over data.

    The mean of the gradients is a tangent vector, which is transported to every new point. The mean of the squared
    gradients is one number for each factor of the manifold: the squared length of the gradient of the factor. On flat
    factors (as many dimensions as entries), it is one number for each entry. On Euclidean space this is the method
    Adam. On a Stiefel factor, it is the rule of geoopt's ``RiemannianAdam``. The objective must have ``terms``, like
    the objectives of :func:`manifoldseq.finite_sum`.

    Parameters
    ----------
    step_size : float or Schedule
        The approximate length of a step in each factor, for any scale of the objective.
    beta1 : float
        The decay rate of the mean of gradients, in [0, 1).
    beta2 : float
        The decay rate of the mean of squared gradients, in [0, 1).
    epsilon : float
        A number that is added to the root of the second mean.
    amsgrad : bool
        Divide by the largest second mean so far.
    batch_size, clip, average_from, retraction, seed
        As in :class:`SGD`.

    References
    ----------
    Kingma, Ba, "Adam: a method for stochastic optimization", ICLR 2015, Algorithm 1. Bécigneul, Ganea, "Riemannian
    adaptive optimization methods", ICLR 2019. Reddi, Kale, Kumar, "On the convergence of Adam and beyond", ICLR 2018.

    Examples
    --------
    >>> import numpy as np, manifoldseq as ms
    >>> data = np.random.default_rng(0).standard_normal((200, 3)) + np.array([3.0, 0, 0])
    >>> f = ms.finite_sum(lambda x, i: -((data[i] @ x) ** 2).sum(), n=200)
    >>> problem = ms.Problem(ms.manifolds.Stiefel(3, 1), f)
    >>> options = {"step_size": ms.solvers.Cosine(0.1, steps=200)}
    >>> result = ms.minimize(problem, solver="adam", options=options, stop=ms.MaxIterations(200), seed=0)
    >>> bool(np.allclose(-result.fun, np.linalg.eigvalsh(data.T @ data)[-1], rtol=1e-3))
    True
    """

    step_size: float | Schedule = 0.01
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    amsgrad: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        positive_numbers("Adam", epsilon=self.epsilon)
        for name in ("beta1", "beta2"):
            beta = getattr(self, name)
            if isinstance(beta, bool) or not isinstance(beta, int | float) or not 0 <= beta < 1:
                raise ValueError(f"Adam({name}={beta!r}): {name} must lie in [0, 1)")

    def begin(self, problem: Problem[Point], x: Point) -> State:
        """Return both means with the value zero."""
        zero = np.zeros_like(flatten(x))
        return {"first": zero, "second": zero, "largest": zero}

    def move(self, problem: Problem[Point], at: Iterate, memory: State, rate: float, k: int) -> tuple[Point, State]:
        """Update both means, and move along the first mean, scaled by the second."""
        manifold, tree = problem.manifold, unflattener(at.x)
        squares = flatten(_squares(manifold, at.x, tree(at.grad)))
        # m ← β₁ m + (1 − β₁) g and v ← β₂ v + (1 − β₂) g², flat, both divided by 1 − βᵏ⁺¹ as they begin at zero
        first = self.beta1 * memory["first"] + (1 - self.beta1) * at.grad
        second = self.beta2 * memory["second"] + (1 - self.beta2) * squares
        largest = np.maximum(memory["largest"], second) if self.amsgrad else second
        scale = np.sqrt(largest / (1 - self.beta2 ** (k + 1))) + at.grad.dtype.type(self.epsilon)
        direction = first / (1 - self.beta1 ** (k + 1)) / scale
        x = manifold.retract(at.x, tree(direction * -rate), self.retraction)
        # the mean gradient is a tangent vector and moves along; v holds one number per factor and stays
        first = flatten(manifold.transport(at.x, x, tree(first)))
        return x, {"first": first, "second": second, "largest": largest}


def _squares(manifold: Manifold, x: Any, gradient: Any) -> Any:
    """Return the squared length of each factor's gradient for all its entries, or squared entries for flat factors."""
    if isinstance(manifold, Factored):
        parts = zip(manifold.factors, x, gradient, strict=True)
        return tuple([_squares(factor, a, g) for factor, a, g in parts])
    if manifold.metric == "embedded" and not isinstance(x, tuple) and manifold.dim == x.size:
        return gradient**2
    square = manifold.inner(x, gradient, gradient)
    return tree_map(lambda leaf: np.full_like(leaf, square), gradient)
