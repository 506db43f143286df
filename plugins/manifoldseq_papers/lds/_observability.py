"""Observability subspaces of a few steps: their mean, and the system that spans a subspace (Turaga et al. 2011)."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

import manifoldseq as ms

Array = NDArray[np.floating[Any]]


def observability_bases(A: Array, C: Array, n_steps: int) -> Array:
    """Return orthonormal bases of ``[C; CA; ...; C A**(n_steps - 1)]``, of shape (N, n_steps m, n)."""
    blocks = [C]
    for _ in range(n_steps - 1):
        blocks.append(blocks[-1] @ A)
    return np.linalg.qr(np.concatenate(blocks, axis=1))[0]


def subspace_mean(A: Array, C: Array, n_steps: int) -> tuple[Array, Array]:
    """Return A (n, n) and C (m, n) of the system whose observability subspace is the mean of those of N systems.

    The mean is spanned by the n leading eigenvectors W of ``sum O_i O_i'``, computed as left singular vectors of the
    concatenated bases.
    """
    N, m, n = C.shape
    bases = observability_bases(A, C, n_steps)
    # sum O_i O_i' = S S' with the bases side by side, (L m, N n); its eigenvectors by the smaller of S'S and S S'
    side = bases.transpose(1, 0, 2).reshape(-1, N * n)
    if N * n <= len(side):
        w, V = np.linalg.eigh(side.T @ side)
        W = side @ V[:, -n:] / np.sqrt(np.maximum(w[-n:], np.finfo(float).tiny))
    else:
        W = np.linalg.eigh(side @ side.T)[1][:, -n:]
    return spanning_system(W, m)


def spanning_system(W: Array, n_outputs: int) -> tuple[Array, Array]:
    """Return A (n, n) and C (m, n) with orthonormal columns of the system nearest to a basis (n_steps m, n).

    With ``W = [W_1; ...; W_L]``, A solves ``[W_1; ...; W_(L-1)] A = [W_2; ...; W_L]`` in least squares and C is W_1
    with orthonormalized columns; if W_1 is rank-deficient, its polar factor completes it.
    """
    m = n_outputs
    # the shift structure W[1:] = W[:-1] A; in the basis R x that makes the outputs orthonormal it is R A R^-1
    shift = np.linalg.lstsq(W[:-m], W[m:], rcond=None)[0]
    C, R = np.linalg.qr(W[:m])
    if np.linalg.cond(R) > 1e8:
        return shift, ms.linalg.polar(W[:m])
    return R @ shift @ np.linalg.inv(R), C
