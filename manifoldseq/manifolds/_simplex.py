"""Probability vectors, inside the simplex."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ._base import InFrame, Manifold, _root, logarithmic_longest, size
from ._geodesics import Arc, carried_along, great_circle


@dataclass(frozen=True, init=False, repr=False)
class Simplex(Manifold[np.ndarray]):
    """Positive arrays that sum to one along the last axis: mixture weights, responsibilities.

    Use it for optima in the interior of the simplex. If an entry of the optimum is zero, the iterates approach it, and
    the gradient norm of this metric vanishes there for any sign of the derivative: start in the interior, not near a
    face. Exact zeros need ``inequalities`` of the problem.

    Parameters
    ----------
    *shape : int
        ``Simplex(4)`` contains probability vectors of length 4, and ``Simplex(100, 4)`` matrices with a hundred of them
        as rows.

    Notes
    -----
    The Fisher metric ``<u, v> = Σ u v / x`` is the metric of the sphere of radius two under ``x = y²``. The retraction
    ``"exp"`` (default; great circles of y) is of second order. The retraction ``"softmax"``, ``x exp(u / x)`` divided
    by its sum, is of first order. No entry falls below the rounding unit. ``feasibility`` is one or more if an entry is
    not positive; ``nearest`` is the Euclidean projection. Source: Sun, Gao, Hong, Mishra, Yin, "Escaping from saddle
    points on Riemannian manifolds", 2019, and Manopt's ``multinomialfactory``.

    Examples
    --------
    >>> import numpy as np, manifoldseq as ms
    >>> counts = np.array([1.0, 2.0, 5.0])
    >>> f = ms.objective(lambda x: -float(counts @ np.log(x)), lambda x: -counts / x)
    >>> ms.minimize(ms.Problem(ms.manifolds.Simplex(3), f), seed=0).x.round(4).tolist()
    [0.125, 0.25, 0.625]
    """

    sizes: tuple[int, ...]
    metric: ClassVar[str] = "fisher"  # type: ignore[misc]
    retractions: ClassVar[tuple[str, ...]] = ("exp", "softmax")
    second_order: ClassVar[tuple[str, ...]] = ("exp",)
    one_base: ClassVar[bool] = True  # type: ignore[misc]
    _example: ClassVar[tuple[Any, ...]] = (3, 4)

    def __init__(self, *shape: int) -> None:
        if not shape:
            raise ValueError("Simplex() needs at least one size, such as Simplex(3)")
        size("Simplex", **{f"shape[{k}]": n for k, n in enumerate(shape)})
        object.__setattr__(self, "sizes", tuple(int(n) for n in shape))

    def __repr__(self) -> str:
        return f"Simplex({', '.join(map(str, self.shape))})"

    @property
    def shape(self) -> tuple[int, ...]:
        return self.sizes

    @property
    def dim(self) -> int:
        return math.prod(self.shape) - math.prod(self.shape[:-1])

    @property
    def frame(self) -> Manifold[np.ndarray] | None:
        """The simplex with coordinates ``u / √x``, which are twice the tangent vectors of the sphere of √x."""
        return _InFrame(*self.sizes)

    def project(self, x: np.ndarray, u: np.ndarray) -> np.ndarray:
        # Σ u = 0 for tangent vectors; in the Fisher metric Σ u v / x the line of x is normal to them
        return u - x * _sum(u).astype(u.dtype)

    def inner(self, x: np.ndarray, u: np.ndarray, v: np.ndarray) -> Any:
        root = np.sqrt(x)
        return super().inner(x, u / root, v / root)

    def gradient(self, x: np.ndarray, egrad: np.ndarray) -> np.ndarray:
        return x * self._centred(x, egrad)

    def hessian(self, x: np.ndarray, egrad: np.ndarray, ehess: np.ndarray, u: np.ndarray) -> np.ndarray:
        # x·D²f[u] and the derivative of the metric 1/x along u, half of which the connection takes off
        return self.project(x, x * ehess + x.dtype.type(0.5) * u * self._centred(x, egrad))

    def retract(self, x: np.ndarray, u: np.ndarray, kind: str | None = None) -> np.ndarray:
        return _moved(x, u / np.sqrt(x), self._kind(kind))

    def transport(self, x: np.ndarray, y: np.ndarray, u: np.ndarray) -> np.ndarray:
        """Return the projection of `u` at `y` on the sphere of √x."""
        return self.project(y, u * np.sqrt(y / x))

    @property
    def typical_distance(self) -> float:  # type: ignore[override]
        return math.pi * math.sqrt(math.prod(self.shape[:-1]))

    def exp(self, x: np.ndarray, u: np.ndarray) -> np.ndarray:
        return _moved(x, u / np.sqrt(x), "exp")

    def log(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        arc = _circle(x, y)
        return (2 * np.sqrt(x) * arc.angle * arc.direction).astype(x.dtype, copy=False)

    def dist(self, x: np.ndarray, y: np.ndarray) -> Any:
        angle = _circle(x, y).angle
        return _root(4 * np.sum(angle**2, axis=tuple(range(-len(self.shape), 0))))

    def parallel_transport(self, x: np.ndarray, y: np.ndarray, u: np.ndarray) -> np.ndarray:
        root = np.sqrt(x)
        return (np.sqrt(y) * carried_along(_circle(x, y), root, u / root, (-1,))).astype(u.dtype, copy=False)

    def nearest(self, x: np.ndarray) -> np.ndarray:
        if not np.any(self.feasibility(x)):
            return x
        # max(x − t, 0) with the t that makes the sum one: of the sums of the k largest entries less one, over k, the
        # last that is below its entry (Held, Wolfe and Crowder 1974)
        ordered = -np.sort(-x.astype(np.float64, copy=False), axis=-1)
        thresholds = (np.cumsum(ordered, axis=-1) - 1) / np.arange(1, x.shape[-1] + 1)
        last = np.sum(ordered > thresholds, axis=-1, keepdims=True) - 1
        return _normalized(np.maximum(x - np.take_along_axis(thresholds, last, axis=-1), 0)).astype(x.dtype, copy=False)

    def feasibility(self, x: np.ndarray) -> Any:
        axes = tuple(range(-len(self.shape), 0))
        low = x.min(axis=axes)
        violation = np.maximum(np.abs(_sum(x) - 1).max(axis=axes), np.where(low > 0, 0, 1 - low))
        return float(violation) if violation.ndim == 0 else violation

    def pushed_inward(self, x: np.ndarray, egrad: np.ndarray) -> Any:
        gain = -self._centred(x, egrad).min(axis=tuple(range(-len(self.shape), 0)))
        gain = np.maximum(gain, 0)
        return float(gain) if gain.ndim == 0 else gain

    def longest(self, x: np.ndarray, u: np.ndarray) -> Any:
        return logarithmic_longest(self, x, u)

    def random_point(self, rng: np.random.Generator, dtype: Any = np.float64) -> np.ndarray:
        return _normalized(rng.exponential(size=self.shape)).astype(dtype)

    def random_tangent(self, x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return self.project(x, np.sqrt(x) * rng.standard_normal(x.shape).astype(x.dtype))

    def _centred(self, x: np.ndarray, egrad: np.ndarray) -> np.ndarray:
        return egrad - _sum(x * egrad).astype(egrad.dtype)


class _InFrame(InFrame[np.ndarray], Simplex):
    def to_frame(self, x: np.ndarray, u: np.ndarray) -> np.ndarray:
        return u / np.sqrt(x)

    def from_frame(self, x: np.ndarray, c: np.ndarray) -> np.ndarray:
        return c * np.sqrt(x)

    def project(self, x: np.ndarray, u: np.ndarray) -> np.ndarray:
        root = np.sqrt(x)
        return u - root * _sum(root * u).astype(u.dtype)

    def gradient(self, x: np.ndarray, egrad: np.ndarray) -> np.ndarray:
        return np.sqrt(x) * self._centred(x, egrad)

    def hessian(self, x: np.ndarray, egrad: np.ndarray, ehess: np.ndarray, u: np.ndarray) -> np.ndarray:
        return self.project(x, np.sqrt(x) * ehess + x.dtype.type(0.5) * u * self._centred(x, egrad))

    def retract(self, x: np.ndarray, u: np.ndarray, kind: str | None = None) -> np.ndarray:
        return _moved(x, u, self._kind(kind))

    def random_tangent(self, x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return self.project(x, rng.standard_normal(x.shape).astype(x.dtype))


def _moved(x: np.ndarray, c: np.ndarray, kind: str | None) -> np.ndarray:
    """Return the point reached along coordinates c: on a great circle of √x, or by the softmax."""
    root = np.sqrt(x)
    if kind == "softmax":
        exponent = c / root
        y = x * np.exp(exponent - exponent.max(axis=-1, keepdims=True))
    else:
        # twice √x lies on a sphere, where the metric is the embedded one: its great circle, squared entry by entry
        velocity = c / 2
        angle = np.sqrt(_sum(np.square(velocity, dtype=np.float64)))
        y = (np.cos(angle) * root + np.sinc(angle / np.pi) * velocity) ** 2
    return _normalized(y).astype(x.dtype, copy=False)


def _circle(x: np.ndarray, y: np.ndarray) -> Arc:
    """Return the great circle from √x to √y."""
    return great_circle(np.sqrt(x, dtype=np.float64), np.sqrt(y, dtype=np.float64), (-1,))


def _sum(x: np.ndarray) -> np.ndarray:
    return np.add.reduce(x, axis=-1, keepdims=True, dtype=np.float64)


def _normalized(x: np.ndarray) -> np.ndarray:
    """Divide by the sum, with the rounding unit of the dtype as lower bound of entries."""
    x = np.maximum(x / _sum(x), np.finfo(x.dtype).eps)
    return x / _sum(x)
