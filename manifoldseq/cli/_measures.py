"""What clustering without dynamics reaches on the same data."""

import time
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from ..estimators import channel_statistics
from ..report import clustering_measures

BASELINE = "k-means on channel means and deviations"


def baseline_measures(sequences: Sequence[np.ndarray], labels: Any, n_clusters: int, seed: int) -> dict[str, float]:
    """Return the measures, with prefix ``baseline_``, of k-means on the means and deviations of the channels."""
    from sklearn.cluster import KMeans

    start = time.perf_counter()
    kmeans = KMeans(n_clusters, n_init=cast(Any, 10), random_state=seed)
    clusters = kmeans.fit_predict(channel_statistics(sequences))
    seconds = time.perf_counter() - start
    measures = clustering_measures(labels, clusters) | {"seconds": seconds}
    return {f"baseline_{name}": value for name, value in measures.items()}
