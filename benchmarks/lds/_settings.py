"""Settings chosen without labels: purity of the defaults beside controls, on recorded and generated sets."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from manifoldseq.storage import read_ts
from manifoldseq_lds import LDSKMeans, LDSSpectralClustering
from manifoldseq_lds._recordings import _folder

from .._report import Report
from . import _generators as generators
from ._dtw import dtw_kmeans
from ._purity import purity

Labelled = generators.Labelled

SEEN = ("JapaneseVowels", "BasicMotions", "GunPoint", "ItalyPowerDemand", "OSULeaf", "PickupGestureWiimoteZ")
UNSEEN = ("ArrowHead", "ACSF1")
FRESH = 2026
"""The seed of the generated sets, which the rule had not seen when it was committed."""
SEEDS, WARPED = 10, 3
_STEPS = 60
"""Sequences are thinned to about so many steps for time warping, where all others see them whole."""


def run(report: Report) -> None:
    """Measure."""
    from sklearn.metrics import adjusted_rand_score

    won = total = 0
    for name, (sequences, truth) in _sets():
        K = int(truth.max()) + 1
        fits, spent = [], []
        for seed in range(SEEDS):
            began = time.process_time()
            fits.append(LDSKMeans(K, random_state=seed).fit(sequences))
            spent.append(time.process_time() - began)
        spectral = [
            LDSSpectralClustering(K, random_state=seed).set_params(**fit.choice_.best_params).fit(sequences).labels_
            for seed, fit in enumerate(fits)
        ]
        own = [purity(fit.labels_, truth) for fit in fits]
        pairs = [(i, j) for i in range(SEEDS) for j in range(i)]
        agreement = np.mean([adjusted_rand_score(fits[i].labels_, fits[j].labels_) for i, j in pairs])
        controls = dict(_controls(sequences, truth, K))
        best = max(controls, key=lambda one: controls[one])
        won, total = won + (np.mean(own) >= controls[best] - 0.02), total + 1
        report.title(f"{name}: {len(sequences)} sequences, {K} classes, {SEEDS} seeds of the choice")
        report.note(f"chosen: {fits[0].choice_.best_params}")
        report.note("controls: " + ", ".join(f"{one} {value:.3f}" for one, value in controls.items()))
        report.note(f"spectral clustering with these settings {np.mean([purity(one, truth) for one in spectral]):.3f}")
        if fits[0].choice_.advice:
            report.note(f"the report says: {fits[0].choice_.advice}")
        report.note(f"agreement of seeds {agreement:.3f}; {np.median(spent):.2f} s a fit with its choice")
        report.row(f"{name}: mean purity of the default, at worst {min(own):.3f}", float(np.mean(own)), ".3f")
        report.row(f"{name}: its lead over the best control, {best}", float(np.mean(own)) - controls[best], ".3f")
    report.row(f"sets of {total} on which the default is at most .02 below the best control", int(won), "d", least=7)


def _sets() -> Iterator[tuple[str, Labelled]]:
    for name in SEEN + UNSEEN:
        try:
            yield name, recorded(name)
        except FileNotFoundError:
            continue
    made: dict[str, Callable[[int], Labelled]] = {
        "damaged structure": generators.damaged_structure,
        "noisy textures": generators.noisy_textures,
        "tones": generators.tones,
        "coupled oscillators": generators.coupled_oscillators,
    }
    for name, generate in made.items():
        yield name, generate(FRESH)


def recorded(name: str) -> Labelled:
    """Return the sequences of a set in the wheel of aeon, training and test part, and their classes."""
    folder: Path = _folder() / name
    parts = [read_ts(folder / f"{name}_{part}.ts") for part in ("TRAIN", "TEST")]
    labels = np.concatenate([np.asarray(part.labels) for part in parts])
    return [np.asarray(x) for part in parts for x in part.sequences], np.unique(labels, return_inverse=True)[1]


def _controls(sequences: list[np.ndarray], truth: np.ndarray, K: int) -> Iterator[tuple[str, float]]:
    """Yield the mean purity of k-means on simple descriptions, and under time warping."""
    from sklearn.cluster import KMeans
    from sklearn.preprocessing import StandardScaler

    scale = np.concatenate(sequences).std(axis=0)
    scaled = [x / np.where(scale > 0, scale, 1.0) for x in sequences]
    moments = np.stack([np.concatenate([x.mean(axis=0), x.std(axis=0)]) for x in scaled])
    described = {"mean + deviation": moments}
    for lags in (3, 6):
        rows = []
        for x in scaled:
            z = x - x.mean(axis=0)
            rows.append(
                np.concatenate([(z[: len(z) - k].T @ z[k:] / len(z)).ravel() for k in range(min(lags, len(z)))])
            )
        described[f"autocovariance, lags 0 to {lags - 1}"] = np.stack(rows)
    for name, F in described.items():
        F = StandardScaler().fit_transform(F)
        found = [purity(KMeans(K, n_init=10, random_state=seed).fit_predict(F), truth) for seed in range(SEEDS)]
        yield name, float(np.mean(found))
    thinned = [x[:: max(1, len(x) // _STEPS)] for x in scaled]
    yield "time warping", float(np.mean([purity(dtw_kmeans(thinned, K, seed), truth) for seed in range(WARPED)]))
