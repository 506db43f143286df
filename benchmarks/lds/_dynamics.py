"""Sets whose classes differ in dynamics: the defaults on several seeds of the data, and how far they carry."""

from collections.abc import Callable
from functools import partial

import numpy as np

from manifoldseq.storage import SequenceData
from manifoldseq_lds import _generated as generated

from .._report import Report
from ._controls import Labelled, clustered, recorded, said
from ._generators import labelled, sines, tones
from ._settings import defaults

Generate = Callable[[int], Labelled]


def generated_set(make: Callable[..., SequenceData], **settings: float) -> Generate:
    """Return a function of the seed of the data."""
    return lambda seed: labelled(make(seed, **settings))


TARGETS: dict[str, tuple[Generate, int, float]] = {
    "JapaneseVowels": (lambda seed: recorded("JapaneseVowels"), 1, 0.89),
    "BasicMotions": (lambda seed: recorded("BasicMotions"), 1, 0.93),
    "three sines in output noise 1.0": (partial(sines, noise=1.0), 10, 0.98),
    "damaged structure": (generated_set(generated.damaged_structure), 5, 0.95),
    "one of two tones, one channel": (tones, 10, 0.98),
}
"""How a seed makes the data, how many seeds there are, and the least mean purity."""
SETS: dict[str, tuple[Generate, int]] = {
    "damaged structure, springs weaker by 20 %": (generated_set(generated.damaged_structure, damage=0.2), 5),
    "damaged structure, springs weaker by 10 %": (generated_set(generated.damaged_structure, damage=0.1), 5),
    "noisy textures": (generated_set(generated.noisy_textures), 5),
    "noisy textures, twice the noise": (generated_set(generated.noisy_textures, noise=32.0), 5),
    "echoes": (generated_set(generated.echoes), 5),
    "echoes, noise 1": (generated_set(generated.echoes, noise=1.0), 5),
    "two tones": (generated_set(generated.two_tones), 5),
    "two tones, noise 1": (generated_set(generated.two_tones, noise=1.0), 5),
}
SEEDS, FEWER = 10, 4
AGREEMENT = 0.85


def run(report: Report) -> None:
    """Measure."""
    for name, (make, of_data, least) in TARGETS.items():
        _measure(report, name, make, of_data, SEEDS, least)
    for name, (make, of_data) in SETS.items():
        _measure(report, name, make, of_data, FEWER)


def _measure(report: Report, name: str, make: Generate, of_data: int, seeds: int, least: float | None = None) -> None:
    report.title(f"{name}: {seeds} seeds of choice and clustering" + f", {of_data} of the data" * (of_data > 1))
    found, controls = [], {}
    for seed in range(of_data):
        try:
            sequences, truth = make(seed)
        except FileNotFoundError as error:
            report.note(f"skipped: {error}")
            return
        K, d = int(truth.max()) + 1, sequences[0].shape[1]
        found.append(defaults(sequences, truth, K, seeds))
        lags = (3, 6, 16) if d <= 16 and len(sequences[0]) > 32 else (3, 6)
        for control, value in clustered(sequences, truth, K, seeds=3, warped=seed == 0, lags=lags):
            controls.setdefault(control, []).append(value)
    purities = np.array([one.purities for one in found])
    report.note(f"controls: {said({control: float(np.mean(values)) for control, values in controls.items()})}")
    report.note(f"spectral clustering with these settings {np.mean([one.spectral for one in found]):.3f}")
    chosen = [tuple(one.values()) for part in found for one in part.chosen]
    most = max(chosen, key=chosen.count)
    report.note(f"chosen in {chosen.count(most)} of {len(chosen)} fits: {most}; {found[0].seconds:.2f} s a fit")
    advised = sum(bool(one) for part in found for one in part.advice)
    report.note(f"a control is recommended in {advised} fits")
    worst = f"worst fit {purities.min():.3f}, worst mean of a data seed {purities.mean(axis=1).min():.3f}"
    report.row(f"{name}: mean purity; {worst}", float(purities.mean()), ".3f", least=least)
    agreement = float(np.mean([one.agreement for one in found]))
    report.row(f"{name}: agreement of seeds", agreement, ".3f", least=None if least is None else AGREEMENT)
