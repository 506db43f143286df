"""One epoch of k-means by the toolbox's rule, against a per-pair implementation of the same rule in the same run."""

import time
from types import ModuleType

import numpy as np

from manifoldseq_lds import LDSKMeans, Systems

from .._report import Report

N, M, STATES = 1000, 177, 10
ROUNDS = {16: 3, 64: 1}


def run(report: Report) -> None:
    """Measure."""
    problems = report.reference("lds_problems", "epoch")
    naive = problems and report.reference("lds_naive", "epoch")
    if problems is None or naive is None:
        return
    for K, rounds in ROUNDS.items():
        _compare(report, problems, naive, K, rounds)


def _compare(report: Report, problems: ModuleType, naive: ModuleType, K: int, rounds: int) -> None:
    report.title(f"k-means, toolbox rule: {N} systems, m={M}, n={STATES}, {K} clusters (the peer takes minutes)")
    A, C = problems.systems(N, M, STATES, 0.6, seed=3, clusters=K)
    tuples = [naive.canonical(a, c) for a, c in zip(A, C, strict=True)]
    labels = np.random.default_rng(0).permutation(N) % K

    def ours(epochs: int) -> tuple[float, float]:
        systems = Systems(A, C)
        model = LDSKMeans(
            K, n_states=STATES, mean="papers:toolbox", init=labels, n_init=1, max_iter=epochs, tol=0.0, bound=0.999
        )
        start = time.process_time()
        model.fit(systems)
        return time.process_time() - start, model.history_["mean_kernel_value"][epochs]

    def peer(epochs: int) -> tuple[float, float]:
        start = time.process_time()
        _, _, history = naive.kmeans(tuples, K, labels, epochs=epochs, tol=0.0)
        return time.process_time() - start, history[-1]

    difference, times = 0.0, {"first": [], "next": []}
    for _ in range(rounds):
        (a1, value), (b1, reference), a6, b2 = ours(1), peer(1), ours(6)[0], peer(2)[0]
        difference = max(difference, abs(value - reference))
        times["first"].append((a1, b1))
        times["next"].append(((a6 - a1) / 5, b2 - b1))
    report.row("objective after one epoch, difference from the peer", difference, ".1e", most=1e-6)
    for name, what in (("first", "packing, medoid start and first epoch"), ("next", "an epoch alone")):
        a, b = np.array(times[name]).T
        report.row(f"seconds, {what}", float(np.median(a)))
        report.row(f"seconds of the peer, {what}", float(np.median(b)))
        report.row(f"times faster, {what}", float(np.median(b / a)), least=25)
