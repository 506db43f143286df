"""Settings chosen without labels: purity of the defaults and of controls, on recorded and generated sets."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from manifoldseq_lds import LDSKMeans, LDSSpectralClustering
from manifoldseq_lds import _generated as generated

from .._report import Report
from ._controls import Labelled, clustered, recorded, said
from ._generators import coupled_oscillators, labelled, tones
from ._purity import purity

SEEN = ("JapaneseVowels", "BasicMotions", "GunPoint", "ItalyPowerDemand", "OSULeaf", "PickupGestureWiimoteZ")
UNSEEN = ("ArrowHead", "ACSF1")
FRESH = 2026
"""The seed of the generated sets, which the rule had not seen when it was committed."""
SEEDS = 10


@dataclass(frozen=True)
class Defaults:
    """What `LDSKMeans` with nothing but the number of clusters gives, from several seeds of choice and clustering."""

    purities: list[float]
    agreement: float
    """Mean adjusted Rand index between the seeds."""
    spectral: float
    """Mean purity of spectral clustering with the settings that each seed chose."""
    seconds: float
    """Median CPU seconds of a fit with its choice."""
    chosen: list[dict[str, Any]]
    advice: list[str]


def defaults(sequences: list[np.ndarray], truth: np.ndarray, K: int, seeds: int) -> Defaults:
    """Return the figures of the default; every seed repeats the choice of the settings."""
    from sklearn.metrics import adjusted_rand_score

    fits, spent = [], []
    for seed in range(seeds):
        began = time.process_time()
        fits.append(LDSKMeans(K, random_state=seed).fit(sequences))
        spent.append(time.process_time() - began)
    spectral = [
        LDSSpectralClustering(K, random_state=seed).set_params(**fit.choice_.best_params).fit(sequences).labels_
        for seed, fit in enumerate(fits)
    ]
    pairs = [(i, j) for i in range(seeds) for j in range(i)]
    return Defaults(
        purities=[purity(fit.labels_, truth) for fit in fits],
        agreement=float(np.mean([adjusted_rand_score(fits[i].labels_, fits[j].labels_) for i, j in pairs])),
        spectral=float(np.mean([purity(one, truth) for one in spectral])),
        seconds=float(np.median(spent)),
        chosen=[fit.choice_.best_params for fit in fits],
        advice=["; ".join(fit.choice_.notes) for fit in fits],
    )


def run(report: Report) -> None:
    """Measure."""
    won = total = 0
    for name, (sequences, truth) in _sets():
        K = int(truth.max()) + 1
        found = defaults(sequences, truth, K, SEEDS)
        own = float(np.mean(found.purities))
        controls = dict(clustered(sequences, truth, K, seeds=SEEDS))
        best = max(controls, key=lambda one: controls[one])
        won, total = won + (own >= controls[best] - 0.02), total + 1
        report.title(f"{name}: {len(sequences)} sequences, {K} classes, {SEEDS} seeds of the choice")
        report.note(f"chosen: {found.chosen[0]}")
        report.note(f"controls: {said(controls)}")
        report.note(f"spectral clustering with these settings {found.spectral:.3f}")
        if found.advice[0]:
            report.note(f"the report says: {found.advice[0]}")
        report.note(f"agreement of seeds {found.agreement:.3f}; {found.seconds:.2f} s a fit with its choice")
        report.row(f"{name}: mean purity of the default, at worst {min(found.purities):.3f}", own, ".3f")
        report.row(f"{name}: its lead over the best control, {best}", own - controls[best], ".3f")
    report.row(f"sets of {total} on which the default is at most 0.02 below the best control", int(won), "d", least=7)


def _sets() -> Iterator[tuple[str, Labelled]]:
    for name in SEEN + UNSEEN:
        try:
            yield name, recorded(name)
        except FileNotFoundError:
            continue
    made: dict[str, Callable[[int], Labelled]] = {
        "damaged structure": lambda seed: labelled(generated.damaged_structure(seed)),
        "noisy textures": lambda seed: labelled(generated.noisy_textures(seed, noise=0.5)),
        "tones": tones,
        "coupled oscillators": coupled_oscillators,
    }
    for name, generate in made.items():
        yield name, generate(FRESH)
