"""Products and polar factors of small matrices, over leading axes; faster than one LAPACK call per matrix."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

UNROLLED = 4
"""Columns up to which products over leading axes are written out as one fused kernel: of SO(3)^150 twice as fast."""


def transposed(A: Any) -> Any:
    """Return the transposed matrices."""
    return jnp.swapaxes(A, -1, -2)


def symmetric(A: Any) -> Any:
    """Return the symmetric parts."""
    return 0.5 * (A + transposed(A))


def identity(A: Any) -> Any:
    """Return the identity of the size of square matrices."""
    return jnp.eye(A.shape[-1], dtype=A.dtype)


def matmul(A: Any, B: Any) -> Any:
    """Return A @ B."""
    if A.shape[-1] > UNROLLED or (A.ndim == 2 and A.shape[-2] * B.shape[-1] > 64):
        return A @ B
    return sum(A[..., :, k, None] * B[..., None, k, :] for k in range(A.shape[-1]))


def gram(Y: Any) -> Any:
    """Return YᵀY."""
    if Y.shape[-1] > UNROLLED or Y.ndim == 2:
        return transposed(Y) @ Y
    return jnp.sum(Y[..., :, None] * Y[..., None, :], -3)


def polar(Y: Any) -> Any:
    """Return Y (YᵀY)^-½ by Newton-Schulz iterations of third order on the Gram matrix: products only.

    For a short step, three or four iterations are sufficient.
    """
    G = gram(Y)
    eye = identity(G)
    largest = jnp.max(jnp.sum(jnp.abs(G), -1, keepdims=True), -2, keepdims=True)
    tol = 4 * G.shape[-1] * jnp.finfo(G.dtype).eps

    def body(carry: Any) -> Any:
        A, Z, _, k = carry  # A → I and Z → G^-½ up to the scale
        E = eye - A
        K = eye + 0.5 * E + 0.375 * matmul(E, E)
        Z, A = matmul(Z, K), matmul(matmul(K, A), K)
        return A, Z, jnp.max(jnp.abs(eye - A)), k + 1

    start = (G / largest, jnp.broadcast_to(eye, G.shape), jnp.full((), jnp.inf, G.dtype), 0)
    _, Z, _, _ = jax.lax.while_loop(lambda c: (c[2] > tol) & (c[3] < 40), body, start)
    root = Z / jnp.sqrt(largest)
    return matmul(Y, root) if Y.shape[-1] <= UNROLLED and Y.ndim > 2 else Y @ root
