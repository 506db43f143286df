"""Weights of descriptions without labels: by stability, separation and agreement with the other descriptions.

All constants of this decision are defined here. They were tuned on 31 development sets: recordings (JapaneseVowels,
BasicMotions, ArrowHead, ItalyPowerDemand) and generated sequences whose classes differ in frequency, position, shape,
level, size, dynamics, covariance of channels, or motifs. Mean adjusted Rand indices there: the best single description
0.57 (dynamics), the sum of all with equal weights 0.66, the most stable description 0.72, weights by stability alone
0.77, this rule 0.79; at that time, the spectra, curves, convolutions and warping were not yet those of the baselines.
``python -m benchmarks.real`` measures the default on recorded sets: 0.59 at that time, 0.63 with the fused graph.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

import manifoldseq as ms
from manifoldseq.models import AGREEMENT, Choice, Step, summary

Array = NDArray[np.float64]

BUNDLED = ("statistics", "spectrum", "autocovariance", "shape", "warping", "convolutions", "dynamics")
"""The kernels that ``kernel="auto"`` compares. Other registered kernels are used only if they are named."""
HALVINGS = 8
"""Pairs of random halves. Weights of eight runs have a relative standard deviation of 0.21 on BasicMotions; with 16
pairs, which cost twice as much, 0.12."""
STARTS = 4
"""Number of starts of each k-means on a half, and on noise."""
STARTS_OF_ALL = 12
"""Number of starts of k-means on all compared sequences. With 4, one of five fits to noisy videos of waves failed."""
COMPARED = (200, 20)
"""Stability is measured on 200 sequences, or on 20 per cluster if that is more."""
LEAST_PER_CLUSTER = 4
"""With fewer sequences per cluster, halves are not compared and all kernels have equal weights."""
UNSURE = 0.05
"""A stability s has the weight ``s / (1 - s + 0.05)``: 20 if halves agree perfectly, about 1 for s = 0.5. With 0.1
instead of 0.05, a single informative description among noise no longer dominates (two patterns: an adjusted Rand index
of 0.34 instead of 1.00)."""
ALONE = 0.2
"""The agreement with other descriptions is added to this number, so that a description without confirmation keeps the
factor 0.2."""
CONFIRMING = 2
"""The confirmation of a description is its mean adjusted Rand index with this many descriptions, those that agree
best."""
BALANCE = 4
"""Power of the entropy of the sizes of the clusters relative to equal sizes. A split into one cluster and a few
outliers is stable but not informative. Without this factor: 0.783 instead of 0.787; control charts 0.56 instead of
0.76."""
PRIOR: Mapping[str, float] = {"convolutions": 4.0, "warping": 2.0}
"""Prior weights of descriptions; other descriptions have the prior weight 1. According to the literature (Jorge and
Rubio 2024), random convolutions and alignments are the most useful descriptions of recorded curves. On 47 development
sets, generated with other seeds than the sets above: 0.758; without this prior 0.719; with 6 and 3 0.753; with 16 and 8
0.761, but 0.77 instead of 0.89 on JapaneseVowels."""
NULLS = 2
"""Number of Gaussian samples with the variances of a description, whose separation is the reference without
clusters."""
LEAST_WEIGHT = 0.02
"""Descriptions with a smaller share of the weights are left out, so that prediction does not compute them."""
NUMBERS = (2, 4, 8)
"""Numbers of clusters over which weights are averaged if the number of clusters is to be chosen."""


def learned_weights(coordinates: Mapping[str, Array], n_clusters: int, rng: np.random.Generator) -> Choice:
    """Return the weights of descriptions: ``best_params["kernel"]`` maps their names to weights.

    `coordinates` are those of N sequences under each kernel, (N, r).

    The weight of a description is a product of

    * the odds of its **stability**: the agreement of k-means on random halves of the sequences, each extended to the
      other half;
    * its **confirmation**: the agreement of its clusters with those of the two descriptions that agree best with it;
    * the **balance** of its clusters: the entropy of their sizes;

    The weight is 0 if the **separation** of its clusters, the share of the variance that lies between clusters, is not
    larger than for Gaussian samples with the same variances.
    """
    began = time.perf_counter()
    N = len(next(iter(coordinates.values())))
    names = [name for name, Z in coordinates.items() if Z.shape[1]]
    if not names:
        raise ValueError(
            "all sequences are equal under every kernel, so there are no clusters: pass sequences that differ"
        )
    if n_clusters < 2 or N < LEAST_PER_CLUSTER * n_clusters or len(names) < 2:
        few = f"{N} sequences are too few to compare clusterings of halves of the data: all kernels have equal weights"
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
        notes = [
            (
                "no kernel finds clusters that are better separated than clusters of noise: all kernels have equal "
                "weights"
            )
        ]
        weights = np.ones(len(names))
    weights = np.where(weights >= LEAST_WEIGHT * weights.sum(), weights, 0.0)
    weights /= weights.sum()
    step = Step(
        "stability",
        AGREEMENT,
        [{"kernel": name} for name in names],
        stability,
        np.flatnonzero(weights).tolist(),
        error,
        {"separated": above, "confirmed": confirmed, "balance": balance, "weight": weights},
    )
    kept = {name: round(float(w), 4) for name, w in zip(names, weights, strict=True) if w > 0}
    return Choice([step], {"kernel": kept}, notes, time.perf_counter() - began)


def weights_of_any_number(coordinates: Mapping[str, Array], rng: np.random.Generator) -> dict[str, float]:
    """Return weights for an unknown number of clusters: the means of the weights for 2, 4 and 8, as far as N allows."""
    N = len(next(iter(coordinates.values())))
    numbers = [k for k in NUMBERS if LEAST_PER_CLUSTER * k <= N] or list(NUMBERS[:1])
    found = [learned_weights(coordinates, k, rng).best_params["kernel"] for k in numbers]
    return {name: float(np.mean([one.get(name, 0.0) for one in found])) for name in coordinates}


def separated(gram: Array, labels: NDArray[np.int64]) -> float:
    """Return the share of the variance in feature space that lies between clusters, from a centred kernel matrix."""
    members = np.eye(int(labels.max()) + 1)[labels]
    sizes = np.maximum(members.sum(axis=0), 1.0)
    # the sum over clusters of their size times the squared norm of their mean, 1' K 1 / size
    between = np.einsum("ik,ij,jk->k", members, gram, members, optimize=True) / sizes
    return float(between.sum() / np.trace(gram))


def _equal(names: list[str], notes: list[str], spent: float) -> Choice:
    weights = {name: round(1 / len(names), 4) for name in names}
    return Choice([], {"kernel": weights}, notes, spent)


def _unit(gram: Array) -> Array:
    """Return a kernel matrix after centring it and scaling its mean diagonal entry to 1."""
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
