"""Riemannian gradient descent."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from ._descents import Steepest
from ._line_search import Searching
from ._search import Given, Search


@dataclass(frozen=True)
class GD(Searching, Steepest):
    """Steepest descent with a line search or given step sizes.

    It is slow on ill-conditioned problems. Use it for comparison, for teaching, or if every iteration must decrease the
    objective. ``"bb"`` uses the same directions and needs far fewer iterations.

    Parameters
    ----------
    step_size : float or Schedule, optional
        The factor of the negative gradient in every iteration. By default, a line search chooses the factor, starting
        from twice the last factor.
    retraction : str, optional
        A retraction of the manifold; by default the manifold's default retraction.
    line_search : {"armijo", "wolfe"}
        Sufficient decrease alone, or the strong Wolfe conditions with curvature constant 0.9. Both follow the projected
        arc if the manifold has bounds.
    max_trials : int
        Maximum number of trial steps per line search.
    precondition : callable, optional
        See :class:`LBFGS`; `step_size` is then a factor of the preconditioned gradient.

    References
    ----------
    Absil, Mahony, Sepulchre, "Optimization Algorithms on Matrix Manifolds", 2008, algorithm 1.

    Examples
    --------
    >>> import numpy as np, manifoldseq as ms
    >>> problem = ms.Problem(ms.manifolds.Euclidean(2), ms.objective(lambda x: ((x - 1) ** 2).sum()))
    >>> ms.minimize(problem, np.zeros(2), solver="gd", options={"step_size": 0.25}).x.round(5).tolist()
    [1.0, 1.0]
    """

    @property
    def monotone(self) -> bool:
        return self.step_size is None

    @property
    def scale_free(self) -> bool:
        return self.step_size is None

    @cached_property
    def search(self) -> Search:  # type: ignore[override]
        return super().search if self.step_size is None else Given()
