"""Second-order tests of stationary points, and descent along negative curvature."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from .._copies import with_parts
from .._problem import Problem
from .._result import Measures, Status
from .._stopping import LOOSE, MOST_PRODUCTS, SHARE, Look, inside
from ..linalg import EPS, ONE, Decision, Scalar, unflattener
from ._hessian import hessian_product
from ._iterates import Iterate, Retraction, State, inner_product, random_direction, retracted, try_point

PRODUCTS, PROBES, HIDDEN = 20, 5, 8
"""Maximum number of Hessian products in the search for negative curvature, for problems that are not small: PRODUCTS at
a stationary point, and PROBES before a success. With three products before a success, one negative eigenvalue among 90
that differ by a factor of two is not found; with four, one among 34 that differ by a factor of eight is not found. The
curvature is measured again along at most HIDDEN directions."""

FEW, CLEAR = 6, 0.02
"""After FEW products that start from a random tangent vector, the lowest Ritz value is below CLEAR times the largest if
the Hessian has an eigenvalue that is zero or negative. This was measured on factorizations, whose minima have zero
eigenvalues."""

UNSEEN, THOROUGH = 1e-5, 0.15
"""Assumed ratio of the smallest observed curvature to an unobserved curvature in a confirmation.

The first products, the share THOROUGH of the maximum, search for any curvature above the error of a product.
"""


def stationary(at: Iterate) -> bool:
    """Return whether the Riemannian gradient is zero up to rounding errors of the Euclidean gradient.

    Examples
    --------
    >>> import numpy as np, manifoldseq as ms
    >>> M = ms.manifolds.Product(ms.manifolds.Sphere(2), ms.manifolds.Euclidean(1))
    >>> problem = ms.Problem(M, lambda x: x[0][0] + (x[1] ** 2).sum())
    >>> ms.solvers.stationary(ms.solvers.evaluate(problem, (np.array([1.0, 0.0]), np.zeros(1))))
    True
    """
    level = 100 * EPS[at.grad.dtype] * at.egrad_norm
    return (at.grad_norm <= level) & (level < math.inf)


def leave_saddle(
    problem: Problem, state: State, at: Iterate, retraction: Retraction, begin: Callable[[Iterate], State]
) -> tuple[State, Measures]:
    """Leave a stationary point along negative curvature, or end the run at this point, as one step of a solver.

    Parameters
    ----------
    problem : Problem
    state : dict
        The state of the solver.
    at : Iterate
        The iterate of the state, for which :func:`stationary` holds.
    retraction : str or callable, optional
        As in :class:`Line`.
    begin : callable
        ``begin(iterate) -> state``: the state of the solver at a new start.

    Returns
    -------
    state, measures
        The state of `begin` at a lower point. Otherwise the old state, with status ROUNDING_LEVEL if no negative
        curvature is found, and with NO_DECREASE in all other cases (also at the boundary of an open manifold).

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
    curvature, lower = below(problem, at, retraction)
    if lower is not None:
        new, t = lower
        return begin(new), new.measures(manifold, step_size=t, curvature=curvature)
    measures = at.at_boundary(manifold, at.measures(manifold, curvature=curvature))
    measures.status = Status.ROUNDING_LEVEL if curvature >= 0 and inside(measures) else Status.NO_DECREASE
    return state, measures


def _at_end(problem: Problem) -> int:
    """Return the number of Lanczos steps at the end of a run; in small problems, they span the whole tangent space."""
    dim = problem.manifold.dim
    return dim if dim <= MOST_PRODUCTS else PRODUCTS


def below(problem: Problem, at: Iterate, retraction: Retraction) -> tuple[float, tuple[Iterate, float] | None]:
    """Return the lowest curvature and, if it is negative, a lower point in its direction with the step length."""
    curvature, direction, negative = lowest_curvature(problem, at, retraction, _at_end(problem))
    return curvature, _descend(problem, at, direction, curvature, retraction) if negative else None


def lowest_curvature(
    problem: Problem,
    at: Iterate,
    retraction: Retraction,
    steps: int,
    clear: float = math.inf,
    decrease: Scalar = 0.0,
) -> tuple[Scalar, np.ndarray, Decision]:
    """Return the lowest curvature found by Lanczos steps, its direction (length one), and whether it is negative.

    The Krylov space starts from a fixed random tangent vector. At most a tenth of this vector is added to the
    direction, because the pure direction can lead to the next saddle point of a symmetric objective. The error of a
    product, or a nonzero gradient, can hide the sign of the lowest curvatures. These curvatures are measured again with
    a smaller error, after a Newton step along the other directions. A curvature that is still hidden is negative if
    the values on both sides are lower by more than `decrease`, and otherwise zero. It is NaN if neither the products of
    the objective nor differences of gradients are finite. `clear` has the same meaning as in :func:`krylov`.
    """
    manifold, axis = problem.manifold, problem.axis
    if not manifold.dim:
        return axis.filled(at.x, 0.0), np.zeros_like(at.grad), axis.filled(at.x, False)
    v = random_direction(problem, at, np.random.default_rng(0))
    basis, H, error, _ = krylov(problem, at, v, steps, retraction, clear)
    if not basis:
        unknown = axis.any(inner_product(problem, at.x)(v, v) > 0)
        if unknown and problem.objective.hessian_product is not None:
            return lowest_curvature(_by_differences(problem), at, retraction, steps, clear, decrease)
        return axis.filled(at.x, math.nan if unknown else 0.0), v, axis.filled(at.x, False)
    w, V = axis.eigh(H)
    ritz = V.mT @ np.stack(basis, axis=-2)  # one vector per row
    largest = axis.number(np.abs(w).max(axis=-1))
    hidden = _hidden(problem, at, error * largest)
    lowest, lowered = axis.number(w[..., 0]), ritz[..., 0, :]
    negative = lowest < -hidden
    unsure = axis.no(negative) & (lowest <= hidden)
    if axis.any(unsure):
        taken = axis.take(unsure, problem, at, w, ritz, largest, hidden)
        again = _measured_again(*taken, retraction=retraction)
        lowest, lowered, negative = axis.put((lowest, lowered, negative), unsure, again)
        first = axis.number(w[..., 0])
        visible = unsure & axis.no(negative) & (first < -100 * error * largest)
        if axis.any(visible):
            taken = axis.take(visible, problem, at, ritz[..., 0, :], first, axis.where(visible, decrease, 0.0))
            lower = axis.put(axis.filled(at.x, False), visible, _lower_on_both_sides(*taken, retraction=retraction))
            if axis.any(lower):
                found = axis.take(lower, first, ritz[..., 0, :], lower)
                lowest, lowered, negative = axis.put((lowest, lowered, negative), lower, found)
    # and a tenth of the random start, against symmetries of the saddle; less of it where its curvature would prevail
    share = axis.least(0.1, 0.5 * axis.ratio(abs(lowest), axis.number(abs(H[..., 0, 0])), 1.0) ** 0.5)
    direction = axis.times(share, basis[0]) + lowered
    length = abs(inner_product(problem, at.x)(direction, direction)) ** 0.5
    direction = axis.over(direction, axis.where(length > 0, length, 1.0))
    curvature = axis.where(negative, lowest, axis.most(lowest, 0.0))
    return curvature, direction.astype(at.grad.dtype, copy=False), negative


def _hidden(problem: Problem, at: Iterate, error: Scalar) -> Scalar:
    """Return the size below which the sign of a curvature is unknown; `error` is the error of the products.

    Along the orbits of a symmetry group, the Hessian is as large as the gradient.
    """
    axis = problem.axis
    turned = axis.ratio(at.grad_norm, axis.number(problem.manifold.scale(at.x)))
    return axis.most(100 * error, axis.where(stationary(at), 0.0, 10 * turned))


def _measured_again(
    problem: Problem,
    at: Iterate,
    w: np.ndarray,
    ritz: np.ndarray,
    largest: Scalar,
    hidden: Scalar,
    retraction: Retraction,
) -> tuple[Scalar, np.ndarray, Decision]:
    """Return the lowest curvature among Ritz vectors with hidden curvature, its direction, and if it is negative."""
    manifold, axis, dot = problem.manifold, problem.axis, inner_product(problem, at.x)
    tree = axis.tree(manifold.shape)
    hidden, size = np.expand_dims(hidden, -1), np.abs(w)
    away = size > np.minimum(hidden, 1e-3 * np.expand_dims(largest, -1))
    before = axis.number(w[..., 0])
    share = np.where(away, np.stack([dot(at.grad, v) for v in np.moveaxis(ritz, -2, 0)], axis=-1), 0.0)
    step = -(share / np.where(away, w, 1.0))[..., None, :] @ ritz
    y = retracted(problem, at.x, tree(step[..., 0, :].astype(at.grad.dtype, copy=False)), retraction)
    new = try_point(problem, at, y)
    flatter = axis.finite(new.fun) & (new.grad_norm < at.grad_norm)
    there = Iterate._make(axis.where(flatter, a, b) for a, b in zip(new, at, strict=True))
    product, error = hessian_product(problem, there, "central", retraction)
    few = min(HIDDEN, w.shape[-1])
    near = (size <= hidden)[..., :few]
    vectors = [axis.flatten(manifold.transport(at.x, there.x, tree(v))) for v in np.moveaxis(ritz[..., :few, :], -2, 0)]
    images = [_product(product, v) for v in vectors]
    dot = inner_product(problem, there.x)
    H, rest = _in_basis(dot, vectors, images), np.eye(few) * np.expand_dims(largest, (-2, -1))
    H = np.where(near[..., None] & near[..., None, :], H, rest)
    w, V = axis.eigh(np.where(np.isfinite(H), H, 0.0))
    lowest, direction = axis.number(w[..., 0]), (V[..., :, :1].mT @ ritz[..., :few, :])[..., 0, :]
    negative = lowest < -_hidden(problem, there, error * largest)
    # a curvature that is caused by the gradient decreases with the gradient
    stays = (lowest < -100 * error * largest) & (lowest <= 0.5 * before) & (there.grad_norm <= 0.1 * at.grad_norm)
    return lowest, direction, negative | stays


def _lower_on_both_sides(
    problem: Problem, at: Iterate, direction: np.ndarray, curvature: Scalar, decrease: Scalar, retraction: Retraction
) -> Decision:
    """Return whether the mean of the values on both sides is lower as a negative curvature promises.

    Near the origin of a linear space the gradient hides a negative curvature of any size: the scale of the point is as
    small as the distance to a saddle. A lower value can be seen there.
    """
    axis, tree = problem.axis, problem.axis.tree(problem.manifold.shape)
    eps, size = float(np.finfo(at.grad.dtype).eps), axis.most(1.0, axis.norm(at.x))
    least = axis.most(10 * decrease, 1e4 * eps * abs(at.fun))
    t = axis.most(eps**0.5 * size, (2 * axis.ratio(least, -curvature)) ** 0.5)
    t = axis.least(t, 0.1 * size)
    direction = direction.astype(at.grad.dtype, copy=False)
    with np.errstate(all="ignore"):
        ends = [retracted(problem, at.x, tree(axis.times(s, direction)), retraction) for s in (t, -t)]
        change = 0.5 * sum(try_point(problem, at, y).fun - at.fun for y in ends)
    return change < -axis.most(0.25 * abs(curvature) * t * t, 0.2 * least)


def confirm(
    problem: Problem,
    at: Iterate,
    recent: tuple[Measures, ...],
    look: Look,
    inverse: Callable[[np.ndarray], np.ndarray] | None = None,
) -> Measures:
    """Return the measures of the current iterate with the curvature ahead, by two Lanczos steps from the gradient.

    Conjugate gradients continue these steps, preconditioned by an approximate inverse Hessian if there is one, until
    the unobserved decrease is negligible. This is needed in a valley that is flatter than the curvatures of the two
    steps, and near a saddle point: there, most of the remaining gradient lies outside the span of the two steps.

    If the boundary of an open manifold makes the gradient small, the measures state this, and nothing else is computed.
    At a stationary point, the curvature ahead is the lowest curvature of any direction. At any point, it is a negative
    curvature in the Krylov space of a random tangent vector, if there is one. Steps that zigzag across a valley do not
    sample the direction along it; the remaining gradient does. A curvature within the rounding error of the largest
    recent curvature counts as zero.
    """
    now, axis = at.at_boundary(problem.manifold, recent[-1]), problem.axis
    within = inside(now)
    still = within & stationary(at)
    rest = within & axis.no(still)
    ahead = axis.filled(at.x, math.nan)
    if axis.any(still):
        ahead = axis.put(
            ahead, still, lowest_curvature(*axis.take(still, problem, at), retraction=None, steps=_at_end(problem))[0]
        )
    if axis.any(rest):
        bends = [m.curvature for m in recent if m.curvature is not None]
        seen = functools.reduce(axis.most, [axis.where(c == c, abs(c), 0.0) for c in bends], 0.0)
        ahead = axis.put(ahead, rest, curvature_ahead(*axis.take(rest, problem, at, seen, look, inverse)))
    return replace(now, curvature_ahead=ahead) if axis.any(within) else now


def curvature_ahead(
    problem: Problem, at: Iterate, seen: Scalar, look: Look, inverse: Callable[[np.ndarray], np.ndarray] | None
) -> Scalar:
    """Return the curvature ahead of an iterate that is not stationary; `seen` is the largest recent curvature."""
    axis, dim = problem.axis, problem.manifold.dim
    ahead, negative = axis.filled(at.x, math.nan), axis.filled(at.x, False)
    # small problems: the whole Hessian, for as many evaluations as the run so far, unless the first products are clear
    whole = (dim <= MOST_PRODUCTS) & (dim <= look.products * (1 + 1 / SHARE))
    for some, steps in ((whole, dim), (axis.no(whole), PROBES)):
        if axis.any(some):
            taken, decrease = axis.take(some, problem, at), axis.take(some, axis.where(some, look.decrease, 0.0))
            lowest, _, below = lowest_curvature(*taken, retraction=None, steps=steps, clear=CLEAR, decrease=decrease)
            ahead, negative = axis.put((ahead, negative), some, (lowest, below))
    told = axis.no(negative)  # if it is negative, a path of special symmetry leads to a saddle point
    if axis.any(told):
        ahead = axis.put(ahead, told, _along_gradient(*axis.take(told, problem, at, seen, look, inverse, ahead)))
    return ahead


def _along_gradient(
    problem: Problem,
    at: Iterate,
    seen: Scalar,
    look: Look,
    inverse: Callable[[np.ndarray], np.ndarray] | None,
    least: Scalar,
) -> Scalar:
    """Return the curvature ahead in the Krylov space of the gradient, or zero if rounding hides it.

    `least` is the lowest curvature in the Krylov space of a random tangent vector.
    """
    axis, dot = problem.axis, inner_product(problem, at.x)
    # the Hessian in the plane of g and H g: ‖H⁻¹ g‖ = ‖g‖ ‖V₁/w‖, so that the curvature ahead is 1 / ‖V₁/w‖
    basis, H, error, images = krylov(problem, at, at.grad, 2, None)
    if not basis:
        if problem.objective.hessian_product is not None:
            return _along_gradient(_by_differences(problem), at, seen, look, inverse, least)
        return axis.filled(at.x, 0.0)
    w, V = axis.eigh(H)
    largest = axis.most(axis.number(np.abs(w).max(axis=-1)), seen)
    with np.errstate(all="ignore"):
        share, floor = np.abs(V[..., 0, :]), 1e-300 + error * np.expand_dims(largest, -1)
        way = share / np.maximum(w, floor)
        # a curvature that the error of products hides can be much smaller than this error; that matters only if the
        # component of the gradient in its direction is larger than an error
        beyond = (share - 2 * error) / (UNSEEN * floor)
        way = np.where(w < floor, np.maximum(way, beyond), way)
        most = np.maximum(way.max(axis=-1), 1e-300)  # squares may leave the range
        ahead = axis.number(1 / (most * np.linalg.norm(way / np.expand_dims(most, -1), axis=-1)))
    lowest = axis.number(w[..., 0])
    negative = lowest < -10 * error * largest
    told = axis.no(negative) & (largest > 0) & (10 * error * largest < ahead) & (ahead < math.inf)
    # near a curved valley the distance to its bottom is short, but the error hides the curvature along the valley
    decrease = 0.5 * axis.ratio(at.grad_norm, ahead, math.inf) * at.grad_norm
    alone = axis.filled(at.x, True) if len(basis) < 2 else dot(basis[1], basis[1]) == 0  # an eigenvector
    hidden = axis.where(alone, axis.least(lowest, least), lowest) < error * largest
    told = told & axis.no(hidden & (decrease > LOOSE * look.decrease))
    if axis.any(told):
        some = axis.take(told, problem, at, tuple(basis), tuple(images), H, w, error * largest, look, inverse)
        ahead = axis.put(ahead, told, axis.least(axis.take(told, ahead), _curvature_beyond(*some)))
    return axis.where(negative, lowest, axis.where(told, ahead, 0.0))


def _curvature_beyond(
    problem: Problem,
    at: Iterate,
    basis: tuple[np.ndarray, ...],
    images: tuple[np.ndarray, ...],
    H: np.ndarray,
    w: np.ndarray,
    error: Scalar,
    look: Look,
    inverse: Callable[[np.ndarray], np.ndarray] | None,
) -> Scalar:
    """Return ``‖g‖²/gᵀH⁻¹g``, in the space that conjugate gradients reach from a basis; or a negative curvature.

    The result is zero if the products end before it is known that the rest of the gradient allows no decrease. `error`
    is the error of curvatures, `images` are the products of the Hessian H with the vectors of the basis, and `w` are
    the eigenvalues of H in the basis.
    """
    axis, dot = problem.axis, inner_product(problem, at.x)
    # s = −H⁻¹g in the basis, the remaining gradient, and twice the decrease
    b = np.stack([dot(at.grad, b) for b in basis], axis=-1)
    y = np.linalg.solve(H, b[..., None])[..., 0]
    r = at.grad
    for k, image in enumerate(images):
        r = r - axis.times(axis.number(y[..., k]), image)
    twice = axis.number((y * (H @ y[..., None])[..., 0]).sum(axis=-1))
    smallest = axis.most(axis.number(w[..., 0]), error)
    # along the orbits of a symmetry group, the Hessian is as large as the gradient
    negative = axis.most(10 * error, axis.ratio(at.grad_norm, axis.number(problem.manifold.scale(at.x))))
    going, known = axis.filled(at.x, True), axis.filled(at.x, False)
    bent, rz = axis.filled(at.x, math.inf), axis.filled(at.x, 1.0)
    p, nothing = np.zeros_like(r), np.zeros_like(r)
    for k in range(int(np.max(look.products, initial=0)) + 1):
        square = dot(r, r)
        left = abs(square) ** 0.5
        unseen = axis.where(k < THOROUGH * look.products, error, axis.most(UNSEEN * smallest, error))
        seen = (0.5 * left * left <= look.decrease * unseen) | (left <= look.way * unseen)
        # far from every condition for a success
        told = (0.5 * twice > LOOSE * look.decrease) & (twice > LOOSE * look.way * at.grad_norm)
        # the remaining gradient can be a rounding error, or overflow
        known = known | (going & (seen | told | axis.no((square > 0) & (square < math.inf))))
        going = going & (k < look.products) & axis.no(known)
        if not axis.any(going):
            break
        z = r if inverse is None else inverse(r)
        before, rz = rz, dot(r, z)
        p = z + axis.times(axis.ratio(rz, before), p)
        size = dot(p, p)
        going = going & (rz > 0) & (size > 0) & (size < math.inf)
        if not axis.any(going):
            break
        root = axis.where(going, size, 1.0) ** 0.5
        product, _ = hessian_product(*axis.take(going, problem, at))
        image = axis.put(nothing, going, _product(product, axis.take(going, axis.over(p, root))))
        going = going & axis.finite(dot(image, image))
        image = axis.times(root, axis.where(going, image, nothing))
        curvature = axis.ratio(dot(p, image), size)
        bent = axis.where(going & (curvature < -negative), curvature, bent)
        going = going & (curvature > error)
        twice = axis.where(going, twice + axis.ratio(rz * rz, size * curvature), twice)
        smallest = axis.where(going, axis.least(smallest, curvature), smallest)
        r = r - axis.times(axis.where(going, axis.ratio(rz, size * curvature), 0.0), image)
    return axis.least(bent, axis.where(known, axis.ratio(at.grad_norm * at.grad_norm, twice, math.inf), 0.0))


def krylov(
    problem: Problem, at: Iterate, v: np.ndarray, steps: int, retraction: Retraction, clear: float = math.inf
) -> tuple[list[np.ndarray], np.ndarray, float, list[np.ndarray]]:
    """Return a basis B of the Krylov space of the Hessian H from `v`, H in this basis, the error of H, and H B.

    The basis is orthonormal. The iteration ends after FEW steps if the lowest Ritz value is more than `clear` times the
    largest.
    """
    manifold, axis, dot = problem.manifold, problem.axis, inner_product(problem, at.x)
    tree = axis.tree(manifold.shape)
    product, error = hessian_product(problem, at, "auto", retraction)
    basis: list[np.ndarray] = []
    images: list[np.ndarray] = []
    length = abs(dot(v, v)) ** 0.5
    v, nothing = axis.over(v, axis.where(length > 0, length, 1.0)), np.zeros_like(v)
    with np.errstate(all="ignore"):
        for _ in range(min(steps, manifold.dim)):
            for _ in range(2):  # twice is enough to stay orthogonal
                for b in basis:
                    v = v - axis.times(dot(b, v), b)
            v = axis.flatten(manifold.project(at.x, tree(v)))
            length = abs(dot(v, v)) ** 0.5
            # a shorter vector is a rounding error: the space is exhausted
            live = axis.finite(length) & (length > 1e-8)
            if not axis.any(live):
                break
            b = axis.where(live, axis.over(v, axis.where(live, length, 1.0)), nothing)
            if axis.all(live):
                image = _product(product, b)
            else:  # rows whose space is exhausted cost no more evaluations
                some = hessian_product(*axis.take(live, problem, at), retraction=retraction)[0]
                image = axis.put(nothing, live, _product(some, axis.take(live, b)))
            size = abs(dot(image, image)) ** 0.5
            live = live & axis.finite(size)
            if not axis.any(live):
                break
            basis.append(axis.where(live, b, nothing))
            images.append(axis.where(live, image, nothing))
            v = axis.where(live & (size > 0), axis.over(image, axis.where(size > 0, size, 1.0)), nothing)
            if len(basis) == FEW and clear < math.inf:
                w = axis.eigh(_in_basis(dot, basis, images))[0]
                v = axis.where(axis.number(w[..., 0] - clear * w[..., -1]) > 0, nothing, v)
    H = _in_basis(dot, basis, images)
    if axis is not ONE and basis:
        # rows whose space was exhausted earlier: fill in a large curvature, which cannot be the lowest one
        missing = np.stack([~b.any(axis=1) for b in basis], axis=-1)
        H = H + missing[..., None] * np.eye(len(basis)) * np.abs(H).max(axis=(-2, -1))[:, None, None]
    return basis, H, error, images


def _by_differences(problem: Problem) -> Problem:
    """Return the problem without the Hessian of its objective, whose products are not finite."""
    return with_parts(problem, objective=with_parts(problem.objective, hessian_product=None))


def _in_basis(dot: Any, basis: list[np.ndarray], images: list[np.ndarray]) -> np.ndarray:
    """Return the symmetric part of a map in a basis, from its images."""
    H = np.array([[dot(b, image) for image in images] for b in basis], dtype=float)
    H = np.moveaxis(H, (0, 1), (-2, -1)) if basis else H
    return 0.5 * (H + H.mT) if basis else H


def _product(product: Callable[[np.ndarray], np.ndarray], v: np.ndarray) -> np.ndarray:
    try:
        return product(v)
    except (np.linalg.LinAlgError, FloatingPointError):
        return np.full_like(v, np.nan)


def _descend(
    problem: Problem, at: Iterate, direction: np.ndarray, curvature: float, retraction: Retraction
) -> tuple[Iterate, float] | None:
    """Return a point along ± the direction with a tenth of the predicted decrease, and the step length, or None."""
    tree = unflattener(at.x)
    # a point near zero has no scale: take a step with a predicted decrease of a thousandth of the value
    t = max(0.1 * (float(problem.manifold.scale(at.x)) or 1.0), (0.002 * abs(at.fun) / -curvature) ** 0.5)
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
