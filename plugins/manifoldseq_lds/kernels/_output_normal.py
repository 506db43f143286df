"""Systems in output-normal form, all pairs of their product matrices (6), and gradients through them (Theorem 4)."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

import manifoldseq as ms
from manifoldseq.execution import map_ordered, one_blas_thread

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
Groups = Sequence[tuple[int, int]]

_TOLERANCE = 1e-15  # doubling stops when the norms of the powers bound what is left, relative to the sum
_MAX_STEPS = 60
_DIVERGED = 1e30
_AT_CIRCLE = 39  # powers after which (1 - 1e-10)**(2**38) has lost the tolerance: stabilizers go to 1 - 1e-9
# A trick of speed: in blocks of 4 MiB spectral clustering of JapaneseVowels takes 1.47 times as long
# (`python -m benchmarks.tricks blocks`).
_CHUNK_BYTES = 2**19  # one block of a doubling; three of them are touched per step, in the cache
_TILE_ROWS = 32  # systems on the left side of a block
_PANEL_CHUNKS = 16  # blocks of one task


@dataclass(frozen=True, eq=False)
class PackedSystems:
    """N systems in output-normal form ``A'A + C'C = I``, where every observability Gramian is the identity.

    It is indexed by rows (slice, integer array, mask) like an array. `Ct` (N, n, m) contains the transposed output
    matrices, `powers` (K, N, n, n) the powers ``A**(2**k)`` and `norms` (K, N) their Frobenius norms.
    """

    Ct: Array
    powers: Array
    norms: Array

    def __len__(self) -> int:
        return len(self.Ct)

    def __getitem__(self, rows: Any) -> PackedSystems:
        if isinstance(rows, (int, np.integer)):
            rows = [rows]
        return PackedSystems(self.Ct[rows], self.powers[:, rows], self.norms[:, rows])


@dataclass(frozen=True)
class OutputNormalKernel(ABC):
    """Base class of kernels that are functions of the product matrix of two packed systems.

    A subclass defines the function in `values` and the outer part of its gradient in `outer`.

    Parameters
    ----------
    dtype : {"float64", "float32"}
        The dtype of the packed output matrices and of their products. Powers, sums and gradients are always float64.
    """

    dtype: str = "float64"
    domain = "lds"
    constant_diagonal = True
    products_only = True
    convex_in_output = False
    self_term = None
    self_value: ClassVar[float | None] = None

    def __post_init__(self) -> None:
        check_dtype(self.dtype)

    @abstractmethod
    def values(self, X: Array, J: int, c: int) -> Array:
        """Return the kernel (J, c) of the product matrices X, (J n, c n)."""

    @abstractmethod
    def outer(self, G: Array, inverse: Array, beta: Array) -> tuple[float, Array, Array]:
        """Return the weighted value, and its gradients: in `G`, transposed product matrices (c n, n), and in G0.

        `inverse` is the inverse of the point's own Gramian G0.
        """

    def pack(self, items: Any) -> PackedSystems:
        """Bring systems into output-normal form.

        Parameters
        ----------
        items : Systems or sequence of tuples ``(A, C)``
            Systems with A of shape (n, n) and C of shape (m, n). C must be observable and need not be orthonormal.

        Returns
        -------
        PackedSystems

        Raises
        ------
        ValueError
            If systems differ in size, or if a system is unstable, not finite or not observable; the message names the
            system.
        """
        return _packed(*arrays(items), self.dtype)

    def cross(self, P: PackedSystems, Q: PackedSystems) -> Array:
        """Return the kernel matrix k(P_i, Q_j), of shape (len(P), len(Q)).

        The matrix is computed in blocks of about half a MiB, which the executor of the context distributes.
        """
        check_packed(PackedSystems, P, Q)
        return pairwise(P, Q, output_products, self._block)

    def _block(self, P: PackedSystems, Q: PackedSystems, X: Array, W: Array) -> Array:
        return self.values(X, len(P), len(Q))

    def diag(self, P: PackedSystems) -> Array:
        """Return k(P_i, P_i), of shape (len(P),)."""
        return np.full(len(P), float(P.Ct.shape[1]) if self.self_value is None else self.self_value)

    def weighted(self, point: Any, P: PackedSystems, beta: ArrayLike) -> tuple[float, tuple[Array, ...]]:
        """Return the value and the Euclidean gradient of ``sum_i beta_i k(S, P_i)`` at ``S = (diag(lam) V, U)``.

        Parameters
        ----------
        point : tuple ``(lam, V, U)``
            A point on ``CanonicalLDS(m, n)``; ``U' U = I`` is assumed without a check.
        P : PackedSystems
        beta : array of shape (len(P),)

        Returns
        -------
        float, tuple of arrays like the point
            Theorem 4 with (13)-(15). The Gramian of the point is taken as ``A' G A - G + I = 0``: on the Stiefel
            manifold the gradient in U differs from that of the kernel by a normal vector.
        """
        weights = weights_of(beta, len(P), point[2], P.Ct.shape[:0:-1])
        with one_blas_thread():
            value, gA, gU = _weighted(transition(point), point[2], P, weights, self.outer)
        return value, canonical_gradient(point, gA, gU)

    def weighted_groups(self, points: Array, P: PackedSystems, beta: Array, groups: Groups) -> tuple[Array, Array]:
        """Return the values and the Euclidean gradients of ``sum_i beta_i k(S_k, P_i)`` at many systems at once.

        The sum of system k is over the rows ``groups[k] = (first, end)`` of P.

        Parameters
        ----------
        points : array of shape (K, n + m, n)
            ``[A; C]`` in output-normal form, with orthonormal columns, which is assumed without a check.
        P : PackedSystems
        beta : array of shape (len(P),)
        groups : sequence of K pairs of int

        Returns
        -------
        values : array of shape (K,)
            Infinite where the spectral radius of A is above 1 - 1e-10.
        gradients : array of shape (K, n + m, n)
            Theorem 4 with (13)-(15), the Gramian of the point being I.
        """
        n = points.shape[-1]
        with one_blas_thread():
            values, gA, gC = _weighted_groups(points[:, :n], points[:, n:], P, beta, groups, self.outer)
        return values, np.concatenate([gA, gC], axis=1)

    def pack_points(self, points: Array) -> PackedSystems:
        """Return points ``[A; C]`` in output-normal form, (K, n + m, n), as packed systems."""
        n = points.shape[-1]
        powers, norms = powers_of(points[:, :n])
        return PackedSystems(np.ascontiguousarray(points[:, n:].swapaxes(1, 2), self.dtype), powers, norms)

    def manifold(self, m: int, n: int, bound: float = 0.99) -> Any:
        """Return ``CanonicalLDS(m, n, bound)``."""
        return ms.manifolds.CanonicalLDS(m, n, bound)


def _packed(A: Array, C: Array, dtype: str) -> PackedSystems:
    """Return systems in output-normal form."""
    with one_blas_thread():
        try:
            G = ms.linalg.gramians(A, C)
            T = np.linalg.cholesky(G).swapaxes(-1, -2)  # G = T'T
        except ValueError as error:
            raise explanation(A, C) from error
        # in the basis T x the Gramian is I: A becomes T A T^-1, C becomes C T^-1, and (5) the squared norm of (6)
        inverse = np.linalg.inv(T)
        Ct = inverse.swapaxes(-1, -2) @ C.swapaxes(-1, -2)
        A, Ct = _normalized(T @ A @ inverse, Ct)
        powers, norms = powers_of(A)
    return PackedSystems(np.ascontiguousarray(Ct, dtype), powers, norms)


def _normalized(A: Array, Ct: Array) -> tuple[Array, Array]:
    """Return A and C' with ``A'A + C'C = I`` up to rounding, by one Newton step towards the polar factor of [A; C].

    Near the unit circle, a residual here is amplified by the condition number of the Gramian.
    """
    remainder = A.swapaxes(-1, -2) @ A + Ct @ Ct.swapaxes(-1, -2) - np.eye(A.shape[-1])
    return A - A @ remainder / 2, Ct - remainder @ Ct / 2


def powers_of(A: Array) -> tuple[Array, Array]:
    """Return ``A**(2**k)``, (K, N, n, n), and their norms, (K, N), until the square of the norm is negligible."""
    powers, norms = [A], [np.sqrt(np.einsum("nij,nij->n", A, A))]
    while norms[-1].max() ** 2 > _TOLERANCE and len(powers) < _MAX_STEPS:
        powers.append(powers[-1] @ powers[-1])
        norms.append(np.sqrt(np.einsum("nij,nij->n", powers[-1], powers[-1])))
    return np.stack(powers), np.stack(norms)


Fill = Callable[[Any, Any, Array], None]
Solve = Callable[[Any, Any, Array, Array, Array], None]
Values = Callable[[Any, Any, Array, Array], Array]


def doubled(P: PackedSystems, Q: PackedSystems, X: Array, W: Array, Z: Array) -> None:
    """Sum ``(A_i^t)' X_ij A_j^t`` over t by doubling, in X; W and Z are buffers of its shape, (J n, c n)."""
    J, c, n = len(P), len(Q), P.Ct.shape[1]
    # X sums t < 2^k; what is left is below ‖A_i^(2^k)‖ ‖A_j^(2^k)‖ of it for every pair of the block
    tails = [a * b for a, b in zip(P.norms.max(axis=1), Q.norms.max(axis=1), strict=False)]
    for tail, L, R in zip(tails, P.powers, Q.powers, strict=False):
        if tail <= _TOLERANCE:
            break
        # L_i' X_ij R_j: the left factors of J systems act on (n, c n) each, the right ones of c systems on (J n, n)
        # each
        np.matmul(L.swapaxes(-1, -2), X.reshape(J, n, c * n), out=W.reshape(J, n, c * n))
        np.matmul(columns(W, c, n), R, out=columns(Z, c, n))
        X += Z


def pairwise(P: Any, Q: Any, fill: Fill, values: Values, solve: Solve = doubled) -> Array:
    """Return a function of the product matrices of all pairs, (len(P), len(Q)).

    ``fill(P, Q, X)`` writes the right sides of (6) into X, (J n, c n); ``solve(P, Q, X, W, Z)`` replaces them by the
    solutions; ``values(P, Q, X, W)`` returns (J, c). P and Q have `Ct` and are indexed by rows. If P is Q, blocks below
    the diagonal are copied from above, which halves the work.
    """
    n = P.Ct.shape[1]
    rows = max(1, min(_TILE_ROWS, len(P)))
    panel = _PANEL_CHUNKS * max(1, _CHUNK_BYTES // (8 * rows * n * n))
    same = P is Q
    tasks = [
        (slice(i, i + rows), slice(j, j + panel))
        for i in range(0, len(P), rows)
        for j in range(i if same else 0, len(Q), panel)
    ]
    K = np.empty((len(P), len(Q)))
    with one_blas_thread():
        # a task carries its own rows (views here), so that a worker elsewhere is sent no more than these
        blocks = map_ordered(partial(_panel, fill, solve, values), [(P[rows], Q[columns]) for rows, columns in tasks])
    for task, block in zip(tasks, blocks, strict=True):
        K[task] = block
        if same:
            K[task[::-1]] = block.T
    return K


def output_products(P: Any, Q: Any, X: Array) -> None:
    """Write ``C_i' C_j`` into X."""
    X[...] = P.Ct.reshape(X.shape[0], -1) @ Q.Ct.reshape(X.shape[1], -1).T


def _panel(fill: Fill, solve: Solve, values: Values, tile: tuple[Any, Any]) -> Array:
    """Return the values between few systems and many systems, in blocks of the latter."""
    P, Q = tile
    J, n, N = len(P), P.Ct.shape[1], len(Q)
    K = np.empty((J, N))
    step = max(1, min(N, _CHUNK_BYTES // (8 * J * n * n)))
    buffers = np.empty((3, J * n * step * n))
    for first in range(0, N, step):
        chunk = Q[first : first + step]
        c = len(chunk)
        X, W, Z = buffers[:, : J * n * c * n].reshape(3, J * n, c * n)
        fill(P, chunk, X)
        solve(P, chunk, X, W, Z)
        K[:, first : first + c] = values(P, chunk, X, W)
    return K


def columns(X: Array, c: int, n: int) -> Array:
    """View (J n, c n) as c matrices of shape (J n, n)."""
    return X.reshape(len(X), c, n).transpose(1, 0, 2)


def _weighted(A: Array, U: Array, P: PackedSystems, beta: Array, outer: Any) -> tuple[float, Array, Array]:
    """Return the value and the gradients in A and U of ``sum_i beta_i k((A, U), P_i)``."""
    n = len(A)
    G0, powers, norms = _gramian(A)
    inverse = np.linalg.inv(G0)
    value, gA, gU, R0 = 0.0, np.zeros((n, n)), np.zeros(U.shape), np.zeros((n, n))
    rows = max(16, 2 * _CHUNK_BYTES // (8 * n * (len(U) + 4 * n)))  # C is read twice: the second time from the cache
    rows = max(1, -(-len(P) // max(1, len(P) // rows)))  # equal chunks
    if P.Ct.dtype == np.float32:
        U = U.astype(np.float32)
    for start in range(0, len(P), rows):
        part, b = (P, beta) if rows >= len(P) else (P[start : start + rows], beta[start : start + rows])
        c = len(part)
        steps = _steps(norms, part)
        C = part.Ct.reshape(c * n, -1)
        buffers = np.empty((2, c, n, n))
        W, Z = buffers[0], buffers[1]
        flat = W.reshape(c * n, n)
        G = (C @ U).astype(float, copy=False)  # G_i' of (6), stacked: A_i' G_i' A - G_i' + C_i' U = 0
        for k in range(steps):
            np.matmul(G, powers[k], out=flat)
            np.matmul(part.powers[k].swapaxes(-1, -2), W, out=Z)
            G += Z.reshape(c * n, n)
        # H_i = dk/dG_i and the part of dk/dG0, from the kernel's own function
        more, R, H0 = outer(G, inverse, b)
        value += more
        R0 += H0
        for k in range(steps):  # R_i', stacked: A_i R_i' A' - R_i' + H_i' = 0
            np.matmul(R, powers[k].T, out=flat)
            np.matmul(part.powers[k], W, out=Z)
            R += Z.reshape(c * n, n)
        # Theorem 4: dA = sum_i G_i A_i R_i', (n, c n) (c n, n), and dU = sum_i C_i R_i'
        np.matmul(part.powers[0], R.reshape(c, n, n), out=W)
        gA += G.T @ flat
        gU += C.T @ R.astype(C.dtype, copy=False)
    # of the point's own Gramian: A R0 A' - R0 + H0 = 0, and dA = 2 G0 A R0, as A enters on both sides
    for L in powers:
        R0 += L @ R0 @ L.T
    gA += 2 * G0 @ A @ R0
    return value, gA, gU


def _weighted_groups(
    A: Array, U: Array, P: PackedSystems, beta: Array, groups: Groups, outer: Any
) -> tuple[Array, Array, Array]:
    """Return the values (K,) and the gradients in A (K, n, n) and U (K, m, n) of ``sum_i beta_i k((A_k, U_k), P_i)``.

    The function is `_weighted` for many points in output-normal form, whose Gramians are I. The sum of group k is over
    the rows `groups[k]` of P, a pair of the first row and the row after the last. The value is infinite if the spectral
    radius of a point is not below 1 - 1e-10.
    """
    K, n = len(A), A.shape[-1]
    gA, gU = np.zeros((K, n, n)), np.zeros(U.shape)
    A, powers, norms, values = _stable_powers(A, np.zeros(K))
    identity = np.eye(n)
    if P.Ct.dtype == np.float32:
        U = U.astype(np.float32)
    adjoints = [np.ascontiguousarray(L.swapaxes(-1, -2)) for L in powers]
    for pieces in _pieces(groups, max(16, 2 * _CHUNK_BYTES // (8 * n * (U.shape[1] + 4 * n)))):
        first, last = pieces[0][1], pieces[-1][2]
        part, b, c = P[first:last], beta[first:last], last - first
        numbers = [k for k, _, _ in pieces]
        steps = _steps([norm[numbers].max() for norm in norms], part)
        C = part.Ct.reshape(c * n, -1)
        W, Z = np.empty((2, c, n, n))
        G, R, added = np.empty((c * n, n)), np.empty((c * n, n)), Z.reshape(c * n, n)
        # the rows of every piece in what is stacked, (c n, n), and its number
        where = [slice((start - first) * n, (stop - first) * n) for _, start, stop in pieces]
        Cs, Ws, Gs, Rs = ([X[rows] for rows in where] for X in (C, W.reshape(c * n, n), G, R))
        for k, Ck, Gk in zip(numbers, Cs, Gs, strict=True):
            Gk[...] = Ck @ U[k]  # G_i' of (6): A_i' G_i' A - G_i' + C_i' U = 0
        for L, right in zip(powers[:steps], part.powers, strict=False):
            for k, Gk, Wk in zip(numbers, Gs, Ws, strict=True):
                np.dot(Gk, L[k], out=Wk)
            np.matmul(right.swapaxes(-1, -2), W, out=Z)
            G += added
        # H_i = dk/dG_i, from the kernel's own function
        for (k, start, stop), Gk, Rk in zip(pieces, Gs, Rs, strict=True):
            more, Rk[...], _ = outer(Gk, identity, b[start - first : stop - first])
            values[k] += more
        for L, right in zip(adjoints[:steps], part.powers, strict=False):  # R_i': A_i R_i' A' - R_i' + H_i' = 0
            for k, Rk, Wk in zip(numbers, Rs, Ws, strict=True):
                np.dot(Rk, L[k], out=Wk)
            np.matmul(right, W, out=Z)
            R += added
        # Theorem 4: dA = sum_i G_i A_i R_i', (n, c n) (c n, n), and dU = sum_i C_i R_i'
        np.matmul(part.powers[0], R.reshape(c, n, n), out=W)
        for k, Ck, Gk, Rk, Wk in zip(numbers, Cs, Gs, Rs, Ws, strict=True):
            gA[k] += Gk.T @ Wk
            gU[k] += Ck.T @ Rk.astype(C.dtype, copy=False)
    return values, gA, gU


def _pieces(groups: Groups, most: int) -> Iterator[list[tuple[int, int, int]]]:
    """Yield lists of consecutive (group, first row, end) with about `most` rows in total."""
    pieces: list[tuple[int, int, int]] = []
    for k, (start, stop) in enumerate(groups):
        parts = max(1, (stop - start) // most)
        cuts = [start + (stop - start) * i // parts for i in range(parts + 1)]
        for i in range(parts):
            if pieces and (pieces[-1][2] != cuts[i] or cuts[i + 1] - pieces[0][1] > most):
                yield pieces
                pieces = []
            if cuts[i + 1] > cuts[i]:
                pieces.append((k, cuts[i], cuts[i + 1]))
    if pieces:
        yield pieces


def _steps(norms: list[float], P: PackedSystems) -> int:
    """Return the number of doublings that the pairs of P and systems with given norms of powers need."""
    largest = P.norms.max(axis=1).tolist()
    pairs = zip(norms, largest, strict=False)
    return next((k for k, (a, b) in enumerate(pairs) if a * b <= _TOLERANCE), min(len(norms), len(largest)))


def _gramian(A: Array) -> tuple[Array, list[Array], list[float]]:
    """Return the Gramian ``A' G A - G + I = 0`` of one system, the powers ``A**(2**k)`` and their norms."""
    G, L = np.eye(len(A)), A
    powers, norms = [], []
    for _ in range(_MAX_STEPS):
        G += L.T @ G @ L
        powers.append(L)
        norms.append(math.sqrt(np.vdot(L, L)))
        if norms[-1] ** 2 <= _TOLERANCE:
            return G, powers, norms
        if norms[-1] > _DIVERGED:
            break
        L = L @ L
    raise ValueError(f"the point is unstable (norm of A: {norms[0]:.6g}): move it with manifold.nearest(point)")


def _stable_powers(A: Array, values: Array) -> tuple[Array, list[Array], list[Array], Array]:
    """Return A (0 for systems at the unit circle), powers ``A**(2**k)``, their norms, and values (then infinite)."""
    powers, norms = [A], [_norms(A)]
    while norms[-1].max() ** 2 > _TOLERANCE and len(powers) < _AT_CIRCLE:
        powers.append(powers[-1] @ powers[-1])
        norms.append(_norms(powers[-1]))
    unstable = ~(norms[-1] ** 2 <= _TOLERANCE)
    if unstable.any():
        keep = ~unstable[:, None, None]
        A, *powers = (np.where(keep, L, 0.0) for L in (A, *powers))
        norms = [np.where(unstable, 0.0, norm) for norm in norms]
    return A, powers, norms, np.where(unstable, np.inf, values)


def _norms(L: Array) -> Array:
    return np.sqrt(np.einsum("kij,kij->k", L, L))
