"""Products with the Riemannian Hessian: exact, or from differences of gradients."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .._problem import Problem
from ..manifolds import Factored, Manifold
from ._iterates import Iterate, Retraction, inner_product, retracted

Product = Callable[[np.ndarray], np.ndarray]


def has_cheap_products(problem: Problem) -> bool:
    """Return whether a product with the Hessian costs about as much as a gradient, and evaluates no gradient."""
    f = problem.objective
    return f.hessian_product is not None and not f.costly_hessian and problem.manifold.hessian is not None


def hessian_product(
    problem: Problem, at: Iterate, kind: str = "auto", retraction: Retraction = None
) -> tuple[Product, float]:
    """Return the product of flat tangent vectors with the Riemannian Hessian, and its relative error.

    Parameters
    ----------
    problem : Problem
    at : Iterate
    kind : {"auto", "exact", "finite-difference", "central"}
        "exact" uses the ``hessian_product`` of the objective; "finite-difference" uses the difference of two Riemannian
        gradients, the second transported back (one evaluation per product). "auto" is "exact" if the objective has
        ``hessian_product`` and the manifold has a ``hessian``. "central" is "exact" in the same case; otherwise it uses
        differences to both sides, with two evaluations per product and a smaller error.
    retraction : str or callable, optional
        As in :class:`Line`.

    Returns
    -------
    product : callable
        A function of vectors (n,) that returns vectors (n,), with NaN if linear algebra fails.
    error : float
        The approximate relative error: the machine epsilon of the point's dtype for exact products, its square root for
        differences, and its power 2/3 for central differences.

    Examples
    --------
    >>> import numpy as np, manifoldseq as ms
    >>> M = ms.manifolds.Product(ms.manifolds.Euclidean(1), ms.manifolds.Euclidean(1))
    >>> problem = ms.Problem(M, lambda x: (x[0] ** 2 * x[1]).sum())
    >>> at = ms.solvers.evaluate(problem, (np.array([1.0]), np.array([3.0])))
    >>> product, _ = ms.solvers.hessian_product(problem, at)
    >>> product(np.array([1.0, 0.0])).tolist()
    [6.0, 2.0]
    """
    manifold, axis = problem.manifold, problem.axis
    tree, flatten = axis.tree(manifold.shape), axis.flatten
    eps = float(np.finfo(at.grad.dtype).eps)
    exact, riemannian = problem.objective.hessian_product, manifold.hessian
    if exact is not None and riemannian is not None and kind != "finite-difference":

        def product(u: np.ndarray) -> np.ndarray:
            vector = tree(u)
            try:
                bent = exact(at.x, manifold.from_frame(at.x, vector))
            except (np.linalg.LinAlgError, FloatingPointError):
                return np.full_like(u, np.nan)
            return flatten(riemannian(at.x, at.egrad, bent, vector))

        return product, eps
    mask = manifold.free(at.x, at.egrad) if manifold.bounded else None
    free = None if mask is None else axis.flatten(mask)
    # H u ≈ (T grad f(R(h u)) − grad f(x)) / h with h ‖u‖ = √ε max(1, ‖x‖), so that truncation and rounding errors are
    # of the same size; with ∛ε for central differences, whose second gradient is at R(−h u)
    central = kind == "central"
    dot, scale = inner_product(problem, at.x), eps ** (1 / 3 if central else 1 / 2) * axis.most(1.0, axis.norm(at.x))

    def gradient(u: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            y = retracted(problem, at.x, tree(u), retraction)
        try:
            _, egrad = problem.objective.value_and_gradient(y)  # type: ignore[misc]
        except (np.linalg.LinAlgError, FloatingPointError):
            return np.full_like(u, np.nan)
        with np.errstate(all="ignore"):
            return flatten(manifold.transport(y, at.x, gradient_across(manifold, y, egrad)))

    def difference(u: np.ndarray) -> np.ndarray:
        h = axis.ratio(scale, abs(dot(u, u)) ** 0.5)
        step = axis.times(h, u)
        with np.errstate(all="ignore"):
            hu = axis.over(gradient(step) - (gradient(-step) if central else at.grad), 2 * h if central else h)
        return hu if free is None else np.where(free, hu, hu.dtype.type(0))

    return difference, eps ** (2 / 3 if central else 1 / 2)


def gradient_across(manifold: Manifold, x: Any, egrad: Any) -> Any:
    """Return the gradient including the components that are dropped at bounds, which differences need."""
    if not manifold.bounded:
        return manifold.gradient(x, egrad)
    if isinstance(manifold, Factored):
        return tuple(map(gradient_across, manifold.factors, x, egrad))
    return manifold.project(x, egrad) if manifold.metric == "embedded" else manifold.gradient(x, egrad)


def first_step(
    problem: Problem, at: Iterate, retraction: Retraction = None, direction: np.ndarray | None = None
) -> float:
    """Return the first step of a line search without history: the step to the minimizer of the quadratic model.

    The curvature along the direction costs one product with the Hessian (or one more gradient). The step does not
    depend on the unit of the objective, and it is short if the start is almost a solution. It is rounded to six bits,
    so that the run does not depend on the rounding of a difference. If the curvature is not positive, the step is as
    long as the point (of length one at the origin). It is always shorter than ten times the length of the point.

    Parameters
    ----------
    problem : Problem
    at : Iterate
    retraction : str or callable, optional
        As in :class:`Line`.
    direction : ndarray of shape (n,), optional
        Flat tangent vector along which the objective decreases; the negative gradient by default.

    Returns
    -------
    float
        A multiple of the direction, greater than zero.

    Examples
    --------
    >>> import numpy as np, manifoldseq as ms
    >>> M = ms.manifolds.Product(ms.manifolds.Euclidean(2), ms.manifolds.Euclidean(1))
    >>> problem = ms.Problem(M, lambda x: 2 * (x[0] ** 2).sum() + 2 * (x[1] ** 2).sum())
    >>> at = ms.solvers.evaluate(problem, (np.ones(2), np.ones(1)))
    >>> ms.solvers.first_step(problem, at)                                    # one over the curvature
    0.25
    """
    axis = problem.axis
    if not axis.any((at.grad_norm > 0) & (at.grad_norm < math.inf)):
        return axis.filled(at.x, 1.0)
    length = axis.number(problem.manifold.scale(at.x))
    length = axis.where(length > 0, length, 1.0)
    product, dot = hessian_product(problem, at, "auto", retraction)[0], inner_product(problem, at.x)
    with np.errstate(all="ignore"):
        if direction is None:
            size, share, u = at.grad_norm, 1.0, axis.over(at.grad, at.grad_norm)
        else:
            size = abs(dot(direction, direction)) ** 0.5
            share, u = -dot(at.grad, direction) / size**2, axis.over(-direction, size)
        curvature = dot(u, product(u))
        # the minimizer of f + t⟨g, d⟩ + ½t²⟨d, H d⟩, at most ten times the scale of the manifold away
        step = axis.least(axis.ratio(share, curvature, length / size), 10 * length / size)
    step = axis.where((step > 0) & (step < math.inf), step, 1.0)
    return axis.coarse(step)
