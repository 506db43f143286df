"""E-step: responsibilities, latent posteriors and sufficient statistics, for all components in one product per block.

With ``M_k = I + W' Psi^-1 W = L_k L_k'`` and ``A_k = L_k^-1 W' Psi^-1`` (Woodbury, never a D × D matrix), all of
(13)-(20) follows from ``y_ik = A_k (v_i - mu_k)``: the quadratic form is ``(v-mu)' Psi^-1 (v-mu) - |y|²``, the latent
mean ``L^-T y``, the latent covariance ``M^-1``.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.special import logsumexp

from ._parameters import Array, Mixture
from ._statistics import Statistics

Views = Sequence[NDArray[Any]]

SKIP = 1e-14
"""Responsibilities up to this value may be omitted: a sum over N rows lacks at most N · SKIP of its largest term."""

_BUFFER = 2**20
"""Number of values in the largest buffer of a block, which fits into the cache."""
# A trick of speed: summing over all pairs, ten iterations on the UCI numerals (K=10) take 1.25 times as long, with 64
# clusters far apart 4.2 times (`python -m benchmarks.tricks pairs`).
_SPARSE = 0.25
"""Statistics are summed only over pairs above SKIP if at most this fraction of the pairs of a block is above."""
_FAR = 1e3
"""Squared distance of a mean to the origin (in noise variances per column) above which it is centred separately."""


@dataclass(frozen=True)
class Block:
    """Results of the E-step for a block of rows; the next block overwrites the arrays.

    Attributes
    ----------
    rows : slice
    V : ndarray of shape (b, D + 1)
        The rows minus the origin, and a column of ones.
    log_density : ndarray of shape (b,)
        ln p(v) of the mixture.
    g : ndarray of shape (K, b)
        Responsibilities (13).
    Y : ndarray of shape (K, d, b)
        ``L' zhat``: see `Expectation.latent`.
    """

    rows: slice
    V: Array
    log_density: Array
    g: Array
    Y: Array


class Expectation:
    """The precomputed quantities of a mixture for the E-step.

    Parameters
    ----------
    mixture : Mixture
    origin : ndarray of shape (D,), optional
        The point that is subtracted from all rows, by default the mean of the mixture.

    Attributes
    ----------
    latent_covariance : ndarray of shape (K, d, d)
        (19), the same for every sample.
    """

    def __init__(self, mixture: Mixture, origin: Array | None = None) -> None:
        K, D, d = mixture.loadings.shape
        self.mixture = mixture
        self.origin = mixture.weights @ mixture.means if origin is None else origin
        self.means = mixture.means - self.origin
        # Woodbury: Sigma^-1 = Psi^-1 - T' M^-1 T and det Sigma = det Psi det M, with M = I + W' Psi^-1 W, (K, d, d)
        M, log_det = np.broadcast_to(np.eye(d), (K, d, d)).copy(), np.zeros(K)
        T = np.empty((K, d, D))  # W' Psi^-1
        self._whiteners: list[Array] = []  # of each view with full noise: R^-1 (K, d_v, d_v), Psi = R R'
        for v, noise in enumerate(mixture.noise):
            columns = mixture.columns(v)
            W = mixture.loadings[:, columns]
            if mixture.full:
                R = np.linalg.cholesky(noise)
                inverse = np.linalg.inv(R)
                W = inverse @ W
                T[:, :, columns] = W.mT @ inverse
                log_det += 2 * np.log(np.diagonal(R, axis1=1, axis2=2)).sum(axis=1)
                self._whiteners.append(inverse)
            else:
                T[:, :, columns] = (W / noise[:, :, None]).mT
                W = W / np.sqrt(noise)[:, :, None]
                log_det += np.log(noise).sum(axis=1)
            M += W.mT @ W
        L = np.linalg.cholesky(M)
        log_det += 2 * np.log(np.diagonal(L, axis1=1, axis2=2)).sum(axis=1)
        self._unrotate = np.linalg.inv(L)
        self.latent_covariance = self._unrotate.mT @ self._unrotate
        # y = A (v - mu) of all components is one product of (K d, D + 1) with rows that end in a one
        A = self._unrotate @ T
        shift = -(A @ self.means[:, :, None])
        self._A = np.concatenate([A, shift], axis=2).reshape(K * d, D + 1)
        # ln w_k and the constants of ln p(v|k) = -(D ln 2 pi + ln det Sigma_k + (v - mu)' Sigma_k^-1 (v - mu)) / 2
        with np.errstate(divide="ignore"):  # a weight may be zero
            self._log = np.log(mixture.weights) - 0.5 * (D * np.log(2 * np.pi) + log_det)
        self._precision = 1 / mixture.variances
        squared = (self.means**2 * self._precision).sum(axis=1)
        # sum_j (v - mu)_j² / Psi_j as two products, with v² and with [v, 1], (K, D) and (K, D + 1)
        self._linear = np.concatenate([-2 * self.means * self._precision, squared[:, None]], axis=1)
        self._far = np.flatnonzero(squared > _FAR * D).tolist()
        width = max([d, *(mixture.views if mixture.full else ())])
        self._block = int(np.clip(_BUFFER // (K * max(width, 1)), 64, 4096))

    def blocks(self, views: Views) -> Iterator[Block]:
        """Yield blocks of rows of the views, (N, d_v) each, of any real dtype; sums are computed in float64."""
        K, D, d = self.mixture.loadings.shape
        N = len(views[0])
        for start in range(0, N, self._block):
            rows = slice(start, min(start + self._block, N))
            b = rows.stop - start
            block = np.ones((b, D + 1))
            for v, view in enumerate(views):
                columns = self.mixture.columns(v)
                np.subtract(view[rows], self.origin[columns], out=block[:, columns], dtype=np.float64)
            y = (self._A @ block.T).reshape(K, d, b)
            joint = self._quadratic(block)
            # far from the origin the squares cancel: these components are centred on their own means
            for k in self._far:
                apart = block[:, :D] - self.means[k]
                y[k] = self._A[k * d : (k + 1) * d, :D] @ apart.T
                joint[k] = self._distances(k, apart)
            # ln w_k p(v|k), (K, b), and its softmax over k (13); |y|² is what Woodbury takes off the quadratic form
            joint -= np.einsum("kdb,kdb->kb", y, y)
            joint *= -0.5
            joint += self._log[:, None]
            top = joint.max(axis=0)
            joint -= top
            np.exp(joint, out=joint)
            total = joint.sum(axis=0)
            joint /= total
            yield Block(rows, block, top + np.log(total), joint, y)

    def _quadratic(self, block: Array) -> Array:
        """Return (v - mu_k)' Psi_k^-1 (v - mu_k), (K, b)."""
        D = self.means.shape[1]
        if self.mixture.full:
            found = np.zeros((len(self.means), len(block)))
            for v, inverse in enumerate(self._whiteners):
                columns = self.mixture.columns(v)
                # Psi = R R': the squared length of R^-1 (v - mu), for all components in one product (K n, n) (n, b)
                K, n, _ = inverse.shape
                U = (inverse.reshape(K * n, n) @ block[:, columns].T).reshape(K, n, -1)
                U -= inverse @ self.means[:, columns, None]
                found += np.einsum("kdb,kdb->kb", U, U)
            return found
        found = self._precision @ (block[:, :D] ** 2).T
        found += self._linear @ block.T
        return found

    def _distances(self, k: int, apart: Array) -> Array:
        """Return the quadratic form of component k for rows minus its mean."""
        if not self.mixture.full:
            return apart**2 @ self._precision[k]
        parts = [apart[:, self.mixture.columns(v)] @ inverse[k].T for v, inverse in enumerate(self._whiteners)]
        return np.sum([np.einsum("bd,bd->b", part, part) for part in parts], axis=0)

    def log_density(self, views: Views) -> Array:
        """Return ln p(v) of each row, (N,): (12) is their sum."""
        found = np.empty(len(views[0]))
        for block in self.blocks(views):
            found[block.rows] = block.log_density
        return found

    def responsibilities(self, views: Views) -> Array:
        """Return (13) of each row, (N, K)."""
        found = np.empty((len(views[0]), self.mixture.n_components))
        for block in self.blocks(views):
            found[block.rows] = block.g.T
        return found

    def latent(self, block: Block) -> Array:
        """Return the latent means (18) of the rows of a block, (K, d, b)."""
        return self._unrotate.mT @ block.Y

    def latent_means(self, views: Views) -> Array:
        """Return the latent mean (18) of each row in each component, (N, K, d)."""
        found = np.empty((len(views[0]), self.mixture.n_components, self.mixture.loadings.shape[2]))
        for block in self.blocks(views):
            found[block.rows] = self.latent(block).transpose(2, 0, 1)
        return found

    def statistics(self, views: Views, weights: Array | None = None) -> Statistics:
        """Return the sufficient statistics of the rows under the posterior, in one pass; rows may have weights (N,)."""
        sums = _Sums(self)
        for block in self.blocks(views):
            sums.add(block, None if weights is None else weights[block.rows])
        return sums.statistics(len(views[0]) if weights is None else float(weights.sum()))


class _Sums:
    """Running sums of the statistics in the rotated latent coordinates y."""

    def __init__(self, expectation: Expectation) -> None:
        mixture = expectation.mixture
        K, D, d = mixture.loadings.shape
        self.expectation = expectation
        self.first = np.zeros((K, D + 1))
        self.cross = np.zeros((K * d, D + 1))
        self.latent = np.zeros((K, d, d))
        self.second = [np.zeros_like(part) for part in mixture.noise]
        self.log_likelihood = 0.0
        self.least, self.worst = np.inf, np.zeros(D)

    def add(self, block: Block, weights: Array | None = None) -> None:
        i = int(block.log_density.argmin())
        if block.log_density[i] < self.least:
            self.least, self.worst = float(block.log_density[i]), block.V[i, :-1].copy()
        if weights is None:
            self.log_likelihood += float(block.log_density.sum())
        else:
            self.log_likelihood += float(weights @ block.log_density)
            block.g[:] *= weights
        active = block.g > SKIP
        if np.count_nonzero(active) <= _SPARSE * active.size:
            self._add_active(block, active)
        else:
            self._add_all(block)

    def _add_all(self, block: Block) -> None:
        # sum g y [v, 1]', (K d, D + 1); sum g y y', (K, d, d); sum g [v, 1], (K, D + 1); sum g v² or g v v' of each
        # view
        g, Y, V = block.g, block.Y, block.V
        YG = Y * g[:, None, :]
        self.cross += YG.reshape(-1, len(V)) @ V
        self.latent += Y @ YG.mT
        self.first += g @ V
        mixture = self.expectation.mixture
        for v, second in enumerate(self.second):
            part = V[:, mixture.columns(v)]
            second += (part.T * g[:, None, :]) @ part if mixture.full else g @ part**2

    def _add_active(self, block: Block, active: NDArray[np.bool_]) -> None:
        mixture = self.expectation.mixture
        d = mixture.loadings.shape[2]
        for k in np.flatnonzero(active.any(axis=1)):
            rows = np.flatnonzero(active[k])
            g, V, Y = block.g[k, rows], block.V[rows], block.Y[k][:, rows]
            YG = Y * g
            self.cross[k * d : (k + 1) * d] += YG @ V
            self.latent[k] += Y @ YG.T
            self.first[k] += g @ V
            for v, second in enumerate(self.second):
                part = V[:, mixture.columns(v)]
                second[k] += (part.T * g) @ part if mixture.full else g @ part**2

    def statistics(self, n: float) -> Statistics:
        # from y to the latent means zhat = L^-T y: sum g v zhat' = (sum g v y') L^-1, and (20) adds N_k M^-1
        e = self.expectation
        K, _, d = e.mixture.loadings.shape
        cross = self.cross.reshape(K, d, self.cross.shape[1]).mT @ e._unrotate
        counts = self.first[:, -1]
        return Statistics(
            n=float(n),
            origin=e.origin,
            counts=counts,
            first=self.first[:, :-1],
            second=tuple(self.second),
            cross=cross[:, :-1],
            latent_first=cross[:, -1],
            latent_second=e._unrotate.mT @ self.latent @ e._unrotate + counts[:, None, None] * e.latent_covariance,
            log_likelihood=self.log_likelihood,
            least=self.least,
            worst=self.worst,
        )


class Conditional:
    """The distribution of missing columns given the observed columns, which is normal in each component.

    Let F be the regression of the noise of missing columns on the noise of observed columns of the same view, which is
    zero unless the noise is full and a view is partly observed. The expectation in component k is ``mu_m + F (v_o -
    mu_o) + (W_m - F W_o) zhat``.

    Parameters
    ----------
    mixture : Mixture
    columns : ndarray of bool of shape (D,)
        Mask of the observed columns, at least one; m columns are missing.
    gate : float
        Power p of the density of a row in the weights of the components, ``w_k p(v_o|k)^p``.

    Attributes
    ----------
    covariances : tuple of ndarray (K, m, d), (K, m) or (K, m, m)
        Loadings B and noise R of the covariance ``B B' + R``, the same for every row.
    """

    def __init__(self, mixture: Mixture, columns: NDArray[np.bool_], gate: float = 1.0) -> None:
        self.seen = mixture.observed(columns)
        self.expectation = Expectation(self.seen)
        self.gate = gate
        o, m = np.flatnonzero(columns), np.flatnonzero(~columns)
        self._mu, self._W = mixture.means[:, m], mixture.loadings[:, m]
        self._F: Array | None = None
        noise = self._noise(mixture, o, m) if mixture.full else np.concatenate(mixture.noise, axis=1)[:, m]
        if self._F is not None:
            self._W = self._W - self._F @ mixture.loadings[:, o]
        self.covariances = self._W @ np.linalg.cholesky(self.expectation.latent_covariance), noise

    def _noise(self, mixture: Mixture, o: NDArray[np.intp], m: NDArray[np.intp]) -> Array:
        """Return the full noise of missing columns given the noise of observed columns, and store the regression."""
        K, D = mixture.means.shape
        Psi = np.zeros((K, D, D))
        partly = False
        for v, part in enumerate(mixture.noise):
            c = mixture.columns(v)
            Psi[:, c, c] = part
            missing = np.isin(np.arange(c.start, c.stop), m)
            partly |= bool(missing.any() and not missing.all())
        rest = Psi[:, m[:, None], m]
        if partly:
            cross = Psi[:, o[:, None], m]
            self._F = np.linalg.solve(Psi[:, o[:, None], o], cross).mT
            rest = rest - self._F @ cross
        return rest

    def blocks(self, views: Views) -> Iterator[tuple[slice, Array, Array]]:
        """Yield blocks of observed rows: slice, weights of components (K, b) and expectations (K, m, b)."""
        power = self.seen.weights ** (1 - self.gate)
        for block in self.expectation.blocks(views):
            mean = self._mu[:, :, None] + self._W @ self.expectation.latent(block)
            if self._F is not None:
                mean += self._F @ (block.V[:, :-1].T - self.expectation.means[:, :, None])
            gate = block.g
            if self.gate != 1:
                gate = power[:, None] * gate**self.gate
                gate /= gate.sum(axis=0)
            yield block.rows, gate, mean

    @property
    def variances(self) -> Array:
        """The variances of the missing columns within each component, (K, m)."""
        B, R = self.covariances
        return (B**2).sum(axis=2) + (np.diagonal(R, axis1=1, axis2=2) if R.ndim == 3 else R)

    def dense(self) -> Array:
        """Return the covariances of the missing columns within each component, (K, m, m)."""
        B, R = self.covariances
        return B @ B.mT + (R if R.ndim == 3 else R[:, :, None] * np.eye(R.shape[1]))

    def draw(self, gate: Array, mean: Array, rng: np.random.Generator) -> Array:
        """Return a draw of the missing columns of each row of a block, (b, m)."""
        # the component by the inverse of the cumulated weights, then B z and noise within it
        k = (np.cumsum(gate, axis=0) < rng.random(gate.shape[1])).sum(axis=0).clip(max=len(gate) - 1)
        (B, R), b = self.covariances, np.arange(len(k))
        found = mean[k, :, b] + np.einsum("bmd,bd->bm", B[k], rng.standard_normal((len(k), B.shape[2])))
        noise = rng.standard_normal(found.shape)
        if R.ndim == 2:
            return found + noise * np.sqrt(R[k])
        for one in np.unique(k):
            found[k == one] += noise[k == one] @ np.linalg.cholesky(R[one]).T
        return found

    def expectations(self, views: Views) -> Array:
        """Return the conditional expectation of the missing columns of each row, (N, m)."""
        return np.concatenate([np.einsum("kdb,kb->bd", mean, gate) for _, gate, mean in self.blocks(views)])

    def log_densities(self, views: Views, y: NDArray[Any]) -> Array:
        """Return ln p(y_i | x_i) of each row, (N,)."""
        found, roots = np.empty(len(y)), np.linalg.cholesky(self.dense())
        constants = np.log(np.diagonal(roots, axis1=1, axis2=2)).sum(axis=1) + 0.5 * y.shape[1] * np.log(2 * np.pi)
        for rows, gate, mean in self.blocks(views):
            joint = np.empty_like(gate)
            for k, L in enumerate(roots):
                u = solve_triangular(L, y[rows].T - mean[k], lower=True)
                joint[k] = -0.5 * np.einsum("db,db->b", u, u) - constants[k]
            with np.errstate(divide="ignore"):
                found[rows] = logsumexp(joint + np.log(gate), axis=0)
        return found

    def pair_log_densities(self, views: Views, y: NDArray[Any]) -> Array:
        """Return ln p(y_j | x_i) of all pairs, (N, M)."""
        roots = np.linalg.cholesky(self.dense())
        constants = np.log(np.diagonal(roots, axis1=1, axis2=2)).sum(axis=1) + 0.5 * y.shape[1] * np.log(2 * np.pi)
        white = [solve_triangular(L, y.T, lower=True) for L in roots]
        found = np.full((len(views[0]), len(y)), -np.inf)
        for rows, gate, mean in self.blocks(views):
            with np.errstate(divide="ignore"):
                log_gate = np.log(gate)
            for k, L in enumerate(roots):
                # |a - b|² by one product; both are about the mean of the whitened candidates, so that little cancels
                centre = white[k].mean(axis=1, keepdims=True)
                a, b = solve_triangular(L, mean[k], lower=True) - centre, white[k] - centre
                squared = (a**2).sum(axis=0)[:, None] + (b**2).sum(axis=0) - 2 * a.T @ b
                joint = -0.5 * np.maximum(squared, 0.0) - constants[k] + log_gate[k][:, None]
                np.logaddexp(found[rows], joint, out=found[rows])
        return found
