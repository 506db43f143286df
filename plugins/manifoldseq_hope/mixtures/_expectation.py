"""One pass over the rows: log-densities, responsibilities, statistics and the derivative with respect to U."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse
from scipy.sparse.linalg import svds

from ..families._family import Array
from ._parameters import Model, Statistics

_BLOCK = 1 << 20
"""Number of entries of a block of components by rows."""
_FEATURES = 1 << 20
"""Number of entries of a block of sufficient statistics by rows."""
# Tricks of speed (`python -m benchmarks.tricks responsibilities denormal`): without the sparse products 25 iterations
# on patches of MNIST take 1.27 times as long, without the least exponent a fit with kappa=400 takes 1.44 times.
_LOWEST = {np.dtype(np.float32): -70.0, np.dtype(np.float64): -650.0}
"""Lower bound of exponents, because products of smaller numbers may be denormal."""
_SPARSE = 1 / 12
"""Products are sparse if at most this fraction of the responsibilities of a block exceeds rounding."""
_PATIENCE = 0.25
"""Fraction of the blocks that may exceed this limit before responsibilities are no longer counted."""


@dataclass(frozen=True)
class Block:
    """A block of rows; its arrays are stored column by column, in the order in which sums over rows read them.

    Attributes
    ----------
    rows : slice
    x : ndarray of shape (b, D)
    z : ndarray of shape (b, M)
        Projections, scaled to unit length if the model normalizes z.
    length : ndarray of shape (b,) or None
        |U x| if z is normalized.
    t : ndarray of shape (b, F + 1)
        Sufficient statistics, and a column of ones.
    """

    rows: slice
    x: Array
    z: Array
    length: Array | None
    t: Array


class Expectation:
    """The E-step of a model, in the dtype of the data. Rows are an array, or sparse and in compressed form.

    Parameters
    ----------
    model : Model
    dtype : float32 or float64
        The dtype of the matrix products; sums over blocks are computed in float64.
    """

    def __init__(self, model: Model, dtype: np.dtype) -> None:
        self.model, self.dtype = model, np.dtype(dtype)
        natural, offset = model.family.natural(model.parameters, model.M)
        with np.errstate(divide="ignore"):  # a weight may be zero
            offset = offset + np.maximum(np.log(np.asarray(model.weights, dtype=np.float64)), -1e30)
        K, F = natural.shape
        self.F = F
        # phi (37) of a row with statistics t is forward @ [t, 1]: natural parameters, (K, F), and ln pi_k + ln C_k
        self._forward = np.concatenate([natural, offset[:, None]], axis=1).astype(self.dtype)
        self._projection = np.ascontiguousarray(model.U, dtype=self.dtype)
        self._rows = int(np.clip(min(_BLOCK // K, _FEATURES // F), 64, 4096))

    def blocks(self, X: Any, rows: int) -> Iterator[Block]:
        """Yield slices of the rows."""
        for some in _slices(X, rows):
            if issparse(X):
                x, length = X[some], None
                z = np.ascontiguousarray((x @ self._projection.T).T)
            else:
                x, length = np.ascontiguousarray(X[some], dtype=self.dtype), None
                z = self._projection @ x.T
            if self.model.normalize_z:
                length = np.sqrt((z * z).sum(axis=0))
                np.maximum(length, np.finfo(self.dtype).tiny, out=length)  # a row may be orthogonal to all of U
                z /= length
            t = np.ones((self.F + 1, z.shape[1]), self.dtype)
            t[: self.F] = self.model.family.statistics(z.T).T
            yield Block(some, x, z.T, length, t.T)

    @np.errstate(divide="ignore", invalid="ignore")  # a likelihood that is NaN ends the fit, which says so
    def statistics(self, X: Any, weight: Array | None = None, slope: bool = True) -> Statistics:
        """Return the statistics of the rows, (N, D), in one pass.

        Parameters
        ----------
        X : ndarray of shape (N, D)
        weight : ndarray of shape (N,), optional
        slope : bool
            Whether to compute the derivative by U too.
        """
        if not len(self.model.U):
            return self._statistics_of_directions(X, weight)
        sums, towards, total = np.zeros(self._forward.shape), np.zeros(self.model.U.shape), 0.0
        exponentials, natural = _Exponentials(len(self._forward), self.dtype), self._forward.copy()
        natural[:, self.F] = 1
        # with e = exp(phi - top), (K, b), the responsibilities (31) are e / sum_k e; they are never formed: all sums
        # over k of them are products with e, scaled by 1 / sum_k e of the row afterwards
        for block in self.blocks(X, self._rows):
            t = block.t.T
            e, top = exponentials.of(self._forward @ t)
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
        n = float(X.shape[0]) if weight is None else float(weight.sum())
        counts = sums[:, self.F].copy()
        return Statistics(n, counts, sums[:, : self.F].copy(), towards if slope else None, total)

    def _statistics_of_directions(self, X: Any, weight: Array | None) -> Statistics:
        """Return the statistics of unit rows that are not projected, where t, z and x are the same array."""
        K, total = len(self._forward), 0.0
        counts, sums = np.zeros(K), np.zeros((K, self.F))
        exponentials = _Exponentials(K, self.dtype)
        for some, x, phi in self._of_directions(X, self._rows):
            e, top = exponentials.of(phi)
            mass = np.asarray(e.sum(axis=0))
            log_density, scale = top.astype(np.float64) + np.log(mass, dtype=np.float64), 1 / mass
            total += float(log_density.sum() if weight is None else log_density @ weight[some])
            if weight is not None:
                scale = (scale * weight[some]).astype(self.dtype)
            # the responsibilities (31), (K, b), and their sums
            if isinstance(e, csr_array):
                e.data *= scale[e.indices]
            else:
                e *= scale
            counts += np.asarray(e.sum(axis=1))
            sums += e @ x if not issparse(X) else (x.T @ _dense(e).T).T
        n = float(X.shape[0]) if weight is None else float(weight.sum())
        return Statistics(n, counts, sums, None, total)

    def _of_directions(self, X: Any, rows: int) -> Iterator[tuple[slice, Any, Array]]:
        """Yield blocks of rows that are not projected, with phi (37), (K, b)."""
        mu, offset = self._forward[:, : self.F], self._forward[:, self.F :]
        across = np.ascontiguousarray(mu.T) if issparse(X) else None
        for some in _slices(X, rows):
            x = X[some]
            phi = mu @ x.T if across is None else np.ascontiguousarray((x @ across).T)
            phi += offset
            yield some, x, phi

    def _pulled(self, block: Block, G: Array) -> Array:
        """Return the derivative by U x of each row, from the derivative by t."""
        found = self.model.family.pullback(block.z, G)
        # through z = Ux / |Ux|: the part across z, over the length (63)
        if block.length is not None:
            z = block.z.T
            found = found.T - z * np.add.reduce(found.T * z, axis=0)
            found *= 1 / block.length
            found = found.T
        return found

    def _parts(self, X: Any) -> Iterator[tuple[slice, Array]]:
        """Yield blocks of rows with phi (37), (K, b)."""
        rows = max(self._rows // 4, 64)  # phi stays in the cache
        if not len(self.model.U):
            for some, _, phi in self._of_directions(X, rows):
                yield some, phi
            return
        for block in self.blocks(X, rows):
            yield block.rows, self._forward @ block.t.T

    def log_density(self, X: Array) -> Array:
        """Return ln p(z) (38) of each row, (N,), in float64."""
        found = np.empty(X.shape[0])
        for rows, phi in self._parts(X):
            top = phi.max(axis=0)
            mass = np.exp(phi - top).sum(axis=0, dtype=np.float64)
            found[rows] = top + np.log(mass)
        return found

    def phi(self, X: Array) -> Array:
        """Return the log-likelihood contributions (37), (N, K)."""
        found = np.empty((X.shape[0], len(self._forward)), self.dtype)
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
        found = np.empty(X.shape[0], np.intp)
        for rows, phi in self._parts(X):
            found[rows] = phi.argmax(axis=0)
        return found


class _Exponentials:
    """exp of the log-densities of a block minus the maximum of each row; sparse if most values are below rounding."""

    def __init__(self, K: int, dtype: np.dtype) -> None:
        self.reach = dtype.type(np.log(K / np.finfo(dtype).eps))
        self.seen, self.dense = 0, 0

    def of(self, phi: Array) -> tuple[Array | csr_array, Array]:
        """Return exp(phi - top), (K, b), and the maximum of phi for each row, top (b,).

        The sum of the entries that a sparse result omits from a row is less than the largest entry times the machine
        epsilon.
        """
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


def _dense(e: Array | csr_array) -> Array:
    return e.toarray() if isinstance(e, csr_array) else e


def _slices(X: Any, rows: int) -> Iterator[slice]:
    N = X.shape[0]
    return (slice(start, min(start + rows, N)) for start in range(0, N, rows))


class Gram:
    """X' X of sparse rows as an operator that is not stored as a matrix."""

    __array_ufunc__ = None  # so that products with arrays on the left come here

    def __init__(self, X: Any, weight: Array | None = None) -> None:
        X = X.astype(np.float64)
        self.root: Any = X if weight is None else csr_array(X.multiply(np.sqrt(weight)[:, None]))
        self.shape = (X.shape[1], X.shape[1])

    def trace(self) -> float:
        """Return the sum of the squares."""
        return float(np.sum(np.square(self.root.data)))

    def __rmatmul__(self, U: Array) -> Array:
        """Return U X' X of a few rows U, (M, D)."""
        return (self.root.T @ (self.root @ U.T)).T

    def leading(self, M: int) -> Array:
        """Return the M leading eigenvectors as rows, (M, D)."""
        N, D = self.root.shape
        if M >= N // 2 and N < D:
            # from the N by N products of the rows; those of eigenvalue zero, and any beyond N, are completed to an
            # orthonormal basis
            Q = np.linalg.eigh((self.root @ self.root.T).toarray())[1][:, : -M - 1 : -1]
            more = np.random.default_rng(0).standard_normal((D, max(M - N, 0)))
            return np.linalg.qr(np.concatenate([self.root.T @ Q, more], axis=1))[0].T
        if M >= min(N, D) // 2:
            return np.linalg.eigh((self.root.T @ self.root).toarray())[1][:, : -M - 1 : -1].T
        start = np.random.default_rng(0).standard_normal(min(N, D))
        return svds(self.root, k=M, v0=start)[2][::-1]  # pyright: ignore[reportOptionalSubscript]  vectors are asked for


def second_moment(X: Any, weight: Array | None = None) -> Any:
    """Return X' X, (D, D), weighted if there are weights, summed over blocks in float64; a `Gram` for sparse rows."""
    if issparse(X):
        return Gram(X, weight)
    D = X.shape[1]
    found, rows = np.zeros((D, D)), 4096
    for start in range(0, len(X), rows):
        part = X[start : start + rows]
        scaled = part if weight is None else part * weight[start : start + rows, None].astype(part.dtype)
        found += scaled.T @ part
    return 0.5 * (found + found.T)
