"""Ordered, reproducible maps and sums over independent tasks."""

from ._blas import blas_threads, one_blas_thread
from ._blocks import RowBlocks
from ._executors import Executor, Shards, current, map_ordered, sum_ordered, width
from ._lazy import cached_property
from ._using import using

__all__ = [
    "Executor",
    "RowBlocks",
    "Shards",
    "blas_threads",
    "cached_property",
    "current",
    "map_ordered",
    "one_blas_thread",
    "sum_ordered",
    "using",
    "width",
]
