"""Objectives: what is minimized, how it is differentiated, how it splits over data; kernels made from functions."""

from ._kernel import kernel
from ._kernel_algebra import NormalizedKernel, ProductKernel, RBFKernel, SumKernel
from ._kernel_rows import RowKernel, warn_if_indefinite
from ._memo import last_point
from ._objective import BlockUpdate, FiniteTerms, Objective, finite_sum, objective
from ._sharded import sharded

__all__ = [
    "BlockUpdate",
    "FiniteTerms",
    "NormalizedKernel",
    "Objective",
    "ProductKernel",
    "RBFKernel",
    "RowKernel",
    "SumKernel",
    "finite_sum",
    "kernel",
    "last_point",
    "objective",
    "sharded",
    "warn_if_indefinite",
]
