"""The Grassmann kernel: the angles between finite-horizon observability subspaces."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

import manifoldseq as ms
from manifoldseq.estimators import quoted
from manifoldseq.execution import one_blas_thread

from ._output_normal import columns, output_products, pairwise
from ._packed import (
    arrays,
    canonical_gradient,
    check_dtype,
    check_packed,
    explanation,
    transition,
    weights_of,
)

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class PackedFrames:
    """N systems in coordinates where the first L steps of observation have the Gram matrix I.

    Indexed by rows; `Ct` (N, n, m) are the transposed output matrices and `A` (N, n, n) the transitions.
    """

    Ct: Array
    A: Array

    def __len__(self) -> int:
        return len(self.Ct)

    def __getitem__(self, rows: Any) -> PackedFrames:
        if isinstance(rows, (int, np.integer)):
            rows = [rows]
        return PackedFrames(self.Ct[rows], self.A[rows])


@dataclass(frozen=True)
class GrassmannKernel:
    """The projection kernel of finite observability subspaces, ``norm(O1' O2, "fro")**2`` with orthonormal O.

    The columns of O span the columns of ``[C; C A; ...; C A^(L-1)]`` with L = `n_steps`. Grass-3 of Huang et al. has L
    = 3. Values are between 0 and n; for large L the kernel converges to the projection kernel (5). The stacked matrices
    are never formed: a pair of systems costs one product of output matrices and L - 1 products of small matrices.

    Parameters
    ----------
    n_steps : int
        The number L of observed steps.
    dtype : {"float64", "float32"}
        The dtype of the packed output matrices and of their products; all other computations use float64.

    Examples
    --------
    >>> import manifoldseq as ms
    >>> from manifoldseq_lds import Systems
    >>> kernel = ms.get_kernel("grassmann", n_steps=2)
    >>> packed = kernel.pack(Systems(A=[[[0.5]], [[0.0]]], C=[[[1.0], [0.0]], [[1.0], [0.0]]]))
    >>> kernel.cross(packed, packed).round(6)
    array([[1. , 0.8],
           [0.8, 1. ]])
    """

    n_steps: int = 3
    dtype: str = "float64"
    name = "grassmann"
    domain = "lds"
    constant_diagonal = True
    products_only = True
    positive_definite = True
    convex_in_output = True
    self_term = None

    def __post_init__(self) -> None:
        if not isinstance(self.n_steps, Integral) or isinstance(self.n_steps, bool) or self.n_steps < 1:
            raise ValueError(f"n_steps={quoted(self.n_steps)} is not valid: pass a whole number of at least 1")
        check_dtype(self.dtype)

    def pack(self, items: Any) -> PackedFrames:
        """Transform systems such that L-step observability matrices are orthonormal; errors as for `ProjectionKernel`.

        Parameters
        ----------
        items : Systems or sequence of tuples ``(A, C)``
        """
        return self._packed(*arrays(items))

    def _packed(self, A: Array, C: Array) -> PackedFrames:
        with one_blas_thread():
            if not (np.isfinite(A).all() and np.isfinite(C).all()) or np.abs(np.linalg.eigvals(A)).max() >= 1:
                raise explanation(A, C)
            # the Gram matrix O'O = sum_(t < L) (A^t)' C'C A^t of the stacked outputs, (N, n, n); G = T'T makes O T^-1
            # orthonormal
            (*_, G) = _horner(C.swapaxes(-1, -2) @ C, A, A, self.n_steps)
            try:
                T = np.linalg.cholesky(G).swapaxes(-1, -2)
            except np.linalg.LinAlgError as error:
                raise explanation(A, C) from error
            inverse = np.linalg.inv(T)
            Ct = inverse.swapaxes(-1, -2) @ C.swapaxes(-1, -2)
            return PackedFrames(np.ascontiguousarray(Ct, self.dtype), T @ A @ inverse)

    def cross(self, P: PackedFrames, Q: PackedFrames) -> Array:
        """Return the kernel matrix k(P_i, Q_j), of shape (len(P), len(Q)), in blocks of about half a MiB."""
        check_packed(PackedFrames, P, Q)
        return pairwise(P, Q, output_products, _squares, self._sum)

    def _sum(self, P: PackedFrames, Q: PackedFrames, X: Array, W: Array, Z: Array) -> None:
        J, c, n = len(P), len(Q), P.Ct.shape[1]
        # Horner's rule, X <- C_i'C_j + A_i' X A_j, L - 1 times in a block (J n, c n): X becomes O_i'O_j
        first = X.copy()
        for _ in range(self.n_steps - 1):
            np.matmul(P.A.swapaxes(-1, -2), X.reshape(J, n, c * n), out=W.reshape(J, n, c * n))
            np.matmul(columns(W, c, n), Q.A, out=columns(X, c, n))
            X += first

    def diag(self, P: PackedFrames) -> Array:
        """Return k(P_i, P_i) = n, of shape (len(P),)."""
        return np.full(len(P), float(P.Ct.shape[1]))

    def weighted(self, point: Any, P: PackedFrames, beta: ArrayLike) -> tuple[float, tuple[Array, ...]]:
        """Return the value and the Euclidean gradient of ``sum_i beta_i k(S, P_i)`` at ``S = (diag(lam) V, U)``.

        As for the projection kernel, ``U' U = I`` is used: the gradient in U is correct up to a vector normal to the
        manifold.
        """
        U = point[2]
        b = weights_of(beta, len(P), U, P.Ct.shape[:0:-1])
        A, (N, n, m) = transition(point), P.Ct.shape
        with one_blas_thread():
            own = list(_horner(np.eye(n), A, A, self.n_steps))
            C = P.Ct.reshape(N * n, m)
            products = (C @ U.astype(C.dtype, copy=False)).astype(float, copy=False)
            partial = list(_horner(products.reshape(N, n, n), P.A, A, self.n_steps))  # transposed product matrices
            # k = tr(G0^-1 G_i' G_i) with G_i = O_i'O of the datum and the point, G0 = O'O of the point
            G, inverse = partial[-1], np.linalg.inv(own[-1])
            H = b[:, None, None] * (G @ inverse)
            M = H.reshape(-1, n).T @ G.reshape(-1, n)
            gA, R = _pulled(2 * H, partial, P.A, A)
            more, _ = _pulled(-M @ inverse, own, A, A)
            gU = C.T @ R.reshape(-1, n).astype(C.dtype, copy=False)
        return float(M.trace()), canonical_gradient(point, gA + 2 * more, gU)

    def manifold(self, m: int, n: int, bound: float = 0.99) -> Any:
        """Return ``CanonicalLDS(m, n, bound)``."""
        return ms.manifolds.CanonicalLDS(m, n, bound)


def _squares(P: PackedFrames, Q: PackedFrames, X: Array, W: Array) -> Array:
    J, c, n = len(P), len(Q), P.Ct.shape[1]
    squares = np.einsum("jab,jab->jb", X.reshape(J, n, c * n), X.reshape(J, n, c * n))
    return squares.reshape(J, c, n).sum(axis=2)


def _horner(Q: Array, left: Array, right: Array, steps: int) -> Iterator[Array]:
    """Yield the partial sums of ``sum_(t < steps) (left^t)' Q right^t``."""
    X = Q
    yield X
    for _ in range(steps - 1):
        X = Q + left.swapaxes(-1, -2) @ X @ right
        yield X


def _pulled(H: Array, partial: list[Array], left: Array, right: Array) -> tuple[Array, Array]:
    """Pull the gradient `H` in the last of these partial sums back to `right` (summed over a batch) and to Q."""
    n = len(right)
    gradient, R, Y = np.zeros((n, n)), H, H
    # back through X_(s+1) = Q + left' X_s right: Y is the gradient in X_s, of which each step leaves a share at Q
    for X in partial[-2::-1]:
        gradient += (X.swapaxes(-1, -2) @ (left @ Y)).reshape(-1, n, n).sum(axis=0)
        Y = left @ Y @ right.T
        R = R + Y
    return gradient, R
