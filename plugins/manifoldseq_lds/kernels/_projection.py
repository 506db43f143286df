"""The projection kernel of linear dynamical systems, for many systems at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ._output_normal import Array, OutputNormalKernel, PackedSystems

__all__ = ["PackedSystems", "ProjectionKernel"]


@dataclass(frozen=True)
class ProjectionKernel(OutputNormalKernel):
    """The projection kernel (5): the sum of squared cosines of the angles between two observability subspaces.

    ``k(S1, S2) = tr(G11^-1 G12 G22^-1 G21)`` with the Gramians (6), between 0 and n, and n for P-equivalent systems.
    Systems are transformed once to output-normal form, in which ``k = norm(X, "fro")**2`` with ``A1' X A2 - X + C1' C2
    = 0``. No inverse and no loop over pairs is needed. BLAS uses one thread.

    The error relative to n is below 1e-12 for spectral radii up to 0.999 (for defective A, if n is at most 5). For
    defective A with n = 10, it is below 3e-12. In single precision, it is about 1e-6.

    ``convex_in_output`` declares that k is convex and quadratic in the output matrix of one argument.

    Parameters
    ----------
    dtype : {"float64", "float32"}
        The dtype of the packed output matrices and of their products: single precision halves the memory and the time
        for large m.

    Examples
    --------
    >>> import numpy as np
    >>> import manifoldseq as ms
    >>> from manifoldseq_lds import Systems
    >>> kernel = ms.get_kernel("projection")
    >>> packed = kernel.pack(Systems(A=[[[0.5]], [[0.0]]], C=[[[1.0], [0.0]], [[1.0], [0.0]]]))
    >>> kernel.cross(packed, packed).round(6)
    array([[1.  , 0.75],
           [0.75, 1.  ]])
    """

    name = "projection"
    positive_definite = True
    convex_in_output = True

    def values(self, X: Array, J: int, c: int) -> Array:
        """Return the squared Frobenius norms."""
        # ‖X_ij‖², with X_ij the n×n block (i, j): over the rows of a block first, then over its columns
        n = len(X) // J
        squares = np.einsum("jab,jab->jb", X.reshape(J, n, c * n), X.reshape(J, n, c * n))
        return (squares.reshape(J * c, n) @ np.ones(n)).reshape(J, c)

    def outer(self, G: Array, inverse: Array, beta: Array) -> tuple[float, Array, Array]:
        """Return the weighted value, ``2 beta_i G_i' G0^-1``, and ``-G0^-1 sum_i beta_i G_i G_i' G0^-1``."""
        # k = tr(G0^-1 G_i G_i') with the data's own Gramians I; `G` has G_i' under each other, (c n, n)
        n = len(inverse)
        H = G @ inverse
        H.reshape(-1, n, n)[...] *= beta[:, None, None]
        M = H.T @ G
        H *= 2
        return float(M.trace()), H, -M @ inverse
