"""Arrays of norm one: the sphere, and matrices whose columns lie on it."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ._base import Manifold, _dot, _root, alike, known_component, size
from ._geodesics import carried_along, great_circle


class _UnitNorm(Manifold[np.ndarray]):
    """Arrays whose entries have norm one over some of the last axes, with the embedded metric."""

    retractions: ClassVar[tuple[str, ...]] = ("polar", "exp")
    second_order: ClassVar[tuple[str, ...]] = ("polar", "exp")
    one_base: ClassVar[bool] = True  # type: ignore[misc]

    @property
    @abstractmethod
    def _axes(self) -> tuple[int, ...]:
        """The axes of one norm, counted from the end."""

    @abstractmethod
    def _dot(self, u: np.ndarray, v: np.ndarray) -> Any:
        """Return the sums of products over these axes, which are kept, in float64."""

    def project(self, x: np.ndarray, u: np.ndarray) -> np.ndarray:
        # U − X⟨X, U⟩: the normal space at X is the line of X
        normal = x * self._dot(x, u).astype(u.dtype)
        return np.subtract(u, normal, out=normal)

    def hessian(self, x: np.ndarray, egrad: np.ndarray, ehess: np.ndarray, u: np.ndarray) -> np.ndarray:
        # P(D²f[U]) − ⟨X, G⟩U, the curvature of the sphere being one in every direction
        turned = u * self._dot(x, egrad).astype(u.dtype)
        return np.subtract(self.project(x, ehess), turned, out=turned)

    def retract(self, x: np.ndarray, u: np.ndarray, kind: str | None = None) -> np.ndarray:
        if self._kind(kind) == "polar":
            return self.nearest(x + u)
        # the great circle cos(θ)X + sin(θ)/θ U with θ = ‖U‖; sinc is smooth at θ = 0
        angle = np.sqrt(self._dot(u, u))
        return self.nearest(np.cos(angle).astype(x.dtype) * x + np.sinc(angle / np.pi).astype(x.dtype) * u)

    @property
    @abstractmethod
    def _circles(self) -> int:
        """The number of spheres."""

    @property
    def typical_distance(self) -> float:  # type: ignore[override]
        return math.pi * math.sqrt(self._circles)

    def log(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        arc = great_circle(x, y, self._axes)
        u = arc.angle * arc.direction
        if not self.dim:  # no way leads from 1 to −1
            u = np.where(arc.angle > 1, np.nan, u)
        return u.astype(x.dtype, copy=False)

    def dist(self, x: np.ndarray, y: np.ndarray) -> Any:
        angle = great_circle(x, y, self._axes).angle
        if not self.dim:
            angle = np.where(angle > 1, np.inf, angle)
        return _root(np.sum(angle**2, axis=tuple(range(-len(self.shape), 0))))

    def parallel_transport(self, x: np.ndarray, y: np.ndarray, u: np.ndarray) -> np.ndarray:
        return carried_along(great_circle(x, y, self._axes), x, u, self._axes).astype(u.dtype, copy=False)

    def inverse_retraction(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        # x + u is the multiple of y in the plane that touches the sphere at x, if y lies on this side
        height = self._dot(x, y)
        height = np.where(height > 0, height, np.nan)
        chord = y - x
        return ((chord - x * self._dot(x, chord)) / height).astype(x.dtype, copy=False)

    def nearest(self, x: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore"):
            square = self._dot(x, x)
        if not ((square > 1e-250) & (square < np.inf)).all():  # zero, or squares that leave the range
            scale = np.abs(x).max(axis=self._axes, keepdims=True)
            with np.errstate(invalid="ignore"):
                x = np.divide(x, scale, out=np.ones_like(x), where=scale != 0)
            square = self._dot(x, x)
        return (x / np.sqrt(square)).astype(x.dtype, copy=False)

    def scale(self, x: np.ndarray) -> Any:
        return alike(x, len(self.shape), self._circles**0.5)

    def feasibility(self, x: np.ndarray) -> Any:
        violation = np.abs(self._dot(x, x) - 1).max(axis=tuple(range(-len(self.shape), 0)))
        return float(violation) if violation.ndim == 0 else violation

    def random_point(self, rng: np.random.Generator, dtype: Any = np.float64) -> np.ndarray:
        return self.nearest(rng.standard_normal(self.shape)).astype(dtype)


@dataclass(frozen=True, init=False, repr=False)
class Sphere(_UnitNorm):
    """Arrays of a given shape and Frobenius norm one.

    Parameters
    ----------
    *shape : int
        ``Sphere(3)`` is the sphere in R³, of dimension 2, and ``Sphere(3, 2)`` contains matrices of norm one.

    Notes
    -----
    The metric is embedded. The retractions ``"polar"`` (default: add and divide by the norm) and ``"exp"`` (great
    circles) are of second order. ``Sphere(1)`` contains the two numbers ±1, which are its two components.

    Examples
    --------
    >>> import numpy as np, manifoldseq as ms
    >>> M = ms.manifolds.Sphere(2)
    >>> M.retract(np.array([1.0, 0.0]), np.array([0.0, np.pi / 2]), "exp").round(12).tolist()
    [0.0, 1.0]
    """

    sizes: tuple[int, ...]
    _example: ClassVar[tuple[Any, ...]] = (5,)

    def __init__(self, *shape: int) -> None:
        if not shape:
            raise ValueError("Sphere() needs at least one size, such as Sphere(3)")
        size("Sphere", **{f"shape[{k}]": n for k, n in enumerate(shape)})
        object.__setattr__(self, "sizes", tuple(int(n) for n in shape))

    def __repr__(self) -> str:
        return f"Sphere({', '.join(map(str, self.shape))})"

    @property
    def shape(self) -> tuple[int, ...]:
        return self.sizes

    @property
    def dim(self) -> int:
        return math.prod(self.shape) - 1

    @property
    def components(self) -> int:  # type: ignore[override]
        return 2 if self.dim == 0 else 1

    @property
    def _axes(self) -> tuple[int, ...]:
        return tuple(range(-len(self.shape), 0))

    def _dot(self, u: np.ndarray, v: np.ndarray) -> Any:
        k = len(self.sizes)
        return _dot(u, v, k)[..., *[None] * k]

    @property
    def _circles(self) -> int:
        return 1

    def to_component(self, x: np.ndarray, i: int) -> np.ndarray:
        known_component(self, i)
        return x if self.dim else np.full_like(x, 1 - 2 * i)


@dataclass(frozen=True)
class Oblique(_UnitNorm):
    """Matrices n×m whose columns have norm one: a dictionary of m atoms.

    Parameters
    ----------
    n, m : int

    Notes
    -----
    The set is the product of m spheres in R^n, stored as one array, with the retractions of :class:`Sphere`. For n = 1
    the entries are signs, and there are 2^m components: component i has −1 where the binary digits of i, the lowest
    first, are one.

    Examples
    --------
    >>> import numpy as np, manifoldseq as ms
    >>> ms.manifolds.Oblique(2, 2).nearest(np.array([[3.0, 0.0], [4.0, 2.0]])).tolist()
    [[0.6, 0.0], [0.8, 1.0]]
    """

    n: int
    m: int
    _example: ClassVar[tuple[Any, ...]] = (4, 3)

    def __post_init__(self) -> None:
        size("Oblique", n=self.n, m=self.m)

    @property
    def shape(self) -> tuple[int, int]:
        return self.n, self.m

    @property
    def dim(self) -> int:
        return (self.n - 1) * self.m

    @property
    def components(self) -> int:  # type: ignore[override]
        return 2**self.m if self.n == 1 else 1

    @property
    def _axes(self) -> tuple[int, ...]:
        return (-2,)

    def _dot(self, u: np.ndarray, v: np.ndarray) -> Any:
        return np.einsum("...ij,...ij->...j", u, v, dtype=np.float64)[..., None, :]

    @property
    def _circles(self) -> int:
        return self.m

    def to_component(self, x: np.ndarray, i: int) -> np.ndarray:
        known_component(self, i)
        if self.n > 1:
            return x
        return np.broadcast_to(1 - 2 * ((i >> np.arange(self.m)) & 1), x.shape).astype(x.dtype)
