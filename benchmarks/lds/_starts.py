"""The default rule of k-means against the toolbox's rule from the same starts: objective, and time per epoch."""

import time
from collections.abc import Iterator
from types import ModuleType

import numpy as np

import manifoldseq as ms
from manifoldseq_lds import LDSIdentifier, LDSKMeans, Systems

from .._report import Report

STARTS = 5
EPOCHS = 20
TOLERANCE = 1e-4


def run(report: Report) -> None:
    """Measure."""
    report.title(f"paired starts: random assignments, at most {EPOCHS} epochs, change of the objective {TOLERANCE:g}")
    problems = report.reference("lds_problems", "starts")
    wins = total = falls = 0
    for name, K, systems in _sets(report, problems):
        ratios, values = [], []
        for seed in range(STARTS):
            labels = np.random.default_rng(100 + seed).permutation(len(systems)) % K
            (toolbox, a), (default, b) = (_fit(systems, K, labels, mean) for mean in ("papers:toolbox", "exact"))
            ratios.append(b / a)
            values.append((toolbox.mean_kernel_value_, default.mean_kernel_value_))
            falls += int((np.diff(default.history_["mean_kernel_value"]) < -1e-9).sum())
        ours, theirs = np.array(values)[:, 1], np.array(values)[:, 0]
        wins, total = wins + int((ours > theirs).sum()), total + STARTS
        report.note(
            f"{name:<24} objective {ours.mean():.4f}, toolbox rule {theirs.mean():.4f}; "
            f"higher from {(ours > theirs).sum()} of {STARTS} starts"
        )
        report.row(f"{name}: time per epoch, default / toolbox rule", float(np.median(ratios)), ".2f", most=2)
    if total:
        report.row(f"starts of {total} from which the default ends higher", wins, "d", least=np.ceil(0.95 * total))
        report.row("epochs in which the default lowered the objective", falls, "d", most=0)


def _fit(systems: Systems, K: int, labels: np.ndarray, mean: str) -> tuple[LDSKMeans, float]:
    bound = 0.999 if mean == "papers:toolbox" else 0.99
    model = LDSKMeans(K, n_states=systems.n_states, mean=mean, init=labels, max_iter=EPOCHS, tol=TOLERANCE, bound=bound)
    start = time.process_time()
    model.fit(systems)
    return model, (time.process_time() - start) / model.n_iter_


def _sets(report: Report, problems: ModuleType | None) -> Iterator[tuple[str, int, Systems]]:
    for name, K, n_states, center in (("japanese-vowels", 9, 3, False), ("basic-motions", 4, 5, True)):
        try:
            sequences = ms.hooks.get_dataset(name).loader().sequences
        except FileNotFoundError as error:
            report.note(f"skipped: {error}")
            continue
        yield name, K, LDSIdentifier(n_states, center=center).fit_transform(sequences)
    for K in (16, 64) if problems else ():
        yield f"synthetic, {K} clusters", K, Systems(*problems.systems(1000, 177, 10, 0.6, seed=3, clusters=K))
