"""Riemannian limited-memory BFGS."""

from __future__ import annotations

from dataclasses import dataclass

from ._descents import QuasiNewton
from ._line_search import Searching


@dataclass(frozen=True)
class LBFGS(Searching, QuasiNewton):
    """Limited-memory BFGS on a manifold: the default solver.

    Gradient, direction and pairs are flat ambient vectors. With the embedded metric, the stored pairs are not
    transported; instead, the direction is projected onto the current tangent space (in measurements, this took as many
    iterations and 20 to 35 % less time). With another metric, every pair is transported in every step, and dropped if
    its curvature is no longer positive (in measurements, this reduced the number of iterations to a third or a half).
    An iteration costs one fused evaluation, and one more for each rejected trial step. On a bounded manifold the step
    changes the free coordinates and the search follows the projected arc (Bertsekas 1982). Coordinates whose bound
    becomes active are removed from the pairs.

    Parameters
    ----------
    memory : int, optional
        Number of stored pairs: by default 10, and 5 from 10,000 entries on, where vector operations cost more.
    retraction : str, optional
        A retraction of the manifold; by default the manifold's default retraction.
    line_search : {"armijo", "wolfe"}
        Sufficient decrease alone, or the strong Wolfe conditions with curvature constant 0.9. Both follow the projected
        arc if the manifold has bounds.
    max_trials : int
        Maximum number of trial steps per line search.
    precondition : callable, optional
        ``precondition(problem, x, g) -> tangent vector``: an approximation of the inverse Hessian at x times g (the
        Riemannian gradient, or a change of it), in the structure of the point; linear in g, symmetric and positive
        definite in the metric. It replaces the identity as the initial matrix of the two-loop recursion. If the
        direction does not descend, the negative gradient is used.

    References
    ----------
    Huang, Gallivan, Absil, "A Broyden class of quasi-Newton methods for Riemannian optimization", 2015.

    Examples
    --------
    >>> import numpy as np, manifoldseq as ms
    >>> problem = ms.Problem(ms.manifolds.Euclidean(2), ms.objective(lambda x: ((x - 1) ** 2).sum()))
    >>> ms.minimize(problem, np.zeros(2), solver="lbfgs", options={"memory": 5}).x.round(6).tolist()
    [1.0, 1.0]
    """
