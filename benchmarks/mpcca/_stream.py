"""A million rows of two views from files, in a process of its own."""

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from .._report import Report

N, SIZE, K, D_LATENT, ITERATIONS = 1_000_000, 100, 64, 16, 2

CHILD = """
import resource, sys, time
import numpy as np
from manifoldseq_mpcca import MixturePCCA
N, SIZE, K, D, ITERATIONS = map(int, sys.argv[2:])
views = [np.lib.format.open_memmap(f"{sys.argv[1]}/{name}.npy", mode="r") for name in "xy"]
began = time.process_time()
model = MixturePCCA(K, D, max_iter=ITERATIONS, tol=0, random_state=0, covariance_type="diag").fit(views)
seconds = time.process_time() - began
assert (np.diff(model.history_["fun"]) < 0).all() and model.n_iter_ == ITERATIONS
print(seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20)
"""


def run(report: Report) -> None:
    """Measure."""
    report.title(f"N={N:.0e} rows of two float32 views of {SIZE} columns, memory mapped, K={K}, d={D_LATENT}")
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((K, 2 * SIZE), dtype=np.float32)
    maps = rng.standard_normal((D_LATENT, 2 * SIZE), dtype=np.float32)
    with tempfile.TemporaryDirectory() as folder:
        files = [
            np.lib.format.open_memmap(Path(folder) / f"{name}.npy", mode="w+", dtype=np.float32, shape=(N, SIZE))
            for name in "xy"
        ]
        for start in range(0, N, 50_000):
            z = rng.standard_normal((50_000, D_LATENT), dtype=np.float32)
            block = z @ maps + centres[rng.integers(K, size=50_000)]
            block += rng.standard_normal(block.shape, dtype=np.float32)
            for file, part in zip(files, np.split(block, 2, axis=1), strict=True):
                file[start : start + 50_000] = part
        for file in files:
            file.flush()
        arguments = [folder, *map(str, (N, SIZE, K, D_LATENT, ITERATIONS))]
        done = subprocess.run([sys.executable, "-c", CHILD, *arguments], check=True, capture_output=True, text=True)
        seconds, resident = map(float, done.stdout.split())
    report.row(f"seconds of MixturePCCA.fit, the start and {ITERATIONS} iterations", seconds)
    report.row("resident GiB at most, the pages of the files among them", resident, most=2)
