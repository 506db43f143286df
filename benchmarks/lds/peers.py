"""Clusterings by aeon on the sets of docs/benchmarks/clustering.md: time warping, random convolutions.

aeon's dependencies hold numpy back, so this runs in an environment of its own, which holds aeon 1.6 or newer:

    python -m venv .venv-aeon
    .venv-aeon/bin/pip install . aeon
    OMP_NUM_THREADS=1 NUMBA_NUM_THREADS=1 PYTHONPATH=. .venv-aeon/bin/python -m benchmarks.lds.peers [set ...]

Both see channels of deviation one, as ours do. Time warping: `TimeSeriesKMeans` with barycentre averages and
greedy starts, with a window of a tenth and without; sequences of more than 300 steps are thinned. Random convolutions:
`MiniRocket` with 9,996 features, standardized, principal components with 90 % of the variance, k-means with ten starts.
Sequences of different lengths are resampled to the longest one. Three seeds, of generated data and method together.
"""

import sys
import time
from collections.abc import Callable
from functools import partial

import numpy as np
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ._controls import Labelled, recorded, scaled
from ._dynamics import SETS, TARGETS
from ._purity import purity
from ._settings import SEEN, UNSEEN

_LONGEST = 300


def _array(sequences: list[np.ndarray], longest: int | None = None) -> np.ndarray:
    """Return sequences as an array (N, d, T), as aeon takes them, of at most about `longest` steps."""
    X, most = scaled(sequences), max(map(len, sequences))
    places = np.linspace(0, 1, most)
    even = [x if len(x) == most else _resampled(x, places) for x in X]
    return np.stack(even).swapaxes(1, 2)[:, :, :: 1 if longest is None else -(-most // longest)].copy()


def _resampled(x: np.ndarray, places: np.ndarray) -> np.ndarray:
    return np.stack([np.interp(places, np.linspace(0, 1, len(x)), channel) for channel in x.T], axis=1)


def warped(sequences: list[np.ndarray], K: int, seed: int, window: float | None) -> np.ndarray:
    """Return labels by k-means under dynamic time warping."""
    from aeon.clustering import TimeSeriesKMeans  # pyright: ignore[reportMissingImports]

    model = TimeSeriesKMeans(
        K,
        distance="dtw",
        averaging_method="ba",
        init="kmeans++",
        n_init=1,
        max_iter=15,
        distance_params={"window": window},
        random_state=seed,
    )
    return model.fit_predict(_array(sequences, _LONGEST))


def convolved(sequences: list[np.ndarray], K: int, seed: int) -> np.ndarray:
    """Return labels by k-means of random convolutions."""
    from aeon.transformations.collection.convolution_based import MiniRocket  # pyright: ignore[reportMissingImports]

    features = MiniRocket(random_state=seed).fit_transform(_array(sequences))
    coordinates = make_pipeline(StandardScaler(), PCA(0.9, random_state=seed)).fit_transform(np.asarray(features))
    return KMeans(K, n_init=10, random_state=seed).fit_predict(coordinates)


METHODS: dict[str, Callable[[list[np.ndarray], int, int], np.ndarray]] = {
    "time warping, window 0.1": partial(warped, window=0.1),
    "time warping": partial(warped, window=None),
    "random convolutions": convolved,
}
SEEDS = 3


def main() -> None:
    """Print the mean purity, the worst and the CPU seconds of each method on each set."""
    sets: dict[str, tuple[Callable[[int], Labelled], int]] = {
        name: (make, of_data) for name, (make, of_data, _) in TARGETS.items() if name not in SEEN
    }
    sets |= SETS
    sets |= {name: (lambda seed, name=name: recorded(name), 1) for name in SEEN + UNSEEN}
    unknown = [name for name in sys.argv[1:] if name not in sets]
    if unknown:
        raise SystemExit(f"unknown set {unknown[0]!r}: choose from {', '.join(sets)}")
    for method in METHODS.values():  # compiled before anything is timed
        method([np.random.default_rng(seed).standard_normal((20, 2)) for seed in range(6)], 2, 0)
    for name in sys.argv[1:] or sets:
        make, of_data = sets[name]
        data = [make(seed) for seed in (range(SEEDS) if of_data > 1 else [0] * SEEDS)]
        print(name, flush=True)
        for method_name, method in METHODS.items():
            found, spent = [], []
            for seed, (sequences, truth) in enumerate(data):
                began = time.process_time()
                found.append(purity(method(sequences, int(truth.max()) + 1, seed), truth))
                spent.append(time.process_time() - began)
            worst = f"worst {min(found):.3f}"
            print(f"  {method_name:<24} purity {np.mean(found):.3f} ({worst}), {np.median(spent):.1f} s", flush=True)


if __name__ == "__main__":
    main()
