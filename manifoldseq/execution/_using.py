"""The choice of executor and workers: ``with manifoldseq.execution.using("threads", 2): ...``."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from numbers import Integral
from typing import Any

from .._quoted import quoted
from ._executors import CURRENT, SERIAL, Executor, Threads


@contextmanager
def using(kind: str = "serial", workers: Any = None, *, security: Any = None) -> Iterator[None]:
    """Run the maps and sums inside the block on an executor.

    Results do not depend on the executor or on the number of its workers, because the tasks and the order in which
    their results are added are fixed in advance. Inside a task, maps are serial.

    Parameters
    ----------
    kind : {"serial", "threads", "dask"}
        Threads help if a task spends its time in BLAS or LAPACK. Dask distributes tasks among processes, on this or on
        other machines. Functions, tasks and results are pickled (with cloudpickle, so that lambdas are allowed). If a
        worker dies, another worker computes its tasks again.
    workers : int, str, cluster or client, optional
        For threads their number, by default the number of cores. For dask the address of a scheduler such as
        ``"tcp://127.0.0.1:8786"``, a cluster such as ``distributed.LocalCluster``, or a ``distributed.Client``.
    security : distributed.Security, optional
        Certificates for a scheduler with TLS.

    Raises
    ------
    ValueError
        If the kind is unknown, the number of workers is below one, or the address is invalid.
    ConnectionError
        If no scheduler answers at the address, or it has no workers.
    ImportError
        If dask is requested and not installed.

    Examples
    --------
    >>> import manifoldseq as ms
    >>> with ms.execution.using("threads", 2):
    ...     ms.execution.map_ordered(abs, [-1, 2, -3])
    [1, 2, 3]
    """
    if kind != "dask" and security is not None:
        raise ValueError(f"security= is an option of 'dask' only: do not pass it to the executor {quoted(kind)}")
    if kind == "serial":
        executor = _serial(workers)
    elif kind == "threads":
        executor = _threads(workers)
    elif kind == "dask":
        from ._dask import connected

        executor = connected(workers, security)
    else:
        raise ValueError(f"unknown executor {quoted(kind)}: choose 'serial', 'threads' or 'dask'")
    with executor as chosen:
        token = CURRENT.set(chosen)
        try:
            yield
        finally:
            CURRENT.reset(token)


@contextmanager
def _serial(workers: Any) -> Iterator[Executor]:
    _check(workers)
    yield SERIAL


@contextmanager
def _threads(workers: Any) -> Iterator[Executor]:
    _check(workers)
    number = int(workers or os.cpu_count() or 1)
    with ThreadPoolExecutor(number) as pool:
        yield Threads(pool, number)


def _check(workers: Any) -> None:
    if workers is not None and (isinstance(workers, bool) or not isinstance(workers, Integral) or workers < 1):
        raise ValueError(f"workers={quoted(workers)}: pass a whole number ≥ 1")
