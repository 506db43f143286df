"""Problems and naive likelihoods that the tests of the HOPE plugin share; the likelihoods are written for autograd."""

import autograd.numpy as anp
import numpy as np
from autograd.scipy.special import iv, logsumexp
from scipy.stats import vonmises_fisher


def directions(n=8000, dim=12, seed=2):
    """Return rows of five von Mises-Fisher distributions, one of concentration 2000, and their weights."""
    rng = np.random.default_rng(seed)
    mus = np.linalg.qr(rng.standard_normal((dim, 5)))[0].T
    counts = (np.array([0.4, 0.3, 0.15, 0.1, 0.05]) * n).astype(int)
    parts = zip(mus, (2000.0, 60, 60, 30, 30), counts, strict=True)
    X = np.vstack([vonmises_fisher(m, k).rvs(c, random_state=rng) for m, k, c in parts])
    return X, counts / counts.sum()


def clusters(n=200, D=7, K=4, seed=0, spread=0.4):
    """Return rows about K centres."""
    rng = np.random.default_rng(seed)
    return np.repeat(rng.standard_normal((K, D)), n // K, axis=0) + spread * rng.standard_normal((n // K * K, D))


def unit(X):
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def log_c(M, kappa):
    """Return (10), by scipy's Bessel function itself."""
    s = M / 2 - 1
    return s * anp.log(kappa) - M / 2 * anp.log(2 * anp.pi) - anp.log(iv(s, kappa))


def movmf_naive(U, weights, mu, X, normalize=True):
    """Return L1 (29)."""
    z = anp.dot(X, U.T)
    if normalize:
        z = z / anp.sqrt(anp.sum(z**2, axis=1, keepdims=True))
    kappa = anp.sqrt(anp.sum(mu**2, axis=1))
    return anp.sum(logsumexp(anp.log(weights) + log_c(len(U), kappa) + anp.dot(z, mu.T), axis=1))


def gmm_naive(U, weights, means, covariances, X):
    """Return L1 (24); covariances are (K, M) or (K, M, M)."""
    z, parts = anp.dot(X, U.T), []
    for k in range(len(means)):
        S = covariances[k] if covariances.ndim == 3 else anp.diag(covariances[k])
        apart = z - means[k]
        square = anp.sum(apart * anp.linalg.solve(S, apart.T).T, axis=1)
        _, log_det = anp.linalg.slogdet(2 * anp.pi * S)
        parts.append(anp.log(weights[k]) - 0.5 * (square + log_det))
    return anp.sum(logsumexp(anp.stack(parts, axis=1), axis=1))


def noise_naive(U, X, variance):
    """Return L2 (21), row by row from (5), with its constant."""
    rest = X - anp.dot(anp.dot(X, U.T), U)
    N, D = X.shape
    return -0.5 * N * (D - len(U)) * anp.log(2 * anp.pi * variance) - 0.5 * anp.sum(rest**2) / variance


def likelihood(model, X):
    """Return what a fit maximizes: the mean of ln p(z) (29), (30) and of the residual (19)."""
    M, D = model.components_.shape
    phi = model.log_contributions(X)
    noise = (D - M) * np.log(2 * np.pi * model.noise_variance_) + model.residual_energy(X) / model.noise_variance_
    return float(np.mean(np.logaddexp.reduce(phi, axis=1) - 0.5 * noise))
