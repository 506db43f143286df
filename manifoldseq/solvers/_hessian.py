"""Products with the Riemannian Hessian: exact, or from differences of gradients."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from .._problem import Problem
from ..interop._from_pymanopt import has_hessian
from ..linalg._tree import flatten, norm, unflattener
from ._base import Iterate, inner

Product = Callable[[np.ndarray], np.ndarray]


def hessian_product(problem: Problem, at: Iterate, kind: str, retraction: str | None) -> tuple[Product, float]:
    """Return the flat product with the Riemannian Hessian, and its relative error.

    `kind` is "exact", "finite-difference" or "auto": the first where the objective has Hessian products.
    """
    manifold, tree = problem.manifold, unflattener(at.x)
    eps = float(np.finfo(at.grad.dtype).eps)
    exact = problem.objective.hessian_product
    if exact is not None and (kind == "exact" or (kind == "auto" and has_hessian(manifold))):
        return lambda u: flatten(manifold.hessian(at.x, at.egrad, exact(at.x, tree(u)), tree(u))), eps
    mask = manifold.free(at.x, at.egrad) if manifold.bounded else None
    free = None if mask is None else flatten(mask)
    dot, scale = inner(problem, at.x), eps**0.5 * max(1.0, norm(at.x))
    # `gradient` drops components where y meets a bound: a difference needs them at both points
    across = manifold.project if manifold.bounded and manifold.metric == "embedded" else manifold.gradient

    def difference(u: np.ndarray) -> np.ndarray:
        h = scale / dot(u, u) ** 0.5
        with np.errstate(all="ignore"):
            y = manifold.retract(at.x, tree(u * u.dtype.type(h)), retraction)
        try:
            _, egrad = problem.objective.value_and_gradient(y)  # type: ignore[misc]
        except (np.linalg.LinAlgError, FloatingPointError):
            return np.full_like(u, np.nan)
        with np.errstate(all="ignore"):
            back = flatten(manifold.transport(y, at.x, across(y, egrad)))
            hu = (back - at.grad) / u.dtype.type(h)
        return hu if free is None else np.where(free, hu, hu.dtype.type(0))

    return difference, eps**0.5


def first_step(problem: Problem, at: Iterate, retraction: str | None) -> float:
    """Return the multiple of the gradient that a run tries first: to the minimizer of the model along it.

    The curvature along the gradient costs one product, so that the step has no unit and stays near a start that is
    almost solved; six bits of it are kept, so that the path does not hang on the rounding of a difference. Where it is
    not positive the step is as long as the point (of length one at the origin), and it is never ten times as long.
    """
    if not at.grad_norm > 0:
        return 1.0
    length = float(problem.manifold.scale(at.x)) or 1.0
    product = hessian_product(problem, at, "auto", retraction)[0]
    u = at.grad / at.grad.dtype.type(at.grad_norm)
    with np.errstate(all="ignore"):
        curvature = inner(problem, at.x)(u, product(u))
    step = 1.0 / curvature if curvature > 0 else length / at.grad_norm
    step = min(step, 10 * length / at.grad_norm)
    if not 0 < step < math.inf:
        return 1.0
    mantissa, exponent = math.frexp(step)
    return math.ldexp(round(64 * mantissa) / 64, exponent)
