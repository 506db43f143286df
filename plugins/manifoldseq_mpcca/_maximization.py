"""M-step: the mixture that maximizes the likelihood of sufficient statistics, (30)-(36)."""

import numpy as np

from ._parameters import Array, Mixture
from ._statistics import Statistics

UPDATES = ("expanded", "joint", "conditional")


def maximize(statistics: Statistics, old: Mixture, floor: Array, update: str = "joint") -> Mixture:
    """Return the mixture of the next EM iteration; no update decreases the likelihood.

    Parameters
    ----------
    statistics : Statistics
        Statistics of the data under the posterior of `old`.
    old : Mixture
        The previous mixture. Components without data keep their parameters.
    floor : ndarray of shape (D,)
        The lower bound of the noise variances. A full noise covariance is bounded below by the diagonal matrix of the
        floor.
    update : {"expanded", "joint", "conditional"}
        ``"joint"`` maximizes over loadings and means together, with one (d+1) × (d+1) solution per component.
        ``"conditional"`` is the printed update: (31), (32) with the old loadings, then (33), (34) with the new means.
        ``"expanded"`` is ``"joint"`` in a model whose latent vector has an additional mean and covariance, which are
        then absorbed into the loadings and means (Liu, Rubin, Wu: Parameter expansion to accelerate EM, 1998).
    """
    s, alive = statistics, statistics.counts > np.finfo(float).tiny
    counts = np.where(alive, s.counts, 1.0)[:, None]
    rows = counts + s.pseudo
    gram = s.gram
    gram[~alive] = np.eye(gram.shape[1])
    W, mean = np.zeros_like(old.loadings), np.empty_like(old.means)
    # (31), (32) with the old W, then (33), (34) with the new mu; or both at once, [W, mu] = [VZ, S1] [[C, Zb], [Zb',
    # N]]^-1, a (d + 1) × (d + 1) system per component; with private latent dimensions one for each view
    if update == "conditional":
        mean = (s.first - (old.loadings @ s.latent_first[:, :, None])[:, :, 0]) / counts
        cross = s.cross - mean[:, :, None] * s.latent_first[:, None, :]
        for c, own in old.structure:
            W[:, c, own] = np.linalg.solve(gram[:, own[:, None], own], cross[:, c][:, :, own].mT).mT
    else:
        products = s.rows_by_latent
        for c, own in old.structure:
            ends = np.append(own, gram.shape[1] - 1)
            both = np.linalg.solve(gram[:, ends[:, None], ends], products[:, c][:, :, ends].mT).mT
            W[:, c, own], mean[:, c] = both[:, :, :-1], both[:, :, -1]
    # (35), (36): what [W, mu] leaves of each view, over N_k, above the floor
    noise = []
    for v, residual in enumerate(s.residuals(old, np.concatenate([W, mean[:, :, None]], axis=2))):
        least = floor[old.columns(v)]
        part = raised(residual / rows[:, :, None], least) if old.full else np.maximum(residual / rows, least)
        part[~alive] = old.noise[v][~alive]
        noise.append(part)
    # the latent vector has the mean `centre` and the covariance `spread` = LL': W z + mu = (W L) z' + (mu + W centre).
    # Private latent vectors have a regression on the shared one besides: L of the columns of a view holds it
    if update == "expanded":
        centre = s.latent_first / counts
        spread = gram[:, :-1, :-1] - counts[:, :, None] * centre[:, :, None] * centre[:, None, :]
        spread /= rows[:, :, None]
        mean = mean + (W @ centre[:, :, None])[:, :, 0]
        for c, own in old.structure:
            W[:, c, own] = W[:, c][:, :, own] @ np.linalg.cholesky(spread[:, own[:, None], own])
    means = np.where(alive[:, None], mean + s.origin, old.means)
    return Mixture.trusted(s.counts / s.n, means, np.where(alive[:, None, None], W, old.loadings), noise, old.private)


def raised(covariances: Array, floor: Array) -> Array:
    """Return the maximum-likelihood covariances with the lower bound diag(floor), given sample covariances."""
    # in units where the floor is I, eigenvalues below one become one
    scale = np.sqrt(floor)
    unit = scale[:, None] * scale
    values, vectors = np.linalg.eigh((covariances + covariances.mT) / (2 * unit))
    return (vectors * np.maximum(values, 1.0)[..., None, :]) @ vectors.mT * unit
