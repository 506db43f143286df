"""What is measured of every contestant, by code that no contestant shares: stationarity, feasibility, time, counts."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manifoldseq.manifolds import (
    BoundedDiagonal,
    Euclidean,
    Grassmann,
    Manifold,
    Oblique,
    Orthogonal,
    Positive,
    Power,
    Simplex,
    SpecialOrthogonal,
    Sphere,
    Stiefel,
    SymmetricPositiveDefinite,
)

from ._problems import Case, Point

Array = NDArray[Any]
TOLERANCE = 1e-6


def parts(point: Point) -> tuple[Array, ...]:
    """Return the arrays of a point or tangent vector."""
    return tuple(point) if isinstance(point, tuple | list) else (point,)


def factors(manifold: Manifold) -> tuple[Manifold, ...]:
    """Return the factors that belong to the parts of a point."""
    return getattr(manifold, "factors", (manifold,))


def like(point: Point, arrays: Any) -> Point:
    """Return arrays in the structure of a point."""
    arrays = tuple(arrays)
    return arrays if isinstance(point, tuple) else arrays[0]


def gradient_norm(manifold: Manifold, x: Point, egrad: Point) -> float:
    """Return the norm of the Riemannian gradient in the metric of the surrounding space.

    In a box it is that of the projected step ``x − clip(x − g)``, which is also fair to points just inside an active
    bound, where methods that never touch it end.
    """
    total = 0.0
    for factor, X, G in zip(factors(manifold), parts(x), parts(egrad), strict=True):
        match factor:
            case Stiefel() | Orthogonal():
                XG = X.T @ G
                R = G - X @ ((XG + XG.T) / 2)
            case Grassmann():
                R = G - X @ (X.T @ G)
            case BoundedDiagonal():
                R = X - np.clip(X - G, -factor.bound, factor.bound)
            case Power(manifold=SpecialOrthogonal()):
                XG = np.einsum("kai,kaj->kij", X, G)
                R = G - X @ ((XG + XG.swapaxes(1, 2)) / 2)
            case SymmetricPositiveDefinite() | Power(manifold=SymmetricPositiveDefinite()):  # in its own metric
                L = np.linalg.cholesky(X)
                R = L.swapaxes(-1, -2) @ ((G + G.swapaxes(-1, -2)) / 2) @ L
            case Oblique() | Sphere():
                R = G - X * (X * G).sum(axis=0)
            case Simplex():  # in its own metric
                R = np.sqrt(X) * (G - (X * G).sum())
            case Positive():  # in its own metric
                R = X * G
            case Euclidean():
                R = G
            case _:
                raise TypeError(f"no independent gradient on {factor!r}")
        total += float(np.vdot(R, R))
    return total**0.5


def feasibility(manifold: Manifold, x: Point) -> float:
    """Return the largest of max|XᵀX − I| of orthonormal parts (over p in float64) and of what exceeds a bound."""
    worst = 0.0
    for factor, X in zip(factors(manifold), parts(x), strict=True):
        if not isinstance(factor, BoundedDiagonal | Stiefel | Orthogonal | Grassmann):
            worst = max(worst, float(factor.feasibility(X)))
        elif isinstance(factor, BoundedDiagonal):
            worst = max(worst, float(np.abs(X).max()) - float(X.dtype.type(factor.bound)))
        else:
            wide = X.astype(np.float64)
            columns = X.shape[1]
            off = float(np.abs(wide.T @ wide - np.eye(columns)).max())
            worst = max(worst, off / columns if X.dtype == np.float64 else off)
    return worst


@dataclass(frozen=True)
class Outcome:
    """One run: CPU seconds, true numbers of evaluated values, gradients and Hessian products, and where it ended."""

    seconds: float
    values: float
    gradients: float
    hessians: float
    relative: float
    fun: float
    feasibility: float
    settings: str = ""

    @property
    def solved(self) -> bool:
        """Whether the relative gradient norm is reached."""
        return self.relative <= TOLERANCE * (1 + 1e-6)


class Ended(Exception):
    """Ends a peer's run from inside its oracle."""


class Oracle:
    """The oracle that a peer calls: it counts, and ends the run at the first gradient that is small enough.

    So all peers stop by one rule, whatever tolerances they offer. The time of the rule itself is not charged.
    """

    def __init__(self, case: Case, limit: float) -> None:
        self.case, self.limit = case, limit
        self.scale = gradient_norm(case.manifold, case.start, case.gradient(case.start))
        self.values = self.gradients = self.hessians = 0
        self.best: tuple[float, Point] = np.inf, case.start
        self.uncharged = 0.0
        self.began = time.process_time()

    def cost(self, x: Point) -> float:
        """Return the value alone."""
        self.values += 1
        return self.case.cost(x)

    def gradient(self, x: Point) -> Point:
        """Return the gradient alone."""
        self.gradients += 1
        return self._judged(x, self.case.gradient(x))

    def fused(self, x: Point) -> tuple[float, Point]:
        """Return both from one evaluation."""
        self.values += 1
        self.gradients += 1
        value, gradient = self.case.fused(x)
        return value, self._judged(x, gradient)

    def hessian(self, x: Point, u: Point) -> Point:
        """Return the Hessian product, of a case that has one."""
        self.hessians += 1
        assert self.case.hessian is not None
        return self.case.hessian(x, u)

    def _judged(self, x: Point, gradient: Point) -> Point:
        paused = time.process_time()
        relative = gradient_norm(self.case.manifold, x, gradient) / self.scale
        if relative < self.best[0]:
            self.best = relative, like(self.case.start, (part.copy() for part in parts(x)))
        late = paused - self.began - self.uncharged > self.limit
        if relative <= TOLERANCE or late:
            self.seconds = paused - self.began - self.uncharged
            raise Ended
        self.uncharged += time.process_time() - paused
        return gradient

    def outcome(self, settings: str = "") -> Outcome:
        """Return the result of the run; call it when the run has ended or was stopped."""
        seconds = getattr(self, "seconds", time.process_time() - self.began - self.uncharged)
        relative, x = self.best
        off = feasibility(self.case.manifold, x)
        return Outcome(seconds, self.values, self.gradients, self.hessians, relative, self.case.cost(x), off, settings)
