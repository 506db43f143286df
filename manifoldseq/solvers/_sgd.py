"""Riemannian stochastic gradient descent with momentum."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from .._problem import Problem
from .._result import Point
from ..linalg import flatten, unflattener
from ._iterates import Iterate, State
from ._schedules import Schedule
from ._stochastic import Stochastic


@dataclass(frozen=True, kw_only=True)
class SGD(Stochastic):
    """Stochastic gradient descent with momentum, on mini-batches of a sum over data.

    A step is ``m ← μ m + g``, ``x ← retract(x, −τ m)``, and m is transported to the new point; g is the Riemannian
    gradient of a mini-batch, scaled to the whole sum. The objective must have ``terms``, as the objectives of
    :func:`manifoldseq.finite_sum` have.

    Parameters
    ----------
    step_size : float or Schedule, optional
        The rate τ, or one of :class:`InverseTime`, :class:`Cosine`, :class:`Halving`. The rate refers to the gradient
        of the whole objective. For a sum of n terms, it is about 1/n of the rate for the mean of the terms. By default,
        the first step chooses the rate ``(1 − μ)/2L`` with the largest curvature L of the first batch, which costs five
        additional gradients of this batch. The rate then decreases as :class:`InverseTime` with a delay of ten epochs,
        at least 100 steps.
    momentum : float
        The factor μ, in [0, 1).
    batch_size : int
        The number of data per step. Every epoch visits all data once, in seeded order; the last batch may be smaller.
    clip : float, optional
        The maximum norm of a gradient; longer gradients are scaled to this norm.
    average_from : int, optional
        Return the mean of the points from this iteration on (Polyak–Ruppert), taken in ambient coordinates and mapped
        to the nearest point of the manifold; otherwise the last point.
    retraction : str, optional
        A retraction of the manifold; by default the manifold's default retraction.
    seed : int, optional
        The seed of the order of the data. By default it comes from the seed of ``minimize`` (and is 0 in your own
        loop).

    Notes
    -----
    The history holds estimates from the batch of each step. ``fun`` and ``grad_norm`` of the result are exact. If a
    batch meets the stopping rule but the whole data set does not, the status is ``Status.ESTIMATE_ONLY``.

    References
    ----------
    Bonnabel, "Stochastic gradient descent on Riemannian manifolds", IEEE Trans. Automat. Control 58 (2013).

    Examples
    --------
    >>> import numpy as np, manifoldseq as ms
    >>> data = np.random.default_rng(0).standard_normal((200, 3)) + 5
    >>> f = ms.finite_sum(lambda x, i: 0.5 * ((x - data[i]) ** 2).sum() / 200, n=200)
    >>> problem = ms.Problem(ms.manifolds.Euclidean(3), f)
    >>> options = {"step_size": ms.solvers.InverseTime(0.5, delay=20), "momentum": 0.0}
    >>> result = ms.minimize(problem, np.zeros(3), solver="sgd", options=options, stop=ms.MaxIterations(300), seed=0)
    >>> bool(np.allclose(result.x, data.mean(axis=0), atol=0.05))
    True
    """

    step_size: float | Schedule | None = None
    momentum: float = 0.9
    chooses: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.momentum, bool) or not isinstance(self.momentum, int | float) or not 0 <= self.momentum < 1:
            raise ValueError(f"SGD(momentum={self.momentum!r}): momentum must lie in [0, 1)")

    def first_rate(self, problem: Problem, at: Iterate) -> float:
        """Return the rate for gradients, divided by the number of gradients that the momentum accumulates."""
        return (1 - self.momentum) * super().first_rate(problem, at)

    def begin(self, problem: Problem[Point], x: Point) -> State:
        """Return the initial momentum of zero."""
        return {"momentum": np.zeros_like(flatten(x))}

    def move(self, problem: Problem[Point], at: Iterate, memory: State, rate: float, k: int) -> tuple[Point, State]:
        """Add the gradient to the momentum, and move along the momentum."""
        manifold, tree = problem.manifold, unflattener(at.x)
        momentum = memory["momentum"] * self.momentum + at.grad
        x = manifold.retract(at.x, tree(momentum * -rate), self.retraction)
        if self.momentum:
            momentum = flatten(manifold.transport(at.x, x, tree(momentum)))
        return x, {"momentum": momentum}
