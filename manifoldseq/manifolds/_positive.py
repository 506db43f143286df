"""Open sets of arrays whose entries are parametrized by a line: positive numbers, and the inside of a box."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ._base import InFrame, Manifold, _root, bound_of, logarithmic_longest, size
from ._geodesics import growth


class _Entrywise(Manifold[np.ndarray]):
    """Arrays with entries x(z) for z on a line, with the metric of z, in which every geodesic is straight.

    With the rate ``s(x) = dx/dz``, the metric is ``<u, v> = Σ u v / s²``. Bounds are never active, because they are
    infinitely far away.
    """

    retractions: ClassVar[tuple[str, ...]] = ("exp",)
    second_order: ClassVar[tuple[str, ...]] = ("exp",)
    one_base: ClassVar[bool] = True  # type: ignore[misc]

    @abstractmethod
    def _rate(self, x: np.ndarray) -> np.ndarray:
        """Return dx/dz."""

    @abstractmethod
    def _bend(self, x: np.ndarray) -> Any:
        """Return the derivative of the rate by x."""

    @abstractmethod
    def _moved(self, x: np.ndarray, z: np.ndarray) -> np.ndarray:
        """Return the entries after a move of z along the line."""

    @abstractmethod
    def _between(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return the move of z that leads from x to y."""

    @abstractmethod
    def _outside(self, x: np.ndarray) -> np.ndarray:
        """Return the distance of each entry beyond the bound, which is negative inside."""

    @property
    def dim(self) -> int:
        return math.prod(self.shape)

    def project(self, x: np.ndarray, u: np.ndarray) -> np.ndarray:
        return u

    def inner(self, x: np.ndarray, u: np.ndarray, v: np.ndarray) -> Any:
        rate = self._rate(x)
        return super().inner(x, u / rate, v / rate)

    def gradient(self, x: np.ndarray, egrad: np.ndarray) -> np.ndarray:
        rate = self._rate(x)
        return rate * (rate * egrad)  # the square may leave the range of numbers

    def hessian(self, x: np.ndarray, egrad: np.ndarray, ehess: np.ndarray, u: np.ndarray) -> np.ndarray:
        # d²/dz² of f(x(z)) is s² f'' + s s' f'; back in ambient coordinates u = s dz that is s(s f''[u] + s' f' u)
        rate = self._rate(x)
        return rate * (rate * ehess + self._bend(x) * egrad * u)

    def retract(self, x: np.ndarray, u: np.ndarray, kind: str | None = None) -> np.ndarray:
        self._kind(kind)
        return self._moved(x, u / self._rate(x))

    def transport(self, x: np.ndarray, y: np.ndarray, u: np.ndarray) -> np.ndarray:
        # dz = u/s(x) stays what it is: in the coordinate z parallel transport is the identity
        return self.parallel_transport(x, y, u)

    @property
    def typical_distance(self) -> float:  # type: ignore[override]
        return math.sqrt(self.dim)

    def exp(self, x: np.ndarray, u: np.ndarray) -> np.ndarray:
        return self._moved(x, u / self._rate(x))

    def log(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return self._rate(x) * self._between(x, y)

    def dist(self, x: np.ndarray, y: np.ndarray) -> Any:
        z = self._between(x, y)
        return _root(Manifold.inner(self, x, z, z))

    def parallel_transport(self, x: np.ndarray, y: np.ndarray, u: np.ndarray) -> np.ndarray:
        return u * (self._rate(y) / self._rate(x))

    def feasibility(self, x: np.ndarray) -> Any:
        out = self._outside(x).max(axis=tuple(range(-len(self.shape), 0)))
        violation = np.where(out < 0, 0.0, 1.0 + out)
        return float(violation) if violation.ndim == 0 else violation

    def pushed_inward(self, x: np.ndarray, egrad: np.ndarray) -> Any:
        gain = self._inward(x, egrad).max(axis=tuple(range(-len(self.shape), 0)))
        return float(gain) if gain.ndim == 0 else gain

    @abstractmethod
    def _inward(self, x: np.ndarray, egrad: np.ndarray) -> np.ndarray:
        """Return the first-order decrease of the objective if an entry moved to the other end of its line."""

    def longest(self, x: np.ndarray, u: np.ndarray) -> Any:
        return logarithmic_longest(self, x, u)

    def random_tangent(self, x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return self._rate(x) * rng.standard_normal(x.shape).astype(x.dtype)


class _InFrame(InFrame[np.ndarray], _Entrywise):
    """The metric in coordinates, which are velocities of z."""

    def to_frame(self, x: np.ndarray, u: np.ndarray) -> np.ndarray:
        return u / self._rate(x)

    def from_frame(self, x: np.ndarray, c: np.ndarray) -> np.ndarray:
        return c * self._rate(x)

    def project(self, x: np.ndarray, u: np.ndarray) -> np.ndarray:
        return u

    def gradient(self, x: np.ndarray, egrad: np.ndarray) -> np.ndarray:
        return self._rate(x) * egrad

    def hessian(self, x: np.ndarray, egrad: np.ndarray, ehess: np.ndarray, u: np.ndarray) -> np.ndarray:
        rate = self._rate(x)
        return rate * ehess + self._bend(x) * egrad * (rate * u)

    def retract(self, x: np.ndarray, u: np.ndarray, kind: str | None = None) -> np.ndarray:
        self._kind(kind)
        return self._moved(x, u)

    def random_tangent(self, x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return rng.standard_normal(x.shape).astype(x.dtype)


@dataclass(frozen=True, init=False, repr=False)
class Positive(_Entrywise):
    """Arrays of positive numbers: variances, weights, scales.

    Steps are multiplicative, so that a problem is the same in any unit and no step leaves the set. If the optimum has
    zeros, the iterates approach them and never reach them: use bounds in this case.

    Parameters
    ----------
    *shape : int
        ``Positive(3)`` are vectors of length 3.

    Notes
    -----
    The metric is the affine-invariant metric ``<u, v> = Σ u v / x²``, which is the metric of log x. The retraction
    ``"exp"``, ``x exp(u / x)``, is the geodesic of this metric (one step multiplies an entry by at most 1/√eps), and
    the transport is parallel transport. The set is open: ``feasibility`` is one or more if an entry is not positive,
    and ``nearest`` replaces such entries by the rounding unit.

    Examples
    --------
    >>> import numpy as np, manifoldseq as ms
    >>> M = ms.manifolds.Positive(2)
    >>> M.retract(np.array([1.0, 10.0]), np.array([1.0, 10.0])).round(3).tolist()
    [2.718, 27.183]
    """

    sizes: tuple[int, ...]
    metric: ClassVar[str] = "affine-invariant"  # type: ignore[misc]
    _example: ClassVar[tuple[Any, ...]] = (5,)

    def __init__(self, *shape: int) -> None:
        if not shape:
            raise ValueError("Positive() needs at least one size, such as Positive(3)")
        size("Positive", **{f"shape[{k}]": n for k, n in enumerate(shape)})
        object.__setattr__(self, "sizes", tuple(int(n) for n in shape))

    def __repr__(self) -> str:
        return f"Positive({', '.join(map(str, self.shape))})"

    @property
    def shape(self) -> tuple[int, ...]:
        return self.sizes

    @property
    def frame(self) -> Manifold[np.ndarray] | None:
        """Coordinates ``u / x``."""
        return _PositiveInFrame(*self.sizes)

    def nearest(self, x: np.ndarray) -> np.ndarray:
        return np.where(x > 0, x, np.finfo(x.dtype).eps) if not np.all(x > 0) else x

    def random_point(self, rng: np.random.Generator, dtype: Any = np.float64) -> np.ndarray:
        return np.exp(rng.standard_normal(self.shape)).astype(dtype)

    def _rate(self, x: np.ndarray) -> np.ndarray:
        return x

    def _bend(self, x: np.ndarray) -> Any:
        return x.dtype.type(1)

    def exp(self, x: np.ndarray, u: np.ndarray) -> np.ndarray:
        return x * np.exp(u / x)  # as far as numbers reach, unlike the retraction

    def _moved(self, x: np.ndarray, z: np.ndarray) -> np.ndarray:
        return np.maximum(x * growth(z), np.finfo(x.dtype).tiny)

    def _between(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        part = (y - x) / x
        near = np.abs(part) < 0.5
        return np.where(near, np.log1p(np.where(near, part, 0)), np.log(y) - np.log(x))

    def _outside(self, x: np.ndarray) -> np.ndarray:
        return np.where(x > 0, -1.0, -x)

    def _inward(self, x: np.ndarray, egrad: np.ndarray) -> np.ndarray:
        # there is no other end: the largest entry is the way
        return np.maximum(-egrad, 0) * x.max(axis=tuple(range(-len(self.shape), 0)), keepdims=True)


@dataclass(frozen=True)
class OpenBox(_Entrywise):
    """Vectors with entries inside (−bound, bound): ``x = bound·tanh(z/2)`` with a free coordinate z.

    No bound is ever active, and iterates converge slowly if the optimum lies on a bound. In this case use
    `BoundedDiagonal`.

    Parameters
    ----------
    n : int
    bound : float
        The bound, greater than zero.

    Notes
    -----
    The metric is the metric of z, ``<u, v> = Σ u v / s²`` with ``s = (bound − x)(bound + x) / (2·bound)``; the
    retraction ``"exp"`` is its geodesic. ``feasibility`` is one or more if an entry is on a bound or beyond it.

    Examples
    --------
    >>> import numpy as np, manifoldseq as ms
    >>> M = ms.manifolds.OpenBox(2, bound=0.5)
    >>> M.retract(np.array([0.4, 0.0]), np.array([0.3, 0.1])).round(3).tolist()
    [0.496, 0.099]
    """

    n: int
    bound: float = 0.99
    metric: ClassVar[str] = "logit"  # type: ignore[misc]
    _example: ClassVar[tuple[Any, ...]] = (5,)

    def __post_init__(self) -> None:
        size("OpenBox", n=self.n)
        object.__setattr__(self, "bound", bound_of("OpenBox", self.bound, np.inf))

    @property
    def shape(self) -> tuple[int]:
        return (self.n,)

    @property
    def frame(self) -> Manifold[np.ndarray] | None:
        """Coordinates ``u / s``."""
        return _OpenBoxInFrame(self.n, self.bound)

    def nearest(self, x: np.ndarray) -> np.ndarray:
        inside = x.dtype.type(self.bound) * (1 - 2 * np.finfo(x.dtype).eps)
        return np.clip(x, -inside, inside)

    def random_point(self, rng: np.random.Generator, dtype: Any = np.float64) -> np.ndarray:
        return self.nearest(rng.uniform(-self.bound, self.bound, self.n).astype(dtype))

    def _rate(self, x: np.ndarray) -> np.ndarray:
        bound = x.dtype.type(self.bound)
        return (bound - x) * (bound + x) / (2 * bound)

    def _bend(self, x: np.ndarray) -> Any:
        return x / x.dtype.type(-self.bound)

    def _moved(self, x: np.ndarray, z: np.ndarray) -> np.ndarray:
        # the addition theorem tanh(y + z) = (a + b)/(1 + ab): no logarithm of x near a bound
        bound = x.dtype.type(self.bound)
        a, b = x / bound, np.tanh(z / 2)
        return self.nearest(bound * (a + b) / (1 + a * b))

    def _between(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        # z = 2 artanh((b − a)/(1 − ab)), and where that quotient is near one, the logarithm of its factors
        bound = x.dtype.type(self.bound)
        part = bound * (y - x) / (bound * bound - x * y)
        near = np.abs(part) < 0.5
        far = np.log((bound + y) / (bound - y)) - np.log((bound + x) / (bound - x))
        return np.where(near, 2 * np.arctanh(np.where(near, part, 0)), far)

    def _outside(self, x: np.ndarray) -> np.ndarray:
        bound = x.dtype.type(self.bound)
        return np.where(np.abs(x) < bound, -1.0, np.abs(x) - bound)

    def _inward(self, x: np.ndarray, egrad: np.ndarray) -> np.ndarray:
        bound = x.dtype.type(self.bound)
        return np.where(egrad > 0, egrad * (x + bound), -egrad * (bound - x))


class _PositiveInFrame(_InFrame, Positive):
    pass


class _OpenBoxInFrame(_InFrame, OpenBox):
    pass
