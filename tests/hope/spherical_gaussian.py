"""A third exponential family in one file: Gaussians with one variance per component."""

import numpy as np

import manifoldseq as ms
from manifoldseq_hope import Family


def manifolds(K, M):
    return ms.manifolds.Euclidean(K, M), ms.manifolds.Positive(K)


def statistics(Z):
    return np.concatenate([np.sum(Z * Z, axis=1, keepdims=True), Z], axis=1)


def pullback(Z, G):
    return 2 * Z * G[:, :1] + G[:, 1:]


def natural(parameters, M):
    means, variances = (np.asarray(part, dtype=float) for part in parameters)
    offset = -0.5 * (np.sum(means**2, axis=1) / variances + M * np.log(2 * np.pi * variances))
    return np.column_stack([-0.5 / variances, means / variances[:, None]]), offset


def gradient(parameters, S, counts, M):
    means, variances = (np.asarray(part, dtype=float) for part in parameters)
    about = S[:, 0] - 2 * np.sum(means * S[:, 1:], axis=1) + counts * np.sum(means**2, axis=1)
    return (S[:, 1:] - counts[:, None] * means) / variances[:, None], 0.5 * (about / variances - M * counts) / variances


def maximize(S, counts, M):
    n = np.maximum(counts, 1e-12)
    means = S[:, 1:] / n[:, None]
    return means, np.maximum((S[:, 0] / n - np.sum(means**2, axis=1)) / M, 1e-3)


def start(S, counts, M):
    means, variances = maximize(S, counts, M)
    return means, np.full(len(counts), np.average(variances, weights=counts + 1e-12))


def rotate(S, counts, R):
    return np.column_stack([S[:, 0], S[:, 1:] @ R.T])


def sample(parameters, labels, M, rng):
    means, variances = parameters
    return means[labels] + np.sqrt(variances[labels])[:, None] * rng.standard_normal((len(labels), M))


SPHERICAL = Family(
    "spherical-gaussian",
    ("means", "variances"),
    directional=False,
    manifolds=manifolds,
    statistics=statistics,
    pullback=pullback,
    natural=natural,
    gradient=gradient,
    maximize=maximize,
    start=start,
    centres=lambda parameters: np.asarray(parameters[0]),
    rotate=rotate,
    sample=sample,
)
