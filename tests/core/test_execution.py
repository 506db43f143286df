"""Executors change when something is computed, never what."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

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


@pytest.mark.parametrize(
    ("arguments", "sentence"), [(("spark",), "unknown executor 'spark'"), (("threads", 0), "at least one worker")]
)
def test_sentences(arguments: tuple[Any, ...], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence), using(*arguments):
        pass
