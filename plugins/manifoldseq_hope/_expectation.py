"""One sweep over the rows: log-densities, responsibilities, statistics and the derivative by U, in matrix products."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ._family import Array
from ._mixture import Model, Statistics

_BLOCK = 1 << 18
"""Entries of a block of rows by components: it stays in the cache between the matrix products."""
_FEATURES = 1 << 20
"""Entries of a block of rows by sufficient statistics."""


@dataclass(frozen=True)
class Block:
    """A block of rows: all arrays are reused by the next one.

    Attributes
    ----------
    rows : slice
    x : ndarray of shape (b, D)
    z : ndarray of shape (b, M)
        Of unit length if the model normalizes it.
    length : ndarray of shape (b, 1) or None
        |U x| where z was normalized.
    t : ndarray of shape (b, F + 1)
        Sufficient statistics and a column of ones.
    phi : ndarray of shape (b, K)
        The log-densities of the components (37).
    """

    rows: slice
    x: Array
    z: Array
    length: Array | None
    t: Array
    phi: Array


class Expectation:
    """The E-step of a model, in the dtype of the data.

    Parameters
    ----------
    model : Model
    dtype : float32 or float64
        Of the matrix products; sums over blocks are in float64.
    """

    def __init__(self, model: Model, dtype: np.dtype) -> None:
        self.model, self.dtype = model, np.dtype(dtype)
        M = len(model.U)
        natural, offset = model.family.natural(model.parameters, M)
        with np.errstate(divide="ignore"):  # a weight may be zero
            offset = offset + np.log(np.asarray(model.weights, dtype=np.float64))
        self.offset = offset
        self.natural = np.column_stack([natural, offset]).astype(self.dtype)
        self.backward = np.column_stack([natural, np.ones(len(natural))]).astype(self.dtype)
        self._projection = np.ascontiguousarray(model.U.T, dtype=self.dtype)
        K, F = self.natural.shape
        self._rows = int(np.clip(min(_BLOCK // K, _FEATURES // F), 32, 4096))

    def blocks(self, X: Array) -> Iterator[Block]:
        """Go through the rows, with phi (37) of each."""
        K, F1 = self.natural.shape
        most = min(self._rows, max(len(X), 1))
        Z, T = np.empty((most, self._projection.shape[1]), self.dtype), np.empty((most, F1), self.dtype)
        P, transposed = np.empty((most, K), self.dtype), np.ascontiguousarray(self.natural.T)
        T[:, -1] = 1
        for start in range(0, len(X), most):
            rows = slice(start, min(start + most, len(X)))
            b = rows.stop - start
            x = np.ascontiguousarray(X[rows], dtype=self.dtype)
            z, t, phi, length = Z[:b], T[:b], P[:b], None
            np.matmul(x, self._projection, out=z)
            if self.model.normalize_z:
                length = np.sqrt(np.einsum("bm,bm->b", z, z))[:, None]
                np.maximum(length, np.finfo(self.dtype).tiny, out=length)  # a row may be orthogonal to all of U
                z /= length
            t[:, :-1] = self.model.family.statistics(z)
            t[:, -1] = 1
            np.matmul(t, transposed, out=phi)
            yield Block(rows, x, z, length, t, phi)

    def statistics(self, X: Array, weight: Array | None = None, slope: bool = True) -> Statistics:
        """Return the statistics of the rows, (N, D), in one pass.

        Parameters
        ----------
        X : ndarray of shape (N, D)
        weight : ndarray of shape (N,), optional
        slope : bool
            Whether to compute the derivative by U too.
        """
        M, D = self.model.U.shape
        K, F1 = self.natural.shape
        sums, towards = np.zeros((K, F1)), np.zeros((M, D))
        total = 0.0
        for block in self.blocks(X):
            phi, t = block.phi, block.t
            top = phi.max(axis=1)
            phi -= top[:, None]
            np.exp(phi, out=phi)
            # the last column of the product sums the rows; they are scaled to one where that is cheap, in F columns
            G = phi @ self.backward if slope else None
            mass = phi.sum(axis=1) if G is None else G[:, -1]
            log_density = top.astype(np.float64) + np.log(mass.astype(np.float64))
            scale = 1 / mass
            if weight is not None:
                w = weight[block.rows]
                scale = (scale * w).astype(self.dtype)
                total += float(log_density @ w)
            else:
                total += float(log_density.sum())
            if G is not None:
                towards += self._pulled(block, G[:, :-1] * scale[:, None]).T @ block.x
            t *= scale[:, None]
            sums += phi.T @ t
        n = float(len(X)) if weight is None else float(weight.sum())
        return Statistics(n, sums[:, -1].copy(), sums[:, :-1].copy(), towards if slope else None, total)

    def _pulled(self, block: Block, G: Array) -> Array:
        """Return the derivative by U x of each row, from that by t."""
        found = self.model.family.pullback(block.z, G)
        if block.length is not None:
            found = found - block.z * np.einsum("bm,bm->b", found, block.z)[:, None]
            found /= block.length
        return found

    def log_density(self, X: Array) -> Array:
        """Return ln p(z) (38) of each row, (N,), in float64."""
        found = np.empty(len(X))
        for block in self.blocks(X):
            top = block.phi.max(axis=1, keepdims=True)
            mass = np.exp(block.phi - top).sum(axis=1, dtype=np.float64)
            found[block.rows] = top[:, 0] + np.log(mass)
        return found

    def phi(self, X: Array) -> Array:
        """Return the log-likelihood contributions (37), (N, K)."""
        found = np.empty((len(X), len(self.natural)), self.dtype)
        for block in self.blocks(X):
            found[block.rows] = block.phi
        return found

    def responsibilities(self, X: Array) -> Array:
        """Return (31) of each row, (N, K)."""
        found = np.empty((len(X), len(self.natural)), self.dtype)
        for block in self.blocks(X):
            part = np.exp(block.phi - block.phi.max(axis=1, keepdims=True))
            found[block.rows] = part / part.sum(axis=1, keepdims=True)
        return found

    def labels(self, X: Array) -> NDArray[np.intp]:
        """Return the likeliest component of each row, (N,)."""
        found = np.empty(len(X), np.intp)
        for block in self.blocks(X):
            found[block.rows] = block.phi.argmax(axis=1)
        return found


def second_moment(X: Array, weight: Array | None = None) -> Array:
    """Return X' X, (D, D), weighted if there are weights; blocks are summed in float64."""
    D = X.shape[1]
    found, rows = np.zeros((D, D)), 4096
    for start in range(0, len(X), rows):
        part = X[start : start + rows]
        scaled = part if weight is None else part * weight[start : start + rows, None].astype(part.dtype)
        found += scaled.T @ part
    return 0.5 * (found + found.T)
