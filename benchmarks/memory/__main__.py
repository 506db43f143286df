"""Print the most memory that fits held at a time: of 1 GB in three forms from the shell, and of memory maps."""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from .._report import Report

FORMS = ("one .npy", "a folder of .npy", "a folder of .parquet")
CHANNELS, PARTS, CLUSTERS = 100, 40, 8
MOST = 1.5
"""Times the bytes of the data that a process may hold, its libraries included, for data of 1 GB."""

MAPPED_ROWS, WIDTHS, MOST_MAPPED = 500_000, (40, 40), 48.0
"""Rows and columns of the memory maps of two views, 320 MB, and the MB that one start may need above the process."""
MAPPED = """
import sys, threading
import numpy as np
from manifoldseq_mpcca import MixturePCCA

def anonymous():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) / 1024 for line in file if line.startswith("RssAnon"))

views = [np.load(path, mmap_mode="r") for path in sys.argv[2:]]
model = MixturePCCA(5, 3, covariance_type="diag", missing=sys.argv[1], random_state=0, max_iter=3)
found, end, before = [], threading.Event(), anonymous()

def watch():
    while not end.wait(0.002):
        found.append(anonymous())

watcher = threading.Thread(target=watch)
watcher.start()
model.fit(views)
end.set()
watcher.join()
print(max(found) - before)
"""
"""One start in a process of its own: its largest anonymous memory less that before the fit."""


def map_views(folder: Path, rows: int, missing: float) -> list[Path]:
    """Write two views of a mixture, part by part; a share of the rows misses the first."""
    rng, paths = np.random.default_rng(0), [folder / f"{v}.npy" for v in range(len(WIDTHS))]
    loadings, means = rng.standard_normal((5, 3, sum(WIDTHS))), 3 * rng.standard_normal((5, sum(WIDTHS)))
    maps = [np.lib.format.open_memmap(path, "w+", "f8", (rows, n)) for path, n in zip(paths, WIDTHS, strict=True)]
    for part in np.array_split(np.arange(rows), PARTS):
        of, z = rng.integers(5, size=len(part)), rng.standard_normal((len(part), 3))
        values = means[of] + np.einsum("nd,ndD->nD", z, loadings[of]) + rng.standard_normal((len(part), sum(WIDTHS)))
        values[rng.random(len(part)) < missing, : WIDTHS[0]] = np.nan
        for view, columns in zip(maps, np.split(values, np.cumsum(WIDTHS)[:-1], axis=1), strict=True):
            view[part] = columns
    return paths


def fit_mapped(rows: int, missing: float) -> float:
    """Return the MB that one start of `MixturePCCA` needs above the process."""
    with tempfile.TemporaryDirectory() as name:
        paths = map_views(Path(name), rows, missing)
        command = [sys.executable, "-c", MAPPED, "em" if missing else "error", *map(str, paths)]
        return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def blocks(rows: int) -> Iterator[np.ndarray]:
    """Yield the rows in equal parts, so that this process stays small: a child begins with what its parent holds."""
    centres = np.random.default_rng(0).standard_normal((CLUSTERS, CHANNELS))
    for i in range(PARTS):
        rng = np.random.default_rng([1, i])
        of = rng.integers(CLUSTERS, size=rows // PARTS)
        yield (centres[of] + rng.standard_normal((len(of), CHANNELS))).astype(np.float32)


def write(form: str, folder: Path, rows: int) -> Path:
    """Write the rows in one of the forms and return the path that a user would name."""
    if form == "one .npy":
        target = folder / "all.npy"
        with open(target, "wb") as file:
            header = {"descr": "<f4", "fortran_order": False, "shape": (rows // PARTS * PARTS, CHANNELS)}
            np.lib.format.write_array_header_1_0(file, header)
            for block in blocks(rows):
                file.write(block)
        return target
    target = folder / form.rpartition(".")[2]
    target.mkdir()
    for i, block in enumerate(blocks(rows)):
        if form == "a folder of .npy":
            np.save(target / f"{i}.npy", block)
        else:
            import pyarrow as pa
            import pyarrow.parquet as parquet

            columns = {f"x{j}": np.ascontiguousarray(block[:, j]) for j in range(CHANNELS)}
            parquet.write_table(pa.table(columns), target / f"{i}.parquet")
    return target


def fit(source: Path, run: Path) -> tuple[int, float, str]:
    """Run the command; return the most bytes that its process held, seconds, and what it printed."""
    command = [sys.executable, "-m", "manifoldseq", "fit", "spherical-kmeans", str(source)]
    command += [f"--set=n_clusters={CLUSTERS}", "--set=n_init=1", "--seed=0", "-o", str(run)]
    with open(run.with_suffix(".txt"), "w+") as said:
        start = time.perf_counter()
        child = subprocess.Popen(command, stdout=said, stderr=subprocess.STDOUT)
        _, status, usage = os.wait4(child.pid, 0)
        seconds = time.perf_counter() - start
        child.returncode = os.waitstatus_to_exitcode(status)
        said.seek(0)
        text = said.read()
    if child.returncode:
        raise SystemExit(f"{' '.join(command)} ended with status {child.returncode}:\n{text}")
    return usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024), seconds, text


def main() -> int:
    """Print one row per form; return 1 if a fit held more than it may."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.memory", description=__doc__)
    parser.add_argument("gigabytes", nargs="?", type=float, default=1.0, help="of data (default: 1)")
    size = parser.parse_args().gigabytes * 1e9
    rows, report = int(size) // (4 * CHANNELS), Report()
    report.title(f"spherical-kmeans, {rows} rows of {CHANNELS} channels, float32, with its controls; peak resident GB")
    for form in FORMS:
        with tempfile.TemporaryDirectory() as name:
            held, seconds, _ = fit(write(form, Path(name), rows), Path(name) / "run")
            report.row(f"{form} ({seconds:.0f} s)", held / 1e9, ".2f", most=MOST * size / 1e9 if size >= 1e9 else None)
    report.title(f"MixturePCCA, diagonal noise, one start over maps of {MAPPED_ROWS} rows of {WIDTHS}; anonymous MB")
    for what, missing in (("complete rows", 0.0), ("30 % of the rows miss a view", 0.3)):
        report.row(what, fit_mapped(MAPPED_ROWS, missing), ".1f", most=MOST_MAPPED)
    return report.summary()


if __name__ == "__main__":
    sys.exit(main())
