"""Controls that know no systems: channel means and deviations, lagged autocovariances, k-means under time warping.

Other sections compare their figures with these controls; this one measures them on the data of Figure 1 and Table 1.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from manifoldseq.storage import read_ts
from manifoldseq_lds import dynamic_textures
from manifoldseq_lds._recordings import _folder

from .._report import Report
from ._dtw import dtw_kmeans
from ._purity import purity

Labelled = tuple[list[np.ndarray], np.ndarray]

_STEPS = 60
"""Sequences are thinned to about so many steps for time warping, where all others see them whole."""

_MOST = 64
"""Of more channels, the autocovariances are those of a channel with itself."""


def run(report: Report) -> None:
    """Measure."""
    from sklearn.model_selection import StratifiedKFold

    videos, classes = dynamic_textures(60, size=16)
    figure = {
        "japanese-vowels": (recorded("JapaneseVowels"), (4, 8, 16, 32, 64, 128)),
        "basic-motions": (recorded("BasicMotions"), (4, 8, 16, 32)),
        "dynamic-textures": (([x.reshape(len(x), -1) for x in videos], classes), (4, 8, 16)),
    }
    report.title("purity of controls on the data of Figure 1, 3 seeds")
    for name, ((sequences, truth), counts) in figure.items():
        for K in counts:
            for control, value in clustered(sequences, truth, K, seeds=3, warped=0):
                report.row(f"{name}, K={K}: {control}", value, ".3f")
    videos, classes = dynamic_textures(60)
    table = {
        "japanese-vowels": (*recorded("JapaneseVowels"), [(np.arange(270), np.arange(270, 640))]),
        "basic-motions": (*recorded("BasicMotions"), [(np.arange(40), np.arange(40, 80))]),
        "dynamic-textures": (
            [x.reshape(len(x), -1) for x in videos],
            classes,
            list(StratifiedKFold(10, shuffle=True, random_state=0).split(classes, classes)),
        ),
    }
    report.title("accuracy of controls on the data of Table 1: logistic regression, C by cross-validation in training")
    for name, (sequences, truth, splits) in table.items():
        found = [dict(classified(sequences, truth, train, test)) for train, test in splits]
        for control in found[0]:
            report.row(f"{name}: {control}", float(np.mean([one[control] for one in found])), ".3f")


def recorded(name: str) -> Labelled:
    """Return the sequences of a set in the wheel of aeon, training and test part, and their classes."""
    folder: Path = _folder() / name
    parts = [read_ts(folder / f"{name}_{part}.ts") for part in ("TRAIN", "TEST")]
    labels = np.concatenate([np.asarray(part.labels) for part in parts])
    return [np.asarray(x) for part in parts for x in part.sequences], np.unique(labels, return_inverse=True)[1]


def scaled(sequences: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return sequences whose channels have, over all of them, a deviation of one."""
    scale = np.concatenate(sequences).std(axis=0)
    return [x / np.where(scale > 0, scale, 1.0) for x in sequences]


def descriptions(sequences: Sequence[np.ndarray], lags: Sequence[int] = (3, 6)) -> dict[str, np.ndarray]:
    """Return features (N, p) by name: means and deviations, and autocovariances at so many lags, from lag 0 on."""
    X = scaled(sequences)
    features = {"mean + deviation": np.stack([np.concatenate([x.mean(axis=0), x.std(axis=0)]) for x in X])}
    for count in lags:
        features[f"autocovariance, lags 0 to {count - 1}"] = np.stack([_autocovariances(x, count) for x in X])
    return features


def _autocovariances(x: np.ndarray, lags: int) -> np.ndarray:
    z = x - x.mean(axis=0)
    parts = []
    for k in range(lags):
        early, late = z[: max(len(z) - k, 0)], z[k:]  # beyond the end of a sequence nothing, and zeros
        found = early.T @ late if z.shape[1] <= _MOST else np.sum(early * late, axis=0)
        parts.append(found.ravel() / len(z))
    return np.concatenate(parts)


def clustered(
    sequences: Sequence[np.ndarray],
    truth: np.ndarray,
    K: int,
    *,
    seeds: int = 10,
    warped: int = 3,
    lags: Sequence[int] = (3, 6),
) -> Iterator[tuple[str, float]]:
    """Yield the mean purity of k-means on each description, standardized, and under time warping."""
    from sklearn.cluster import KMeans
    from sklearn.preprocessing import StandardScaler

    for name, F in descriptions(sequences, lags).items():
        F = StandardScaler().fit_transform(F)
        found = [purity(KMeans(K, n_init=10, random_state=seed).fit_predict(F), truth) for seed in range(seeds)]
        yield name, float(np.mean(found))
    thinned = [x[:: max(1, len(x) // _STEPS)] for x in scaled(sequences)]
    if warped:
        found = [purity(dtw_kmeans(thinned, K, seed), truth) for seed in range(warped)]
        yield "time warping", float(np.mean(found))


def classified(
    sequences: Sequence[np.ndarray], classes: np.ndarray, train: np.ndarray, test: np.ndarray
) -> Iterator[tuple[str, float]]:
    """Yield the accuracy on test of logistic regression on each description, C by cross-validation on train."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    grid = {"logisticregression__C": (0.01, 0.1, 1.0, 10.0)}
    for name, F in descriptions(sequences).items():
        model = GridSearchCV(make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000)), grid, cv=5)
        yield name, float(model.fit(F[train], classes[train]).score(F[test], classes[test]))


def said(figures: dict[str, float], form: str = ".3f") -> str:
    """Return the figures of controls as one line."""
    return ", ".join(f"{name} {value:{form}}" for name, value in figures.items())
