"""Array-valued constraints: their values, and products with their derivative."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.optimize import Bounds, LinearConstraint

from .._result import Tree
from ..execution._by_name import portable, remember
from ..linalg import dtype_of, flatten, freeze, leaves, tree_map, unflattener
from ._autodiff_autograd import ArrayByAutograd
from ._counted import checked_like
from ._objective import Objective, functions, number

Pullback = Callable[[np.ndarray], Any]


@dataclass(frozen=True, eq=False)
class Constraint:
    """A constraint of a problem whose value is a number or an array: h(x) = 0, or g(x) ≤ 0 in every entry.

    Attributes
    ----------
    value : callable
        ``value(point)``, a number or an array of any shape.
    linearize : callable
        ``linearize(point) -> (value, pull)``, where ``pull(w)`` is the Euclidean gradient of ``sum(w * value)``, in the
        structure of the point. `w` has the shape of the value.
    jacobian_product : callable, optional
        ``jacobian_product(point, vector)``, the derivative of the value along an ambient vector.
    hessian_product : callable, optional
        ``hessian_product(point, w, vector)``, the Euclidean Hessian of ``sum(w * value)`` along an ambient vector.
    jacobian : matrix or callable, optional
        The derivative with respect to the flat point, one row for each entry of the value: the constant matrix of a
        linear constraint, dense or sparse, or ``jacobian(point)``.
    costly_hessian : bool
        Whether `hessian_product` is computed by automatic differentiation, which costs as much as several gradients.
    """

    value: Callable[[Any], Any]
    linearize: Callable[[Any], tuple[Any, Pullback]]
    jacobian_product: Callable[[Any, Any], Any] | None = None
    hessian_product: Callable[[Any, Any, Any], Any] | None = None
    jacobian: Any = field(default=None, repr=False)
    costly_hessian: bool = False

    def __getstate__(self) -> dict[str, Any]:
        return {name: portable(value, "the constraint") for name, value in vars(self).items()}

    def __repr__(self) -> str:
        J: Any = self.jacobian
        return "Constraint()" if J is None or callable(J) else f"Constraint(linear, {J.shape[0]} entries)"

    def matrix(self, x: Any, count: int) -> Any:
        """Return the derivative of the `count` entries by the flat point as a matrix, or None if unknown."""
        J = self.jacobian
        return _checked_matrix(J(x), count, flatten(x).size) if callable(J) else J


def constraint(
    function: Callable[[Any], Any],
    vjp: Callable[[Any, np.ndarray], Any] | None = None,
    *,
    jacobian: Callable[[Any], Any] | None = None,
    jacobian_product: Callable[[Any, Any], Any] | None = None,
    hessian_product: Callable[[Any, np.ndarray, Any], Any] | None = None,
) -> Constraint:
    """Build a :class:`Constraint` from a function of the point that returns a number or an array.

    Parameters
    ----------
    function : callable
        ``function(point)``. Without `vjp` and `jacobian` it is differentiated by autograd and must be written with
        ``autograd.numpy``.
    vjp : callable, optional
        ``vjp(point, w)``, the Euclidean gradient of ``sum(w * function(point))`` in the structure of the point. `w` has
        the shape of the value.
    jacobian : callable, optional
        ``jacobian(point)``, the whole derivative: a matrix with one row for each entry of the value and one column for
        each entry of the flat point, as in ``scipy.optimize``. It can replace `vjp` or be passed in addition: the
        solver ``"sqp"`` needs all rows and evaluates the matrix once.
    jacobian_product : callable, optional
        ``jacobian_product(point, vector)``, the derivative of the value along an ambient vector.
    hessian_product : callable, optional
        ``hessian_product(point, w, vector)``, the Euclidean Hessian of ``sum(w * function(point))`` along a vector.
        Solvers that use second derivatives need both products. Autograd computes them if neither `vjp` nor `jacobian`
        is given.

    Returns
    -------
    Constraint
        A constraint for ``ms.Problem(…, equalities=…)`` or ``inequalities=…``. A plain function in these arguments is
        the same as ``ms.constraint(function)``.

    Examples
    --------
    The unit vector with nonnegative entries that is nearest to a given vector:

    >>> import numpy as np, manifoldseq as ms
    >>> target = np.array([1.0, -2.0, 1.0])
    >>> nonnegative = ms.constraint(lambda x: -x, vjp=lambda x, w: -w)
    >>> f = ms.objective(lambda x: -x @ target, lambda x: -target)
    >>> result = ms.minimize(ms.Problem(ms.manifolds.Sphere(3), f, inequalities=nonnegative), seed=0)
    >>> (result.x.round(4) + 0.0).tolist(), result.multipliers["inequalities"].round(4).tolist()
    ([0.7071, 0.0, 0.7071], [0.0, 2.0, 0.0])
    """
    if not callable(function):
        raise TypeError(f"ms.constraint needs a function of the point, got {function!r}")
    products = {"jacobian_product": jacobian_product, "hessian_product": hessian_product}
    functions("ms.constraint", vjp=vjp, jacobian=jacobian, **products)
    remember(function, vjp, jacobian, *products.values())
    if vjp is not None or jacobian is not None:
        if jacobian is not None and jacobian_product is None:
            jacobian_product = partial(_product_of_matrix, jacobian)
        by = partial(_with_vjp, function, vjp) if vjp is not None else partial(_with_jacobian, function, jacobian)
        return Constraint(function, by, jacobian_product, hessian_product, jacobian)
    by = ArrayByAutograd(function)
    return Constraint(
        by.array,
        by.linearize,
        jacobian_product or by.jacobian_product,
        hessian_product or by.weighted_hessian_product,
        costly_hessian=hessian_product is None,
    )


def constraint_of(given: Objective | Constraint) -> Constraint:
    """Return an objective as a constraint, whose value is one number."""
    if isinstance(given, Constraint):
        return given
    fused, product = given.value_and_gradient, given.hessian_product
    if fused is None:
        raise ValueError("has no gradient: pass it to ms.objective(…)")
    return Constraint(
        given.value,
        partial(_of_objective, fused),
        partial(_slope, fused),
        None if product is None else partial(_weighted, product),
        costly_hessian=given.costly_hessian,
    )


def checked(where: str, given: Constraint, x: Tree) -> tuple[np.ndarray, Pullback]:
    """Return the value at `x` in float64 and the pull-back of flat weights, both validated and copied.

    `where` names the constraint in the error message.
    """
    x = freeze(x)
    value, pull = given.linearize(x)
    array = real_array(where, value)

    def pulled(w: np.ndarray) -> Tree:
        return checked_like(pull(w.reshape(array.shape)), x, f"gradient of {where}")

    return np.array(array, float), pulled


def real_array(where: str, value: Any) -> np.ndarray:
    """Return the result of a function as an array of real numbers, or raise an error that names the function."""
    array = np.asarray(value) if not isinstance(value, tuple | list | dict | str | type(None)) else None
    if array is None or array.dtype.kind not in "fiu":
        size = f" of {len(value)} entries" if isinstance(value, tuple | list) else ""
        advice = ", such as autograd.numpy.stack of them" if size else ""
        if array is not None and array.dtype == object and not isinstance(array.flat[0] if array.size else None, str):
            size, advice = " of objects", ": autograd differentiates autograd.numpy.stack, but not numpy.stack"
        raise TypeError(
            f"{where} of the problem returned {type(value).__name__}{size or f' {value!r}'}: return a real number or "
            f"an array of real numbers{advice}"
        )
    return array


def is_of_scipy(given: Any) -> bool:
    """Return whether a constraint has one of scipy's classes that :func:`of_scipy` supports."""
    return isinstance(given, LinearConstraint | Bounds)


def of_scipy(given: LinearConstraint | Bounds, size: int) -> tuple[list[Constraint], list[Constraint]]:
    """Return the equalities and inequalities of scipy's constraint on the flat point, which has `size` entries."""
    linear = isinstance(given, LinearConstraint)
    A: Any = sp.csr_array(given.A) if linear and sp.issparse(given.A) else None
    A = A if A is not None else np.atleast_2d(np.asarray(given.A, float)) if linear else sp.eye_array(size).tocsr()
    if not np.isfinite(A.data if sp.issparse(A) else A).all():
        raise ValueError("the matrix of LinearConstraint has NaN or infinite entries")
    if A.shape[1] != size:
        raise ValueError(
            f"the matrix of LinearConstraint has {A.shape[1]} columns, but the flat point has {size} entries"
        )
    try:
        sides = [np.asarray(side, float) for side in (given.lb, given.ub)]
    except (TypeError, ValueError) as error:
        raise TypeError(f"{type(given).__name__} has bounds that are not numbers ({error})") from error
    try:
        low, high = (np.broadcast_to(side, A.shape[0]) for side in sides)
    except ValueError as error:
        raise ValueError(
            f"{type(given).__name__} has {A.shape[0]} entries, but its bounds have shapes {np.shape(given.lb)} and "
            f"{np.shape(given.ub)}"
        ) from error
    if np.any(low > high) or np.isnan(low).any() or np.isnan(high).any():
        raise ValueError(f"{type(given).__name__} has a bound that is NaN, or a lower bound above the upper bound")
    equal = low == high
    above, below = ~equal & np.isfinite(high), ~equal & np.isfinite(low)
    parts = [sign * A[rows] for sign, rows in ((1.0, above), (-1.0, below)) if rows.any()]
    ends = [sign * side[rows] for sign, side, rows in ((1.0, high, above), (-1.0, low, below)) if rows.any()]
    inequalities = []
    if parts:
        stacked = sp.vstack(parts).tocsr() if sp.issparse(parts[0]) else np.concatenate(parts)
        inequalities = [_linear(stacked, np.concatenate(ends))]
    return [_linear(A[equal], high[equal])] if equal.any() else [], inequalities


def _linear(A: Any, b: np.ndarray) -> Constraint:
    return Constraint(
        partial(_linear_value, A, b), partial(_linearized, A, b), partial(_linear_product, A), _no_curvature, A
    )


def _linear_product(A: Any, x: Tree, u: Tree) -> np.ndarray:
    return A @ flatten(u).astype(float)


def _linear_value(A: Any, b: np.ndarray, x: Tree) -> np.ndarray:
    return A @ flatten(x).astype(float) - b


def _linearized(A: Any, b: np.ndarray, x: Tree) -> tuple[np.ndarray, Pullback]:
    tree = unflattener(x)
    return _linear_value(A, b, x), lambda w: tree(np.asarray(A.T @ w))


def _no_curvature(x: Tree, w: np.ndarray, u: Tree) -> Tree:
    return tree_map(np.zeros_like, u)


def _with_vjp(function: Any, vjp: Any, x: Tree) -> tuple[Any, Pullback]:
    return function(x), partial(vjp, x)


def _checked_matrix(J: Any, count: int, size: int) -> np.ndarray:
    """Return the result of a jacobian as a matrix in float64."""
    matrix = real_array("the jacobian of a constraint", J.toarray() if sp.issparse(J) else J)
    if matrix.shape != (count, size):
        raise ValueError(
            f"the jacobian of a constraint has shape {matrix.shape}: return {(count, size)}, one row for each entry "
            "of the value, one column for each entry of the flat point"
        )
    return matrix.astype(float, copy=False)


def _with_jacobian(function: Any, jacobian: Any, x: Tree) -> tuple[Any, Pullback]:
    value = function(x)

    def pull(w: np.ndarray) -> Tree:
        row = w.reshape(-1) @ _checked_matrix(jacobian(x), w.size, flatten(x).size)
        return unflattener(x)(row.astype(dtype_of(x), copy=False))

    return value, pull


def _product_of_matrix(jacobian: Any, x: Tree, u: Tree) -> np.ndarray:
    return np.asarray(jacobian(x) @ flatten(u).astype(float))


def _of_objective(fused: Any, x: Tree) -> tuple[float, Pullback]:
    value, gradient = fused(x)
    gradient = checked_like(gradient, x, "gradient")  # an objective may reuse its own array
    return number(value), lambda w: tree_map(lambda leaf: leaf * leaf.dtype.type(float(w)), gradient)


def _slope(fused: Any, x: Tree, u: Tree) -> float:
    pairs = zip(leaves(fused(x)[1]), leaves(u), strict=True)
    return sum(float(np.sum(np.multiply(a, b, dtype=float))) for a, b in pairs)


def _weighted(product: Any, x: Tree, w: Any, u: Tree) -> Tree:
    return tree_map(lambda leaf: leaf * np.asarray(leaf).dtype.type(float(np.reshape(w, ()))), product(x, u))
