"""The common problem (11) of a weighted set of systems, as the centres of clusters minimize it."""

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

import manifoldseq as ms

Array = NDArray[np.float64]
Point = tuple[Array, ...]


def weighted_mean(kernel: Any, packed: Any, beta: Array) -> ms.Objective:
    """Return ``sum_i beta_i k(S, S_i)`` as in (11), and k(S, S) where it is not constant, as (7) demands."""
    both = ms.objectives.last_point(partial(_both, kernel, packed, beta))
    return ms.Objective(partial(_value, both), both)


def _both(kernel: Any, packed: Any, beta: Array, point: Point) -> tuple[float, Point]:
    value, gradient = kernel.weighted(point, packed, beta)
    if kernel.constant_diagonal:
        return value, gradient
    own, own_gradient = kernel.self_term(point)
    return value + own, tuple(g + h for g, h in zip(gradient, own_gradient, strict=True))


def _value(both: Any, point: Point) -> float:
    return both(point)[0]
