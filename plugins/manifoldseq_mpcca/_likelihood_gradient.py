"""The gradient of the log-likelihood from sufficient statistics (Fisher's identity), and steps in its natural units."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ._maximization import raised
from ._parameters import Array, Mixture
from ._statistics import Statistics

_FAR = 5.0
"""A step multiplies a variance by a factor between exp(-5) and exp(5)."""
_AT_FLOOR = 1e-9


def gradient(statistics: Statistics, mixture: Mixture) -> tuple[Any, ...]:
    """Return the derivatives of (12) by weights, means, loadings and noise, in the structure of `Mixture.point`.

    The weights count as free numbers. The derivative by a covariance is the symmetric matrix G with the differential
    ``tr(G' dPsi)``.
    """
    # Fisher's identity: the gradient is that of the expected complete log-likelihood. By [W, mu], (K, D, d + 1):
    # Psi^-1 (sum g v [z, 1]' - [W, mu] gram); by Psi: (Psi^-1 residual Psi^-1 - N Psi^-1) / 2
    s, rows = statistics, statistics.counts + statistics.pseudo
    both = np.concatenate([mixture.loadings, (mixture.means - s.origin)[:, :, None]], axis=2)
    score = s.rows_by_latent - both @ s.gram
    noise = []
    for v, residual in enumerate(s.residuals(mixture, both)):
        columns, Psi = mixture.columns(v), mixture.noise[v]
        if mixture.full:
            score[:, columns] = np.linalg.solve(Psi, score[:, columns])
            inverse = np.linalg.inv(Psi)
            noise.append(0.5 * (inverse @ residual @ inverse - rows[:, None, None] * inverse))
        else:
            score[:, columns] /= Psi[:, :, None]
            noise.append(0.5 * (residual / Psi - rows[:, None]) / Psi)
    return s.counts / mixture.weights, score[:, :, -1], score[:, :, :-1], tuple(noise)


@dataclass(frozen=True)
class Units:
    """Coordinates of steps from a mixture in which the information of the complete data is the identity.

    In these coordinates the gradient equals an EM step to first order, so that the first step of a quasi-Newton method
    is a step of EM.
    """

    mixture: Mixture
    origin: Array
    counts: Array
    rows: Array  # counts, and those of a prior
    floor: Array
    roots: tuple[Array, ...]  # of each noise: R with R R' = Psi, or standard deviations
    latent: tuple[Array, ...]  # of each view: L^-1 with L L' = gram of the latent columns that it has

    @classmethod
    def of(cls, statistics: Statistics, mixture: Mixture, floor: Array) -> "Units":
        """Return the units at a mixture, whose components must all have data."""
        roots = tuple(np.linalg.cholesky(n) if mixture.full else np.sqrt(n) for n in mixture.noise)
        gram, latent = statistics.gram, []
        for v in range(len(roots)):
            ends = np.append(mixture.latent_columns(v), gram.shape[1] - 1)
            latent.append(np.linalg.inv(np.linalg.cholesky(gram[:, ends[:, None], ends])))
        counts = statistics.counts
        return cls(mixture, statistics.origin, counts, counts + statistics.pseudo, floor, roots, tuple(latent))

    def gradient(self, statistics: Statistics) -> Array:
        """Return the gradient of (12) as a vector; variances at the floor that would decrease count as fixed."""
        mixture, n, width = self.mixture, self.counts, np.sqrt(2 * self.rows)
        weights, means, loadings, noise = gradient(statistics, mixture)
        scores = np.concatenate([loadings, means[:, :, None]], axis=2)
        # weights as logits: w dL/dw - n w, over sqrt(N_k); the sum to one takes off n
        parts = [(weights - statistics.n) * mixture.weights / np.sqrt(n)]
        for v, (root, part) in enumerate(zip(self.roots, noise, strict=True)):
            columns, ends = mixture.columns(v), np.append(mixture.latent_columns(v), scores.shape[2] - 1)
            of_view = scores[:, columns][:, :, ends]
            # Psi = R exp(S sqrt(2/N)) R' and [W, mu] += R step L^-1: steps in which the information is the identity
            if mixture.full:
                part = _allowed(part, mixture.noise[v], self.floor[columns])
                parts += [root.mT @ part @ root * (2 / width)[:, None, None], root.mT @ of_view]
            else:
                fixed = (mixture.noise[v] <= self.floor[columns]) & (part < 0)
                part = np.where(fixed, 0.0, part) * mixture.noise[v] * (2 / width)[:, None]
                parts += [part, root[:, :, None] * of_view]
            parts[-1] = parts[-1] @ self.latent[v].mT
        return np.concatenate([part.ravel() for part in parts])

    def moved(self, step: Array) -> Mixture:
        """Return the mixture after a step."""
        mixture, width = self.mixture, np.sqrt(2 / self.rows)
        K, D, d = mixture.loadings.shape
        place = 0

        def take(*shape: int) -> Array:
            nonlocal place
            start, place = place, place + int(np.prod(shape))
            return step[start:place].reshape(shape)

        logits = np.log(mixture.weights) + take(K) / np.sqrt(self.counts)
        weights = np.exp(logits - logits.max())
        both, noise = np.zeros((K, D, d + 1)), []
        for v, root in enumerate(self.roots):
            columns, ends = mixture.columns(v), np.append(mixture.latent_columns(v), d)
            floor, size = self.floor[columns], root.shape[1]
            if mixture.full:
                values, vectors = np.linalg.eigh(take(K, size, size) * width[:, None, None])
                factor = root @ (vectors * np.exp(0.5 * np.clip(values, -_FAR, _FAR))[:, None, :])
                noise.append(raised(factor @ factor.mT, floor))
                both[:, columns, ends] = root @ take(K, size, len(ends)) @ self.latent[v]
            else:
                change = np.exp(np.clip(take(K, size) * width[:, None], -_FAR, _FAR))
                noise.append(np.maximum(mixture.noise[v] * change, floor))
                both[:, columns, ends] = root[:, :, None] * (take(K, size, len(ends)) @ self.latent[v])
        loadings = mixture.loadings + both[:, :, :-1]
        means = mixture.means + both[:, :, -1]
        return Mixture.trusted(weights / weights.sum(), means, loadings, noise, mixture.private)


def _allowed(part: Array, Psi: Array, floor: Array) -> Array:
    """Return the derivative by covariances without the part that lowers eigenvalues at the floor."""
    unit = np.sqrt(floor)[:, None] * np.sqrt(floor)
    values, vectors = np.linalg.eigh(Psi / unit)
    low = values <= 1 + _AT_FLOOR
    if not low.any():
        return part
    # in the eigenvectors of Psi, units of the floor: of the block at the floor only what raises eigenvalues stays
    inside = low[:, :, None] & low[:, None, :]
    turned = vectors.mT @ (part * unit) @ vectors
    slopes, axes = np.linalg.eigh(np.where(inside, turned, 0.0))
    rising = (axes * np.maximum(slopes, 0.0)[:, None, :]) @ axes.mT
    return vectors @ np.where(inside, rising, turned) @ vectors.mT / unit
