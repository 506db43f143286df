"""The number of clusters without labels, from a kernel matrix: by the agreement of clusterings of random halves."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..kernels import agreements, kernel_kmeans
from ._choice import AGREEMENT, Step, preferred, summary

Array = NDArray[np.floating[Any]]

CLUSTERS = range(2, 13)
"""Numbers of clusters that are compared."""
PER_CLUSTER = 4
"""Members per cluster, at least."""
SPLITS = 12
"""Pairs of random halves."""
COMPARED = 480
"""Members of which halves are compared, at most."""


def numbers_of_clusters(n_members: int) -> list[int]:
    """Return the numbers of clusters that ``n_clusters="auto"`` compares: two to twelve, a quarter of the members.

    Examples
    --------
    >>> numbers_of_clusters(20)
    [2, 3, 4, 5]
    """
    return [k for k in CLUSTERS if PER_CLUSTER * k <= n_members] or [2]


def at_end_of_range(chosen: int, compared: Iterable[int]) -> list[str]:
    """Return a note if the chosen number of clusters is the largest or the smallest that was compared.

    Fewer than two clusters are no alternative, so that there is no note about a smallest number of one or two.

    Examples
    --------
    >>> at_end_of_range(3, range(2, 13))
    []
    >>> at_end_of_range(12, range(2, 13))[0]
    'n_clusters=12 is the largest of the compared numbers (2 to 12): try larger numbers, such as n_clusters=24'
    """
    numbers = sorted(set(compared))
    between = f"of the compared numbers ({numbers[0]} to {numbers[-1]})"
    if len(numbers) > 1 and chosen == numbers[-1]:
        return [f"n_clusters={chosen} is the largest {between}: try larger numbers, such as n_clusters={2 * chosen}"]
    if len(numbers) > 1 and chosen == numbers[0] > 2:
        return [f"n_clusters={chosen} is the smallest {between}: try smaller numbers, such as n_clusters={chosen - 1}"]
    return []


def choose_n_clusters(gram: Array, rng: np.random.Generator) -> Step:
    """Compare numbers of clusters by the agreement of k-means of random halves, in the feature space of a kernel.

    Lange, Roth, Braun and Buhmann: Stability-based validation of clustering solutions, Neural Computation, 2004.

    Parameters
    ----------
    gram : ndarray of shape (N, N)
        A symmetric kernel matrix of at least four members. If there are more than 480 members, 480 are drawn at random.
    rng : numpy.random.Generator

    Returns
    -------
    Step
        The chosen setting ``n_clusters`` is ``step.params[step.chosen[0]]``: the largest number of clusters for which
        the halves agree as well as for any other number, see `preferred`.

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

    values = np.array([agreements(gram, rng.permutation(len(gram)), clusters, find) for _ in range(SPLITS)]).T
    stability, error = summary(values)
    params = [{"n_clusters": k} for k in clusters]
    return Step("agreement", AGREEMENT, params, stability, [preferred(list(values), clusters)], error)
