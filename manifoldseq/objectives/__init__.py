"""Objectives: functions to minimize, their derivatives, and sums over data."""

from ._additive import Additive, BlockUpdate, Sums
from ._constraint import Constraint, constraint
from ._constraint import Pullback as Pullback
from ._constraint import checked as checked
from ._constraint import constraint_of as constraint_of
from ._constraint import is_of_scipy as is_of_scipy
from ._constraint import of_scipy as of_scipy
from ._constraint import real_array as real_array
from ._counted import Counter
from ._memo import last_point
from ._objective import FiniteTerms, Objective, Traced, finite_sum, objective
from ._residuals import LeastSquares, Residuals, least_squares, residuals
from ._sharded import sharded

__all__ = [
    "Additive",
    "BlockUpdate",
    "Constraint",
    "Counter",
    "FiniteTerms",
    "LeastSquares",
    "Objective",
    "Residuals",
    "Sums",
    "Traced",
    "constraint",
    "finite_sum",
    "last_point",
    "least_squares",
    "objective",
    "residuals",
    "sharded",
]

_KERNELS = ("NormalizedKernel", "ProductKernel", "RBFKernel", "RowKernel", "SumKernel", "kernel", "warn_if_indefinite")
