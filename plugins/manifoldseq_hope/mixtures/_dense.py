"""Network layers as arrays: trained in torch, stored and applied without it."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from manifoldseq.estimators import check_whole

from ..families._family import Array


@dataclass(frozen=True)
class Dense:
    """An affine layer ``x W' + b``, or an affine layer after a projection, ``(x U') mu' + b``.

    Attributes
    ----------
    U : ndarray of shape (M, D) or None
    weight : ndarray of shape (K, M), or (K, D) without a projection
    bias : ndarray of shape (K,)

    Examples
    --------
    >>> import numpy as np
    >>> from manifoldseq_hope import Dense
    >>> layer = Dense(np.eye(2, 3), np.ones((4, 2)), np.zeros(4))
    >>> layer(np.ones((1, 3))).tolist(), layer.merged().weight.shape
    ([[2.0, 2.0, 2.0, 2.0]], (4, 3))
    """

    U: Array | None
    weight: Array
    bias: Array

    def __call__(self, X: Array) -> Array:
        """Apply the layer to rows, (N, D) -> (N, K), without rectification."""
        Z = X if self.U is None else X @ self.U.T
        found = Z @ self.weight.T
        found += self.bias
        return found

    @property
    def parts(self) -> tuple[Array, ...]:
        """The arrays of the layer."""
        return (self.weight, self.bias) if self.U is None else (self.U, self.weight, self.bias)

    @property
    def n_inputs(self) -> int:
        """The number D of inputs."""
        return (self.weight if self.U is None else self.U).shape[1]

    def merged(self) -> "Dense":
        """Return the layer without the projection: weights ``w_k = U' mu_k``."""
        return self if self.U is None else Dense(None, self.weight @ self.U, self.bias)

    def n_parameters(self, merged: bool = False) -> int:
        """Return the number of parameters: M (D + K) + K of the two parts, K (D + 1) of the merged layer."""
        K = len(self.bias)
        return K * (self.n_inputs + 1) if merged else sum(part.size for part in self.parts[:-1]) + K

    def orthonormality(self) -> float:
        """Return the largest entry of ``|U U' - I|`` in float64; zero without a projection."""
        if self.U is None:
            return 0.0
        U = self.U.astype(np.float64)
        return float(np.abs(U @ U.T - np.eye(len(U))).max())


def decomposed(W: Array, b: Array | None = None, n_latent: Any = None) -> Dense:
    """Return the layer with a projection that is nearest to given weights, from their leading singular vectors.

    Parameters
    ----------
    W : ndarray of shape (K, D)
    b : ndarray of shape (K,), optional
    n_latent : int, optional
        M; by default the rank of W.
    """
    if W.ndim != 2 or 0 in W.shape or W.dtype.kind not in "fiu":
        raise ValueError(f"W has shape {W.shape} and dtype {W.dtype}: pass real weights (K, D)")
    b = np.zeros(len(W), W.dtype) if b is None else b
    if b.shape != (len(W),):
        raise ValueError(f"b has shape {b.shape}: pass one bias per row of W, ({len(W)},)")
    if not (np.isfinite(W).all() and np.isfinite(b).all()):
        raise ValueError("W or b has NaN or infinity: pass finite weights")
    dtype = np.float32 if W.dtype == np.float32 else np.float64
    P, s, Q = np.linalg.svd(W.astype(np.float64), full_matrices=False)
    rank = max(1, int(np.sum(s > s[0] * max(W.shape) * np.finfo(dtype).eps)))
    if n_latent is None:
        n_latent = rank
    check_whole("n_latent", n_latent)
    if n_latent > W.shape[1]:
        raise ValueError(f"n_latent={n_latent} exceeds the {W.shape[1]} columns of W: lower n_latent")
    M = min(n_latent, len(s))
    return Dense(*(np.ascontiguousarray(part, dtype) for part in (Q[:M], P[:, :M] * s[:M], b)))
