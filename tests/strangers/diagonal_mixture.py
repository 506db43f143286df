"""A plugin in one file: a mixture of Gaussians with diagonal covariances, its model and its estimator."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.cluster import kmeans_plusplus

import manifoldseq as ms
from manifoldseq.manifolds import Euclidean, Positive, Product, Simplex


@dataclass(frozen=True)
class DiagonalGaussians(ms.models.MixtureModel):
    K: int
    variance: Any

    @classmethod
    def of(cls, X, weight, n_components=2):
        return cls(n_components, np.average((X - np.average(X, axis=0, weights=weight)) ** 2, axis=0, weights=weight))

    def manifold(self):
        K, D = self.K, len(self.variance)
        return Product(Simplex(K), Euclidean(K, D), Positive(K, D), names=("weights", "means", "variances"))

    def start(self, X, weight, rng):
        means, _ = kmeans_plusplus(X, self.K, sample_weight=weight, random_state=int(rng.integers(2**31)))
        return np.full(self.K, 1 / self.K), means, np.tile(self.variance, (self.K, 1))

    def joint(self, point, X):
        weights, means, variances = point
        offset = np.log(weights) - 0.5 * (np.log(2 * np.pi * variances) + means**2 / variances).sum(axis=1)
        return X @ (means / variances).T - 0.5 * X**2 @ (1 / variances).T + offset

    def moments(self, X, R):
        return R.T @ X, R.T @ X**2

    def maximized(self, point, sums):
        means, squares = (moment / sums.counts[:, None] for moment in sums.moments)
        return sums.counts / sums.counts.sum(), means, np.maximum(squares - means**2, 1e-6 * self.variance)

    def draw(self, point, labels, rng):
        return point[1][labels] + np.sqrt(point[2][labels]) * rng.standard_normal((len(labels), len(self.variance)))


class DiagonalMixture(ms.models.RowMixture):
    stored_types = (DiagonalGaussians, ms.models.MixtureSums)

    def __init__(
        self, n_components=2, *, model="diagonal-gaussians", init=None, solver="em", batch_size=1024, n_init=1,
        max_iter=200, tol=1e-8, random_state=None,
    ):  # fmt: skip
        self.n_components, self.model, self.init, self.solver = n_components, model, init, solver
        self.batch_size, self.n_init, self.max_iter, self.tol = batch_size, n_init, max_iter, tol
        self.random_state = random_state


@ms.hookimpl
def manifoldseq_models():
    yield ms.models.mixture_model("diagonal-gaussians", DiagonalGaussians)


@ms.hookimpl
def manifoldseq_estimators():
    yield ms.hooks.EstimatorSpec("diagonal-mixture", DiagonalMixture, input="samples")
