"""The objective: one frozen record of callables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from .._result import Point
from ..linalg._tree import tree_map
from . import _autodiff

Value = Callable[[Point], float]
ValueAndGradient = Callable[[Point], tuple[float, Point]]


@dataclass(frozen=True)
class BlockUpdate:
    """A closed-form update of some factors of a point that never raises the value.

    Attributes
    ----------
    name : str
    factors : tuple of str
        The factors that ``apply`` replaces; the others keep their arrays.
    apply : callable
        ``apply(point) -> point``.
    """

    name: str
    factors: tuple[str, ...]
    apply: Callable[[Point], Point]


@dataclass(frozen=True)
class FiniteTerms:
    """An objective as a sum over `n` data.

    Attributes
    ----------
    n : int
    batch : callable
        ``batch(indices) -> Objective`` whose expectation over uniform indices is the whole: already scaled by ``n /
        len(indices)``.
    """

    n: int
    batch: Callable[[np.ndarray], Objective]


@dataclass(frozen=True)
class Objective:
    """What is minimized. An absent ability is None; wrap one with :func:`dataclasses.replace`.

    Attributes
    ----------
    value : callable
        ``value(point) -> float``.
    value_and_gradient : callable, optional
        ``value_and_gradient(point) -> (float, Euclidean gradient)``, the gradient in the structure of the point.
    hessian_product : callable, optional
        ``hessian_product(point, tangent) -> tangent``: the Euclidean Hessian times a direction.
    terms : FiniteTerms, optional
        For mini-batches.
    updates : tuple of BlockUpdate
        Closed-form updates of some factors.
    batched : callable, optional
        ``batched(points, which) -> (values, gradients)`` over a leading axis, for many problems at once.

    Notes
    -----
    Objectives add and scale: ``data_term + 0.1 * penalty``. A sum keeps ``terms`` (the side without them is added to
    each batch) and drops ``updates``. Points handed to an objective are read-only.

    Examples
    --------
    >>> import numpy as np, manifoldseq as ms
    >>> ridge = ms.Objective(lambda x: float(x @ x), lambda x: (float(x @ x), 2 * x))
    >>> (3 * ridge).value(np.ones(2))
    6.0
    """

    value: Value
    value_and_gradient: ValueAndGradient | None = None
    hessian_product: Callable[[Point, Point], Point] | None = None
    terms: FiniteTerms | None = None
    updates: tuple[BlockUpdate, ...] = ()
    batched: Callable[[Point, np.ndarray], tuple[np.ndarray, Point]] | None = None

    def __post_init__(self) -> None:
        if not callable(self.value):
            raise TypeError(f"Objective(value=…) must be a function of the point, got {self.value!r}")

    def __add__(self, other: Objective) -> Objective:
        if not isinstance(other, Objective):
            return NotImplemented
        return _sum(self, other)

    def __mul__(self, factor: float) -> Objective:
        return _scaled(self, float(factor))

    __rmul__ = __mul__

    def __neg__(self) -> Objective:
        return _scaled(self, -1.0)

    def __sub__(self, other: Objective) -> Objective:
        return self + (-other)


def objective(
    cost: Value | None = None,
    gradient: Callable[[Point], Point] | None = None,
    *,
    value_and_gradient: ValueAndGradient | None = None,
    hessian_product: Callable[[Point, Point], Point] | None = None,
    backend: str = "autograd",
) -> Objective:
    """Build an :class:`Objective` from plain functions of the point.

    Parameters
    ----------
    cost : callable, optional
        ``cost(point) -> float``. Without a gradient it is differentiated by `backend`; write it with ``autograd.numpy``
        then. Also a decorator: ``@ms.objective``.
    gradient : callable, optional
        ``gradient(point)``: the Euclidean gradient, in the structure of the point.
    value_and_gradient : callable, optional
        Both at once, if they share work; `cost` defaults to its first part.
    hessian_product : callable, optional
        ``hessian_product(point, tangent)``; by `backend` if the cost is differentiated by it.
    backend : {"autograd"}
        Automatic differentiation.

    Returns
    -------
    Objective

    Raises
    ------
    TypeError
        If neither a cost nor a fused function is given.
    ValueError
        For an unknown backend.

    Examples
    --------
    >>> import numpy as np, manifoldseq as ms
    >>> f = ms.objective(lambda x: (x**2).sum())
    >>> value, gradient = f.value_and_gradient(np.array([1.0, 2.0]))
    >>> value, gradient.tolist()
    (5.0, [2.0, 4.0])
    """
    if value_and_gradient is not None:
        value = partial(_first, value_and_gradient) if cost is None else partial(_value, cost)
        return Objective(value, value_and_gradient, hessian_product)
    if cost is None:
        raise TypeError("ms.objective needs a cost or value_and_gradient: pass a function of the point")
    if gradient is not None:
        return Objective(partial(_value, cost), partial(_both, cost, gradient), hessian_product)
    by = _autodiff.backend(backend)
    return Objective(partial(_value, cost), by.value_and_gradient(cost), hessian_product or by.hessian_product(cost))


def finite_sum(cost: Callable[[Point, np.ndarray], float], n: int, *, backend: str = "autograd") -> Objective:
    """Build an objective that is a sum over `n` data from ``cost(point, indices)``.

    Parameters
    ----------
    cost : callable
        ``cost(point, indices) -> float``: the sum of the terms named by the integer array `indices`.
    n : int
        Number of data.
    backend : {"autograd"}

    Returns
    -------
    Objective
        With ``terms``; a batch is scaled by ``n / len(indices)``.

    Examples
    --------
    >>> import numpy as np, manifoldseq as ms
    >>> data = np.arange(4.0)
    >>> f = ms.finite_sum(lambda x, i: ((x - data[i]) ** 2).sum(), n=4)
    >>> f.value(np.zeros(1)), f.terms.batch(np.array([2])).value(np.zeros(1))
    (14.0, 16.0)
    """
    if n < 1:
        raise ValueError(f"finite_sum(n={n}): a sum needs at least one term")

    whole = objective(partial(_over, cost, np.arange(n)), backend=backend)
    return replace(whole, terms=FiniteTerms(n, partial(_batch, cost, n, backend)))


def number(value: Any) -> float:
    """Return a value as a Python float, or raise a sentence if it is not one real number."""
    if type(value) is float:
        return value
    array = np.asarray(value)
    if array.dtype.kind not in "fiu" or array.size != 1:
        shape = f" of shape {array.shape}" if array.size != 1 else ""
        got = f"{type(value).__name__} {value!r}{shape}"
        raise TypeError(f"the objective returned {got}: it must return one real number")
    return float(array.reshape(()))


# Module-level functions under partial, so that an objective can be pickled when the functions that it is made of can.


def _value(cost: Value, x: Point) -> float:
    return number(cost(x))


def _first(fused: ValueAndGradient, x: Point) -> float:
    return number(fused(x)[0])


def _both(cost: Value, gradient: Callable[[Point], Point], x: Point) -> tuple[float, Point]:
    return number(cost(x)), gradient(x)


def _over(cost: Callable[[Point, np.ndarray], float], indices: np.ndarray, x: Point) -> float:
    return cost(x, indices)


def _batch(cost: Callable[[Point, np.ndarray], float], n: int, backend: str, indices: np.ndarray) -> Objective:
    return objective(partial(_over, cost, indices), backend=backend) * (n / len(indices))


def _scaled(f: Objective, c: float) -> Objective:
    return Objective(
        partial(_scaled_value, f, c),
        partial(_scaled_pair, f.value_and_gradient, c) if f.value_and_gradient else None,
        partial(_scaled_product, f.hessian_product, c) if f.hessian_product else None,
        FiniteTerms(f.terms.n, partial(_scaled_batch, f.terms, c)) if f.terms else None,
        f.updates if c > 0 else (),
        partial(_scaled_pair, f.batched, c) if f.batched else None,
    )


def _scaled_value(f: Objective, c: float, x: Point) -> float:
    return c * f.value(x)


def _scaled_pair(function: Callable[..., tuple[Any, Point]], c: float, *args: Any) -> tuple[Any, Point]:
    value, gradient = function(*args)
    return c * value, tree_map(lambda leaf: c * leaf, gradient)


def _scaled_product(product: Callable[[Point, Point], Point], c: float, x: Point, u: Point) -> Point:
    return tree_map(lambda leaf: c * leaf, product(x, u))


def _scaled_batch(terms: FiniteTerms, c: float, indices: np.ndarray) -> Objective:
    return c * terms.batch(indices)


def _sum(f: Objective, g: Objective) -> Objective:
    fused, products = (f.value_and_gradient, g.value_and_gradient), (f.hessian_product, g.hessian_product)
    return Objective(
        partial(_sum_value, f, g),
        partial(_sum_pair, *fused) if all(fused) else None,
        partial(_sum_product, *products) if all(products) else None,
        _sum_of_terms(f, g),
        (),
        partial(_sum_pair, f.batched, g.batched) if f.batched and g.batched else None,
    )


def _sum_value(f: Objective, g: Objective, x: Point) -> float:
    return f.value(x) + g.value(x)


def _sum_pair(f: Any, g: Any, *args: Any) -> tuple[Any, Point]:
    (a, slope_a), (b, slope_b) = f(*args), g(*args)
    return a + b, tree_map(np.add, slope_a, slope_b)


def _sum_product(f: Any, g: Any, x: Point, u: Point) -> Point:
    return tree_map(np.add, f(x, u), g(x, u))


def _sum_of_terms(f: Objective, g: Objective) -> FiniteTerms | None:
    if f.terms and g.terms and f.terms.n != g.terms.n:
        raise ValueError(
            f"the two objectives are sums over {f.terms.n} and {g.terms.n} data: they share no mini-batches"
        )
    terms = f.terms or g.terms
    return FiniteTerms(terms.n, partial(_sum_batch, f, g)) if terms else None


def _sum_batch(f: Objective, g: Objective, indices: np.ndarray) -> Objective:
    return (f.terms.batch(indices) if f.terms else f) + (g.terms.batch(indices) if g.terms else g)
