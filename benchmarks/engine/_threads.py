"""The size from which several BLAS threads pay inside the loop, on an idle and on a busy machine."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

import manifoldseq as ms
from manifoldseq._iterate import SEVERAL_THREADS
from manifoldseq.manifolds import Euclidean, Manifold, Sphere, Stiefel

from .._report import interleaved
from ._session import Session


class Kind(NamedTuple):
    """A manifold, and an objective of its points: a quadratic form of a full matrix, or a distance."""

    name: str
    manifold: Manifold
    full: bool
    evaluations: int


def run(session: Session) -> None:
    """Measure; the benchmark holds a block of one thread, so that the number set inside it decides for the loop too."""
    report, threads = session.report, max(2, os.cpu_count() or 2)
    kinds = [
        Kind("full, St(200, 10)", Stiefel(200, 10), True, 100),
        Kind("full, sphere in 1000", Sphere(1000), True, 60),
        Kind("full, St(500, 50)", Stiefel(500, 50), True, 8),
        Kind("distance, St(2000, 10)", Stiefel(2000, 10), False, 30),
        Kind("full, St(1000, 100)", Stiefel(1000, 100), True, 4),
        Kind("full, St(2000, 200)", Stiefel(2000, 200), True, 2),
        Kind("distance, sphere in 300000", Sphere(300_000), False, 10),
        Kind("full, St(4000, 200)", Stiefel(4000, 200), True, 1),
        Kind("distance, St(20000, 100)", Stiefel(20_000, 100), False, 2),
    ]
    kinds = kinds[:2] if session.quick else kinds
    measured: dict[str, list[float]] = {"quiet": [], "loaded": []}
    for load, busy in (("quiet", 0), ("loaded", os.cpu_count() or 1)):
        report.title(f"time with {threads} BLAS threads over that with one, {load}: {busy} other processes")
        for kind in kinds:
            entries = int(np.prod(np.shape(kind.manifold.random_point(np.random.default_rng(0)))))
            small = entries < SEVERAL_THREADS
            solve = _solve(kind, 3 if session.quick else kind.evaluations)
            with _busy(busy):
                ratio = _ratio(solve, threads, min(3, session.rounds))
            report.row(f"{kind.name}, {entries} entries{', limited' if small else ''}", ratio)
            if small:
                measured[load].append(ratio)
    report.title(f"points below {SEVERAL_THREADS} entries, whose loop is limited to one thread")
    for load, ratios in measured.items():
        report.row(f"median of the ratios above, {load}", float(np.median(ratios)), least=0.9 if load == "quiet" else 1)
    if not session.quick:
        report.row("a cost with much data: 50 entries, rows of data 200000, quiet", _ratio(_regression(), threads, 3))
    report.title("cost of the limit: a minimize of no iterations over one inside a block of one thread")
    ours, theirs = _cost(2 if session.quick else 200)
    report.row("the limit of the loop", ours, most=1.1)
    report.row("a limiter of threadpoolctl that is built once", theirs)


def _solve(kind: Kind, evaluations: int) -> Callable[[], float]:
    """Return a function that gives the seconds per evaluation of a run of lbfgs."""
    rng = np.random.default_rng(0)
    start = kind.manifold.random_point(rng)
    data = rng.standard_normal((len(start), len(start)) if kind.full else start.shape)
    data = data + data.T if kind.full else data
    scales = np.arange(1.0, start.shape[-1] + 1) if start.ndim > 1 else 1.0

    def fused(x: Any) -> tuple[float, Any]:
        if kind.full:
            product = (data @ x) * scales
            return float(np.vdot(x, product)), 2 * product
        rest = x - data
        return float(np.vdot(rest, rest)), 2 * rest

    return _timed(ms.Problem(kind.manifold, ms.objective(value_and_gradient=fused)), start, evaluations)


def _regression() -> Callable[[], float]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200_000, 50))
    y = np.sign(X[:, 0] + rng.standard_normal(len(X)))

    def fused(w: Any) -> tuple[float, Any]:
        margins = y * (X @ w)
        return float(np.logaddexp(0, -margins).mean()), -(X.T @ (y / (1 + np.exp(margins)))) / len(X)

    return _timed(ms.Problem(Euclidean(50), ms.objective(value_and_gradient=fused)), np.zeros(50), 10)


def _timed(problem: ms.Problem, start: Any, iterations: int) -> Callable[[], float]:
    def solve() -> float:
        began = time.perf_counter()
        result = ms.minimize(problem, start, stop=ms.MaxIterations(iterations))
        return (time.perf_counter() - began) / result.nfev

    return solve


def _ratio(solve: Callable[[], float], threads: int, rounds: int) -> float:
    """Return the median over interleaved rounds of the time with several threads over that with one."""
    seconds: dict[int, list[float]] = {1: [], threads: []}
    for number in range(rounds + 1):  # the first warms up
        for several, times in seconds.items():
            with threadpool_limits(several, user_api="blas"):
                times.append(solve())
        if not number:
            seconds = {several: [] for several in seconds}
    return float(np.median(np.array(seconds[threads]) / np.array(seconds[1])))


@contextmanager
def _busy(processes: int) -> Iterator[None]:
    """Keep so many other processes busy."""
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(processes)]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


def _cost(rounds: int) -> tuple[float, float]:
    """Return the two ratios from another process, as here a block of one thread is open already."""
    code = f"from benchmarks.engine._threads import print_cost; print_cost({rounds})"
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    ours, theirs = map(float, done.stdout.split())
    return ours, theirs


def print_cost(rounds: int) -> None:
    """Print what a limit adds to a `minimize` of no iterations, ours and threadpoolctl's."""
    from threadpoolctl import ThreadpoolController

    controller = ThreadpoolController().select(user_api="blas")
    A = np.random.default_rng(0).standard_normal((20, 20))
    f = ms.objective(value_and_gradient=lambda X: (float(np.vdot(X, A @ X)), (A + A.T) @ X))
    problem = ms.Problem(Stiefel(20, 3), f)
    minimize = partial(
        ms.minimize, problem, problem.manifold.random_point(np.random.default_rng(0)), stop=ms.MaxIterations(0)
    )

    def several(wrap: Callable[[], Any]) -> Callable[[], None]:
        def call() -> None:
            for _ in range(20):
                with wrap():
                    minimize()

        return call

    class Nothing:
        def __enter__(self) -> None: ...
        def __exit__(self, *exception: object) -> None: ...

    controller.limit(limits=max(2, os.cpu_count() or 2))
    limited = several(lambda: controller.limit(limits=1))
    seconds = interleaved({"ours": several(Nothing), "theirs": limited}, rounds, time.perf_counter)
    with ms.execution.one_blas_thread():
        inside = interleaved({"inside": several(Nothing)}, rounds, time.perf_counter)["inside"]
    print(*(float(np.min(seconds[name]) / np.min(inside)) for name in ("ours", "theirs")))
