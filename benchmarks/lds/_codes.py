"""Sparse codes of recorded speech and a linear machine: learned atoms, random atoms, controls without systems."""

import numpy as np
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

import manifoldseq as ms
from manifoldseq_lds import LDSDictionaryLearning, LDSIdentifier, LDSSparseCoder, Systems

from .._report import Report
from ._controls import classified

SEEDS = 3
_TRAIN = 270
_GRID = [(n, center) for n in (2, 3) for center in (True, False)]
_ATOMS, _ALPHAS, _C = (32, 64), (0.1, 0.5), (1.0, 10.0)


def run(report: Report) -> None:
    """Measure."""
    report.title(f"japanese-vowels, {_TRAIN} utterances train: codes and a linear machine on the published test part")
    data = ms.hooks.get_dataset("japanese-vowels").loader()
    y = data.labels
    best, systems = (-1.0, {}), None
    for n, center in _GRID:  # settings by cross-validation in the training part, with random atoms
        found = LDSIdentifier(n, center=center).fit(data.sequences[:_TRAIN]).transform(data.sequences)
        grid = {"ldssparsecoder__n_atoms": _ATOMS, "ldssparsecoder__alpha": _ALPHAS, "linearsvc__C": _C}
        machine = make_pipeline(LDSSparseCoder(random_state=0), LinearSVC())
        search = GridSearchCV(machine, grid, cv=5).fit(found[:_TRAIN], y[:_TRAIN])
        if search.best_score_ > best[0]:
            best, systems = (search.best_score_, search.best_params_ | {"n": n, "center": center}), found
    assert isinstance(systems, Systems)
    chosen = best[1]
    J, alpha, C = (chosen[name] for name in ("ldssparsecoder__n_atoms", "ldssparsecoder__alpha", "linearsvc__C"))
    report.note(f"chosen: n={chosen['n']}, center={chosen['center']}, J={J}, alpha={alpha}, C={C:g} ({best[0]:.3f})")
    coders = {
        "learned atoms": lambda seed: LDSDictionaryLearning(J, alpha=alpha, max_iter=10, random_state=seed),
        "random atoms (control)": lambda seed: LDSSparseCoder(n_atoms=J, alpha=alpha, random_state=seed),
    }
    for name, coder in coders.items():
        scores = []
        for seed in range(SEEDS):
            machine = make_pipeline(coder(seed), LinearSVC(C=C)).fit(systems[:_TRAIN], y[:_TRAIN])
            scores.append(machine.score(systems[_TRAIN:], y[_TRAIN:]))
        least = 0.95 if name == "learned atoms" else None
        report.row(f"accuracy, {name}, mean of {SEEDS} seeds", float(np.mean(scores)), ".4f", least=least)
    for name, value in classified(data.sequences, np.asarray(y), np.arange(_TRAIN), np.arange(_TRAIN, len(data))):
        report.row(f"accuracy of the control {name}", value, ".4f")
