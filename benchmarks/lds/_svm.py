"""Support vector machines on the projection kernel, settings by cross-validation on training data; controls."""

from itertools import product

import numpy as np
from sklearn.model_selection import StratifiedKFold, StratifiedShuffleSplit
from sklearn.svm import SVC

import manifoldseq as ms
from manifoldseq_lds import LDSIdentifier

from .._report import Report
from ._controls import classified

STATES, DELAYS, CENTER, PENALTIES = (2, 3, 4, 5, 6, 8), (1, 4), (True, False), (1.0, 10.0, 100.0)
RESPLITS = 20


def run(report: Report) -> None:
    """Measure."""
    report.title(
        f"kernel SVM: n of {STATES}, delay of {DELAYS}, mean kept or not, C of {PENALTIES}, by 5-fold cross-validation"
    )
    try:
        vowels, motions = (ms.hooks.get_dataset(name).loader() for name in ("japanese-vowels", "basic-motions"))
    except FileNotFoundError as error:
        report.note(f"skipped: {error}")
        return
    labels = np.asarray(vowels.labels)
    found, chosen = _accuracy(vowels.sequences, labels, np.arange(270), np.arange(270, len(labels)))
    report.note(f"japanese-vowels, chosen: {chosen}")
    report.row("japanese-vowels: accuracy on its test part", found, ".4f", least=0.97)
    for control, value in classified(vowels.sequences, labels, np.arange(270), np.arange(270, len(labels))):
        report.row(f"japanese-vowels: accuracy of the control {control}", value, ".4f")
    labels = np.asarray(motions.labels)
    splits = list(StratifiedShuffleSplit(RESPLITS, test_size=0.5, random_state=0).split(labels, labels))
    scores = [_accuracy(motions.sequences, labels, train, test)[0] for train, test in splits]
    report.note(f"basic-motions: deviation over {RESPLITS} resplits into halves {np.std(scores):.4f}")
    report.row(
        f"basic-motions: mean accuracy of {RESPLITS} resplits into halves", float(np.mean(scores)), ".4f", least=0.95
    )
    controls = [dict(classified(motions.sequences, labels, train, test)) for train, test in splits]
    for control in controls[0]:
        mean = float(np.mean([one[control] for one in controls]))
        report.row(f"basic-motions: mean accuracy of the control {control}", mean, ".4f")


Setting = tuple[int, int, bool]


def _grams(sequences: list[np.ndarray], train: np.ndarray) -> dict[Setting, np.ndarray]:
    """Return normalized kernel matrices of all sequences; the scale of a channel is that of the training sequences."""
    kernel, made = ms.get_kernel("projection"), {}
    shortest, channels = min(map(len, sequences)), sequences[0].shape[1]
    for n, delay, center in product(STATES, DELAYS, CENTER):
        if n <= channels * delay and n + delay <= shortest:
            identifier = LDSIdentifier(n, delay=delay, center=center).fit([sequences[i] for i in train])
            packed = kernel.pack(identifier.transform(sequences))
            made[n, delay, center] = kernel.cross(packed, packed) / n
    return made


def _accuracy(
    sequences: list[np.ndarray], labels: np.ndarray, train: np.ndarray, test: np.ndarray
) -> tuple[float, str]:
    """Return the accuracy on test of what cross-validation on train chooses."""
    grams = _grams(sequences, train)
    folds = list(StratifiedKFold(5, shuffle=True, random_state=0).split(train, labels[train]))
    best, choice = -1.0, None
    for key, K in grams.items():
        for C in PENALTIES:
            score = np.mean([_score(K, labels, train[a], train[b], C) for a, b in folds])
            if score > best:
                best, choice = float(score), (key, C)
    assert choice is not None
    (n, delay, center), C = choice
    score = _score(grams[n, delay, center], labels, train, test, C)
    return score, f"n={n}, delay={delay}, center={center}, C={C:g}"


def _score(K: np.ndarray, labels: np.ndarray, train: np.ndarray, test: np.ndarray, C: float) -> float:
    model = SVC(C=C, kernel="precomputed").fit(K[np.ix_(train, train)], labels[train])
    return float(model.score(K[np.ix_(test, train)], labels[test]))
