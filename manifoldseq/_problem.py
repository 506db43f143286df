"""A manifold, an objective, and ways to start."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from ._result import Point
from .manifolds import Manifold
from .objectives import Objective

Initializer = Callable[["Problem", np.random.Generator], Point]


@dataclass(frozen=True)
class Problem:
    """Minimize an objective over a manifold.

    Parameters
    ----------
    manifold : Manifold
    objective : Objective
        Made by :func:`manifoldseq.objective` from plain functions, or by a model.
    initializers : mapping of str to callable
        ``(problem, rng) -> point``; the first is the default start.
    equalities, inequalities : tuple of Objective
        Constraints h = 0 and g ≤ 0 beyond the manifold, for solvers that take them.

    Examples
    --------
    The leading eigenvector of a symmetric matrix:

    >>> import numpy as np, manifoldseq as ms
    >>> A = np.diag([3.0, 1.0, 0.0])
    >>> problem = ms.Problem(ms.manifolds.Stiefel(3, 1), ms.objective(lambda x: -(x.T @ A @ x)[0, 0]))
    >>> round(ms.minimize(problem, seed=0).fun, 8)
    -3.0
    """

    manifold: Manifold
    objective: Objective
    initializers: Mapping[str, Initializer] = field(default_factory=dict)
    equalities: tuple[Objective, ...] = ()
    inequalities: tuple[Objective, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.manifold, Manifold):
            raise TypeError(
                f"Problem(manifold=…) must be a manifold such as ms.manifolds.Stiefel(5, 2), got {self.manifold!r}"
            )
        if not isinstance(self.objective, Objective):
            raise TypeError(f"Problem(objective=…) must be an Objective: wrap {self.objective!r} with ms.objective(…)")
        for name in ("equalities", "inequalities"):
            constraints = getattr(self, name)
            if not isinstance(constraints, tuple) or not all(isinstance(c, Objective) for c in constraints):
                raise TypeError(f"Problem({name}=…) must be a tuple of Objectives, got {constraints!r}")
        for name, initializer in self.initializers.items():
            if not callable(initializer):
                raise TypeError(
                    f"the initializer {name!r} must be a function (problem, rng) -> point, got {initializer!r}"
                )
