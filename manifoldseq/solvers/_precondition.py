"""Preconditioners: a function of the user, and one scale per factor of a product.

If the factors of a product have different units, no single scale suits all factors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .._problem import Problem
from ..linalg import ONE, Vector, flatten, shapes, sums_of_parts, tree_map, unflattener
from ..manifolds import Factored, Manifold, Power
from ._hessian import hessian_product
from ._iterates import Iterate, State, inner_product

Precondition = Callable[[Problem[Any], Any, Any], Any]


def check_precondition(solver: str, precondition: Precondition | None) -> None:
    """Raise an error unless a preconditioner is a function or None."""
    if precondition is not None and not callable(precondition):
        raise TypeError(f"{solver}(precondition={precondition!r}): pass a function (problem, x, g) -> tangent vector")


def preconditioned(precondition: Precondition, problem: Problem, at: Iterate, v: np.ndarray) -> np.ndarray:
    """Return the preconditioner times a flat tangent vector, with zeros in coordinates with active bounds."""
    manifold, axis = problem.manifold, problem.axis
    if axis is not ONE:  # one problem after the other: the function of the user knows of no batch
        rows = [preconditioned(precondition, problem.one(k), at.row(k), v[k]) for k in range(len(v))]  # type: ignore[attr-defined]
        return np.stack(rows)
    product = precondition(problem, at.x, manifold.from_frame(at.x, unflattener(at.x)(v)))
    if shapes(product) != shapes(at.x):
        raise ValueError(
            f"precondition(problem, x, g) returned shape {shapes(product)}: return a tangent vector at x, which has "
            f"shape {shapes(at.x)}"
        )
    flat = flatten(manifold.to_frame(at.x, tree_map(np.asarray, product)))
    if flat.dtype.kind not in "fiu":
        raise TypeError(f"precondition(problem, x, g) returned entries of dtype {flat.dtype}: return real numbers")
    flat = flat.astype(v.dtype, copy=False)
    mask = manifold.free(at.x, at.egrad) if manifold.bounded else None
    return flat if mask is None else flat * flatten(mask)


def steepest(precondition: Precondition | None, problem: Problem, at: Iterate) -> tuple[np.ndarray, float]:
    """Return the preconditioned steepest-descent direction and its slope.

    It is the negative gradient without a preconditioner, or if the preconditioned direction does not descend.
    """
    plain = -at.grad, -at.grad_norm * at.grad_norm
    if precondition is None:
        return plain
    direction, dot = -preconditioned(precondition, problem, at, at.grad), inner_product(problem, at.x)
    slope, square = dot(at.grad, direction), dot(direction, direction)
    descends = slope < -1e-10 * at.grad_norm * square**0.5  # not where a number is NaN
    return problem.axis.where(descends, (direction, slope), plain)


FORGET, PROBED, DELAY = 0.8, 0.1, 5
"""The weight of older pairs in a scale falls by the first number per step. A factor whose share of ⟨s, y⟩ is below the
second number has its scale measured. Scales are used after so many steps as the third number says: the first steps
choose a basin, and with scales they went into worse minima of four in eight mixtures of normal distributions.

Evaluations of L-BFGS on six products, with one factor in units of 1 to 1e4 (``make bench-engine ARGS=units``): 100 in
the geometric mean; 400 with one scale for all factors, where runs of 1,000 iterations were cut off."""


def factor_sizes(manifold: Manifold) -> tuple[int, ...]:
    """Return the number of entries of each factor in a flat tangent vector; empty if there is only one scale."""
    if isinstance(manifold, Factored):
        return manifold.sizes
    if isinstance(manifold, Power) and manifold.metric == "embedded":
        return tuple([manifold.n * size for size in factor_sizes(manifold.manifold)])
    return ()


def _products(problem: Problem, x: Any, s: Vector, y: Vector) -> np.ndarray:
    """Return ⟨s, y⟩ of every factor, then ⟨y, y⟩ of every factor: an array (2F,), of rows (B, 2F)."""
    manifold = problem.manifold
    if manifold.metric == "embedded":
        return sums_of_parts(np.concatenate((s * y, y * y), axis=-1), 2 * factor_sizes(manifold))
    tree = problem.axis.tree(manifold.shape)
    s, y = tree(s), tree(y)
    return np.stack(_inner(manifold, x, s, y) + _inner(manifold, x, y, y), axis=-1)


def _inner(manifold: Manifold, x: Any, u: Any, v: Any) -> list[Any]:
    if not isinstance(manifold, Factored):
        return [manifold.inner(x, u, v)]
    return [p for parts in zip(manifold.factors, x, u, v, strict=True) for p in _inner(*parts)]


def no_scales(problem: Problem, at: Iterate) -> State:
    """Return the memory at a new start, nothing for one factor: sums of ⟨s, y⟩ of every factor, then of ⟨y, y⟩."""
    factors, rows = len(factor_sizes(problem.manifold)), at.grad.shape[:-1]
    return {"scales": np.zeros((*rows, 2 * factors)), "steps": problem.axis.filled(at.x, 0)} if factors > 1 else {}


def with_pair(
    problem: Problem, at: Iterate, pair: Sequence[Vector], kept: State, hessian: str = "auto", longer: float = 1.0
) -> State:
    """Return the memory after a step s that changed the gradient by y; without ⟨s, y⟩ > 0, scales grow by `longer`.

    Steps change most in the factors with large gradients. When scales are first used, products with the Hessian give
    the scales of the other factors.
    """
    old, steps = kept["scales"], kept["steps"] + 1
    new, curved = _in_units_of(_products(problem, at.x, *pair[:2]))
    sums = FORGET * old + new
    if not curved.all():
        sums = np.where(curved, sums, old / np.repeat((1.0, longer), old.shape[-1] // 2))
    now = np.asarray(steps == DELAY)[..., None]
    if now.any():
        sums = _probed(problem, at, sums, now & _unprobed(sums), hessian)
    return {"scales": sums, "steps": steps}


def has_scales(kept: State) -> Any:
    """Return whether scales are used: a bool, or an array (B,) for rows."""
    return kept["steps"] >= DELAY


def scales_begin(kept: State) -> Any:
    """Return whether scales are used from this step on: a bool, or an array (B,) for rows."""
    return kept["steps"] == DELAY


def _in_units_of(products: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the products of a pair divided by its ⟨s, y⟩, for equal weights, and whether ⟨s, y⟩ is positive."""
    whole = products[..., : products.shape[-1] // 2].sum(axis=-1, keepdims=True)
    with np.errstate(all="ignore"):
        return products / whole, whole > 0


def _unprobed(sums: np.ndarray) -> np.ndarray:
    """Return a mask of the factors with a small fraction of ⟨s, y⟩."""
    sy = sums[..., : sums.shape[-1] // 2]
    return sy < PROBED * sy.max(axis=-1, keepdims=True)


def _probed(problem: Problem, at: Iterate, sums: np.ndarray, unknown: np.ndarray, hessian: str) -> np.ndarray:
    """Return the sums plus products with the Hessian along the gradients of the factors without a scale."""
    for _ in range(unknown.shape[-1]):
        rows = unknown.any(axis=-1)
        if not rows.any():
            break
        some, here, factors, before = problem.axis.take(rows, problem, at, unknown, sums)
        v = np.where(entries_of(problem, factors), here.grad, here.grad.dtype.type(0))
        with np.errstate(all="ignore"):
            try:
                image = hessian_product(some, here, hessian)[0](v)
            except (np.linalg.LinAlgError, FloatingPointError):
                image = np.full_like(v, np.nan)
            new, curved = _in_units_of(_products(some, here.x, v, image))
        sums = problem.axis.put(sums, rows, np.where(np.concatenate((factors, factors), axis=-1) & curved, new, before))
        unknown = problem.axis.put(unknown, rows, factors & curved & _unprobed(new))
    return sums


def scale_of_entries(problem: Problem, kept: State, dtype: Any, other: Any = 1.0) -> Vector:
    """Return the scale of each entry of a flat vector.

    It is the scale of the factor of the entry, or the common scale if the scale of the factor is unknown. Before scales
    are used, it is `other`.
    """
    scale, _ = _scales(kept["scales"])
    scale = np.where(np.asarray(has_scales(kept))[..., None], scale, np.asarray(other)[..., None])
    return entries_of(problem, scale.astype(dtype, copy=False))


def _scales(sums: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the scale of each factor (the common scale if unknown), and the common scale with an axis of length 1."""
    F = sums.shape[-1] // 2
    sy, yy = sums[..., :F], sums[..., F:]
    with np.errstate(all="ignore"):
        scale, whole = sy / yy, sy.sum(axis=-1, keepdims=True) / yy.sum(axis=-1, keepdims=True)
        whole = np.where((whole > 0) & (whole < np.inf), whole, 1.0)
        return np.where((scale > 0) & (scale < np.inf), scale, whole), whole


def metric_of_factors(kept: State, before: np.ndarray) -> np.ndarray:
    """Return the scale of each factor relative to the common scale, as powers of 16: a metric for BB, (F,) or (B, F).

    BB needs a constant metric for its step sizes, so the metric changes only after 5, 10, 20, 40, ... steps. With a
    metric that changes in every step, BB did not find a mean of dynamical systems in 30,000 steps; with this rule it
    needs 1,100. A scale within a factor of 16 of the common scale counts as equal to it.
    """
    steps = np.asarray(kept["steps"])
    times = steps // DELAY
    due = (times > 0) & (steps % DELAY == 0) & (times & (times - 1) == 0)
    if not due.any():
        return before
    scale, whole = _scales(kept["scales"])
    return np.where(due[..., None], 16.0 ** np.trunc(np.log2(scale / whole) / 4), before)


def entries_of(problem: Problem, values: np.ndarray) -> Vector:
    """Return a flat vector in which every entry has the value of its factor; `values` is (F,), or (B, F) for rows."""
    return np.repeat(values, factor_sizes(problem.manifold), axis=-1)
