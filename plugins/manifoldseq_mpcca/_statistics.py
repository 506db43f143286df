"""Sufficient statistics of a mixture of probabilistic canonical correlation analysers; a prior that adds rows."""

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._parameters import Array, Mixture


@dataclass(frozen=True, eq=False)
class Statistics:
    """Sums over rows under the posterior; v is a row minus the origin, g a responsibility, z the latent mean (18).

    Attributes
    ----------
    n : float
        Rows.
    origin : ndarray of shape (D,)
    counts : ndarray of shape (K,)
        sum g
    first : ndarray of shape (K, D)
        sum g v
    second : tuple of ndarray of shape (K, d_v), or (K, d_v, d_v) for full noise
        sum g v², or sum g v v', of each view
    cross : ndarray of shape (K, D, d)
        sum g v z'
    latent_first : ndarray of shape (K, d)
        sum g z
    latent_second : ndarray of shape (K, d, d)
        sum g <z z'> (20)
    log_likelihood : float
        (12) of the mixture that defines the posterior.
    least : float
        The smallest log-density of a row.
    worst : ndarray of shape (D,)
        The row with the smallest log-density, minus the origin.
    pseudo : float
        The number of prior rows in each component. `second`, `cross` and `latent_second` contain them, centred at the
        mean of the component, and the noise is the residual of ``counts + pseudo`` rows.
    log_prior : float
        The log-density of the parameters under the prior, up to a constant.
    """

    n: float
    origin: Array
    counts: Array
    first: Array
    second: tuple[Array, ...]
    cross: Array
    latent_first: Array
    latent_second: Array
    log_likelihood: float
    least: float
    worst: Array
    pseudo: float = 0.0
    log_prior: float = 0.0

    @property
    def value(self) -> float:
        """The value that EM increases: the log-likelihood plus the log-density of the prior, if there is one."""
        return self.log_likelihood + self.log_prior

    @property
    def gram(self) -> Array:
        """The second moments of (z, 1): [[sum g <z z'>, sum g z], [sum g z', sum g]], (K, d + 1, d + 1)."""
        d = self.latent_first.shape[1]
        whole = np.empty((len(self.counts), d + 1, d + 1))
        whole[:, :d, :d], whole[:, :d, d], whole[:, d, d] = self.latent_second, self.latent_first, self.counts
        whole[:, d, :d] = self.latent_first
        return whole

    @property
    def rows_by_latent(self) -> Array:
        """The moments of rows with (z, 1), (K, D, d + 1)."""
        return np.concatenate([self.cross, self.first[:, :, None]], axis=2)

    def residuals(self, mixture: Mixture, both: Array) -> tuple[Array, ...]:
        """Return sum g <(v - W z - mu)(v - W z - mu)'> of each view, or its diagonal; `both` is [W, mu - origin]."""
        # sum g v v' - P R' - R P' with R = sum g v [z, 1]' - P gram / 2: the cross terms and P gram P' in one product
        rest = self.rows_by_latent - 0.5 * both @ self.gram
        found = []
        for v, second in enumerate(self.second):
            P, R = both[:, mixture.columns(v)], rest[:, mixture.columns(v)]
            if mixture.full:
                product = P @ R.mT
                found.append(second - product - product.mT)
            else:
                found.append(second - 2 * np.einsum("kdq,kdq->kd", P, R))
        return tuple(found)

    def joined(self, other: "Statistics", own: float = 1.0, theirs: float = 1.0) -> "Statistics":
        """Return the weighted sum with the statistics of other rows about the same origin."""

        def added(p: Array, q: Array) -> Array:
            return own * p + theirs * q

        return Statistics(
            n=own * self.n + theirs * other.n,
            origin=self.origin,
            counts=added(self.counts, other.counts),
            first=added(self.first, other.first),
            second=tuple(added(p, q) for p, q in zip(self.second, other.second, strict=True)),
            cross=added(self.cross, other.cross),
            latent_first=added(self.latent_first, other.latent_first),
            latent_second=added(self.latent_second, other.latent_second),
            log_likelihood=own * self.log_likelihood + theirs * other.log_likelihood,
            least=min(self.least, other.least),
            worst=self.worst if self.least <= other.least else other.worst,
        )

    def __add__(self, other: "Statistics") -> "Statistics":
        return self.joined(other)

    def mixed(self, batch: "Statistics", share: float) -> "Statistics":
        """Return running means after a batch."""
        return self.joined(batch, 1 - share, share)

    def per_row(self) -> "Statistics":
        """Return means over the rows."""
        return self.joined(self, 1 / self.n, 0.0)

    def state(self) -> dict[str, Any]:
        """Return the fields in the grammar of states."""
        return {one.name: getattr(self, one.name) for one in fields(self)}

    def completed(self, mixture: Mixture, columns: NDArray[np.bool_], origin: Array) -> "Statistics":
        """Return the statistics of all columns from those of some columns, by the posterior of the others.

        With full noise, each view is among the columns as a whole or not at all.
        """
        K, D, d = mixture.loadings.shape
        gram, missing = self.gram, ~columns
        both = np.concatenate([mixture.loadings, (mixture.means - origin)[:, :, None]], axis=2)
        # of a missing column the expectation given z is [W, mu] [z, 1]: moments with [z, 1] are its rows times the gram
        products = np.empty((K, D, d + 1))
        products[:, columns] = self.rows_by_latent
        products[:, missing] = both[:, missing] @ gram
        second, given = [], iter(self.second)
        for v, noise in enumerate(mixture.noise):
            seen = columns[mixture.columns(v)]
            P = both[:, mixture.columns(v)]
            # E[v v'] = P gram P' + N_k Psi where the view misses, what was seen where it does not
            if seen.all():
                second.append(next(given))
            elif mixture.full:
                second.append(P @ gram @ P.mT + self.counts[:, None, None] * noise)
            else:
                part = np.einsum("kdp,kpq,kdq->kd", P, gram, P) + self.counts[:, None] * noise
                if seen.any():
                    part[:, seen] = next(given)
                second.append(part)
        worst = np.zeros(D)
        worst[columns] = self.worst
        return Statistics(
            n=self.n,
            origin=origin,
            counts=self.counts,
            first=products[:, :, -1],
            second=tuple(second),
            cross=products[:, :, :-1],
            latent_first=self.latent_first,
            latent_second=self.latent_second,
            log_likelihood=self.log_likelihood,
            least=self.least,
            worst=worst,
        )


@dataclass(frozen=True, eq=False)
class Prior:
    """``-nu / 2 (ln det Sigma_k + tr(Sigma_k^-1 S_0))`` for each component, ``S_0 = B B' + diag(p)``.

    This is the log-likelihood of nu rows of covariance S_0 about the mean of the component, up to a constant. EM treats
    them as rows, so that its steps never lower the posterior. No D × D matrix is formed.

    Attributes
    ----------
    loadings : ndarray of shape (D, q)
        B.
    variances : ndarray of shape (D,)
        p.
    rows : float
        nu.
    """

    loadings: Array
    variances: Array
    rows: float

    @classmethod
    def of(cls, pooled: Mixture, rows: float, diagonal: float) -> "Prior":
        """Return the prior with S_0 as the covariance of a mixture of one component, with a weight for its diagonal."""
        B, p = pooled.loadings[0], pooled.variances[0]
        own = diagonal * np.sum(B**2, axis=1)
        return cls(np.sqrt(1 - diagonal) * B, p + own, rows)

    def added(self, statistics: Statistics, mixture: Mixture, share: float = 1.0) -> Statistics:
        """Return the statistics plus a fraction of the rows and of the log-density of the prior."""
        W, psi, nu = mixture.loadings, mixture.variances, share * self.rows
        # T = W' Psi^-1, M = I + T W, and A = M^-1 T maps a row less the mean to its latent vector, (K, d, D)
        T = (W / psi[:, :, None]).mT
        M = np.eye(W.shape[2]) + T @ W
        covariance = np.linalg.inv(M)
        A = covariance @ T
        # sum v z' = nu S_0 A' and sum <z z'> = nu (M^-1 + A S_0 A')
        cross = self.loadings @ (self.loadings.T @ A.mT) + self.variances[:, None] * A.mT
        second = np.sum(self.loadings**2, axis=1) + self.variances
        # Woodbury: tr(Sigma^-1 S_0) = tr(Psi^-1 S_0) - tr(T S_0 A'), ln det Sigma = ln det Psi + ln det M
        trace = (second / psi).sum(axis=1) - np.einsum("kqd,kdq->k", T, cross)
        log_det = np.log(psi).sum(axis=1) + np.linalg.slogdet(M)[1]
        changes: dict[str, Any] = {
            "second": tuple(part + nu * second[mixture.columns(v)] for v, part in enumerate(statistics.second)),
            "cross": statistics.cross + nu * cross,
            "latent_second": statistics.latent_second + nu * (covariance + A @ cross),
        }
        return replace(statistics, **changes, pseudo=nu, log_prior=-nu / 2 * float((log_det + trace).sum()))
