"""The number of clusters without labels, from a kernel matrix: by the agreement of clusterings of random halves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..kernels import agreements, kernel_kmeans
from ._choice import Step, summary

Array = NDArray[np.floating[Any]]

CLUSTERS = range(2, 13)
"""Numbers of clusters that are compared."""
PER_CLUSTER = 4
"""Members per cluster, at least."""
SPLITS = 12
"""Pairs of random halves."""
COMPARED = 480
"""Members of which halves are compared, at most."""
HEADING, LABEL = "agreement", "agreement of random halves (adjusted Rand index)"


def numbers_of_clusters(n_members: int) -> list[int]:
    """Return the numbers of clusters that ``n_clusters="auto"`` compares: two to twelve, a quarter of the members.

    Examples
    --------
    >>> numbers_of_clusters(20)
    [2, 3, 4, 5]
    """
    return [k for k in CLUSTERS if PER_CLUSTER * k <= n_members] or [2]


def most_stable(stability: Array, error: Array, clusters: Sequence[int]) -> int:
    """Return the row of the chosen setting: the most clusters whose halves agree as well as those of any other number.

    Agreements within the standard error of the best one count as equal. Of several settings with as many clusters, the
    most stable one is chosen. NaN: not compared.

    Parameters
    ----------
    stability, error : ndarray of shape (n,)
        Agreements of halves and their standard errors.
    clusters : sequence of int, of length n

    Examples
    --------
    >>> most_stable(np.array([0.95, 0.93, 0.4]), np.array([0.03, 0.02, 0.02]), [2, 3, 4])
    1
    """
    top = int(np.nanargmax(stability))
    good = np.flatnonzero(stability >= stability[top] - error[top])
    number = np.asarray(clusters)[good]
    good = good[number == number.max()]
    return int(good[stability[good].argmax()])


def choose_n_clusters(gram: Array, rng: np.random.Generator) -> Step:
    """Compare numbers of clusters by the agreement of k-means of random halves, in the feature space of a kernel.

    Lange, Roth, Braun and Buhmann: Stability-based validation of clustering solutions, Neural Computation, 2004.

    Parameters
    ----------
    gram : ndarray of shape (N, N)
        A symmetric kernel matrix of at least four members; of more than 480, as many are drawn.
    rng : numpy.random.Generator

    Returns
    -------
    Step
        The setting ``n_clusters`` that `most_stable` chooses is ``step.params[step.chosen[0]]``.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x = np.repeat([[0.0, 0.0], [5.0, 0.0], [0.0, 5.0]], 8, axis=0) + 0.1 * rng.standard_normal((24, 2))
    >>> step = choose_n_clusters(x @ x.T, rng)
    >>> step.params[step.chosen[0]]
    {'n_clusters': 3}
    """
    clusters = numbers_of_clusters(len(gram))
    if len(gram) > COMPARED:
        rows = np.sort(rng.permutation(len(gram))[:COMPARED])
        gram = gram[np.ix_(rows, rows)]

    def find(K: Array, numbers: Sequence[int]) -> list[NDArray[np.int64]]:
        return [kernel_kmeans(K, k, rng)[0] for k in numbers]

    values = [agreements(gram, rng.permutation(len(gram)), clusters, find) for _ in range(SPLITS)]
    stability, error = summary(np.array(values).T)
    params = [{"n_clusters": k} for k in clusters]
    return Step(HEADING, LABEL, params, stability, [most_stable(stability, error, clusters)], error)
