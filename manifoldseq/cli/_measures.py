"""How well a clustering meets the labels, and what clustering without dynamics reaches on the same data."""

import time
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from ..estimators import channel_statistics

BASELINE = "k-means on channel means and deviations"


def clustering_measures(labels: Any, clusters: Any) -> dict[str, float]:
    """Return purity, normalized mutual information and adjusted Rand index.

    Purity is ``sum_k max_i c_ik / N`` for the contingency counts c of label i and cluster k.
    """
    from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score
    from sklearn.metrics.cluster import contingency_matrix

    counts = contingency_matrix(labels, clusters)
    return {
        "purity": float(counts.max(axis=0).sum() / counts.sum()),
        "nmi": float(normalized_mutual_info_score(labels, clusters)),
        "ari": float(adjusted_rand_score(labels, clusters)),
    }


def baseline_measures(sequences: Sequence[np.ndarray], labels: Any, n_clusters: int, seed: int) -> dict[str, float]:
    """Return the measures, with prefix ``baseline_``, of k-means on the means and deviations of the channels."""
    from sklearn.cluster import KMeans

    start = time.perf_counter()
    kmeans = KMeans(n_clusters, n_init=cast(Any, 10), random_state=seed)
    clusters = kmeans.fit_predict(channel_statistics(sequences))
    seconds = time.perf_counter() - start
    measures = clustering_measures(labels, clusters) | {"seconds": seconds}
    return {f"baseline_{name}": value for name, value in measures.items()}
