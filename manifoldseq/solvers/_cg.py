"""Riemannian nonlinear conjugate gradients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ._descents import Conjugate
from ._line_search import Searching


@dataclass(frozen=True)
class CG(Searching, Conjugate):
    """Nonlinear conjugate gradients on a manifold.

    The next direction is ``−P g⁺ + β d``, with the last gradient and direction transported to the new point. P is the
    preconditioner, or the identity. The method restarts along ``−P g⁺`` if the direction does not descend, if
    successive gradients are far from orthogonal (Powell), or if the set of active bounds changes.

    Parameters
    ----------
    beta : {"hestenes-stiefel", "polak-ribiere", "fletcher-reeves", "dai-yuan", "hybrid"}
        The formula for beta. The first two formulas are truncated at zero. The hybrid is the Hestenes–Stiefel value,
        limited to the interval from zero to the Dai–Yuan value.
    restart : float
        Powell's rule: restart if ``|⟨P g⁺, g⟩| ≥ restart·⟨P g⁺, g⁺⟩``; infinity disables it.
    retraction : str, optional
        A retraction of the manifold; by default the manifold's default retraction.
    line_search : {"wolfe", "armijo"}
        The strong Wolfe conditions with curvature constant 0.1, or sufficient decrease alone. Both follow the projected
        arc if the manifold has bounds.
    max_trials : int
        Maximum number of trial steps per line search.
    precondition : callable, optional
        See :class:`LBFGS`.

    References
    ----------
    Sato, "Riemannian conjugate gradient methods: general framework and specific algorithms", 2022; Nocedal and Wright,
    "Numerical Optimization", chapter 5.

    Examples
    --------
    >>> import numpy as np, manifoldseq as ms
    >>> problem = ms.Problem(ms.manifolds.Euclidean(2), ms.objective(lambda x: ((x - 1) ** 2).sum()))
    >>> ms.minimize(problem, np.zeros(2), solver="cg", options={"beta": "hybrid"}).x.round(6).tolist()
    [1.0, 1.0]
    """

    line_search: str = "wolfe"
    slope_left: ClassVar[float] = 0.1
