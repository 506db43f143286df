"""Riemannian trust regions."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import ClassVar

import numpy as np

from .._problem import Problem
from .._result import Measures, Point, Status
from ..linalg._tree import flatten, freeze, unflattener
from ._base import Solver, positive_numbers, whole_numbers
from ._hessian import Product, hessian_product
from ._iterates import Dot, Iterate, State, evaluate, inner_product, retracted, secant, try_point
from ._saddle import leave_saddle, stationary


def _state_at(state: State, at: Iterate) -> State:
    return {**state, **at._asdict(), "reference": max(state["reference"], at.grad_norm)}


Piece = tuple[np.ndarray, np.ndarray, float]
"""A direction of the conjugate-gradient path, the Hessian times it, and how far it is followed (inf: no minimum)."""

ACCEPT = 0.1
SHRINKINGS = 40


@dataclass(frozen=True)
class TR(Solver):
    """Riemannian trust regions with truncated conjugate gradients (Steihaug–Toint).

    One step minimizes the quadratic model of the objective inside a ball of the tangent space and retracts. A step that
    the model predicted badly is shortened along the same conjugate-gradient path, without new Hessian products, until
    one decreases the objective. Converges superlinearly near a minimum; pays where Hessian products are cheap.

    Parameters
    ----------
    hessian : {"auto", "exact", "finite-difference"}
        Products from the objective's ``hessian_product``, or from differences of two Riemannian gradients, the second
        transported back (each is one evaluation); "auto" takes the first where the objective has it
        and the manifold has a ``hessian``.
    radius : float, optional
        First radius; √dim / 8 by default.
    max_radius : float
        The radius doubles up to this while the model is good.
    max_inner : int, optional
        Hessian products per step; the dimension by default, and not fewer than 10.
    kappa, theta : float
        A step's path ends where the residual is below ``min(kappa, (grad_norm / first grad_norm)**theta)`` times its
        first: convergence is of order ``1 + theta``, but a tight end is wasted where the Hessian is singular.
    retraction : str, optional
        A kind that the manifold knows; its default otherwise.

    Notes
    -----
    Metrics that are not embedded are asked through ``inner``. Where the manifold is bounded, the path lies in the free
    coordinates, the step is clipped by the retraction, and the model is taken at the clipped step (for one more product
    where clipping or curvature changed it). Two vectors are kept per Hessian product of a step.

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
    curvature: ClassVar[bool] = True
    frames: ClassVar[bool] = True  # type: ignore[misc]

    def __post_init__(self) -> None:
        if self.hessian not in ("auto", "exact", "finite-difference"):
            raise ValueError(f"TR(hessian={self.hessian!r}): choose 'auto', 'exact' or 'finite-difference'")
        if self.max_inner is not None:
            whole_numbers("TR", max_inner=self.max_inner)
        positive_numbers("TR", max_radius=self.max_radius, kappa=self.kappa, theta=self.theta)
        if self.radius is not None:
            positive_numbers("TR", radius=self.radius)

    @property
    def scale_free(self) -> bool:
        return True

    def init(self, problem: Problem[Point], point: Point) -> tuple[State, Measures]:
        """Return the state with the first radius."""
        if self.hessian == "exact" and problem.objective.hessian_product is None:
            raise ValueError(
                "TR(hessian='exact') needs hessian_product, which the objective lacks: give it with ms.objective(…), "
                "or use hessian='finite-difference'"
            )
        if self.hessian == "exact" and problem.manifold.hessian is None:
            raise ValueError(
                f"TR(hessian='exact') needs hessian, which {problem.manifold!r} lacks: use hessian='auto', which takes "
                "differences of gradients there"
            )
        at = evaluate(problem, point)
        radius = problem.manifold.dim**0.5 / 8 if self.radius is None else self.radius
        return {**at._asdict(), "radius": min(radius, self.max_radius), "reference": at.grad_norm}, at.measures(
            problem.manifold
        )

    def step(self, problem: Problem, state: State) -> tuple[State, Measures]:
        """Minimize the model in the ball; shorten the step until the objective decreases."""
        manifold = problem.manifold
        at = Iterate(*(state[name] for name in Iterate._fields))
        dot, tree = inner_product(problem, at.x), unflattener(at.x)
        if stationary(at):
            return leave_saddle(problem, state, at, self.retraction, partial(_state_at, state))
        product, error = hessian_product(problem, at, self.hessian, self.retraction)
        path = _Path(self._pieces(problem, at, product, error, state["reference"]), dot)
        slack = 50 * float(np.finfo(at.grad.dtype).eps) * abs(at.fun)
        radius: float = state["radius"]
        for _ in range(SHRINKINGS):
            s, curved, on_boundary = path.within(radius)
            length = dot(s, s) ** 0.5
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
                        radius = min(2 * radius, self.max_radius)
                    elif ratio < 0.25:
                        radius = 0.25 * length
                    state = {**new._asdict(), "radius": radius, "reference": state["reference"]}
                    return state, new.measures(manifold, length, secant(dot(s, curved), length * length))
            radius = 0.25 * min(radius, length)
        return state, at.measures(manifold, status=Status.NO_DECREASE)

    def _pieces(
        self, problem: Problem, at: Iterate, product: Product, error: float, reference: float
    ) -> Iterator[Piece]:
        """Yield the pieces of the conjugate-gradient path, from zero to where the model is solved well enough."""
        dot = inner_product(problem, at.x)
        # conjugate gradients for H s = −g from s = 0 (Steihaug): residual r = g + H s, direction d
        residual, direction = at.grad, -at.grad
        squared = first = dot(residual, residual)
        goal = max(min(self.kappa, (at.grad_norm / reference) ** self.theta), 10 * error)
        limit = max(problem.manifold.dim, 10) if self.max_inner is None else self.max_inner
        for _ in range(limit):
            curved = product(direction)
            curvature = dot(direction, curved)
            # along d the model falls without end: the path leaves the ball on it
            if not curvature > 0:
                yield direction, curved, math.inf
                return
            alpha = squared / curvature
            yield direction, curved, alpha
            residual = residual + alpha * curved
            last, squared = squared, dot(residual, residual)
            if squared <= goal**2 * first:
                return
            direction = (squared / last) * direction - residual


class _Path:
    """The conjugate-gradient path, computed as far as it was followed: a shorter step costs no product."""

    def __init__(self, pieces: Iterator[Piece], dot: Dot) -> None:
        self._known: list[Piece] = []
        self._pieces, self._dot = pieces, dot

    def within(self, radius: float) -> tuple[np.ndarray, np.ndarray, bool]:
        """Return the last point of the path inside the radius, the Hessian times it, and whether the ball ended it."""
        dot, s, curved = self._dot, None, None
        for direction, product, alpha in chain(tuple(self._known), self._more()):
            if s is None or curved is None:
                s, curved = np.zeros_like(direction), np.zeros_like(direction)
            # ‖s + τ d‖ = radius: the positive root of a τ² + 2 b τ + c
            a, b, c = dot(direction, direction), dot(s, direction), dot(s, s) - radius**2
            reach = (-b + max(b * b - a * c, 0.0) ** 0.5) / a
            tau = min(alpha, reach)
            s, curved = s + tau * direction, curved + tau * product
            if alpha >= reach:
                return s, curved, True
        assert s is not None and curved is not None
        return s, curved, False

    def _more(self) -> Iterator[Piece]:
        for piece in self._pieces:
            self._known.append(piece)
            yield piece


def _as_moved(
    problem: Problem[Point], at: Iterate, x: Point, s: np.ndarray, curved: np.ndarray, product: Product
) -> tuple[np.ndarray, np.ndarray]:
    """Return the tangent step that the retraction with its bounds really took, and the Hessian times it."""
    moved = -flatten(problem.manifold.displacement(x, at.x))
    off = moved - s
    if np.dot(off, off) <= 1e-6 * np.dot(s, s) or not np.any(moved):
        return s, curved
    return moved, product(moved)
