"""The projection kernel of the symmetric or skew part of the transitions, in closed form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

import manifoldseq as ms
from manifoldseq.estimators import quoted
from manifoldseq.execution import one_blas_thread

from ..systems._record import Systems, example
from ._output_normal import pairwise
from ._packed import canonical_gradient, check_dtype, check_packed, transition, weights_of

Array = NDArray[Any]

PARTS = ("symmetric", "skew", "both")


@dataclass(frozen=True, eq=False)
class PackedModes:
    """N systems with diagonal transition matrices, for each part of the kernel; indexed by rows.

    `modes` are pairs of `Ct` (N, n, m), the transposed outputs of modes scaled such that the observed sequence has norm
    1, and `a` (N, n), the eigenvalues; both are real for the symmetric part and complex for the skew part.
    """

    modes: tuple[tuple[Array, Array], ...]

    def __len__(self) -> int:
        return len(self.Ct)

    def __getitem__(self, rows: Any) -> PackedModes:
        if isinstance(rows, (int, np.integer)):
            rows = [rows]
        return PackedModes(tuple((Ct[rows], a[rows]) for Ct, a in self.modes))

    @property
    def Ct(self) -> Array:
        """The outputs of the first part."""
        return self.modes[0][0]


@dataclass(frozen=True)
class SymmetricProjectionKernel:
    """The projection kernel (5) of the symmetric or the skew-symmetric part of the transition matrices.

    The part is a normal matrix. With its eigenvalues a and the outputs c of its orthonormal modes, ``k = sum_ij |c_i*
    c_j|^2 (1 - |a_i|^2)(1 - |a_j|^2) / |1 - conj(a_i) a_j|^2``, which needs no iteration and no inverse. ``"both"`` is
    the mean of the two kernels, the comparison by symmetric-skew decomposition. Values are between 0 and n.

    Parameters
    ----------
    part : {"symmetric", "skew", "both"}
        The part of the transition matrix.
    dtype : {"float64", "float32"}
        The dtype of the packed output matrices and of their products; all other computations use float64.

    Notes
    -----
    Outputs need orthonormal columns. Eigenvalues of a part can be larger than the eigenvalues of A, but not larger than
    the largest singular value of A. The parts of systems after soft normalization, and of points of the canonical
    manifold, are therefore always stable.

    Examples
    --------
    >>> import manifoldseq as ms
    >>> from manifoldseq_lds import Systems
    >>> kernel = ms.get_kernel("symmetric-projection")
    >>> packed = kernel.pack(Systems(A=[[[0.5]], [[0.0]]], C=[[[1.0], [0.0]], [[1.0], [0.0]]]))
    >>> kernel.cross(packed, packed).round(6)
    array([[1.  , 0.75],
           [0.75, 1.  ]])
    """

    part: str = "symmetric"
    dtype: str = "float64"
    name = "symmetric-projection"
    domain = "lds"
    constant_diagonal = True
    products_only = True
    positive_definite = True
    convex_in_output = True
    self_term = None

    def __post_init__(self) -> None:
        if self.part not in PARTS:
            raise ValueError(f"part={quoted(self.part)} is not known: choose {', '.join(map(repr, PARTS))}")
        check_dtype(self.dtype)

    @property
    def _skew(self) -> tuple[bool, ...]:
        return {"symmetric": (False,), "skew": (True,), "both": (False, True)}[self.part]

    def pack(self, items: Any) -> PackedModes:
        """Transform systems to modes.

        Parameters
        ----------
        items : Systems or sequence of tuples ``(A, C)``
            Systems with orthonormal C.

        Raises
        ------
        ValueError
            If a system is not valid, see `Systems`, or a part of its transition matrix is unstable.
        """
        if not isinstance(items, Systems):
            items = Systems.from_items([item[:2] for item in items])
        elif not len(items):
            raise ValueError("there are no systems: pass at least one")
        return self._packed(items)

    def _packed(self, systems: Systems) -> PackedModes:
        modes = []
        with one_blas_thread():
            for skew in self._skew:
                a, W = _modes(systems.A, skew)
                size = np.abs(a).max(axis=1)
                if size.max() >= 1:
                    i = int(np.argmax(size >= 1))
                    raise ValueError(
                        f"system {i} has a transition whose {'skew' if skew else 'symmetric'} part has spectral radius "
                        f"{size[i]:.6g}, which must be below 1; stabilize the system, for example with "
                        "LDSIdentifier(stabilizer='SN')"
                    )
                scaled = W * np.sqrt(1 - np.abs(a) ** 2)[:, None, :]
                dtype = np.result_type(self.dtype, np.complex64) if skew else self.dtype
                modes.append((np.ascontiguousarray(_h(scaled) @ systems.C.swapaxes(-1, -2), dtype), a))
        return PackedModes(tuple(modes))

    def cross(self, P: PackedModes, Q: PackedModes) -> Array:
        """Return the kernel matrix k(P_i, Q_j), of shape (len(P), len(Q)), in blocks of about half a MiB."""
        check_packed(PackedModes, P, Q)
        return pairwise(P, Q, _nothing, _mean_of_parts, _nothing)

    def diag(self, P: PackedModes) -> Array:
        """Return k(P_i, P_i) = n, of shape (len(P),)."""
        return np.full(len(P), float(P.Ct.shape[1]))

    def weighted(self, point: Any, P: PackedModes, beta: ArrayLike) -> tuple[float, tuple[Array, ...]]:
        """Return the value and the Euclidean gradient of ``sum_i beta_i k(S, P_i)`` at ``S = (diag(lam) V, U)``.

        As for the projection kernel, ``U' U = I`` is used: the gradient in U is correct up to a vector normal to the
        manifold.
        """
        b = weights_of(beta, len(P), point[2], P.Ct.shape[:0:-1]) / len(self._skew)
        A, value, gA, gU = transition(point), 0.0, 0.0, 0.0
        with one_blas_thread():
            for skew, (Ct, a) in zip(self._skew, P.modes, strict=True):
                more, dA, dU = _weighted(_modes(A, skew), point[2], Ct, a, b)
                value, gA, gU = value + more, gA + (dA - dA.T if skew else dA + dA.T) / 2, gU + dU
        return value, canonical_gradient(point, np.asarray(gA), np.asarray(gU))

    def manifold(self, m: int, n: int, bound: float = 0.99) -> Any:
        """Return ``CanonicalLDS(m, n, bound)``."""
        return ms.manifolds.CanonicalLDS(m, n, bound)


def bounded_example(rng: np.random.Generator) -> Systems:
    """Return five random systems whose transitions have singular values below 1."""
    systems = example(rng)
    A = systems.A * (0.95 / np.linalg.norm(systems.A, 2, axis=(1, 2)))[:, None, None]
    return Systems(A, systems.C, x1=systems.x1)


def _modes(A: Array, skew: bool) -> tuple[Array, Array]:
    """Return the eigenvalues and orthonormal eigenvectors of the skew or the symmetric part of A."""
    At = A.swapaxes(-1, -2)
    if not skew:
        return np.linalg.eigh((A + At) / 2)
    # i times the skew part is Hermitian with real eigenvalues w; those of the part itself are -i w
    w, W = np.linalg.eigh(0.5j * (A - At))
    return -1j * w, W


def _h(X: Array) -> Array:
    return X.conj().swapaxes(-1, -2)


def _double(X: Array) -> Any:
    """Return X in double precision."""
    return X.astype(np.result_type(X, float), copy=False)


def _nothing(*ignored: Any) -> None:
    """Return no buffers for `pairwise`, because product matrices have a closed form."""


def _mean_of_parts(P: PackedModes, Q: PackedModes, X: Array, W: Array) -> Array:
    J, c, n = len(P), len(Q), P.Ct.shape[1]
    total = np.zeros((J, c))
    for (left, a), (right, b) in zip(P.modes, Q.modes, strict=True):
        # with modes scaled by sqrt(1 - |a|²) the product matrices are c_i* c_j / (1 - conj(a_i) b_j), (J n, c n)
        G = _double(left.reshape(J * n, -1) @ right.reshape(c * n, -1).conj().T)
        G /= 1 - np.multiply.outer(a.conj().ravel(), b.ravel())
        squares = G.real**2 + G.imag**2 if np.iscomplexobj(G) else G * G
        total += squares.reshape(J, n, c, n).sum(axis=(1, 3))
    return total / len(P.modes)


def _weighted(modes: tuple[Array, Array], U: Array, Ct: Array, b: Array, beta: Array) -> tuple[float, Array, Array]:
    """Return the value and the gradients in the part of A and in U: Theorem 4 with divisions as Stein solutions."""
    (a, W), (N, n, m) = modes, Ct.shape
    if np.abs(a).max() >= 1:
        raise ValueError("the point is unstable in this part of A: move it with manifold.nearest(point)")
    # Gramian of the point: diag(1 / gain), gain = 1 - |a|²; D (N, n, n) are the divisions that solve the Stein
    # equations
    gain = 1 - np.abs(a) ** 2
    D = 1 / (1 - b.conj()[:, :, None] * a)
    G = (
        _double(Ct.reshape(N * n, m) @ (U @ W).astype(Ct.dtype, copy=False)).reshape(N, n, n) * D
    )  # conjugate transposes of the product matrices
    H = beta[:, None, None] * G * gain
    M = H.reshape(-1, n).conj().T @ G.reshape(-1, n)
    R = 2 * H * D.conj()
    # Theorem 4 with diagonal transitions: dA = sum_i G_i A_i R_i* + 2 G0 A R0, in the basis of the modes
    gA = (G.conj() * b[:, :, None]).reshape(-1, n).T @ R.reshape(-1, n)
    R0 = -M * gain / (1 - np.multiply.outer(a, a.conj()))
    gA += 2 * (a / gain)[:, None] * R0
    gU = Ct.reshape(N * n, m).conj().T @ (R.reshape(-1, n) @ _h(W)).astype(Ct.dtype, copy=False)
    return float(M.trace().real), (W @ gA @ _h(W)).real, np.real(gU)
