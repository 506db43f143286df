import numpy as np
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils.validation import check_is_fitted

import manifoldseq as ms
from manifoldseq.estimators import check_parameters, check_whole, fit_starts, row_blocks, validate_rows


class KPlanes(ClusterMixin, BaseEstimator):
    """Cluster rows by the nearest of several affine subspaces (Bradley and Mangasarian 2000)."""

    def __init__(
        self,
        n_clusters=2,
        n_components=1,
        *,
        n_init=8,
        max_iter=100,
        tol=1e-9,
        random_state=None,
        n_jobs=None,
        verbose=0,
    ):
        self.n_clusters, self.n_components = n_clusters, n_components
        self.n_init, self.max_iter, self.tol = n_init, max_iter, tol
        self.random_state, self.n_jobs, self.verbose = random_state, n_jobs, verbose

    def fit(self, X, y=None, *, observers=(), checkpoint=None, resume=False):
        check_parameters(self, {"n_clusters": check_whole, "n_components": check_whole})
        X = validate_rows(self, X, reset=True, least=self.n_clusters)

        def assigned(planes):
            squared = distances(X, planes)
            state = {"x": planes, "labels": squared.argmin(axis=1)}
            return state, ms.Measures(float(squared.min(axis=1).mean()))

        def step(state):
            return assigned(fitted_planes(X, state["labels"], state["x"]))

        def run(number, rng, **loop):
            def start():
                centres = X[rng.choice(len(X), self.n_clusters, replace=False)]
                none = np.zeros((self.n_clusters, X.shape[1], min(self.n_components, X.shape[1])))
                return assigned((centres, none))

            return ms.iterate(step, start, stop=ms.CostChange(self.tol) | ms.MaxIterations(self.max_iter), **loop)

        best = fit_starts(self, run, X, observers=observers, checkpoint=checkpoint, resume=resume)
        self.cluster_centers_, self.bases_ = best.state["x"]
        self.labels_, self.inertia_ = best.state["labels"], best.fun * len(X)
        self.n_iter_, self.history_, self.status_ = best.nit, best.history, best.status
        return self

    def predict(self, X):
        check_is_fitted(self, "cluster_centers_")
        X, planes = validate_rows(self, X, reset=False), (self.cluster_centers_, self.bases_)
        return np.concatenate([distances(X[rows], planes).argmin(axis=1) for rows in row_blocks(len(X))])


def distances(X, planes):
    """Return the squared distances of rows (N, D) to K planes, (N, K)."""
    away = [X - centre for centre in planes[0]]
    along = [rows @ basis for rows, basis in zip(away, planes[1], strict=True)]
    return np.stack([np.vecdot(a, a) - np.vecdot(b, b) for a, b in zip(away, along, strict=True)], axis=1)


def fitted_planes(X, labels, old):
    """Return the best plane of each cluster: its mean (K, D) and principal directions (K, D, m)."""
    centres, bases = old[0].copy(), old[1].copy()
    for k in np.unique(labels):
        rows = X[labels == k]
        centres[k] = rows.mean(axis=0)
        bases[k] = np.linalg.eigh((rows - centres[k]).T @ (rows - centres[k]))[1][:, -bases.shape[2] :]
    return centres, bases
