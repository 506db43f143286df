"""A forked child finds every lock of the core free, whatever the threads of its parent were doing."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import manifoldseq as ms
from manifoldseq.execution import Shards, blas_threads, map_ordered, one_blas_thread, using
from manifoldseq.execution import _blas as blas
from manifoldseq.hooks._registry import Registry
from manifoldseq.interop._pymanopt import numpy_random

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork"),
    pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*fork:RuntimeWarning"),  # of jax, where another test has loaded it
]


def child(work: Callable[[], Any]) -> int:
    """Run in a forked child and return its exit status: 0 if it gave something true, -14 if it waited."""
    number = os.fork()
    if number == 0:
        status = 1
        try:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(15)
            status = int(not work())
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(number, 0)[1])


@contextmanager
def another_thread(inside: Callable[[threading.Event, threading.Event], None]) -> Iterator[None]:
    """Let another thread be at a place, where it says so and waits, until the block ends."""
    there, go = threading.Event(), threading.Event()
    thread = threading.Thread(target=inside, args=(there, go))
    thread.start()
    assert there.wait(10)
    try:
        yield
    finally:
        go.set()
        thread.join()


def test_a_shard_that_is_being_loaded() -> None:
    waiting: list[tuple[threading.Event, threading.Event]] = []

    def recipe() -> int:
        for there, go in waiting:
            there.set()
            go.wait()
        return 7

    shards = Shards([recipe])

    def load(there: threading.Event, go: threading.Event) -> None:
        waiting.append((there, go))
        shards.here(0)

    def work() -> bool:
        waiting.clear()
        return shards.here(0) == 7

    with another_thread(load):
        assert child(work) == 0
    assert shards.here(0) == 7


def test_the_lock_of_blas_threads() -> None:
    def inside(there: threading.Event, go: threading.Event) -> None:
        with blas._lock:
            there.set()
            go.wait()

    def work() -> bool:
        with one_blas_thread():
            return blas_threads() == 1

    with another_thread(inside):
        assert child(work) == 0


def test_blocks_of_other_threads_do_not_limit_a_child_for_ever() -> None:
    before = blas_threads()

    def inside(there: threading.Event, go: threading.Event) -> None:
        with one_blas_thread():
            there.set()
            go.wait()

    def work() -> bool:
        with one_blas_thread():
            limited = blas_threads()
        return limited == 1 and blas_threads() == before

    with another_thread(inside):
        assert child(work) == 0
        with one_blas_thread():  # the block of the thread that forks goes on in the child
            assert child(lambda: blas_threads() == 1) == 0
    assert blas_threads() == before


def test_the_generator_of_numpy_that_another_thread_uses() -> None:
    before = np.random.get_state()[1].copy()

    def inside(there: threading.Event, go: threading.Event) -> None:
        with numpy_random(np.random.default_rng(0)):
            there.set()
            go.wait()

    def work() -> bool:
        same = (np.random.get_state()[1] == before).all()
        with numpy_random(np.random.default_rng(0)):
            np.random.random()
        return bool(same and (np.random.get_state()[1] == before).all())

    with another_thread(inside):
        assert child(work) == 0
    assert (np.random.get_state()[1] == before).all()


def test_plugins_that_another_thread_loads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fork waits until they are there, since Python itself would wait for a half-imported module in the child."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "slow_plugin.py").write_text(
        "import time\ntime.sleep(1)\nimport manifoldseq as ms\n"
        "@ms.hookimpl\ndef manifoldseq_datasets():\n    yield ms.hooks.DatasetSpec('slow', lambda: None)\n"
    )
    from importlib.metadata import EntryPoint

    registry = Registry(lambda: [EntryPoint("slow", "slow_plugin", "manifoldseq")])

    def inside(there: threading.Event, go: threading.Event) -> None:
        there.set()
        registry.plugins()

    with another_thread(inside):
        while "slow_plugin" not in sys.modules:
            pass
        assert child(lambda: [plugin.name for plugin in registry.plugins()] == ["slow"]) == 0
    del sys.modules["slow_plugin"]


def test_a_registry_that_another_thread_never_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    registry = Registry(list)
    monkeypatch.setattr(registry._lock, "wait", 0.1)

    def inside(there: threading.Event, go: threading.Event) -> None:
        with registry._lock:
            registry._loaded = []  # half of them
            there.set()
            go.wait()

    with another_thread(inside):
        registry._discover = list
        assert child(lambda: registry._loaded is None and registry.plugins() == []) == 0


def test_a_lock_that_the_forking_thread_holds_is_its_own_in_the_child() -> None:
    registry = Registry(list)

    def work() -> bool:
        with registry._lock:
            return True

    with registry._lock:
        assert child(work) == 0
    assert child(work) == 0


def test_threads_of_an_executor_are_not_waited_for_in_a_child() -> None:
    with using("threads", 2):
        together = threading.Barrier(2)
        map_ordered(lambda _: together.wait(10), [0, 1])  # both threads have begun
        assert child(lambda: map_ordered(abs, [-1, -2, -3]) == [1, 2, 3]) == 0


def test_a_child_minimizes() -> None:
    problem = ms.Problem(ms.manifolds.Sphere(3), ms.objective(lambda x: float(x[0]), lambda x: np.eye(3)[0]))
    assert child(lambda: ms.minimize(problem, seed=0).success) == 0


def test_a_shape_that_another_thread_computes_is_not_waited_for() -> None:
    """functools.cached_property has a lock of the class before Python 3.12, held by the thread that is not copied."""
    inside, go = threading.Event(), threading.Event()

    class Slow(ms.manifolds.Euclidean):
        @property
        def shape(self) -> Any:
            if threading.current_thread() is not threading.main_thread():
                inside.set()
                go.wait(20)
            return super().shape

    def product() -> ms.manifolds.Product:
        return ms.manifolds.Product(Slow(2), Slow(3))

    thread = threading.Thread(target=lambda: product().shape)
    thread.start()
    try:
        assert inside.wait(20)
        assert child(lambda: product().shape == ((2,), (3,))) == 0
    finally:
        go.set()
        thread.join()
