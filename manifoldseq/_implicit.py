"""Derivatives of a solution with respect to the parameters of its problem."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ._problem import Problem
from ._result import Result
from .linalg import EPS, Vector, axis_of, flatten, freeze, leaves, shapes, tree_map, unflattener
from .solvers import Iterate, evaluate, hessian_product, inner_product
from .solvers._hessian import gradient_across
from .solvers._iterates import retracted

CHANGED, AGREE, ROUNDING = 1e-6, 1e-7, 1e4
"""The relative difference of values of the objective that tells other parameters, that of equal derivatives, and the
difference of two numbers, in units of their rounding, that is too small for a derivative."""


def implicit_gradient(result: Result[Any], params: Any, *, problem: Callable[[Any], Problem], cotangent: Any) -> Any:
    """Return the gradient of a function of the solution with respect to the parameters of the problem.

    Let x(θ) be the solution of ``problem(θ)``, and L a function of the solution. The result is the gradient of
    ``L(x(θ))``. It follows from the optimality condition on the manifold (the implicit function theorem). Conjugate
    gradients in the tangent space solve one linear system with the Riemannian Hessian. The derivatives of the Euclidean
    gradient with respect to the parameters are central differences, which need two gradients per parameter. For
    parameters between −1 and 1, the step of the differences is reduced until the derivative does not depend on the
    step, which needs more gradients. The problem is not minimized again.

    Parameters
    ----------
    result : Result
        The result of ``minimize(problem(params), …)``, with `success` True.
    params : array or tuple of arrays
        The parameters θ as floating-point numbers.
    problem : callable
        ``problem(θ) -> Problem``, over the same manifold for all parameters and with an objective that has a gradient.
        Hessian products of the objective are used, or differences of gradients if the objective has no Hessian product.
    cotangent : point
        The Euclidean gradient of L at ``result.x``, in the structure of the point.

    Returns
    -------
    array or tuple of arrays
        The gradient, in the structure of `params`.

    Raises
    ------
    ValueError
        If the run was not successful, if the problem has equalities or inequalities, if `params` differ from the
        parameters of the run (the objective has another value), if `cotangent` is not finite or has another structure
        than the point, or if the Hessian is singular in a direction that the gradient depends on.

    See Also
    --------
    manifoldseq_jax.minimize : the same for costs in jax, within its transformations.

    Examples
    --------
    The smallest eigenvector of a matrix, and the derivative of its first entry with respect to the diagonal:

    >>> import numpy as np, manifoldseq as ms
    >>> def problem(d):
    ...     return ms.Problem(ms.manifolds.Sphere(2), ms.objective(
    ...         lambda x: d[0] * x[0] ** 2 + d[1] * x[1] ** 2 + x[0] * x[1],
    ...         lambda x: np.array([2 * d[0] * x[0] + x[1], 2 * d[1] * x[1] + x[0]])))
    >>> d = np.array([1.0, 2.0])
    >>> result = ms.minimize(problem(d), np.array([1.0, 0.0]))
    >>> ms.implicit_gradient(result, d, problem=problem, cotangent=np.array([1.0, 0.0])).round(4).tolist()
    [-0.0957, 0.0957]
    """
    if not isinstance(result, Result) or not result.success:
        raise ValueError(f"implicit_gradient needs the Result of a run that has converged, got {result!r}")
    given = problem(params)
    if given.equalities or given.inequalities:
        raise ValueError(
            "implicit_gradient does not support equalities and inequalities: express them by a manifold, or by bounds "
            "(ms.manifolds.Box)"
        )
    if shapes(cotangent) != shapes(result.x) or not all(np.isfinite(leaf).all() for leaf in leaves(cotangent)):
        raise ValueError(
            f"cotangent has the shape {shapes(cotangent)}: pass finite numbers in the structure of the point, which "
            f"has the shape {shapes(result.x)}"
        )
    inside = dataclasses.replace(given, manifold=given.manifold.frame or given.manifold)
    manifold, tree = inside.manifold, unflattener(result.x)
    at = evaluate(inside, freeze(result.x))
    other = not abs(at.fun - result.fun) <= CHANGED * max(abs(at.fun), abs(result.fun))
    if other and not at.grad_norm <= 10 * (result.grad_norm or 0.0) + CHANGED * at.egrad_norm:
        raise ValueError(
            f"the objective of problem(params) is {at.fun:.6g} at the solution, but {result.fun:.6g} in the result: "
            "pass the parameters of the run"
        )
    # one Newton step: the error of the derivative is then of the order of the square of the error of the solution
    new = evaluate(inside, freeze(retracted(inside, at.x, tree(-_solved(inside, at, at.grad)), None)))
    at = new if new.grad_norm <= at.grad_norm else at
    x, dot = at.x, inner_product(inside, at.x)
    z = _solved(
        inside, at, flatten(gradient_across(manifold, x, tree_map(lambda a, b: np.asarray(a, b.dtype), cotangent, x)))
    )
    way = manifold.from_frame(x, tree(z))  # ⟨grad f, z⟩ in the metric is the dot product of the Euclidean gradient
    assert math.isfinite(dot(z, z))

    def slope(theta: Any) -> float:
        _, egrad = problem(theta).objective.value_and_gradient(x)  # type: ignore[misc]
        return sum(float(np.vdot(g, w)) for g, w in zip(leaves(egrad), leaves(way), strict=True))

    thetas = tree_map(lambda leaf: np.array(leaf, dtype=float), params)
    parts, gradients = leaves(thetas), []
    for k, leaf in enumerate(parts):
        gradient = np.zeros_like(leaf)
        for i in np.ndindex(leaf.shape):
            gradient[i] = -_derivative(lambda value, k=k, i=i: slope(_with(thetas, k, i, value)), float(leaf[i]))
        gradients.append(gradient)
    rest = iter(gradients)
    return tree_map(lambda leaf: next(rest), thetas)


def _derivative(function: Callable[[float], float], x: float) -> float:
    """Return the derivative by central differences, with the step around which the result changes least.

    The first step suits functions that vary over lengths of 1. It shrinks to the size of the argument while the result
    depends on it and the difference is more than rounding.
    """
    eps = EPS[np.dtype(np.float64)]
    h, last = eps ** (1 / 3) * max(1.0, abs(x)), eps ** (1 / 3) * abs(x)
    best = before = (function(x + h) - function(x - h)) / (2 * h)
    least = math.inf
    while 0 < last < h:
        h = max(h / 10, last)
        up, down = function(x + h), function(x - h)
        now = (up - down) / (2 * h)
        change = abs(now - before)
        if abs(up - down) <= ROUNDING * eps * (abs(up) + abs(down)):
            break
        if change <= AGREE * abs(now):
            return before
        if change < least or not math.isfinite(best):
            best, least = now, change if math.isfinite(change) else math.inf
        before = now
    return best


def _with(tree: Any, k: int, i: tuple[int, ...], value: float) -> Any:
    """Return a copy of a tree with one entry of leaf `k` replaced."""
    count = iter(range(len(leaves(tree))))

    def copy(leaf: np.ndarray) -> np.ndarray:
        leaf = leaf.copy()
        if next(count) == k:
            leaf[i] = value
        return leaf

    return tree_map(copy, tree)


def _solved(problem: Problem, at: Iterate, b: Vector) -> Vector:
    """Return the best iterate of conjugate gradients for H⁻¹ b in the tangent space; every residual is projected."""
    manifold, dot, tree = problem.manifold, inner_product(problem, at.x), unflattener(at.x)
    product, error = hessian_product(problem, at)
    axis = axis_of(at.grad)
    free = manifold.free(at.x, at.egrad) if manifold.bounded else None
    mask = 1.0 if free is None else axis.flatten(free)

    def project(v: Vector) -> Vector:
        return flatten(manifold.project(at.x, tree(v))) * mask

    r = project(b)
    z, best, p, square = np.zeros_like(r), np.zeros_like(r), r, dot(r, r)
    first, least = square, square
    for _ in range(2 * manifold.dim + 10):
        if not (square > (10 * error**2) * first and square < 1e8 * least):
            break
        image = product(p)
        curvature = dot(p, image)
        if not math.isfinite(curvature) or curvature == 0:
            break
        z, r = z + square / curvature * p, project(r - square / curvature * image)
        square, before = dot(r, r), square
        p = project(r + square / before * p)
        if square < least:
            best, least = z, square
    if least > 1e-6 * first:
        raise ValueError(
            "the Hessian at the solution is singular along the given direction: the solution is not unique in this "
            "direction and has no derivative"
        )
    return best
