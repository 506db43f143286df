"""Minimize over files on disk, serially, with threads and on local clusters; compare bits, time and memory."""

from __future__ import annotations

import sys
import tempfile
import time
from contextlib import ExitStack
from contextvars import Context, copy_context
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from distributed import Client, LocalCluster

import manifoldseq as ms
from manifoldseq.execution import using

FILES, ROWS, COLUMNS, WIDTH = 6, 15_000, 400, 20  # 48 MB each
ITERATIONS, ROUNDS = 3, 5


def write(folder: Path) -> list[Path]:
    """Write the shards: rows whose variance falls slowly from column to column."""
    paths = [folder / f"rows-{number}.npy" for number in range(FILES)]
    for number, path in enumerate(paths):
        rows = np.random.default_rng(number).standard_normal((ROWS, COLUMNS))
        np.save(path, rows / np.sqrt(1 + np.arange(COLUMNS)))
    return paths


def left_out(rows: np.ndarray) -> ms.Objective:
    """Return minus the variance of the rows inside the span of a frame."""

    def fused(X: np.ndarray) -> tuple[float, np.ndarray]:
        Y = rows @ X
        return -float(np.vdot(Y, Y)), -2 * (rows.T @ Y)

    return ms.objective(value_and_gradient=fused)


def megabytes() -> float:
    """Return the memory of this process."""
    return psutil.Process().memory_info().rss / 1e6


def hold(stack: ExitStack, *executor: Any) -> Context:
    """Open an executor that stays open, in a context of its own, until the stack ends."""
    context, block = copy_context(), using(*executor)
    context.run(block.__enter__)
    stack.callback(context.run, block.__exit__, None, None, None)
    return context


def solve(objective: ms.Objective) -> tuple[ms.Result, float]:
    """Minimize from a fixed point for a fixed number of iterations; return the result and the wall seconds."""
    manifold = ms.manifolds.Stiefel(COLUMNS, WIDTH)
    x0 = manifold.random_point(np.random.default_rng(1))
    start = time.perf_counter()
    result = ms.minimize(ms.Problem(manifold, objective), x0, stop=ms.MaxIterations(ITERATIONS))
    return result, time.perf_counter() - start


def main() -> int:
    """Print one line per executor; exit with 1 if any result differs by a bit."""
    print(
        f"{FILES} files of {8e-6 * ROWS * COLUMNS:.0f} MB, {ITERATIONS} iterations of L-BFGS, St({COLUMNS}, {WIDTH});"
    )
    print(f"wall time, medians of {ROUNDS} interleaved rounds after one that loads\n")
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        recipes = [partial(np.load, path) for path in write(Path(folder))]
        contexts, held, objectives = {}, {}, {}
        before = megabytes()
        for workers in (1, 2):  # first, so that what this process grows by is what a client needs
            cluster = stack.enter_context(
                LocalCluster(n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=":0")
            )
            client = stack.enter_context(Client(cluster, set_as_default=False))
            name = f"dask, {workers} worker{'s' * (workers > 1)}"
            contexts[name] = hold(stack, "dask", client)
            empty = sum(client.run(megabytes).values())
            objectives[name] = contexts[name].run(ms.sharded, left_out, recipes)
            held[name] = sum(client.run(megabytes).values()) - empty
        client_only = megabytes() - before
        here = ms.sharded(left_out, recipes)
        for name, executor in {
            "serial": ("serial",),
            "threads, 1": ("threads", 1),
            "threads, 2": ("threads", 2),
        }.items():
            contexts[name], objectives[name] = hold(stack, *executor), here
            held[name] = megabytes() - before - client_only
        seconds: dict[str, list[float]] = {name: [] for name in contexts}
        results: dict[str, ms.Result] = {}
        for number in range(ROUNDS + 1):
            for name, context in contexts.items():
                results[name], elapsed = context.run(solve, objectives[name])
                if number:
                    seconds[name].append(elapsed)
        wanted, base = results["serial"], np.array(seconds["serial"])
        same = {name: r.fun == wanted.fun and r.x.tobytes() == wanted.x.tobytes() for name, r in results.items()}
        print(f"{'':<18}{'seconds':>9}{'/ serial':>10}{'MB for the data':>17}  same bits as serial")
        for name in ("serial", "threads, 1", "threads, 2", "dask, 1 worker", "dask, 2 workers"):
            ratio = np.median(np.array(seconds[name]) / base)
            word = "yes" if same[name] else "NO"
            print(f"{name:<18}{np.median(seconds[name]):>9.3f}{ratio:>10.2f}{held[name]:>17.0f}  {word}")
        print(
            f"\n{wanted.nfev:g} evaluations each; the process that only asks two clusters grew by {client_only:.0f} MB"
        )
    return int(not all(same.values()))


if __name__ == "__main__":
    sys.exit(main())
