"""Runs along a long way placed by `match`: recall, wrong speeds, calibration, and variations that nobody tuned.

Seeds were fixed before the first run; settings were chosen on others (0, 1 and 7).
"""

import subprocess
import sys
import warnings
from collections.abc import Callable

import numpy as np
from scipy.signal import lfilter

from manifoldseq_hierarchical import HierarchicalSequenceEncoder

from .._report import Report

Array = np.ndarray

FRAMES, DIM, CORRELATION, LENGTH, TOLERANCE = 20_000, 128, 100, 300, 10
SEEDS, RUNS = (11, 12, 13, 14, 15), 3
SPEED = (0.5, 2.0)

CHILD = """
import time, tracemalloc
import numpy as np
from benchmarks.hierarchical._match import encoder_of, seen_at, way_of
way = way_of(11)
encoder = encoder_of(way)
Q = seen_at(way, 5000 + np.arange(1000), 3.0, np.random.default_rng(0))
encoder.match(Q[:20], smooth=True)  # decodes the points
seconds = []
for _ in range(3):
    began = time.process_time()
    encoder.match(Q, smooth=True)
    seconds.append(time.process_time() - began)
tracemalloc.start()
encoder.match(Q, smooth=True)
print(sorted(seconds)[1], tracemalloc.get_traced_memory()[1] / 2**20)
"""


def way_of(seed: int) -> Array:
    """Return a stationary walk of unit variance whose correlation falls to 1/e in 100 frames, shape (20000, 128)."""
    decay = np.exp(-1 / CORRELATION)
    steps = np.random.default_rng(seed).standard_normal((FRAMES, DIM), dtype=np.float32)
    steps[1:] *= np.float32(np.sqrt(1 - decay**2))
    return lfilter([1.0], [1.0, -decay], steps, axis=0).astype(np.float32)


def encoder_of(way: Array) -> HierarchicalSequenceEncoder:
    """Return the default encoder of a way."""
    return HierarchicalSequenceEncoder().fit(way)


def seen_at(way: Array, frames: Array, noise: float, rng: np.random.Generator) -> Array:
    """Return frames with noise."""
    return way[frames] + np.float32(noise) * rng.standard_normal((len(frames), DIM), dtype=np.float32)


def varied(rng: np.random.Generator) -> Array:
    """Return 300 places: speed 1.3, a stop of 60 queries, on, then the first part again."""
    start = rng.integers(FRAMES - 1000)
    on = np.concatenate([1.3 * np.arange(100), np.full(60, 130.0), 130 + 1.3 * np.arange(80), 1.3 * np.arange(60)])
    return start + np.rint(on).astype(int)


OUTSIDE: dict[str, Callable[[np.random.Generator], Array]] = {
    "4, of a range 0.5 to 2": lambda rng: rng.integers(FRAMES - 4 * LENGTH) + 4 * np.arange(LENGTH),
    "-1, of a range 0.5 to 2": lambda rng: LENGTH + rng.integers(FRAMES - LENGTH) - np.arange(LENGTH),
    "0, of a range 0.5 to 2": lambda rng: np.full(LENGTH, rng.integers(FRAMES)),
    "1, then 150 queries at the last frame": lambda rng: TO_THE_END,
}
"""Runs that do not keep to the range."""
TO_THE_END = np.minimum(FRAMES - 150 + np.arange(LENGTH), FRAMES - 1)
WAITING: dict[str, tuple[Array, tuple[float, float]]] = {
    "150 frames to the last one, 150 queries there": (TO_THE_END, (0.0, 2.0)),
    "150 queries at the last frame, and back": (TO_THE_END[::-1], (-2.0, 0.0)),
    "150 queries at the first frame, and on": (FRAMES - 1 - TO_THE_END[::-1], (0.0, 2.0)),
    "back to the first frame, 150 queries there": (FRAMES - 1 - TO_THE_END, (-2.0, 0.0)),
    "only the last frame": (np.full(200, FRAMES - 1), (0.0, 2.0)),
    "only the first frame": (np.full(200, 0), (-2.0, 0.0)),
}
"""Runs that wait at an end of the way, as their ranges allow."""


def _doubted(
    doubts: dict[tuple[str, str], list[Array]],
    name: str,
    encoder: HierarchicalSequenceEncoder,
    Q: Array,
    frames: Array,
    speed: tuple[float, float],
) -> float:
    """Record what is said of a run out of the range, filtered and smoothed, and return the smoothed recall."""
    share = 0.0
    for smooth in (False, True):
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "X does not move")
            places, probabilities = encoder.match_proba(Q, speed=speed, smooth=smooth)
        right = np.abs(places - frames) <= TOLERANCE
        doubts.setdefault((name, "smoothed" if smooth else "filter only"), []).append(np.stack([probabilities, right]))
        share = float(right.mean())
    return share


def run(report: Report) -> None:
    """Measure."""
    report.title(
        f"match: {FRAMES} x {DIM}, {len(SEEDS)} ways, {RUNS} runs of {LENGTH} on each, found within {TOLERANCE}"
    )
    found: dict[tuple[str, float], list[float]] = {}
    forecasts: dict[bool, list[Array]] = {True: [], False: []}
    short: dict[tuple[float, int], list[Array]] = {}
    doubts: dict[tuple[str, str], list[Array]] = {}
    waits: dict[tuple[str, str], list[Array]] = {}
    for seed in SEEDS:
        way = way_of(seed)
        encoder, rng = encoder_of(way), np.random.default_rng(1000 + seed)
        waiting = np.random.default_rng(2000 + seed)
        for noise in (1.0, 2.0, 3.0, 4.0):
            recalls: dict[str, list[float]] = {}
            for _ in range(RUNS):
                frames = rng.integers(FRAMES - LENGTH) + np.arange(LENGTH)
                Q = seen_at(way, frames, noise, rng)
                for smooth in (True, False):
                    places, probabilities = encoder.match_proba(Q, speed=SPEED, smooth=smooth)
                    right = np.abs(places - frames) <= TOLERANCE
                    recalls.setdefault("smoothed" if smooth else "filter only", []).append(float(right.mean()))
                    forecasts[smooth].append(np.stack([probabilities, right]))
                if noise in (2, 3):
                    for name, speed in (("reversed", (-SPEED[1], -SPEED[0])), ("10 x too fast", (5.0, 20.0))):
                        recalls.setdefault(name, []).append(_doubted(doubts, name, encoder, Q, frames, speed))
                    for name, frames_of in OUTSIDE.items():
                        t = frames_of(rng)
                        _doubted(doubts, name, encoder, seen_at(way, t, noise, rng), t, SPEED)
                    for name, (t, speed) in WAITING.items():
                        _doubted(waits, name, encoder, seen_at(way, t, noise, waiting), t, speed)
                recalls.setdefault("one by one", []).append(encoder.score(Q, frames, tolerance=TOLERANCE))
            for name, values in recalls.items():
                found.setdefault((name, noise), []).append(float(np.mean(values)))
        for noise in (0.0, 0.3, 1.0):
            for length in (2, 5, 10, 30):
                for _ in range(max(60 // length, 6)):
                    t = waiting.integers(FRAMES - length) + np.arange(length)
                    places, probabilities = encoder.match_proba(seen_at(way, t, noise, waiting), smooth=True)
                    right = np.abs(places - t) <= TOLERANCE
                    short.setdefault((noise, length), []).append(np.stack([probabilities, right]))
        recalls_varied = []
        for _ in range(RUNS):
            frames = varied(rng)
            places = encoder.match(seen_at(way, frames, 2.5, rng), speed=(0, 2), smooth=True)
            recalls_varied.append(np.mean(np.abs(places - frames) <= TOLERANCE))
        found.setdefault(("varied", 2.5), []).append(float(np.mean(recalls_varied)))
    for noise in (1.0, 2.0, 3.0, 4.0):
        for name, target in (("smoothed", 0.95), ("filter only", 0.9), ("one by one", None)):
            values = found[name, noise]
            least = target if noise <= 3 else None
            report.row(
                f"noise {noise:g}, {name}: least of the ways (mean {np.mean(values):.3f})", min(values), least=least
            )
    for noise in (2.0, 3.0):
        for name in ("reversed", "10 x too fast"):
            loss = np.array(found["smoothed", noise]) - found[name, noise]
            report.row(
                f"noise {noise:g}, speed {name}: recall lost, least (mean {loss.mean():.3f})", min(loss), least=0.3
            )
    for (name, how), parts in doubts.items():
        probabilities, right = np.concatenate(parts, axis=1)
        report.note(f"speed {name}, {how}: {right.mean():.2f} right, mean probability {probabilities.mean():.2f}")
        sure = float(np.mean((probabilities > 0.9) & (right == 0)))
        report.row(f"speed {name}, {how}: share that is wrong with a probability above 0.9", sure, most=0.1)
    for (name, how), parts in waits.items():
        probabilities, right = np.concatenate(parts, axis=1)
        what = f"{name}, speed={tuple(WAITING[name][1])}, {how}"
        report.row(f"{what}: right (mean probability {probabilities.mean():.2f})", float(right.mean()), least=0.9)
        sure = float(np.mean((probabilities > 0.9) & (right == 0)))
        report.row(f"{what}: share that is wrong with a probability above 0.9", sure, most=0.05)
    values = found["varied", 2.5]
    what = f"noise 2.5, speed 1.3, a stop, a revisit, speed=(0, 2): least (mean {np.mean(values):.3f})"
    report.row(what, min(values), least=0.9)
    for (noise, length), parts in short.items():
        forecast, right = np.concatenate(parts, axis=1)
        what = f"noise {noise:g}, runs of {length}, smoothed: share right ({right.mean():.2f}) less mean probability"
        report.row(what, float(abs(right.mean() - forecast.mean())), most=0.1)
    _calibration(report, forecasts)
    done = subprocess.run([sys.executable, "-c", CHILD], check=True, capture_output=True, text=True)
    seconds, peak = map(float, done.stdout.split())
    report.row("1000 queries, smoothed: CPU seconds", seconds, most=0.5)
    report.row("1000 queries, smoothed: MB at most while matching (tracemalloc)", peak, most=64)


def _calibration(report: Report, forecasts: dict[bool, list[Array]]) -> None:
    """Print forecast and share that is right in bins, and the mean difference, of noise 1 to 4 together."""
    for smooth, parts in forecasts.items():
        forecast, right = np.concatenate(parts, axis=1)
        bins, total = np.minimum((10 * forecast).astype(int), 9), 0.0
        name = "smoothed" if smooth else "filter only"
        for k in range(10):
            held = bins == k
            if held.any():
                total += held.mean() * abs(forecast[held].mean() - right[held].mean())
                said, share = forecast[held].mean(), right[held].mean()
                report.note(f"{name}: probability {said:.2f} reported, {share:.2f} right, {int(held.sum())} queries")
        report.row(f"{name}: mean difference of reported probability and share right", total, most=0.05)
