"""Where learning starts: PCA or random projections, and components seeded by (spherical) k-means++."""

import numpy as np
from sklearn.cluster import kmeans_plusplus

from ._family import Array, Family
from ._mixture import Model

PROJECTIONS = ("pca", "random")
_SEEN = 20
"""Rows per component that the start of a mixture looks at."""
_LEAST = 1000


def principal(S: Array, M: int) -> Array:
    """Return the M leading eigenvectors of a second moment as rows, the largest entry of each positive."""
    U = np.linalg.eigh(S)[1][:, : -M - 1 : -1].T
    top = np.abs(U).argmax(axis=1)
    return np.ascontiguousarray(U * np.sign(U[np.arange(M), top])[:, None])


def projection(kind: str, S: Array, M: int, rng: np.random.Generator) -> Array:
    """Return a projection with orthonormal rows, (M, D): principal axes, or uniformly random."""
    if kind == "pca":
        return principal(S, M)
    Q, R = np.linalg.qr(rng.standard_normal((len(S), M)))
    return np.ascontiguousarray((Q * np.sign(np.diagonal(R))).T)


def seeded(U: Array, X: Array, K: int, family: Family, normalize_z: bool, rng: np.random.Generator) -> Model:
    """Return a model whose components come from k-means++ on the projections of some rows (cosines on the sphere)."""
    M = len(U)
    rows = X
    if len(X) > max(_SEEN * K, _LEAST):
        rows = X[np.sort(rng.choice(len(X), max(_SEEN * K, _LEAST), replace=False))]
    Z = np.asarray(rows, dtype=np.float64) @ U.T
    if normalize_z:
        length = np.sqrt(np.einsum("nm,nm->n", Z, Z))
        Z = Z[length > 0] / length[length > 0, None]
    few = len(np.unique(Z, axis=0)) < K
    seed = int(rng.integers(2**31))
    centres = Z[rng.choice(len(Z), K)] if few else kmeans_plusplus(Z, K, random_state=seed)[0]
    near = (Z @ centres.T - 0.5 * np.einsum("km,km->k", centres, centres)).argmax(axis=1)
    counts = np.bincount(near, minlength=K).astype(np.float64)
    t = family.statistics(Z)
    S = np.zeros((K, t.shape[1]))
    np.add.at(S, near, t)
    parameters = family.start(S, counts, M)
    return Model(U, np.full(K, 1 / K), parameters, family, normalize_z)
