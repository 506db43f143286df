"""Kill fits with SIGKILL at fractions of their time, resume them, and compare the files with an uninterrupted run.

Run as a script: ``python tests/faults/kill.py [ROUNDS [ESTIMATOR ...]]``, by default all estimators of the table; the
exit status is 1 if a round differs.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

FRACTIONS = (0.2, 0.4, 0.6, 0.8)
WALK = "walk.npy"
"""A random walk of many frames, which `killed_round` writes."""
FITS = {
    "lds-kmeans": "basic-motions --set n_clusters=4 --set n_states=5 --set n_init=8",
    "lds-neighbors": "basic-motions",
    "lds-kernel-matrix": "basic-motions",
    "lds-spectral": "basic-motions --set n_clusters=4",
    "lds-classifier": "basic-motions",
    "lds-sparse-coder": "basic-motions --set dictionary=k-means",
    "lds-dictionary": "basic-motions --set n_atoms=4",
    "lds-identifier": "basic-motions --set n_states=auto --set method=em",
    "bag-of-systems": "basic-motions --set n_clusters=4",
    "pyramid-pooling": "basic-motions --set n_atoms=4",
    "sequence-classifier": "basic-motions",
    "hierarchical-encoder": WALK,
}
"""The data and settings of the fits, by estimator."""
COMPARED = ("model.npz", "assignments.csv")


def start(fit: str, folder: Path, *more: str) -> subprocess.Popen[bytes]:
    """Start the fit of an estimator in a process of its own."""
    data, *settings = FITS[fit].split()
    data = str(folder.parent / WALK) if data == WALK else data
    options = "--seed", "0", "--checkpoint-every", "0", "--no-quality", "-o", str(folder)
    command = [sys.executable, "-m", "manifoldseq", "fit", fit, data, *settings, *options, *more]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    return subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def finish(fit: str, folder: Path, *more: str) -> float:
    """Run the fit to its end and return its seconds."""
    began = time.perf_counter()
    process = start(fit, folder, *more)
    _, errors = process.communicate()
    assert process.returncode == 0, errors.decode()
    return time.perf_counter() - began


def killed_round(fit: str, folder: Path, rng: np.random.Generator) -> tuple[list[int], list[str]]:
    """Time a whole run, kill another at each fraction of that time, resume it to its end, and compare the two.

    Returns
    -------
    kills : list of int
        For each kill that hit, how many checkpoints it left behind.
    different : list of str
        The files that are not bit-equal.
    """
    folder.mkdir(exist_ok=True)
    if FITS[fit] == WALK:
        np.save(folder / WALK, rng.standard_normal((100_000, 64)).cumsum(axis=0))
    whole = folder / "whole"
    seconds = finish(fit, whole)
    kills: list[int] = []
    different: list[str] = []
    for fraction in FRACTIONS:
        killed = folder / f"at-{fraction}"
        process = start(fit, killed)
        try:
            process.wait(timeout=seconds * (fraction + rng.uniform(-0.05, 0.05)))
        except subprocess.TimeoutExpired:
            process.kill()
        _, errors = process.communicate()
        if process.returncode == -9:
            kills.append(len(list(killed.rglob("checkpoint-*.npz"))))
        else:
            assert process.returncode == 0, errors.decode()
        finish(fit, killed, "--resume")
        compared = [name for name in COMPARED if (whole / name).exists()]
        different += [name for name in compared if (killed / name).read_bytes() != (whole / name).read_bytes()]
    return kills, different


def main(rounds: int, fits: Sequence[str]) -> int:
    """Run the rounds of each fit, print a line about each, and return the exit status."""
    failures = 0
    for fit in fits:
        for number in range(rounds):
            with TemporaryDirectory() as folder:
                kills, different = killed_round(fit, Path(folder), np.random.default_rng(number))
            failures += bool(different)
            verdict = f"DIFFERENT: {', '.join(different)}" if different else "bit-equal"
            after = sum(count > 0 for count in kills)
            print(f"{fit} {number + 1}: {len(kills)} kills, {after} after a checkpoint: {verdict}", flush=True)
    print(f"{rounds * len(fits) - failures} of {rounds * len(fits)} rounds bit-equal")
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 3, sys.argv[2:] or [*FITS]))
