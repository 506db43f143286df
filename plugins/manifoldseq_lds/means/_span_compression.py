"""Exact compression of output matrices to coordinates in their common span."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import manifoldseq as ms

from ..systems._record import Systems

Array = NDArray[np.floating[Any]]

_NULL = 1e-13  # eigenvalues of the Gram matrix below this are rounding, relative to the largest
_CLEAR = 1e-6  # eigenvalues above this give a basis that is orthonormal to ten digits
_EVALUATIONS = 50  # that a run is expected to take
_EIGH = 25  # operations of an eigendecomposition, divided by k**3, at the rate of a matrix product
_MEMORY = 3  # how much slower a product with n columns is, which reads C from memory


@dataclass(frozen=True, eq=False)
class SpanCompression:
    """Systems whose output matrices are replaced by their coordinates in an orthonormal basis of their common span.

    Kernels that depend only on products ``C_i' C_j``, and the problems (11), (12) for points in the span, have the same
    values in coordinates, which need r <= N n outputs instead of m for N systems of n states. The basis is not stored:
    it equals the concatenated outputs, (m, N n), times `factor`, which follows from the eigendecomposition of their
    Gram matrix or, if that would lose digits, from a QR decomposition.

    Attributes
    ----------
    systems : Systems
        The compressed systems, with C of shape (N, r, n).
    outputs : ndarray of shape (m, k)
        The concatenated output matrices, or an orthonormal basis.
    factor : ndarray of shape (k, r), or None
        ``outputs @ factor`` is the basis; None for the identity.

    Examples
    --------
    >>> import numpy as np
    >>> from manifoldseq_lds import SpanCompression, Systems
    >>> rng = np.random.default_rng(0)
    >>> data = Systems(A=np.zeros((3, 2, 2)), C=np.linalg.qr(rng.standard_normal((3, 100, 2)))[0])
    >>> span = SpanCompression.of(data)
    >>> span.systems, bool(np.allclose(span.expand(span.systems.C[1]), data.C[1]))
    (Systems(N=3, m=6, n=2), True)
    """

    systems: Systems
    outputs: Array
    factor: Array | None

    @classmethod
    def of(cls, systems: Systems, start: Array | None = None) -> SpanCompression:
        """Compress systems; the span includes the columns of `start`, (m, n), if it is given."""
        N, m, n = systems.C.shape
        stacked = systems.C.transpose(1, 0, 2).reshape(m, N * n)
        if start is not None:
            stacked = np.concatenate([stacked, start], axis=1)
        with ms.execution.one_blas_thread():
            # S'S = W diag(w) W' of the outputs side by side, S (m, N n): S W / sqrt(w) is orthonormal, and in it S has
            # the coordinates sqrt(w) W'
            w, W = np.linalg.eigh(stacked.T @ stacked)
            kept = w > _NULL * w[-1]
            if kept.sum() <= m and w[kept][0] >= _CLEAR * w[-1]:
                roots, W = np.sqrt(w[kept]), W[:, kept]
                outputs, factor, coordinates = stacked, W / roots, roots[:, None] * W.T
            else:
                outputs, coordinates = np.linalg.qr(stacked)
                factor = None
        C = np.ascontiguousarray(coordinates[:, : N * n].reshape(-1, N, n).transpose(1, 0, 2))
        return cls(Systems.trusted({"A": systems.A, "C": C, "x1": systems.x1}), outputs, factor)

    @staticmethod
    def pays(N: int, m: int, n: int, evaluations: int = _EVALUATIONS) -> bool:
        """Return whether compression saves time for iterations on N systems of m outputs and n states."""
        # one Gram matrix and one eigendecomposition, against 4 n k (m - k) multiplications less per evaluation
        k = N * n
        once = m * k**2 + _EIGH * k**3
        return 2 * k <= m and once < evaluations * 4 * n * k * (m - k) * _MEMORY

    def expand(self, U: Array) -> Array:
        """Return output matrices (..., m, n) from their coordinates (..., r, n)."""
        return self.outputs @ (U if self.factor is None else self.factor @ U)

    def coordinates(self, U: Array) -> Array:
        """Return the coordinates (r, n) of an output matrix (m, n) in the span.

        Raises
        ------
        ValueError
            If the matrix is not in the span.
        """
        inner = self.outputs.T @ U
        inner = inner if self.factor is None else self.factor.T @ inner
        if abs(np.sum(U * U) - np.sum(inner * inner)) > 1e-8 * np.sum(U * U):
            raise ValueError("the output matrix is not in the span: pass it to SpanCompression.of(systems, start)")
        return inner
