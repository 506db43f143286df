"""The objective: a frozen record of functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from .._quoted import quoted
from .._result import Tree
from ..execution._by_name import portable, remember
from ..linalg import tree_map
from ._additive import Additive, BlockUpdate
from ._autodiff import differentiated
from ._cost import Differentiated, number

Value = Callable[[Any], float]
ValueAndGradient = Callable[[Any], tuple[float, Any]]
Batched = Callable[[Any, np.ndarray], tuple[np.ndarray, Any]]


@dataclass(frozen=True)
class FiniteTerms:
    """An objective as a sum over `n` data.

    Attributes
    ----------
    n : int
    batch : callable
        ``batch(indices) -> Objective`` whose expectation over uniform indices is the whole objective: it must be scaled
        by ``n / len(indices)``.
    """

    n: int
    batch: Callable[[np.ndarray], Objective]


class Traced(NamedTuple):
    """A cost that jax can trace: ``cost(point, *args)``, a function whose hash and equality depend on its computation.

    Objectives with equal costs and data of equal shapes share one compilation, because data are arguments, not
    constants.

    Examples
    --------
    >>> import numpy as np, manifoldseq as ms
    >>> traced = ms.objectives.Traced(lambda x, a: ((x - a) ** 2).sum(), (np.ones(2),))
    >>> float(traced.cost(np.zeros(2), *traced.args))
    2.0
    """

    cost: Callable[..., Any]
    args: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Objective:
    """A function to minimize and its derivatives. Missing functions are None; :func:`dataclasses.replace` wraps them.

    Attributes
    ----------
    value : callable
        ``value(point) -> float``.
    value_and_gradient : callable, optional
        ``value_and_gradient(point) -> (float, Euclidean gradient)``, the gradient in the structure of the point.
    hessian_product : callable, optional
        ``hessian_product(point, tangent) -> tangent``: the Euclidean Hessian times a direction.
    terms : FiniteTerms, optional
        The objective as a sum over data, for mini-batches.
    updates : tuple of BlockUpdate
        Closed-form updates of some factors.
    batched : callable, optional
        ``batched(points, which) -> (values, gradients)`` for many problems at once, for ``minimize_batch``. `which` is
        an integer array of length b with the numbers of the problems that are still active. `points` holds the points
        of these problems: every array has a leading axis of length b, and so has every array of the gradients. The
        values have shape (b,).
    costly_hessian : bool
        Whether a Hessian product costs as much as several gradients, for example because it is differentiated
        automatically. If True, ``solver="auto"`` does not use it.
    riemannian : bool
        Whether ``value_and_gradient`` and ``hessian_product`` give the Riemannian gradient and Hessian, in ambient
        tangent vectors. A :class:`Problem` converts them to Euclidean derivatives.
    additive : Additive, optional
        The functions that expectation maximization needs, for a registered model whose data enter through sums over
        blocks of rows.
    parts : mapping of str to callable
        Further functions, ``part(point)``, that a solver looks up by name. The engine itself does not use them.
    residuals : optional
        The residual blocks of :func:`least_squares`. A :class:`Problem` binds them to its manifold.
    traced : Traced, optional
        The cost as a function of jax and its data, for solvers that compile their loop, such as ``"jax:lbfgs"``.
        Objectives of ``ms.objective(…, backend="jax")`` and ``ms.finite_sum(…, backend="jax")`` have this part, and so
        do their sums and multiples.

    Notes
    -----
    Objectives add and scale: ``data_term + 0.1 * penalty``. A sum keeps ``terms`` (a summand without terms is added to
    each batch) and drops ``updates``, ``additive``, ``parts`` and ``residuals``. The points that an objective receives
    are read-only.

    Examples
    --------
    >>> import numpy as np, manifoldseq as ms
    >>> ridge = ms.Objective(lambda x: float(x @ x), lambda x: (float(x @ x), 2 * x))
    >>> (3 * ridge).value(np.ones(2))
    6.0
    """

    value: Value
    value_and_gradient: ValueAndGradient | None = None
    hessian_product: Callable[[Any, Any], Any] | None = None
    terms: FiniteTerms | None = None
    updates: tuple[BlockUpdate, ...] = ()
    batched: Batched | None = None
    costly_hessian: bool = False
    riemannian: bool = False
    additive: Additive | None = None
    parts: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    residuals: Any = None
    traced: Traced | None = None

    def __post_init__(self) -> None:
        if not callable(self.value):
            raise TypeError(f"Objective(value=…) must be a function of the point, got {self.value!r}")

    def __copy__(self) -> Objective:
        return replace(self)

    def __getstate__(self) -> dict[str, Any]:
        return {name: portable(value, "the objective") for name, value in vars(self).items()}

    def __repr__(self) -> str:
        abilities = {
            "gradient": self.value_and_gradient,
            "Hessian products": self.hessian_product,
            "mini-batches": self.terms,
            "closed-form updates": self.updates,
            "batches of problems": self.batched,
            "residuals": self.residuals,
        }
        named = [name for name, ability in abilities.items() if ability]
        kind = " (Riemannian)" if self.riemannian else ""
        return f"Objective({', '.join(['value', *named])}{kind})"

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
    gradient: Callable[[Any], Any] | None = None,
    *,
    value_and_gradient: ValueAndGradient | None = None,
    hessian_product: Callable[[Any, Any], Any] | None = None,
    riemannian_gradient: Callable[[Any], Any] | None = None,
    riemannian_hessian: Callable[[Any, Any], Any] | None = None,
    batched: Batched | None = None,
    args: tuple[Any, ...] = (),
    backend: str = "autograd",
    device: str | None = None,
    dtype: str | None = None,
) -> Objective:
    """Build an :class:`Objective` from plain functions of the point.

    Parameters
    ----------
    cost : callable, optional
        ``cost(point) -> float``. Without a gradient it is differentiated by `backend`; in this case write it with
        ``autograd.numpy`` (``jax.numpy``, torch). ``@ms.objective`` as a decorator is the same.
    gradient : callable, optional
        ``gradient(point)``: the Euclidean gradient, in the structure of the point.
    value_and_gradient : callable, optional
        The value and the gradient in one call, for functions that share computations. By default, `cost` is the first
        of the two.
    hessian_product : callable, optional
        ``hessian_product(point, tangent)``; by default the backend computes it if it differentiates the cost.
    riemannian_gradient, riemannian_hessian : callable, optional
        ``riemannian_gradient(point)`` and ``riemannian_hessian(point, tangent)`` replace Euclidean derivatives. They
        return ambient tangent vectors in the metric of the manifold over which the objective is minimized.
    batched : callable, optional
        ``batched(points, which) -> (values, gradients)`` for many problems at once, see :class:`Objective`. If no other
        function is given, the objective of a single point is the objective of problem 0.
    args : tuple
        Further arguments of a cost that is differentiated, ``cost(point, *args)``: its data. jax compiles a cost once
        for all arguments of equal shapes, whereas data in the closure of the cost are constants of one compilation.
    backend : {"autograd", "jax", "torch"}
        The library that computes values, gradients and Hessian products by automatic differentiation. Each function is
        built on its first call. jax compiles the cost. It computes in double precision if the point is in double
        precision, for any value of its global flag.
    device, dtype : str, optional
        With torch, the device and dtype of the tensors in the cost, such as ``"cuda"`` and ``"float32"``. The point is
        converted to such a tensor (by default on the CPU, in the dtype of the point), and derivatives are converted
        back to the dtype of the point.

    Returns
    -------
    Objective

    Raises
    ------
    TypeError
        If neither a cost nor a fused function is given, or if both Euclidean and Riemannian derivatives are given. At
        evaluation, if the cost does not return a real number or the backend cannot differentiate it.
    ValueError
        If the backend is unknown, or if a device is given with another backend than torch.
    ImportError
        If the backend is not installed.

    Examples
    --------
    >>> import numpy as np, manifoldseq as ms
    >>> f = ms.objective(lambda x: (x**2).sum())
    >>> value, gradient = f.value_and_gradient(np.array([1.0, 2.0]))
    >>> value, gradient.tolist()
    (5.0, [2.0, 4.0])
    """
    remember(cost, gradient, value_and_gradient, hessian_product, riemannian_gradient, riemannian_hessian, batched)
    given = (cost is None, gradient, value_and_gradient, riemannian_gradient)
    if not isinstance(args, tuple):
        raise TypeError(
            f"ms.objective(args={quoted(args)}): pass a tuple of further arguments of the cost, such as args=(A,)"
        )
    if args and any(one is not None and one is not False for one in given):
        raise TypeError(
            "ms.objective(args=…) is for a cost that a backend differentiates: without such a cost, bind the data to "
            "the functions with functools.partial"
        )
    if riemannian_gradient is not None or riemannian_hessian is not None:
        if riemannian_gradient is None or any(f is not None for f in (gradient, value_and_gradient, hessian_product)):
            raise TypeError(
                "ms.objective cannot combine Riemannian and Euclidean derivatives: pass a cost, riemannian_gradient "
                "and optionally riemannian_hessian"
            )
        made = objective(cost, riemannian_gradient, hessian_product=riemannian_hessian, batched=batched)
        return replace(made, riemannian=True)
    if cost is None and value_and_gradient is None and batched is not None:
        value_and_gradient = partial(_of_problem_0, batched)
    if value_and_gradient is not None:
        value = partial(_first, value_and_gradient) if cost is None else partial(_value, cost)
        return Objective(value, value_and_gradient, hessian_product, batched=batched)
    if cost is None:
        raise TypeError("ms.objective needs a cost, value_and_gradient or batched: pass a function of the point")
    if gradient is not None:
        return Objective(partial(_value, cost), partial(_both, cost, gradient), hessian_product, batched=batched)
    made = _from_cost(differentiated(cost, backend, device, dtype), *args)
    if hessian_product is not None:
        made = replace(made, hessian_product=hessian_product, costly_hessian=False)
    return replace(made, batched=batched)


def functions(where: str, **given: Any) -> None:
    """Raise an error for an argument that is neither a function nor None."""
    for name, one in given.items():
        if one is not None and not callable(one):
            raise TypeError(f"{where}({name}=…) must be a function, got {quoted(one)}")


def finite_sum(
    cost: Callable[[Any, np.ndarray], float],
    n: int,
    *,
    backend: str = "autograd",
    device: str | None = None,
    dtype: str | None = None,
) -> Objective:
    """Build an objective that is a sum over `n` data from ``cost(point, indices)``.

    Parameters
    ----------
    cost : callable
        ``cost(point, indices) -> float``: the sum of the terms named by the integer array `indices`. With jax, the data
        must be arrays of jax: ``jax.numpy.asarray(data)[indices]``.
    n : int
        Number of data.
    backend : {"autograd", "jax", "torch"}
    device, dtype : str, optional
        See :func:`objective`. jax compiles the cost once for every size of a batch.

    Returns
    -------
    Objective
        An objective with ``terms``; a batch is scaled by ``n / len(indices)``.

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
    by = differentiated(cost, backend, device, dtype)
    return replace(_from_cost(by, np.arange(n)), terms=FiniteTerms(n, partial(_batch, by, n)))


# Module-level functions under partial, so that an objective can be pickled when the functions that it is made of can.


def _value(cost: Value, x: Tree) -> float:
    return number(cost(x))


def _first(fused: ValueAndGradient, x: Tree) -> float:
    return number(fused(x)[0])


def _of_problem_0(batched: Batched, x: Tree) -> tuple[float, Tree]:
    values, gradients = batched(tree_map(lambda leaf: leaf[None], x), np.zeros(1, int))
    return number(values), tree_map(lambda leaf: leaf[0], gradients)


def _both(cost: Value, gradient: Callable[[Any], Any], x: Any) -> tuple[float, Any]:
    return number(cost(x)), gradient(x)


def _from_cost(by: Differentiated, *rest: Any) -> Objective:
    return Objective(
        partial(by.value, rest),
        partial(by.value_and_gradient, rest),
        partial(by.hessian_product, rest),
        costly_hessian=True,
        traced=Traced(by.traced, rest) if by.traced is not None else None,
    )


def _batch(by: Differentiated, n: int, indices: np.ndarray) -> Objective:
    return _from_cost(by, indices) * (n / len(indices))


def _without_manifold(f: Objective) -> bool:
    """Return whether this is an objective of ``ms.least_squares`` that is not yet bound to a manifold by a problem."""
    return getattr(f.residuals, "without_manifold", False)


def _scaled(f: Objective, c: float) -> Objective:
    if _without_manifold(f):
        raise TypeError(
            "a least-squares objective cannot be multiplied by a number: multiply the weights of its residuals"
        )
    return Objective(
        partial(_scaled_value, f, c),
        partial(_scaled_pair, f.value_and_gradient, c) if f.value_and_gradient else None,
        partial(_scaled_product, f.hessian_product, c) if f.hessian_product else None,
        FiniteTerms(f.terms.n, partial(_scaled_batch, f.terms, c)) if f.terms else None,
        f.updates if c > 0 else (),
        partial(_scaled_pair, f.batched, c) if f.batched else None,
        f.costly_hessian,
        f.riemannian,
        traced=Traced(TracedMultiple(f.traced.cost), (c, *f.traced.args)) if f.traced else None,
    )


def _scaled_value(f: Objective, c: float, x: Tree) -> float:
    return c * f.value(x)


def _scaled_pair(function: Callable[..., tuple[Any, Tree]], c: float, *args: Any) -> tuple[Any, Tree]:
    value, gradient = function(*args)
    return c * value, tree_map(lambda leaf: c * leaf, gradient)


def _scaled_product(product: Callable[[Any, Any], Any], c: float, x: Any, u: Any) -> Any:
    return tree_map(lambda leaf: c * leaf, product(x, u))


def _scaled_batch(terms: FiniteTerms, c: float, indices: np.ndarray) -> Objective:
    return c * terms.batch(indices)


def _sum(f: Objective, g: Objective) -> Objective:
    if _without_manifold(f) and _without_manifold(g):
        return replace(f, residuals=f.residuals + g.residuals)
    if _without_manifold(f) or _without_manifold(g):
        raise TypeError(
            "a least-squares objective can be added to other residuals only: write the other term as ms.residuals(…), "
            "or create a Problem from the residuals and add the term to problem.objective"
        )
    if f.riemannian != g.riemannian and f.value_and_gradient and g.value_and_gradient:
        raise ValueError(
            "one objective has Riemannian derivatives and the other Euclidean derivatives: pass objectives with "
            "derivatives of the same kind"
        )
    fused, products = (f.value_and_gradient, g.value_and_gradient), (f.hessian_product, g.hessian_product)
    return Objective(
        partial(_sum_value, f, g),
        partial(_sum_pair, *fused) if all(fused) else None,
        partial(_sum_product, *products) if all(products) else None,
        _sum_of_terms(f, g),
        (),
        partial(_sum_pair, f.batched, g.batched) if f.batched and g.batched else None,
        f.costly_hessian or g.costly_hessian,
        f.riemannian or g.riemannian,
        traced=_sum_traced(f.traced, g.traced) if f.traced and g.traced else None,
    )


def _sum_traced(f: Traced, g: Traced) -> Traced:
    return Traced(TracedSum(f.cost, g.cost, len(f.args)), (*f.args, *g.args))


@dataclass(frozen=True)
class TracedSum:
    """The sum of two traced costs; the first `n` arguments belong to the first cost."""

    first: Callable[..., Any]
    second: Callable[..., Any]
    n: int

    def __call__(self, x: Any, *args: Any) -> Any:
        return self.first(x, *args[: self.n]) + self.second(x, *args[self.n :])


@dataclass(frozen=True)
class TracedMultiple:
    """A traced cost times a number, which is an argument, so that every multiple has one compilation."""

    cost: Callable[..., Any]

    def __call__(self, x: Any, factor: Any, *args: Any) -> Any:
        return factor * self.cost(x, *args)


def _sum_value(f: Objective, g: Objective, x: Tree) -> float:
    return f.value(x) + g.value(x)


def _sum_pair(f: Any, g: Any, *args: Any) -> tuple[Any, Tree]:
    (a, slope_a), (b, slope_b) = f(*args), g(*args)
    return a + b, tree_map(np.add, slope_a, slope_b)


def _sum_product(f: Any, g: Any, x: Tree, u: Tree) -> Tree:
    return tree_map(np.add, f(x, u), g(x, u))


def _sum_of_terms(f: Objective, g: Objective) -> FiniteTerms | None:
    if f.terms and g.terms and f.terms.n != g.terms.n:
        raise ValueError(
            f"the two objectives are sums of {f.terms.n} and {g.terms.n} terms: pass sums over the same data"
        )
    terms = f.terms or g.terms
    return FiniteTerms(terms.n, partial(_sum_batch, f, g)) if terms else None


def _sum_batch(f: Objective, g: Objective, indices: np.ndarray) -> Objective:
    return (f.terms.batch(indices) if f.terms else f) + (g.terms.batch(indices) if g.terms else g)
