"""Weights of descriptions without labels: by stability, separation and agreement with the other descriptions.

Every constant of this decision stands here. They were set on 31 development sets: recordings (JapaneseVowels,
BasicMotions, ArrowHead, ItalyPowerDemand) and generated sequences whose classes differ in frequency, position, shape,
level, size, dynamics, covariance of channels, or motifs. Mean adjusted Rand indices there: the best single description
0.57 (dynamics), the sum of all with equal weights 0.66, the most stable description 0.72, weights by stability alone
0.77, this rule 0.79; spectra, curves, convolutions and warping were other ones then than those of the baselines, which
they are now. ``python -m benchmarks.real`` measures the default on recorded sets: 0.59 then, 0.61 now.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

import manifoldseq as ms
from manifoldseq.models import Choice, Step, summary

Array = NDArray[np.float64]

BUNDLED = ("statistics", "spectrum", "autocovariance", "shape", "warping", "convolutions", "dynamics")
"""The kernels that ``kernel="auto"`` compares. Other registered kernels take part where they are named."""
HALVINGS = 8
"""Pairs of random halves. Weights of eight runs have a relative standard deviation of 0.21 on BasicMotions; with 16
pairs, which cost twice as much, 0.12."""
STARTS = 4
"""Starts of each k-means of a half, and of noise."""
STARTS_OF_ALL = 12
"""Starts of the k-means of all compared sequences. With 4, one of five fits to films of waves in noise missed them."""
COMPARED = (200, 20)
"""Stability is measured on so many sequences, or so many per cluster if that is more."""
LEAST_PER_CLUSTER = 4
"""With fewer sequences per cluster, halves are not compared and all descriptions have equal weights."""
UNSURE = 0.05
"""A stability s weighs ``s / (1 - s + 0.05)``: 20 if halves agree perfectly, 1 if they agree by half. With 0.1, one
right description among noise no longer dominates (two patterns: an index of 0.34 in place of 1.00)."""
ALONE = 0.2
"""The agreement with other descriptions is added to this: what no other description confirms counts a fifth."""
CONFIRMING = 2
"""Descriptions with which a description agrees best, whose mean adjusted Rand index is its confirmation."""
BALANCE = 4
"""Power of the entropy of the sizes of the clusters relative to equal sizes. A split into one cluster and a few
outliers is stable and says little. Without it: 0.783 in place of 0.787; control charts 0.56 in place of 0.76."""
PRIOR: Mapping[str, float] = {"convolutions": 4.0, "warping": 2.0}
"""Weights before anything is measured, 1 for others. Random convolutions and alignments are the most useful
descriptions of recorded curves by the literature (Jorge and Rubio 2024). On 47 development sets, generated with other
seeds than those above: 0.758; without this prior 0.719; with 6 and 3 0.753; with 16 and 8 0.761, but 0.77 in place of
0.89 on JapaneseVowels."""
NULLS = 2
"""Gaussian samples with the variances of the components of a description, whose separation is that of no clusters."""
LEAST_WEIGHT = 0.02
"""Descriptions with a smaller share of the weights are left out: prediction does not compute them."""
NUMBERS = (2, 4, 8)
"""Numbers of clusters over which weights are averaged where the number of clusters is to be chosen."""
HEADING, LABEL = "stability", "agreement of random halves (adjusted Rand index)"


def learned_weights(coordinates: Mapping[str, Array], n_clusters: int, rng: np.random.Generator) -> Choice:
    """Return how descriptions are weighed: ``best_params["kernel"]`` maps their names to weights.

    `coordinates` are those of N sequences under each kernel, (N, r).

    The weight of a description is a product of

    * the odds of its **stability**: k-means of random halves of the sequences, each carried to the other half;
    * its **confirmation**: how well its clusters agree with those of the descriptions that agree best with it;
    * the **balance** of its clusters: the entropy of their sizes;

    and it is 0 if its clusters have no more **separation**, the share of the variance that lies between them, than
    clusters of Gaussian samples with the same variances.
    """
    began = time.perf_counter()
    N = len(next(iter(coordinates.values())))
    names = [name for name, Z in coordinates.items() if Z.shape[1]]
    if not names:
        raise ValueError("no kernel tells two of the sequences apart: all are equal, so that there are no clusters")
    if n_clusters < 2 or N < LEAST_PER_CLUSTER * n_clusters or len(names) < 2:
        few = f"{N} sequences are too few to compare clusterings of halves: all descriptions have equal weights"
        notes = [few] if len(names) > 1 and n_clusters > 1 else []
        return _equal(names, notes, time.perf_counter() - began)
    rows = np.sort(rng.permutation(N)[: max(COMPARED[0], COMPARED[1] * n_clusters)])
    orders = [rng.permutation(len(rows)) for _ in range(HALVINGS)]
    values, labels, separation, null = [], [], [], []
    for name in names:
        Z = coordinates[name][rows]
        gram = _unit(Z @ Z.T)
        values.append([ms.kernels.agreements(gram, order, [n_clusters], _find(rng))[0] for order in orders])
        labels.append(ms.kernels.kernel_kmeans(gram, n_clusters, rng, STARTS_OF_ALL)[0])
        separation.append(separated(gram, labels[-1]))
        null.append(np.mean([_of_noise(Z, n_clusters, rng) for _ in range(NULLS)]))
    stability, error = summary(np.array(values))
    confirmed = _confirmation(labels, n_clusters)
    balance = np.array([_entropy(one, n_clusters) for one in labels])
    above = np.array(separation) - np.array(null)
    sure = np.maximum(stability, 0.0)
    prior = np.array([PRIOR.get(name, 1.0) for name in names])
    weights = prior * sure / (1 - sure + UNSURE) * (ALONE + confirmed) * balance**BALANCE * (above > 0)
    notes = []
    if not weights.sum() > 0:
        notes = ["no description has clusters that are more separated than noise: all have equal weights"]
        weights = np.ones(len(names))
    weights = np.where(weights >= LEAST_WEIGHT * weights.sum(), weights, 0.0)
    weights /= weights.sum()
    step = Step(
        HEADING,
        LABEL,
        [{"kernel": name} for name in names],
        stability,
        np.flatnonzero(weights).tolist(),
        error,
        {"separated": above, "confirmed": confirmed, "balance": balance, "weight": weights},
    )
    kept = {name: round(float(w), 4) for name, w in zip(names, weights, strict=True) if w > 0}
    return Choice([step], {"kernel": kept}, notes, time.perf_counter() - began)


def weights_of_any_number(coordinates: Mapping[str, Array], rng: np.random.Generator) -> dict[str, float]:
    """Return weights for an unknown number of clusters: means of those for 2, 4 and 8, where N allows it."""
    N = len(next(iter(coordinates.values())))
    numbers = [k for k in NUMBERS if LEAST_PER_CLUSTER * k <= N] or list(NUMBERS[:1])
    found = [learned_weights(coordinates, k, rng).best_params["kernel"] for k in numbers]
    return {name: float(np.mean([one.get(name, 0.0) for one in found])) for name in coordinates}


def separated(gram: Array, labels: NDArray[np.int64]) -> float:
    """Return the share of the variance of feature space that lies between clusters, of a centred kernel matrix."""
    members = np.eye(int(labels.max()) + 1)[labels]
    sizes = np.maximum(members.sum(axis=0), 1.0)
    # the sum over clusters of their size times the squared norm of their mean, 1' K 1 / size
    between = np.einsum("ik,ij,jk->k", members, gram, members, optimize=True) / sizes
    return float(between.sum() / np.trace(gram))


def _equal(names: list[str], notes: list[str], spent: float) -> Choice:
    weights = {name: round(1 / len(names), 4) for name in names}
    return Choice([], {"kernel": weights}, notes, spent)


def _unit(gram: Array) -> Array:
    """Return a kernel matrix that is centred, with a mean diagonal entry of 1, after rows were left out."""
    means = gram.mean(axis=0)
    gram = gram - means - means[:, None] + means.mean()
    return gram / max(float(np.trace(gram)) / len(gram), np.finfo(float).tiny)


def _find(rng: np.random.Generator) -> Any:
    return lambda K, clusters: [ms.kernels.kernel_kmeans(K, k, rng, STARTS)[0] for k in clusters]


def _of_noise(Z: Array, n_clusters: int, rng: np.random.Generator) -> float:
    """Return the separation of clusters of a Gaussian sample with the variances of coordinates."""
    noise = rng.standard_normal(Z.shape) * Z.std(axis=0)
    gram = _unit(noise @ noise.T)
    return separated(gram, ms.kernels.kernel_kmeans(gram, n_clusters, rng, STARTS)[0])


def _confirmation(labels: list[NDArray[np.int64]], k: int) -> Array:
    """Return the mean adjusted Rand index of each clustering with the others that agree best with it, at least 0."""
    found = []
    for i, one in enumerate(labels):
        others = sorted((ms.kernels.adjusted_rand(one, other, k) for j, other in enumerate(labels) if j != i))
        found.append(float(np.mean(others[-CONFIRMING:])))
    return np.maximum(found, 0.0)


def _entropy(labels: NDArray[np.int64], n_clusters: int) -> float:
    """Return the entropy of the sizes of clusters, 1 for equal sizes."""
    shares = np.bincount(labels, minlength=n_clusters) / len(labels)
    shares = shares[shares > 0]
    return float(-(shares * np.log(shares)).sum() / np.log(n_clusters))
