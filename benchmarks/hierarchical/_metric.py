"""`SubspaceKMeans` against a tied mixture and LDA-KMeans: agreement with classes on six data sets; memory."""

import os
import tracemalloc
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from sklearn.cluster import KMeans
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.metrics import normalized_mutual_info_score
from sklearn.mixture import GaussianMixture
from sklearn.preprocessing import StandardScaler

from manifoldseq_hierarchical import SubspaceKMeans

from .._report import Report

Array = np.ndarray
SEEDS, DIGITS = 5, 20


def run(report: Report) -> None:
    """Measure."""
    report.title(
        f"agreement with classes (NMI), columns scaled to their deviations, means of {SEEDS} seeds, of digits {DIGITS}"
    )
    won = []
    for name, X, y in _data(report):
        X, K = StandardScaler().fit_transform(X), len(np.unique(y))
        found: dict[str, list[float]] = {}
        for seed in range(DIGITS if name == "digits" else SEEDS):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                labels = {
                    "KMeans": KMeans(K, n_init=4, random_state=seed).fit_predict(X),
                    "tied": GaussianMixture(K, covariance_type="tied", n_init=4, random_state=seed).fit_predict(X),
                    "LDA-KMeans": lda_kmeans(X, K, seed),
                    "printed": SubspaceKMeans(K, objective="printed", random_state=seed).fit(X).labels_,
                    "ours": SubspaceKMeans(K, random_state=seed).fit(X).labels_,
                }
            for which, of_rows in labels.items():
                found.setdefault(which, []).append(float(normalized_mutual_info_score(y, of_rows)))
        means = {which: float(np.mean(values)) for which, values in found.items()}
        better = max(means["tied"], means["LDA-KMeans"])
        won.append(means["ours"] >= better - 0.01)
        report.row(f"{name}: less the better of tied mixture and LDA-KMeans", means["ours"] - better)
        report.note(", ".join(f"{which} {value:.3f}" for which, value in means.items()))
    report.row(
        f"data sets of {len(won)} where it is within 0.01 of the better, or above", sum(won), "d", least=len(won) - 1
    )
    _memory(report)


def lda_kmeans(X: Array, K: int, seed: int) -> Array:
    """Return labels of k-means and linear discriminants in turn (Ding and Li 2007)."""
    labels = KMeans(K, n_init=4, random_state=seed).fit_predict(X)
    for _ in range(50):
        Z = LinearDiscriminantAnalysis(solver="eigen", shrinkage=1e-3).fit(X, labels).transform(X)
        new = KMeans(K, n_init=4, random_state=seed).fit_predict(Z)
        if normalized_mutual_info_score(new, labels) > 0.9999:
            break
        labels = new
    return labels


def _data(report: Report) -> Iterator[tuple[str, Array, Array]]:
    loaders = {"wine": load_wine, "breast cancer": load_breast_cancer, "iris": load_iris, "digits": load_digits}
    for name, load in loaders.items():
        X, y = load(return_X_y=True)
        yield name, X, y
    folder = os.environ.get("MANIFOLDSEQ_DATA")
    for view in ("fou", "kar"):
        file = Path(folder or "") / "mfeat" / f"mfeat-{view}.csv"
        if folder is None or not file.exists():
            report.note(f"MANIFOLDSEQ_DATA holds no mfeat/{file.name}")
            report.skipped.append(view)
            continue
        table = np.loadtxt(file, delimiter=",", skiprows=1)
        yield f"mfeat {view}", table[:, :-1], table[:, -1].astype(int)


def _memory(report: Report) -> None:
    X = np.random.default_rng(0).standard_normal((1_000_000, 64))
    peaks = {}
    models = {
        "SubspaceKMeans": SubspaceKMeans(10, n_init=1, random_state=0, max_iter=3),
        "KMeans": KMeans(10, n_init=1, random_state=0, max_iter=3),
    }
    tracemalloc.start()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, model in models.items():
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            model.fit(X)
            peaks[name] = (tracemalloc.get_traced_memory()[1] - before) / 2**20
    tracemalloc.stop()
    report.note(f"MiB besides the 1e6 x 64 frames: {', '.join(f'{name} {size:.0f}' for name, size in peaks.items())}")
    report.row("memory, share of scikit-learn's KMeans", peaks["SubspaceKMeans"] / peaks["KMeans"], ".2f", most=0.25)
