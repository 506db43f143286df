"""Loops, revisits, standing still, changes of speed and of appearance: recall at two bytes per frame, with peers."""

import subprocess
import sys
import time
from functools import partial

import numpy as np

from manifoldseq_hierarchical import HierarchicalSequenceEncoder

from .._report import Report
from ._match import way_of

Array = np.ndarray

SEEDS, ASKED, TOLERANCE, KEY, BUDGET, NOISE = (21, 22), 600, 10, 21, 2.0, 0.5


def places(name: str, rng: np.random.Generator) -> Array:
    """Return the place of each of 20,000 frames on a way of unit speed."""
    steps = np.ones(20_000)
    if name == "two rounds of a loop":
        return np.arange(20_000) % 10_000
    if name == "there and back":
        return np.minimum(np.arange(20_000), 19_999 - np.arange(20_000))
    if name == "standing still and running":
        for start in range(0, 20_000, 500):
            steps[start : start + 200] = 0 if (start // 500) % 2 else 3
    if name == "changing speed":
        steps = np.repeat(rng.uniform(0.3, 2.5, 200), 100)
    return np.minimum(np.cumsum(steps), 19_999)


MEMORY = """
import tracemalloc
from benchmarks.hierarchical._ways import drifting
from manifoldseq_hierarchical import HierarchicalSequenceEncoder
X, _, Q = drifting(0, 1000)
encoder = HierarchicalSequenceEncoder(bytes_per_frame=0.65).fit(X)
encoder.predict(Q[:5])
report = encoder.storage_report()
peaks = []
for n in (1, 1000):
    tracemalloc.start()
    encoder.predict(Q[:n])
    peaks.append(tracemalloc.get_traced_memory()[1] / 1024)
    tracemalloc.stop()
print(report.resident / 1024, (1.5 * report.total + 65536) / 1024, *peaks)
"""


def drifting(seed: int, n: int = 500) -> tuple[Array, Array, Array]:
    """Return a walk of 20,000 steps that does not return, places on it, and noisy frames from there."""
    rng = np.random.default_rng(seed)
    X = np.cumsum(rng.standard_normal((20_000, 64)), axis=0)
    t = rng.integers(len(X), size=n)
    return X, t, X[t] + NOISE * rng.standard_normal((n, 64))


def _bytes(report: Report) -> None:
    """Print recall at some bytes: of a random walk, and of a stationary path compared with plain two bits."""
    for seed in SEEDS:
        X, t, Q = drifting(seed)
        for name, encoder in (
            ("default", HierarchicalSequenceEncoder()),
            ("bytes_per_frame=0.65", HierarchicalSequenceEncoder(bytes_per_frame=0.65)),
        ):
            size = encoder.fit(X).storage_report().per_frame
            report.row(f"walk {seed} that does not return, {name}: bytes per frame", size, most=0.65)
            report.row(f"walk {seed} that does not return, {name}: recall", encoder.score(Q, t), least=0.9)
        way, rng = way_of(seed), np.random.default_rng(seed)
        t = rng.integers(len(way), size=500)
        Q = way[t] + np.float32(NOISE) * rng.standard_normal((500, 128), dtype=np.float32)
        plain = HierarchicalSequenceEncoder(bits=2).fit(way)
        chosen = HierarchicalSequenceEncoder(bytes_per_frame=plain.storage_report().per_frame).fit(way)
        gap = chosen.score(Q, t) - plain.score(Q, t)
        report.row(
            f"stationary way {seed}: recall of the chosen code less that of two bits, as many bytes", gap, least=-0.01
        )
    done = subprocess.run([sys.executable, "-c", MEMORY], check=True, capture_output=True, text=True)
    resident, limit, one, many = map(float, done.stdout.split())
    report.row("kB in memory while searching, by storage_report", resident, most=limit)
    report.row("kB that a search of one query takes at most (tracemalloc)", one, most=200)
    report.row("kB that a search of 1000 queries takes at most (tracemalloc)", many, most=2048)


def run(report: Report) -> None:
    """Measure."""
    report.title("bytes: 20,000 frames, two of each, 500 frames with noise, within 10")
    _bytes(report)
    try:
        from manifoldseq_papers.hierarchical._peers import flat, inverted, load_faiss, on_key_frames, product

        load_faiss().omp_set_num_threads(1)
    except ImportError:
        report.note("faiss or the papers are not installed: this section is left out")
        report.skipped.append("ways")
        return
    peers = {
        "exact key frames": flat,
        "PQ16, key frames": partial(product, groups=16),
        "OPQ16, key frames": partial(product, groups=16, rotated=True),
        "IVFPQ16, key frames": inverted,
    }
    report.title(
        f"ways of 20,000 x 128, {len(SEEDS)} each, {ASKED} frames with noise {NOISE}, within {TOLERANCE} places"
    )
    kinds = (
        "two rounds of a loop",
        "there and back",
        "standing still and running",
        "changing speed",
        "appearance shift",
    )
    for kind in kinds:
        rows: dict[str, list[tuple[float, float, float]]] = {}
        for seed in SEEDS:
            rng = np.random.default_rng(seed)
            at, way = places(kind, rng), way_of(seed)
            low = np.minimum(at.astype(int), len(way) - 2)
            X = way[low] + (at - low).astype(np.float32)[:, None] * (way[low + 1] - way[low])
            X += np.float32(0.05) * rng.standard_normal(X.shape, dtype=np.float32)
            asked = rng.integers(len(X), size=ASKED)
            Q = X[asked] + np.float32(NOISE) * rng.standard_normal((ASKED, 128), dtype=np.float32)
            if kind == "appearance shift":  # all columns fade, and an offset that is the same for all frames
                Q = np.float32(0.8) * Q + np.float32(0.5) * rng.standard_normal(128, dtype=np.float32)
            ours = {
                f"encoder, bytes_per_frame={BUDGET:g}": HierarchicalSequenceEncoder(bytes_per_frame=BUDGET),
                "encoder, default": HierarchicalSequenceEncoder(),
                "2-bit key frames": HierarchicalSequenceEncoder(KEY, bits=2, summary="key"),
            }
            searches = {}
            for name, encoder in ours.items():
                encoder.fit(X)
                searches[name] = encoder.storage_report().total, encoder.predict
            for name, make in peers.items():
                peer = on_key_frames(make, KEY)(X, seed)
                searches[name] = peer.nbytes, peer.search
            for name, (size, search) in searches.items():
                began = time.process_time()
                found = search(Q)
                seconds = time.process_time() - began
                right = np.mean(np.abs(at[found] - at[asked]) <= TOLERANCE)
                rows.setdefault(name, []).append((float(right), size / len(X), 1e6 * seconds / ASKED))
        means = {name: np.mean(values, axis=0) for name, values in rows.items()}
        for name, (right, size, ms) in means.items():
            report.note(f"{kind}: {name}: recall {right:.3f}, {size:.2f} bytes per frame, {ms:.0f} ms per 1000 queries")
        gap = means[f"encoder, bytes_per_frame={BUDGET:g}"][0] - means["exact key frames"][0]
        least = {kinds[0]: -0.005, kinds[1]: -0.005, kinds[2]: 0.1, kinds[3]: 0.1}.get(kind)
        report.row(f"{kind}: recall within the budget less that of exact key frames", float(gap), least=least)
