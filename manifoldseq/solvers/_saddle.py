"""Second-order tests of stationary points, and descent along negative curvature."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from .._problem import Problem
from .._result import Measures, Status
from .._stopping import LOOSE, Look, inside
from ..linalg._tree import EPS, flatten, unflattener
from ._hessian import hessian_product
from ._iterates import Iterate, Retraction, State, inner_product, retracted, try_point

PRODUCTS, PROBES = 20, 3
"""Hessian products that the search for negative curvature may cost: at a stationary point, and before a success."""


UNSEEN, THOROUGH = 1e-5, 0.15
"""Curvature that a confirmation has not seen may be so many times smaller than the smallest one that it has seen; the
first products, by this share of all that it may cost, look for any curvature above the error of a product."""


def stationary(at: Iterate) -> bool:
    """Return whether the Riemannian gradient is zero, or rounding of the Euclidean one.

    Examples
    --------
    >>> import numpy as np, manifoldseq as ms
    >>> M = ms.manifolds.Product(ms.manifolds.Sphere(2), ms.manifolds.Euclidean(1))
    >>> problem = ms.Problem(M, lambda x: x[0][0] + (x[1] ** 2).sum())
    >>> ms.solvers.stationary(ms.solvers.evaluate(problem, (np.array([1.0, 0.0]), np.zeros(1))))
    True
    """
    return at.grad_norm <= 100 * EPS[at.grad.dtype] * at.egrad_norm < math.inf


def leave_saddle(
    problem: Problem, state: State, at: Iterate, retraction: Retraction, begin: Callable[[Iterate], State]
) -> tuple[State, Measures]:
    """Leave a stationary point along negative curvature, or end there: a whole step of a solver.

    Parameters
    ----------
    problem : Problem
    state : dict
        Of the solver.
    at : Iterate
        Its iterate, for which :func:`stationary` holds.
    retraction : str or callable, optional
        As in :class:`Line`.
    begin : callable
        ``begin(iterate) -> state``: the state of the solver at a new start.

    Returns
    -------
    state, measures
        What `begin` makes of a lower point; or the old state with the status ROUNDING_LEVEL where no negative
        curvature is found, else NO_DECREASE (also where the boundary of an open manifold holds the point).

    Examples
    --------
    >>> import numpy as np, manifoldseq as ms
    >>> M = ms.manifolds.Product(ms.manifolds.Sphere(2), ms.manifolds.Euclidean(1))
    >>> problem = ms.Problem(M, lambda x: x[0][0] + (x[1] ** 2).sum())
    >>> at = ms.solvers.evaluate(problem, (np.array([1.0, 0.0]), np.zeros(1)))             # the top of the circle
    >>> state, measures = ms.solvers.leave_saddle(problem, at.state(), at, None, lambda new: new.state())
    >>> measures.fun < at.fun, measures.curvature < 0
    (True, True)
    """
    manifold = problem.manifold
    curvature, direction = lowest_curvature(problem, at, retraction)
    lower = None if direction is None else _descend(problem, at, direction, curvature, retraction)
    if lower is not None:
        new, t = lower
        return begin(new), new.measures(manifold, step_size=t, curvature=curvature)
    measures = at.at_boundary(manifold, at.measures(manifold, curvature=curvature))
    measures.status = Status.ROUNDING_LEVEL if direction is None and inside(measures) else Status.NO_DECREASE
    return state, measures


def lowest_curvature(
    problem: Problem, at: Iterate, retraction: Retraction, steps: int = PRODUCTS
) -> tuple[float, np.ndarray | None]:
    """Return the lowest curvature found by Lanczos steps, and its direction (length one) if that is negative.

    The Krylov space starts from a fixed random tangent vector, of which the direction keeps a tenth: where the
    objective is symmetric, the pure direction may lead into the next saddle. Curvature within the error of a product
    is zero.
    """
    manifold = problem.manifold
    v = flatten(manifold.random_tangent(at.x, np.random.default_rng(0))) if manifold.dim else np.zeros_like(at.grad)
    free = manifold.free(at.x, at.egrad) if manifold.bounded else None
    if free is not None:
        v = np.where(flatten(free), v, v.dtype.type(0))
    basis, H, error, _ = krylov(problem, at, v, steps, retraction)
    if not basis:
        return 0.0, None
    w, V = np.linalg.eigh(H)
    # below the error of the products a negative eigenvalue is rounding
    if w[0] >= -100 * error * float(np.abs(w).max()):
        return max(float(w[0]), 0.0), None
    # the Ritz vector of the lowest eigenvalue and a tenth of the random start, against symmetries of the saddle
    direction = sum((float(c) * b for c, b in zip(V[:, 0], basis, strict=True)), 0.1 * basis[0])
    length = inner_product(problem, at.x)(direction, direction) ** 0.5
    return float(w[0]), (direction / length).astype(at.grad.dtype, copy=False)


def confirm(
    problem: Problem,
    at: Iterate,
    recent: tuple[Measures, ...],
    look: Look,
    inverse: Callable[[np.ndarray], np.ndarray] | None = None,
) -> Measures:
    """Return the measures of the current iterate with the curvature ahead, in two Lanczos steps from the gradient.

    Conjugate gradients go on from there, preconditioned by an approximate inverse Hessian where there is one, until the
    decrease that is still unseen counts as none: where a valley is flatter than all that two steps see, or next to a
    saddle, most of what is left of the gradient is elsewhere.

    Where the boundary of an open manifold makes the gradient small, these say so, and nothing else is measured.
    At a stationary point it is the lowest curvature of any direction, and anywhere a negative one in the Krylov space
    of a random tangent vector. Steps that zigzag across a valley see none of its floor; the gradient that is left does.
    Curvature that cannot be told from rounding beside the largest of the recent ones counts as zero.
    """
    now = at.at_boundary(problem.manifold, recent[-1])
    if not inside(now):
        return now
    if stationary(at):
        return replace(now, curvature_ahead=lowest_curvature(problem, at, None)[0])
    lowest, direction = lowest_curvature(problem, at, None, PROBES)
    if direction is not None:  # a path of special symmetry may lead into a saddle
        return replace(now, curvature_ahead=lowest)
    # the Hessian in the plane of g and H g; of ‖H⁻¹ g‖ = ‖g‖ ‖V₁/w‖ the inverse is the curvature that lies ahead
    basis, H, error, images = krylov(problem, at, at.grad, 2, None)
    if not H.size:
        return replace(now, curvature_ahead=0.0)
    w, V = np.linalg.eigh(H)
    largest = max(float(np.abs(w).max()), *(abs(m.curvature or 0.0) for m in recent))
    if w[0] < -10 * error * largest:
        curvature = float(w[0])
    else:
        way = np.abs(V[0]) / np.maximum(w, 1e-300 + error * largest)
        length = math.hypot(*way)  # squares may leave the range
        curvature = 1.0 / length if length > 0 else math.inf
        if not (largest > 0 and 10 * error * largest < curvature < math.inf):
            curvature = 0.0
        else:
            beyond = _curvature_beyond(problem, at, basis, images, H, error * largest, look, inverse)
            curvature = min(curvature, beyond)
    return replace(now, curvature_ahead=curvature)


def _curvature_beyond(
    problem: Problem,
    at: Iterate,
    basis: list[np.ndarray],
    images: list[np.ndarray],
    H: np.ndarray,
    error: float,
    look: Look,
    inverse: Callable[[np.ndarray], np.ndarray] | None,
) -> float:
    """Return ``‖g‖²/gᵀH⁻¹g``, in the space that conjugate gradients reach from a basis; or a negative curvature.

    It is zero where the products end before the rest of the gradient is known to hide no decrease. `error` is that of
    curvatures; `images` are the products of the Hessian H with the vectors of the basis.
    """
    dot, single = inner_product(problem, at.x), at.grad.dtype.type
    product, _ = hessian_product(problem, at, "auto")
    # s = −H⁻¹g in the basis, what it leaves of the gradient, and twice the decrease
    y = np.linalg.solve(H, [dot(at.grad, b) for b in basis])
    r = at.grad - sum(single(c) * image for c, image in zip(y, images, strict=True))
    twice = float(y @ H @ y)
    smallest = max(float(np.linalg.eigvalsh(H)[0]), error)
    # along flat directions that a group turns points by, the Hessian is of the size of the gradient
    negative = max(10 * error, at.grad_norm / (float(problem.manifold.scale(at.x)) or math.inf))
    p, rz = None, 0.0
    for made in range(look.products + 1):
        square = dot(r, r)
        if not 0 < square < math.inf:
            break  # what is left is rounding, or has left the range of numbers
        left = square**0.5
        unseen = error if made < THOROUGH * look.products else max(UNSEEN * smallest, error)
        if 0.5 * left * left <= look.decrease * unseen or left <= look.way * unseen:
            break
        if 0.5 * twice > LOOSE * look.decrease and twice > LOOSE * look.way * at.grad_norm:
            break  # far from every kind of success
        if made == look.products:
            return 0.0
        z = r if inverse is None else inverse(r)
        before, rz = rz, dot(r, z)
        if not rz > 0:
            return 0.0
        p = z if p is None else z + single(rz / before) * p
        size = dot(p, p)
        image = _finite_product(product, p / single(size**0.5)) if 0 < size < math.inf else None
        if image is None:
            return 0.0
        image = image * single(size**0.5)
        curvature = dot(p, image) / size
        if curvature < -negative:
            return curvature
        if curvature <= error:
            return 0.0
        alpha = rz / (size * curvature)
        twice += alpha * rz
        smallest = min(smallest, curvature)
        r = r - single(alpha) * image
    return at.grad_norm * at.grad_norm / twice if twice > 0 else math.inf


def krylov(
    problem: Problem, at: Iterate, v: np.ndarray, steps: int, retraction: Retraction
) -> tuple[list[np.ndarray], np.ndarray, float, list[np.ndarray]]:
    """Return an orthonormal basis of the Krylov space of the Hessian H from `v`, H in it, its error, and H times it."""
    manifold, tree, dot = problem.manifold, unflattener(at.x), inner_product(problem, at.x)
    product, error = hessian_product(problem, at, "auto", retraction)
    basis: list[np.ndarray] = []
    images: list[np.ndarray] = []
    length = dot(v, v) ** 0.5
    v = v / length if length > 0 else v
    for _ in range(min(steps, manifold.dim)):
        for _ in range(2):  # twice is enough to stay orthogonal
            for b in basis:
                v = v - dot(b, v) * b
        v = flatten(manifold.project(at.x, tree(v)))
        length = dot(v, v) ** 0.5
        # shorter than that what is left is rounding: the space is exhausted
        image = _finite_product(product, v / length) if math.isfinite(length) and length > 1e-8 else None
        if image is None:
            break
        basis.append(v / length)
        images.append(image)
        size = dot(image, image) ** 0.5
        v = image / size if size > 0 else np.zeros_like(image)
    H = np.array([[dot(b, image) for image in images] for b in basis], dtype=float)
    return basis, 0.5 * (H + H.T), error, images


def _finite_product(product: Callable[[np.ndarray], np.ndarray], v: np.ndarray) -> np.ndarray | None:
    try:
        image = product(v)
    except (np.linalg.LinAlgError, FloatingPointError):
        return None
    return image if np.all(np.isfinite(image)) else None


def _descend(
    problem: Problem, at: Iterate, direction: np.ndarray, curvature: float, retraction: Retraction
) -> tuple[Iterate, float] | None:
    """Return a point along ± the direction with a tenth of the decrease that the curvature promises, and the length."""
    tree = unflattener(at.x)
    t = 0.1 * (float(problem.manifold.scale(at.x)) or 1.0)
    for _ in range(15):
        for sign in (t, -t):
            new = try_point(
                problem, at, retracted(problem, at.x, tree(at.grad.dtype.type(sign) * direction), retraction)
            )
            if math.isfinite(new.grad_norm) and new.fun < at.fun + 0.05 * curvature * t * t:
                return new, t
        # a step that decreases f by a tenth of ½ |curvature| t²; shorter until the quadratic model holds
        t *= 0.3
    return None
