"""Objectives: what is minimized, how it is differentiated, how it splits over data."""

from ._additive import Additive, BlockUpdate, Sums
from ._counted import Counter
from ._memo import last_point
from ._objective import FiniteTerms, Objective, Traced, finite_sum, objective
from ._sharded import sharded

__all__ = [
    "Additive",
    "BlockUpdate",
    "Counter",
    "FiniteTerms",
    "Objective",
    "Sums",
    "Traced",
    "finite_sum",
    "last_point",
    "objective",
    "sharded",
]

_KERNELS = ("NormalizedKernel", "ProductKernel", "RBFKernel", "RowKernel", "SumKernel", "kernel", "warn_if_indefinite")
