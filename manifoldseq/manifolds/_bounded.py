"""Arrays whose entries lie between bounds that can be reached."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..linalg import freeze
from ._base import Manifold, bound_of, size


class _Bounded(Manifold[np.ndarray]):
    """A product of intervals that contain their finite ends. Subclasses define the bounds."""

    bounded: ClassVar[bool] = True  # type: ignore[misc]
    retractions: ClassVar[tuple[str, ...]] = ("clip",)
    second_order: ClassVar[tuple[str, ...]] = ("clip",)
    one_base: ClassVar[bool] = True  # type: ignore[misc]

    @abstractmethod
    def sides(self, dtype: Any) -> tuple[Any, Any]:
        """Return the lower and the upper bounds, which broadcast against a point."""

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

    def exp(self, x: np.ndarray, u: np.ndarray) -> np.ndarray:
        return self.nearest(x + u)

    def log(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return y - x

    inverse_retraction = log

    def parallel_transport(self, x: np.ndarray, y: np.ndarray, u: np.ndarray) -> np.ndarray:
        return u

    def nearest(self, x: np.ndarray) -> np.ndarray:
        lower, upper = self.sides(x.dtype)
        return np.minimum(np.maximum(x, lower), upper)

    def feasibility(self, x: np.ndarray) -> Any:
        lower, upper = self.sides(x.dtype)
        beyond = np.maximum(np.maximum(lower - x, x - upper), 0)
        violation = beyond.max(axis=tuple(range(x.ndim - len(self.shape), x.ndim)), initial=0)
        return float(violation) if violation.ndim == 0 else violation

    def free(self, x: np.ndarray, egrad: np.ndarray) -> Any:
        # held: on a bound, and the negative gradient points outward
        lower, upper = self.sides(x.dtype)
        return ((x > lower) | (egrad <= 0)) & ((x < upper) | (egrad >= 0))

    def descent_curve(self, x: np.ndarray, egrad: np.ndarray) -> Callable[[Any], np.ndarray]:
        return lambda step: self.nearest(x - x.dtype.type(step) * egrad)


@dataclass(frozen=True)
class BoundedDiagonal(_Bounded):
    """Diagonals whose entries lie in [−bound, bound]; a point is the vector of length n.

    Parameters
    ----------
    n : int
    bound : float
        The bound, greater than zero. If it is below one, ``diag(x) @ V`` is a stable transition matrix for every
        orthogonal V.

    Notes
    -----
    The manifold is equivalent to ``Box(-bound, bound, n)``. It has a separate name for the models of linear dynamical
    systems. Clipping is the bound normalization (18) of the LDS paper. See :class:`Box`.

    Examples
    --------
    >>> import numpy as np, manifoldseq as ms
    >>> M = ms.manifolds.BoundedDiagonal(2, bound=0.5)
    >>> M.retract(np.array([0.4, 0.0]), np.array([0.3, 0.1])).tolist()
    [0.5, 0.1]
    """

    n: int
    bound: float = 0.99
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

    @property
    def typical_distance(self) -> float:  # type: ignore[override]
        return self.bound * math.sqrt(self.n)

    def sides(self, dtype: Any) -> tuple[Any, Any]:
        bound = dtype.type(self.bound) if dtype.kind == "f" else self.bound
        return -bound, bound

    def random_point(self, rng: np.random.Generator, dtype: Any = np.float64) -> np.ndarray:
        return rng.uniform(-self.bound, self.bound, self.n).astype(dtype)


class Box(_Bounded):
    """Arrays with a lower and an upper bound for each entry; entries may be equal to their bounds.

    Parameters
    ----------
    lower, upper : float or array-like
        Bounds, ``lower <= upper``, which broadcast against each other and `shape`. Use −inf or inf for entries without
        a bound. Equal bounds fix an entry. `lower` alone may be a ``scipy.optimize.Bounds``.
    *shape : int
        Shape of a point. The default is the shape of the bounds.

    Raises
    ------
    ValueError
        If a bound is NaN, if a lower bound is above its upper bound, or if the shapes do not match.

    Notes
    -----
    Bounds are kept by clipping, with an active set: ``project`` is the identity; ``gradient`` drops components that
    push outward at an active bound, so its norm measures stationarity; ``retract`` and ``nearest`` clip. Source:
    Bertsekas, "Projected Newton methods for optimization problems with simple constraints", 1982. A factor of a
    :class:`Product` puts bounds on some variables and a manifold on others. If the optimum is in the interior and the
    objective is defined only there, use :class:`OpenBox` or :class:`Positive`.

    Random entries are uniform between two finite bounds, have an exponential distance from a single finite bound, and
    are normal without bounds.

    Examples
    --------
    Nonnegative least squares, as ``scipy.optimize.nnls`` solves it:

    >>> import numpy as np, manifoldseq as ms
    >>> A, b = np.array([[1.0, 2.0], [0.0, 1.0], [1.0, 0.0]]), np.array([1.0, 2.0, -1.0])
    >>> f = ms.objective(lambda x: 0.5 * ((A @ x - b) ** 2).sum(), lambda x: A.T @ (A @ x - b))
    >>> ms.minimize(ms.Problem(ms.manifolds.Box(0, np.inf, 2), f), np.ones(2)).x.round(6).tolist()
    [0.0, 0.8]
    """

    @classmethod
    def example(cls, rng: np.random.Generator) -> Manifold[Any]:
        """Return a small box with finite and infinite sides."""
        return cls([-np.inf, 0.0, -1.0, -np.inf], [np.inf, np.inf, 1.0, 2.0])

    def __init__(self, lower: Any, upper: Any = None, *shape: int) -> None:
        if upper is None:
            if not (hasattr(lower, "lb") and hasattr(lower, "ub")):
                raise TypeError("Box(lower, upper) needs two bounds, or one scipy.optimize.Bounds")
            lower, upper = lower.lb, lower.ub
        size("Box", **{f"shape[{k}]": n for k, n in enumerate(shape)})
        try:
            sides = [np.asarray(side, dtype=np.float64) for side in (lower, upper)]
            whole = np.broadcast_shapes(*(side.shape for side in sides), *([shape] if shape else []))
        except (TypeError, ValueError) as error:
            raise ValueError(f"Box(lower, upper, *shape): pass numbers of shapes that match ({error})") from None
        if not whole or 0 in whole or (shape and whole != shape):
            advice = "" if shape else ": pass the shape of a point after the bounds, such as Box(0, 1, 3)"
            raise ValueError(
                f"Box(lower, upper{''.join(f', {n}' for n in shape)}): bounds of shape {whole} do not fit{advice}"
            )
        self.lower, self.upper = (freeze(np.array(np.broadcast_to(side, whole))) for side in sides)
        wrong = ~(self.lower <= self.upper) | (self.lower == np.inf) | (self.upper == -np.inf)
        if wrong.any():
            where = tuple(int(k) for k in np.argwhere(wrong)[0])
            raise ValueError(
                f"Box(lower, upper): entry {where[0] if len(where) == 1 else where} has the bounds "
                f"{self.lower[where]:g} and {self.upper[where]:g}: pass numbers with lower <= upper; "
                "lower may be −inf and upper inf"
            )
        self._free = freeze(self.lower < self.upper)
        self._dim = int(self._free.sum())
        with np.errstate(over="ignore"):  # a bound beyond the range of float32 is none there
            self._sides = {np.dtype(t): (self.lower.astype(t), self.upper.astype(t)) for t in (np.float32, np.float64)}

    def __repr__(self) -> str:
        ends = [side.flat[0] if (side == side.flat[0]).all() else None for side in (self.lower, self.upper)]
        lower, upper = ("…" if end is None else f"{end:g}" for end in ends)
        return f"Box({lower}, {upper}, {', '.join(map(str, self.shape))})"

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and all(
            np.array_equal(a, b)
            for a, b in ((self.lower, other.lower), (self.upper, other.upper))  # type: ignore[attr-defined]
        )

    def __hash__(self) -> int:
        return hash((self.shape, self.lower.tobytes(), self.upper.tobytes()))

    @property
    def shape(self) -> tuple[int, ...]:
        return self.lower.shape

    @property
    def dim(self) -> int:
        return self._dim

    @property
    def typical_distance(self) -> float:  # type: ignore[override]
        half = 0.5 * (self.upper - self.lower)
        return float(np.linalg.norm(np.where(np.isfinite(half), half, 1.0)))

    def sides(self, dtype: Any) -> tuple[Any, Any]:
        return self._sides.get(dtype, (self.lower, self.upper))

    def project(self, x: np.ndarray, u: np.ndarray) -> np.ndarray:
        return u if self._dim == self.lower.size else np.where(self._free, u, u.dtype.type(0))

    def free(self, x: np.ndarray, egrad: np.ndarray) -> Any:
        free = super().free(x, egrad)
        return free if self._dim == self.lower.size else free & self._free

    def random_point(self, rng: np.random.Generator, dtype: Any = np.float64) -> np.ndarray:
        low, high = np.isfinite(self.lower), np.isfinite(self.upper)
        lower, upper = np.where(low, self.lower, 0.0), np.where(high, self.upper, 0.0)
        uniform, far, normal = rng.random(self.shape), rng.exponential(size=self.shape), rng.standard_normal(self.shape)
        one = np.where(low, lower + far, np.where(high, upper - far, normal))
        return self.nearest(np.where(low & high, lower + uniform * (upper - lower), one).astype(dtype))
