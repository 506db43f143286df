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
from ..linalg import (
    EPS,
    ONE,
    ROWS,
    SMALLEST,
    One,
    Rows,
    Scalar,
    axis_of,
    flatten,
    freeze,
    leaves,
    sums_of_parts,
    tree_map,
    unflattener_of,
)
from ..manifolds import Factored, Manifold

State = dict[str, Any]
Dot = Callable[[np.ndarray, np.ndarray], float]
Retraction = str | Callable[[Any, Any], Any] | None
_NONE = Evaluations()
_NO_COLUMNS: dict[str, float] = {}


class Iterate(NamedTuple, Generic[Point]):
    """A point with the results of one evaluation of the objective, created by :func:`evaluate`.

    Attributes
    ----------
    x : Point
    fun : float
    egrad : Point
        Euclidean gradient.
    grad : ndarray of shape (n,)
        Riemannian gradient, flat (see :func:`flatten`), in the dtype of the point.
    grad_norm : float
        Length of the Riemannian gradient in the metric; NaN if the metric overflows.
    egrad_norm : float
        Norm of the Euclidean gradient, converted to the scale of the metric if this scale is small. Rounding errors of
        the gradient are about ``eps * egrad_norm``.

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
        """Return the iterate that :meth:`state` stored in a state."""
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

    def row(self, k: int) -> Iterate[Any]:
        """Return the iterate of row `k` of a batch."""
        one = ROWS.one(self, k)
        return one._replace(x=freeze(one.x))

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
            Length of the last step, and the curvature of the objective along it.
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
            axis_of(self.grad).number(manifold.scale(self.x)),  # type: ignore[arg-type]
        )

    def at_boundary(self, manifold: Manifold, measures: Measures) -> Measures:
        """Return the measures with `pushed_inward`, which is computed only before a run ends.

        Parameters
        ----------
        manifold : Manifold
        measures : Measures
            The measures of this point. They are returned unchanged if the manifold has no boundary or the gradient is
            missing.
        """
        if not manifold.open or self.egrad is None:
            return measures
        return replace(measures, pushed_inward=axis_of(self.grad).number(manifold.pushed_inward(self.x, self.egrad)))


_parts = itemgetter(*Iterate._fields)


def evaluate(problem: Problem[Point], x: Point) -> Iterate[Point]:
    """Evaluate the objective and its gradients at a point.

    Parameters
    ----------
    problem : Problem
        A problem whose objective has ``value_and_gradient``, which is called once.
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
    manifold, axis = problem.manifold, problem.axis
    if not manifold.open:
        flat = axis.flatten(manifold.gradient(x, egrad))
        grad_norm = axis.length(flat)
        return Iterate(x, fun, egrad, flat, grad_norm, _rounded(axis, flat, grad_norm, egrad))
    with np.errstate(all="ignore"):
        gradient = manifold.gradient(x, egrad)
        flat = axis.flatten(gradient)
        length = axis.length(flat)
        if manifold.metric == "embedded":
            return Iterate(x, fun, egrad, flat, length, _in_units(axis, manifold, x, egrad))
        square, unit = manifold.inner(x, gradient, gradient), 1.0
        small = (0 <= square) & (square < SMALLEST[flat.dtype]) & (length > 0)
        if axis.any(small):  # squares have lost digits to underflow
            unit = axis.where(small, axis.power(length), 1.0)
            gradient = tree_map(lambda leaf: axis.over(leaf, unit), gradient)
            square = manifold.inner(x, gradient, gradient)
        grad_norm = unit * axis.where(square >= 0, abs(square), math.nan) ** 0.5
        # `egrad_norm` in the unit of the metric
        unit = axis.least(1.0, axis.ratio(length, grad_norm, 1.0))
    return Iterate(x, fun, egrad, flat, grad_norm, unit * _rounded(axis, flat, length, egrad))


def _in_units(axis: One | Rows, manifold: Manifold[Point], x: Point, egrad: Point) -> Scalar:
    """Return the norm of the Euclidean gradient, in units of the metric for open factors with small units."""
    if isinstance(manifold, Factored):
        parts = [_in_units(axis, f, a, g) for f, a, g in zip(manifold.factors, x, egrad, strict=True)]
        return math.hypot(*parts) if axis is ONE else sum(part**2 for part in parts) ** 0.5
    return axis.norm(egrad) * axis.least(1.0, axis.norm(x)) if manifold.open else axis.norm(egrad)


def _rounded(axis: One | Rows, grad: np.ndarray, grad_norm: Scalar, egrad: Point) -> Scalar:
    """Return the norm of the part of the Euclidean gradient whose rounding affects the Riemannian gradient.

    If the two norms differ much, the norm is that of the factor with the largest remaining fraction, without entries
    that are structurally zero (at bounds, or of a frozen factor); other factors do not determine the rounding.
    """
    whole = axis.norm(egrad)
    small = grad_norm <= 1000 * EPS[grad.dtype] * whole  # nobody asks elsewhere: `stationary` is a tenth of it
    if small is False or not axis.any(small) or not grad.size:
        return whole
    left, of, grad_norm = axis.take(small, grad, axis.flatten(egrad), grad_norm)
    # the factor whose Riemannian gradient is largest relative to the Euclidean one, over entries that can move
    sizes = tuple([leaf.size if axis is ONE else leaf[0].size for leaf in leaves(egrad)])
    left, of = left.astype(np.float64, copy=False), of.astype(np.float64, copy=False)
    with np.errstate(all="ignore"):
        squares = [sums_of_parts(v * v, sizes) for v in (left, np.where(left != 0, of, 0.0))]
        shares = np.sqrt(squares[0] / np.maximum(squares[1], 1e-300))
    share = axis.number(np.nan_to_num(shares, posinf=0.0).max(axis=-1))
    return axis.put(whole, small, axis.ratio(grad_norm, share, axis.take(small, whole)))


def try_point(problem: Problem[Point], at: Iterate, x: Point) -> Iterate:
    """Return the evaluation at a trial point; the value is infinite if linear algebra fails."""
    try:
        return evaluate(problem, x)
    except (np.linalg.LinAlgError, FloatingPointError):
        filled = problem.axis.filled
        return at._replace(x=x, fun=filled(x, math.inf), grad_norm=filled(x, math.nan))


def secant(product: Scalar, square: Scalar) -> Scalar | None:
    """Return the curvature ⟨s, y⟩/⟨s, s⟩ of a step; None (NaN for rows) for a step of zero."""
    if type(square) is np.ndarray:
        return ROWS.ratio(product, square, math.nan)
    return product / square if square > 0 else None


def step_curvature(problem: Problem[Point], x: Point, grad: np.ndarray, new: Iterate) -> float | None:
    """Return the curvature along any step from `x`, where the Riemannian gradient was `grad` (flat)."""
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

    In the embedded metric it is equivalent to `numpy.dot`. In other metrics it is ``manifold.inner`` without overflow
    warnings.

    Examples
    --------
    >>> import numpy as np, manifoldseq as ms
    >>> M = ms.manifolds.Product(ms.manifolds.Positive(1), ms.manifolds.Euclidean(1))
    >>> problem = ms.Problem(M, lambda x: (x[0] ** 2 + x[1] ** 2).sum())
    >>> dot = ms.solvers.inner_product(problem, (np.array([2.0]), np.array([5.0])))
    >>> dot(np.array([3.0, 1.0]), np.array([4.0, 1.0]))                       # 3 * 4 / 2**2 + 1 * 1
    4.0
    """
    manifold, axis = problem.manifold, problem.axis
    if manifold.metric == "embedded":
        return axis.dot_of(leaves(x)[0].dtype)
    tree = axis.tree(manifold.shape)

    def product(u: np.ndarray, v: np.ndarray) -> Scalar:
        with np.errstate(all="ignore"):
            return manifold.inner(x, tree(u), tree(v))

    return product


def random_direction(problem: Problem[Point], at: Iterate, rng: np.random.Generator) -> np.ndarray:
    """Return a random flat tangent vector, which is zero in coordinates with active bounds."""
    manifold, axis = problem.manifold, problem.axis
    v = axis.flatten(manifold.random_tangent(at.x, rng))
    free = manifold.free(at.x, at.egrad) if manifold.bounded else None
    return v if free is None else np.where(axis.flatten(free), v, v.dtype.type(0))


def retracted(problem: Problem[Point], x: Point, u: Point, kind: Retraction) -> Point:
    """Return the retraction of `u` at `x`, which may be non-finite (without a warning) for long vectors."""
    manifold = problem.manifold
    if not manifold.open and not callable(kind):
        return manifold.retract(x, u, kind)
    with np.errstate(all="ignore"):
        return kind(x, manifold.from_frame(x, u)) if callable(kind) else manifold.retract(x, u, kind)
