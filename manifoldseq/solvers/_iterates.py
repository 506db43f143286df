"""Iterates: a point with one evaluation of the objective, and the inner product of flat tangent vectors there."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from operator import itemgetter
from typing import Any, Generic, NamedTuple

import numpy as np

from .._problem import Problem
from .._result import Evaluations, Measures, Point, Status
from ..linalg._tree import SMALLEST, dot, dot_of, flatten, leaves, norm, tree_map, unflattener_of
from ..manifolds import Manifold
from ..manifolds._product import _Factored as Factored

State = dict[str, Any]
Dot = Callable[[np.ndarray, np.ndarray], float]
Retraction = str | Callable[[Any, Any], Any] | None
_NONE = Evaluations()
_NO_COLUMNS: dict[str, float] = {}


class Iterate(NamedTuple, Generic[Point]):
    """A point with what one evaluation of the objective says about it; :func:`evaluate` makes it.

    Attributes
    ----------
    x : Point
    fun : float
    egrad : Point
        Euclidean gradient.
    grad : ndarray of shape (n,)
        Riemannian gradient, flat (see :func:`flatten`), in the dtype of the point.
    grad_norm : float
        Its length in the metric; NaN where the metric has left the range of numbers.
    egrad_norm : float
        Norm of the Euclidean gradient, in units of the metric where those are small: rounding errors of the gradient
        are about ``eps * egrad_norm``.

    Examples
    --------
    >>> import numpy as np, manifoldseq as ms
    >>> M = ms.manifolds.Product(ms.manifolds.Sphere(2), ms.manifolds.Euclidean(1))
    >>> problem = ms.Problem(M, ms.objective(lambda x: x[0][0] + 2 * x[1][0] ** 2))
    >>> at = ms.solvers.evaluate(problem, (np.array([0.0, 1.0]), np.array([3.0])))
    >>> at.grad.tolist(), at.state(step=None)["fun"], at.measures(M).fun
    ([1.0, 0.0, 12.0], 18.0, 18.0)
    """

    x: Point
    fun: float
    egrad: Point
    grad: np.ndarray
    grad_norm: float
    egrad_norm: float

    @classmethod
    def of(cls, state: State) -> Iterate[Any]:
        """Return the iterate that :meth:`state` put into a state."""
        return cls._make(_parts(state))

    def state(self, **more: Any) -> State:
        """Return the state of a solver with this iterate, one key per attribute, and `more`."""
        x, fun, egrad, grad, grad_norm, egrad_norm = self
        return {
            **more,
            "x": x,
            "fun": fun,
            "egrad": egrad,
            "grad": grad,
            "grad_norm": grad_norm,
            "egrad_norm": egrad_norm,
        }

    def measures(
        self,
        manifold: Manifold,
        step_size: float | None = None,
        curvature: float | None = None,
        status: Status | None = None,
    ) -> Measures:
        """Return the measures of this point.

        Parameters
        ----------
        manifold : Manifold
        step_size, curvature : float, optional
            Length of the step that led here, and the curvature of the objective along it.
        status : Status, optional
            A reason to end the run.
        """
        return Measures(
            self.fun,
            self.grad_norm,
            None,
            step_size,
            self.egrad_norm,
            _NONE,
            status,
            _NO_COLUMNS,
            curvature,
            None,
            float(manifold.scale(self.x)),
        )

    def at_boundary(self, manifold: Manifold, measures: Measures) -> Measures:
        """Return the measures with `pushed_inward`, which is asked for before a run ends and not in every iteration.

        Parameters
        ----------
        manifold : Manifold
        measures : Measures
            Of this point; they are returned as they are where there is no boundary, or no gradient.
        """
        if not manifold.open or self.egrad is None:
            return measures
        return replace(measures, pushed_inward=float(manifold.pushed_inward(self.x, self.egrad)))


_parts = itemgetter(*Iterate._fields)


def evaluate(problem: Problem[Point], x: Point) -> Iterate[Point]:
    """Evaluate the objective and its gradients at a point.

    Parameters
    ----------
    problem : Problem
        Its objective has ``value_and_gradient``, which is called once.
    x : Point

    Returns
    -------
    Iterate

    Examples
    --------
    >>> import numpy as np, manifoldseq as ms
    >>> M = ms.manifolds.Product(ms.manifolds.Stiefel(3, 2), ms.manifolds.Positive(2))
    >>> problem = ms.Problem(M, ms.objective(lambda x: (x[0] * x[1]).sum()))
    >>> at = ms.solvers.evaluate(problem, (np.eye(3, 2), np.array([1.0, 2.0])))
    >>> at.fun, at.grad.shape, round(at.grad_norm**2, 12)
    (3.0, (8,), 10.5)
    """
    fun, egrad = problem.objective.value_and_gradient(x)  # type: ignore[misc]
    manifold = problem.manifold
    if not manifold.open:
        flat = flatten(manifold.gradient(x, egrad))
        grad_norm = _length(flat)
        return Iterate(x, fun, egrad, flat, grad_norm, _rounded(flat, grad_norm, egrad))
    with np.errstate(all="ignore"):
        gradient = manifold.gradient(x, egrad)
        if manifold.metric == "embedded":
            flat = flatten(gradient)
            return Iterate(x, fun, egrad, flat, _length(flat), _in_units(manifold, x, egrad))
        flat = flatten(gradient)
        square, unit = manifold.inner(x, gradient, gradient), 1.0
        length = _length(flat)
        if 0 <= square < SMALLEST[flat.dtype] and length > 0:
            unit = math.ldexp(1.0, math.frexp(length)[1])
            gradient = tree_map(lambda leaf: leaf / leaf.dtype.type(unit), gradient)
            square = manifold.inner(x, gradient, gradient)
    grad_norm = unit * square**0.5 if square >= 0 else math.nan
    # `egrad_norm` in the unit of the metric
    unit = length / grad_norm if grad_norm > length else 1.0
    return Iterate(x, fun, egrad, flat, grad_norm, unit * _rounded(flat, length, egrad))


def _length(flat: np.ndarray) -> float:
    """Return the Euclidean norm of a flat vector in its dtype, in float64 where its squares underflow."""
    square = dot(flat, flat)
    return norm(flat) if square < SMALLEST[flat.dtype] else square**0.5


def _in_units(manifold: Manifold[Point], x: Point, egrad: Point) -> float:
    """Return the norm of the Euclidean gradient, of open factors in units of the metric where those are small."""
    if isinstance(manifold, Factored):
        return math.hypot(*[_in_units(f, a, g) for f, a, g in zip(manifold.factors, x, egrad, strict=True)])
    return norm(egrad) * min(1.0, norm(x)) if manifold.open else norm(egrad)


def _rounded(grad: np.ndarray, grad_norm: float, egrad: Point) -> float:
    """Return the norm of the Euclidean gradient whose rounding is in the Riemannian one.

    Where the two differ much: of the entries that are not zero by themselves (of bounds, or of a frozen factor), in the
    factor where the share that is left is largest; the others say nothing about its rounding.
    """
    whole = norm(egrad)
    if not 0 < grad_norm <= 1e-4 * whole:
        return whole
    if type(egrad) is not tuple:
        moves = grad != 0
        return whole if moves.all() else norm(flatten(egrad)[moves])
    # the factor in which the Riemannian gradient is largest beside the Euclidean one, of entries that can move
    starts = np.cumsum([0, *[leaf.size for leaf in leaves(egrad)][:-1]])
    left, of = grad.astype(np.float64, copy=False), flatten(egrad).astype(np.float64, copy=False)
    with np.errstate(all="ignore"):
        lengths = [np.add.reduceat(v * v, starts) for v in (left, np.where(left != 0, of, 0.0))]
        shares = np.sqrt(lengths[0] / np.maximum(lengths[1], 1e-300))
    share = float(np.nan_to_num(shares, posinf=0.0).max())
    return grad_norm / share if share > 0 else whole


def try_point(problem: Problem[Point], at: Iterate, x: Point) -> Iterate:
    """Return the evaluation at a trial point; one where linear algebra fails has the value infinity."""
    try:
        return evaluate(problem, x)
    except (np.linalg.LinAlgError, FloatingPointError):
        return at._replace(x=x, fun=math.inf, grad_norm=math.nan)


def secant(product: float, square: float) -> float | None:
    """Return the curvature ⟨s, y⟩/⟨s, s⟩ of a step, None where the step was nothing."""
    return product / square if square > 0 else None


def step_curvature(problem: Problem[Point], x: Point, grad: np.ndarray, new: Iterate) -> float | None:
    """Return the curvature along a step from `x`, where the Riemannian gradient was `grad` (flat), by any way."""
    manifold = problem.manifold
    tree = unflattener_of(manifold.shape)
    with np.errstate(all="ignore"):
        # the secant ⟨s, y⟩/⟨s, s⟩ at the new point, of its chord s, projected, and the change y of the gradient
        s = flatten(manifold.displacement(x, new.x))
        y = new.grad - flatten(manifold.transport(x, new.x, tree(grad)))
        dot = inner_product(problem, new.x)
        return secant(dot(s, y), dot(s, s))


def inner_product(problem: Problem[Point], x: Point) -> Dot:
    """Return the inner product at `x`, a function of two flat tangent vectors.

    Equivalent to `numpy.dot` where the metric is embedded; elsewhere ``manifold.inner``, without warnings where numbers
    leave their range.

    Examples
    --------
    >>> import numpy as np, manifoldseq as ms
    >>> M = ms.manifolds.Product(ms.manifolds.Positive(1), ms.manifolds.Euclidean(1))
    >>> problem = ms.Problem(M, lambda x: (x[0] ** 2 + x[1] ** 2).sum())
    >>> dot = ms.solvers.inner_product(problem, (np.array([2.0]), np.array([5.0])))
    >>> dot(np.array([3.0, 1.0]), np.array([4.0, 1.0]))                       # 3 * 4 / 2**2 + 1 * 1
    4.0
    """
    manifold = problem.manifold
    if manifold.metric == "embedded":
        return dot_of(leaves(x)[0].dtype)
    tree = unflattener_of(manifold.shape)

    def product(u: np.ndarray, v: np.ndarray) -> float:
        with np.errstate(all="ignore"):
            return manifold.inner(x, tree(u), tree(v))

    return product


def retracted(problem: Problem[Point], x: Point, u: Point, kind: Retraction) -> Point:
    """Return the point reached from `x` along `u`: without a warning one that is not finite where `u` leads too far."""
    manifold = problem.manifold
    if not manifold.open and not callable(kind):
        return manifold.retract(x, u, kind)
    with np.errstate(all="ignore"):
        return kind(x, manifold.from_frame(x, u)) if callable(kind) else manifold.retract(x, u, kind)
