"""Executors on shards of 50 MB: two threads against serial, two processes of a local cluster against two threads.

Wall time of one value and gradient over all shards, interleaved; ``python -m benchmarks.engine.executors``.
"""

from __future__ import annotations

import sys
import time
from functools import partial
from typing import Any, NamedTuple

import numpy as np

import manifoldseq as ms
from manifoldseq.execution import using

from .._report import interleaved

SHARDS, ROWS, COLUMNS, WIDTH = 8, 25_000, 250, 80  # 50 MB each


class Row(NamedTuple):
    """One line of the table; what has no target is there to be read."""

    what: str
    figure: str
    target: str
    measured: float
    passed: bool | None


def data(seed: int) -> np.ndarray:
    """Make a shard."""
    return np.random.default_rng(seed).standard_normal((ROWS, COLUMNS))


def left_out(rows: np.ndarray) -> ms.Objective:
    """Return minus the variance of the rows inside the span of a frame."""

    def fused(X: np.ndarray) -> tuple[float, np.ndarray]:
        Y = rows @ X
        return -float(np.vdot(Y, Y)), -2 * (rows.T @ Y)

    return ms.objective(value_and_gradient=fused)


def run() -> list[Row]:
    """Measure; the ratios are medians over the rounds."""
    from distributed import LocalCluster

    recipes = [partial(data, seed) for seed in range(SHARDS)]
    X = ms.manifolds.Stiefel(COLUMNS, WIDTH).random_point(np.random.default_rng(0))
    with using("threads", 2):
        here = ms.sharded(left_out, recipes)
    answers: dict[str, Any] = {}

    def ask(name: str, objective: ms.Objective, *executor: Any) -> None:
        with using(*executor):
            assert objective.value_and_gradient is not None
            answers[name] = objective.value_and_gradient(X)

    with (
        LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0") as cluster,
        using("dask", cluster),
    ):
        there = ms.sharded(left_out, recipes)
        assert there.value_and_gradient is not None
        remote = there.value_and_gradient

        def ask_cluster() -> None:
            answers["dask"] = remote(X)

        seconds = interleaved(
            {
                "serial": lambda: ask("serial", here, "serial"),
                "threads": lambda: ask("threads", here, "threads", 2),
                "dask": ask_cluster,
            },
            clock=time.perf_counter,
        )
    value, gradient = answers["serial"]
    same = all(f == value and g.tobytes() == gradient.tobytes() for f, g in answers.values())
    shard = float(np.median(seconds["serial"])) / SHARDS
    threads = float(np.median(seconds["threads"] / seconds["serial"]))
    dask = float(np.median(seconds["dask"] / seconds["threads"]))
    unit = "wall-time ratio"
    return [
        Row("a shard of 50 MB, serial", "seconds", ">= 0.05", shard, shard >= 0.05),
        Row("two threads / serial", unit, "<= 0.65", threads, threads <= 0.65),
        Row("dask, two local processes / two threads", unit, "<= 1.15", dask, dask <= 1.15),
        Row("same bits: serial, threads, dask", "1 if so", "= 1", float(same), same),
    ]


def show(rows: list[Row]) -> int:
    """Print the rows and return the exit status."""
    for row in rows:
        verdict = "" if row.passed is None else "pass" if row.passed else "MISS"
        print(f"{row.what:<62}{row.measured:>10.3g}  {row.figure:<22}{row.target:<10}{verdict}")
    return int(any(row.passed is False for row in rows))


if __name__ == "__main__":
    sys.exit(show(run()))
