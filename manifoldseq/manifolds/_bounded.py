"""Diagonal matrices with bounded entries, kept as vectors."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ._base import Manifold, bound_of, size


@dataclass(frozen=True)
class BoundedDiagonal(Manifold[np.ndarray]):
    """Diagonals whose entries lie in [−bound, bound]; a point is the vector of length n.

    Parameters
    ----------
    n : int
    bound : float
        Greater than zero; below one it makes ``diag(x) @ V`` a stable transition matrix for every orthogonal V.

    Notes
    -----
    The bound is kept by clipping, with an active set: ``project`` is the identity; ``gradient`` drops components that
    push outward at an active bound, so its norm measures stationarity; ``retract`` and ``nearest`` clip, which is the
    bound normalization (18) of the LDS paper.

    Examples
    --------
    >>> import numpy as np, manifoldseq as ms
    >>> M = ms.manifolds.BoundedDiagonal(2, bound=0.5)
    >>> M.retract(np.array([0.4, 0.0]), np.array([0.3, 0.1])).tolist()
    [0.5, 0.1]
    """

    n: int
    bound: float = 0.99
    bounded: ClassVar[bool] = True  # type: ignore[misc]
    retractions: ClassVar[tuple[str, ...]] = ("clip",)
    second_order: ClassVar[tuple[str, ...]] = ("clip",)
    one_base: ClassVar[bool] = True  # type: ignore[misc]
    _example: ClassVar[tuple[Any, ...]] = (5,)

    def __post_init__(self) -> None:
        size("BoundedDiagonal", n=self.n)
        object.__setattr__(self, "bound", bound_of("BoundedDiagonal", self.bound, np.inf))

    @property
    def shape(self) -> tuple[int]:
        return (self.n,)

    @property
    def dim(self) -> int:
        return self.n

    def project(self, x: np.ndarray, u: np.ndarray) -> np.ndarray:
        return u

    def gradient(self, x: np.ndarray, egrad: np.ndarray) -> np.ndarray:
        return egrad * self.free(x, egrad)

    def hessian(self, x: np.ndarray, egrad: np.ndarray, ehess: np.ndarray, u: np.ndarray) -> np.ndarray:
        return ehess * self.free(x, egrad)

    def retract(self, x: np.ndarray, u: np.ndarray, kind: str | None = None) -> np.ndarray:
        self._kind(kind)
        return self.nearest(x + u)

    # a convex part of flat space: geodesics are straight lines as far as the bounds

    @property
    def typical_distance(self) -> float:  # type: ignore[override]
        return self.bound * math.sqrt(self.n)

    def exp(self, x: np.ndarray, u: np.ndarray) -> np.ndarray:
        return self.nearest(x + u)

    def log(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return y - x

    inverse_retraction = log

    def parallel_transport(self, x: np.ndarray, y: np.ndarray, u: np.ndarray) -> np.ndarray:
        return u

    def nearest(self, x: np.ndarray) -> np.ndarray:
        bound = x.dtype.type(self.bound)
        return np.minimum(np.maximum(x, -bound), bound)

    def feasibility(self, x: np.ndarray) -> Any:
        violation = np.maximum(np.abs(x).max(axis=-1) - x.dtype.type(self.bound), 0)
        return float(violation) if violation.ndim == 0 else violation

    def free(self, x: np.ndarray, egrad: np.ndarray) -> Any:
        # held: on a bound, and the negative gradient points outward (x and −g have one sign)
        return (np.abs(x) < x.dtype.type(self.bound)) | (x * egrad >= 0)

    def random_point(self, rng: np.random.Generator, dtype: Any = np.float64) -> np.ndarray:
        return rng.uniform(-self.bound, self.bound, self.n).astype(dtype)

    def descent_curve(self, x: np.ndarray, egrad: np.ndarray) -> Callable[[Any], np.ndarray]:
        return lambda step: self.nearest(x - x.dtype.type(step) * egrad)
