"""Residual blocks: many residuals that depend on few points each, and their least-squares objective."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any, ClassVar

import numpy as np

from .._quoted import quoted
from .._result import Tree
from ..execution._by_name import portable, remember
from ..linalg import leaves
from ..losses import Loss, loss_of
from ._autodiff_autograd import ArrayByAutograd
from ._constraint import real_array
from ._objective import Objective, functions

Slot = tuple[str | None, np.ndarray | None]


@dataclass(frozen=True, eq=False)
class Residuals:
    """K residuals of m entries; each residual is a function of the points of its slots. See :func:`residuals`.

    Attributes
    ----------
    function : callable
        ``function(*points) -> (K, m)``.
    on : tuple of (name, indices), or None
        The factor and the indices of each slot; None if the function takes the whole point.
    jacobian : callable, optional
        ``jacobian(*points)``, one array (K, m, a) or (K, m, d) per slot.
    value_and_jacobian : callable, optional
        The values and the Jacobians in one call.
    loss : Loss
    weights : ndarray, optional
    """

    function: Callable[..., Any]
    on: tuple[Slot, ...] | None
    jacobian: Callable[..., Any] | None
    value_and_jacobian: Callable[..., Any] | None
    loss: Loss
    weights: np.ndarray | None

    def __getstate__(self) -> dict[str, Any]:
        return {name: portable(value, "the residuals") for name, value in vars(self).items()}

    def value(self, points: Sequence[Tree], rows: int | None) -> np.ndarray:
        """Return the weighted residuals (K, m) at the points of the slots, in float64."""
        return self._weighted(self._two_axes(self.function(*points), rows)[..., None])[..., 0]

    def linearize(self, points: Sequence[Tree], rows: int | None) -> tuple[np.ndarray, list[np.ndarray]]:
        """Return the weighted residuals and, for each slot, their weighted derivatives (K, m, a or d)."""
        if self.value_and_jacobian is not None:
            both = self.value_and_jacobian(*points)
            if not isinstance(both, tuple | list) or len(both) != 2:
                raise TypeError("value_and_jacobian of residuals must return the pair (value, derivatives)")
            value, derivatives = both
        elif self.jacobian is not None:
            value, derivatives = self.function(*points), self.jacobian(*points)
        elif self.on is None:
            value, derivatives = _dense_jacobian(self.function, points)
        else:
            value, derivatives = _jacobians(self.function, points)
        r = self._two_axes(value, rows)
        if not isinstance(derivatives, tuple | list):
            derivatives = [derivatives]
        if len(derivatives) != len(points):
            raise ValueError(
                f"the jacobian of residuals returned {len(derivatives)} arrays for {len(points)} slots: return one "
                "array for each slot"
            )
        made = []
        for k, each in enumerate(derivatives):
            J = real_array("the jacobian of residuals", each).astype(float, copy=False)
            J = J.reshape(*r.shape, J.shape[-1]) if J.ndim and J.size == r.size * J.shape[-1] else J
            if J.ndim != 3 or J.shape[:2] != r.shape:
                raise ValueError(
                    f"the jacobian of residuals has shape {np.shape(each)} in slot {k}: return {r.shape} followed by "
                    "the number of entries or the dimension of a point"
                )
            made.append(self._weighted(J))
        return self._weighted(r[..., None])[..., 0], made

    def _two_axes(self, value: Any, rows: int | None) -> np.ndarray:
        r = real_array("a residual function", value).astype(float, copy=False)
        if rows is None:
            r = r.reshape(-1, 1) if r.ndim < 2 else r
        elif r.ndim == 1 and len(r) == rows:
            r = r[:, None]
        if r.ndim != 2 or r.size == 0 != rows or (rows is not None and len(r) != rows):
            wanted = "(K, m)" if rows is None else f"({rows}, m)"
            raise ValueError(
                f"residuals returned an array of shape {np.shape(value)}: return an array of shape {wanted} with at "
                "least one entry"
            )
        return r

    def _weighted(self, J: np.ndarray) -> np.ndarray:
        w = self.weights
        if w is None:
            return J
        K, m, _ = J.shape
        # the weights may broadcast to the residuals, but not the residuals to the weights
        allowed = ({1, K}, {m}, {m}) if w.ndim == 3 else ({1, K}, {1, m})[-w.ndim :]
        if not all(n in known for n, known in zip(w.shape, allowed, strict=True)):
            raise ValueError(
                f"weights of shape {w.shape} do not fit residuals of shape {(K, m)}: use {(m,)}, {(K, m)}, {(K, m, m)} "
                f"or {(1, m, m)}"
            )
        return w @ J if w.ndim == 3 else J * w[..., None]


@dataclass(frozen=True, eq=False)
class LeastSquares:
    """The blocks of a least-squares objective before a problem binds it to a manifold."""

    blocks: tuple[Residuals, ...]
    without_manifold: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if len({block.on is None for block in self.blocks}) > 1:
            raise ValueError(
                "residuals of the whole point and residuals with on=… cannot be combined: pass on=… for all of them"
            )

    def __add__(self, other: LeastSquares) -> LeastSquares:
        return LeastSquares(self.blocks + other.blocks)


def residuals(
    function: Callable[..., Any] | None = None,
    *,
    on: Any = None,
    jacobian: Callable[..., Any] | None = None,
    value_and_jacobian: Callable[..., Any] | None = None,
    loss: Loss | str | None = None,
    weights: Any = None,
) -> Residuals:
    """Describe residuals for :func:`least_squares`: K residuals of m entries that have the same form.

    Parameters
    ----------
    function : callable
        Without `on`, ``function(point)`` of the whole point, an array (K,) or (K, m). With `on`, ``function(*points)``
        of the points of the slots, each with a leading axis of length K, and the result has shape (K, m). Without a
        Jacobian, autograd differentiates the function.
    on : array of int, tuple (name, array of int), or tuple of these
        One slot per argument: the indices of the points of a ``Power`` that the K residuals depend on, with the name of
        the factor on a ``Product``. For a factor that is not a power, the slot is the name of the factor, and all
        residuals use its point.
    jacobian : callable, optional
        ``jacobian(*points)``: for each slot an array (K, m, a) of derivatives by the a entries of a point, or (K, m, d)
        in the coordinates of ``manifold.basis``.
    value_and_jacobian : callable, optional
        The values and the Jacobians in one call, for functions that share computations.
    loss : Loss or str, optional
        A loss of the squared norm of each of the K residuals, such as ``ms.losses.Cauchy(3.0)`` or ``"gnc"``. By
        default the squared norm itself is used.
    weights : array, optional
        Factors of the residuals, applied before the loss: (m,) or (K, m) for single entries (inverse standard
        deviations; (K, 1) where residuals have shape (K,)), (K, m, m) or (1, m, m) for square roots of information
        matrices.

    Returns
    -------
    Residuals

    Examples
    --------
    Rotations are estimated from relative rotations, and the first rotation is known:

    >>> import autograd.numpy as np, numpy, manifoldseq as ms
    >>> i, j = numpy.array([0, 1, 0]), numpy.array([1, 2, 2])
    >>> turn = numpy.array([[0.0, -1.0], [1.0, 0.0]])
    >>> measured = numpy.stack([turn, turn, turn @ turn])
    >>> def between(A, B):
    ...     return np.reshape(B - A @ measured, (3, 4))
    >>> M = ms.manifolds.Power(ms.manifolds.SpecialOrthogonal(2), 3, fixed=[0])
    >>> problem = ms.Problem(M, ms.least_squares(ms.residuals(between, on=(i, j))))
    >>> result = ms.minimize(problem, numpy.stack([numpy.eye(2)] * 3))
    >>> result.solver, (result.x[2].round(6) + 0.0).tolist()
    ('lm', [[-1.0, 0.0], [0.0, -1.0]])
    """
    if function is None and value_and_jacobian is None:
        raise TypeError("ms.residuals needs a function of points")
    functions("ms.residuals", function=function, jacobian=jacobian, value_and_jacobian=value_and_jacobian)
    remember(function, jacobian, value_and_jacobian)
    made = function if function is not None else partial(_first, value_and_jacobian)  # type: ignore[arg-type]
    if weights is not None:
        weights = np.asarray(weights)
        if weights.dtype.kind not in "fiu" or not np.isfinite(weights).all():
            raise ValueError(f"weights={quoted(weights)}: pass an array of finite real numbers")
        weights = weights.astype(float)
        if weights.ndim not in (1, 2, 3):
            raise ValueError(f"weights of shape {weights.shape}: use (m,), (K, m), (K, m, m) or (1, m, m)")
    slots = None if on is None else _slots(on)
    return Residuals(made, slots, jacobian, value_and_jacobian, loss_of(loss), weights)


def least_squares(*blocks: Residuals | Callable[[Any], Any]) -> Objective:
    """Return the objective ``½ Σ ρ(‖rₖ‖²)`` of residuals, for ``solver="lm"`` and every other solver.

    Parameters
    ----------
    *blocks : Residuals or callable
        The return values of :func:`residuals`, or functions of the whole point.

    Returns
    -------
    Objective
        Its value and gradient need the manifold and are available in a :class:`Problem`. It is equivalent to the
        objective of `scipy.optimize.least_squares`, except that scipy applies robust losses to single entries.

    Examples
    --------
    >>> import autograd.numpy as np, manifoldseq as ms
    >>> t = np.linspace(0, 1, 20)
    >>> y = 2 * np.exp(-3 * t)
    >>> fit = ms.least_squares(lambda x: x[0] * np.exp(x[1] * t) - y)
    >>> ms.minimize(ms.Problem(ms.manifolds.Euclidean(2), fit), np.array([1.0, -1.0])).x.round(6).tolist()
    [2.0, -3.0]
    """
    if not blocks:
        raise TypeError("ms.least_squares needs at least one block of ms.residuals(…)")
    for block in blocks:
        if not callable(block) and not isinstance(block, Residuals):
            raise TypeError(
                f"ms.least_squares needs functions that return residuals, got {quoted(block)}: pass the manifold to "
                "ms.Problem(manifold, ms.least_squares(f)), and the start to ms.minimize"
            )
    made = tuple([block if isinstance(block, Residuals) else residuals(block) for block in blocks])
    return Objective(_unbound, _unbound, residuals=LeastSquares(made))


def _unbound(x: Tree) -> Any:
    raise TypeError("a least-squares objective needs a manifold: create a Problem and use problem.objective")


def _first(both: Callable[..., Any], *points: Tree) -> Any:
    return both(*points)[0]


def _slots(on: Any) -> tuple[Slot, ...]:
    single = isinstance(on, str | np.ndarray) or (
        isinstance(on, list) and all(isinstance(k, int | np.integer) for k in on)
    )
    named = isinstance(on, tuple) and len(on) == 2 and isinstance(on[0], str) and not isinstance(on[1], str | tuple)
    if not single and (not isinstance(on, tuple | list) or not on):
        raise TypeError(
            f"on={quoted(on)}: pass an array of indices, a pair (name, indices), or a tuple with one slot per argument"
        )
    return tuple([_slot(one) for one in ((on,) if single or named else on)])


def _slot(one: Any) -> Slot:
    name, indices = (one, None) if isinstance(one, str) else one if isinstance(one, tuple) else (None, one)
    if indices is None:
        return name, None
    array = np.asarray(indices)
    if array.ndim != 1 or array.dtype.kind not in "iu" or not (name is None or isinstance(name, str)):
        raise TypeError(f"on=… has the slot {one!r}: use an array of indices, a name, or a pair (name, indices)")
    return name, array.astype(np.intp)


def _jacobians(function: Callable[..., Any], points: Sequence[Tree]) -> tuple[np.ndarray, list[np.ndarray]]:
    """Return the residuals (K, m) and their derivatives by the entries of the points: m passes of autograd."""
    value, pull = ArrayByAutograd(lambda all_: _stacked(function(*all_))).linearize(tuple(points))
    value, rows = real_array("a residual function", value), []
    if value.ndim != 2:
        return value, []
    for i in range(value.shape[1]):
        seed = np.zeros(value.shape)
        seed[:, i] = 1.0
        rows.append([_flat_rows(part) for part in pull(seed)])
    return value, [np.stack([row[s] for row in rows], axis=1) for s in range(len(points))]


def _flat_rows(tree: Tree) -> np.ndarray:
    """Return the entries of many points as rows (K, a)."""
    return np.concatenate([np.reshape(leaf, (len(leaf), math.prod(leaf.shape[1:]))) for leaf in leaves(tree)], axis=1)


def _stacked(value: Any) -> Any:
    return value[:, None] if np.ndim(value) == 1 else value


def _dense_jacobian(function: Callable[..., Any], points: Sequence[Tree]) -> tuple[np.ndarray, list[np.ndarray]]:
    """Return the residuals of the whole point and their derivative by its entries."""
    (x,) = points
    anp: Any = import_module("autograd.numpy")
    shape = real_array("a residual function", function(x)).shape
    if 0 in shape:
        return np.zeros(shape), []
    value, pull = ArrayByAutograd(lambda y: anp.reshape(function(y), (-1,))).linearize(x)
    rows = [np.concatenate([np.ravel(leaf) for leaf in leaves(pull(row))]) for row in np.eye(len(value))]
    return np.reshape(value, shape), [np.stack(rows)]
