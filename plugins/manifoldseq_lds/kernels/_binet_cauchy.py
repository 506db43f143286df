"""The Binet-Cauchy kernels of linear dynamical systems with their first states."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

import manifoldseq as ms
from manifoldseq.estimators import quoted
from manifoldseq.execution import one_blas_thread

from ..systems._record import Systems, item_rows, real_array
from ._output_normal import output_products, pairwise, powers_of
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

FORMS = ("determinant", "trace")


@dataclass(frozen=True, eq=False)
class PackedStates:
    """N systems with first states, in the packed form of the Binet-Cauchy kernels; indexed by rows.

    `Ct` (N, n, m) are the transposed output matrices, `powers` (K, N, n, n) and `norms` those of ``exp(-decay/2) A'``,
    `x1` (N, n) the first states.
    """

    Ct: Array
    powers: Array
    norms: Array
    x1: Array

    def __len__(self) -> int:
        return len(self.Ct)

    def __getitem__(self, rows: Any) -> PackedStates:
        if isinstance(rows, (int, np.integer)):
            rows = [rows]
        return PackedStates(self.Ct[rows], self.powers[:, rows], self.norms[:, rows], self.x1[rows])


@dataclass(frozen=True)
class BinetCauchyKernel:
    """The Binet-Cauchy kernels (20) of systems ``(A, C, x1)``, which compare the outputs that follow the first states.

    With ``exp(-decay) A1 M A2' - M + x1 x2' = 0``, the determinant form is ``det(C1 M C2')`` as printed for m <= n. For
    m > n it is identically 0 and is replaced by ``det(M C2' C1)``. This is the product of the n eigenvalues of ``C1 M
    C2'`` that can be nonzero, and equals the trace of the n-th compound matrix of ``C1 M C2'``. The trace form is
    ``tr(C1 M C2') = sum_t exp(-decay t) y1(t)' y2(t)``. All forms are positive definite. k(S, S) is not constant, so it
    enters (7) and (9).

    Parameters
    ----------
    form : {"determinant", "trace"}
        The determinant (equation 20), or the trace.
    decay : float
        The discount rate in equation (20), at least 0.
    dtype : {"float64", "float32"}
        The dtype of the packed output matrices and of their products; all other computations use float64.

    Notes
    -----
    Means and atoms are points ``(lam, V, U, x1)``, which require m >= n. Determinants decrease quickly with n: for n of
    6 or more, dissimilar systems have values near 1e-20, whose gradients have few correct digits. Use the trace form or
    ``ms.kernels.NormalizedKernel`` in this case.

    Examples
    --------
    >>> import manifoldseq as ms
    >>> from manifoldseq_lds import Systems
    >>> kernel = ms.get_kernel("binet-cauchy", form="trace", decay=0.0)
    >>> packed = kernel.pack(Systems(A=[[[0.5]], [[0.0]]], C=[[[1.0], [0.0]], [[1.0], [0.0]]], x1=[[3.0], [1.0]]))
    >>> kernel.cross(packed, packed).round(6)
    array([[12.,  3.],
           [ 3.,  1.]])
    """

    form: str = "determinant"
    decay: float = 0.1
    dtype: str = "float64"
    name = "binet-cauchy"
    domain = "lds"
    constant_diagonal = False
    products_only = True
    convex_in_output = False
    positive_definite = True

    def __post_init__(self) -> None:
        if self.form not in FORMS:
            raise ValueError(f"form={quoted(self.form)} is not known: choose {' or '.join(map(repr, FORMS))}")
        if not isinstance(self.decay, Real) or not 0 <= float(self.decay) < np.inf:
            raise ValueError(f"decay={quoted(self.decay)} is not valid: pass a number of at least 0")
        check_dtype(self.dtype)

    def pack(self, items: Any) -> PackedStates:
        """Prepare systems with first states.

        Parameters
        ----------
        items : Systems with x1, or sequence of tuples ``(A, C, x1)``
            Systems with C of shape (m, n); m may be smaller than n.

        Raises
        ------
        ValueError
            If first states are missing, if systems differ in size, or if a system is unstable or not finite.
        """
        return self._packed(items)

    def _packed(self, items: Any) -> PackedStates:
        A, C = arrays(items)
        x1 = _first_states(items, A)
        if not (np.isfinite(A).all() and np.isfinite(C).all()) or np.abs(np.linalg.eigvals(A)).max() >= 1:
            raise explanation(A, C)
        with one_blas_thread():
            powers, norms = powers_of(self._root * A.swapaxes(-1, -2))
        return PackedStates(np.ascontiguousarray(C.swapaxes(-1, -2), self.dtype), powers, norms, x1)

    @property
    def _root(self) -> float:
        return math.exp(-self.decay / 2)

    def cross(self, P: PackedStates, Q: PackedStates) -> Array:
        """Return the kernel matrix k(P_i, Q_j), of shape (len(P), len(Q)), in blocks of about half a MiB."""
        check_packed(PackedStates, P, Q)
        return pairwise(P, Q, _state_products, partial(_values, self.form))

    def diag(self, P: PackedStates) -> Array:
        """Return k(P_i, P_i), of shape (len(P),)."""
        with one_blas_thread():
            # exp(-decay) A M A' - M + x1 x1' = 0, (N, n, n); the packed powers are those of exp(-decay / 2) A'
            M = ms.linalg.stein(P.powers[0], P.powers[0], P.x1[:, :, None] * P.x1[:, None, :])
            Ct, C = P.Ct, P.Ct.swapaxes(-1, -2)
            if self.form == "trace":
                return np.einsum("nab,nba->n", M, Ct @ C)
            if C.shape[1] < C.shape[2]:
                return np.linalg.det(C @ M @ Ct)
            return np.linalg.det(M) * np.linalg.det(Ct @ C)

    def weighted(self, point: Any, P: PackedStates, beta: ArrayLike) -> tuple[float, tuple[Array, ...]]:
        """Return the value and the Euclidean gradient of ``sum_i beta_i k(S, P_i)`` at ``S = (diag(lam) V, U, x1)``.

        Parameters
        ----------
        point : tuple ``(lam, V, U, x1)``
        P : PackedStates
        beta : array of shape (len(P),)
        """
        b = weights_of(beta, len(P), point[2], P.Ct.shape[:0:-1])
        U, x = (part.astype(float) for part in point[2:])
        with one_blas_thread():
            value, gA, gU, gx = self._weighted(transition(point), U, x, P, b)
        return value, canonical_gradient(point, gA, gU, gx)

    def _weighted(
        self, A: Array, U: Array, x: Array, P: PackedStates, beta: Array
    ) -> tuple[float, Array, Array, Array]:
        # M_i of the point with every datum, (N, n, n); the kernel is a function of M_i and of products of outputs
        N, n, m = P.Ct.shape
        own, weights = self._root * A.T, beta[:, None, None]
        M = ms.linalg.stein(own, P.powers[0], x[:, None] * P.x1[:, None, :])
        if self.form == "determinant" and m < n:
            # det(U M C') as printed, K (N, m, m): d det K = cofactors(K)
            K = U @ M @ P.Ct
            values, dK = np.linalg.det(K), weights * cofactors(K) @ P.Ct.swapaxes(-1, -2)
            dM, gU = U.T @ dK, (dK @ M.swapaxes(-1, -2)).sum(axis=0)
        else:
            Ct = P.Ct.reshape(N * n, m)
            products = (Ct @ U.astype(Ct.dtype, copy=False)).astype(float, copy=False)
            values, dM, dT = _function(self.form, M, products.reshape(N, n, n))
            dM, gU = weights * dM, Ct.T @ (weights * dT).reshape(N * n, n).astype(Ct.dtype, copy=False)
        # back through the Stein equation: by the transposed, discounted A, and by its right side x x_i' (dx = sum R_i
        # x_i)
        gA, _, R = ms.linalg.stein_adjoint(own, P.powers[0], M, dM)
        return float(beta @ values), self._root * gA.T, gU, np.einsum("iab,ib->a", R, P.x1)

    def self_term(self, point: Any) -> tuple[float, tuple[Array, ...]]:
        """Return the value and the Euclidean gradient of k(S, S), which is twice the gradient in one argument."""
        own = self.pack([(transition(point), *point[2:])])
        value, gradient = self.weighted(point, own, [1.0])
        return value, tuple(2 * g for g in gradient)

    def manifold(self, m: int, n: int, bound: float = 0.99) -> Any:
        """Return the product of ``CanonicalLDS(m, n, bound)`` and the space of the first state."""
        canonical = ms.manifolds.CanonicalLDS(m, n, bound)
        names = (*(canonical.names or ()), "x1")
        return ms.manifolds.Product(*canonical.factors, ms.manifolds.Euclidean(n), names=names)


def _first_states(items: Any, A: Array) -> Array:
    """Return x1 (N, n) of items."""
    if isinstance(items, Systems):
        if items.x1 is None:
            raise ValueError(
                "the systems have no first states x1, which the Binet-Cauchy kernel requires: pass Systems with x1, "
                "or sequences"
            )
        return items.x1
    rows: list[Any] = [item[2] if len(item) > 2 else None for item in item_rows(items)]
    for i, row in enumerate(rows):
        if row is None or np.shape(row) != A.shape[2:]:
            raise ValueError(
                f"system {i} has no first state of shape {A.shape[2:]}, which the Binet-Cauchy kernel requires: pass "
                "items (A, C, x1)"
            )
    x1 = real_array("x1", rows)
    if not np.isfinite(x1).all():
        i = int(np.argwhere(~np.isfinite(x1))[0, 0])
        raise ValueError(f"system {i} has a first state that is not finite: remove or repair it")
    return x1


def _state_products(P: PackedStates, Q: PackedStates, X: Array) -> None:
    """Write ``x_i x_j'`` into X."""
    np.multiply.outer(P.x1.ravel(), Q.x1.ravel(), out=X)


def _values(form: str, P: PackedStates, Q: PackedStates, X: Array, W: Array) -> Array:
    """Return the kernel (J, c) from the matrices M in X."""
    J, c, (n, m) = len(P), len(Q), P.Ct.shape[1:]
    if form == "trace":
        output_products(P, Q, W)  # tr(C1 M C2') is the inner product of M and C1' C2
        products = np.einsum("jab,jab->jb", X.reshape(J, n, c * n), W.reshape(J, n, c * n))
        return products.reshape(J, c, n).sum(axis=2)
    M = X.reshape(J, n, c, n).transpose(0, 2, 1, 3)
    if m < n:
        return np.linalg.det(P.Ct.swapaxes(-1, -2)[:, None] @ M @ Q.Ct)
    output_products(P, Q, W)
    return np.linalg.det(M) * np.linalg.det(W.reshape(J, n, c, n).transpose(0, 2, 1, 3))


def _function(form: str, M: Array, T: Array) -> tuple[Array, Array, Array]:
    """Return the kernel of pairs from M and ``T = C2' C1``, (N, n, n) both, and its gradients in them."""
    if form == "trace":
        return np.einsum("nab,nba->n", M, T), T.swapaxes(-1, -2), M.swapaxes(-1, -2)
    det_M, det_T = np.linalg.det(M), np.linalg.det(T)
    return det_M * det_T, det_T[:, None, None] * cofactors(M), det_M[:, None, None] * cofactors(T)


def cofactors(X: Array) -> Array:
    """Return the gradient of det X, singular X included: ``det(W Z') W diag(prod_(j != k) s_j) Z'`` by the SVD."""
    # X = W diag(s) Z': det X = det(W Z') prod s, whose derivative by s_k is the product of the others; no division by s
    W, s, Zt = np.linalg.svd(X)
    n = s.shape[-1]
    others = np.where(np.eye(n, dtype=bool), 1.0, s[..., None, :]).prod(axis=-1)
    sign = np.linalg.det(W) * np.linalg.det(Zt)
    return sign[..., None, None] * ((W * others[..., None, :]) @ Zt)
