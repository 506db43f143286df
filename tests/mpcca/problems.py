"""Generated views with known parameters, and the densities of a mixture by their definition."""

import numpy as np
from scipy.stats import multivariate_normal

import manifoldseq as ms
from manifoldseq_mpcca import Mixture


def mixture(K=3, sizes=(5, 4), d=2, full=False, spread=1.0, seed=0):
    """Return a random mixture; `spread` is the distance of the components in units of the noise."""
    rng = np.random.default_rng(seed)
    D = sum(sizes)
    noise = []
    for size in sizes:
        root = rng.standard_normal((K, size, size)) * 0.3 + np.eye(size)
        noise.append(root @ root.mT if full else rng.uniform(0.3, 1.5, (K, size)))
    weights = rng.uniform(0.5, 1.5, K)
    return Mixture(weights / weights.sum(), spread * rng.standard_normal((K, D)), rng.standard_normal((K, D, d)), noise)


def covariances(m):
    """Return W W' + Psi of each component, dense."""
    found = m.loadings @ m.loadings.mT
    for v, noise in enumerate(m.noise):
        c = m.columns(v)
        found[:, c, c] += noise if m.full else np.stack([np.diag(psi) for psi in noise])
    return found


def drawn(m, N=200, seed=1):
    """Return the views of N rows of a mixture, and the components that they are from."""
    rng = np.random.default_rng(seed)
    labels = rng.choice(m.n_components, N, p=m.weights)
    roots = np.linalg.cholesky(covariances(m))
    rows = m.means[labels] + np.einsum("nij,nj->ni", roots[labels], rng.standard_normal((N, m.means.shape[1])))
    return np.split(rows, np.cumsum(m.views)[:-1], axis=1), labels


def log_densities(m, views):
    """Return ln w_k p(v|k), (N, K), by scipy's multivariate normal."""
    V, S = np.hstack(views), covariances(m)
    parts = [np.atleast_1d(multivariate_normal(m.means[k], S[k]).logpdf(V)) for k in range(m.n_components)]
    return np.stack(parts, axis=1) + np.log(m.weights)


def conditional(m, V, hidden):
    """Return mean and variance, by the definition, of the hidden columns of rows given the others."""
    S, K = covariances(m), len(m.weights)
    o = np.setdiff1d(np.arange(V.shape[1]), hidden)
    log = np.stack([multivariate_normal(m.means[k][o], S[k][np.ix_(o, o)]).logpdf(V[:, o]) for k in range(K)], axis=1)
    gate = m.weights * np.exp(log - log.max(axis=1, keepdims=True))
    gate /= gate.sum(axis=1, keepdims=True)
    G = [np.linalg.solve(S[k][np.ix_(o, o)], S[k][np.ix_(o, hidden)]).T for k in range(K)]
    means = np.stack([m.means[k][hidden] + (V[:, o] - m.means[k][o]) @ G[k].T for k in range(K)], axis=1)
    within = np.stack([np.diag(S[k][np.ix_(hidden, hidden)] - G[k] @ S[k][np.ix_(o, hidden)]) for k in range(K)])
    mean = np.einsum("nk,nkm->nm", gate, means)
    return mean, np.einsum("nk,nkm->nm", gate, within + (means - mean[:, None]) ** 2)


def registered(name, **parts):
    """Register a model with all parts of ``mpcca`` but these, and return its name."""
    bundled = ms.get_model("mpcca:mpcca")
    kept = ("prepare", "manifold", "statistics", "value", "value_and_gradient", "initializers", "updates", "units")
    known = {part: getattr(bundled, part) for part in (*kept, "repair", "example", "input")}
    ms.register(ms.hooks.ModelSpec(name, **{**known, **parts}))
    return name
