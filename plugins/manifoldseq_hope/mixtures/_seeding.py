"""Initialization: PCA or random projections, and components seeded by (spherical) k-means++."""

from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse
from sklearn.cluster import kmeans_plusplus

from manifoldseq.estimators import distinct_rows
from manifoldseq.execution import RowBlocks

from ..families._family import Array, Family
from ..families._rows import Scaling
from ._expectation import Gram
from ._parameters import Model

_SEEN = 20
"""Number of rows per component that the start of a mixture uses."""
_LEAST = 2000
_TRIES, _MANY = 10, 50
"""Number of seedings, of which the best is used, and the largest number of components with several seedings."""


def principal(S: Array | Gram, M: int) -> Array:
    """Return the M leading eigenvectors of a second moment as rows, the largest entry of each positive."""
    U = S.leading(M) if isinstance(S, Gram) else np.linalg.eigh(S)[1][:, : -M - 1 : -1].T
    top = np.abs(U).argmax(axis=1)
    return np.ascontiguousarray(U * np.sign(U[np.arange(M), top])[:, None])


def projection(kind: str, S: Array, M: int, rng: np.random.Generator) -> Array:
    """Return a projection with orthonormal rows, (M, D): principal axes, or uniformly random."""
    if kind == "pca":
        return principal(S, M)
    # Q of a normal matrix is uniform if R has a positive diagonal
    Q, R = np.linalg.qr(rng.standard_normal((len(S), M)))
    return np.ascontiguousarray((Q * np.sign(np.diagonal(R))).T)


def seeded(
    U: Array,
    X: Any,
    K: int,
    family: Family,
    normalize_z: bool,
    rng: np.random.Generator,
    weight: Array | None = None,
    scaling: Scaling | None = None,
) -> Model:
    """Return a model with components from k-means++ seeds of projected rows (by cosines on the sphere).

    The result does not depend on the order of the rows, and a row of weight two counts as two rows, unless rows are
    subsampled because there are many.
    """
    blocks = X if isinstance(X, RowBlocks) else RowBlocks.of(X)
    N, M, most = blocks.n, len(U) or U.shape[1], max(_SEEN * K, _LEAST)
    chosen, w = slice(None), np.ones(N) if weight is None else weight
    if N > most:
        chosen, w = np.sort(rng.choice(N, most, replace=False, p=w / w.sum())), np.ones(most)
    rows = blocks.take(np.arange(N) if len(blocks) > 1 and isinstance(chosen, slice) else chosen)[0]
    rows = rows if scaling is None else scaling(np.asarray(rows))
    # equal rows become one with their common weight, in one order: so that neither order nor repetition changes the
    # draw
    rows, w, _ = distinct_rows(rows[w > 0], w[w > 0])
    Z = rows.astype(np.float64)
    if len(U):
        Z = Z @ U.T
        if normalize_z:
            length = np.sqrt(np.einsum("nm,nm->n", Z, Z))
            Z = Z / np.where(length > 0, length, 1.0)[:, None]
    if Z.shape[0] < K:
        centres = Z[np.arange(K) % Z.shape[0]]
    else:
        seeds = [int(seed) for seed in rng.integers(2**31, size=1 if K > _MANY else _TRIES)]
        tried = [kmeans_plusplus(Z, K, sample_weight=w, random_state=seed)[0] for seed in seeds]
        centres = max(tried, key=lambda c: float(w @ _nearness(Z, c).max(axis=1)))
    # the statistics of hard assignments, (K, F), from which the family starts
    near = _nearness(Z, centres).argmax(axis=1)
    counts = np.bincount(near, weights=w, minlength=K)
    t = family.statistics(Z)
    S = csr_array((w, near, np.arange(len(w) + 1)), (len(w), K)).T @ t  # rows by components
    S = S.toarray() if issparse(S) else S
    return Model(U, np.full(K, 1 / K), family.start(S, counts, M), family, normalize_z)


def _nearness(Z: Any, centres: Any) -> Array:
    """Return half of |z|^2 - |z - c|^2, (N, K)."""
    if issparse(centres):
        centres = centres.toarray()
    return Z @ centres.T - 0.5 * np.einsum("km,km->k", centres, centres)
