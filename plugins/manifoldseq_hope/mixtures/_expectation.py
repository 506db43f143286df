"""One sweep over the rows: log-densities, responsibilities, statistics and the derivative by U, in matrix products."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ..families._family import Array
from ._parameters import Model, Statistics

_BLOCK = 1 << 20
"""Entries of a block of components by rows."""
_FEATURES = 1 << 20
"""Entries of a block of sufficient statistics by rows."""
# Tricks of speed (`python -m benchmarks.tricks responsibilities denormal`): without the sparse products 25 iterations
# on patches of MNIST take 1.27 times as long, without the least exponent a fit with kappa=400 takes 1.44 times.
_LOWEST = {np.dtype(np.float32): -70.0, np.dtype(np.float64): -650.0}
"""Exponents are at least this: products of smaller numbers may be denormal."""
_SPARSE = 1 / 12
"""With at most this share of the responsibilities of a block above rounding, products are sparse."""
_PATIENCE = 0.25
"""Share of the blocks that may have more of them before they are no longer counted."""


@dataclass(frozen=True)
class Block:
    """A block of rows; the columns of its arrays lie one after the other in memory, as the sums over rows read them.

    Attributes
    ----------
    rows : slice
    x : ndarray of shape (b, D)
    z : ndarray of shape (b, M)
        Of unit length if the model normalizes it.
    length : ndarray of shape (b,) or None
        |U x| where z was normalized.
    t : ndarray of shape (b, F + 1)
        Sufficient statistics, and a column of ones.
    """

    rows: slice
    x: Array
    z: Array
    length: Array | None
    t: Array


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
        natural, offset = model.family.natural(model.parameters, len(model.U))
        with np.errstate(divide="ignore"):  # a weight may be zero
            offset = offset + np.maximum(np.log(np.asarray(model.weights, dtype=np.float64)), -1e30)
        K, F = natural.shape
        self.F = F
        # phi (37) of a row with statistics t is forward @ [t, 1]: natural parameters, (K, F), and ln pi_k + ln C_k
        self._forward = np.concatenate([natural, offset[:, None]], axis=1).astype(self.dtype)
        self._projection = np.ascontiguousarray(model.U, dtype=self.dtype)
        self._rows = int(np.clip(min(_BLOCK // K, _FEATURES // F), 64, 4096))

    def blocks(self, X: Array, rows: int) -> Iterator[Block]:
        """Go through the rows, so many at a time."""
        for start in range(0, len(X), rows):
            some = slice(start, min(start + rows, len(X)))
            x = np.ascontiguousarray(X[some], dtype=self.dtype)
            z, length = self._projection @ x.T, None
            if self.model.normalize_z:
                length = np.sqrt((z * z).sum(axis=0))
                np.maximum(length, np.finfo(self.dtype).tiny, out=length)  # a row may be orthogonal to all of U
                z /= length
            t = np.ones((self.F + 1, len(x)), self.dtype)
            t[: self.F] = self.model.family.statistics(z.T).T
            yield Block(some, x, z.T, length, t.T)

    @np.errstate(divide="ignore", invalid="ignore")  # a likelihood that is NaN ends the fit, which says so
    def statistics(self, X: Array, weight: Array | None = None, slope: bool = True) -> Statistics:
        """Return the statistics of the rows, (N, D), in one pass.

        Parameters
        ----------
        X : ndarray of shape (N, D)
        weight : ndarray of shape (N,), optional
        slope : bool
            Whether to compute the derivative by U too.
        """
        sums, towards, total = np.zeros(self._forward.shape), np.zeros(self.model.U.shape), 0.0
        exponentials, natural = _Exponentials(self._forward), self._forward.copy()
        natural[:, self.F] = 1
        # with e = exp(phi - top), (K, b), the responsibilities (31) are e / sum_k e; they are never formed: all sums
        # over k of them are products with e, scaled by 1 / sum_k e of the row afterwards
        for block in self.blocks(X, self._rows):
            t = block.t.T
            e, top = exponentials.of(t)
            G = natural.T @ e  # of natural parameters, and in row F the sums of e
            log_density = top.astype(np.float64) + np.log(G[self.F], dtype=np.float64)
            scale = 1 / G[self.F]
            if weight is None:
                total += float(log_density.sum())
            else:
                w = weight[block.rows]
                scale = (scale * w).astype(self.dtype)
                total += float(log_density @ w)
            # (28), (34): the derivative by U is the sum over rows of (that by U x) x', (M, b) (b, D)
            if slope:
                towards += self._pulled(block, (G[: self.F] * scale).T).T @ block.x
            sums += e @ (t * scale).T  # sum g t, (K, F), and sum g in the last column
        n = float(len(X)) if weight is None else float(weight.sum())
        counts = sums[:, self.F].copy()
        return Statistics(n, counts, sums[:, : self.F].copy(), towards if slope else None, total)

    def _pulled(self, block: Block, G: Array) -> Array:
        """Return the derivative by U x of each row, from that by t."""
        found = self.model.family.pullback(block.z, G)
        # through z = Ux / |Ux|: the part across z, over the length (63)
        if block.length is not None:
            z = block.z.T
            found = found.T - z * np.add.reduce(found.T * z, axis=0)
            found *= 1 / block.length
            found = found.T
        return found

    def _parts(self, X: Array) -> Iterator[tuple[slice, Array]]:
        """Go through the rows with phi (37), (K, b)."""
        for block in self.blocks(X, max(self._rows // 4, 64)):  # phi stays in the cache
            yield block.rows, self._forward @ block.t.T

    def log_density(self, X: Array) -> Array:
        """Return ln p(z) (38) of each row, (N,), in float64."""
        found = np.empty(len(X))
        for rows, phi in self._parts(X):
            top = phi.max(axis=0)
            mass = np.exp(phi - top).sum(axis=0, dtype=np.float64)
            found[rows] = top + np.log(mass)
        return found

    def phi(self, X: Array) -> Array:
        """Return the log-likelihood contributions (37), (N, K)."""
        found = np.empty((len(X), len(self._forward)), self.dtype)
        for rows, phi in self._parts(X):
            found[rows] = phi.T
        return found

    def responsibilities(self, X: Array) -> Array:
        """Return (31) of each row, (N, K)."""
        found = self.phi(X)
        found -= found.max(axis=1, keepdims=True)
        np.exp(found, out=found)
        found /= found.sum(axis=1, keepdims=True)
        return found

    def labels(self, X: Array) -> NDArray[np.intp]:
        """Return the likeliest component of each row, (N,)."""
        found = np.empty(len(X), np.intp)
        for rows, phi in self._parts(X):
            found[rows] = phi.argmax(axis=0)
        return found


class _Exponentials:
    """exp of the log-densities of a block less the largest of each row; sparse where most are below rounding."""

    def __init__(self, forward: Array) -> None:
        self.forward = forward
        self.reach = forward.dtype.type(np.log(len(forward) / np.finfo(forward.dtype).eps))
        self.seen, self.dense = 0, 0

    def of(self, t: Array) -> tuple[Array | csr_array, Array]:
        """Return exp(phi - top), (K, b), and the largest phi of each row, top (b,).

        All that a sparse result leaves out of a row is less than its largest entry times the machine epsilon.
        """
        phi = self.forward @ t
        top = phi.max(axis=0)
        self.seen += 1
        if self.dense <= _PATIENCE * self.seen:
            above = phi >= top - self.reach  # equal where phi is so large that nothing else is near
            if np.count_nonzero(above) <= _SPARSE * above.size:
                return _sparse_exponentials(phi, top, np.flatnonzero(above)), top
            self.dense += 1
        phi -= top
        np.maximum(phi, phi.dtype.type(_LOWEST[phi.dtype]), out=phi)
        return np.exp(phi, out=phi), top


def _sparse_exponentials(phi: Array, top: Array, at: NDArray[np.intp]) -> csr_array:
    """Return exp(phi - top), (K, b), of the entries `at`, counted row by row."""
    # in the compressed rows of (K, b): columns, and where the entries of each component begin
    K, b = phi.shape
    column = at - at // b * b
    begins = at.searchsorted(np.arange(0, K * b + 1, b))
    e = np.exp(phi.ravel().take(at) - top.take(column))
    return csr_array((e, column.astype(np.int32), begins.astype(np.int32)), (K, b))


def second_moment(X: Array, weight: Array | None = None) -> Array:
    """Return X' X, (D, D), weighted if there are weights; blocks are summed in float64."""
    D = X.shape[1]
    found, rows = np.zeros((D, D)), 4096
    for start in range(0, len(X), rows):
        part = X[start : start + rows]
        scaled = part if weight is None else part * weight[start : start + rows, None].astype(part.dtype)
        found += scaled.T @ part
    return 0.5 * (found + found.T)
