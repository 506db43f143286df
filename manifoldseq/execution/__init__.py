"""Ordered, reproducible maps and sums over independent tasks; knows no objective."""

from ._blas import blas_threads, one_blas_thread
from ._executors import Executor, current, map_ordered, sum_ordered, using
from ._shards import Shards

__all__ = ["Executor", "Shards", "blas_threads", "current", "map_ordered", "one_blas_thread", "sum_ordered", "using"]
