"""The prior of covariances of low rank plus a diagonal: rows that every component has seen besides its own."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ._parameters import Array, Mixture
from ._statistics import Statistics


@dataclass(frozen=True, eq=False)
class Prior:
    """``-nu / 2 (ln det Sigma_k + tr(Sigma_k^-1 S_0))`` for each component, ``S_0 = B B' + diag(p)``.

    That is the log-likelihood of nu rows of covariance S_0 about the mean of the component, up to a constant: EM takes
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
        """Return the prior whose S_0 is the covariance of a mixture of one, with a share of its diagonal alone."""
        B, p = pooled.loadings[0], pooled.variances[0]
        own = diagonal * np.sum(B**2, axis=1)
        return cls(np.sqrt(1 - diagonal) * B, p + own, rows)

    def added(self, statistics: Statistics, mixture: Mixture) -> Statistics:
        """Return the statistics with the rows of the prior, and the log-density of the prior."""
        W, psi, nu = mixture.loadings, mixture.variances, self.rows
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
