"""Riemannian trust regions."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, NamedTuple

import numpy as np

from .._problem import Problem
from .._result import Measures, Point, Status
from ..linalg import AXPY, flatten, freeze, unflattener
from ..manifolds import Manifold
from ._base import Solver, one_of, positive_numbers, whole_numbers
from ._hessian import Product, hessian_product
from ._iterates import Dot, Iterate, State, evaluate, inner_product, retracted, secant, try_point
from ._precondition import (
    Precondition,
    check_precondition,
    has_scales,
    no_scales,
    preconditioned,
    scale_of_entries,
    with_pair,
)
from ._saddle import leave_saddle, stationary

ACCEPT = 0.1
SHRINKINGS, AGAIN = 40, 2
"""How often a step may be shortened, and how often for the price of a path that is computed again."""


@dataclass(frozen=True)
class TR(Solver):
    """Riemannian trust regions with truncated conjugate gradients (Steihaug–Toint).

    One step minimizes the quadratic model of the objective inside a ball of the tangent space and retracts. A step with
    a poor prediction is shortened along the same conjugate-gradient path, without new Hessian products, until the
    objective decreases. The method converges superlinearly near a minimum. It is suitable if Hessian products are
    cheap.

    Parameters
    ----------
    hessian : {"auto", "exact", "finite-difference"}
        ``"exact"`` uses the objective's ``hessian_product``. ``"finite-difference"`` uses differences of two Riemannian
        gradients, the second transported back, with one evaluation per product. ``"auto"`` is ``"exact"`` if the
        objective has ``hessian_product`` and the manifold has a ``hessian``.
    radius : float, optional
        The first radius. The default is √dim / 8 or, with a preconditioner, the length of the preconditioned gradient.
    max_radius : float
        The maximum radius; the radius doubles as long as the model is good.
    max_inner : int, optional
        Maximum number of Hessian products per step; by default the dimension, at least 10.
    kappa, theta : float
        The path of a step ends when the residual is below ``min(kappa, (grad_norm / first grad_norm)**theta)`` times
        its initial value, in the norm of the preconditioner. The order of convergence is then ``1 + theta``. If the
        Hessian is singular, small tolerances have no benefit.
    retraction : str, optional
        A retraction of the manifold; by default the manifold's default retraction.
    precondition : callable, optional
        As in :class:`LBFGS`: an approximation of the inverse Hessian, for the conjugate gradients of a step. The trust
        region is a ball in the norm of the inverse preconditioner.

    Notes
    -----
    Metrics that are not embedded are evaluated by ``inner``. If the manifold has bounds, the path lies in the free
    coordinates, the retraction clips the step, and the model is evaluated at the clipped step (with one more product if
    clipping or curvature changed it). On a product without a preconditioner, every factor has a scale that is estimated
    in the first steps. Two vectors are stored for each of the first 16 Hessian products of a step.

    References
    ----------
    Absil, Baker, Gallivan, "Trust-region methods on Riemannian manifolds", Found. Comput. Math. 7 (2007), 303–330.

    Examples
    --------
    >>> import numpy as np, manifoldseq as ms
    >>> f = ms.objective(lambda x: 100 * (x[1] - x[0] ** 2) ** 2 + (1 - x[0]) ** 2)
    >>> problem = ms.Problem(ms.manifolds.Euclidean(2), f)
    >>> ms.minimize(problem, np.array([-1.2, 1.0]), solver="tr").x.round(3).tolist()
    [1.0, 1.0]
    """

    hessian: str = "auto"
    radius: float | None = None
    max_radius: float = math.inf
    max_inner: int | None = None
    kappa: float = 0.1
    theta: float = 0.5
    retraction: str | None = None
    precondition: Precondition | None = None
    curvature: ClassVar[bool] = True
    frames: ClassVar[bool] = True  # type: ignore[misc]
    trusted: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_precondition("TR", self.precondition)
        one_of("TR", ("auto", "exact", "finite-difference"), hessian=self.hessian)
        if self.max_inner is not None:
            whole_numbers("TR", max_inner=self.max_inner)
        positive_numbers("TR", kappa=self.kappa, theta=self.theta)
        if self.max_radius != math.inf:
            positive_numbers("TR", max_radius=self.max_radius)
        if self.radius is not None:
            positive_numbers("TR", radius=self.radius)

    @property
    def scale_free(self) -> bool:
        return True

    def init(self, problem: Problem[Point], point: Point) -> tuple[State, Measures]:
        """Return the state with the first radius."""
        if self.hessian == "exact" and problem.objective.hessian_product is None:
            raise ValueError(
                "TR(hessian='exact') needs hessian_product, which the objective does not have: "
                "pass it to ms.objective(…), or use hessian='finite-difference'"
            )
        if self.hessian == "exact" and problem.manifold.hessian is None:
            raise ValueError(
                f"TR(hessian='exact') needs hessian, which {problem.manifold!r} does not have: use hessian='auto', "
                "which then uses differences of gradients"
            )
        at = evaluate(problem, point)
        return self.started(problem, at), at.measures(problem.manifold)

    def started(self, problem: Problem, at: Iterate, radius: float | None = None) -> State:
        """Return the state of a new start at an iterate; `radius` replaces the option of the same name."""
        radius = self.radius if radius is None else radius
        first = problem.manifold.dim**0.5 / 8 if radius is None else radius
        state = at.state(radius=min(first, self.max_radius), reference=None, products=0)
        if self.precondition is None:
            state |= no_scales(problem, at)
        P, dot = self._preconditioner(problem, at, state), inner_product(problem, at.x)
        if P is not None:
            # in the norm of the inverse of P, along the first direction P g: of the given length, or the whole of P g
            z = P(at.grad)
            square, length = dot(at.grad, z), abs(dot(z, z)) ** 0.5
            if 0 < square < math.inf:
                state["radius"] = square**0.5 * (1.0 if radius is None else state["radius"] / length)
        return state

    def start_at(self, problem: Problem, state: State, at: Iterate) -> State:
        return {**state, **at._asdict(), "reference": None}

    def step(self, problem: Problem, state: State) -> tuple[State, Measures]:
        """Minimize the model in the ball; shorten the step until the objective decreases."""
        manifold = problem.manifold
        at = Iterate(*(state[name] for name in Iterate._fields))
        dot, tree = inner_product(problem, at.x), unflattener(at.x)
        if stationary(at):
            return leave_saddle(problem, state, at, self.retraction, partial(self.start_at, problem, state))
        product, error = hessian_product(problem, at, self.hessian, self.retraction)
        P = self._preconditioner(problem, at, state)
        path = _Path(at.grad, product, P, dot, self._most(manifold))
        size = path.squared**0.5
        state = {**state, "reference": state["reference"] or size}
        # the gradient is known to within its rounding error
        error = max(error, float(np.finfo(at.grad.dtype).eps) * at.egrad_norm / at.grad_norm)
        path.end = (self._goal(size / state["reference"], error) * size) ** 2
        slack = 50 * float(np.finfo(at.grad.dtype).eps) * abs(at.fun)
        radius: float = state["radius"]
        for k in range(SHRINKINGS):
            if k > AGAIN:
                radius = min(radius, path.kept_radius)
            s, curved, size, on_boundary = path.within(radius)
            straight = s, curved
            x = freeze(retracted(problem, at.x, tree(s), self.retraction))
            if manifold.bounded:
                s, curved = _as_moved(problem, at, x, s, curved, product)
            # the decrease of the model, −⟨g, s⟩ − ½⟨s, Hs⟩; the radius follows the share of it that the objective keeps
            predicted = -dot(at.grad, s) - 0.5 * dot(s, curved)
            if predicted > 0:
                new = try_point(problem, at, x)
                finite = math.isfinite(new.fun) and math.isfinite(new.grad_norm)
                # near the end a rise at rounding level counts as none; but not for a step shortened to nothing
                rounding = slack if radius > 1e-6 * state["radius"] else 0.0
                ratio = (at.fun - new.fun + rounding) / (predicted + rounding) if finite else -math.inf
                if ratio > ACCEPT:
                    if ratio > 0.75 and on_boundary:
                        radius = min(2 * radius, self.max_radius * size / abs(dot(s, s)) ** 0.5)
                    elif ratio < 0.25:
                        radius = 0.25 * size
                    square, state = dot(s, s), {**state, "radius": radius, "products": path.products}
                    if "scales" in state:
                        state |= self._learned(problem, at, *straight, size, state)
                    return {**state, **new._asdict()}, new.measures(
                        manifold, square**0.5, secant(dot(s, curved), square)
                    )
            radius = 0.25 * min(radius, size)
        return {**state, "products": path.products}, at.measures(manifold, status=Status.NO_DECREASE)

    def _preconditioner(self, problem: Problem, at: Iterate, state: State) -> Product | None:
        if self.precondition is not None:
            return partial(preconditioned, self.precondition, problem, at)
        if "scales" not in state or not has_scales(state):
            return None
        return partial(np.multiply, scale_of_entries(problem, state, at.grad.dtype))

    def _learned(
        self, problem: Problem, at: Iterate, s: np.ndarray, curved: np.ndarray, size: float, kept: State
    ) -> State:
        """Return the scales after a step s, and the radius in their norm; in the old norm, s has the length `size`."""
        scales = with_pair(problem, at, (s, curved), kept, self.hessian)
        if not has_scales(scales):
            return scales
        dot = inner_product(problem, at.x)
        length = abs(dot(s, s / scale_of_entries(problem, scales, s.dtype))) ** 0.5
        return {**scales, "radius": kept["radius"] * length / size}

    def _goal(self, share: float, error: float) -> float:
        """Return the relative residual at which a path may end, given the gradient relative to its first value."""
        return max(min(self.kappa, share**self.theta), 10 * error)

    def _most(self, manifold: Manifold) -> int:
        return max(manifold.dim, 10) if self.max_inner is None else self.max_inner


class _Piece(NamedTuple):
    """A straight piece of the conjugate-gradient path.

    Its direction d and the Hessian times it (None where they are not kept), how far it is followed (inf: no minimum),
    and of its start s the inner products ⟨d, d⟩, ⟨s, d⟩ and ⟨s, s⟩ in the norm of the inverse of the preconditioner.
    """

    direction: np.ndarray | None
    curved: np.ndarray | None
    alpha: float
    dd: float
    sd: float
    ss: float

    def reach(self, radius: float) -> float:
        """Return the positive root τ of ‖s + τ d‖ = radius: where the piece leaves the ball."""
        rest = self.ss - radius * radius
        if self.dd == 0.0:  # the square of the direction is below the number range: it leaves no ball
            return math.inf
        return (-self.sd + max(self.sd * self.sd - self.dd * rest, 0.0) ** 0.5) / self.dd


KEPT = 16
"""Pieces of a path whose two vectors are kept. A step that is shortened to a later one computes the path again."""


class _Path:
    """The path of conjugate gradients for H s = −g from zero, computed as far as it was followed.

    A shorter step costs no product, unless it ends on a piece that is not kept.
    """

    def __init__(self, grad: np.ndarray, product: Product, P: Product | None, dot: Dot, most: int) -> None:
        self.grad, self.product, self.P, self.dot, self.most = grad, product, P, dot, most
        self.end, self.products = 0.0, 0
        self.begin()
        if not 0 < self.squared < math.inf and P is not None:
            self.P = None
            self.begin()

    def begin(self) -> None:
        self.residual = self.grad.copy()  # g + H s
        self.z = self.grad if self.P is None else self.P(self.grad)
        self.squared = self.dot(self.grad, self.z)
        self.pieces: list[_Piece] = []

    @property
    def kept_radius(self) -> float:
        """The radius up to which a step costs no product."""
        if len(self.pieces) <= KEPT:
            return math.inf
        return abs(self.pieces[KEPT].ss) ** 0.5

    def within(self, radius: float) -> tuple[np.ndarray, np.ndarray, float, bool]:
        """Return the last point s inside the radius, H s, the length of s, and whether the ball ended the path."""
        ends = next((k for k, piece in enumerate(self.pieces) if piece.alpha >= piece.reach(radius)), len(self.pieces))
        if len(self.pieces) > KEPT and ends >= KEPT:
            self.begin()
        s, curved, size = np.zeros_like(self.residual), np.zeros_like(self.residual), 0.0
        axpy, n = AXPY[s.dtype], s.size
        for k in range(self.most):
            piece = self.pieces[k] if k < len(self.pieces) else self.next()
            if piece is None:
                break
            reach = piece.reach(radius)
            tau = min(piece.alpha, reach)
            axpy(piece.direction, s, n, tau)
            axpy(piece.curved, curved, n, tau)
            size = max(piece.ss + tau * (2 * piece.sd + tau * piece.dd), 0.0) ** 0.5
            if piece.alpha >= reach:
                return s, curved, size, True
        return s, curved, size, False

    def next(self) -> _Piece | None:
        """Add the next piece, None at the end of the path."""
        dot, residual = self.dot, self.residual
        axpy, n = AXPY[residual.dtype], residual.size
        if not self.pieces:
            direction, dd, sd, ss = -self.z, self.squared, 0.0, 0.0
        else:
            # d ← β d − z with z = P r and β = ⟨r⁺, z⁺⟩/⟨r, z⟩; r is orthogonal to s and d, which gives the products of
            # directions in the norm of the inverse of P
            last = self.pieces[-1]
            if last.alpha == math.inf:
                return None
            axpy(last.curved, residual, n, last.alpha)
            self.z = residual if self.P is None else self.P(residual)
            before, self.squared = self.squared, dot(residual, self.z)
            if not self.squared > self.end:
                return None
            beta = self.squared / before
            assert last.direction is not None
            direction = residual.dtype.type(beta) * last.direction
            axpy(self.z, direction, n, -1.0)
            dd, sd = self.squared + beta * beta * last.dd, beta * (last.sd + last.alpha * last.dd)
            ss = last.ss + last.alpha * (2 * last.sd + last.alpha * last.dd)
            if len(self.pieces) > KEPT:
                self.pieces[-1] = last._replace(direction=None, curved=None)
        curved = self.product(direction)
        self.products += 1
        curvature = dot(direction, curved)
        # where the curvature is not positive the model falls along d without end: the path leaves the ball on it
        alpha = self.squared / curvature if curvature > 0 else math.inf
        self.pieces.append(_Piece(direction, curved, alpha, dd, sd, ss))
        return self.pieces[-1]


def _as_moved(
    problem: Problem[Point], at: Iterate, x: Point, s: np.ndarray, curved: np.ndarray, product: Product
) -> tuple[np.ndarray, np.ndarray]:
    """Return the tangent step that the retraction with its bounds really took, and the Hessian times it."""
    moved = -flatten(problem.manifold.displacement(x, at.x))
    off = moved - s
    if np.dot(off, off) <= 1e-6 * np.dot(s, s) or not np.any(moved):
        return s, curved
    return moved, product(moved)
