"""Clustering recorded sequences: purity over ten seeds for three rules of the mean, and of controls."""

import time

import numpy as np

import manifoldseq as ms
from manifoldseq_lds import LDSIdentifier, LDSKMeans

from .._report import Report

SETS = (("japanese-vowels", 9, 3, False), ("basic-motions", 4, 5, True))
SEEDS = range(10)


def purity(labels: np.ndarray, truth: np.ndarray) -> float:
    """Return the share of data whose class is the most frequent one of their cluster."""
    classes = np.unique(truth, return_inverse=True)[1]
    return sum(np.bincount(classes[labels == k]).max() for k in np.unique(labels)) / len(truth)


def run(report: Report) -> None:
    """Measure."""
    from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

    for name, K, n_states, center in SETS:
        report.title(f"{name}: {K} clusters, n={n_states}, mean {'removed' if center else 'kept'}, {len(SEEDS)} seeds")
        try:
            data = ms.hooks.get_dataset(name).loader()
        except FileNotFoundError as error:
            report.note(f"skipped: {error}")
            continue
        systems = LDSIdentifier(n_states, center=center).fit_transform(data.sequences)
        truth, means = np.asarray(data.labels), {}
        for mean in ("exact", "papers:toolbox", "medoid"):
            scores = []
            for seed in SEEDS:
                start = time.process_time()
                model = LDSKMeans(K, n_states=n_states, mean=mean, random_state=seed).fit(systems)
                elapsed = time.process_time() - start
                labels = model.labels_
                scores.append(
                    (
                        purity(labels, truth),
                        normalized_mutual_info_score(truth, labels),
                        adjusted_rand_score(truth, labels),
                        model.mean_kernel_value_,
                        elapsed,
                    )
                )
            p, nmi, ari, objective, seconds = np.array(scores).T
            means[mean] = p.mean()
            report.note(
                f"{mean:<8} purity {p.mean():.3f} +- {p.std():.3f}   NMI {nmi.mean():.3f}   ARI {ari.mean():.3f}   "
                f"objective {objective.mean():.4f}   seconds per fit {np.median(seconds):.2f}"
            )
        controls = {
            "mean and deviation": ms.evaluation.StatisticsKMeans,
            "autocovariance": ms.evaluation.AutocovarianceKMeans,
        }
        for control, kind in controls.items():
            found = [purity(kind(K, random_state=seed).fit(data.sequences).labels_, truth) for seed in SEEDS]
            report.row(f"{name}: mean purity of the control {control}", float(np.mean(found)), ".3f")
        report.row(f"{name}: mean purity of the exact mean", means["exact"], ".3f", least=0.80)
        report.row(f"{name}: its lead over the medoid variant", means["exact"] - means["medoid"], ".3f", least=1e-9)
