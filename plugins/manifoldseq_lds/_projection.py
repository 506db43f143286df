"""The projection kernel of linear dynamical systems, for many systems at once."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

import manifoldseq as ms
from manifoldseq.execution import map_ordered, one_blas_thread

from ._systems import Systems, item_rows, real_array

Array = NDArray[np.float64]

_TOLERANCE = 1e-15  # doubling stops when the norms of the powers bound what is left, relative to the sum
_MAX_STEPS = 60
_CHUNK_BYTES = 2**20  # one block of a doubling; three of them are touched per step
_TILE_ROWS = 32  # systems on the left side of a block
_PANEL_CHUNKS = 16  # blocks of one task


@dataclass(frozen=True, eq=False)
class PackedSystems:
    """N systems in output-normal form ``A'A + C'C = I``, where every observability Gramian is the identity.

    Indexed by rows (slice, integer array, mask) like an array. `Ct` (N, n, m) holds the transposed output matrices,
    `powers` (K, N, n, n) the powers ``A**(2**k)`` and `norms` (K, N) their Frobenius norms.
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
class ProjectionKernel:
    """The projection kernel (5): the sum of squared cosines of the angles between two observability subspaces.

    ``k(S1, S2) = tr(G11^-1 G12 G22^-1 G21)`` with the Gramians (6), between 0 and n, and n for P-equivalent systems.
    Systems are packed once into output-normal form, where ``k = norm(X, "fro")**2`` with
    ``A1' X A2 - X + C1' C2 = 0``; there is no inverse and no loop per pair. BLAS runs on one thread inside.

    The error is below 1e-12 up to spectral radius .999, also for defective A with n of 5 or less, relative to n; for
    defective A with n = 10 it is below 3e-12.

    ``convex_in_output`` says that k is convex and quadratic in the output matrix of one argument.

    Examples
    --------
    >>> import numpy as np
    >>> from manifoldseq_lds import Systems
    >>> kernel = ms.get_kernel("projection")
    >>> packed = kernel.pack(Systems(A=[[[0.5]], [[0.0]]], C=[[[1.0], [0.0]], [[1.0], [0.0]]]))
    >>> kernel.cross(packed, packed).round(6)
    array([[1.  , 0.75],
           [0.75, 1.  ]])
    """

    name: ClassVar[str] = "projection"
    domain: ClassVar[str] = "lds"
    constant_diagonal: ClassVar[bool] = True
    positive_definite: ClassVar[bool] = True
    convex_in_output: ClassVar[bool] = True

    def pack(self, items: Any) -> PackedSystems:
        """Bring systems into output-normal form.

        Parameters
        ----------
        items : Systems or sequence of tuples ``(A, C)``
            A of shape (n, n), C of shape (m, n). Any observable C is right, orthonormal or not.

        Returns
        -------
        PackedSystems

        Raises
        ------
        ValueError
            If systems differ in size, or one is unstable, not finite or not observable; the sentence names it.
        """
        A, C = _arrays(items)
        with one_blas_thread():
            try:
                G = ms.linalg.gramians(A, C)
                T = np.linalg.cholesky(G).swapaxes(-1, -2)  # G = T'T
            except ValueError as error:
                raise _explanation(A, C) from error
            inverse = np.linalg.inv(T)
            Ct = inverse.swapaxes(-1, -2) @ C.swapaxes(-1, -2)
            A, Ct = _normalized(T @ A @ inverse, Ct)
            powers, norms = _powers(A)
        return PackedSystems(np.ascontiguousarray(Ct), np.stack(powers), np.stack(norms))

    def cross(self, P: PackedSystems, Q: PackedSystems) -> Array:
        """Return the kernel matrix k(P_i, Q_j), of shape (len(P), len(Q)).

        Works in blocks of about 1 MiB whatever the numbers of systems; the executor of the context shares them out.
        """
        _same_size(P, Q)
        n = P.Ct.shape[1]
        rows = max(1, min(_TILE_ROWS, len(P)))
        panel = _PANEL_CHUNKS * max(1, _CHUNK_BYTES // (8 * rows * n * n))
        tasks = [
            (slice(i, i + rows), slice(j, j + panel)) for i in range(0, len(P), rows) for j in range(0, len(Q), panel)
        ]
        K = np.empty((len(P), len(Q)))
        with one_blas_thread():
            # a task carries its own rows (views here), so that a worker elsewhere is sent no more than these
            blocks = map_ordered(lambda tile: _panel(*tile), [(P[rows], Q[columns]) for rows, columns in tasks])
        for task, block in zip(tasks, blocks, strict=True):
            K[task] = block
        return K

    def diag(self, P: PackedSystems) -> Array:
        """Return k(P_i, P_i) = n, of shape (len(P),)."""
        return np.full(len(P), float(P.Ct.shape[1]))

    def weighted(self, point: Any, P: PackedSystems, beta: ArrayLike) -> tuple[float, tuple[Array, ...]]:
        """Return the value and the Euclidean gradient of ``sum_i beta_i k(S, P_i)`` at ``S = (diag(lam) V, U)``.

        Parameters
        ----------
        point : tuple ``(lam, V, U)``
            On ``CanonicalLDS(m, n)``; ``U' U = I`` is used, not checked.
        P : PackedSystems
        beta : array of shape (len(P),)

        Returns
        -------
        float, tuple of arrays like the point
            Theorem 4 with (13)-(15). The Gramian of the point is taken as ``A' G A - G + I = 0``: on the Stiefel
            manifold the gradient in U differs from that of (5) by a normal vector.
        """
        with one_blas_thread():
            return _weighted(point, P, real_array("beta", beta))

    def manifold(self, m: int, n: int, bound: float = 0.99) -> Any:
        """Return ``CanonicalLDS(m, n, bound)``."""
        return ms.manifolds.CanonicalLDS(m, n, bound)


def _normalized(A: Array, Ct: Array) -> tuple[Array, Array]:
    """Return A and C' with ``A'A + C'C = I`` to the last digit: one Newton step towards the polar factor of [A; C].

    Near the unit circle a remainder here is magnified by the condition of the Gramian.
    """
    remainder = A.swapaxes(-1, -2) @ A + Ct @ Ct.swapaxes(-1, -2) - np.eye(A.shape[-1])
    return A - A @ remainder / 2, Ct - remainder @ Ct / 2


def _powers(A: Array) -> tuple[list[Array], list[Array]]:
    """Return ``A**(2**k)`` and their norms, until the square of the norm is negligible."""
    powers, norms = [A], [np.sqrt(np.einsum("nij,nij->n", A, A))]
    while norms[-1].max() ** 2 > _TOLERANCE and len(powers) < _MAX_STEPS:
        powers.append(powers[-1] @ powers[-1])
        norms.append(np.sqrt(np.einsum("nij,nij->n", powers[-1], powers[-1])))
    return powers, norms


def _panel(P: PackedSystems, Q: PackedSystems) -> Array:
    """Return the kernel matrix of a few systems and many, one block of the latter after the other."""
    (J, n, m), N = P.Ct.shape, len(Q)
    K = np.empty((J, N))
    step = max(1, min(N, _CHUNK_BYTES // (8 * J * n * n)))
    buffers = np.empty((3, J * n * step * n))
    left, limits, ones = P.Ct.reshape(J * n, m), P.norms.max(axis=1), np.ones(n)
    for start in range(0, N, step):
        chunk = Q[start : start + step]
        c = len(chunk)
        X, W, Z = buffers[:, : J * n * c * n].reshape(3, J * n, c * n)
        np.matmul(left, chunk.Ct.reshape(c * n, m).T, out=X)
        tails = limits[: len(Q.norms)] * chunk.norms.max(axis=1)[: len(limits)]
        for tail, L, R in zip(tails, P.powers, chunk.powers, strict=False):
            if tail <= _TOLERANCE:
                break
            np.matmul(L.swapaxes(-1, -2), X.reshape(J, n, c * n), out=W.reshape(J, n, c * n))
            np.matmul(_columns(W, c, n), R, out=_columns(Z, c, n))
            X += Z
        squares = np.einsum("jab,jab->jb", X.reshape(J, n, c * n), X.reshape(J, n, c * n))
        K[:, start : start + c] = (squares.reshape(J * c, n) @ ones).reshape(J, c)
    return K


def _columns(X: Array, c: int, n: int) -> Array:
    """View (J n, c n) as c matrices of shape (J n, n)."""
    return X.reshape(len(X), c, n).transpose(1, 0, 2)


def _weighted(point: Any, P: PackedSystems, beta: Array) -> tuple[float, tuple[Array, ...]]:
    lam, V, U = point
    n = len(lam)
    if U.shape != P.Ct.shape[:0:-1] or beta.shape != (len(P),):
        raise ValueError(
            f"beta has shape {beta.shape} and U {U.shape}: {len(P)} systems need shapes {(len(P),)} "
            f"and {P.Ct.shape[:0:-1]}"
        )
    A = (lam[:, None] * V).astype(float, copy=False)
    G0, powers, norms = _gramian(A)
    inverse = np.linalg.inv(G0)
    M, gA, gU = np.zeros((n, n)), np.zeros((n, n)), np.zeros(U.shape)
    rows = max(16, _CHUNK_BYTES // (8 * n * (len(U) + 4 * n)))  # C is read twice: the second time from the cache
    rows = max(1, -(-len(P) // max(1, len(P) // rows)))  # equal chunks
    for start in range(0, len(P), rows):
        part, b = (P, beta) if rows >= len(P) else (P[start : start + rows], beta[start : start + rows])
        c = len(part)
        steps = _steps(norms, part)
        C = part.Ct.reshape(c * n, -1)
        buffers = np.empty((2, c, n, n))
        W, Z = buffers[0], buffers[1]
        flat = W.reshape(c * n, n)
        G = C @ U  # G_i' of the note, stacked: A_i' G_i' A - G_i' + C_i' U = 0
        for k in range(steps):
            np.matmul(G, powers[k], out=flat)
            np.matmul(part.powers[k].swapaxes(-1, -2), W, out=Z)
            G += Z.reshape(c * n, n)
        np.matmul(G, inverse, out=flat)
        W *= b[:, None, None]
        M += flat.T @ G  # G0^-1 sum_i beta_i G_i G_i'
        R = 2 * flat  # R_i', stacked: A_i R_i' A' - R_i' + H_i' = 0
        for k in range(steps):
            np.matmul(R, powers[k].T, out=flat)
            np.matmul(part.powers[k], W, out=Z)
            R += Z.reshape(c * n, n)
        np.matmul(part.powers[0], R.reshape(c, n, n), out=W)
        gA += G.T @ flat
        gU += C.T @ R
    value = float(M.trace())
    R0 = M @ inverse
    for L in powers:
        R0 += L.dot(R0).dot(L.T)
    gA -= 2 * G0.dot(A).dot(R0)
    gradient = np.einsum("ij,ij->i", gA, V), lam[:, None] * gA, gU
    dtypes = (np.result_type(x, np.float32) for x in point)
    return value, tuple(g.astype(dtype, copy=False) for g, dtype in zip(gradient, dtypes, strict=True))


def _steps(norms: list[float], P: PackedSystems) -> int:
    """Return how many doublings the pairs of one system, given by the norms of its powers, and P need."""
    largest = P.norms.max(axis=1).tolist()
    pairs = zip(norms, largest, strict=False)
    return next((k for k, (a, b) in enumerate(pairs) if a * b <= _TOLERANCE), min(len(norms), len(largest)))


def _gramian(A: Array) -> tuple[Array, list[Array], list[float]]:
    """Return the Gramian ``A' G A - G + I = 0`` of one system, the powers ``A**(2**k)`` and their norms.

    ``dot`` is the faster product of two small matrices.
    """
    G, L = np.eye(len(A)), A
    powers, norms = [], []
    for _ in range(_MAX_STEPS):
        G += L.T.dot(G).dot(L)
        powers.append(L)
        norms.append(math.sqrt(np.vdot(L, L)))
        if norms[-1] ** 2 <= _TOLERANCE:
            return G, powers, norms
        L = L.dot(L)
    raise ValueError(f"the point is unstable (norm of A: {norms[0]:.6g}): move it with manifold.nearest(point)")


def _arrays(items: Any) -> tuple[Array, Array]:
    """Return A (N, n, n) and C (N, m, n) of a `Systems` record or a sequence of items."""
    if isinstance(items, Systems):
        if not len(items):
            raise ValueError("no systems: pass at least one")
        return items.A, items.C
    rows = [item[:2] for item in item_rows(items)]
    shapes = [(np.shape(A), np.shape(C)) for A, C in rows]
    n, m = (next(iter(shape), 0) for shape in shapes[0])
    for i, shape in enumerate(shapes):
        if shape != ((n, n), (m, n)):
            raise ValueError(
                f"system {i} has A of shape {shape[0]} and C of shape {shape[1]}, "
                f"but system 0 has {n} states and {m} outputs: all systems of a set need the same sizes"
            )
    return real_array("A", [A for A, _ in rows]), real_array("C", [C for _, C in rows])


def _explanation(A: Array, C: Array) -> ValueError:
    """Say which system cannot be packed, and why."""
    finite = np.isfinite(A).all(axis=(1, 2)) & np.isfinite(C).all(axis=(1, 2))
    if not finite.all():
        return ValueError(f"system {int(np.argmin(finite))} has a value that is not finite: remove or repair it")
    radius = np.abs(np.linalg.eigvals(A)).max(axis=-1)
    i = int(np.argmax(radius))
    if radius[i] >= 1 - 1e-15:
        return ValueError(
            f"system {i} is unstable: A has spectral radius {radius[i]:.6g}, and it must be below 1; "
            f"stabilize it, e.g. LDSIdentifier(stabilizer='SN')"
        )
    smallest = np.linalg.eigvalsh(ms.linalg.gramians(A, C)).min(axis=-1)
    return ValueError(f"system {int(np.argmin(smallest))} is not observable: its Gramian is singular")


def _same_size(P: PackedSystems, Q: PackedSystems) -> None:
    for one in (P, Q):
        if not isinstance(one, PackedSystems):
            raise ValueError(f"cross got {type(one).__name__}: pack systems first, kernel.pack(systems)")
    if P.Ct.shape[1:] != Q.Ct.shape[1:]:
        (n, m), (k, l) = P.Ct.shape[1:], Q.Ct.shape[1:]  # noqa: E741
        raise ValueError(
            f"the systems have {n} states and {m} outputs on one side, {k} and {l} on the other: make them equal"
        )
