"""Hyperbolic space, on the hyperboloid."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ._base import Manifold, _root, logarithmic_longest, size


@dataclass(frozen=True)
class Hyperbolic(Manifold[np.ndarray]):
    """Hyperbolic space of dimension n, where trees and hierarchies embed with little distortion.

    The hyperboloid (Lorentz) model: vectors x of length n + 1 with ``x₀ = √(1 + x₁² + … + xₙ²)``. Curvature −1.

    Parameters
    ----------
    n : int

    Notes
    -----
    The metric is the Lorentz product ``⟨u, v⟩ = −u₀v₀ + u₁v₁ + … + uₙvₙ``, which is positive on tangent vectors,
    ``⟨x, u⟩ = 0``. The retraction ``"exp"`` is the geodesic ``cosh|u| x + sinh|u| u/|u|``; distances are ``arcosh(−⟨x,
    y⟩)``. A point of the Poincaré ball is ``x[1:] / (1 + x₀)``. Beyond a distance of about 17 from the vertex (1, 0, …)
    float64 cannot distinguish ``x₀`` from ``|x[1:]|`` (5 in float32), and distances between such points are inaccurate.
    Source: Nickel, Kiela, "Learning continuous hierarchies in the Lorentz model of hyperbolic geometry", 2018.

    Examples
    --------
    >>> import numpy as np, manifoldseq as ms
    >>> M = ms.manifolds.Hyperbolic(2)
    >>> x, y = np.array([1.0, 0.0, 0.0]), np.array([np.cosh(2.0), np.sinh(2.0), 0.0])
    >>> round(M.dist(x, y), 12), M.log(x, y).round(12).tolist()
    (2.0, [0.0, 2.0, 0.0])
    """

    n: int
    metric: ClassVar[str] = "lorentz"  # type: ignore[misc]
    retractions: ClassVar[tuple[str, ...]] = ("exp",)
    second_order: ClassVar[tuple[str, ...]] = ("exp",)
    one_base: ClassVar[bool] = True  # type: ignore[misc]
    _example: ClassVar[tuple[Any, ...]] = (3,)

    def __post_init__(self) -> None:
        size("Hyperbolic", n=self.n)

    @property
    def shape(self) -> tuple[int]:
        return (self.n + 1,)

    @property
    def dim(self) -> int:
        return self.n

    @property
    def typical_distance(self) -> float:  # type: ignore[override]
        return math.sqrt(self.n)

    def inner(self, x: np.ndarray, u: np.ndarray, v: np.ndarray) -> Any:
        total = _metric(x, u, v)[..., 0]
        return float(total) if total.ndim == 0 else total

    def project(self, x: np.ndarray, u: np.ndarray) -> np.ndarray:
        # the normal of the hyperboloid is x, with ⟨x, x⟩ = −1
        return u + (_lorentz(x, u) * x).astype(u.dtype)

    def gradient(self, x: np.ndarray, egrad: np.ndarray) -> np.ndarray:
        return self.project(x, _raised(egrad))

    def euclidean_gradient(self, x: np.ndarray, u: np.ndarray) -> np.ndarray:
        return _raised(u)  # which is its own inverse

    def hessian(self, x: np.ndarray, egrad: np.ndarray, ehess: np.ndarray, u: np.ndarray) -> np.ndarray:
        return self.project(x, _raised(ehess)) + (_lorentz(x, _raised(egrad)) * u).astype(u.dtype)

    def retract(self, x: np.ndarray, u: np.ndarray, kind: str | None = None) -> np.ndarray:
        self._kind(kind)
        with np.errstate(over="ignore", invalid="ignore"):
            length = np.sqrt(_metric(x, u, u))
            y = np.cosh(length) * x + np.divide(np.sinh(length), length, out=np.ones_like(length), where=length > 0) * u
        return self.nearest(y.astype(x.dtype))

    def log(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        chord = _chord(x, y)
        side = chord + _lorentz(x, chord) * x
        length = np.sqrt(np.maximum(_lorentz(side, side), 0))
        angle = 2 * np.arcsinh(np.sqrt(np.maximum(_lorentz(chord, chord), 0)) / 2)
        return (np.divide(angle, length, out=np.ones_like(length), where=length > 0) * side).astype(x.dtype)

    def dist(self, x: np.ndarray, y: np.ndarray) -> Any:
        # |y − x| = 2 sinh(d/2) in the Lorentz product: nothing cancels where points are close
        chord = _chord(x, y)
        length = 2 * np.arcsinh(_root(_lorentz(chord, chord)[..., 0]) / 2)
        return float(length) if length.ndim == 0 else length

    def parallel_transport(self, x: np.ndarray, y: np.ndarray, u: np.ndarray) -> np.ndarray:
        return (u + _lorentz(y, u) / (1 - _lorentz(x, y)) * (x.astype(np.float64) + y)).astype(u.dtype)

    def nearest(self, x: np.ndarray) -> np.ndarray:
        """Return the point with the same last n coordinates."""
        with np.errstate(over="ignore", invalid="ignore"):
            first = np.sqrt(1 + np.sum(np.square(x[..., 1:], dtype=np.float64), axis=-1, keepdims=True))
            return np.concatenate([first.astype(x.dtype), x[..., 1:]], axis=-1)

    def feasibility(self, x: np.ndarray) -> Any:
        y = self.nearest(x)
        violation = np.abs(x[..., 0] - y[..., 0]) / y[..., 0].astype(np.float64)
        return float(violation) if violation.ndim == 0 else violation

    def longest(self, x: np.ndarray, u: np.ndarray) -> Any:
        return logarithmic_longest(self, x, u)

    def random_point(self, rng: np.random.Generator, dtype: Any = np.float64) -> np.ndarray:
        return self.nearest(rng.standard_normal(self.n + 1)).astype(dtype)


def _lorentz(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Return the Lorentz product with an axis of length one, summed in float64."""
    products = np.multiply(u, v, dtype=np.float64)
    return products[..., 1:].sum(axis=-1, keepdims=True) - products[..., :1]


def _metric(x: np.ndarray, u: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Return the Lorentz product of tangent vectors at x, with an axis of length one.

    Far from the vertex both of its terms are large, and their difference is rounding. Here u₀ = (x·u)/x₀ is used, with
    x, u and v without their first entries: along x the product is that of the components, divided by x₀².
    """
    axis = x[..., 1:].astype(np.float64)
    length = np.sqrt(np.sum(np.square(axis), axis=-1, keepdims=True))
    axis = np.divide(axis, length, out=np.zeros_like(axis), where=length > 0)
    u, v = u[..., 1:], v[..., 1:]
    along_u, along_v = (np.sum(axis * w, axis=-1, keepdims=True) for w in (u, v))
    across = np.sum((u - along_u * axis) * (v - along_v * axis), axis=-1, keepdims=True)
    return across + along_u * along_v / np.square(x[..., :1], dtype=np.float64)


def _raised(egrad: np.ndarray) -> np.ndarray:
    """Return the vector of a differential, which has the opposite first coordinate."""
    return np.concatenate([-egrad[..., :1], egrad[..., 1:]], axis=-1)


def _chord(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return y − x, whose first entry follows from the others: (|y|² − |x|²) / (y₀ + x₀) of the last entries."""
    x, y = np.broadcast_arrays(x.astype(np.float64, copy=False), y.astype(np.float64, copy=False))
    rest = y[..., 1:] - x[..., 1:]
    first = np.sum(rest * (y[..., 1:] + x[..., 1:]), axis=-1, keepdims=True) / (y[..., :1] + x[..., :1])
    return np.concatenate([first, rest], axis=-1)
