"""Diagonal matrices with bounded entries, kept as vectors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from .._result import Point
from ._base import Manifold, bound_of, size
from ._positive import OpenBox

_GEOMETRY = (
    *("metric", "bounded", "retractions", "second_order", "inner", "project", "gradient", "hessian", "retract"),
    *("transport", "nearest", "feasibility", "free", "random_point", "random_tangent", "descent_curve"),
    *("scale", "pushed_inward", "longest"),
)


@dataclass(frozen=True)
class BoundedDiagonal(Manifold):
    """Diagonals whose entries lie in [−bound, bound]; a point is the vector of length n.

    Parameters
    ----------
    n : int
    bound : float
        Greater than zero; below one it makes ``diag(x) @ V`` a stable transition matrix for every orthogonal V.
    method : {"project", "sigmoid"}
        How the bound is kept: by clipping with an active set, or by the free coordinate z in ``x = bound·tanh(z/2)``,
        with the metric of z. The second has no bounds to be active, and crawls where the optimum lies on one; it is
        there for comparison.

    Notes
    -----
    ``project`` is the identity; ``gradient`` drops components that push outward at an active bound, so its norm
    measures stationarity; ``retract`` and ``nearest`` clip, which is the bound normalization (18) of the LDS paper.

    Examples
    --------
    >>> import numpy as np, manifoldseq as ms
    >>> M = ms.manifolds.BoundedDiagonal(2, bound=0.5)
    >>> M.retract(np.array([0.4, 0.0]), np.array([0.3, 0.1])).tolist()
    [0.5, 0.1]
    """

    n: int
    bound: float = 0.99
    method: str = "project"
    bounded: ClassVar[bool] = True  # type: ignore[misc]
    retractions: ClassVar[tuple[str, ...]] = ("clip",)
    second_order: ClassVar[tuple[str, ...]] = ("clip",)

    def __post_init__(self) -> None:
        size("BoundedDiagonal", n=self.n)
        object.__setattr__(self, "bound", bound_of("BoundedDiagonal", self.bound, np.inf))
        if self.method not in ("project", "sigmoid"):
            raise ValueError(f'BoundedDiagonal(method={self.method!r}): give "project" or "sigmoid"')
        if self.method == "sigmoid":  # the same shape with another geometry; set once, so that the default pays nothing
            inside = OpenBox(self.n, self.bound)
            for name in _GEOMETRY:
                object.__setattr__(self, name, getattr(inside, name))

    @property
    def shape(self) -> tuple[int]:
        return (self.n,)

    @property
    def dim(self) -> int:
        return self.n

    def project(self, x: Point, u: Point) -> Point:
        return u

    def gradient(self, x: Point, egrad: Point) -> Point:
        return egrad * self.free(x, egrad)

    def hessian(self, x: Point, egrad: Point, ehess: Point, u: Point) -> Point:
        return ehess * self.free(x, egrad)

    def retract(self, x: Point, u: Point, kind: str | None = None) -> Point:
        if kind is not None:
            self._kind(kind)
        return self.nearest(x + u)

    def nearest(self, x: Point) -> Point:
        bound = x.dtype.type(self.bound)
        return np.minimum(np.maximum(x, -bound), bound)  # np.clip without its checks

    def feasibility(self, x: Point) -> Any:
        violation = np.maximum(np.abs(x).max(axis=-1) - x.dtype.type(self.bound), 0)
        return float(violation) if violation.ndim == 0 else violation

    def free(self, x: Point, egrad: Point) -> Any:
        return (np.abs(x) < x.dtype.type(self.bound)) | (x * egrad >= 0)

    def random_point(self, rng: np.random.Generator, dtype: Any = np.float64) -> Point:
        return rng.uniform(-self.bound, self.bound, self.n).astype(dtype)

    def descent_curve(self, x: Point, egrad: Point) -> Callable[[Any], Point]:
        return lambda step: self.nearest(x - x.dtype.type(step) * egrad)
