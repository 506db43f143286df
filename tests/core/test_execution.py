"""Executors change when something is computed, never what."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

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


def test_missing_extra_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
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
        (("threads", 0), "workers=0: use a whole number, at least one worker"),
        (("threads", "tcp://127.0.0.1:1"), "workers='tcp://127.0.0.1:1': use a whole number"),
    ],
)
def test_sentences(arguments: tuple[Any, ...], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence), using(*arguments):
        pass


def test_security_goes_with_a_cluster() -> None:
    with pytest.raises(ValueError, match="security= goes with 'dask'"), using("threads", 2, security=object()):
        pass
