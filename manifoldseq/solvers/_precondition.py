"""Preconditioned descent directions by a user-supplied function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .._problem import Problem
from ..linalg import ONE, flatten, shapes, tree_map, unflattener
from ._iterates import Iterate, inner_product

Precondition = Callable[[Problem[Any], Any, Any], Any]


def check_precondition(solver: str, precondition: Precondition | None) -> None:
    """Raise a sentence unless a preconditioner is a function or None."""
    if precondition is not None and not callable(precondition):
        raise TypeError(f"{solver}(precondition={precondition!r}): pass a function (problem, x, g) -> tangent vector")


def preconditioned(precondition: Precondition, problem: Problem, at: Iterate, v: np.ndarray) -> np.ndarray:
    """Return the preconditioner times a flat tangent vector, flat; zero in the coordinates that active bounds hold."""
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
    flat = flatten(manifold.to_frame(at.x, tree_map(np.asarray, product))).astype(v.dtype, copy=False)
    mask = manifold.free(at.x, at.egrad) if manifold.bounded else None
    return flat if mask is None else flat * flatten(mask)


def steepest(precondition: Precondition | None, problem: Problem, at: Iterate) -> tuple[np.ndarray, float]:
    """Return the preconditioned steepest-descent direction and its slope.

    It is the negative gradient without a preconditioner, and where the product with one does not descend.
    """
    plain = -at.grad, -at.grad_norm * at.grad_norm
    if precondition is None:
        return plain
    direction, dot = -preconditioned(precondition, problem, at, at.grad), inner_product(problem, at.x)
    slope, square = dot(at.grad, direction), dot(direction, direction)
    descends = slope < -1e-10 * at.grad_norm * square**0.5  # not where a number is NaN
    return problem.axis.where(descends, (direction, slope), plain)
