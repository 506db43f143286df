"""`SubspaceKMeans` against clustpy's SubKmeans from the same starts."""

import time
import warnings

import numpy as np

from manifoldseq_hierarchical import SubspaceKMeans

from .._report import Report
from ._problems import frames

RUNS = 20
SIZES = ((4000, 256, 10), (4000, 512, 20))


def run(report: Report) -> None:
    """Measure."""
    try:
        from clustpy.centroid import SubKmeans
    except ImportError:
        report.title("SubspaceKMeans against clustpy's SubKmeans")
        report.note("clustpy is not installed (pip install --no-deps clustpy, and pandas)")
        report.skipped.append("clustering")
        return
    for N, d, K in SIZES:
        report.title(f"SubspaceKMeans.fit against clustpy's SubKmeans.fit: N={N}, d={d}, K={K}, {RUNS} starts")
        ratios, not_worse, m = [], 0, []
        for seed in range(RUNS + 1):
            X, _ = frames(N, d, K, seed=seed, spread=0.4)
            rng = np.random.default_rng(seed)
            V, m_0 = np.linalg.qr(rng.standard_normal((d, d)))[0], d // 2
            centres = X[rng.choice(N, K, replace=False)]
            labels = _nearest(X @ V[:, :m_0], centres @ V[:, :m_0])  # what clustpy's first assignment is
            began = time.process_time()
            ours = SubspaceKMeans(K, objective="printed", init=labels).fit(X)
            between = time.process_time()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                peer = SubKmeans(K, V_init=V, m_init=m_0, cluster_centers_init=centres, random_state=seed).fit(X)
            ended = time.process_time()
            if seed:  # the first is the warm-up
                ratios.append((ended - between) / (between - began))
                not_worse += ours.energy_ <= peer.calculate_cost_function(X) * (1 + 1e-12)
                m.append((len(ours.components_), peer.m_))
        report.row("share of runs with the same or a better F", not_worse / RUNS, ".2f", least=0.95)
        report.row("times faster", float(np.median(ratios)), least=10)
        report.note(f"m: ours {m[0][0]}, clustpy {min(pair[1] for pair in m)} to {max(pair[1] for pair in m)}")


def _nearest(X: np.ndarray, centres: np.ndarray) -> np.ndarray:
    return (np.sum(centres**2, axis=1) - 2 * X @ centres.T).argmin(axis=1)
