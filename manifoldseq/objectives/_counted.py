"""Counted evaluations of an objective; values and derivatives are validated and copied."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._copies import with_parts
from .._result import Evaluations, Tree
from ..linalg import freeze
from ._objective import FiniteTerms, Objective, number

_SEVERAL = (tuple, list)


class Counter:
    """Count the evaluations of objectives in outer iterations that call a solver.

    Examples
    --------
    >>> import numpy as np, manifoldseq as ms
    >>> counter = ms.objectives.Counter()
    >>> problem = ms.Problem(ms.manifolds.Euclidean(2), counter.wrap(ms.objective(lambda x: (x**2).sum())))
    >>> state, _ = ms.solvers.LBFGS().init(problem, np.ones(2))
    >>> counter.take(), counter.take().nfev
    (Evaluations(nfev=1.0, njev=1.0, nhev=0.0), 0.0)
    """

    def __init__(self) -> None:
        self.nfev: float = 0.0
        self.njev: float = 0.0
        self.nhev: float = 0.0

    def take(self) -> Evaluations:
        """Return the counts since the last call, and reset them to zero."""
        counts = Evaluations(self.nfev, self.njev, self.nhev)
        self.nfev = self.njev = self.nhev = 0.0
        return counts

    def wrap(self, objective: Objective, share: float = 1.0) -> Objective:
        """Return the objective with counted calls, whose results are validated and copied.

        Parameters
        ----------
        objective : Objective
        share : float
            The count of one call; a mini-batch of :attr:`Objective.terms` counts its fraction of the terms.
        """
        fused = objective.value_and_gradient

        def value(x: Tree) -> float:
            self.nfev += share
            return number(objective.value(freeze(x)))

        def value_and_gradient(x: Tree) -> tuple[float, Tree]:
            self.nfev += share
            self.njev += share
            pair = fused(freeze(x))  # type: ignore[misc]
            if not isinstance(pair, _SEVERAL) or len(pair) != 2:
                raise TypeError(f"value_and_gradient returned {type(pair).__name__}: it must return (value, gradient)")
            return number(pair[0]), checked_like(pair[1], x, "gradient")

        def hessian_product(x: Tree, u: Tree) -> Tree:
            self.nhev += share
            return checked_like(objective.hessian_product(freeze(x), u), x, "Hessian product")  # type: ignore[misc]

        def linearized() -> None:
            self.nfev += share
            self.njev += share

        terms = objective.terms
        return with_parts(
            objective,
            value=value,
            value_and_gradient=value_and_gradient if fused else None,
            hessian_product=hessian_product if objective.hessian_product else None,
            terms=FiniteTerms(terms.n, lambda i: self.wrap(terms.batch(i), share * len(i) / terms.n))
            if terms
            else None,
            residuals=objective.residuals and with_parts(objective.residuals, on_linearized=linearized),
        )


def batched_pair(batched: Any, points: Tree, which: np.ndarray) -> tuple[np.ndarray, Tree]:
    """Return the values (float64) and gradients of some rows, or raise an error that describes the invalid part."""
    pair = batched(points, which)
    if not isinstance(pair, _SEVERAL) or len(pair) != 2:
        raise TypeError(f"batched returned {type(pair).__name__}: it must return (values, gradients)")
    values = np.asarray(pair[0])
    if values.dtype.kind not in "fiu" or values.shape != which.shape:
        raise TypeError(
            f"batched returned values of shape {values.shape} and dtype {values.dtype}: "
            f"it must return {which.size} real numbers for {which.size} points"
        )
    return np.array(values, dtype=float), checked_like(pair[1], points, "gradient of batched")


def checked_like(gradient: Any, x: Tree, what: str, where: str = "") -> Tree:
    """Return the gradient in the structure and dtype of the point, or raise an error that names the difference."""
    if isinstance(x, tuple):
        if not isinstance(gradient, _SEVERAL) or len(gradient) != len(x):
            got = f"{len(gradient)} parts" if isinstance(gradient, _SEVERAL) else type(gradient).__name__
            raise TypeError(f"the {what}{where} must be a tuple of {len(x)} parts like the point, got {got}")
        return tuple(
            [
                g.copy()
                if type(g) is type(part) is np.ndarray and g.shape == part.shape and g.dtype == part.dtype
                else checked_like(g, part, what, f"{where}, factor {k}")
                for k, (g, part) in enumerate(zip(gradient, x, strict=True))
            ]
        )
    if type(gradient) is type(x) is np.ndarray and gradient.shape == x.shape and gradient.dtype == x.dtype:
        return gradient.copy()  # an objective may reuse its own array
    leaf = np.asarray(gradient)
    if leaf.dtype.kind not in "fiu":
        raise TypeError(
            f"the {what}{where} is {type(gradient).__name__} of dtype {leaf.dtype}: it must be a real array"
        )
    if leaf.shape != x.shape:
        raise ValueError(f"the {what}{where} has shape {leaf.shape}, but the point has {x.shape}")
    return np.array(leaf, dtype=x.dtype, order="C")
