"""States from outputs: singular value decomposition and least squares (Doretto et al. 2003), in batches."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating[Any]]

_LEAST_NOISE = 1e-10
"""Minimum variance of the output noise, in units of the mean variance of the outputs."""
# A trick of speed: with whole singular value decompositions identification of sequences of 50 × 177 and 50 × 1000, n =
# 10, takes 1.4 times as long (`python -m benchmarks.tricks leading`).
_SMALL = 16
"""Up to this size a full singular value decomposition is the fastest method."""
_WEAK = 1e-3
"""A Gram matrix squares singular values, so that directions below this fraction of the largest would lose digits."""


@dataclass(frozen=True)
class Subspace:
    """The outputs of N sequences of one length, in coordinates of their principal directions.

    Parameters
    ----------
    U : ndarray of shape (N, m, k)
        Principal directions, with k at least the requested number of states.
    s : ndarray of shape (N, r)
        Descending; directions at the rounding level of the sequence are exactly zero.
    Vt : ndarray of shape (N, k, T)
    mean : ndarray of shape (N, m) or None
    peak : ndarray of shape (N,)
        The largest modulus of the outputs.
    """

    U: Array
    s: Array
    Vt: Array
    mean: Array | None
    peak: Array

    def energies(self) -> Array:
        """Return the sum of squares along each direction, (N, r)."""
        return self.s**2

    def states(self, n: int) -> tuple[Array, Array]:
        """Return C (N, m, n) and the states (N, n, T); the largest entry of each column of C is positive."""
        C = self.U[:, :, :n]
        largest = np.take_along_axis(C, np.abs(C).argmax(axis=1, keepdims=True), axis=1)
        signs = np.where(largest < 0, -1.0, 1.0)
        return C * signs, (signs.swapaxes(1, 2) * self.s[:, :n, None]) * self.Vt[:, :n]

    def noise(self, n: int) -> Array:
        """Return the variance of the outputs that n states do not explain, (N,), one value for all outputs.

        This is the maximum-likelihood estimate of probabilistic principal component analysis (Tipping and Bishop 1999),
        bounded below by 1e-10 of the mean variance, so that a likelihood exists.
        """
        N, m, _ = self.U.shape
        T = self.Vt.shape[2]
        energy = self.energies()
        residual = energy[:, n:].sum(axis=1) / (T * (m - n)) if m > n else np.zeros(N)
        rounding = np.maximum((np.finfo(float).eps * self.peak) ** 2, 1e-100)
        return np.maximum(np.maximum(residual, _LEAST_NOISE * energy.sum(axis=1) / (T * m)), rounding)


def subspace(Y: Array, center: bool, n: int | None = None) -> Subspace:
    """Decompose sequences of one length.

    Parameters
    ----------
    Y : ndarray of shape (N, m, T)
    center : bool
        Remove the mean of each output.
    n : int, optional
        Number of required directions, which `U` and `Vt` contain. They are computed from the eigenvectors of the
        smaller Gram matrix and a singular value decomposition in their coordinates; a full decomposition is used if
        direction n is below 1e-3 of the largest.
    """
    peak = np.abs(Y).max(axis=(1, 2))
    mean = Y.mean(axis=2) if center else None
    if mean is not None:
        Y = Y - mean[:, :, None]
    if n is None or min(Y.shape[1:]) <= _SMALL:
        U, s, Vt = np.linalg.svd(Y, full_matrices=False)
    else:
        U, s, Vt = _leading(Y, n)
    return Subspace(U, without_noise(s, peak, Y.shape[1:]), Vt, mean, peak)


def _leading(Y: Array, n: int) -> tuple[Array, Array, Array]:
    """Return the n leading singular vectors on both sides, and all singular values."""
    Yt = Y.swapaxes(1, 2)
    tall = Y.shape[1] > Y.shape[2]
    # the eigenvectors of the smaller Gram matrix span the n directions, to the square root of the precision; Q'Y, (n,
    # T), is small enough to be decomposed exactly
    w, W = np.linalg.eigh(Yt @ Y if tall else Y @ Yt)
    s, W = np.sqrt(np.maximum(w[:, ::-1], 0)), W[:, :, : -n - 1 : -1]
    Q = np.linalg.qr(Y @ W)[0] if tall else W
    P, s[:, :n], Vt = np.linalg.svd(Q.swapaxes(1, 2) @ Y, full_matrices=False)
    U = Q @ P
    weak = s[:, n - 1] <= _WEAK * s[:, 0]
    if weak.any():
        whole = np.linalg.svd(Y[weak], full_matrices=False)
        U[weak], s[weak], Vt[weak] = whole[0][:, :, :n], whole[1], whole[2][:, :n]
    return U, s, Vt


def without_noise(s: Array, peak: Array, shape: tuple[int, ...], precision: float = 1.0) -> Array:
    """Return singular values; values at the rounding level of the sequence are set to zero."""
    level = np.maximum(s[:, :1], peak[:, None]) * max(shape) * np.finfo(np.float64).eps * precision
    return np.where(s <= level, 0.0, s)


def least_squares(X: Array) -> Array:
    """Return the matrices (N, n, n) that predict each state of (N, n, T) from the previous state by least squares."""
    return X[:, :, 1:] @ np.linalg.pinv(X[:, :, :-1], rtol=1e-12)


def noise_factor(A: Array, X: Array) -> Array:
    """Return the symmetric factors F of the covariances ``F F'`` of the residuals of the states X under A."""
    # the symmetric square root of the covariance of the residuals, (N, n, n)
    residual = X[:, :, 1:] - A @ X[:, :, :-1]
    w, W = np.linalg.eigh(residual @ residual.swapaxes(1, 2) / residual.shape[2])
    return (W * np.sqrt(np.maximum(w, 0))[:, None, :]) @ W.swapaxes(1, 2)
