"""One sweep over the rows: log-densities, responsibilities, statistics and the derivative by U, in matrix products."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from ._family import Array
from ._mixture import Model, Statistics

_BLOCK = 1 << 18
"""Entries of a block of components by rows: it stays in the cache between the matrix products."""
_FEATURES = 1 << 20
"""Entries of a block of sufficient statistics by rows."""
_LOWEST = {np.dtype(np.float32): -70.0, np.dtype(np.float64): -650.0}
"""Exponents are at least this: products of smaller numbers may be denormal, and are then ten times slower."""
_NEAR = {np.dtype(np.float32): (-35.0, 55.0), np.dtype(np.float64): (-300.0, 300.0)}
"""How far the log-density of a row may be from the shift of all rows before it needs one of its own."""
_PATIENCE = 0.25
"""Share of the blocks that may have such rows before all blocks get shifts by row."""


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
            offset = offset + np.log(np.asarray(model.weights, dtype=np.float64))
        K, F = natural.shape
        self.F = F
        self._natural = np.zeros((K, -(-(F + 1) // 8) * 8))
        self._natural[:, :F], self._natural[:, F] = natural, np.maximum(offset, -1e30)
        self._forward = self._natural.astype(self.dtype)
        self._projection = np.ascontiguousarray(model.U, dtype=self.dtype)
        self._rows = int(np.clip(min(_BLOCK // K, _FEATURES // F), 64, 4096))

    def blocks(self, X: Array) -> Iterator[Block]:
        """Go through the rows."""
        most = min(self._rows, max(len(X), 1))
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
        E, part = np.empty(K * self._rows, self.dtype), np.empty((K, padded), self.dtype)
        exponentials, identity = _Exponentials(self), np.eye(padded, dtype=self.dtype)
        for block in self.blocks(X):
            b, t = len(block.x), block.t.T
            e = E[: K * b].reshape(K, b)
            log_density, G = exponentials.of(t, e)  # G: the product of e with natural parameters, and its sum by row
            scale = 1 / G[self.F]
            if weight is None:
                total += float(log_density.sum())
            else:
                w = weight[block.rows]
                scale = (scale * w).astype(self.dtype)
                total += float(log_density @ w)
            if slope:
                towards += self._pulled(block, (G[: self.F] * scale).T).T @ block.x
            t *= scale
            np.matmul(e, t.T @ identity, out=part)  # the product transposes faster than a copy does
            sums += part
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
        for block in self.blocks(X):
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
    """exp of the log-densities of a block, shifted into the range of numbers.

    One shift for all rows costs nothing: it is in the matrix product. In a block with a row that is far from it, every
    row gets a shift of its own; where there are many such blocks, the others are not tried any more.
    """

    def __init__(self, expectation: Expectation) -> None:
        self.F, self.dtype = expectation.F, expectation.dtype
        self.power, self.unit = _power(self.dtype)
        self.offset = expectation._natural[:, self.F] / self.unit
        self.forward = (expectation._natural / self.unit).astype(self.dtype)
        self.backward = expectation._forward.T.copy(order="C")  # a copy also for K = 1
        self.backward[self.F] = 1
        self.lowest = np.full(expectation._rows, _LOWEST[self.dtype] / self.unit, self.dtype)
        self.low, self.high = np.exp(_NEAR[self.dtype])
        self.shift, self.seen, self.far = 0.0, 0, 0

    def of(self, t: Array, out: Array) -> tuple[Array, Array]:
        """Return ln p(z) of the rows, and the products of the exponentials, put into `out`, with natural parameters."""
        self.seen += 1
        if self.seen > 1 and self.far <= max(_PATIENCE * self.seen, 1):
            np.matmul(self.forward, t, out=out)
            with np.errstate(over="ignore", invalid="ignore"):
                G = self._exponentials(out)
            mass = G[self.F].astype(np.float64)
            if mass.min() > self.low and mass.max() < self.high:
                return self.unit * self.shift + np.log(mass), G
            self.far += 1
        np.matmul(self.forward, t, out=out)
        top = out.max(axis=0)
        out -= top
        G = self._exponentials(out)
        log_density = self.unit * (self.shift + top.astype(np.float64)) + np.log(G[self.F].astype(np.float64))
        if self.seen == 1:
            self.shift = float(np.median(log_density)) / self.unit
            self.forward[:, self.F] = self.offset - self.shift
        return log_density, G

    def _exponentials(self, out: Array) -> Array:
        np.maximum(out, self.lowest[: out.shape[1]], out=out)  # a row of them: with a number it takes twice the time
        self.power(out, out=out)
        return self.backward @ out


def second_moment(X: Array, weight: Array | None = None) -> Array:
    """Return X' X, (D, D), weighted if there are weights; blocks are summed in float64."""
    D = X.shape[1]
    found, rows = np.zeros((D, D)), 4096
    for start in range(0, len(X), rows):
        part = X[start : start + rows]
        scaled = part if weight is None else part * weight[start : start + rows, None].astype(part.dtype)
        found += scaled.T @ part
    return 0.5 * (found + found.T)
