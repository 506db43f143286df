"""The distribution of |z|, which makes likelihoods of directions comparable across dimensions."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import betaln, digamma, gammaln, polygamma

from manifoldseq.estimators import row_blocks

from ..families._family import Array
from ._parameters import Model

_ROWS = 4096
_SUMMED = 1 << 16
_LEAST = 1e-6
"""Minimum fraction of the energy of a unit row in the projection and in its complement: rounding in float32."""
_SHARPEST = 1e12
"""The largest parameter of a distribution, because lengths that are all equal have no density."""


@dataclass(frozen=True)
class Radius:
    """The distribution of |z| for z = U x, if a mixture models the direction z / |z|, or the direction given |z|.

    For rows of arbitrary length, |z| has a gamma distribution with parameters shape and scale, and ``ln p(z)`` is the
    log-density of the direction plus ``ln law(|z|) - (M - 1) ln |z|``. For unit rows, |z|^2 has a beta distribution and
    the direction of the residual is uniform orthogonally to U, which gives a density on the unit sphere of R^D. Unit
    rows that are not projected have |z| = 1 and need no distribution.

    Attributes
    ----------
    kind : {"gamma", "beta"}
    U : ndarray of shape (M, D)
    """

    kind: str
    U: Array

    def lengths(self, X: Any) -> Array:
        """Return |U x| of each row, (N,), in float64."""
        found, across = np.empty(X.shape[0]), self.U.T.astype(X.dtype)
        for start in range(0, X.shape[0], _ROWS):
            z = X[start : start + _ROWS] @ across
            found[start : start + _ROWS] = np.sqrt(np.einsum("nm,nm->n", z, z))
        return found

    def statistics(self, X: Any, weight: Array | None) -> Array:
        """Return the statistics of the distribution, (2,): the means of |z| and of ln |z|, or of |z|^2 and of |z|^4."""
        length, least = self.lengths(X), 0.0
        if self.kind == "gamma":
            least = 1e-12 * float(np.average(length, weights=weight)) or 1.0
        total, mass = np.zeros(2), 0.0
        for part in row_blocks(len(length), _SUMMED):  # so that little is in memory in addition to the lengths
            if self.kind == "gamma":
                values = np.array([length[part], np.log(np.maximum(length[part], least))])
            else:
                t = _inside(length[part])
                values = np.array([t, t * t])
            w = None if weight is None else weight[part]
            n = float(values.shape[1]) if w is None else float(w.sum())
            total = total + n * np.average(values, axis=1, weights=w) if n else total
            mass += n
        return total / mass

    def law(self, statistics: Array) -> Array:
        """Return the parameters, (2,), of the gamma (maximum likelihood) or beta distribution (moments)."""
        if self.kind == "beta":
            mean, square = statistics
            spread = mean * (1 - mean) / max(square - mean * mean, 1 / _SHARPEST) - 1
            return np.maximum([mean * spread, (1 - mean) * spread], 1e-3)
        # ln a - digamma(a) = ln mean - mean ln, by the start of Minka and Newton's method
        mean, mean_log = statistics
        s = max(np.log(mean) - mean_log, 1 / _SHARPEST)
        a = (3 - s + np.sqrt((s - 3) ** 2 + 24 * s)) / (12 * s)
        for _ in range(4):
            step = (
                (np.log(a) - digamma(a) - s) / (1 / a - polygamma(1, a)) if a < 1e6 else 0.0
            )  # the start is exact there
            a = max(a - step, a / 2)
        return np.array([a, mean / a])

    def log_density(self, X: Any, law: Array) -> Array:
        """Return the term that turns the log-density of the direction of z into that of the rows (or of z)."""
        M, D = self.U.shape
        length, (a, b) = self.lengths(X), law
        if self.kind == "gamma":
            length = np.maximum(length, 1e-12 * a * b)
            return (a - M) * np.log(length) - length / b - gammaln(a) - a * np.log(b)
        # the sphere of R^D is that of z, that of the residual, and t = |z|^2: its area is
        # t^(M/2 - 1) (1 - t)^((D - M)/2 - 1) dt / 2 times the areas of the two
        t, half = _inside(length), 0.5 * (D - M)
        area = np.log(2) + half * np.log(np.pi) - gammaln(half)  # of the residual's
        beta = (a - 0.5 * M) * np.log(t) + (b - half) * np.log1p(-t) - betaln(a, b)
        return beta + np.log(2) - area

    def lengths_drawn(self, n: int, law: Array, rng: np.random.Generator) -> Array:
        """Return samples of |z|, (n,)."""
        return rng.gamma(law[0], law[1], n) if self.kind == "gamma" else np.sqrt(rng.beta(law[0], law[1], n))

    def draw(self, z: Array, law: Array, variance: Any, rng: np.random.Generator, length: Array | None = None) -> Array:
        """Return rows, (n, D), whose z have these directions, (n, M), and these or random lengths, (n,)."""
        noise = rng.standard_normal((len(z), self.U.shape[1]))
        noise -= noise @ self.U.T @ self.U
        if length is None:
            length = self.lengths_drawn(len(z), law, rng)
        signal = (length[:, None] * z) @ self.U
        if self.kind == "gamma":
            return signal + (0.0 if variance is None else np.sqrt(variance) * noise)
        rest = np.sqrt(1 - length * length)[:, None]
        return signal + rest * noise / np.linalg.norm(noise, axis=1, keepdims=True)


def log_shares(model: Model, length: Array) -> Array:
    """Return the log-mass of each component at these lengths of z, (n, K), if z is not scaled to unit length.

    The integral of ``pi_k C_M(kappa_k) exp(mu_k'z)`` (9) over all directions of z is ``pi_k C_M(kappa_k) / C_M(kappa_k
    |z|)``. Divided by the sum of these integrals over k, (7) is the density of the direction of z given its length.
    """
    (mu,), M = model.parameters, model.M
    kappa, which = np.unique(np.linalg.norm(mu, axis=1), return_inverse=True)  # often one for all
    (_, ours), (_, theirs) = (model.family.natural((k.reshape(-1, 1),), M) for k in (kappa, length[:, None] * kappa))
    with np.errstate(divide="ignore"):  # a weight may be zero
        return np.log(model.weights) + (ours - theirs.reshape(len(length), -1))[:, which]


def _inside(length: Array) -> Array:
    """Return |z|^2 of unit rows, bounded away from 0 and 1."""
    return np.clip(length * length, _LEAST, 1 - _LEAST)
