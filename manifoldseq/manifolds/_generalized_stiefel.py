"""Matrices whose columns are orthonormal in a given inner product."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import scipy.linalg

from ._base import InFrame, Manifold, size
from ._stiefel import Stiefel


class GeneralizedStiefel(Manifold[np.ndarray]):
    """n×p matrices X with ``XᵀBX = I``: generalized eigenvectors, canonical variates, filters of unit variance.

    Parameters
    ----------
    B : array-like, shape (n, n)
        Symmetric positive definite matrix, which is copied to float64.
    p : int
        Number of columns, at most n.

    Raises
    ------
    ValueError
        If B is not symmetric positive definite, or p > n.

    Notes
    -----
    The metric is ``<U, V> = tr(UᵀBV)``. With the Cholesky factor ``B = LLᵀ``, ``Y = LᵀX`` has orthonormal columns, and
    ``Lᵀ`` maps all operations to :class:`Stiefel`, with its retractions, geodesics, logarithm and Hessian. Solvers run
    in the frame of its tangent vectors. Each operation needs two additional triangular products or solves. Source:
    Absil, Mahony, Sepulchre, "Optimization algorithms on matrix manifolds", 2008, section 4.5; Sato, Aihara, "Cholesky
    QR-based retraction on the generalized Stiefel manifold", 2019.

    Examples
    --------
    The two smallest generalized eigenvalues of (A, B), here 1/4 and 2/3:

    >>> import numpy as np, manifoldseq as ms
    >>> A, B = np.diag([1.0, 2.0, 3.0]), np.diag([4.0, 3.0, 2.0])
    >>> problem = ms.Problem(
    ...     ms.manifolds.GeneralizedStiefel(B, 2), lambda X: np.sum(X * (A @ X)), gradient=lambda X: 2 * A @ X
    ... )
    >>> round(ms.minimize(problem, seed=0).fun, 6)
    0.916667
    """

    metric: ClassVar[str] = "B"  # type: ignore[misc]
    open: ClassVar[bool] = False  # type: ignore[misc]
    retractions: ClassVar[tuple[str, ...]] = Stiefel.retractions
    one_base: ClassVar[bool] = True  # type: ignore[misc]

    @classmethod
    def example(cls, rng: np.random.Generator) -> Manifold[Any]:
        """Return a small manifold with a random B."""
        A = rng.standard_normal((6, 9))
        return cls(A @ A.T, 2)

    def __init__(self, B: Any, p: int) -> None:
        matrix = np.array(B, dtype=np.float64)
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not np.isfinite(matrix).all():
            raise ValueError(f"GeneralizedStiefel(B, p) needs a square matrix B of finite numbers, got {matrix.shape}")
        size("GeneralizedStiefel", p=p)
        if p > len(matrix):
            raise ValueError(
                f"GeneralizedStiefel(B, p={p}): {p} columns need at least {p} rows, but B has {len(matrix)}"
            )
        if np.abs(matrix - matrix.T).max() > 1e-12 * np.abs(matrix).max():
            raise ValueError("GeneralizedStiefel(B, p): B is not symmetric: pass (B + B.T) / 2")
        try:
            self._factor = np.linalg.cholesky(matrix)
        except np.linalg.LinAlgError:
            low = np.linalg.eigvalsh(matrix)[0]
            raise ValueError(
                f"GeneralizedStiefel(B, p): B is not positive definite (its smallest eigenvalue is {low:.3g}): add a "
                "multiple of the identity"
            ) from None
        matrix.flags.writeable = False
        self.B, self.n, self.p = matrix, len(matrix), int(p)
        self._flat = Stiefel(self.n, self.p)

    def __repr__(self) -> str:
        return f"GeneralizedStiefel(B of shape {self.B.shape}, p={self.p})"

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.p == other.p and np.array_equal(self.B, other.B)  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash((self.p, self.B.tobytes()))

    @property
    def shape(self) -> tuple[int, int]:
        return self.n, self.p

    @property
    def dim(self) -> int:
        return self._flat.dim

    @property
    def components(self) -> int:  # type: ignore[override]
        return self._flat.components

    @property
    def second_order(self) -> tuple[str, ...]:  # type: ignore[override]
        return self._flat.second_order

    @property
    def frame(self) -> Manifold[np.ndarray] | None:
        """Coordinates LᵀU."""
        return _InFrame(self.B, self.p)

    @property
    def typical_distance(self) -> float:  # type: ignore[override]
        return self._flat.typical_distance

    def _to(self, x: np.ndarray) -> np.ndarray:
        """Return Lᵀ x."""
        return (self._factor.T @ x).astype(x.dtype, copy=False)

    def _from(self, y: np.ndarray) -> np.ndarray:
        """Return L⁻ᵀ y."""
        return _solved(self._factor, y, 1)

    def _differential(self, egrad: np.ndarray) -> np.ndarray:
        """Return L⁻¹ G, the Euclidean gradient by LᵀX."""
        return _solved(self._factor, egrad, 0)

    def project(self, x: np.ndarray, u: np.ndarray) -> np.ndarray:
        return self._from(self._flat.project(self._to(x), self._to(u)))

    def inner(self, x: np.ndarray, u: np.ndarray, v: np.ndarray) -> Any:
        left = self._to(u)
        return super().inner(x, left, left if v is u else self._to(v))

    def gradient(self, x: np.ndarray, egrad: np.ndarray) -> np.ndarray:
        return self._from(self._flat.gradient(self._to(x), self._differential(egrad)))

    def euclidean_gradient(self, x: np.ndarray, u: np.ndarray) -> np.ndarray:
        return (self.B @ u).astype(u.dtype, copy=False)

    def hessian(self, x: np.ndarray, egrad: np.ndarray, ehess: np.ndarray, u: np.ndarray) -> np.ndarray:
        slope, curved = self._differential(egrad), self._differential(ehess)
        return self._from(self._flat.hessian(self._to(x), slope, curved, self._to(u)))

    def retract(self, x: np.ndarray, u: np.ndarray, kind: str | None = None) -> np.ndarray:
        return self._from(self._flat.retract(self._to(x), self._to(u), self._kind(kind)))

    @property
    def log(self) -> Any:  # type: ignore[override]
        log = self._flat.log
        return None if log is None else lambda x, y: self._from(log(self._to(x), self._to(y)))

    @property
    def dist(self) -> Any:  # type: ignore[override]
        dist = self._flat.dist
        return None if dist is None else lambda x, y: dist(self._to(x), self._to(y))

    @property
    def parallel_transport(self) -> Any:  # type: ignore[override]
        carry = self._flat.parallel_transport
        return None if carry is None else lambda x, y, u: self._from(carry(self._to(x), self._to(y), self._to(u)))

    def inverse_retraction(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return self._from(self._flat.inverse_retraction(self._to(x), self._to(y)))

    def nearest(self, x: np.ndarray) -> np.ndarray:
        """Return the point nearest in the metric, ``X (XᵀBX)^-½``."""
        return self._from(self._flat.nearest(self._to(x)))

    def scale(self, x: np.ndarray) -> Any:
        return self._flat.scale(self._to(x))

    def feasibility(self, x: np.ndarray) -> Any:
        return self._flat.feasibility(self._to(x))

    def random_point(self, rng: np.random.Generator, dtype: Any = np.float64) -> np.ndarray:
        return self._from(self._flat.random_point(rng)).astype(dtype)

    def random_tangent(self, x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return self._from(self._flat.random_tangent(self._to(x), rng))

    def to_component(self, x: np.ndarray, i: int) -> np.ndarray:
        y = self._to(x)
        z = self._flat.to_component(y, i)
        return np.where((z == y).all(axis=(-2, -1), keepdims=True), x, self._from(z))


class _InFrame(InFrame[np.ndarray], GeneralizedStiefel):
    open: ClassVar[bool] = False  # type: ignore[misc]

    def to_frame(self, x: np.ndarray, u: np.ndarray) -> np.ndarray:
        return self._to(u)

    def from_frame(self, x: np.ndarray, c: np.ndarray) -> np.ndarray:
        return self._from(c)

    def project(self, x: np.ndarray, u: np.ndarray) -> np.ndarray:
        return self._flat.project(self._to(x), u)

    def gradient(self, x: np.ndarray, egrad: np.ndarray) -> np.ndarray:
        return self._flat.gradient(self._to(x), self._differential(egrad))

    def hessian(self, x: np.ndarray, egrad: np.ndarray, ehess: np.ndarray, u: np.ndarray) -> np.ndarray:
        return self._flat.hessian(self._to(x), self._differential(egrad), self._differential(ehess), u)

    def retract(self, x: np.ndarray, u: np.ndarray, kind: str | None = None) -> np.ndarray:
        return self._from(self._flat.retract(self._to(x), u, self._kind(kind)))

    def scale(self, x: np.ndarray) -> Any:
        return self._flat.scale(self._to(x))

    def random_tangent(self, x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return self._flat.random_tangent(self._to(x), rng)


def _solved(factor: np.ndarray, y: np.ndarray, transposed: int) -> np.ndarray:
    """Return L⁻¹ y or L⁻ᵀ y: one triangular solve for all columns of all points."""
    n, p = y.shape[-2:]
    columns = np.moveaxis(y, -2, 0).reshape(n, -1)
    solution = scipy.linalg.solve_triangular(factor, columns, lower=True, trans=transposed, check_finite=False)
    return np.moveaxis(solution.reshape(n, *y.shape[:-2], p), 0, -2).astype(y.dtype, copy=False)
