"""Executors change when something is computed, never what."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from threadpoolctl import ThreadpoolController, threadpool_limits

import manifoldseq as ms
from manifoldseq import execution
from manifoldseq.execution import map_ordered, sum_ordered, using


def product(seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.standard_normal((30, 30)) @ rng.standard_normal((30, 30))


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_threads_give_the_same_bits_in_the_same_order(workers: int) -> None:
    with using("serial"), execution.one_blas_thread():
        products, total = map_ordered(product, range(12)), sum_ordered(product, range(12))
    with using("threads", workers):
        assert all(a.tobytes() == b.tobytes() for a, b in zip(products, map_ordered(product, range(12)), strict=True))
        assert sum_ordered(product, range(12)).tobytes() == total.tobytes()


def test_results_come_in_the_order_of_the_tasks_whatever_finishes_first() -> None:
    last = threading.Event()

    def waits(task: int) -> int:
        if task == 1:
            last.set()
        elif not last.wait(10):
            raise TimeoutError
        return task

    with using("threads", 2):
        assert map_ordered(waits, [0, 1]) == [0, 1]


def test_ctrl_c_just_before_the_wait_for_a_task_is_noticed() -> None:
    """Such a signal does not wake the main thread. It comes in about one of eight rounds."""
    noticed, late = threading.Event(), []

    def task(number: int, together: threading.Barrier) -> None:
        together.wait(10)
        if number == 0:
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        if not noticed.wait(5):  # tasks run until the main thread has received the signal
            late.append(number)

    for _ in range(40):
        noticed.clear()
        together = threading.Barrier(4)
        with using("threads", 4):
            try:
                map_ordered(lambda number, together=together: task(number, together), range(4))
            except KeyboardInterrupt:
                noticed.set()
        assert not late


def test_nested_maps_run_serially_inside_a_task() -> None:
    def outer(i: int) -> list[tuple[int, bool]]:
        here = threading.get_ident()
        return map_ordered(lambda j: (10 * i + j, threading.get_ident() == here), range(3))

    with using("threads", 2):
        nested = map_ordered(outer, range(5))
    assert nested == [[(10 * i + j, True) for j in range(3)] for i in range(5)]


@pytest.mark.parametrize("kind", ["serial", "threads"])
@pytest.mark.parametrize("mapping", [map_ordered, sum_ordered])
def test_exceptions_come_through_and_the_executor_still_works(kind: str, mapping: Callable[..., Any]) -> None:
    def fails(task: int) -> int:
        if task == 2:
            raise ZeroDivisionError("task 2")
        return task

    with using(kind, 2):
        with pytest.raises(ZeroDivisionError, match="task 2"):
            mapping(fails, range(6))
        assert map_ordered(abs, [-1, 2]) == [1, 2]


def test_sums_of_tuples_from_left_to_right() -> None:
    terms = [(0.1, (np.array([1e16, 1.0]), 1)), (0.2, (np.array([1.0, 2.0]), 2)), (0.3, (np.array([-1e16, 3.0]), 3))]
    total = sum_ordered(lambda k: terms[k], range(3))
    assert total[0] == (0.1 + 0.2) + 0.3 and total[1][1] == 6
    assert total[1][0].tolist() == [(1e16 + 1.0) - 1e16, 6.0]
    with pytest.raises(ValueError, match="nothing to add"):
        sum_ordered(abs, [])
    assert map_ordered(abs, []) == []


def test_executors_are_contexts() -> None:
    outside = execution.current()
    with using("threads", 2):
        inside = execution.current()
        with using("serial"):
            assert execution.current() is outside
        assert execution.current() is inside is not outside
    assert execution.current() is outside
    with pytest.raises(RuntimeError), using("threads", 2):
        raise RuntimeError
    assert execution.current() is outside


def test_blas_threads_are_limited_inside_and_restored() -> None:
    before = execution.blas_threads()
    with execution.one_blas_thread():
        with execution.one_blas_thread():
            assert execution.blas_threads() == 1
        assert execution.blas_threads() == 1
        with using("threads", 2):
            assert map_ordered(lambda _: execution.blas_threads(), range(4)) == [1] * 4
    assert execution.blas_threads() == before


def test_blas_threads_are_limited_from_any_thread() -> None:
    """Overlapping blocks of two threads, after a third set the limit: threadpoolctl gives OpenBLAS to one of them."""
    before = execution.blas_threads()
    second_in, first_out = threading.Event(), threading.Event()

    def first() -> int:
        with execution.one_blas_thread():
            assert second_in.wait(10)
            seen = execution.blas_threads()
        first_out.set()
        return seen

    def second() -> tuple[int, int]:
        with execution.one_blas_thread():
            second_in.set()
            assert first_out.wait(10)
            inside = execution.blas_threads()
        return inside, execution.blas_threads()

    threadpool_limits(2)
    try:
        with ThreadPoolExecutor(2) as pool:
            one, two = pool.submit(first), pool.submit(second)
            assert one.result() == 1 and two.result() == (1, 2)
    finally:
        threadpool_limits(before)


def test_several_tasks_get_one_blas_thread_each_and_a_single_one_is_no_map() -> None:
    before = execution.blas_threads()
    threadpool_limits(2)
    try:
        for kind in ("serial", "threads"):
            with using(kind, 2):
                assert map_ordered(lambda _: execution.blas_threads(), range(3)) == [1, 1, 1]
                assert map_ordered(lambda _: execution.blas_threads(), [0]) == [2]
                assert execution.Shards([lambda: 0]).map(lambda *_: execution.blas_threads(), [(0, None)]) == [1]
                inside = map_ordered(lambda _: execution.current(), [0])
                assert inside == [execution.current()]
    finally:
        threadpool_limits(before)


@pytest.fixture
def two_threads() -> Iterator[None]:
    """Two BLAS threads, however many there are outside."""
    before = execution.blas_threads()
    threadpool_limits(2, user_api="blas")
    yield
    threadpool_limits(before, user_api="blas")


def watched(manifold: ms.manifolds.Manifold, seen: list[int]) -> ms.Problem:
    """Return a distance that notes how many BLAS threads there are when it is evaluated."""

    def fused(x: Any) -> tuple[float, Any]:
        seen.extend(library["num_threads"] for library in ThreadpoolController().select(user_api="blas").info())
        return float(np.vdot(x - 1, x - 1)), 2 * (x - 1)

    return ms.Problem(manifold, ms.objective(value_and_gradient=fused))


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize("solver", ["lbfgs", "bb", "cg"])
def test_a_run_uses_one_blas_thread(solver: str) -> None:
    seen: list[int] = []
    ms.minimize(watched(ms.manifolds.Stiefel(6, 2), seen), solver=solver, seed=0, observers=[lambda event: None])
    assert set(seen) == {1} and len(seen) > 10
    assert execution.blas_threads() == 2


@pytest.mark.usefixtures("two_threads")
def test_a_loop_and_a_batch_use_one_blas_thread() -> None:
    seen: list[int] = []

    def step(state: Any) -> tuple[Any, ms.Measures]:
        seen.append(execution.blas_threads())
        return {"mean": (state["mean"][0] + 1, 0.5)}, ms.Measures(0.0)

    ms.iterate(step, {"mean": (np.zeros(3), 1.0)}, stop=ms.MaxIterations(3))
    ms.minimize_batch(watched(ms.manifolds.Sphere(4), seen), n_problems=3, seed=0)
    assert set(seen) == {1} and execution.blas_threads() == 2


@pytest.mark.usefixtures("two_threads")
def test_a_large_point_keeps_the_threads_that_there_are() -> None:
    seen: list[int] = []
    problem = watched(ms.manifolds.Euclidean(1_000_000), seen)
    ms.minimize(problem, np.zeros(1_000_000), stop=ms.MaxIterations(2))
    assert set(seen[-2:]) == {2}
    with execution.one_blas_thread():
        ms.minimize(problem, np.zeros(1_000_000), stop=ms.MaxIterations(2))
    assert set(seen[-2:]) == {1} and execution.blas_threads() == 2


@pytest.mark.usefixtures("two_threads")
def test_runs_in_several_threads_share_the_limit() -> None:
    seen: list[int] = []
    problem = watched(ms.manifolds.Stiefel(5, 2), seen)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda seed: ms.minimize(problem, seed=seed), range(12)))
    assert set(seen) == {1} and execution.blas_threads() == 2
    with using("threads", 2):
        ms.minimize(problem, seed=0, n_starts=4)
    assert set(seen) == {1} and execution.blas_threads() == 2


@pytest.mark.usefixtures("two_threads")
def test_the_limit_ends_with_the_run_however_it_ends() -> None:
    def fails(x: Any) -> tuple[float, Any]:
        raise ZeroDivisionError

    problem = ms.Problem(ms.manifolds.Euclidean(2), ms.objective(value_and_gradient=fails))
    with pytest.raises(ZeroDivisionError):
        ms.minimize(problem, np.zeros(2))
    assert execution.blas_threads() == 2


@pytest.mark.usefixtures("two_threads")
def test_numbers_of_threads_that_the_user_sets_hold() -> None:
    seen: list[int] = []
    problem = watched(ms.manifolds.Sphere(3), seen)
    with execution.one_blas_thread(), threadpool_limits(2, user_api="blas"):
        ms.minimize(problem, seed=0)
    assert set(seen) == {2}, "a number set inside a block of one thread is meant"
    with threadpool_limits(1, user_api="blas"):
        seen.clear()
        ms.minimize(problem, seed=0)
        assert set(seen) == {1} and execution.blas_threads() == 1, "never more than the user's limit"
    assert execution.blas_threads() == 2
    ms.minimize(problem, seed=0, observers=[lambda event: threadpool_limits(3, user_api="blas")])
    assert execution.blas_threads() == 3, "what an observer sets stays"


def test_one_and_several_blas_threads_agree_to_rounding() -> None:
    A = np.random.default_rng(0).standard_normal((200, 200))
    f = ms.objective(value_and_gradient=lambda X: (float(np.vdot(X, A @ X)), A @ X + A.T @ X))
    problem = ms.Problem(ms.manifolds.Stiefel(200, 10), f)
    one = ms.minimize(problem, seed=0, stop=ms.MaxIterations(10))
    with execution.one_blas_thread(), threadpool_limits(2, user_api="blas"):
        two = ms.minimize(problem, seed=0, stop=ms.MaxIterations(10))
    np.testing.assert_allclose(one.x, two.x, atol=1e-10)
    assert one.fun == pytest.approx(two.fun, rel=1e-12)


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize(("n", "threads"), [(4, 1), (600_000, 2)])
def test_a_checkpoint_knows_the_threads_of_its_loop(tmp_path: Path, n: int, threads: int) -> None:
    def step(state: Any) -> tuple[Any, ms.Measures]:
        return {"x": state["x"] + 1}, ms.Measures(0.0)

    def run(iterations: int, resume: bool = False) -> ms.Run:
        stop = ms.MaxIterations(iterations)
        return ms.iterate(step, {"x": np.zeros(n)}, stop=stop, checkpoint=tmp_path, resume=resume)

    run(2)
    assert run(4, resume=True).nit == 4, "the same number of threads: no warning"
    threadpool_limits(3, user_api="blas")
    if threads == 1:
        assert run(6, resume=True).nit == 6, "the loop has one thread, whatever there are outside"
    else:
        with pytest.warns(UserWarning, match="resumed with 3 BLAS threads, but its checkpoint was written with 2"):
            run(6, resume=True)


def test_missing_extra_raises_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with (
        pytest.raises(ImportError, match=r"run `pip install 'manifoldseq\[dask\]'`"),
        using("dask", "tcp://127.0.0.1:1"),
    ):
        pass


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("spark",), "unknown executor 'spark': choose 'serial', 'threads' or 'dask'"),
        (("threads", 1.5), "workers=1.5: pass a whole number ≥ 1"),
        (("threads", 0), "workers=0: pass a whole number ≥ 1"),
        (("threads", "tcp://127.0.0.1:1"), "workers='tcp://127.0.0.1:1': pass a whole number"),
    ],
)
def test_sentences(arguments: tuple[Any, ...], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence), using(*arguments):
        pass


def test_security_goes_with_a_cluster() -> None:
    with pytest.raises(ValueError, match="security= is an option of 'dask'"), using("threads", 2, security=object()):
        pass
