"""Ten million frames of 128 features from a file, block by block, in a process of its own."""

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from .._report import Report

N, D, H, ROWS = 10_000_000, 128, 100, 100_000

CHILD = """
import sys, time
import numpy as np
from manifoldseq_hierarchical import SubspaceEncoder
path, what, N, D, H, ROWS = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:])
SubspaceEncoder().fit(np.eye(4), [0, 0, 1, 1])  # imports

def blocks():
    with open(path, "rb") as file:
        for start in range(0, N, ROWS):
            X = np.fromfile(file, np.float32, ROWS * D).reshape(-1, D)
            yield X, np.arange(start, start + len(X)) * H // N

began = time.process_time()
if what == "read":
    total = sum(len(X) for X, _ in blocks())
elif what == "bare":
    total = sum(X.sum(axis=0, dtype=np.float64) for X, _ in blocks())
else:
    model = SubspaceEncoder().fit_blocks(blocks())
    assert model.components_.shape == (H - 1, D)
seconds = time.process_time() - began
# not ru_maxrss, which is that of the process that started this one where it was larger
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(seconds, int(peak.split()[1]) / 2**20)
"""


def run(report: Report) -> None:
    """Measure."""
    report.title(
        f"{N:.0e} frames x {D} float32 ({N * D * 4 / 1e9:.1f} GB) from a file in blocks of {ROWS}, {H} segments"
    )
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "frames"
        one = rng.standard_normal((ROWS, D), dtype=np.float32)
        with path.open("wb") as file:
            for _ in range(N // ROWS):
                (one + rng.standard_normal(D, dtype=np.float32)).tofile(file)

        def measure(what: str) -> tuple[float, float]:
            arguments = [str(path), what, *map(str, (N, D, H, ROWS))]
            done = subprocess.run([sys.executable, "-c", CHILD, *arguments], check=True, capture_output=True, text=True)
            seconds, resident = map(float, done.stdout.split())
            return seconds, resident

        measure("bare")  # the file comes into the page cache, for both
        runs = [[measure(what) for what in ("read", "bare", "ours")] for _ in range(3)]
    read, bare, ours = np.array(runs).transpose(1, 2, 0)  # each seconds and GiB of three rounds
    report.row("seconds to read every block and do nothing", float(np.median(read[0])))
    report.row("seconds of a bare pass: read every block, sum its columns", float(np.median(bare[0])))
    report.row("seconds of SubspaceEncoder.fit_blocks", float(np.median(ours[0])))
    report.row("times the bare pass", float(np.median(ours[0] / bare[0])), most=2)
    report.row("times reading alone", float(np.median(ours[0] / read[0])))
    report.row("resident GiB at most, in a process of its own", float(ours[1].max()), most=1)
