"""Kill a fit with SIGKILL at fractions of its time, resume it, and compare what it leaves with an uninterrupted run.

Run as a script: ``python tests/faults/kill.py [ROUNDS]``; the exit status is 1 if a round differs.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

FRACTIONS = (0.2, 0.4, 0.6, 0.8)
FIT = """
    fit lds-kmeans basic-motions --set n_clusters=4 --set n_states=5 --set n_init=8 --seed 0 --checkpoint-every 0
""".split()
COMPARED = ("model.npz", "assignments.csv")


def start(folder: Path, *more: str) -> subprocess.Popen[bytes]:
    """Start the fit in a process of its own."""
    command = [sys.executable, "-m", "manifoldseq", *FIT, "-o", str(folder), *more]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    return subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def finish(folder: Path, *more: str) -> float:
    """Run the fit to its end and return its seconds."""
    began = time.perf_counter()
    process = start(folder, *more)
    _, errors = process.communicate()
    assert process.returncode == 0, errors.decode()
    return time.perf_counter() - began


def killed_round(folder: Path, rng: np.random.Generator) -> tuple[list[int], list[str]]:
    """Time a whole run, kill another at each fraction of that time, resume it to its end, and compare the two.

    Returns
    -------
    kills : list of int
        For each kill that hit, how many checkpoints it left behind.
    different : list of str
        The files that are not bit-equal.
    """
    whole = folder / "whole"
    seconds = finish(whole)
    kills: list[int] = []
    different: list[str] = []
    for fraction in FRACTIONS:
        killed = folder / f"at-{fraction}"
        process = start(killed)
        try:
            process.wait(timeout=seconds * (fraction + rng.uniform(-0.05, 0.05)))
        except subprocess.TimeoutExpired:
            process.kill()
        _, errors = process.communicate()
        if process.returncode == -9:
            kills.append(len(list(killed.rglob("checkpoint-*.npz"))))
        else:
            assert process.returncode == 0, errors.decode()
        finish(killed, "--resume")
        different += [name for name in COMPARED if (killed / name).read_bytes() != (whole / name).read_bytes()]
    return kills, different


def main(rounds: int) -> int:
    """Run the rounds, print a line about each, and return the exit status."""
    failures = 0
    with TemporaryDirectory() as name:
        for number in range(rounds):
            kills, different = killed_round(Path(name) / f"round-{number}", np.random.default_rng(number))
            failures += bool(different)
            verdict = f"DIFFERENT: {', '.join(different)}" if different else "bit-equal"
            after = sum(count > 0 for count in kills)
            print(f"round {number + 1}: {len(kills)} kills, {after} after a checkpoint: {verdict}", flush=True)
    print(f"{rounds - failures} of {rounds} rounds bit-equal")
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 20))
