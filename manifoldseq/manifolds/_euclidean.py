"""Unconstrained arrays."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ._base import Manifold, size


@dataclass(frozen=True, init=False, repr=False)
class Euclidean(Manifold[np.ndarray]):
    """Arrays of a given shape without constraints.

    Parameters
    ----------
    *shape : int
        ``Euclidean(3)`` are vectors of length 3, ``Euclidean(3, 2)`` matrices.

    Examples
    --------
    >>> import manifoldseq as ms
    >>> ms.manifolds.Euclidean(3, 2).dim
    6
    """

    sizes: tuple[int, ...]
    retractions: ClassVar[tuple[str, ...]] = ("exp",)
    second_order: ClassVar[tuple[str, ...]] = ("exp",)
    one_base: ClassVar[bool] = True  # type: ignore[misc]
    _example: ClassVar[tuple[Any, ...]] = (3, 2)

    def __init__(self, *shape: int) -> None:
        if not shape:
            raise ValueError("Euclidean() needs at least one size, such as Euclidean(3)")
        size("Euclidean", **{f"shape[{k}]": n for k, n in enumerate(shape) if n != 0})
        object.__setattr__(self, "sizes", tuple(int(n) for n in shape))

    def __repr__(self) -> str:
        return f"Euclidean({', '.join(map(str, self.shape))})"

    @property
    def shape(self) -> tuple[int, ...]:
        return self.sizes

    @property
    def dim(self) -> int:
        return math.prod(self.shape)

    def project(self, x: np.ndarray, u: np.ndarray) -> np.ndarray:
        return u

    def hessian(self, x: np.ndarray, egrad: np.ndarray, ehess: np.ndarray, u: np.ndarray) -> np.ndarray:
        return ehess

    def retract(self, x: np.ndarray, u: np.ndarray, kind: str | None = None) -> np.ndarray:
        self._kind(kind)
        return x + u

    def basis(self, x: np.ndarray) -> np.ndarray:
        lead = x.shape[: x.ndim - len(self.shape)]
        return np.broadcast_to(np.eye(self.dim), (*lead, self.dim, self.dim)) if lead else np.eye(self.dim)

    @property
    def typical_distance(self) -> float:  # type: ignore[override]
        return math.sqrt(self.dim)

    def log(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return y - x

    def parallel_transport(self, x: np.ndarray, y: np.ndarray, u: np.ndarray) -> np.ndarray:
        return u

    def nearest(self, x: np.ndarray) -> np.ndarray:
        return x

    def feasibility(self, x: np.ndarray) -> Any:
        batch = x.shape[: x.ndim - len(self.shape)]
        return np.zeros(batch) if batch else 0.0

    def random_point(self, rng: np.random.Generator, dtype: Any = np.float64) -> np.ndarray:
        return rng.standard_normal(self.shape).astype(dtype)
