"""One sweep over the rows: log-densities, responsibilities, statistics and the derivative by U, in matrix products."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ..families._family import Array
from ._parameters import Model, Statistics

_BLOCK = 1 << 20
"""Entries of a block of components by rows."""
_FEATURES = 1 << 20
"""Entries of a block of sufficient statistics by rows."""
_LOWEST = {np.dtype(np.float32): -70.0, np.dtype(np.float64): -650.0}
"""Exponents are at least this: products of smaller numbers may be denormal, and are then ten times slower."""
_SPARSE = 1 / 12
"""With at most this share of the responsibilities of a block above rounding, sparse products are the faster ones."""
_PATIENCE = 0.25
"""Share of the blocks that may have more of them before they are no longer counted."""


@dataclass(frozen=True)
class Block:
    """A block of rows: all arrays are reused by the next one, and have their rows side by side in memory.

    Attributes
    ----------
    rows : slice
    x : ndarray of shape (b, D)
    z : ndarray of shape (b, M)
        Of unit length if the model normalizes it.
    length : ndarray of shape (b,) or None
        |U x| where z was normalized.
    t : ndarray of shape (b, F + 1 or more)
        Sufficient statistics, a column of ones, and columns of zeros that BLAS likes.
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
        self._natural = np.zeros((K, -(-(F + 1) // 8) * 8))
        self._natural[:, :F], self._natural[:, F] = natural, offset
        self._forward = self._natural.astype(self.dtype)
        self._projection = np.ascontiguousarray(model.U, dtype=self.dtype)
        self._rows = int(np.clip(min(_BLOCK // K, _FEATURES // F), 64, 4096))

    def blocks(self, X: Array, rows: int) -> Iterator[Block]:
        """Go through the rows, so many at a time."""
        most = min(rows, max(len(X), 1))
        M, padded = len(self._projection), self._forward.shape[1]
        Z, T = np.empty(M * most, self.dtype), np.zeros(padded * most, self.dtype)
        for start in range(0, len(X), most):
            rows = slice(start, min(start + most, len(X)))
            b = rows.stop - start
            x = np.ascontiguousarray(X[rows], dtype=self.dtype)
            z, t, length = Z[: M * b].reshape(M, b), T[: padded * b].reshape(padded, b), None
            np.matmul(self._projection, x.T, out=z)
            if self.model.normalize_z:
                length = np.sqrt(np.add.reduce(z * z, axis=0))
                np.maximum(length, np.finfo(self.dtype).tiny, out=length)  # a row may be orthogonal to all of U
                z *= 1 / length
            t[: self.F] = self.model.family.statistics(z.T).T
            t[self.F], t[self.F + 1 :] = 1, 0
            yield Block(rows, x, z.T, length, t.T)

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
        M, D = self.model.U.shape
        K, padded = self._forward.shape
        sums, towards, total = np.zeros((K, padded)), np.zeros((M, D)), 0.0
        exponentials, natural = _Exponentials(self, min(self._rows, len(X))), self._forward.copy()
        natural[:, self.F] = 1
        for block in self.blocks(X, self._rows):
            t = block.t.T
            e, shift = exponentials.of(t)
            G = natural.T @ e  # of natural parameters, and in row F the sums of e
            log_density = shift + np.log(G[self.F], dtype=np.float64)
            scale = 1 / G[self.F]
            if weight is None:
                total += float(log_density.sum())
            else:
                w = weight[block.rows]
                scale = (scale * w).astype(self.dtype)
                total += float(log_density @ w)
            if slope:
                towards += self._pulled(block, (G[: self.F] * scale).T).T @ block.x
            sums += e @ (t * scale).T
        n = float(len(X)) if weight is None else float(weight.sum())
        counts = sums[:, self.F].copy()
        return Statistics(n, counts, sums[:, : self.F].copy(), towards if slope else None, total)

    def _pulled(self, block: Block, G: Array) -> Array:
        """Return the derivative by U x of each row, from that by t."""
        found = self.model.family.pullback(block.z, G)
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


@cache
def _power(dtype: np.dtype) -> tuple[np.ufunc, float]:
    """Return the faster of exp and exp2 in this build of numpy on this machine, and the logarithm of its base.

    exp2 takes half the time of exp where it is written in vector instructions, and twice the time where it is not.
    """
    found = np.lib.introspect.opt_func_info("^exp2$", dtype.name) if hasattr(np.lib, "introspect") else {}
    loops = found.get("exp2", {}).get(2 * dtype.char, {})
    vectors = not loops.get("current", "baseline").startswith("baseline")
    return (np.exp2, float(np.log(2.0))) if vectors else (np.exp, 1.0)


class _Exponentials:
    """exp of the log-densities of a block less the largest of each row; sparse where most are below rounding."""

    def __init__(self, expectation: Expectation, rows: int) -> None:
        dtype = expectation.dtype
        self.power, self.unit = _power(dtype)
        self.forward = (expectation._natural / self.unit).astype(dtype)
        entries = len(self.forward) * rows
        self.room, self.above, self.lowest = np.empty(entries, dtype), np.empty(entries, np.bool_), np.empty(0, dtype)
        self.reach = dtype.type(np.log(len(self.forward) / np.finfo(dtype).eps) / self.unit)
        self.seen, self.dense = 0, 0

    def of(self, t: Array) -> tuple[Array | csr_array, Array]:
        """Return exp(phi - shift), (K, b), and the shifts of the rows, (b,); the next block uses the memory again.

        All that a sparse result leaves out of a row is less than its largest entry times the machine epsilon.
        """
        K, b = len(self.forward), t.shape[1]
        phi, above = (array[: K * b].reshape(K, b) for array in (self.room, self.above))
        np.matmul(self.forward, t, out=phi)
        top = phi.max(axis=0)
        shift = self.unit * top.astype(np.float64)
        self.seen += 1
        if self.dense <= _PATIENCE * self.seen:
            np.greater_equal(phi, top - self.reach, out=above)  # equal where phi is so large that nothing else is near
            if np.count_nonzero(above) <= _SPARSE * above.size:
                return self._sparse(phi, top, np.flatnonzero(above)), shift
            self.dense += 1
        if not self.lowest.size:
            self.lowest = np.full_like(self.room, _LOWEST[phi.dtype] / self.unit)
        phi -= top
        np.maximum(phi, self.lowest[: K * b].reshape(K, b), out=phi)  # with a number or a row it takes twice the time
        return self.power(phi, out=phi), shift

    def _sparse(self, phi: Array, top: Array, at: NDArray[np.intp]) -> csr_array:
        """Return the exponentials of the entries `at`, counted row by row."""
        K, b = phi.shape
        column = at - at // b * b
        e = phi.ravel().take(at) - top.take(column)
        begins = at.searchsorted(np.arange(0, K * b + 1, b))
        return csr_array((self.power(e, out=e), column.astype(np.int32), begins.astype(np.int32)), (K, b))


def second_moment(X: Array, weight: Array | None = None) -> Array:
    """Return X' X, (D, D), weighted if there are weights; blocks are summed in float64."""
    D = X.shape[1]
    found, rows = np.zeros((D, D)), 4096
    for start in range(0, len(X), rows):
        part = X[start : start + rows]
        scaled = part if weight is None else part * weight[start : start + rows, None].astype(part.dtype)
        found += scaled.T @ part
    return 0.5 * (found + found.T)
